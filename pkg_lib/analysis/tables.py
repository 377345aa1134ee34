"""Tables 1 to 4 (Section 5, RQ1 and RQ2): this study's rows beside the published ones, coloured against None.

All numbers are formatted here, once: `percent`, `points`, `probability`. "Not measured" is an en dash, never 0.
"""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path

import jinja2
import pandas as pd
from markupsafe import Markup

from pkg_lib.analysis.stats import (
    BASELINE,
    CONTROLS,
    Rate,
    check_controls,
    compare,
    paired_bootstrap,
    pass_at_1,
    wilson,
)
from pkg_lib.core.store import write_text

HERE = Path(__file__).parent
TEMPLATES = HERE / "templates"
CHOOSING = ("Reranked", "Ideal")
CODE = ("None", "BM25", "Dense", "Func-BM25", "Func-PKG", "Block-PKG", *CHOOSING)
TEXT = ("None", "BM25", "Dense", "JSON-PKG", *CHOOSING)
COLUMNS = (
    *CODE[:-2],
    "JSON-PKG",
    *CHOOSING,
)  # every column that any table has, in the order in which they are shown
PUBLISHED_AS = {"Dense": "VoyageEmb", "Ideal": "Ideal Reranker"}
PUBLISHED = {
    ("humaneval", "code"): ("pkg_table1_humaneval_code.csv", "Table 1 of the PKG paper"),
    ("mbpp", "code"): ("pkg_table2_mbpp_code.csv", "Table 2 of the PKG paper"),
    ("humaneval", "text"): ("pkg_table3_humaneval_text.csv", "Table 3 of the PKG paper"),
    ("mbpp", "text"): ("pkg_table4_mbpp_text.csv", "Table 4 of the PKG paper"),
}
PUBLISHED_CORPUS = {"code": "PythonAlpaca", "text": "online tutorials"}
TITLES = {
    "humaneval": "HumanEval",
    "mbpp": "MBPP",
    "mbpp-all": "MBPP (all 974 tasks)",
    "mbpp-signature": "MBPP (signature only)",
}
DASH = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"

TEX = str.maketrans(
    {c: "\\" + c for c in "&%_#${}"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        DASH: "--",
        MINUS: "$-$",
    }
)

# Orange-red and teal stay apart for the common colour deficiencies (tests simulate them); black text stays readable.
LOWER, HIGHER = (0xE6, 0x61, 0x2A), (0x1B, 0x9A, 0xAA)
FULL_AT = 20.0  # points at which a colour is at its strongest
WEAKEST, STRONGEST = 0.12, 0.75


def percent(fraction: float | None, digits: int = 1) -> str:
    """0.6159 -> "61.6"; an absent or NaN value is an en dash."""
    return DASH if fraction is None or math.isnan(fraction) else f"{100 * fraction:.{digits}f}"


def points(fraction: float) -> str:
    """A difference in percentage points with its sign: -0.0244 -> "−2.4"; what rounds to 0 has no sign."""
    if math.isnan(fraction):
        return DASH
    text = f"{100 * fraction:+.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", MINUS)


def probability(p: float) -> str:
    """A p value: "0.031", "< 0.001", or an en dash."""
    return DASH if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def colour(difference: float | None) -> str:
    """The cell colour of a difference in points: white towards LOWER or HIGHER, linear, full at FULL_AT points."""
    if difference is None or math.isnan(difference) or abs(difference) < 0.05:
        return ""
    share = WEAKEST + (STRONGEST - WEAKEST) * min(abs(difference) / FULL_AT, 1.0)
    base = HIGHER if difference > 0 else LOWER
    return "#" + "".join(f"{round(255 + (c - 255) * share):02X}" for c in base)


@dataclass(frozen=True, slots=True)
class Cell:
    """One printed cell. `value`, `low`, `high` in percent, `difference` in points against the row's None."""

    text: str
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
    def hint(self) -> str:
        if self.measured is None:
            return ""
        against = (
            f", {points(self.difference / 100)} points against None" if self.difference is not None else ""
        )
        return f"{self.passed} of {self.measured} measured tasks passed ({self.total} in all){against}"


@dataclass(frozen=True, slots=True)
class Row:
    group: str
    model: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of pass@1 ready to print; the exporters below differ in markup only."""

    title: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = field(default=())
    columns: tuple[str, ...] = CODE

    def summary(self) -> dict[str, list[str]]:
        """column -> (text, colour) of the first row's cell."""
        return {name: [c.text, c.colour] for name, c in zip(self.columns, self.rows[0].cells, strict=True)}

    def frame(self) -> pd.DataFrame:
        """pass@1 in percent, index (source, model), NaN where not measured."""
        index = pd.MultiIndex.from_tuples([(r.group, r.model) for r in self.rows], names=["source", "model"])
        values = [[math.nan if c.value is None else c.value for c in r.cells] for r in self.rows]
        return pd.DataFrame(values, index=index, columns=list(self.columns))

    def csv(self) -> str:
        """One line a cell; an empty value was not measured."""
        out = io.StringIO()
        names = ["value", "difference", "low", "high", "passed", "measured", "total"]
        write = csv.writer(out, lineterminator="\n").writerow
        write(
            ["source", "model", "method", "pass_at_1_percent", "difference_points", "low", "high", *names[4:]]
        )
        for row in self.rows:
            for method, cell in zip(self.columns, row.cells, strict=True):
                found = [getattr(cell, n) for n in names]
                if cell.text:
                    write(
                        [
                            row.group,
                            row.model,
                            method,
                            *(round(v, 4) if isinstance(v, float) else v for v in found),
                        ]
                    )
        return out.getvalue()

    def markdown(self) -> str:
        """A pipe table; the difference to None stands in the cells of this study, because Markdown has no colours."""
        lines = [["Source", "Model", *self.columns], ["---", "---", *["---:"] * len(self.columns)]]
        lines += [[row.group, row.model, *map(_with_difference, row.cells)] for row in self.rows]
        body = "\n".join(
            "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
        )
        return (
            f"**{self.title}**\n\n{body}\n\n" + "".join(f"{note}\n\n" for note in self.notes).rstrip() + "\n"
        )

    def latex(self) -> str:
        r"""A booktabs table for \usepackage{booktabs} and \usepackage[table]{xcolor}."""
        head = " & ".join(["Model", *self.columns])
        lines = [
            r"% needs \usepackage{booktabs} and \usepackage[table]{xcolor}",
            r"\begin{table*}[t]",
            r"\centering",
        ]
        lines += [rf"\caption{{{tex(self.title + '. ' + ' '.join(self.notes))}}}", r"\small"]
        lines += [rf"\begin{{tabular}}{{l{'r' * len(self.columns)}}}", r"\toprule", head + r" \\"]
        for group, rows in groupby(self.rows, key=lambda r: r.group):
            lines += [
                r"\midrule",
                rf"\multicolumn{{{len(self.columns) + 1}}}{{l}}{{\emph{{{tex(group)}}}}} \\",
            ]
            lines += [" & ".join([tex(r.model), *map(_tex_cell, r.cells)]) + r" \\" for r in rows]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table*}"]) + "\n"

    def html(self) -> str:
        """A fragment; report.css styles it, and it reads well without."""
        groups = [(group, list(rows)) for group, rows in groupby(self.rows, key=lambda r: r.group)]
        return render("table.html.j2", table=self, columns=self.columns, groups=groups)

    _repr_html_ = html

    def save(self, stem: Path) -> list[Path]:
        """Writes STEM.csv, STEM.md and STEM.tex and returns their paths."""
        texts = {"csv": self.csv(), "md": self.markdown(), "tex": self.latex()}
        paths = {suffix: stem.with_name(f"{stem.name}.{suffix}") for suffix in texts}
        for suffix, path in paths.items():
            write_text(path, texts[suffix])
        return list(paths.values())


def render(template: str, **values: object) -> str:
    """A template of templates/ as text; HTML is escaped."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(TEMPLATES)
    how = {
        "autoescape": True,
        "trim_blocks": True,
        "lstrip_blocks": True,
        "undefined": jinja2.StrictUndefined,
    }
    environment = jinja2.Environment(loader=loader, **how)
    # For text between tags: quotes stay, which halves the pages of docstrings.
    environment.filters["between_tags"] = lambda text: Markup(html.escape(text, quote=False))
    return environment


def kind(columns: Iterable[str]) -> str:
    """ "text" for the columns of Tables 3 and 4, "code" for those of Tables 1 and 2."""
    return "text" if "JSON-PKG" in columns else "code"


def published(benchmark: str, columns: Sequence[str] = CODE) -> pd.DataFrame:
    """The paper's rows for a benchmark, as text in the published precision: model x columns; empty without any.

    A column that the paper's table does not have is an empty text.
    """
    if (benchmark, kind(columns)) not in PUBLISHED:
        return pd.DataFrame(columns=list(columns))
    rows = pd.read_csv(
        HERE / "reference" / PUBLISHED[benchmark, kind(columns)][0], dtype=str, keep_default_na=False
    )
    wide = rows.pivot(index="model", columns="method", values="pass_at_1_percent").loc[
        rows["model"].drop_duplicates()
    ]
    return wide.reindex(columns=[PUBLISHED_AS.get(c, c) for c in columns], fill_value="").set_axis(
        list(columns), axis=1
    )


def published_rates(benchmark: str, columns: Sequence[str] = CODE) -> pd.DataFrame:
    """`published` as numbers, NaN where the paper's table has no such column."""
    return published(benchmark, columns).apply(pd.to_numeric)


def single(columns: Iterable[str]) -> list[str]:
    """The columns that are a prompt of their own, not a choice among others."""
    return [c for c in columns if c not in CHOOSING]


def complete(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The verdicts in the order of COLUMNS; ValueError for a stranger, or without None.

    The frame has every column that its corpus offers, <NA> where one was not measured. Reranked and Ideal choose among all
    of them. Where one is missing they are not measured either: an oracle known only where some candidate happened to pass
    would score 100 % of what is known.
    """
    strangers = set(verdicts.columns) - set(COLUMNS)
    if strangers or BASELINE not in verdicts:
        raise ValueError(
            f"columns {list(verdicts)}: a table has {BASELINE} and others of {', '.join(COLUMNS)}"
        )
    frame = verdicts[[c for c in COLUMNS if c in verdicts]].astype("boolean")
    unknown = frame[single(frame)].isna().any(axis=1)
    return frame.assign(**{c: frame[c].mask(unknown) for c in CHOOSING if c in frame})


def table1(
    runs: Mapping[str, pd.DataFrame],
    controls: Mapping[str, pd.Series],
    benchmark: str,
    corpus: str,
    limit: int | None = None,
) -> Table:
    """Our rows (label -> verdicts), the controls and the published rows. Raises ControlError before all else."""
    frames = {name: complete(v) for name, v in runs.items()}
    tasks, columns = next((f.index, tuple(f)) for f in frames.values())
    check_controls(controls, tasks)
    rows = [Row(f"This study, corpus {corpus}", name, _our_cells(f)) for name, f in frames.items()]
    for name in CONTROLS:
        rate = pass_at_1(controls[name].reindex(tasks))
        blank = (Cell(""),) * (len(columns) - 1)
        rows.append(Row("Controls, without a model", name, (measured_cell(rate, None), *blank)))
    rows += _published_rows(benchmark, columns)
    first = f"the first {len(tasks)} tasks" if limit else f"{len(tasks)} tasks"
    title = f"pass@1 in percent on {TITLES.get(benchmark, benchmark)} ({first}), one greedy sample a task"
    return Table(title, tuple(rows), _notes(rows, benchmark, columns), columns)


def differences(verdicts: pd.DataFrame) -> pd.DataFrame:
    """`metrics.compare` as text for reading: points, intervals, counts and p values of each column against None."""
    found = compare(complete(verdicts))
    return pd.DataFrame(
        {
            "tasks": found["n"].map(lambda n: str(n) if n else DASH),
            "difference": found["difference"].map(points),
            "95 % interval": [
                interval(low, high) for low, high in zip(found["low"], found["high"], strict=True)
            ],
            "helped": [str(h) if n else DASH for h, n in zip(found["helped"], found["n"], strict=True)],
            "hurt": [str(h) if n else DASH for h, n in zip(found["hurt"], found["n"], strict=True)],
            "McNemar p": found["p"].map(probability),
            "p (Holm)": found["p_holm"].map(probability),
        }
    ).rename_axis("against None")


def interval(low: float, high: float) -> str:
    """ "−8.5 to +1.2", in points."""
    return DASH if math.isnan(low) else f"{points(low)} to {points(high)}"


def _our_cells(verdicts: pd.DataFrame) -> tuple[Cell, ...]:
    cells = []
    for name in verdicts:
        paired = (
            paired_bootstrap(verdicts[name], verdicts[BASELINE], resamples=1) if name != BASELINE else None
        )
        cells.append(measured_cell(pass_at_1(verdicts[name]), 100 * paired.value if paired else None))
    return tuple(cells)


def measured_cell(rate: Rate, difference: float | None) -> Cell:
    """A cell of this study: the rate with its Wilson interval, the difference to None in points."""
    bounds = wilson(rate.passed, rate.measured)
    if rate.value is None or bounds is None:
        return Cell(DASH, measured=0, passed=0, total=rate.total)
    partial = f" (n={rate.measured})" if rate.measured < rate.total else ""
    low, high = (100 * b for b in bounds)
    text = percent(rate.value) + partial
    return Cell(text, 100 * rate.value, difference, low, high, rate.passed, rate.measured, rate.total)


def _published_rows(benchmark: str, columns: Sequence[str]) -> list[Row]:
    texts, values = published(benchmark, columns), published_rates(benchmark, columns)
    if texts.empty:
        return []
    corpus, table = PUBLISHED_CORPUS[kind(columns)], PUBLISHED[benchmark, kind(columns)][1]
    group = f"Published, corpus {corpus} ({table})"
    average = values.mean()
    rows = [
        Row(group, m, _published_cells(texts.loc[m].tolist(), values.loc[m].tolist())) for m in texts.index
    ]
    return [
        *rows,
        Row(group, "Avg.", _published_cells([percent(v / 100) for v in average], average.tolist())),
    ]


def _published_cells(texts: list[str], values: list[float]) -> tuple[Cell, ...]:
    shown = zip(texts, values, strict=True)
    cells = (Cell(t, v, None if i == 0 else v - values[0]) for i, (t, v) in enumerate(shown))
    return tuple(Cell(DASH) if c.value is None or math.isnan(c.value) else c for c in cells)


def _notes(rows: list[Row], benchmark: str, columns: Sequence[str]) -> tuple[str, ...]:
    notes = [
        f"Colour: difference to None in the same row on tasks measured in both, orange-red below and teal above, "
        f"linear in its size up to {FULL_AT:.0f} points. It shows size, not significance."
    ]
    ours = [c for r in rows for c in r.cells if c.measured is not None]
    if any(c.value is None for c in ours):
        notes.append(f"{DASH} not measured.")
    if any(c.measured and c.measured < (c.total or 0) for c in ours):
        notes.append(
            "n: tasks measured where some are not, which then need not be a random part of all. Reranked and Ideal "
            "need every other column of a task."
        )
    if (benchmark, kind(columns)) in PUBLISHED:
        ideal = ", Ideal its Ideal Reranker" if kind(columns) == "code" else ""
        notes.append(f"Published rows: Dense is the paper's VoyageEmb{ideal}; numbers as printed there.")
    return tuple(notes)


def _with_difference(cell: Cell) -> str:
    shown = cell.measured is not None and cell.difference is not None
    return f"{cell.text} ({points(cell.difference / 100)})" if shown else cell.text


def tex(text: str) -> str:
    """The text with what LaTeX would read as markup escaped."""
    return text.translate(TEX)


def _tex_cell(cell: Cell) -> str:
    return (rf"\cellcolor[HTML]{{{cell.colour[1:]}}}" if cell.colour else "") + tex(cell.text)
