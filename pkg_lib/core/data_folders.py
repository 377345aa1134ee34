"""Where other people's data sets are stored on this machine.

The variable PKG_DATA names a directory with a subfolder for each data set. Each data set also has a
variable of its own, which overrides the subfolder.
"""

import os
from pathlib import Path

from pkg_lib.core.reading import expanded, shown
from pkg_lib.core.types import UserError

PKG_DATA = "PKG_DATA"
# A data set's own variable -> its subfolder of the directory in PKG_DATA
SUBFOLDERS = {
    "PKG_MBPP_DIR": "mbpp",
    "PKG_EVALPLUS_DIR": "evalplus",
    "PKG_PAPER_DIR": "pkg_paper",
    "PKG_PRIVATE_EVAL_DIR": "private_eval",
    "PKG_REPOEVAL_DIR": "repoeval",
    "PKG_SWEBENCH_DIR": "swebench",
    "PKG_CCEVAL_DIR": "crosscodeeval",
    "PKG_EVOR_DIR": "evor",
    "PKG_EVOR_WEB_DIR": "evor_web",
    "PKG_SCIPYM_DIR": "scipym",
    "PKG_DKB_DIR": "dkb",
    "PKG_PYTHON_DOCS": "python_docs",
    "PKG_JAVA_SOURCE": "java_source",
}


def data_folder(variable: str) -> Path | None:
    """Find the directory of a data set.

    Args:
        variable: The data set's own variable, one of SUBFOLDERS. If it is set, its value counts,
            even if nothing is there; an empty value hides the data set.

    Returns:
        The directory that the variable names, else the subfolder in PKG_DATA if it exists; None
        without.

    Raises:
        UserError: PKG_DATA names no directory.
    """
    if variable in os.environ:
        value = os.environ[variable]
        return expanded(value) if value else None
    root = os.environ.get(PKG_DATA)
    if not root:
        return None
    if not expanded(root).is_dir():
        raise UserError(f"{PKG_DATA} names {shown(root)}, which is not a directory; correct it")
    folder = expanded(root) / SUBFOLDERS[variable]
    return folder if folder.exists() else None


def how_to_provide(variable: str, directory: str) -> str:
    """Return what a user can do to provide a data set.

    Args:
        variable: The data set's own variable.
        directory: What the directory is, as in "the directory of mbpp.jsonl".
    """
    return f"set {variable} to {directory}, or put it into {PKG_DATA} as {SUBFOLDERS[variable]}"


def state_of(variable: str) -> str:
    """Describe whether a data set was found, and where.

    Args:
        variable: The data set's own variable.

    Returns:
        Its directory and the variable that led to it, or how to provide it.

    Raises:
        UserError: PKG_DATA names no directory.
    """
    folder = data_folder(variable)
    if folder is None:
        return f"not found; {how_to_provide(variable, 'its directory')}"
    missing = "" if folder.exists() else ", which does not exist"
    found_by = variable if variable in os.environ else PKG_DATA
    return f"{shown(str(folder))}{missing} (by {found_by})"
