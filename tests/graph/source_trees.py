"""Generated Python source with its functions and blocks known by construction."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from pkg_lib.graph.schema import Graph

SIMPLE = (
    ["x = 1"],
    ["pass"],
    ["# a comment", "x = [", "    1,", "]"],
    ['"""a string', "def not_a_function():", '"""'],
    ["x = 1; y = lambda: 0"],
    ["return_value = 'if x: for'", ""],
)

# The lines of a compound statement. A suite follows each that ends in ":", but for match's own.
SHAPES = (
    ("if x:",),
    ("if x:", "else:"),
    ("if x:", "elif y:", "else:"),
    ("for x in y:", "else:"),
    ("while x:",),
    ("try:", "except ValueError:", "else:", "finally:"),
    ("try:", "except* OSError as e:"),
    ("with x as y:",),
    ("match x:", "    case 1:"),
    ("class C:",),
    ("@deco", "class C:"),
    ("def NAME(", "    a, b=(1,", "    2)", "):"),
    ("@deco", "@deco(", "    1", ")", "async def NAME(self):"),
)


def _bodies(inner: st.SearchStrategy) -> st.SearchStrategy:
    compound = st.tuples(st.sampled_from(SHAPES), st.lists(inner, min_size=4, max_size=4))
    return st.lists(st.one_of(st.sampled_from(SIMPLE), compound), min_size=1, max_size=3)


bodies = st.recursive(
    st.lists(st.sampled_from(SIMPLE), min_size=1, max_size=2), _bodies, max_leaves=14
)


@dataclass
class Expected:
    """`functions`: (name, first, last) -> blocks, each (first, last, first line of its parent block or 0).

    The outermost block is the function's body, whose parent is 0.
    """

    lines: list[str] = field(default_factory=list)
    functions: dict[tuple[str, int, int], list[tuple[int, int, int]]] = field(default_factory=dict)
    count: int = 0


def render(
    body: list, out: Expected, depth: int = 0, blocks: list | None = None, parent: int = 0
) -> int:
    """Writes a body and returns its last line; `blocks` are those of the innermost function around it."""
    blocks, last = [] if blocks is None else blocks, 0
    for item in body:
        write = _simple if isinstance(item, list) else _compound
        last = write(item, out, depth, blocks, parent)
    return last


def _simple(lines: list[str], out: Expected, depth: int, *_: object) -> int:
    inside_string = False
    for line in lines:
        out.lines.append(line if inside_string or not line else "    " * depth + line)
        inside_string ^= line.count('"""') % 2 == 1
    return len(out.lines) - (lines[-1] == "")  # a blank line after a statement is no part of it


def _start(suite: list, line: int) -> int:
    """The first line of a function's body, whose suite starts at `line`; 0 where it is its docstring."""
    strings = isinstance(suite[0], list) and suite[0][0].startswith('"""')
    if strings and len(suite) == 1:
        return 0
    return line + strings * len(suite[0]) + (suite[strings][0] == "# a comment")


def _compound(item: tuple, out: Expected, depth: int, blocks: list, parent: int) -> int:
    shape, suites = item
    first, last, waiting = len(out.lines) + 1, 0, iter(suites)
    name, inner, owner = "", blocks, first
    if any("NAME" in line for line in shape):
        out.count += 1
        name, inner, owner = f"f{out.count}", [], 0
    for line, following in zip(shape, (*shape[1:], ""), strict=True):
        out.lines.append("    " * depth + line.replace("NAME", name))
        if line.startswith("elif"):  # an `if` of its own inside the first one's else
            owner = len(out.lines)
        if line.endswith(":") and not following.startswith(" "):
            suite = next(waiting)
            owner = _start(suite, len(out.lines) + 1) if name else owner
            last = render(suite, out, depth + 1 + line.startswith(" "), inner, owner)
    if name:
        inner += [(owner, last, 0)] if owner else []
        out.functions[name, first, last] = inner
    elif owner != first:
        blocks.append((owner, last, first))
    blocks.append((first, last, parent))
    return last


def same_graph(a: Graph, b: Graph) -> bool:
    """Whether two graphs are the same in every table, document and reason."""
    about = (a.documents, a.skipped, a.meta) == (b.documents, b.skipped, b.meta)
    return about and a.nodes.equals(b.nodes) and a.texts.equals(b.texts)
