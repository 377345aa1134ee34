"""Fills what follows from the written part of EVOR's tasks on libraries: python tests/benchmarks/fill_library_tasks.py

Written by hand: id, apis, named, plain, signature, inputs, solution. Filled: `expected` (what the solution gives with
the original library), `made_apis` and `made_solution` (both under the new names).
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from pkg_lib.core.store import read_rows, write_jsonl
from pkg_lib.papers.evor import make_library


def filled(row: dict[str, Any], library: make_library.Library, original: Any) -> dict[str, Any]:
    head = f"def {row['signature']}:\n"
    made = library.code(head + row["solution"])
    if not made.startswith(head):
        raise SystemExit(
            f"{row['id']}: a parameter bears a name that changes: {made.splitlines()[0]}"
        )
    made_apis = [library.code(f"{api}()").partition("(")[0] for api in row["apis"]]
    space = {next(iter(library.spec["alias"])): original}
    exec(head + row["solution"], space)
    expected = [repr(eval(f"solve({given})", space)) for given in row["inputs"]]
    made_part = {
        "made_apis": list(dict.fromkeys(made_apis)),
        "made_solution": made.removeprefix(head),
    }
    return row | made_part | {"expected": expected}


def main() -> None:
    for name in make_library.SPECS:
        library = make_library.library_of(name)
        sys.path.insert(0, str(make_library.LIBRARIES[name].tree))
        original = importlib.import_module(library.module)
        path = Path(make_library.__file__).with_name(f"{name}.jsonl")
        write_jsonl(path, [filled(row, library, original) for row in read_rows(path)])


if __name__ == "__main__":
    main()
