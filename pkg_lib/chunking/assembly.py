"""A file to the pieces that become its chunks: lossless, as published or of a fixed size."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tree_sitter import Node

from pkg_lib.chunking.chunk_coverage import (
    BETWEEN,
    LAYOUT,
    LEAF,
    OUTSIDE,
    ChunkCoverage,
)
from pkg_lib.chunking.languages import children, parse, parse_errors
from pkg_lib.chunking.source import Source, Span
from pkg_lib.chunking.windows import Window, overlapping, pack

MAX_INDENT = 2000
MAX_HEADER = 2000  # characters of the definitions in a header
# The types of nodes that astchunk names in a header; of its languages, only Python has them.
DEFINITIONS = ("class_definition", "function_definition")


@dataclass(frozen=True, slots=True)
class Piece:
    """The bytes `start` to `stop` of a file as text.

    Attributes:
        start: First byte in the file.
        stop: Byte after the last one.
        text: The text.
        size: Number of characters without white space.
        definitions: First lines of the classes and functions around its first node, the outermost
            first.
    """

    start: int
    stop: int
    text: str
    size: int
    definitions: tuple[str, ...] = ()


def lossless(
    source: Source,
    coverage: ChunkCoverage,
    limit: int,
    method: str,
) -> list[Piece]:
    """Cut a file into pieces that joined are the file.

    White space between two windows belongs to the first one up to its last line end, so that a
    piece begins with the indentation of its first line.

    Args:
        source: The file.
        coverage: Record of the file, which is completed.
        limit: Largest size of a piece, in characters without white space.
        method: One of windows.TREE_METHODS.

    Returns:
        The pieces, in order.
    """
    end = len(source.data)
    coverage.bytes_in_chunks = end
    root = parse(source.data, coverage.language).root_node
    coverage.parse_errors = parse_errors(root)
    if not end:
        return []
    splitter = _Splitter(source, coverage, limit)
    whole = Span(0, end, root)
    windows = pack(whole, splitter.parts, source.size, limit, method)
    cuts = [0]
    for before, after in pairwise(windows):
        line_end = source.data.rfind(b"\n", before.end, after.start)
        cuts.append(line_end + 1 if line_end >= 0 else after.start)
    return _between(source, [*cuts, end])


def fixed_size(
    source: Source,
    coverage: ChunkCoverage,
    lines: int,
    step: int,
) -> list[Piece]:
    """Cut a file into windows of lines.

    Args:
        source: The file.
        coverage: Record of the file, which is completed.
        lines: Number of lines of a window.
        step: Number of lines from the start of a window to that of the next one.

    Returns:
        The windows, in order. The last one is the first that reaches the end of the file.
    """
    end = len(source.data)
    coverage.bytes_in_chunks = end
    starts = [0, *(newline + 1 for newline in source.newlines)]
    starts = [start for start in starts if start < end]
    pieces = []
    for first in range(0, len(starts), step):
        last = first + lines
        stop = starts[last] if last < len(starts) else end
        pieces.append(_piece(source, starts[first], stop))
        if stop == end:
            break
    return pieces


def _between(source: Source, cuts: list[int]) -> list[Piece]:
    """Make the pieces between neighbouring positions."""
    return [_piece(source, start, stop) for start, stop in pairwise(cuts)]


def _piece(source: Source, start: int, stop: int) -> Piece:
    text = source.text(start, stop)
    size = source.size(Span(start, stop))
    return Piece(start, stop, text, size)


class _Splitter:
    """Splits what is over the limit without leaving anything out.

    A node is split into its children and the text between them, a leaf into lines, and a line into
    runs of as many characters as fit.
    """

    def __init__(self, source: Source, coverage: ChunkCoverage, limit: int) -> None:
        self.source = source
        self.coverage = coverage
        self.limit = limit

    def parts(self, span: Span) -> Iterator[Span]:
        """Return the parts of a span that contain more than white space."""
        return filter(self.source.size, self._all_parts(span))

    def _all_parts(self, span: Span) -> Iterator[Span]:
        if span.node is not None and span.node.child_count:
            return self._children(span, span.node)
        newlines = self.source.newlines
        first = bisect_left(newlines, span.start)
        last = bisect_left(newlines, span.end - 1)
        if first == last:
            return self._runs(span)
        self.coverage.leaves_over += 1
        starts = (newline + 1 for newline in newlines[first:last])
        bounds = [span.start, *starts, span.end]
        return map(Span, bounds, bounds[1:])

    def _children(self, span: Span, node: Node) -> Iterator[Span]:
        position = span.start
        for child in children(node):
            yield Span(position, child.start_byte)
            yield Span(child.start_byte, child.end_byte, child)
            position = max(position, child.end_byte)
        yield Span(position, span.end)

    def _runs(self, span: Span) -> Iterator[Span]:
        size_before = self.source.characters_before
        start = span.start
        while start < span.end:
            most = size_before[start] + self.limit
            stop = bisect_right(size_before, most) - 1
            stop = min(stop, span.end)
            yield Span(start, stop)
            start = stop


def as_published(
    source: Source,
    coverage: ChunkCoverage,
    limit: int,
    method: str,
    overlap: int = 0,
) -> list[Piece]:
    """Cut a file as `astchunk` does; the module `chunker` says what that means.

    Args:
        source: The file.
        coverage: Record of the file, which is completed.
        limit: Largest size of a piece, in bytes without white space and without overlap.
        method: One of windows.TREE_METHODS.
        overlap: Number of nodes that a piece shares with each neighbour.

    Returns:
        The pieces, in order.
    """
    language = "tsx" if coverage.language == "typescript" else coverage.language
    root = parse(source.data, language).root_node
    coverage.parse_errors = parse_errors(root)
    dropped: list[Span] = []  # leaves over the limit

    def parts(span: Span) -> Iterator[Span]:
        assert span.node is not None
        if not span.node.child_count:
            dropped.append(span)
        definitions = span.definitions
        if span.node.type in DEFINITIONS:
            definitions = (*definitions, span.node)
        for child in children(span.node):
            yield Span(child.start_byte, child.end_byte, child, definitions)

    whole = Span(root.start_byte, root.end_byte, root)
    windows = pack(whole, parts, source.size_in_bytes, limit, method)
    pieces = []
    gaps: list[Span] = []  # between nodes, where astchunk's layout is not the file's
    for window in overlapping(windows, overlap):
        text, gaps_of_window = _published_text(source, window)
        gaps += gaps_of_window
        size = sum(map(source.size, window.spans))
        definitions = tuple(_first_line(source, node) for node in window.spans[0].definitions)
        pieces.append(Piece(window.start, window.end, text, size, definitions))
    kept = sum(piece.stop - piece.start for piece in pieces)
    if overlap and windows:
        # Together, the pieces hold every node and what is between two neighbouring nodes.
        together = Window([span for window in windows for span in window.spans])
        _, gaps = _published_text(source, together)
        kept = together.end - together.start
    coverage.bytes_in_chunks = kept - _length(gaps)
    coverage.leaves_over = len(dropped)
    coverage.lost = _lost(source, coverage, windows, dropped, gaps)
    return pieces


def header(path: str, definitions: tuple[str, ...]) -> str:
    """Return what astchunk's chunk expansion puts before a chunk.

    Args:
        path: Path of the file; "" for none.
        definitions: First lines of the classes and functions around the chunk, the outermost first.

    Returns:
        Path and definitions between two lines of quotes. Of definitions that are longer than
        MAX_HEADER characters, as on an endless line, the rest is left out.
    """
    quotes = "'''\n"
    text = quotes
    if path:
        text += f"{path}\n"
    indented = ["\t" * depth + line for depth, line in enumerate(definitions)]
    names = "\n".join(indented)[:MAX_HEADER]
    if names:
        text += f"{names}\n"
    return text + quotes


def _first_line(source: Source, node: Node) -> str:
    """Return the first line of a node's text, of which a header shows no more than MAX_HEADER."""
    end = min(node.end_byte, node.start_byte + 4 * MAX_HEADER)
    line_end = source.data.find(b"\n", node.start_byte, end)
    return source.text(node.start_byte, line_end if line_end >= 0 else end)


def _published_text(source: Source, window: Window) -> tuple[str, list[Span]]:
    """Return a window's text with astchunk's layout, and the gaps whose layout that changes.

    Between nodes astchunk writes the line ends, then as many spaces as the column of the next node.
    """
    data = source.data
    position = window.start
    column = source.column(position)
    # astchunk indents by the column: on an endless line, the whole file again in every chunk.
    parts = [b" " * column] if column <= MAX_INDENT else []
    gaps = []
    for before, after in pairwise(window.spans):
        gap = data[before.end : after.start]
        indent = len(gap) - gap.rfind(b"\n") - 1
        layout = b"\n" * gap.count(b"\n") + b" " * indent
        if gap and gap != layout:
            parts += [data[position : before.end], layout]
            gaps.append(Span(before.end, after.start))
            position = after.start
    parts.append(data[position : window.end])
    return b"".join(parts).decode("utf8", "surrogateescape"), gaps


def _lost(
    source: Source,
    coverage: ChunkCoverage,
    windows: list[Window],
    dropped: list[Span],
    gaps: list[Span],
) -> Counter[str]:
    """Count the bytes that are in no chunk, by reason."""
    lost: Counter[str] = Counter()
    lost[LEAF] = _length(dropped)
    in_windows = sum(window.size for window in windows)
    in_dropped = sum(map(source.size_in_bytes, dropped))
    lost[OUTSIDE] = source.bytes_before[-1] - in_windows - in_dropped
    dropped_starts = [span.start for span in dropped]
    for gap in gaps:
        # A dropped leaf may be between two windows that were joined.
        first = bisect_left(dropped_starts, gap.start)
        last = bisect_left(dropped_starts, gap.end)
        inside = dropped[first:last]
        lost[LAYOUT] += _white_bytes(source, [gap]) - _white_bytes(source, inside)
    lost[BETWEEN] = coverage.bytes_in - coverage.bytes_in_chunks - lost.total()
    return Counter({reason: count for reason, count in lost.items() if count})


def _length(spans: list[Span]) -> int:
    return sum(span.end - span.start for span in spans)


def _white_bytes(source: Source, spans: list[Span]) -> int:
    return _length(spans) - sum(map(source.size_in_bytes, spans))
