"""Read files that may be damaged or hostile: JSON, JSON lines and text, packed or plain.

A file is read as a stream, and only if it is a regular file. Its size, the length of a line, the
nesting of a value and the ratio of its compression are limited (core/limits.py). Every fault
becomes a `DamagedFileError`, which prints as "FILE, line N is damaged: why".
"""

import errno
import gzip
import hashlib
import io
import json
import math
import os
import stat
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

from pkg_lib.core.limits import (
    MAX_DAMAGED_ROWS,
    MAX_DEPTH,
    MAX_FILE_BYTES,
    MAX_RATIO,
    MAX_ROW_BYTES,
    MAX_TEXT_BYTES,
    RATIO_FROM,
)
from pkg_lib.core.types import UserError

PACKED = ".gz"
WHITE_SPACE = " \t\r\n"  # of JSON
BOM = b"\xef\xbb\xbf"
MEGABYTE = 2**20
CHUNK = MEGABYTE  # bytes read at a time
LONGEST_SHOWN = 60  # characters of a value in a message
CORRECT = "correct the file, or give another"

# What an error tells its reader to do. A function is called only if there is an error.
Advice = str | Callable[[Path], str]
# What a field must be: a type, several types, or the texts that are allowed.
Kind = type | tuple[type, ...] | frozenset[str]
Kinds = dict[str, Kind]
Fields = Kinds | Collection[str]
NUMBER = (int, float)
TEXT_OR_NONE = (str, type(None))
NAMES = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


class DamagedFileError(UserError):
    """A file that cannot be read, or that does not hold what it should."""

    @classmethod
    def of(
        cls,
        path: Path,
        why: str,
        line: int | None = None,
        advice: Advice = CORRECT,
    ) -> Self:
        """Build the error.

        Args:
            path: The damaged file.
            why: What is wrong with it.
            line: The damaged line, counted from 1; None if the whole file is meant.
            advice: What the reader of the message can do; "" if a longer message says it.
        """
        place = shown(str(path)) if line is None else f"{shown(str(path))}, line {line}"
        return cls._with_advice(f"{place} is damaged: {why}", path, advice)

    @classmethod
    def unreadable(
        cls,
        path: Path,
        error: OSError,
        advice: Advice = CORRECT,
    ) -> Self:
        """Build the error for a file that does not exist, or that the system refuses to read.

        Args:
            path: The file.
            error: What the system reported.
            advice: What the reader of the message can do.
        """
        name = shown(str(path))
        if isinstance(error, IsADirectoryError):  # not ours, so there is nothing to restore
            return cls(f"{name} is a directory, not a file")
        return cls._with_advice(f"{name} cannot be read: {error.strerror or error}", path, advice)

    @classmethod
    def _with_advice(cls, message: str, path: Path, advice: Advice) -> Self:
        text = advice if isinstance(advice, str) else advice(path)
        return cls(f"{message}; {text}" if text else message)


class Line(NamedTuple):
    """A line without its newline.

    Attributes:
        number: Counted from 1.
        text: Its bytes; None if the line is longer than a row may be.
        ended: Whether a newline follows it.
    """

    number: int
    text: bytes | None
    ended: bool

    @property
    def blank(self) -> bool:
        """Whether the line holds nothing but white space."""
        return self.text is not None and (not self.text or self.text.isspace())


class ScannedRow(NamedTuple):
    """A line of a JSONL file.

    Attributes:
        line: The line.
        value: Its object; None if the line is damaged.
        why: Why it is damaged; "" if it is not.
    """

    line: Line
    value: dict[str, Any] | None
    why: str

    @property
    def number(self) -> int:
        """The number of the line, counted from 1."""
        return self.line.number


def shown(path: str) -> str:
    """Return a path that can be printed, whatever bytes a file's name has.

    Args:
        path: The path.
    """
    safe = path.encode("utf8", "surrogateescape").decode("utf8", "backslashreplace")
    return safe if safe.isprintable() else repr(safe)[1:-1]


def printable(text: str, kept: str = "") -> str:
    """Escape line breaks and other characters that control a terminal.

    Args:
        text: Any text.
        kept: Such characters that stay.
    """
    return "".join(c if c.isprintable() or c in kept else repr(c)[1:-1] for c in text)


def brief(value: object) -> str:
    """Return a value as a message shows it: printable, with at most LONGEST_SHOWN characters.

    Args:
        value: A JSON value.
    """
    if isinstance(value, list | dict):
        return f"{NAMES[type(value)]} of {len(value)}"
    if isinstance(value, int) and abs(value) >= 2**63:
        return "a number of more than 18 digits"
    text = ascii(value[: LONGEST_SHOWN + 1]) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


# Paths and files


def absolute(path: str | Path) -> Path:
    """Return the absolute path of a file, with "~" and links followed as far as that is possible.

    A link that leads to itself and the home of an unknown user stay as they are, so that whoever
    opens the file reports them. `Path.resolve` and `Path.expanduser` would fail.

    Args:
        path: Any path.
    """
    return Path(os.path.realpath(expanded(path)))


def expanded(path: str | Path) -> Path:
    """Return a path with the home directory in place of "~", unless the user is unknown.

    Args:
        path: Any path.
    """
    with suppress(RuntimeError):
        return Path(path).expanduser()
    return Path(path)


def open_regular(path: Path) -> io.FileIO:
    """Open a file for reading, without a buffer, only if it is a regular file.

    Args:
        path: The file, or a link that leads to one.

    Raises:
        OSError: It cannot be opened, or it is a directory.
        DamagedFileError: It is a FIFO, a device or a socket.
    """
    # Without O_NONBLOCK, opening a FIFO would wait until somebody writes into it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        raise DamagedFileError(describe_obstacle(path))
    return io.FileIO(descriptor)


def is_there(path: Path) -> bool:
    """Return whether anything is at a path.

    A link that leads nowhere counts, since reading it reports the fault.

    Args:
        path: Any path.
    """
    return os.path.lexists(path)


def describe_obstacle(path: Path) -> str:
    """Describe what is at a path if it is not a regular file.

    Args:
        path: Where the file is, or will be written.

    Returns:
        A message of one line with advice; "" if a regular file or nothing is there.
    """
    name = shown(str(path))
    if path.is_dir():
        return f"{name} is a directory, not a file; move it away"
    if path.is_symlink() and not path.exists():
        return f"{name} is a link that leads to no file; move it away"
    if path.exists() and not path.is_file():
        return f"{name} is not a regular file; move it away"
    return ""


# Bytes and lines


class _LimitedReader(io.RawIOBase):
    """The unpacked bytes of a file, until a limit is exceeded (ValueError).

    Args:
        file: The file, of which `tell` gives the bytes taken so far.
        is_packed: Whether it is gzip, of one or more members.
        most: How many unpacked bytes it may hold.
    """

    def __init__(self, file: BinaryIO | io.FileIO, is_packed: bool, most: int) -> None:
        self._file = file
        self._source = gzip.GzipFile(fileobj=file) if is_packed else file
        self._is_packed, self._most = is_packed, most
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._source.read(len(buffer)) or b""
        self._given += len(data)
        if self._given > self._most:
            raise ValueError(f"it holds more than {self._most // MEGABYTE} MB")
        if self._is_packed:
            taken = self._file.tell()
            if not taken:
                raise ValueError("it is empty")
            if self._given > max(RATIO_FROM, MAX_RATIO * taken):
                raise ValueError(f"it unpacks to more than {MAX_RATIO} times its size")
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def _opened(
    path: Path,
    advice: Advice,
    most: int = MAX_FILE_BYTES,
) -> Iterator[io.BufferedReader]:
    """A file, packed if its name ends in ".gz", as a stream of at most `most` unpacked bytes.

    Raises:
        DamagedFileError: The file cannot be read, is not a regular file, is too large, or is not sound gzip.
            Reading the stream raises it as well.
    """
    try:
        with open_regular(path) as file:
            unpacked = _LimitedReader(file, path.suffix == PACKED, most)
            yield io.BufferedReader(unpacked, CHUNK)
    except EOFError as e:
        raise DamagedFileError.of(path, "it ends early", None, advice) from e
    except (gzip.BadGzipFile, zlib.error) as e:
        raise DamagedFileError.of(path, f"it is not sound gzip ({e})", None, advice) from e
    except OSError as e:
        raise DamagedFileError.unreadable(path, e, advice) from e
    except ValueError as e:
        raise DamagedFileError.of(path, str(e), None, advice) from e


def pack(data: bytes) -> bytes:
    """Compress the contents of a file so that this module reads them.

    Text that would unpack to more than MAX_RATIO times its size is stored without compression.

    Args:
        data: What the file will hold.

    Returns:
        The gzip file, without a time stamp.

    Raises:
        ValueError: The data are larger than MAX_FILE_BYTES.
    """
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"it would hold more than {MAX_FILE_BYTES // MEGABYTE} MB")
    packed = gzip.compress(data, mtime=0)
    unpacked = _LimitedReader(io.BytesIO(packed), True, MAX_FILE_BYTES)
    reader = io.BufferedReader(unpacked, CHUNK)
    try:
        while reader.read(CHUNK):
            pass
    except ValueError:
        packed = gzip.compress(data, compresslevel=0, mtime=0)
    return packed


def contents(
    path: Path,
    advice: Advice = CORRECT,
    most: int = MAX_FILE_BYTES,
) -> bytes:
    """Read the bytes of a file, unpacked if its name ends in ".gz".

    Args:
        path: The file.
        advice: What an error tells the reader to do.
        most: How many unpacked bytes the file may hold.

    Raises:
        DamagedFileError: It cannot be read, is not a regular file, is too large, or is not sound gzip.
    """
    with _opened(path, advice, most) as stream:
        return stream.read()


def read_text(path: Path, advice: Advice = CORRECT) -> str:
    """Read the text of a UTF-8 file, without a byte order mark.

    Args:
        path: The file, packed or plain.
        advice: What an error tells the reader to do.

    Raises:
        DamagedFileError: It cannot be read, is larger than MAX_TEXT_BYTES, or is not UTF-8.
    """
    data = contents(path, advice, MAX_TEXT_BYTES).removeprefix(BOM)
    try:
        return data.decode("utf8")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise DamagedFileError.of(path, "it is not UTF-8", line, advice) from e


def rows_sha256(path: Path) -> str:
    """Return the SHA-256 in hex of what a file holds, unpacked.

    A damaged file has a digest, too, which no sound file has. Whoever needs the file reports the
    damage.

    Args:
        path: The file, packed or plain.
    """
    try:
        with _opened(path, CORRECT) as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except DamagedFileError as e:
        return hashlib.sha256(str(e).encode()).hexdigest()


def lines(path: Path, advice: Advice = CORRECT) -> Iterator[Line]:
    """Yield the lines of a file, packed or plain, in little memory; without a byte order mark.

    Args:
        path: The file.
        advice: What an error tells the reader to do.

    Yields:
        Each line. A line longer than MAX_ROW_BYTES has no text.

    Raises:
        DamagedFileError: As for `contents`.
    """
    number = 0
    with _opened(path, advice) as stream:
        while text := stream.readline(MAX_ROW_BYTES + 1):
            number += 1
            part = text
            while len(part) > 1 and not part.endswith(b"\n"):
                part = stream.readline(CHUNK)  # the rest of a line that is too long
            ended = part.endswith(b"\n")
            text = text.removesuffix(b"\n")
            if number == 1:
                text = text.removeprefix(BOM)
            yield Line(number, text if len(text) <= MAX_ROW_BYTES else None, ended)


# JSON


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("it holds a number that is too large")
    return value


def _no_constant(name: str) -> float:
    raise ValueError(f"it holds {name}, which is not JSON")


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant)
_PYTHON_DECODER = json.JSONDecoder(parse_float=_finite)


def parse(text: bytes, constants: bool = False) -> Any:
    """Parse a JSON text in UTF-8.

    Args:
        text: The text.
        constants: Whether NaN, Infinity and -Infinity are numbers, as Python's json writes them.

    Raises:
        ValueError: It is not JSON, holds a number that is not finite or has thousands of digits, or
            is nested deeper than MAX_DEPTH. The message says which. For JSONDecodeError `lineno` is
            the line.
    """
    try:
        bare = text.decode("utf8").rstrip(WHITE_SPACE)
        start = len(bare) - len(bare.lstrip(WHITE_SPACE))
        decoder = _PYTHON_DECODER if constants else _DECODER
        # `decode` would look for white space with regular expressions, which is slower.
        value, end = decoder.raw_decode(bare, start)
        if end != len(bare):
            raise json.JSONDecodeError("Extra data", bare, end)
    except UnicodeDecodeError as e:
        raise ValueError(f"it is not UTF-8 (byte {e.start + 1})") from e
    except RecursionError as e:
        raise ValueError("it is nested too deep") from e
    except ValueError as e:
        if str(e).startswith("Exceeds the limit"):  # Python's own limit for integers
            raise ValueError("it holds a number of thousands of digits") from e
        raise
    brackets = text.count(b"[") + text.count(b"{")
    if brackets > MAX_DEPTH and isinstance(value, dict | list) and _deeper_than(value, MAX_DEPTH):
        raise ValueError("it is nested too deep")
    return value


def _deeper_than(value: Any, depth: int) -> bool:
    """Whether a JSON value has more than `depth` levels of objects and arrays."""
    level = [value]
    for _ in range(depth):
        below: list[Any] = []
        for container in level:
            children = container.values() if isinstance(container, dict) else container
            below += [child for child in children if isinstance(child, dict | list)]
        level = below
    return bool(level)


def reason_of(error: ValueError) -> str:
    """Describe an error of `parse` for a message to the user.

    Args:
        error: The error. If it is no JSONDecodeError, its message already is such a description.

    Returns:
        A phrase about the text, such as "it is nested too deep". It names the column of a syntax
        error, but not its line.
    """
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON ({error.msg}, column {error.colno})"
    return str(error)


def fault_of(
    row: Any,
    fields: Fields = (),
    optional: Kinds | None = None,
) -> str:
    """Describe why a value is not an object with certain fields.

    Args:
        row: A JSON value.
        fields: The fields that it must have, with what they must be where that matters.
        optional: What other fields must be, if they are there.

    Returns:
        A phrase; "" if it is such an object.
    """
    if not isinstance(row, dict):
        return f"it is {brief(row)}, not an object"
    for name in fields:
        if name not in row:
            return f"field {name} is missing"
    kinds = dict(optional or {})
    if isinstance(fields, dict):
        kinds |= fields
    for name, kind in kinds.items():
        if name in row and not _fits(row[name], kind):
            return f"field {name} is {brief(row[name])}, not {_name_of(kind)}"
    return ""


def _fits(value: Any, kind: Kind) -> bool:
    if isinstance(kind, frozenset):
        return isinstance(value, str) and value in kind
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if isinstance(value, bool):
        return bool in kinds
    if isinstance(value, int):
        return (int in kinds or float in kinds) and abs(value) < 2**63
    return isinstance(value, kinds)


def _name_of(kind: Kind) -> str:
    if isinstance(kind, frozenset):
        return f"one of {', '.join(sorted(kind))}"
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return " or ".join(NAMES[k] for k in kinds)


def scan(
    path: Path,
    fields: Fields = (),
    optional: Kinds | None = None,
    advice: Advice = CORRECT,
    blank: bool = False,
    constants: bool = False,
) -> Iterator[ScannedRow]:
    """Yield every line of a JSONL file, the damaged ones with the reason.

    Args:
        path: The file, packed or plain.
        fields: As for `fault_of`.
        optional: As for `fault_of`.
        advice: What an error about the whole file tells the reader to do.
        blank: Whether blank lines are skipped; otherwise they are damage.
        constants: As for `parse`.

    Raises:
        DamagedFileError: The file cannot be read, or has more than MAX_DAMAGED_ROWS damaged lines.
    """
    damaged = 0
    for line in lines(path, advice):
        if blank and line.blank:
            continue
        value, why = None, ""
        try:
            value = _row(line, fields, optional, constants)
        except ValueError as e:
            why = reason_of(e)
            damaged += 1
        if damaged > MAX_DAMAGED_ROWS:
            raise DamagedFileError.of(
                path, f"more than {MAX_DAMAGED_ROWS:,} lines are ({why})", None, advice
            )
        yield ScannedRow(line, value, why)


def _row(
    line: Line,
    fields: Fields,
    optional: Kinds | None,
    constants: bool,
) -> dict[str, Any]:
    """The object of a line; ValueError says why it has none."""
    if line.text is None:
        raise ValueError(f"it is longer than {MAX_ROW_BYTES // MEGABYTE} MB")
    if line.blank:
        raise ValueError("it is blank")
    value: dict[str, Any] = parse(line.text, constants)
    why = fault_of(value, fields, optional)
    if why:
        raise ValueError(why)
    return value


def rows(
    path: Path,
    fields: Fields = (),
    optional: Kinds | None = None,
    advice: Advice = CORRECT,
    blank: bool = False,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) of each line of a JSONL file, until one is damaged.

    Args:
        path: The file, packed or plain.
        fields: As for `fault_of`.
        optional: As for `fault_of`.
        advice: What an error tells the reader to do.
        blank: Whether blank lines are skipped; otherwise they are damage.

    Raises:
        DamagedFileError: A line is not such an object, or the file cannot be read.
    """
    for row in scan(path, fields, optional, advice, blank):
        if row.value is None:
            raise DamagedFileError.of(path, row.why, row.number, advice)
        yield row.number, row.value


def read_object(
    path: Path,
    fields: Fields = (),
    optional: Kinds | None = None,
    advice: Advice = CORRECT,
) -> dict[str, Any]:
    """Read the object of a JSON file.

    Args:
        path: The file.
        fields: As for `fault_of`.
        optional: As for `fault_of`.
        advice: What an error tells the reader to do.

    Raises:
        DamagedFileError: It is not a JSON object with these fields, or cannot be read.
    """
    data = contents(path, advice, MAX_TEXT_BYTES).removeprefix(BOM)
    try:
        value: dict[str, Any] = parse(data)
        why = fault_of(value, fields, optional)
        if why:
            raise ValueError(why)
    except ValueError as e:
        line = e.lineno if isinstance(e, json.JSONDecodeError) else None
        raise DamagedFileError.of(path, reason_of(e), line, advice) from e
    return value
