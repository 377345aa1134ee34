"""Test linear layers that multiply in float32 on CPUs without bfloat16 instructions."""

from __future__ import annotations

import psutil
import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM

from pkg_lib.generation import cpu_layers
from pkg_lib.generation.cpu_layers import Float32Linear, multiply_in_float32


@pytest.fixture
def without_bfloat16(monkeypatch):
    monkeypatch.setattr(cpu_layers, "has_bfloat16_instructions", lambda: False)


@pytest.mark.parametrize("rows", [(1, 1), (3, 5)], ids=["few", "many"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_rounds_the_float32_product_once(bias, rows):
    torch.manual_seed(0)
    layer = nn.Linear(64, 48, bias=bias).bfloat16()
    inputs = torch.randn(*rows, 64).bfloat16()
    outputs = Float32Linear(layer)(inputs)
    exact = nn.functional.linear(
        inputs.double(), layer.weight.double(), layer.bias.double() if bias else None
    )
    assert outputs.dtype == torch.bfloat16
    assert torch.equal(outputs, exact.bfloat16())


def test_all_linear_layers_of_a_model_are_replaced(tiny_model, without_bfloat16):
    model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.bfloat16).eval()
    ids = torch.tensor([[1, 2, 3, 4]])
    with torch.inference_mode():
        before = model(ids).logits
        assert multiply_in_float32(model)
        after = model(ids).logits
    assert not [m for m in model.modules() if type(m) is nn.Linear]
    assert after.dtype == torch.bfloat16
    assert torch.allclose(before.float(), after.float(), rtol=0.05, atol=0.05)
    assert not multiply_in_float32(model)  # nothing is left to replace


def test_does_not_change_a_float32_model(tiny_model, without_bfloat16):
    model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    assert not multiply_in_float32(model)


def test_a_cpu_with_bfloat16_instructions_keeps_its_layers(tiny_model, monkeypatch):
    monkeypatch.setattr(cpu_layers, "has_bfloat16_instructions", lambda: True)
    model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.bfloat16)
    assert not multiply_in_float32(model)


def test_keeps_the_layers_if_memory_is_short(tiny_model, without_bfloat16, monkeypatch):
    model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.bfloat16)
    memory = psutil.virtual_memory()._replace(available=2**30)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    assert not multiply_in_float32(model)
    assert [m for m in model.modules() if type(m) is nn.Linear]
