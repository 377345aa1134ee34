"""Tables 1 to 6 (Section 5): pass@1 next to the published rows, coloured by its difference."""

import math
from collections.abc import (
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import (
    asdict,
    dataclass,
)
from itertools import groupby
from typing import Any

import pandas as pd

from pkg_lib.analysis import tables
from pkg_lib.analysis.cells import PAIRED_COLUMNS, paired_cells
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.sentences import (
    finding,
    how_many,
    listed,
)
from pkg_lib.analysis.stats import (
    ALPHA,
    BASELINE,
    FEWEST_FOR_BOOTSTRAP,
    ORACLE,
    RESAMPLES,
    helped_and_hurt,
    not_measured,
    paired_differences,
    pass_at_1,
    wilson,
)
from pkg_lib.analysis.tables import (
    DASH,
    HERE,
    complete,
    csv_text,
    kind,
    percent,
    points,
    single,
)
from pkg_lib.data.benchmarks import title_of
from pkg_lib.data.corpora import corpus_in_words
from pkg_lib.evaluation.controls import CONTROLS, check_controls
from pkg_lib.papers.pkg.labels import voyage_note
from pkg_lib.papers.pkg.overlap import measured_methods
from pkg_lib.retrieval.methods import (
    RERANKED,
)

# (benchmark, kind of the methods) -> number of the paper's table
PUBLISHED = {
    ("humaneval", "code"): 1,
    ("mbpp", "code"): 2,
    ("humaneval", "text"): 3,
    ("mbpp", "text"): 4,
    ("humaneval", "closed"): 5,
    ("mbpp", "closed"): 6,
}
PASS_LAYOUT = ("model", "method", "pass_at_1_percent")
# Number of a table -> the columns with its rows, columns and cells, of tables that are not of pass@1.
LAYOUTS = {
    7: ("setting", "error_type", "count"),
    8: ("method", "step", "value"),
    9: ("tokenizer", "method", "avg_tokens"),
}
PUBLISHED_CORPUS = {"code": "PythonAlpaca", "text": "online tutorials"}
COLOURS = (
    f"Colour: difference from {BASELINE} in the same row on tasks measured with both, orange-red below and "
    f"teal above, linear in its size up to {tables.FULL_AT:.0f} percentage points. Colours show size, not "
    "significance."
)
PARTLY = (
    "n: number of measured tasks if some are not measured; they need not be a random sample of all tasks. "
    f"{RERANKED} and {ORACLE} are computed only for tasks on which all other methods were run."
)
PAIRED = (
    "Differences and intervals are in percentage points of pass@1, over the tasks measured with both. "
    f"Intervals are paired bootstrap intervals over tasks, {RESAMPLES:,} resamples; there is none ({DASH}) "
    f"for fewer than {FEWEST_FOR_BOOTSTRAP} tasks, or if all resamples have the same difference. Interval "
    "and p come from different methods, so the interval can exclude 0 where p is above 0.05. p: exact "
    "McNemar test, then corrected by Holm over the tested methods. "
    f"{ORACLE} selects among candidates that include those of {BASELINE}, so it cannot lose and is not "
    "tested."
)
VOYAGE = "VoyageEmb"


@dataclass(frozen=True, slots=True)
class PassCell:
    """One printed cell of a table of pass@1.

    Attributes:
        text: What is printed.
        value: pass@1 in percent; None if it was not measured.
        difference: Difference to the row's baseline in percentage points.
        p_corrected: p-value of the difference, corrected over the row's methods; None if not tested.
        low: Lower end of the 95 % interval in percent.
        high: Upper end of the 95 % interval in percent.
        passed: Number of tasks that passed; None for a published cell.
        measured: Number of tasks with a verdict.
        total: Number of all tasks.
    """

    text: str = ""
    value: float | None = None
    difference: float | None = None
    p_corrected: float | None = None
    low: float | None = None
    high: float | None = None
    passed: int | None = None
    measured: int | None = None
    total: int | None = None

    @property
    def colour(self) -> str:
        """The background colour."""
        return tables.colour(self.difference)

    @property
    def gap(self) -> str:
        """The difference as text; "" for a published cell."""
        if self.measured is None or self.difference is None:
            return ""
        return points(self.difference / 100)

    def __str__(self) -> str:
        """The text for Markdown, which has no colours: a measured rate is followed by its difference."""
        return f"{self.text} ({self.gap})" if self.gap else self.text


class PassTable(ResultTable):
    """A table of pass@1, whose frame [(source, model), method] holds `PassCell` objects."""

    @property
    def sources(self) -> list[tuple[str, list[tuple[Any, ...]]]]:
        """Each source with its rows; a row is its index and its cells."""
        rows = self.frame.itertuples(name=None)
        return [(source, list(group)) for source, group in groupby(rows, key=_source)]

    def summary(self) -> dict[str, tuple[str, str]]:
        """Summarise the first row.

        Returns:
            Method -> text and colour of its cell.
        """
        first = self.frame.iloc[0]
        texts = [(cell.text, cell.colour) for cell in first]
        return dict(zip(first.index, texts, strict=True))

    def csv(self) -> str:
        """Write the cells as CSV.

        Returns:
            One line per cell with its interval and counts. An empty value was not measured.
        """
        lines = []
        for (source, model), *cells in self.frame.itertuples(name=None):
            for method, cell in zip(self.frame.columns, cells, strict=True):
                if not cell.text:
                    continue
                line: dict[str, Any] = {"source": source, "model": model, "method": method}
                for name, value in asdict(cell).items():
                    line[name] = round(value, 4) if isinstance(value, float) else value
                lines.append(line)
        # As objects, since the counts and most published rates are whole numbers.
        frame = pd.DataFrame(lines, dtype=object).drop(columns="text")
        names = {"value": "pass_at_1_percent", "difference": "difference_points"}
        return csv_text(frame.rename(columns=names), index=False)

    def latex(self) -> str:
        """Write a booktabs table whose rows are grouped by source.

        Returns:
            The text in LaTeX.
        """
        width = self.frame.shape[1]
        lines = [" & ".join(["Model", *self.frame])]
        for source, rows in self.sources:
            heading = rf"\multicolumn{{{width + 1}}}{{l}}{{\emph{{{tables.tex(source)}}}}}"
            lines += [r"\midrule", heading]
            for (_, model), *cells in rows:
                lines.append(" & ".join([tables.tex(model), *map(_tex_cell, cells)]))
        text = tables.render(
            "booktabs.tex.j2", columns=width, body=lines, caption=self.latex_caption
        )
        return text + "\n"

    def html(self) -> str:
        """Write a fragment of HTML with coloured cells.

        Returns:
            The fragment.
        """
        return tables.render("table.html.j2", table=self)


def _source(
    row: tuple[Any, ...],
) -> str:
    (source, _), *_ = row
    return str(source)


def _tex_cell(cell: PassCell) -> str:
    text = tables.tex(cell.text)
    if not cell.colour:
        return text
    return rf"\cellcolor[HTML]{{{cell.colour.removeprefix('#')}}}{text}"


# Published tables


def printed(number: int | str) -> pd.DataFrame:
    """Read a table of the paper.

    Args:
        number: Its number.

    Returns:
        Its cells as text, [row, column], in printed order; NaN where it has no such cell.
    """
    (path,) = (HERE / "reference").glob(f"pkg_table{number}_*.csv")
    row, column, value = LAYOUTS.get(int(number), PASS_LAYOUT)
    cells = pd.read_csv(path, dtype=str, keep_default_na=False)
    wide = cells.pivot(index=row, columns=column, values=value)
    return wide.loc[cells[row].drop_duplicates(), cells[column].drop_duplicates()]


def published(
    benchmark: str,
    methods: Sequence[str],
    setting: str = "",
) -> pd.DataFrame:
    """Read the paper's pass@1 of some methods.

    Args:
        benchmark: A benchmark by name.
        methods: Names of methods.
        setting: A kind of `PUBLISHED`; "" for the kind of the methods.

    Returns:
        Texts as printed, [model, method]; "" where the table has no such method. There are no rows if the
        paper has no such table.
    """
    setting = setting or kind(methods)
    if (benchmark, setting) not in PUBLISHED:
        return pd.DataFrame(columns=list(methods))
    wide = printed(PUBLISHED[benchmark, setting])
    return wide.reindex(columns=list(methods), fill_value="")


def published_rates(
    benchmark: str,
    methods: Sequence[str],
) -> pd.DataFrame:
    """Read the paper's pass@1 of some methods as numbers.

    Args:
        benchmark: A benchmark by name.
        methods: Names of methods.

    Returns:
        pass@1 in percent, [model, method]; NaN where the table has no such method.
    """
    rates: pd.DataFrame = published(benchmark, methods).apply(pd.to_numeric)
    return rates


# Tables


def pass_table(
    model: str,
    verdicts: pd.DataFrame,
    controls: Mapping[str, pd.Series],
    benchmark: str,
    corpus: str,
    limit: int | None = None,
) -> PassTable:
    """Show pass@1 of one model next to the control rows and the published rows.

    Args:
        model: The model's name.
        verdicts: Verdicts [task, method].
        controls: Control row -> its verdicts.
        benchmark: The benchmark's name.
        corpus: The corpus' name.
        limit: How many of the first tasks were taken; None for all.

    Returns:
        The table.

    Raises:
        ControlError: A control row is missing or has a wrong score.
    """
    frame = complete(verdicts)
    tasks, methods = frame.index, tuple(frame.columns)
    check_controls(controls, tasks)
    rows = {(f"This study, {corpus_in_words(corpus)}", model): measured_cells(frame)}
    for name in CONTROLS:
        (cell,) = measured_cells(controls[name].reindex(tasks).to_frame(BASELINE))
        empty = [PassCell()] * (len(methods) - 1)
        rows["Controls, without a model", name] = (cell, *empty)
    notes = _notes(rows.values())
    if VOYAGE in methods:
        notes.append(voyage_note(corpus))
    if (benchmark, kind(methods)) in PUBLISHED:
        notes.append("Rows of the paper: numbers as printed there, of other models.")
        rows |= _published_rows(benchmark, methods)
    count = f"the first {len(tasks)} tasks" if limit else f"{len(tasks)} tasks"
    title = f"pass@1 in percent on {title_of(benchmark)} ({count}), one greedy sample per task"
    return PassTable.of(
        title,
        rows,
        methods,
        ["Source", "Model"],
        *notes,
    )


def _notes(rows: Iterable[Sequence[PassCell]]) -> list[str]:
    """The notes that the measured cells need."""
    counted = [cell for row in rows for cell in row if cell.measured is not None]
    notes = [COLOURS]
    if any(cell.value is None for cell in counted):
        notes.append(f"{DASH} not measured.")
    if any(0 < (cell.measured or 0) < (cell.total or 0) for cell in counted):
        notes.append(PARTLY)
    return notes


def measured_cells(verdicts: pd.DataFrame) -> tuple[PassCell, ...]:
    """Compute the cells of a row that was measured here.

    Args:
        verdicts: Verdicts [task, method].

    Returns:
        The rate of each method with its Wilson interval, and its difference to no retrieval with the
        p-value.
    """
    tested = paired_differences(verdicts)["p_corrected"]
    cells = []
    for method in verdicts.columns:
        p = tested.get(method)
        cells.append(_measured_cell(verdicts, method, None if pd.isna(p) else float(p)))
    return tuple(cells)


def _measured_cell(
    verdicts: pd.DataFrame,
    method: str,
    p_corrected: float | None,
) -> PassCell:
    rate = pass_at_1(verdicts[method])
    if rate.value is None:
        return PassCell(DASH, passed=0, measured=0, total=rate.total)
    gap = _mean_gap(verdicts, method, BASELINE)
    text = percent(rate.value)
    if rate.measured < rate.total:
        text += f" (n={rate.measured})"
    low, high = wilson(rate.passed, rate.measured)
    return PassCell(
        text,
        100 * rate.value,
        None if method == BASELINE or math.isnan(gap) else 100 * gap,
        p_corrected,
        100 * low,
        100 * high,
        rate.passed,
        rate.measured,
        rate.total,
    )


def _mean_gap(
    verdicts: pd.DataFrame,
    method: str,
    other: str,
) -> float:
    """The mean difference on the tasks that both methods measured; NaN without one."""
    passed = verdicts[method].astype(float)
    passed_by_other = verdicts[other].astype(float)
    difference = passed - passed_by_other
    return float(difference.mean())


def published_cells(
    texts: Iterable[str],
    values: Sequence[float],
) -> tuple[PassCell, ...]:
    """Compute the cells of a published row.

    Args:
        texts: The cells as printed; the first one is without retrieval.
        values: Their numbers; NaN where the paper's table has no such cell.

    Returns:
        The cells; a dash where the table has none.
    """
    baseline = values[0]
    cells = []
    for place, (text, value) in enumerate(
        zip(
            texts,
            values,
            strict=True,
        )
    ):
        if math.isnan(value):
            cells.append(PassCell(DASH))
        else:
            cells.append(PassCell(text, value, value - baseline if place else None))
    return tuple(cells)


def _published_rows(
    benchmark: str,
    methods: Sequence[str],
) -> dict[tuple[str, str], tuple[PassCell, ...]]:
    """The paper's models and their average."""
    average = published_rates(benchmark, methods).mean()
    setting = kind(methods)
    table = f"Table {PUBLISHED[benchmark, setting]} of the PKG paper"
    source = f"In the paper, corpus {PUBLISHED_CORPUS[setting]} ({table})"
    rows = published_rows(source, published(benchmark, methods))
    rows[source, "Avg."] = published_cells(map(percent, average / 100), average.tolist())
    return rows


def published_rows(
    source: str,
    texts: pd.DataFrame,
) -> dict[tuple[str, str], tuple[PassCell, ...]]:
    """Compute the cells of published models.

    Args:
        source: The source that the rows are grouped by.
        texts: What `published` returns.

    Returns:
        (Source, model) -> its cells.
    """
    rows = {}
    for model, printed_cells in texts.iterrows():
        rates = pd.to_numeric(printed_cells).tolist()
        rows[source, str(model)] = published_cells(printed_cells, rates)
    return rows


def against_none(verdicts: pd.DataFrame) -> ResultTable:
    """Show the paired difference of every method to no retrieval.

    Args:
        verdicts: Verdicts [task, method].

    Returns:
        One row per method with its interval, counts and p-values.
    """
    rows = {}
    for method, row in paired_differences(complete(verdicts)).iterrows():
        rows[str(method)] = paired_cells(row)
    index = f"against {BASELINE}"
    return ResultTable.of(f"Differences from {BASELINE}", rows, PAIRED_COLUMNS, index, PAIRED)


def changed_tasks(verdicts: pd.DataFrame) -> str:
    """List the tasks that each method helped and hurt.

    Args:
        verdicts: Verdicts [task, method].

    Returns:
        A list in Markdown with the ids of the tasks.
    """
    frame = complete(verdicts)
    lines = []
    for method in frame.columns.drop(BASELINE):
        if not (frame[method].notna() & frame[BASELINE].notna()).any():
            lines.append(f"- **{method}**: not measured")
            continue
        helped, hurt = helped_and_hurt(frame[method], frame[BASELINE])
        lines.append(f"- **{method}** helped {_counted(helped)}; hurt {_counted(hurt)}")
    return "\n".join(lines)


def _counted(tasks: Sequence[str]) -> str:
    return f"{len(tasks)}: {', '.join(tasks) or 'none'}"


# Findings


def findings(
    verdicts: pd.DataFrame,
    benchmark: str,
) -> list[str]:
    """Say what a table of pass@1 shows.

    Args:
        verdicts: Verdicts [task, method].
        benchmark: The benchmark's name.

    Returns:
        Sentences on no retrieval and the retrieval methods, on selection, and on what is not measured.
    """
    frame = complete(verdicts)
    absent = not_measured(frame.columns, frame)
    unmeasured = finding("Not measured", [", ".join(absent)])
    if BASELINE in absent:
        return [*unmeasured, f"Without {BASELINE} there is nothing to compare a method with."]
    return [*_answer(frame, benchmark), *_selection(frame), *unmeasured]


def below_message(verdicts: pd.DataFrame) -> str:
    """Say how many retrieval methods solve fewer tasks than no retrieval, on the tasks of both.

    Args:
        verdicts: Verdicts [task, method].

    Returns:
        Text such as "every retrieval method solves fewer tasks than NoRAG"; "" if none is measured.
    """
    methods = [method for method in measured_methods(verdicts) if method != BASELINE]
    differences = paired_differences(verdicts)["difference"].reindex(methods).astype(float).dropna()
    if differences.empty:
        return ""
    if (differences == 0).all():
        return f"every retrieval method solves as many tasks as {BASELINE}"
    below = int((differences < 0).sum())
    subject = how_many(below, len(differences), "retrieval method", "solve")
    return f"{subject} fewer tasks than {BASELINE}"


def _answer(
    frame: pd.DataFrame,
    benchmark: str,
) -> list[str]:
    """Say first how the retrieval methods compare with no retrieval."""
    methods = [method for method in measured_methods(frame) if method != BASELINE]
    if not methods:
        return []
    rates = [float(frame[method].mean()) for method in methods]
    with_retrieval = f"{percent(rates[0])} % with {methods[0]}"
    if len(rates) > 1:
        lowest, highest = percent(min(rates)), percent(max(rates))
        if lowest == highest:
            with_retrieval = f"{lowest} % with each of {len(rates)} retrieval methods"
        else:
            with_retrieval = f"{lowest} to {highest} % with one of {len(rates)} retrieval methods"
    without = percent(pass_at_1(frame[BASELINE]).value)
    tested = paired_differences(frame)
    tested = tested.reindex(methods).dropna(subset="p_corrected")
    is_significant = tested["p_corrected"].astype(float) < ALPHA
    below = int((is_significant & (tested["difference"] < 0)).sum())
    above = int((is_significant & (tested["difference"] > 0)).sum())
    return [
        f"On {title_of(benchmark)}, pass@1 is {without} % without retrieval ({BASELINE}) and "
        f"{with_retrieval}; on the same tasks, {_significant_differences(below, above, len(tested))}."
    ]


def _significant_differences(
    below: int,
    above: int,
    tested: int,
) -> str:
    """Say how many of the tested differences are significant, and in which direction."""
    correction = "after correction for several tests (Holm)"
    if not below + above:
        return f"no difference is significant {correction}"
    directions = []
    for count, direction in ((below, "lower"), (above, "higher")):
        if count == tested == 1:
            directions.append(f"this rate is significantly {direction}")
        elif count == tested:
            everyone = "both" if tested == 2 else f"all {tested}"
            directions.append(f"the rates of {everyone} methods are significantly {direction}")
        elif count:
            rates = "rate" if count == 1 else "rates"
            verb = "is" if count == 1 else "are"
            directions.append(
                f"the {rates} of {count} of {tested} methods {verb} significantly {direction}"
            )
    return f"{' and '.join(directions)} {correction}"


def _selection(frame: pd.DataFrame) -> list[str]:
    """Say what selection after generation adds, and what a perfect selection would add."""
    sentences = []
    others = [BASELINE]
    if not not_measured([RERANKED], frame):
        others.append(RERANKED)
        reranked = frame[frame[RERANKED].notna()]
        best = str(reranked[single(frame.columns)].mean().astype(float).idxmax())
        gap = _gap(frame, RERANKED, best)
        rate = percent(pass_at_1(frame[RERANKED]).value)
        sentences.append(
            f"{RERANKED} scores {rate} %: {gap}. No single method scores higher than {best}."
        )
    if not not_measured([ORACLE], frame):
        gaps = listed(_gap(frame, ORACLE, other) for other in others)
        rate = percent(pass_at_1(frame[ORACLE]).value)
        sentences.append(f"A perfect selection ({ORACLE}) would score {rate} %: {gaps}.")
    return sentences


def _gap(
    frame: pd.DataFrame,
    method: str,
    other: str,
) -> str:
    gap = _mean_gap(frame, method, other)
    return f"{points(gap)} percentage points against {other}"


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
    return finding("Contexts that define the function that the task asks for", [text])
