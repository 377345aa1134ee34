"""Test the batch size of the paper's models on GPUs of 24, 40 and 80 GB, and the behaviour without memory."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import pytest
import torch

from pkg_lib.core.models import model_spec
from pkg_lib.core.types import Request, UserError
from pkg_lib.generation.backends import Row, TransformersBackend, _Batch
from pkg_lib.generation.batch_size import (
    LAYER_SECONDS,
    MOST,
    CacheShape,
    decoding_seconds,
    fits,
    slots_for,
)

GB = 10**9
TOKENS = 1536  # a prompt of 1,024 tokens and 512 new ones

# From the models' configurations on the hub. Parameters are in billions, from the sizes of the weights.
CONFIGS = {
    "codellama-7b-instruct": (
        6.74,
        {"layers": 32, "attention": 32, "key_value": 32, "hidden": 4096},
    ),
    "codellama-13b-instruct": (
        13.02,
        {"layers": 40, "attention": 40, "key_value": 40, "hidden": 5120},
    ),
    "llama-3.1-8b-instruct": (
        8.03,
        {"layers": 32, "attention": 32, "key_value": 8, "hidden": 4096},
    ),
    "starcoder2-7b-instruct": (
        7.17,
        {"layers": 32, "attention": 36, "key_value": 4, "hidden": 4608},
    ),
    "deepseek-coder-7b-instruct": (
        6.91,
        {"layers": 30, "attention": 32, "key_value": 32, "hidden": 4096},
    ),
}
# Bytes of the cache per token, calculated by hand: 2 x layers x key-value heads x 128 x 2 bytes
PER_TOKEN = {
    "codellama-7b-instruct": 524_288,
    "codellama-13b-instruct": 819_200,
    "llama-3.1-8b-instruct": 131_072,
    "starcoder2-7b-instruct": 65_536,
    "deepseek-coder-7b-instruct": 491_520,
}
# Rows at 24, 40 and 80 GB: (0.9 x memory - weights) / (2 x bytes per token x 1,536), at most 256
SLOTS = {
    "codellama-7b-instruct": (5, 13, 36),
    "codellama-13b-instruct": (1, 3, 18),
    "llama-3.1-8b-instruct": (13, 49, 138),
    "starcoder2-7b-instruct": (36, 107, 256),
    "deepseek-coder-7b-instruct": (5, 14, 38),
}


def shape_of(model: str) -> CacheShape:
    config = CONFIGS[model][1]
    names = {"layers": "num_hidden_layers", "attention": "num_attention_heads"}
    names |= {"key_value": "num_key_value_heads", "hidden": "hidden_size"}
    return CacheShape.of(SimpleNamespace(**{names[key]: value for key, value in config.items()}))


@pytest.mark.parametrize("model", CONFIGS)
def test_cache_bytes_per_token(model):
    assert shape_of(model).bytes_per_token == PER_TOKEN[model]


@pytest.mark.parametrize("model", CONFIGS)
def test_batch_size_by_memory(model):
    weights = round(CONFIGS[model][0] * 2 * GB)
    found = tuple(
        slots_for(shape_of(model), memory * GB, weights, TOKENS) for memory in (24, 40, 80)
    )
    assert found == SLOTS[model]


@pytest.mark.parametrize("model", CONFIGS)
def test_listed_models_have_the_sizes_of_their_configurations(model):
    """The list determines the batch size before anything is downloaded."""
    spec = model_spec(model)
    assert CacheShape(**spec.cache) == shape_of(model) and spec.params_b == CONFIGS[model][0]


def test_reports_if_the_weights_leave_memory_for_a_batch():
    weights = round(CONFIGS["codellama-13b-instruct"][0] * 2 * GB)
    assert [fits(memory * GB, weights) for memory in (24, 28, 40, 80)] == [False, False, True, True]


def test_estimated_time_matches_a_manual_calculation():
    """Two layers of 4 heads of 16 numbers take 512 bytes per token. 1,000 tokens in 10 rows take 100 steps."""
    shape = CacheShape(2, 4, 16)
    assert shape.bytes_per_token == 512
    by_memory = 100 * (1e6 + 10 * 50 * 512) / 1e9
    starting = 100 * 2 * LAYER_SECONDS
    assert decoding_seconds(shape, 10**6, 10, 50, 1000, 1e9) == pytest.approx(by_memory + starting)


def test_without_grouped_heads_every_attention_head_counts():
    config = SimpleNamespace(num_hidden_layers=2, num_attention_heads=4, hidden_size=64)
    assert CacheShape.of(config) == CacheShape(2, 4, 16)


@pytest.mark.parametrize(("free", "rows"), [(0, 1), (10**15, MOST)])
def test_the_batch_size_stays_between_one_and_the_maximum(free, rows):
    assert slots_for(CacheShape(32, 8, 128), free, 0, TOKENS) == rows


def completions(backend: TransformersBackend) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}

    def done(row: Row, raw: str, finish: str) -> None:
        assert row.request.task_id not in found
        found[row.request.task_id] = row.tokens

    backend.generate([Request(str(i), "def f" * (1 + i % 3), "f") for i in range(9)], done)
    return found


class SmallMemory:
    """A model that runs out of memory if a batch has more than `most` rows."""

    def __init__(self, model, most: int, error: RuntimeError | None = None) -> None:
        self.model, self.config, self.most, self.refused = model, model.config, most, 0
        self.error = error or torch.OutOfMemoryError("out of memory")

    def __call__(self, input_ids, **options):
        if len(input_ids) > self.most:
            self.refused += 1
            raise type(self.error)(*self.error.args)
        return self.model(input_ids=input_ids, **options)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_halves_the_batch_when_memory_runs_out_and_gives_the_same_answers(tiny_model, most):
    backend = TransformersBackend(tiny_model, slots=8, dtype=torch.float32, max_new_tokens=12)
    expected = completions(backend)
    backend.model = SmallMemory(backend.model, most)
    assert completions(backend) == expected
    assert backend.model.refused


def test_a_prompt_that_does_not_fit_is_a_one_line_error(tiny_model):
    backend = TransformersBackend(tiny_model, slots=4, dtype=torch.float32, max_new_tokens=12)
    backend.model = SmallMemory(backend.model, 0)
    with pytest.raises(UserError, match="memory"):
        completions(backend)


def small_backend(tiny_model, most: int, error: RuntimeError | None = None) -> TransformersBackend:
    backend = TransformersBackend(tiny_model, slots=8, dtype=torch.float32, max_new_tokens=12)
    backend.model = SmallMemory(backend.model, most, error)
    return backend


def test_the_next_call_keeps_a_halved_batch_size(tiny_model):
    backend = small_backend(tiny_model, 2)
    first = completions(backend)
    refused = backend.model.refused
    assert refused and completions(backend) == first
    assert backend.model.refused == refused


@pytest.mark.parametrize(
    "words",
    [
        "CUDA error: out of memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    ],
)
def test_other_errors_that_mean_lack_of_memory(tiny_model, words):
    assert len(completions(small_backend(tiny_model, 2, RuntimeError(words)))) == 9


def test_raises_errors_that_do_not_mean_lack_of_memory(tiny_model):
    with pytest.raises(RuntimeError, match="device-side assert"):
        completions(small_backend(tiny_model, 2, RuntimeError("device-side assert")))


def test_frees_the_old_batch_before_emptying_the_cache(tiny_model, monkeypatch):
    """The traceback of the error would otherwise keep the key-value cache of the batch alive."""
    backend = small_backend(tiny_model, 2)
    caches = []
    forward = _Batch._forward

    def watched(self, ids, mask, positions, cache):
        caches.append(weakref.ref(cache))
        return forward(self, ids, mask, positions, cache)

    alive = []
    collect = gc.collect

    def collected():
        collect()
        alive.append(sum(reference() is not None for reference in caches))

    monkeypatch.setattr(_Batch, "_forward", watched)
    monkeypatch.setattr("pkg_lib.generation.backends.gc.collect", collected)
    completions(backend)
    assert backend.model.refused and len(alive) > 1 and not any(alive)


def test_memory_cached_by_pytorch_counts_as_free(tiny_model, monkeypatch):
    """CodeLlama-7B on 40 GB has 13 rows at the first call, and the same number when 22 GB are cached."""
    backend = TransformersBackend(tiny_model, dtype=torch.float32)
    backend.device = SimpleNamespace(type="cuda")
    names = {"num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096}
    backend.model = SimpleNamespace(config=SimpleNamespace(**names))
    weights = round(6.74 * 2 * GB)
    usable = round(0.9 * 40 * GB) - weights
    row = Row(Request("1", "x", "f"), [0] * (TOKENS - backend.max_new_tokens))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    found = []
    for cached in (0, 22 * GB):
        free = round(usable / 0.9) - cached
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda gpu, free=free: (free, 40 * GB))
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda gpu: weights)
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda gpu, c=cached: weights + c)
        found.append(backend._slots([row]))
    assert found == [13, 13]
