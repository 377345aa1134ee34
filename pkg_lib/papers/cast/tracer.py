"""The tracer, a script of its own: which functions of a package each test calls, and which pass.

    python tracer.py < {"files": {path: text}, "tests": [module]}  >  {"tests": [...], "unusable": {...}}

It executes the package as published, no text of a model: sys.setprofile is forbidden in the sandbox. Of each
test: `passed`; `calls`, (path, first line); `events`, their number; `suspects`, the functions that a failing
test speaks against: those that its error came through, or all that it called where the error came up in the
test itself; none where the test is skipped or needs a module that is not here.
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

Place = tuple[str, int]  # path, first line


def traced(test: str) -> dict[str, Any]:
    calls: Counter[Place] = Counter()

    def profile(frame: types.FrameType, event: str, argument: object) -> None:
        if event == "call" and (place := _place(frame.f_code)):
            calls[place] += 1

    error: Exception | None = None
    sys.setprofile(profile)
    try:
        inside.run(test)
    except Exception as e:  # noqa: BLE001  whatever makes a test fail or skip, it is no test that passes
        error = e
    finally:
        sys.setprofile(None)
    suspects = sorted(
        _suspects(error, set(calls), str(sys.modules[test.partition(":")[0]].__file__))
    )
    about = {"events": calls.total(), "calls": sorted(calls), "suspects": suspects}
    return {"test": test, "passed": error is None, **about}


def _place(code: types.CodeType) -> Place | None:
    file = code.co_filename
    return (
        (file.removeprefix(inside.ROOT), code.co_firstlineno)
        if file.startswith(inside.ROOT)
        else None
    )


def _suspects(error: Exception | None, calls: set[Place], test_file: str) -> set[Place]:
    if error is None or isinstance(error, (ImportError, unittest.SkipTest)):
        return set()
    through = {_place(frame.f_code) for frame, _ in traceback.walk_tb(error.__traceback__)}
    return {p for p in through if p and inside.ROOT + p[0] != test_file} or calls


def main() -> None:
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
