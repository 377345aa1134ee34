"""What the verdicts of one experiment say, in computed sentences."""

from __future__ import annotations

import pandas as pd

from pkg_lib.analysis.sentences import decided, finding, listed
from pkg_lib.analysis.stats import BASELINE, ORACLE, compare, helped_and_hurt, not_measured, pass_at_1, wilson
from pkg_lib.analysis.tables import complete, kind, percent, points, single
from pkg_lib.papers.pkg.pass_tables import PUBLISHED, published_rates

AGAINST_NONE = ("Above None", "Below None", "No difference to None")


def findings(verdicts: pd.DataFrame, benchmark: str) -> list[str]:
    """Against None, among retrieval columns, by choosing, beside the paper; and what is not measured."""
    frame = complete(verdicts)
    absent = not_measured(frame, frame)
    unmeasured = finding("Not measured", [", ".join(absent)])
    if BASELINE in absent:
        return [*unmeasured, "Without None there is nothing to compare a column with."]
    base = pass_at_1(frame[BASELINE])
    low, high = wilson(base.passed, base.measured) or (0.0, 1.0)
    return [
        f"Without retrieval (None) {base.passed} of {base.measured} tasks are solved: {percent(base.value)} "
        f"% (95 % interval {percent(low)} to {percent(high)}).",
        *decided(compare(frame), AGAINST_NONE),
        *_best_retriever(frame),
        *_selection(frame),
        *_beside_published(frame, benchmark),
        *unmeasured,
    ]


def _best_retriever(frame: pd.DataFrame) -> list[str]:
    columns = [c for c in single(frame) if c != BASELINE and frame[c].notna().any()]
    common = frame[columns].dropna()
    if len(columns) < 2 or common.empty:
        return []
    rates = common.mean().astype(float)
    where = f" on the {len(common)} tasks measured in all of them" if len(common) < len(frame) else ""
    if rates.min() == rates.max():
        return [f"All measured retrieval columns score {percent(rates.max())} %{where}."]
    best, worst = (f"{listed(rates.index[rates == r])} ({percent(r)} %)" for r in (rates.max(), rates.min()))
    return [f"Highest of the retrieval columns{where}: {best}; lowest: {worst}."]


def _selection(frame: pd.DataFrame) -> list[str]:
    """What choosing after generation adds, and a perfect choice would, over the tasks of both."""
    chosen = [c for c in ("Reranked", ORACLE) if c in frame and frame[c].notna().any()]
    sentences, rates = [], {c: percent(pass_at_1(frame[c]).value) for c in chosen}
    if "Reranked" in rates:
        best = str(frame.loc[frame["Reranked"].notna(), single(frame)].mean().astype(float).idxmax())
        text = f"{_gap(frame, 'Reranked', best)}, the best column in hindsight"
        sentences.append(f"Reranked scores {rates['Reranked']} %, {text}.")
    if ORACLE in rates:
        gaps = listed(_gap(frame, ORACLE, c) for c in (BASELINE, *rates) if c != ORACLE)
        sentences.append(f"A perfect choice (Ideal) would score {rates[ORACLE]} %: {gaps}.")
    return sentences


def _gap(frame: pd.DataFrame, column: str, other: str) -> str:
    gap = (frame[column].astype(float) - frame[other].astype(float)).mean()
    return f"{points(gap)} points against {other}"


def _beside_published(frame: pd.DataFrame, benchmark: str) -> list[str]:
    """Ours beside the paper's average difference to None, column by column."""
    if (benchmark, kind(frame)) not in PUBLISHED:
        return []
    rates = published_rates(benchmark, list(frame)).mean().dropna()
    gaps = compare(frame)["difference"].dropna()
    pairs = [
        f"{c} {points(gap)} here, {points((rates[c] - rates[BASELINE]) / 100)} there"
        for c, gap in gaps.items()
        if c in rates
    ]
    return finding("Points against None beside the paper's average over its models", pairs)


def changed_tasks(verdicts: pd.DataFrame) -> str:
    """Markdown: the ids of the tasks that each column helped and hurt against None."""
    frame, lines = complete(verdicts), []
    for name in frame.columns.drop(BASELINE):
        both = (frame[name].notna() & frame[BASELINE].notna()).any()
        changes = zip(("helped", "hurt"), helped_and_hurt(frame[name], frame[BASELINE]), strict=True)
        text = "; ".join(f"{what} {len(ids)}: {', '.join(ids) or 'none'}" for what, ids in changes)
        lines.append(f"- **{name}** {text}" if both else f"- **{name}**: not measured")
    return "\n".join(lines)
