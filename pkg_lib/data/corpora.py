"""Corpora by name, loaded as documents. A new corpus is one entry of `CORPORA`.

A document is one row: a question-answer pair of PythonAlpaca, a source file, a section of a page.
Corpora of code serve the methods of Tables 1 and 2, corpora of text those of Tables 3 and 4.
`corpus_spec` describes the names of corpora, which may join several and contain retrieval options.

BM25's tokenizer is such an option. Built-in corpora are searched with ASCII, as in the committed
study, and the user's corpora with UNICODE.
"""

from __future__ import annotations

import importlib.util
import logging
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pkg_lib.core.hub_data import data_revision
from pkg_lib.core.models import cache_dir
from pkg_lib.core.reading import expanded, shown
from pkg_lib.core.registry import Registry, load_plugins, unknown
from pkg_lib.core.source_tree import find_python, python_texts
from pkg_lib.core.store import read_json, read_rows, results_path
from pkg_lib.core.types import Document, UserError
from pkg_lib.core.types import corpus_digest as corpus_digest
from pkg_lib.data import published, text_corpora

# Some of these are only passed on to importers of this module.
from pkg_lib.data.corpus_spec import ASCII as ASCII
from pkg_lib.data.corpus_spec import CONTEXT_CHARS as CONTEXT_CHARS
from pkg_lib.data.corpus_spec import MINILM as MINILM
from pkg_lib.data.corpus_spec import TOKENIZER_NAMES as TOKENIZER_NAMES
from pkg_lib.data.corpus_spec import UNICODE as UNICODE
from pkg_lib.data.corpus_spec import CorpusSpec as CorpusSpec
from pkg_lib.data.corpus_spec import parse_corpus as parse_corpus

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from pkg_lib.graph.bolt import StoredGraph

Kind = Literal["code", "text", "published", "repository", "java-repository", "library-documents"]

DEFAULT = "textbook"
PUBLISHED = "published"
# Corpora whose documents each task brings itself.
OF_TASKS: tuple[Kind, ...] = ("repository", "java-repository", "library-documents")
REPOSITORY, JAVA, LIBRARY = OF_TASKS
PYTHON_ALPACA = "Vezora/Tested-143k-Python-Alpaca"
GRAPH_DATABASE = "bolt://HOST[:PORT][/NAME]"
# Tests, bundled wheels, generated tables, demos, and modules that are long deprecated.
_STDLIB_SKIP = frozenset(
    "site-packages test tests idle_test idlelib lib2to3 turtledemo ensurepip distutils encodings "
    "pydoc_data".split()
)


@dataclass(frozen=True, slots=True)
class CorpusSource:
    """An entry of the registry: where the documents of a corpus come from.

    Attributes:
        name: The corpus's name. A name such as source:DIR takes a value after the colon.
        documents: Returns the documents. It takes the value, if the name has one.
        source: What `pkg-lib list` says of the origin. It starts with "hub:" for a data set of the
            hub.
        kind: Which methods search the corpus.
        redistributable: Whether results/ may contain its contexts, and not only their digests.
        replaced: Whether the user has put something else under its name.
        check: Raises UserError if the corpus cannot be read. It takes the value, if the name has
            one.
        repository: The data set of the Hugging Face hub that is read; "" for others.
    """

    name: str
    documents: Callable[..., Iterable[Document]]
    source: str
    kind: Kind = "code"
    redistributable: bool = False
    replaced: Callable[[], bool] = lambda: False
    check: Callable[..., object] = lambda *value: None
    repository: str = ""

    @property
    def prefix(self) -> str:
        """The text before the colon, "source" for source:DIR; "" for a corpus without a value."""
        prefix, colon, _ = self.name.partition(":")
        return prefix if colon else ""


@dataclass(frozen=True, slots=True)
class Corpus:
    """A loaded corpus, which iterates over its documents.

    Attributes:
        spec: Its name and the retrieval options.
        kind: Which methods search it.
        documents: All documents, in order. Their ids are unique.
    """

    spec: CorpusSpec
    kind: str
    documents: list[Document]

    def __iter__(self) -> Iterator[Document]:
        """Iterate over the documents in order."""
        return iter(self.documents)

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.documents)


def load_corpus(name_or_path: str | Path | CorpusSpec) -> Corpus:
    """Load the documents of a corpus.

    Args:
        name_or_path: A name of `pkg-lib list corpora`, several joined by "+", or a directory of
            Python files.

    Returns:
        The corpus, with at least one document.

    Raises:
        UserError: A corpus is unknown, not available or damaged, or has no documents.
    """
    corpus = name_or_path
    if isinstance(corpus, Path) or (isinstance(corpus, str) and _is_path(corpus)):
        corpus = f"source:{corpus}"
    spec = parse_corpus(corpus)
    check_name(spec)
    documents: list[Document] = []
    for source, value in sources(spec):
        documents += source.documents(*value)
    if not documents:
        raise UserError(f"corpus {spec} has no documents")
    return Corpus(spec, kind_of(spec), documents)


def _is_path(text: str) -> bool:
    """Whether a text is the path of a directory rather than the name of a corpus."""
    load_plugins()
    return bool(text) and text not in CORPORA and Path(text).is_dir()


def check_name(corpus: str | CorpusSpec) -> None:
    """Check that a corpus can be loaded, without reading its documents.

    Args:
        corpus: The corpus or its name.

    Raises:
        UserError: A part or an option is unknown, the parts do not fit together, or a place does
            not exist.
    """
    for source, value in sources(corpus):
        source.check(*value)
    kind_of(corpus)
    tokenizer_of(corpus)


def sources(corpus: str | CorpusSpec) -> list[tuple[CorpusSource, tuple[str, ...]]]:
    """Look up the parts of a corpus.

    Args:
        corpus: The corpus or its name.

    Returns:
        For each part its entry, and its value or nothing: the arguments of `documents` and `check`.

    Raises:
        UserError: A part is unknown.
    """
    load_plugins()
    spec = parse_corpus(corpus)
    _check_plus_signs(spec)
    if spec.is_stored_graph:
        kind: Kind = "text" if _stored_graph(spec.documents).kind == "text" else "code"
        return [(replace(CORPORA[GRAPH_DATABASE], kind=kind), (spec.documents,))]
    prefixes = {source.prefix: source for source in CORPORA.values() if source.prefix}
    found: list[tuple[CorpusSource, tuple[str, ...]]] = []
    for part in spec.parts:
        if part.value is None:
            found.append((CORPORA.get_or_fail(part.source), ()))
        elif part.source in prefixes:
            found.append((prefixes[part.source], (part.value,)))
        else:
            known = [f"{prefix}:" for prefix in prefixes]
            raise unknown("corpus", f"{part.source}:", known, f"in '{part.name}'")
    return found


def _check_plus_signs(spec: CorpusSpec) -> None:
    """Check that no "+", which joins corpora, was meant as a part of a directory's name.

    Raises:
        UserError: The text behind "source:" has a "+" and is a directory as a whole.
    """
    _, _, path = spec.documents.partition("source:")
    if "+" in path and expanded(path).is_dir():
        raise UserError(
            f"corpus source:{shown(path)}: a directory's name must not contain '+', which joins "
            "corpora; rename the directory, or make a link to it"
        )


def kind_of(corpus: str | CorpusSpec) -> str:
    """Return the kind of a corpus, which decides the methods that search it.

    Args:
        corpus: The corpus or its name.

    Returns:
        One of the values of `Kind`.

    Raises:
        UserError: A part is unknown, or the parts have different kinds.
    """
    spec = parse_corpus(corpus)
    kinds = {source.kind for source, _ in sources(spec)}
    if "published" in kinds and spec.name != PUBLISHED:
        raise UserError(
            f"corpus {spec}: {PUBLISHED} is each task's own context; it cannot be joined with"
            " other corpora or options"
        )
    if len(kinds) > 1:
        raise UserError(f"corpus {spec} mixes code and text; run them one after the other")
    return kinds.pop()


def is_text(corpus: str | CorpusSpec) -> bool:
    """Tell whether a corpus is text, such as tutorials (Tables 3 and 4).

    Args:
        corpus: The corpus or its name.

    Returns:
        Whether its kind is "text". False for every other kind, such as code and published contexts.

    Raises:
        UserError: As for `kind_of`.
    """
    return kind_of(corpus) == "text"


def own(corpus: str | CorpusSpec) -> bool:
    """Return whether the user supplies a part of a corpus: a directory, a package or a plug-in.

    Args:
        corpus: The corpus or its name.
    """
    return any(
        source.prefix or source.replaced() or source not in _BUILT_IN
        for source, _ in sources(corpus)
    )


def redistributable(corpus: str | CorpusSpec) -> bool:
    """Return whether every part of a corpus may be copied into results/.

    Args:
        corpus: The corpus or its name.
    """
    return all(source.redistributable and not source.replaced() for source, _ in sources(corpus))


def hub_revisions(corpus: str | CorpusSpec) -> dict[str, str]:
    """Return the commits at which a corpus reads data sets of the Hugging Face hub.

    Args:
        corpus: The corpus or its name.

    Returns:
        Data set -> commit; "" as long as none is recorded. Empty for a corpus without such data
        sets.

    Raises:
        UserError: A part is unknown.
    """
    revisions = {}
    for source, _ in sources(corpus):
        if source.repository:
            what = f"corpus {parse_corpus(corpus)}"
            revisions[source.repository] = data_revision(source.repository, what, resolve=False)
    return revisions


def check_tokenizer(name: str) -> None:
    """Check that a tokenizer exists.

    Args:
        name: Name of a tokenizer.

    Raises:
        UserError: It is none of TOKENIZER_NAMES.
    """
    if name not in TOKENIZER_NAMES:
        raise unknown("tokenizer", name, TOKENIZER_NAMES)


def tokenizer_of(corpus: str | CorpusSpec) -> str:
    """Return the name of the tokenizer with which BM25 splits a corpus.

    Args:
        corpus: The corpus or its name.

    Returns:
        The tokenizer that the name chooses. Without one, ASCII for built-in corpora, whose
        committed contexts were retrieved with it, and UNICODE if the user supplies a part of the
        corpus. A graph in a graph database keeps the tokenizer of the corpus from which it was
        built.

    Raises:
        UserError: The corpus or the tokenizer is unknown.
    """
    spec = parse_corpus(corpus)
    if spec.tokenizer:
        check_tokenizer(spec.tokenizer)
        return spec.tokenizer
    if spec.is_stored_graph:
        return _stored_graph(spec.documents).tokenizer
    return UNICODE if own(spec) else ASCII


def with_options(
    corpus: str | CorpusSpec, embedder: str, top_k: int, length: int, tokenizer: str
) -> CorpusSpec:
    """Set the retrieval options of a corpus.

    Args:
        corpus: The corpus or its name.
        embedder: As in `CorpusSpec`, and likewise the other options. A default leaves the option
            unchanged; "" is the default embedder of the corpus.
        top_k: Number of units in a context.
        length: Characters of each unit.
        tokenizer: Name of BM25's tokenizer.

    Returns:
        The corpus with these options. The tokenizer is omitted if it is the corpus's default.

    Raises:
        UserError: The corpus or the tokenizer is unknown.
    """
    spec = parse_corpus(corpus)
    usual = CorpusSpec(spec.parts)
    if tokenizer:
        check_tokenizer(tokenizer)
        omitted = tokenizer == tokenizer_of(usual)
        spec = replace(spec, tokenizer="" if omitted else tokenizer)
    options: dict[str, Any] = {
        "embedder": embedder or usual.embedder,
        "top_k": top_k,
        "length": length,
    }
    changed = {name: value for name, value in options.items() if value != getattr(usual, name)}
    return replace(spec, **changed)


# Python source: packages, directories, PythonAlpaca


def _textbook() -> Iterator[Document]:
    package = importlib.util.find_spec("algorithms")
    if package is None:
        raise UserError(
            "corpus textbook needs the package algorithms: pip install -r requirements.txt"
        )
    return _tree(Path(str(package.origin)).parent, "textbook")


def _stdlib() -> Iterator[Document]:
    return _tree(Path(sysconfig.get_paths()["stdlib"]), "stdlib", _STDLIB_SKIP)


def _source(name: str) -> Iterator[Document]:
    return _tree(_directory(name), "source")


def _directory(name: str) -> Path:
    """The directory of source:DIR; UserError if there is none."""
    if not name:
        raise UserError("source: names no directory; write source:DIR")
    directory = expanded(name)
    if directory.is_dir():
        return directory
    reason = "no such directory; give a tree of Python files"
    if directory.exists():
        reason = "it is a file; give the directory that contains it"
    raise UserError(f"corpus source:{shown(name)}: {reason}")


def _tree(root: Path, prefix: str, ignored: Iterable[str] = ()) -> Iterator[Document]:
    """Every Python file below a directory, sorted by path. Files that cannot be read are logged.

    Raises:
        UserError: No file can be read.
    """
    tree = find_python(root, ("__pycache__", *ignored))
    count = 0
    for name, text in python_texts(tree):
        count += 1
        yield Document(f"{prefix}/{name}", text)
    if not count:
        reason = tree.skipped.one_line_summary() or "it has no .py file"
        raise UserError(
            f"corpus {prefix}:{shown(str(root))} holds no Python file that can be read: {reason}"
        )
    tree.skipped.warn(f"corpus {prefix}:{root}")


def _python_alpaca() -> Iterator[Document]:
    """The question-answer pairs. A row is searched by both parts and shows the answer.

    The paper says that rows are pairs, but all contexts that its authors published contain only
    the answer.
    """
    rows = text_corpora.hub_rows("python-alpaca", PYTHON_ALPACA, ("instruction", "input", "output"))
    empty = 0
    for number, row in enumerate(rows):
        question = "\n\n".join(part for part in (row["instruction"], row["input"]) if part.strip())
        if row["output"].strip():
            yield Document(f"python-alpaca/{number}", row["output"], "answer", question=question)
        else:
            empty += 1
    if empty:
        log.warning("corpus python-alpaca: %d rows have no answer and are left out", empty)


# Structured text and graph databases


def structured_file(name: str) -> Path:
    """Find the file that `pkg-lib pkg structure` wrote.

    Args:
        name: What follows "structured:", such as python-docs/llm-MODEL.

    Returns:
        The file in results/, or in the cache directory for texts that may not be copied.

    Raises:
        UserError: There is no such file.
    """
    files = [folder / "structured" / f"{name}.jsonl" for folder in (results_path(), cache_dir())]
    for file in files:
        if file.is_file():
            return file
    raise UserError(
        f"corpus structured:{name}: there is no {files[0]}; run `pkg-lib pkg structure` first"
    )


def _structured(name: str) -> Iterator[Document]:
    """Those documents of a corpus that the structurer received."""
    wanted = {row["document"] for row in read_rows(structured_file(name), {"document": str})}
    about = read_json(results_path() / "structured" / f"{name}.log.json", {"corpus": str})
    return (document for document in load_corpus(about["corpus"]) if document.id in wanted)


@cache
def _stored_graph(address: str) -> StoredGraph:
    """The description of a graph in a graph database. A process asks for it once."""
    # Imported here because pyarrow takes half a second, and most corpora do not need it.
    from pkg_lib.graph import bolt

    with bolt.opened(address) as database:
        stored = database.described()
    if stored.kind not in ("code", "text") or stored.tokenizer not in TOKENIZER_NAMES:
        advice = f"write it again with: pkg-lib graph CORPUS --store {address}"
        raise UserError(
            f"the graph {stored.name} in {address} does not say what corpus it is; {advice}"
        )
    return stored


def _database_documents(address: str) -> list[Document]:
    from pkg_lib.graph import bolt

    with bolt.opened(address) as database:
        return database.documents()


def _no_documents() -> Iterator[Document]:
    raise UserError("a task's own repository has no documents by itself")


_PAPER = "the PKG authors' data (PKG_PAPER_DIR, or pkg_paper in PKG_DATA)"
_BUILT_IN = (
    CorpusSource(
        "textbook", _textbook, "package algorithms (requirements.txt)", redistributable=True
    ),
    CorpusSource("stdlib", _stdlib, "the running Python", redistributable=True),
    CorpusSource("pkg-contexts", published.union, _PAPER),
    CorpusSource(PUBLISHED, published.contexts, _PAPER, "published"),
    CorpusSource(
        "python-alpaca",
        _python_alpaca,
        f"hub: {PYTHON_ALPACA} (loaded when used)",
        repository=PYTHON_ALPACA,
    ),
    CorpusSource(
        "python-docs",
        text_corpora.python_docs,
        "Debian's python3.11-doc, or the directory in PKG_PYTHON_DOCS",
        "text",
        redistributable=True,
        replaced=text_corpora.is_another_manual,
    ),
    CorpusSource(
        "tutorials",
        text_corpora.tutorials,
        f"hub: {text_corpora.TUTORIALS} (loaded when used)",
        "text",
        repository=text_corpora.TUTORIALS,
    ),
    *(CorpusSource(kind, _no_documents, "what each benchmark brings", kind) for kind in OF_TASKS),
    CorpusSource("source:DIR", _source, "any tree of Python files", check=_directory),
    CorpusSource(
        "docstrings:PACKAGE",
        text_corpora.docstrings,
        "an installed package",
        "text",
        check=text_corpora.package_place,
    ),
    CorpusSource(
        "structured:FILE", _structured, "results/structured", "text", check=structured_file
    ),
    CorpusSource(
        GRAPH_DATABASE,
        _database_documents,
        "a graph that `graph --store` wrote",
        check=_stored_graph,
    ),
)
CORPORA: Registry[CorpusSource] = Registry("corpus", _BUILT_IN)
# The corpus `published` on pages: numbers that a paper prints are called published, too.
AUTHORS_CONTEXTS = "authors' contexts"


def corpus_label(corpus: str) -> str:
    """Return what tables, figures and links call a corpus.

    Args:
        corpus: Name of a corpus.

    Returns:
        "authors' contexts" for `published`; otherwise the name.
    """
    return AUTHORS_CONTEXTS if corpus == PUBLISHED else corpus


def corpus_in_words(corpus: str) -> str:
    """Name a corpus in prose.

    Args:
        corpus: Name of a corpus.

    Returns:
        "the authors' contexts" for `published`; otherwise text such as "corpus textbook".
    """
    return f"the {AUTHORS_CONTEXTS}" if corpus == PUBLISHED else f"corpus {corpus}"
