"""A key-value cache of a batch that grows by one column per token without being copied each time.

transformers' `DynamicCache` copies all columns of every layer for every token, and a row that leaves copies
all others. On a CPU, this takes a large part of the time if contexts are long.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers.cache_utils import Cache, DynamicLayer

ROOM = 64  # columns that are allocated ahead


class _Columns:
    """Keys or values of one layer, in a buffer with room on the right.

    Attributes:
        buffer: Shape [rows or more, heads, columns or more, size]; what is not shown is free.
        rows: Number of rows that are shown.
        start: The first column that is shown.
        end: The column after the last one that is shown.
    """

    def __init__(self, shown: Tensor) -> None:
        self.buffer = shown
        self.rows = shown.shape[0]
        self.start = 0
        self.end = shown.shape[2]

    @property
    def shown(self) -> Tensor:
        """The keys or values, of shape [rows, heads, columns, size]."""
        return self.buffer[: self.rows, :, self.start : self.end]

    def append(self, new: Tensor) -> None:
        """Add columns on the right; all are copied only if there is no room left.

        Args:
            new: Shape [rows, heads, new columns, size].
        """
        count = new.shape[2]
        if self.end + count > self.buffer.shape[2]:
            old = self.shown
            rows, heads, columns, size = old.shape
            self.buffer = old.new_empty(rows, heads, columns + count + ROOM, size)
            self.buffer[:, :, :columns] = old
            self.start, self.end = 0, columns
        self.buffer[: self.rows, :, self.end : self.end + count] = new
        self.end += count

    def keep(self, order: Sequence[int], start: int) -> None:
        """Keep some rows, and drop columns on the left.

        Args:
            order: Row -> the old row that it becomes. A row never comes from one that was overwritten
                before.
            start: Number of columns that are dropped.
        """
        shown = self.shown
        for row, old in enumerate(order):
            if row != old:
                shown[row] = shown[old]
        self.rows = len(order)
        self.start += start


class GrowingLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """The keys and values of one layer, which grow in place.

    Of transformers' operations, only `update` and `batch_select_indices` are supported.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self._columns: list[_Columns] = []  # of keys and of values

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **options: Any
    ) -> tuple[Tensor, Tensor]:
        """Append the keys and values of new columns.

        Args:
            key_states: Shape [rows, heads, new columns, size].
            value_states: Likewise.
            *args: Not used.
            **options: Not used.

        Returns:
            The keys and values of all columns.
        """
        if not self._columns:
            self.dtype, self.device = key_states.dtype, key_states.device
            self.is_initialized = True
            self._columns = [_Columns(key_states), _Columns(value_states)]
        else:
            for columns, new in zip(self._columns, (key_states, value_states), strict=True):
                columns.append(new)
        self._show()
        keys, values = self._columns
        return keys.shown, values.shown

    def keep(self, order: Sequence[int], start: int) -> None:
        """Keep some rows, and drop columns on the left; see `_Columns.keep`.

        Args:
            order: Row -> the old row that it becomes.
            start: Number of columns that are dropped.
        """
        for columns in self._columns:
            columns.keep(order, start)
        self._show()

    def batch_select_indices(self, indices: Tensor) -> None:
        """Replace the rows by some of them, each as often as it is named.

        Args:
            indices: Numbers of rows.
        """
        selected = []
        for columns in self._columns:
            rows = columns.shown[indices]
            selected.append(_Columns(rows))
        self._columns = selected
        self._show()

    def _show(self) -> None:
        keys, values = self._columns
        self.keys = keys.shown
        self.values = values.shown


def growing_cache() -> Cache:
    """Return an empty cache.

    It is made without the model's configuration. Layers for sliding windows would count the tokens they saw,
    and rows that leave would make that count wrong. The attention mask limits the window nevertheless.
    """
    return Cache(layer_class_to_replicate=GrowingLayer)


def order_without_gaps(kept: Sequence[int]) -> list[int]:
    """Choose the places of the rows that stay so that few of them move.

    Args:
        kept: Numbers of the rows that stay, ascending.

    Returns:
        Row -> the old row that it becomes. A row keeps its number if it is small enough; the others fill the
        gaps.
    """
    staying = set(kept)
    moving = [row for row in kept if row >= len(kept)]
    order = []
    for row in range(len(kept)):
        if row in staying:
            order.append(row)
        else:
            order.append(moving.pop())
    return order


def joined(first: Any, second: Any, width: int) -> Cache:
    """Join the rows of two caches, padded on the left to a number of columns.

    Args:
        first: A cache of `growing_cache`. It is emptied layer by layer, so that at no time all keys
            and values are in memory twice.
        second: Another one of the same model; it is emptied as well.
        width: Number of columns.

    Returns:
        A new cache: the rows of the first, then those of the second.
    """
    both = growing_cache()
    for number, layer in enumerate(first.layers):
        other = second.layers[number]
        keys = _stacked(layer.keys, other.keys, width)
        values = _stacked(layer.values, other.values, width)
        both.update(keys, values, number)
        first.layers[number] = second.layers[number] = None
    return both


def return_freed_memory() -> None:
    """Give the memory of freed tensors back to the operating system, where the C library is glibc.

    Keys and values of changing sizes leave gaps between them, which glibc keeps: up to three times as
    much as is in use.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def _stacked(first: Tensor, second: Tensor, width: int) -> Tensor:
    """Join keys or values [rows, heads, columns, size], padded on the left to ``width`` columns."""
    padded = []
    for tensor in (first, second):
        missing = width - tensor.shape[2]
        padded.append(pad(tensor, (0, 0, missing, 0)))
    return torch.cat(padded)
