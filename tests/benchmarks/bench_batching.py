"""New tokens per second of the rolling batch against transformers' own continuous batching, same model, same prompts.

    python tests/benchmarks/bench_batching.py [--prompts 20] [--new-tokens 128] [--repeat 1] [--output FILE]

Both decode greedily until the end of a turn or so many new tokens; the backend's stop rule, which the other has not,
is off. They take turns, and the fastest of each counts, by the clock and by processor time (beside other work the
second is the fairer). `equal_tokens` is the share of completions that agree token by token.
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

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig

from benchmarks.bench_generation import humaneval_requests, rolling
from benchmarks.clock import rounded, timed
from pkg_lib.core.models import fetch, is_available, model_spec
from pkg_lib.core.store import results_dir, versions, write_json
from pkg_lib.core.types import Request, UserError
from pkg_lib.generation.backends import TransformersBackend


def continuous(backend: TransformersBackend, requests: list[Request]) -> dict[str, list[int]]:
    """`model.generate_batch` on the prompts as the backend writes them, without the end token."""
    ids = [backend.prompt_ids(r) for r in requests]
    ends = sorted(backend.ends)
    settings = GenerationConfig(
        max_new_tokens=backend.max_new_tokens,
        do_sample=False,
        eos_token_id=ends,
        pad_token_id=ends[0],
    )
    # Pages for all prompts and answers: by itself it would take its share of the machine's whole memory.
    longest = max(map(len, ids)) + backend.max_new_tokens
    paging = ContinuousBatchingConfig(num_blocks=len(ids) * (longest // 256 + 1) + 4)
    outputs = backend.model.generate_batch(ids, settings, continuous_batching_config=paging)
    # By the prompts, since its ids of requests are its own.
    texts = {tuple(i): r.task_id for i, r in zip(ids, requests, strict=True)}
    answers = {texts[tuple(o.prompt_ids)]: list(o.generated_tokens) for o in outputs.values()}
    return {
        i: tokens[:-1] if tokens[-1] in backend.ends else tokens for i, tokens in answers.items()
    }


def measure(
    backend: TransformersBackend, requests: list[Request], repeat: int = 1
) -> dict[str, Any]:
    """`ratio`: the rolling batch's new tokens per second over those of `generate_batch`."""
    times: dict[str, list[tuple[float, float]]] = {"rolling": [], "continuous": []}
    answers: dict[str, dict[str, list[int]]] = {}
    ways = {"rolling": rolling, "continuous": continuous}
    for way in ways.values():
        way(backend, requests[:2])  # the first call of either is slower
    for _ in range(repeat):
        for name, way in ways.items():
            wall, processor, answers[name] = timed(lambda way=way: way(backend, requests))
            times[name].append((wall, processor))
    counts = {name: sum(map(len, of.values())) for name, of in answers.items()}
    figures: dict[str, float] = {}
    for name, of in times.items():
        for unit, seconds in zip(("s", "cpu_s"), map(min, zip(*of, strict=True)), strict=True):
            figures[f"{name}_tokens_per_{unit}"] = counts[name] / seconds
    figures["ratio"] = figures["rolling_tokens_per_s"] / figures["continuous_tokens_per_s"]
    figures["ratio_cpu"] = (
        figures["rolling_tokens_per_cpu_s"] / figures["continuous_tokens_per_cpu_s"]
    )
    same = [answers["rolling"][i] == tokens for i, tokens in answers["continuous"].items()]
    figures["equal_tokens"] = sum(same) / len(requests)
    about = {
        "prompts": len(requests),
        "new_tokens_at_most": backend.max_new_tokens,
        "repeat": repeat,
    }
    return about | {"tokens": counts, "slots": backend.slots} | rounded(figures, 3)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="the rolling batch against transformers' continuous batching"
    )
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--new-tokens", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--model", default="qwen2.5-coder-0.5b-instruct")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(words)
    try:
        if not is_available(model_spec(options.model)):
            raise UserError(f"weights of {options.model} are not here; pkg-lib fetch brings them")
        longest = {"stop": lambda text: False, "max_new_tokens": options.new_tokens}
        backend = TransformersBackend(fetch(options.model), slots=options.prompts, **longest)
        figures = measure(backend, humaneval_requests(options.prompts), options.repeat)
    except UserError as e:
        print(e, file=sys.stderr)
        return 2
    machine = {
        "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "threads": torch.get_num_threads(),
    }
    figures = {"model": options.model} | figures | machine | {"versions": versions()}
    print(json.dumps(figures, indent=1))
    write_json(options.output or results_dir() / "benchmarks" / "batching.json", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
