"""Functions and blocks of Python source, checked in two independent ways.

Random source has known functions and blocks by construction. Functions of existing source are compared with
Python's own symbol tables.
"""

from __future__ import annotations

import symtable
import sysconfig
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given

from pkg_lib.core.types import Document
from pkg_lib.graph.code import functions_of, parses, sources_of

from .source_trees import Expected, bodies, render

SAMPLE = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[::8]
# Scopes that symtable lists as functions, although no `def` statement defines them.
HIDDEN = {"lambda", "listcomp", "setcomp", "dictcomp", "genexpr", "top"}


def by_symtable(source: str) -> Counter[str]:
    """Count function names in the compiler's symbol tables."""
    tables = [symtable.symtable(source, "x", "exec")]
    for table in tables:
        tables += table.get_children()
    names: Counter[str] = Counter()
    for table in tables:
        if table.get_type() == "function" and table.get_name() not in HIDDEN:
            names[table.get_name()] += 1
    return names


@given(bodies)
def test_finds_the_functions_and_blocks_of_generated_source(body):
    out = Expected()
    render(body, out)
    functions = {}
    for function in functions_of("\n".join(out.lines) + "\n"):
        blocks = []
        for block in function.blocks:
            parent = function.blocks[block.parent].first if block.parent >= 0 else 0
            blocks.append((block.first, block.last, parent))
        functions[function.name, function.first, function.last] = sorted(blocks)
    assert functions == {key: sorted(blocks) for key, blocks in out.functions.items()}


def test_finds_the_functions_that_symtable_finds(textbook):
    documents, _ = textbook
    sources = [document.text for document in documents]
    sources += [path.read_text("utf8") for path in SAMPLE]
    for source in sources:
        functions = functions_of(source)
        lines = source.split("\n")
        assert Counter(function.name for function in functions) == by_symtable(source)
        for function in functions:
            assert lines[function.first - 1].lstrip().startswith(("@", "def ", "async "))
            for block in function.blocks:
                outer = function.blocks[block.parent] if block.parent >= 0 else function
                assert block.parent == 0 or outer.first < block.first
                assert outer.first <= block.first <= block.last <= outer.last
            assert {block.parent for block in function.blocks[:1]} <= {-1}
            assert all(block.parent >= 0 for block in function.blocks[1:])


# The body of a function, and its inner blocks as (first line, last line, index of the parent).
CASES = {
    "elif": ("if a:\n  x\n elif b:\n  y\n else:\n  z\n", [(2, 7, -1), (4, 7, 0)]),
    "else": ("for a in b:\n  x\n else:\n  if c:\n   y\n", [(2, 6, -1), (5, 6, 0)]),
    "except": ("try:\n  x\n except E:\n  if c:\n   y\n", [(2, 6, -1), (5, 6, 0)]),
    "finally": ("try:\n  x\n finally:\n  with d:\n   z\n", [(2, 6, -1), (5, 6, 0)]),
    "except*": ("try:\n  x\n except* E:\n  if c:\n   y\n", [(2, 6, -1), (5, 6, 0)]),
    "case": ("match a:\n  case 1:\n   while b:\n    y\n  case _:\n   z\n", [(2, 7, -1), (4, 5, 0)]),
    "async": ("async for a in b:\n  async with c:\n   d\n", [(2, 4, -1), (3, 4, 0)]),
    "class": ("class A:\n  if a:\n   b = 1\n", [(2, 4, -1), (3, 4, 0)]),
    "one line": ("if a: return 1\n while b: c; d\n", [(2, 2, -1), (3, 3, -1)]),
    "last line": ("if a:\n  x = '''\n\n'''\n # comment\n", [(2, 5, -1)]),
}


@pytest.mark.parametrize("case", CASES)
def test_finds_blocks_inside_branches(case):
    body, blocks = CASES[case]
    (function,) = functions_of(f"async def f():\n {body}")
    whole, *inside = function.blocks
    assert (whole.first, whole.last, whole.parent) == (2, function.last, -1)
    assert [(block.first, block.last, block.parent - 1) for block in inside] == blocks


BODIES = {
    "def f(): return 1\n": [],
    "def f(\n    a): return 1\n": [],
    "def f():\n    '''doc'''\n": [],
    "def f(\n    a):\n    '''doc\n    more'''\n    # why\n    return 1\n": [(6, 6)],
    "def f():\n    '''doc'''; x = 1\n    return x\n": [(3, 3)],
    "def f():\n    'é'; x = 1\n": [],
    "def f():\n    @a\n    def g(): pass\n    return g\n": [(2, 4), (2, 3)],
}


@pytest.mark.parametrize("source", BODIES)
def test_a_body_starts_after_the_docstring(source):
    function, *_ = functions_of(source)
    assert [(block.first, block.last) for block in function.blocks] == BODIES[source]


def test_finds_methods_of_classes_and_of_local_classes():
    source = "class A:\n    def m(self):\n        class B:\n            async def n(self): pass\n"
    outer, inner = functions_of(source)
    assert outer.name == "m"
    assert (inner.name, inner.first, inner.last) == ("n", 4, 4)
    blocks = [(block.first, block.last, block.parent) for block in outer.blocks]
    assert blocks == [(3, 4, -1), (3, 4, 0), (4, 4, 1)]
    assert not inner.blocks


CODE = "def f():\n    pass\n"
MARKS = ("```python", "```", "```py", "``` python", "```python3", "```Python ", "  ```python")


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        *((f"Text\n{mark}\n{CODE}```\nmore def", [(2, CODE)]) for mark in MARKS),
        # A fence of another language does not swallow what follows.
        (f"```bash\npip install def \n```\nText\n```python\n{CODE}```\n", [(5, CODE)]),
        # More than the language, a fence that is never closed, a tab after def.
        (f"Here:\n```python title=one.py\n{CODE}```\n```\n{CODE}```\n", [(2, CODE), (6, CODE)]),
        (f"```python\n{CODE}```\nand\n```python\n{CODE}", [(1, CODE), (6, CODE)]),
        ("```\ndef\tg():\n    return 2\n```\n", [(1, "def\tg():\n    return 2\n")]),
        (CODE, [(0, CODE)]),
        # A list item's indentation is no part of the code; lines are counted in the answer.
        ("1. So:\n\n   ```python\n   def f():\n       pass\n   ```\n", [(3, CODE)]),
        (f"~~~python\n{CODE}~~~\n", [(1, CODE)]),
        (f"````markdown\n```python\n{CODE}```\n````\n", []),
        ("No code here.", []),
    ],
)
def test_extracts_the_code_blocks_of_an_answer(text, sources):
    assert sources_of(Document("a", text, kind="answer")) == sources


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("x = 1", True),
        ("    def m(self):\n        return 1", True),
        ("    x = '''\nat the margin\n'''", True),
        ("return 1", True),
        ("if x:", False),
        ("elif x:\n    pass", False),
        ("", True),
        ("x\0", False),
        ("(" * 300 + ")" * 300, False),
    ],
)
def test_recognises_source_that_parses(text, good):
    assert parses(text) is good


HEADS = (
    "@(\n    wrap\n)\n",
    "@\\\nwrap\n",
    "@ (  # why\n\n  a\n  @ b)\n",
    "@(\n    a)\n@b\n",
    "@a\n@(\n    b\n)\n",
)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("indent", ["", "  "])
def test_a_function_starts_at_the_first_decorator(head, indent):
    body = f"{head}def f():\n    return 1\n".replace("\n", f"\n{indent}").rstrip(" ")
    source = f"if 1:\n{indent}{body}" if indent else f"x = 1\n{body}"
    (function,) = functions_of(source)
    text = "\n".join(source.split("\n")[function.first - 1 : function.last])
    assert function.first == 2
    assert parses(text)
