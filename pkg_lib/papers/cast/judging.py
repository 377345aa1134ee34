"""Completions of repository tasks in the sandbox: the package travels with the job, its tests decide.

A job's solution imports the package from memory (inside.py), the task's file with the completion in the place of the body;
its test runs the task's tests, one after the other. So the sandbox gives a sample nothing that it does not give others: no
file of the package or its tests has to be read from the disk, and nothing is written.
Not covered, beyond what sandbox.py names: the package under test runs the tests' own imports of it, so a sample could alter
unittest as it could alter math.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pkg_lib.core.types import Outcome
from pkg_lib.data.functions import below, replaced
from pkg_lib.data.packages import Package
from pkg_lib.data.repoeval import RepoTask
from pkg_lib.execution.errors import split_detail
from pkg_lib.execution.sandbox import Job, Limits, run_jobs

_ADDRESS = re.compile(r"at 0x[0-9a-f]+")
INSIDE = Path(__file__).with_name("inside.py")
SECONDS, MEMORY_MB = 20.0, 4096
# The control rows. "pass" and "raise" must fail every task, or its tests do not look at what the function does.
CONTROLS = {"canonical body": True, "pass": False, "raise NotImplementedError": False}


def limits(package: Package) -> Limits:
    """What the package's tests may use: the standard library, the package itself, and the libraries that it needs.

    These are loaded before a sample runs, so that their classes stand when the sandbox looks for the sample's own.
    """
    brought = {p.split("/")[0].removesuffix(".py") for p in (*package.sources, *package.tests)}
    allowed = "all" if package.libraries else "stdlib"
    return Limits(SECONDS, MEMORY_MB, allowed, tuple(sorted(brought)), package.libraries)


def job(task: RepoTask, package: Package, files: Mapping[str, str], body: str) -> Job:
    """The task with `body` in the place of its own. `files` are all Python files of the package (read_package)."""
    code = {p: t for p, t in files.items() if below(p, package.sources) and not below(p, package.tests)}
    code[task.path] = replaced(task, files[task.path], body)
    modules = {test.partition(":")[0].replace(".", "/") + ".py" for test in task.tests}
    tests = {p: t for p, t in files.items() if p in modules}
    tests |= {
        p: t for p, t in files.items() if p.endswith("/__init__.py") and p not in code and _above(p, modules)
    }
    module = task.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    solution = (
        f"{INSIDE.read_text('utf8')}\n_modules = install({code!r})\nimportlib.import_module({module!r})\n"
    )
    # The last line is an assertion, since for others the sandbox searches the whole text for the statement that failed.
    test = f"_tests = install({tests!r})\n_names = {list(task.tests)!r}\nassert run_all(_names)\n"
    return Job(task.id, solution, (test,), task.function_name)


def _above(init: str, modules: Iterable[str]) -> bool:
    return any(m.startswith(init.removesuffix("__init__.py")) for m in modules)


def judge(
    package: Package,
    files: Mapping[str, str],
    samples: Sequence[tuple[RepoTask, str]],
    workers: int = 2,
    progress: Callable[[int], None] | None = None,
) -> list[Outcome]:
    """One outcome a (task, body), in order; its detail without addresses in memory, which differ at every run."""
    jobs = [job(t, package, files, body) for t, body in samples]
    outcomes = run_jobs(jobs, limits(package), workers, progress)
    return [replace(o, detail=_ADDRESS.sub("at 0x…", split_detail(o.detail)[0])) for o in outcomes]


def control_body(task: RepoTask, control: str) -> str:
    """The body of a control row."""
    return task.ground_truth if control == "canonical body" else task.indent + control
