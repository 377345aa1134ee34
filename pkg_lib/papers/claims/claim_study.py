"""The stored runs that the claim ledger rests on: models x benchmarks x corpora, as far as they are there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.analysis.tables import TITLES, kind
from pkg_lib.core.models import model_spec
from pkg_lib.core.store import slug
from pkg_lib.core.types import BenchmarkMissing, UserError
from pkg_lib.data import corpora as known_corpora
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.experiment.experiment import CHOOSING, Experiment, open_experiment

Args = Mapping[str, Any]


def columns_of(args: Args) -> list[str]:
    """The columns that a claim compares: its `column`, and `against` which it stands, one or several."""
    against = args.get("against", [])
    return [
        *([args["column"]] if "column" in args else []),
        *([against] if isinstance(against, str) else against),
    ]


@dataclass(frozen=True)
class Run:
    """One stored experiment: its verdicts, and more on demand."""

    experiment: Experiment
    verdicts: pd.DataFrame

    @property
    def where(self) -> str:
        return f"{TITLES.get(self.experiment.benchmark, self.experiment.benchmark)}, {self.experiment.corpus}"

    @property
    def family(self) -> str:
        return f"{self.experiment.model}, {self.where}"

    @property
    def kind(self) -> str:
        return "text" if known_corpora.is_text(self.experiment.corpus) else "code"


@dataclass(frozen=True)
class Study:
    """Models, benchmarks and corpora by name, and where the results lie. UserError for an unknown name."""

    models: list[str]
    benchmarks: list[str]
    corpora: list[str]
    results: Path
    limit: int | None = None

    def __post_init__(self) -> None:
        for model in self.models:
            model_spec(model)
        for corpus in self.corpora:
            known_corpora.check_name(corpus)
        unknown = [b for b in self.benchmarks if b not in BENCHMARKS]
        if unknown:
            raise UserError(f"unknown benchmark '{unknown[0]}'; choose from: {', '.join(BENCHMARKS)}")

    @cached_property
    def runs(self) -> list[Run]:
        """Every run of the study that is stored; what is not there is left out."""
        names = [(m, b, c) for m in self.models for b in self.benchmarks for c in self.corpora]
        found = [self._run(*n) for n in names if self._stored(*n)]
        return [r for r in found if r is not None]

    def _stored(self, model: str, benchmark: str, corpus: str) -> bool:
        return (self.results / "evaluations" / slug(model) / slug(benchmark) / slug(corpus)).is_dir()

    def _run(self, model: str, benchmark: str, corpus: str) -> Run | None:
        try:
            experiment = open_experiment(model, benchmark, corpus, self.limit, results=self.results)
        except BenchmarkMissing:
            return None
        # Columns without verdicts are not asked for: their candidates would be reranked for nothing.
        files = {
            c: self.results / f"{experiment.place('evaluations', c)}.jsonl"
            for c in (*experiment.retrievers, "Reranked")
        }
        have = [c for c in experiment.retrievers if files[c].exists()]
        chosen = CHOOSING if all(f.exists() for f in files.values()) else ()
        if not have:
            return None
        verdicts = experiment.verdicts([*have, *chosen])
        return Run(experiment, verdicts.loc[:, verdicts.notna().any()])

    def runs_of(self, args: Args) -> list[Run]:
        """Runs on the claim's benchmark, of its kind of corpus (code without a word), among its corpora where it names any."""
        wanted = args.get("kind", kind(columns_of(args)))
        runs = [r for r in self.runs if r.experiment.benchmark == args["benchmark"] and r.kind == wanted]
        return [r for r in runs if r.experiment.corpus in args.get("corpora", [r.experiment.corpus])]
