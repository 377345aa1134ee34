"""pass@1 over the wordings of a column."""

from __future__ import annotations

import pandas as pd

from pkg_lib.analysis.bands import wording_band
from pkg_lib.analysis.stats import holm


class Stored:
    """A run of which these verdicts are stored; the last task lacks one."""

    frame = pd.DataFrame(
        {
            "None": [True, True, False, True, True],
            "Func-PKG": [True, False, False, False, True],
            "Func-PKG, context first": [True, True, False, False, True],
            "Func-PKG, earlier turn": [True, True, True, True, None],
        },
        dtype="boolean",
    )

    def verdicts(self, columns):
        return self.frame.reindex(columns=columns).astype("boolean")


def test_band_over_the_tasks_of_all_wordings():
    band = wording_band(Stored(), "Func-PKG")
    assert list(band.index) == ["Func-PKG", "Func-PKG, context first", "Func-PKG, earlier turn"]
    assert band["p_holm"].tolist() == holm(band["p"].tolist())
    assert set(band["n"]) == {4}
    assert band["hurt"].tolist() == [2, 1, 0] and band["rate"].tolist() == [0.25, 0.5, 1.0]


def test_no_band_without_the_papers_wording():
    assert wording_band(Stored(), "Block-PKG").empty
    assert wording_band(Stored(), "None").empty  # nothing to compare None with
