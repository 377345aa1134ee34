"""The tracer, a script of its own: which functions of a package each test calls, and which pass.

    python tracer.py < {"files": {path: text}, "tests": [module]}  >  {"tests": [...], "unusable": {...}}

It executes the pinned package as it was published, no text of a model: sys.setprofile, which it needs, is
forbidden in the sandbox. Of each test it tells: `passed`; `calls`, as (path, first line); `events`, how many
calls that were, a measure of its length that is the same on every machine; `suspects`, the functions that a
failing test speaks against: those that its error came through, or all that it called where the error came up
in the test itself. A test that needs a module which is not here, or is skipped, speaks against none.
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

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120  without pathlib
import inside

sys.path.pop(0)

Place = tuple[str, int]  # path, first line


def traced(test: str) -> dict[str, Any]:
    """One test under the profiler."""
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
    suspects = sorted(_suspects(error, set(calls), str(sys.modules[test.partition(":")[0]].__file__)))
    about = {"events": calls.total(), "calls": sorted(calls), "suspects": suspects}
    return {"test": test, "passed": error is None, **about}


def _place(code: types.CodeType) -> Place | None:
    """Where a function of the package starts; None for one of another library."""
    file = code.co_filename
    return (file.removeprefix(inside.ROOT), code.co_firstlineno) if file.startswith(inside.ROOT) else None


def _suspects(error: Exception | None, calls: set[Place], test_file: str) -> set[Place]:
    if error is None or isinstance(error, (ImportError, unittest.SkipTest)):
        return set()
    through, tb = set(), error.__traceback__
    while tb is not None:
        through.add(_place(tb.tb_frame.f_code))
        tb = tb.tb_next
    return {p for p in through if p and inside.ROOT + p[0] != test_file} or calls


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
