"""Compare the rolling batch with the continuous batching of transformers, in new tokens per second.

    python tests/benchmarks/bench_batching.py [--prompts 20] [--new-tokens 128] [--repeat 1] [--output FILE]

Both methods run the same model on the same prompts. They decode greedily until the end of the turn or until
--new-tokens tokens. The backend's stop rule is off because `generate_batch` has no such rule. The two methods
alternate, and the fastest repetition of each counts. Times are wall times and processor times. Processor time is
the fairer measure when other jobs run on the machine. `equal_tokens` is the share of completions that agree in
every token.
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

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig

from benchmarks.bench_generation import humaneval_requests, rolling
from benchmarks.clock import rounded, timed
from pkg_lib.core.models import fetch, is_available, model_spec
from pkg_lib.core.store import results_dir, versions, write_json
from pkg_lib.core.types import Request, UserError
from pkg_lib.generation.backends import TransformersBackend

TOKENS_PER_PAGE = 256
SPARE_PAGES = 4


def continuous(
    backend: TransformersBackend,
    requests: list[Request],
) -> dict[str, list[int]]:
    """Generate with `model.generate_batch` of transformers.

    Args:
        backend: The loaded model. It also encodes the prompts.
        requests: The prompts.

    Returns:
        The new tokens of each task, without the end token.
    """
    prompts = [backend.prompt_ids(request) for request in requests]
    ends = sorted(backend.ends)
    settings = GenerationConfig(
        max_new_tokens=backend.max_new_tokens,
        do_sample=False,
        eos_token_id=ends,
        pad_token_id=ends[0],
    )
    # By default, transformers reserves pages in proportion to the whole memory of the machine.
    longest = max(len(prompt) for prompt in prompts) + backend.max_new_tokens
    pages_per_prompt = longest // TOKENS_PER_PAGE + 1
    paging = ContinuousBatchingConfig(num_blocks=len(prompts) * pages_per_prompt + SPARE_PAGES)
    outputs = backend.model.generate_batch(prompts, settings, continuous_batching_config=paging)

    # `generate_batch` assigns its own request ids, so the prompts identify the tasks.
    task_ids = {}
    for prompt, request in zip(prompts, requests, strict=True):
        task_ids[tuple(prompt)] = request.task_id
    answers = {}
    for output in outputs.values():
        tokens = list(output.generated_tokens)
        if tokens[-1] in backend.ends:
            tokens.pop()
        answers[task_ids[tuple(output.prompt_ids)]] = tokens
    return answers


def measure(
    backend: TransformersBackend, requests: list[Request], repeat: int = 1
) -> dict[str, Any]:
    """Measure both methods on the same prompts.

    Args:
        backend: The loaded model.
        requests: The prompts.
        repeat: Number of repetitions.

    Returns:
        The figures of both methods. `ratio` is the rate of the rolling batch divided by the rate of
        `generate_batch`.
    """
    methods = {"rolling": rolling, "continuous": continuous}
    for method in methods.values():
        method(backend, requests[:2])  # the first call of each method is slower
    wall_s: dict[str, list[float]] = {"rolling": [], "continuous": []}
    cpu_s: dict[str, list[float]] = {"rolling": [], "continuous": []}
    answers: dict[str, dict[str, list[int]]] = {}
    for _ in range(repeat):
        for name, method in methods.items():
            wall, cpu, answers[name] = timed(lambda method=method: method(backend, requests))
            wall_s[name].append(wall)
            cpu_s[name].append(cpu)

    counts = {}
    figures: dict[str, float] = {}
    for name in methods:
        counts[name] = sum(len(tokens) for tokens in answers[name].values())
        figures[f"{name}_tokens_per_s"] = counts[name] / min(wall_s[name])
        figures[f"{name}_tokens_per_cpu_s"] = counts[name] / min(cpu_s[name])
    figures["ratio"] = figures["rolling_tokens_per_s"] / figures["continuous_tokens_per_s"]
    figures["ratio_cpu"] = (
        figures["rolling_tokens_per_cpu_s"] / figures["continuous_tokens_per_cpu_s"]
    )
    equal = 0
    for task_id, tokens in answers["continuous"].items():
        equal += answers["rolling"][task_id] == tokens
    figures["equal_tokens"] = equal / len(requests)
    return {
        "prompts": len(requests),
        "new_tokens_at_most": backend.max_new_tokens,
        "repeat": repeat,
        "tokens": counts,
        "slots": backend.slots,
        **rounded(figures, 3),
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark from the command line.

    Args:
        arguments: Command-line arguments; by default those of the process.

    Returns:
        The exit status: 0, or 2 for a user's mistake.
    """
    parser = argparse.ArgumentParser(
        description="the rolling batch against transformers' continuous batching"
    )
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--new-tokens", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--model", default="qwen2.5-coder-0.5b-instruct")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    try:
        if not is_available(model_spec(options.model)):
            raise UserError(
                f"the weights of {options.model} are not installed; download them with pkg-lib fetch"
            )
        backend = TransformersBackend(
            fetch(options.model),
            slots=options.prompts,
            stop=lambda text: False,
            max_new_tokens=options.new_tokens,
        )
        measured = measure(backend, humaneval_requests(options.prompts), options.repeat)
    except UserError as e:
        print(e, file=sys.stderr)
        return 2
    figures = {
        "model": options.model,
        **measured,
        "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "threads": torch.get_num_threads(),
        "versions": versions(),
    }
    print(json.dumps(figures, indent=1))
    output = options.output or results_dir() / "benchmarks" / "batching.json"
    write_json(output, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
