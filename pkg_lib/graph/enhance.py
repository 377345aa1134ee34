"""Docstrings by fill-in-the-middle for functions that have none (the paper's first version, Step 4: FunctionEnhancer).

The prompt is the function with a hole under its signature, which the model fills. In the paper's form ("closed") the
opening and the closing quotes stand around the hole; a small model then often leaves it empty, so there is a form in
which it has to write the closing quotes itself ("open"). What it writes is taken only if the function stays what it was:
without its docstring the new syntax tree is the old one. Everything else is rejected, with the reason.

The graph itself is not touched: `enhanced_payloads` gives other texts for IMPL nodes, to be embedded in their place.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pkg_lib.core.types import UserError, digest
from pkg_lib.graph.schema import IMPL, PKG

MAX_CHARS = 4000  # of a function: with the docstring it stays within 2,048 tokens
FORMS = ("closed", "open")
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_PLACEHOLDER = re.compile(r"(todo|fixme|xxx|docstring|_\w+_|\.\.\.)\b", re.I)
_CODE = re.compile(
    r"(async )?def \w+\s*\(|class \w+\s*[(:]|import \w+|from [\w.]+ import |@\w+|print\s*\(|raise \w+\s*\(|[\"']{2,}"
)


@dataclass(frozen=True, slots=True)
class FIM:
    """A model family's fill-in-the-middle tokens, as its tokenizer spells them, and what ends the middle."""

    prefix: str
    suffix: str
    middle: str
    ends: tuple[str, ...]

    def prompt(self, before: str, after: str) -> str:
        """Prefix-suffix-middle order, the one both families were trained with."""
        return f"{self.prefix}{before}{self.suffix}{after}{self.middle}"

    @property
    def tokens(self) -> tuple[str, ...]:
        """All tokens that are no text."""
        return (self.prefix, self.suffix, self.middle, *self.ends)

    def cut(self, raw: str) -> str:
        """What stands before the first token that is no text."""
        return raw[: min((raw.find(m) for m in self.tokens if m in raw), default=len(raw))]


_QWEN_ENDS = ("fim_pad", "endoftext", "im_end", "im_start", "file_sep", "repo_name", "cursor")
_STARCODER_ENDS = ("<fim_pad>", "<|endoftext|>", "<file_sep>", "<repo_name>")
FAMILIES = {
    "qwen2.5-coder": FIM(
        "<|fim_prefix|>",
        "<|fim_suffix|>",
        "<|fim_middle|>",
        tuple(f"<|{end}|>" for end in _QWEN_ENDS),
    ),
    "starcoder2": FIM("<fim_prefix>", "<fim_suffix>", "<fim_middle>", _STARCODER_ENDS),
}


def fim_of(model: str) -> FIM:
    """The tokens of a model of models.py; UserError for one that was not trained to fill in the middle."""
    for family, fim in FAMILIES.items():
        if model.startswith(family):
            return fim
    raise UserError(
        f"model {model} has no fill-in-the-middle tokens known here; choose one of {', '.join(FAMILIES)}"
    )


class Unfit(Exception):
    """A function that is not asked for, or an answer that is not taken; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Hole:
    """A function's text around the docstring that it lacks: `before` + docstring + `after` is the enhanced payload."""

    payload: str
    before: str
    after: str

    def prompt(self, fim: FIM, form: str) -> str:
        """The fill-in-the-middle prompt in one of FORMS."""
        return fim.prompt(self.before, self.after if form == "closed" else self.after.removeprefix('"""'))

    def fill(self, docstring: str) -> str:
        """The payload with the docstring. Raises Unfit unless all else stayed as it was."""
        text = self.before + docstring + self.after
        function, old = _function(text), _function(self.payload)
        if ast.get_docstring(function, clean=False) is None:
            raise Unfit("quotes broken")
        del function.body[0]
        if ast.dump(function) != ast.dump(old):
            raise Unfit("the code would change")
        return text


def _function(payload: str) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """The syntax tree of an IMPL's payload, Unfit where it is no function by itself. Columns are as in the text, lines one
    more where the text is indented."""
    indented = payload[:1].isspace()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            body = ast.parse("if 1:\n" + payload if indented else payload).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        raise Unfit("does not parse") from e
    body = body[0].body if indented and isinstance(body[0], ast.If) else body
    if len(body) != 1 or not isinstance(body[0], _FUNCTION):
        raise Unfit("more than one statement")
    return body[0]


def hole(payload: str) -> Hole:
    """Where a function's docstring goes. Raises Unfit for a function that has one, is too long, or leaves no place."""
    function = _function(payload)
    if ast.get_docstring(function, clean=False) is not None:
        raise Unfit("has a docstring")
    if len(payload) > MAX_CHARS:
        raise Unfit(f"longer than {MAX_CHARS} characters")
    if any(token in payload for fim in FAMILIES.values() for token in fim.tokens):
        raise Unfit("holds a token of the model")
    lines, first = payload.split("\n"), function.body[0]
    line = min([first.lineno, *(d.lineno for d in getattr(first, "decorator_list", ()))])
    row = line - 2 if payload[:1].isspace() else line - 1
    lead = ""  # what stands before the first statement on its line
    if line == first.lineno:
        lead = lines[row].encode("utf8", "surrogatepass")[: first.col_offset].decode()
    if lead.strip():  # `def f(): return 1` becomes three lines
        margin = _indent(lines[0])
        indent = margin + ("\t" if "\t" in margin else "    ")
        above, below = [*lines[:row], lead.rstrip()], [indent + lines[row][len(lead) :], *lines[row + 1 :]]
    else:  # under the signature, above the comments and empty lines that lead to the first statement
        indent = _indent(lines[row])
        while row > 1 and (not lines[row - 1].strip() or lines[row - 1].lstrip().startswith("#")):
            row -= 1
        above, below = lines[:row], lines[row:]
    place = Hole(payload, "\n".join([*above, f'{indent}"""']), "\n".join(['"""', *below]))
    try:
        place.fill("x")
    except Unfit as e:
        raise Unfit("no place for a docstring") from e
    return place


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def closed(raw: str, fim: FIM) -> bool:
    """Whether the docstring in a model's text has ended, so that nothing after it counts."""
    return '"""' in raw or fim.cut(raw) != raw


def docstring_of(raw: str, fim: FIM, finish: str) -> str:
    """The docstring in a model's text. Raises Unfit for none, or for one that no reader would take.

    A text that ran into its length (`finish` "length") is cut back to its last whole line or sentence.
    """
    whole = closed(raw, fim) or finish != "length"
    text = fim.cut(raw).partition('"""')[0]
    if not whole:
        text = text[: max(text.rfind("\n"), text.rfind(". ") + 1, 0)]
    lines = [line.rstrip() for line in text.rstrip().split("\n")]
    if not re.search(r"[^\W\d_]{2}", text):
        raise Unfit("empty" if whole else "no end")
    if _PLACEHOLDER.match(text.strip()):
        raise Unfit("a placeholder")
    if text.count('"') % 2:
        raise Unfit("quotes broken")
    if any(lines.count(line) > 2 for line in lines if line.strip()):
        raise Unfit("repeats itself")
    # A text over several lines gets its closing quotes on a line of their own, as PEP 257 has it.
    return "\n".join(lines)


def judge(hole: Hole, raw: str, fim: FIM, finish: str) -> str:
    """The docstring that a model's text gives a function, its closing line included. Raises Unfit with the reason."""
    text = docstring_of(raw, fim, finish)
    # A definition, an import, a call of print, another string, or a line of the function itself is no docstring.
    code = {line.strip() for line in hole.payload.split("\n")}
    lines = [line.strip() for line in text.split("\n")]
    if any(_CODE.match(line) or (len(line) > 5 and line in code) for line in lines):
        raise Unfit("code leaked")
    if text.endswith('"'):
        text += " "
    if "\n" in text:
        text += "\n" + hole.before[hole.before.rfind("\n") + 1 : -3]
    hole.fill(text)
    return text


def candidates(graph: PKG) -> tuple[dict[str, tuple[int, Hole]], dict[str, int]]:
    """(payload digest -> (first IMPL node, hole) of each function without a docstring, how many others by reason).

    In the order of the digests: a fixed shuffle, so that the first n are a sample of the corpus.
    """
    holes: dict[str, tuple[int, Hole]] = {}
    skipped: Counter[str] = Counter()
    nodes = graph.of_type(IMPL)
    for node, payload in zip(nodes.tolist(), graph.payloads(nodes), strict=True):
        key = digest(payload)
        try:
            if key in holes:
                raise Unfit("same text as another")
            holes[key] = (node, hole(payload))
        except Unfit as e:
            skipped[str(e)] += 1
    return dict(sorted(holes.items())), dict(skipped)


def enhanced_payloads(graph: PKG, rows: Iterable[dict[str, Any]]) -> dict[int, str]:
    """IMPL node -> its text with the docstring of an accepted row (payload_sha256, docstring); twins share a row.

    A row whose docstring does not fit its function (a hand has changed it) is left out, as the graph's own text is safe.
    """
    docstrings = {r["payload_sha256"]: r["docstring"] for r in rows if r.get("docstring")}
    enhanced: dict[int, str] = {}
    nodes = graph.of_type(IMPL)
    for node, payload in zip(nodes.tolist(), graph.payloads(nodes), strict=True):
        with suppress(Unfit):
            if docstring := docstrings.get(digest(payload)):
                enhanced[node] = hole(payload).fill(docstring)
    return enhanced
