"""Measure the memory of generation on a CPU, when freed memory is given back and when it is not.

    python tests/benchmarks/bench_memory.py --prompts 84

Each way runs in a process of its own, on the same prompts: tasks of HumanEval with code of different lengths as
context. Prints the figures of this machine. The weights of the model must be there already.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    TESTS = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from benchmarks.clock import rounded
from pkg_lib.core.models import fetch
from pkg_lib.core.store import ROOT, versions
from pkg_lib.core.types import Request, digest
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.generation import backends

MODEL = "qwen2.5-coder-0.5b-instruct"
STEP, LENGTHS = 700, 12  # contexts have 1 to LENGTHS times STEP characters


def requests(count: int) -> list[Request]:
    """Make prompts with contexts of different lengths.

    Args:
        count: Number of prompts, at most that of HumanEval's tasks.

    Returns:
        A request for each of the first tasks.
    """
    tasks = load_benchmark("humaneval")
    code = "\n\n".join(task.prompt + task.solution for task in tasks)
    made = []
    for number, task in enumerate(tasks[:count]):
        start = STEP * number
        context = code[start : start + STEP * (1 + number % LENGTHS)]
        text = f"Complete this function:\n\n{task.prompt}\n\nThis code may help:\n\n{context}\n"
        made.append(Request(task.id, text, task.entry_point))
    return made


def generate(model: str, count: int) -> dict[str, Any]:
    """Complete the prompts in this process.

    Args:
        model: Name of a model whose weights are here.
        count: Number of prompts.

    Returns:
        Tokens, seconds, most memory in MB, and a digest of the answers.
    """
    answers: dict[str, list[int]] = {}

    def done(row: backends.Row, text: str, finish: str) -> None:
        answers[row.request.task_id] = list(row.tokens)

    backend = backends.TransformersBackend(fetch(model))
    start = time.perf_counter()
    backend.generate(requests(count), done)
    return {
        "tokens": sum(map(len, answers.values())),
        "seconds": time.perf_counter() - start,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
        "answers": digest(json.dumps(answers, sort_keys=True)),
    }


def measure(model: str, count: int) -> dict[str, Any]:
    """Measure both ways.

    Args:
        model: Name of a model whose weights are here.
        count: Number of prompts.

    Returns:
        The figures of each way, and whether the answers are equal.
    """
    found = {}
    for way in ("kept", "given_back"):
        command = [sys.executable, str(Path(__file__).resolve()), "--way", way]
        command += ["--model", model, "--prompts", str(count)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        found[way] = json.loads(done.stdout)
    kept, given_back = (found[way].pop("answers") for way in ("kept", "given_back"))
    return {
        "model": model,
        "prompts": count,
        "processors": os.cpu_count(),
        **found,
        "equal_answers": kept == given_back,
        "versions": versions(),
    }


def main() -> None:
    """Measure both ways, or one of them in this process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--prompts", type=int, default=84)
    parser.add_argument("--way", choices=["kept", "given_back"], help="measure this way alone")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.way:
        if options.way == "kept":
            backends.return_freed_memory = lambda: None
        print(json.dumps(generate(options.model, options.prompts)))
        return
    text = json.dumps(rounded(measure(options.model, options.prompts), 2), indent=1)
    print(text)
    if options.output:
        options.output.write_text(f"{text}\n")


if __name__ == "__main__":
    main()
