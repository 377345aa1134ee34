"""Compare the key-value cache of a batch with the `DynamicCache` of transformers.

    python tests/benchmarks/bench_cache.py

Prints the figures of this processor, as processor time of one thread. The cache has the size of that of
Qwen2.5-Coder-0.5B. As in decoding, each step adds one column to every layer, and every few steps a row leaves.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import DynamicCache

if __name__ == "__main__":
    TESTS = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from benchmarks.clock import timed
from pkg_lib.generation.growing_cache import growing_cache, order_without_gaps

LAYERS = 24
HEADS = 2
HEAD_SIZE = 64
STEPS_PER_LEAVING = 8


def _keep_in_dynamic_cache(cache: Any, kept: list[int]) -> None:
    chosen = torch.tensor(kept)
    for layer in cache.layers:
        layer.keys = layer.keys[chosen]
        layer.values = layer.values[chosen]


def _keep_in_growing_cache(cache: Any, kept: list[int]) -> None:
    order = order_without_gaps(kept)
    for layer in cache.layers:
        layer.keep(order, 0)


def decode(
    cache: Any,
    keep: Any,
    rows: int,
    columns: int,
    steps: int,
) -> None:
    """Fill a cache with prompts, then add columns and remove rows as decoding does.

    Args:
        cache: An empty cache.
        keep: Function that removes all rows of a cache except the given ones.
        rows: Number of prompts.
        columns: Tokens of each prompt.
        steps: Number of columns to add.
    """
    prompts = torch.zeros(rows, HEADS, columns, HEAD_SIZE, dtype=torch.bfloat16)
    for layer in range(LAYERS):
        cache.update(prompts, prompts, layer)
    for step in range(1, steps + 1):
        new = torch.zeros(rows, HEADS, 1, HEAD_SIZE, dtype=torch.bfloat16)
        for layer in range(LAYERS):
            cache.update(new, new, layer)
        if step % STEPS_PER_LEAVING == 0:
            rows -= 1
            keep(cache, [0, *range(2, rows + 1)])


def measure(
    rows: int = 48,
    columns: int = 500,
    steps: int = 128,
) -> dict[str, object]:
    """Measure both caches.

    Args:
        rows: Number of answers that are decoded together.
        columns: Tokens of the prompts.
        steps: New tokens.

    Returns:
        Milliseconds of both caches per step. `ratio` is the time of transformers divided by ours.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.inference_mode():
        _, dynamic_s, _ = timed(
            lambda: decode(DynamicCache(), _keep_in_dynamic_cache, rows, columns, steps)
        )
        _, growing_s, _ = timed(
            lambda: decode(growing_cache(), _keep_in_growing_cache, rows, columns, steps)
        )
    torch.set_num_threads(threads)
    return {
        "rows": rows,
        "prompt_tokens": columns,
        "new_tokens": steps,
        "torch": torch.__version__,
        "dynamic_cache_ms": round(1e3 * dynamic_s / steps, 2),
        "growing_cache_ms": round(1e3 * growing_s / steps, 2),
        "ratio": round(dynamic_s / growing_s, 2),
    }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))
