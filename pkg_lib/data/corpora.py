"""Corpora by name -> Documents. Names joined by "+" are read together. A new corpus is one entry of CORPORA.

A document is one row: a question-answer pair of PythonAlpaca, a source file, a section of a page. Corpora of
code feed the columns of Tables 1 and 2, those of text the columns of Tables 3 and 4. A name may end in
another `Retrieval` than the study's, as in "textbook, embedder BGE-base@COMMIT, top 3, 4000 characters"; the
names of files contain it as well. BM25's tokenizer is such an option: built-in corpora are searched with
ASCII, as the committed study was, and corpora of the user with UNICODE. "textbook, tokenizer unicode" chooses
another. bolt://HOST[:PORT][/NAME] is the corpus of a graph in a graph database.
"""

from __future__ import annotations

import importlib.util
import logging
import re
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pkg_lib.core.embedders import DEFAULT as MINILM
from pkg_lib.core.hub_data import data_revision
from pkg_lib.core.models import cache_dir
from pkg_lib.core.reading import expanded
from pkg_lib.core.registry import Registry, load_plugins, unknown
from pkg_lib.core.source_tree import find_python, python_texts
from pkg_lib.core.store import read_json, read_rows, results_path, shown
from pkg_lib.core.types import Document, UserError
from pkg_lib.core.types import corpus_digest as corpus_digest
from pkg_lib.data import published, text_corpora
from pkg_lib.data.text_corpora import TUTORIALS, docstrings, package_place

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from pkg_lib.graph.bolt import StoredGraph

DEFAULT = "textbook"
PUBLISHED = "published"
# Each task brings the documents of these itself.
REPOSITORY, JAVA, LIBRARY = OF_TASKS = "repository", "java-repository", "library-documents"
PYTHON_ALPACA = "Vezora/Tested-143k-Python-Alpaca"
# Tokenizers of BM25 (retrieval/words.py): the one of the committed study, and the one for everything else.
TOKENIZER_NAMES = ASCII, UNICODE = "ascii", "unicode"
CONTEXT_CHARS = 2000  # a row of PythonAlpaca has 349 tokens (Table 9)
# Tests, bundled wheels, generated tables, demos, and what is deprecated beyond use.
_STDLIB_SKIP = {"site-packages", "test", "tests", "idle_test", "idlelib", "lib2to3", "turtledemo"}
_STDLIB_SKIP |= {"ensurepip", "distutils", "encodings", "pydoc_data"}


@dataclass(frozen=True, slots=True)
class Corpus:
    """A corpus. `documents` and `check` (raises UserError) of a name such as source:DIR take its value.

    `source` from the hub starts with "hub:", and `repository` is then the data set; `redistributable`:
    contexts, not only digests, may be stored in results/; `replaced`: the user has put something else under
    its name.
    """

    name: str
    documents: Callable[..., Iterable[Document]]
    source: str
    kind: Literal[
        "code", "text", "published", "repository", "java-repository", "library-documents"
    ] = "code"
    redistributable: bool = False
    replaced: Callable[[], bool] = lambda: False
    check: Callable[..., Any] = lambda *value: None
    repository: str = ""

    @property
    def prefix(self) -> str:
        """ "source" of source:DIR; "" of a corpus without a value."""
        return self.name.partition(":")[0] if ":" in self.name else ""


def _tree(root: Path, prefix: str, ignored: Iterable[str] = ()) -> Iterator[Document]:
    """Every Python file below a directory, sorted; logs what was left out. UserError where none is left."""
    tree = find_python(root, ("__pycache__", *ignored))
    count = 0
    for name, text in python_texts(tree):
        count += 1
        yield Document(f"{prefix}/{name}", text)
    if not count:
        why = tree.skipped.in_one_line() or "there is no .py file in it"
        raise UserError(
            f"corpus {prefix}: {shown(str(root))} holds no Python file that can be read: {why}"
        )
    tree.skipped.warn(f"corpus {prefix}:{root}")


def _textbook() -> Iterator[Document]:
    spec = importlib.util.find_spec("algorithms")
    if spec is None:
        raise UserError(
            "corpus textbook needs the package algorithms: pip install -r requirements.txt"
        )
    return _tree(Path(str(spec.origin)).parent, "textbook")


def _stdlib() -> Iterator[Document]:
    return _tree(Path(sysconfig.get_paths()["stdlib"]), "stdlib", _STDLIB_SKIP)


def _directory(name: str) -> Path:
    if not name:
        raise UserError("source: names no directory; write source:DIR")
    directory = expanded(name)
    if not directory.exists():
        raise UserError(
            f"corpus source:{shown(name)}: no such directory; give a tree of Python files"
        )
    if not directory.is_dir():
        raise UserError(
            f"corpus source:{shown(name)}: it is a file; give the directory that holds it"
        )
    return directory


def _source(name: str) -> Iterator[Document]:
    return _tree(_directory(name), "source")


def _python_alpaca() -> Iterator[Document]:
    """The question-answer pairs; a row is searched by both parts and shows the answer.

    The paper says that rows are pairs, and all contexts that its authors published of them are answers alone.
    """
    rows = text_corpora.hub_rows("python-alpaca", PYTHON_ALPACA, ("instruction", "input", "output"))
    empty = 0
    for i, row in enumerate(rows):
        question = "\n\n".join(part for part in (row["instruction"], row["input"]) if part.strip())
        if row["output"].strip():
            yield Document(f"python-alpaca/{i}", row["output"], kind="answer", question=question)
        else:
            empty += 1
    if empty:
        log.warning("corpus python-alpaca: %d rows have no answer and are left out", empty)


def structured_file(name: str) -> Path:
    """What `structure` wrote under a name such as python-docs/llm-MODEL. UserError without it."""
    # Texts that may not be copied are structured into the cache.
    files = [folder / "structured" / f"{name}.jsonl" for folder in (results_path(), cache_dir())]
    if file := next(filter(Path.is_file, files), None):
        return file
    raise UserError(f"corpus structured:{name}: there is no {files[0]}; run `structure` first")


def _structured(name: str) -> Iterator[Document]:
    """The corpus' documents that were given to the structurer."""
    wanted = {row["document"] for row in read_rows(structured_file(name), {"document": str})}
    log = read_json(results_path() / "structured" / f"{name}.log.json", {"corpus": str})
    return (d for d in load_corpus(log["corpus"]) if d.id in wanted)


@cache
def _stored_graph(place: str) -> StoredGraph:
    """What a database says of a graph; it is asked once in a process."""
    from pkg_lib.graph import (
        bolt,
    )  # here, since pyarrow takes half a second and most corpora need none

    with bolt.opened(place) as database:
        stored = database.described()
    if stored.kind not in ("code", "text") or stored.tokenizer not in TOKENIZER_NAMES:
        again = f"write it again with: pkg-lib graph CORPUS --store {place}"
        raise UserError(
            f"the graph {stored.name} in {place} does not say what corpus it is; {again}"
        )
    return stored


def _database_documents(place: str) -> list[Document]:
    from pkg_lib.graph import bolt

    with bolt.opened(place) as database:
        return database.documents()


def _check_place(place: str) -> None:
    if not is_stored_graph(
        place
    ):  # what follows the first colon of a part, where several are joined
        raise UserError(
            "a graph in a graph database is a whole corpus; give bolt://HOST[:PORT][/NAME] alone"
        )
    _stored_graph(place)


def _no_documents() -> Iterator[Document]:
    raise UserError("a task's own repository has no documents by itself")


_PAPER = "directory in PKG_PAPER_DIR"
_DOCS = "Debian's python3.11-doc, or the directory in PKG_PYTHON_DOCS"
_HUB = "hub: {} (loaded when used)".format
GRAPH_DATABASE = "bolt://HOST[:PORT][/NAME]"
_ROWS = (
    Corpus("textbook", _textbook, "package algorithms (requirements.txt)", redistributable=True),
    Corpus("stdlib", _stdlib, "the running Python", redistributable=True),
    Corpus("pkg-contexts", published.union, _PAPER),
    Corpus(PUBLISHED, published.contexts, _PAPER, "published"),
    Corpus("python-alpaca", _python_alpaca, _HUB(PYTHON_ALPACA), repository=PYTHON_ALPACA),
    Corpus(
        "python-docs", text_corpora.python_docs, _DOCS, "text", True, text_corpora.is_another_manual
    ),
    Corpus("tutorials", text_corpora.tutorials, _HUB(TUTORIALS), "text", repository=TUTORIALS),
    *(Corpus(kind, _no_documents, "what each benchmark brings", kind) for kind in OF_TASKS),
    Corpus("source:DIR", _source, "any tree of Python files", check=_directory),
    Corpus("docstrings:PACKAGE", docstrings, "an installed package", "text", check=package_place),
    Corpus("structured:FILE", _structured, "results/structured", "text", check=structured_file),
    Corpus(
        GRAPH_DATABASE,
        _database_documents,
        "a graph that `graph --store` wrote",
        check=_check_place,
    ),
)
CORPORA: Registry[Corpus] = Registry("corpus", _ROWS)


class Retrieval(NamedTuple):
    """How units are retrieved: `top` of them make a context, each of at most `chars` characters.

    `tokenizer` is the name of one for BM25; "" stands for the corpus' own (`tokenizer_of`).
    """

    embedder: str = MINILM
    top: int = 1
    chars: int = CONTEXT_CHARS
    tokenizer: str = ""


def retrieved_by(corpus: str, how: Retrieval) -> str:
    """The corpus' name with what differs from the study's retrieval. UserError for an unknown tokenizer."""
    if how.tokenizer:
        check_tokenizer(how.tokenizer)
        if how.tokenizer == tokenizer_of(corpus):
            how = how._replace(tokenizer="")
    forms = zip(
        ("embedder {}", "top {}", "{} characters", "tokenizer {}"), how, Retrieval(), strict=True
    )
    return ", ".join(
        [corpus, *(form.format(value) for form, value, usual in forms if value != usual)]
    )


def retrieval(name: str) -> tuple[str, Retrieval]:
    """The documents' name in that of a corpus, and how it is retrieved."""
    form = r"(.*?)(?:, embedder (.+?))?(?:, top ([1-9]\d*))?(?:, ([1-9]\d*) characters)?"
    form += r"(?:, tokenizer (\w+))?"
    documents, embedder, top, chars, tokenizer = re.fullmatch(form, name, re.DOTALL).groups()
    how = Retrieval(embedder or MINILM, int(top or 1), int(chars or CONTEXT_CHARS), tokenizer or "")
    return documents, how


def check_tokenizer(name: str) -> None:
    """Refuse a tokenizer that does not exist.

    Args:
        name: What the user calls it.

    Raises:
        UserError: It is none of TOKENIZER_NAMES.
    """
    if name not in TOKENIZER_NAMES:
        raise unknown("tokenizer", name, TOKENIZER_NAMES)


def tokenizer_of(name: str) -> str:
    """Return the name of the tokenizer that BM25 splits a corpus with.

    Args:
        name: The name of a corpus, with or without retrieval options.

    Returns:
        The tokenizer that the name chooses; else ASCII for built-in corpora, whose committed contexts were
        retrieved with it, and UNICODE for a corpus that the user supplies, wholly or in part. A graph in a
        graph database keeps the tokenizer of the corpus that it was built from.

    Raises:
        UserError: The corpus or the tokenizer is unknown.
    """
    chosen = retrieval(name)[1].tokenizer
    if chosen:
        check_tokenizer(chosen)
        return chosen
    if is_stored_graph(name):
        return _stored_graph(retrieval(name)[0]).tokenizer
    return UNICODE if own(name) else ASCII


def is_stored_graph(name: str) -> bool:
    """Tell whether a corpus is a graph in a graph database.

    Args:
        name: The name of a corpus, with or without retrieval options.
    """
    return re.match(r"(bolt|neo4j)(\+s|\+ssc)?://", name) is not None


def parts(name: str) -> list[tuple[Corpus, list[str]]]:
    """Each part of a name with the value behind its colon, if any. UserError for an unknown part."""
    load_plugins()
    if is_stored_graph(name):
        place = retrieval(name)[0]
        return [(replace(CORPORA[GRAPH_DATABASE], kind=_stored_graph(place).kind), [place])]
    prefixes = {c.prefix: c for c in CORPORA.values() if c.prefix}
    pairs: list[tuple[Corpus, list[str]]] = []
    for part in retrieval(name)[0].split("+"):
        prefix, *value = part.split(":", 1)
        corpus = prefixes.get(prefix) if value else None
        if value and corpus is None and part not in CORPORA:
            raise unknown(
                "corpus", f"{prefix}:", [f"{known}:" for known in prefixes], f"in '{part}'"
            )
        pairs.append((corpus, value) if corpus else (CORPORA.get_or_fail(part), []))
    return pairs


def kind_of(name: str) -> str:
    """The corpus' kind; UserError for one that mixes them or is unknown."""
    kinds = {corpus.kind for corpus, _ in parts(name)}
    if "published" in kinds and name != PUBLISHED:
        raise UserError(f"corpus {name}: {PUBLISHED} is each task's own context; run it alone")
    if len(kinds) > 1:
        raise UserError(f"corpus {name} mixes code and text; run them one after the other")
    return kinds.pop()


def is_text(name: str) -> bool:
    """Whether the corpus is for Tables 3 and 4; UserError as `kind_of`."""
    return kind_of(name) == "text"


def own(name: str) -> bool:
    """Whether the user can change what lies under a part of the name: a tree, a package, a plug-in."""
    return any(c.prefix or c.replaced() or c not in _ROWS for c, _ in parts(name))


def redistributable(name: str) -> bool:
    """Whether every part of the corpus may be copied into results/."""
    return all(c.redistributable and not c.replaced() for c, _ in parts(name))


def check_name(name: str) -> None:
    """UserError for a corpus name that `load_corpus` would not take; reads nothing."""
    for corpus, value in parts(name):
        corpus.check(*value)
    kind_of(name)
    tokenizer_of(name)


def load_corpus(name: str) -> list[Document]:
    """The documents of a corpus, or of several joined by "+". UserError for unknown or missing ones."""
    check_name(name)
    documents = [d for corpus, value in parts(name) for d in corpus.documents(*value)]
    if not documents:
        raise UserError(f"corpus {name} holds no documents")
    return documents


def hub_revisions(name: str) -> dict[str, str]:
    """Tell at which commits the hub's data sets in a corpus are read.

    Args:
        name: The name of a corpus, with or without retrieval options.

    Returns:
        Commit by data set; {} for a corpus without any.

    Raises:
        UserError: The corpus is unknown.
    """
    repositories = [corpus.repository for corpus, _ in parts(name) if corpus.repository]
    return {r: data_revision(r, f"corpus {name}", resolve=False) for r in repositories}
