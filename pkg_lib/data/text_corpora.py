"""Text corpora -> Documents: tutorials and docstrings, for the columns of Tables 3 and 4.

A document is one row to a retriever. The paper's are web pages of about 5,700 characters; a manual's up to
thirty times as long are cut into sections.
"""

import ast
import importlib.util
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, count
from pathlib import Path, PurePosixPath

from pkg_lib.core import hub, limits
from pkg_lib.core.hub_data import load_rows
from pkg_lib.core.reading import expanded
from pkg_lib.core.source_tree import (
    Skipped,
    SourceFile,
    SourceTree,
    find,
    find_python,
    python_texts,
    read_each,
)
from pkg_lib.core.types import Document, Unavailable, UserError
from pkg_lib.graph.code import UNPARSABLE, syntax_tree

TUTORIALS = "code-rag-bench/online-tutorials"
DEBIAN_DOCS = Path("/usr/share/doc/python3.11/html")
ROW_CHARS = 4000

_PARTS = ("tutorial", "howto")
_SUFFIXES = {".rst": "rst", ".rst.txt": "rst", ".md": "markdown", ".html": "html", ".htm": "html"}
_SKIP = {"tests", "test", "testing", "conftest.py", "__pycache__", "_vendor", "site-packages"}


def hub_rows(corpus: str, repository: str, fields: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """Read the rows of a data set of the Hugging Face hub.

    Args:
        corpus: The corpus that consists of them.
        repository: The data set's name on the hub; `data_revision` says at which commit it is read.
        fields: The fields that are read. Each must be text; an absent or empty one is "".

    Yields:
        The fields of one row.

    Raises:
        UserError: The data set is not available, or a row has something else in a field.
    """
    hub.require(f"corpus {corpus}", "choose another: python -m pkg_lib list")
    for number, row in enumerate(load_rows(f"corpus {corpus}", repository, split="train")):
        values = {field: row.get(field) or "" for field in fields}
        for field, value in values.items():
            where = f"corpus {corpus}: row {number} of {repository}"
            if not isinstance(value, str):
                raise UserError(f"{where}: field {field} is no text; choose another corpus")
            if len(value) > limits.MAX_ROW_BYTES:
                raise UserError(
                    f"{where}: field {field} is longer than {limits.MAX_ROW_BYTES:,} characters"
                )
        yield values


def python_docs() -> Iterator[Document]:
    """The rows of Python's tutorial, then of its how-tos; of any other directory, of all its pages."""
    value = os.environ.get("PKG_PYTHON_DOCS", "")
    folder = expanded(value or DEBIAN_DOCS)
    if not folder.is_dir():
        why = f"PKG_PYTHON_DOCS={value} is no directory" if value else "it is not installed"
        archive = "an HTML archive of docs.python.org/3/download.html and set PKG_PYTHON_DOCS to it"
        raise Unavailable(
            f"corpus python-docs: {why}; apt-get install python3.11-doc, or unpack {archive}"
        )
    parts = _parts(folder)
    root = parts[0].parent if parts else folder
    count = 0
    for part in parts or [folder]:
        tree = find(part, lambda name: bool(_kind(name)))
        below = "" if part == root else f"{part.relative_to(root).as_posix()}/"
        for file, data in read_each(tree):
            count += 1
            page = data.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
            name = f"{below}{file.name}".partition(".")[0]
            yield from rows(f"python-docs/{name}", page, _kind(file.name))
        tree.skipped.warn(f"corpus python-docs:{part}")
    if not count:
        suffixes = ", ".join(_SUFFIXES)
        raise UserError(f"corpus python-docs: {folder} holds no page that can be read ({suffixes})")


def _kind(name: str) -> str:
    """How a page is written, by the suffix of its name; "" where it is no page."""
    return next((kind for suffix, kind in _SUFFIXES.items() if name.lower().endswith(suffix)), "")


def is_another_manual() -> bool:
    """Whether `python-docs` reads a directory that is not Python's manual, whose licence is PSF's."""
    value = os.environ.get("PKG_PYTHON_DOCS", "")
    return bool(value) and not _parts(expanded(value))


def _parts(folder: Path) -> list[Path]:
    """tutorial/ and howto/ of Python's documentation, its sources before its HTML; none for another tree."""
    bases = (
        folder / "html" / "_sources",
        folder / "_sources",
        folder / "html",
        folder / "Doc",
        folder,
    )
    manuals = ([base / part for part in _PARTS] for base in bases)
    return next((parts for parts in manuals if all(map(Path.is_dir, parts))), [])


def rows(name: str, page: str, kind: str) -> Iterator[Document]:
    """The documents of one page, named by it and, behind #, by the section's title."""
    from pkg_lib.graph.text.structure import (
        cut,
        main_part,
    )  # docutils is not needed for a corpus of code

    page = str(main_part(page)) if kind == "html" else page
    used: set[str] = set()
    try:
        pieces = cut(page, kind, ROW_CHARS)
    except RecursionError:
        pieces = [("", page)]  # nested deeper than the parser takes; the structurer says so by name
    for title, text in pieces:
        slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
        yield Document(_unique(f"{name}#{slug}" if title else name, used), text, kind)


def _unique(name: str, used: set[str]) -> str:
    free = next(n for n in chain([name], (f"{name}-{i}" for i in count(2))) if n not in used)
    used.add(free)
    return free


def package_place(package: str) -> tuple[Path, Path]:
    """Find an installed package.

    Args:
        package: A dotted name.

    Returns:
        The directory that module names start in, and the package's directory or file.

    Raises:
        UserError: No such package is installed as source.
    """
    top, *inner = package.split(".")
    spec = importlib.util.find_spec(top) if re.fullmatch(r"\w+(\.\w+)*", package) else None
    origin = Path((spec and spec.origin) or "")
    base = origin.parents[1] if origin.name == "__init__.py" else origin.parent
    place = base.joinpath(top, *inner)
    place = place if place.is_dir() else place.with_suffix(".py")
    if origin.suffix != ".py" or not place.exists():
        raise UserError(
            f"corpus docstrings:{package}: no such package; pip install it or name another"
        )
    return base, place


def docstrings(package: str) -> Iterator[Document]:
    """Yield one document for each documented public function or class; name the files that are left out."""
    base, place = package_place(package)
    if place.is_dir():
        tree = find_python(place, _SKIP)
        below = place.relative_to(base).parts
    else:
        tree = SourceTree(place.parent, [SourceFile(place.name, place.name, 0)], Skipped())
        below = place.parent.relative_to(base).parts
    used: set[str] = set()
    for name, source in python_texts(tree):
        parts = [*below, *PurePosixPath(name).with_suffix("").parts]
        if _SKIP & set(parts):
            continue
        module = ".".join(parts).removesuffix(".__init__")
        try:
            for qualified, signature, text in definitions(source):
                unique = _unique(f"docstrings/{module}.{qualified}", used)
                yield Document(unique, f"{signature}\n\n{text}\n", "docstring")
        except UNPARSABLE as e:
            tree.skipped.add(name, f"does not parse ({type(e).__name__})")
    tree.skipped.warn(f"corpus docstrings:{package}")


def definitions(source: str) -> Iterator[tuple[str, str, str]]:
    """(qualified name, signature, docstring) of documented functions and classes that no underscore hides.

    At the top level only of those that a literal `__all__` lists, where there is one.
    """
    body, listed = syntax_tree(source).body, None
    for node in body:
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == "__all__"
            and listed is None
        ):
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
    if (text := ast.get_docstring(node) or "").strip():
        yield f"{prefix}{node.name}", signature, text
    for child in node.body if isinstance(node, ast.ClassDef) else ():
        yield from _documented(child, f"{prefix}{node.name}.")


def tutorials() -> Iterator[Document]:
    """The paper's corpus: rows that have the word Python in them, as plain text below the title."""
    for i, row in enumerate(hub_rows("tutorials", TUTORIALS, ("title", "text"))):
        title, text = row["title"], row["text"]
        if re.search(r"\bpython(?![a-z])", f"{title} {text}", re.I):
            below = text.removeprefix(title).strip("\n")  # most texts start with their title
            whole = f"{' '.join(title.split())}\n\n{below}\n" if title else text
            yield Document(f"tutorials/{i}", whole, "text")
