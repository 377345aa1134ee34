"""How many prompts a GPU decodes together, from its memory, the weights and the cache per token.

The same figures give a rough estimate of the time. For a model of 0.5 billion parameters on an H100 it
was too low by a factor of seven (`docs/gpu.md`); for larger models it was not compared.
"""

from dataclasses import dataclass
from typing import Any

BYTES = 2  # of a number in bfloat16 or float16
RESERVE = 0.10  # of the memory, for activations, logits and fragmentation
# New rows are copied into one cache with the others. During that time the cache exists twice.
COPIES = 2
MOST = 256  # more rows than this add little speed and much padding
CPU_SLOTS = 48
GPU_SIZES = (24, 40, 80)  # GB of common GPUs
A100_BANDWIDTH = {
    40: 1555e9,
    80: 2039e9,
}  # bytes a second by GB of memory, from NVIDIA's data sheet
LAYER_SECONDS = 0.001  # assumed time to start the operations of one layer, whatever the batch


@dataclass(frozen=True, slots=True)
class CacheShape:
    """The dimensions of a model that determine the size of its key-value cache.

    Attributes:
        layers: Number of layers.
        heads: Number of key-value heads in a layer.
        width: Numbers in a head.
    """

    layers: int
    heads: int
    width: int

    @classmethod
    def of(cls, config: Any) -> "CacheShape":
        """Read the shape from a configuration of transformers.

        Args:
            config: The model's configuration.

        Returns:
            The shape of its cache.
        """
        attention_heads = config.num_attention_heads
        heads = getattr(config, "num_key_value_heads", None) or attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // attention_heads
        return cls(config.num_hidden_layers, heads, width)

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one token of one row takes: a key and a value in each head of each layer."""
        return 2 * self.layers * self.heads * self.width * BYTES


def slots_for(
    shape: CacheShape,
    free_bytes: int,
    weight_bytes: int,
    tokens_per_row: int,
    most: int = MOST,
) -> int:
    """Compute how many rows fit beside the weights.

    Args:
        shape: The shape of the model's cache.
        free_bytes: Free memory of the GPU before the weights are loaded.
        weight_bytes: Size of the weights; 0 if they are loaded already.
        tokens_per_row: The longest prompt and the most new tokens.
        most: The largest result.

    Returns:
        Rows that are decoded together, from 1 to `most`. If not even one fits, the result is 1, and
        loading or decoding reports the lack of memory itself.
    """
    usable = free_bytes * (1 - RESERVE) - weight_bytes
    per_row = COPIES * shape.bytes_per_token * tokens_per_row
    return max(1, min(most, int(usable // per_row)))


def fits(free_bytes: int, weight_bytes: int) -> bool:
    """Return whether the weights leave any memory for a batch.

    Args:
        free_bytes: Free memory of the GPU before the weights are loaded.
        weight_bytes: Size of the weights.

    Returns:
        False if already the weights need more than the usable memory.
    """
    return free_bytes * (1 - RESERVE) > weight_bytes


def decoding_seconds(
    shape: CacheShape,
    weight_bytes: int,
    slots: int,
    tokens_per_row: int,
    new_tokens: int,
    bandwidth: float,
) -> float:
    """Estimate how long a GPU decodes.

    Each step reads the weights and the cache of the whole batch from memory and starts every layer.
    Reading the prompts is not counted.

    Args:
        shape: The shape of the model's cache.
        weight_bytes: Size of the weights.
        slots: Rows that are decoded together.
        tokens_per_row: The longest prompt and the most new tokens. The estimate is therefore high.
        new_tokens: Tokens to decode in all rows together.
        bandwidth: Bytes that the GPU reads from its memory in a second.

    Returns:
        Seconds.
    """
    bytes_per_step = weight_bytes + slots * tokens_per_row * shape.bytes_per_token
    seconds_per_step = bytes_per_step / bandwidth + shape.layers * LAYER_SECONDS
    return new_tokens / slots * seconds_per_step
