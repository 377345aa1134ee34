"""The Java files of a directory or a zip archive, in order of their paths; what is left out, by name and reason.

No symbolic link is followed: a loop of links ends where it starts, and a type belongs to the file that holds it. (The paper's
`os.walk` does not follow those to directories.)
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
from types import TracebackType

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
class Tree:
    """A repository's files: `paths` relative to the root with "/" between parts, sorted; `skipped`: (path, reason).

    Reading goes on below an opened tree: `with tree: tree.read(path)`.
    """

    root: Path
    paths: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    _archive: zipfile.ZipFile | None = field(default=None, repr=False)
    _stack: ExitStack = field(default_factory=ExitStack, repr=False)

    def __enter__(self) -> Tree:
        if zipfile.is_zipfile(self.root):
            self._archive = self._stack.enter_context(zipfile.ZipFile(self.root))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._archive = None
        self._stack.close()

    def read(self, path: str) -> bytes | str:
        """The file's bytes, or the reason (text) why there are none."""
        try:
            if self._archive:
                return self._archive.read(path) or EMPTY
            return (self.root / path).read_bytes() or EMPTY
        except OSError as e:
            return f"{UNREADABLE}: {e.strerror or type(e).__name__}"
        except (
            zipfile.BadZipFile,
            RuntimeError,
            NotImplementedError,
            EOFError,
        ) as e:  # damaged, encrypted, unknown method
            return f"{UNREADABLE}: {type(e).__name__}"


def scan(root: Path) -> Tree:
    """Finds the files; reads none. UserError where `root` is no directory and no zip archive."""
    if root.is_dir():
        if not os.access(root, os.R_OK | os.X_OK):
            raise UserError(f"{root} cannot be read; give a directory that may be")
        tree = Tree(root)
        _directory(tree)
    elif root.is_file() and zipfile.is_zipfile(root):
        tree = Tree(root)
        _zip(tree)
    else:
        raise UserError(
            f"{root} is {'no zip archive' if root.is_file() else 'no directory'}; give one that holds {SUFFIX} files"
        )
    tree.paths.sort()
    tree.skipped.sort()
    return tree


def _directory(tree: Tree) -> None:
    def failed(e: OSError) -> None:
        tree.skipped.append((_relative(e.filename, tree.root), f"{UNREADABLE_DIRECTORY}: {e.strerror}"))

    for folder, folders, names in os.walk(tree.root, onerror=failed):
        for name in folders:
            if (path := Path(folder, name)).is_symlink():
                tree.skipped.append(
                    (_relative(path, tree.root) + "/", LINK)
                )  # no file, whatever its name ends with
        for name in names:
            if name.endswith(SUFFIX):
                path = Path(folder, name)
                _keep(tree, _relative(path, tree.root), *_look(path))


def _look(path: Path) -> tuple[int, str]:
    """(size, "" or why it cannot be read)."""
    try:
        about = path.lstat()
    except OSError as e:
        return 0, f"{UNREADABLE}: {e.strerror}"
    if stat.S_ISLNK(about.st_mode):
        return 0, LINK
    return about.st_size, "" if stat.S_ISREG(about.st_mode) else NO_FILE


def _relative(path: str | Path, root: Path) -> str:
    return Path(path).relative_to(root).as_posix()


def _zip(tree: Tree) -> None:
    with zipfile.ZipFile(tree.root) as archive:
        found = {
            i.filename: i.file_size
            for i in archive.infolist()
            if i.filename.endswith(SUFFIX) and not i.is_dir()
        }
    for name, size in found.items():
        _keep(tree, name, size, "")


def _keep(tree: Tree, path: str, size: int, reason: str) -> None:
    reason = reason or (TOO_LARGE if size > MOST else "" if size else EMPTY)
    if reason:
        tree.skipped.append((path, reason))
    else:
        tree.paths.append(path)


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


def texts(tree: Tree) -> Iterator[tuple[str, str]]:
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
