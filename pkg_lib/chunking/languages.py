"""Grammars by language, languages by file suffix: tree-sitter's own wheels for the paper's four languages."""

import importlib
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePath
from typing import NamedTuple

from tree_sitter import Language, Node, Parser, Query, QueryCursor, Tree

from pkg_lib.core.registry import Registry


class Grammar(NamedTuple):
    """A grammar's module and function, the suffixes of its files, and the nodes that are functions."""

    module: str
    function: str
    suffixes: str
    functions: str


_ROWS = tomllib.loads(Path(__file__).with_name("grammars.toml").read_text("utf8"))
GRAMMARS = Registry("language", {name: Grammar(**row) for name, row in _ROWS.items()})
SUFFIXES = {
    suffix: name for name, grammar in GRAMMARS.items() for suffix in grammar.suffixes.split()
}
MANY = 1000


def language_of(path: str) -> str | None:
    """The language that a file's suffix says, None for an unknown one."""
    return SUFFIXES.get(PurePath(path).suffix.lower())


@cache
def _grammar(language: str) -> Language:
    grammar = GRAMMARS.get_or_fail(language)
    return Language(getattr(importlib.import_module(grammar.module), grammar.function)())


def parse(data: bytes, language: str) -> Tree:
    """The syntax tree, with ERROR and MISSING nodes where the text does not parse."""
    return Parser(_grammar(language)).parse(data)


def children(node: Node) -> Iterator[Node]:
    """The children in order. Thousands are made one by one, so that a huge table costs no memory."""
    if node.child_count < MANY:
        yield from node.children
        return
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


def functions_of(tree: Tree, language: str) -> list[tuple[int, int]]:
    """Byte spans of the named functions and methods, in order of their start."""
    kinds = " ".join(f"({kind}) @function" for kind in GRAMMARS[language].functions.split())
    nodes = (
        QueryCursor(Query(_grammar(language), kinds)).captures(tree.root_node).get("function", [])
    )
    return sorted((node.start_byte, node.end_byte) for node in nodes)
