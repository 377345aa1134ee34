"""Algorithm 1 on random trees, compared with a recursive implementation of the paper's listing."""

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
    """Convert a tree of sizes into spans.

    Args:
        tree: An integer is a leaf of that size; a list is a node with these children.
        start: Offset of the tree.
    """
    if isinstance(tree, int):
        return Span(start, start + tree, [])
    children = []
    end = start
    for part in tree:
        child = placed(part, end)
        children.append(child)
        end = child.end
    return Span(start, end, children)


def length(span: Span) -> int:
    return span.end - span.start


def size(nodes) -> int:
    """The total length of nodes, each of which starts with its start and end."""
    return sum(end - start for start, end, *_ in nodes)


def chunk_nodes(nodes, merge: bool):
    """CHUNKNODES of the listing, where a node that does not fit starts the next chunk."""
    chunks, chunk = [], []
    for node in nodes:
        node_size = size([node])
        if size(chunk) + node_size > LIMIT:
            if chunk:
                chunks.append(chunk)
                chunk = []
            if node_size > LIMIT:
                inner = chunk_nodes(node[2], merge)
                chunks += merged(inner) if merge else inner
                continue
        chunk.append(node)
    return [*chunks, chunk] if chunk else chunks


def merged(chunks):
    """Join each chunk with the one before if both fit the limit."""
    found = chunks[:1]
    for chunk in chunks[1:]:
        if size(found[-1]) + size(chunk) <= LIMIT:
            found[-1] = found[-1] + chunk
        else:
            found.append(chunk)
    return found


def offsets(chunks) -> list[list[tuple[int, int]]]:
    """The start and end of each node of each chunk."""
    return [[node[:2] for node in chunk] for chunk in chunks]


def packed(tree, method="cast") -> list[list[tuple[int, int]]]:
    """The start and end of each node in each window of a tree."""
    root = placed(tree)
    root = root._replace(end=root.end + LIMIT + 1)  # over the limit, so that it is split
    windows = pack(root, lambda span: span.node, length, LIMIT, method)
    for window in windows:
        assert size(window.spans) == window.size
    return offsets(window.spans for window in windows)


@given(st.lists(trees, min_size=1, max_size=6), st.booleans())
def test_windows_equal_the_chunks_of_the_recursive_listing(tree, merge):
    chunks = chunk_nodes(placed(tree)[2], merge)
    method = "cast" if merge else "algorithm-1"
    assert packed(tree, method) == offsets(chunks)


@given(st.lists(trees, min_size=1, max_size=6))
def test_split_only_gives_each_node_that_fits_its_own_window(tree):
    found = packed(tree, "split-only")
    assert all(len(window) == 1 for window in found)
    nodes = [node for window in packed(tree) for node in window]
    assert [window[0] for window in found] == nodes


def test_merging_joins_across_levels_but_not_at_the_top():
    tree = [1, [1, [4, 3]], 1]
    assert packed(tree, "algorithm-1") == [[(0, 1)], [(1, 2)], [(2, 6)], [(6, 9)], [(9, 10)]]
    assert packed(tree) == [[(0, 1)], [(1, 2), (2, 6)], [(6, 9)], [(9, 10)]]


def test_a_deep_tree_does_not_exceed_the_recursion_limit():
    tree = placed([3])
    for _ in range(20_000):
        leaf = Span(tree.end, tree.end + 1, [])
        tree = Span(0, tree.end + 1, [tree, leaf])
    windows = pack(tree, lambda span: span.node, length, LIMIT)
    sizes = [window.size for window in windows]
    assert sum(sizes) == tree.end
    assert max(sizes) == LIMIT
