"""Several units as one context, as in the authors' runner for closed models: 3 nodes, or 5 functions of BM25.

The paper gives one. Each unit is cut and pruned as it is alone; nodes say how near they are to the task.
"""

from __future__ import annotations

from pkg_lib.core.types import Context, Task
from pkg_lib.retrieval.retrievers import BlockPKG, FuncBM25, FuncPKG, GraphNodes, Knowledge

NODES, FUNCTIONS = 3, 5


class TopFuncPKG:
    """The NODES nearest functions."""

    column = f"Func-PKG, top {NODES}"
    retriever: type[GraphNodes] = FuncPKG

    def __init__(self, knowledge: Knowledge) -> None:
        self.one = self.retriever(knowledge)

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """One context a task, in order; UserError for a corpus without such nodes."""
        queries = self.one.knowledge.embedder.encode([t.prompt for t in tasks])
        contexts = []
        for task, query, *found in zip(tasks, queries, *self.one.nearest(queries, NODES), strict=True):
            units = [self.one._context(task, query, *unit) for unit in zip(*found, strict=True)]
            texts = [f"# Relevance: {unit.score:.3f}\n{unit.text}" for unit in units]
            contexts.append(joined(task, self.column, units, texts))
        return contexts


class TopBlockPKG(TopFuncPKG):
    """The NODES nearest blocks."""

    column, retriever = f"Block-PKG, top {NODES}", BlockPKG


class TopFuncBM25(FuncBM25):
    """The FUNCTIONS best functions by BM25."""

    column, best = f"Func-BM25, top {FUNCTIONS}", FUNCTIONS

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """One context a task, in order; UserError for a corpus without functions."""
        contexts = []
        for task, *found in zip(tasks, *self.ranks(tasks), strict=True):
            units = [self._context(task.id, int(p), float(s)) for p, s in zip(*found, strict=True)]
            units = [unit for unit in units if unit.text]
            contexts.append(joined(task, self.column, units, [str(unit.text) for unit in units]))
        return contexts


def joined(task: Task, column: str, units: list[Context], texts: list[str]) -> Context:
    """One context of the units' texts; its score is the best one's, none where there is no unit."""
    source, text = "; ".join(u.source for u in units), "\n\n".join(texts)
    score, truncated = max((u.score for u in units), default=0.0), any(u.truncated for u in units)
    pruned = ", ".join(filter(None, (u.pruned for u in units)))
    return Context(task.id, column, text, source, score, pruned, truncated)
