"""The solution in a model's text, by one rule for every model and for the control rows.

docs/extraction.md states the rule in full. In short: reasoning and end-of-text tokens are removed
(``answer``); code regions are read from ``[PYTHON]`` tags or CommonMark fences (``blocks``); the first region
that is valid Python and defines the entry point is the solution; without one, the answer is read more
leniently (``extract``).

A model that only continues a prompt (style plain) may write on after the body: ``continued`` ends it there.
A text is *settled* when no more text of the model can change its extraction.
"""

import ast
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from pkg_lib.core.markdown import MARKS, Fence, fences, with_plain_line_ends
from pkg_lib.core.python_syntax import UNPARSABLE, parsed_or_none, syntax_tree
from pkg_lib.generation.imports import with_missing_imports, without_future_imports

MAX_CHARACTERS = 200_000  # of an answer that are read
MAX_PARSED = 2_000_000  # characters that are parsed in search of code without fences
MAX_LINE = (
    1000  # characters of a line on each side of a tag in which its quotation marks are looked for
)
MAX_TOKENS_IN_TEXT = 100  # end tokens in comments and strike-through that are read over
MAX_MARKS = 20  # fence marks inside a block at which it is cut on trial

# Opening and closing marks of reasoning. An entry of models.toml may list more.
REASONING_TAGS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<thoughts>", "</thoughts>"),
    ("<reasoning>", "</reasoning>"),
    ("<scratchpad>", "</scratchpad>"),
    ("<analysis>", "</analysis>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("◁think▷", "◁/think▷"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
)
# Tokens that end a text or a turn, as some servers return them.
END_TOKENS = (
    "</s>",
    "<eos>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end_of_turn|>",
    "<|end_of_sentence|>",
    "<|endofturn|>",
    "<|endofprompt|>",
    "<|im_end|>",
    "<|im_start|>",
    "<|im_sep|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|EOT|>",
    "<|eot|>",
    "<|eos|>",
    "<|EOS|>",
    "<|end|>",
    "<|return|>",
    "<|eoa|>",
    "<|user|>",
    "<|assistant|>",
    "<|observation|>",
    "<|start_header_id|>",
    "<|START_OF_TURN_TOKEN|>",
    "<|END_OF_TURN_TOKEN|>",
    "<|END_RESPONSE|>",
    "<|file_separator|>",
    "<|file_sep|>",
    "<file_sep>",
    "<end_of_turn>",
    "<start_of_turn>",
    "<end_of_utterance>",
    "<｜end▁of▁sentence｜>",
    "<｜begin▁of▁sentence｜>",
    "<｜User｜>",
    "[/INST]",
    "[EOS]",
    "[e~[",
)
# Tokens that begin a text or the model's turn. They and the end tokens may stand before an answer.
START_TOKENS = (
    "<s>",
    "<bos>",
    "<|begin_of_text|>",
    "<|startoftext|>",
    "<|start|>",
    "<|CHATBOT_TOKEN|>",
    "[INST]",
)
MAX_PREFIX = 200  # characters before a function on its line among which tags are looked for
TRIPLES = ('"""', "'''")
_END_TOKEN = re.compile("|".join(map(re.escape, END_TOKENS)))
_FENCE_START = re.compile(r"^[ \t]*(?:`{3,}|~{3,})", re.M)
_QUOTE = re.compile(r"['\"`]")
_OPENS_QUOTE = re.compile(
    r"(?:^|\W)(?:[rbfuRBFU]{1,2})?\Z"
)  # what may precede an opening quotation mark
_USER_TOKENS = ("<|user|>", "<｜User｜>")  # what follows them is not the model's
_LEADING_TOKEN = "|".join(
    re.escape(t) for t in (*START_TOKENS, *END_TOKENS) if t not in _USER_TOKENS
)
_ROLE = (
    r"(?:assistant|model|chatbot|ai)(?=\s*(?:\n|\Z)|[ \t]*<)"
    r"(?:[ \t]*(?:<\|end_header_id\|>|<\|im_sep\|>))?"
)
_LEADING = re.compile(
    rf"(?:\s*(?:{_LEADING_TOKEN})(?:{_ROLE}|(?!\s*(?:user|system|tool)\b)))+", re.I
)
# A byte order mark anywhere, and other characters without width at the start of a line: neither is Python.
_INVISIBLE = re.compile("\ufeff|^[\u200b\u200c\u200d\u200e\u2060]+", re.M)
# A prompt that the server repeats before the answer.
_ECHO = re.compile(r"\s*(?:<s>\s*)?\[INST\].*?\[/INST\]", re.S)
_TAG = re.compile(r"\[PYTHON\][ \t]*\n?(.*?)(\[/PYTHON\]|\Z)", re.S)
_DEF = re.compile(r"[ \t\f]*(?:async[ \t]+)?def[ \t]")
_FENCE_LINE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+-]*)[^`\n]*$")
# What separates code from prose outside of fences; some answers quote code with the marks of a string.
_PART_MARK = re.compile(r"`{3,}|~{3,}|\[/?PYTHON\]|^(?:'''|\"\"\")(?=(?:python3?|py)[ \t]*$)", re.M)
_FENCE_LINES = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^`\n]*$", re.M)
# Tags such as <answer> or [CODE], a backtick, or a fence with its language, and nothing else.
_MARKS_ALONE = re.compile(
    r"[ \t]*(?:(?:<[^<>\n]{1,60}>|\[[A-Z]{2,20}\]|`{1,2}(?!`))[ \t]*)+"
    r"|[ \t]*(?:`{3,}|~{3,})[ \t]*\w{0,20}[ \t]*"
)
_TAG_NAME = re.compile(r"<(\w{1,60})")
_LIST_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+[A-Z`*]")
_FENCE_MARK = re.compile(r"`{3,}|~{3,}")
_INFO = re.compile(r"[ \t]*(?:\{?\.?(?:python3?|py3?|Python)\b[^\n]*|[\w+#.-]*[ \t]*)(?:\n|\Z)")
_PYTHON = {"", "python", "python3", "py", "py3", "ipython", "sage", "pycon"}

INDENT = "    "  # of a function body
# A line that opens a block: what is indented below it is part of that statement and no bare body.
_HEADER = re.compile(
    r"(?:(?:async[ ]+)?def|class|if|elif|else|for|while|with|try|except|finally|match|[)\]}])"
    r".*:[ \t]*(?:#.*)?$"
)
_INDENTED_START = re.compile(r"\A(?:[ \t]*\n)*[ \t]+\S")
# A line at the left edge that ends a body: no comment, and no end of a bracket or of a string.
_AFTER_BODY = re.compile(r"\n(?=[^\s)\]}\"'#])")
_COMMENTS_AT_THE_END = re.compile(r"(?:\n(?:#[^\n]*|[ \t]*)(?=\n|\Z))+\Z")


class Region(NamedTuple):
    """One code region of a model's text; `closed` when its end mark is there."""

    code: str
    closed: bool
    language: str = ""


def answer(text: str, tags: Sequence[tuple[str, str]] = ()) -> str:
    """Reduce a model's text to its answer.

    Only what follows the last closing reasoning tag is the answer. A reasoning tag that is opened and never
    closed means that there is no answer. The first end-of-text token ends the answer. Tags and tokens within
    quotes belong to the text.

    Args:
        text: What the model wrote.
        tags: Pairs of opening and closing reasoning tags, in addition to ``REASONING_TAGS``.

    Returns:
        The answer with "\\n" as line end, without byte order marks, at most ``MAX_CHARACTERS`` long.
    """
    text = _INVISIBLE.sub("", with_plain_line_ends(text))
    pairs = [*REASONING_TAGS, *tags]
    text = text[_end_of_reasoning(text, pairs) :]
    if (echo := _ECHO.match(text)) and text[echo.end() :].strip():
        text = text[echo.end() :]
    if leading := _LEADING.match(text):
        text = text[leading.end() :].lstrip("\n")
    if (end := _first_end_token(text)) is not None:
        text = text[:end]
    openings = _unquoted(_tag_pattern(opening for opening, _ in pairs), text)
    is_unfinished = any(_begins_a_line(text, match) for match in openings)
    return "" if is_unfinished else text[:MAX_CHARACTERS]


def _tag_pattern(tags: Iterable[str]) -> re.Pattern[str]:
    """A pattern for tags in any case, with blanks or attributes before ">", and with options of a channel."""
    patterns = []
    for tag in tags:
        pattern = re.escape(tag)
        if re.fullmatch(r"</?[\w:]+>", tag):
            pattern = rf"{re.escape(tag[:-1])}(?:[ \t][^<>\n]*)?>"
        pattern = pattern.replace(
            r"<\|message\|>", r"[^<\n]*(?:<\|constrain\|>[^<\n]*)?<\|message\|>"
        )
        patterns.append(pattern)
    return re.compile("|".join(patterns), re.I)


def _end_of_reasoning(text: str, pairs: Sequence[tuple[str, str]]) -> int:
    """The end of the last closing reasoning tag; 0 without any.

    A closing tag whose opening tag precedes it counts whatever triple quotation marks a draft holds. If all
    closing tags after an opening tag are quoted on their lines, then the last of them counts.
    """
    closing = _tag_pattern(closing for _, closing in pairs)
    if not closing.search(text):
        return 0
    opening = _tag_pattern(opening for opening, _ in pairs)
    marks = [(match, True) for match in closing.finditer(text)]
    marks += [(match, False) for match in opening.finditer(text)]
    marks.sort(key=lambda mark: mark[0].start())
    triples = _TripleQuotes(text)
    end, last_quoted, is_open = 0, 0, False
    for match, is_closing in marks:
        is_quoted = _is_quoted_on_line(text, match.start(), match.end())
        if is_open:
            if is_closing and is_quoted:
                last_quoted = match.end()
            is_accepted = is_closing and not is_quoted
        else:
            is_accepted = not is_quoted and not triples.enclose(match.start(), are_pairs=True)
            is_open = is_accepted and not is_closing
        if is_accepted and is_closing:
            end, last_quoted, is_open = match.end(), 0, False
            triples.restart(end)
    return max(end, last_quoted)


def _begins_a_line(text: str, match: re.Match[str]) -> bool:
    """Whether only blanks precede a tag on its line. A special token such as a channel may be anywhere."""
    line_start = text.rfind("\n", 0, match.start()) + 1
    return match[0].startswith("<|") or not text[line_start : match.start()].strip()


class _TripleQuotes:
    """Counts triple quotation marks up to positions that only grow."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.last = {quote: text.rfind(quote) for quote in TRIPLES}
        self.total = {quote: text.count(quote) for quote in TRIPLES}
        self.before = dict.fromkeys(TRIPLES, 0)

    def restart(self, position: int) -> None:
        """Leave out what precedes a position."""
        self.enclose(position)
        self.total = {quote: self.total[quote] - self.before[quote] for quote in TRIPLES}
        self.before = dict.fromkeys(TRIPLES, 0)

    def enclose(self, position: int, are_pairs: bool = False) -> bool:
        """Whether an odd number of marks precedes a position and another follows it.

        Args:
            position: A position in the text.
            are_pairs: Whether an odd number must follow: then every mark of the text has its partner.
        """
        for quote in TRIPLES:
            self.before[quote] += self.text.count(quote, self.position, position)
        self.position = position
        for quote in TRIPLES:
            after = self.total[quote] - self.before[quote]
            is_followed = bool(after % 2) if are_pairs else self.last[quote] > position
            if self.before[quote] % 2 and is_followed:
                return True
        return False


def _first_end_token(text: str) -> int | None:
    """The position of the first token that ends the answer."""
    for number, match in enumerate(_unquoted(_END_TOKEN, text)):
        is_struck = match[0] == "</s>" and _closes_strike_through(text, match.start())
        is_text = is_struck or _is_in_fenced_comment(text, match.start())
        if not is_text or number >= MAX_TOKENS_IN_TEXT:
            return match.start()
    return None


def _closes_strike_through(text: str, position: int) -> bool:
    """Whether a "<s>" without its end precedes a "</s>" in its paragraph."""
    paragraph = max(
        text.rfind("\n\n", 0, position), text.rfind("```", 0, position), position - MAX_LINE, 0
    )
    opening = text.rfind("<s>", paragraph, position)
    is_open = opening > text.rfind("</s>", paragraph, position)
    return is_open and not _is_quoted_on_line(text, opening, opening + len("<s>"))


def _is_in_fenced_comment(text: str, position: int) -> bool:
    """Whether a "#" precedes a position on its line, and the line is in a fence that is closed later."""
    line_start = text.rfind("\n", 0, position) + 1
    if "#" not in text[line_start:position] or not _FENCE_START.search(text, position):
        return False
    return len(_FENCE_START.findall(text, 0, line_start)) % 2 == 1


def _unquoted(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Find marks that are not part of a quoted string.

    A string is what quotation marks enclose on the mark's own line, or three of them in a row anywhere.
    """
    triples = _TripleQuotes(text)
    for match in pattern.finditer(text):
        is_in_triple = triples.enclose(match.start())
        if not is_in_triple and not _is_quoted_on_line(text, match.start(), match.end()):
            yield match


def _is_quoted_on_line(text: str, start: int, end: int) -> bool:
    """Whether a quotation mark or backtick is open before a position on its line and closed after it."""
    before = text[max(text.rfind("\n", 0, start) + 1, start - MAX_LINE) : start]
    after = text[end : end + MAX_LINE].partition("\n")[0]
    quote = _open_quote(before)
    return bool(quote) and quote in after


def _open_quote(line: str) -> str:
    """The quotation mark that is open at the end of a line; "" if none is.

    A mark after a letter or digit opens nothing, except after the prefix of a string: it is an apostrophe, or
    a unit such as inches.
    """
    is_open = ""
    for match in _QUOTE.finditer(line):
        mark = match[0]
        if is_open:
            is_open = "" if mark == is_open else is_open
        elif mark == "`" or _OPENS_QUOTE.search(line, 0, match.start()):
            is_open = mark
    return is_open


def blocks(text: str) -> list[Region]:
    """List the code regions of a model's answer in order, by the kind of mark that comes first in it."""
    return _regions(answer(text))


def _regions(text: str) -> list[Region]:
    tag = text.find("[PYTHON]")
    fence = re.search(r"^[ \t]*(?:`{3,}|~{3,})[^`\n]*$", text, re.M)
    if tag < 0 or (fence and fence.start() < tag):
        return [_restarted(fence) for fence in fences(text)]
    regions = [Region(match[1], bool(match[2])) for match in _TAG.finditer(text)]
    return [Region("".join(f.code for f in fences(r.code)) or r.code, r.closed) for r in regions]


def _restarted(fence: Fence) -> Region:
    """Start a block anew at a fence with a language if the lines before it hold no function.

    Some answers open a fence, go on in prose and then open the real one.
    """
    code, language = fence.code, fence.language
    lines = code.splitlines(keepends=True) if any(mark in code for mark in MARKS) else []
    for number, line in enumerate(lines):
        if _DEF.match(line):
            break
        match = _FENCE_LINE.match(line.rstrip("\n"))
        if match and match[2] and match[1].startswith(fence.mark):
            code, language = "".join(lines[number + 1 :]), match[2]
    return Region(code, fence.closed, language)


def defines(code: str, entry_point: str) -> bool:
    """Whether the code defines a function of this name at any indentation."""
    return (
        re.search(rf"^[ \t\f]*(?:async[ \t]+)?def[ \t]+{re.escape(entry_point)}\b", code, re.M)
        is not None
    )


def continued(text: str) -> str:
    """Return the body at the start of a continuation, without the comments at the left edge that follow it.

    Args:
        text: What a model wrote after a prompt.

    Returns:
        The body; the whole text where it does not begin with one.
    """
    if not _INDENTED_START.match(text):
        return text
    end = _end_of_body(text)
    body = text if end is None else text[:end]
    comments = _COMMENTS_AT_THE_END.search(body)
    is_followed = comments is not None and "#" in comments[0]
    return body[: comments.start()] if comments and is_followed else body


def continuation_ended(text: str) -> bool:
    """Whether a continuation has gone on after its body, so that no more text can change ``continued``."""
    return bool(_INDENTED_START.match(text)) and _end_of_body(text) is not None


def _end_of_body(text: str) -> int | None:
    """Where the first line at the left edge begins that is no part of the body; None without one."""
    for match in _AFTER_BODY.finditer(text):
        if not any(text.count(quote, 0, match.start()) % 2 for quote in TRIPLES):
            return match.start()
    return None


def settled(text: str, entry_point: str) -> bool:
    """Whether no continuation of a text can change what ``extract`` returns for it.

    A closed block is needed that is valid Python and defines the entry point at module level. The one
    exception is a continuation with a reasoning tag: it would turn the text before it into reasoning. Where
    the chat template opens the reasoning, the caller puts the opening tag before the text.
    """
    regions = _regions(_with_code_on_its_own_line(answer(text), entry_point))
    return any(region.closed and _module_function(region.code, entry_point) for region in regions)


def extract(text: str, entry_point: str, starts_program: bool = False) -> str:
    """Extract the solution from a model's text (docs/extraction.md).

    Args:
        text: What the model wrote.
        entry_point: Name of the function that is tested; "" if any function is meant.
        starts_program: Whether the judged program begins with the solution, so that imports of ``__future__``
            are legal in it.

    Returns:
        The solution. Its indentation is kept, since a bare body is a valid completion. Text without any code
        is returned as it is, and judged so.
    """
    text = _with_code_on_its_own_line(answer(text), entry_point)
    regions = _regions(text)
    code, earlier = _solution(text, regions, entry_point)
    earlier = [_text_before(text, code), *earlier]
    return without_future_imports(with_missing_imports(code, earlier), starts_program)


def _text_before(text: str, code: str) -> str:
    """The text of an answer up to the first line of the solution."""
    first_line = next((line.strip() for line in code.split("\n") if line.strip()), "")
    return text[: text.find(first_line)] if first_line in text else ""


def _solution(text: str, regions: list[Region], entry_point: str) -> tuple[str, list[str]]:
    """The solution's code, and the code before it."""
    codes = [region.code for region in regions]
    for find in (_module_function, _function):
        for is_closed in (True, False):
            for number, region in enumerate(regions):
                if region.closed is is_closed and (code := find(region.code, entry_point)):
                    return code, codes[:number]
    if code := _across_fences(text, entry_point):
        return code, []
    for number, region in enumerate(regions):
        if code := _inner_function(region.code, entry_point):
            return code, codes[:number]
    parts = _parts(text)
    if run := _longest_run(parts, lambda code: _function(code, entry_point)):
        return run, []
    for number, region in enumerate(regions):
        if code := _assigned(region.code, entry_point):
            return code, codes[:number]
    assigning = [part for part in parts if _assigns(part, entry_point)]
    if run := _longest_run(assigning, lambda code: _assigned(code, entry_point)):
        return run, []
    for number, region in enumerate(regions if entry_point else []):
        if code := _after_signature(region.code, codes[:number], entry_point) or _body(region.code):
            return code, codes[:number]
    wanted = [region for region in regions if defines(region.code, entry_point)]
    has_block = bool(wanted) or any(map(is_code, regions))
    outside_blocks = parts[:1] if has_block else parts
    if entry_point and (run := _bare_body(outside_blocks)):
        return run, []
    python = [
        region for region in regions if region.language.lower() in _PYTHON and region.code.strip()
    ]
    choices = [r for r in wanted if r.closed] or wanted or python or regions
    return (choices[0].code if choices else text), []


def is_code(region: Region) -> bool:
    """Whether a region is more than the prose after a stray closing fence."""
    is_marked = region.closed or bool(region.language)
    return bool(region.code.strip()) and (is_marked or parsed_or_none(region.code) is not None)


def bare_code(text: str, entry_point: str) -> str:
    """Return the longest run of lines that is code, wherever fence marks are.

    Returns:
        Lines that define the entry point; without any, lines that are a function body; else "".
    """
    parts = _parts(text)
    return _longest_run(parts, lambda code: _function(code, entry_point)) or _bare_body(parts)


def _bare_body(parts: list[str]) -> str:
    for part in parts:
        if code := _body(part):
            return code
    return _longest_run(parts, _body, are_bodies=True) or _longest_run(parts, _body)


def _function(code: str, entry_point: str) -> str:
    """The code, dedented if needed, if it is Python that defines the entry point with a body; "" if not."""
    if not defines(code, entry_point):
        return ""
    tree = parsed_or_none(code)
    if tree is None:
        code = _dedented(code)
        tree = parsed_or_none(code)
        if tree is None or any(isinstance(node, ast.Return) for node in tree.body):
            return ""
    functions = (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    named = [node for node in functions if not entry_point or node.name == entry_point]
    return "" if all(map(_is_stub, named)) else code


def _module_function(code: str, entry_point: str) -> str:
    """The same if the entry point is defined at module level, not as a method or inside another function."""
    code = _function(code, entry_point)
    tree = parsed_or_none(code) if code else None
    if tree is None:
        return ""
    for node in _module_level(tree):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function and (not entry_point or node.name == entry_point) and not _is_stub(node):
            return code
    return ""


def _module_level(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes of a module, without those inside its functions and classes."""
    waiting: list[ast.AST] = [*tree.body]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


def _across_fences(text: str, entry_point: str) -> str:
    """The function whose docstring holds the fence lines that end its block; "" if there is none.

    CommonMark ends a block at a fence that is indented by up to three columns, also inside a docstring. From
    such a block on, lines are taken in up to a later fence line, until they are the function.
    """
    lines = list(islice(_FENCE_LINES.finditer(text), MAX_MARKS))
    for number, opening in enumerate(lines):
        first_end = lines[number + 1].start() if number + 1 < len(lines) else len(text)
        block = text[opening.end() + 1 : first_end]
        is_in_string = any(block.count(quote) % 2 for quote in TRIPLES)
        if not is_in_string or not defines(block, entry_point):
            continue
        for closing in lines[number + 2 :]:
            if function := _function(text[opening.end() + 1 : closing.start()], entry_point):
                return function
    return ""


def _assigns(code: str, entry_point: str) -> bool:
    """Whether a line at the left edge begins like an assignment to the entry point."""
    return bool(entry_point) and bool(
        re.search(rf"^{re.escape(entry_point)}[ \t]*[:=]", code, re.M)
    )


def _assigned(code: str, entry_point: str) -> str:
    """The code if it is a module that assigns a function to the entry point; "" if not.

    A function is a lambda expression, or another name, which may have a module before it.
    """
    if not _assigns(code, entry_point):
        return ""
    tree = parsed_or_none(code)
    if tree is None or any(isinstance(node, ast.Return) for node in _module_level(tree)):
        return ""
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        else:
            continue
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        is_function = isinstance(statement.value, ast.Lambda | ast.Name | ast.Attribute)
        if entry_point in names and is_function:
            return code
    return ""


def _with_code_on_its_own_line(text: str, entry_point: str) -> str:
    """Break the line between a tag or a fence and the function that starts on the same line.

    Some answers write ``<answer>def f(x):``, or the code on the line of its fence. The end mark of such code
    is put on a line of its own, too.
    """
    if not entry_point:
        return text
    head = re.compile(rf"(?:async[ \t]+)?def[ \t]+{re.escape(entry_point)}[ \t]*\(")
    parts: list[str] = []
    end = 0
    mark = ""
    for match in islice(head.finditer(text), MAX_MARKS):
        line_start = text.rfind("\n", 0, match.start()) + 1
        before = text[max(line_start, match.start() - MAX_PREFIX) : match.start()]
        is_mark = bool(before.strip()) and _MARKS_ALONE.fullmatch(before)
        if is_mark and len(before) < MAX_PREFIX:
            parts.append(_with_end_mark_below(text[end : match.start()], mark).rstrip(" \t") + "\n")
            end, mark = match.start(), before
    return "".join(parts) + _with_end_mark_below(text[end:], mark)


def _with_end_mark_below(code: str, mark: str) -> str:
    """Put the first end mark that follows code on its line, such as ``</answer>``, on a line of its own.

    Args:
        code: What follows the mark.
        mark: The mark before the code; "" if there is none, or a fence.
    """
    ends = [rf"</{name}>" for name in map(re.escape, _TAG_NAME.findall(mark))]
    if "<|" in mark:
        ends.append(r"<\|[^<>\n]{1,60}\|>")
    if "[" in mark:
        ends.append(r"\[(?:/[A-Z]{2,20}|DONE|END)\]")
    if "`" in mark and not _FENCE_LINE.match(mark):
        ends.append("`{1,2}")
    if not ends:
        return code
    end = "|".join(ends)
    return re.sub(
        rf"(?<=\S)[ \t]*((?:(?:{end})[ \t]*){{1,5}})$", r"\n\1", code, count=1, flags=re.M
    )


def _is_stub(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is only a signature: its body has a docstring, ``pass``, ``...`` and the like."""
    return all(
        isinstance(statement, ast.Pass)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        or (isinstance(statement, ast.Raise) and "NotImplementedError" in ast.unparse(statement))
        for statement in node.body
    )


def _body(code: str) -> str:
    """The code, indented as a function body, if it can only be one; "" if not.

    Chat models often lose the indentation, of the first line (which servers strip) or of all.
    """
    first = next((line for line in code.split("\n") if line.strip()), "")
    if not first:
        return ""
    column = _indent(first)
    is_indented = bool(column)
    if is_indented:
        forms = [code] if column == len(INDENT) else []
        forms += [_as_body(code, column), textwrap.indent(_dedented(code), INDENT)]
    else:
        code = code.lstrip("\n")
        forms = [INDENT + code, _as_body(code, 0)]
    for form in forms:
        tree = parsed_or_none(f"def _():\n{form}")
        body = tree.body[0].body if tree and isinstance(tree.body[0], ast.FunctionDef) else []
        returns = any(
            isinstance(node, ast.Return) for statement in body for node in _own_nodes(statement)
        )
        if any(map(_has_effect, body)) and (returns or is_indented):
            return form
    return ""


def _as_body(code: str, column: int) -> str:
    """Move statements to the indentation of a function body; "" if they are not Python.

    Lines that continue a string keep their blanks, which belong to the string's value.

    Args:
        code: Statements; comments and the contents of brackets may be at the left edge.
        column: Indentation of the statements.
    """
    lines = code.split("\n")
    tree = parsed_or_none("\n".join(["def _():", *lines] if column else ["", *lines]))
    if tree is None:
        return ""
    in_strings: set[int] = set()
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.JoinedStr | ast.Constant)
        if is_text and node.end_lineno is not None:
            # Line 1 is the one that was put before the code.
            in_strings.update(range(node.lineno, node.end_lineno))
    moved = []
    for number, line in enumerate(lines, start=1):
        if number in in_strings or not line.strip():
            moved.append(line)
        else:
            moved.append(INDENT + line[min(column, _indent(line)) :])
    return "\n".join(moved)


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement, without those of functions and classes inside it."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield node
            waiting.extend(ast.iter_child_nodes(node))


def _has_effect(statement: ast.stmt) -> bool:
    """Whether a statement is more than a name, a comparison or the like, which a line of prose can be."""
    if isinstance(statement, ast.AnnAssign):
        return statement.value is not None
    if not isinstance(statement, ast.Expr):
        return True
    effects = ast.Call | ast.Await | ast.Yield | ast.YieldFrom
    return any(isinstance(node, effects) for node in ast.walk(statement))


def _after_signature(code: str, earlier: list[str], entry_point: str) -> str:
    """Join a body with the signature in the block before it; "" if they are not such a pair."""
    signature = earlier[-1] if earlier else ""
    if not code.strip() or not defines(signature, entry_point):
        return ""
    return _function(f"{signature.rstrip()}\n{code}", entry_point)


def _inner_function(code: str, entry_point: str) -> str:
    """The function in a block that is not valid Python as a whole; "" if there is none."""
    if not defines(code, entry_point):
        return ""
    for inner in fences(code):
        if function := _function(inner.code, entry_point):
            return function
    for mark in islice(_FENCE_MARK.finditer(code), MAX_MARKS):
        if function := _function(code[: mark.start()].rstrip(" \t"), entry_point):
            return function
    return _longest_run([code], lambda run: _function(run, entry_point))


def _parts(text: str) -> list[str]:
    """Split a text at every fence mark, wherever it is in its line, and at stray tags."""
    parts = _PART_MARK.split(text)
    return [
        parts[0],
        *(_INFO.sub("", part, count=1) if _INFO.match(part) else part for part in parts[1:]),
    ]


def _longest_run(
    parts: Iterable[str], accepted: Callable[[str], str], are_bodies: bool = False
) -> str:
    """The longest accepted run of lines within any part; the first among equals, "" without any."""
    budget = _Budget(MAX_PARSED)
    best = ""
    for part in parts:
        for run in _runs(part.split("\n"), are_bodies, budget):
            code = accepted(run)
            if code.strip("\n").count("\n") > best.strip("\n").count("\n") or (code and not best):
                best = code
    return best


class _Budget:
    """Characters that may still be parsed: a search through junk must end."""

    def __init__(self, characters: int) -> None:
        self.left = characters

    def allows(self, text: str) -> bool:
        self.left -= len(text) + 100
        return self.left >= 0


def _runs(lines: list[str], are_bodies: bool, budget: _Budget) -> Iterator[str]:
    """The runs of lines that are Python, without prose at their ends.

    A run ends only where its last statement does: code that breaks off inside a function is not a run.

    Args:
        lines: Lines of a text without fence marks.
        are_bodies: Whether runs are indented function bodies; else they are modules, of which the common
            indentation is removed.
        budget: Ends the search.
    """
    start = 0
    header = ""  # the last line at the left edge
    while start < len(lines) and budget.left > 0:
        line = lines[start]
        is_inside = _indent(line) and _HEADER.match(header)
        if not line.strip() or is_inside or (are_bodies and not _indent(line)):
            header = line if line.strip() and not _indent(line) else header
            start += 1
            continue
        end = _end_of_run(lines, start, are_bodies, budget)
        if end > start and not _breaks_off(lines, start, end):
            yield _trimmed(lines, start, end, are_bodies)
        following = max(end, start + 1)
        header = next(
            (x for x in reversed(lines[start:following]) if x.strip() and not _indent(x)), header
        )
        start = following


def _end_of_run(lines: list[str], start: int, is_body: bool, budget: _Budget) -> int:
    """The line after the longest Python that begins at a line; the line itself if there is none."""
    end = len(lines)
    indent = _indent(lines[start])
    if indent and not is_body:
        left = (i for i in range(start, end) if lines[i].strip() and _indent(lines[i]) < indent)
        end = next(left, end)
    while end > start:
        source = "\n".join(lines[start:end])
        if not budget.allows(source):
            return start
        try:
            syntax_tree(f"def _():\n{source}" if is_body else _dedented(source))
        except SyntaxError as error:
            failing = start + max((error.lineno or 1) - (2 if is_body else 1), 0)
            end = min(end - 1, failing)
        except UNPARSABLE:
            return start
        else:
            return end
    return start


def _breaks_off(lines: list[str], start: int, end: int) -> bool:
    """Whether the first line after a run is still inside what the run begins with. A list item is prose."""
    following = next((line for line in lines[end:] if line.strip()), "")
    if _LIST_ITEM.match(following):
        return False
    return bool(following) and _indent(following) >= max(_indent(lines[start]), 1)


def _trimmed(lines: list[str], start: int, end: int, is_body: bool) -> str:
    """A run as code, without statements at both ends that do nothing and may be words of prose."""
    code = "\n".join(lines[start:end])
    code = code.rstrip() + "\n" if end < len(lines) else code.rstrip(" \t")
    if is_body:
        return code
    code = _dedented(code)
    statements = syntax_tree(code).body
    kept = [
        statement for statement in statements if _has_effect(statement) or _is_string(statement)
    ]
    if not kept or (statements[0] is kept[0] and statements[-1] is kept[-1]):
        return code
    first = 0 if statements[0] is kept[0] else _first_line(kept[0]) - 1
    return "\n".join(code.split("\n")[first : kept[-1].end_lineno]) + "\n"


def _is_string(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _first_line(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _dedented(code: str) -> str:
    """The code without its common indentation; lines of blanks in its strings keep theirs."""
    margin = _margin(code)
    if not margin:
        return code
    return "\n".join(line[min(margin, _indent(line)) :] for line in code.split("\n"))


def _margin(code: str) -> int:
    """The common indentation of the lines with text."""
    return min((_indent(line) for line in code.split("\n") if line.strip()), default=0)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))
