"""For callers that still open a run by its old name."""

from __future__ import annotations

from pathlib import Path

from pkg_lib.experiment.run import VERDICT, Run
from pkg_lib.experiment.select import SELECTED as CHOOSING

__all__ = ["CHOOSING", "VERDICT", "Experiment", "open_experiment"]
Experiment = Run


def open_experiment(
    model: str,
    benchmark: str,
    corpus: str,
    limit: int | None = None,
    fresh: bool = False,
    results: Path | None = None,
) -> Run:
    return Run(model, benchmark, corpus, limit, results)
