"""Compare the rolling batch with `model.generate` on one prompt at a time, in tokens per second.

    python tests/benchmarks/bench_generation.py [--prompts 24] [--model NAME] [--slots N]

Everything else is the same, including the backend's stop rule. `equal_tokens` is the share of completions that
agree in every token. In bfloat16, a batch sums in another order, so a near tie may fall the other way. In
float32, the share is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

if __name__ == "__main__":
    TESTS = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]

import psutil
import torch

from benchmarks.clock import timed
from pkg_lib.core.models import fetch, is_available, model_spec
from pkg_lib.core.types import Request, UserError
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.generation import backends
from pkg_lib.generation.backends import Row, TransformersBackend
from pkg_lib.generation.prompts import CHAT

RATIO_GOAL = 2
MEMORY_GOAL_GB = 6


def humaneval_requests(count: int) -> list[Request]:
    """Return the first `count` HumanEval prompts, as the method NoRAG writes them."""
    return [
        Request(task.id, CHAT.prompt(task.prompt, ""), task.entry_point)
        for task in load_benchmark("humaneval", count)
    ]


def rolling(
    backend: TransformersBackend,
    requests: list[Request],
) -> dict[str, list[int]]:
    """Generate with the rolling batch of the backend.

    Args:
        backend: The loaded model.
        requests: The prompts.

    Returns:
        The new tokens of each task.
    """
    answers: dict[str, list[int]] = {}

    def done(row: Row, raw: str, finish: str) -> None:
        answers[row.request.task_id] = row.tokens

    backend.generate(requests, done)
    return answers


def one_by_one(
    backend: TransformersBackend,
    requests: list[Request],
) -> dict[str, list[int]]:
    """Generate greedily with `model.generate`, one prompt at a time, with the backend's stop rule.

    Args:
        backend: The loaded model. It also encodes the prompts.
        requests: The prompts.

    Returns:
        The new tokens of each task, without the end token.
    """
    answers: dict[str, list[int]] = {}
    for request in requests:
        ids = backend.prompt_ids(request)

        def stop(all_ids, scores, request=request, ids=ids, **kwargs):
            new_tokens = all_ids[0, len(ids) :].tolist()
            finish = backend.finish(Row(request, ids, new_tokens))
            return torch.tensor([bool(finish)], device=all_ids.device)

        out = backend.model.generate(
            torch.tensor([ids], device=backend.device),
            max_new_tokens=backends.MAX_NEW_TOKENS,
            do_sample=False,
            repetition_penalty=1.0,
            eos_token_id=sorted(backend.ends),
            pad_token_id=min(backend.ends),
            stopping_criteria=[stop],
        )
        tokens = out[0, len(ids) :].tolist()
        if tokens[-1] in backend.ends:
            tokens.pop()
        answers[request.task_id] = tokens
    return answers


def tokens_per_second(
    answers: dict[str, list[int]],
    seconds: float,
) -> float:
    """Return the rate at which the tokens of all answers were generated."""
    return sum(len(tokens) for tokens in answers.values()) / seconds


def measure(
    backend: TransformersBackend,
    requests: list[Request],
) -> dict[str, float | int]:
    """Measure both methods on the same prompts.

    Args:
        backend: The loaded model.
        requests: The prompts.

    Returns:
        The rates of both methods, and resident memory in GB. `ratio` is the rate of the batch divided by the
        rate of single prompts.
    """
    process = psutil.Process()
    loaded = process.memory_info().rss
    sizes = [loaded]

    def record_memory(*_: object) -> None:
        sizes.append(process.memory_info().rss)

    backend.model.register_forward_hook(record_memory)
    rolling(backend, requests[:2])  # the first call of each method is slower
    batch_s, _, batch = timed(lambda: rolling(backend, requests))
    peak = max(sizes)
    single_s, _, single = timed(lambda: one_by_one(backend, requests))
    batch_rate = tokens_per_second(batch, batch_s)
    single_rate = tokens_per_second(single, single_s)
    equal = sum(batch[task_id] == single[task_id] for task_id in single)
    return {
        "prompts": len(requests),
        "slots": backend.slots,
        "batch_tokens_per_s": round(batch_rate, 2),
        "single_tokens_per_s": round(single_rate, 2),
        "ratio": round(batch_rate / max(single_rate, 1e-9), 2),
        "equal_tokens": round(equal / len(single), 3),
        "rss_loaded_gb": round(loaded / 1e9, 2),
        "rss_peak_gb": round(peak / 1e9, 2),
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark from the command line.

    Args:
        arguments: Command-line arguments; by default those of the process.

    Returns:
        The exit status: 0 if rate and memory meet the goals, 1 if not, 2 for a user's mistake.
    """
    parser = argparse.ArgumentParser(description="the rolling batch against one prompt at a time")
    parser.add_argument("--prompts", type=int, default=24)
    parser.add_argument("--model", default="qwen2.5-coder-0.5b-instruct")
    parser.add_argument("--slots", type=int, default=24)
    options = parser.parse_args(arguments)
    try:
        if not is_available(model_spec(options.model)):
            raise UserError(
                f"the weights of {options.model} are not installed; download them with pkg-lib fetch"
            )
        backend = TransformersBackend(fetch(options.model), slots=options.slots)
        report = measure(backend, humaneval_requests(options.prompts))
    except UserError as e:
        print(e, file=sys.stderr)
        return 2
    print(json.dumps({"model": options.model, **report}, indent=1))
    fast = report["ratio"] >= RATIO_GOAL
    small = report["rss_peak_gb"] <= MEMORY_GOAL_GB
    return 0 if fast and small else 1


if __name__ == "__main__":
    sys.exit(main())
