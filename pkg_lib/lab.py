"""JupyterLab's hook before a notebook is saved; `run_all.sh --setup` names it."""

from pathlib import Path
from typing import Any

from pkg_lib.core.store import ROOT

NOTEBOOKS = ROOT / "notebooks"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def without_outputs(model: dict[str, Any], path: str, contents_manager: Any, **_: Any) -> None:
    """One of this checkout keeps no outputs, whatever is shown: git is to see changes of cells alone."""
    place = Path(contents_manager.root_dir, path.strip("/")).resolve()
    if model["type"] == "notebook" and place.parent == NOTEBOOKS:
        model["content"]["metadata"] |= {"kernelspec": KERNEL, "language_info": {"name": "python"}}
        for cell in model["content"]["cells"]:
            if cell["cell_type"] == "code":
                cell["outputs"], cell["execution_count"] = [], None
