"""The templates against Appendix B as it is printed there: a space as "_", long lines wrapped.

Undone by hand: a stray "n" where the wrap cuts "\\n" in two (B.2.1), "\\n{n{problem}}" for "\\n{problem}" (B.4.1),
and a page break after "### Response" (B.3.1). Llama 3.1's stands in the authors' code alone.
"""

from __future__ import annotations

import re

import pytest

from pkg_lib.core.models import MODELS
from pkg_lib.core.types import Task, UserError
from pkg_lib.data.humaneval import HumanEval
from pkg_lib.generation.prompts import TEMPLATES, TURN, turns
from pkg_lib.retrieval.columns import COLUMNS

PRINTED = {
    ("codellama", True): (
        r"[INST]_You_are_a_python_programmer._Solve_the_following_problem:\n{problem}\n\n"
        r"The_following_code_might_be_helpful:\n{augmented_data}\nIf_helper_section_is_useful,_"
        r"integrate_their_logic_directly_into_the_body_of_the_main_function,_otherwise_just_ignore_"
        r"them._You_MUST_write_your_solution_between_[PYTHON]_and_[/PYTHON]._Your_solution_MUST_be_"
        r"executable.[/INST]"
    ),
    ("codellama", False): (
        r"[INST]_You_are_a_python_programmer._Solve_the_following_problem:\n{problem}\n\n"
        r"Please_write_the_python_solution_inside_[PYTHON]_and_[/PYTHON]_tags.\n[/INST]"
    ),
    ("starcoder2", True): (
        "###_Instruction\n"
        r"You_are_a_python_programmer._Solve_the_following_problem:\n{problem}\n\nThe_following_code_"
        r"might_be_helpful:\n{augmented_data}\n__If_they_are_useful,_integrate_their_logic_directly_into_"
        r"the_body_of_the_main_function,_otherwise_just_ignore_them.\n"
        "\n###_Response\n"
    ),
    ("starcoder2", False): (
        "###_Instruction\n"
        r"You_are_a_python_programmer._Solve_the_following_problem:\n{problem}\n\n"
        "\n###_Response\n"
    ),
    ("deepseek", True): (
        r"[INST]_You_are_a_python_programmer._Solve_the_following_problem:\n{problem}_\n_"
        r"The_following_code_might_be_helpful:\n{augmented_data}\n.If_they_are_useful,_integrate_"
        r"their_logic_directly_into_the_body_of_the_main_function,_otherwise_just_ignore_them.\n["
        r"/INST]"
    ),
    ("deepseek", False): (
        r"[INST]_You_are_a_python_programmer._Solve_the_following_problem:\n{problem}_\n_"
        r"\n[/INST]"
    ),
    ("llama-3.1", True): (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n____\n____You_are_a_python_programmer."
        "<|eot_id|><|start_header_id|>user<|end_header_id|>\n____\n"
        r"____Implement_a_python_function_to_solve_the_following_problem:_\n_{problem}_\n\n_The_following_helper_"
        r"code_might_be_helpful:\n{augmented_data}.\nIf_they_are_useful,_integrate_their_logic_directly_into_the_"
        r"body_of_the_main_function,_otherwise_just_ignore_them.\nThe_solution_should_be_executable._The_code_"
        r"should_pass_all_the_following_test_cases._Please_write_the_python_solution_inside_[PYTHON]_and_"
        r"[/PYTHON]_tags\n<|eot_id|><|start_header_id|>assistant<|end_header_id|>"
        "\n________"
    ),
    ("llama-3.1", False): (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n____\n____You_are_a_python_programmer."
        "<|eot_id|><|start_header_id|>user<|end_header_id|>\n____\n"
        r"____Implement_a_python_function_to_solve_the_following_problem:_\n_{problem}_\n\n._Please_write_the_"
        r"python_solution_inside_[PYTHON]_and_[/PYTHON]_tags.\n<|eot_id|><|start_header_id|>assistant"
        "<|end_header_id|>\n________"
    ),
}
PROBLEM = 'def add_one(x_1):\n    """Adds {one} to x_1."""\n'
CONTEXT = "def plus(a_b):\n    return {1: a_b}"


@pytest.mark.parametrize(("style", "augmented"), PRINTED)
def test_as_printed(style, augmented):
    text = re.sub(r"(<\|\w+\|>)|_", lambda m: m[1] or " ", PRINTED[style, augmented])
    printed = text.replace(r"\n", "\n")
    expected = printed.replace("{problem}", PROBLEM).replace("{augmented data}", CONTEXT)
    assert TEMPLATES[style](PROBLEM, CONTEXT if augmented else "") == expected


def test_every_model_has_a_template():
    styles = {style for style in TEMPLATES if "," not in style}
    assert styles == {m.style for m in MODELS.values()} | {
        "plain"
    }  # of models by name that only continue text


def test_plain_adds_no_word():
    assert TEMPLATES["plain"]("def f():", "") == "def f():"
    assert TEMPLATES["plain"]("def f():", "x = 1") == "x = 1\n\ndef f():"


def test_turns_of_a_talk():
    assert turns("a") == [{"role": "user", "content": "a"}]
    assert [t["role"] for t in turns(TURN.join("abc"))] == ["user", "assistant", "user"]


@pytest.mark.parametrize("wording", [c.wording for c in COLUMNS.values() if c.wording and c.of == "Func-PKG"])
def test_another_wording_says_no_less(wording):
    told = TEMPLATES[f"chat, {wording}"](PROBLEM, CONTEXT)
    assert told != TEMPLATES["chat"](PROBLEM, CONTEXT) and PROBLEM in told and CONTEXT in told
    assert "integrate their logic" in told and told.index("integrate their logic") > told.index(CONTEXT)
    assert TEMPLATES[f"chat, {wording}"](PROBLEM, "") == TEMPLATES["chat"](PROBLEM, "")


def test_where_the_other_wordings_put_the_context():
    assert TEMPLATES["chat, context first"](PROBLEM, CONTEXT).index(CONTEXT) < 60
    context, answer, task = TEMPLATES["chat, earlier turn"](PROBLEM, CONTEXT).split(TURN)
    assert CONTEXT in context and PROBLEM not in context + answer
    assert task == TEMPLATES["chat"](PROBLEM, "")
    told = TEMPLATES["chat, no code was found"](PROBLEM, CONTEXT)
    assert CONTEXT not in told and told == TEMPLATES["chat"](PROBLEM, "# no code was found")


def test_delimiters_of_the_authors_code():
    for style in TEMPLATES.keys() - {"chat"}:
        if "," not in style:
            told, delimited = (
                TEMPLATES[f"{style}, helper section"],
                f"helper code 1:\n{CONTEXT}\nEnd of helper section.",
            )
            assert told(PROBLEM, CONTEXT) == TEMPLATES[style](PROBLEM, delimited)
            assert told(PROBLEM, "") == TEMPLATES[style](PROBLEM, "")


def test_a_wording_that_a_model_has_no_template_for():
    task = Task("T/0", "humaneval", PROBLEM, "add_one", "", "")
    with pytest.raises(UserError, match="unknown prompt 'codellama, earlier turn'"):
        HumanEval().prompt(task, CONTEXT, "codellama, earlier turn")
