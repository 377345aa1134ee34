"""Estimates how fast this machine's CPU generates, without loading a model.

A model spends nearly all of its CPU time in linear layers. The time of one layer, scaled by the number
of parameters, therefore estimates the time of the model. Attention and token selection are ignored.
"""

from __future__ import annotations

import time
from functools import cache

FEATURES_IN, FEATURES_OUT = 896, 4864  # the largest layer of Qwen2.5-Coder-0.5B
PROMPT_ROWS = 256  # tokens of a prompt that are multiplied together
LAYERS = 8  # More than the processor's cache holds: a model's layers are read from memory as well.
SECONDS = 0.4  # for each measurement


@cache
def layer_seconds(rows: int) -> float:
    """Measure one linear layer of the kind that the backend uses on this CPU.

    Args:
        rows: How many rows [rows, FEATURES_IN] it multiplies.

    Returns:
        The seconds of one call.
    """
    import torch  # slow to import, and most dry runs have a stored speed

    from pkg_lib.generation.cpu_layers import multiply_in_float32

    layers = torch.nn.ModuleList()
    for _ in range(LAYERS):
        layers.append(torch.nn.Linear(FEATURES_IN, FEATURES_OUT, bias=False).bfloat16())
    multiply_in_float32(layers)
    inputs = torch.randn(rows, FEATURES_IN).bfloat16()
    calls = 0
    with torch.inference_mode():
        for layer in layers:
            layer(inputs)
        start = time.perf_counter()
        while time.perf_counter() < start + SECONDS:
            layers[calls % LAYERS](inputs)
            calls += 1
    return (time.perf_counter() - start) / calls


def generation_seconds(
    parameters: float,
    slots: int,
    prompt_tokens: float,
    new_tokens: float,
    longest: float = 0.0,
) -> float:
    """Estimate how long a model generates on this CPU.

    A batch takes as many steps as its longest answer has tokens, however few answers are left.

    Args:
        parameters: The number of the model's parameters.
        slots: How many answers are decoded together.
        prompt_tokens: Tokens of all prompts.
        new_tokens: Tokens of all answers.
        longest: Tokens of the longest answer.

    Returns:
        Seconds.
    """
    layers = parameters / (FEATURES_IN * FEATURES_OUT)
    steps = max(new_tokens / slots, longest)
    decoding = steps * layer_seconds(slots)
    reading = prompt_tokens / PROMPT_ROWS * layer_seconds(PROMPT_ROWS)
    return layers * (decoding + reading)
