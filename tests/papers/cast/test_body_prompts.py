"""Prompts of repository tasks, and the body in a model's answer."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg_lib.chunking.chunker import Chunk
from pkg_lib.data.functions import RepoTask
from pkg_lib.papers.cast import body_prompts
from pkg_lib.papers.cast.body_prompts import (
    code_block,
    continued_body,
    ended,
    extract_body,
    settled,
)
from pkg_lib.papers.cast.context_columns import context_text

BODY = "x = a + 1\nif x:\n    return x\nreturn 0"
INNER = textwrap.indent(BODY, "    ")
IN_METHOD = textwrap.indent(BODY, "        ")


def task(indent="    ", name="f"):
    body = textwrap.indent("return a\ny = 1", indent)
    return repo_task(f"def {name}(a):\n", name, body, lineno=1, def_lineno=0)


def repo_task(prompt, name, body, lineno, def_lineno):
    return RepoTask(
        id="p/m:f",
        benchmark="packages",
        prompt=prompt,
        entry_point=name,
        solution=body,
        repository="p",
        path="m.py",
        context_start_lineno=0,
        lineno=lineno,
        def_lineno=def_lineno,
    )


def fenced(code, after=""):
    return f"Here it is:\n```python\n{code}\n```\n{after}"


@pytest.mark.parametrize(
    "answer",
    [
        fenced(BODY),
        fenced(textwrap.indent(BODY, "        ")),
        BODY,
        fenced(f"def f(a):\n{INNER}"),
        fenced(
            f'import os\n\ndef f(\n    a: int = (1),\n) -> int:\n    """Doc."""\n{INNER}\n\nprint(f(1))'
        ),
        fenced(f"class C:\n    def f(self, a):\n{IN_METHOD}\n\n    def g(self):\n        return 1"),
        fenced(f"def g(a):\n    return 2\n\ndef f(a):\n{INNER}"),
        fenced(BODY, "The second one:\n```python\ndef f(a):\n    return 5\n```\n"),
        fenced(f'def f(a):\n    """Example:\n\n    ```python\n    f(1)\n    ```\n    """\n{INNER}'),
    ],
)
@pytest.mark.parametrize("indent", ["    ", "        "])
def test_the_body_is_found_and_indented_as_the_task_is(answer, indent):
    assert extract_body(answer, task(indent)) == textwrap.indent(BODY, indent)


def test_a_body_ends_where_a_line_stands_left_of_its_first():
    answer = fenced("  x = 1\n\n# a comment ends nothing\n  return x\nprint(f(1))\n  more")
    assert extract_body(answer, task()) == "    x = 1\n\n    # a comment ends nothing\n    return x"


@pytest.mark.parametrize(
    "answer", ["", "```python\n```\n", "```python\n\n\n", "```python\ndef f(a):\n```\n"]
)
def test_no_body_is_an_empty_text(answer):
    assert extract_body(answer, task()) == ""


def test_a_definition_cut_off_or_on_one_line_still_has_a_body():
    assert (
        extract_body("```python\ndef f(a):\n    x = 1\n    y = (", task()) == "    x = 1\n    y = ("
    )
    assert extract_body(fenced("def f(a): return a"), task()) == "    return a"


@given(
    st.text(alphabet=list("`ab\n \"'d:ef()"), max_size=60),
    st.text(alphabet=list("`ab\n \"'#"), max_size=30),
)
def test_nothing_after_a_settled_text_changes_the_extraction(text, more):
    text = f"```python\n{text}"
    if settled(text):
        assert code_block(text + more) == code_block(text)
        assert extract_body(text + more, task()) == extract_body(text, task())


def test_an_open_block_is_not_settled():
    assert settled("```python\nx = 1\n```\n")
    for text in ("```python\nx = 1\n``", "```python\nx = 1\n```", '```python\n"""\n    ```\n'):
        assert not settled(text)


def test_reasoning_is_no_part_of_the_answer():
    draft = fenced("return 5")
    assert extract_body(f"<think>\n{draft}</think>\n{fenced(BODY)}", task()) == INNER
    assert extract_body(f"<think>\n{draft}", task()) == ""
    assert not settled(f"<think>\n{draft}")


@pytest.mark.parametrize(
    "answer",
    [
        f"1. The body:\n\n{textwrap.indent(fenced(BODY).partition(chr(10))[2], '   ')}",
        f"The body is:\n\n{INNER}\n\nIt returns 0 or x.",
        f"{INNER}\n```\n\nIt returns 0 or x.",
        f"Here: ```python\n{BODY}\n```\nDone.",
        fenced(BODY, "</s>"),
        fenced(BODY).replace("\n", "\r\n"),
    ],
)
def test_the_body_in_answers_with_unusual_fences(answer):
    assert extract_body(answer, task()) == INNER


def chunk(path, text):
    return Chunk(path, 0, len(text), 1, text.count("\n") + 1, text, len(text))


def test_the_context_names_each_file_and_stays_within_its_budget():
    chunks = [chunk("a.py", "x = 1\n"), chunk("b.py", "y = 2\n" * 50)]
    text, used = context_text(chunks, len, 600)
    assert [c.document for c in used] == ["a.py", "b.py"] and len(text) <= 600
    assert all(line.startswith("#") for line in text.splitlines()) and "# a.py" in text.splitlines()
    assert text.splitlines().count("# y = 2") < 50
    assert context_text(chunks, len, 10) == ("", [])
    assert context_text([], len, 600) == ("", [])


def test_the_left_context_never_loses_the_function_s_own_head():
    text = "import os\n" * 50 + "def f(\n    a,\n):\n"
    long = repo_task(text, "f", "    return a", lineno=53, def_lineno=50)
    assert body_prompts.left_context(long, len, 5) == "def f(\n    a,\n):"
    assert body_prompts.left_context(long, len, 40).count("import os") == 2
    assert body_prompts.left_context(long, len, 10_000) == long.prompt.rstrip("\n")


def test_the_prompt_ends_with_the_code_to_continue():
    assert body_prompts.prompt(task(), "def f(a):", "# context\n") == "# context\n\n\ndef f(a):\n"
    assert body_prompts.prompt(task(), "def f(a):", "") == "def f(a):\n"
    text = body_prompts.prompt(task(), "def f(a):", "# context\n", chat=True)
    assert (
        text.index("# context") < text.index("def f(a):") < text.index("body of the function `f`")
    )


@pytest.mark.parametrize("indent", ["    ", "        "])
@pytest.mark.parametrize(
    "after", ["", "\n", "\n\ndef g():\n    return 1\n", "\n\n\n# next\nclass C:\n", "\n@cached\n"]
)
def test_a_continuation_is_a_body_up_to_the_next_definition(indent, after):
    found = continued_body(textwrap.indent(BODY, indent) + after, task(indent))
    assert found.split("\n")[:4] == textwrap.indent(BODY, indent).split("\n")
    assert [line.strip() for line in found.split("\n")[4:]] in ([], ["", "", "# next"])
    assert ended(textwrap.indent(BODY, indent) + after) is any(
        w in after for w in ("def", "class", "@")
    )


@pytest.mark.parametrize("text", ["", "\n\n", "def g():\n    return 1\n", "  x = 1\n"])
def test_a_continuation_that_is_no_body(text):
    assert continued_body(text, task()) == ""


@given(
    st.text(alphabet=list("ab \n#:"), max_size=40), st.text(alphabet=list("ab \n#:"), max_size=20)
)
def test_nothing_after_an_ended_body_changes_it(text, more):
    if ended(text):
        assert ended(text + more) and continued_body(text + more, task()) == continued_body(
            text, task()
        )
