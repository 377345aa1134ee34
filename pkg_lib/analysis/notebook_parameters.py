"""Refuses parameters that a notebook does not have.

papermill only warns about such a parameter, so a misspelled name would leave the default in effect.
"""

import ast
from collections.abc import Sequence
from itertools import pairwise

from IPython.core.getipython import get_ipython

from pkg_lib.core.types import UserError

INJECTED = "# Parameters\n"  # first line of the cell that papermill adds after the parameters cell


def check_parameters() -> None:
    """Compare the parameters that papermill set with those of the notebook.

    Raises:
        UserError: papermill set a parameter that the parameters cell does not have.
    """
    shell = get_ipython()
    if shell is None:
        return
    cells: Sequence[str] = shell.user_ns.get("In", [])
    for defaults, injected in pairwise(cells):
        if injected.startswith(INJECTED):
            known = _assigned_names(defaults)
            unknown = [name for name in _assigned_names(injected) if name not in known]
            if unknown:
                raise UserError(
                    f"unknown parameter {', '.join(map(repr, unknown))}; "
                    f"the parameters of this notebook: {', '.join(known)}"
                )


def _assigned_names(cell: str) -> list[str]:
    """Return the names that the statements of a cell assign, in their order."""
    names = []
    for statement in ast.parse(cell).body:
        if isinstance(statement, ast.Assign):
            names += [target.id for target in statement.targets if isinstance(target, ast.Name)]
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            names.append(statement.target.id)
    return names
