"""What measures a claim, from stored runs alone: (runs, claim, what it names) -> evidence."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import ttest_1samp

from pkg_lib.analysis.stats import CONFIDENCE, paired_bootstrap, paired_score, wilson
from pkg_lib.analysis.tables import kind
from pkg_lib.core.types import BenchmarkMissing, Outcome
from pkg_lib.data.benchmarks import title_of
from pkg_lib.data.corpora import MINILM, PUBLISHED, is_text, parse_corpus
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.storage import is_measured
from pkg_lib.papers.claims.claims import (
    BUILT,
    DIRECTED,
    PRINTED,
    REPLAYED,
    RUNS,
    Claim,
    Evidence,
    table,
)
from pkg_lib.papers.pkg.cost import build_seconds, stored
from pkg_lib.papers.pkg.replay import agreement, verdict_frame
from pkg_lib.papers.pkg.replay import replayed as replayed_outcomes
from pkg_lib.papers.pkg.topics import share_above, stored_topics, topics
from pkg_lib.retrieval.methods import METHODS

UNITS = dict.fromkeys(("paired", "replayed", "error_shift", "topic_differences"), "points")
UNITS["context_validity"] = "points"
UNITS |= {"share": "percent", "topic_share": "percent", "tokens": "tokens"}
# The published tables of HumanEval and of MBPP that a claim's columns stand in.
TABLES = {"code": ("1", "2"), "text": ("3", "4"), "replayed": ("5", "6"), "tokens": ("9", "9")}
# The paper's five open models and what it retrieves from. Only runs of these can reproduce or contradict it.
PAPER_MODELS = (
    "codellama-7b-instruct",
    "codellama-13b-instruct",
    "llama-3.1-8b-instruct",
    "starcoder2-7b-instruct",
    "deepseek-coder-7b-instruct",
)
PAPER_CORPORA, PAPER_EMBEDDER = ("python-alpaca", "tutorials"), "voyage-code-2"
# Of the paper beside its own tables: args and printed `cells` -> how a sentence is read -> the number.
Checks = Mapping[str, Callable[[dict[str, Any]], Mapping[str, float]]]


@dataclass(frozen=True)
class Measured:
    """The verdicts of one model on one benchmark and corpus. The authors' completions have no run."""

    subject: str
    where: str
    verdicts: pd.DataFrame
    run: Results | None = None
    source: str = RUNS

    @property
    def family(self) -> str:
        return f"{self.subject}, {self.where}"

    def with_variants(self, columns: list[str]) -> "Measured":
        """Return the same run with the verdicts of variants of its columns, as far as they are stored.

        Args:
            columns: Names of variants, which a run leaves out unless they are named.

        Returns:
            This run itself if there is nothing to add.
        """
        offered = [c for c in columns if self.run.offers(c)]
        if not offered:
            return self
        verdicts = self.run.verdicts(offered)
        measured = verdicts.loc[:, verdicts.notna().any()]
        return replace(self, verdicts=self.verdicts.join(measured))

    def evidence(
        self, claim: Claim, claimed: Evidence, n: int, effect: float, **more: Any
    ) -> Evidence:
        """Return a measurement on this run.

        Args:
            claim: The claim that it tests.
            claimed: What the claim names, as `claimed_by` returns it.
            n: Number of tasks.
            effect: The measured effect, in the unit of `claimed`.
            **more: Other fields of the evidence.

        Returns:
            The evidence.
        """
        about = {"subject": self.subject, "where": self.where, "source": self.source}
        about |= {"repeats_paper": self.repeats_paper(claim)}
        return replace(claimed, **about | {"n": n, "effect": effect} | more)

    def repeats_paper(self, claim: Claim) -> bool:
        """Return whether this is the same kind of model and the same work as in the paper.

        Args:
            claim: The claim that the measurement tests.

        Returns:
            True for the authors' own completions, and for one of the paper's models on all tasks with the
            contexts that the paper's embedder retrieved from the paper's corpora. False for claims about
            topics, since the paper does not say which task belongs to which topic.
        """
        if claim.test in ("topic_differences", "topic_share"):
            return False
        if self.run is None:
            return self.subject in table(TABLES["replayed"][0]).index.str.lower()
        if self.run.model not in PAPER_MODELS or self.run.limit:
            return False
        how = parse_corpus(self.run.corpus)
        documents = how.documents
        if not replace(how, embedder=MINILM).has_default_options:
            return False  # longer or more contexts than the paper's
        paper_embedder = how.embedder.partition("@")[0] == PAPER_EMBEDDER
        compared = [*claim.columns, *claim.args.get("passed", []), *claim.args.get("failed", [])]
        if "Reranked" in compared and not paper_embedder:
            return False  # the reranker embeds the candidates, whatever retrieved the contexts
        return documents == PUBLISHED or (documents in PAPER_CORPORA and paper_embedder)


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
                run = Results(model, benchmark, corpus, self.limit, self.results)
            except BenchmarkMissing:
                continue
            if is_measured(self.results, model, benchmark, run.corpus):
                for other in runs:
                    if other.subject == model:  # the cache of a model's completions is read once
                        run.generator = other.run.generator
                verdicts = run.verdicts()
                verdicts = verdicts.loc[:, verdicts.notna().any()]
                runs.append(Measured(model, f"{run.benchmark_spec.title}, {corpus}", verdicts, run))
        return runs

    def of(self, claim: Claim, columns: list[str]) -> list[Measured]:
        """Return the runs on the claim's benchmark that measured some columns.

        Args:
            claim: The claim; its `corpora` or its `kind` limit the corpora.
            columns: Columns that a run needs. Variants such as "Func-PKG, unpruned" are read when asked for.

        Returns:
            The runs with the verdicts of the columns.
        """

        def fits(run: Results) -> bool:
            about_text = claim.args.get("kind", kind(claim.columns)) == "text"
            corpora = claim.args.get("corpora", [run.corpus])
            same = run.benchmark == claim.args["benchmark"] and run.corpus in corpora
            return same and about_text == is_text(run.corpus)

        variants = [c for c in columns if METHODS[c].variant_of]
        found = [m.with_variants(variants) for m in self.runs if fits(m.run)]
        return [m for m in found if {*columns} <= {*m.verdicts}]

    @cached_property
    def replays(self) -> dict[str, list[Measured]]:
        """benchmark -> the models whose published completions are in the results."""
        runs: dict[str, list[Measured]] = {b: [] for b in self.benchmarks}
        names = sorted(p.name for p in (self.results / "replay").glob("*") if p.is_dir())
        for benchmark, name in product(self.benchmarks, names):
            if outcomes := replayed_outcomes(self.results, name, benchmark):
                where = f"{title_of(benchmark)}, published completions"
                frame = verdict_frame(outcomes, self.limit)
                runs[benchmark].append(Measured(name, where, frame, source=REPLAYED))
        return runs


def published_effects(claim: Claim) -> pd.Series:
    """The claimed effect of each model of the paper; empty without a table or with `corpora` of its own."""
    args, test = claim.args, claim.test
    if test == "error_shift":
        counts = table("7")[args["error"]]
        parts = [s.partition(" + ") for s in counts.index]
        gaps = {
            model: counts[f"{model}{plus}{c}"] - counts[model] for model, plus, c in parts if plus
        }
        return pd.Series(gaps) / 500  # tasks of MBPP
    if test not in ("paired", "replayed", "tokens") or "corpora" in args:
        return pd.Series(dtype=float)
    which = args.get("kind", kind(claim.columns)) if test == "paired" else test
    rates = table(TABLES[which][args["benchmark"] == "mbpp"])
    if not {*claim.columns} <= {*rates}:
        return pd.Series(dtype=float)  # the paper prints no number for a variant of a method
    a, b = (rates[name] for name in claim.columns)
    gaps = (a - b) / (1 if test == "tokens" else 100)
    return gaps.rename(str.lower)[lambda g: g.index.isin(args.get("models", g.index))]


def claimed_by(claim: Claim, effects: pd.Series | None = None) -> Evidence:
    """What a claim names (a count, a target, else the mean published effect), with nothing measured yet."""
    args, unit = claim.args, UNITS.get(claim.test, "")
    effects = published_effects(claim) if effects is None else effects
    target = args.get("target", math.nan) / (100 if unit in ("points", "percent") else 1)
    target = (
        args["count"] / args["of"]
        if "count" in args
        else target
        if "target" in args
        else effects.mean()
    )
    spread = (float(effects.min()), float(effects.max()))
    return Evidence(unit=unit, target=float(target), spread=spread, ours=args.get("ours", False))


def _difference(
    claim: Claim, claimed: Evidence, measured: Measured, a: pd.Series, b: pd.Series, **more: str
) -> Iterator[Evidence]:
    """`a` minus `b`: bootstrap interval; score interval for a part of the run or a rare event (`pair`)."""
    found = (paired_score if "pair" in more else paired_bootstrap)(a, b)
    if found is not None:
        numbers = {
            "low": found.low,
            "high": found.high,
            "discordant": (found.helped + found.hurt) / found.n,
        }
        numbers |= {"p": found.p} if claim.relation in DIRECTED else {}
        names = {"pair": " and ".join(sorted(claim.columns)), "family": measured.family}
        yield measured.evidence(claim, claimed, found.n, found.value, **numbers, **names | more)


def paired(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Iterator[Evidence]:
    """pass@1 of `column` minus that of `against`, on each run that has both (Tables 1 to 4)."""
    for measured in runs.of(claim, claim.columns):
        yield from _difference(
            claim, claimed, measured, *(measured.verdicts[c] for c in claim.columns)
        )


def replayed(runs: StoredRuns, claim: Claim, _: Evidence) -> Iterator[Evidence]:
    """`paired` on the authors' completions, beside each model's own number (Tables 5, 6)."""
    effects = published_effects(claim)
    for measured in runs.replays.get(claim.args["benchmark"], []):
        if measured.subject in claim.args.get("models", [measured.subject]):
            claimed = claimed_by(claim, effects[effects.index == measured.subject])
            yield from _difference(
                claim, claimed, measured, *(measured.verdicts[c] for c in claim.columns)
            )


def share(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Iterator[Evidence]:
    """Share of tasks, or of `among`'s, that all of `passed` and none of `failed` solve (Figure 6)."""
    passed, failed, among = (claim.args.get(k, []) for k in ("passed", "failed", "among"))
    columns = list(dict.fromkeys([*passed, *failed, *among]))
    replays = runs.replays.get(claim.args["benchmark"], []) if claim.args.get("replayed") else []
    for measured in [*runs.of(claim, columns), *replays]:
        known = measured.verdicts[columns].dropna().astype(bool)
        known = known[known[among].all(axis=1)]
        hits = int((known[passed].all(axis=1) & ~known[failed].any(axis=1)).sum())
        if bounds := wilson(hits, len(known)):
            yield measured.evidence(
                claim, claimed, len(known), hits / len(known), low=bounds[0], high=bounds[1]
            )


def error_shift(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Iterator[Evidence]:
    """Share of tasks whose solution ends in `error` with the column minus that without (Table 7)."""
    error, column = claim.args["error"], claim.args["column"]

    def ends_so(outcome: Outcome) -> bool | None:
        return None if outcome.status == "not_measured" else outcome.error == error

    for measured in runs.of(claim, [column, "NoRAG"]):
        ended = (pd.Series(measured.run.outcomes(c)).map(ends_so) for c in (column, "NoRAG"))
        both = (values.astype("boolean") for values in ended)
        yield from _difference(claim, claimed, measured, *both, pair=f"{error} with {column}")


def tokens(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Iterator[Evidence]:
    """Mean difference in prompt tokens, which is the contexts', with a paired t test (Table 9)."""
    for measured in runs.of(claim, claim.columns):
        stored = [measured.run.completions(c) for c in claim.columns]
        lengths = pd.DataFrame([{t: g.prompt_tokens for t, g in s.items()} for s in stored]).dropna(
            axis=1
        )
        gaps = -lengths.diff().iloc[1].to_numpy(float)
        if len(gaps) > 1 and gaps.std():
            test = ttest_1samp(gaps, 0)
            low, high = test.confidence_interval(CONFIDENCE)
            more = {
                "family": f"tokens, {measured.family}",
                "pair": " and ".join(sorted(claim.columns)),
            }
            more |= {"low": low, "high": high, "p": float(test.pvalue)}
            yield measured.evidence(claim, claimed, len(gaps), gaps.mean(), **more)


def topic_differences(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Iterator[Evidence]:
    """`paired` on the tasks of each topic, or of the claim's `topics`, corrected together (Section 6.2)."""
    pair = " and ".join(sorted(claim.columns))
    for measured, topic in _with_topics(runs, claim):
        for name in claim.args.get("topics", topics().index):
            part = replace(measured, where=f"{measured.where}, {topics().at[name, 'short']}")
            columns = (measured.verdicts.loc[topic == name, c] for c in claim.columns)
            about = {"pair": f"{pair}, {name}", "family": f"{measured.family}, topics"}
            yield from _difference(claim, claimed, part, *columns, **about)


def topic_share(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Iterator[Evidence]:
    """Share of the topics in which `column` solves more than `against`, or than each of several."""
    column, *against = claim.columns
    for measured, topic in _with_topics(runs, claim):
        if shares := share_above(measured.verdicts[column], measured.verdicts[against], topic):
            n, effect, low, high = shares
            yield measured.evidence(claim, claimed, n, effect, low=low, high=high)


def _with_topics(runs: StoredRuns, claim: Claim) -> Iterator[tuple[Measured, pd.Series]]:
    """Every run and replayed model that has the claim's columns, and the topic of each of its tasks."""
    benchmark = claim.args["benchmark"]
    assigned = stored_topics(runs.results, benchmark)
    if assigned is not None:
        for measured in [*runs.of(claim, claim.columns), *runs.replays.get(benchmark, [])]:
            if {*claim.columns} <= {*measured.verdicts}:
                yield measured, assigned["topic"].reindex(measured.verdicts.index)


def replayed_cells(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Iterator[Evidence]:
    """How many printed cells of each replayed model differ from what its completions score here."""
    benchmark = claim.args["benchmark"]
    if runs.limit is None:  # the cells are of all tasks
        frames = {m.subject: m.verdicts for m in runs.replays.get(benchmark, [])}
        where = f"{title_of(benchmark)}, printed cells that differ"
        about = {"where": where, "source": REPLAYED, "exact": True}
        printed_models = table(TABLES["replayed"][0]).index.str.lower()
        for model, equal in agreement(frames, benchmark).groupby("model", sort=True)["equal"]:
            off = float((~equal.astype(bool)).sum())
            same = model in printed_models
            yield replace(
                claimed, subject=str(model), n=len(equal), effect=off, repeats_paper=same, **about
            )


def context_validity(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Iterator[Evidence]:
    """Yield the share of tasks with a valid context with the column minus that with the other (Section 3.2).

    A context is valid when it passes the task's tests once its function has the name asked for. Contexts do
    not depend on the model, so a benchmark and corpus are measured once.
    """
    places = {}  # by benchmark and corpus: any model's run knows the contexts
    for measured in runs.of(claim, claim.columns):
        places.setdefault(measured.where, measured)
    for measured in places.values():
        validity = [_validity(measured.run, c) for c in claim.columns]
        about = {"pair": f"valid context, {' and '.join(sorted(claim.columns))}"}
        contexts = replace(measured, subject="retrieved contexts", source=BUILT)
        yield from _difference(claim, claimed, contexts, *validity, **about)


def _validity(run: Results, column: str) -> pd.Series:
    """Boolean [task]: whether the context is a valid solution; <NA> where that was not checked."""
    checked = {task: leak.passes for task, leak in run.leakage(column).items()}
    return pd.Series(checked, dtype="boolean").reindex([t.id for t in run.tasks])


def graph(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Iterator[Evidence]:
    """Yield figures of the graph benchmark, a single run on one machine (Section 4, Table 8).

    The benchmark builds a graph of as many functions as the paper's, of another corpus, and without a graph
    database. So it never repeats the paper's work.
    """
    if not (run := stored(runs.results, "graph")):
        return
    for name, value in graph_figures(run).items():
        if name in claim.args["what"]:
            where = f"{run['functions']:,} functions of installed source, {name}"
            about = {
                "subject": "this implementation",
                "where": where,
                "source": BUILT,
                "exact": True,
            }
            yield replace(claimed, n=run["functions"], effect=value, **about)


# What Table 8 calls the additional processing time of the graph.
EXTRA_MINUTES = (
    "minutes to build the graph beyond those for an index of embedded rows, "
    "both with encoding (estimate)"
)


def graph_figures(run: Mapping[str, Any]) -> dict[str, float]:
    """Compute what the claims about the graph name.

    Args:
        run: What `tests/benchmarks/bench_graph.py` measured.

    Returns:
        Figure by name; those whose parts were not measured are left out.
    """
    figures = {
        "nodes per function": run["nodes"] / run["functions"],
        "edges per node": run["edges"] / run["nodes"],
        "minutes to build without encoding and without a database": run["build"]["one"]["wall_s"]
        / 60,
        "seconds to search all vectors without encoding the query": run["search"]["exact_ms"]
        / 1000,
    }
    if built := build_seconds(run):
        extra = built["PKG"] - built["VoyageEmb"]
        figures[EXTRA_MINUTES] = extra / 60
    return figures


TESTS: dict[str, Callable[[StoredRuns, Claim, Evidence], Iterator[Evidence]]]
TESTS = {f.__name__: f for f in (paired, replayed, share, error_shift, tokens, topic_differences)}
TESTS |= {f.__name__: f for f in (topic_share, replayed_cells, graph, context_validity)}
TESTS |= {"unavailable": lambda *_: iter(())}


def measure(
    runs: StoredRuns, claims: Iterable[Claim], checks: Checks
) -> list[tuple[Claim, list[Evidence]]]:
    """What each claim's test or check gives on these runs; empty where nothing was measured."""

    def evidence(claim: Claim) -> Iterator[Evidence]:
        claimed = claimed_by(claim)
        if claim.test not in checks:
            return TESTS[claim.test](runs, claim, claimed)
        about = {"subject": "the paper's tables", "n": 1, "exact": True, "source": PRINTED}
        about["repeats_paper"] = True
        readings = checks[claim.test](claim.args | {"cells": claim.cells})
        return (
            replace(claimed, where=where, effect=float(v), **about) for where, v in readings.items()
        )

    return [(claim, list(evidence(claim))) for claim in claims]
