"""Test how reasoning tags and end-of-text tokens delimit the answer, and where they are part of it."""

from __future__ import annotations

import pytest

from pkg_lib.generation.extraction import extract

F = "def total(xs):\n    return sum(xs)\n"
FENCED = f"```python\n{F}```\n"
DRAFT = '```python\ndef total(xs):\n    return "draft"\n```\n'

ANSWERS = {
    "leading end token": f"</s>\n{FENCED}",
    "leading end of instruction": f"[/INST]\n{FENCED}",
    "leading role": f"<|im_start|>assistant\n{FENCED}<|im_end|>",
    "leading header": f"<|start_header_id|>assistant<|end_header_id|>\n\n{FENCED}<|eot_id|>",
    "leading turn": f"<start_of_turn>model\n{FENCED}<end_of_turn>",
    "end token after the code": f"{FENCED}</s>\n{DRAFT}",
    "an opening tag that is mentioned in prose": f"{FENCED}I did not use <think> here.\n",
    "HTML strike-through": f"Well, <s>first I tried recursion</s>. Here it is:\n{FENCED}",
    "a draft and its closing tag": f"<think>\n{DRAFT}</think>\n{FENCED}",
    "a closing tag alone": f"{DRAFT}</think>\n{FENCED}",
    "a closing tag with a blank": f"<think>\n{DRAFT}</think >\n{FENCED}",
    "capital letters": f"<THINK>\n{DRAFT}</THINK>\n{FENCED}",
    "a draft that breaks off inside a docstring": f'<think>\ndef total(xs):\n    """Sum\n</think>\n{FENCED}',
    "a backtick before the closing tag and after it": f"<think>\nuse `sum</think> Use `sum`:\n{FENCED}",
    "a scratchpad": f"<scratchpad>\n{DRAFT}</scratchpad>\n{FENCED}",
    "begin and end of thought": f"<|begin_of_thought|>{DRAFT}<|end_of_thought|>\n{FENCED}",
}


@pytest.mark.parametrize("name", ANSWERS)
def test_finds_the_answer_after_reasoning(name):
    assert extract(ANSWERS[name], "total") == F


def test_keeps_an_end_token_in_a_comment():
    code = "def total(xs):\n    # an end </s> token\n    return sum(xs)\n"
    assert extract(f"```python\n{code}```\n", "total") == code


@pytest.mark.parametrize(
    "text", [f"<think>\n{DRAFT}", f"<think>\n{DRAFT}Let me check that once more."]
)
def test_finds_no_answer_in_unfinished_reasoning(text):
    assert extract(text, "total") == ""
