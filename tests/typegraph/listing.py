"""Listing 1 of the DKB paper with tree-sitter's own queries, to check and time against."""

from __future__ import annotations

import tree_sitter_java
from tree_sitter import Language, Parser, Query, QueryCursor

JAVA = Language(tree_sitter_java.language())
KINDS = ("class", "interface", "enum", "record", "annotation_type")
TYPES = Query(
    JAVA, "".join(f"({kind}_declaration name: (identifier) @class_name)\n" for kind in KINDS)
)
FIELDS = Query(JAVA, "(field_declaration type: (type_identifier) @type_name)")
_LIST = "(formal_parameters (formal_parameter type: (type_identifier) @type_name))"
PARAMETERS = Query(JAVA, f"(constructor_declaration parameters: {_LIST})")


def listing(files: dict[str, bytes]) -> tuple[dict[str, str], set[tuple[str, str]]]:
    """(file_map, the injects edges) of Listing 1, before inheritance is added."""
    file_map = {name: path for path, data in files.items() for name in _names(TYPES, data)}
    edges = set()
    for name, path in file_map.items():
        for query in (FIELDS, PARAMETERS):  # parsed once a type, as the listing does
            edges |= {(name, other) for other in _names(query, files[path]) if other in file_map}
    return file_map, edges


def _names(query: Query, data: bytes) -> list[str]:
    captures = QueryCursor(query).captures(Parser(JAVA).parse(data).root_node)
    return [node.text.decode() for nodes in captures.values() for node in nodes]
