"""The bytes of one file, with the sizes, lines and columns that chunking needs in constant time."""

import re
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from tree_sitter import Node

_WHITE = b" \t\n\r\x0b\x0c"
_CONTINUES = range(0x80, 0xC0)  # second to fourth byte of a UTF-8 character
_COUNTED_BYTES = bytes(b not in _WHITE for b in range(256))
_COUNTED_CHARACTERS = bytes(b not in _WHITE and b not in _CONTINUES for b in range(256))


class Span(NamedTuple):
    """The bytes `start` to `end` of a file.

    Attributes:
        start: First byte in the file.
        end: Byte after the last one.
        node: Their node, if it can be split.
        definitions: The classes and functions around the node, the outermost first. They are known
            where chunks are cut as published.
    """

    start: int
    end: int
    node: Node | None = None
    definitions: tuple[Node, ...] = ()


class Source:
    """The bytes of a file and their prefix sums.

    The sums and the positions of newlines are computed when they are first needed.

    Args:
        data: The bytes of the file, which need not be UTF-8.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data

    @cached_property
    def utf8(self) -> bool:
        """Whether the file is UTF-8."""
        try:
            self.data.decode("utf8")
        except UnicodeDecodeError:
            return False
        return True

    @cached_property
    def bytes_before(self) -> Sequence[int]:
        """Number of bytes other than white space before each position, [n + 1]."""
        return _prefix_sums(self.data, _COUNTED_BYTES)

    @cached_property
    def characters_before(self) -> Sequence[int]:
        """Number of characters other than white space before each position, [n + 1].

        A file that is not UTF-8 counts bytes.
        """
        if self.data.isascii() or not self.utf8:
            return self.bytes_before
        return _prefix_sums(self.data, _COUNTED_CHARACTERS)

    def size(self, span: Span) -> int:
        """Count the characters of a span other than white space.

        Args:
            span: A span of this file; only its positions matter.

        Returns:
            Number of characters. For a file that is not UTF-8, the number of bytes.
        """
        return self.characters_before[span.end] - self.characters_before[span.start]

    def size_in_bytes(self, span: Span) -> int:
        """Count the bytes of a span other than white space, which is the size that `astchunk` limits.

        Args:
            span: A span of this file; only its positions matter.

        Returns:
            Number of bytes. A character beyond ASCII has two to four.
        """
        return self.bytes_before[span.end] - self.bytes_before[span.start]

    @cached_property
    def newlines(self) -> Sequence[int]:
        """Positions of the newlines."""
        return array(
            "i",
            (match.start() for match in re.finditer(b"\n", self.data)),
        )

    def lines(self, start: int, stop: int) -> tuple[int, int]:
        """Find the lines that a span covers.

        Args:
            start: First byte of the span.
            stop: Byte after the last one. A newline belongs to the line that it ends.

        Returns:
            First and last line, counted from 1; the last one is inclusive. An empty span has one
            line.
        """
        first = bisect_left(self.newlines, start) + 1
        return first, max(first, bisect_left(self.newlines, stop - 1) + 1)

    def column(self, position: int) -> int:
        """Count the bytes before a position on its line.

        Args:
            position: Position of a byte in the file.

        Returns:
            The column, counted from 0. A tab counts as one byte.
        """
        line = bisect_left(self.newlines, position)
        return position - (self.newlines[line - 1] + 1 if line else 0)

    def text(self, start: int, stop: int) -> str:
        """Decode a span.

        Args:
            start: First byte of the span.
            stop: Byte after the last one.

        Returns:
            The text. Bytes that are not UTF-8 become surrogates (PEP 383), and so do the bytes of a
            character that the span cuts. `encode` turns them back into bytes.
        """
        return self.data[start:stop].decode("utf8", "surrogateescape")


def _prefix_sums(data: bytes, counted: bytes) -> Sequence[int]:
    """Count, for each position, the bytes before it that `counted` maps to 1."""
    return array("i", accumulate(data.translate(counted), initial=0))


def encode(text: str) -> bytes:
    """Turn the text of a span back into its bytes.

    Args:
        text: A text that `Source.text` decoded.

    Returns:
        The bytes of the file. In a text from elsewhere, other surrogates may occur. Then every
        surrogate is encoded as a character of its own, in three bytes.
    """
    try:
        return text.encode("utf8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf8", "surrogatepass")
