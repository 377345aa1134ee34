"""One Java file -> its types and the types that they refer to, by tree-sitter; pass one of the graph (Section 6.5.1).

The file is read once and needs no other file, so that files can be parsed by several processes and kept from run to run.
tree-sitter goes on after a syntax error, so most files that do not parse still give their types.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from tree_sitter import Language, Node, Parser, Query, QueryCursor
from tree_sitter_java import language

from pkg_lib.graph.types.scan import text_of

VERSION = 1  # of what is kept of a file; raise it when that changes
PIECE = 2**12  # bytes that the parser is handed at a time; the clock is looked at for each
SECONDS, SECONDS_A_MEGABYTE = 5.0, 5.0  # for one file; text that is no Java takes quadratic time

KINDS = ("class", "interface", "enum", "record", "annotation")
BINARY, NO_TYPE = "binary", "declares no type"
NO_TYPE_FOUND, TOO_SLOW = "does not parse: no type found", "does not parse in time"
ERRORS = "syntax errors, read in part"

_TYPE = "[(type_identifier) (scoped_type_identifier) (generic_type) (array_type) (annotated_type)]"
_QUERY = f"""
(package_declaration [(identifier) (scoped_identifier)] @package)
(import_declaration) @import
(class_declaration) @class
(interface_declaration) @interface
(enum_declaration) @enum
(record_declaration) @record
(annotation_type_declaration) @annotation
(type_parameter) @variable
(field_declaration type: {_TYPE} @field)
(constant_declaration type: {_TYPE} @constant)
(constructor_declaration parameters: (formal_parameters (formal_parameter type: {_TYPE} @parameter)))
(constructor_declaration parameters: (formal_parameters (spread_parameter {_TYPE} @rest)))
(record_declaration parameters: (formal_parameters (formal_parameter type: {_TYPE} @component)))
(record_declaration parameters: (formal_parameters (spread_parameter {_TYPE} @component)))
(superclass {_TYPE} @extends)
(extends_interfaces (type_list {_TYPE} @extends))
(super_interfaces (type_list {_TYPE} @implements))
"""
PLACES = ("field", "constant", "parameter", "rest", "component", "extends", "implements")
_DECLARES = re.compile(r"\b(?:class|interface|enum|record)\b")
_NAME = re.compile(r"[^\W\d][\w$]*")
_NOISE = re.compile(r"<[^<>]*>|@\s*[\w.$]+(?:\s*\([^()]*\))?|/\*.*?\*/|//[^\n]*", re.S)


class Import(NamedTuple):
    """`a.b.C`, or `a.b` where all of it is imported on demand; `static` imports also bring nested types."""

    name: str
    on_demand: bool
    static: bool


class Declared(NamedTuple):
    """A type as its file declares it. `name` has the enclosing types before it ("Outer.Inner"); lines count from 1.

    Local classes of different methods may share a name; the second is "Outer.Local#2". `public`: other packages see it.
    """

    kind: str
    name: str
    first: int
    last: int
    variables: tuple[str, ...]
    public: bool


class Reference(NamedTuple):
    """A type's name, as written without arguments, dots kept. `owner` is the place of the referring type in `Facts.types`.

    `bare`: the whole written type is one simple name. `argument`: it stands between angle brackets. `variable`: a type
    variable of that name is in scope.
    """

    owner: int
    place: str
    name: str
    bare: bool
    argument: bool
    variable: bool


def simple_name(name: str) -> str:
    """The last part of a type's name, without the number of a local class."""
    return name.rpartition(".")[2].partition("#")[0]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a file says. `reason` tells why it gives no type ("" where it does); `remarks` what is unusual about it."""

    package: str = ""
    imports: tuple[Import, ...] = ()
    types: tuple[Declared, ...] = ()
    references: tuple[Reference, ...] = ()
    reason: str = ""
    remarks: tuple[str, ...] = ()


@cache
def _grammar() -> tuple[Parser, Query]:
    java = Language(language())
    return Parser(java), Query(java, _QUERY)


def facts_of(data: bytes) -> Facts:
    """Parses one file's bytes."""
    text, remarks = text_of(data)
    if "\0" in text:
        return Facts(reason=BINARY, remarks=remarks)
    if not _DECLARES.search(text):
        return Facts(reason=NO_TYPE, remarks=remarks)
    root = _parse(text.encode())
    if root is None:
        return Facts(reason=TOO_SLOW, remarks=remarks)
    found = QueryCursor(_grammar()[1]).captures(root)
    remarks += (ERRORS,) if root.has_error else ()
    types, spans = _types(found)
    if not types:
        return Facts(reason=NO_TYPE_FOUND if root.has_error else NO_TYPE, remarks=remarks)
    package = next((_plain(n) for n in found.get("package", ())), "")
    references = tuple(_references(found, types, spans))
    return Facts(package, tuple(map(_import, found.get("import", ()))), types, references, "", remarks)


def _parse(data: bytes) -> Node | None:
    """The root of the syntax tree, None where time runs out. `data` must be valid UTF-8, else tree-sitter may crash."""
    end = time.monotonic() + SECONDS + SECONDS_A_MEGABYTE * len(data) / 2**20
    late = False

    def piece(at: int, _: object) -> bytes:
        nonlocal late
        late = late or time.monotonic() > end
        return b"" if late else data[at : at + PIECE]

    tree = _grammar()[0].parse(piece)
    return None if late else tree.root_node


def _plain(node: Node) -> str:
    """A name's text without the spaces and comments that Java allows around dots."""
    return ".".join(_NAME.findall(_NOISE.sub("", _text(node))))


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf8", "replace")


def _import(node: Node) -> Import:
    words = _NOISE.sub("", _text(node)).removesuffix(";").split()
    static = "static" in words[1:2]
    name = "".join(words[1 + static :])
    return Import(name.removesuffix(".*"), name.endswith(".*"), static)


def _types(found: dict[str, list[Node]]) -> tuple[tuple[Declared, ...], list[tuple[int, int]]]:
    """The declared types in the order of the file, and the bytes that each spans."""
    nodes = sorted(
        ((n.start_byte, n.end_byte, kind, n) for kind in KINDS for n in found.get(kind, ())),
        key=lambda x: x[:2],
    )
    declared: list[Declared] = []
    spans: list[tuple[int, int]] = []
    around: list[int] = []  # the types that are open, outermost first
    times: Counter[str] = Counter()
    for start, end, kind, node in nodes:
        while around and spans[around[-1]][1] <= start:
            around.pop()
        name = node.child_by_field_name("name")
        own = _text(name) if name else ""
        if not own:  # an error's remains
            continue
        full = f"{declared[around[-1]].name}.{own}" if around else own
        times[full] += 1
        full += f"#{times[full]}" if times[full] > 1 else ""
        variables = _variables(node.child_by_field_name("type_parameters"))
        declared.append(
            Declared(kind, full, node.start_point[0] + 1, node.end_point[0] + 1, variables, _public(node))
        )
        around.append(len(spans))
        spans.append((start, end))
    return tuple(declared), spans


def _public(node: Node) -> bool:
    modifiers = node.children[0]
    return modifiers.type == "modifiers" and any(m.type == "public" for m in modifiers.children)


def _variables(parameters: Node | None) -> tuple[str, ...]:
    if parameters is None:
        return ()
    names = (
        next((c for c in p.named_children if c.type == "type_identifier"), None)
        for p in parameters.named_children
    )
    return tuple(_text(n) for n in names if n)


def _references(
    found: dict[str, list[Node]], types: tuple[Declared, ...], spans: list[tuple[int, int]]
) -> Iterator[Reference]:
    """Every type name of a field, constructor parameter, record component or supertype, each once a place and owner."""
    nodes = sorted(
        ((n.start_byte, place, n) for place in PLACES for n in found.get(place, ())), key=lambda x: x[:2]
    )
    scopes = list(_scopes(found.get("variable", ())))
    seen: set[Reference] = set()
    around: list[int] = []
    following = 0
    for start, place, node in nodes:
        while following < len(spans) and spans[following][0] <= start:
            around.append(following)
            following += 1
        while around and spans[around[-1]][1] <= start:
            around.pop()
        if not around:  # an error's remains
            continue
        variables = {name for first, last, name in scopes if first <= start < last}
        bare = node.type == "type_identifier"
        for name, argument in _names(node):
            reference = Reference(
                around[-1], place, name, bare, argument, name.partition(".")[0] in variables
            )
            if reference not in seen:
                seen.add(reference)
                yield reference


def _scopes(parameters: list[Node] | tuple[()]) -> Iterator[tuple[int, int, str]]:
    """(first byte, end, name) of where each type variable is known: the declaration that it belongs to."""
    for node in parameters:
        owner = node.parent.parent if node.parent else None
        name = next((c for c in node.named_children if c.type == "type_identifier"), None)
        if owner and name:
            yield owner.start_byte, owner.end_byte, _text(name)


def _names(node: Node) -> Iterator[tuple[str, bool]]:
    """(name, whether it is a type argument) of all types in a written type; a loop, since brackets nest without limit."""
    waiting = [(node, False)]
    while waiting:
        part, argument = waiting.pop()
        if part.type == "type_identifier":
            yield _text(part), argument
        elif part.type == "scoped_type_identifier":
            yield _scoped(part), argument
            waiting += [(a, True) for a in _inner(part, "type_arguments")]
        elif part.type in ("marker_annotation", "annotation", "dimensions"):
            continue
        else:
            inside = argument or part.type == "type_arguments"
            waiting += [(child, inside) for child in reversed(part.named_children)]


def _scoped(node: Node) -> str:
    """`a.b.Outer<X>.Inner` -> "a.b.Outer.Inner"."""
    parts: list[str] = []
    current: Node | None = node
    while current is not None:
        names = [c for c in current.named_children if c.type == "type_identifier"]
        inner = [c for c in current.named_children if c.type in ("scoped_type_identifier", "generic_type")]
        parts += [_text(n) for n in reversed(names)]
        current = inner[0] if inner else None
    return ".".join(reversed(parts))


def _inner(node: Node, kind: str) -> Iterator[Node]:
    """The nodes of a kind along the left edge of a scoped name."""
    current: Node | None = node
    while current is not None:
        children = current.named_children
        yield from (c for c in children if c.type == kind)
        current = next((c for c in children if c.type in ("scoped_type_identifier", "generic_type")), None)
