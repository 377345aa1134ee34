"""Numbers from verdicts: pass@k, its intervals, comparisons in pairs, the check of the control rows.

A verdict is True (passed), False or <NA> (not measured), in a "boolean" Series indexed by task id. What was
not measured enters no rate; every result says how many tasks it rests on.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import binomtest, norm

from pkg_lib.core.types import Context, UserError

CONFIDENCE = 0.95
ALPHA = 0.05  # a corrected p below it decides a comparison
RESAMPLES = 10_000
KS = (1, 2, 5, 10, 20, 50, 100)  # of pass@k, as far as there are samples
BASELINE = "None"
ORACLE = "Ideal"
CONTROLS = {"return None": 0, "canonical solution": 100}


class ControlError(UserError):
    """A control row is not what it must be, so no number of the table can be trusted."""


@dataclass(frozen=True, slots=True)
class Rate:
    """pass@1 of one column: how many of the measured tasks passed. `value` is a fraction."""

    passed: int
    measured: int
    total: int

    @property
    def value(self) -> float | None:
        return self.passed / self.measured if self.measured else None


@dataclass(frozen=True, slots=True)
class Difference:
    """A column's mean minus another's on the `n` tasks of both, as a fraction; of verdicts also McNemar's."""

    n: int
    value: float
    low: float
    high: float
    helped: int = 0
    hurt: int = 0
    p: float = math.nan


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """Unbiased pass@k (Chen et al., 2021, Equation 1) of a task, c of n samples correct; None when n < k."""
    if k < 1 or not 0 <= c <= n:
        raise ValueError(f"pass@k needs k >= 1 and 0 <= c <= n, not n={n}, c={c}, k={k}")
    if n < k:
        return None
    return 1.0 if n - c < k else 1.0 - float(np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))


def pass_at_k_of(draws: pd.DataFrame, k: int) -> Difference | None:
    """pass@k of verdicts [task, draw], percentile bootstrap over the tasks with at least k; None of none."""
    counts = pd.DataFrame({"n": draws.notna().sum(axis=1), "c": draws.fillna(False).sum(axis=1)})
    rates = [pass_at_k(int(n), int(c), k) for n, c in counts.itertuples(index=False)]
    values, counts = np.unique([r for r in rates if r is not None], return_counts=True)
    if not len(values):
        return None
    mean = float(values @ counts / counts.sum())
    return Difference(int(counts.sum()), mean, *bootstrap_of_steps(values, counts))


def pass_at_1(verdicts: pd.Series) -> Rate:
    """pass@1 of one greedy sample a task; <NA> is counted in `total` alone."""
    known = verdicts.dropna().astype(bool)
    return Rate(int(known.sum()), len(known), len(verdicts))


def wilson(passed: int, measured: int) -> tuple[float, float] | None:
    """95 % Wilson score interval of a proportion, as fractions; None when nothing was measured."""
    if not measured:
        return None
    interval = binomtest(passed, measured).proportion_ci(CONFIDENCE, method="wilson")
    return float(interval.low), float(interval.high)


def helped_and_hurt(column: pd.Series, baseline: pd.Series) -> tuple[list[str], list[str]]:
    """Task ids that the column solved and the baseline did not, and the reverse."""
    both = column.notna() & baseline.notna()
    ours, base = column[both].astype(bool), baseline[both].astype(bool)
    return list(ours.index[ours & ~base]), list(ours.index[~ours & base])


def paired_bootstrap(column: pd.Series, baseline: pd.Series) -> Difference | None:
    """The difference in pass@1 with a percentile bootstrap over tasks; None without a task of both.

    Tasks of the same difference are interchangeable: drawing their counts is exactly the bootstrap.
    """
    steps = np.array([1, -1, 0])
    return _paired(
        column, baseline, lambda a, b, n: bootstrap_of_steps(steps, np.array([a, b, n - a - b]))
    )


def paired_score(column: pd.Series, baseline: pd.Series) -> Difference | None:
    """As `paired_bootstrap`, with `score_interval`: for few tasks, or few that differ."""
    return _paired(column, baseline, score_interval)


def _paired(
    column: pd.Series, baseline: pd.Series, interval: Callable[[int, int, int], tuple[float, float]]
) -> Difference | None:
    if not (n := int((column.notna() & baseline.notna()).sum())):
        return None
    helped, hurt = map(len, helped_and_hurt(column, baseline))
    return Difference(
        n, (helped - hurt) / n, *interval(helped, hurt, n), helped, hurt, mcnemar(helped, hurt)
    )


def score_interval(helped: int, hurt: int, n: int) -> tuple[float, float]:
    """95 % score interval of a paired difference (Tango, Statistics in Medicine 17:891, 1998)."""
    return _lower(helped, hurt, n), -_lower(hurt, helped, n)


def _lower(helped: int, hurt: int, n: int) -> float:
    z, seen = float(norm.ppf(0.5 + CONFIDENCE / 2)), (helped - hurt) / n

    def beyond(d: float) -> float:
        """Distance of what was seen from d, less z standard errors at the likeliest share hurt."""
        half = ((2 * n + hurt - helped) * d - helped - hurt) / (4 * n)
        share = math.sqrt(half * half + hurt * d * (1 - d) / (2 * n)) - half
        return n * (seen - d) - z * math.sqrt(max(0.0, n * (2 * share + d * (1 - d))))

    # Just below `seen`: where all tasks agree, d = seen solves the equation too.
    return -1.0 if seen == -1 else float(brentq(beyond, -1.0, seen - 1e-9))


def bootstrap_of_steps(steps: np.ndarray, counts: np.ndarray) -> tuple[float, float]:
    """Percentile bootstrap over tasks of their mean step; `counts[i]` tasks take `steps[i]`."""
    n = int(counts.sum())
    drawn = np.random.default_rng(0).multinomial(n, counts / n, size=RESAMPLES) @ steps / n
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def mcnemar(helped: int, hurt: int) -> float:
    """Exact two-sided McNemar p: could as uneven a split of the discordant tasks come from a fair coin?"""
    return float(binomtest(helped, helped + hurt).pvalue) if helped + hurt else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction, in the order given; NaN (not measured) stays and is no comparison."""
    # Written out: a library for these ten lines takes a second to import.
    corrected = np.array(p_values, float)
    order = np.argsort(corrected)[: int((~np.isnan(corrected)).sum())]  # NaN sorts last
    corrected[order] = np.minimum(
        np.maximum.accumulate(corrected[order] * np.arange(len(order), 0, -1)), 1
    )
    return corrected.tolist()


def compare(verdicts: pd.DataFrame, baseline: str = BASELINE, oracle: str = ORACLE) -> pd.DataFrame:
    """Each other column against the baseline: n, difference, low, high (fractions), helped, hurt, p, p_holm.

    The oracle picks among candidates that include the baseline's, so it cannot lose: no p.
    """
    nothing = Difference(0, math.nan, math.nan, math.nan)
    others = verdicts.columns.drop(baseline)
    rows = [
        asdict(paired_bootstrap(verdicts[name], verdicts[baseline]) or nothing) for name in others
    ]
    table = pd.DataFrame(rows, others, list(Difference.__slots__)).rename(
        columns={"value": "difference"}
    )
    table["p"] = table["p"].mask(table.index == oracle)
    return table.assign(p_holm=holm(table["p"].tolist()))


def check_controls(
    controls: Mapping[str, pd.Series], tasks: pd.Index, rates: Mapping[str, int] = CONTROLS
) -> None:
    """Raises ControlError unless each control row passes so many percent of the tasks: none, or all."""
    for name, wanted in rates.items():
        if name not in controls:
            raise ControlError(
                f"control row '{name}' is missing; evaluate the controls before the table"
            )
        verdicts = controls[name].reindex(tasks)
        wrong = tasks[~(verdicts == (wanted == 100)).fillna(False)]
        if len(wrong):
            raise ControlError(
                f"control row '{name}' must score {wanted} % and is wrong on {len(wrong)} of {len(tasks)} "
                f"tasks (first: {wrong[0]}); no table is written: mend the execution of tests"
            )


def own_function(contexts: Mapping[str, Sequence[Context]]) -> pd.DataFrame:
    """Contexts of each column, those known and those defining the function asked for (<NA>: none known)."""
    marks = [pd.Series([c.defines_task for c in row], dtype="boolean") for row in contexts.values()]
    rows = [(len(row), row.count(), row.sum(min_count=1)) for row in marks]
    return pd.DataFrame(rows, list(contexts), ["contexts", "known", "defining"], dtype="Int64")


def not_measured(columns: Iterable[str], verdicts: pd.DataFrame) -> list[str]:
    """Those of the columns without a single verdict."""
    return [c for c in columns if c not in verdicts or not verdicts[c].notna().any()]
