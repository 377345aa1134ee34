"""The tracer, a script of its own: which functions of a package each of its tests calls, and which tests pass.

    python tracing.py < {"files": {path: text}, "tests": [module]}  ->  {"tests": [...], "unusable": {module: reason}}

It executes the pinned package as it was published, no text of a model: sys.setprofile, which it needs, is forbidden in the
sandbox. Each test is a row {"test", "passed", "events", "calls": [[path, first line], ...], "suspects": [...]}; `events`, the
number of calls of functions of the package and its tests, is a measure of its length that is the same on every machine.
`suspects` are the functions that a failing test speaks against: those that its error came through, or all that it called where
the error came up in the test itself. A test that needs a module which is not here, or is skipped, speaks against none.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys
import types
import unittest
from collections import Counter
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - a start without pathlib
import inside

sys.path.pop(0)


Place = tuple[str, int]  # path, first line


def traced(test: str) -> dict[str, Any]:
    """One test under the profiler."""
    calls: Counter[tuple[str, int]] = Counter()

    def profile(frame: types.FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(inside.ROOT):
            calls[code.co_filename.removeprefix(inside.ROOT), code.co_firstlineno] += 1

    error: Exception | None = None
    sys.setprofile(profile)
    try:
        inside.run(test)
    except Exception as e:  # noqa: BLE001  whatever makes a test fail or skip, it is no test that passes
        error = e
    finally:
        sys.setprofile(None)
    found = sorted(_suspects(error, set(calls), str(sys.modules[test.partition(":")[0]].__file__)))
    return {
        "test": test,
        "passed": error is None,
        "events": calls.total(),
        "calls": sorted(calls),
        "suspects": found,
    }


def _suspects(error: Exception | None, calls: set[Place], own: str) -> set[Place]:
    if error is None or isinstance(error, (ImportError, unittest.SkipTest)):
        return set()
    through: set[Place] = set()
    tb = error.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        if code.co_filename.startswith(inside.ROOT):
            through.add((code.co_filename.removeprefix(inside.ROOT), code.co_firstlineno))
        tb = tb.tb_next
    return {p for p in through if inside.ROOT + p[0] != own} or calls


def main() -> None:
    """Reads the request from standard input and writes the answer to standard output."""
    request = json.load(sys.stdin)
    inside.install(request["files"])
    rows, unusable = [], {}
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for name in request["tests"]:
            try:
                module = importlib.import_module(name)
            except Exception as e:  # noqa: BLE001  a module of tests that needs what is not here is reported
                unusable[name] = f"{type(e).__name__}: {e}"
            else:
                rows += [traced(test) for test in list(inside.names(module))]
    json.dump({"tests": rows, "unusable": unusable}, sys.stdout)


if __name__ == "__main__":
    main()
