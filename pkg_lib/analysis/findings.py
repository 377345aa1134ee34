"""What the verdicts of one experiment say, in words: every sentence is computed, so it cannot say anything else."""

from __future__ import annotations

import pandas as pd
from markupsafe import Markup

from pkg_lib.analysis.stats import (
    BASELINE,
    ORACLE,
    RESAMPLES,
    compare,
    helped_and_hurt,
    not_measured,
    paired_bootstrap,
    pass_at_1,
    wilson,
)
from pkg_lib.analysis.tables import (
    CHOOSING,
    DASH,
    PUBLISHED,
    TITLES,
    complete,
    differences,
    interval,
    kind,
    percent,
    points,
    probability,
    published_rates,
    render,
    single,
)

ALPHA = 0.05


def findings(verdicts: pd.DataFrame, benchmark: str) -> list[str]:
    """Sentences computed from the verdicts, so that they cannot say anything else than the table."""
    frame = complete(verdicts)
    absent = not_measured(frame, frame)
    said = [f"Not measured: {', '.join(absent)}."] if absent else []
    if BASELINE in absent:
        return [*said, "Without None there is nothing to compare a column with."]
    base = pass_at_1(frame[BASELINE])
    low, high = wilson(base.passed, base.measured) or (0.0, 1.0)
    return [
        f"Without retrieval (None) {base.passed} of {base.measured} tasks are solved: {percent(base.value)} % "
        f"(95 % interval {percent(low)} to {percent(high)}).",
        *_decided(compare(frame)),
        *_best_retriever(frame),
        *_selection(frame),
        *_beside_published(frame, benchmark),
        *said,
    ]


def _decided(found: pd.DataFrame) -> list[str]:
    """Which columns differ from None: decided by the corrected p, with the interval beside it."""
    tested = found[found["p_holm"].notna()]
    clear = tested["p_holm"] < ALPHA
    groups = {
        "Above None beyond chance": tested[clear & (tested["difference"] > 0)],
        "Below None beyond chance": tested[clear & (tested["difference"] < 0)],
        "No difference to None shown": tested[~clear],
    }
    said = {what: "; ".join(_against_none(n, r) for n, r in rows.iterrows()) for what, rows in groups.items()}
    return [f"{what}: {text}." for what, text in said.items() if text]


def _against_none(name: object, row: pd.Series) -> str:
    p = probability(row["p_holm"])
    sign = "" if p.startswith("<") else "= "
    return f"{name} {points(row['difference'])} points ({interval(row['low'], row['high'])}; corrected p {sign}{p})"


def _best_retriever(frame: pd.DataFrame) -> list[str]:
    retrieved = [c for c in single(frame) if c != BASELINE]
    absent = not_measured(retrieved, frame)
    common = frame[[c for c in retrieved if c not in absent]].dropna()
    known = {c: float(common[c].mean()) for c in common}
    if len(known) < 2 or common.empty:
        return []
    top, bottom = max(known.values()), min(known.values())
    where = f" on the {len(common)} tasks measured in all of them" if len(common) < len(frame) else ""
    if top == bottom:
        return [f"All measured retrieval columns score {percent(top)} %{where}."]
    best, worst = (" and ".join(c for c, r in known.items() if r == edge) for edge in (top, bottom))
    return [
        f"Highest of the retrieval columns{where}: {best} ({percent(top)} %); lowest: {worst} ({percent(bottom)} %)."
    ]


def _selection(frame: pd.DataFrame) -> list[str]:
    """What choosing after generation adds, and what a perfect choice would; every gap over the tasks measured in both."""
    said = []
    rates = dict.fromkeys(CHOOSING) | {c: pass_at_1(frame[c]).value for c in frame}
    if rates["Reranked"] is not None:
        common = frame.loc[frame["Reranked"].notna(), single(frame)]
        best = str(common.mean().astype(float).idxmax())
        gap = _gap(frame, "Reranked", best)
        said.append(
            f"Reranked scores {percent(rates['Reranked'])} %, {gap} points against {best}, the best column in hindsight."
        )
    if rates[ORACLE] is not None:
        gap, rest = _gap(frame, ORACLE, BASELINE), _gap(frame, ORACLE, "Reranked")
        beyond = f" and {rest} against Reranked" if rates["Reranked"] is not None else ""
        said.append(
            f"A perfect choice (Ideal) would score {percent(rates[ORACLE])} %: {gap} points against None{beyond}."
        )
    return said


def _gap(frame: pd.DataFrame, column: str, other: str) -> str:
    found = paired_bootstrap(frame[column], frame[other], resamples=1)
    return DASH if found is None else points(found.value)


def _beside_published(frame: pd.DataFrame, benchmark: str) -> list[str]:
    """Ours beside the paper's average difference to None, column by column; other models and another corpus."""
    if (benchmark, kind(frame)) not in PUBLISHED:
        return []
    theirs = published_rates(benchmark, list(frame)).mean().dropna()
    ours = compare(frame)["difference"].dropna()
    both = [(c, d) for c, d in ours.items() if c in theirs]
    pairs = [f"{c} {points(d)} here, {points((theirs[c] - theirs[BASELINE]) / 100)} there" for c, d in both]
    return (
        [f"Points against None beside the paper's average over its models: {'; '.join(pairs)}."]
        if pairs
        else []
    )


def differences_html(verdicts: pd.DataFrame) -> Markup:
    """`tables.differences` as an HTML fragment with its legend."""
    return Markup(render("differences.html.j2", frame=differences(verdicts), resamples=RESAMPLES))


def changed_tasks(verdicts: pd.DataFrame) -> str:
    """Markdown: the ids of the tasks that each column helped and hurt against None."""
    frame = complete(verdicts)
    lines = []
    for name in frame.columns.drop(BASELINE):
        helped, hurt = helped_and_hurt(frame[name], frame[BASELINE])
        if not (frame[name].notna() & frame[BASELINE].notna()).any():
            lines.append(f"- **{name}**: not measured")
            continue
        lines.append(
            f"- **{name}** helped {len(helped)}: {', '.join(helped) or 'none'}; hurt {len(hurt)}: {', '.join(hurt) or 'none'}"
        )
    return "\n".join(lines)


def own_function_sentence(found: pd.DataFrame) -> str:
    """`metrics.own_function` in words: how many contexts hold the function that the task asks for."""
    if not found["known"].sum():
        return "Contexts that define the very function asked for: not measured."
    known = found[found["known"] > 0]
    parts = [f"{column} {row['defining']} of {row['known']}" for column, row in known.iterrows()]
    return f"Contexts that define the very function asked for: {', '.join(parts)}."


def caption_rates(verdicts: pd.DataFrame, benchmark: str) -> str:
    """What the bar chart shows, in words, for captions and for readers who cannot see it."""
    frame = complete(verdicts)
    parts = [f"{c} {percent(pass_at_1(frame[c]).value)}" for c in frame]
    return (
        f"pass@1 in percent on {TITLES.get(benchmark, benchmark)}: {', '.join(parts)} ({DASH}: not measured)."
    )


def caption_changes(verdicts: pd.DataFrame) -> str:
    """What the helped and hurt chart shows, in words."""
    found = compare(complete(verdicts))
    parts = [f"{c} {int(r['helped'])} helped, {int(r['hurt'])} hurt" for c, r in found.iterrows() if r["n"]]
    return f"Tasks against None: {'; '.join(parts) or 'nothing measured'}."
