"""One query, step by step: ranked nodes, options of pruning, context (Section 3.2)."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path

from pkg_lib.core.reading import shown
from pkg_lib.core.registry import Registry
from pkg_lib.core.types import Context, Task, UserError
from pkg_lib.data.corpora import DEFAULT, check_name, is_text
from pkg_lib.graph import bolt, disk
from pkg_lib.graph.nodes import BLOCK, IMPL, PATHVALUE
from pkg_lib.graph.schema import Graph
from pkg_lib.retrieval.augment import Augmented
from pkg_lib.retrieval.code_base import below_folder, kept_bm25
from pkg_lib.retrieval.embed import Embedder
from pkg_lib.retrieval.index import INDEXES, FlatIndex, HNSWIndex
from pkg_lib.retrieval.knowledge import Knowledge
from pkg_lib.retrieval.methods import knowledge_of
from pkg_lib.retrieval.prune import GUARDED, prune, pruning_options
from pkg_lib.retrieval.ranking import Positions, Scores
from pkg_lib.retrieval.retrievers import BlockPKG, FuncPKG, GraphNodes

UNITS: Registry[type[GraphNodes]] = Registry(
    "unit",
    {
        "function": FuncPKG,
        "block": BlockPKG,
    },
)
# The node types that a saved graph is searched for.
KINDS: Registry[int] = Registry(
    "unit",
    {
        "function": IMPL,
        "block": BLOCK,
        "leaf": PATHVALUE,
    },
)
RANKED_NODES = 10  # in an explanation
LINE_CHARS = 100


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a method did for a query.

    Attributes:
        graph: The graph of the corpus.
        nodes: The nearest nodes, best first.
        cosines: Their cosines to the query (Equation 5).
        without: The cosine of the best node without each of its branches (Equation 7), by branch;
            key -1 is the whole node.
        removed: The branch that pruning removed, or -1.
        context: The context for the prompt.
        called: The context's text with the functions that were put before it.
    """

    graph: Graph
    nodes: list[int]
    cosines: list[float]
    without: dict[int, float]
    removed: int
    context: Context
    called: Augmented


def explain(
    knowledge: Knowledge,
    query: str,
    unit: str = "function",
    pruning: str = GUARDED,
    calls: int = 0,
) -> Explanation:
    """Retrieve for a query as Func-PKG or Block-PKG does, and record each step.

    Args:
        knowledge: A corpus of code.
        query: What the code should do.
        unit: A name in ``UNITS``.
        pruning: A name in ``PRUNINGS``.
        calls: How many characters of called functions to put before the unit.

    Returns:
        The steps. Pruning is shown with all its options, whatever ``pruning`` is.

    Raises:
        UserError: The query is empty, a name is unknown, or the corpus has no such units.
    """
    retriever = UNITS.get_or_fail(unit)(knowledge, pruning, calls)
    if not query.strip():
        raise UserError("the query is empty; write what the code should do")
    task = Task("query", "", query, "")
    (context,) = retriever.retrieve([task])
    vectors = knowledge.embedder.encode([query])
    (nodes,), (cosines,) = retriever.nearest(vectors, RANKED_NODES)
    best = knowledge.graph, nodes[0], vectors[0], knowledge.embedder
    options = pruning_options(*best, GUARDED)
    return Explanation(
        knowledge.graph,
        nodes,
        cosines,
        without={option.branch: option.score for option in options},
        removed=prune(*best, pruning).branch,
        context=context,
        called=retriever.augmented.get(task.id, Augmented("")),
    )


def first_line(graph: Graph, node: int) -> str:
    """Return the line that names a statement, for a terminal or a figure.

    Args:
        graph: The graph of the node.
        node: An IMPL or BLOCK node.

    Returns:
        The first line after the decorators, at most ``LINE_CHARS`` long. The lines of a signature
        are joined.
    """
    lines = [line.strip() for line in graph.payload(node).split("\n")]
    without_decorators = list(dropwhile(lambda line: line.startswith("@"), lines))
    line, *continuations = without_decorators or lines
    for continuation in continuations:
        if not line.endswith(("(", "[", ",")) or len(line) >= LINE_CHARS:
            break
        line += f" {continuation}" if line.endswith(",") else continuation
    line = shown(line)  # without characters that move a terminal's cursor
    return line if len(line) <= LINE_CHARS else f"{line[: LINE_CHARS - 1]}…"


def knowledge_of_code(corpus: str) -> Knowledge:
    """Load a corpus of code for ``explain``.

    Args:
        corpus: The name of a corpus.

    Returns:
        Its knowledge base.

    Raises:
        UserError: The corpus is unknown or unavailable, or it is text, which has no branches.
    """
    check_name(corpus)
    if is_text(corpus):
        raise UserError(
            f"corpus {corpus} is text, which is not pruned; choose one of code: {DEFAULT}"
        )
    knowledge: Knowledge = knowledge_of(corpus)
    return knowledge


def search(
    place: str,
    queries: list[str],
    encoder: Embedder,
    unit: str = "function",
    index: str = "flat",
    top: int = 10,
) -> Iterator[str]:
    """Find the nodes of a saved graph that are nearest to each query (Equation 5).

    Args:
        place: A directory, or the address of a graph in a graph database.
        queries: What the code should do.
        encoder: The embedder. For a database it must be the one of the stored vectors.
        unit: A name in ``KINDS``.
        index: A name in ``INDEXES``. An HNSW index is kept in the directory.
        top: How many nodes to find for each query.

    Yields:
        A line per node, best first: its cosine, its place and its first line.

    Raises:
        UserError: A name is unknown, or the graph is unavailable, damaged or without such nodes.
    """
    kind = KINDS.get_or_fail(unit)
    make_index = INDEXES.get_or_fail(index)
    with bolt.opened(place) if "://" in place else nullcontext() as database:
        graph = database.load() if database else disk.load(Path(place))
        nodes = graph.first_of_each_text(kind)
        if not len(nodes):
            raise UserError(
                f"{place} has no {unit} nodes; choose another --unit: {', '.join(KINDS)}"
            )
        if database is None:
            vectors = encoder.encode(graph.payloads(nodes))
        else:
            vectors = database.vectors(kind, encoder.name)
    stored = Path(place, f"index-{disk.payloads_digest(graph.texts)}.{encoder.folder}.{unit}.hnsw")
    if index == "hnsw" and stored.exists():
        searcher: FlatIndex = HNSWIndex.load(stored, vectors)
    else:
        searcher = make_index(vectors)
        if isinstance(searcher, HNSWIndex) and not database:
            searcher.save(stored)
    positions, cosines = searcher.search(encoder.encode(queries), top)
    for position, cosine in zip(positions.flat, cosines.flat, strict=True):
        if position >= 0:  # an approximate search may find fewer nodes
            node = nodes[position]
            yield f"{cosine:.3f}  {graph.where(node)}  {first_line(graph, node)}"


def search_code(
    knowledge: Knowledge,
    query: str,
    unit: str = "function",
    top: int = 10,
    folder: str = "",
) -> Iterator[str]:
    """Search code by words and by meaning.

    The lines of BM25 come first, since they need no vectors. The first search by meaning encodes
    the whole code base.

    Args:
        knowledge: A corpus of code.
        query: What the code should do.
        unit: What to find: a name in ``UNITS``.
        top: How many nodes to find in each way.
        folder: The directory of the code, if the corpus is one.

    Yields:
        For each way a heading, then a line per node, best first: its score, its place and its first
        line.

    Raises:
        UserError: The unit is unknown, the query is empty, or the corpus has no such nodes.
    """
    retriever = UNITS.get_or_fail(unit)(knowledge)
    if not query.strip():
        raise UserError("the query is empty; write what the code should do")
    graph = knowledge.graph
    nodes = retriever.candidates()
    yield "by words (BM25):"
    positions, scores = kept_bm25(knowledge, unit, nodes).search([query], top)
    matching = scores[0] > 0
    if not matching.any():
        yield "  no word of the query is in the code"
    yield from _lines(graph, nodes[positions[0][matching]], scores[0][matching], folder)
    yield f"by meaning ({knowledge.embedder.name}):"
    vector = knowledge.embedder.encode([query])
    found, cosines = knowledge.nearest(retriever.kind, vector, top, nodes)
    yield from _lines(graph, found[0], cosines[0], folder)


def _lines(
    graph: Graph,
    nodes: Positions,
    scores: Scores,
    folder: str = "",
) -> Iterator[str]:
    for node, score in zip(nodes.tolist(), scores.tolist(), strict=True):
        place = below_folder(graph.where(node), folder)
        yield f"  {score:6.3f}  {place}  {first_line(graph, node)}"
