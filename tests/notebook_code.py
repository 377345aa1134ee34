"""For tests of a notebook's code: what it defines, and a whole run in this process."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import nbformat

from pkg_lib.core.store import ROOT


def _cells(notebook: str) -> list[Any]:
    cells = nbformat.read(ROOT / "notebooks" / f"{notebook}.ipynb", as_version=4).cells
    return [cell for cell in cells if cell.cell_type == "code"]


def definitions(notebook: str, **space: Any) -> dict[str, Any]:
    """`space` with its imports, functions and constants in capitals; functions find there what else they read."""
    return _executed(notebook, _defines, space)


def function(notebook: str, name: str, **space: Any) -> Any:
    """One of its functions, which finds `space` and the notebook's imports; nothing else is executed."""
    imports = (ast.Import, ast.ImportFrom)
    return _executed(
        notebook, lambda n: isinstance(n, imports) or getattr(n, "name", "") == name, space
    )[name]


def _executed(
    notebook: str, keeps: Callable[[ast.stmt], bool], space: dict[str, Any]
) -> dict[str, Any]:
    for cell in _cells(notebook):
        kept = [n for n in ast.parse(cell.source).body if keeps(n)]
        exec(compile(ast.Module(kept, []), notebook, "exec"), space)
    return space


def _defines(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        names = [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        return all(map(str.isupper, names))
    return isinstance(node, (ast.Import, ast.ImportFrom, ast.FunctionDef))


def run(notebook: str, **parameters: Any) -> dict[str, Any]:
    """Its variables after a run with these parameters. PKG_RESULTS says where it reads and writes."""
    space: dict[str, Any] = {"display": lambda *shown, **how: None}
    for cell in _cells(notebook):
        exec(compile(cell.source, notebook, "exec"), space)
        if "parameters" in cell.metadata.get("tags", []):
            space |= parameters
    return space
