"""Functions and blocks against two independent methods: known by construction, and Python's own symtable."""

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
HIDDEN = {"lambda", "listcomp", "setcomp", "dictcomp", "genexpr", "top"}


def by_symtable(source: str) -> Counter[str]:
    """Function names as the compiler's symbol tables have them."""
    stack = [symtable.symtable(source, "x", "exec")]
    for table in stack:
        stack += table.get_children()
    functions = (table.get_name() for table in stack if table.get_type() == "function")
    return Counter(name for name in functions if name not in HIDDEN)


@given(bodies)
def test_generated_source_gives_what_it_was_made_of(body):
    out = Expected()
    render(body, out)
    functions = {}
    for f in functions_of("\n".join(out.lines) + "\n"):
        parents = [f.blocks[b.parent].first if b.parent >= 0 else 0 for b in f.blocks]
        blocks = sorted((b.first, b.last, p) for b, p in zip(f.blocks, parents, strict=True))
        functions[f.name, f.first, f.last] = blocks
    assert functions == {k: sorted(v) for k, v in out.functions.items()}


def test_textbook_and_standard_library_agree_with_symtable(textbook):
    for source in [d.text for d in textbook[0]] + [path.read_text("utf8") for path in SAMPLE]:
        functions, lines = functions_of(source), source.split("\n")
        assert Counter(f.name for f in functions) == by_symtable(source)
        for f in functions:
            assert lines[f.first - 1].lstrip().startswith(("@", "def ", "async "))
            for b in f.blocks:
                around = f.blocks[b.parent] if b.parent >= 0 else f
                inside = b.parent == 0 or around.first < b.first
                assert inside and around.first <= b.first <= b.last <= around.last
            assert {b.parent for b in f.blocks[:1]} <= {-1} and all(
                b.parent >= 0 for b in f.blocks[1:]
            )


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
def test_branches(case):
    body, blocks = CASES[case]
    (function,) = functions_of(f"async def f():\n {body}")
    whole, *inside = function.blocks
    assert (whole.first, whole.last, whole.parent) == (2, function.last, -1)
    assert [(b.first, b.last, b.parent - 1) for b in inside] == blocks


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
def test_a_body_starts_below_the_docstring(source):
    assert [(b.first, b.last) for b in functions_of(source)[0].blocks] == BODIES[source]


def test_methods_of_classes_and_of_local_classes():
    source = "class A:\n    def m(self):\n        class B:\n            async def n(self): pass\n"
    m, n = functions_of(source)
    assert (m.name, n.name, n.first, n.last) == ("m", "n", 4, 4)
    assert [(b.first, b.last, b.parent) for b in m.blocks] == [
        (3, 4, -1),
        (3, 4, 0),
        (4, 4, 1),
    ] and not n.blocks


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
def test_the_code_of_an_answer(text, sources):
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
def test_parses(text, good):
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
def test_a_function_starts_at_the_at_sign_wherever_its_decorator_stands(head, indent):
    body = f"{head}def f():\n    return 1\n".replace("\n", f"\n{indent}").rstrip(" ")
    source = f"if 1:\n{indent}{body}" if indent else f"x = 1\n{body}"
    (function,) = functions_of(source)
    text = "\n".join(source.split("\n")[function.first - 1 : function.last])
    assert function.first == 2 and parses(text)
