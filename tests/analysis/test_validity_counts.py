"""Tasks grouped by context validity, from the committed results alone."""

from __future__ import annotations

import pytest

from pkg_lib.core.store import read_rows, write_jsonl
from pkg_lib.evaluation.controls import ControlError
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.study import MODEL
from pkg_lib.papers.pkg.validity_counts import (
    VALIDITIES,
    context_validities,
    copies,
    copy_rates,
    validity_counts,
)


@pytest.fixture
def run(committed, monkeypatch):
    monkeypatch.delenv("PKG_PAPER_DIR", raising=False)
    return Results(MODEL, corpus="published")


def test_groups_cover_all_tasks_and_the_copy_row_counts_valid_contexts(run):
    of, table, copied = (
        context_validities(run, "Func-PKG"),
        validity_counts(run, "Func-PKG"),
        copies(run, "Func-PKG"),
    )
    assert of.isin(VALIDITIES).all() and len(of) == 164
    assert (
        table.loc["all", "n"]
        == table.loc[list(VALIDITIES), "n"].sum()
        == copied.notna().sum()
        == 162
    )
    assert copied.sum() == table.loc["valid", "n"] == (of == "valid").sum() > 0
    assert table.loc[list(VALIDITIES), "Func-PKG"].sum() == table.loc["all", "Func-PKG"]
    rates = copy_rates(run, "Func-PKG").dropna()
    assert rates.between(0, 1).all() and rates.nunique() > 5


def test_unjudged_context_is_not_measured_and_a_failed_control_refuses_the_table(
    run,
):
    path, control = (run.files(c).validity for c in ("Func-PKG", "NoRAG"))
    write_jsonl(path, read_rows(path)[1:])
    assert (
        context_validities(run, "Func-PKG").isna().sum()
        == copy_rates(run, "Func-PKG").isna().sum() - 4
        == 1
    )
    rows = read_rows(control)
    rows[0]["passes"] = False
    write_jsonl(control, rows)
    with pytest.raises(ControlError, match=f"1 of 164 tasks .first: {rows[0]['task_id']}"):
        validity_counts(run, "Func-PKG")


@pytest.mark.parametrize("corpus", ["published", "textbook+stdlib", "pkg-contexts"])
@pytest.mark.parametrize("benchmark", ["humaneval", "mbpp"])
def test_ignores_validity_of_contexts_that_are_not_stored(benchmark, corpus):
    stored = Results(MODEL, benchmark, corpus)
    if stored.tasks_absent:
        pytest.skip(f"{benchmark} is not available")
    paths = {c: stored.files(c).validity for c in stored.stored_methods()}
    rows = {c: len(read_rows(path)) for c, path in paths.items() if path.exists()}
    assert rows == {c: len(stored.leakage(c)) for c in rows} and rows
