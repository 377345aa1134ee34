"""Cells of tables: paired differences and intervals of rates."""

import pandas as pd

from pkg_lib.analysis.cells import (
    bracketed_difference,
    difference_cells,
    paired_cells,
    wilson_range,
)
from pkg_lib.analysis.stats import BASELINE, ORACLE, paired_differences, paired_score
from pkg_lib.analysis.tables import DASH

VERDICTS = pd.DataFrame(
    {
        BASELINE: [True, False, False, None],
        "BM25": [True, True, False, True],
        ORACLE: [True, True, True, True],
        "Func-PKG": [None] * 4,
    },
    dtype="boolean",
)


def test_paired_difference_has_seven_cells():
    table = paired_differences(VERDICTS)
    tasks, change, bounds, helped, hurt, p, corrected = paired_cells(table.loc["BM25"])
    assert (tasks, change, helped, hurt, p, corrected) == ("3", "+33.3", "1", "0", "1.000", "1.000")
    assert bounds == DASH, "too few tasks for a bootstrap"
    enough = paired_differences(pd.concat([VERDICTS] * 4, ignore_index=True))
    assert " to " in paired_cells(enough.loc["BM25"])[2]
    assert paired_cells(table.loc[ORACLE])[-2:] == [DASH, DASH]
    assert paired_cells(table.loc["Func-PKG"]) == [DASH] * 7


def test_difference_has_the_same_cells_without_the_correction():
    difference = paired_score(VERDICTS["BM25"], VERDICTS[BASELINE])
    change, bounds, *others = difference_cells(difference)
    assert (change, others) == ("+33.3", ["1", "0", "1.000"])
    bracketed = bracketed_difference(difference.value, difference.low, difference.high)
    assert bracketed == f"{change} ({bounds})"
    assert difference_cells(None) == [DASH] * 5


def test_interval_without_tasks_is_a_dash():
    assert wilson_range(1, 2) == "9.5 to 90.5"
    assert wilson_range(0, 0) == DASH
