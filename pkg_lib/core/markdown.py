"""Code fences of a Markdown text, as CommonMark defines them.

All readers of fences use this module: for the solution in a model's answer, function bodies, JSON
answers and the code in answers of a corpus. It deviates from CommonMark in three points, which suit
answers of models. An HTML tag on the line before a fence does not hide the fence. The code keeps
every character, NUL included. The indentation of an opening fence is removed from the code only if
all its lines have it.
"""

from dataclasses import dataclass
from functools import cache

from markdown_it import MarkdownIt

MARKS = ("```", "~~~")
MAX_NESTING = 8  # levels of lists and quotes; the parser's time grows with it


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced code block.

    Attributes:
        language: First word of the info string; "" without one.
        code: Lines between the fences, without the indentation of a list item or the marks of a
            quote.
        closed: Whether its closing line is there and ended, so that no later text can belong to the
            block.
        line: Number of the first line of code in the text, counted from 0.
        mark: The opening run of backticks or tildes.
    """

    language: str
    code: str
    closed: bool
    line: int
    mark: str


def fences(text: str) -> list[Fence]:
    r"""List the fenced code blocks of a Markdown text in order.

    Args:
        text: Markdown. The caller limits its size.

    Returns:
        The blocks at any level of lists and quotes. Line ends are "\n" in their code.
    """
    text = with_plain_line_ends(text)
    if not any(mark in text for mark in MARKS):
        return []
    lines = text.split("\n")
    found = []
    for token in _reader().parse(text):
        if token.type != "fence" or token.map is None:
            continue
        start, end = token.map
        code = token.content
        code_lines = code.count("\n")
        if code and not code.endswith("\n"):
            code_lines += 1
        has_closing_line = end - start - 1 > code_lines
        closed = has_closing_line and end < len(lines)
        if token.level == 0:
            written = lines[start + 1 : end - 1] if has_closing_line else lines[start + 1 :]
            if has_closing_line and written:
                written.append("")
            code = _without_indent_of_fence(lines[start], written, code)
        language = (token.info.split() or [""])[0]
        found.append(Fence(language, code, closed, start + 1, token.markup))
    return found


def _without_indent_of_fence(fence_line: str, lines: list[str], stripped: str) -> str:
    """The code as CommonMark strips it; as written if some line lacks the fence's indentation."""
    indent = len(fence_line) - len(fence_line.lstrip(" "))
    lacking = any(line.strip() and line[:indent].strip() for line in lines)
    return "\n".join(lines) if lacking or not indent else stripped


def with_plain_line_ends(text: str) -> str:
    r"""Replace "\r\n" and "\r", which are line ends for CommonMark and Python, by "\n".

    Args:
        text: Any text.
    """
    return text.replace("\r\n", "\n").replace("\r", "\n")


@cache
def _reader() -> MarkdownIt:
    rules = ["blockquote", "code", "fence", "hr", "list"]
    reader = MarkdownIt("zero", {"maxNesting": MAX_NESTING}).enable(rules)
    # "normalize" would replace NUL, so that a program other than the model's would be judged.
    reader.core.ruler.disable(["normalize", "inline", "text_join"])
    return reader
