"""Grammars by language, languages by file suffix: tree-sitter's own wheels for the paper's four languages."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import PurePath
from typing import NamedTuple

from tree_sitter import Language, Node, Parser, Query, QueryCursor, Tree

from pkg_lib.core.types import UserError


class Grammar(NamedTuple):
    """A grammar's module and function, the suffixes of its files, and the nodes that are functions."""

    module: str
    function: str
    suffixes: str
    functions: str


_TS_FUNCTIONS = "function_declaration generator_function_declaration method_definition"
GRAMMARS = {
    "python": Grammar("tree_sitter_python", "language", ".py .pyi .pyw", "function_definition"),
    "java": Grammar(
        "tree_sitter_java",
        "language",
        ".java",
        "method_declaration constructor_declaration compact_constructor_declaration",
    ),
    "csharp": Grammar(
        "tree_sitter_c_sharp",
        "language",
        ".cs",
        "method_declaration constructor_declaration destructor_declaration operator_declaration"
        " local_function_statement",
    ),
    "typescript": Grammar("tree_sitter_typescript", "language_typescript", ".ts .mts .cts", _TS_FUNCTIONS),
    "tsx": Grammar("tree_sitter_typescript", "language_tsx", ".tsx", _TS_FUNCTIONS),
    # TSX is JavaScript with types and JSX.
    "javascript": Grammar("tree_sitter_typescript", "language_tsx", ".js .jsx .mjs .cjs", _TS_FUNCTIONS),
}
SUFFIXES = {suffix: name for name, grammar in GRAMMARS.items() for suffix in grammar.suffixes.split()}
MANY = 1000


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
    grammar = GRAMMARS[language]
    return Language(getattr(importlib.import_module(grammar.module), grammar.function)())


@cache
def _parser(language: str) -> Parser:
    return Parser(_grammar(language))


def parse(data: bytes, language: str) -> Tree:
    """The syntax tree, with ERROR and MISSING nodes where the text does not parse."""
    return _parser(language).parse(data)


def children(node: Node) -> Iterable[Node]:
    """The children in order. Thousands are made one by one, so that a huge table costs no memory."""
    return node.children if node.child_count < MANY else _one_by_one(node)


def _one_by_one(node: Node) -> Iterator[Node]:
    cursor = node.walk()
    more = cursor.goto_first_child()
    while more:
        yield cursor.node
        more = cursor.goto_next_sibling()


def parse_errors(root: Node) -> int:
    """How many ERROR nodes (none inside another) and MISSING nodes the tree has."""
    errors, todo = 0, [root]
    while todo:
        node = todo.pop()
        if node.is_error or node.is_missing:
            errors += 1
        elif node.has_error:
            todo += children(node)
    return errors


@cache
def _functions_query(language: str) -> Query:
    kinds = GRAMMARS[language].functions.split()
    return Query(_grammar(language), " ".join(f"({kind}) @function" for kind in kinds))


def functions_of(tree: Tree, language: str) -> list[tuple[int, int]]:
    """Byte spans of the named functions and methods, in order of their start."""
    nodes = QueryCursor(_functions_query(language)).captures(tree.root_node).get("function", [])
    return sorted((node.start_byte, node.end_byte) for node in nodes)
