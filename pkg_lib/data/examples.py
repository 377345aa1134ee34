"""Visible examples: what a prompt shows of its function, and inputs similar to theirs."""

import ast
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from pkg_lib.core.python_syntax import UNPARSABLE, syntax_tree

# What is between a call and its value: doctest's line break, and the signs and words of prose.
BETWEEN = re.compile(
    r"\s*(?:==+>?|=+>|-+>|➞|→|=|should (?:return|be)|must (?:return|be)|returns?|is|gives"
    r"|outputs?"
    r"|#[ \t]*(?:=>|returns?)?|\n[ \t]*(?:Output:)?)\s*:?[ \t]*"
)
CONSTANTS = {"true": "True", "false": "False", "none": "None", "null": "None"}
INPUTS = 10  # that are generated for a function
LONGEST = 2000  # characters of an example
NO_LITERAL = (*UNPARSABLE, TypeError)  # what `ast.literal_eval` raises


@cache
def visible_examples(
    prompt: str,
    name: str,
) -> tuple[str, ...]:
    """Read the examples that a prompt shows of a function.

    An example is an assertion that calls the function, or a call with literal arguments that is
    followed by a literal: on the same line, or on the next line after doctest's sign. Anything else
    is ignored.

    Args:
        prompt: The prompt.
        name: Name of the function.

    Returns:
        Assertions, each once: first those of the prompt, then those made of a call and a value.
    """
    text = prompt[max(prompt.rfind(f"def {name}("), 0) :]
    assertions: dict[str, str] = {}
    for match in re.finditer(r"\bassert\b", text):
        rest = text[match.start() :][:LONGEST]
        if found := _assertion(rest, name):
            assertions[found] = found.strip()
            text = text.replace(found, " " * len(found))
    text = text.replace("\\\\", "\\")  # a docstring's escapes
    for match in re.finditer(rf"(>>>[ \t]*)?(\b{re.escape(name)}\()", text):
        rest = text[match.start(2) :][:LONGEST]
        call = _literal_call(rest, name)
        if not call:
            continue
        value = _value(rest[len(call) :], is_doctest=bool(match[1]))
        if value:
            assertions.setdefault(call, f"assert {call} == {value}")
    return tuple(assertions.values())


def _assertion(
    text: str,
    name: str,
) -> str:
    """Return the assertion at the start of a text that calls the function; "" for none."""
    lines = text.split("\n")
    for count in range(1, len(lines) + 1):
        statement = "\n".join(lines[:count])
        if _calls(statement, name):
            return statement
    return ""


def _literal_call(
    text: str,
    name: str,
) -> str:
    """Return the call at the start of a text, if its arguments are literals; else ""."""
    for call in _beginnings(text, ")"):
        if any(arguments is not None for arguments in _calls(call, name)):
            return call
    return ""


def _beginnings(
    text: str,
    last: str,
) -> Iterator[str]:
    """Yield the beginnings of a text that end in one of the characters `last`, shortest first."""
    for i, character in enumerate(text):
        if character in last:
            yield text[: i + 1]


def _calls(
    source: str,
    name: str,
) -> list[list[Any] | None]:
    """Return the arguments of each call in a statement; None if they are not literals."""
    try:
        (statement,) = syntax_tree(source.strip()).body
    except NO_LITERAL:
        return []
    found: list[list[Any] | None] = []
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == name:
            arguments = None if node.keywords else _literals(node.args)
            found.append(arguments)
    return found


def _literals(nodes: Sequence[ast.expr | str]) -> list[Any] | None:
    """Return the values of expressions or their texts; None if one is not a literal."""
    try:
        return [ast.literal_eval(node) for node in nodes]
    except NO_LITERAL:
        return None


def _value(
    rest: str,
    is_doctest: bool,
) -> str:
    """Return the literal that the text after a call names; "" for none."""
    between = BETWEEN.match(rest)
    if not between:
        return ""
    on_next_line = "\n" in between[0].rstrip(" \t")
    if on_next_line and not is_doctest and "Output" not in between[0]:
        return ""
    after = rest[between.end() :]
    if after.startswith(("(", "[", "{")):
        for text in _beginnings(after, ")]}"):
            if _literals([text]) is not None:
                return text
    line = after.split("\n", 1)[0]
    for end in range(len(line), 0, -1):
        word = line[:end].strip().rstrip(".,;")
        word = CONSTANTS.get(word.lower(), word)
        if _literals([word]) is not None:
            return word
    return ""


def like_inputs(
    examples: Iterable[str],
    name: str,
    seed: str,
) -> list[list[Any]]:
    """Generate inputs by small changes of the examples' inputs (CodeT lets a model write them).

    Args:
        examples: Assertions, as `visible_examples` returns them.
        name: Name of the function.
        seed: Seed of the random numbers.

    Returns:
        A list of positional arguments per input; empty if no example has literal arguments.
    """
    known = [arguments for e in examples for arguments in _calls(e, name) if arguments]
    if not known:
        return []
    rng = random.Random(seed)
    inputs = []
    for _ in range(INPUTS):
        arguments = rng.choice(known)
        inputs.append([_changed(value, rng) for value in arguments])
    return inputs


def _changed(
    value: Any,
    rng: random.Random,
) -> Any:
    """Return a value of the same type; a value of another type than these is returned as it is."""
    if isinstance(value, bool):
        return rng.random() < 0.5
    if isinstance(value, int | float):
        other = type(value)(rng.randint(0, 20))
        return rng.choice([value, value + 1, value - 1, value * 2, other])
    if isinstance(value, dict):
        kept = {}
        for key, inner in value.items():
            if rng.random() < 0.9:
                kept[key] = _changed(inner, rng)
        return kept
    if isinstance(value, str) and value:
        return "".join(_rearranged(list(value), rng))
    if isinstance(value, list | tuple) and value:
        items = [_changed(inner, rng) for inner in value]
        return type(value)(_rearranged(items, rng))
    return value


def _rearranged(
    items: list[Any],
    rng: random.Random,
) -> list[Any]:
    """Return the items as they are, reversed, without the first, twice, or shuffled."""
    shuffled = rng.sample(items, len(items))
    return rng.choice([items, items[::-1], items[1:], items * 2, shuffled])
