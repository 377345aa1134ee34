"""Samples a second through Ray against the local engine, both with this machine's processors, in one run.

    python tests/benchmarks/bench_engine.py [--samples 1000] [--repeat 3]

They take turns on the same jobs of HumanEval; the fastest of each counts. `overhead` is the share by which Ray
takes longer; joining, which starts the cluster here and is done once a command, is told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (1, 2)]

from benchmarks.bench_sandbox import COLUMNS, column
from benchmarks.clock import rounded, timed
from pkg_lib.core import workers
from pkg_lib.core.store import results_dir, versions, write_json
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.execution.sandbox import run_jobs

GOAL = 0.25


def measure(count: int, repeat: int, engine: str = "ray") -> dict[str, Any]:
    samples = [(t, s) for t, s, _ in column(COLUMNS["without a timeout"][0])]
    jobs = [
        BENCHMARKS[t.benchmark].job(t, s)
        for t, s in (samples * (count // len(samples) + 1))[:count]
    ]
    # Ray starts its workers at nice 15: what else runs here would meet one party alone.
    os.environ.setdefault("RAY_worker_niceness", "0")
    joining, _, _ = timed(lambda: workers.use(engine))
    processors = workers.nodes_processors()
    seconds: dict[str, list[float]] = {"local": [], engine: []}
    verdicts = set()
    for name in [*seconds] * (repeat + 1):
        workers.ENGINE.set(name)
        wall, _, outcomes = timed(lambda: [*run_jobs(jobs, workers=processors)])
        seconds[name].append(wall)
        verdicts.add(tuple((o.status, o.error, o.detail) for o in outcomes))
    workers.ENGINE.set("local")
    local, ray = (
        min(of[1:]) for of in seconds.values()
    )  # the first round starts workers and fills caches
    figures = {"local_s": local, "ray_s": ray, "overhead": ray / local - 1, "joining_s": joining}
    figures |= {"first_local_s": seconds["local"][0], "first_ray_s": seconds[engine][0]}
    about = {"samples": count, "processors": processors, "same_verdicts": len(verdicts) == 1}
    return (
        about | rounded(figures, 3) | {"load": round(os.getloadavg()[0], 2), "versions": versions()}
    )


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Ray beside the local engine")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(words)
    figures = measure(options.samples, options.repeat)
    print(json.dumps(figures, indent=1))
    write_json(options.output or results_dir() / "benchmarks" / "engine.json", figures)
    return 0 if figures["same_verdicts"] and figures["overhead"] < GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
