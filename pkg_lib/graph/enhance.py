"""Docstrings by fill-in-the-middle (the paper's first version, Step 4: FunctionEnhancer).

The prompt is the function with a hole under its signature. In the paper's form ("closed") quotes stand around
the hole; a small model then often leaves it empty, so in the "open" form it writes the closing ones itself.
Without its docstring the syntax tree must be the old one. The graph is not touched.
"""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pkg_lib.core.types import UserError, digest
from pkg_lib.graph.code import UNPARSABLE, syntax_tree
from pkg_lib.graph.schema import IMPL, PKG

MAX_CHARS = 4000  # of a function: with the docstring it stays within 2,048 tokens
FORMS = ("closed", "open")
# A model family's tokens that are no text: prefix, suffix, middle, then what ends the middle.
FIM = tuple[str, ...]
_QWEN = "fim_prefix fim_suffix fim_middle fim_pad endoftext im_end im_start file_sep repo_name cursor".split()
_STARCODER = "<fim_prefix> <fim_suffix> <fim_middle> <|endoftext|> <file_sep> <repo_name>".split()
_CODEGEMMA = "<|fim_prefix|> <|fim_suffix|> <|fim_middle|> <|file_separator|>".split()
FAMILIES = {
    "qwen2.5-coder": tuple(f"<|{t}|>" for t in _QWEN),
    "starcoder2": tuple(_STARCODER),
    "codegemma": tuple(_CODEGEMMA),  # whose tokens are in the authors' published enhancer
}
_PLACEHOLDER = re.compile(r"(todo|fixme|xxx|docstring|_\w+_|\.\.\.)\b", re.I)
_CODE = re.compile(
    r"(async )?def \w+\s*\(|class \w+\s*[(:]|import \w+|from [\w.]+ import |@\w+|print\s*\("
    r"|raise \w+\s*\(|[\"']{2,}"
)


def fim_of(model: str, known_tokens: Callable[[Iterable[str]], set[str]] | None = None) -> FIM:
    """Return the tokens with which a model fills in the middle.

    Args:
        model: The model's name: a registered one, or hf:, path: or endpoint: with a place.
        known_tokens: Tells which of some texts are single tokens of the model. It is asked about models of
            the hub or of a directory whose name does not tell the family.

    Returns:
        The tokens of the model's family.

    Raises:
        UserError: The model was not trained to fill in the middle, or with tokens that are not known here.
    """
    kind, _, place = model.rpartition(":")
    name = place.partition("@")[0].partition("#")[0].rpartition("/")[2].lower()
    if kind in ("", "hf"):
        for family, fim in FAMILIES.items():
            if name.startswith(family):
                return fim
    if kind in ("hf", "path") and known_tokens:
        known = {family: known_tokens(fim) for family, fim in FAMILIES.items()}
        complete = [family for family, fim in FAMILIES.items() if {*fim[:3]} <= known[family]]
        if complete:
            return FAMILIES[max(complete, key=lambda family: len(known[family]))]
    names = ", ".join(FAMILIES)
    raise UserError(
        f"model {model} has no fill-in-the-middle tokens known here; choose one of {names}"
    )


class Unfit(Exception):
    """A function that is not asked for, or an answer that is not taken; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Hole:
    """A function's text around its docstring to be: `before` + docstring + `after`."""

    payload: str
    before: str
    after: str

    def prompt(self, fim: FIM, form: str) -> str:
        after = self.after if form == "closed" else self.after.removeprefix('"""')
        return f"{fim[0]}{self.before}{fim[1]}{after}{fim[2]}"

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
    """The syntax tree of an IMPL's payload, which may be indented. Raises Unfit."""
    indented = payload[:1].isspace()
    try:
        body = syntax_tree("if 1:\n" + payload if indented else payload).body
    except UNPARSABLE as e:
        raise Unfit("does not parse") from e
    if indented:
        body = ast.increment_lineno(body[0], -1).body
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef | ast.AsyncFunctionDef):
        raise Unfit("more than one statement")
    return body[0]


def hole(payload: str) -> Hole:
    """Where a function's docstring goes. Raises Unfit for one that has one, is too long, or has no place."""
    function = _function(payload)
    if ast.get_docstring(function, clean=False) is not None:
        raise Unfit("has a docstring")
    if len(payload) > MAX_CHARS:
        raise Unfit(f"longer than {MAX_CHARS} characters")
    if any(token in payload for fim in FAMILIES.values() for token in fim):
        raise Unfit("holds a token of the model")
    lines, first = payload.split("\n"), function.body[0]
    row = min([first.lineno, *(d.lineno for d in getattr(first, "decorator_list", ()))]) - 1
    lead = ""  # what stands before the first statement on its line
    if row == first.lineno - 1:
        lead = lines[row].encode("utf8", "surrogatepass")[: first.col_offset].decode()
    if lead.strip():  # `def f(): return 1` becomes three lines
        margin = re.match(r"\s*", lines[0])[0]
        indent = margin + ("\t" if "\t" in margin else "    ")
        above, below = (
            [*lines[:row], lead.rstrip()],
            [indent + lines[row][len(lead) :], *lines[row + 1 :]],
        )
    else:  # under the signature, above the comments and empty lines that lead to the first statement
        indent = re.match(r"\s*", lines[row])[0]
        while row > 1 and lines[row - 1].lstrip()[:1] in ("", "#"):
            row -= 1
        above, below = lines[:row], lines[row:]
    place = Hole(payload, "\n".join([*above, f'{indent}"""']), "\n".join(['"""', *below]))
    try:
        place.fill("x")
    except Unfit as e:
        raise Unfit("no place for a docstring") from e
    return place


def _text(raw: str, fim: FIM) -> str:
    """A model's text up to its closing quotes, or a token that is no text."""
    return re.split("|".join(map(re.escape, ('"""', *fim))), raw, maxsplit=1)[0]


def closed(raw: str, fim: FIM) -> bool:
    """Whether the docstring in a model's text has ended, so that nothing after it counts."""
    return _text(raw, fim) != raw


def judge(hole: Hole, raw: str, fim: FIM, finish: str) -> str:
    """The docstring that a model's text gives a function, with its closing line. Raises Unfit.

    A text whose `finish` is "length" is cut back to its last whole line or sentence.
    """
    whole = closed(raw, fim) or finish != "length"
    text = _text(raw, fim)
    if not whole:
        text = text[: max(text.rfind("\n"), text.rfind(". ") + 1, 0)]
    if not re.search(r"[^\W\d_]{2}", text):
        raise Unfit("empty" if whole else "no end")
    if _PLACEHOLDER.match(text.strip()):
        raise Unfit("a placeholder")
    if text.count('"') % 2:
        raise Unfit("quotes broken")
    text = "\n".join(line.rstrip() for line in text.rstrip().split("\n"))
    if any(n > 2 for line, n in Counter(text.split("\n")).items() if line):
        raise Unfit("repeats itself")
    # A definition, an import, a print, another string, or a line of the function is no docstring.
    code = {line.strip() for line in hole.payload.split("\n")}
    if any(_CODE.match(t) or (len(t) > 5 and t in code) for t in map(str.strip, text.split("\n"))):
        raise Unfit("code leaked")
    if text.endswith('"'):
        text += " "
    if "\n" in text:  # the closing quotes get a line of their own, as PEP 257 has it
        text += "\n" + hole.before[hole.before.rfind("\n") + 1 : -3]
    hole.fill(text)
    return text


def candidates(graph: PKG) -> tuple[dict[str, tuple[int, Hole]], dict[str, int]]:
    """(payload digest -> (first IMPL node, hole) of functions without docstring, others by reason).

    In the order of the digests: the first n are a sample of the corpus.
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
    """IMPL node -> its text with its row's docstring; left out where that does not fit (a hand's edit)."""
    docstrings = {r["payload_sha256"]: r["docstring"] for r in rows if r.get("docstring")}
    enhanced: dict[int, str] = {}
    nodes = graph.of_type(IMPL)
    for node, payload in zip(nodes.tolist(), graph.payloads(nodes), strict=True):
        with suppress(Unfit):
            if docstring := docstrings.get(digest(payload)):
                enhanced[node] = hole(payload).fill(docstring)
    return enhanced
