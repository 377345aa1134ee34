"""Tables 5 and 6 from replayed verdicts."""

import json

import notebook_code
import pandas as pd
import pytest

from pkg_lib.core.types import Outcome, UserError
from pkg_lib.papers.pkg import replays

TASKS = [f"HumanEval/{i}" for i in range(4)]


def outcomes(passed):
    return {
        t: Outcome("passed" if p else "failed", "" if p else "AssertionError")
        for t, p in zip(TASKS, passed, strict=True)
    }


def save(results, name, methods):
    for method, passed in methods.items():
        path = results / "replay" / name / "humaneval" / f"{method}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [
            {"task_id": t} | {k: getattr(o, k) for k in Outcome.__slots__}
            for t, o in outcomes(passed).items()
        ]
        path.write_text("".join(json.dumps(r) + "\n" for r in rows))


def test_the_authors_files_become_the_columns_of_this_study(tmp_path):
    save(tmp_path, "m", {"no_rag": [1, 0, 0, 0], "voyage_block": [0, 1, 0, 0]})
    found = replays.replayed(tmp_path, "m", "humaneval")
    assert set(found) == {"None", "Block-PKG"}
    assert replays.replayed(tmp_path, "m", "mbpp") == {}
    with pytest.raises(UserError, match="replay DIR"):
        replays.replayed(tmp_path, "other", "humaneval")


def test_ideal_is_the_union_of_the_candidates_and_unknown_without_one():
    every = {c: outcomes([c == "BM25", c == "None", 0, 0]) for c in replays.CANDIDATES}
    frame = replays.verdict_frame(every | {"Reranked": outcomes([1, 1, 1, 1])})
    assert list(frame["Ideal"]) == [True, True, False, False]
    del every["Dense"]
    assert replays.verdict_frame(every)["Ideal"].isna().all()
    assert len(replays.verdict_frame(every, limit=2)) == 2


def test_agreement_compares_at_the_published_precision():
    text = replays.published("humaneval").loc["GPT-4o"].astype(float)
    passed = {c: round(text[c] * 164 / 100) for c in replays.CLOSED}
    frame = pd.DataFrame({c: [i < n for i in range(164)] for c, n in passed.items()}).astype("boolean")
    assert replays.agreement({"gpt-4o": frame}, "humaneval")["equal"].all()
    frame.loc[0, "BM25"] = False
    found = replays.agreement({"gpt-4o": frame}, "humaneval")
    assert list(found.loc[~found["equal"], "column"]) == ["BM25"]


def test_the_table_shows_replayed_rows_before_the_published_ones():
    notebook = notebook_code.definitions("closed_models")
    frame = replays.verdict_frame({c: outcomes([1, 1, 0, 0]) for c in (*replays.CANDIDATES, "Reranked")})
    notebook["frames"] = {"humaneval": {"m": frame}}
    table = notebook["closed_table"]("humaneval")
    assert [c.text for c in table.rows[0].cells] == ["50.0"] * 7
    assert list(notebook["against_none"]("humaneval").frame["helped"]) == ["0"] * 6
