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


def is_constant(node: ast.AST) -> bool:
    """Tell whether a node is a constant that stands alone as a statement, such as a docstring.

    Args:
        node: A node of a syntax tree.
    """
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def first_line(node: ast.stmt) -> int:
    """Return the first line of a statement, decorators included.

    Args:
        node: A statement of a parsed file.
    """
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])
