"""Makes bfloat16 models faster on CPUs that have no bfloat16 instructions (AVX2 without AVX-512).

On such a CPU, PyTorch's time for a bfloat16 layer grows with every row: a batch of answers, or a
prompt, costs several times what float32 costs (`tests/benchmarks/bench_linear.py`). Here each linear
layer keeps its weights in float32 instead, multiplies in float32, and rounds its result to bfloat16.
That is what bfloat16 instructions do, which sum in float32 as well. The answers differ only where
the order of a sum tips a tie. oneDNN multiplies, because PyTorch's default library is slower for the
few rows of a batch.
"""

from __future__ import annotations

import logging

import psutil
import torch
from torch import Tensor, nn
from torch.utils.mkldnn import MkldnnLinear

log = logging.getLogger(__name__)

SPARE_MEMORY = 2 * 2**30  # bytes that stay free for the cache of the batch and for other programs


class Float32Linear(nn.Module):
    """A bfloat16 linear layer that multiplies in float32.

    Args:
        layer: The layer to replace; its weights are converted without loss.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.product = MkldnnLinear(_in_float32(layer), torch.float32)

    def forward(self, inputs: Tensor) -> Tensor:
        """Multiply in float32, and round to the type of the inputs.

        Args:
            inputs: Activations [..., features in].

        Returns:
            Activations [..., features out].
        """
        outputs: Tensor = self.product(inputs.float())
        return outputs.to(inputs.dtype)


def _in_float32(layer: nn.Linear) -> nn.Linear:
    """Return a copy of a layer, which is left as it is: it may share its weights with another."""
    copy = nn.Linear(1, 1, bias=False)
    copy.weight = nn.Parameter(layer.weight.detach().float(), requires_grad=False)
    if layer.bias is not None:
        copy.bias = nn.Parameter(layer.bias.detach().float(), requires_grad=False)
    return copy


def has_bfloat16_instructions() -> bool:
    """Tell whether PyTorch multiplies bfloat16 matrices fast on this CPU."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())  # PyTorch has no public name for it


def multiply_in_float32(model: nn.Module) -> bool:
    """Replace the bfloat16 linear layers of a model on the CPU, if this makes it faster.

    The weights take twice their memory afterwards. If there is too little, nothing is replaced.

    Args:
        model: The model; it is changed in place.

    Returns:
        Whether layers were replaced.
    """
    if has_bfloat16_instructions():
        return False
    layers: list[tuple[nn.Module, str, nn.Linear]] = []
    for parent in model.modules():
        for name, child in parent.named_children():
            if type(child) is nn.Linear and child.weight.dtype == torch.bfloat16:
                layers.append((parent, name, child))
    needed = 4 * sum(layer.weight.numel() for _, _, layer in layers)
    if needed + SPARE_MEMORY > psutil.virtual_memory().available:
        log.warning("too little memory for float32 weights; generation is slow on this CPU")
        return False
    replaced = bool(layers)
    while layers:  # popped, so that the memory of a replaced layer is free before the next
        parent, name, layer = layers.pop()
        setattr(parent, name, Float32Linear(layer))
    return replaced
