"""The recursive character splitter (Section 6.1): the chunks of langchain's `RecursiveCharacterTextSplitter`.

Text is cut at blank lines, else line ends, spaces, anywhere. Spans are kept, so each chunk's lines are known.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

SIZE, OVERLAP = 1000, 100  # characters, at most
SEPARATORS = ("\n\n", "\n", " ", "")
Span = tuple[int, int]


class TextChunk(NamedTuple):
    """A part of a file, with its lines from 1; `id` is path#number, from 0."""

    path: str
    id: str
    text: str
    first: int
    last: int


def chunks_of(path: str, text: str, size: int = SIZE, overlap: int = OVERLAP) -> list[TextChunk]:
    """A file's chunks; none where it holds only white space."""
    chunks, line, before = [], 1, 0
    for n, (start, end) in enumerate(split(text, size, overlap)):
        line, before = line + text.count("\n", before, start), start
        last = line + text.count("\n", start, end)
        chunks.append(TextChunk(path, f"{path}#{n}", text[start:end], line, last))
    return chunks


def split(text: str, size: int = SIZE, overlap: int = OVERLAP) -> Iterator[Span]:
    """(start, end) of each chunk without white space around it; the overlap is below the size."""
    for start, end in _recurse(text, (0, len(text)), SEPARATORS, size, overlap):
        part = text[start:end]
        if part.strip():
            yield start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())


def _recurse(
    text: str, span: Span, separators: tuple[str, ...], size: int, overlap: int
) -> Iterator[Span]:
    at = next(i for i, s in enumerate(separators) if not s or text.find(s, *span) >= 0)
    finer, small = separators[at + 1 :], []
    # The text is cut before each separator, which stays at the start of what follows.
    places = (m.start() for m in re.compile(re.escape(separators[at])).finditer(text, *span))
    for piece in pairwise([span[0], *(p for p in places if span[0] < p < span[1]), span[1]]):
        if piece[1] - piece[0] < size:
            small.append(piece)
            continue
        yield from _merged(small, size, overlap)
        small = []
        yield from _recurse(text, piece, finer, size, overlap) if finer else [piece]
    yield from _merged(small, size, overlap)


def _merged(pieces: list[Span], size: int, overlap: int) -> Iterator[Span]:
    """Neighbouring pieces joined up to the size; the next chunk begins with what fits the overlap."""
    current: list[Span] = []
    for start, end in pieces:
        if current and end - current[0][0] > size:
            last = current[-1][1]
            yield current[0][0], last
            while current and (last - current[0][0] > overlap or end - current[0][0] > size):
                del current[0]
        current.append((start, end))
    if current:
        yield current[0][0], current[-1][1]
