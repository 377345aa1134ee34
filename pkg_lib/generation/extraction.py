"""Extract the solution from a model's text, by one rule for every model and for the control rows.

docs/extraction.md states the rule in full. In short:

1. ``answer`` removes reasoning and end tokens (``answer_text.py``).
2. ``blocks`` reads code regions from ``[PYTHON]`` tags or CommonMark fences.
3. ``extract`` returns the first region that is valid Python and defines the entry point. Without
   such a region it reads the answer more leniently.

A model that only continues a prompt (style ``plain``) may write more than the function body;
``continued`` ends its text there. A text is *settled* when no further text of the model can change
its extraction.
"""

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice

from pkg_lib.core import limits
from pkg_lib.core.markdown import MARKS, Fence, fences
from pkg_lib.core.python_syntax import is_constant, parsed_or_none
from pkg_lib.core.types import Task
from pkg_lib.generation.answer_text import MAX_REMEMBERED, REMEMBERED, TRIPLES, answer
from pkg_lib.generation.code_search import (
    dedented,
    first_line_of,
    has_effect,
    indent_of,
    longest_run,
    without_margin,
)
from pkg_lib.generation.completion import Completion
from pkg_lib.generation.imports import with_missing_imports, without_future_imports

MAX_MARKS = 20  # fence marks inside a block at which it is cut on trial
MAX_PREFIX = 200  # characters before a function on its line in which tags are searched
PATTERNS = 4096  # entry points whose patterns are kept; `re` keeps fewer than a benchmark has
INDENT = "    "  # of a function body

_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
_TAG = re.compile(r"\[PYTHON\][ \t]*\n?(.*?)(\[/PYTHON\]|\Z)", re.S)
_DEF = re.compile(r"[ \t\f]*(?:async[ \t]+)?def[ \t]")
_FENCE_WITH_LANGUAGE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+-]*)[^`\n]*$")
_FENCE_LINES = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^`\n]*$", re.M)
_FENCE_MARK = re.compile(r"`{3,}|~{3,}")
# The marks that separate code from prose outside fences. Some answers quote code like a string.
_PART_MARK = re.compile(r"`{3,}|~{3,}|\[/?PYTHON\]|^(?:'''|\"\"\")(?=(?:python3?|py)[ \t]*$)", re.M)
_INFO = re.compile(r"[ \t]*(?:\{?\.?(?:python3?|py3?|Python)\b[^\n]*|[\w+#.-]*[ \t]*)(?:\n|\Z)")
# Tags such as <answer> or [CODE], a backtick, or a fence with its language, and nothing else.
_MARKS_ALONE = re.compile(
    r"[ \t]*(?:(?:<[^<>\n]{1,60}>|\[[A-Z]{2,20}\]|`{1,2}(?!`))[ \t]*)+"
    r"|[ \t]*(?:`{3,}|~{3,})[ \t]*\w{0,20}[ \t]*"
)
_TAG_NAME = re.compile(r"<(\w{1,60})")
_PYTHON = {"", "python", "python3", "py", "py3", "ipython", "sage", "pycon"}
_INDENTED_START = re.compile(r"\A(?:[ \t]*\n)*[ \t]+\S")
# A line at the left edge that ends a body: no comment, and no end of a bracket or of a string.
_AFTER_BODY = re.compile(r"\n(?=[^\s)\]}\"'#])")
_COMMENTS_AT_THE_END = re.compile(r"(?:\n(?:#[^\n]*|[ \t]*)(?=\n|\Z))+\Z")


@dataclass(frozen=True, slots=True)
class Region:
    """One code region of a model's text.

    Attributes:
        code: The text between the marks.
        closed: Whether the region's end mark is present.
        language: The language that a fence names; "" without one.
    """

    code: str
    closed: bool
    language: str = ""


def extract_solution(
    completion: Completion | str,
    task: Task,
    starts_program: bool = False,
) -> str:
    """Extract the solution of a task from a completion (docs/extraction.md).

    Args:
        completion: A completion, or an answer that is free of reasoning already.
        task: The task that the completion answers.
        starts_program: Whether the judged program begins with the solution. Then imports of
            ``__future__`` are legal in it and stay.

    Returns:
        The solution: a module, or an indented function body. Text without any code is returned
        unchanged, and fails the tests.
    """
    text = completion if isinstance(completion, str) else answer_of(completion)
    return extract(text, task.entry_point, starts_program)


def answer_of(completion: Completion) -> str:
    """Return the part of a completion that is the model's answer.

    Args:
        completion: What a model wrote.

    Returns:
        The text without reasoning and end tokens. For a model that only continues text, the text up
        to the end of the function body. "" for a text above ``limits.MAX_ANSWER_BYTES``, because
        parsing takes many times its size in memory.
    """
    if len(completion.text) > limits.MAX_ANSWER_BYTES:
        return ""
    text = answer(completion.text, completion.model.reasoning_tags)
    return continued(text) if completion.model.style == "plain" else text


def blocks(text: str) -> list[Region]:
    """List the code regions of a model's text in order.

    Args:
        text: The text that a model wrote.

    Returns:
        The contents of ``[PYTHON]`` tags if such a tag precedes the first fence, else of fences.
    """
    return _regions(answer(text))


def _regions(text: str) -> list[Region]:
    tag = text.find("[PYTHON]")
    first_fence = _FENCE_LINES.search(text)
    if tag < 0 or (first_fence and first_fence.start() < tag):
        return [_restarted(fence) for fence in fences(text)]
    regions = []
    for match in _TAG.finditer(text):
        fenced_code = "".join(fence.code for fence in fences(match[1]))
        is_closed = bool(match[2])
        regions.append(Region(fenced_code or match[1], is_closed))
    return regions


def _restarted(fence: Fence) -> Region:
    """Restart a block at a fence with a language if the lines before that fence hold no function.

    Some answers open a fence, continue in prose and then open the real one.
    """
    code, language = fence.code, fence.language
    if any(mark in code for mark in MARKS):
        lines = code.splitlines(keepends=True)
        for number, line in enumerate(lines):
            if _DEF.match(line):
                break
            match = _FENCE_WITH_LANGUAGE.match(line.rstrip("\n"))
            if match and match[2] and match[1].startswith(fence.mark):
                code = "".join(lines[number + 1 :])
                language = match[2]
    return Region(code, fence.closed, language)


def defines(code: str, entry_point: str) -> bool:
    """Tell whether code has a line that defines a function of this name, at any indentation.

    The code need not be valid Python, since it is not parsed. A matching line inside a string
    counts.

    Args:
        code: Any text.
        entry_point: Name of the function; "" if any function counts.

    Returns:
        Whether a line begins with the head of such a function, which may be ``async``.
    """
    return _definition(entry_point).search(code) is not None


@lru_cache(PATTERNS)
def _definition(entry_point: str) -> re.Pattern[str]:
    """Return what finds a line that defines a function of this name."""
    return re.compile(rf"^[ \t\f]*(?:async[ \t]+)?def[ \t]+{re.escape(entry_point)}\b", re.M)


@lru_cache(PATTERNS)
def _head(entry_point: str) -> re.Pattern[str]:
    """Return what finds the head of a function of this name, anywhere in a line."""
    return re.compile(rf"(?:async[ \t]+)?def[ \t]+{re.escape(entry_point)}[ \t]*\(")


def continued(text: str) -> str:
    """Return the function body at the start of a continuation.

    Args:
        text: The text that a model wrote after a prompt.

    Returns:
        The body, without comments at the left edge after it. The whole text if it does not begin
        with a body.
    """
    if not _INDENTED_START.match(text):
        return text
    body = text[: _end_of_body(text)]
    comments = _COMMENTS_AT_THE_END.search(body)
    if comments and "#" in comments[0]:
        return body[: comments.start()]
    return body


def continuation_ended(text: str) -> bool:
    """Tell whether a continuation goes on after its body, so that ``continued`` is final.

    Args:
        text: The text that a model has written after a prompt so far.

    Returns:
        Whether the text begins with a function body and has a later line that is not part of it.
        Comments at the left edge do not end a body, because the model may return to it.
    """
    return bool(_INDENTED_START.match(text)) and _end_of_body(text) is not None


def _end_of_body(text: str) -> int | None:
    """Find the first line at the left edge that is not part of the body; None without one."""
    for match in _AFTER_BODY.finditer(text):
        start = match.start()
        is_in_string = any(text.count(quote, 0, start) % 2 for quote in TRIPLES)
        if not is_in_string:
            return start
    return None


def settled(text: str, entry_point: str) -> bool:
    """Tell whether no continuation of a text can change its extraction.

    This needs a closed block that is valid Python and defines the entry point at module level. One
    exception remains: a closing reasoning tag in the continuation would turn the text before it
    into reasoning. If the chat template opens the reasoning, the caller prepends the opening tag.

    Args:
        text: The text so far.
        entry_point: Name of the function that is tested.

    Returns:
        Whether generation may stop.
    """
    for region in _regions(_with_code_on_its_own_line(answer(text), entry_point)):
        if region.closed and _module_function(region.code, entry_point):
            return True
    return False


def extract(
    text: str,
    entry_point: str,
    starts_program: bool = False,
) -> str:
    """Extract the solution from a model's text (docs/extraction.md).

    Args:
        text: The text that the model wrote.
        entry_point: Name of the function that is tested; "" if any function counts.
        starts_program: Whether the judged program begins with the solution, so that imports of
            ``__future__`` are legal in it.

    Returns:
        The solution. Its indentation is kept, because a bare function body is a valid completion.
        Text without any code is returned unchanged.
    """
    if len(text) > MAX_REMEMBERED:
        return _find(text, entry_point, starts_program)
    return _find_once(text, entry_point, starts_program)


def _find(text: str, entry_point: str, starts_program: bool) -> str:
    text = _with_code_on_its_own_line(answer(text), entry_point)
    regions = _regions(text)
    candidates = _candidates(text, regions, entry_point)
    found = (candidate for candidate in candidates if candidate.code)
    solution = next(found, _Candidate(""))
    start = text.find(first_line_of(solution.code).strip())
    earlier = [text[: max(start, 0)]]
    earlier += [region.code for region in regions[: solution.regions_before]]
    code = with_missing_imports(solution.code, earlier)
    return without_future_imports(code, starts_program)


_find_once = lru_cache(REMEMBERED)(_find)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A possible solution, and how many code regions precede it."""

    code: str
    regions_before: int = 0


def _candidates(
    text: str,
    regions: list[Region],
    entry_point: str,
) -> Iterator[_Candidate]:
    """Try the rules of docs/extraction.md in order of preference.

    Yields:
        The solution that each rule finds; its code is "" if the rule finds none.
    """
    numbered = list(enumerate(regions))
    closed_first = sorted(numbered, key=lambda pair: not pair[1].closed)
    for rule in (_module_function, _function):
        for number, region in closed_first:
            yield _Candidate(rule(region.code, entry_point), number)
    for number, region in closed_first:
        yield _Candidate(_body_with_entry_point(region.code, entry_point), number)
    yield _Candidate(_across_fences(text, entry_point))
    for number, region in numbered:
        yield _Candidate(_inner_function(region.code, entry_point), number)
    parts = _parts(text)
    for part in parts:
        yield _Candidate(_body_with_entry_point(part, entry_point))
    yield _Candidate(longest_run(parts, partial(_function, entry_point=entry_point)))
    for number, region in numbered:
        yield _Candidate(_assigned(region.code, entry_point), number)
    assigning = [part for part in parts if _assigns(part, entry_point)]
    yield _Candidate(longest_run(assigning, partial(_assigned, entry_point=entry_point)))
    defining = [region for region in regions if defines(region.code, entry_point)]
    if entry_point:
        for number, region in numbered:
            signature = regions[number - 1].code if number else ""
            code = _after_signature(region.code, signature, entry_point)
            yield _Candidate(code or _body(region.code), number)
        has_block = bool(defining) or any(map(is_code, regions))
        yield _Candidate(_bare_body(parts[:1] if has_block else parts))
    closed = [region for region in defining if region.closed]
    filled = [region for region in regions if region.code.strip()]
    python = [region for region in filled if region.language.lower() in _PYTHON]
    fallback = closed or defining or python or regions
    yield _Candidate(fallback[0].code if fallback else text)


def is_code(region: Region) -> bool:
    """Tell whether a region is more than the prose after a stray closing fence.

    Such prose looks like the contents of a block without an end mark and without a language.

    Args:
        region: A region that ``blocks`` returned.

    Returns:
        Whether it is not blank and has an end mark, names a language or is valid Python.
    """
    if not region.code.strip():
        return False
    is_marked = region.closed or bool(region.language)
    return is_marked or parsed_or_none(region.code) is not None


def bare_code(text: str, entry_point: str) -> str:
    """Return the longest run of lines that is code, wherever fence marks are.

    Args:
        text: An answer.
        entry_point: Name of the function that is asked for.

    Returns:
        Lines that define the entry point; without any, lines that are a function body; else "".
    """
    parts = _parts(text)
    run = longest_run(parts, partial(_function, entry_point=entry_point))
    return run or _bare_body(parts)


def _bare_body(parts: list[str]) -> str:
    """Return the first part, else the longest run of lines, that is a function body."""
    for part in parts:
        if code := _body(part):
            return code
    return longest_run(parts, _body, are_bodies=True) or longest_run(parts, _body)


def _function(code: str, entry_point: str) -> str:
    """Return the code if it is Python that defines the entry point with a body; "" if not.

    The common indentation is removed if the code is not Python otherwise.
    """
    code, tree = _defining_module(code, entry_point)
    return code if tree and _implement(ast.walk(tree), entry_point) else ""


def _module_function(code: str, entry_point: str) -> str:
    """Do the same as ``_function``, but accept only a function at module level."""
    code, tree = _defining_module(code, entry_point)
    return code if tree and _implement(_outer_nodes(tree.body), entry_point) else ""


def _defining_module(code: str, entry_point: str) -> tuple[str, ast.Module | None]:
    """Parse code that may define the entry point.

    Returns:
        The code, without its common indentation if it is not Python otherwise; and its tree, None if
        the code has no line that defines the entry point, or is not a module.
    """
    if not defines(code, entry_point):
        return code, None
    tree = parsed_or_none(code)
    if tree is None:
        code = dedented(code)
        tree = parsed_or_none(code)
        if tree and _has_outer_return(tree.body):
            return code, None  # It is a function body; see `_body_with_entry_point`.
    return code, tree


def _body_with_entry_point(code: str, entry_point: str) -> str:
    """Return an indented function body in which a function has the name of the entry point.

    Without its indentation, it would be a module that returns, which is not Python.
    """
    if not defines(code, entry_point) or not indent_of(first_line_of(code)):
        return ""
    tree = parsed_or_none(dedented(code))
    return _body(code) if tree and _has_outer_return(tree.body) else ""


def _implement(nodes: Iterable[ast.AST], entry_point: str) -> bool:
    """Tell whether one of the nodes is the entry point, and more than its signature."""
    for node in nodes:
        if not isinstance(node, _FUNCTION) or all(map(_is_stub, node.body)):
            continue
        if not entry_point or node.name == entry_point:
            return True
    return False


def _is_stub(statement: ast.stmt) -> bool:
    """Tell whether a statement is a docstring, ``pass``, ``...`` or a NotImplementedError."""
    if isinstance(statement, ast.Raise):
        return "NotImplementedError" in ast.unparse(statement)
    return is_constant(statement) or isinstance(statement, ast.Pass)


def _outer_nodes(statements: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the nodes of statements, without the contents of functions and classes."""
    waiting: list[ast.AST] = [*statements]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _FUNCTION | ast.ClassDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


def _has_outer_return(statements: list[ast.stmt]) -> bool:
    """Tell whether statements return, outside of the functions that they define."""
    return any(isinstance(node, ast.Return) for node in _outer_nodes(statements))


def _across_fences(text: str, entry_point: str) -> str:
    """Return the function whose docstring contains the fence lines that end its block; "" without.

    CommonMark ends a block at a fence that is indented by up to three columns, even inside a
    docstring. From such a block on, lines are added up to a later fence line, until they are the
    function.
    """
    fence_lines = list(islice(_FENCE_LINES.finditer(text), MAX_MARKS))
    for number, opening in enumerate(fence_lines):
        start = opening.end() + 1
        later = fence_lines[number + 1 :]
        end = later[0].start() if later else len(text)
        block = text[start:end]
        is_in_string = any(block.count(quote) % 2 for quote in TRIPLES)
        if not is_in_string or not defines(block, entry_point):
            continue
        for closing in later[1:]:
            if function := _function(text[start : closing.start()], entry_point):
                return function
    return ""


def _assigns(code: str, entry_point: str) -> bool:
    """Tell whether a line at the left edge begins like an assignment to the entry point."""
    pattern = rf"^{re.escape(entry_point)}[ \t]*[:=]"
    return bool(entry_point) and re.search(pattern, code, re.M) is not None


def _assigned(code: str, entry_point: str) -> str:
    """Return the code if it is a module that assigns a function to the entry point; "" if not.

    A function is a lambda expression or another name, which may be qualified by a module.
    """
    if not _assigns(code, entry_point):
        return ""
    tree = parsed_or_none(code)
    if tree is None or _has_outer_return(tree.body):
        return ""
    for statement in tree.body:
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            continue
        if not isinstance(statement.value, ast.Lambda | ast.Name | ast.Attribute):
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            if isinstance(target, ast.Name) and target.id == entry_point:
                return code
    return ""


def _with_code_on_its_own_line(text: str, entry_point: str) -> str:
    """Break the line between a tag or a fence and the function that starts on the same line.

    Some answers write ``<answer>def f(x):``, or the code on the line of its fence. The end mark of
    such code is put on a line of its own, too.
    """
    if not entry_point:
        return text
    parts: list[str] = []
    end = 0
    mark = ""
    for match in islice(_head(entry_point).finditer(text), MAX_MARKS):
        start = match.start()
        line_start = text.rfind("\n", 0, start) + 1
        before = text[max(line_start, start - MAX_PREFIX) : start]
        is_mark = before.strip() and _MARKS_ALONE.fullmatch(before)
        if is_mark and len(before) < MAX_PREFIX:
            part = _with_end_mark_below(text[end:start], mark)
            parts.append(part.rstrip(" \t") + "\n")
            end, mark = start, before
    return "".join(parts) + _with_end_mark_below(text[end:], mark)


def _with_end_mark_below(code: str, mark: str) -> str:
    """Put the first end mark that follows code on its line, such as ``</answer>``, below the code.

    Args:
        code: The text after the mark.
        mark: The mark before the code; "" if there is none, or a fence.
    """
    ends = [rf"</{re.escape(name)}>" for name in _TAG_NAME.findall(mark)]
    if "<|" in mark:
        ends.append(r"<\|[^<>\n]{1,60}\|>")
    if "[" in mark:
        ends.append(r"\[(?:/[A-Z]{2,20}|DONE|END)\]")
    if "`" in mark and not _FENCE_WITH_LANGUAGE.match(mark):
        ends.append("`{1,2}")
    if not ends:
        return code
    pattern = rf"(?<=\S)[ \t]*((?:(?:{'|'.join(ends)})[ \t]*){{1,5}})$"
    return re.sub(pattern, r"\n\1", code, count=1, flags=re.M)


def _body(code: str) -> str:
    """Return the code, indented as a function body, if it can only be one; "" if not.

    Chat models often lose the indentation: of the first line, which servers strip, or of all lines.
    """
    first_line = first_line_of(code)
    if not first_line:
        return ""
    column = indent_of(first_line)
    if column:
        indented = textwrap.indent(dedented(code), INDENT)
        forms = [_as_body(code, column), indented]
        if column == len(INDENT):
            forms.insert(0, code)
    else:
        code = code.lstrip("\n")
        forms = [INDENT + code, _as_body(code, 0)]
    for form in forms:
        tree = parsed_or_none(f"def _():\n{form}")
        function = tree.body[0] if tree else None
        if not isinstance(function, ast.FunctionDef):
            continue
        is_body = bool(column) or _has_outer_return(function.body)
        if is_body and any(map(has_effect, function.body)):
            return form
    return ""


def _as_body(code: str, column: int) -> str:
    """Move statements to the indentation of a function body; "" if they are not Python.

    Lines that continue a string keep their blanks, which belong to the string's value.

    Args:
        code: Statements; comments and the contents of brackets may be at the left edge.
        column: Indentation of the statements.
    """
    # A line is put before the code, so that the first line of the code is line 2.
    tree = parsed_or_none(f"def _():\n{code}" if column else f"\n{code}")
    if tree is None:
        return ""
    in_strings: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr | ast.Constant) and node.end_lineno is not None:
            in_strings.update(range(node.lineno, node.end_lineno))
    moved = []
    for number, line in enumerate(code.split("\n"), start=1):
        if number not in in_strings and line.strip():
            line = INDENT + without_margin(line, column)
        moved.append(line)
    return "\n".join(moved)


def _after_signature(
    code: str,
    signature: str,
    entry_point: str,
) -> str:
    """Join a body with the signature in the block before it; "" if they are not such a pair."""
    if not code.strip() or not defines(signature, entry_point):
        return ""
    return _function(f"{signature.rstrip()}\n{code}", entry_point)


def _inner_function(code: str, entry_point: str) -> str:
    """Return the function in a block that is not valid Python as a whole; "" without one."""
    if not defines(code, entry_point):
        return ""
    marks = islice(_FENCE_MARK.finditer(code), MAX_MARKS)
    attempts = [fence.code for fence in fences(code)]
    for mark in marks:
        before = code[: mark.start()]
        attempts.append(before.rstrip(" \t"))
    for attempt in attempts:
        if function := _function(attempt, entry_point):
            return function
    return longest_run([code], partial(_function, entry_point=entry_point))


def _parts(text: str) -> list[str]:
    """Split a text at every fence mark, wherever it is in its line, and at stray tags."""
    first, *others = _PART_MARK.split(text)
    parts = [first]
    for part in others:
        info = _INFO.match(part)
        parts.append(part[info.end() :] if info else part)
    return parts
