"""The Java files of a directory or zip archive in order of their paths, and what is left out and why."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pkg_lib.core.source_tree import BINARY, EMPTY, Unreadable, ends_with, find, reader
from pkg_lib.core.store import LARGE, LARGER, shown
from pkg_lib.core.types import UserError

SUFFIX = ".java"
BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


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
    for file in tree.files:
        if not file.size:
            tree.skipped.add(file.place, EMPTY)
    places = {file.name: file.place for file in tree.files if file.size}
    if not places and not any(path.endswith(SUFFIX) for path, _ in tree.skipped.rows()):
        why = tree.skipped.in_one_line()
        about = f" ({why})" if why else ""
        raise UserError(
            f"{shown(str(root))} holds no {SUFFIX} file{about}; give a directory or zip archive that does"
        )
    return JavaTree(root, dict(sorted(places.items())), tree.skipped.rows())


def text_of(data: bytes) -> tuple[str, tuple[str, ...]]:
    """A file's text with "\\n" at line ends, and remarks on the file."""
    remarks = [LARGER] if len(data) > LARGE else []
    mark, encoding = next(((m, e) for m, e in BOMS if data.startswith(m)), (b"", "utf-8"))
    if encoding != "utf-8":
        remarks.append("UTF-16")
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError:
        text = data.decode("latin-1")
        remarks.append("not UTF-8, read as Latin-1")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
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
