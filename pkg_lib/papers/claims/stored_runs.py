"""The stored runs that the claim ledger rests on: models x benchmarks x corpora, as far as they are there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
from pkg_lib.papers.claims.claims import REPLAYED, RUNS, Evidence
from pkg_lib.papers.pkg import replays

Args = Mapping[str, Any]


def columns_of(args: Args) -> list[str]:
    """The columns that a claim compares: its `column`, and `against` which it stands, one or several."""
    against = args.get("against", [])
    others = [against] if isinstance(against, str) else against
    return [*([args["column"]] if "column" in args else []), *others]


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
    _replays: dict[str, list[Measured]] = field(default_factory=dict)

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

    def of(self, args: Args, columns: list[str]) -> list[Measured]:
        """Runs on the claim's benchmark with the columns, on its `corpora` or on those of its `kind`."""
        wanted, runs = args.get("kind", kind(columns_of(args))), []
        for stored in self.runs:
            benchmark, corpus = stored.run.benchmark, stored.run.corpus
            fits = benchmark == args["benchmark"] and corpus in args.get("corpora", [corpus])
            same = wanted == ("text" if is_text(corpus) else "code")
            runs += [stored] if fits and same and {*columns} <= {*stored.verdicts} else []
        return runs

    def replays(self, benchmark: str) -> list[Measured]:
        """The models whose published completions are in the results."""
        if benchmark not in self._replays and benchmark in self.benchmarks:
            where, runs = f"{title_of(benchmark)}, published completions", []
            for name in sorted(p.name for p in (self.results / "replay").glob("*") if p.is_dir()):
                if outcomes := replays.replayed(self.results, name, benchmark):
                    frame = replays.verdict_frame(outcomes, self.limit)
                    runs.append(Measured(name, where, frame, source=REPLAYED))
            self._replays[benchmark] = runs
        return self._replays.get(benchmark, [])
