"""The authors' extraction: which marks count, and that blocks are joined."""

import pytest

from pkg_lib.generation.authors_extraction import extract_as_authors

FORMS = [
    ("tags", "Sure.\n[PYTHON]\ndef f(): pass\n[/PYTHON]\nDone.", "\ndef f(): pass\n"),
    ("tags come before fences", "```python\nx = 1\n```\n[PYTHON]y = 2[/PYTHON]", "y = 2"),
    (
        "two blocks are joined",
        "```python\nx = 1\n```\nand\n```python\ny = 2\n```",
        "\nx = 1\n\n\ny = 2\n",
    ),
    ("Python fences come before others", "```\nx = 1\n```\n```python\ny = 2\n```", "\ny = 2\n"),
    ("any fence", "```\nx = 1\n```", "\nx = 1\n"),
    ("bare code has no solution", "def f(): pass", ""),
    ("an unclosed block has no solution", "```python\ndef f(): pass\n", ""),
    ("nothing", "", ""),
]


@pytest.mark.parametrize(
    ("text", "expected"), [form[1:] for form in FORMS], ids=[form[0] for form in FORMS]
)
def test_extraction(text, expected):
    assert extract_as_authors(text) == expected
