"""The tables that the PKG paper prints, as numbers, in both of its versions."""

from __future__ import annotations

from functools import cache

import pandas as pd

from pkg_lib.analysis.tables import HERE

PASS_RATES = ("model", "method", "pass_at_1_percent")
# What the rows, columns and cells are of the tables that are not of pass@1.
LAYOUTS = {
    "7": ("setting", "error_type", "count"),
    "8": ("method", "step", "value"),
    "9": ("tokenizer", "method", "avg_tokens"),
}


@cache
def table(number: str, version: str = "second") -> pd.DataFrame:
    """A published table, row x column, in printed order; NaN where it has no such cell."""
    (path,) = (HERE / "reference").glob(f"pkg_table{number}_*.csv")
    row, column, value = LAYOUTS.get(number, PASS_RATES)
    cells = pd.read_csv(path, keep_default_na=False)
    wide = cells.pivot(index=row, columns=column, values=value).astype(float)
    wide = wide.loc[cells[row].drop_duplicates(), cells[column].drop_duplicates()]
    for r, c, v in first_version(number) if version == "first" else ():
        wide.loc[r, c] = v
    return wide


def first_version(number: str) -> list[tuple[str, str, float]]:
    """(row, column, value) of the cells of a table that stand only so in the first version."""
    cells = pd.read_csv(HERE / "reference" / "pkg_first_version.csv", dtype={"table": str, "value": float})
    return list(cells.loc[cells["table"] == number, ["row", "column", "value"]].itertuples(False, None))
