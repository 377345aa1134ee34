"""Pass one of the type graph: the types and references of a Java file (Section 6.5.1).

No file needs another one. The parser, tree-sitter, continues after a syntax error, so most broken
files give their types.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import NamedTuple

from tree_sitter import (
    Language,
    Node,
    Parser,
    Query,
    QueryCursor,
)
from tree_sitter_java import language

from pkg_lib.core.source_tree import BINARY
from pkg_lib.graph.types.scan import text_of

VERSION = 4  # of the stored facts of a file; raise it when they change
PIECE = 2**12  # bytes that the parser is handed at a time
# The parser's reports of progress after which a file is given up. Text that is not Java takes
# quadratic time; source takes up to 41 reports a kilobyte. They are counted, not timed, so that
# every machine gives the same graph.
STEPS = 100_000
STEPS_A_KILOBYTE = 100

KINDS = ("class", "interface", "enum", "record", "annotation")
NO_TYPE = "declares no type"
NO_TYPE_FOUND = "does not parse: no type found"
TOO_LONG = "does not parse within the limit"
ERRORS = "syntax errors, read in part"
TWICE = "declares a type twice"

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
(constructor_declaration
  parameters: (formal_parameters (formal_parameter type: {_TYPE} @parameter)))
(constructor_declaration parameters: (formal_parameters (spread_parameter {_TYPE} @rest)))
(record_declaration parameters: (formal_parameters (formal_parameter type: {_TYPE} @component)))
(record_declaration parameters: (formal_parameters (spread_parameter {_TYPE} @component)))
(superclass {_TYPE} @extends)
(extends_interfaces (type_list {_TYPE} @extends))
(super_interfaces (type_list {_TYPE} @implements))
"""
PLACES = (
    "field",
    "constant",
    "parameter",
    "rest",
    "component",
    "extends",
    "implements",
)
BODIES = (
    "class_body",
    "interface_body",
    "enum_body_declarations",
    "annotation_type_body",
)
_DECLARES = re.compile(r"\b(?:class|interface|enum|record)\b")
_NAME = re.compile(r"[^\W\d][\w$]*")
# A long row of literals has no types, and tree-sitter's queries take quadratic time over one.
_ROW = re.compile(
    rb"""(?<=\{)(?:\s*[-+]?(?:\d[\w.]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')\s*,){256,}+"""
)
# What matters to an annotation: comments, literals, names of annotations, parentheses, anything
# else.
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
_NOISE = re.compile(
    r"<[^<>]*>|@\s*[\w.$]+(?:\s*\([^()]*\))?|/\*.*?\*/|//[^\n]*",
    re.S,
)


class Import(NamedTuple):
    """An import declaration.

    Attributes:
        name: `a.b.C`, or `a.b` if everything in it is imported on demand.
        on_demand: Whether it ends with `.*`.
        static: Whether it is static; a static import also brings nested types.
    """

    name: str
    on_demand: bool
    static: bool


class Declared(NamedTuple):
    """A type as its file declares it.

    Attributes:
        kind: One of KINDS.
        name: "Outer.Inner"; a second local class of one name is "Outer.Local#2".
        first: First line, counted from 1.
        last: Last line, inclusive.
        variables: Names of its type variables.
        public: Whether it is public.
    """

    kind: str
    name: str
    first: int
    last: int
    variables: tuple[str, ...]
    public: bool


class Reference(NamedTuple):
    """A name of a type, as written but without arguments.

    Attributes:
        owner: Position of the referring type in `Facts.types`.
        place: One of PLACES, or "bean" or "bean_parameter": what a method with @Bean returns and
            takes.
        name: The name.
        bare: Whether the written type is one simple name.
        argument: Whether the name is between angle brackets.
        variable: Whether a type variable of that name is in scope.
    """

    owner: int
    place: str
    name: str
    bare: bool
    argument: bool
    variable: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """What one file declares and refers to.

    Attributes:
        package: Its package, "" for none.
        imports: Its imports, in order.
        types: Its types, in order.
        references: The type names in PLACES and beans, each once per place and owner.
        reason: Why the file gives no type; "" if it gives one.
        remarks: Remarks on the file.
    """

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
    """Read the types and references of one Java file.

    Args:
        data: The bytes of the file: UTF-8, UTF-16 with a byte order mark, or else Latin-1.

    Returns:
        The facts. A file that gives no type has a `reason`. `remarks` say what is unusual, such as
        syntax errors around which the rest was read.
    """
    text, remarks = text_of(data)
    if "\0" in text:
        return Facts(reason=BINARY, remarks=remarks)
    if not _DECLARES.search(text):
        return Facts(reason=NO_TYPE, remarks=remarks)
    data = _ROW.sub(lambda row: _blank(row[0]), text.encode())
    root = _parse(data)
    if root is not None and root.has_error:
        plain = without_vararg_annotations(data)
        if plain != data:
            data = plain
            root = _parse(plain)
    if root is None:
        return Facts(reason=TOO_LONG, remarks=remarks)
    if root.has_error:
        remarks += (ERRORS,)
    file = _JavaFile(data, root)
    if not file.types:
        return Facts(
            reason=NO_TYPE_FOUND if root.has_error else NO_TYPE,
            remarks=remarks,
        )
    if file.declares_twice:
        remarks += (TWICE,)
    return Facts(
        package=file.package(),
        imports=tuple(file.imports()),
        types=tuple(file.types),
        references=tuple(dict.fromkeys(file.references())),
        remarks=remarks,
    )


def _blank(data: bytes) -> bytes:
    """Replace everything but line ends by spaces."""
    return re.sub(rb"[^\n]", b" ", data)


def _parse(data: bytes) -> Node | None:
    """Return the root of the syntax tree, None if the limit is reached.

    Args:
        data: Java source, which must be UTF-8: tree-sitter may crash on other bytes.
    """
    parser, _ = _grammar()
    limit = STEPS + STEPS_A_KILOBYTE * len(data) // 1024
    steps = count()

    def piece(position: int, _: object) -> bytes:
        return data[position : position + PIECE]

    try:
        return parser.parse(
            piece,
            progress_callback=lambda *_: next(steps) > limit,
        ).root_node
    except ValueError:
        parser.reset()
        return None


def without_vararg_annotations(data: bytes) -> bytes:
    """Blank annotations before the ellipsis of a parameter, which the grammar lacks.

    In ``int @Mark [] @Mark ... values`` (JLS 8.4.1) tree-sitter-java 0.23.5 fails at the second
    annotation, and takes the rest of the class for an error. The graph has no edges from
    annotations, and spaces in their place keep every position.

    Args:
        data: Java source as UTF-8.

    Returns:
        The source, as long as before.
    """
    blanked = bytearray(data)
    # For each open parenthesis, where the annotations start that it belongs to.
    open_parentheses: list[int | None] = []
    start: int | None = None  # where the annotations directly before this token start
    after_name = False  # the token before was the name of an annotation
    for match in _TOKEN.finditer(data):
        token = match[0]
        if token.startswith((b"//", b"/*")) or token.isspace():
            continue
        if token.startswith(b"@"):
            start = match.start() if start is None else start
            after_name = True
            continue
        if token == b"(":
            open_parentheses.append(start if after_name else None)
            start = None
        elif token == b")":
            start = open_parentheses.pop() if open_parentheses else None
        else:
            if token == b"..." and start is not None:
                blanked[start : match.start()] = _blank(data[start : match.start()])
            start = None
        after_name = False
    return bytes(blanked)


class _JavaFile:
    """A parsed file. Query captures come in no order, so they are sorted by their position."""

    def __init__(self, data: bytes, root: Node) -> None:
        self.data = data
        self.captures = QueryCursor(_grammar()[1]).captures(root)
        self.types: list[Declared] = []
        self.spans: list[tuple[int, int]] = []  # first byte and byte after the last of each type
        self.declares_twice = False
        self._read_types()

    def _captured(self, *names: str) -> list[tuple[str, Node]]:
        nodes = [(name, node) for name in names for node in self.captures.get(name, ())]
        return sorted(nodes, key=lambda pair: _span(pair[1]))

    def _text(self, node: Node) -> str:
        # `node.text` would call the parser's callback again.
        return self.data[node.start_byte : node.end_byte].decode("utf8", "replace")

    def _dotted_name(self, node: Node) -> str:
        """Return a name without the spaces and comments that Java allows around dots."""
        return ".".join(_NAME.findall(_NOISE.sub("", self._text(node))))

    def package(self) -> str:
        """Return the name of the package, "" for none."""
        for node in self.captures.get("package", ()):
            return self._dotted_name(node)
        return ""

    def imports(self) -> Iterator[Import]:
        """Yield the imports in order."""
        for _, node in self._captured("import"):
            words = _NOISE.sub("", self._text(node)).removesuffix(";").split()
            static = "static" in words[1:2]
            name = "".join(words[1 + static :])
            yield Import(
                name.removesuffix(".*"),
                name.endswith(".*"),
                static,
            )

    def _read_types(self) -> None:
        """Collect the declared types in order, and notice a type that is declared twice."""
        enclosing = _Enclosing(self.spans)
        times: Counter[str] = Counter()
        for kind, node in self._captured(*KINDS):
            around = enclosing.at(node.start_byte)
            name_node = node.child_by_field_name("name")
            name = self._text(name_node) if name_node else ""
            if not name:  # what is left of a syntax error
                continue
            if around:
                name = f"{self.types[around[-1]].name}.{name}"
            times[name] += 1
            if times[name] > 1:
                self.declares_twice |= not around or _is_member(node)
                name += f"#{times[name]}"
            first = node.start_point[0] + 1
            last = node.end_point[0] + 1
            variables = self._variables(node)
            public = _is_public(node)
            self.types.append(Declared(kind, name, first, last, variables, public))
            self.spans.append(_span(node))

    def _variables(self, node: Node) -> tuple[str, ...]:
        """Return the type variables that a declaration has."""
        parameters = node.child_by_field_name("type_parameters")
        names = []
        for parameter in parameters.named_children if parameters else ():
            for child in parameter.named_children:
                if child.type == "type_identifier":
                    names.append(self._text(child))
                    break
        return tuple(names)

    def references(self) -> Iterator[Reference]:
        """Yield every type name of PLACES and of beans, in order."""
        generics = [node for _, node in self._captured("generic")]
        variables = [self._variables(node) for node in generics]
        types = _Enclosing(self.spans)
        scopes = _Enclosing(list(map(_span, generics)))
        nodes = [*self._captured(*PLACES), *self._beans()]
        for place, node in sorted(nodes, key=lambda pair: _span(pair[1])):
            around = types.at(node.start_byte)
            declaring = scopes.at(node.start_byte)
            if not around:  # what is left of a syntax error
                continue
            bare = node.type == "type_identifier"
            for name, argument in self._names(node):
                first = name.partition(".")[0]
                variable = any(first in variables[i] for i in declaring)
                yield Reference(
                    around[-1],
                    place,
                    name,
                    bare,
                    argument,
                    variable,
                )

    def _beans(self) -> Iterator[tuple[str, Node]]:
        """Yield (place, written type) of what methods with Spring's @Bean return and take."""
        for _, method in self._captured("annotated"):
            returned = method.child_by_field_name("type")
            annotations = method.named_children[0].named_children
            if not returned or not any(map(self._is_bean, annotations)):
                continue
            yield "bean", returned
            parameters = method.child_by_field_name("parameters")
            for parameter in parameters.named_children if parameters else ():
                written = parameter.child_by_field_name("type")
                if written:
                    yield "bean_parameter", written

    def _is_bean(self, annotation: Node) -> bool:
        name = annotation.child_by_field_name("name")
        return name is not None and self._dotted_name(name).rpartition(".")[2] == "Bean"

    def _names(self, node: Node) -> Iterator[tuple[str, bool]]:
        """Yield (name, whether it is a type argument) in a written type.

        This is a loop, since brackets nest without limit.
        """
        pending = [(node, False)]
        while pending:
            part, argument = pending.pop()
            if part.type == "type_identifier":
                yield self._text(part), argument
            elif part.type == "scoped_type_identifier":
                children = list(_children_at_left_edge(part))
                names = [self._text(c) for c in children if c.type == "type_identifier"]
                yield ".".join(reversed(names)), argument
                pending += [(c, True) for c in children if c.type == "type_arguments"]
            elif part.type not in (
                "marker_annotation",
                "annotation",
                "dimensions",
            ):
                inside = argument or part.type == "type_arguments"
                pending += [(child, inside) for child in reversed(part.named_children)]


class _Enclosing:
    """Finds the spans around positions that only increase; spans are sorted and nested."""

    def __init__(self, spans: list[tuple[int, int]]) -> None:
        self.spans = spans
        self.following = 0
        self.around: list[int] = []

    def at(self, position: int) -> list[int]:
        """Return the indices of the spans around a position, outermost first."""
        while self.following < len(self.spans) and self.spans[self.following][0] <= position:
            self.around.append(self.following)
            self.following += 1
        self.around = [i for i in self.around if self.spans[i][1] > position]
        return self.around


def _span(node: Node) -> tuple[int, int]:
    return node.start_byte, node.end_byte


def _is_public(node: Node) -> bool:
    modifiers = node.child(0)
    return modifiers is not None and any(child.type == "public" for child in modifiers.children)


def _is_member(node: Node) -> bool:
    """Tell whether a type is a member of a named type, and no local class."""
    body = node.parent
    holder = body.parent if body and body.type in BODIES else None
    return holder is not None and holder.type != "object_creation_expression"


def _children_at_left_edge(node: Node) -> Iterator[Node]:
    """Yield the children of a scoped name and of its left parts, from right to left."""
    current: Node | None = node
    while current is not None:
        children = current.named_children
        yield from reversed(children)
        scopes = (c for c in children if c.type in ("scoped_type_identifier", "generic_type"))
        current = next(scopes, None)
