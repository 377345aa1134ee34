"""Judge committed samples again and list what changed: judge_again.py [PATTERN] [EVERY]

PATTERN selects files below results/runs, such as "humaneval/*/published/*/samples.jsonl.gz" (default: all
samples). EVERY takes only every so many-th row. Rows on other tests or solutions than today's are counted and
left out. Files of benchmarks whose tasks are unavailable are named. Nothing is written.
"""

import sys
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (1, 2)]

from pkg_lib.core.registry import load_plugins
from pkg_lib.core.store import ROOT, read_json, read_rows
from pkg_lib.core.types import Outcome, UserError, digest
from pkg_lib.data.benchmark import PROTOCOLS
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.evaluation.storage import CONDITION, SAMPLES
from pkg_lib.execution.sandbox import Job, run_jobs

FOLDER = ROOT / "results" / "runs"


def current(rows, name, control=False):
    """(row, its job or verdict, its limits) of each row that is on today's tests."""
    rules, tasks = BENCHMARKS[name], {t.id: t for t in load_benchmark(name)}
    for row in rows:
        if task := tasks.get(row["task_id"]):
            limits, mark = rules.limits(task), rules.fingerprint(task, row["solution"])
            for protocol in PROTOCOLS:
                if row["sha256"] == digest(mark, protocol, limits.packages):
                    make = rules.control_job if control else rules.job
                    yield row, make(task, row["solution"], protocol), limits


def changes(path, about, every=1):
    """Judge the rows of one file: (rows, those judged, changed ones as (task, before, after))."""
    rows = [r for r in read_rows(path) if "solution" in r and "sha256" in r][::every]
    found = list(current(rows, about["benchmark"], "control" in about))
    pairs, by_limits = [], {}
    for row, job, limits in found:
        if isinstance(job, Job):
            by_limits.setdefault(limits, []).append((row, job))
        else:
            pairs.append((row, job))  # a verdict that needs no run
    for limits, jobs in by_limits.items():
        pairs += zip(
            (row for row, _ in jobs), run_jobs((job for _, job in jobs), limits), strict=True
        )
    verdicts = ((row["task_id"], Outcome.of(row), after) for row, after in pairs)
    changed = [(t, b, a) for t, b, a in verdicts if (b.status, b.error) != (a.status, a.error)]
    return len(rows), len(found), changed


def main(pattern=f"**/{SAMPLES}", every="1"):
    load_plugins()
    total, kinds = Counter(), Counter()
    for path in sorted(FOLDER.glob(pattern)):
        try:
            about = read_json(path.with_name(CONDITION), {"benchmark": str})
            BENCHMARKS.get_or_fail(about["benchmark"])
            rows, judged, changed = changes(path, about, int(every))
        except UserError as e:
            total["files left out"] += 1
            print(f"{path.relative_to(FOLDER)}: {e}")
            continue
        total.update(rows=rows, judged=judged, changed=len(changed))
        for task, before, after in changed:
            kinds[f"{before.error or before.status} -> {after.error or after.status}"] += 1
            print(
                f"{path.relative_to(FOLDER)} {task}: {before.status} {before.error} -> {after.status} {after.error}"
            )
            print(f"    {before.detail[:200]} -> {after.detail[:300]}")
    print(dict(total), dict(kinds))


if __name__ == "__main__":
    main(*sys.argv[1:])
