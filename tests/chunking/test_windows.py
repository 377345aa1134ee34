"""Algorithm 1 on trees of our own, beside a recursive reading of the paper's listing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pkg_lib.chunking.source import Span
from pkg_lib.chunking.windows import pack

LIMIT = 5
trees = st.recursive(
    st.integers(0, 8), lambda inner: st.lists(inner, min_size=1, max_size=5), max_leaves=40
)


def placed(tree, start: int = 0):
    """(start, end, children) with sizes as bytes: a number is a leaf of that size, a list a node."""
    if isinstance(tree, int):
        return Span(start, start + tree, [])
    children, at = [], start
    for part in tree:
        children.append(placed(part, at))
        at = children[-1][1]
    return Span(start, at, children)


def length(span: Span) -> int:
    return span.end - span.start


def size(nodes) -> int:
    return sum(end - start for start, end, *_ in nodes)


def chunk_nodes(nodes, merge: bool):
    """CHUNKNODES of the listing, the node that does not fit opening the next chunk."""
    chunks, chunk = [], []
    for node in nodes:
        s = size([node])
        if size(chunk) + s > LIMIT:
            if chunk:
                chunks.append(chunk)
                chunk = []
            if s > LIMIT:
                inner = chunk_nodes(node[2], merge)
                chunks += merged(inner) if merge else inner
                continue
        chunk.append(node)
    return [*chunks, chunk] if chunk else chunks


def merged(chunks):
    found = chunks[:1]
    for chunk in chunks[1:]:
        if size(found[-1]) + size(chunk) <= LIMIT:
            found[-1] = found[-1] + chunk
        else:
            found.append(chunk)
    return found


def packed(tree, method="cast") -> list[list[tuple[int, int]]]:
    root = placed(tree)
    root = root._replace(end=root.end + LIMIT + 1)  # over the limit, so that it is split
    windows = pack(root, lambda span: span.node, length, LIMIT, method)
    assert [size(window.spans) for window in windows] == [window.size for window in windows]
    return [[span[:2] for span in window.spans] for window in windows]


@given(st.lists(trees, min_size=1, max_size=6), st.booleans())
def test_windows_are_those_of_the_recursive_listing(tree, merge):
    chunks = chunk_nodes(placed(tree)[2], merge)
    assert packed(tree, "cast" if merge else "algorithm-1") == [
        [n[:2] for n in chunk] for chunk in chunks
    ]


@given(st.lists(trees, min_size=1, max_size=6))
def test_split_only_gives_every_node_that_fits_its_own_window(tree):
    found = packed(tree, "split-only")
    assert all(len(window) == 1 for window in found)
    assert [w[0] for w in found] == [n for window in packed(tree) for n in window]


def test_merging_joins_across_levels_but_not_at_the_top():
    tree = [1, [1, [4, 3]], 1]
    assert packed(tree, "algorithm-1") == [[(0, 1)], [(1, 2)], [(2, 6)], [(6, 9)], [(9, 10)]]
    assert packed(tree) == [[(0, 1)], [(1, 2), (2, 6)], [(6, 9)], [(9, 10)]]


def test_depth_costs_no_recursion():
    tree = placed([3])
    for _ in range(20_000):
        tree = Span(0, tree.end + 1, [tree, Span(tree.end, tree.end + 1, [])])
    windows = pack(tree, lambda span: span.node, length, LIMIT)
    sizes = [window.size for window in windows]
    assert sum(sizes) == tree.end and max(sizes) == LIMIT
