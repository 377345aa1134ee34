"""The Java files of a directory or a zip archive in order of their paths; what is left out, with the reason.

No symbolic link is followed: a loop of links ends where it starts, and a type belongs to the file that holds
it. (The paper's `os.walk` does not follow those to directories.)
"""

from __future__ import annotations

import os
import stat
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from pkg_lib.core.remarks import LARGE, LARGER, LINK
from pkg_lib.core.types import UserError

SUFFIX = ".java"
MOST = 64 * 2**20  # bytes of one file that are read; a larger one is no source that anybody wrote
BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))

UNREADABLE_DIRECTORY = "directory cannot be read"
UNREADABLE = "cannot be read"
NO_FILE = "no regular file"
TOO_LARGE = f"larger than {MOST // 2**20} MB"
EMPTY = "empty"


@dataclass
class JavaTree:
    """A repository's files: sorted `paths` below the root; `skipped`: (path, reason).

    Files are read below an opened tree: `with tree: tree.read(path)`.
    """

    root: Path
    paths: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    _archive: zipfile.ZipFile | None = field(default=None, repr=False)
    _stack: ExitStack = field(default_factory=ExitStack, repr=False)

    def __enter__(self) -> JavaTree:
        if zipfile.is_zipfile(self.root):
            self._archive = self._stack.enter_context(zipfile.ZipFile(self.root))
        return self

    def __exit__(self, *error: object) -> None:
        self._archive = None
        self._stack.close()

    def keep(self, path: str, size: int, reason: str = "") -> None:
        """Takes a file, or names why it is left out."""
        if reason := reason or (TOO_LARGE if size > MOST else "" if size else EMPTY):
            self.skipped.append((path, reason))
        else:
            self.paths.append(path)

    def read(self, path: str) -> bytes | str:
        """The file's bytes, or the reason (text) why there are none."""
        try:
            if self._archive:
                return self._archive.read(path) or EMPTY
            return (self.root / path).read_bytes() or EMPTY
        except OSError as e:
            return f"{UNREADABLE}: {e.strerror or type(e).__name__}"
        # Damaged, encrypted, of an unknown method.
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError) as e:
            return f"{UNREADABLE}: {type(e).__name__}"


def scan(root: Path) -> JavaTree:
    """Finds the files; reads none. UserError where `root` is no directory or zip, or holds no Java."""
    tree = JavaTree(root)
    if root.is_dir():
        if not os.access(root, os.R_OK | os.X_OK):
            raise UserError(f"{root} cannot be read; give a directory that may be")
        _find_in_directory(tree)
    elif root.is_file() and zipfile.is_zipfile(root):
        with zipfile.ZipFile(root) as archive:
            sizes = {i.filename: i.file_size for i in archive.infolist() if not i.is_dir()}
        for name, size in sizes.items():
            if name.endswith(SUFFIX):
                tree.keep(name, size)
    else:
        kind = "no zip archive" if root.is_file() else "no directory"
        raise UserError(f"{root} is {kind}; give one that holds {SUFFIX} files")
    if not tree.paths and not tree.skipped:
        raise UserError(f"{root} holds no {SUFFIX} file; give a directory or zip archive that does")
    tree.paths.sort()
    tree.skipped.sort()
    return tree


def _find_in_directory(tree: JavaTree) -> None:
    def relative(path: str | Path) -> str:
        return Path(path).relative_to(tree.root).as_posix()

    def failed(e: OSError) -> None:
        tree.skipped.append((relative(e.filename), f"{UNREADABLE_DIRECTORY}: {e.strerror}"))

    for folder, folders, names in os.walk(tree.root, onerror=failed):
        links = [p for name in folders if (p := Path(folder, name)).is_symlink()]
        tree.skipped += [(relative(p) + "/", LINK) for p in links]  # no file, whatever its name ends with
        for path in (Path(folder, name) for name in names if name.endswith(SUFFIX)):
            try:
                about = path.lstat()
            except OSError as e:
                tree.skipped.append((relative(path), f"{UNREADABLE}: {e.strerror}"))
                continue
            odd = LINK if stat.S_ISLNK(about.st_mode) else "" if stat.S_ISREG(about.st_mode) else NO_FILE
            tree.keep(relative(path), about.st_size, odd)


def text_of(data: bytes) -> tuple[str, tuple[str, ...]]:
    """A file's text with "\\n" at line ends, and what is remarkable about the file."""
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
    """(path, text) of the files that can be read; the others join `tree.skipped`."""
    with tree:
        for path in tree.paths:
            data = tree.read(path)
            if isinstance(data, str):
                tree.skipped.append((path, data))
            else:
                yield path, text_of(data)[0]


def by_reason(named: list[tuple[str, str]]) -> dict[str, int]:
    """Reason -> how many, the most frequent first."""
    return dict(sorted(Counter(reason for _, reason in named).items(), key=lambda r: (-r[1], r[0])))
