"""Corpora by name -> Documents. Names joined by "+" are read together.

A row is what the corpus stores as one document: an answer for PythonAlpaca, a source file for the others.

    textbook       the `algorithms` package (MIT), the default
    stdlib         Python's own library, without its tests and generated tables
    source:DIR     any tree of Python files
    pkg-contexts   the functions and answers that the paper's authors retrieved (directory in PKG_PAPER_DIR)
    published      each task's own context as the authors retrieved it, without retrieval of ours; joined with no other
    python-alpaca  Vezora/Tested-143k-Python-Alpaca on the Hugging Face hub, the paper's corpus

Text corpora (text_corpora.py) feed the columns of Tables 3 and 4 and are joined with each other only:

    python-docs          the tutorial and the how-tos of Python's documentation
    docstrings:PACKAGE   docstrings of an installed package
    tutorials            code-rag-bench/online-tutorials on the Hugging Face hub, the paper's corpus
    structured:FILE      the documents of results/structured/FILE.jsonl, and in JSON-PKG the JSON that a model wrote of them
"""

from __future__ import annotations

import importlib.util
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pkg_lib.core import hub
from pkg_lib.core.models import cache_dir
from pkg_lib.core.store import read_json, read_rows, results_path
from pkg_lib.core.types import Document, UserError, digest
from pkg_lib.data import published, text_corpora

DEFAULT = "textbook"
PUBLISHED = "published"
STRUCTURED = "structured"
PYTHON_ALPACA = "Vezora/Tested-143k-Python-Alpaca"

# Not library code: tests, bundled wheels, generated tables, demos, and what is deprecated beyond use.
_STDLIB_SKIP = {
    "site-packages",
    "test",
    "tests",
    "idle_test",
    "idlelib",
    "lib2to3",
    "turtledemo",
    "ensurepip",
    "distutils",
    "encodings",
    "pydoc_data",
    "__pycache__",
}


def _tree(root: Path, prefix: str, skip: Iterable[str] = ("__pycache__",)) -> Iterator[Document]:
    """Every .py file below `root`, in sorted order; undecodable bytes are kept as surrogates and fail in the parser.

    A byte order mark is no part of the source. Raises UserError for a file that cannot be read.
    """
    skipped = set(skip)
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if path.is_file() and not skipped & set(relative.parts):
            try:
                text = path.read_text("utf-8-sig", "surrogateescape")
            except OSError as e:
                raise UserError(
                    f"cannot read {path}: {e.strerror}; make it readable or give another directory"
                ) from e
            yield Document(f"{prefix}/{relative.as_posix()}", text)


def _textbook() -> Iterator[Document]:
    spec = importlib.util.find_spec("algorithms")
    if spec is None or spec.origin is None:
        raise UserError("corpus textbook needs the package algorithms: pip install -r requirements.txt")
    return _tree(Path(spec.origin).parent, "textbook")


def _stdlib() -> Iterator[Document]:
    return _tree(Path(sysconfig.get_paths()["stdlib"]), "stdlib", _STDLIB_SKIP)


def _source(directory: str) -> Iterator[Document]:
    return _tree(Path(directory).expanduser(), "source")


def _python_alpaca() -> Iterator[Document]:
    from datasets import load_dataset

    hub.require(
        "corpus python-alpaca", f"choose one of: {', '.join(c for c in CORPORA if c != 'python-alpaca')}"
    )
    try:
        rows = load_dataset(PYTHON_ALPACA, split="train")
    except (OSError, ValueError) as e:
        raise UserError(
            f"corpus python-alpaca: the Hugging Face hub does not serve {PYTHON_ALPACA} ({type(e).__name__})"
        ) from e
    for i, row in enumerate(rows):
        yield Document(f"python-alpaca/{i}", row["output"], kind="answer")


CORPORA: dict[str, Callable[[], Iterator[Document]]] = {
    "textbook": _textbook,
    "stdlib": _stdlib,
    "pkg-contexts": published.union,
    PUBLISHED: published.contexts,
    "python-alpaca": _python_alpaca,
    "python-docs": text_corpora.python_docs,
    "tutorials": text_corpora.tutorials,
}


def structured_file(name: str) -> Path:
    """What `structure` wrote under a name such as python-docs/llm-MODEL; UserError where it wrote nothing."""
    file = Path("structured", f"{name}.jsonl")
    for folder in (results_path(), cache_dir()):  # texts that may not be copied are structured into the cache
        if (folder / file).is_file() and (results_path() / file).with_suffix(".log.json").is_file():
            return folder / file
    raise UserError(f"corpus structured:{name}: there is no {results_path() / file}; run `structure` first")


def _structured(name: str) -> Iterator[Document]:
    """The documents, as the corpus has them, that were given to the structurer."""
    wanted = {row["document"] for row in read_rows(structured_file(name), ("document",))}
    corpus = str(
        read_json((results_path() / "structured" / name).with_name(f"{Path(name).name}.log.json"))["corpus"]
    )
    return (d for d in load_corpus(corpus) if d.id in wanted)


PREFIXES: dict[str, Callable[[str], Iterator[Document]]] = {
    "source": _source,
    "docstrings": text_corpora.docstrings,
    STRUCTURED: _structured,
}
TEXT = {"python-docs", "tutorials", "docstrings", STRUCTURED}

# Contexts of these may be stored in results/ (MIT and PSF licences); of the others only their digests are.
REDISTRIBUTABLE = {"textbook", "stdlib"}


def split(part: str) -> tuple[str, str]:
    """("source", "DIR") of source:DIR; ("", the name) of a plain one."""
    prefix, colon, rest = part.partition(":")
    return (prefix, rest) if colon and prefix in PREFIXES else ("", part)


def is_text(name: str) -> bool:
    """Whether the corpus is text (Tables 3 and 4), not code; UserError for one that mixes them."""
    kinds = {(prefix or part) in TEXT for prefix, part in map(split, name.split("+"))}
    if len(kinds) > 1:
        raise UserError(
            f"corpus {name} mixes code and text, which have columns of their own; run them one after the other"
        )
    return kinds.pop()


def own(name: str) -> bool:
    """Whether a part of the corpus is what the user can change under its name: a tree, a package, a directory of pages."""
    parts = name.split("+")
    return any(split(p)[0] for p in parts) or ("python-docs" in parts and not text_corpora.is_python_docs())


def check_name(name: str) -> None:
    """UserError for a corpus name that `load_corpus` would not take; reads nothing."""
    for part in name.split("+"):
        prefix, rest = split(part)
        if prefix == "source" and (not rest or not Path(rest).expanduser().is_dir()):
            raise UserError(f"corpus {part}: no such directory; give an existing tree of Python files")
        if prefix == "docstrings":
            text_corpora.package_files(rest)
        if prefix == STRUCTURED:
            structured_file(rest)
        if not prefix and part not in CORPORA:
            names = f"{', '.join(CORPORA)}, source:DIR, docstrings:PACKAGE, structured:FILE (joined by '+')"
            raise UserError(f"unknown corpus '{part}'; choose from: {names}")
    if PUBLISHED in name.split("+") and name != PUBLISHED:
        raise UserError(
            f"corpus {name}: {PUBLISHED} is each task's own context and is joined with no other corpus; run it alone"
        )
    is_text(name)


def load_corpus(name: str) -> list[Document]:
    """The documents of a corpus, or of several joined by "+"; UserError for an unknown name or missing data."""
    check_name(name)
    documents: list[Document] = []
    for part in name.split("+"):
        prefix, rest = split(part)
        documents += PREFIXES[prefix](rest) if prefix else CORPORA[part]()
    if not documents:
        raise UserError(f"corpus {name} holds no documents")
    return documents


def redistributable(name: str) -> bool:
    """Whether every part of the corpus may be copied into results/; python-docs only where it is Python's own manual."""
    parts = set(name.split("+"))
    return parts <= REDISTRIBUTABLE or (
        parts <= REDISTRIBUTABLE | {"python-docs"} and text_corpora.is_python_docs()
    )


def corpus_digest(documents: list[Document]) -> str:
    """Identifies the exact documents that a graph or an index was made from."""
    return digest(*(part for d in documents for part in (d.id, d.kind, d.unit, d.text)))
