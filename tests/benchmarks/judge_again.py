"""Run the tests of committed samples again, and list the verdicts that changed.

    python tests/benchmarks/judge_again.py [PATTERN] [EVERY]

PATTERN selects files below results/runs, such as "humaneval/*/published/*/samples.jsonl.gz" (default: all
samples). With EVERY, only each EVERY-th row runs. Rows whose tests or solutions differ from today's are counted
and left out. Files of benchmarks whose tasks are unavailable are reported. The script writes nothing.
"""

import sys
from collections import Counter
from functools import cache
from pathlib import Path

if __name__ == "__main__":
    TESTS = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from pkg_lib.core.registry import load_plugins
from pkg_lib.core.store import ROOT, cache_folder, read_json
from pkg_lib.core.types import Outcome, UserError, digest
from pkg_lib.data.benchmark import PROTOCOLS
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.evaluation.results import MARK_CHARS
from pkg_lib.evaluation.storage import CONDITION, SAMPLES
from pkg_lib.evaluation.stored_rows import read_verdicts
from pkg_lib.execution.sandbox import Job, run_jobs
from pkg_lib.generation.cache import GenerationCache

FOLDER = ROOT / "results" / "runs"


@cache
def completions_of(model):
    """Read the stored completions of a model, by generation key."""
    return GenerationCache(cache_folder(ROOT / "results", model)).rows


def current(rows, name, control=False):
    """Select the rows whose tests and solutions are today's.

    Args:
        rows: Stored rows.
        name: Name of the benchmark.
        control: Whether the rows belong to a control method.

    Yields:
        The row, its job (or its verdict, if it needs no run), and its limits.
    """
    benchmark = BENCHMARKS[name]
    tasks = {task.id: task for task in load_benchmark(name)}
    make_job = benchmark.control_job if control else benchmark.job
    for row in rows:
        task = tasks.get(row["task_id"])
        if not task or row["solution"] is None:
            continue
        limits = benchmark.limits(task)
        fingerprint = benchmark.fingerprint(task, row["solution"])
        for protocol in PROTOCOLS:
            mark = digest(fingerprint, protocol, limits.packages)[:MARK_CHARS]
            if row["sha256"] == mark:
                yield row, make_job(task, row["solution"], protocol), limits


def changes(path, about, every=1):
    """Run the tests of the rows of one file again.

    Args:
        path: The file.
        about: The stored condition of the run.
        every: Take only each `every`-th row.

    Returns:
        The number of rows, the number of rows whose tests ran, and the changed verdicts as triples of task id,
        stored outcome and new outcome.
    """
    model = about.get("model")  # a control method has none
    completions = completions_of(model) if model else {}
    rows = list(read_verdicts(path, completions).values())[::every]
    found = list(current(rows, about["benchmark"], "control" in about))
    outcomes = []  # pairs of a row and its new outcome
    by_limits = {}
    for row, job, limits in found:
        if isinstance(job, Job):
            by_limits.setdefault(limits, []).append((row, job))
        else:
            outcomes.append((row, job))  # a verdict that needs no run
    for limits, pairs in by_limits.items():
        rows_of_jobs = [row for row, _ in pairs]
        jobs = [job for _, job in pairs]
        results = run_jobs(jobs, limits)
        outcomes.extend(zip(rows_of_jobs, results, strict=True))
    changed = []
    for row, after in outcomes:
        before = Outcome.of(row)
        if (before.status, before.error) != (after.status, after.error):
            changed.append((row["task_id"], before, after))
    return len(rows), len(found), changed


def main(pattern=f"**/{SAMPLES}", every="1"):
    """Run the tests again, and print every changed verdict and a summary.

    Args:
        pattern: Glob pattern of files below results/runs.
        every: Take only each `every`-th row.
    """
    load_plugins()
    total = Counter()
    kinds = Counter()
    for path in sorted(FOLDER.glob(pattern)):
        name = path.relative_to(FOLDER)
        try:
            about = read_json(path.with_name(CONDITION), {"benchmark": str})
            BENCHMARKS.get_or_fail(about["benchmark"])
            rows, judged, changed = changes(path, about, int(every))
        except UserError as e:
            total["files left out"] += 1
            print(f"{name}: {e}")
            continue
        total.update(rows=rows, judged=judged, changed=len(changed))
        for task, before, after in changed:
            old_kind = before.error or before.status
            new_kind = after.error or after.status
            kinds[f"{old_kind} -> {new_kind}"] += 1
            old_verdict = f"{before.status} {before.error}"
            new_verdict = f"{after.status} {after.error}"
            print(f"{name} {task}: {old_verdict} -> {new_verdict}")
            print(f"    {before.detail[:200]} -> {after.detail[:300]}")
    print(dict(total), dict(kinds))
    if not total["judged"]:
        sys.exit("no row could be judged: its tests or its solution are not those of today")


if __name__ == "__main__":
    main(*sys.argv[1:])
