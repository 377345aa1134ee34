"""Tasks from a package: mask a function's body, keep those whose tests tell the body from none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pkg_lib.core.types import Outcome, digest
from pkg_lib.data.functions import as_task, candidates, read_package
from pkg_lib.data.packages import Package
from pkg_lib.data.repoeval import RepoTask
from pkg_lib.papers.cast.covering import Coverage, trace
from pkg_lib.papers.cast.judging import CONTROLS, control_body, judge

BATCH = 8


@dataclass(frozen=True)
class Built:
    """The tasks of a package, and what became of its functions (`counts`, by reason)."""

    package: Package
    tasks: list[RepoTask]
    outcomes: dict[str, dict[str, Outcome]]  # task id -> control -> outcome
    counts: dict[str, int]


def build(package: Package, limit: int, workers: int = 2) -> Built:
    """The first `limit` tasks of the package in the order of the digest of their ids, so that they are spread and the same.

    A function is a task when tests that pass on the package as published call it, none that fails there speaks against it, and by
    the controls: with its own body these tests pass in the sandbox, with `pass` and with `raise NotImplementedError` they do not.
    """
    files = read_package(package)
    found = candidates(package, files)
    coverage = trace(package, files)
    sound = [f for f in found if not coverage.speaks_against(f)]
    tasks = [as_task(package, f, files[f.path], coverage.tests(f)) for f in sound]
    covered = sorted((t for t in tasks if t.tests), key=lambda t: digest(t.id))
    counts = {
        "functions of 3 to 30 lines": len(found),
        "a test that fails here speaks against it": len(found) - len(sound),
        "called by no test that passes": len(sound) - len(covered),
    }
    return _chosen(package, files, covered, limit, counts | _tests(coverage), workers)


def _tests(coverage: Coverage) -> dict[str, int]:
    return {
        "tests that pass": len(coverage.calls),
        "tests that fail here": len(coverage.failing),
        "modules of tests that cannot be imported here": len(coverage.unusable),
    }


def _chosen(
    package: Package,
    files: dict[str, str],
    covered: Sequence[RepoTask],
    limit: int,
    counts: dict[str, int],
    workers: int,
) -> Built:
    kept: list[RepoTask] = []
    outcomes: dict[str, dict[str, Outcome]] = {}
    tried = 0
    for start in range(0, len(covered), BATCH):
        if len(kept) >= limit:
            break
        batch = covered[start : start + BATCH]
        samples = [(t, control_body(t, c)) for t in batch for c in CONTROLS]
        verdicts = iter(judge(package, files, samples, workers))
        for task in batch:
            own = {c: next(verdicts) for c in CONTROLS}
            tried += 1
            if len(kept) < limit and decided(own):
                kept.append(task)
                outcomes[task.id] = own
    counts = counts | {"tried with the controls": tried, "tasks": len(kept)}
    return Built(package, sorted(kept, key=lambda t: t.id), outcomes, counts)


def decided(outcomes: dict[str, Outcome]) -> bool:
    """Whether the controls went as they must."""
    wanted = {control: "passed" if passes else "failed" for control, passes in CONTROLS.items()}
    return {control: outcomes[control].status for control in CONTROLS} == wanted
