"""Pass one: a Java file's types and the types that they refer to, by tree-sitter (Section 6.5.1).

No file needs another one. tree-sitter goes on after a syntax error, so most broken files give their types.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import NamedTuple

from tree_sitter import Language, Node, Parser, Query, QueryCursor
from tree_sitter_java import language

from pkg_lib.core.source_tree import BINARY
from pkg_lib.graph.types.scan import text_of

VERSION = 4  # of what is kept of a file; raise it when that changes
PIECE = 2**12  # bytes that the parser is handed at a time
# Reports of progress after which a file is given up: text that is no Java takes quadratic time, source up to
# 41 a kilobyte. Counted, not timed: every machine gives the same graph.
STEPS, STEPS_A_KILOBYTE = 100_000, 100

Span = tuple[int, int]
Captures = Mapping[str, list[Node]]
KINDS = ("class", "interface", "enum", "record", "annotation")
NO_TYPE = "declares no type"
NO_TYPE_FOUND, TOO_LONG = "does not parse: no type found", "does not parse within the limit"
ERRORS, TWICE = "syntax errors, read in part", "declares a type twice"

_TYPE = "[(type_identifier) (scoped_type_identifier) (generic_type) (array_type) (annotated_type)]"
_QUERY = f"""
(package_declaration [(identifier) (scoped_identifier)] @package)
(import_declaration) @import
(class_declaration) @class
(interface_declaration) @interface
(enum_declaration) @enum
(record_declaration) @record
(annotation_type_declaration) @annotation
(_ type_parameters: (type_parameters)) @generic
(method_declaration (modifiers [(annotation) (marker_annotation)])) @annotated
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
BODIES = ("class_body", "interface_body", "enum_body_declarations", "annotation_type_body")
_DECLARES = re.compile(r"\b(?:class|interface|enum|record)\b")
_NAME = re.compile(r"[^\W\d][\w$]*")
# A long row of literals says nothing of types, and tree-sitter's queries take quadratic time over one.
_ROW = re.compile(
    rb"""(?<=\{)(?:\s*[-+]?(?:\d[\w.]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')\s*,){256,}+"""
)
# What matters to an annotation: comments, literals, annotations' names, parentheses, and anything else.
_TOKEN = re.compile(
    rb"//[^\n]*"
    rb"|/\*(?:.*?\*/|.*)"
    rb'|"""(?:[^\\]|\\.)*?(?:"""|\Z)'
    rb'|"(?:[^"\\\n]|\\.)*"?'
    rb"|'(?:[^'\\\n]|\\.)*'?"
    rb"|@\s*[\w$\x80-\xff]+(?:\s*\.\s*[\w$\x80-\xff]+)*"
    rb"|\.\.\.|\s+|[^\s@.()\"'/]+|.",
    re.S,
)
_NOISE = re.compile(r"<[^<>]*>|@\s*[\w.$]+(?:\s*\([^()]*\))?|/\*.*?\*/|//[^\n]*", re.S)


class Import(NamedTuple):
    """`a.b.C`, or `a.b` where all of it is imported on demand; `static` imports also bring nested types."""

    name: str
    on_demand: bool
    static: bool


class Declared(NamedTuple):
    """A type as its file declares it; lines count from 1."""

    kind: str
    name: str  # "Outer.Inner"; a second local class of one name is "Outer.Local#2"
    first: int
    last: int
    variables: tuple[str, ...]
    public: bool


class Reference(NamedTuple):
    """A type's name, as written without arguments."""

    owner: int  # the referring type's place in `Facts.types`
    place: (
        str  # one of PLACES, or bean, bean_parameter (what a method with @Bean returns and takes)
    )
    name: str
    bare: bool  # the written type is one simple name
    argument: bool  # between angle brackets
    variable: bool  # a type variable of that name is in scope


@dataclass(frozen=True, slots=True)
class Facts:
    """What a file says."""

    package: str = ""
    imports: tuple[Import, ...] = ()
    types: tuple[Declared, ...] = ()
    references: tuple[Reference, ...] = ()
    reason: str = ""  # why it gives no type
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
    source = _Source(_ROW.sub(lambda row: re.sub(rb"[^\n]", b" ", row[0]), text.encode()))
    root = source.parse()
    if root is not None and root.has_error:
        plain = without_vararg_annotations(source.data)
        if plain != source.data:
            source = _Source(plain)
            root = source.parse()
    if root is None:
        return Facts(reason=TOO_LONG, remarks=remarks)
    captures = QueryCursor(_grammar()[1]).captures(root)
    remarks += (ERRORS,) if root.has_error else ()
    types, spans, twice = source.types(captures)
    if not types:
        return Facts(reason=NO_TYPE_FOUND if root.has_error else NO_TYPE, remarks=remarks)
    remarks += (TWICE,) if twice else ()
    package = next(map(source.plain, captures.get("package", ())), "")
    # A query's captures come in no order.
    imports = map(source.imported, sorted(captures.get("import", ()), key=lambda n: n.start_byte))
    return Facts(
        package, tuple(imports), types, tuple(source.references(captures, spans)), "", remarks
    )


def without_vararg_annotations(data: bytes) -> bytes:
    """Blank the annotations of a variable-arity parameter's last dimension, which the grammar lacks.

    In ``int @Mark [] @Mark ... values`` (JLS 8.4.1) tree-sitter-java 0.23.5 fails at the second annotation,
    and takes the rest of the class for an error. The graph has no edges from annotations, and spaces in their
    place keep every position.

    Args:
        data: Java source as UTF-8.

    Returns:
        The source, as long as before.
    """
    blanked = bytearray(data)
    around: list[
        int | None
    ] = []  # for each open parenthesis: where the annotations that it belongs to start
    start: int | None = None  # where the annotations directly before this token start
    named = False  # the token before was an annotation's name
    for match in _TOKEN.finditer(data):
        token = match[0]
        if token.startswith((b"//", b"/*")) or token.isspace():
            continue
        if token.startswith(b"@"):
            start = match.start() if start is None else start
            named = True
            continue
        if token == b"(":
            around.append(start if named else None)
            start = None
        elif token == b")":
            start = around.pop() if around else None
        else:
            if token == b"..." and start is not None:
                blanked[start : match.start()] = re.sub(
                    rb"[^\n]", b" ", data[start : match.start()]
                )
            start = None
        named = False
    return bytes(blanked)


@dataclass(frozen=True)
class _Source:
    """A file's bytes, which must be UTF-8 (tree-sitter may crash), and what their tree says."""

    data: bytes

    def parse(self) -> Node | None:
        """The root of the syntax tree, None where the limit is reached."""
        parser, steps, most = (
            _grammar()[0],
            count(),
            STEPS + STEPS_A_KILOBYTE * len(self.data) // 1024,
        )

        def piece(at: int, _: object) -> bytes:
            return self.data[at : at + PIECE]

        try:
            return parser.parse(piece, progress_callback=lambda *_: next(steps) > most).root_node
        except ValueError:
            parser.reset()
            return None

    def text(self, node: Node) -> str:
        """From the bytes: `node.text` would ask the parser's callback again."""
        return self.data[node.start_byte : node.end_byte].decode("utf8", "replace")

    def plain(self, node: Node) -> str:
        """A name's text without the spaces and comments that Java allows around dots."""
        return ".".join(_NAME.findall(_NOISE.sub("", self.text(node))))

    def imported(self, node: Node) -> Import:
        words = _NOISE.sub("", self.text(node)).removesuffix(";").split()
        static = "static" in words[1:2]
        name = "".join(words[1 + static :])
        return Import(name.removesuffix(".*"), name.endswith(".*"), static)

    def types(self, captures: Captures) -> tuple[tuple[Declared, ...], list[Span], bool]:
        """The declared types in the order of the file, the bytes of each, whether one is declared twice."""
        declared: list[Declared] = []
        spans: list[Span] = []
        around: list[int] = []  # the types that are open, outermost first
        times: Counter[str] = Counter()
        twice = False
        nodes = (
            (n.start_byte, n.end_byte, kind, n) for kind in KINDS for n in captures.get(kind, ())
        )
        for start, end, kind, node in sorted(nodes, key=lambda x: x[:2]):
            while around and spans[around[-1]][1] <= start:
                around.pop()
            name = node.child_by_field_name("name")
            simple = self.text(name) if name else ""
            if not simple:  # an error's remains
                continue
            full = f"{declared[around[-1]].name}.{simple}" if around else simple
            times[full] += 1
            if times[full] > 1:
                twice = twice or not around or _is_member(node)
                full += f"#{times[full]}"
            lines = node.start_point[0] + 1, node.end_point[0] + 1
            declared.append(Declared(kind, full, *lines, self.variables(node), _is_public(node)))
            around.append(len(spans))
            spans.append((start, end))
        return tuple(declared), spans, twice

    def variables(self, node: Node) -> tuple[str, ...]:
        """The type variables that a declaration has."""
        parameters = node.child_by_field_name("type_parameters")
        children = [p.named_children for p in (parameters.named_children if parameters else ())]
        names = ([c for c in part if c.type == "type_identifier"][:1] for part in children)
        return tuple(self.text(n) for first in names for n in first)

    def references(self, captures: Captures, spans: list[Span]) -> Iterator[Reference]:
        """Every type name of PLACES and of beans, each once a place and owner."""
        nodes = [(n.start_byte, place, n) for place in PLACES for n in captures.get(place, ())]
        nodes += [
            (n.start_byte, place, n) for place, n in self.beans(captures.get("annotated", ()))
        ]
        owners = _Open(spans)
        generics = sorted(captures.get("generic", ()), key=lambda n: n.start_byte)
        scopes = _Open([(n.start_byte, n.end_byte) for n in generics])
        variables = [frozenset(self.variables(n)) for n in generics]
        seen: set[Reference] = set()
        for start, place, node in sorted(nodes, key=lambda x: x[:2]):
            around, declaring = owners.at(start), scopes.at(start)
            if not around:  # an error's remains
                continue
            bare = node.type == "type_identifier"
            for name, argument in self.names(node):
                known = any(name.partition(".")[0] in variables[i] for i in declaring)
                reference = Reference(around[-1], place, name, bare, argument, known)
                if reference not in seen:
                    seen.add(reference)
                    yield reference

    def beans(self, methods: Iterable[Node]) -> Iterator[tuple[str, Node]]:
        """(place, written type) of what methods with Spring's @Bean return and take."""
        for method in {m.start_byte: m for m in methods}.values():
            marks = [m.child_by_field_name("name") for m in method.named_children[0].named_children]
            returned = method.child_by_field_name("type")
            if returned and any(m and self.plain(m).rpartition(".")[2] == "Bean" for m in marks):
                yield "bean", returned
                parameters = method.child_by_field_name("parameters")
                for parameter in parameters.named_children if parameters else ():
                    if written := parameter.child_by_field_name("type"):
                        yield "bean_parameter", written

    def names(self, node: Node) -> Iterator[tuple[str, bool]]:
        """(name, whether it is a type argument) in a written type; a loop: brackets nest without limit."""
        waiting = [(node, False)]
        while waiting:
            part, argument = waiting.pop()
            if part.type == "type_identifier":
                yield self.text(part), argument
            elif part.type == "scoped_type_identifier":
                yield self.scoped(part), argument
                children = (child for p in _left(part) for child in p.named_children)
                waiting += [(child, True) for child in children if child.type == "type_arguments"]
            elif part.type not in ("marker_annotation", "annotation", "dimensions"):
                inside = argument or part.type == "type_arguments"
                waiting += [(child, inside) for child in reversed(part.named_children)]

    def scoped(self, node: Node) -> str:
        """`a.b.Outer<X>.Inner` -> "a.b.Outer.Inner"."""
        children = (child for part in _left(node) for child in reversed(part.named_children))
        names = [self.text(child) for child in children if child.type == "type_identifier"]
        return ".".join(reversed(names))


class _Open:
    """Sorted, nested spans, of which `at` tells those around a place; places only go forward."""

    def __init__(self, spans: list[Span]) -> None:
        self.spans, self.following = spans, 0
        self.around: list[int] = []

    def at(self, place: int) -> list[int]:
        while self.following < len(self.spans) and self.spans[self.following][0] <= place:
            self.around.append(self.following)
            self.following += 1
        self.around = [i for i in self.around if self.spans[i][1] > place]
        return self.around


def _is_public(node: Node) -> bool:
    modifiers = node.child(0)
    return modifiers is not None and any(m.type == "public" for m in modifiers.children)


def _is_member(node: Node) -> bool:
    """Whether a type is a member of another one: no local class, and none of an anonymous one."""
    body = node.parent
    holder = body.parent if body and body.type in BODIES else None
    return holder is not None and holder.type != "object_creation_expression"


def _left(node: Node) -> Iterator[Node]:
    """The nodes along the left edge of a scoped name, itself first."""
    current: Node | None = node
    while current is not None:
        yield current
        scopes = (
            c
            for c in current.named_children
            if c.type in ("scoped_type_identifier", "generic_type")
        )
        current = next(scopes, None)
