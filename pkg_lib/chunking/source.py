"""The bytes of one file with what chunking asks of them in constant time: sizes, lines, columns."""

from __future__ import annotations

from functools import cached_property

import numpy as np

_WHITE = np.zeros(256, bool)
_WHITE[list(b" \t\n\r\x0b\x0c")] = True
_CONTINUES = np.zeros(256, bool)
_CONTINUES[0x80:0xC0] = True  # the second to fourth byte of a UTF-8 character


class Source:
    """`data` and its prefix sums."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.codes = np.frombuffer(data, np.uint8)

    @cached_property
    def utf8(self) -> bool:
        try:
            self.data.decode("utf8")
        except UnicodeDecodeError:
            return False
        return True

    @cached_property
    def bytes_before(self) -> memoryview:
        """[n + 1]: how many bytes that are no white space stand before each place."""
        return memoryview(_before(~_WHITE[self.codes]))

    @cached_property
    def characters_before(self) -> memoryview:
        """[n + 1]: how many characters that are no white space stand before each place; bytes where it is not UTF-8."""
        if self.data.isascii() or not self.utf8:
            return self.bytes_before
        return memoryview(_before(~_WHITE[self.codes] & ~_CONTINUES[self.codes]))

    @cached_property
    def newlines(self) -> np.ndarray:
        return np.flatnonzero(self.codes == 10)

    def lines(self, starts: list[int], stops: list[int]) -> tuple[list[int], list[int]]:
        """First and last line, from 1, of each span of bytes; a line's newline belongs to it."""
        first = np.searchsorted(self.newlines, starts, "left") + 1
        last = np.searchsorted(self.newlines, np.asarray(stops, np.int64) - 1, "left") + 1
        return first.tolist(), np.maximum(first, last).tolist()

    def columns(self, starts: list[int]) -> list[int]:
        """How many bytes stand before each place on its line."""
        ends = np.searchsorted(self.newlines, starts, "left")
        line_starts = np.concatenate([[0], self.newlines + 1])[ends]
        return (np.asarray(starts, np.int64) - line_starts).tolist()

    def text(self, start: int, stop: int) -> str:
        """Those bytes as text; what is not UTF-8 stays as surrogates (PEP 383), which `encode` turns back."""
        return self.data[start:stop].decode("utf8", "surrogateescape")


def encode(text: str) -> bytes:
    """The bytes of a text that came from bytes; lone surrogates that did not are kept as they are."""
    try:
        return text.encode("utf8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf8", "surrogatepass")


def _before(marks: np.ndarray) -> np.ndarray:
    found = np.zeros(len(marks) + 1, np.int32)
    np.cumsum(marks, out=found[1:])
    return found
