"""Tree-sitter grammars by language, and languages by file suffix."""

import importlib
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath

from tree_sitter import (
    Language,
    Node,
    Parser,
    Query,
    QueryCursor,
    Tree,
)

from pkg_lib.core.registry import Registry

_GRAMMARS_FILE = Path(__file__).with_name("grammars.toml")
_MANY_CHILDREN = 1000


@dataclass(frozen=True, slots=True)
class Grammar:
    """Where a language's grammar is, and what to know of it.

    Attributes:
        module: The module of the grammar.
        function: The function of that module that returns the grammar.
        suffixes: Suffixes of the language's files, separated by spaces.
        functions: Types of the nodes that are functions, separated by spaces.
    """

    module: str
    function: str
    suffixes: str
    functions: str


GRAMMARS: Registry[Grammar] = Registry("language")
SUFFIXES: dict[str, str] = {}
for _name, _row in tomllib.loads(_GRAMMARS_FILE.read_text("utf8")).items():
    _grammar = GRAMMARS.register(Grammar(**_row), _name)
    SUFFIXES |= dict.fromkeys(_grammar.suffixes.split(), _name)


def language_of(path: str) -> str | None:
    """Return the language of a file's suffix, None for an unknown suffix."""
    return SUFFIXES.get(PurePath(path).suffix.lower())


@cache
def _load(language: str) -> Language:
    grammar = GRAMMARS.get_or_fail(language)
    module = importlib.import_module(grammar.module)
    return Language(getattr(module, grammar.function)())


def parse(data: bytes, language: str) -> Tree:
    """Parse a file. The tree has ERROR and MISSING nodes where the text does not parse."""
    return Parser(_load(language)).parse(data)


def children(node: Node) -> Iterator[Node]:
    """Yield the children in order, one at a time if there are thousands, to save memory."""
    if node.child_count < _MANY_CHILDREN:
        yield from node.children
        return
    cursor = node.walk()
    more = cursor.goto_first_child()
    while more:
        assert cursor.node is not None
        yield cursor.node
        more = cursor.goto_next_sibling()


def parse_errors(root: Node) -> int:
    """Count the ERROR nodes, without those inside another one, and the MISSING nodes of a tree."""
    errors = 0
    pending = [root]
    while pending:
        node = pending.pop()
        if node.is_error or node.is_missing:
            errors += 1
        elif node.has_error:
            pending += children(node)
    return errors


def functions_of(tree: Tree, language: str) -> list[tuple[int, int]]:
    """Return the (start, end) bytes of the named functions and methods, sorted by their start."""
    types = GRAMMARS[language].functions.split()
    query = Query(
        _load(language),
        " ".join(f"({kind}) @function" for kind in types),
    )
    nodes = QueryCursor(query).captures(tree.root_node).get("function", [])
    return sorted((node.start_byte, node.end_byte) for node in nodes)
