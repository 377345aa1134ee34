"""The error taxonomy: Table 7's six types, and five beyond it that say why no test could decide."""

from __future__ import annotations

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
