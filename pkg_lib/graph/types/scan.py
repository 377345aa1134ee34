"""The Java files of a directory or a zip archive in order of their paths; what is left out, with the reason.

No symbolic link is followed, so a type belongs to the file that holds it, and loops end.
"""

import os
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pkg_lib.core.store import LARGE, LARGER, LINK
from pkg_lib.core.types import UserError

SUFFIX = ".java"
MOST = 64 * 2**20  # bytes of one file that are read; a larger one is no source that anybody wrote
BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))

UNREADABLE, UNREADABLE_DIRECTORY = "cannot be read", "directory cannot be read"
NO_FILE, TOO_LARGE, EMPTY = "no regular file", f"larger than {MOST // 2**20} MB", "empty"
ARCHIVE_FAULTS = (zipfile.BadZipFile, RuntimeError, EOFError)  # damaged, encrypted, packed in an unknown way


@dataclass
class JavaTree:
    root: Path
    paths: list[str]  # sorted, below the root
    skipped: list[tuple[str, str]]  # path, reason


@contextmanager
def reader(root: Path) -> Iterator[Callable[[str], bytes | str]]:
    """A function from a path to the file's bytes, or to the reason (text) why there are none."""
    with ExitStack() as stack:
        archive = stack.enter_context(zipfile.ZipFile(root)) if zipfile.is_zipfile(root) else None

        def read(path: str) -> bytes | str:
            try:
                return (archive.read(path) if archive else (root / path).read_bytes()) or EMPTY
            except OSError as e:
                return f"{UNREADABLE}: {e.strerror or type(e).__name__}"
            except ARCHIVE_FAULTS as e:
                return f"{UNREADABLE}: {type(e).__name__}"

        yield read


def scan(root: Path) -> JavaTree:
    """Finds the files; reads none. UserError where `root` is no directory or zip, or holds no Java."""
    if root.is_dir():
        if not os.access(root, os.R_OK | os.X_OK):
            raise UserError(f"{root} cannot be read; give a directory that may be")
        files = list(_in_directory(root))
    elif root.is_file() and zipfile.is_zipfile(root):
        with zipfile.ZipFile(root) as archive:
            sizes = {i.filename: i.file_size for i in archive.infolist() if not i.is_dir()}
        files = [(name, size, "") for name, size in sizes.items() if name.endswith(SUFFIX)]
    else:
        kind = "no zip archive" if root.is_file() else "no directory"
        raise UserError(f"{root} is {kind}; give one that holds {SUFFIX} files")
    if not files:
        raise UserError(f"{root} holds no {SUFFIX} file; give a directory or zip archive that does")
    reasons = {path: odd or (TOO_LARGE if n > MOST else "" if n else EMPTY) for path, n, odd in sorted(files)}
    skipped = [(path, reason) for path, reason in reasons.items() if reason]
    return JavaTree(root, [path for path, reason in reasons.items() if not reason], skipped)


def _in_directory(root: Path) -> Iterator[tuple[str, int, str]]:
    """(path, size, why it is left out or "") of files, links and locked folders."""
    failed: list[OSError] = []
    for folder, folders, names in os.walk(root, onerror=failed.append):
        below = Path(folder).relative_to(root)
        for name in folders:
            if Path(folder, name).is_symlink():
                yield (below / name).as_posix() + "/", 0, LINK  # no file, whatever its name ends with
        for name in (name for name in names if name.endswith(SUFFIX)):
            try:
                about = Path(folder, name).lstat()
            except OSError as e:
                yield (below / name).as_posix(), 0, f"{UNREADABLE}: {e.strerror}"
                continue
            odd = LINK if stat.S_ISLNK(about.st_mode) else "" if stat.S_ISREG(about.st_mode) else NO_FILE
            yield (below / name).as_posix(), about.st_size, odd
    for e in failed:
        yield Path(e.filename).relative_to(root).as_posix(), 0, f"{UNREADABLE_DIRECTORY}: {e.strerror}"


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
    """(path, text) of the files that can be read; the others join `tree.skipped`."""
    with reader(tree.root) as read:
        for path in tree.paths:
            data = read(path)
            if isinstance(data, str):
                tree.skipped.append((path, data))
            else:
                yield path, text_of(data)[0]
