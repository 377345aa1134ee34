"""One query, step by step: the ranked nodes, what pruning weighed, the context of the model (Section 3.2).

The context is the column's own (`GraphNodes`), the scores are those that it chooses by (`prune.choices`).
"""

from __future__ import annotations

from dataclasses import dataclass

from pkg_lib.core.registry import Registry
from pkg_lib.core.types import Context, Task, UserError
from pkg_lib.data.corpora import DEFAULT, check_name, is_text, load_corpus
from pkg_lib.graph.schema import NODE_TYPES, PKG
from pkg_lib.retrieval.augment import Augmented
from pkg_lib.retrieval.index import FlatIndex
from pkg_lib.retrieval.prune import choices, prune
from pkg_lib.retrieval.retrievers import BlockPKG, FuncPKG, GraphNodes, Knowledge

UNITS: Registry[type[GraphNodes]] = Registry("unit", {"function": FuncPKG, "block": BlockPKG})
HITS, LINE = 10, 100  # ranked nodes; characters of a line


@dataclass(frozen=True, slots=True)
class Hit:
    """A ranked node, with the function that it belongs to and its cosine (Equation 5)."""

    node: int
    where: str
    function: str
    line: str
    cosine: float


@dataclass(frozen=True, slots=True)
class Branch:
    """A node below the best one, `depth` levels down. `removed`: pruning took it out, or its parent.

    `score` is the cosine of what remains without it (Equation 7), for direct children only.
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
    """The ranked nodes, what is below the best one in source order, the context of the model.

    `whole` is the cosine of the best node, `pruned` that of what remains without branch `removed` (-1: none).
    `added` are the places of the called functions before the text, `left_out` says why others are not there.
    """

    hits: list[Hit]
    tree: list[Branch]
    whole: float
    removed: int
    pruned: float
    context: Context
    added: list[str]
    left_out: dict[str, str]

    @property
    def chosen(self) -> Hit:
        """The best node."""
        return self.hits[0]

    @property
    def branches(self) -> list[Branch]:
        """The direct children of the best node: what pruning weighs against each other."""
        return [b for b in self.tree if b.score is not None]


def explain(
    knowledge: Knowledge, query: str, unit: str = "function", guarded: bool = False, calls: int = 0
) -> Explanation:
    """Retrieves for a query as the unit's column does; at most `calls` characters are of called functions.

    UserError for an unknown unit, an empty query or a corpus without such nodes.
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
    hits = [Hit(v, graph.where(v), _function(graph, v), first_line(graph, v), -score) for score, v in ranked]
    pruned = prune(graph, hits[0].node, vector, embedder, guarded)
    weighed = {p.branch: p.score for p in choices(graph, hits[0].node, vector, embedder, whole=True)}
    tree = _tree(graph, hits[0].node, weighed, pruned.branch)
    called = retriever.augmented.get("query", Augmented(""))
    added = [graph.where(v) for v in called.added]
    return Explanation(hits, tree, weighed[-1], pruned.branch, pruned.score, context, added, called.left_out)


def _function(graph: PKG, node: int) -> str:
    while graph.parent[node] >= 0:
        node = int(graph.parent[node])
    return graph.payload(node)


def first_line(graph: PKG, node: int) -> str:
    """The line that names a statement, without decorators; a signature over several lines is joined."""
    lines = [line.strip() for line in graph.payload(node).split("\n")]
    start = next((i for i, line in enumerate(lines) if not line.startswith("@")), 0)
    head = lines[start]
    for line in lines[start + 1 :]:
        if not head.endswith(("(", "[", ",")) or len(head) >= LINE:
            break
        head += line if head.endswith(("(", "[")) else f" {line}"
    return head if len(head) <= LINE else f"{head[: LINE - 1]}…"


def _tree(graph: PKG, root: int, scores: dict[int, float], removed: int) -> list[Branch]:
    depth, gone, tree = {root: 0}, {removed}, []
    for v in graph.descendants(root):
        parent = int(graph.parent[v])
        depth[v] = depth[parent] + 1
        gone |= {v} if parent in gone else set()
        about = NODE_TYPES[graph.type[v]], int(graph.first[v]), int(graph.last[v]), first_line(graph, v)
        tree.append(Branch(v, depth[v], *about, scores.get(v), v in gone))
    return tree


def knowledge_of_code(corpus: str) -> Knowledge:
    """A corpus, ready for `explain`; UserError for a corpus of text, whose leaves have no branches."""
    check_name(corpus)
    if is_text(corpus):
        kinds = f"{DEFAULT}, stdlib, source:DIR"
        raise UserError(f"corpus {corpus} is text, which is not pruned; choose a corpus of code: {kinds}")
    return Knowledge(load_corpus(corpus))
