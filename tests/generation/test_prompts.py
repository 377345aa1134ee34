"""Compare prompts with a golden file that holds the authors' own prompts, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pkg_lib.core.models import MODELS
from pkg_lib.generation.prompts import STYLES, TEMPLATES, TURN, delimited, turns
from pkg_lib.retrieval.methods import METHODS

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "golden_prompts.json").read_text("utf8"))[
    "prompts"
]
PROBLEM = 'def add_one(x_1):\n    """Adds {one} to x_1."""\n'
CONTEXT = "def plus(a_b):\n    return {1: a_b}"


@pytest.mark.parametrize(
    "golden", GOLDEN, ids=lambda g: f"{g['style']}-{'with' if g['context'] else 'without'}"
)
def test_prompts_equal_the_golden_file(golden):
    text = golden["text"].replace("{problem}", PROBLEM).replace("{context}", CONTEXT)
    assert TEMPLATES[golden["style"]](PROBLEM, CONTEXT if golden["context"] else "") == text


def test_the_golden_file_has_every_style_with_and_without_a_context():
    assert {(g["style"], g["context"]) for g in GOLDEN} == {
        (s, c) for s in STYLES for c in (True, False)
    }


# Words of the paper's Appendix B. The two versions of the paper print its white space differently.
MERGE = (
    "integrate their logic directly into the body of the main function, otherwise just ignore them."
)
TAGS = "You MUST write your solution between [PYTHON] and [/PYTHON]. Your solution MUST be executable.[/INST]"
PRINTED = [
    ("codellama", True, f"If helper section is useful, {MERGE} {TAGS}"),
    (
        "codellama",
        False,
        "Please write the python solution inside [PYTHON] and [/PYTHON] tags. [/INST]",
    ),
    ("starcoder2", True, f". If they are useful, {MERGE} ### Response"),
    (
        "starcoder2",
        False,
        "### Instruction You are a python programmer. Solve the following problem:",
    ),
    ("deepseek", True, f".If they are useful, {MERGE} [/INST]"),
    ("deepseek", False, "[INST] You are a python programmer. Solve the following problem:"),
]


@pytest.mark.parametrize(("style", "augmented", "words"), PRINTED)
def test_prompts_contain_the_words_of_the_paper(style, augmented, words):
    prompt = TEMPLATES[style](PROBLEM, CONTEXT if augmented else "")
    assert words in " ".join(prompt.split())


def test_every_model_has_a_style():
    # "plain" is for models that only continue text; a user chooses it by name.
    assert set(STYLES) == {model.style for model in MODELS.values()} | {"plain"}


def test_the_plain_style_adds_no_words():
    assert TEMPLATES["plain"]("def f():", "") == "def f():"
    assert TEMPLATES["plain"]("def f():", "x = 1") == "x = 1\n\ndef f():"


def test_turns_alternate_between_user_and_assistant():
    assert turns("a") == [{"role": "user", "content": "a"}]
    assert [t["role"] for t in turns(TURN.join("abc"))] == ["user", "assistant", "user"]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("variant", ["context first", "earlier turn"])
def test_a_variant_has_the_same_content_as_the_prompt(style, variant):
    prompt = TEMPLATES[f"{style}, {variant}"](PROBLEM, CONTEXT)
    assert prompt.count(PROBLEM) == 1
    assert prompt.count(CONTEXT) == 1
    assert prompt.index(CONTEXT) < prompt.index(PROBLEM)
    if style != "plain":
        assert "integrate their logic" in prompt


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    "variant", ["context first", "earlier turn", "no delimiters", "helper section"]
)
def test_a_variant_without_a_context_is_the_prompt_without_one(style, variant):
    if f"{style}, {variant}" in TEMPLATES:
        assert TEMPLATES[f"{style}, {variant}"](PROBLEM, "") == TEMPLATES[style](PROBLEM, "")


@pytest.mark.parametrize("style", STYLES)
def test_the_no_code_variant_replaces_the_context_with_a_note(style):
    told = TEMPLATES[f"{style}, no code was found"](PROBLEM, CONTEXT)
    assert CONTEXT not in told
    assert told == TEMPLATES[style](PROBLEM, "# no code was found")


@pytest.mark.parametrize("method", [c for c in METHODS.values() if c.style])
def test_every_style_of_a_method_exists(method):
    assert (
        f"{method.style}, {method.prompt_variant}" if method.prompt_variant else method.style
    ) in TEMPLATES


def test_prompt_variants_place_the_context_as_documented():
    assert TEMPLATES["chat, context first"](PROBLEM, CONTEXT).index(CONTEXT) < 60
    context, answer, task = TEMPLATES["chat, earlier turn"](PROBLEM, CONTEXT).split(TURN)
    assert CONTEXT in context and PROBLEM not in context + answer
    assert task == TEMPLATES["chat"](PROBLEM, "")


@pytest.mark.parametrize("style", ["codellama", "starcoder2", "deepseek", "llama-3.1"])
def test_the_papers_styles_delimit_the_context(style):
    assert delimited(CONTEXT) in TEMPLATES[style](PROBLEM, CONTEXT)
    bare = TEMPLATES[f"{style}, no delimiters"](PROBLEM, CONTEXT)
    assert CONTEXT in bare
    assert "helper code 1" not in bare


@pytest.mark.parametrize("style", STYLES)
def test_every_style_has_a_helper_section(style):
    prompt = TEMPLATES[f"{style}, helper section"](PROBLEM, CONTEXT)
    assert delimited(CONTEXT) in prompt
    is_usual = prompt == TEMPLATES[style](PROBLEM, CONTEXT)
    assert is_usual == (f"{style}, no delimiters" in TEMPLATES)


def test_the_variant_omits_only_the_stray_quotation_mark():
    prompt, clean = (
        TEMPLATES[name](PROBLEM, "") for name in ("codellama", "codellama, no stray quote")
    )
    assert prompt == clean + '"\n        '
