"""Algorithm 1 of the paper: a syntax tree's nodes -> windows, each a run of nodes that fits the limit.

Read to the letter the listing drops a node that fits the limit and not the current window; it opens the next
window instead, as in Figure 2 and in the authors' `astchunk`. That also merges the windows of a split node
with their neighbours inside it where both fit (`merge`). The stack is explicit: depth costs no recursion.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

Item = tuple[int, int, Any]  # first byte, byte after the last, what `expand` needs to split it


@dataclass(slots=True)
class Windows:
    """Window i: nodes heads[i] to heads[i + 1] - 1; `starts`, `ends` are of nodes, `sizes` of windows."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    heads: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def runs(self) -> Iterator[tuple[int, int]]:
        """(first node, node after the last) of each window."""
        return pairwise([*self.heads, len(self.starts)])


def pack(
    items: Iterable[Item],
    expand: Callable[[Item], Iterable[Item]],
    count: Sequence[int],
    limit: int,
    *,
    merge: bool = True,
    single: bool = False,
) -> Windows:
    """CHUNKNODES. `count[i]`: size of the first i bytes; `single`: one node a window (Table 2)."""
    windows = Windows()
    starts, ends, heads, sizes = windows.starts, windows.ends, windows.heads, windows.sizes
    # Of every node that is being split: its parts to come, the windows before which a part began or ended.
    stack: list[tuple[Iterator[Item], list[int]]] = [(iter(items), [])]
    size, is_open = 0, False
    while stack:
        parts, seams = stack[-1]
        for item in parts:
            start, end, _ = item
            extra = count[end] - count[start]
            if size + extra > limit or single:
                size, is_open = 0, False
                if extra > limit:
                    seams.append(len(heads))
                    stack.append((iter(expand(item)), []))
                    break
            if not is_open:
                heads.append(len(starts))
                sizes.append(0)
                is_open = True
            starts.append(start)
            ends.append(end)
            size += extra
            sizes[-1] = size
        else:
            size, is_open = 0, False
            stack.pop()
            if stack:
                if merge and not single:
                    _merge(heads, sizes, seams, limit, first=stack[-1][1][-1])
                stack[-1][1].append(len(heads))
    return windows


def _merge(heads: list[int], sizes: list[int], seams: list[int], limit: int, first: int) -> None:
    """Joins neighbours from `first` on where both fit: at seams, since other neighbours are too large."""
    gone = 0
    for seam in dict.fromkeys(seams):
        i = seam - gone
        if first < i < len(heads) and sizes[i - 1] + sizes[i] <= limit:
            sizes[i - 1] += sizes[i]
            del heads[i], sizes[i]
            gone += 1
