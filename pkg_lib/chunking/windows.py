"""Algorithm 1 of cAST: pack the nodes of a syntax tree into windows that fit a size limit.

Read literally, the paper's listing drops a node that fits the limit but not the current window.
Here such a node opens the next window, as in the paper's Figure 2 and in the authors' package
`astchunk`. The stack is explicit, so deep trees cause no recursion.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from pkg_lib.chunking.source import Span

# cast: as the authors run it. algorithm-1: without merging. split-only: one window for each node
# that fits (Table 2).
TREE_METHODS = ("cast", "algorithm-1", "split-only")
# The baseline, which reads no tree: lines one after another, or windows that overlap.
LINE_METHODS = ("fixed-size", "sliding-window")
METHODS = TREE_METHODS + LINE_METHODS


@dataclass(slots=True)
class Window:
    """Neighbouring nodes that fit the limit together.

    Attributes:
        spans: The nodes, in the order of the file.
        size: Their size together, in the unit of the limit. Nodes that `overlapping` adds do not
            count.
    """

    spans: list[Span] = field(default_factory=list)
    size: int = 0

    @property
    def start(self) -> int:
        """First byte of the first node."""
        return self.spans[0].start

    @property
    def end(self) -> int:
        """Byte after the last node."""
        return self.spans[-1].end

    def add(self, spans: Iterable[Span], size: int) -> None:
        """Append nodes at the end of the window.

        Args:
            spans: The nodes, which follow the last one of the window in the file.
            size: Their size together, in the unit of the limit. It is passed so that they are not
                measured twice.
        """
        self.spans += spans
        self.size += size


@dataclass(slots=True)
class _Level:
    """A node that is being split: its remaining parts, and where its windows may be joined.

    A seam is the index of a window before which a part of the node began or ended.
    """

    parts: Iterator[Span]
    seams: list[int] = field(default_factory=list)


def pack(
    root: Span,
    parts_of: Callable[[Span], Iterable[Span]],
    size_of: Callable[[Span], int],
    limit: int,
    method: str = "cast",
) -> list[Window]:
    """Pack the nodes of a syntax tree into windows (function CHUNKNODES of Algorithm 1).

    Args:
        root: The whole tree. A tree that fits the limit is one window.
        parts_of: Splits a node that is over the limit into parts, in order.
        size_of: Measures a node.
        limit: Largest size of a window.
        method: One of TREE_METHODS. The method cast also joins the windows of a
            split node with their neighbours inside that node.

    Returns:
        The windows, in order.
    """
    windows: list[Window] = []
    spans = [root] if size_of(root) <= limit else parts_of(root)
    levels = [_Level(iter(spans))]
    window: Window | None = None
    while levels:
        level = levels[-1]
        for span in level.parts:
            size = size_of(span)
            if size > limit:
                window = None
                level.seams.append(len(windows))
                levels.append(_Level(iter(parts_of(span))))
                break
            if window is None or window.size + size > limit or method == "split-only":
                window = Window()
                windows.append(window)
            window.add([span], size)
        else:
            window = None
            levels.pop()
            if levels:
                seams = levels[-1].seams
                if method == "cast":
                    _join_at_seams(windows, level.seams, limit, first=seams[-1])
                seams.append(len(windows))
    return windows


def overlapping(windows: list[Window], nodes: int) -> list[Window]:
    """Extend each window by the nearest nodes of its neighbours, as astchunk's `chunk_overlap` does.

    Args:
        windows: The windows of a file, in order.
        nodes: Number of nodes that a window takes from the one before and from the one after it.

    Returns:
        As many windows. Their sizes may be over the limit.
    """
    if not nodes:
        return windows
    extended = []
    for i, window in enumerate(windows):
        before = windows[i - 1].spans[-nodes:] if i else []
        after = windows[i + 1].spans[:nodes] if i + 1 < len(windows) else []
        extended.append(Window([*before, *window.spans, *after], window.size))
    return extended


def _join_at_seams(
    windows: list[Window],
    seams: list[int],
    limit: int,
    first: int,
) -> None:
    """Join neighbours from `first` on that fit; away from seams none do."""
    removed = 0
    for seam in dict.fromkeys(seams):
        i = seam - removed
        if not first < i < len(windows):
            continue
        before = windows[i - 1]
        window = windows[i]
        if before.size + window.size <= limit:
            before.add(window.spans, window.size)
            del windows[i]
            removed += 1
