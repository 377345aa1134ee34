"""The Java files of a directory or zip archive, and which files are left out and why."""

from collections.abc import Iterator
from pathlib import Path

from pkg_lib.core.markdown import with_plain_line_ends
from pkg_lib.core.reading import shown
from pkg_lib.core.source_tree import (
    BINARY,
    EMPTY,
    SourceTree,
    ends_with,
    find,
    read_each,
)
from pkg_lib.core.store import LARGE, LARGER
from pkg_lib.core.types import UserError

SUFFIX = ".java"
_BYTE_ORDER_MARKS = {
    b"\xef\xbb\xbf": "utf-8",
    b"\xff\xfe": "utf-16-le",
    b"\xfe\xff": "utf-16-be",
}


def scan(root: Path) -> SourceTree:
    """Find the Java files of a tree; read none.

    Args:
        root: A directory or a zip archive.

    Returns:
        The files that are not empty, sorted by their names.

    Raises:
        UserError: `root` is neither, or no Java file in it may be read.
    """
    tree = find(root, ends_with(SUFFIX))
    for file in tree.files:
        if not file.size:
            tree.skipped.add(file.place, EMPTY)
    files = [file for file in tree.files if file.size]
    tree.files = sorted(files, key=lambda file: file.name)
    if not files and not any(path.endswith(SUFFIX) for path, _ in tree.skipped.rows()):
        why = tree.skipped.one_line_summary()
        contents = f"contains no {SUFFIX} file{why and f' ({why})'}"
        advice = "give a directory or zip archive of Java source"
        raise UserError(f"{shown(str(root))} {contents}; {advice}")
    return tree


def text_of(data: bytes) -> tuple[str, tuple[str, ...]]:
    r"""Decode a Java file.

    Args:
        data: The bytes of the file.

    Returns:
        The text with "\n" at line ends, and remarks on the file.
    """
    remarks = [LARGER] if len(data) > LARGE else []
    encoding = "utf-8"
    for mark, marked_encoding in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            data = data[len(mark) :]
            encoding = marked_encoding
            break
    if encoding != "utf-8":
        remarks.append("UTF-16")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        text = data.decode("latin-1")
        remarks.append("not UTF-8, read as Latin-1")
    if "\r" in text:
        text = with_plain_line_ends(text)
        remarks.append("line ends other than LF")
    return text, tuple(remarks)


def texts(tree: SourceTree) -> Iterator[tuple[str, str]]:
    """Read the files of a tree.

    Args:
        tree: What `scan` returned; files that turn out to be unreadable or binary join its
            `skipped`.

    Yields:
        Each file's printable path and its text.
    """
    for file, data in read_each(tree):
        text, _ = text_of(data)
        if "\0" in text:
            tree.skipped.add(file.place, BINARY)
        else:
            yield file.name, text
