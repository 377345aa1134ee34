"""Extract the solution like the PKG authors, reimplemented after their published code.

The authors' code contains two rules:

ALL_BLOCKS   joins all marked blocks, and finds no solution in text without marks. Their code for
             open models (`code_generation.py`) uses it.
FIRST_BLOCK  takes the first marked block, else the first functions, else the whole text. Their
             runner for closed models (`experiment_runner.py`) uses it.

This project's own rule is in `extraction.py`.
"""

import re
from collections.abc import Callable

ALL_BLOCKS = "authors, all blocks"
FIRST_BLOCK = "authors, first block"

# Tried in this order. The first kind of mark that occurs in the text decides.
_ALL_MARKS = (
    re.compile(r"\[PYTHON\](.*?)\[/PYTHON\]", re.S),
    re.compile(r"```python(.*?)```", re.S),
    re.compile(r"```(.*?)```", re.S),
)
_FIRST_MARKS = (
    re.compile(r"\[PYTHON\](.*?)\[/PYTHON\]", re.S),
    re.compile(r"\[PYTHON\](.*?)\[PYTHON\]", re.S),
    re.compile(r"```python\n(.*?)```", re.S),
    re.compile(r"```\n(.*?)```", re.S),
)


def extract_all_blocks(text: str) -> str:
    """Return the joined contents of all marked blocks of a text.

    Args:
        text: The whole text that a model wrote.

    Returns:
        The blocks between [PYTHON] and [/PYTHON], else between Python fences, else between any
        fences, joined by line breaks; "" if no block is both opened and closed.
    """
    for mark in _ALL_MARKS:
        blocks = mark.findall(text)
        if blocks:
            return "\n".join(blocks)
    return ""


def extract_first_block(text: str) -> str:
    """Return the first marked block of a text, its first functions, or all of it.

    Args:
        text: The whole text that a model wrote.

    Returns:
        The first block between [PYTHON] and [/PYTHON], else between two [PYTHON] marks, else in a
        Python fence, else in a fence without a language. Without such a block, the lines from the
        first ``def`` to the next line at the left margin that is not a ``def``. Without a ``def``,
        the whole text. Blocks and the whole text are stripped.
    """
    for mark in _FIRST_MARKS:
        block = mark.search(text)
        if block:
            return block[1].strip()
    lines = text.split("\n")
    first = next((number for number, line in enumerate(lines) if _starts_function(line)), None)
    if first is None:
        return text.strip()
    end = first
    while end < len(lines) and _belongs_to_function(lines[end]):
        end += 1
    return "\n".join(lines[first:end])


def _starts_function(line: str) -> bool:
    return line.strip().startswith("def ")


def _belongs_to_function(line: str) -> bool:
    """Whether a line after a ``def`` is blank, indented or another ``def``."""
    is_blank = not line.strip()
    return is_blank or line.startswith((" ", "\t")) or _starts_function(line)


AUTHORS_RULES: dict[str, Callable[[str], str]] = {
    ALL_BLOCKS: extract_all_blocks,
    FIRST_BLOCK: extract_first_block,
}
