"""Listing 1 of the DKB paper, written with tree-sitter's own queries for comparison and timing."""

from __future__ import annotations

import tree_sitter_java
from tree_sitter import Language, Parser, Query, QueryCursor

JAVA = Language(tree_sitter_java.language())
TYPES = Query(
    JAVA,
    """
    (class_declaration name: (identifier) @class_name)
    (interface_declaration name: (identifier) @class_name)
    (enum_declaration name: (identifier) @class_name)
    (record_declaration name: (identifier) @class_name)
    (annotation_type_declaration name: (identifier) @class_name)
    """,
)
FIELDS = Query(JAVA, "(field_declaration type: (type_identifier) @type_name)")
PARAMETERS = Query(
    JAVA,
    """
    (constructor_declaration parameters:
        (formal_parameters (formal_parameter type: (type_identifier) @type_name)))
    """,
)
Edges = set[tuple[str, str]]


def listing(files: dict[str, bytes]) -> tuple[dict[str, str], Edges]:
    """Run Listing 1, without the inheritance that it adds afterwards.

    Args:
        files: Java sources by path.

    Returns:
        The listing's `file_map` (path by type) and its "injects" edges.
    """
    file_map = {}
    for path, data in files.items():
        for name in captured_names(TYPES, data):
            file_map[name] = path
    edges = set()
    for name, path in file_map.items():
        # The listing parses a file once for each of its types.
        for query in (FIELDS, PARAMETERS):
            for other in captured_names(query, files[path]):
                if other in file_map:
                    edges.add((name, other))
    return file_map, edges


def captured_names(query: Query, data: bytes) -> list[str]:
    """Return the texts of all nodes that a query captures in a Java source."""
    root = Parser(JAVA).parse(data).root_node
    names = []
    for nodes in QueryCursor(query).captures(root).values():
        for node in nodes:
            names.append(node.text.decode())  # noqa: PERF401
    return names
