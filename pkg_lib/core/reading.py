"""Read files that may be damaged or hostile: JSON, JSON lines and text, packed or plain.

A file is read as a stream, and only if it is a regular file. Its size, the length of a line, the nesting of a
value and the ratio of its compression are limited (core/limits.py). Every fault becomes a `Damaged`, which
prints as "FILE, line N is damaged: why".
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
from contextlib import suppress
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
PACKED_CHUNK, CHUNK = 2**16, MEGABYTE  # bytes read or unpacked at a time
LONGEST_SHOWN = 60  # characters of a value in a message
CORRECT = "correct the file, or give another"

# What an error tells its reader to do. A function is called only where there is an error.
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
}
NAMES |= {dict: "an object", type(None): "null"}


class Damaged(UserError):
    """A file that cannot be read, or not as what it should be."""

    @classmethod
    def of(cls, path: Path, why: str, line: int | None = None, advice: Advice = CORRECT) -> Self:
        """Build the error.

        Args:
            path: The damaged file.
            why: What is wrong with it.
            line: The damaged line, counted from 1; None if the whole file is meant.
            advice: What the reader of the message can do; "" if a longer message says it.
        """
        if not isinstance(advice, str):
            advice = advice(path)
        place = shown(str(path)) if line is None else f"{shown(str(path))}, line {line}"
        return cls(
            f"{place} is damaged: {why}; {advice}" if advice else f"{place} is damaged: {why}"
        )

    @classmethod
    def unreadable(cls, path: Path, error: OSError, advice: Advice = CORRECT) -> Self:
        """Build the error for a file that is not there, or that the system refuses to read."""
        name = shown(str(path))
        if isinstance(
            error, IsADirectoryError
        ):  # what it holds is not ours, so there is nothing to restore
            return cls(f"{name} is a directory, not a file")
        advice = advice if isinstance(advice, str) else advice(path)
        told = f"{name} cannot be read: {error.strerror or error}"
        return cls(f"{told}; {advice}" if advice else told)


class Line(NamedTuple):
    """A line without its newline.

    `text` is None if the line is longer than a row may be; `ended` tells whether a newline follows it.
    """

    number: int
    text: bytes | None
    ended: bool

    @property
    def blank(self) -> bool:
        """Whether the line holds nothing but white space."""
        return self.text is not None and (not self.text or self.text.isspace())


class ScannedRow(NamedTuple):
    """A line of a JSONL file: its object, or None and `why` it has none."""

    line: Line
    value: dict[str, Any] | None
    why: str

    @property
    def number(self) -> int:
        """The number of the line, counted from 1."""
        return self.line.number


def shown(path: str) -> str:
    """A path that can be printed, whatever bytes a file's name has."""
    safe = path.encode("utf8", "surrogateescape").decode("utf8", "backslashreplace")
    return safe if safe.isprintable() else repr(safe)[1:-1]


def brief(value: object) -> str:
    """A value as a message shows it: printable, and never longer than LONGEST_SHOWN characters."""
    if isinstance(value, list | dict):
        return f"{NAMES[type(value)]} of {len(value)}"
    if isinstance(value, int) and abs(value) >= 2**63:
        return "a number of more than 18 digits"
    text = ascii(value[: LONGEST_SHOWN + 1]) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


# Bytes and lines


def absolute(path: str | Path) -> Path:
    """The absolute path of a file, with "~" and links followed as far as that is possible.

    A link that leads to itself and the home of an unknown user stay as they are, so that whoever opens the
    file reports them. `Path.resolve` and `Path.expanduser` would fail.
    """
    return Path(os.path.realpath(expanded(path)))


def expanded(path: str | Path) -> Path:
    """A path with the home directory in place of "~"; the home of an unknown user stays as it is."""
    with suppress(RuntimeError):
        return Path(path).expanduser()
    return Path(path)


def open_regular(path: Path) -> io.FileIO:
    """Open a file for reading, without a buffer, only if it is a regular file.

    Args:
        path: The file, or a link that leads to one.

    Raises:
        OSError: It cannot be opened, or it is a directory.
        Damaged: It is a FIFO, a device or a socket.
    """
    # Without O_NONBLOCK the opening of a FIFO would wait for somebody to write into it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        raise Damaged(in_the_way(path))
    return io.FileIO(descriptor)


def is_there(path: Path) -> bool:
    """Whether there is anything at a path. A link that leads nowhere counts: reading it reports it."""
    return os.path.lexists(path)


def in_the_way(path: Path) -> str:
    """What is at a path where only a regular file can be read or replaced; "" if there is one, or nothing.

    Args:
        path: Where the file is, or shall be written.

    Returns:
        A message of one line with advice.
    """
    name = shown(str(path))
    if path.is_dir():
        return f"{name} is a directory, not a file; move it away"
    if path.is_symlink() and not path.exists():
        return f"{name} is a link that leads to no file; move it away"
    if path.exists() and not path.is_file():
        return f"{name} is not a regular file; move it away"
    return ""


def chunks(path: Path, advice: Advice = CORRECT, most: int = MAX_FILE_BYTES) -> Iterator[bytes]:
    """Yield the bytes of a regular file part by part; those of a packed file unpacked.

    Args:
        path: The file; it is packed if its name ends in ".gz".
        advice: What an error tells the reader to do.
        most: How many bytes the file may hold.

    Raises:
        Damaged: It cannot be read, is no regular file, is too large, or is not sound gzip.
    """
    total = 0
    try:
        with open_regular(path) as file:
            for part in (
                _unpacked(file) if path.suffix == PACKED else iter(lambda: file.read(CHUNK), b"")
            ):
                total += len(part)
                if total > most:
                    raise ValueError(f"it holds more than {most // MEGABYTE} MB")
                yield part
    except OSError as e:
        raise Damaged.unreadable(path, e, advice) from e
    except zlib.error as e:
        reason = str(e).rpartition(": ")[2]
        raise Damaged.of(path, f"it is not sound gzip ({reason})", None, advice) from e
    except ValueError as e:
        raise Damaged.of(path, str(e), None, advice) from e


def pack(data: bytes) -> bytes:
    """Compress the contents of a file so that `chunks` reads them.

    Text that would unpack to more than MAX_RATIO times its size is stored without compression.

    Args:
        data: What the file shall hold.

    Returns:
        The gzip file, without a time stamp.

    Raises:
        ValueError: The data are larger than MAX_FILE_BYTES.
    """
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"it would hold more than {MAX_FILE_BYTES // MEGABYTE} MB")
    packed = gzip.compress(data, mtime=0)
    try:
        for _ in _unpacked(io.BytesIO(packed)):
            pass
    except ValueError:
        packed = gzip.compress(data, compresslevel=0, mtime=0)
    return packed


def _unpacked(file: BinaryIO) -> Iterator[bytes]:
    """Yield what a gzip file of one or more members holds; ValueError if it ends early or grows too much."""
    member = zlib.decompressobj(wbits=31)
    taken = given = 0
    while data := file.read(PACKED_CHUNK):
        taken += len(data)
        part = b""
        while (
            data or len(part) == CHUNK
        ):  # a whole part may have more behind it, without further input
            if member.eof:
                data = data.lstrip(b"\0")  # the padding that the format allows
                if not data:
                    break
                member = zlib.decompressobj(wbits=31)
            part = member.decompress(data, CHUNK)
            data = member.unused_data if member.eof else member.unconsumed_tail
            given += len(part)
            if given > max(RATIO_FROM, MAX_RATIO * (taken - len(data))):
                raise ValueError(f"it unpacks to more than {MAX_RATIO} times its size")
            if part:
                yield part
    if not taken:
        raise ValueError("it is empty")
    if not member.eof:
        raise ValueError("it ends early")


def contents(path: Path, advice: Advice = CORRECT, most: int = MAX_FILE_BYTES) -> bytes:
    """The bytes of a file, unpacked if it is packed; arguments and errors are those of `chunks`."""
    return b"".join(chunks(path, advice, most))


def read_text(path: Path, advice: Advice = CORRECT) -> str:
    """The text of a UTF-8 file, without a byte order mark.

    Raises:
        Damaged: It cannot be read, is larger than MAX_TEXT_BYTES, or is not UTF-8.
    """
    data = contents(path, advice, MAX_TEXT_BYTES).removeprefix(BOM)
    try:
        return data.decode("utf8")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise Damaged.of(path, "it is not UTF-8", line, advice) from e


def contents_sha256(path: Path) -> str:
    """SHA-256 in hex of what a file holds, unpacked; of a damaged file, which counts as another, its own."""
    whole = hashlib.sha256()
    try:
        for part in chunks(path):
            whole.update(part)
    except Damaged as e:
        whole = hashlib.sha256(str(e).encode())
    return whole.hexdigest()


def lines(path: Path, advice: Advice = CORRECT) -> Iterator[Line]:
    """Yield the lines of a file, packed or plain; a byte order mark before the first is dropped.

    Memory stays within a few parts of the file, however long its lines are.

    Raises:
        Damaged: As `chunks`.
    """
    number = 1
    begun: list[bytes] = []  # the parts of the line that no newline has ended yet
    size = 0
    for part in chunks(path, advice):
        first, *others = part.split(b"\n")
        size += len(first)
        if size <= MAX_ROW_BYTES:
            begun.append(first)
        if not others:
            continue
        yield Line(number, _joined(begun, size, number), True)
        for text in others[:-1]:
            number += 1
            yield Line(number, text, True)
        number += 1
        begun, size = [others[-1]], len(others[-1])
    if size:
        yield Line(number, _joined(begun, size, number), False)


def _joined(parts: list[bytes], size: int, number: int) -> bytes | None:
    if size > MAX_ROW_BYTES:
        return None
    text = b"".join(parts)
    return text.removeprefix(BOM) if number == 1 else text


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
    """The value of a JSON text in UTF-8.

    Args:
        text: The text.
        constants: Whether NaN, Infinity and -Infinity are numbers, as Python's json writes them.

    Raises:
        ValueError: It is not JSON, holds a number that is not finite or has thousands of digits, or is nested
            deeper than MAX_DEPTH. The message says which. For JSONDecodeError `lineno` is the line.
    """
    try:
        bare = text.decode("utf8").rstrip(WHITE_SPACE)
        # Faster than `decode`, which looks for white space with regular expressions.
        decoder = _PYTHON_DECODER if constants else _DECODER
        value, end = decoder.raw_decode(bare, len(bare) - len(bare.lstrip(WHITE_SPACE)))
        if end != len(bare):
            raise json.JSONDecodeError("Extra data", bare, end)
    except UnicodeDecodeError as e:
        raise ValueError(f"it is not UTF-8 (byte {e.start + 1})") from e
    except RecursionError as e:
        raise ValueError("it is nested too deep") from e
    except ValueError as e:
        if str(e).startswith("Exceeds the limit"):  # Python's own for integers
            raise ValueError("it holds a number of thousands of digits") from e
        raise
    if text.count(b"[") + text.count(b"{") > MAX_DEPTH and _deeper_than(value, MAX_DEPTH):
        raise ValueError("it is nested too deep")
    return value


def _deeper_than(value: Any, depth: int) -> bool:
    level = [value]
    while level and depth > 0:
        values = (
            v.values() if isinstance(v, dict) else v for v in level if isinstance(v, dict | list)
        )
        level = [child for of in values for child in of if isinstance(child, dict | list)]
        depth -= 1
    return bool(level)


def reason_of(error: ValueError) -> str:
    """What a message says of an error of `parse`."""
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON ({error.msg}, column {error.colno})"
    return str(error)


def fault_of(row: Any, fields: Fields = (), optional: Kinds | None = None) -> str:
    """Why a value is not an object with these fields; "" if it is.

    Args:
        row: A JSON value.
        fields: The fields that it must have, with what they must be where that matters.
        optional: What other fields must be, if they are there.
    """
    if not isinstance(row, dict):
        return f"it is {brief(row)}, not an object"
    for name in fields:
        if name not in row:
            return f"field {name} is missing"
    for kinds in (fields, optional):
        if not isinstance(kinds, dict):
            continue
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
        return bool({int, float} & {*kinds}) and abs(value) < 2**63
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
        blank: Whether blank lines are passed over; otherwise they are damage.
        constants: As for `parse`.

    Raises:
        Damaged: The file cannot be read, or has more than MAX_DAMAGED_ROWS damaged lines.
    """
    damaged = 0
    for line in lines(path, advice):
        if blank and line.blank:
            continue
        row = _row(line, fields, optional, constants)
        damaged += row.value is None
        if damaged > MAX_DAMAGED_ROWS:
            raise Damaged.of(
                path, f"more than {MAX_DAMAGED_ROWS:,} lines are ({row.why})", None, advice
            )
        yield row


def _row(line: Line, fields: Fields, optional: Kinds | None, constants: bool) -> ScannedRow:
    try:
        return ScannedRow(line, _value(line, fields, optional, constants), "")
    except ValueError as e:
        return ScannedRow(line, None, reason_of(e))


def _value(
    line: Line, fields: Fields, optional: Kinds | None, constants: bool = False
) -> dict[str, Any]:
    """The object of a line; ValueError says why it has none."""
    if line.text is None:
        raise ValueError(f"it is longer than {MAX_ROW_BYTES // MEGABYTE} MB")
    try:
        value = parse(line.text, constants)
    except ValueError:
        if line.blank:
            raise ValueError("it is blank") from None
        raise
    if why := fault_of(value, fields, optional):
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
        blank: Whether blank lines are passed over; otherwise they are damage.

    Raises:
        Damaged: A line is not such an object, or the file cannot be read.
    """
    for line in lines(path, advice):
        if blank and line.blank:
            continue
        try:
            value = _value(line, fields, optional)
        except ValueError as e:
            raise Damaged.of(path, reason_of(e), line.number, advice) from e
        yield line.number, value


def read_object(
    path: Path, fields: Fields = (), optional: Kinds | None = None, advice: Advice = CORRECT
) -> dict[str, Any]:
    """The object that a JSON file holds.

    Args:
        path: The file.
        fields: As for `fault_of`.
        optional: As for `fault_of`.
        advice: What an error tells the reader to do.

    Raises:
        Damaged: It is not a JSON object with these fields, or cannot be read.
    """
    data = contents(path, advice, MAX_TEXT_BYTES).removeprefix(BOM)
    try:
        value = parse(data)
    except json.JSONDecodeError as e:
        raise Damaged.of(path, reason_of(e), e.lineno, advice) from e
    except ValueError as e:
        raise Damaged.of(path, str(e), None, advice) from e
    if why := fault_of(value, fields, optional):
        raise Damaged.of(path, why, None, advice)
    return value
