"""What the model is asked for a repository task, and the function's body in its answer.

The prompt is CodeRAG-Bench's (Wang et al., 2024), which cAST follows: retrieved fragments as comments, then
the code that precedes the body, for the model to go on; a second form asks the same in a chat turn.
"""

import ast
import re
import textwrap
from collections.abc import Callable

from pkg_lib.data.functions import RepoTask, first_line
from pkg_lib.generation.answer_text import answer
from pkg_lib.generation.extraction import Region, bare_code, blocks, is_code
from pkg_lib.graph.code import is_python

CONTEXT_TOKENS = 1000  # the paper has 4,000; two processor cores read no more in reasonable time
LEFT_TOKENS = 500
MAX_NEW_TOKENS = 256
RULE = "-" * 50
FIRST = "Complete the last function of this Python file: write its body.\n\n```python\n"
LAST = (
    "\n```\n\nWrite only the body of the function `{name}`, that is the lines that come next, inside one "
    "```python code block. Do not repeat the signature or the docstring."
)


def left_context(task: RepoTask, measure: Callable[[str], int], limit: int = LEFT_TOKENS) -> str:
    """As many of the prompt's last lines as fit into `limit`, and never less than the function's own head."""
    from pkg_lib.retrieval.budget import largest

    lines = task.prompt.rstrip("\n").split("\n")
    head = min(task.lineno - task.def_lineno if task.def_lineno >= 0 else 1, len(lines))
    shown = largest(head, len(lines), lambda n: measure("\n".join(lines[-n:])) <= limit)
    return "\n".join(lines[-shown:])


def prompt(task: RepoTask, left: str, context: str, chat: bool = False) -> str:
    """The code to continue; with `chat` as the user's turn."""
    code = f"{context}\n\n{left}" if context else left
    return FIRST + code + LAST.format(name=task.entry_point) if chat else code + "\n"


def ended(text: str) -> bool:
    """Whether a continuation has left the body: a line of code stands left of its first line."""
    lines = text.split("\n")
    return len(_block(lines)) < len(lines) - _leading(lines)


def continued_body(text: str, task: RepoTask) -> str:
    """The body at the start of a continuation, indented as the task's is; "" where there is none."""
    lines = _block(text.replace("\t", "    ").split("\n"))
    if not lines or _indent(lines[0]) < len(task.indent):
        return ""
    return textwrap.indent(textwrap.dedent("\n".join(lines)).strip("\n").rstrip(), task.indent)


def settled(text: str) -> bool:
    """Whether nothing that follows can change the extraction: the first block with text in it is closed."""
    return any(region.closed and region.code.strip() for region in blocks(text))


def code_block(text: str, entry_point: str = "") -> Region:
    """Return the code of an answer.

    Returns:
        The first fenced block that holds code. Without one, the longest run of lines that defines the entry
        point or is a function body, else the whole answer.
    """
    text = answer(text)
    regions = [region for region in blocks(text) if region.code.strip()]
    for region in regions:
        if is_code(region):
            return region
    bare = text if is_python(text) else bare_code(text, entry_point)
    if bare:
        return Region(bare, False)
    if regions:
        return regions[0]
    return Region("" if blocks(text) else text, False)


def extract_body(text: str, task: RepoTask) -> str:
    """The function's body in a model's answer, indented as the task's is; "" where there is none.

    1. The first code block with text in it; without any block the lines that are a body, else the whole text.
    2. Where it defines a function of the task's name: that function's body, without a docstring.
    3. Else its lines up to the first one that stands left of the first one (CodeRAG-Bench's rule).
    What else the block defines or imports is left out: only a body was asked for.
    """
    code = code_block(text, task.entry_point).code.replace("\t", "    ")
    head = re.search(
        rf"^([ \t]*)(?:async[ \t]+)?def[ \t]+{re.escape(task.entry_point)}\b", code, re.M
    )
    lines = _body_of_definition(code, task.entry_point, head) if head else _block(code.split("\n"))
    body = textwrap.dedent("\n".join(lines)).strip("\n")
    return textwrap.indent(body, task.indent) if body.strip() else ""


def _body_of_definition(code: str, name: str, head: re.Match[str]) -> list[str]:
    definition = _dedented(code[head.start() :], head[1])
    lines = definition.split("\n")
    try:
        nodes = ast.walk(ast.parse(definition))
    except (
        SyntaxError
    ):  # cut off: take what follows the signature, up to the first colon at a line's end
        ends = (i for i, line in enumerate(lines) if line.split("#")[0].rstrip().endswith(":"))
        return _block(lines[next(ends, len(lines)) + 1 :])
    node = next(
        n
        for n in nodes
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.name == name
    )
    statements = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    if not statements:
        return []
    first = first_line(statements[0])
    if first == node.lineno:
        return [ast.get_source_segment(definition, s) or "" for s in statements]
    return lines[first - 1 : node.end_lineno]


def _dedented(code: str, indent: str) -> str:
    """The lines of a definition that starts the text, up to the first one left of it, dedented."""
    first, *rest = code.split("\n")
    end = next(
        (i for i, line in enumerate(rest) if line.strip() and not line.startswith(indent)),
        len(rest),
    )
    return "\n".join(line[len(indent) :] for line in [first, *rest[:end]])


def _block(lines: list[str]) -> list[str]:
    """From the first line with text up to the first one left of it; comments there move to the right."""
    start = _leading(lines)
    kept: list[str] = []
    for line in lines[start:]:
        left = bool(line.strip()) and _indent(line) < _indent(lines[start])
        if left and not line.lstrip().startswith("#"):
            break
        kept.append(" " * _indent(lines[start]) + line.lstrip() if left else line)
    return kept


def _leading(lines: list[str]) -> int:
    return next((i for i, line in enumerate(lines) if line.strip()), len(lines))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
