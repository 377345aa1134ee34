"""Several units as one context, as in the authors' runner for closed models; the paper gives one.

Each unit is cut and pruned as it is alone. A node says how near it is to the task.
"""

from __future__ import annotations

from pkg_lib.core.types import Context, Task
from pkg_lib.retrieval.retrievers import BlockPKG, FuncBM25, FuncPKG, GraphNodes, Knowledge


class TopFuncPKG:
    """The three nearest functions."""

    column = "Func-PKG, top 3"
    retriever: type[GraphNodes] = FuncPKG

    def __init__(self, knowledge: Knowledge) -> None:
        self.one = self.retriever(knowledge)

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """One context a task, in order; UserError for a corpus without such nodes."""
        queries = self.one.knowledge.embedder.encode([t.prompt for t in tasks])
        contexts = []
        for task, query, *found in zip(tasks, queries, *self.one.nearest(queries, 3), strict=True):
            units = [self.one._context(task, query, *unit) for unit in zip(*found, strict=True)]
            contexts.append(joined(task, self.column, units, "# Relevance: {score:.3f}\n{text}"))
        return contexts


class TopBlockPKG(TopFuncPKG):
    """The three nearest blocks."""

    column, retriever = "Block-PKG, top 3", BlockPKG


class TopFuncBM25(FuncBM25):
    """The five best functions by BM25."""

    column, best = "Func-BM25, top 5", 5

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """One context a task, in order; UserError for a corpus without functions."""
        contexts = []
        for task, *found in zip(tasks, *self.ranks(tasks), strict=True):
            units = [self._context(task.id, int(p), float(s)) for p, s in zip(*found, strict=True)]
            contexts.append(joined(task, self.column, [u for u in units if u.text], "{text}"))
        return contexts


def joined(task: Task, column: str, units: list[Context], form: str) -> Context:
    """One context of the units; its score is the first one's."""
    source, pruned = ("; ".join(getattr(u, name) for u in units) for name in ("source", "pruned"))
    text = "\n\n".join(form.format(score=u.score, text=u.text) for u in units)
    score, truncated = units[0].score if units else 0.0, any(u.truncated for u in units)
    return Context(task.id, column, text, source, score, pruned, truncated)
