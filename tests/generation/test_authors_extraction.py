"""Test the authors' two extraction rules, with and without marks around the code."""

import pytest

from pkg_lib.generation.authors_extraction import (
    AUTHORS_RULES,
    extract_all_blocks,
    extract_first_block,
)

# text, solution by all blocks, solution by the first block
FORMS = {
    "tags": (
        "Sure.\n[PYTHON]\ndef f(): pass\n[/PYTHON]\nDone.",
        "\ndef f(): pass\n",
        "def f(): pass",
    ),
    "tags come before fences": (
        "```python\nx = 1\n```\n[PYTHON]y = 2[/PYTHON]",
        "y = 2",
        "y = 2",
    ),
    "only one rule joins blocks": (
        "```python\nx = 1\n```\nand\n```python\ny = 2\n```",
        "\nx = 1\n\n\ny = 2\n",
        "x = 1",
    ),
    "Python fences come before others": (
        "```\nx = 1\n```\n```python\ny = 2\n```",
        "\ny = 2\n",
        "y = 2",
    ),
    "any fence": ("```\nx = 1\n```", "\nx = 1\n", "x = 1"),
    "a fence of another language": ("```py\nx = 1\n```", "py\nx = 1\n", "```py\nx = 1\n```"),
    "an opening tag in place of the closing one": (
        "[PYTHON]\nx = 1\n[PYTHON]",
        "",
        "x = 1",
    ),
    "an unclosed tag and a function": (
        "[PYTHON]\ndef f():\n    return 1\n[TESTS]",
        "",
        "def f():\n    return 1",
    ),
    "bare functions end at other text": (
        "Here:\nimport os\ndef f():\n\n\treturn 1\ndef g():\n    return 2\nThat is all.\n    x",
        "",
        "def f():\n\n\treturn 1\ndef g():\n    return 2",
    ),
    "an indented def": ("class A:\n    def f(self): pass\n\nEnd", "", "    def f(self): pass\n"),
    "an unclosed fence": ("```python\ndef f(): pass\n", "", "def f(): pass\n"),
    "text without marks or functions": ("  x = 1\n", "", "x = 1"),
    "nothing": ("", "", ""),
}


@pytest.mark.parametrize(
    ("text", "all_blocks", "first_block"), list(FORMS.values()), ids=list(FORMS)
)
def test_extraction(text, all_blocks, first_block):
    assert extract_all_blocks(text) == all_blocks
    assert extract_first_block(text) == first_block


def test_both_extraction_rules_are_registered():
    assert list(AUTHORS_RULES.values()) == [extract_all_blocks, extract_first_block]
