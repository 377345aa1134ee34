"""One query, step by step: the ranked nodes, what pruning weighed, the context of the model (Section 3.2)."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from pkg_lib.core.registry import Registry
from pkg_lib.core.store import shown
from pkg_lib.core.types import Context, Task, UserError
from pkg_lib.data.corpora import DEFAULT, check_name, is_text
from pkg_lib.graph import bolt, disk
from pkg_lib.graph.schema import PATHVALUE, PKG
from pkg_lib.retrieval.augment import Augmented
from pkg_lib.retrieval.columns import knowledge_of
from pkg_lib.retrieval.embed import Embedder
from pkg_lib.retrieval.index import INDEXES, HNSWIndex, make_index
from pkg_lib.retrieval.prune import GUARDED, choices, prune
from pkg_lib.retrieval.retrievers import BlockPKG, FuncPKG, GraphNodes, Knowledge

UNITS: Registry[type[GraphNodes]] = Registry("unit", {"function": FuncPKG, "block": BlockPKG})
KINDS = Registry("unit", {**{name: c.kind for name, c in UNITS.items()}, "leaf": PATHVALUE})
HITS, LINE = 10, 100  # ranked nodes; characters of a line


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a column did for a query; `nodes` are ranked by their `cosines` (Equation 5)."""

    graph: PKG
    nodes: list[int]
    cosines: list[float]
    without: dict[
        int, float
    ]  # branch of the best node -> cosine without it (Equation 7); -1: of the whole
    removed: int  # the branch that pruning chose, or -1
    context: Context
    called: Augmented  # what was put before the text


def explain(
    knowledge: Knowledge, query: str, unit: str = "function", pruning: str = GUARDED, calls: int = 0
) -> Explanation:
    """Retrieves for a query as the unit's column does; UserError for an empty query or another mistake."""
    retriever = UNITS.get_or_fail(unit)(knowledge, pruning, calls)
    if not query.strip():
        raise UserError("the query is empty; write what the code should do")
    (context,) = retriever.retrieve([Task("query", "", query, "")])
    vector = knowledge.embedder.encode([query])
    (nodes,), (cosines,) = retriever.nearest(vector, HITS)
    best = knowledge.graph, nodes[0], vector[0], knowledge.embedder
    removed, without = (
        prune(*best, pruning).branch,
        {p.branch: p.score for p in choices(*best, GUARDED)},
    )
    called = retriever.augmented.get("query", Augmented(""))
    return Explanation(knowledge.graph, nodes, cosines, without, removed, context, called)


def first_line(graph: PKG, node: int) -> str:
    """The line that names a statement, without decorators; a signature over several lines is joined."""
    lines = [line.strip() for line in graph.payload(node).split("\n")]
    start = next((i for i, line in enumerate(lines) if not line.startswith("@")), 0)
    head = lines[start]
    for line in lines[start + 1 :]:
        if not head.endswith(("(", "[", ",")) or len(head) >= LINE:
            break
        head += line if head.endswith(("(", "[")) else f" {line}"
    head = shown(head)  # a string in it may hold what moves a terminal's cursor
    return head if len(head) <= LINE else f"{head[: LINE - 1]}…"


def knowledge_of_code(corpus: str) -> Knowledge:
    """A corpus, ready for `explain`; UserError for a corpus of text, whose leaves have no branches."""
    check_name(corpus)
    if is_text(corpus):
        raise UserError(
            f"corpus {corpus} is text, which is not pruned; choose one of code: {DEFAULT}"
        )
    return knowledge_of(corpus)


def search(
    place: str,
    asked: list[str],
    encoder: Embedder,
    unit: str = "function",
    index: str = "flat",
    top: int = 10,
) -> Iterator[str]:
    """The nodes nearest to each query (Equation 5) in a folder or database: cosine, place, first line."""
    kind = KINDS.get_or_fail(unit)
    INDEXES.get_or_fail(index)  # before anything is loaded
    with bolt.opened(place) if "://" in place else nullcontext() as database:
        graph = database.load() if database else disk.load(Path(place))
        nodes = graph.first_of_each_text(kind)
        if not len(nodes):
            raise UserError(
                f"{place} has no {unit} nodes; choose another --unit: {', '.join(KINDS)}"
            )
        vectors = (
            database.vectors(kind, encoder.name)
            if database
            else encoder.encode(graph.payloads(nodes))
        )
    path = Path(place, f"index-{disk.payloads_digest(graph.texts)}.{encoder.folder}.{unit}.hnsw")
    kept = index == "hnsw" and path.exists()
    searcher = HNSWIndex.load(path, vectors) if kept else make_index(index, vectors)
    if isinstance(searcher, HNSWIndex) and not (kept or database):
        searcher.save(path)
    positions, cosines = searcher.search(encoder.encode(asked), top)
    for position, cosine in zip(positions.ravel().tolist(), cosines.ravel().tolist(), strict=True):
        if position >= 0:  # an approximate search may find fewer than it is asked for
            yield f"{cosine:.3f}  {graph.where(nodes[position])}  {first_line(graph, nodes[position])}"
