"""Table 7: failed solutions by the exception that ended them, here and in the paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pandas as pd

from pkg_lib.analysis.tables import HERE
from pkg_lib.core.types import Outcome
from pkg_lib.execution.errors import BEYOND, TABLE7, table7

Outcomes = Mapping[str, Outcome]
PASSED = "passed"


def error_counts(outcomes: Outcomes) -> pd.Series:
    """Failed solutions by error: TABLE7's types as raised, then those beyond the table (Timeout and so on).

    <NA> where no outcome is measured.
    """
    failed = Counter(o.error for o in outcomes.values() if o.status == "failed")
    measured = any(o.status != "not_measured" for o in outcomes.values())
    return pd.Series({e: failed[e] if measured else pd.NA for e in (*TABLE7, *BEYOND)}, dtype="Int64")


def as_published(counts: pd.Series) -> pd.Series:
    """The counts by the six rows of Table 7: what lies beyond the table is counted as Others."""
    return counts.groupby(table7, sort=False).sum(min_count=1)


def published() -> pd.DataFrame:
    """The paper's counts on MBPP: error type x setting."""
    rows = pd.read_csv(HERE / "reference" / "pkg_table7_errors_mbpp.csv")
    wide = rows.pivot(index="error_type", columns="setting", values="count")
    return wide.loc[list(TABLE7), rows["setting"].drop_duplicates()]


def fate(outcome: Outcome) -> str:
    """PASSED, or the row of Table 7 that a failed solution is counted in."""
    return PASSED if outcome.status == "passed" else table7(outcome.error)
