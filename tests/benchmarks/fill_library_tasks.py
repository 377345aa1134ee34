"""Compute the derived fields of EVOR's library tasks from the fields written by hand.

    python tests/benchmarks/fill_library_tasks.py

Written by hand: id, apis, named, plain, signature, inputs, solution. Computed: `expected` (the results of the
solution with the original library), `made_apis` and `made_solution` (both with the new names).
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from pkg_lib.core.store import read_rows, write_jsonl
from pkg_lib.papers.evor import make_library


def filled(
    row: dict[str, Any],
    library: make_library.Library,
    original: Any,
) -> dict[str, Any]:
    """Compute the derived fields of one task.

    Args:
        row: The task.
        library: The library with the new names.
        original: Module of the original library.

    Returns:
        The task with the derived fields.

    Raises:
        SystemExit: A parameter of the solution has a name that the library changes.
    """
    head = f"def {row['signature']}:\n"
    program = head + row["solution"]
    made = library.code(program)
    if not made.startswith(head):
        raise SystemExit(
            f"{row['id']}: the library renames a parameter of the solution: {made.splitlines()[0]}"
        )
    made_apis = []
    for api in row["apis"]:
        name, _, _ = library.code(f"{api}()").partition("(")
        made_apis.append(name)
    alias = next(iter(library.spec["alias"]))
    namespace = {alias: original}
    exec(program, namespace)
    expected = [repr(eval(f"solve({given})", namespace)) for given in row["inputs"]]
    return {
        **row,
        "made_apis": list(dict.fromkeys(made_apis)),
        "made_solution": made.removeprefix(head),
        "expected": expected,
    }


def main() -> None:
    """Compute the derived fields of every task, and write the files of tasks again."""
    for name in make_library.SPECS:
        library = make_library.library_of(name)
        sys.path.insert(0, str(make_library.LIBRARIES[name].tree))
        original = importlib.import_module(library.module)
        path = Path(make_library.__file__).with_name(f"{name}.jsonl")
        rows = [filled(row, library, original) for row in read_rows(path)]
        write_jsonl(path, rows)


if __name__ == "__main__":
    main()
