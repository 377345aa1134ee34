"""Prompts of repository tasks, and extraction of the function body from a model's answer."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import assume, given
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
from pkg_lib.papers.cast.chunk_retrieval import context_text

BODY = "x = a + 1\nif x:\n    return x\nreturn 0"
# The same body indented for a function and for a method.
INNER = textwrap.indent(BODY, "    ")
IN_METHOD = textwrap.indent(BODY, "        ")


def task(indent="    ", name="f"):
    """A task whose body has the given indentation."""
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
    """An answer with the code in a fenced block, followed by other text."""
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
def test_extracts_the_body_and_indents_it_like_the_task(answer, indent):
    assert extract_body(answer, task(indent)) == textwrap.indent(BODY, indent)


def test_a_body_ends_at_the_first_line_with_less_indentation():
    answer = fenced("  x = 1\n\n# a comment ends nothing\n  return x\nprint(f(1))\n  more")
    expected = "    x = 1\n\n    # a comment ends nothing\n    return x"
    assert extract_body(answer, task()) == expected


@pytest.mark.parametrize(
    "answer", ["", "```python\n```\n", "```python\n\n\n", "```python\ndef f(a):\n```\n"]
)
def test_an_answer_without_a_body_gives_an_empty_string(answer):
    assert extract_body(answer, task()) == ""


def test_extracts_the_body_of_truncated_and_one_line_definitions():
    truncated = "```python\ndef f(a):\n    x = 1\n    y = ("
    assert extract_body(truncated, task()) == "    x = 1\n    y = ("
    assert extract_body(fenced("def f(a): return a"), task()) == "    return a"


@given(
    st.text(alphabet=list("`ab\n \"'d:ef()"), max_size=60),
    st.text(alphabet=list("`ab\n \"'#"), max_size=30),
)
def test_text_after_a_settled_answer_does_not_change_the_extraction(text, more):
    text = f"```python\n{text}\n```\n"
    assume(settled(text))
    assert code_block(text + more) == code_block(text)
    assert extract_body(text + more, task()) == extract_body(text, task())


def test_an_open_block_is_not_settled():
    assert settled("```python\nx = 1\n```\n")
    unfinished_fence = "```python\nx = 1\n``"
    unfinished_line = "```python\nx = 1\n```"
    fence_in_string = '```python\n"""\n    ```\n'
    for text in (unfinished_fence, unfinished_line, fence_in_string):
        assert not settled(text)


def test_ignores_reasoning_before_the_answer():
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
def test_extracts_the_body_from_answers_with_unusual_fences(answer):
    assert extract_body(answer, task()) == INNER


def chunk(path, text):
    return Chunk(path, 0, len(text), 1, text.count("\n") + 1, text, len(text))


def test_the_context_names_each_file_and_stays_within_its_budget():
    chunks = [chunk("a.py", "x = 1\n"), chunk("b.py", "y = 2\n" * 50)]
    text, used = context_text(chunks, len, 600)
    assert [c.document for c in used] == ["a.py", "b.py"]
    assert len(text) <= 600
    lines = text.splitlines()
    assert all(line.startswith("#") for line in lines)
    assert "# a.py" in lines
    assert lines.count("# y = 2") < 50
    assert context_text(chunks, len, 10) == ("", [])
    assert context_text([], len, 600) == ("", [])


def test_truncating_the_left_context_keeps_the_function_signature():
    text = "import os\n" * 50 + "def f(\n    a,\n):\n"
    long_task = repo_task(text, "f", "    return a", lineno=53, def_lineno=50)
    assert body_prompts.left_context(long_task, len, 5) == "def f(\n    a,\n):"
    assert body_prompts.left_context(long_task, len, 40).count("import os") == 2
    assert body_prompts.left_context(long_task, len, 10_000) == long_task.prompt.rstrip("\n")


def test_the_prompt_ends_with_the_code_to_continue():
    with_context = body_prompts.prompt(task(), "def f(a):", "# context\n")
    assert with_context == "# context\n\n\ndef f(a):\n"
    assert body_prompts.prompt(task(), "def f(a):", "") == "def f(a):\n"
    chat = body_prompts.prompt(task(), "def f(a):", "# context\n", chat=True)
    instruction = "body of the function `f`"
    assert chat.index("# context") < chat.index("def f(a):") < chat.index(instruction)


@pytest.mark.parametrize("indent", ["    ", "        "])
@pytest.mark.parametrize(
    "after", ["", "\n", "\n\ndef g():\n    return 1\n", "\n\n\n# next\nclass C:\n", "\n@cached\n"]
)
def test_a_continuation_ends_before_the_next_definition(indent, after):
    body = textwrap.indent(BODY, indent)
    found = continued_body(body + after, task(indent)).split("\n")
    assert found[:4] == body.split("\n")
    assert [line.strip() for line in found[4:]] in ([], ["", "", "# next"])
    starts_definition = any(word in after for word in ("def", "class", "@"))
    assert ended(body + after) is starts_definition


@pytest.mark.parametrize("text", ["", "\n\n", "def g():\n    return 1\n", "  x = 1\n"])
def test_a_continuation_without_a_body_gives_an_empty_string(text):
    assert continued_body(text, task()) == ""


@given(
    st.text(alphabet=list("ab \n#:"), max_size=40), st.text(alphabet=list("ab \n#:"), max_size=20)
)
def test_text_after_an_ended_body_does_not_change_the_body(text, more):
    if ended(text):
        assert ended(text + more)
        assert continued_body(text + more, task()) == continued_body(text, task())
