"""Parsing of Python source that may be anything."""

import ast
import warnings

UNPARSABLE = (
    SyntaxError,
    ValueError,
    RecursionError,
    MemoryError,
)  # what `ast.parse` raises for no Python


def syntax_tree(source: str | bytes) -> ast.Module:
    """Parse a module without printing warnings about other people's code.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: The source is not Python (see ``UNPARSABLE``).
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        return ast.parse(source)


def parsed_or_none(source: str) -> ast.Module | None:
    """Parse a module; return None for text that is not Python."""
    try:
        return syntax_tree(source)
    except UNPARSABLE:
        return None
