"""What the wording of a prompt alone changes."""

import pandas as pd

from pkg_lib.analysis.stats import BASELINE, compare
from pkg_lib.evaluation.results import Results
from pkg_lib.retrieval.methods import METHODS


def wording_band(run: Results, column: str) -> pd.DataFrame:
    """A row a measured wording of a column, the paper's first: `compare` with None, and `rate`, as fractions.

    Another task's context is one, too. Holm's correction is over the wordings; all are on the tasks that have
    all. Empty without the paper's.
    """
    swapped = f"{column}, swapped"
    of_column = [c for c in METHODS.values() if c.variant_of == column and not c.style]
    others = [c.name for c in of_column if c.prompt_variant or c.name == swapped]
    names = [column, *others]
    verdicts = run.verdicts(list(dict.fromkeys([BASELINE, *names])))
    verdicts = verdicts.dropna(axis="columns", how="all").dropna()
    if not {BASELINE, column} <= set(verdicts) or verdicts.empty:
        return pd.DataFrame()
    table = compare(verdicts)
    return table.assign(rate=verdicts[table.index].astype(float).mean())
