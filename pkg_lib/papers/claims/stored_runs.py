"""The stored runs that the claim ledger rests on: models x benchmarks x corpora, as far as they are there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.analysis.tables import kind
from pkg_lib.core.types import BenchmarkMissing
from pkg_lib.data.benchmarks import title_of
from pkg_lib.data.corpora import is_text
from pkg_lib.experiment.run import Run
from pkg_lib.papers.claims.claims import REPLAYED, RUNS, Claim, Evidence
from pkg_lib.papers.pkg.replay import replayed, verdict_frame


@dataclass(frozen=True)
class Measured:
    """The verdicts of one model on one benchmark and corpus. The authors' completions have no run."""

    subject: str
    where: str
    verdicts: pd.DataFrame
    run: Run | None = None
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
    """Models, benchmarks and corpora by name, and where the results lie."""

    models: list[str]
    benchmarks: list[str]
    corpora: list[str]
    results: Path
    limit: int | None = None

    @cached_property
    def runs(self) -> list[Measured]:
        """Every run that is stored; what is not there is left out. UserError for an unknown name."""
        runs: list[Measured] = []
        for model, benchmark, corpus in product(self.models, self.benchmarks, self.corpora):
            try:
                run = Run(model, benchmark, corpus, self.limit, self.results)
            except BenchmarkMissing:
                continue
            if run.file("evaluations", "Reranked").parent.is_dir():
                for other in runs:
                    if other.subject == model:  # the cache of a model's completions is read once
                        run.generator = other.run.generator
                verdicts = run.verdicts()
                verdicts = verdicts.loc[:, verdicts.notna().any()]
                runs.append(Measured(model, f"{run.rules.title}, {corpus}", verdicts, run))
        return runs

    def of(self, claim: Claim, columns: list[str]) -> list[Measured]:
        """Runs on the claim's benchmark with the columns, on its `corpora` or on those of its `kind`."""

        def fits(run: Run) -> bool:
            about_text = claim.args.get("kind", kind(claim.columns)) == "text"
            corpora = claim.args.get("corpora", [run.corpus])
            same = run.benchmark == claim.args["benchmark"] and run.corpus in corpora
            return same and about_text == is_text(run.corpus)

        return [m for m in self.runs if fits(m.run) and {*columns} <= {*m.verdicts}]

    @cached_property
    def replays(self) -> dict[str, list[Measured]]:
        """benchmark -> the models whose published completions are in the results."""
        runs: dict[str, list[Measured]] = {b: [] for b in self.benchmarks}
        names = sorted(p.name for p in (self.results / "replay").glob("*") if p.is_dir())
        for benchmark, name in product(self.benchmarks, names):
            if outcomes := replayed(self.results, name, benchmark):
                where = f"{title_of(benchmark)}, published completions"
                frame = verdict_frame(outcomes, self.limit)
                runs[benchmark].append(Measured(name, where, frame, source=REPLAYED))
        return runs
