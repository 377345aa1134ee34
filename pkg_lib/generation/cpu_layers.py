"""Makes bfloat16 models faster on CPUs that have no bfloat16 instructions (AVX2 without AVX-512).

On such a CPU, PyTorch's time for a bfloat16 layer grows with every row: a batch of answers, or a
prompt, costs several times what float32 costs (`tests/benchmarks/bench_linear.py`). Here each linear
layer has its weights in float32 as well. It multiplies in float32 and rounds its result to bfloat16.
That is what bfloat16 instructions do, which sum in float32 as well. The answers differ only where
the order of a sum tips a tie.

A few rows take as long as reading the weights from memory takes. For these, PyTorch's bfloat16 layer
is faster, because its weights have half the size.
"""

from __future__ import annotations

import logging

import psutil
import torch
from torch import Tensor, nn

log = logging.getLogger(__name__)

FEW_ROWS = 3  # up to which the bfloat16 layer is faster
# oneDNN chooses the layout of the weights for this number of rows. Other numbers are fast as well.
EXPECTED_ROWS = 16
SPARE_MEMORY = 2 * 2**30  # bytes that stay free for the cache of the batch and for other programs


class Float32Linear(nn.Module):
    """A bfloat16 linear layer that multiplies more than a few rows in float32.

    Args:
        layer: The layer to replace; its weights are kept, and converted without loss.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        # PyTorch has no public name for weights in a layout of oneDNN.
        self.weight_float32 = torch.ops.mkldnn._reorder_linear_weight(
            layer.weight.detach().float(), EXPECTED_ROWS
        )
        self.bias_float32 = None if layer.bias is None else layer.bias.detach().float()

    def forward(self, inputs: Tensor) -> Tensor:
        """Multiply, and round to the type of the inputs.

        Args:
            inputs: Activations [..., features in].

        Returns:
            Activations [..., features out].
        """
        rows = inputs.numel() // inputs.shape[-1]
        if rows <= FEW_ROWS:
            return nn.functional.linear(inputs, self.weight, self.bias)
        product = torch.ops.mkldnn._linear_pointwise
        outputs: Tensor = product(
            inputs.float(), self.weight_float32, self.bias_float32, "none", [], ""
        )
        return outputs.to(inputs.dtype)


def has_bfloat16_instructions() -> bool:
    """Tell whether PyTorch multiplies bfloat16 matrices fast on this CPU."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())  # PyTorch has no public name for it


def multiply_in_float32(model: nn.Module) -> bool:
    """Replace the bfloat16 linear layers of a model on the CPU, if this makes it faster.

    The weights take three times their memory afterwards. If there is too little, nothing is replaced.

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
    for parent, name, layer in layers:
        setattr(parent, name, Float32Linear(layer))
    return replaced
