"""Read source trees: the files of a directory or zip archive that somebody else wrote.

Every part of the program that reads a tree uses this module. `find` lists the files and `reader`
reads them. Files that are left out are counted by reason and named in a `Skipped`.

- Only regular files are read. Symbolic links below the root are never followed: a link may leave
  the tree, and the target of one that stays inside is read under its own name.
- Every limit applies to the bytes that are really read. The size in a zip header is not trusted: no
  more than it says is decompressed, and never more than the limits.
- Names are printable text. Bytes that are not UTF-8 and control characters are escaped.
"""

import errno
import io
import logging
import lzma
import os
import re
import stat
import struct
import tokenize
import zipfile
import zlib
from codecs import BOM_UTF8, lookup
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pkg_lib.core.reading import shown
from pkg_lib.core.store import LINK
from pkg_lib.core.types import UserError

log = logging.getLogger(__name__)

MAX_FILES = 200_000  # entries of a tree that are looked at
# Of one file: tree-sitter needs 60 bytes of memory for each byte of Java, and 220 for each byte of
# Python.
MAX_FILE_BYTES = 8 * 2**20
MAX_CHUNKED_BYTES = 4 * 2**20
MAX_TREE_BYTES = 512 * 2**20  # of the files of one tree that is held in memory
MAX_PYTHON_BYTES = 2**20  # of one Python file: `ast` may need 900 bytes of memory for each byte
MAX_PYTHON_TREE_BYTES = 256 * 2**20  # of all Python files of a tree: its graph repeats nested texts
MAX_ARCHIVE_BYTES = 512 * 2**20  # of a zip archive itself; its directory is held in memory
# Decompressed to compressed bytes of one member above RATIO_FROM. Source reaches about 20.
MAX_RATIO = 200
RATIO_FROM = 2**20
NAMED = 10  # names that a summary gives for each reason
NAME_CHARACTERS = 80  # of each name
NAMES_CHARACTERS = 200  # of all names in one line
REASONS_IN_ERROR = 3  # reasons that an error gives
NAMES_IN_ERROR = 130  # characters of all names in an error

NOT_REGULAR = "not a regular file"
UNREADABLE, UNREADABLE_DIRECTORY = "cannot be read", "directory cannot be read"
EMPTY = "empty"
TOO_MANY = f"beyond the first {MAX_FILES:,} entries of the tree"
TREE_FULL = "beyond the limit of {} MB for one tree"
OUTSIDE = "path leads out of the archive"
TWICE_IN_ARCHIVE = "stored again later in the archive"
ENCRYPTED = "encrypted"
METHOD = "compressed by an unsupported method"
RATIO = f"decompresses to more than {MAX_RATIO} times its size"
DAMAGED = "damaged in the archive"
BINARY = "binary (contains a NUL byte)"
NO_ENCODING = "not UTF-8, and no encoding is declared"
UNKNOWN_ENCODING = "declares an unknown encoding"
OTHER_ENCODING = "does not have the encoding that it declares"

_ARCHIVE_FAULTS = (
    zipfile.BadZipFile,
    RuntimeError,  # encrypted, or a version that `zipfile` does not know
    EOFError,
    ValueError,
    OverflowError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
)
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
_QUADRATIC_CODECS = {"punycode", "idna"}  # nobody writes source in these, and decoding takes hours
_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=]", re.ASCII)


class UnreadableFileError(Exception):
    """A file is left out; the message is the reason."""


@dataclass
class Skipped:
    """Files that were left out.

    Attributes:
        by_reason: Reason -> printable paths.
    """

    by_reason: dict[str, list[str]] = field(default_factory=dict)

    def add(self, path: str, reason: str) -> None:
        """Record one file.

        Args:
            path: Path below the root. It is escaped here if it cannot be printed.
            reason: Why it was left out, as a phrase.
        """
        self.by_reason.setdefault(reason, []).append(shown(path))

    def rows(self) -> list[tuple[str, str]]:
        """Return (path, reason) of every file, sorted."""
        return sorted((path, reason) for reason, paths in self.by_reason.items() for path in paths)

    def one_line_summary(self) -> str:
        """Return the most frequent reasons with a few names each, for an error.

        Returns:
            The reasons; "" if nothing was left out.
        """
        by_count = sorted(self.by_reason.items(), key=lambda item: -len(item[1]))
        most = dict(by_count[:REASONS_IN_ERROR])
        lines = Skipped(most).summary(NAMES_IN_ERROR // max(1, len(most)))
        if len(by_count) > len(most):
            lines.append(f"and for {len(by_count) - len(most)} other reasons")
        return "; ".join(lines)

    def summary(self, names_characters: int = NAMES_CHARACTERS) -> list[str]:
        """Return one line for each reason: the number of files, the reason, and up to ten names.

        Args:
            names_characters: Characters of the names of one reason. At least one name is given.
        """
        lines = []
        for reason, paths in self.by_reason.items():
            names: list[str] = []
            for path in paths[:NAMED]:
                name = path if len(path) <= NAME_CHARACTERS else f"...{path[-NAME_CHARACTERS:]}"
                if names and len(", ".join([*names, name])) > names_characters:
                    break
                names.append(name)
            if len(names) < len(paths):
                names.append("...")
            lines.append(f"{len(paths):,} skipped, {reason}: {', '.join(names)}")
        return lines

    def warn(self, root: str) -> None:
        """Log the summary as one warning, if anything was left out.

        Args:
            root: The tree's name for the user.
        """
        if self.by_reason:
            log.warning("%s", "\n".join(f"{shown(root)}: {line}" for line in self.summary()))


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a tree.

    Attributes:
        name: Printable path below the root with "/" between its parts, unique in the tree.
        place: The path as the file system or the archive has it; what `reader` takes.
        size: Bytes by the directory entry; what is read may differ.
    """

    name: str
    place: str
    size: int


@dataclass
class SourceTree:
    """The files of a tree that can be read as far as is known before reading them."""

    root: Path
    files: list[SourceFile]
    skipped: Skipped


def files_first(path: str) -> list[tuple[bool, str]]:
    """Return a sort key that puts the files of a directory before its subdirectories, as `os.walk` does.

    Args:
        path: A path with "/" between its parts.
    """
    *folders, name = path.split("/")
    return [*((True, folder) for folder in folders), (False, name)]


def ends_with(*suffixes: str) -> Callable[[str], bool]:
    """Return a test for file names.

    Args:
        suffixes: The suffixes, one of which a name must have.
    """
    return lambda name: name.endswith(suffixes)


def find(
    root: Path,
    wanted: Callable[[str], bool],
    ignored: Collection[str] = (),
    max_file: int = MAX_FILE_BYTES,
    max_tree: int | None = MAX_TREE_BYTES,
) -> SourceTree:
    """List the files of a directory or zip archive; read none of them.

    Args:
        root: A directory or a zip archive. It may itself be a symbolic link.
        wanted: Test of a file's name without its directories.
        ignored: Names of files and directories that are left out without being counted.
        max_file: Largest size in bytes of one file.
        max_tree: Largest size in bytes of all files; None for a caller that keeps none of them.

    Returns:
        The files sorted by the parts of their paths, and what was left out so far.

    Raises:
        UserError: `root` is neither a directory nor a zip archive, or cannot be read.
    """
    skipped = Skipped()
    if root.is_dir():
        entries = _in_directory(root, wanted, ignored, skipped)
    else:
        entries = _in_archive(root, wanted, ignored, skipped)
    files: list[SourceFile] = []
    names: set[str] = set()
    total = 0
    for place, size in sorted(entries, key=lambda entry: entry[0].split("/")):
        if size > max_file:
            skipped.add(place, too_large(max_file))
        elif max_tree is not None and total + size > max_tree:
            skipped.add(place, TREE_FULL.format(max_tree // 2**20))
        else:
            total += size
            name = _unique(shown(place), names)
            names.add(name)
            files.append(SourceFile(name, place, size))
    return SourceTree(root, files, skipped)


def too_large(limit: int) -> str:
    """Return the reason for a file that is too large.

    Args:
        limit: The largest size in bytes.
    """
    return f"larger than {limit / 2**20:g} MB"


def _unique(name: str, names: Collection[str]) -> str:
    """Return an unused name. An escaped name may equal the real name of another file."""
    number, free = 1, name
    suffix = Path(name).suffix  # it shows the language
    while free in names:
        number += 1
        free = f"{name.removesuffix(suffix)}#{number}{suffix}"
    return free


def _in_directory(
    root: Path, wanted: Callable[[str], bool], ignored: Collection[str], skipped: Skipped
) -> list[tuple[str, int]]:
    """(path below the root, size) of regular files."""
    found: list[tuple[str, int]] = []
    for place, entry in _entries(root, ignored, skipped):
        try:
            if entry.is_symlink():
                if _leads_to_directory(entry):
                    skipped.add(f"{place}/", LINK)
                elif wanted(entry.name):
                    skipped.add(place, LINK)
            elif not wanted(entry.name):
                continue
            elif entry.is_file(follow_symlinks=False):
                found.append((place, entry.stat(follow_symlinks=False).st_size))
            else:
                skipped.add(place, NOT_REGULAR)
        except OSError as e:  # it vanished, or its path is too long for the system
            skipped.add(place, f"{UNREADABLE}: {e.strerror}")
    return found


def _entries(
    root: Path, ignored: Collection[str], skipped: Skipped
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything below a directory but directories. A loop, since they nest without limit."""
    waiting, seen = [""], 0
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(root / folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as e:
            if not folder:
                raise UserError(f"{shown(str(root))} cannot be read: {e.strerror}") from e
            skipped.add(folder, f"{UNREADABLE_DIRECTORY}: {e.strerror}")
            continue
        for entry in entries:
            if entry.name in ignored:
                continue
            place = f"{folder}/{entry.name}" if folder else entry.name
            seen += 1
            if seen > MAX_FILES:
                skipped.add(place, TOO_MANY)
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(place)
            else:
                yield place, entry


def _leads_to_directory(link: os.DirEntry[str]) -> bool:
    with suppress(OSError):  # a loop of links
        return link.is_dir()
    return False


def _in_archive(
    root: Path, wanted: Callable[[str], bool], ignored: Collection[str], skipped: Skipped
) -> list[tuple[str, int]]:
    found: dict[str, int] = {}
    with _archive(root) as archive:
        for number, member in enumerate(archive.infolist()):
            parts = member.filename.split("/")
            if member.is_dir() or not wanted(parts[-1]) or set(parts) & set(ignored):
                continue
            if number >= MAX_FILES:
                skipped.add(member.filename, TOO_MANY)
            elif reason := _refused(member):
                skipped.add(member.filename, reason)
            else:
                if member.filename in found:  # the last one counts, as when the archive is unpacked
                    skipped.add(member.filename, TWICE_IN_ARCHIVE)
                found[member.filename] = member.file_size
    return list(found.items())


def _refused(member: zipfile.ZipInfo) -> str:
    """Why a member is not read; "" if it may be."""
    name, mode = member.filename, member.external_attr >> 16
    if "\\" in name or ".." in name.split("/") or re.match(r"/|[A-Za-z]:", name):
        return OUTSIDE
    if stat.S_ISLNK(mode):
        return LINK
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return NOT_REGULAR
    if member.flag_bits & 0x1:
        return ENCRYPTED
    if member.compress_type not in _METHODS:
        return METHOD
    if member.file_size > max(RATIO_FROM, MAX_RATIO * member.compress_size):
        return RATIO
    return ""


@contextmanager
def _archive(root: Path) -> Iterator[zipfile.ZipFile]:
    """An open zip archive; UserError for another file, or a damaged one."""
    name = shown(str(root))
    try:
        if not root.exists():
            raise UserError(f"{name}: no such directory or zip archive; check the path")
        if not root.is_file():
            raise UserError(f"{name} is neither a directory nor a zip archive")
        if root.stat().st_size > MAX_ARCHIVE_BYTES:
            limit = MAX_ARCHIVE_BYTES // 2**20
            raise UserError(f"{name} is larger than {limit} MB; unpack it and give the directory")
        archive = zipfile.ZipFile(root)
    except OSError as e:
        raise UserError(f"{name} cannot be read: {e.strerror or type(e).__name__}") from e
    except _ARCHIVE_FAULTS as e:
        raise UserError(f"{name} is not a zip archive, or is damaged ({shown(str(e))})") from e
    with archive:
        yield archive


@contextmanager
def reader(root: Path, max_file: int = MAX_FILE_BYTES) -> Iterator[Callable[[str], bytes]]:
    """Open a tree for reading.

    Args:
        root: A directory or a zip archive.
        max_file: Largest size in bytes of one file.

    Yields:
        A function from a file's `place` to its bytes. It raises `UnreadableFileError` with the reason.

    Raises:
        UserError: As for `find`.
    """
    if root.is_dir():
        yield lambda place: read_file(root / place, max_file)
    else:
        with _archive(root) as archive:
            yield lambda place: _member(archive, place, max_file)


def read_file(path: str | Path, limit: int = MAX_FILE_BYTES) -> bytes:
    """Read a regular file that may have become something else since it was listed.

    Args:
        path: The file.
        limit: Largest size in bytes.

    Raises:
        UnreadableFileError: It is a link, a pipe or a device, is too large, or cannot be read.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UnreadableFileError(NOT_REGULAR)
            data = file.read(limit + 1)
    except OSError as e:
        if e.errno == errno.ELOOP:  # what O_NOFOLLOW says of a link
            raise UnreadableFileError(LINK) from e
        if e.errno == errno.ENXIO:  # a socket, or a pipe that nobody writes to
            raise UnreadableFileError(NOT_REGULAR) from e
        raise UnreadableFileError(f"{UNREADABLE}: {e.strerror}") from e
    if len(data) > limit:
        raise UnreadableFileError(too_large(limit))
    return data


def _member(archive: zipfile.ZipFile, place: str, limit: int) -> bytes:
    """A member's bytes. `zipfile` ends at the header's size and then compares the checksum."""
    data = bytearray()
    try:
        member = archive.getinfo(place)
        # bzip2 and LZMA return all that a piece of input expands to, so pieces have to be small.
        deflated = member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        piece = 2**16 if deflated else 2**12
        with archive.open(member) as file:
            while part := file.read(piece):
                data += part
                if len(data) > limit:
                    raise UnreadableFileError(too_large(limit))
    except KeyError as e:
        raise UnreadableFileError(f"{UNREADABLE}: it is no longer in the archive") from e
    except (OSError, *_ARCHIVE_FAULTS) as e:
        raise UnreadableFileError(f"{DAMAGED} ({type(e).__name__})") from e
    return bytes(data)


def read_each(
    tree: SourceTree, max_file: int = MAX_FILE_BYTES
) -> Iterator[tuple[SourceFile, bytes]]:
    """Read the files of a tree one after another.

    Args:
        tree: What `find` returned; files that turn out to be unreadable join its `skipped`.
        max_file: Largest size in bytes of one file.

    Yields:
        Each file with its bytes.
    """
    with reader(tree.root, max_file) as read:
        for file in tree.files:
            try:
                yield file, read(file.place)
            except UnreadableFileError as e:
                tree.skipped.add(file.place, str(e))


def find_python(root: Path, ignored: Iterable[str] = ()) -> SourceTree:
    """List the Python files of a tree.

    Args:
        root: A directory or a zip archive.
        ignored: Names of files and directories that are left out without being counted.

    Raises:
        UserError: As for `find`.
    """
    return find(root, ends_with(".py"), set(ignored), MAX_PYTHON_BYTES, MAX_PYTHON_TREE_BYTES)


def python_texts(tree: SourceTree) -> Iterator[tuple[str, str]]:
    """Read the Python files of a tree.

    Args:
        tree: What `find_python` returned; files that turn out to be unreadable join its `skipped`.

    Yields:
        Each file's name and text, as `python_text` returns it.
    """
    for file, data in read_each(tree, MAX_PYTHON_BYTES):
        try:
            text = python_text(data)
        except UnreadableFileError as e:
            tree.skipped.add(file.place, str(e))
        else:
            yield file.name, text


def read_python(root: Path) -> dict[str, str]:
    """Read all Python files of a directory or zip archive, and log what was left out.

    Args:
        root: A directory or a zip archive.

    Returns:
        Name -> text, sorted by the parts of the names.

    Raises:
        UserError: As for `find`.
    """
    tree = find_python(root)
    texts = dict(python_texts(tree))
    tree.skipped.warn(str(root))
    return texts


def python_text(data: bytes) -> str:
    r"""Decode a Python file as Python does (PEP 263).

    Args:
        data: The file's bytes.

    Returns:
        Its text without a byte order mark and with "\n" at the ends of lines. It can be encoded as
        UTF-8.

    Raises:
        UnreadableFileError: The file has an unknown encoding, another one than it declares, or is binary.
    """
    # The declaration has a line of its own, whatever the line ends are.
    head = re.sub(rb"\r\n?", b"\n", data[: 2**16])
    first_lines = head.removeprefix(BOM_UTF8).decode("latin-1").split("\n")[:2]
    declared = any(_COOKIE.match(line) for line in first_lines)
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(head).readline)[0]
    except (SyntaxError, ValueError) as e:
        unknown = "unknown encoding" in str(e)
        reason = UNKNOWN_ENCODING if unknown else OTHER_ENCODING if declared else NO_ENCODING
        raise UnreadableFileError(reason) from e
    try:
        if lookup(encoding).name in _QUADRATIC_CODECS:
            raise UnreadableFileError(UNKNOWN_ENCODING)
        text = data.decode(encoding)
    except LookupError as e:  # rot13 and others, which are not text encodings
        raise UnreadableFileError(UNKNOWN_ENCODING) from e
    except ValueError as e:
        raise UnreadableFileError(OTHER_ENCODING if declared else NO_ENCODING) from e
    # A declaration that its own encoding cannot read (UTF-16) is wrong. Lone surrogates are wrong,
    # too.
    if declared and "coding" not in text[: 2**16]:
        raise UnreadableFileError(OTHER_ENCODING)
    try:
        text.encode("utf8")
    except UnicodeEncodeError as e:
        raise UnreadableFileError(OTHER_ENCODING) from e
    if "\0" in text:
        raise UnreadableFileError(BINARY)
    return text.replace("\r\n", "\n").replace("\r", "\n")
