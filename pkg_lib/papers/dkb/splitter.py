"""The recursive character splitter (Section 6.1), as langchain's RecursiveCharacterTextSplitter.

A text is cut at blank lines. Pieces that are still too long are cut at line ends, then at spaces,
then anywhere. Positions are kept, so the lines of each chunk are known.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

# In characters, at most.
SIZE = 1000
OVERLAP = 100
SEPARATORS = ("\n\n", "\n", " ", "")
Span = tuple[int, int]


class TextChunk(NamedTuple):
    """A part of a file.

    Attributes:
        path: Path of the file.
        id: The path and the chunk's number from 0, as "path#number".
        text: Its text.
        first: First line, counted from 1.
        last: Last line, inclusive.
    """

    path: str
    id: str
    text: str
    first: int
    last: int


def chunks_of(
    path: str,
    text: str,
    size: int = SIZE,
    overlap: int = OVERLAP,
) -> list[TextChunk]:
    """Cut a file into chunks.

    Args:
        path: Path of the file.
        text: Its text.
        size: The most characters of a chunk.
        overlap: The most characters that neighbouring chunks share.

    Returns:
        The chunks in order; none if the file holds only white space.
    """
    chunks = []
    first = 1
    counted = 0
    for number, (start, end) in enumerate(split(text, size, overlap)):
        first += text.count("\n", counted, start)
        counted = start
        chunk = TextChunk(
            path=path,
            id=f"{path}#{number}",
            text=text[start:end],
            first=first,
            last=first + text.count("\n", start, end),
        )
        chunks.append(chunk)
    return chunks


def split(
    text: str,
    size: int = SIZE,
    overlap: int = OVERLAP,
) -> Iterator[Span]:
    """Cut a text.

    Args:
        text: The text.
        size: The most characters of a chunk.
        overlap: The most characters that neighbouring chunks share; less than `size`.

    Yields:
        Start and end of each chunk, without the white space around it.
    """
    whole = (0, len(text))
    for start, end in _split_span(text, whole, SEPARATORS, size, overlap):
        part = text[start:end]
        stripped = part.strip()
        if stripped:
            start += part.index(stripped)
            yield start, start + len(stripped)


def _split_span(
    text: str,
    span: Span,
    separators: Sequence[str],
    size: int,
    overlap: int,
) -> Iterator[Span]:
    """Cut a span at the first separator that occurs in it, and its long pieces at finer ones."""
    while separators[0] and text.find(separators[0], *span) < 0:
        separators = separators[1:]
    separator, *finer = separators
    small: list[Span] = []
    for piece in _cut_before(text, span, separator):
        start, end = piece
        if end - start < size:
            small.append(piece)
            continue
        yield from _merged(small, size, overlap)
        small = []
        if finer:
            yield from _split_span(text, piece, finer, size, overlap)
        else:
            yield piece
    yield from _merged(small, size, overlap)


def _cut_before(text: str, span: Span, separator: str) -> Iterator[Span]:
    """Cut a span before each separator, which stays at the start of what follows."""
    first, last = span
    pattern = re.compile(re.escape(separator))
    starts = [match.start() for match in pattern.finditer(text, first, last)]
    cuts = [start for start in starts if first < start < last]
    return pairwise([first, *cuts, last])


def _merged(
    pieces: list[Span],
    size: int,
    overlap: int,
) -> Iterator[Span]:
    """Join neighbouring pieces up to the size; the next chunk begins with what fits the overlap."""
    current: list[Span] = []
    for piece in pieces:
        _, end = piece
        if current and end - current[0][0] > size:
            first, last = _around(current)
            yield first, last
            # What the next chunk shares fits the overlap, and leaves room for the piece.
            earliest = max(last - overlap, end - size)
            current = [kept for kept in current if kept[0] >= earliest]
        current.append(piece)
    if current:
        yield _around(current)


def _around(pieces: list[Span]) -> Span:
    """Return the span from the first piece to the last."""
    start, _ = pieces[0]
    _, end = pieces[-1]
    return start, end
