"""Compare Ray with the local engine on the processors of this machine, in the time that samples take.

    python tests/benchmarks/bench_engine.py [--samples 1000] [--repeat 3]

The engines alternate on the same HumanEval jobs, and the fastest repetition of each counts. `overhead` is the
share by which Ray takes longer. Joining starts the cluster on this machine and happens once per command, so
`joining_s` reports it separately.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    TESTS = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from benchmarks.bench_sandbox import METHODS, stored_samples
from benchmarks.clock import rounded, timed
from pkg_lib.core import workers
from pkg_lib.core.store import results_dir, versions, write_json
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.execution.sandbox import Job, run_jobs

GOAL = 0.25


def humaneval_jobs(count: int) -> list[Job]:
    """Return `count` jobs of stored HumanEval samples; samples are repeated if there are too few."""
    file, _ = METHODS["without a timeout"]
    samples = stored_samples(file)
    repeats = count // len(samples) + 1
    jobs = []
    for task, solution, _ in (samples * repeats)[:count]:
        jobs.append(BENCHMARKS[task.benchmark].job(task, solution))
    return jobs


def measure(
    count: int,
    repeat: int,
    engine: str = "ray",
) -> dict[str, Any]:
    """Measure both engines on the same jobs.

    Args:
        count: Number of samples.
        repeat: Number of repetitions, after one that is not counted.
        engine: Engine to compare with the local one.

    Returns:
        The seconds of both engines, whether their verdicts are equal, and the state of the machine.
    """
    jobs = humaneval_jobs(count)
    # By default, Ray starts its workers at nice 15. Other jobs of the machine would then slow down Ray alone.
    os.environ.setdefault("RAY_worker_niceness", "0")
    joining_s, _, _ = timed(lambda: workers.use(engine))
    processors = workers.nodes_processors()
    seconds: dict[str, list[float]] = {"local": [], engine: []}
    verdicts = set()
    for _ in range(repeat + 1):
        for name in seconds:
            workers.ENGINE.set(name)
            wall_s, _, outcomes = timed(lambda: list(run_jobs(jobs, workers=processors)))
            seconds[name].append(wall_s)
            verdicts.add(
                tuple((outcome.status, outcome.error, outcome.detail) for outcome in outcomes)
            )
    workers.ENGINE.set("local")
    # The first repetition starts workers and fills caches.
    local_s = min(seconds["local"][1:])
    ray_s = min(seconds[engine][1:])
    figures = {
        "local_s": local_s,
        "ray_s": ray_s,
        "overhead": ray_s / local_s - 1,
        "joining_s": joining_s,
        "first_local_s": seconds["local"][0],
        "first_ray_s": seconds[engine][0],
    }
    return {
        "samples": count,
        "processors": processors,
        "same_verdicts": len(verdicts) == 1,
        **rounded(figures, 3),
        "load": round(os.getloadavg()[0], 2),
        "versions": versions(),
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark from the command line.

    Args:
        arguments: Command-line arguments; by default those of the process.

    Returns:
        The exit status: 0 if the verdicts are equal and the overhead meets the goal, else 1.
    """
    parser = argparse.ArgumentParser(description="Ray beside the local engine")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    figures = measure(options.samples, options.repeat)
    print(json.dumps(figures, indent=1))
    output = options.output or results_dir() / "benchmarks" / "engine.json"
    write_json(output, figures)
    fast = figures["overhead"] < GOAL
    return 0 if figures["same_verdicts"] and fast else 1


if __name__ == "__main__":
    sys.exit(main())
