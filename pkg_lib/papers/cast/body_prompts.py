"""Prompts for functions without a body, and the body in a model's answer (cAST, Section 4).

cAST follows the prompt of CodeRAG-Bench (Wang et al., 2024). Retrieved chunks come first, as
comments. The code before the body follows, and the model continues it. A second form asks for the
same in a chat turn.
"""

import ast
import re
import textwrap
from collections.abc import Callable, Mapping
from types import MappingProxyType

from pkg_lib.core.python_syntax import first_line
from pkg_lib.data.functions import RepoTask
from pkg_lib.generation.answer_text import answer
from pkg_lib.generation.extraction import Region, bare_code, blocks, is_code
from pkg_lib.graph.code import is_python

# The paper's default is 4,000 tokens. Two processor cores read a prompt of 1,000 in seconds.
CONTEXT_TOKENS = 1000
LONGER_CONTEXTS = (3500, 4000, 8000)  # Table 3, in tokens
CHUNK_SIZES = (1000, 1500, 2500, 3000)  # Table 4, in characters, beside the chunker's MAX_SIZE
LEFT_TOKENS = 500
BUDGETS: Mapping[str, int] = MappingProxyType(
    {"context_tokens": CONTEXT_TOKENS, "left_tokens": LEFT_TOKENS}
)
MAX_NEW_TOKENS = 256
RULE = "-" * 50
TAB = " " * 4
FIRST = "Complete the last function of this Python file: write its body.\n\n```python\n"
LAST = (
    "\n```\n\nWrite only the body of the function `{name}`, that is the lines that come next, inside one "
    "```python code block. Do not repeat the signature or the docstring."
)


def left_context(
    task: RepoTask,
    measure: Callable[[str], int],
    limit: int = LEFT_TOKENS,
) -> str:
    """Return the end of the code before the body, cut to a budget.

    Args:
        task: The function to complete.
        measure: Counts the tokens of a text.
        limit: The budget in tokens.

    Returns:
        The last lines that fit. The head of the function is always among them.
    """
    from pkg_lib.retrieval.budget import largest  # slow to import

    code = task.prompt.rstrip("\n")
    lines = code.split("\n")
    head_lines = 1
    if task.def_lineno >= 0:
        head_lines = task.lineno - task.def_lineno

    def end(count: int) -> str:
        return "\n".join(lines[-count:])

    shown = largest(
        low=min(head_lines, len(lines)),
        high=len(lines),
        fits=lambda count: measure(end(count)) <= limit,
    )
    return end(shown)


def prompt(
    task: RepoTask,
    left: str,
    context: str,
    chat: bool = False,
) -> str:
    """Return the prompt of a task.

    Args:
        task: The function to complete.
        left: The code before the body, from `left_context`.
        context: Retrieved chunks as comments; "" without retrieval.
        chat: Whether the prompt is a user's turn of a chat.

    Returns:
        The code to continue, in a chat with instructions around it.
    """
    code = left
    if context:
        code = f"{context}\n\n{left}"
    if not chat:
        return code + "\n"
    instruction = LAST.format(name=task.entry_point)
    return FIRST + code + instruction


def ended(text: str) -> bool:
    """Return whether a continuation is past the end of the body.

    Args:
        text: What the model has generated so far.

    Returns:
        True once a line of code is indented less than the first line.
    """
    lines = text.split("\n")
    body = _indented_block(lines)
    rest = len(lines) - _blank_lines(lines)
    return len(body) < rest


def continued_body(text: str, task: RepoTask) -> str:
    """Extract the body from a continuation of the code.

    Args:
        text: The continuation.
        task: The function to complete.

    Returns:
        The body, indented as the reference is; "" if the continuation does not start with a body.
    """
    code = text.replace("\t", TAB)
    lines = _indented_block(code.split("\n"))
    if not lines or _indent(lines[0]) < len(task.indent):
        return ""
    return _indented_as(task, lines).rstrip()


def settled(text: str) -> bool:
    """Return whether a chat answer can stop, because later text cannot change the extraction.

    Args:
        text: What the model has generated so far.

    Returns:
        True once the first code block that is not empty is closed.
    """
    return any(region.closed and region.code.strip() for region in blocks(text))


def code_block(text: str, entry_point: str = "") -> Region:
    """Return the code of an answer.

    Args:
        text: A model's answer.
        entry_point: Name of the function that was asked for.

    Returns:
        The first fenced block that holds code. Without one, the longest run of lines that defines
        the entry point or is a function body, else the whole answer.
    """
    text = answer(text)
    fenced = blocks(text)
    regions = [region for region in fenced if region.code.strip()]
    for region in regions:
        if is_code(region):
            return region
    bare = text if is_python(text) else bare_code(text, entry_point)
    if bare:
        return Region(bare, closed=False)
    if regions:
        return regions[0]
    whole = "" if fenced else text
    return Region(whole, closed=False)


def extract_body(text: str, task: RepoTask) -> str:
    """Extract the function's body from a chat answer.

    1. Take the code of the answer (`code_block`).
    2. If it defines a function of the task's name, take that function's body without its docstring.
    3. Otherwise take the lines before the first one that is indented less than the first line
       (CodeRAG-Bench's rule).

    Other definitions and imports of the answer are dropped, because only a body was asked for.

    Args:
        text: A model's answer.
        task: The function to complete.

    Returns:
        The body, indented as the reference is; "" if the answer has none.
    """
    region = code_block(text, task.entry_point)
    code = region.code.replace("\t", TAB)
    name = re.escape(task.entry_point)
    head = re.search(rf"^( *)(?:async +)?def +{name}\b", code, re.M)
    if head:
        definition = _dedented(code[head.start() :], head[1])
        lines = _body_of_definition(definition, task.entry_point)
    else:
        lines = _indented_block(code.split("\n"))
    body = _indented_as(task, lines)
    return body if body.strip() else ""


def _indented_as(task: RepoTask, lines: list[str]) -> str:
    """Return the lines of a body with the indentation of the task's reference."""
    body = textwrap.dedent("\n".join(lines))
    return textwrap.indent(body.strip("\n"), task.indent)


def _body_of_definition(definition: str, name: str) -> list[str]:
    """Return the lines of the body of the first function of that name."""
    lines = definition.split("\n")
    try:
        tree = ast.parse(definition)
    except SyntaxError:
        return _after_signature(lines)
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    node = next(n for n in ast.walk(tree) if isinstance(n, functions) and n.name == name)
    has_docstring = ast.get_docstring(node, clean=False) is not None
    statements = node.body[has_docstring:]
    if not statements:
        return []
    first = first_line(statements[0])
    if first == node.lineno:  # the body is on the line of the signature
        return [ast.get_source_segment(definition, s) or "" for s in statements]
    return lines[first - 1 : node.end_lineno]


def _after_signature(lines: list[str]) -> list[str]:
    """Return the body of a definition that was cut off: what follows the first colon at a line end."""
    for number, line in enumerate(lines):
        code, _, _ = line.partition("#")
        if code.rstrip().endswith(":"):
            return _indented_block(lines[number + 1 :])
    return []


def _dedented(code: str, indent: str) -> str:
    """Return the definition at the start of the code, without its own indentation."""
    first, *rest = code.split("\n")
    kept = [first]
    for line in rest:
        if line.strip() and not line.startswith(indent):
            break
        kept.append(line)
    return "\n".join(line[len(indent) :] for line in kept)


def _indented_block(lines: list[str]) -> list[str]:
    """Return the lines before the first one that is indented less than the first line with text.

    A comment does not end the block; it is indented like the first line.
    """
    start = _blank_lines(lines)
    if start == len(lines):
        return []
    indent = _indent(lines[start])
    kept: list[str] = []
    for line in lines[start:]:
        if line.strip() and _indent(line) < indent:
            comment = line.lstrip()
            if not comment.startswith("#"):
                break
            line = " " * indent + comment
        kept.append(line)
    return kept


def _blank_lines(lines: list[str]) -> int:
    """Count the blank lines at the start."""
    for number, line in enumerate(lines):
        if line.strip():
            return number
    return len(lines)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
