"""Cutting retrieved text to a budget of characters or tokens."""

from bisect import bisect_left
from collections.abc import Callable, Sequence

from pkg_lib.chunking.chunker import Chunk
from pkg_lib.data.corpora import CONTEXT_CHARS


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
    measure: Callable[[str], int],
) -> tuple[str, list[Chunk]]:
    """Join chunks up to a budget (Appendix A.1 of cAST).

    Args:
        chunks: Chunks, best first.
        limit: The budget, in the unit that ``measure`` counts.
        measure: Returns the size of a text, such as its number of tokens.

    Returns:
        The joined text and the chunks in it. The last chunk may be cut at a line end.
    """
    text = ""
    used: list[Chunk] = []
    for chunk in chunks:
        prefix = f"{text}\n" if text else ""
        if measure(prefix + chunk.text) > limit:
            beginning = _longest_beginning(prefix, chunk.text, limit, measure)
            if not beginning:
                return text, used
            return beginning, [*used, chunk]
        text = prefix + chunk.text
        used.append(chunk)
    return text, used


def _longest_beginning(
    prefix: str,
    text: str,
    limit: int,
    measure: Callable[[str], int],
) -> str:
    """Return the prefix with as many lines as fit after it; "" if not even one does."""
    lines = text.splitlines(keepends=True)

    def fits(count: int) -> bool:
        return measure(prefix + "".join(lines[:count])) <= limit

    count = largest(0, len(lines), fits)
    if count == 0:
        return ""
    return prefix + "".join(lines[:count])


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
