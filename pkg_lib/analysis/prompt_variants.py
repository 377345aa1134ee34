"""Effects of the prompt variant with the same context."""

import pandas as pd

from pkg_lib.analysis.stats import BASELINE, paired_differences
from pkg_lib.evaluation.results import Results
from pkg_lib.retrieval.methods import METHODS


def compare_prompt_variants(
    run: Results,
    method: str,
) -> pd.DataFrame:
    """Compare every measured prompt variant of a method with the baseline.

    The context of another task is a variant, too. p-values are corrected over the variants.

    Args:
        run: The run with the verdicts.
        method: A method with the default prompt.

    Returns:
        The columns of `stats.paired_differences` and ``rate`` (fractions), over the tasks that all
        variants measured. The default prompt comes first. Empty if that prompt was not measured.
    """
    names = [BASELINE, method]
    for column in METHODS.values():
        is_variant = column.prompt_variant or column.name == f"{method}, swapped"
        is_variant = is_variant and run.offers(column.name)
        if column.variant_of == method and not column.style and is_variant:
            names.append(column.name)
    verdicts = run.verdicts(list(dict.fromkeys(names)))
    verdicts = verdicts.dropna(axis="columns", how="all").dropna()
    if verdicts.empty or not {BASELINE, method} <= set(verdicts):
        return pd.DataFrame()
    table = paired_differences(verdicts)
    return table.assign(rate=verdicts[table.index].astype(float).mean())
