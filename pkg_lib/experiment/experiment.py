"""For callers that still open a run by its old name."""

from __future__ import annotations

from typing import Any

from pkg_lib.core.types import NOTHING
from pkg_lib.experiment.run import VERDICT, Run
from pkg_lib.experiment.select import SELECTED as CHOOSING
from pkg_lib.papers.pkg import waterfall

__all__ = ["CHOOSING", "VERDICT", "Experiment", "StoredExperiment", "open_experiment"]


class Experiment(Run):
    """A run with its records."""

    stored_only = property(lambda self: bool(self.why))

    def records(self, column: str) -> list[Any]:
        seen = self.selections()
        contexts, completions = {c.task_id: c for c in self.contexts(column)}, self.completions(column)
        solutions, outcomes = self.solutions(column), self.outcomes(column)
        rows = []
        for i in (t.id for t in self.tasks):
            about = seen.get(i, {}).get("candidates", {}).get(column, {})
            steps = (
                i in completions,
                bool(solutions.get(i, "").strip()),
                about.get("parses", False),
                about.get("runs", False),
            )
            context = contexts.get(i) if column != "None" else None
            has = context is not None and context.sha256 != NOTHING
            used = has and (
                i not in completions or completions[i].meta.get("context_sha256") == contexts[i].sha256
            )
            rows.append(
                waterfall.record(i, outcomes[i], *steps, *((has, used) if column != "None" else (None, None)))
            )
        return rows

    def own_assertions(self, column: str) -> frozenset[str]:
        error = {i: o.error for i, o in self.outcomes(column).items()}
        ended = [r for r in self.records(column) if r.parsed and not r.ran and r.passed is False]
        return frozenset(r.task_id for r in ended if error[r.task_id] == "AssertionError")


StoredExperiment = Experiment


def open_experiment(
    model: str,
    benchmark: str,
    corpus: str,
    limit: int | None = None,
    fresh: bool = False,
    results: Any = None,
) -> Experiment:
    return Experiment(model, benchmark, corpus, limit, results)
