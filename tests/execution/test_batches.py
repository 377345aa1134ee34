"""Test jobs with different limits in one batch."""

from pkg_lib.execution.batches import run_with_limits
from pkg_lib.execution.sandbox import Job, Limits

SMALL = Limits(memory_mb=512)
LARGE = Limits(memory_mb=2048)
TAKES_800_MB = "def f():\n    return len(bytearray(800 * 2**20))\n"


def job(solution: str) -> Job:
    return Job("T/0", solution, ("assert f()",), "f", 10.0)


def test_each_job_keeps_its_limits_and_outcomes_keep_their_order():
    seen = []
    jobs = [
        (job(TAKES_800_MB), SMALL),
        (job("def f(): return 1"), LARGE),
        (job(TAKES_800_MB), LARGE),
    ]
    outcomes = run_with_limits(jobs, progress=seen.append)
    assert [outcome.status for outcome in outcomes] == ["failed", "passed", "passed"]
    assert seen == [1, 2, 3]


def test_no_jobs_give_no_outcomes():
    assert run_with_limits([]) == []
