"""Table 7: how solutions fail without and with retrieval, by the exception that ended them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.stats import mcnemar
from pkg_lib.analysis.tables import DASH, HERE, MINUS, TITLES, probability
from pkg_lib.core.types import Outcome
from pkg_lib.execution.errors import BEYOND, TABLE7, split_detail
from pkg_lib.papers.pkg.waterfall import HelpHurt, Record, waterfall

Outcomes = Mapping[str, Outcome]
OTHERS = "Others"
PASSED = "passed"
OF_OTHERS = f"of {OTHERS}: "


def error_counts(outcomes: Outcomes) -> pd.Series:
    """Failed solutions by error: TABLE7's types as raised, then those beyond the table (Timeout and so on) by their own.

    <NA> where no outcome is measured.
    """
    found = Counter(o.error for o in outcomes.values() if o.status == "failed")
    known = any(o.status != "not_measured" for o in outcomes.values())
    return pd.Series({e: found.get(e, 0) if known else pd.NA for e in (*TABLE7, *BEYOND)}, dtype="Int64")


def as_published(counts: pd.Series) -> pd.Series:
    """The counts by the six rows of Table 7: what lies beyond the table is counted as Others."""
    rows = counts[list(TABLE7)].copy()
    rows[OTHERS] += counts[list(BEYOND)].sum()
    return rows


def _text(count: Any) -> str:
    return DASH if pd.isna(count) else str(count)


def published() -> pd.DataFrame:
    """The paper's counts on MBPP: error type x setting."""
    rows = pd.read_csv(HERE / "reference" / "pkg_table7_errors_mbpp.csv")
    wide = rows.pivot(index="error_type", columns="setting", values="count")
    return wide.loc[list(TABLE7), rows["setting"].drop_duplicates()]


def table7(settings: Mapping[tuple[str, str], Outcomes], benchmark: str) -> Grid:
    """Error types x settings, each setting a (group, name) with its outcomes; the published columns follow for MBPP.

    The last rows split Others: how many of them are a time-out, a memory limit and so on.
    """
    columns: dict[tuple[str, str], dict[str, str]] = {}
    for setting, outcomes in settings.items():
        counts = error_counts(outcomes)
        column = {e: _text(n) for e, n in as_published(counts).items()} | {
            "all failed": _text(counts.sum(min_count=1))
        }
        column |= {"not measured": str(sum(o.status == "not_measured" for o in outcomes.values()))}
        columns[setting] = column | {OF_OTHERS + e: _text(counts[e]) for e in BEYOND}
    if benchmark == "mbpp":
        for name, counts in published().items():
            column = {str(e): str(n) for e, n in counts.items()}
            columns["Published (Table 7)", str(name)] = column | {"all failed": str(counts.sum())}
    frame = pd.DataFrame(columns).fillna(DASH).rename_axis("error")
    note = "Others holds what is none of the five types; the last rows say what of it is beyond the table. "
    note += f"{DASH} not measured, or not published."
    return Grid(f"Failed solutions by error on {TITLES.get(benchmark, benchmark)}", frame, (note,))


def count_frame(settings: Mapping[tuple[str, str], Outcomes], benchmark: str) -> pd.DataFrame:
    """setting x TABLE7 counts for `figures.error_bars`, <NA> where not measured; a second setting is named by what it adds.

    n is named where some tasks are not measured.
    """
    rows = {}
    for (_, name), outcomes in settings.items():
        known = sum(o.status != "not_measured" for o in outcomes.values())
        rows[name if known in (0, len(outcomes)) else f"{name} (n={known})"] = as_published(
            error_counts(outcomes)
        )
    if benchmark == "mbpp":
        rows |= {str(name): counts for name, counts in published().items()}
    return pd.DataFrame(rows).T.rename(index=lambda n: f"+ {n.partition(' + ')[2]}" if " + " in n else n)


def shift(without: Outcomes, with_: Outcomes, names: tuple[str, str]) -> Grid:
    """What retrieval changes: counts without, with, their difference; over the tasks measured in both."""
    a, b = (as_published(error_counts(o)) for o in _both(without, with_))
    a["all failed"], b["all failed"] = a.sum(min_count=1), b.sum(min_count=1)
    rows = {e: (_text(a[e]), _text(b[e]), _signed(b[e] - a[e])) for e in a.index}
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=[*names, "change"]).rename_axis("error")
    return Grid(f"Failed solutions: {names[1]} against {names[0]}", frame)


def transitions(without: Outcomes, with_: Outcomes, names: tuple[str, str]) -> Grid:
    """Tasks by their fate without (rows) and with (columns) retrieval, over the tasks measured in both."""
    a, b = _both(without, with_)
    pairs = Counter((_fate(a[t]), _fate(b[t])) for t in a)
    order = [f for f in (PASSED, *TABLE7) if any(f in p for p in pairs)]
    frame = pd.DataFrame(
        [[str(pairs.get((r, c), 0)) for c in order] for r in order], order, order
    ).rename_axis(names[0])
    return Grid(f"Tasks by fate: {names[0]} (rows), {names[1]} (columns)", frame)


def _fate(outcome: Outcome) -> str:
    return PASSED if outcome.status == "passed" else outcome.error if outcome.error in TABLE7 else OTHERS


def _both(without: Outcomes, with_: Outcomes) -> tuple[dict[str, Outcome], dict[str, Outcome]]:
    known = [t for t in without if t in with_ and "not_measured" not in (without[t].status, with_[t].status)]
    return {t: without[t] for t in known}, {t: with_[t] for t in known}


def _signed(n: Any) -> str:
    return DASH if pd.isna(n) else f"{n:+d}".replace("-", MINUS) if n else "0"


def common_messages(outcomes: Outcomes, top: int = 3) -> Grid:
    """The most common last lines of tracebacks of each error; quoted names, numbers and values are left out."""
    by_error: dict[str, Counter[str]] = {}
    for outcome in outcomes.values():
        if outcome.status == "failed":
            line, _ = split_detail(outcome.detail)
            by_error.setdefault(outcome.error, Counter())[_shape(line)] += 1
    rows = {}
    for error in sorted(by_error, key=lambda e: -by_error[e].total()):
        said = [
            f"{n}: {line}" for line, n in sorted(by_error[error].items(), key=lambda p: (-p[1], p[0]))[:top]
        ]
        rows[error] = (str(by_error[error].total()), "; ".join(said))
    frame = pd.DataFrame.from_dict(
        rows, orient="index", columns=["failed", "most common messages"]
    ).rename_axis("error")
    return Grid("What the tracebacks say", frame)


def _shape(line: str) -> str:
    short = re.sub(r"'[^']*'|\"[^\"]*\"", "'…'", line)
    return re.sub(r"\d+", "N", short)[:80]


def ways(records: Mapping[str, list[Record]]) -> Grid:
    """The failure waterfall of each method: how many tasks reach each stage, and how many are lost there."""
    columns, order = {}, []
    for method, found in records.items():
        stages = waterfall(found) if any(r.passed is not None for r in found) else []
        order = max(order, [s.name for s in stages], key=len)
        columns[method] = {s.name: _stage(s.reached, s.lost, s.not_measured, s.passed_anyway) for s in stages}
    frame = pd.DataFrame(columns).reindex(order).fillna(DASH).rename_axis("stage")
    note = (
        "Tasks that reach a stage, in brackets those lost at it. A task without context is lost to the method; where it is asked "
        f"all the same, 'passed anyway' counts it. {DASH} the method has no such stage, or is not measured."
    )
    return Grid("From tasks to passed tasks", frame, (note,))


def _stage(reached: int, lost: int, unknown: int, anyway: int) -> str:
    said = [f"{MINUS}{lost}"] if lost else []
    said += [f"{anyway} passed anyway"] if anyway else []
    said += [f"{unknown} not measured"] if unknown else []
    return f"{reached} ({', '.join(said)})" if said else str(reached)


def matrix(found: HelpHurt, names: tuple[str, str]) -> Grid:
    """The 2x2 table of a method against None with McNemar's exact test."""
    first, second = names
    rows = {f"{second} passed": (found.both, found.helped), f"{second} failed": (found.hurt, found.neither)}
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=[f"{first} passed", f"{first} failed"])
    frame = (
        frame.astype(str) if frame.to_numpy().any() else frame.astype(str).replace("0", DASH)
    ).rename_axis("tasks")
    missing = f"; {found.not_measured} tasks are not measured in both" if found.not_measured else ""
    return Grid(
        f"{names[1]} against {names[0]}",
        frame,
        (f"McNemar's exact test: p {probability(found.p)}{missing}.",),
    )


def findings(without: Outcomes, with_: Outcomes, names: tuple[str, str]) -> list[str]:
    """What the two settings differ in, computed from their outcomes."""
    a, b = _both(without, with_)
    if not a:
        return [f"{names[0]} and {names[1]} have no task measured in both."]
    counts, others = as_published(error_counts(a)), as_published(error_counts(b))
    said = [
        f"Of {len(a)} tasks measured in both, {counts.sum()} fail with {names[0]} and {others.sum()} with {names[1]}."
    ]
    moved = [
        f"{e} {counts[e]} to {others[e]} (p {_sign_test(a, b, e)})" for e in TABLE7 if counts[e] or others[e]
    ]
    said.append(
        f"By error, {names[0]} to {names[1]}, with McNemar's exact p of each type alone: {'; '.join(moved)}."
    )
    new = {t for t in a if a[t].status == "passed" and b[t].status == "failed"}
    if new:
        kinds = sorted(Counter(_fate(b[t]) for t in new).items(), key=lambda pair: (-pair[1], pair[0]))
        said.append(
            f"The {len(new)} tasks that only {names[0]} solves fail with {', '.join(f'{k} ({n})' for k, n in kinds)}."
        )
    return said


def own_sentence(own: Mapping[str, Collection[str]], outcomes: Sequence[Outcomes]) -> str:
    """How many assertion errors are of assertions that the solution itself makes, before any test. `own`: setting -> tasks."""
    totals = [sum(o.error == "AssertionError" for o in found.values()) for found in outcomes]
    parts = [
        f"{len(tasks)} of {total} {name}"
        for (name, tasks), total in zip(own.items(), totals, strict=True)
        if total
    ]
    return f"AssertionErrors that the solution raises itself, before any test: {', '.join(parts) or 'none'}."


def _sign_test(a: Outcomes, b: Outcomes, error: str) -> str:
    gone = sum(_fate(a[t]) == error != _fate(b[t]) for t in a)
    came = sum(_fate(b[t]) == error != _fate(a[t]) for t in a)
    return probability(mcnemar(came, gone))
