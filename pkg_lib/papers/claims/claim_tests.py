"""Measure claims on stored runs: one function for each kind of claim.

TESTS is the table of kinds. Each function takes the stored runs, a claim, and what the claim names
(`claimed_by`), and yields one measurement for each model, benchmark and corpus that can test it.
"""

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
from pkg_lib.core.types import BenchmarkMissingError, Outcome
from pkg_lib.data.benchmarks import title_of
from pkg_lib.data.corpora import MINILM, PUBLISHED, corpus_label, is_text, parse_corpus
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
    discordant_share,
    table,
)
from pkg_lib.papers.pkg.closed_model_tables import replayed_verdicts
from pkg_lib.papers.pkg.cost import build_seconds, stored, token_counts
from pkg_lib.papers.pkg.replay import agreement, replayed_names
from pkg_lib.papers.pkg.topics import share_above, stored_topics, topics
from pkg_lib.papers.pkg.validity_counts import copies
from pkg_lib.retrieval.methods import METHODS

# Unit of each kind's effect; kinds that are not listed have plain numbers.
UNITS = {
    "paired": "points",
    "replayed": "points",
    "error_shift": "points",
    "topic_differences": "points",
    "context_validity": "points",
    "share": "percent",
    "topic_share": "percent",
    "tokens": "tokens",
}
# The published tables of HumanEval and of MBPP that have a claim's methods.
TABLES = {
    "code": ("1", "2"),
    "text": ("3", "4"),
    "replayed": ("5", "6"),
    "tokens": ("9", "9"),
}
Measurements = Iterator[Evidence]
MBPP_TASKS = 500  # of Table 7, which counts errors
# The paper's five open models and what it retrieves from. Only runs of these can reproduce or
# contradict it.
PAPER_MODELS = (
    "codellama-7b-instruct",
    "codellama-13b-instruct",
    "llama-3.1-8b-instruct",
    "starcoder2-7b-instruct",
    "deepseek-coder-7b-instruct",
)
PAPER_CORPORA = ("python-alpaca", "tutorials")
PAPER_EMBEDDER = "voyage-code-2"
# Claims about the paper's own sentences. A check takes the arguments and printed `cells` of a claim,
# and returns the number that each reading of the sentence gives.
Checks = Mapping[str, Callable[[dict[str, Any]], Mapping[str, float]]]


@dataclass(frozen=True)
class Measured:
    """The verdicts of one model on one benchmark and corpus.

    Attributes:
        subject: The model.
        where: Benchmark and corpus.
        verdicts: Verdicts [task, method].
        run: The stored run; None for completions that the authors published.
        source: Where the verdicts are from.
    """

    subject: str
    where: str
    verdicts: pd.DataFrame
    run: Results | None = None
    source: str = RUNS

    @property
    def family(self) -> str:
        """Name of the family of p-values that are corrected together."""
        return f"{self.subject}, {self.where}"

    @property
    def stored_run(self) -> Results:
        """The run, which published completions do not have."""
        assert self.run is not None
        return self.run

    def with_variants(self, methods: list[str]) -> "Measured":
        """Return the same run with the verdicts of variants, as far as they are stored.

        Args:
            methods: Names of variants, which a run leaves out unless they are named.

        Returns:
            This run itself if there is nothing to add.
        """
        run = self.stored_run
        offered = [method for method in methods if run.offers(method)]
        if not offered:
            return self
        measured = _measured_only(run.verdicts(offered))
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
        about: dict[str, Any] = {
            "subject": self.subject,
            "where": self.where,
            "source": self.source,
            "repeats_paper": self.repeats_paper(claim),
            "n": n,
            "effect": effect,
        }
        return replace(claimed, **about | more)

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
            return self.subject in _replayed_models()
        if self.run.model not in PAPER_MODELS or self.run.limit:
            return False
        corpus = parse_corpus(self.run.corpus)
        if not replace(corpus, embedder=MINILM).has_default_options:
            return False  # longer or more contexts than the paper's
        embedder, _, _ = corpus.embedder.partition("@")
        paper_embedder = embedder == PAPER_EMBEDDER
        solved = claim.args.get("passed", []) + claim.args.get("failed", [])
        if "Reranked" in claim.methods + solved and not paper_embedder:
            return False  # the reranker embeds the candidates, whatever retrieved the contexts
        if corpus.documents == PUBLISHED:
            return True
        return paper_embedder and corpus.documents in PAPER_CORPORA


def _measured_only(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return the methods that have a verdict."""
    return verdicts.loc[:, verdicts.notna().any()]


def _replayed_models() -> set[str]:
    """Return the models whose completions the authors published."""
    number, _ = TABLES["replayed"]
    return set(table(number).index.str.lower())


@dataclass(frozen=True)
class StoredRuns:
    """What claims are measured on.

    Attributes:
        models: Names of models.
        benchmarks: Names of benchmarks.
        corpora: Names of corpora.
        results: The results directory.
        limit: How many tasks of each benchmark; None for all.
    """

    models: list[str]
    benchmarks: list[str]
    corpora: list[str]
    results: Path
    limit: int | None = None

    @cached_property
    def runs(self) -> list[Measured]:
        """Every run that is stored; others are left out.

        Raises:
            UserError: A name is unknown.
        """
        runs: list[Measured] = []
        for model, benchmark, corpus in product(self.models, self.benchmarks, self.corpora):
            try:
                run = Results(model, benchmark, corpus, self.limit, self.results)
            except BenchmarkMissingError:
                continue
            if not is_measured(self.results, model, benchmark, run.corpus):
                continue
            for other in runs:
                if other.subject == model:  # the cache of a model's completions is read once
                    run.generator = other.stored_run.generator
            where = f"{run.benchmark_spec.title}, {corpus_label(corpus)}"
            verdicts = _measured_only(run.verdicts())
            runs.append(Measured(model, where, verdicts, run))
        return runs

    def of(self, claim: Claim, methods: list[str]) -> list[Measured]:
        """Return the runs on the claim's benchmark that measured some methods.

        Args:
            claim: The claim; its `corpora` or its `kind` limit the corpora.
            methods: Methods that a run needs. Variants such as "Func-PKG, unpruned" are read when asked for.

        Returns:
            The runs with the verdicts of the methods.
        """
        about_text = claim.args.get("kind", kind(claim.methods)) == "text"
        variants = [method for method in methods if METHODS[method].variant_of]
        found = []
        for measured in self.runs:
            run = measured.stored_run
            corpora = claim.args.get("corpora", [run.corpus])
            if run.benchmark != claim.benchmark or run.corpus not in corpora:
                continue
            if about_text != is_text(run.corpus):
                continue
            measured = measured.with_variants(variants)
            if set(methods) <= set(measured.verdicts):
                found.append(measured)
        return found

    def replays_of(self, claim: Claim) -> list[Measured]:
        """Return the models whose published completions are of the claim's benchmark.

        Args:
            claim: The claim.

        Returns:
            The models, in the order of their names.
        """
        return self.replays.get(claim.benchmark, [])

    @cached_property
    def replays(self) -> dict[str, list[Measured]]:
        """Benchmark -> the models whose published completions are in the results."""
        runs: dict[str, list[Measured]] = {}
        names = replayed_names(self.results)
        for benchmark in self.benchmarks:
            where = f"{title_of(benchmark)}, published completions"
            runs[benchmark] = []
            by_model = replayed_verdicts(self.results, names, benchmark, self.limit)
            for name, verdicts in by_model.items():
                runs[benchmark].append(Measured(name, where, verdicts, source=REPLAYED))
        return runs


def published_effects(claim: Claim) -> "pd.Series[float]":
    """Return the effect that the paper printed for each of its models.

    Args:
        claim: The claim.

    Returns:
        Effect by model. Empty if the paper has no such number, and for claims with corpora of
        their own.
    """
    args = claim.args
    nothing = pd.Series(dtype=float)
    if claim.test == "error_shift":
        return printed_error_changes(args["error"]) / MBPP_TASKS
    if claim.test not in ("paired", "replayed", "tokens") or "corpora" in args:
        return nothing
    which = claim.test
    if which == "paired":
        which = args.get("kind", kind(claim.methods))
    humaneval, mbpp = TABLES[which]
    rates = table(mbpp if claim.benchmark == "mbpp" else humaneval)
    if not set(claim.methods) <= set(rates):
        return nothing  # the paper prints no number for a variant of a method
    method, baseline = claim.methods
    gaps = rates[method] - rates[baseline]
    if claim.test != "tokens":
        gaps = gaps / 100
    gaps.index = gaps.index.str.lower()
    models = args.get("models", gaps.index)
    return gaps[gaps.index.isin(models)]


def printed_error_changes(error: str) -> "pd.Series[float]":
    """Return how many more solutions end in an error with Block-PKG than without (Table 7).

    Args:
        error: The error.

    Returns:
        Number by model, as the table spells it.
    """
    counts = table("7")[error]
    changes = {}
    for row in counts.index:
        model, plus, _ = row.partition(" + ")
        if plus:
            changes[model] = counts[row] - counts[model]
    return pd.Series(changes)


def claimed_by(claim: Claim, effects: "pd.Series[float] | None" = None) -> Evidence:
    """Return what a claim names, with nothing measured yet.

    Args:
        claim: The claim.
        effects: Published effect by model; by default `published_effects`.

    Returns:
        Evidence whose target is the claim's count or target, else the mean published effect.
    """
    args = claim.args
    unit = UNITS.get(claim.test, "")
    if effects is None:
        effects = published_effects(claim)
    if "count" in args:
        target = args["count"] / args["of"]
    elif "target" in args:
        scale = 100 if unit in ("points", "percent") else 1
        target = args["target"] / scale
    else:
        target = effects.mean()
    lowest = float(effects.min())
    highest = float(effects.max())
    ours = args.get("ours", False)
    return Evidence(unit=unit, target=float(target), spread=(lowest, highest), ours=ours)


def _difference(
    claim: Claim,
    claimed: Evidence,
    measured: Measured,
    verdicts: Iterable[pd.Series],
    pair: str = "",
    family: str = "",
) -> Measurements:
    """Yield the first series minus the second, if a task has both.

    The interval is a bootstrap's. With a `pair` of its own, a comparison covers few tasks or a rare
    event, and has a score interval.
    """
    method, baseline = verdicts
    compare = paired_score if pair else paired_bootstrap
    found = compare(method, baseline)
    if found is None:
        return
    yield measured.evidence(
        claim,
        claimed,
        found.n,
        found.value,
        low=found.low,
        high=found.high,
        discordant=discordant_share(found),
        p=found.p if claim.relation in DIRECTED else math.nan,
        pair=pair or claim.pair,
        family=family or measured.family,
    )


def paired(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Measurements:
    """Yield the difference of pass@1 between two methods (Tables 1 to 4).

    Args:
        runs: The stored runs.
        claim: Names the methods as `column` and `against`.
        claimed: What the claim names.

    Yields:
        One measurement per run that has both methods.
    """
    for measured in runs.of(claim, claim.methods):
        verdicts = [measured.verdicts[method] for method in claim.methods]
        yield from _difference(claim, claimed, measured, verdicts)


def replayed(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Measurements:
    """Yield the same difference on the authors' completions (Tables 5 and 6).

    Args:
        runs: The stored runs.
        claim: Names the methods, and may name `models`.
        claimed: Replaced by each model's own published number.

    Yields:
        One measurement per model.
    """
    effects = published_effects(claim)
    for measured in runs.replays_of(claim):
        models = claim.args.get("models", [measured.subject])
        if measured.subject in models:
            own_effect = effects[effects.index == measured.subject]
            claimed = claimed_by(claim, own_effect)
            verdicts = [measured.verdicts[method] for method in claim.methods]
            yield from _difference(claim, claimed, measured, verdicts)


def share(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Measurements:
    """Yield the share of tasks that some methods solve and others do not (Figure 6).

    Args:
        runs: The stored runs.
        claim: All of `passed` and none of `failed` solve a task. `among` limits the tasks to those
            that its methods solve.
        claimed: What the claim names.

    Yields:
        One measurement per run, with a Wilson interval.
    """
    args = claim.args
    passed = args.get("passed", [])
    failed = args.get("failed", [])
    among = args.get("among", [])
    methods = list(dict.fromkeys([*passed, *failed, *among]))
    measured_runs = runs.of(claim, methods)
    if args.get("replayed"):
        measured_runs += runs.replays_of(claim)
    for measured in measured_runs:
        known = measured.verdicts[methods].dropna().astype(bool)
        known = known[known[among].all(axis=1)]
        all_pass = known[passed].all(axis=1)
        any_of_failed = known[failed].any(axis=1)
        hits = int((all_pass & ~any_of_failed).sum())
        n = len(known)
        if n:
            low, high = wilson(hits, n)
            yield measured.evidence(claim, claimed, n, hits / n, low=low, high=high)


def error_shift(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Measurements:
    """Yield how much more often solutions end in an error with a method than without (Table 7).

    Args:
        runs: The stored runs.
        claim: Names the `error` and the method.
        claimed: What the claim names.

    Yields:
        One measurement per run.
    """
    error: str = claim.args["error"]
    method = claim.args["column"]

    def has_error(outcome: Outcome) -> bool | None:
        if outcome.status == "not_measured":
            return None
        return outcome.error == error

    for measured in runs.of(claim, [method, "NoRAG"]):
        errors = []
        for name in (method, "NoRAG"):
            outcomes = pd.Series(measured.stored_run.outcomes(name))
            ends_in_error = outcomes.map(has_error)
            errors.append(ends_in_error.astype("boolean"))
        yield from _difference(claim, claimed, measured, errors, pair=f"{error} with {method}")


def tokens(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Measurements:
    """Yield the mean difference in prompt tokens, with a paired t test (Table 9).

    Args:
        runs: The stored runs.
        claim: Names two methods, whose prompts differ by their contexts only.
        claimed: What the claim names.

    Yields:
        One measurement per run.
    """
    for measured in runs.of(claim, claim.methods):
        run = measured.stored_run
        completions = {method: run.completions(method) for method in claim.methods}
        lengths = token_counts(completions, lambda completion: completion.prompt_tokens)
        method, baseline = claim.methods
        differences = lengths[method] - lengths[baseline]
        gaps = differences.dropna().to_numpy()
        if len(gaps) < 2 or not gaps.std():
            continue
        test = ttest_1samp(gaps, 0)
        low, high = test.confidence_interval(CONFIDENCE)
        yield measured.evidence(
            claim,
            claimed,
            len(gaps),
            gaps.mean(),
            family=f"tokens, {measured.family}",
            pair=claim.pair,
            low=low,
            high=high,
            p=float(test.pvalue),
        )


def topic_differences(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Measurements:
    """Yield the difference of pass@1 on the tasks of each topic (Section 6.2).

    Args:
        runs: The stored runs.
        claim: Names the methods, and may name `topics`.
        claimed: What the claim names.

    Yields:
        One measurement per run and topic. The topics of a run are corrected together.
    """
    short_names = topics()["short"]
    for measured, topic_of_task in _with_topics(runs, claim):
        for topic in claim.args.get("topics", topics().index):
            verdicts = measured.verdicts[topic_of_task == topic]
            yield from _difference(
                claim,
                claimed,
                replace(measured, where=f"{measured.where}, {short_names[topic]}"),
                [verdicts[method] for method in claim.methods],
                pair=f"{claim.pair}, {topic}",
                family=f"{measured.family}, topics",
            )


def topic_share(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Measurements:
    """Yield the share of topics in which a method solves more than others (Section 6.2).

    Args:
        runs: The stored runs.
        claim: Names the method, and one or several `against`.
        claimed: What the claim names.

    Yields:
        One measurement per run.
    """
    method, *others = claim.methods
    for measured, topic_of_task in _with_topics(runs, claim):
        verdicts = measured.verdicts
        shares = share_above(verdicts[method], verdicts[others], topic_of_task)
        if shares:
            n, effect, low, high = shares
            yield measured.evidence(claim, claimed, n, effect, low=low, high=high)


def _with_topics(runs: StoredRuns, claim: Claim) -> Iterator[tuple[Measured, pd.Series]]:
    """Yield every run and replayed model that has the claim's methods, and the topic of each task."""
    assigned = stored_topics(runs.results, claim.benchmark)
    if assigned is None:
        return
    for measured in runs.of(claim, claim.methods) + runs.replays_of(claim):
        if set(claim.methods) <= set(measured.verdicts):
            tasks = measured.verdicts.index
            yield measured, assigned["topic"].reindex(tasks)


def replayed_cells(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Measurements:
    """Yield how many printed cells differ from the score of the authors' completions here.

    Args:
        runs: The stored runs. A limited run is not measured, because the cells cover all tasks.
        claim: Names the benchmark.
        claimed: What the claim names.

    Yields:
        One measurement per model.
    """
    if runs.limit is not None:
        return
    frames = {measured.subject: measured.verdicts for measured in runs.replays_of(claim)}
    cells = agreement(frames, claim.benchmark)
    by_model = cells.groupby("model", sort=True)
    for model, equal in by_model["equal"]:
        different = ~equal.astype(bool)
        yield replace(
            claimed,
            subject=str(model),
            where=f"{title_of(claim.benchmark)}, printed cells that differ",
            source=REPLAYED,
            exact=True,
            n=len(equal),
            effect=float(different.sum()),
            repeats_paper=model in _replayed_models(),
        )


def context_validity(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Measurements:
    """Yield the difference between two methods in the share of tasks with a valid context (Section 3.2).

    A context is valid if it passes the task's tests once its function is renamed to the entry
    point. Contexts do not depend on the model, so each benchmark and corpus is measured once.

    Args:
        runs: The stored runs.
        claim: Names the methods.
        claimed: What the claim names.

    Yields:
        One measurement per benchmark and corpus.
    """
    places: dict[str, Measured] = {}
    for measured in runs.of(claim, claim.methods):
        places.setdefault(measured.where, measured)
    for measured in places.values():
        run = measured.stored_run
        yield from _difference(
            claim,
            claimed,
            replace(measured, subject="retrieved contexts", source=BUILT),
            [copies(run, method) for method in claim.methods],
            pair=f"valid context, {claim.pair}",
        )


def graph(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Measurements:
    """Yield figures of the graph benchmark, a single run on one machine (Section 4, Table 8).

    The benchmark builds a graph of as many functions as the paper's, of another corpus, and without
    a graph database. So it never repeats the paper's work.

    Args:
        runs: The stored runs.
        claim: Names the figures as `what`.
        claimed: What the claim names.

    Yields:
        One measurement per figure.
    """
    run = stored(runs.results, "graph")
    if not run:
        return
    functions = run["functions"]
    for name, value in graph_figures(run).items():
        if name in claim.args["what"]:
            yield replace(
                claimed,
                n=functions,
                effect=value,
                subject="this implementation",
                where=f"{functions:,} functions of installed source, {name}",
                source=BUILT,
                exact=True,
            )


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
    build_wall = run["build"]["one"]["wall_s"]
    search_ms = run["search"]["exact_ms"]
    figures = {
        "nodes per function": run["nodes"] / run["functions"],
        "edges per node": run["edges"] / run["nodes"],
        "minutes to build without encoding and without a database": build_wall / 60,
        "seconds to search all vectors without encoding the query": search_ms / 1000,
    }
    built = build_seconds(run)
    if built:
        extra_seconds = built["PKG"] - built["VoyageEmb"]
        figures[EXTRA_MINUTES] = extra_seconds / 60
    return figures


def unavailable(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Measurements:
    """Yield nothing, because the claim cannot be tested here.

    Args:
        runs: The stored runs.
        claim: Its `needs` names what is missing.
        claimed: What the claim names.

    Returns:
        An empty iterator.
    """
    return iter(())


TESTS: dict[str, Callable[[StoredRuns, Claim, Evidence], Measurements]] = {
    "paired": paired,
    "replayed": replayed,
    "share": share,
    "error_shift": error_shift,
    "tokens": tokens,
    "topic_differences": topic_differences,
    "topic_share": topic_share,
    "replayed_cells": replayed_cells,
    "graph": graph,
    "context_validity": context_validity,
    "unavailable": unavailable,
}


def measure(
    runs: StoredRuns, claims: Iterable[Claim], checks: Checks
) -> list[tuple[Claim, list[Evidence]]]:
    """Measure claims.

    Args:
        runs: The stored runs.
        claims: The claims.
        checks: Checks of the paper's own sentences, by the name that a claim's `test` has.

    Returns:
        Each claim with its measurements; none where nothing can test it.
    """
    measured = []
    for claim in claims:
        claimed = claimed_by(claim)
        if claim.test in checks:
            args = claim.args | {"cells": claim.cells}
            readings = checks[claim.test](args)
            claimed = replace(claimed, source=PRINTED, repeats_paper=True)
            evidence = recomputed(claimed, readings)
        else:
            evidence = TESTS[claim.test](runs, claim, claimed)
        measured.append((claim, list(evidence)))
    return measured


def recomputed(claimed: Evidence, readings: Mapping[str, float]) -> Measurements:
    """Yield the numbers that were recomputed from the paper's own tables.

    Args:
        claimed: What the claim names.
        readings: What was read -> the number.

    Yields:
        One measurement per number.
    """
    for reading, value in readings.items():
        yield replace(
            claimed,
            where=reading,
            effect=float(value),
            subject="the paper's tables",
            n=1,
            exact=True,
        )
