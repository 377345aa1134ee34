"""The Ideal Reranker (Section 3.3): the first candidate that passes, an upper bound on what selection could gain."""

from __future__ import annotations

import pandas as pd


def ideal(verdicts: pd.DataFrame) -> pd.Series:
    """Boolean per task over the candidate columns: True when one passed; <NA> when none passed and one is missing."""
    passed = verdicts.fillna(False).any(axis=1)
    unknown = ~passed & verdicts.isna().any(axis=1)
    return passed.astype("boolean").mask(unknown)
