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
    """Look up the language of a file by its suffix.

    Args:
        path: Path or name of the file, which need not exist. The case of its suffix does not
            matter.

    Returns:
        A name in `GRAMMARS`; None if the suffix is unknown or missing.
    """
    return SUFFIXES.get(PurePath(path).suffix.lower())


@cache
def _load(language: str) -> Language:
    grammar = GRAMMARS.get_or_fail(language)
    module = importlib.import_module(grammar.module)
    return Language(getattr(module, grammar.function)())


def parse(data: bytes, language: str) -> Tree:
    """Parse a file with the tree-sitter grammar of its language.

    Args:
        data: The bytes of the file. Positions in the tree count these bytes.
        language: A name in `GRAMMARS`.

    Returns:
        The syntax tree. It has ERROR and MISSING nodes where the text does not parse.

    Raises:
        UserError: The language is unknown.
    """
    return Parser(_load(language)).parse(data)


def children(node: Node) -> Iterator[Node]:
    """Yield the children of a node in order.

    The children of a node that has thousands are visited one at a time, because a list of all of
    them takes much memory.

    Args:
        node: A node of a syntax tree.

    Yields:
        The direct children, including anonymous ones such as keywords and brackets.
    """
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
    """Count the syntax errors of a tree.

    Args:
        root: The root of the tree. For an inner node, only the errors in it count.

    Returns:
        Number of ERROR and MISSING nodes. Errors inside an ERROR node do not count again.
    """
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
    """Find the named functions and methods of a file.

    The field `functions` of a grammar lists the types of nodes that count. Lambda expressions do
    not count, and neither do Python's decorators as part of a function.

    Args:
        tree: The tree that `parse` returned.
        language: The language that it was parsed as.

    Returns:
        (first byte, byte after the last one) of each function, sorted. Nested functions are
        included.
    """
    types = GRAMMARS[language].functions.split()
    query = Query(
        _load(language),
        " ".join(f"({kind}) @function" for kind in types),
    )
    nodes = QueryCursor(query).captures(tree.root_node).get("function", [])
    return sorted((node.start_byte, node.end_byte) for node in nodes)
