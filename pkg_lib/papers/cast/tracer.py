"""Trace the tests of a package: which functions each test calls, and which tests pass.

    python tracer.py < {"files": {path: text}, "tests": [module]}  >  {"tests": [...], "unusable": {...}}

This is a script of its own. It executes the package as published and no text of a model, because
the sandbox forbids sys.setprofile.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys
import traceback
import types
import unittest
from collections import Counter
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120  without pathlib
import inside

sys.path.pop(0)

Place = tuple[str, int]  # path and first line of a function


def traced(test: str) -> dict[str, Any]:
    """Run one test and record the functions that it calls.

    Args:
        test: A name as `inside.names` returns it.

    Returns:
        `test`, whether it `passed`, its `calls` as (path, first line), the number of calls as
        `events`, and `suspects`: the functions that a failing test casts doubt on.
    """
    calls: Counter[Place] = Counter()

    def profile(frame: types.FrameType, event: str, argument: object) -> None:
        place = _place(frame.f_code)
        if event == "call" and place:
            calls[place] += 1

    error: Exception | None = None
    sys.setprofile(profile)
    try:
        inside.run(test)
    except Exception as e:  # noqa: BLE001  a test that fails or skips in any way does not pass
        error = e
    finally:
        sys.setprofile(None)
    module, _, _ = test.partition(":")
    test_file = str(sys.modules[module].__file__)
    return {
        "test": test,
        "passed": error is None,
        "events": calls.total(),
        "calls": sorted(calls),
        "suspects": sorted(_suspects(error, set(calls), test_file)),
    }


def _place(code: types.CodeType) -> Place | None:
    """Return where a function of the package is defined, None for other code."""
    file = code.co_filename
    if not file.startswith(inside.ROOT):
        return None
    return file.removeprefix(inside.ROOT), code.co_firstlineno


def _suspects(error: Exception | None, calls: set[Place], test_file: str) -> set[Place]:
    """Return the functions that the error passed through, or all called ones if it arose in the test.

    A test that is skipped or lacks a module casts doubt on none.
    """
    if error is None or isinstance(error, (ImportError, unittest.SkipTest)):
        return set()
    through = set()
    for frame, _ in traceback.walk_tb(error.__traceback__):
        place = _place(frame.f_code)
        if place and inside.ROOT + place[0] != test_file:
            through.add(place)
    return through or calls


def main() -> None:
    """Trace every test that standard input names, and write the result to standard output."""
    request = json.load(sys.stdin)
    inside.install(request["files"])
    rows: list[dict[str, Any]] = []
    unusable = {}
    silent = io.StringIO()
    with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
        for name in request["tests"]:
            try:
                module = importlib.import_module(name)
            except Exception as e:  # noqa: BLE001  modules that need something missing are reported
                unusable[name] = f"{type(e).__name__}: {e}"
                continue
            rows += [traced(test) for test in list(inside.names(module))]
    json.dump({"tests": rows, "unusable": unusable}, sys.stdout)


if __name__ == "__main__":
    main()
