"""Execution of a notebook's code in this process."""

from __future__ import annotations

from typing import Any

import nbformat

from pkg_lib.core.store import ROOT


def _ignore(*shown: object, **options: object) -> None:
    """Replace IPython's `display`."""


def run(
    notebook: str,
    **parameters: Any,
) -> dict[str, Any]:
    """Execute all code cells of a notebook; it reads and writes the directory PKG_RESULTS.

    Args:
        notebook: Name of the notebook without its suffix.
        **parameters: Values that replace those of the cell tagged `parameters`.

    Returns:
        The notebook's global variables.
    """
    path = ROOT / "notebooks" / f"{notebook}.ipynb"
    variables: dict[str, Any] = {"display": _ignore}
    document = nbformat.read(path, as_version=4)
    for cell in document.cells:
        if cell.cell_type != "code":
            continue
        code = compile(cell.source, notebook, "exec")
        exec(code, variables)
        tags = cell.metadata.get("tags", [])
        if "parameters" in tags:
            variables.update(parameters)
    return variables
