"""Cutting retrieved text to a budget of characters or tokens."""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence

from pkg_lib.chunking.chunker import Chunk
from pkg_lib.data.corpora import CONTEXT_CHARS

Measure = Callable[[str], int]  # returns the size of a text, such as its number of tokens


def cut_at_line_end(text: str, limit: int = CONTEXT_CHARS) -> tuple[str, bool]:
    """Cut a text to a number of characters.

    Args:
        text: Any text.
        limit: The most characters to keep.

    Returns:
        The text up to the last line end within the limit, and whether anything was cut. A first
        line that exceeds the limit is cut between characters.
    """
    if len(text) <= limit:
        return text, False
    end = text.rfind("\n", 0, limit + 1)
    if end <= 0:
        end = limit
    return text[:end], True


def fill_context(
    chunks: Sequence[Chunk],
    limit: int,
    measure: Measure,
) -> tuple[str, list[Chunk]]:
    """Join chunks up to a budget (Appendix A.1 of cAST).

    Args:
        chunks: Chunks, best first.
        limit: The budget, in the unit that ``measure`` counts.
        measure: Returns the size of a text.

    Returns:
        The joined text and the chunks in it. The last chunk may be cut after a line end.
    """
    texts = [chunk.text for chunk in chunks]
    fitting = fitting_texts(
        texts,
        limit,
        measure,
        separator="\n",
        lines_of=_lines_with_ends,
    )
    used = list(chunks[: len(fitting)])
    return "\n".join(fitting), used


def _lines_with_ends(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _lines_after_ends(text: str) -> list[str]:
    """Split a text so that each line but the first begins with the line end before it."""
    return re.split(r"(?=\n)", text)


def fitting_texts(
    texts: Sequence[str],
    limit: int,
    measure: Measure,
    separator: str = "\n\n",
    lines_of: Callable[[str], list[str]] = _lines_after_ends,
) -> list[str]:
    """Return the first texts that fit into a budget.

    Args:
        texts: The texts, best first.
        limit: The budget, in the unit that ``measure`` counts.
        measure: Returns the size of a text.
        separator: What joins the texts.
        lines_of: Splits a text where it may be cut. By default a text is cut before a line end.

    Returns:
        The texts. The last one may be the beginning of a text of which only some lines fit.
    """

    def texts_fit(count: int) -> bool:
        joined = separator.join(texts[:count])
        return measure(joined) <= limit

    count = largest(0, len(texts), texts_fit)
    fitting = list(texts[:count])
    if count == len(texts):
        return fitting
    lines = lines_of(texts[count])

    def lines_fit(number: int) -> bool:
        beginning = "".join(lines[:number])
        joined = separator.join([*fitting, beginning])
        return measure(joined) <= limit

    number = largest(0, len(lines), lines_fit)
    if number:
        fitting.append("".join(lines[:number]))
    return fitting


def largest(
    low: int,
    high: int,
    fits: Callable[[int], bool],
) -> int:
    """Find the largest number that fits, by bisection.

    Args:
        low: Returned when no larger number fits; it is not tested itself.
        high: The largest candidate.
        fits: Tells whether a number fits. A number below one that fits must fit as well.

    Returns:
        A number from ``low`` to ``high``.
    """
    candidates = range(low + 1, high + 1)
    fitting = bisect_left(candidates, True, key=lambda number: not fits(number))
    return low + fitting
