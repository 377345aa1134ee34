"""Functions of a package as tasks, chosen by its tests, and completions judged by them in the sandbox.

A task is a function that passing tests call; with its own body they pass in the sandbox, with `pass` and with
`raise NotImplementedError` they do not. The package travels with a job: nothing is read from the disk. Not
covered, beyond what sandbox.py names: a sample could alter unittest as it could alter math.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pkg_lib.core.types import Outcome, UserError, digest
from pkg_lib.data.functions import MaskableFunction, as_task, below, candidates, replaced
from pkg_lib.data.packages import Package
from pkg_lib.data.repoeval import RepoTask
from pkg_lib.execution.sandbox import Job, Limits, run_jobs

INSIDE, TRACER = (Path(__file__).with_name(name) for name in ("inside.py", "tracer.py"))
TRACE_SECONDS = 600
LONGEST = 100_000  # calls of the package's functions; a test with more is not taken
MOST = 12  # tests that decide about one function
BATCH = 8
SECONDS, MEMORY_MB = 20.0, 4096
# Control rows. "pass" and "raise" must fail every task, or its tests do not look at what the function does.
CONTROLS = {"canonical body": True, "pass": False, "raise NotImplementedError": False}


@dataclass(frozen=True)
class Coverage:
    """`calls`: test that passes -> the (path, first line) that it calls; `failing` tests; `unusable` modules.

    `suspects` are the functions that a failing test speaks against (tracer.py): with other versions of its
    libraries what is published may be wrong.
    """

    calls: dict[str, frozenset[tuple[str, int]]]
    failing: tuple[str, ...]
    unusable: dict[str, str]
    suspects: frozenset[tuple[str, int]]

    def tests(self, function: MaskableFunction) -> tuple[str, ...]:
        """At most MOST tests that call it: first those that call the fewest functions, then by name."""
        place = (function.path, function.first)
        calling = [test for test, calls in self.calls.items() if place in calls]
        return tuple(sorted(calling, key=lambda t: (len(self.calls[t]), t))[:MOST])


def trace(package: Package, files: Mapping[str, str]) -> Coverage:
    """Runs the package's tests once, in a process of its own. UserError where that fails as a whole.

    A package that needs the standard library alone sees no other: a module of tests that imports pytest is
    unusable there, as it would be in the sandbox.
    """
    paths = [p for p in files if below(p, package.tests) and Path(p).name.startswith("test_")]
    tests = [p.removesuffix(".py").replace("/", ".") for p in paths]
    command = [sys.executable, "-s", "-B", *([] if package.libraries else ["-S"]), str(TRACER)]
    how = {"capture_output": True, "text": True, "timeout": TRACE_SECONDS}
    how |= {"env": {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}}
    try:
        process = subprocess.run(command, input=json.dumps({"files": files, "tests": tests}), **how)
    except subprocess.TimeoutExpired as e:
        raise UserError(f"the tests of {package.label} take more than {TRACE_SECONDS} s") from e
    if process.returncode:
        reason = process.stderr.strip().splitlines()[-1:]
        raise UserError(f"the tests of {package.label} cannot be traced: {reason}")
    answer = json.loads(process.stdout)
    good = [r for r in answer["tests"] if r["passed"] and r["events"] <= LONGEST]
    calls = {r["test"]: frozenset(map(tuple, r["calls"])) for r in good}
    failing = tuple(r["test"] for r in answer["tests"] if not r["passed"])
    suspects = frozenset((path, line) for r in answer["tests"] for path, line in r["suspects"])
    return Coverage(calls, failing, answer["unusable"], suspects)


def build(package: Package, limit: int) -> tuple[list[RepoTask], dict[str, int]]:
    """At most `limit` tasks whose controls go as they must, spread by the ids' digests; counts by reason."""
    files = package.files()
    maskable, coverage = candidates(package, files), trace(package, files)
    sound = [f for f in maskable if (f.path, f.first) not in coverage.suspects]
    tasks = [as_task(package, f, files[f.path], coverage.tests(f)) for f in sound]
    covered = sorted((t for t in tasks if t.tests), key=lambda t: digest(t.id))
    chosen, tried = list[RepoTask](), 0
    while tried < len(covered) and len(chosen) < limit:
        batch = covered[tried : tried + BATCH]
        tried += len(batch)
        jobs = [job(t, package, files, control_body(t, c)) for t in batch for c in CONTROLS]
        outcomes = run_jobs(jobs, limits(package))
        decided = [as_they_must({c: next(outcomes) for c in CONTROLS}) for _ in batch]
        chosen += [t for t, good in zip(batch, decided, strict=True) if good][: limit - len(chosen)]
    counts = {
        "functions of 3 to 30 lines": len(maskable),
        "a test that fails here speaks against it": len(maskable) - len(sound),
        "called by no test that passes": len(sound) - len(covered),
        "tests that pass": len(coverage.calls),
        "tests that fail here": len(coverage.failing),
        "modules of tests that cannot be imported here": len(coverage.unusable),
        "tried with the controls": tried,
        "tasks": len(chosen),
    }
    return sorted(chosen, key=lambda t: t.id), counts


def as_they_must(outcomes: Mapping[str, Outcome]) -> bool:
    """Whether the canonical body passed and the empty ones failed."""
    return all(outcomes[c].status == ("passed" if passes else "failed") for c, passes in CONTROLS.items())


def control_body(task: RepoTask, control: str) -> str:
    """The body of a control row."""
    return task.solution if control == "canonical body" else task.indent + control


def limits(package: Package) -> Limits:
    """What the package's tests may use: the standard library, the package, and the libraries that it needs.

    These are loaded first, so that the sandbox does not take their classes for the sample's own.
    """
    brought = {p.split("/")[0].removesuffix(".py") for p in (*package.sources, *package.tests)}
    allowed = "all" if package.libraries else "stdlib"
    return Limits(SECONDS, MEMORY_MB, allowed, tuple(sorted(brought)), package.libraries)


def job(task: RepoTask, package: Package, files: Mapping[str, str], body: str) -> Job:
    """The solution imports the package from memory, with `body` in the task's place; then its tests run."""
    code = {p: t for p, t in files.items() if below(p, package.sources) and not below(p, package.tests)}
    code[task.path] = replaced(task, files[task.path], body)
    modules = {test.partition(":")[0].replace(".", "/") + ".py" for test in task.tests}
    parents = {f"{parent}/__init__.py" for m in modules for parent in Path(m).parents} - code.keys()
    tests = {p: t for wanted in (modules, parents) for p, t in files.items() if p in wanted}
    module = task.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    inside = INSIDE.read_text("utf8")
    solution = f"{inside}\n_modules = install({code!r})\nimportlib.import_module({module!r})\n"
    # An assertion last, since for others the sandbox searches the whole text for the statement that failed.
    test = f"_tests = install({tests!r})\n_names = {list(task.tests)!r}\nassert run_all(_names)\n"
    return Job(task.id, solution, (test,), task.entry_point)
