"""Grammars by language, languages by file suffix: tree-sitter's own wheels for the paper's four languages."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import PurePath

from tree_sitter import Language, Node, Parser, Query, QueryCursor, Tree

from pkg_lib.core.types import UserError

# Language -> (module of the grammar, its function).
GRAMMARS: dict[str, tuple[str, str]] = {
    "python": ("tree_sitter_python", "language"),
    "java": ("tree_sitter_java", "language"),
    "csharp": ("tree_sitter_c_sharp", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
}
SUFFIXES = {
    ".py": "python",
    ".pyi": "python",
    ".pyw": "python",
    ".java": "java",
    ".cs": "csharp",
    ".ts": "typescript",
    ".mts": "typescript",
    ".cts": "typescript",
    ".tsx": "tsx",
}

MANY = 1000

_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "python": ("function_definition",),
    "java": ("method_declaration", "constructor_declaration", "compact_constructor_declaration"),
    "csharp": (
        "method_declaration",
        "constructor_declaration",
        "destructor_declaration",
        "operator_declaration",
        "local_function_statement",
    ),
    "typescript": ("function_declaration", "generator_function_declaration", "method_definition"),
    "tsx": ("function_declaration", "generator_function_declaration", "method_definition"),
}


def check_language(language: str) -> None:
    """UserError for a language without a grammar."""
    if language not in GRAMMARS:
        raise UserError(f"unknown language '{language}'; choose from: {', '.join(GRAMMARS)}")


def language_of(path: str) -> str | None:
    """The language that a file's suffix says, None for an unknown one."""
    return SUFFIXES.get(PurePath(path).suffix.lower())


@cache
def _grammar(language: str) -> Language:
    check_language(language)
    module, function = GRAMMARS[language]
    return Language(getattr(importlib.import_module(module), function)())


@cache
def _parser(language: str) -> Parser:
    return Parser(_grammar(language))


def parse(data: bytes, language: str) -> Tree:
    """The syntax tree, with ERROR and MISSING nodes where the text does not parse; UserError for an unknown language."""
    return _parser(language).parse(data)


def children(node: Node) -> Iterable[Node]:
    """The children in order. Thousands are made one by one, so that a table of millions of numbers costs no memory."""
    return node.children if node.child_count < MANY else _one_by_one(node)


def _one_by_one(node: Node) -> Iterator[Node]:
    cursor = node.walk()
    more = cursor.goto_first_child()
    while more:
        yield cursor.node
        more = cursor.goto_next_sibling()


def parse_errors(root: Node) -> int:
    """How many ERROR nodes (none inside another) and MISSING nodes the tree has."""
    found, todo = 0, [root]
    while todo:
        node = todo.pop()
        if node.is_error or node.is_missing:
            found += 1
        elif node.has_error:
            todo += children(node)
    return found


@cache
def _functions_query(language: str) -> Query:
    return Query(_grammar(language), " ".join(f"({kind}) @f" for kind in _FUNCTIONS[language]))


def functions_of(tree: Tree, language: str) -> list[tuple[int, int]]:
    """Byte spans of the named functions and methods, in order of their start."""
    found = QueryCursor(_functions_query(language)).captures(tree.root_node)
    return sorted((node.start_byte, node.end_byte) for node in found.get("f", []))
