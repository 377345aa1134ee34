"""The stored runs that the claim ledger rests on: models x benchmarks x corpora, as far as they are there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
from pkg_lib.papers.claims.claims import REPLAYED, RUNS, Evidence
from pkg_lib.papers.pkg import replays

Args = Mapping[str, Any]


def columns_of(args: Args) -> list[str]:
    """The columns that a claim compares: its `column`, and `against` which it stands, one or several."""
    against = args.get("against", [])
    others = [against] if isinstance(against, str) else against
    return [*([args["column"]] if "column" in args else []), *others]


@dataclass(frozen=True)
class StoredRun:
    """The verdicts of one model on one benchmark and corpus. The authors' completions have no experiment."""

    subject: str
    where: str
    verdicts: pd.DataFrame
    experiment: Experiment | None = None
    source: str = RUNS

    @property
    def family(self) -> str:
        return f"{self.subject}, {self.where}"

    def evidence(self, claimed: Evidence, n: int, effect: float, **more: Any) -> Evidence:
        """A measurement on this run for what is claimed."""
        about = {"subject": self.subject, "where": self.where, "source": self.source}
        return replace(claimed, **about | {"n": n, "effect": effect} | more)


@dataclass(frozen=True)
class StoredRuns:
    """Models, benchmarks and corpora by name, and where the results lie. UserError for an unknown name."""

    models: list[str]
    benchmarks: list[str]
    corpora: list[str]
    results: Path
    limit: int | None = None
    _replays: dict[str, list[StoredRun]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for model in self.models:
            model_spec(model)
        for corpus in self.corpora:
            known_corpora.check_name(corpus)
        for benchmark in self.benchmarks:
            if benchmark not in BENCHMARKS:
                choices = ", ".join(BENCHMARKS)
                raise UserError(f"unknown benchmark '{benchmark}'; choose from: {choices}")

    @cached_property
    def runs(self) -> list[StoredRun]:
        """Every run that is stored; what is not there is left out."""
        names = [(m, b, c) for m in self.models for b in self.benchmarks for c in self.corpora]
        return [run for n in names if (run := self._run(*n)) is not None]

    def _run(self, model: str, benchmark: str, corpus: str) -> StoredRun | None:
        if not (self.results / "evaluations" / slug(model) / slug(benchmark) / slug(corpus)).is_dir():
            return None
        try:
            experiment = open_experiment(model, benchmark, corpus, self.limit, results=self.results)
        except BenchmarkMissing:
            return None
        names = [*experiment.retrievers, "Reranked"]
        there = [c for c in names if (self.results / f"{experiment.place('evaluations', c)}.jsonl").exists()]
        # Columns without verdicts are not asked for: their candidates would be reranked for nothing.
        columns = [c for c in there if c not in CHOOSING]
        verdicts = experiment.verdicts([*columns, *(CHOOSING if there == names else ())])
        title = f"{TITLES.get(benchmark, benchmark)}, {corpus}"
        return (
            StoredRun(model, title, verdicts.loc[:, verdicts.notna().any()], experiment) if columns else None
        )

    def of(self, args: Args, columns: list[str]) -> list[StoredRun]:
        """Runs on the claim's benchmark that have the columns, on its `corpora`, or else on those of its `kind`."""
        wanted, runs = args.get("kind", kind(columns_of(args))), []
        for run in self.runs:
            benchmark, corpus = run.experiment.benchmark, run.experiment.corpus
            fits = benchmark == args["benchmark"] and corpus in args.get("corpora", [corpus])
            same = wanted == ("text" if known_corpora.is_text(corpus) else "code")
            runs += [run] if fits and same and {*columns} <= {*run.verdicts} else []
        return runs

    def replays(self, benchmark: str) -> list[StoredRun]:
        """The models whose published completions are in the results."""
        if benchmark not in self._replays and benchmark in self.benchmarks:
            where, runs = f"{TITLES[benchmark]}, published completions", []
            for name in sorted(p.name for p in (self.results / "replay").glob("*") if p.is_dir()):
                if outcomes := replays.replayed(self.results, name, benchmark):
                    frame = replays.verdict_frame(outcomes, self.limit)
                    runs.append(StoredRun(name, where, frame, source=REPLAYED))
            self._replays[benchmark] = runs
        return self._replays.get(benchmark, [])
