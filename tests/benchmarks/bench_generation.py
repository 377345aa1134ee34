"""Tokens per second of the rolling batch against `model.generate` of the same model, one prompt at a time.

    python tests/benchmarks/bench_generation.py [--prompts 24] [--model NAME] [--slots N]

All else is the same, the backend's stop rule too. `equal_tokens` is the share of completions that agree: in
bfloat16 a batch adds in another order, so a close call may fall the other way; in float32 it is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (1, 2)]

import psutil
import torch

from benchmarks.clock import timed
from pkg_lib.core.models import fetch, is_available, model_spec
from pkg_lib.core.types import Request, UserError
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.generation import backends
from pkg_lib.generation.backends import Row, TransformersBackend
from pkg_lib.generation.prompts import CHAT


def humaneval_requests(count: int) -> list[Request]:
    """The first HumanEval prompts, as column None asks them."""
    return [
        Request(t.id, CHAT.prompt(t.prompt, ""), t.entry_point)
        for t in load_benchmark("humaneval", count)
    ]


def rolling(backend: TransformersBackend, requests: list[Request]) -> dict[str, list[int]]:
    answers: dict[str, list[int]] = {}
    backend.generate(
        requests, lambda row, raw, finish: answers.update({row.request.task_id: row.tokens})
    )
    return answers


def one_by_one(backend: TransformersBackend, requests: list[Request]) -> dict[str, list[int]]:
    """Plain `generate`, one prompt at a time, greedy, stopped where the backend would stop."""
    answers: dict[str, list[int]] = {}
    for request in requests:
        ids = backend.prompt_ids(request)
        length = len(ids)

        def stop(all_ids, scores, request=request, ids=ids, **kwargs):
            finish = backend.finish(Row(request, ids, all_ids[0, len(ids) :].tolist()))
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
        tokens = out[0, length:].tolist()
        answers[request.task_id] = tokens[:-1] if tokens[-1] in backend.ends else tokens
    return answers


def measure(backend: TransformersBackend, requests: list[Request]) -> dict[str, float | int]:
    """`ratio` is the batch's tokens per second over those of single prompts; memory in GB."""
    process = psutil.Process()
    sizes = [process.memory_info().rss]
    backend.model.register_forward_hook(lambda *_: sizes.append(process.memory_info().rss))
    rolling(backend, requests[:2])  # the first call of either is slower
    batch_s, _, batch = timed(lambda: rolling(backend, requests))
    peak = max(sizes)
    single_s, _, single = timed(lambda: one_by_one(backend, requests))
    rates = [
        sum(map(len, tokens.values())) / s for tokens, s in ((batch, batch_s), (single, single_s))
    ]
    return {
        "prompts": len(requests),
        "slots": backend.slots,
        "batch_tokens_per_s": round(rates[0], 2),
        "single_tokens_per_s": round(rates[1], 2),
        "ratio": round(rates[0] / max(rates[1], 1e-9), 2),
        "equal_tokens": round(sum(batch[k] == single[k] for k in single) / len(single), 3),
        "rss_loaded_gb": round(sizes[0] / 1e9, 2),
        "rss_peak_gb": round(peak / 1e9, 2),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="the rolling batch against one prompt at a time")
    parser.add_argument("--prompts", type=int, default=24)
    parser.add_argument("--model", default="qwen2.5-coder-0.5b-instruct")
    parser.add_argument("--slots", type=int, default=24)
    options = parser.parse_args(arguments)
    try:
        if not is_available(model_spec(options.model)):
            raise UserError(f"weights of {options.model} are not here; pkg-lib fetch brings them")
        backend = TransformersBackend(fetch(options.model), slots=options.slots)
        report = measure(backend, humaneval_requests(options.prompts))
    except UserError as e:
        print(e, file=sys.stderr)
        return 2
    print(json.dumps({"model": options.model} | report, indent=1))
    return 0 if report["ratio"] >= 2 and report["rss_peak_gb"] <= 6 else 1


if __name__ == "__main__":
    sys.exit(main())
