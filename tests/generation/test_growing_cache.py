"""Test that the growing cache has the keys and values that copying all tensors would give."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys

import pytest
import torch
from torch.nn.functional import pad

from pkg_lib.core.store import ROOT
from pkg_lib.generation.growing_cache import (
    ROOM,
    GrowingLayer,
    growing_cache,
    joined,
    order_without_gaps,
)

HEADS, SIZE = 2, 4


def new_columns(rows: int, columns: int) -> torch.Tensor:
    return torch.randn(rows, HEADS, columns, SIZE)


def test_matches_plain_tensors_after_any_steps():
    chance = random.Random(0)
    torch.manual_seed(0)
    layer = GrowingLayer()
    expected = new_columns(6, 5)
    layer.update(expected, expected + 1)
    for _ in range(3 * ROOM):
        if expected.shape[0] > 1 and chance.random() < 0.05:
            kept = sorted(chance.sample(range(expected.shape[0]), expected.shape[0] - 1))
            order = order_without_gaps(kept)
            start = chance.randrange(2)
            layer.keep(order, start)
            expected = expected[order][:, :, start:]
        new = new_columns(expected.shape[0], 1)
        expected = torch.cat([expected, new], dim=2)
        keys, values = layer.update(new, new + 1)
        assert torch.equal(keys, expected) and torch.equal(values, expected + 1)
    assert expected.shape[0] == 1 and layer.get_seq_length() == expected.shape[2]


def test_most_tokens_are_added_without_a_copy_of_the_others():
    layer = GrowingLayer()
    layer.update(new_columns(3, 10), new_columns(3, 10))
    places = set()
    for _ in range(2 * ROOM):
        keys, _ = layer.update(new_columns(3, 1), new_columns(3, 1))
        places.add(keys.data_ptr())
    assert len(places) <= 3


def test_remaining_rows_fill_the_gaps():
    assert order_without_gaps([0, 1, 2]) == [0, 1, 2]
    assert order_without_gaps([0, 2, 3, 5]) == [0, 5, 2, 3]
    assert order_without_gaps([4, 5]) == [5, 4]
    assert order_without_gaps([]) == []


def test_joined_caches_are_padded_on_the_left():
    first, second = growing_cache(), growing_cache()
    long, short = new_columns(2, 7), new_columns(1, 3)
    first.update(long, long, 0)
    second.update(short, short, 0)
    both = joined(first, second, 7)
    assert not any([*first.layers, *second.layers]), "keys and values are in memory twice"
    assert torch.equal(both.layers[0].keys, torch.cat([long, pad(short, (0, 0, 4, 0))]))


def test_each_sample_of_a_prompt_gets_a_copy_of_its_row():
    layer = GrowingLayer()
    rows = new_columns(2, 3)
    layer.update(rows, rows)
    layer.batch_select_indices(torch.tensor([1, 1, 0]))
    assert torch.equal(layer.keys, rows[[1, 1, 0]])


# Run in a process of its own, whose heap has no gaps yet.
FREED = """
import resource, torch
from pathlib import Path
from pkg_lib.generation.growing_cache import return_freed_memory

def resident_mb():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20

staying, leaving = [], []
for _ in range(1600):
    leaving.append(torch.ones(2**14))  # 64 KB
    staying.append(torch.ones(2**8))
before = resident_mb()
leaving.clear()
kept = before - resident_mb()
return_freed_memory()
print(kept, before - resident_mb())
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc")
def test_memory_between_tensors_that_stay_is_given_back():
    """Freed memory below a piece that stays is not given back by itself."""
    command = [sys.executable, "-c", FREED]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    given_back, after = map(float, done.stdout.split())
    assert given_back < 50
    assert after > 80
