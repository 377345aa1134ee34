"""How numbers and verdicts are printed: formats, colours, templates and safe CSV.

A value that was not measured is printed as a dash, never as 0.
"""

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
from pkg_lib.data.corpora import corpus_label
from pkg_lib.retrieval.methods import METHODS

HERE = Path(__file__).parent
TEMPLATES = HERE / "templates"
DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
# A spreadsheet runs a cell that begins with one of these.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_NUMBER = r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?: ?%)?"
# One number, or several with their intervals: "+1.2 (-0.6 to +3.0); 0.0".
NUMBERS = re.compile(rf"{_NUMBER}(?:\)?;? (?:to )?\(?{_NUMBER})*\)?")
TEX_ESCAPES = str.maketrans(
    {
        "&": r"\&",
        "%": r"\%",
        "_": r"\_",
        "#": r"\#",
        "$": r"\$",
        "{": r"\{",
        "}": r"\}",
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        DASH: "--",
        MINUS: "$-$",
    }
)

# Orange-red and teal stay apart for the common colour deficiencies (tests simulate them).
LOWER, HIGHER = "#E6612A", "#1B9AAA"
FULL_AT = 20.0  # Percentage points at which a colour is strongest.
WEAKEST, STRONGEST = 0.12, 0.75


def percent(
    fraction: float | None,
    digits: int = 1,
) -> str:
    """Print a fraction in percent.

    Args:
        fraction: The fraction; None or NaN means that it was not measured.
        digits: Number of decimals.

    Returns:
        0.6159 -> "61.6"; an en dash if it was not measured.
    """
    if fraction is None or math.isnan(fraction):
        return DASH
    return f"{100 * fraction:.{digits}f}"


def number(
    value: float | None,
    digits: int = 0,
) -> str:
    """Print a number.

    Args:
        value: The number; None or NaN means that it was not measured.
        digits: Number of decimals.

    Returns:
        1200.5 -> "1,200.5" with one decimal; an en dash if it was not measured.
    """
    if value is None or math.isnan(value):
        return DASH
    return f"{value:,.{digits}f}".replace("-", MINUS)


def points(fraction: float) -> str:
    """Print a difference of two fractions in percentage points.

    Args:
        fraction: The difference; NaN means that it was not measured.

    Returns:
        -0.0244 -> "−2.4"; see `percentage_points`.
    """
    return percentage_points(100 * fraction)


def percentage_points(difference: float) -> str:
    """Print a difference with its sign.

    Args:
        difference: The difference in percentage points; NaN means that it was not measured.

    Returns:
        -2.44 -> "−2.4"; see `signed`.
    """
    return signed(difference, 1)


def signed_count(number: float) -> str:
    """Print a change of a count with its sign.

    Args:
        number: The change; NaN means that it was not measured.

    Returns:
        Text such as "+36" or "−2"; see `signed`.
    """
    return signed(number, 0)


def signed(
    number: float,
    digits: int,
) -> str:
    """Print a number with its sign.

    Args:
        number: The number; NaN means that it was not measured.
        digits: Number of decimals.

    Returns:
        0.1401 -> "+0.140" with three decimals. A number that rounds to 0 has no sign. An en dash if it
        was not measured.
    """
    if math.isnan(number):
        return DASH
    text = f"{number:+,.{digits}f}"
    return text[1:] if float(text.replace(",", "")) == 0 else text.replace("-", MINUS)


def interval(
    low: float,
    high: float,
) -> str:
    """Print an interval of a difference of fractions in percentage points.

    Args:
        low: Lower end as a fraction; NaN means that it was not measured.
        high: Upper end as a fraction.

    Returns:
        Text such as "−8.5 to +1.2", or an en dash.
    """
    return DASH if math.isnan(low) else f"{points(low)} to {points(high)}"


def probability(p: float) -> str:
    """Print a p-value.

    Args:
        p: The p-value; NaN means that nothing was tested.

    Returns:
        "0.031", "< 0.001", or an en dash.
    """
    if math.isnan(p):
        return DASH
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def colour(difference: float | None) -> str:
    """Choose the background colour of a cell by its difference to the baseline.

    Args:
        difference: The difference in percentage points; None or NaN means that it was not measured.

    Returns:
        A colour such as "#FBE4DC", from white towards LOWER or HIGHER; "" for no colour.
    """
    if difference is None or math.isnan(difference) or abs(difference) < 0.05:
        return ""
    share = min(abs(difference) / FULL_AT, 1.0)
    strength = WEAKEST + (STRONGEST - WEAKEST) * share
    strongest = HIGHER if difference > 0 else LOWER
    channels = bytes.fromhex(strongest.removeprefix("#"))
    mixed = [round(255 + (channel - 255) * strength) for channel in channels]
    return "#" + bytes(mixed).hex().upper()


def reference_table(
    name: str,
    **options: Any,
) -> pd.DataFrame:
    """Read a table of a paper as it was printed.

    Args:
        name: Name of a file in reference/, such as "dkb_table1_indexing".
        **options: Options of `pandas.read_csv`.

    Returns:
        One row per printed row or number.
    """
    path = HERE / "reference" / f"{name}.csv"
    frame: pd.DataFrame = pd.read_csv(path, **options)
    return frame


def tex(text: object) -> str:
    """Escape what LaTeX would read as markup.

    Args:
        text: Any text, or a value that is printed as text.

    Returns:
        The text for a LaTeX document.
    """
    return str(text).translate(TEX_ESCAPES)


def render(
    template: str,
    **values: object,
) -> str:
    """Fill a template of templates/.

    Args:
        template: Its file name. HTML is escaped unless the name contains ".tex".
        **values: The variables of the template.

    Returns:
        The text. Lone surrogates of a model's text are replaced.
    """
    text = _environment().get_template(template).render(**values)
    return text.encode("utf8", "replace").decode("utf8")


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=lambda name: ".tex" not in str(name),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["points"] = points
    environment.filters["corpus_label"] = corpus_label
    environment.filters["between_tags"] = _between_tags
    environment.filters["with_code"] = _with_code
    return environment


def _between_tags(text: str) -> Markup:
    """Escape text between tags. Quotes stay, which halves the pages of docstrings."""
    return Markup(html.escape(text, quote=False))


def _with_code(text: str) -> Markup:
    """Escape text, and set what is between backticks as code."""
    escaped = html.escape(text, quote=False)
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped))


def csv_text(
    frame: pd.DataFrame,
    index: bool = True,
    **options: Any,
) -> str:
    r"""Write a frame as CSV in which no text is a formula.

    Spreadsheets run text cells that begin with = + - @, a tab or a line end. Such a cell, or a
    heading, gets an apostrophe before it, which spreadsheets do not show. Carriage returns become
    newlines. Numbers stay as they are, whether they are stored as numbers or as text, with or
    without an interval: -2.4, +1.2, -3%, "-2.4 (-5.0 to +0.2)".

    Args:
        frame: The table.
        index: Whether the names of the rows are written.
        **options: Other options of `pandas.DataFrame.to_csv`.

    Returns:
        The text, with "\n" as line end.
    """
    safe = frame.rename(index=_without_formula, columns=_without_formula)
    for place, dtype in enumerate(frame.dtypes):
        if pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_bool_dtype(dtype):
            continue
        # A list, since `Series.map` turns whole numbers beside missing values into fractions.
        cells = [_without_formula(cell) for cell in frame.iloc[:, place].astype(object)]
        safe.isetitem(place, pd.array(cells, dtype=object))
    return str(safe.to_csv(index=index, lineterminator="\n", **options))


def _without_formula(cell: object) -> object:
    if not isinstance(cell, str):
        return cell
    # The csv module does not quote a bare carriage return, which would begin a row.
    text = cell.replace("\r\n", "\n").replace("\r", "\n")
    if text.startswith(FORMULA) and not NUMBERS.fullmatch(text):
        return f"'{text}"
    return text


def kind(methods: Iterable[str]) -> str:
    """Tell which of the paper's tables a set of methods belongs to.

    Args:
        methods: Names of methods.

    Returns:
        "text" for the methods of Tables 3 and 4, "code" for those of Tables 1 and 2.
    """
    is_text = any(METHODS[m].corpus_kinds == ("text",) for m in methods)
    return "text" if is_text else "code"


def table_order() -> list[str]:
    """Return the names of all methods in the order of the tables.

    A user's own methods are next to the baseline, where a reader looks for them.
    """
    own = [name for name, method in METHODS.items() if method.is_user_supplied]
    others = [name for name in METHODS if name not in (BASELINE, *own)]
    return [BASELINE, *own, *others]


def single(methods: Iterable[str]) -> list[str]:
    """Keep the methods that have a prompt of their own.

    Args:
        methods: Names of methods.

    Returns:
        The names without those that select among the solutions of other methods.
    """
    return [m for m in methods if not METHODS[m].needs]


def complete(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Order the methods as the tables do, and mask selections with a missing candidate.

    Methods that select need every candidate: an oracle known only where a candidate passed would
    score 100 %.

    Args:
        verdicts: Verdicts [task, method].

    Returns:
        The verdicts in the order of `table_order`.

    Raises:
        ValueError: A method is unknown, or the baseline is missing.
    """
    if BASELINE not in verdicts or not set(verdicts) <= set(METHODS):
        known = ", ".join(METHODS)
        raise ValueError(
            f"methods {list(verdicts)}: a table has {BASELINE} and other methods of {known}"
        )
    order = [name for name in table_order() if name in verdicts]
    frame = verdicts[order].astype("boolean")
    candidates = single(order)
    unknown = frame[candidates].isna().any(axis=1)
    for method in set(order) - set(candidates):
        frame[method] = frame[method].mask(unknown)
    return frame
