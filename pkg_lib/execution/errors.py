"""The error types: Table 7's six, and five beyond it that say why no test could decide."""

from __future__ import annotations

import contextlib

TABLE7 = ("AssertionError", "NameError", "TypeError", "SyntaxError", "IndentationError", "Others")
BEYOND = ("Timeout", "Memory", "ForbiddenImport", "ExtractionFailure", "Suspicious")
SEPARATOR = " | failing: "
LONGEST = 500  # characters of each part of a detail
STATEMENT_LINES = 20  # in which the end of a failing statement is looked for


def classify(names: list[str], forbidden_import: bool = False) -> str:
    """Return the error type of an exception.

    Args:
        names: Names of its class and base classes, most derived first.
        forbidden_import: Whether it was raised by an import that the setting forbids.
    """
    if forbidden_import:
        return "ForbiddenImport"
    for name in names:
        if name == "MemoryError":
            return "Memory"
        if name in TABLE7:
            return name
    return "Others"


def join_detail(last_line: str, assertion: str = "") -> str:
    """Return an outcome's detail, one line.

    Args:
        last_line: Last line of the traceback.
        assertion: The failing assertion; "" for none.
    """
    parts = [part[:LONGEST] for part in (last_line, assertion) if part]
    return SEPARATOR.join(parts)


def split_detail(detail: str) -> tuple[str, str]:
    """Return the last line of the traceback and the failing assertion.

    Args:
        detail: What `join_detail` returned.
    """
    last_line, _, assertion = detail.partition(SEPARATOR)
    return last_line, assertion


def statement_at(number: str, test: str) -> str:
    """Return the statement at a line of the tests; "" if there is no such line.

    Args:
        number: The line, counted from 1, as the sample's process has reported it.
        test: The tests' program.
    """
    if not number.isdecimal() or number <= "0":
        return ""
    first = int(number[:6]) - 1
    lines = test.splitlines()[first : first + STATEMENT_LINES]
    for end in range(1, len(lines) + 1):
        statement = "\n".join(lines[:end]).strip()
        with contextlib.suppress(SyntaxError):
            compile(statement, "", "exec", dont_inherit=True)
            return statement.replace("\n", " ")
    return lines[0].strip() if lines else ""
