"""Judges committed evaluations again and lists what changed: judge_again.py [PATTERN] [EVERY]

PATTERN: of the files below results/evaluations, MODEL/BENCHMARK/CORPUS/COLUMN.jsonl (default: all). EVERY: only each
so many-th row. Rows on other tests or solutions than today's are counted and left out. Nothing is written.
"""

import sys
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (1, 2)]

from pkg_lib.core.store import ROOT, read_rows
from pkg_lib.core.types import Outcome, UserError, digest
from pkg_lib.data.benchmark import PROTOCOLS
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.execution.sandbox import Job, run_jobs

FOLDER = ROOT / "results" / "evaluations"


def current(rows, name):
    """(row, its job or verdict, its limits) of each row that is on today's tests."""
    rules, tasks = BENCHMARKS[name], {t.id: t for t in load_benchmark(name)}
    for row in rows:
        if task := tasks.get(row["task_id"]):
            limits, mark = rules.limits(task), rules.mark(task, row["solution"])
            for protocol in PROTOCOLS:
                if row["sha256"] == digest(mark, protocol, limits.packages):
                    yield row, rules.job(task, row["solution"], protocol), limits


def changes(path, name, every=1):
    """Judges the rows of one file; (rows, those judged, changed ones as (task, before, after))."""
    rows = [r for r in read_rows(path) if "solution" in r and "sha256" in r][::every]
    found = list(current(rows, name))
    jobs = {}
    for row, job, limits in found:
        if isinstance(job, Job):
            jobs.setdefault(limits, []).append((row, job))
    changed = []
    for limits, pairs in jobs.items():
        for (row, _), after in zip(pairs, run_jobs((job for _, job in pairs), limits), strict=True):
            before = Outcome.of(row)
            if (before.status, before.error) != (after.status, after.error):
                changed.append((row["task_id"], before, after))
    return len(rows), len(found), changed


def main(pattern="*/*/*/*.jsonl", every="1"):
    total, kinds = Counter(), Counter()
    for path in sorted(FOLDER.glob(pattern)):
        name = path.relative_to(FOLDER).parts[1]
        if name not in BENCHMARKS or path.stem == "reranked":
            continue
        try:
            rows, judged, changed = changes(path, name, int(every))
        except UserError as e:
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
