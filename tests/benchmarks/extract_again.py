"""Extract all committed completions again, and run the tests of each solution that changed.

    python tests/benchmarks/extract_again.py FILE

The runs are those of results/leaderboard.csv. FILE gets one JSON line for each changed solution: model,
benchmark, corpus, column (the method) and task, the old and the new solution, and both verdicts. The script
writes nothing in results/; `pkg-lib run` stores the new verdicts. Runs whose tasks or contexts are unavailable
are reported and left out.
"""

import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    TESTS = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]

import pandas as pd

from pkg_lib.core.store import ROOT
from pkg_lib.core.types import Outcome, Task, UserError
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.stored_rows import read_verdicts
from pkg_lib.execution.sandbox import Job, run_jobs


@dataclass
class Change:
    """A completion whose solution differs from the stored one.

    Attributes:
        identity: Model, benchmark, corpus, column (the method) and task id.
        task: The task.
        row: The stored row, with the old solution and its verdict.
        solution: The new solution.
    """

    identity: dict[str, str]
    task: Task
    row: dict[str, Any]
    solution: str


def changed(run):
    """Yield a `Change` for each stored verdict of a run whose solution differs from today's.

    Args:
        run: Results of one model on one benchmark and corpus.
    """
    tasks = {task.id: task for task in run.tasks}
    for method in run.stored_methods():
        rows = read_verdicts(run.files(method).samples, run.generator.cache.rows)
        for task_id, solution in run.solutions(method).items():
            if task_id not in rows or rows[task_id]["solution"] == solution:
                continue
            identity = {
                "model": run.model,
                "benchmark": run.benchmark,
                "corpus": run.corpus,
                "column": method,
                "task_id": task_id,
            }
            yield Change(identity, tasks[task_id], rows[task_id], solution)


def new_outcomes(run, changes):
    """Run the tests of the new solutions.

    Args:
        run: The results that the changes belong to.
        changes: The changes.

    Returns:
        The outcome of each change, in the same order.
    """
    outcomes = {}
    jobs_by_limits = {}
    for number, change in enumerate(changes):
        job = run.benchmark_spec.job(change.task, change.solution, run.protocol)
        if isinstance(job, Job):
            limits = run.benchmark_spec.limits(change.task)
            jobs_by_limits.setdefault(limits, {})[number] = job
        else:
            outcomes[number] = job  # a verdict that needs no run
    for limits, jobs in jobs_by_limits.items():
        results = run_jobs(jobs.values(), limits)
        outcomes.update(zip(jobs, results, strict=True))
    return [outcomes[number] for number in range(len(changes))]


def judged(run, changes):
    """Yield the output row of each change, with the old and the new verdict.

    Args:
        run: The results that the changes belong to.
        changes: The changes.
    """
    for change, after in zip(changes, new_outcomes(run, changes), strict=True):
        before = Outcome.of(change.row)
        yield {
            **change.identity,
            "old_status": before.status,
            "old_error": before.error,
            "new_status": after.status,
            "new_error": after.error,
            "old_solution": change.row["solution"],
            "new_solution": change.solution,
        }


def rows_of(model, benchmark, corpus):
    """Return the output rows of one run.

    Args:
        model: Name of the model.
        benchmark: Name of the benchmark.
        corpus: Name of the corpus; "" if the run has none.

    Returns:
        One row per changed solution.

    Raises:
        UserError: The tasks or the contexts of the run are unavailable.
    """
    run = Results(model, benchmark, corpus)
    if run.tasks_absent:
        raise UserError(run.tasks_absent)
    return list(judged(run, list(changed(run))))


def key_of(row):
    """Return what identifies the sample of a row; rows of NoRAG are the same for every corpus."""
    without_retrieval = row["column"].split(",")[0] == "NoRAG"
    corpus = "" if without_retrieval else row["corpus"]
    return row["model"], row["benchmark"], corpus, row["column"], row["task_id"]


def main(target):
    """Write the changed solutions to a file, and print how many verdicts changed in which way.

    Args:
        target: Path of the file.
    """
    leaderboard = pd.read_csv(ROOT / "results" / "leaderboard.csv")
    runs = leaderboard[["model", "benchmark", "corpus"]].drop_duplicates()
    kinds = Counter()
    seen = set()
    with Path(target).open("w", encoding="utf8") as file:
        for model, benchmark, corpus in runs.itertuples(index=False):
            has_corpus = not pd.isna(corpus) and corpus != "none"
            try:
                rows = rows_of(model, benchmark, corpus if has_corpus else "")
            except UserError as e:
                print(f"{model} {benchmark} {corpus}: {e}")
                continue
            for row in rows:
                key = key_of(row)
                if key in seen:
                    continue
                seen.add(key)
                before = f"{row['old_status']} {row['old_error']}"
                after = f"{row['new_status']} {row['new_error']}"
                kinds[f"{before} -> {after}"] += 1
                file.write(json.dumps(row, sort_keys=True) + "\n")
    for kind, count in kinds.most_common():
        print(count, kind)


if __name__ == "__main__":
    main(sys.argv[1])
