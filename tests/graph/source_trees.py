"""Generated Python source with its functions and blocks known by construction."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

SIMPLE = (
    ["x = 1"],
    ["pass"],
    ["# a comment", "x = [", "    1,", "]"],
    ['"""a string', "def not_a_function():", '"""'],
    ["x = 1; y = lambda: 0"],
    ["return_value = 'if x: for'", ""],
)

# Each compound statement: the header of every suite; None takes the suite away.
SHAPES = (
    ("if x:",),
    ("if x:", "else:"),
    ("if x:", "elif y:", "else:"),
    ("for x in y:", "else:"),
    ("while x:",),
    ("try:", "except ValueError:", "else:", "finally:"),
    ("try:", "except* OSError as e:"),
    ("with x as y:",),
    ("match x:",),
    ("class C:",),
    ("@deco", "class C:"),
    ("def f{n}(",),
    ("@deco", "@deco(", "async def f{n}(self):"),
)

bodies = st.recursive(
    st.lists(st.sampled_from(SIMPLE), min_size=1, max_size=2),
    lambda inner: st.lists(
        st.one_of(
            st.sampled_from(SIMPLE),
            st.tuples(st.sampled_from(SHAPES), st.lists(inner, min_size=4, max_size=4)),
        ),
        min_size=1,
        max_size=3,
    ),
    max_leaves=14,
)


@dataclass
class Expected:
    """`functions`: (name, first, last) -> blocks, each (first, last, first line of its parent block or 0)."""

    lines: list[str] = field(default_factory=list)
    functions: dict[tuple[str, int, int], list[tuple[int, int, int]]] = field(default_factory=dict)
    count: int = 0


def render(body: list, out: Expected, depth: int = 0, blocks: list | None = None, parent: int = 0) -> int:
    """Writes a body and returns its last line; `blocks` collects those of the innermost function around
    it."""
    last = 0
    for item in body:
        last = (
            _simple(item, out, depth)
            if isinstance(item, list)
            else _compound(*item, out, depth, blocks, parent)
        )
    return last


def _simple(lines: list[str], out: Expected, depth: int) -> int:
    inside_string = False
    for line in lines:
        out.lines.append(line if inside_string or not line else "    " * depth + line)
        inside_string ^= line.count('"""') % 2 == 1
    return len(out.lines) - (lines[-1] == "")  # a blank line after a statement is no part of it


def _compound(shape: tuple, suites: list, out: Expected, depth: int, blocks: list | None, parent: int) -> int:
    pad, first = "    " * depth, len(out.lines) + 1
    if "f{n}" in shape[-1]:
        return _function(shape, suites[0], out, depth, blocks, parent)
    if shape[-1] == "class C:":
        out.lines += [pad + line for line in shape]
        last = _with_block(blocks, first, parent, lambda: render(suites[0], out, depth + 1, blocks, first))
    elif shape == ("match x:",):
        out.lines += [pad + "match x:", pad + "    case 1:"]
        last = _with_block(blocks, first, parent, lambda: render(suites[0], out, depth + 2, blocks, first))
    else:
        last = _with_block(blocks, first, parent, lambda: _suites(shape, suites, out, depth, blocks, first))
    return last


def _with_block(blocks: list | None, first: int, parent: int, write) -> int:
    place = None if blocks is None else len(blocks)
    if blocks is not None:
        blocks.append(None)
    last = write()
    if blocks is not None:
        blocks[place] = (first, last, parent)
    return last


def _suites(shape: tuple, suites: list, out: Expected, depth: int, blocks: list | None, first: int) -> int:
    pad, last, owner = "    " * depth, 0, first
    elif_place = None
    for header, suite in zip(shape, suites, strict=False):
        out.lines.append(pad + header)
        if header.startswith("elif"):  # an `if` of its own inside the first one's else
            elif_first = len(out.lines)
            if blocks is not None:
                elif_place = len(blocks)
                blocks.append(None)
            owner = elif_first
        last = render(suite, out, depth + 1, blocks, owner)
    if elif_place is not None:
        blocks[elif_place] = (owner, last, first)
    return last


def _function(shape: tuple, suite: list, out: Expected, depth: int, blocks: list | None, parent: int) -> int:
    pad, first = "    " * depth, len(out.lines) + 1
    out.count += 1
    name = f"f{out.count}"
    for line in shape:
        text = line.replace("f{n}", name)
        out.lines.append(pad + text)
        if text == "@deco(":
            out.lines += [pad + "    1", pad + ")"]
    if shape[-1].endswith("("):
        out.lines += [pad + "    a, b=(1,", pad + "    2)", pad + "):"]
    own: list = []
    place = None if blocks is None else len(blocks)
    if blocks is not None:
        blocks.append(None)
    last = render(suite, out, depth + 1, own, 0)
    out.functions[name, first, last] = own
    if blocks is not None:
        blocks[place] = (first, last, parent)
    return last
