"""pass@1 over the prompt variants of a method."""

from __future__ import annotations

import pandas as pd

from pkg_lib.analysis.prompt_variants import compare_prompt_variants
from pkg_lib.analysis.stats import holm


class Stored:
    """Results with stored verdicts. The last task lacks one."""

    frame = pd.DataFrame(
        {
            "NoRAG": [True, True, False, True, True],
            "Func-PKG": [True, False, False, False, True],
            "Func-PKG, context first": [True, True, False, False, True],
            "Func-PKG, earlier turn": [True, True, True, True, None],
        },
        dtype="boolean",
    )

    def offers(self, method):
        return method in self.frame

    def verdicts(self, columns):
        return self.frame.reindex(columns=columns).astype("boolean")


def test_band_covers_the_tasks_of_all_prompt_variants():
    table = compare_prompt_variants(Stored(), "Func-PKG")
    assert list(table.index) == ["Func-PKG", "Func-PKG, context first", "Func-PKG, earlier turn"]
    assert table["p_corrected"].tolist() == holm(table["p"].tolist())
    assert set(table["n"]) == {4}
    assert table["hurt"].tolist() == [2, 1, 0] and table["rate"].tolist() == [0.25, 0.5, 1.0]


def test_there_is_no_band_without_the_papers_prompt():
    assert compare_prompt_variants(Stored(), "Block-PKG").empty
    assert compare_prompt_variants(Stored(), "NoRAG").empty  # nothing to compare None with
