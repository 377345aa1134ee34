"""Text corpora as documents: Python's documentation, tutorials and docstrings, for Tables 3 and 4.

A document is one row for a retriever. The paper's rows are web pages of about 5,700 characters. The
pages of a manual are up to thirty times as long and are cut into sections.
"""

import ast
import importlib.util
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path, PurePosixPath

from pkg_lib.core import hub, limits
from pkg_lib.core.data_folders import data_folder
from pkg_lib.core.hub_data import load_rows
from pkg_lib.core.markdown import with_plain_line_ends
from pkg_lib.core.python_syntax import UNPARSABLE, syntax_tree
from pkg_lib.core.source_tree import (
    Skipped,
    SourceFile,
    SourceTree,
    find,
    find_python,
    python_texts,
    read_each,
)
from pkg_lib.core.types import Document, DocumentKind, UnavailableError, UserError

TUTORIALS = "code-rag-bench/online-tutorials"
DOCS_VARIABLE = "PKG_PYTHON_DOCS"
DEBIAN_DOCS = Path("/usr/share/doc/python3.11/html")
ROW_CHARS = 4000  # longest section of a page that is one row

_PARTS = ("tutorial", "howto")  # of Python's documentation
_SUFFIXES: dict[str, DocumentKind] = {
    ".rst": "rst",
    ".rst.txt": "rst",
    ".md": "markdown",
    ".html": "html",
    ".htm": "html",
}
_SKIP = {"tests", "test", "testing", "conftest.py", "__pycache__", "_vendor", "site-packages"}


# The Hugging Face hub


def hub_rows(
    corpus: str,
    repository: str,
    fields: tuple[str, ...],
) -> Iterator[dict[str, str]]:
    """Read the rows of a data set of the Hugging Face hub.

    Args:
        corpus: The corpus that consists of them.
        repository: The data set's name on the hub. `data_revision` says at which commit it is read.
        fields: The fields that are read. Each must be text; an absent or empty one is "".

    Yields:
        The fields of one row.

    Raises:
        UserError: The data set is not available, or a row has something else in a field.
    """
    hub.require(f"corpus {corpus}", "choose another: pkg-lib list corpora")
    for number, row in enumerate(load_rows(f"corpus {corpus}", repository, split="train")):
        values = {field: row.get(field) or "" for field in fields}
        for field, value in values.items():
            where = f"corpus {corpus}: row {number} of {repository}: field {field}"
            if not isinstance(value, str):
                raise UserError(f"{where} is not text; choose another corpus")
            if len(value) > limits.MAX_ROW_BYTES:
                raise UserError(f"{where} is longer than {limits.MAX_ROW_BYTES:,} characters")
        yield values


def tutorials() -> Iterator[Document]:
    """Yield the paper's tutorials, rows that contain the word Python, as text below their title.

    Raises:
        UserError: As for `hub_rows`.
    """
    for number, row in enumerate(hub_rows("tutorials", TUTORIALS, ("title", "text"))):
        title, text = row["title"], row["text"]
        if not re.search(r"\bpython(?![a-z])", f"{title} {text}", re.I):
            continue
        if title:
            below = text.removeprefix(title).strip("\n")  # most texts start with their title
            text = f"{' '.join(title.split())}\n\n{below}\n"
        yield Document(f"tutorials/{number}", text, "text")


# Python's documentation


def python_docs() -> Iterator[Document]:
    """Yield the rows of Python's tutorial and how-tos, or of all pages of another directory.

    Raises:
        UnavailableError: The documentation is not installed.
        UserError: The directory has no page that can be read.
    """
    folder = data_folder(DOCS_VARIABLE) or DEBIAN_DOCS
    if not folder.is_dir():
        reason = "it is not installed"
        if os.environ.get(DOCS_VARIABLE):
            reason = f"{DOCS_VARIABLE}={folder} is not a directory"
        archive = "an HTML archive of docs.python.org/3/download.html"
        raise UnavailableError(
            f"corpus python-docs: {reason}; apt-get install python3.11-doc, or unpack {archive} "
            f"and set {DOCS_VARIABLE} to it"
        )
    parts = _manual_parts(folder)
    root = parts[0].parent if parts else folder
    pages = 0
    for part in parts or [folder]:
        tree = find(part, lambda name: _page_kind(name) is not None)
        below = "" if part == root else f"{part.relative_to(root).as_posix()}/"
        for file, data in read_each(tree):
            kind = _page_kind(file.name)
            if kind is None:
                continue  # `find` has left it out already
            pages += 1
            page = with_plain_line_ends(data.decode("utf-8-sig", "replace"))
            name = f"{below}{file.name}".partition(".")[0]
            yield from _sections(f"python-docs/{name}", page, kind)
        tree.skipped.warn(f"corpus python-docs:{part}")
    if not pages:
        suffixes = ", ".join(_SUFFIXES)
        raise UserError(f"corpus python-docs: {folder} holds no page that can be read ({suffixes})")


def is_another_manual() -> bool:
    """Return whether `python_docs` reads another manual than Python's, which may be copied."""
    folder = data_folder(DOCS_VARIABLE)
    return folder is not None and not _manual_parts(folder)


def _manual_parts(folder: Path) -> list[Path]:
    """tutorial/ and howto/ of Python's documentation, its sources before HTML; [] for others."""
    for below in ("html/_sources", "_sources", "html", "Doc", ""):
        parts = [folder / below / part for part in _PARTS]
        if all(part.is_dir() for part in parts):
            return parts
    return []


def _page_kind(name: str) -> DocumentKind | None:
    """How a page is written, by the suffix of its name; None for other files."""
    for suffix, kind in _SUFFIXES.items():
        if name.lower().endswith(suffix):
            return kind
    return None


def _sections(name: str, page: str, kind: DocumentKind) -> Iterator[Document]:
    """The rows of one page: the page itself, or its sections if it is long.

    A section's id is the page's name and, behind "#", the section's title.
    """
    # Imported here because a corpus of code does not need docutils.
    from pkg_lib.graph.text.structure import cut, main_part

    page = str(main_part(page)) if kind == "html" else page
    used: set[str] = set()
    try:
        pieces = cut(page, kind, ROW_CHARS)
    except RecursionError:
        pieces = [("", page)]  # nested too deep for the parser; the structurer reports the document
    for title, text in pieces:
        anchor = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
        yield Document(_unique(f"{name}#{anchor}" if title else name, used), text, kind)


def _unique(name: str, used: set[str]) -> str:
    """The name, with a number if it is in `used`; the result is added to `used`."""
    free = name
    for number in count(2):
        if free not in used:
            break
        free = f"{name}-{number}"
    used.add(free)
    return free


# Docstrings of an installed package


def package_place(package: str) -> tuple[Path, Path]:
    """Find an installed package.

    Args:
        package: A dotted name.

    Returns:
        The directory in which module names start, and the package's directory or file.

    Raises:
        UserError: No such package is installed as source.
    """
    top, *inner = package.split(".")
    spec = importlib.util.find_spec(top) if re.fullmatch(r"\w+(\.\w+)*", package) else None
    origin = Path((spec and spec.origin) or "")
    base = origin.parents[1] if origin.name == "__init__.py" else origin.parent
    place = base.joinpath(top, *inner)
    if not place.is_dir():
        place = place.with_suffix(".py")
    if origin.suffix != ".py" or not place.exists():
        raise UserError(
            f"corpus docstrings:{package}: no such package; pip install it or name another"
        )
    return base, place


def docstrings(package: str) -> Iterator[Document]:
    """Yield a document for each documented public function or class.

    Files that are left out are logged.

    Args:
        package: A dotted name of an installed package or module.

    Raises:
        UserError: As for `package_place`.
    """
    base, place = package_place(package)
    if place.is_dir():
        tree = find_python(place, _SKIP)
        below = place.relative_to(base).parts
    else:
        module_file = SourceFile(place.name, place.name, 0)
        tree = SourceTree(place.parent, [module_file], Skipped())
        below = place.parent.relative_to(base).parts
    used: set[str] = set()
    for name, source in python_texts(tree):
        parts = [*below, *PurePosixPath(name).with_suffix("").parts]
        if _SKIP & set(parts):
            continue
        module = ".".join(parts).removesuffix(".__init__")
        try:
            for qualified, signature, text in _documented_definitions(source):
                unique = _unique(f"docstrings/{module}.{qualified}", used)
                yield Document(unique, f"{signature}\n\n{text}\n", "docstring")
        except UNPARSABLE as e:
            tree.skipped.add(name, f"does not parse ({type(e).__name__})")
    tree.skipped.warn(f"corpus docstrings:{package}")


def _documented_definitions(source: str) -> Iterator[tuple[str, str, str]]:
    """(qualified name, signature, docstring) of documented functions and classes that are public.

    At the top level, a literal `__all__` decides what is public, if there is one.
    """
    body = syntax_tree(source).body
    listed = None
    for node in body:
        if not isinstance(node, ast.Assign) or listed is not None:
            continue
        if ast.unparse(node.targets[0]) == "__all__":
            with suppress(ValueError, TypeError):
                listed = set(ast.literal_eval(node.value))
    for node in body:
        if listed is None or getattr(node, "name", "") in listed:
            yield from _documented(node)


def _documented(node: ast.stmt, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    match node:
        case ast.ClassDef():
            bases = ", ".join(map(ast.unparse, node.bases))
            signature = f"class {node.name}({bases})" if bases else f"class {node.name}"
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            signature = f"{node.name}({ast.unparse(node.args)}){result}"
        case _:
            return
    if node.name.startswith("_"):
        return
    text = ast.get_docstring(node) or ""
    if text.strip():
        yield f"{prefix}{node.name}", signature, text
    if isinstance(node, ast.ClassDef):
        for child in node.body:
            yield from _documented(child, f"{prefix}{node.name}.")
