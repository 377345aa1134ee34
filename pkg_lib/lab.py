"""JupyterLab on the notebooks: they run there as they stand, and are stored without outputs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from pkg_lib.core.store import ROOT

NOTEBOOKS = ROOT / "notebooks"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def start(arguments: list[str]) -> None:
    """Becomes JupyterLab in notebooks/; `arguments` are its own."""
    os.chdir(NOTEBOOKS)
    os.execv(sys.executable, [sys.executable, "-m", "jupyterlab", *arguments])


def without_outputs(model: dict[str, Any], path: str, contents_manager: Any, **_: Any) -> None:
    """Jupyter's hook before a notebook is saved: one of this checkout keeps no outputs, whatever is shown.

    JupyterLab saves by itself every two minutes; git is to see the change of a cell alone.
    """
    place = Path(contents_manager.root_dir, path.strip("/")).resolve()
    if model["type"] == "notebook" and place.parent == NOTEBOOKS:
        model["content"]["metadata"] |= {"kernelspec": KERNEL, "language_info": {"name": "python"}}
        for cell in model["content"]["cells"]:
            if cell["cell_type"] == "code":
                cell["outputs"], cell["execution_count"] = [], None
