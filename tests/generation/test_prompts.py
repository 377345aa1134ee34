"""The templates against Appendix B as it is printed there.

The appendix prints a space as "_" and wraps long lines; what its scan adds is undone by hand and noted here:
- Code B.2.1 has a stray "n" where the wrap cuts "\\n" in two ("\\n\\n" / "nThe", "nPlease");
- Code B.4.1 prints "\\n{n{problem}}" and "\\n{n{augmented_data}}" for "\\n{problem}" and
  "\\n{augmented_data}";
- Code B.3.1 breaks over a page after "### Response": by its line numbers (6 and 7) the closing quotes follow
  on the next line.
"""

from __future__ import annotations

import pytest

from pkg_lib.core.models import MODELS
from pkg_lib.generation.prompts import TEMPLATES

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
}
PROBLEM = 'def add_one(x_1):\n    """Adds {one} to x_1."""\n'
CONTEXT = "def plus(a_b):\n    return {1: a_b}"


@pytest.mark.parametrize(("style", "augmented"), PRINTED)
def test_as_printed(style, augmented):
    printed = PRINTED[style, augmented].replace("_", " ").replace(r"\n", "\n")
    expected = printed.replace("{problem}", PROBLEM).replace("{augmented data}", CONTEXT)
    assert TEMPLATES[style](PROBLEM, CONTEXT if augmented else "") == expected


def test_chat_with_context():
    assert TEMPLATES["chat"]("P", "C") == (
        "You are a python programmer. Solve the following problem:\n```python\nP\n```\n\nThe following code might be helpful:\n"
        "```python\nC\n```\nIf helper section is useful, integrate their logic directly into the body of the main function, "
        "otherwise just ignore them. You MUST write your complete solution, with the given function signature, inside one "
        "```python code block. Your solution MUST be executable."
    )


def test_chat_without_context():
    assert TEMPLATES["chat"]("P", "") == (
        "You are a python programmer. Solve the following problem:\n```python\nP\n```\n\nPlease write the complete python "
        "solution, with the given function signature, inside one ```python code block."
    )


def test_every_model_has_a_template():
    assert {m.style for m in MODELS.values()} == set(TEMPLATES)
