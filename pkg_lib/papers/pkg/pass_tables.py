"""Tables 1 to 6 (Section 5): pass@1 beside the published rows, coloured against None; in words."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import pandas as pd

from pkg_lib.analysis import stats, tables
from pkg_lib.analysis.comparison import compare
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.sentences import decided, finding, listed
from pkg_lib.analysis.stats import (
    BASELINE,
    CONTROLS,
    ORACLE,
    paired_differences,
    pass_at_1,
    wilson,
)
from pkg_lib.analysis.tables import DASH, HERE, complete, csv_text, kind, percent, points, single
from pkg_lib.data.benchmarks import title_of
from pkg_lib.retrieval.methods import METHODS

# (benchmark, kind of the columns) -> number of the paper's table
PUBLISHED = {
    ("humaneval", "code"): 1,
    ("mbpp", "code"): 2,
    ("humaneval", "text"): 3,
    ("mbpp", "text"): 4,
}
PUBLISHED |= {("humaneval", "closed"): 5, ("mbpp", "closed"): 6}
# What the rows, columns and cells are of the tables that are not of pass@1.
LAYOUTS = {
    7: ("setting", "error_type", "count"),
    8: ("method", "step", "value"),
    9: ("tokenizer", "method", "avg_tokens"),
}
PUBLISHED_CORPUS = {"code": "PythonAlpaca", "text": "online tutorials"}
COLOURS = (
    "Colour: difference to None in the same row on tasks measured in both, orange-red below and teal above, "
    f"linear in its size up to {tables.FULL_AT:.0f} points. It shows size, not significance."
)
PARTLY = (
    "n: tasks measured where some are not, which then need not be a random part of all. Reranked and Ideal "
    "need every other column of a task."
)
PAIRED = (
    "Differences and intervals in points of pass@1, over the tasks measured in both. Interval: paired "
    f"bootstrap over tasks, {stats.RESAMPLES:,} resamples. p: exact McNemar test, then corrected by Holm "
    "over the tested columns. Ideal chooses among candidates that include None's, so it cannot lose and is "
    "not tested."
)


@dataclass(frozen=True, slots=True)
class PassCell:
    """One printed cell. `value`, `low`, `high` in percent, `difference` in points against the row's None."""

    text: str = ""
    value: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    passed: int | None = None
    measured: int | None = None
    total: int | None = None

    @property
    def colour(self) -> str:
        return tables.colour(self.difference)

    @property
    def gap(self) -> str:
        return (
            ""
            if self.measured is None or self.difference is None
            else points(self.difference / 100)
        )

    def __str__(self) -> str:
        """As in Markdown, which has no colours: the difference of a measured cell stands beside its rate."""
        return f"{self.text} ({self.gap})" if self.gap else self.text


class PassTable(ResultTable):
    """A table of pass@1: `frame` [(source, model), column] holds `PassCell`s."""

    @property
    def sources(self) -> list[tuple[str, list[tuple[Any, ...]]]]:
        """(source, its rows: index and cells)."""
        rows = groupby(self.frame.itertuples(name=None), key=lambda row: row[0][0])
        return [(source, list(of_source)) for source, of_source in rows]

    def summary(self) -> dict[str, tuple[str, str]]:
        """column -> (text, colour) of the first row's cell."""
        return {name: (c.text, c.colour) for name, c in self.frame.iloc[0].items()}

    def csv(self) -> str:
        """One line a cell; an empty value was not measured."""
        cells = [
            dict(zip(("source", "model", "method"), where, strict=True)) | asdict(cell)
            for where, cell in self.frame.stack().items()
            if cell.text
        ]
        rounded = [
            {k: round(v, 4) if isinstance(v, float) else v for k, v in c.items()} for c in cells
        ]
        # As objects, since the counts and most published rates are whole numbers.
        frame = pd.DataFrame(rounded, dtype=object).drop(columns="text")
        frame = frame.rename(
            columns={"value": "pass_at_1_percent", "difference": "difference_points"}
        )
        return csv_text(frame, index=False)

    def latex(self) -> str:
        lines = [" & ".join(["Model", *self.frame])]
        for source, rows in self.sources:
            heading = (
                rf"\multicolumn{{{self.frame.shape[1] + 1}}}{{l}}{{\emph{{{tables.tex(source)}}}}}"
            )
            lines += [r"\midrule", heading]
            lines += [
                " & ".join([tables.tex(model), *map(_tex_cell, cells)])
                for (_, model), *cells in rows
            ]
        about = {"columns": self.frame.shape[1], "body": lines, "caption": self.latex_caption}
        return tables.render("booktabs.tex.j2", **about) + "\n"

    def html(self) -> str:
        return tables.render("table.html.j2", table=self)


def _tex_cell(cell: PassCell) -> str:
    return (rf"\cellcolor[HTML]{{{cell.colour[1:]}}}" if cell.colour else "") + tables.tex(
        cell.text
    )


def printed(number: int | str) -> pd.DataFrame:
    """The paper's table of a number, row x column, texts in printed order; NaN where it has no such cell."""
    (path,) = (HERE / "reference").glob(f"pkg_table{number}_*.csv")
    row, column, value = LAYOUTS.get(int(number), ("model", "method", "pass_at_1_percent"))
    cells = pd.read_csv(path, dtype=str, keep_default_na=False)
    wide = cells.pivot(index=row, columns=column, values=value)
    return wide.loc[cells[row].drop_duplicates(), cells[column].drop_duplicates()]


def published(benchmark: str, columns: Sequence[str], setting: str = "") -> pd.DataFrame:
    """model x column as printed, "" where the table has none; `setting`: a kind of PUBLISHED."""
    setting = setting or kind(columns)
    if (benchmark, setting) not in PUBLISHED:
        return pd.DataFrame(columns=list(columns))
    names = [METHODS[c].published_as or c for c in columns]
    wide = printed(PUBLISHED[benchmark, setting]).reindex(columns=names, fill_value="")
    return wide.set_axis(list(columns), axis=1)


def published_rates(benchmark: str, columns: Sequence[str]) -> pd.DataFrame:
    """`published` as numbers, NaN where the paper's table has no such column."""
    return published(benchmark, columns).apply(pd.to_numeric)


def pass_table(
    model: str,
    verdicts: pd.DataFrame,
    controls: Mapping[str, pd.Series],
    benchmark: str,
    corpus: str,
    limit: int | None = None,
) -> PassTable:
    """This study's row, the controls and the published rows. Raises ControlError before all else."""
    frame = complete(verdicts)
    tasks, columns = frame.index, tuple(frame)
    stats.check_controls(controls, tasks)
    rows = {(f"This study, corpus {corpus}", model): measured_cells(frame)}
    for name in CONTROLS:
        (cell,) = measured_cells(controls[name].reindex(tasks).to_frame(BASELINE))
        rows["Controls, without a model", name] = (cell, *[PassCell()] * (len(columns) - 1))
    notes = [COLOURS]
    ours = [c for cells in rows.values() for c in cells if c.measured is not None]
    notes += [f"{DASH} not measured."] if any(c.value is None for c in ours) else []
    notes += [PARTLY] if any(0 < c.measured < c.total for c in ours) else []
    if (benchmark, kind(columns)) in PUBLISHED:
        ideal = ", Ideal its Ideal Reranker" if kind(columns) == "code" else ""
        notes.append(
            f"Published rows: Dense is the paper's VoyageEmb{ideal}; numbers as printed there."
        )
        rows |= _published_rows(benchmark, columns)
    first = f"the first {len(tasks)} tasks" if limit else f"{len(tasks)} tasks"
    title = f"pass@1 in percent on {title_of(benchmark)} ({first}), one greedy sample a task"
    return PassTable.of(title, rows, columns, ["Source", "Model"], *notes)


def measured_cells(verdicts: pd.DataFrame) -> tuple[PassCell, ...]:
    """Each column's rate with its Wilson interval, and its difference to None."""
    cells, passed = [], verdicts.astype(float)
    for name in verdicts:
        rate = pass_at_1(verdicts[name])
        bounds = wilson(rate.passed, rate.measured)
        if bounds is None:
            cells.append(PassCell(DASH, measured=0, passed=0, total=rate.total))
            continue
        gap = (passed[name] - passed[BASELINE]).mean()
        difference = None if name == BASELINE or math.isnan(gap) else 100 * gap
        text = percent(rate.value) + (f" (n={rate.measured})" if rate.measured < rate.total else "")
        counts = rate.passed, rate.measured, rate.total
        cells.append(
            PassCell(text, 100 * rate.value, difference, *(100 * b for b in bounds), *counts)
        )
    return tuple(cells)


def published_cells(texts: Iterable[str], values: Sequence[float]) -> tuple[PassCell, ...]:
    """Cells as they are printed in the paper, a dash where its table has none."""
    pairs = enumerate(zip(texts, values, strict=True))
    differences = [None, *(value - values[0] for value in values[1:])]
    return tuple(
        PassCell(DASH) if math.isnan(v) else PassCell(t, v, differences[i]) for i, (t, v) in pairs
    )


def _published_rows(
    benchmark: str, columns: Sequence[str]
) -> dict[tuple[str, str], tuple[PassCell, ...]]:
    texts, rates = published(benchmark, columns), published_rates(benchmark, columns)
    rows = {m: published_cells(texts.loc[m], rates.loc[m].tolist()) for m in texts.index}
    rows["Avg."] = published_cells(map(percent, rates.mean() / 100), rates.mean().tolist())
    table = f"Table {PUBLISHED[benchmark, kind(columns)]} of the PKG paper"
    source = f"Published, corpus {PUBLISHED_CORPUS[kind(columns)]} ({table})"
    return {(source, model): cells for model, cells in rows.items()}


def against_none(verdicts: pd.DataFrame) -> ResultTable:
    """Each column's paired difference to None with its interval, counts and p values."""
    rows = {}
    for column, row in compare(complete(verdicts)).iterrows():
        counts = [f"{row[name]:.0f}" if row["n"] else DASH for name in ("n", "helped", "hurt")]
        tests = [tables.probability(row["p"]), tables.probability(row["p_corrected"])]
        low, high = map(tables.percentage_points, (row["low"], row["high"]))
        bounds = f"{low} to {high}" if row["n"] else DASH
        effect = [tables.percentage_points(row["difference"]), bounds]
        rows[str(column)] = [counts[0], *effect, *counts[1:], *tests]
    columns = ["tasks", "difference", "95 % interval", "helped", "hurt", "McNemar p", "p (Holm)"]
    return ResultTable.of("Differences to None", rows, columns, "against None", PAIRED)


def findings(verdicts: pd.DataFrame, benchmark: str) -> list[str]:
    """Against None, among retrieval columns, by choosing, beside the paper; and what is not measured."""
    frame = complete(verdicts)
    absent = stats.not_measured(frame, frame)
    unmeasured = finding("Not measured", [", ".join(absent)])
    if BASELINE in absent:
        return [*unmeasured, "Without None there is nothing to compare a column with."]
    base = pass_at_1(frame[BASELINE])
    low, high = wilson(base.passed, base.measured) or (0.0, 1.0)
    return [
        f"Without retrieval (None) {base.passed} of {base.measured} tasks are solved: {percent(base.value)} "
        f"% (95 % interval {percent(low)} to {percent(high)}).",
        *decided(paired_differences(frame), ("Above None", "Below None", "No difference to None")),
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
    where = (
        f" on the {len(common)} tasks measured in all of them" if len(common) < len(frame) else ""
    )
    if rates.min() == rates.max():
        return [f"All measured retrieval columns score {percent(rates.max())} %{where}."]
    best, worst = (
        f"{listed(rates.index[rates == r])} ({percent(r)} %)" for r in (rates.max(), rates.min())
    )
    return [f"Highest of the retrieval columns{where}: {best}; lowest: {worst}."]


def _selection(frame: pd.DataFrame) -> list[str]:
    """What choosing after generation adds, and a perfect choice would, over the tasks of both."""
    chosen = [c for c in ("Reranked", ORACLE) if c in frame and frame[c].notna().any()]
    sentences, rates = [], {c: percent(pass_at_1(frame[c]).value) for c in chosen}
    if "Reranked" in rates:
        best = str(
            frame.loc[frame["Reranked"].notna(), single(frame)].mean().astype(float).idxmax()
        )
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
    gaps = paired_differences(frame)["difference"].dropna()
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
        changes = zip(
            ("helped", "hurt"), stats.helped_and_hurt(frame[name], frame[BASELINE]), strict=True
        )
        text = "; ".join(f"{what} {len(ids)}: {', '.join(ids) or 'none'}" for what, ids in changes)
        lines.append(f"- **{name}** {text}" if both else f"- **{name}**: not measured")
    return "\n".join(lines)


def answer_finding(counts: pd.DataFrame) -> list[str]:
    """Say how many contexts define the function that their task asks for.

    Args:
        counts: What `stats.count_defining_contexts` returns.

    Returns:
        One sentence.
    """
    checked = counts[counts["known"] > 0]
    parts = [f"{method} {row['defining']} of {row['known']}" for method, row in checked.iterrows()]
    text = ", ".join(parts) or "not measured"
    return finding("Contexts that define the very function asked for", [text])
