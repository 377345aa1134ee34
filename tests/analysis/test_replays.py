"""Tables 5 and 6 from replayed verdicts."""

import notebook_code
import pandas as pd
import pytest

from pkg_lib.core.store import write_jsonl
from pkg_lib.core.types import Outcome, UserError
from pkg_lib.papers.pkg.pass_tables import published
from pkg_lib.papers.pkg.replays import CANDIDATES, CLOSED, agreement, replayed, verdict_frame

TASKS = [f"HumanEval/{i}" for i in range(4)]


def outcomes(*passed):
    verdicts = [Outcome("passed") if p else Outcome("failed", "AssertionError") for p in passed]
    return dict(zip(TASKS, verdicts, strict=True))


def test_the_authors_files_become_the_columns_of_this_study(tmp_path):
    rows = [{"task_id": "HumanEval/0", "status": "passed", "error": "", "detail": "", "seconds": 0.1}]
    for method in ("no_rag", "voyage_block"):
        write_jsonl(tmp_path / "replay" / "m" / "humaneval" / f"{method}.jsonl", rows)
    assert set(replayed(tmp_path, "m", "humaneval")) == {"None", "Block-PKG"}
    assert replayed(tmp_path, "m", "mbpp") == {}
    with pytest.raises(UserError, match="replay DIR"):
        replayed(tmp_path, "other", "humaneval")


def test_ideal_is_the_union_of_the_candidates_and_unknown_without_one():
    every = {c: outcomes(c == "BM25", c == "None", 0, 0) for c in CANDIDATES}
    frame = verdict_frame(every | {"Reranked": outcomes(1, 1, 1, 1)})
    assert list(frame["Ideal"]) == [True, True, False, False]
    del every["Dense"]
    assert verdict_frame(every)["Ideal"].isna().all() and len(verdict_frame(every, limit=2)) == 2


def test_agreement_compares_at_the_published_precision():
    text = published("humaneval", CLOSED, "closed").loc["GPT-4o"].astype(float)
    passed = {c: round(text[c] * 164 / 100) for c in CLOSED}
    frame = pd.DataFrame({c: [i < n for i in range(164)] for c, n in passed.items()}).astype("boolean")
    assert agreement({"gpt-4o": frame}, "humaneval")["equal"].all()
    frame.loc[0, "BM25"] = False
    assert agreement({"gpt-4o": frame}, "humaneval").query("not equal")["column"].tolist() == ["BM25"]


def test_the_table_shows_replayed_rows_before_the_published_ones():
    notebook = notebook_code.definitions("closed_models")
    frame = verdict_frame({c: outcomes(1, 1, 0, 0) for c in (*CANDIDATES, "Reranked")})
    notebook["frames"] = {"humaneval": {"m": frame}}
    assert [c.text for c in notebook["closed_table"]("humaneval").frame.iloc[0]] == ["50.0"] * 7
    assert list(notebook["against_none"]("humaneval").frame["helped"]) == ["0"] * 6
