"""JSON to PATH and PATHVALUE nodes (Section 3.1.2, Equation 3), without loss.

An object or array is a PATH node, whose payload is its path. A primitive, null or an empty
container is a leaf, a PATHVALUE node: `path = Lists/examples[0]/code ; value = ...`. In a key, "~",
"/", "[" and ";" are written ~0 to ~3 (as in RFC 6901), and the empty key is ~4. A string that would
read as another value (`true`, `12`, `"a`) is written as a JSON string.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pkg_lib.core.types import Document
from pkg_lib.graph.nodes import (
    PATH,
    PATHVALUE,
    DocumentNodes,
    NodeRow,
)
from pkg_lib.graph.schema import Graph

MAX_DEPTH = 200  # levels of objects and arrays
TOO_DEEP = f"nested too deep: more than {MAX_DEPTH} levels"

Step = str | int  # a key of an object, or a position in an array

_PLAIN = ("~", "/", "[", ";", "")  # written ~0 to ~4
_ESCAPED = str.maketrans({plain: f"~{i}" for i, plain in enumerate(_PLAIN) if plain})
_ESCAPE = re.compile("~([0-4])")
_STEP = re.compile(r"\[(\d+)\]|/?([^/\[]+)")
_PAYLOAD = re.compile(r"path = (.*?) ; value = (.*)", re.S)
_LITERAL = re.compile(
    r'".*|true|false|null|\{\}|\[\]|-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?',
    re.S,
)
_SURROGATE = re.compile("[\ud800-\udfff]")


class RejectedDocumentError(Exception):
    """A document gives no tree.

    Attributes:
        args: The reason as `name` or `name: detail`. Documents are counted by the name.
    """


@dataclass(frozen=True, slots=True)
class Structured:
    """A document as JSON.

    Attributes:
        document: Name of the document.
        value: Its JSON object, or None.
        reason: Why there is none; with a JSON object, which sections of the document it lacks.
        attempts: How many times a model was prompted for it.
    """

    document: str
    value: dict[str, Any] | None
    reason: str = ""
    attempts: int = 1


def parse_json(text: str) -> Any:
    """Parse strict JSON, without duplicate keys and NaN.

    Args:
        text: The JSON text, such as a part of a model's answer.

    Returns:
        The value, which `tree` accepts.

    Raises:
        RejectedDocumentError: The text is not strict JSON, or a graph cannot hold its value.
    """
    try:
        value = json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as e:
        raise RejectedDocumentError(f"no JSON: {e.msg} at line {e.lineno}, column {e.colno}") from e
    except RecursionError as e:
        raise RejectedDocumentError(TOO_DEEP) from e
    except ValueError as e:  # an integer of thousands of digits
        raise RejectedDocumentError("number out of range") from e
    tree(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, member in pairs:
        if key in value:
            raise RejectedDocumentError(f"duplicate key: {key[:60]!a}")
        value[key] = member
    return value


def extend(path: str, step: Step) -> str:
    """Join a path and one more step (Join(p) of Equation 3).

    Args:
        path: Path of an object or array; "" for the root.
        step: The key of a member, or its position in an array. Special characters of a key are
            escaped.

    Returns:
        The path of the member.
    """
    if isinstance(step, int):
        return f"{path}[{step}]"
    key = step.translate(_ESCAPED) or "~4"
    return f"{path}/{key}" if path else key


def steps(path: str) -> list[Step]:
    """Split a path into its steps, from the root.

    Args:
        path: A path that `extend` built; "" for the root.

    Returns:
        Keys without escapes, and positions as integers. Empty for the root.
    """
    found: list[Step] = []
    for match in _STEP.finditer(path):
        position, key = match.groups()
        if position:
            found.append(int(position))
        else:
            found.append(_ESCAPE.sub(lambda escape: _PLAIN[int(escape[1])], key))
    return found


def serialize(path: str, value: Any) -> str:
    """Write the payload of a leaf (Equation 3).

    Args:
        path: Path of the leaf; "" if it is the whole document.
        value: A string, number, boolean, None, or an empty object or array.

    Returns:
        The text, from which `deserialize` reads both.
    """
    is_plain = isinstance(value, str) and not _LITERAL.fullmatch(value)
    text = value if is_plain else json.dumps(value, ensure_ascii=False)
    return f"path = {path} ; value = {text}"


def deserialize(payload: str) -> tuple[str, Any]:
    """Read the path and the value of a leaf from its payload.

    Args:
        payload: The text of a PATHVALUE node.

    Returns:
        The path and the value, of the type that it had in the JSON.

    Raises:
        ValueError: The text is not the payload of a leaf.
    """
    match = _PAYLOAD.fullmatch(payload)
    if not match:
        raise ValueError(f"no PATHVALUE payload: {payload[:60]!r}")
    path, value = match.groups()
    return path, json.loads(value) if _LITERAL.fullmatch(value) else value


def tree(value: Any) -> list[NodeRow]:
    """Return the nodes of a JSON value in the order of the text.

    Args:
        value: Any JSON value.

    Returns:
        The root and all nodes below it, each before its members. Their lines are 0, because a place
        in JSON has no line in the document.

    Raises:
        RejectedDocumentError: A graph cannot hold the value: it is nested deeper than MAX_DEPTH, or
            contains a number that is not finite or a lone surrogate.
    """
    rows: list[NodeRow] = []
    # A value, its path, the row of its parent, and its depth.
    stack: list[tuple[Any, str, int, int]] = [(value, "", -1, 0)]
    while stack:
        part, path, parent, depth = stack.pop()
        items: Iterable[tuple[Step, Any]] = ()
        if isinstance(part, dict | list):
            if depth >= MAX_DEPTH:
                raise RejectedDocumentError(TOO_DEEP)
            items = part.items() if isinstance(part, dict) else enumerate(part)
        elif isinstance(part, float) and not math.isfinite(part):
            raise RejectedDocumentError(f"not a number: {json.dumps(part)}")
        children = [(v, extend(path, step), len(rows), depth + 1) for step, v in items]
        kind = PATH
        payload = path
        if not children:
            kind = PATHVALUE
            payload = serialize(path, part)
        if _SURROGATE.search(payload):
            raise RejectedDocumentError("half a surrogate pair in a text")
        rows.append(NodeRow(kind, parent, 0, 0, payload))
        stack += reversed(children)
    return rows


def build_text_graph(
    documents: list[Document],
    structured: Iterable[Structured],
    meta: dict[str, str] | None = None,
) -> Graph:
    """Build the graph of PATH and PATHVALUE nodes of a corpus of text (Section 3.1.2).

    Args:
        documents: The documents.
        structured: Their JSON, in any order.
        meta: What the graph is built from, such as the corpus and its digest.

    Returns:
        The graph. Documents without JSON are in its `skipped`.
    """
    by_document = {result.document: result for result in structured}
    nodes = (_nodes_of(by_document.get(document.id)) for document in documents)
    return Graph.from_nodes(documents, nodes, meta)


def _nodes_of(result: Structured | None) -> DocumentNodes:
    if result is None:
        return DocumentNodes(skipped=["not structured"])
    if not result.value:
        return DocumentNodes(skipped=[result.reason or "nothing in it"])
    try:
        return DocumentNodes(tree(result.value))
    except RejectedDocumentError as e:
        return DocumentNodes(skipped=[str(e)])


def reasons(
    skipped: Iterable[tuple[str, str]],
) -> dict[str, int]:
    """Count skipped documents by the name of the reason.

    Args:
        skipped: (document, reason) of each, as in `Graph.skipped`. What follows the first colon of
            a reason is a detail, which does not matter.

    Returns:
        Number of documents by name, the most frequent first.
    """
    return dict(Counter(reason.partition(":")[0] for _, reason in skipped).most_common())
