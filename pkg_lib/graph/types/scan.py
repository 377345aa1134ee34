"""The Java files of a directory or zip archive, and which files are left out and why."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pkg_lib.core.markdown import with_plain_line_ends
from pkg_lib.core.reading import shown
from pkg_lib.core.source_tree import BINARY, EMPTY, Unreadable, ends_with, find, reader
from pkg_lib.core.store import LARGE, LARGER
from pkg_lib.core.types import UserError

SUFFIX = ".java"
_BYTE_ORDER_MARKS = {
    b"\xef\xbb\xbf": "utf-8",
    b"\xff\xfe": "utf-16-le",
    b"\xfe\xff": "utf-16-be",
}


@dataclass
class JavaTree:
    """The Java files of a directory or zip archive.

    Attributes:
        root: The directory or the archive.
        places: Printable path below the root -> path for `reader`; sorted by the former.
        skipped: (path, reason) of what was left out.
    """

    root: Path
    places: dict[str, str]
    skipped: list[tuple[str, str]]

    @property
    def paths(self) -> list[str]:
        """The printable paths, sorted."""
        return list(self.places)


def scan(root: Path) -> JavaTree:
    """Find the Java files of a tree; read none.

    Args:
        root: A directory or a zip archive.

    Raises:
        UserError: `root` is neither, or no Java file in it may be read.
    """
    tree = find(root, ends_with(SUFFIX))
    places = {}
    for file in tree.files:
        if file.size:
            places[file.name] = file.place
        else:
            tree.skipped.add(file.place, EMPTY)
    skipped = tree.skipped.rows()
    if not places and not any(path.endswith(SUFFIX) for path, _ in skipped):
        why = tree.skipped.in_one_line()
        contents = f"contains no {SUFFIX} file{why and f' ({why})'}"
        advice = "give a directory or zip archive of Java source"
        raise UserError(f"{shown(str(root))} {contents}; {advice}")
    return JavaTree(root, dict(sorted(places.items())), skipped)


def text_of(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Decode a Java file.

    Args:
        data: The bytes of the file.

    Returns:
        The text with "\\n" at line ends, and remarks on the file.
    """
    remarks = [LARGER] if len(data) > LARGE else []
    encoding = "utf-8"
    for mark, marked_encoding in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            data, encoding = data[len(mark) :], marked_encoding
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


def texts(tree: JavaTree) -> Iterator[tuple[str, str]]:
    """Read the files of a tree.

    Args:
        tree: What `scan` returned; files that turn out to be unreadable or binary join its `skipped`.

    Yields:
        Each file's printable path and its text.
    """
    with reader(tree.root) as read:
        for path, place in tree.places.items():
            try:
                text, _ = text_of(read(place))
            except Unreadable as e:
                tree.skipped.append((path, str(e)))
                continue
            if "\0" in text:
                tree.skipped.append((path, BINARY))
            else:
                yield path, text
