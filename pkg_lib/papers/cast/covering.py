"""Which tests can decide about a function: those that pass on the package as published and call it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pkg_lib.core.types import UserError
from pkg_lib.data.functions import Function, below
from pkg_lib.data.packages import Package

SCRIPT = Path(__file__).with_name("tracing.py")
SECONDS = 600
LONGEST = 100_000  # calls of the package's functions; a test with more is not taken
MOST = 12


@dataclass(frozen=True)
class Coverage:
    """`calls`: test -> the (path, first line) that it calls, for tests that pass; `failing` tests; `unusable` modules.

    `suspects` are the functions that a failing test speaks against (tracing.py): what is published may be wrong here, with
    other versions of its libraries, and the tests that pass then say little about it.
    """

    calls: dict[str, frozenset[tuple[str, int]]]
    failing: tuple[str, ...]
    unusable: dict[str, str]
    suspects: frozenset[tuple[str, int]] = frozenset()

    def speaks_against(self, function: Function) -> bool:
        """Whether a test that fails on the package as published speaks against the function."""
        return (function.path, function.first) in self.suspects

    def tests(self, function: Function) -> tuple[str, ...]:
        """At most MOST tests that call the function: first those that call the fewest functions, then by name."""
        own = [t for t, calls in self.calls.items() if (function.path, function.first) in calls]
        return tuple(sorted(own, key=lambda t: (len(self.calls[t]), t))[:MOST])


def test_modules(package: Package, files: dict[str, str]) -> list[str]:
    """The names of the package's modules of tests."""
    paths = [p for p in files if below(p, package.tests) and Path(p).name.startswith("test_")]
    return [p.removesuffix(".py").replace("/", ".") for p in paths]


def trace(package: Package, files: dict[str, str]) -> Coverage:
    """Runs the package's tests once, in a process of its own. UserError where that fails as a whole.

    A package that needs the standard library alone sees no other: a module of tests that imports pytest is unusable there,
    as it would be in the sandbox.
    """
    flags = ["-s", "-B"] + ([] if package.libraries else ["-S"])
    request = json.dumps({"files": files, "tests": test_modules(package, files)})
    environment = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    try:
        found = subprocess.run(
            [sys.executable, *flags, str(SCRIPT)],
            input=request,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env=environment,
        )
    except subprocess.TimeoutExpired as e:
        raise UserError(f"the tests of {package.label} take more than {SECONDS} s") from e
    if found.returncode:
        raise UserError(
            f"the tests of {package.label} cannot be traced: {found.stderr.strip().splitlines()[-1:]}"
        )
    answer = json.loads(found.stdout)
    good = [r for r in answer["tests"] if r["passed"] and r["events"] <= LONGEST]
    calls = {r["test"]: frozenset((path, line) for path, line in r["calls"]) for r in good}
    failing = tuple(r["test"] for r in answer["tests"] if not r["passed"])
    suspects = frozenset((path, line) for r in answer["tests"] for path, line in r["suspects"])
    return Coverage(calls, failing, answer["unusable"], suspects)
