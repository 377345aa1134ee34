"""Text corpora -> Documents: tutorials and docstrings, for the columns of Tables 3 and 4.

A document is one row to BM25, to Dense and to the JSON graph alike. A row of the paper's tutorials is a web page of
about 5,700 characters; pages of a manual are up to thirty times as long, so they are cut into sections (sections.cut).
A docstring is one row, below its signature.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import logging
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

from pkg_lib.core import hub
from pkg_lib.core.types import Document, NotAtHand, UserError

log = logging.getLogger(__name__)

TUTORIALS = "code-rag-bench/online-tutorials"
DEBIAN_DOCS = Path("/usr/share/doc/python3.11/html")
ROW_CHARS = 4000

_PARTS = ("tutorial", "howto")
_SUFFIXES = {".rst": "rst", ".rst.txt": "rst", ".md": "markdown", ".html": "html", ".htm": "html"}
_SKIP = {"tests", "test", "testing", "conftest.py", "__pycache__", "_vendor", "site-packages"}
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def read(path: Path, errors: str = "replace") -> str:
    """A file's text without its byte order mark; UserError for one that cannot be read."""
    try:
        return path.read_text("utf-8-sig", errors)
    except OSError as e:
        raise UserError(f"cannot read {path}: {e.strerror}; make it readable or name another") from e


def hub_rows(corpus: str, repository: str) -> Iterable[dict[str, str]]:
    """The rows of a data set of the Hugging Face hub; UserError where it is not to be had."""
    from datasets import load_dataset

    hub.require(f"corpus {corpus}", "choose another: python -m pkg_lib list")
    try:
        return load_dataset(repository, split="train")
    except (OSError, ValueError) as e:
        raise UserError(
            f"corpus {corpus}: the Hugging Face hub does not serve {repository} ({type(e).__name__})"
        ) from e


def python_docs() -> Iterator[Document]:
    """The rows of Python's tutorial, then of its how-tos; of any other directory, of all its pages."""
    value = os.environ.get("PKG_PYTHON_DOCS", "")
    folder = Path(value).expanduser() if value else DEBIAN_DOCS
    if not folder.is_dir():
        why = f"PKG_PYTHON_DOCS={value} is no directory" if value else "it is not installed"
        raise NotAtHand(
            f"corpus python-docs: {why}; apt-get install python3.11-doc, or unpack an HTML archive of "
            "docs.python.org/3/download.html and set PKG_PYTHON_DOCS to it"
        )
    for part in _parts(folder) or [folder]:
        root = part.parent if part != folder else folder
        for path in sorted(filter(Path.is_file, part.rglob("*"))):
            kind = next((k for s, k in _SUFFIXES.items() if path.name.lower().endswith(s)), "")
            if kind:
                name = path.relative_to(root).as_posix().partition(".")[0]
                yield from rows(f"python-docs/{name}", read(path), kind)


def is_python_docs() -> bool:
    """Whether `python-docs` reads Python's own manual (PSF licence), not another directory; reads no page."""
    value = os.environ.get("PKG_PYTHON_DOCS", "")
    return not value or bool(_parts(Path(value).expanduser()))


def _parts(folder: Path) -> list[Path]:
    """tutorial/ and howto/ of a copy of Python's documentation: its sources before its HTML; none for another tree."""
    bases = (folder / "html" / "_sources", folder / "_sources", folder / "html", folder / "Doc", folder)
    whole = (b for b in bases if all((b / p).is_dir() for p in _PARTS))
    return [base / p for base in [*whole][:1] for p in _PARTS]


def rows(name: str, page: str, kind: str) -> Iterator[Document]:
    """The documents of one page. Ids are the page's name and, behind #, the section's title in small letters."""
    from pkg_lib.graph.text.sections import cut, main_html  # docutils is not needed for a corpus of code

    page = main_html(page) if kind == "html" else page
    used: set[str] = set()
    try:
        pieces = cut(page, kind, ROW_CHARS)
    except RecursionError:
        pieces = [("", page)]  # nested deeper than the parser takes; the structurer says so by name
    for title, text in pieces:
        slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
        yield Document(_unique(f"{name}#{slug}" if title else name, used), text, kind)


def _unique(name: str, used: set[str]) -> str:
    names = (f"{name}-{n}" if n > 1 else name for n in count(1))
    free = next(n for n in names if n not in used)
    used.add(free)
    return free


def package_files(package: str) -> tuple[Path, list[Path]]:
    """(directory that module names start in, source files) of an installed package; nothing of it is imported.

    Raises UserError when there is no such package or it has no Python source.
    """
    top, *inner = package.split(".")
    spec = importlib.util.find_spec(top) if re.fullmatch(r"\w+(\.\w+)*", package) else None
    origin = Path((spec and spec.origin) or "")
    base = origin.parent.parent if origin.name == "__init__.py" else origin.parent
    place = base.joinpath(top, *inner)
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    if origin.suffix != ".py" or not files[0].exists():
        raise UserError(
            f"corpus docstrings:{package}: no such Python package is installed; pip install it or name another"
        )
    return base, files


def docstrings(package: str) -> Iterator[Document]:
    """One document a documented public function or class; source that does not parse is named in a warning."""
    from pkg_lib.graph.text.docstrings import document_text

    base, files = package_files(package)
    used: set[str] = set()
    for path in files:
        relative = path.relative_to(base)
        if _SKIP & set(relative.parts):
            continue
        module = ".".join(relative.with_suffix("").parts).removesuffix(".__init__")
        try:
            for name, signature, text in definitions(path.read_bytes()):
                yield Document(
                    _unique(f"docstrings/{module}.{name}", used), document_text(signature, text), "docstring"
                )
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as e:
            log.warning("corpus docstrings:%s: %s left out (%s: %s)", package, relative, type(e).__name__, e)


def definitions(source: bytes) -> Iterator[tuple[str, str, str]]:
    """(qualified name, signature, docstring) of a module's public functions, classes and methods that have a docstring.

    Public is what no part of its name hides with an underscore and, at the top level, what `__all__` lists where the
    module has one. Raises as `ast.parse` does.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in other people's code
        tree = ast.parse(source)
    listed = _listed(tree)
    for node in tree.body:
        if listed is None or getattr(node, "name", "") in listed:
            yield from _documented(node, "")


def _listed(tree: ast.Module) -> set[str] | None:
    """The names in a literal `__all__`; None where there is none that can be read."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and [getattr(t, "id", "") for t in node.targets] == ["__all__"]:
            try:
                names = ast.literal_eval(node.value)
            except ValueError:
                return None
            return set(names) if isinstance(names, list | tuple) else None
    return None


def _documented(node: ast.stmt, prefix: str) -> Iterator[tuple[str, str, str]]:
    if not isinstance(node, (*_FUNCTION, ast.ClassDef)) or node.name.startswith("_"):
        return
    text = inspect.cleandoc(ast.get_docstring(node, clean=False) or "")
    if text.strip():
        yield f"{prefix}{node.name}", _signature(node), text
    for child in node.body if isinstance(node, ast.ClassDef) else ():
        yield from _documented(child, f"{prefix}{node.name}.")


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    """One line: name(arguments) -> result, or name(bases) of a class."""
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(map(ast.unparse, node.bases))
        return f"class {node.name}({bases})" if bases else f"class {node.name}"
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({ast.unparse(node.args)}){result}"


def tutorials() -> Iterator[Document]:
    """The paper's corpus: the rows that have the word Python in their title or text, as plain text below the title."""
    for i, row in enumerate(hub_rows("tutorials", TUTORIALS)):
        title, text = row.get("title") or "", row.get("text") or ""
        if re.search(r"\bpython(?![a-z])", f"{title} {text}", re.I):
            below = text.removeprefix(title).strip("\n")  # most texts start with their title
            whole = f"{' '.join(title.split())}\n\n{below}\n" if title else text
            yield Document(f"tutorials/{i}", whole, "text")
