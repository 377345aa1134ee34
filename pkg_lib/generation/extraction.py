"""The solution in a model's text, by one rule for every model and for the control rows.

1. Blocks stand between [PYTHON] and [/PYTHON] or between fences. A fence with a language inside a block that
   has no `def` starts it anew: some answers open a fence, go on in prose and then open the real one.
2. The solution is the first closed block that defines the entry point; else the first block that defines it;
   else the first block; else the whole text.
3. `from __future__` lines, copied from whole files, are taken out: after HumanEval's prompt none may stand.
A model that only continues a prompt (style plain) goes on after the body: `continued` ends it there.
A text is *settled* once a closed block defines the entry point: what follows cannot change the extraction.
"""

import re
from typing import NamedTuple

_TAG = re.compile(r"\[PYTHON\][ \t]*\n?(.*?)(\[/PYTHON\]|\Z)", re.S)
_FUTURE = re.compile(r"^from[ \t]+__future__[ \t]+import[ \t]+(?:\([^)]*\)|[^\n]*)[^\n]*(?:\n|\Z)", re.M)
_DEF = re.compile(r"[ \t]*(?:async[ \t]+)?def[ \t]")
_OPEN = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+-]*)[^`\n]*$")
_ANY_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^`\n]*$", re.M)

# An indented body, and then a line at the left edge that is no end of a bracket or a string.
_BODY = re.compile(r"\A(?:[ \t]*\n)*[ \t]+\S.*?(?=\n[^\s)\]}\"'])", re.S)


class Region(NamedTuple):
    """One code region of a model's text; `closed` when its end mark is there."""

    code: str
    closed: bool


def _fences(text: str) -> list[Region]:
    blocks: list[Region] = []
    mark, lines = "", []
    # Only "\n" ends a line here, as in _ANY_FENCE; str.splitlines also breaks at form feeds and the like.
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        match = _OPEN.match(line.rstrip("\r\n"))
        if not mark:
            if match:
                mark, lines = match[1], []
        elif match and match[1].startswith(mark) and not match[2] and line.endswith("\n"):
            blocks.append(Region("".join(lines), True))
            mark = ""
        elif match and match[1].startswith(mark) and match[2] and not any(map(_DEF.match, lines)):
            mark, lines = match[1], []  # what was opened was prose
        else:
            lines.append(line)
    if mark:
        # The closing mark at the very end of the text has no newline yet: it closes, but settles nothing.
        if lines and lines[-1].strip() == mark:
            lines.pop()
        blocks.append(Region("".join(lines), False))
    return blocks


def blocks(text: str) -> list[Region]:
    """The code regions in the order of the text, by the kind of mark that comes first in it."""
    tag = text.find("[PYTHON]")
    fence = _ANY_FENCE.search(text)
    if tag < 0 or (fence and fence.start() < tag):
        return _fences(text)
    regions = [Region(m[1], bool(m[2])) for m in _TAG.finditer(text)]
    return [Region("".join(b.code for b in _fences(r.code)) or r.code, r.closed) for r in regions]


def defines(code: str, entry_point: str) -> bool:
    """Whether the code defines a function of this name at any indentation."""
    return re.search(rf"^[ \t]*(?:async[ \t]+)?def[ \t]+{re.escape(entry_point)}\b", code, re.M) is not None


def continued(text: str) -> str:
    """The body at the start of a continuation; the whole text where it starts with none or does not go on."""
    body = _BODY.match(text)
    return body[0] if body else text


def settled(text: str, entry_point: str) -> bool:
    """Whether no continuation of `text` can change what `extract` returns."""
    return any(b.closed and defines(b.code, entry_point) for b in blocks(text))


def extract(text: str, entry_point: str) -> str:
    """The solution by the rule above; indentation is kept, since a bare body is a valid completion."""
    regions = blocks(text)
    wanted = [b for b in regions if defines(b.code, entry_point)]
    choices = [b for b in wanted if b.closed] or wanted or regions
    return _FUTURE.sub("", choices[0].code if choices else text)
