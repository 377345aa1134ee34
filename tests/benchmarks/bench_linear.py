"""Compare a bfloat16 linear layer of PyTorch with `Float32Linear`.

    python tests/benchmarks/bench_linear.py

Prints the figures of this processor, as processor time of one thread. The layer has the size of the largest
layer of Qwen2.5-Coder-0.5B.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

if __name__ == "__main__":
    TESTS = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from benchmarks.clock import timed
from pkg_lib.generation.cpu_layers import (
    Float32Linear,
    has_bfloat16_instructions,
)

FEATURES_IN = 896
FEATURES_OUT = 4864
ROWS = (1, 8, 16, 48, 256)  # one answer, batches of answers, a prompt


def milliseconds(
    layer: torch.nn.Module,
    inputs: torch.Tensor,
    repeats: int,
) -> float:
    """Measure the processor time of one call of a layer.

    Args:
        layer: The layer.
        inputs: Its inputs, one row per token.
        repeats: Number of calls.

    Returns:
        Milliseconds per call.
    """
    layer(inputs)  # warm-up

    def call_repeatedly() -> None:
        for _ in range(repeats):
            layer(inputs)

    _, seconds, _ = timed(call_repeatedly)
    return 1e3 * seconds / repeats


def measure(
    rows: tuple[int, ...] = ROWS,
    repeats: int = 30,
) -> dict[str, object]:
    """Measure both layers.

    Args:
        rows: Numbers of rows that are multiplied together.
        repeats: Number of calls per measurement.

    Returns:
        The instructions of the processor, and for each number of rows the milliseconds of both layers.
        `ratio` is the time of PyTorch divided by ours.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    layer = torch.nn.Linear(FEATURES_IN, FEATURES_OUT, bias=False).bfloat16()
    ours = Float32Linear(layer)
    measured = []
    with torch.inference_mode():
        for count in rows:
            inputs = torch.randn(count, FEATURES_IN).bfloat16()
            theirs_ms = milliseconds(layer, inputs, repeats)
            ours_ms = milliseconds(ours, inputs, repeats)
            measured.append(
                {
                    "rows": count,
                    "bfloat16_ms": round(theirs_ms, 2),
                    "float32_ms": round(ours_ms, 2),
                    "ratio": round(theirs_ms / ours_ms, 2),
                }
            )
    torch.set_num_threads(threads)
    return {
        "features": [FEATURES_IN, FEATURES_OUT],
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "has_bfloat16_instructions": has_bfloat16_instructions(),
        "torch": torch.__version__,
        "layers": measured,
    }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))
