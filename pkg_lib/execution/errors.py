"""The error taxonomy: Table 7's six types, and five beyond it that say why no test could decide."""

from __future__ import annotations

import contextlib

TABLE7 = ("AssertionError", "NameError", "TypeError", "SyntaxError", "IndentationError", "Others")
BEYOND = ("Timeout", "Memory", "ForbiddenImport", "ExtractionFailure", "Suspicious")
SEPARATOR = " | failing: "
LONGEST = 500


def classify(names: list[str], forbidden_import: bool = False) -> str:
    """The taxonomy's name for an exception whose class and base classes are `names`, most derived first."""
    if forbidden_import:
        return "ForbiddenImport"
    for name in names:
        if name == "MemoryError":
            return "Memory"
        if name in TABLE7:
            return name
    return "Others"


def join_detail(last_line: str, assertion: str = "") -> str:
    """One line for an outcome's `detail`, cut to LONGEST characters a part."""
    return SEPARATOR.join(p[:LONGEST] for p in (last_line, assertion) if p)


def split_detail(detail: str) -> tuple[str, str]:
    """(traceback's last line, failing assertion or "") of an outcome's `detail`."""
    last_line, _, assertion = detail.partition(SEPARATOR)
    return last_line, assertion


def statement_at(number: str, test: str) -> str:
    """The statement that starts at a line of the tests, counted from 1; "" where there is none."""
    lines = (
        test.splitlines()[int(number[:6]) - 1 :][:20] if number.isdecimal() and number > "0" else []
    )
    for end in range(1, len(lines) + 1):
        with contextlib.suppress(SyntaxError):
            compile(text := "\n".join(lines[:end]).strip(), "", "exec", dont_inherit=True)
            return text.replace("\n", " ")
    return lines[0].strip() if lines else ""
