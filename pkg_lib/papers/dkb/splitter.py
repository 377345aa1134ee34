"""The recursive character splitter (Section 6.1): chunks of at most 1,000 characters that overlap by at most 100.

The same chunks as `RecursiveCharacterTextSplitter` of langchain-text-splitters gives by default, as spans of the text, so that
each chunk's lines are known. Text is cut at blank lines, where that is too coarse at line ends, then spaces, then anywhere.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

SIZE, OVERLAP = 1000, 100
SEPARATORS = ("\n\n", "\n", " ", "")
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a file; `first` and `last` are its lines, from 1; `number` its place in the file, from 0."""

    path: str
    number: int
    text: str
    first: int
    last: int

    @property
    def id(self) -> str:
        return f"{self.path}#{self.number}"


def chunks_of(path: str, text: str, size: int = SIZE, overlap: int = OVERLAP) -> list[Chunk]:
    """A file's chunks; none where it holds only white space."""
    ends = [m.start() for m in re.finditer("\n", text)]
    spans = split(text, size, overlap)
    lines = [(bisect_right(ends, a - 1) + 1, bisect_right(ends, b - 2) + 1) for a, b in spans]
    return [Chunk(path, n, text[a:b], *at) for n, ((a, b), at) in enumerate(zip(spans, lines, strict=True))]


def split(text: str, size: int = SIZE, overlap: int = OVERLAP) -> list[Span]:
    """(start, end) of each chunk, white space around it left out. ValueError where the overlap is not below the size."""
    if not 0 <= overlap < size:
        raise ValueError(f"overlap {overlap} is not below the size {size}")
    found = (_stripped(text, span) for span in _recurse(text, (0, len(text)), SEPARATORS, size, overlap))
    return [(a, b) for a, b in found if a < b]


def _recurse(text: str, span: Span, separators: tuple[str, ...], size: int, overlap: int) -> Iterator[Span]:
    at = next(i for i, s in enumerate(separators) if not s or text.find(s, *span) >= 0)
    finer, small = separators[at + 1 :], []
    for piece in _pieces(text, span, separators[at]):
        if piece[1] - piece[0] < size:
            small.append(piece)
            continue
        yield from _merged(text, small, size, overlap)
        small = []
        if finer:
            yield from _recurse(text, piece, finer, size, overlap)
        else:
            yield piece
    yield from _merged(text, small, size, overlap)


def _pieces(text: str, span: Span, separator: str) -> Iterator[Span]:
    """The text cut before each separator, which stays at the start of what follows."""
    start, end = span
    if not separator:
        yield from ((i, i + 1) for i in range(start, end))
        return
    at = text.find(separator, start, end)
    while at >= 0:
        if at > start:
            yield start, at
        start, at = at, text.find(separator, at + len(separator), end)
    if start < end:
        yield start, end


def _merged(text: str, pieces: Iterable[Span], size: int, overlap: int) -> Iterator[Span]:
    """Neighbouring pieces joined up to the size; the next chunk begins with as many of them as fit into the overlap."""
    current: list[Span] = []
    for piece in pieces:
        length = piece[1] - piece[0]
        if current and piece[1] - current[0][0] > size:
            yield current[0][0], current[-1][1]
            while current and (
                current[-1][1] - current[0][0] > overlap or current[-1][1] - current[0][0] + length > size
            ):
                del current[0]
        current.append(piece)
    if current:
        yield current[0][0], current[-1][1]


def _stripped(text: str, span: Span) -> Span:
    part = text[slice(*span)]
    return span[0] + len(part) - len(part.lstrip()), span[1] - len(part) + len(part.rstrip())
