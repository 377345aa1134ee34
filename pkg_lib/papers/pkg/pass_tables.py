"""Tables 1 to 6 (Section 5): this study's rows of pass@1 beside the published ones, coloured against None."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import pandas as pd

from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.stats import BASELINE, CONTROLS, RESAMPLES, check_controls, compare, pass_at_1, wilson
from pkg_lib.analysis.tables import (
    DASH,
    FULL_AT,
    HERE,
    colour,
    complete,
    interval,
    kind,
    percent,
    points,
    probability,
    render,
    tex,
)
from pkg_lib.data.benchmarks import title_of
from pkg_lib.retrieval.columns import COLUMNS

# (benchmark, kind of the columns) -> number of the paper's table
PUBLISHED = {("humaneval", "code"): 1, ("mbpp", "code"): 2, ("humaneval", "text"): 3, ("mbpp", "text"): 4}
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
    f"linear in its size up to {FULL_AT:.0f} points. It shows size, not significance."
)
PARTLY = (
    "n: tasks measured where some are not, which then need not be a random part of all. Reranked and Ideal "
    "need every other column of a task."
)
PAIRED = (
    "Differences and intervals in points of pass@1, over the tasks measured in both. Interval: paired "
    f"bootstrap over tasks, {RESAMPLES:,} resamples. p: exact McNemar test, then corrected by Holm over the "
    "tested columns. Ideal chooses among candidates that include None's, so it cannot lose and is not tested."
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
        return colour(self.difference)

    @property
    def gap(self) -> str:
        """The difference of a measured cell as text."""
        return "" if self.measured is None or self.difference is None else points(self.difference / 100)

    def __str__(self) -> str:
        """As in Markdown, which has no colours: the difference of a measured cell stands beside its rate."""
        return f"{self.text} ({self.gap})" if self.gap else self.text


class PassTable(Grid):
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
        rounded = [{k: round(v, 4) if isinstance(v, float) else v for k, v in c.items()} for c in cells]
        # As objects, since the counts and most published rates are whole numbers.
        frame = pd.DataFrame(rounded, dtype=object).drop(columns="text")
        frame = frame.rename(columns={"value": "pass_at_1_percent", "difference": "difference_points"})
        return frame.to_csv(index=False, lineterminator="\n")

    def latex(self) -> str:
        lines = [" & ".join(["Model", *self.frame])]
        for source, rows in self.sources:
            heading = rf"\multicolumn{{{self.frame.shape[1] + 1}}}{{l}}{{\emph{{{tex(source)}}}}}"
            lines += [r"\midrule", heading]
            lines += [" & ".join([tex(model), *map(_tex_cell, cells)]) for (_, model), *cells in rows]
        return self._booktabs(lines, xcolor=True)

    def html(self) -> str:
        """A fragment; report.css styles it, and it reads well without."""
        return render("table.html.j2", table=self)


def _tex_cell(cell: PassCell) -> str:
    return (rf"\cellcolor[HTML]{{{cell.colour[1:]}}}" if cell.colour else "") + tex(cell.text)


def printed(number: int | str) -> pd.DataFrame:
    """The paper's table of a number, row x column, texts in printed order; NaN where it has no such cell."""
    (path,) = (HERE / "reference").glob(f"pkg_table{number}_*.csv")
    row, column, value = LAYOUTS.get(int(number), ("model", "method", "pass_at_1_percent"))
    cells = pd.read_csv(path, dtype=str, keep_default_na=False)
    wide = cells.pivot(index=row, columns=column, values=value)
    return wide.loc[cells[row].drop_duplicates(), cells[column].drop_duplicates()]


def published(benchmark: str, columns: Sequence[str], setting: str = "") -> pd.DataFrame:
    """The paper's rows for a benchmark as they are printed: model x columns; empty without any.

    `setting` is a kind of PUBLISHED, by default that of the columns. What the table does not have is "".
    """
    setting = setting or kind(columns)
    if (benchmark, setting) not in PUBLISHED:
        return pd.DataFrame(columns=list(columns))
    names = [COLUMNS[c].published_as or c for c in columns]
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
    check_controls(controls, tasks)
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
        notes.append(f"Published rows: Dense is the paper's VoyageEmb{ideal}; numbers as printed there.")
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
        cells.append(PassCell(text, 100 * rate.value, difference, *(100 * b for b in bounds), *counts))
    return tuple(cells)


def published_cells(texts: Iterable[str], values: Sequence[float]) -> tuple[PassCell, ...]:
    """Cells as they are printed in the paper, a dash where its table has none."""
    pairs = enumerate(zip(texts, values, strict=True))
    differences = [None, *(value - values[0] for value in values[1:])]
    return tuple(PassCell(DASH) if math.isnan(v) else PassCell(t, v, differences[i]) for i, (t, v) in pairs)


def _published_rows(benchmark: str, columns: Sequence[str]) -> dict[tuple[str, str], tuple[PassCell, ...]]:
    texts, rates = published(benchmark, columns), published_rates(benchmark, columns)
    rows = {m: published_cells(texts.loc[m], rates.loc[m].tolist()) for m in texts.index}
    rows["Avg."] = published_cells(map(percent, rates.mean() / 100), rates.mean().tolist())
    table = f"Table {PUBLISHED[benchmark, kind(columns)]} of the PKG paper"
    source = f"Published, corpus {PUBLISHED_CORPUS[kind(columns)]} ({table})"
    return {(source, model): cells for model, cells in rows.items()}


def against_none(verdicts: pd.DataFrame) -> Grid:
    """Each column's paired difference to None with its interval, counts and p values."""
    rows = {}
    for column, row in compare(complete(verdicts)).iterrows():
        counts = [f"{row[name]:.0f}" if row["n"] else DASH for name in ("n", "helped", "hurt")]
        tests = [probability(row["p"]), probability(row["p_holm"])]
        effect = [points(row["difference"]), interval(row["low"], row["high"])]
        rows[str(column)] = [counts[0], *effect, *counts[1:], *tests]
    columns = ["tasks", "difference", "95 % interval", "helped", "hurt", "McNemar p", "p (Holm)"]
    return Grid.of("Differences to None", rows, columns, "against None", PAIRED)
