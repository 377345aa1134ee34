"""JSON -> PATH and PATHVALUE nodes with JSON_CHILD edges (Section 3.1.2, Equation 3), without loss.

An object or array is a PATH node, its payload its path; a primitive, null or empty one a PATHVALUE leaf,
`path = Lists/examples[0]/code ; value = ...`. In a key "~", "/", "[" and ";" are written ~0 to ~3 (as in RFC
6901), the empty key is ~4; a string that would read as another value (`true`, `12`, `"a`) is a JSON string.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pkg_lib.core.types import Document
from pkg_lib.graph.nodes import PATH, PATHVALUE, DocumentNodes, NodeRow
from pkg_lib.graph.schema import PKG

MAX_DEPTH = 200  # levels of objects and arrays
TOO_DEEP = f"nested too deep: more than {MAX_DEPTH} levels"

Step = str | int

_PLAIN = ("~", "/", "[", ";", "")  # written ~0 to ~4
_ESCAPED = str.maketrans({plain: f"~{i}" for i, plain in enumerate(_PLAIN[:-1])})
_ESCAPE = re.compile("~([0-4])")
_STEP = re.compile(r"\[(\d+)\]|/?([^/\[]+)")
_PAYLOAD = re.compile(r"path = (.*?) ; value = (.*)", re.S)
_LITERAL = re.compile(r'".*|true|false|null|\{\}|\[\]|-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?', re.S)
_SURROGATE = re.compile("[\ud800-\udfff]")


class Rejected(Exception):
    """Why a document gives no tree, as `name` or `name: detail`; the name is what is counted."""


@dataclass(frozen=True, slots=True)
class Structured:
    """A document's JSON object, or None and the reason; `attempts` counts what a model was asked."""

    document: str
    value: dict[str, Any] | None
    reason: str = ""
    attempts: int = 1


def parse_json(text: str) -> Any:
    """A JSON text's value. Raises Rejected for what is no strict JSON: duplicate keys and NaN included."""
    try:
        value = json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as e:
        raise Rejected(f"no JSON: {e.msg} at line {e.lineno}, column {e.colno}") from e
    except RecursionError as e:
        raise Rejected(TOO_DEEP) from e
    except ValueError as e:  # an integer of thousands of digits
        raise Rejected("number out of range") from e
    tree(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    for key, times in Counter(key for key, _ in pairs).items():
        if times > 1:
            raise Rejected(f"duplicate key: {key[:60]!a}")
    return dict(pairs)


def extend(path: str, step: Step) -> str:
    """Join(p) of Equation 3 with one more step: a key, or a position in an array."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    key = step.translate(_ESCAPED) or "~4"
    return f"{path}/{key}" if path else key


def steps(path: str) -> list[Step]:
    """The keys (str) and positions (int) of a path, from the root."""
    found = _STEP.finditer(path)
    return [int(m[1]) if m[1] else _ESCAPE.sub(lambda e: _PLAIN[int(e[1])], m[2]) for m in found]


def serialize(path: str, value: Any) -> str:
    """The payload of a leaf (Equation 3)."""
    plain = isinstance(value, str) and not _LITERAL.fullmatch(value)
    return f"path = {path} ; value = {value if plain else json.dumps(value, ensure_ascii=False)}"


def deserialize(payload: str) -> tuple[str, Any]:
    """(path, value) of a leaf's payload; ValueError for another text."""
    match = _PAYLOAD.fullmatch(payload)
    if not match:
        raise ValueError(f"no PATHVALUE payload: {payload[:60]!r}")
    return match[1], json.loads(match[2]) if _LITERAL.fullmatch(match[2]) else match[2]


def tree(value: Any) -> list[NodeRow]:
    """The nodes of a JSON value in the text's order, on line 0. Rejected for what a graph cannot hold."""
    rows: list[NodeRow] = []
    stack: list[tuple[Any, str, int, int]] = [(value, "", -1, 0)]
    while stack:
        v, path, parent, depth = stack.pop()
        if isinstance(v, dict | list) and depth >= MAX_DEPTH:
            raise Rejected(TOO_DEEP)
        if isinstance(v, float) and not math.isfinite(v):
            raise Rejected(f"not a number: {json.dumps(v)}")
        items = v.items() if isinstance(v, dict) else enumerate(v) if isinstance(v, list) else ()
        children = [(child, extend(path, step), len(rows), depth + 1) for step, child in items]
        kind, payload = (PATH, path) if children else (PATHVALUE, serialize(path, v))
        if _SURROGATE.search(payload):
            raise Rejected("half a surrogate pair in a text")
        rows.append(NodeRow(kind, parent, 0, 0, payload))
        stack += reversed(children)
    return rows


def build_text(
    documents: list[Document], structured: Iterable[Structured], meta: dict[str, str] | None = None
) -> PKG:
    """The text-centric PKG, whatever the order of `structured`; documents without JSON are in `skipped`."""
    by_document = {s.document: s for s in structured}
    results = (by_document.get(d.id, Structured(d.id, None, "not structured")) for d in documents)
    return PKG.from_nodes(documents, map(_rows_of, results), meta)


def _rows_of(result: Structured) -> DocumentNodes:
    if not result.value:
        return DocumentNodes(skipped=[result.reason or "nothing in it"])
    try:
        return DocumentNodes(tree(result.value))
    except Rejected as e:
        return DocumentNodes(skipped=[str(e)])


def reasons(skipped: Iterable[tuple[str, str]]) -> dict[str, int]:
    """How many documents were skipped by the name of the reason, the most frequent first."""
    return dict(Counter(reason.partition(":")[0] for _, reason in skipped).most_common())
