"""What a prompt itself shows of its function: examples as assertions, and inputs that are like theirs."""

import ast
import random
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from pkg_lib.graph.code import syntax_tree

# What stands between a call and its value: doctest's line break, and the signs and words of prose.
BETWEEN = re.compile(
    r"\s*(?:==+>?|=+>|-+>|➞|→|=|should (?:return|be)|must (?:return|be)|returns?|is|gives|outputs?"
    r"|#[ \t]*(?:=>|returns?)?|\n[ \t]*(?:Output:)?)\s*:?[ \t]*"
)
CONSTANTS = {"true": "True", "false": "False", "none": "None", "null": "None"}
LONGEST = 2000  # characters of an example
BROKEN = (SyntaxError, ValueError, TypeError, MemoryError, RecursionError)


@cache
def shown_examples(prompt: str, name: str) -> tuple[str, ...]:
    """The prompt's examples of function `name` as assertions, in order, each once.

    An example is an assertion that calls the function, or a call on literals that a literal follows: on its
    line, or on the next one behind doctest's sign. What cannot be read so is no example.
    """
    found: dict[str, str] = {}
    text = prompt[max(prompt.rfind(f"def {name}("), 0) :]
    for match in re.finditer(r"\bassert\b", text):
        lines = text[match.start() :][:LONGEST].split("\n")
        parts = ("\n".join(lines[: n + 1]) for n in range(len(lines)))
        if example := next((p for p in parts if _calls(p, name)), ""):
            found[example] = example.strip()
            text = text.replace(example, " " * len(example))
    text = text.replace("\\\\", "\\")  # a docstring's escapes
    for match in re.finditer(rf"(>>>[ \t]*)?(\b{re.escape(name)}\()", text):
        rest = text[match.start(2) :][:LONGEST]
        call = next(
            (p for p in _ending(rest, ")") if any(a is not None for a in _calls(p, name))), ""
        )
        if call and (value := _value(rest[len(call) :], bool(match[1]))):
            found.setdefault(call, f"assert {call} == {value}")
    return tuple(found.values())


def _ending(text: str, signs: str) -> Iterable[str]:
    """The beginnings of a text that end in one of the signs, shortest first."""
    return (text[: i + 1] for i, c in enumerate(text) if c in signs)


def _calls(source: str, name: str) -> list[list[Any] | None]:
    """Arguments of each call of a function in one statement; None where they are no literals by position."""
    try:
        (statement,) = syntax_tree(source.strip()).body
    except BROKEN:
        return []
    calls = [
        n for n in ast.walk(statement) if isinstance(n, ast.Call) and ast.unparse(n.func) == name
    ]
    return [None if c.keywords else _literals(c.args) for c in calls]


def _literals(nodes: Sequence[ast.expr | str]) -> list[Any] | None:
    """What expressions or their texts stand for; None where one is no literal."""
    try:
        return [ast.literal_eval(n) for n in nodes]
    except BROKEN:
        return None


def _value(rest: str, doctest: bool) -> str:
    """The literal that the text after a call names; "" without one."""
    between = BETWEEN.match(rest)
    if not between or (
        "\n" in between[0].rstrip(" \t") and not doctest and "Output" not in between[0]
    ):
        return ""
    after = rest[between.end() :]
    line = after.split("\n", 1)[0]
    pieces = (line[:end].strip().rstrip(".,;") for end in range(len(line), 0, -1))
    named = [CONSTANTS.get(p.lower(), p) for p in pieces]
    whole = _ending(after, ")]}") if after[:1] in tuple("([{") else ()
    return next((p for p in (*whole, *named) if _literals([p]) is not None), "")


def like_inputs(examples: Iterable[str], name: str, seed: str, count: int = 10) -> list[list[Any]]:
    """`count` lists of arguments, the examples' with small changes (CodeT lets a model write them)."""
    known = [args for e in examples for args in _calls(e, name) if args]
    draw = random.Random(seed)
    return [[_changed(a, draw) for a in draw.choice(known)] for _ in range(count if known else 0)]


def _changed(value: Any, draw: random.Random) -> Any:
    """A value of the same type; an unknown type stays."""
    if isinstance(value, bool):
        return draw.random() < 0.5
    if isinstance(value, int | float):
        return draw.choice(
            [value, value + 1, value - 1, value * 2, type(value)(draw.randint(0, 20))]
        )
    if isinstance(value, dict):
        return {k: _changed(v, draw) for k, v in value.items() if draw.random() < 0.9}
    if not isinstance(value, str | list | tuple) or not value:
        return value
    items = list(value) if isinstance(value, str) else [_changed(v, draw) for v in value]
    items = draw.choice([items, items[::-1], items[1:], items * 2, draw.sample(items, len(items))])
    return "".join(items) if isinstance(value, str) else type(value)(items)
