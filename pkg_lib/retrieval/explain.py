"""One query, step by step: the ranked nodes, what pruning weighed, and the context that a model would get (Section 3.2).

Nothing is retrieved in another way than by the columns: the context is GraphNodes' own, the scores are those that it
chooses by (`prune.choices`).
"""

from __future__ import annotations

from dataclasses import dataclass

from pkg_lib.core.registry import Registry
from pkg_lib.core.types import Context, Task, UserError
from pkg_lib.data.corpora import DEFAULT, check_name, is_text, load_corpus
from pkg_lib.graph.schema import NODE_TYPES, PKG
from pkg_lib.retrieval.index import FlatIndex
from pkg_lib.retrieval.prune import choices, prune
from pkg_lib.retrieval.retrievers import BlockPKG, FuncPKG, GraphNodes, Knowledge

UNITS: Registry[type[GraphNodes]] = Registry("unit", {"function": FuncPKG, "block": BlockPKG})
HITS, LINE = 10, 100  # ranked nodes; characters of a line


@dataclass(frozen=True, slots=True)
class Hit:
    """A ranked node: where it is, the function that it belongs to, its first line, its cosine to the query (Equation 5)."""

    node: int
    where: str
    function: str
    line: str
    cosine: float


@dataclass(frozen=True, slots=True)
class Branch:
    """A node of the best node's tree in source order, `depth` levels below it, and its first line.

    `score` is the cosine of what remains without it (Equation 7), for direct children only: nothing else is weighed.
    `removed` says that pruning took it out, alone or with the branch that it is in.
    """

    node: int
    depth: int
    type: str
    first: int
    last: int
    line: str
    score: float | None
    removed: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """All of one retrieval. `chosen` is the best node, `tree` what is below it, `whole` the cosine of its text as it is.

    `removed` is the branch that pruning took out (-1: none), `pruned` the cosine of what remains. `added` says where the
    called functions stand that were put before the text, `left_out` why others were not (augment.py).
    """

    query: str
    unit: str
    guarded: bool
    hits: tuple[Hit, ...]
    chosen: Hit
    tree: tuple[Branch, ...]
    whole: float
    removed: int
    pruned: float
    context: Context
    added: tuple[str, ...]
    left_out: dict[str, str]

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The direct children of the best node: what pruning weighs against each other."""
        return tuple(b for b in self.tree if b.score is not None)


def explain(
    knowledge: Knowledge, query: str, unit: str = "function", guarded: bool = False, calls: int = 0
) -> Explanation:
    """Retrieves for a query as the unit's column does and keeps what it saw on the way.

    `calls` characters at most are spent on called functions. UserError for an unknown unit, an empty query or a corpus
    without such nodes.
    """
    column = UNITS.get_or_fail(unit)
    if not query.strip():
        raise UserError("the query is empty; write what the code should do")
    retriever = column(knowledge, guarded, calls)
    (context,) = retriever.retrieve([Task("query", "", query, "", "", "")])
    graph, embedder = knowledge.graph, knowledge.embedder
    (vector,) = embedder.encode([query])
    nodes = graph.of_type(column.kind)
    positions, scores = FlatIndex(embedder.encode(graph.payloads(nodes))).search(vector[None], HITS)
    # Twins are in no particular order in the index; the first of the corpus is taken, as the column does.
    ranked = sorted(zip((-scores[0]).tolist(), nodes[positions[0]].tolist(), strict=True))
    hits = tuple(_hit(graph, node, -score) for score, node in ranked)
    best = hits[0].node
    pruned = prune(graph, best, vector, embedder, guarded)
    weighed = {p.branch: p.score for p in choices(graph, best, vector, embedder, whole=True)}
    done = retriever.augmented.get("query")
    return Explanation(
        query,
        unit,
        guarded,
        hits,
        hits[0],
        _tree(graph, best, weighed, pruned.branch),
        weighed[-1],
        pruned.branch,
        pruned.score,
        context,
        tuple(graph.where(v) for v in done.added) if done else (),
        dict(done.left_out) if done else {},
    )


def _hit(graph: PKG, node: int, cosine: float) -> Hit:
    top = node
    while graph.parent[top] >= 0:
        top = int(graph.parent[top])
    return Hit(node, graph.where(node), graph.payload(top), first_line(graph, node), cosine)


def first_line(graph: PKG, node: int) -> str:
    """The line that names a node's statement, without decorators; a signature over several lines is joined."""
    lines = [line.strip() for line in graph.payload(node).split("\n")]
    start = next((i for i, line in enumerate(lines) if not line.startswith("@")), 0)
    head = lines[start]
    for line in lines[start + 1 :]:
        if not head.endswith(("(", "[", ",")) or len(head) >= LINE:
            break
        head += line if head.endswith(("(", "[")) else f" {line}"
    return head if len(head) <= LINE else f"{head[: LINE - 1]}…"


def _tree(graph: PKG, root: int, scores: dict[int, float], removed: int) -> tuple[Branch, ...]:
    depth, gone = {root: 0}, {removed}
    found = []
    for v in graph.descendants(root):
        parent = int(graph.parent[v])
        depth[v] = depth[parent] + 1
        if parent in gone:
            gone.add(v)
        place = int(graph.first[v]), int(graph.last[v])
        found.append(
            Branch(
                v, depth[v], NODE_TYPES[graph.type[v]], *place, first_line(graph, v), scores.get(v), v in gone
            )
        )
    return tuple(found)


def knowledge_of_code(corpus: str) -> Knowledge:
    """A corpus' documents, ready for `explain`; UserError for a corpus of text, whose leaves have no branches."""
    check_name(corpus)
    if is_text(corpus):
        raise UserError(
            f"corpus {corpus} is text, which is not pruned; choose a corpus of code: {DEFAULT}, stdlib, source:DIR"
        )
    return Knowledge(load_corpus(corpus))
