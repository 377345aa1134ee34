"""Code snippets (Sections 2.2.1 and 2.2.2): the parts of programs that ran, as demonstrations."""

import re
from collections.abc import Sequence

CALL_OF_LIBRARY = re.compile(r"\w+(?:\.\w+)+\(|\w+\(\w*\.")
CALLED_NAME = re.compile(r"(\w+)\(")


def lines_with_calls(program: str, given: str = "") -> list[str]:
    """Return the lines of a program that call a library.

    Args:
        program: The program.
        given: What the task gives; its lines are left out.

    Returns:
        Complete lines without their indentation, each once.
    """
    given_lines = {line.strip() for line in given.splitlines()}
    found: dict[str, None] = {}
    for indented in program.splitlines():
        line = indented.strip()
        if line in given_lines or line.startswith("#"):
            continue
        if CALL_OF_LIBRARY.search(line) and _is_complete(line):
            found[line] = None
    return list(found)


def snippets_of(
    programs: Sequence[tuple[str, str]],
    whole_programs: bool,
) -> list[str]:
    """Return the code snippets of programs that ran, K + {p^i} of line 14 of Algorithm 1.

    Args:
        programs: Pairs of a program and what its task gave.
        whole_programs: Whether a program is one snippet; otherwise each line that calls is one.

    Returns:
        The snippets. Of several that call the same functions, the first.
    """
    # Backwards, so that the first one replaces those after it.
    snippets: dict[frozenset[str], str] = {}
    for program, given in reversed(programs):
        parts = [program]
        if not whole_programs:
            parts = lines_with_calls(program, given)
        for part in reversed(parts):
            called = frozenset(CALLED_NAME.findall(part))
            snippets[called] = part
    return list(reversed(snippets.values()))


def _is_complete(line: str) -> bool:
    """Whether every bracket of a line is closed in it."""
    opened = [line.count(bracket) for bracket in "([{"]
    closed = [line.count(bracket) for bracket in ")]}"]
    return opened == closed
