"""Windows of nodes -> texts, by mode; and what the ledger has to say of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tree_sitter import Node

from pkg_lib.chunking.account import BETWEEN, LAYOUT, LEAF, UNSEEN
from pkg_lib.chunking.languages import children, parse, parse_errors
from pkg_lib.chunking.source import Source
from pkg_lib.chunking.windows import Item, Windows, pack

MAX_INDENT = 2000


@dataclass(slots=True)
class Pieces:
    """Columns of the chunks to be, and the fields of the file's account."""

    starts: list[int]
    stops: list[int]
    texts: list[str]
    sizes: list[int]
    account: dict[str, Any] = field(default_factory=dict)


def _pack(whole: Item, parts: Any, count: Sequence[int], limit: int, method: str) -> Windows:
    """The windows of a whole tree, which Algorithm 1 gives as it is where it fits."""
    fits = count[whole[1]] - count[whole[0]] <= limit
    items = [whole] if fits else list(parts(whole))
    return pack(items, parts, count, limit, merge=method == "cast", single=method == "split-only")


# ---- lossless


class _Whole:
    """Parts that leave nothing out: children, the text between them, lines of a leaf, pieces of a line."""

    def __init__(self, source: Source, limit: int) -> None:
        self.data, self.newlines, self.limit = source.data, source.newlines, limit
        self.count = source.characters_before
        self.leaves_over = self.lines_cut = 0

    def parts(self, item: Item) -> Iterator[Item]:
        start, end, node = item
        if node is None or not node.child_count:
            return self._pieces(start, end)
        return self._children(start, end, node)

    def _children(self, start: int, end: int, node: Node) -> Iterator[Item]:
        count, at = self.count, start
        for child in children(node):
            first, last = child.start_byte, child.end_byte
            if count[first] > count[at]:
                yield at, first, None
            if count[last] > count[first]:
                yield first, last, child
            at = max(at, last)
        if count[end] > count[at]:
            yield at, end, None

    def _pieces(self, start: int, end: int) -> Iterator[Item]:
        """Lines of a leaf over the limit; of a line over it, runs of as many characters as fit."""
        i, j = bisect_left(self.newlines, start), bisect_left(self.newlines, end - 1)
        if i == j:
            self.lines_cut += 1
            return self._runs(start, end)
        self.leaves_over += 1
        bounds = [start, *(place + 1 for place in self.newlines[i:j]), end]
        return ((a, b, None) for a, b in pairwise(bounds) if self.count[b] > self.count[a])

    def _runs(self, start: int, end: int) -> Iterator[Item]:
        while start < end:
            stop = min(end, bisect_right(self.count, self.count[start] + self.limit) - 1)
            yield start, stop, None
            start = stop


def lossless(source: Source, language: str, limit: int, method: str) -> Pieces:
    """Chunks that tile the file: white space between two goes to the first up to its last line end."""
    size = len(source.data)
    if not size:
        return Pieces([], [], [], [], {"bytes_in_chunks": 0, "parse_errors": 0})
    tree = parse(source.data, language)
    whole, item = _Whole(source, limit), (0, size, tree.root_node)
    windows = _pack(item, whole.parts, whole.count, limit, method)
    cuts = [0, *(_cut(source.data, windows, head) for head in windows.heads[1:]), size]
    starts, stops = cuts[:-1], cuts[1:]
    texts = [source.text(a, b) for a, b in zip(starts, stops, strict=True)]
    account = {"bytes_in_chunks": size, "parse_errors": parse_errors(tree.root_node)}
    account |= {"leaves_over": whole.leaves_over, "lines_cut": whole.lines_cut}
    return Pieces(starts, stops, texts, windows.sizes, account)


def _cut(data: bytes, windows: Windows, head: int) -> int:
    """Where the chunk of this first node begins: with the indentation, if it is the first of its line."""
    before, start = windows.ends[head - 1], windows.starts[head]
    line_end = data.rfind(b"\n", before, start)
    return line_end + 1 if line_end >= 0 else start


# ---- as published


def published(source: Source, language: str, limit: int, method: str) -> Pieces:
    """What astchunk writes; see the module chunker for what that means."""
    count = source.bytes_before
    tree = parse(source.data, "tsx" if language == "typescript" else language)
    root = tree.root_node
    over: list[tuple[int, int]] = []

    def parts(item: Item) -> Iterator[Item]:
        if not item[2].child_count:
            over.append(item[:2])
        return ((c.start_byte, c.end_byte, c) for c in children(item[2]))

    windows = _pack((root.start_byte, root.end_byte, root), parts, count, limit, method)
    return _written(source, windows, over, parse_errors(root))


def _written(source: Source, windows: Windows, over: list[tuple[int, int]], errors: int) -> Pieces:
    starts, ends = windows.starts, windows.ends
    runs = list(windows.runs())
    firsts = [starts[i] for i, _ in runs]
    lasts = [ends[j - 1] for _, j in runs]
    anew: list[tuple[int, int]] = []
    texts = []
    for (i, j), first in zip(runs, firsts, strict=True):
        column = source.column(first)
        # astchunk indents by the column: on an endless line, the whole file again in every chunk.
        indent = " " * column if column <= MAX_INDENT else ""
        texts.append(indent + _joined(source, starts, ends, i, j, anew))
    sizes = _sizes(source, windows, runs)
    kept = sum(lasts) - sum(firsts) - sum(b - a for a, b in anew)
    lost = _lost(source, windows, over, anew, kept)
    account = {"bytes_in_chunks": kept, "lost": lost, "leaves_over": len(over), "parse_errors": errors}
    return Pieces(firsts, lasts, texts, sizes, account)


def _joined(
    source: Source, starts: list[int], ends: list[int], i: int, j: int, anew: list[tuple[int, int]]
) -> str:
    """Nodes i to j - 1 with what astchunk writes between: as many line ends, then spaces up to the column.

    Appends to `anew` the gaps that are something else in the file.
    """
    data, parts, at = source.data, [], starts[i]
    for k in range(i + 1, j):
        end, start = ends[k - 1], starts[k]
        if end == start:
            continue
        gap = data[end:start]
        rows = gap.count(b"\n")
        layout = b"\n" * rows + b" " * (len(gap) - gap.rfind(b"\n") - 1)
        if gap != layout:
            parts += [data[at:end], layout]
            anew.append((end, start))
            at = start
    return b"".join([*parts, data[at : ends[j - 1]]]).decode("utf8", "surrogateescape")


def _sizes(source: Source, windows: Windows, runs: list[tuple[int, int]]) -> list[int]:
    count = source.characters_before
    if count is source.bytes_before:
        return windows.sizes
    starts, ends = windows.starts, windows.ends
    return [sum(count[ends[k]] - count[starts[k]] for k in range(i, j)) for i, j in runs]


def _lost(
    source: Source, windows: Windows, over: list[tuple[int, int]], anew: list[tuple[int, int]], kept: int
) -> Counter[str]:
    count = source.bytes_before
    leaf = sum(b - a for a, b in over)
    words = count[len(source.data)] - sum(windows.sizes) - sum(count[b] - count[a] for a, b in over)
    white = sum(_white(count, a, b) for a, b in anew)
    if anew and over:  # a dropped leaf between two windows that were merged
        heads = [a for a, _ in over]
        for a, b in anew:
            inside = over[bisect_left(heads, a) : bisect_left(heads, b)]
            white -= sum(_white(count, c, d) for c, d in inside)
    between = len(source.data) - kept - leaf - words - white
    lost = {LEAF: leaf, BETWEEN: between, LAYOUT: white, UNSEEN: words}
    return Counter({reason: size for reason, size in lost.items() if size})


def _white(count: Sequence[int], start: int, stop: int) -> int:
    return stop - start - (count[stop] - count[start])


# ---- fixed size


def fixed(source: Source, lines: int) -> Pieces:
    """So many lines a chunk."""
    size, count = len(source.data), source.characters_before
    bounds = [0, *(place + 1 for place in source.newlines)]
    cuts = [*(bound for bound in bounds[::lines] if bound < size), size]
    texts = [source.text(a, b) for a, b in pairwise(cuts)]
    sizes = [count[b] - count[a] for a, b in pairwise(cuts)]
    return Pieces(cuts[:-1], cuts[1:], texts, sizes, {"bytes_in_chunks": size})
