"""CrossCodeEval's similarity measures on hand-computed cases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg_lib.core.types import UserError
from pkg_lib.data.code_match import KEYWORDS, code_lines, identifiers, match, without_comments


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        ("return a.b(c)", "return a.b(c)", (1, 1, 1, 1)),
        ("    return a.b(c)\n\n    # why\n", "return a.b(c)", (1, 1, 1, 1)),
        ("return a.b('x')", "return a.b('y')", (0, 0.93, 1, 1)),
        ("return b(a)", "return a(b)", (0, 0.82, 0, 1)),
        ("return a", "return a + b", (0, 0.8, 0, 2 / 3)),
        ("pass", "return a", (0, 0.17, 0, 0)),
        ("", "return a", (0, 0, 0, 0)),
        ("pass", "pass", (1, 1, 1, 0)),
        ("a + b", "b + c + d", (0, 0.43, 0, 2 / 5)),
        ("x = 1  # c", "x = 1", (1, 1, 1, 1)),
        ('x = "#1"  # c', 'x = "#1" # d', (1, 1, 1, 1)),
        ('x = "#1"', 'x = "#2"', (0, 0.88, 1, 1)),
        ('"""A b\nc # d."""\nreturn e', "return e", (0, 0.48, 1, 1)),
        ("x = a // b", "x = a // c", (0, 0.9, 0, 2 / 3)),
        ("if x:\n    y", "if x:\n  y", (1, 0.9, 1, 1)),
    ],
)
def test_measures_of_hand_computed_cases(answer, reference, expected):
    assert tuple(match(answer, reference).values()) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("python", "for x in self.items: yield 'not me', True", ["x", "self", "items"]),
        ("java", 'String s = new Foo("a \\"b\\" c").bar(2);', ["String", "s", "Foo", "bar"]),
        ("csharp", "var x = await y as Z;", ["x", "await", "y", "Z"]),
        ("typescript", "const x: number = y!.z;", ["x", "y", "z"]),
    ],
)
def test_identifiers_exclude_keywords_and_words_in_strings(language, text, expected):
    found = identifiers(text, language)
    assert list(found) == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("python", "# a\nx = 1  # b\n\n", ["x = 1"]),
        ("python", "x = '''#\n# not'''  # b", ["x = '''#", "# not'''"]),
        ("python", "x = 'it\\'s # not' # b", ["x = 'it\\'s # not'"]),
        ("java", "/* don't */ x;\n  // c\n y; // d isn't\n", ["/* don't */ x;", "y;"]),
        ("java", 'String u = "http://x"; // c', ['String u = "http://x";']),
        ("java", "char q = '\"'; // c\"", ["char q = '\"';"]),
        ("csharp", 'x("a # b"); // c', ['x("a # b");']),
        ("typescript", "x(`http://${y}`); // c\nthis.#z;", ["x(`http://${y}`);", "this.#z;"]),
    ],
)
def test_removes_line_comments_but_not_comment_signs_in_strings(language, text, expected):
    assert code_lines(without_comments(text, language)) == expected


def test_rejects_an_unknown_language():
    with pytest.raises(UserError, match="choose from: python, java, csharp, typescript"):
        match("a", "b", "ruby")


@given(st.text(max_size=30), st.text(max_size=30), st.sampled_from(sorted(KEYWORDS)))
def test_measures_are_fractions_and_an_equal_text_matches_fully(first, second, language):
    measures = match(first, second, language)
    assert all(0 <= value <= 1 for value in measures.values())
    assert list(match(first, first, language).values())[:3] == [1, 1, 1]
    assert measures["edit"] == match(second, first, language)["edit"]
