"""Parsing of Python source that may be anything."""

import ast
import warnings

# What `ast.parse` raises for text that is not Python.
UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


def syntax_tree(source: str | bytes) -> ast.Module:
    """Parse a module without printing warnings about other people's code.

    Args:
        source: The module's source.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: The source is not Python (see
        ``UNPARSABLE``).
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        return ast.parse(source)


def parsed_or_none(source: str) -> ast.Module | None:
    """Parse a module.

    Args:
        source: The module's source.

    Returns:
        Its tree; None for text that is not Python.
    """
    try:
        return syntax_tree(source)
    except UNPARSABLE:
        return None
