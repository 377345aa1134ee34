"""The hook that JupyterLab calls before it saves a notebook; `run_all.sh --setup` registers it."""

from pathlib import Path
from typing import Any

from pkg_lib.core.store import notebooks_dir

NOTEBOOKS = notebooks_dir()
KERNEL = {
    "display_name": "Python 3",
    "language": "python",
    "name": "python3",
}
LANGUAGE = {"name": "python"}


def without_outputs(model: dict[str, Any], path: str, contents_manager: Any, **_: Any) -> None:
    """Remove the outputs from a notebook of this checkout, so that git sees changed cells only.

    Args:
        model: The file that is about to be saved; it is changed.
        path: Its path below JupyterLab's root directory.
        contents_manager: JupyterLab's manager of files.
        **_: Further information that JupyterLab passes.
    """
    place = Path(contents_manager.root_dir, path.strip("/")).resolve()
    if model["type"] != "notebook" or place.parent != NOTEBOOKS:
        return
    notebook = model["content"]
    notebook["metadata"]["kernelspec"] = KERNEL
    notebook["metadata"]["language_info"] = LANGUAGE
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = []
            cell["execution_count"] = None
