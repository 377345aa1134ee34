"""Docstrings by fill-in-the-middle (the paper's first version, Step 4: FunctionEnhancer).

The prompt is the function with a hole under its signature. In the paper's form ("closed") quotes
surround the hole. A small model then often leaves it empty, so in the form "open" it writes the
closing quotes itself. A docstring is accepted only if the rest of the syntax tree stays the same.
The graph is not changed.
"""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pkg_lib.core.python_syntax import UNPARSABLE, syntax_tree
from pkg_lib.core.types import UserError, digest
from pkg_lib.graph.nodes import IMPL
from pkg_lib.graph.schema import Graph

MAX_CHARS = 4000  # of a function: with the docstring it stays within 2,048 tokens
FORMS = ("closed", "open")
# Special tokens of a model family: prefix, suffix, middle, then those that end the middle.
FIM = tuple[str, ...]
FAMILIES: dict[str, FIM] = {
    "qwen2.5-coder": (
        "<|fim_prefix|>",
        "<|fim_suffix|>",
        "<|fim_middle|>",
        "<|fim_pad|>",
        "<|endoftext|>",
        "<|im_end|>",
        "<|im_start|>",
        "<|file_sep|>",
        "<|repo_name|>",
        "<|cursor|>",
    ),
    "starcoder2": (
        "<fim_prefix>",
        "<fim_suffix>",
        "<fim_middle>",
        "<|endoftext|>",
        "<file_sep>",
        "<repo_name>",
    ),
    # These tokens are in the authors' published enhancer.
    "codegemma": (
        "<|fim_prefix|>",
        "<|fim_suffix|>",
        "<|fim_middle|>",
        "<|file_separator|>",
    ),
}
_PLACEHOLDER = re.compile(r"(todo|fixme|xxx|docstring|_\w+_|\.\.\.)\b", re.I)
_CODE = re.compile(
    r"(async )?def \w+\s*\(|class \w+\s*[(:]|import \w+|from [\w.]+ import |@\w+|print\s*\("
    r"|raise \w+\s*\(|[\"']{2,}"
)


def fim_of(
    model: str,
    known_tokens: Callable[[Iterable[str]], set[str]] | None = None,
) -> FIM:
    """Return the tokens with which a model fills in the middle.

    Args:
        model: The model's name: a registered one, or hf:, path: or endpoint: with a place.
        known_tokens: Returns those of some texts that are single tokens of the model. It is called
            for models of the hub or of a directory whose name does not tell the family.

    Returns:
        The tokens of the model's family.

    Raises:
        UserError: The model was not trained to fill in the middle, or with tokens that are not
            known here.
    """
    kind, _, place = model.rpartition(":")
    repository = re.split("[@#]", place)[0]
    name = repository.rpartition("/")[2].lower()
    if kind in ("", "hf"):
        for family, fim in FAMILIES.items():
            if name.startswith(family):
                return fim
    if kind in ("hf", "path") and known_tokens:
        known = {family: known_tokens(fim) for family, fim in FAMILIES.items()}
        complete = [family for family, fim in FAMILIES.items() if {*fim[:3]} <= known[family]]
        if complete:
            best = max(
                complete,
                key=lambda family: len(known[family]),
            )
            return FAMILIES[best]
    names = ", ".join(FAMILIES)
    raise UserError(
        f"model {model} has no fill-in-the-middle tokens known here; choose one of {names}"
    )


class UnfitDocstringError(Exception):
    """A function has no place for a docstring, or a docstring is rejected.

    Attributes:
        args: The reason as a short phrase. Functions are counted by it.
    """


@dataclass(frozen=True, slots=True)
class Hole:
    """The text of a function around the place of its docstring.

    Attributes:
        payload: The function.
        before: The text before the docstring, which ends with the opening quotes.
        after: The text after the docstring, which begins with the closing quotes.
    """

    payload: str
    before: str
    after: str

    def prompt(self, fim: FIM, form: str) -> str:
        """Write the prompt with which a model fills in the docstring.

        Args:
            fim: The special tokens of the model, from `fim_of`.
            form: One of FORMS. With "closed" the text after the hole begins with the closing
                quotes; with "open" the model writes them.

        Returns:
            The prompt: the text before the hole, the text after it, and the token that starts the
            middle.
        """
        after = self.after if form == "closed" else self.after.removeprefix('"""')
        return f"{fim[0]}{self.before}{fim[1]}{after}{fim[2]}"

    def fill(self, docstring: str) -> str:
        """Return the function with a docstring.

        Args:
            docstring: The text between the quotes, with the indentation of its lines after the
                first.

        Returns:
            The text of the function.

        Raises:
            UnfitDocstringError: The text is not a docstring, or would change the code.
        """
        text = self.before + docstring + self.after
        function = _function(text)
        old = _function(self.payload)
        if ast.get_docstring(function, clean=False) is None:
            raise UnfitDocstringError("quotes broken")
        del function.body[0]
        if ast.dump(function) != ast.dump(old):
            raise UnfitDocstringError("the code would change")
        return text


def _function(
    payload: str,
) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """Parse a function, which may be indented; raise UnfitDocstringError for anything else."""
    is_indented = payload[:1].isspace()
    try:
        module = syntax_tree(f"if 1:\n{payload}" if is_indented else payload)
    except UNPARSABLE as e:
        raise UnfitDocstringError("does not parse") from e
    body = module.body
    if is_indented and isinstance(body[0], ast.If):
        body = ast.increment_lineno(body[0], -1).body
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef | ast.AsyncFunctionDef):
        raise UnfitDocstringError("more than one statement")
    return body[0]


def hole(payload: str) -> Hole:
    """Find the place of a function's docstring.

    Args:
        payload: The function.

    Raises:
        UnfitDocstringError: The function has a docstring, is too long, or has no place for one.
    """
    function = _function(payload)
    if ast.get_docstring(function, clean=False) is not None:
        raise UnfitDocstringError("has a docstring")
    if len(payload) > MAX_CHARS:
        raise UnfitDocstringError(f"longer than {MAX_CHARS} characters")
    for fim in FAMILIES.values():
        if any(token in payload for token in fim):
            raise UnfitDocstringError("holds a token of the model")
    first = function.body[0]
    lines = payload.split("\n")
    decorators = getattr(first, "decorator_list", ())
    row = min(node.lineno for node in (first, *decorators)) - 1
    line = lines[row]
    lead = ""  # text before the first statement on its line
    if row == first.lineno - 1:
        lead = line.encode("utf8", "surrogatepass")[: first.col_offset].decode()
    if lead.strip():  # `def f(): return 1` becomes three lines
        margin = _indentation(lines[0])
        indent = margin + ("\t" if "\t" in margin else "    ")
        above = [*lines[:row], lead.rstrip()]
        below = [
            indent + line[len(lead) :],
            *lines[row + 1 :],
        ]
    else:  # above the comments and empty lines that lead to the first statement
        indent = _indentation(line)
        while row > 1 and _is_blank_or_comment(lines[row - 1]):
            row -= 1
        above = lines[:row]
        below = lines[row:]
    before = [*above, f'{indent}"""']
    after = ['"""', *below]
    place = Hole(payload, "\n".join(before), "\n".join(after))
    try:
        place.fill("x")
    except UnfitDocstringError as e:
        raise UnfitDocstringError("no place for a docstring") from e
    return place


def _is_blank_or_comment(line: str) -> bool:
    return line.lstrip()[:1] in ("", "#")


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _before_end(raw: str, fim: FIM) -> str:
    """Return a model's text up to its closing quotes or a special token."""
    ends = map(re.escape, ('"""', *fim))
    return re.split("|".join(ends), raw, maxsplit=1)[0]


def closed(raw: str, fim: FIM) -> bool:
    """Tell whether the docstring in a model's text has ended, so that nothing after it counts.

    Args:
        raw: The text that the model has written for the hole so far.
        fim: The special tokens of the model.

    Returns:
        Whether the text contains closing quotes or one of the tokens.
    """
    return _before_end(raw, fim) != raw


def extract_docstring(hole: Hole, raw: str, fim: FIM, finish: str) -> str:
    """Return the docstring that a model's text gives a function, with its closing line.

    Args:
        hole: The function.
        raw: The model's text.
        fim: The special tokens of the model.
        finish: Why the text ended. A text that ended by "length" is cut back to its last whole line
            or sentence.

    Raises:
        UnfitDocstringError: The text gives no acceptable docstring.
    """
    is_whole = closed(raw, fim) or finish != "length"
    text = _before_end(raw, fim)
    if not is_whole:
        end = max(text.rfind("\n"), text.rfind(". ") + 1, 0)
        text = text[:end]
    if not re.search(r"[^\W\d_]{2}", text):
        raise UnfitDocstringError("empty" if is_whole else "no end")
    if _PLACEHOLDER.match(text.strip()):
        raise UnfitDocstringError("a placeholder")
    if text.count('"') % 2:
        raise UnfitDocstringError("quotes broken")
    lines = [line.rstrip() for line in text.rstrip().split("\n")]
    if any(line and times > 2 for line, times in Counter(lines).items()):
        raise UnfitDocstringError("repeats itself")
    # A definition, an import, a print, another string, or a line of the function is not a docstring.
    code = {line.strip() for line in hole.payload.split("\n")}
    for line in map(str.strip, lines):
        if _CODE.match(line) or (len(line) > 5 and line in code):
            raise UnfitDocstringError("code leaked")
    text = "\n".join(lines)
    if text.endswith('"'):
        text += " "
    if "\n" in text:  # the closing quotes get a line of their own, as in PEP 257
        text += "\n" + _indentation(hole.before.split("\n")[-1])
    hole.fill(text)
    return text


def candidates(
    graph: Graph,
) -> tuple[dict[str, tuple[int, Hole]], dict[str, int]]:
    """Find the functions without docstring.

    Args:
        graph: A graph of code.

    Returns:
        The first IMPL node and the hole of each function by the digest of its payload, in the order
        of the digests, so that the first n are a sample of the corpus; and the number of other
        functions by reason.
    """
    holes: dict[str, tuple[int, Hole]] = {}
    skipped: Counter[str] = Counter()
    nodes = graph.of_type(IMPL)
    for node, payload in zip(nodes.tolist(), graph.payloads(nodes), strict=True):
        key = digest(payload)
        if key in holes:
            skipped["same text as another"] += 1
            continue
        try:
            holes[key] = node, hole(payload)
        except UnfitDocstringError as e:
            skipped[str(e)] += 1
    return dict(sorted(holes.items())), dict(skipped)


def enhanced_payloads(graph: Graph, rows: Iterable[dict[str, Any]]) -> dict[int, str]:
    """Return the text of each function that has a docstring among stored rows.

    Args:
        graph: A graph of code.
        rows: Stored docstrings, with the fields `payload_sha256` and `docstring`.

    Returns:
        The text by IMPL node. A docstring that does not fit (edited by hand) is left out.
    """
    docstrings = {row["payload_sha256"]: row.get("docstring") for row in rows}
    enhanced: dict[int, str] = {}
    nodes = graph.of_type(IMPL)
    for node, payload in zip(nodes.tolist(), graph.payloads(nodes), strict=True):
        docstring = docstrings.get(digest(payload))
        if docstring:
            with suppress(UnfitDocstringError):
                enhanced[node] = hole(payload).fill(docstring)
    return enhanced
