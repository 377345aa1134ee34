"""Listing 1 of the DKB paper with tree-sitter's own queries, to check and time against."""

from __future__ import annotations

import tree_sitter_java
from tree_sitter import Language, Node, Parser, Query, QueryCursor

JAVA = Language(tree_sitter_java.language())
KINDS = ("class", "interface", "enum", "record", "annotation_type")
TYPES = Query(JAVA, "".join(f"({kind}_declaration name: (identifier) @class_name)\n" for kind in KINDS))
FIELDS = Query(JAVA, "(field_declaration type: (type_identifier) @type_name)")
PARAMETERS = Query(
    JAVA,
    "(constructor_declaration parameters:"
    " (formal_parameters (formal_parameter type: (type_identifier) @type_name)))",
)


def listing(files: dict[str, bytes]) -> tuple[dict[str, str], set[tuple[str, str]]]:
    """(file_map, the injects edges) of Listing 1, before inheritance is added."""
    file_map = {}
    for path, data in files.items():
        for node in QueryCursor(TYPES).captures(_root(data)).get("class_name", []):
            file_map[node.text.decode()] = path
    edges = set()
    for name, path in file_map.items():
        root = _root(files[path])  # once a type, as the listing does
        for query in (FIELDS, PARAMETERS):
            for node in QueryCursor(query).captures(root).get("type_name", []):
                if node.text.decode() in file_map:
                    edges.add((name, node.text.decode()))
    return file_map, edges


def _root(data: bytes) -> Node:
    return Parser(JAVA).parse(data).root_node
