"""Fills the expected values of EVOR's tasks on newScience by plain scipy: python tests/benchmarks/fill_scipy_tasks.py

Everything else in scipy_tasks.jsonl is written by hand. The library itself is not needed.
"""

from __future__ import annotations

from typing import Any

from pkg_lib.core.store import read_rows, write_jsonl
from pkg_lib.papers.evor.scipy_tasks import FILE
from pkg_lib.papers.evor.templates import HERE, PROGRAMS


def filled(row: dict[str, Any]) -> dict[str, Any]:
    space: dict[str, Any] = {}
    program = f"import numpy as np\n\n\ndef {row['signature']}:\n{row['scipy_solution']}"
    exec(PROGRAMS["plain"] + program, space)
    expected = [repr(eval(f"_plain(solve({given}))", space)) for given in row["inputs"]]
    return row | {"expected": expected}


def main() -> None:
    path = HERE / FILE
    write_jsonl(path, [filled(row) for row in read_rows(path)])


if __name__ == "__main__":
    main()
