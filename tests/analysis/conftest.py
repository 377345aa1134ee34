"""Verdict frames for the tests of tables, figures and report."""

import numpy as np
import pandas as pd
import pytest
from checks import CODE

from pkg_lib.analysis.tables import single


def make_verdicts(n=40, seed=1, columns=CODE):
    rng = np.random.default_rng(seed)
    base = rng.random(n) < 0.6
    frame = pd.DataFrame(
        {c: np.where(rng.random(n) < 0.15, ~base, base) for c in columns},
        [f"HumanEval/{i}" for i in range(n)],
    )
    frame["None"] = base
    frame["Ideal"] = frame[single(columns)].any(axis=1)
    return frame.astype("boolean")


@pytest.fixture
def verdicts():
    return make_verdicts()


@pytest.fixture
def controls(verdicts):
    wanted = {"return None": False, "canonical solution": True}
    return {name: pd.Series(value, verdicts.index, dtype="boolean") for name, value in wanted.items()}
