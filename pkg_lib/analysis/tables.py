"""How numbers are printed: formats, colours, templates; verdicts in order. Not measured is a dash, not 0."""

import html
import math
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup

from pkg_lib.analysis.stats import BASELINE
from pkg_lib.retrieval.methods import METHODS

HERE = Path(__file__).parent
TEMPLATES = HERE / "templates"
DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # how a cell begins that a spreadsheet runs
_NUMBER = r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?: ?%)?"
# One number, or several with their intervals: "+1.2 (-0.6 to +3.0); 0.0".
NUMBERS = re.compile(rf"{_NUMBER}(?:\)?;? (?:to )?\(?{_NUMBER})*\)?")
TEX = {c: "\\" + c for c in "&%_#${}"}
TEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
TEX |= {DASH: "--", MINUS: "$-$"}

# Orange-red and teal stay apart for the common colour deficiencies (tests simulate them).
LOWER, HIGHER = "#E6612A", "#1B9AAA"
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


def interval(low: float, high: float) -> str:
    """ "−8.5 to +1.2", in points."""
    return DASH if math.isnan(low) else f"{points(low)} to {points(high)}"


def probability(p: float) -> str:
    """A p value: "0.031", "< 0.001", or an en dash."""
    return DASH if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def colour(difference: float | None) -> str:
    """The cell colour of a difference in points: white towards LOWER or HIGHER, full at FULL_AT."""
    if difference is None or math.isnan(difference) or abs(difference) < 0.05:
        return ""
    share = WEAKEST + (STRONGEST - WEAKEST) * min(abs(difference) / FULL_AT, 1.0)
    base = bytes.fromhex((HIGHER if difference > 0 else LOWER)[1:])
    return "#" + "".join(f"{round(255 + (c - 255) * share):02X}" for c in base)


def tex(text: str) -> str:
    """The text with what LaTeX would read as markup escaped."""
    return text.translate(str.maketrans(TEX))


def render(template: str, **values: object) -> str:
    """A template of templates/ as text; HTML is escaped, and half a character of a model's text replaced."""
    text = _environment().get_template(template).render(**values)
    return text.encode("utf8", "replace").decode("utf8")


@cache
def _environment() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(TEMPLATES)
    how = {"trim_blocks": True, "lstrip_blocks": True, "undefined": jinja2.StrictUndefined}
    environment = jinja2.Environment(
        loader=loader, autoescape=lambda name: ".tex" not in str(name), **how
    )
    environment.filters["points"] = points
    # For text between tags: quotes stay, which halves the pages of docstrings.
    environment.filters["between_tags"] = lambda text: Markup(html.escape(text, quote=False))
    return environment


def csv_text(frame: pd.DataFrame, index: bool = True, **options: Any) -> str:
    """A frame as CSV in which no text is a formula.

    Spreadsheets run text cells that begin with = + - @, a tab or a line end. Such a cell, or a heading, gets
    an apostrophe before it, which spreadsheets do not show. Carriage returns become newlines. Numbers stay as
    they are, whether they are stored as numbers or as text, with or without an interval: -2.4, +1.2, -3%,
    "-2.4 (-5.0 to +0.2)".

    Args:
        frame: The table.
        index: Whether the names of the rows are written.
        **options: Others of `pandas.DataFrame.to_csv`.

    Returns:
        The text, with "\\n" as line end.
    """
    safe = frame.copy()
    for place, dtype in enumerate(frame.dtypes):
        if not (pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_bool_dtype(dtype)):
            # A list, since `Series.map` turns whole numbers beside missing values into fractions.
            cells = [_no_formula(cell) for cell in frame.iloc[:, place].astype(object)]
            safe.isetitem(place, pd.Series(cells, frame.index, dtype=object))
    safe.columns = _safe_names(frame.columns)
    safe.index = _safe_names(frame.index)
    return safe.to_csv(index=index, lineterminator="\n", **options)


def _safe_names(names: pd.Index) -> pd.Index:
    safe = [tuple(map(_no_formula, n)) if isinstance(n, tuple) else _no_formula(n) for n in names]
    if safe == list(names):
        return names
    if names.nlevels > 1:
        return pd.MultiIndex.from_tuples(safe, names=names.names)
    return pd.Index(safe, name=names.name)


def _no_formula(cell: Any) -> Any:
    if isinstance(cell, str):
        # A bare carriage return would begin a row, since the csv module does not quote it.
        cell = cell.replace("\r\n", "\n").replace("\r", "\n")
    formula = isinstance(cell, str) and cell[:1] in FORMULA and not NUMBERS.fullmatch(cell)
    return f"'{cell}" if formula else cell


def kind(columns: Iterable[str]) -> str:
    """ "text" for the columns of Tables 3 and 4, "code" for those of Tables 1 and 2."""
    return "text" if any(METHODS[c].corpus_kinds == ("text",) for c in columns) else "code"


def single(columns: Iterable[str]) -> list[str]:
    """The columns that are a prompt of their own, not a choice among others."""
    return [c for c in columns if not METHODS[c].needs]


def complete(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The verdicts in the order of METHODS; ValueError for a stranger, or without None.

    Columns that choose need all others: an oracle known only where a candidate passed would score 100 %.
    """
    if BASELINE not in verdicts or not set(verdicts) <= set(METHODS):
        raise ValueError(
            f"columns {list(verdicts)}: a table has {BASELINE} and others of {', '.join(METHODS)}"
        )
    frame = verdicts[[c for c in METHODS if c in verdicts]].astype("boolean")
    unknown = frame[single(frame)].isna().any(axis=1)
    return frame.assign(**{c: frame[c].mask(unknown) for c in frame if METHODS[c].needs})
