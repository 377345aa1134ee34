"""For tests of a notebook's code: a whole run in this process."""

from __future__ import annotations

from typing import Any

import nbformat

from pkg_lib.core.store import ROOT


def _cells(notebook: str) -> list[Any]:
    cells = nbformat.read(ROOT / "notebooks" / f"{notebook}.ipynb", as_version=4).cells
    return [cell for cell in cells if cell.cell_type == "code"]


def run(notebook: str, **parameters: Any) -> dict[str, Any]:
    """Return its variables after a run with these parameters. PKG_RESULTS is where it reads and writes."""
    space: dict[str, Any] = {"display": lambda *shown, **how: None}
    for cell in _cells(notebook):
        exec(compile(cell.source, notebook, "exec"), space)
        if "parameters" in cell.metadata.get("tags", []):
            space |= parameters
    return space
