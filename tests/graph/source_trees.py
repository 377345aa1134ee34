"""Random Python source whose functions and blocks are known by construction."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from pkg_lib.graph.schema import Graph

# Statements without a suite, each as its lines.
SIMPLE = (
    ["x = 1"],
    ["pass"],
    ["# a comment", "x = [", "    1,", "]"],
    ['"""a string', "def not_a_function():", '"""'],
    ["x = 1; y = lambda: 0"],
    ["return_value = 'if x: for'", ""],
)

# The lines of compound statements. A suite follows each line that ends in ":", except after `match`, whose
# next line is indented.
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
Block = tuple[int, int, int]


def _bodies(inner: st.SearchStrategy) -> st.SearchStrategy:
    """Bodies of simple and compound statements, whose suites come from another strategy."""
    suites = st.lists(inner, min_size=4, max_size=4)
    compound = st.tuples(st.sampled_from(SHAPES), suites)
    statement = st.one_of(st.sampled_from(SIMPLE), compound)
    return st.lists(statement, min_size=1, max_size=3)


_simple_bodies = st.lists(
    st.sampled_from(SIMPLE),
    min_size=1,
    max_size=2,
)
bodies = st.recursive(_simple_bodies, _bodies, max_leaves=14)


@dataclass
class Expected:
    """Generated source and what it consists of.

    Attributes:
        lines: The lines of the source.
        functions: The blocks of each function by (name, first line, last line). A block is (first line, last
            line, first line of its parent block). The outermost block is the function's body; its parent is 0.
        count: Number of functions that were started, from which their names are made.
    """

    lines: list[str] = field(default_factory=list)
    functions: dict[tuple[str, int, int], list[Block]] = field(default_factory=dict)
    count: int = 0


def render(
    body: list,
    out: Expected,
    depth: int = 0,
    blocks: list | None = None,
    parent: int = 0,
) -> int:
    """Append the source of a body.

    Args:
        body: The statements, drawn from `bodies`.
        out: The source, which is extended.
        depth: Levels of indentation.
        blocks: Blocks of the innermost function around the body, which are extended.
        parent: First line of the block around the body; 0 without one.

    Returns:
        The last line of the body.
    """
    if blocks is None:
        blocks = []
    last = 0
    for statement in body:
        if isinstance(statement, list):
            last = _render_simple(statement, out, depth)
        else:
            last = _render_compound(
                statement,
                out,
                depth,
                blocks,
                parent,
            )
    return last


def _render_simple(lines: list[str], out: Expected, depth: int) -> int:
    """Append a simple statement and return its last line."""
    indentation = "    " * depth
    inside_string = False
    for line in lines:
        if line and not inside_string:
            out.lines.append(indentation + line)
        else:
            out.lines.append(line)
        if line.count('"""') % 2 == 1:
            inside_string = not inside_string
    last = len(out.lines)
    # A blank line after a statement does not belong to it.
    return last - 1 if lines[-1] == "" else last


def _first_line_of_body(suite: list, line: int) -> int:
    """Return the first line of a function's body without its docstring.

    Args:
        suite: The statements of the function.
        line: The line where the suite starts.

    Returns:
        The first line; 0 if there is only a docstring.
    """
    first = suite[0]
    if isinstance(first, list) and first[0].startswith('"""'):
        if len(suite) == 1:
            return 0
        line += len(first)
        first = suite[1]
    starts_with_comment = first[0] == "# a comment"
    return line + 1 if starts_with_comment else line


def _render_compound(
    statement: tuple,
    out: Expected,
    depth: int,
    blocks: list,
    parent: int,
) -> int:
    """Append a compound statement and return its last line; see `render`."""
    shape, suites = statement
    waiting = iter(suites)
    first = len(out.lines) + 1
    last = 0
    name = ""
    inner_blocks = blocks
    owner = first  # first line of the block around the next suite
    if any("NAME" in line for line in shape):
        out.count += 1
        name = f"f{out.count}"
        inner_blocks = []
        owner = 0
    following_lines = (*shape[1:], "")
    for line, following in zip(shape, following_lines, strict=True):
        out.lines.append("    " * depth + line.replace("NAME", name))
        if line.startswith("elif"):
            # `elif` is an `if` statement inside the `else` of the first one.
            owner = len(out.lines)
        if not line.endswith(":") or following.startswith(" "):
            continue
        suite = next(waiting)
        if name:
            owner = _first_line_of_body(suite, len(out.lines) + 1)
        inner_depth = depth + 2 if line.startswith(" ") else depth + 1
        last = render(
            suite,
            out,
            inner_depth,
            inner_blocks,
            owner,
        )
    if name:
        if owner:
            inner_blocks.append((owner, last, 0))
        out.functions[name, first, last] = inner_blocks
    elif owner != first:
        blocks.append((owner, last, first))
    blocks.append((first, last, parent))
    return last


def same_graph(first: Graph, second: Graph) -> bool:
    """Return whether two graphs agree in tables, documents, skipped documents and metadata."""
    return (
        first.documents == second.documents
        and first.skipped == second.skipped
        and first.meta == second.meta
        and first.nodes.equals(second.nodes)
        and first.texts.equals(second.texts)
    )
