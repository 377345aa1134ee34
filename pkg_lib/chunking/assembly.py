"""Windows of nodes -> texts, by mode; and what the ledger has to say of them."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from tree_sitter import Node

from pkg_lib.chunking.account import BETWEEN, LAYOUT, LEAF, UNSEEN
from pkg_lib.chunking.languages import children, parse, parse_errors
from pkg_lib.chunking.source import Source
from pkg_lib.chunking.windows import Item, Windows, pack

MAX_INDENT = 2000


class Pieces(NamedTuple):
    """Columns of the chunks to be, and fields of the file's account."""

    starts: list[int]
    stops: list[int]
    texts: list[str]
    sizes: list[int]
    account: dict[str, Any]


def _pack(whole: Item, parts: Any, count: Sequence[int], limit: int, method: str) -> Windows:
    """The windows of a whole tree, which Algorithm 1 gives as it is where it fits."""
    fits = count[whole[1]] - count[whole[0]] <= limit
    items = [whole] if fits else list(parts(whole))
    return pack(items, parts, count, limit, merge=method == "cast", single=method == "split-only")


class _Whole:
    """Parts that leave nothing out: children, the text between them, lines of a leaf, pieces of a line."""

    def __init__(self, source: Source, limit: int) -> None:
        self.data, self.newlines, self.limit = source.data, source.newlines, limit
        self.count = source.characters_before
        self.leaves_over = self.lines_cut = 0

    def parts(self, item: Item) -> Iterator[Item]:
        whole = item[2] is None or not item[2].child_count
        return self._pieces(*item[:2]) if whole else self._children(*item)

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
    root, whole = parse(source.data, language).root_node, _Whole(source, limit)
    windows = _pack((0, size, root), whole.parts, whole.count, limit, method)
    cuts = [0]
    for head in windows.heads[1:]:  # a chunk begins with the indentation of its first node's line
        line_end = source.data.rfind(b"\n", windows.ends[head - 1], windows.starts[head])
        cuts.append(line_end + 1 if line_end >= 0 else windows.starts[head])
    account = {"bytes_in_chunks": size, "parse_errors": parse_errors(root)}
    account |= {"leaves_over": whole.leaves_over, "lines_cut": whole.lines_cut}
    return _tiles(source, [*cuts, size], windows.sizes, account)


def _tiles(source: Source, cuts: list[int], sizes: list[int], account: dict[str, Any]) -> Pieces:
    texts = [source.text(a, b) for a, b in pairwise(cuts)]
    return Pieces(cuts[:-1], cuts[1:], texts, sizes, account)


def published(source: Source, language: str, limit: int, method: str) -> Pieces:
    """What astchunk writes; see the module chunker for what that means."""
    root = parse(source.data, "tsx" if language == "typescript" else language).root_node
    over: list[tuple[int, int]] = []  # leaves over the limit, which are dropped
    anew: list[tuple[int, int]] = []  # gaps between nodes that are written anew

    def parts(item: Item) -> Iterator[Item]:
        if not item[2].child_count:
            over.append(item[:2])
        return ((c.start_byte, c.end_byte, c) for c in children(item[2]))

    windows = _pack(
        (root.start_byte, root.end_byte, root), parts, source.bytes_before, limit, method
    )
    spans = [
        list(zip(windows.starts[i:j], windows.ends[i:j], strict=True)) for i, j in windows.runs()
    ]
    texts = [_joined(source, nodes, anew) for nodes in spans]
    firsts, lasts = [nodes[0][0] for nodes in spans], [nodes[-1][1] for nodes in spans]
    count = source.characters_before
    sizes = [sum(count[end] - count[start] for start, end in nodes) for nodes in spans]
    kept = sum(lasts) - sum(firsts) - sum(end - start for start, end in anew)
    lost = _lost(source, sum(windows.sizes), over, anew, kept)
    account = {"bytes_in_chunks": kept, "lost": lost, "leaves_over": len(over)}
    return Pieces(firsts, lasts, texts, sizes, account | {"parse_errors": parse_errors(root)})


def _joined(source: Source, nodes: list[tuple[int, int]], anew: list[tuple[int, int]]) -> str:
    """A window's nodes with astchunk's layout: line ends, then spaces. `anew` gets the gaps that differ."""
    data, at = source.data, nodes[0][0]
    column = source.column(at)
    # astchunk indents by the column: on an endless line, the whole file again in every chunk.
    parts = [b" " * column] if column <= MAX_INDENT else []
    for (_, end), (start, _) in pairwise(nodes):
        gap = data[end:start]
        layout = b"\n" * gap.count(b"\n") + b" " * (len(gap) - gap.rfind(b"\n") - 1)
        if gap != layout and end != start:
            parts += [data[at:end], layout]
            anew.append((end, start))
            at = start
    return b"".join([*parts, data[at : nodes[-1][1]]]).decode("utf8", "surrogateescape")


def _lost(
    source: Source, size: int, over: list[tuple[int, int]], anew: list[tuple[int, int]], kept: int
) -> Counter[str]:
    """Bytes lost by reason, where windows of `size` without white space hold the bytes `kept`."""
    count = source.bytes_before

    def white(start: int, stop: int) -> int:
        return stop - start - (count[stop] - count[start])

    leaf = sum(b - a for a, b in over)
    words = count[len(source.data)] - size - sum(count[b] - count[a] for a, b in over)
    layout, heads = 0, [a for a, _ in over]
    for a, b in anew:  # a dropped leaf may lie between two windows that were merged
        inside = over[bisect_left(heads, a) : bisect_left(heads, b)]
        layout += white(a, b) - sum(white(c, d) for c, d in inside)
    between = len(source.data) - kept - leaf - words - layout
    lost = {LEAF: leaf, BETWEEN: between, LAYOUT: layout, UNSEEN: words}
    return Counter({reason: size for reason, size in lost.items() if size})


def fixed(source: Source, lines: int) -> Pieces:
    """So many lines a chunk."""
    size, count = len(source.data), source.characters_before
    bounds = [0, *(place + 1 for place in source.newlines)]
    cuts = [*(bound for bound in bounds[::lines] if bound < size), size]
    return _tiles(
        source, cuts, [count[b] - count[a] for a, b in pairwise(cuts)], {"bytes_in_chunks": size}
    )
