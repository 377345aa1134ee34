"""The Ideal Reranker (Section 3.3): the first candidate that passes, an upper bound on what selection could gain."""

from __future__ import annotations

import pandas as pd


def ideal(verdicts: pd.DataFrame) -> pd.Series:
    """Boolean per task over the candidate columns: True when one passed; <NA> while the verdict of one is missing.

    A task with a missing candidate could only be known as solved, never as unsolved: counting it would favour the oracle.
    """
    return verdicts.fillna(False).any(axis=1).astype("boolean").mask(verdicts.isna().any(axis=1))
