"""What measures a claim, from stored runs alone: a test takes the runs and a claim, and gives evidence.

The checks of paper_checks.py need no run; `measure` gives their readings as evidence too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.stats import ttest_rel

from pkg_lib.analysis.stats import CONFIDENCE, paired_bootstrap, paired_score, wilson
from pkg_lib.analysis.tables import kind
from pkg_lib.core.store import read_json
from pkg_lib.data.benchmarks import title_of
from pkg_lib.papers.claims.claims import BUILT, DIRECTED, PRINTED, REPLAYED, Claim, Evidence
from pkg_lib.papers.claims.paper_checks import CHECKS, table
from pkg_lib.papers.claims.stored_runs import Measured, StoredRuns, columns_of
from pkg_lib.papers.pkg import replays
from pkg_lib.papers.pkg.topics import share_above, stored_topics, topics
from pkg_lib.retrieval.columns import COLUMNS

MBPP_TASKS = 500
UNITS = dict.fromkeys(("paired", "replayed", "error_shift", "topic_differences"), "points")
UNITS |= {"share": "percent", "topic_share": "percent", "tokens": "tokens"}
# The published tables of HumanEval and of MBPP that a claim's columns stand in.
TABLES = {"code": ("1", "2"), "text": ("3", "4"), "replayed": ("5", "6"), "tokens": ("9", "9")}


def published_effects(claim: Claim) -> pd.Series:
    """The claimed effect of each model of the paper; empty without a table or with `corpora` of its own."""
    args, test = claim.args, claim.test
    if test == "error_shift":
        counts = table("7")[args["error"]]
        parts = [s.partition(" + ") for s in counts.index]
        gaps = {model: counts[f"{model}{plus}{c}"] - counts[model] for model, plus, c in parts if plus}
        return pd.Series(gaps) / MBPP_TASKS
    if test not in ("paired", "replayed", "tokens") or "corpora" in args:
        return pd.Series(dtype=float)
    which = args.get("kind", kind(columns_of(args))) if test == "paired" else test
    rates = table(TABLES[which][args["benchmark"] == "mbpp"])
    a, b = (rates[COLUMNS[args[k]].published_as or args[k]] for k in ("column", "against"))
    gaps = (a - b) / (1 if test == "tokens" else 100)
    return gaps.rename(str.lower)[lambda g: g.index.isin(args.get("models", g.index))]


def claimed_by(claim: Claim, effects: pd.Series | None = None) -> Evidence:
    """What a claim names, and how far the paper's models spread: evidence of nothing yet (n is 0).

    It names a count, a target, or else the mean of the published effects.
    """
    args, unit = claim.args, UNITS.get(claim.test, "")
    effects = published_effects(claim) if effects is None else effects
    target = args.get("target", math.nan) / (100 if unit in ("points", "percent") else 1)
    target = args["count"] / args["of"] if "count" in args else target if "target" in args else effects.mean()
    spread = (float(effects.min()), float(effects.max()))
    return Evidence(unit=unit, target=float(target), spread=spread, ours=args.get("ours", False))


def _difference(
    measured: Measured,
    claim: Claim,
    claimed: Evidence,
    pair: str = "",
    family: str = "",
    **columns: pd.Series,
) -> Iterator[Evidence]:
    """The claim's two columns, or the given `ours` and `base`, on the tasks measured in both.

    The interval is a bootstrap's; a part of the run or a rare event (`pair` names it) gets a score interval.
    """
    names = [claim.args["column"], claim.args.get("against", "None")]
    ours, base = columns.values() if columns else (measured.verdicts[c] for c in names)
    found = (paired_score if pair else paired_bootstrap)(ours, base)
    if found is not None:
        more = {"low": found.low, "high": found.high, "discordant": (found.helped + found.hurt) / found.n}
        more |= {"pair": pair or " and ".join(sorted(names)), "family": family or measured.family}
        more |= {"p": found.p if claim.relation in DIRECTED else math.nan}
        yield measured.evidence(claimed, found.n, found.value, **more)


def paired(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Iterator[Evidence]:
    """pass@1 of `column` minus that of `against`, on each run that has both (Tables 1 to 4)."""
    for measured in runs.of(claim.args, columns_of(claim.args)):
        yield from _difference(measured, claim, claimed)


def replayed(runs: StoredRuns, claim: Claim, _: Evidence) -> Iterator[Evidence]:
    """`paired` on the authors' completions, beside each model's own number (Tables 5, 6)."""
    effects = published_effects(claim)
    for measured in runs.replays(claim.args["benchmark"]):
        if measured.subject in claim.args.get("models", [measured.subject]):
            claimed = claimed_by(claim, effects[effects.index == measured.subject])
            yield from _difference(measured, claim, claimed)


def share(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Iterator[Evidence]:
    """Share of tasks that all of `passed` solve and none of `failed`, with its Wilson interval (Figure 6).

    Of all tasks measured in these columns, or of those that all columns of `among` solve.
    """
    passed, failed, among = (claim.args.get(k, []) for k in ("passed", "failed", "among"))
    columns = list(dict.fromkeys([*passed, *failed, *among]))
    for measured in runs.of(claim.args, columns):
        known = measured.verdicts[columns].dropna().astype(bool)
        known = known[known[among].all(axis=1)]
        hits = int((known[passed].all(axis=1) & ~known[failed].any(axis=1)).sum())
        if bounds := wilson(hits, len(known)):
            yield measured.evidence(claimed, len(known), hits / len(known), low=bounds[0], high=bounds[1])


def error_shift(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Iterator[Evidence]:
    """Share of tasks whose solution ends in `error` with the column minus that without (Table 7)."""
    error, column = claim.args["error"], claim.args["column"]
    for measured in runs.of(claim.args, [column, "None"]):
        ended = {name: _ended_in(measured, c, error) for name, c in (("ours", column), ("base", "None"))}
        yield from _difference(measured, claim, claimed, f"{error} with {column}", **ended)


def _ended_in(measured: Measured, column: str, error: str) -> pd.Series:
    outcomes = measured.run.outcomes(column)
    values = [pd.NA if o.status == "not_measured" else o.error == error for o in outcomes.values()]
    return pd.Series(values, list(outcomes), dtype="boolean")


def tokens(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Iterator[Evidence]:
    """Mean difference of two columns in prompt tokens, with the interval and p of a paired t test (Table 9).

    Both prompts hold the task and the same words around the context, so the difference is the contexts'.
    """
    columns = columns_of(claim.args)
    for measured in runs.of(claim.args, columns):
        lengths = [{t: g.prompt_tokens for t, g in measured.run.completions(c).items()} for c in columns]
        a, b = (np.array([by_task[t] for t in lengths[0] if t in lengths[1]], float) for by_task in lengths)
        if len(a) < 2:
            continue
        test = ttest_rel(a, b)
        more = {"family": f"tokens, {measured.family}", "pair": " and ".join(sorted(columns))}
        bounds, same = test.confidence_interval(CONFIDENCE), not (a - b).std()
        low, high = ((a - b).mean(),) * 2 if same else bounds
        p = float((a - b).mean() == 0) if same else float(test.pvalue)
        yield measured.evidence(claimed, len(a), (a - b).mean(), low=low, high=high, p=p, **more)


def topic_differences(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Iterator[Evidence]:
    """`paired` on the tasks of each topic, or of the claim's `topics`, corrected together (Section 6.2)."""
    pair = " and ".join(sorted(columns_of(claim.args)))
    for measured, topic in _with_topics(runs, claim):
        for name in claim.args.get("topics", topics().index):
            place = f"{measured.where}, {topics().at[name, 'short']}"
            part = replace(measured, where=place, verdicts=measured.verdicts[topic == name])
            yield from _difference(part, claim, claimed, f"{pair}, {name}", f"{measured.family}, topics")


def topic_share(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Iterator[Evidence]:
    """Share of the topics in which `column` solves more than `against`, or than each of several."""
    column, *against = columns_of(claim.args)
    for measured, topic in _with_topics(runs, claim):
        if seen := share_above(measured.verdicts[column], measured.verdicts[against], topic):
            n, effect, low, high = seen
            yield measured.evidence(claimed, n, effect, low=low, high=high)


def _with_topics(runs: StoredRuns, claim: Claim) -> Iterator[tuple[Measured, pd.Series]]:
    """Every run and replayed model that has the claim's columns, and the topic of each of its tasks."""
    assigned, columns = stored_topics(runs.results, claim.args["benchmark"]), columns_of(claim.args)
    if assigned is not None:
        for measured in [*runs.of(claim.args, columns), *runs.replays(claim.args["benchmark"])]:
            if {*columns} <= {*measured.verdicts}:
                yield measured, assigned["topic"].reindex(measured.verdicts.index)


def replayed_cells(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Iterator[Evidence]:
    """How many printed cells of each replayed model differ from what its completions score here."""
    if runs.limit:  # The cells are of all tasks.
        return
    benchmark = claim.args["benchmark"]
    cells = replays.agreement({r.subject: r.verdicts for r in runs.replays(benchmark)}, benchmark)
    about = {"where": f"{title_of(benchmark)}, printed cells that differ", "source": REPLAYED, "exact": True}
    for model, equal in cells.groupby("model", sort=True)["equal"]:
        off = float((~equal.astype(bool)).sum())
        yield replace(claimed, subject=str(model), n=len(equal), effect=off, **about)


def graph(runs: StoredRuns, claim: Claim, claimed: Evidence) -> Iterator[Evidence]:
    """A figure of the graph benchmark, a single run on one machine (Section 4, Table 8)."""
    path = runs.results / "benchmarks" / "graph.json"
    if path.is_file():
        run = read_json(path)
        figures = {
            "nodes a function": run["nodes"] / run["functions"],
            "edges a node": run["edges"] / run["nodes"],
            "minutes to build": run["build"]["one"]["wall_s"] / 60,
            "seconds a query": run["search"]["exact_ms"] / 1000,
        }
        where = f"{run['functions']:,} functions, {claim.args['what']}"
        about = {"subject": "this implementation", "where": where, "source": BUILT, "exact": True}
        yield replace(claimed, n=run["functions"], effect=figures[claim.args["what"]], **about)


Test = Callable[[StoredRuns, Claim, Evidence], Iterator[Evidence]]
MEASURES = (paired, share, error_shift, tokens, topic_differences, topic_share)
MEASURES += (replayed, replayed_cells, graph)
TESTS: dict[str, Test] = {f.__name__: f for f in MEASURES} | {"unavailable": lambda *_: iter(())}


def measure(runs: StoredRuns, claims: Iterable[Claim]) -> list[tuple[Claim, list[Evidence]]]:
    """What each claim's test or check gives on these runs; empty where nothing was measured."""
    return [
        (c, [*_checked(c)] if c.test in CHECKS else [*TESTS[c.test](runs, c, claimed_by(c))]) for c in claims
    ]


def _checked(claim: Claim) -> Iterator[Evidence]:
    about = {"subject": "the paper's tables", "n": 1, "exact": True, "source": PRINTED}
    for reading, value in CHECKS[claim.test](claim.args, claim.cells).items():
        yield replace(claimed_by(claim), where=reading, effect=float(value), **about)
