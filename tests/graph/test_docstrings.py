"""Docstrings by their sections: numpydoc, Google, Sphinx, and what is none of them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg_lib.core.types import Document
from pkg_lib.graph.text.docstrings import read, sections_of
from pkg_lib.graph.text.documents import tree

NUMPYDOC = """\
Matrix or
vector norm.

Longer text with ``x``.

Parameters
----------
x : array_like
    Input array.

    Second paragraph.
axis, keepdims : int, optional
*args

Returns
-------
n : float or ndarray
    Norm.
float

Raises
------
LinAlgError
    If it fails.

See Also
--------
scipy.linalg.norm : Similar.

Examples
--------
>>> norm(x)
3.0

By axis:

>>> norm(x, axis=0)
array([1.])

The end.
"""
GOOGLE = """\
Do it.

Note: this is one sentence.

Args:
    x (int, optional): The number
        of things.
    **kwargs: More.
    no form at all
Returns:
    dict[str, int]: The counts.

Raises:
    ValueError: If x is
        negative.

Example:
    Call it::

        do(1)
"""
SPHINX = """\
Do it.

:param int x: the number
    of things
:param y: another
:type y: str
:returns: nothing much
:rtype: None
:raises ValueError: if wrong
"""
TITLES = "S.\n\nHistory\n-------\nOld.\n\nNotes\n-----\nOne.\n\nNotes\n-----\nTwo."
EXPECTED = {
    NUMPYDOC: {
        "summary": "Matrix or vector norm.",
        "description": {"explanation": "Longer text with x."},
        "parameters": [
            {"name": "x", "type": "array_like", "description": "Input array.\n\nSecond paragraph."},
            {"name": "axis, keepdims", "type": "int, optional"},
            {"name": "*args"},
        ],
        "returns": [{"name": "n", "type": "float or ndarray", "description": "Norm."}, {"type": "float"}],
        "raises": [{"type": "LinAlgError", "description": "If it fails."}],
        "see also": {"explanation": "scipy.linalg.norm : Similar."},
        "examples": [
            {"code": ">>> norm(x)\n3.0"},
            {"explanation": "By axis:", "code": ">>> norm(x, axis=0)\narray([1.])"},
            {"explanation": "The end."},
        ],
    },
    GOOGLE: {
        "summary": "Do it.",
        "description": {"explanation": "Note: this is one sentence."},
        "parameters": [
            {"name": "x", "type": "int, optional", "description": "The number\nof things."},
            {"name": "**kwargs", "description": "More."},
            {"description": "no form at all"},
        ],
        "returns": [{"type": "dict[str, int]", "description": "The counts."}],
        "raises": [{"type": "ValueError", "description": "If x is\nnegative."}],
        "examples": [{"explanation": "Call it:", "code": "do(1)"}],
    },
    SPHINX: {
        "summary": "Do it.",
        "parameters": [
            {"name": "x", "type": "int", "description": "the number\nof things"},
            {"name": "y", "description": "another", "type": "str"},
        ],
        "returns": [{"description": "nothing much", "type": "None"}],
        "raises": [{"type": "ValueError", "description": "if wrong"}],
    },
    TITLES: {
        "summary": "S.",
        "history": {"explanation": "Old."},
        "notes": {"explanation": "One."},
        "notes'": {"explanation": "Two."},
    },
}


@pytest.mark.parametrize("text", EXPECTED, ids=["numpydoc", "Google", "Sphinx", "other titles, and twice"])
def test_sections(text):
    assert read(text) == EXPECTED[text]


def test_the_document():
    document = Document("docstrings/pkg.mod.f#2", "f(x)\n\nDoes it.\n", "docstring")
    assert sections_of(document) == {"pkg.mod.f": {"signature": "f(x)", "summary": "Does it."}}


PIECES = "word|Parameters|----------|  indented|x : int|Args:|    y (str): text|    deeper|||Returns:|Notes"
PIECES += "|-----|:param z: field|>>> code|Examples|a: b|:rtype: int|Raises|    : odd"


@given(st.lists(st.sampled_from(PIECES.split("|")), max_size=14))
def test_no_word_is_lost(chosen):
    """Every word of the text is in the JSON or is a section's title, whatever the layout."""
    sections = read("\n".join(chosen))
    text = " ".join(row[-1].lower() for row in tree(sections))
    words = set(re.findall(r"[a-z]{3,}", " ".join(chosen).lower())) - {"param", "rtype", "args", "returns"}
    assert all(word in text for word in words), (chosen, sections)
