"""Several units as one context, as in the authors' runner for closed models; the paper gives one.

Each unit is cut and pruned as it is alone. A node says how near it is to the task.
"""

from typing import Any

from pkg_lib.core.types import Context, Task
from pkg_lib.retrieval.columns import base
from pkg_lib.retrieval.retrievers import FuncBM25


class TopNodes:
    """A graph column's three nearest nodes."""

    def __init__(self, knowledge: Any, of: str) -> None:
        self.one, self.column = base(of, knowledge), f"{of}, top 3"

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """One context a task, in order; UserError for a corpus without such nodes."""
        units = ([c for _, c in ranked] for ranked in self.one.ranked(tasks, 3))
        form = "# Relevance: {score:.3f}\n{text}"
        return [joined(task, self.column, of, form) for task, of in zip(tasks, units, strict=True)]


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
