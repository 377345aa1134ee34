"""Compute the expected values of EVOR's newScience tasks with plain scipy.

    python tests/benchmarks/fill_scipy_tasks.py

Everything else in scipy_tasks.jsonl is written by hand. The script does not need the newScience library.
"""

from __future__ import annotations

from typing import Any

from pkg_lib.core.store import read_rows, write_jsonl
from pkg_lib.papers.evor.scipy_tasks import FILE
from pkg_lib.papers.evor.templates import HERE, PROGRAMS


def filled(row: dict[str, Any]) -> dict[str, Any]:
    """Compute the expected values of one task.

    Args:
        row: The task.

    Returns:
        The task with its expected values.
    """
    namespace: dict[str, Any] = {}
    program = f"import numpy as np\n\n\ndef {row['signature']}:\n{row['scipy_solution']}"
    exec(PROGRAMS["plain"] + program, namespace)
    expected = [repr(eval(f"_plain(solve({given}))", namespace)) for given in row["inputs"]]
    return {**row, "expected": expected}


def main() -> None:
    """Compute the expected values of every task, and write the file of tasks again."""
    path = HERE / FILE
    rows = [filled(row) for row in read_rows(path)]
    write_jsonl(path, rows)


if __name__ == "__main__":
    main()
