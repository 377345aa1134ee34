"""What measures a claim, from stored runs alone: a test takes the study and the claim's arguments and gives evidence.

    paired          difference of two columns on the tasks measured in both (pass@1, Tables 1 to 4)
    share           share of tasks that some columns solve and others do not (Figure 6)
    error_shift     difference in how many tasks end in one error, with a column and without (Table 7)
    tokens          difference of two columns in the length of the prompt (Table 9)
    topic_differences  as paired, on the tasks of each topic by itself (Section 6.2, Figures 3 to 5)
    topic_share        share of the topics in which one column solves more than another, or than each of several
    replayed        as paired, on completions that the authors published (Tables 5 and 6)
    replayed_cells  how many printed cells are not what these completions score
    graph           a figure of the graph benchmark (Section 4, Table 8)
    unavailable     nothing: the claim's `needs` says what is missing

The checks of paper_checks.py need no run; `measure` gives their readings as evidence too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.stats import t as student
from scipy.stats import ttest_rel

from pkg_lib.analysis.stats import (
    CONFIDENCE,
    helped_and_hurt,
    mcnemar,
    paired_bootstrap,
    paired_score,
    wilson,
)
from pkg_lib.analysis.tables import CODE, PUBLISHED_AS, TEXT, TITLES, kind
from pkg_lib.core.store import read_json
from pkg_lib.papers.claims.claim_study import Args, Run, Study, columns_of
from pkg_lib.papers.claims.claims import BUILT, PRINTED, REPLAYED, RUNS, Claim, Evidence
from pkg_lib.papers.claims.paper_checks import CHECKS, table
from pkg_lib.papers.pkg.pass_tables import published_rates
from pkg_lib.papers.pkg import replays
from pkg_lib.papers.pkg.error_types import published as published_errors
from pkg_lib.papers.pkg.topic_rates import share_above
from pkg_lib.papers.pkg.topics import stored_topics, topics

MBPP_TASKS = 500
PAPER, HERE_BUILT = "the paper's tables", "this implementation"


def paired(study: Study, args: Args) -> list[Evidence]:
    """pass@1 of `column` minus that of `against`, on each run that has both."""
    gaps = _published_gaps(args)
    return [
        _difference(
            r.experiment.model,
            r.where,
            r.verdicts[args["column"]],
            r.verdicts[args["against"]],
            args,
            gaps,
            r.family,
        )
        for r in study.runs_of(args)
        if {args["column"], args["against"]} <= set(r.verdicts)
    ]


def _published_gaps(args: Args) -> pd.Series:
    """The difference of the two columns for each model of the paper, as a fraction.

    Empty where it has no such table, or where the claim is of other contexts than the table's (its own `corpora`).
    """
    wanted = args.get("kind", kind([args["column"], args["against"]]))
    rates = published_rates(args["benchmark"], TEXT if wanted == "text" else CODE)
    if rates.empty or "corpora" in args:
        return pd.Series(dtype=float)
    return ((rates[args["column"]] - rates[args["against"]]) / 100).dropna()


def _claimed(args: Args, published: pd.Series) -> tuple[float, tuple[float, float]]:
    """What the claim names, else the mean over the paper's models; and the range over them. Fractions."""
    target = (
        args["target"] / 100 if "target" in args else float(published.mean()) if len(published) else math.nan
    )
    return target, (
        (float(published.min()), float(published.max())) if len(published) else (math.nan, math.nan)
    )


def _difference(
    subject: str,
    where: str,
    column: pd.Series,
    against: pd.Series,
    args: Args,
    published: pd.Series,
    family: str,
    pair: str = "",
) -> Evidence:
    """Two boolean series as evidence: the paired difference, its interval and McNemar's p.

    The interval is a bootstrap's over a run's tasks; a part of the run or a rare event (`pair` names it) gets a score interval.
    """
    found = (paired_score if pair else paired_bootstrap)(column, against)
    target, spread = _claimed(args, published)
    if found is None:
        return Evidence(subject, where, 0, math.nan, target=target, spread=spread)
    helped, hurt = map(len, helped_and_hurt(column, against))
    p = mcnemar(helped, hurt) if args["relation"] in ("above", "below") else math.nan
    return Evidence(
        subject,
        where,
        found.n,
        found.value,
        found.low,
        found.high,
        p,
        family=family,
        pair=pair or " and ".join(sorted((args["column"], args["against"]))),
        discordant=(helped + hurt) / found.n,
        target=target,
        spread=spread,
    )


def share(study: Study, args: Args) -> list[Evidence]:
    """Share of tasks that all of `passed` solve and none of `failed`, with its Wilson interval.

    Of all tasks measured in these columns, or of those that all columns of `among` solve.
    """
    target = _claimed_share(args)
    return [e for r in study.runs_of(args) if (e := _share(r, args, target)) is not None]


def _claimed_share(args: Args) -> float:
    return args["count"] / args["of"] if "count" in args else args["target"] / 100


def _share(run: Run, args: Args, target: float) -> Evidence | None:
    passed, failed, among = (args.get(k, []) for k in ("passed", "failed", "among"))
    columns = list(dict.fromkeys([*passed, *failed, *among]))
    if not set(columns) <= set(run.verdicts):
        return None
    known = run.verdicts[columns].dropna().astype(bool)
    known = known[known[among].all(axis=1)]
    hits = int((known[passed].all(axis=1) & ~known[failed].any(axis=1)).sum())
    bounds = wilson(hits, len(known))
    if bounds is None:
        return None
    return Evidence(
        run.experiment.model, run.where, len(known), hits / len(known), *bounds, unit="percent", target=target
    )


def error_shift(study: Study, args: Args) -> list[Evidence]:
    """Share of tasks whose solution ends in `error` with the column minus that without, over the tasks measured in both."""
    error, column, published, found = args["error"], args["column"], _published_shifts(args), []
    for r in study.runs_of(args):
        if {column, "None"} <= set(r.verdicts):
            ended = [_ended_in(r, c, error) for c in (column, "None")]
            found.append(
                _difference(
                    r.experiment.model, r.where, *ended, args, published, r.family, f"{error} with {column}"
                )
            )
    return found


def _published_shifts(args: Args) -> pd.Series:
    """The change of an error for each model of Table 7, as a fraction of MBPP's tasks."""
    counts = published_errors().loc[args["error"]]
    return pd.Series(
        [
            (n - counts[m]) / MBPP_TASKS
            for s, n in counts.items()
            for m, _, column in [s.partition(" + ")]
            if column
        ]
    )


def _ended_in(run: Run, column: str, error: str) -> pd.Series:
    outcomes = run.experiment.outcomes(column)
    values = [pd.NA if o.status == "not_measured" else o.error == error for o in outcomes.values()]
    return pd.Series(values, list(outcomes), dtype="boolean")


def tokens(study: Study, args: Args) -> list[Evidence]:
    """Mean difference of two columns in prompt tokens, the model's own tokenizer, with the interval and p of a paired t test.

    Both prompts hold the task and the same words around the context, so the difference is the contexts'.
    """
    columns, published = (args["column"], args["against"]), _published_tokens(args)
    runs = [r for r in study.runs_of(args) if set(columns) <= set(r.verdicts)]
    return [e for r in runs if (e := _token_difference(r, *columns, published)) is not None]


def _published_tokens(args: Args) -> pd.Series:
    a, b = (table("9")[PUBLISHED_AS.get(args[k], args[k])] for k in ("column", "against"))
    return a - b


def _token_difference(run: Run, column: str, against: str, published: pd.Series) -> Evidence | None:
    a, b = ({t: g.prompt_tokens for t, g in run.experiment.completions(c).items()} for c in (column, against))
    both = [t for t in a if t in b]
    if len(both) < 2:
        return None
    low, high, mean, p = _mean_difference([a[t] for t in both], [b[t] for t in both])
    return Evidence(
        run.experiment.model,
        run.where,
        len(both),
        mean,
        low,
        high,
        p,
        "tokens",
        family=f"tokens, {run.family}",
        pair=" and ".join(sorted((column, against))),
        target=float(published.mean()),
        spread=(float(published.min()), float(published.max())),
    )


def _mean_difference(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, float, float]:
    """(low, high, mean, p) of the paired difference."""
    gaps = np.asarray(a, float) - np.asarray(b, float)
    half = float(student.ppf(0.5 + CONFIDENCE / 2, len(gaps) - 1) * gaps.std(ddof=1) / math.sqrt(len(gaps)))
    mean = float(gaps.mean())
    return mean - half, mean + half, mean, float(ttest_rel(a, b).pvalue) if half else float(mean == 0)


def replayed(study: Study, args: Args) -> list[Evidence]:
    """`paired` on every replayed model, or on the `models` that the claim names; the published number is that model's own."""
    where = f"{TITLES[args['benchmark']]}, published completions"
    gaps, columns = _replayed_gaps(args), (args["column"], args["against"])
    return [
        replace(
            _difference(
                name,
                where,
                frame[columns[0]],
                frame[columns[1]],
                args,
                gaps[gaps.index == name],
                f"{name}, {where}",
            ),
            source=REPLAYED,
        )
        for name, frame in _replays(study, args["benchmark"], args.get("models")).items()
    ]


def _replayed_gaps(args: Args) -> pd.Series:
    """The printed difference of each closed model (in lower case), or of the claim's `models`, as a fraction."""
    cells = replays.published(args["benchmark"]).astype(float)
    gaps = ((cells[args["column"]] - cells[args["against"]]) / 100).rename(str.lower)
    return gaps[gaps.index.isin(args.get("models", gaps.index))]


def _replays(study: Study, benchmark: str, models: Iterable[str] | None = None) -> dict[str, pd.DataFrame]:
    """replayed model -> verdicts, of those that are in the results."""
    there = sorted(p.name for p in (study.results / "replay").glob("*") if p.is_dir())
    if benchmark not in study.benchmarks:
        return {}
    outcomes = {
        n: replays.replayed(study.results, n, benchmark) for n in there if models is None or n in models
    }
    return {n: replays.verdict_frame(o, study.limit) for n, o in outcomes.items() if o}


def topic_differences(study: Study, args: Args) -> list[Evidence]:
    """`paired` on the tasks of each topic, or of the claim's `topics`; the topics of a run are corrected together."""
    found, pair = [], " and ".join(sorted((args["column"], args["against"])))
    for source, subject, where, verdicts, topic in _by_topic(study, args):
        for name in args.get("topics", topics().index):
            part, place = verdicts[topic == name], f"{where}, {topics().at[name, 'short']}"
            pairs, family = f"{pair}, {name}", f"{subject}, {where}, topics"
            columns = part[args["column"]], part[args["against"]]
            one = _difference(subject, place, *columns, args, pd.Series(dtype=float), family, pairs)
            found.append(replace(one, source=source))
    return found


def topic_share(study: Study, args: Args) -> list[Evidence]:
    """Share of the topics in which `column` solves more than `against`, or than each of several, bounded by what is decided."""
    found = []
    for source, subject, where, verdicts, topic in _by_topic(study, args):
        seen = share_above(verdicts[args["column"]], verdicts[columns_of(args)[1:]], topic)
        if seen is not None:
            claimed = _claimed_share(args)
            found.append(Evidence(subject, where, *seen, unit="percent", target=claimed, source=source))
    return found


def _by_topic(study: Study, args: Args) -> Iterator[tuple[str, str, str, pd.DataFrame, pd.Series]]:
    """(source, subject, where, verdicts, topic of each task) of every run and replayed model that has both columns."""
    assigned = stored_topics(study.results, args["benchmark"])
    if assigned is None:
        return
    runs = [(RUNS, r.experiment.model, r.where, r.verdicts) for r in study.runs_of(args)]
    place = f"{TITLES[args['benchmark']]}, published completions"
    runs += [(REPLAYED, name, place, frame) for name, frame in _replays(study, args["benchmark"]).items()]
    for source, subject, where, verdicts in runs:
        if set(columns_of(args)) <= set(verdicts):
            yield source, subject, where, verdicts, assigned["topic"].reindex(verdicts.index)


def replayed_cells(study: Study, args: Args) -> list[Evidence]:
    """How many printed cells of each replayed model differ from what its completions score here."""
    if study.limit:  # The cells are of all tasks.
        return []
    cells = replays.agreement(_replays(study, args["benchmark"]), args["benchmark"])
    where = f"{TITLES[args['benchmark']]}, printed cells that differ"
    groups = cells.groupby("model", sort=True)["equal"] if len(cells) else ()
    off = {str(m): (len(e), float((~e.astype(bool)).sum())) for m, e in groups}
    return [
        Evidence(m, where, *seen, unit="", exact=True, target=0.0, source=REPLAYED) for m, seen in off.items()
    ]


def graph(study: Study, args: Args) -> list[Evidence]:
    """One figure of results/benchmarks/graph.json, a single run on one machine."""
    path = study.results / "benchmarks" / "graph.json"
    if not path.is_file():
        return []
    found = read_json(path)
    figures = {
        "nodes a function": found["nodes"] / found["functions"],
        "edges a node": found["edges"] / found["nodes"],
        "minutes to build": found["build"]["one"]["wall_s"] / 60,
        "seconds a query": found["search"]["exact_ms"] / 1000,
    }
    target, where = float(args["target"]), f"{found['functions']:,} functions, {args['what']}"
    value = figures[args["what"]]
    return [
        Evidence(
            HERE_BUILT, where, found["functions"], value, unit="", exact=True, target=target, source=BUILT
        )
    ]


TESTS: dict[str, Callable[[Study, Args], list[Evidence]]] = {
    f.__name__: f
    for f in (
        paired,
        share,
        error_shift,
        tokens,
        topic_differences,
        topic_share,
        replayed,
        replayed_cells,
        graph,
    )
} | {"unavailable": lambda study, args: []}


def measure(study: Study, claims: Iterable[Claim]) -> list[tuple[Claim, list[Evidence]]]:
    """What each claim's test or check gives on this study; empty where nothing was measured."""
    found = [(c, _checked(c) if c.test in CHECKS else TESTS[c.test](study, c.args)) for c in claims]
    return [(c, [replace(e, ours=c.args.get("ours", False)) for e in seen]) for c, seen in found]


def claimed_by(claim: Claim) -> Evidence:
    """What a claim names and how far the paper's models spread, as evidence of nothing (n is 0), for the ledger."""
    args, none = claim.args, {"n": 0, "effect": math.nan, "ours": claim.args.get("ours", False)}
    if claim.test == "tokens":
        gaps = _published_tokens(args)
        return Evidence(
            "",
            "",
            **none,
            unit="tokens",
            target=float(gaps.mean()),
            spread=(float(gaps.min()), float(gaps.max())),
        )
    if claim.test in ("share", "topic_share"):
        return Evidence("", "", **none, unit="percent", target=_claimed_share(args))
    differences = {"paired": _published_gaps, "error_shift": _published_shifts, "replayed": _replayed_gaps}
    if claim.test in differences:
        target, spread = _claimed(args, differences[claim.test](args))
        return Evidence("", "", **none, target=target, spread=spread)
    return Evidence("", "", **none, unit="", target=float(args.get("target", math.nan)))


def _checked(claim: Claim) -> list[Evidence]:
    target = float(claim.args.get("target", math.nan))
    readings = CHECKS[claim.test](claim.args, claim.cells)
    return [
        Evidence(PAPER, how, 1, value, unit="", exact=True, target=target, source=PRINTED)
        for how, value in readings
    ]
