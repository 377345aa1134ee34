"""Control rows: solutions whose score is known, which go through the same execution as a model's."""

from collections.abc import Mapping

import pandas as pd

from pkg_lib.core.types import UserError

CONTROLS = {
    "return None": 0,
    "canonical solution": 100,
}  # control row -> required pass@1 in percent


class ControlError(UserError):
    """A control row has a wrong score, so no number can be trusted."""


def check_controls(
    controls: Mapping[str, pd.Series],
    tasks: pd.Index,
    rates: Mapping[str, int] = CONTROLS,
) -> None:
    """Check that every control row scores what it must: no task, or every task.

    Args:
        controls: Control row -> its verdicts.
        tasks: Ids of the tasks of the table.
        rates: Control row -> required pass@1 in percent, 0 or 100.

    Raises:
        ControlError: A control row is missing, not measured on a task, or wrong on a task.
    """
    for name, required in rates.items():
        if name not in controls:
            raise ControlError(
                f"control row '{name}' is missing; evaluate the controls before the table"
            )
        verdicts = controls[name].reindex(tasks)
        unmeasured = tasks[verdicts.isna()]
        if len(unmeasured):
            raise ControlError(
                f"control row '{name}' is not measured on {len(unmeasured)} of {len(tasks)} tasks "
                f"(first: {unmeasured[0]}); no table is written: run the benchmark, or set PKG_RESULTS to "
                "a directory that contains its runs"
            )
        wrong = tasks[verdicts != (required == 100)]
        if len(wrong):
            raise ControlError(
                f"control row '{name}' must score {required} % and is wrong on {len(wrong)} "
                f"of {len(tasks)} tasks (first: {wrong[0]}); check the reference solution, the tests "
                "and the time limit of this task, and whether `pkg-lib doctor` can run tests"
            )
