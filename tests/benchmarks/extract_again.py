"""Extracts all committed completions again, judges the solutions that changed and lists them: extract_again.py FILE

The runs are those of results/leaderboard.csv. FILE gets one JSON line for each changed solution: model, benchmark, corpus,
column and task, the old and the new solution, and both verdicts. Nothing is written in results/; `pkg-lib run` stores the
new verdicts. Runs whose tasks or contexts are unavailable are named and left out.
"""

import json
import sys
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (1, 2)]

import pandas as pd

from pkg_lib.core.store import ROOT
from pkg_lib.core.types import Outcome, UserError
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.stored_rows import VERDICT, by_task
from pkg_lib.execution.sandbox import Job, run_jobs


def changed(run):
    """(what names it, task, stored row, new solution) of each stored verdict on another solution than today's."""
    tasks = {task.id: task for task in run.tasks}
    for column in run.stored_methods():
        rows = by_task(run.files(column).samples, VERDICT)
        about = {
            "model": run.model,
            "benchmark": run.benchmark,
            "corpus": run.corpus,
            "column": column,
        }
        for task_id, solution in run.solutions(column).items():
            if task_id in rows and rows[task_id]["solution"] != solution:
                yield about | {"task_id": task_id}, tasks[task_id], rows[task_id], solution


def judged(run, found):
    """The rows of the list, with the verdicts on the new solutions."""
    jobs = [run.benchmark_spec.job(task, solution, run.protocol) for _, task, _, solution in found]
    by_limits = {}
    for number, (job, (_, task, _, _)) in enumerate(zip(jobs, found, strict=True)):
        if isinstance(job, Job):
            by_limits.setdefault(run.benchmark_spec.limits(task), []).append(number)
    outcomes = {number: job for number, job in enumerate(jobs) if isinstance(job, Outcome)}
    for limits, numbers in by_limits.items():
        outcomes |= zip(numbers, run_jobs((jobs[n] for n in numbers), limits), strict=True)
    for number, (about, _, row, solution) in enumerate(found):
        before, after = Outcome.of(row), outcomes[number]
        solutions = {"old_solution": row["solution"], "new_solution": solution}
        verdicts = {"old_status": before.status, "old_error": before.error}
        verdicts |= {"new_status": after.status, "new_error": after.error}
        yield about | verdicts | solutions


def main(target):
    """Writes the list to a file and prints how many verdicts changed in which way."""
    names = pd.read_csv(ROOT / "results" / "leaderboard.csv")[["model", "benchmark", "corpus"]]
    kinds, seen = Counter(), set()
    with Path(target).open("w", encoding="utf8") as file:
        for model, benchmark, corpus in names.drop_duplicates().itertuples(index=False):
            try:
                run = Results(
                    model, benchmark, "" if pd.isna(corpus) or corpus == "none" else corpus
                )
                if run.tasks_absent:
                    raise UserError(run.tasks_absent)
                rows = list(judged(run, list(changed(run))))
            except UserError as e:
                print(f"{model} {benchmark} {corpus}: {e}")
                continue
            for row in rows:
                key = (row["model"], row["benchmark"], row["corpus"], row["column"], row["task_id"])
                if row["column"].split(",")[0] == "NoRAG":  # its rows are the same for every corpus
                    key = (row["model"], row["benchmark"], "", row["column"], row["task_id"])
                if key not in seen:
                    seen.add(key)
                    kinds[
                        f"{row['old_status']} {row['old_error']} -> {row['new_status']} {row['new_error']}"
                    ] += 1
                    file.write(json.dumps(row, sort_keys=True) + "\n")
    for kind, count in kinds.most_common():
        print(count, kind)


if __name__ == "__main__":
    main(sys.argv[1])
