"""Test that the solution is found in a model's text, and that a settled solution stays settled."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkg_lib.generation.extraction import (
    blocks,
    continuation_ended,
    continued,
    defines,
    extract,
    settled,
)

F = "def f(x):\n    return x\n"
G = "def g(x):\n    return 1\n"
BODY = "    if x:\n        return 1\n    return 2\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"Sure:\n```python\n{F}```\nDone.", F),
        (f"```\n{F}```", F),
        (f"~~~python\n{F}~~~\n", F),
        (f"  ```py\n{F}  ```\n", F),
        (f"````markdown\n# T\n```python\n{F}```\n````\n", F),
        (f"[PYTHON]\n{F}[/PYTHON]", F),
        (f"[PYTHON]{F}[/PYTHON]", F),
        (f"text [PYTHON]\n```python\n{F}```\n[/PYTHON]", F),
        (f"```python\n[PYTHON]\n{F}```\n", f"[PYTHON]\n{F}"),
        (F, F),
        (BODY, BODY),
        (f"```python\n{BODY}```\n", BODY),
        (f"[PYTHON]\n{BODY}[/PYTHON]", BODY),
        ("", ""),
        ("    return None\n", "    return None\n"),
        (f"```python\n{F}", F),
        (f"[PYTHON]\n{F}", F),
        (f"```python\n{F}```", F),
        (f"```python\n{G}```\n```python\n{F}```\n", F),
        (f"```python\n{F}```\n```python\ndef f(): 2\n```\n", F),
        (f"```python\n{G}```\ntext", G),
        (f"```python\n{G}```\n```python\n{F}", F),
        (f"```bash\npip install x\n```\n```python\n{F}```\n", F),
        (f"[PYTHON]\n{G}[/PYTHON]\n[PYTHON]\n{F}[/PYTHON]", F),
        (f"```python\n{F}```\n".replace("\n", "\r\n"), F),
        (f"```python title=x\n{F}```\n", F),
        (f"Use `f` or ```f(x)``` so:\n{F}", F),
        (f"```python\nx = '''\x0c'''\n{F}```\n", f"x = '''\x0c'''\n{F}"),
    ],
)
def test_extract(text, code):
    assert extract(text, "f") == code


def test_closed_blocks_go_before_open_ones():
    assert [b.closed for b in blocks(f"```\n{F}```\n```\n{G}")] == [True, False]
    assert [b.closed for b in blocks(f"[PYTHON]{F}[/PYTHON][PYTHON]{G}")] == [True, False]
    assert [b.closed for b in blocks(f"```\n{F}```")] == [False]  # the closing line may continue


def test_defines():
    definitions = (
        "def f(x): pass",
        "async def f(x): pass",
        "class A:\n    def f(self): pass",
        "def  f (x): pass",
    )
    assert all(defines(code, "f") for code in definitions)
    assert not any(
        defines(code, "f") for code in ("def ff(x): pass", "# def f(x)", "f = lambda: 0")
    )


def test_settled():
    assert all(settled(text, "f") for text in (f"```python\n{F}```\n", f"[PYTHON]\n{F}[/PYTHON]"))
    going_on = (
        f"```python\n{F}```",
        f"```python\n{F}",
        f"```python\n{G}```\n",
        f"[PYTHON]\n{F}[/PYTHO",
        F,
        "",
    )
    assert not any(settled(text, "f") for text in going_on)


PIECES = [*"``` ```python ```` ~~~ [PYTHON] [/PYTHON] [PY `".split(), *"\n \x0c\x0b\u2028", "\r\n"]
PIECES += ["def f(x):", "    return x", "\ndef f(): 1\n", "\n```\n", "prose"]
texts = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


@settings(max_examples=300)
@given(texts)
def test_a_settled_solution_does_not_change(text):
    whole = extract(text, "f")
    for i in range(len(text)):
        if settled(text[:i], "f"):
            assert extract(text[:i], "f") == whole
            assert settled(text, "f")


@given(st.text(alphabet="abc \n()=:`~[]", max_size=60))
def test_every_text_has_an_extraction_contained_in_it(text):
    assert extract(text, "f") in text


@pytest.mark.parametrize("names", ["annotations", "(\n    annotations,\n)", "division  # x"])
def test_removes_future_imports(names):
    """After the prompt they are a SyntaxError, for which the model is not responsible."""
    line = f"from __future__ import {names}\n"
    assert (
        extract(f"```python\n{line}\ndef f():\n    return 1\n```", "f")
        == "\ndef f():\n    return 1\n"
    )
    assert extract(f"{line}def f(): return 1", "f") == "def f(): return 1"
    kept = "def f():\n    x = 'from __future__ import x'\n"
    assert extract(kept, "f") == kept


def test_a_fence_that_opened_prose_does_not_hide_the_real_one():
    text = "```python\nHere it is:\n\n```python\ndef f():\n    return 1\n```\nIt works.\n"
    assert extract(text, "f") == "def f():\n    return 1\n"
    assert settled(text[: text.index("It works")], "f")
    inside = 'def f():\n    """\n    ```python\n    f()\n    """\n'
    assert extract(f"```python\n{inside}```\n", "f") == inside


@pytest.mark.parametrize(
    ("text", "body"),
    [
        (BODY, BODY),
        (BODY + "\n\ndef g():\n    pass\n", BODY + "\n"),
        (BODY + "print(f(1))", BODY.rstrip("\n")),
        ("\n" + BODY + "# next", "\n" + BODY.rstrip("\n")),
        ("    return [\n1,\n]\n", "    return ["),  # text at the left edge ends the body
        ("    return (1\n)\nx = 2", "    return (1\n)"),
        (F + G, F + G),  # a whole function is not a body
        (
            "    y = 1\n# now return it\n    return y\n",
            "    y = 1\n# now return it\n    return y\n",
        ),
        ('    s = """\nabc\n"""\n    return s\nx = 1\n', '    s = """\nabc\n"""\n    return s'),
        ("", ""),
    ],
)
def test_a_continuation_ends_with_the_body(text, body):
    assert continued(text) == body


@given(
    st.lists(st.sampled_from(["    a\n", "# b\n", "b\n", '"""', "\n", ")\n"]), max_size=8).map(
        "".join
    ),
    texts,
)
def test_nothing_changes_a_continuation_that_has_ended(text, more):
    if continuation_ended("    a\n" + text):
        assert continued("    a\n" + text + more) == continued("    a\n" + text)


def test_a_comment_at_the_left_edge_ends_no_continuation():
    assert not continuation_ended("    y = 1\n# now return it\n")
    assert continuation_ended("    return 1\nprint(f(1))\n")
