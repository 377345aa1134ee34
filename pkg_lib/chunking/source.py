"""The bytes of one file with what chunking asks of them in constant time: sizes, lines, columns."""

import re
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

_WHITE = b" \t\n\r\x0b\x0c"
_CONTINUES = range(0x80, 0xC0)  # the second to fourth byte of a UTF-8 character
_COUNTED_BYTES = bytes(b not in _WHITE for b in range(256))
_COUNTED_CHARACTERS = bytes(b not in _WHITE and b not in _CONTINUES for b in range(256))


class Source:
    """`data` and its prefix sums."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    @cached_property
    def utf8(self) -> bool:
        try:
            self.data.decode("utf8")
        except UnicodeDecodeError:
            return False
        return True

    @cached_property
    def bytes_before(self) -> Sequence[int]:
        """[n + 1]: how many bytes that are no white space stand before each place."""
        return self._before(_COUNTED_BYTES)

    @cached_property
    def characters_before(self) -> Sequence[int]:
        """[n + 1]: the same of characters; of bytes where the file is not UTF-8."""
        if self.data.isascii() or not self.utf8:
            return self.bytes_before
        return self._before(_COUNTED_CHARACTERS)

    def _before(self, counted: bytes) -> Sequence[int]:
        return array("i", accumulate(self.data.translate(counted), initial=0))

    @cached_property
    def newlines(self) -> Sequence[int]:
        return array("i", (match.start() for match in re.finditer(b"\n", self.data)))

    def lines(self, start: int, stop: int) -> tuple[int, int]:
        """First and last line, from 1, of a span of bytes; a line's newline belongs to it."""
        first = bisect_left(self.newlines, start) + 1
        return first, max(first, bisect_left(self.newlines, stop - 1) + 1)

    def column(self, start: int) -> int:
        """How many bytes stand before a place on its line."""
        line = bisect_left(self.newlines, start)
        return start - (self.newlines[line - 1] + 1 if line else 0)

    def text(self, start: int, stop: int) -> str:
        """Those bytes as text; what is not UTF-8 stays as surrogates (PEP 383), which `encode` turns back."""
        return self.data[start:stop].decode("utf8", "surrogateescape")


def encode(text: str) -> bytes:
    """The bytes of a text that came from bytes; lone surrogates that did not are kept as they are."""
    try:
        return text.encode("utf8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf8", "surrogatepass")
