"""The rules of extraction on raw answers of closed models: judged, stored, read and compared."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pkg_lib.core.reading import DamagedFileError
from pkg_lib.core.store import ROOT
from pkg_lib.core.types import UnavailableError
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.data.published import RAW_ANSWERS, raw_answers
from pkg_lib.generation.authors_extraction import ALL_BLOCKS, FIRST_BLOCK, extract_first_block
from pkg_lib.papers.pkg.closed_extraction import (
    closed_extraction_table,
    closed_extractions,
    has_raw_answers,
    judge_extractions,
)
from pkg_lib.papers.pkg.prompt_effects import EXTRACTION_LABELS, EXTRACTIONS, OURS
from pkg_lib.papers.pkg.replay import read_samples

MODEL = "gpt-4o"
RIGHT = "def one():\n    return 1"
WRONG = "def one():\n    return 2"
# Task number -> raw answer, published solution, published verdict.
ANSWERS = {
    11: (f"[PYTHON]\n{RIGHT}\n[/PYTHON]", RIGHT, True),
    12: (f"```python\n{RIGHT}\n```\nor\n```python\n{WRONG}\n```", RIGHT, True),
    13: (RIGHT, RIGHT, True),
    14: (f"```python\n{WRONG}\n```", WRONG, False),
}


def write(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with four tasks of MBPP, their raw answers and the published samples."""
    tasks, answers, samples = [], [], []
    for number, (answer, solution, passed) in ANSWERS.items():
        task = {"task_id": number, "text": "Write one.", "code": RIGHT, "test_setup_code": ""}
        tasks.append(task | {"test_list": ["assert one() == 1"], "challenge_test_list": []})
        answers.append({"task_id": f"MBPP/{number}", "raw_output": answer})
        samples.append({"task_id": number, "completion": solution, "passed": passed})
    write(tmp_path / "mbpp" / "mbpp.jsonl", tasks)
    write(tmp_path / "paper" / RAW_ANSWERS[MODEL], answers)
    write(tmp_path / "paper" / "samples" / MODEL / "mbpp" / "voyage_emb.jsonl", samples)
    monkeypatch.setenv("PKG_MBPP_DIR", str(tmp_path / "mbpp"))
    monkeypatch.setenv("PKG_PAPER_DIR", str(tmp_path / "paper"))
    return tmp_path


def judge(data: Path) -> list[str]:
    """Judge the raw answers, and return the rules whose solutions were executed."""
    executed: list[str] = []
    judge_extractions(
        data / "paper" / "samples" / MODEL,
        data / "results" / "replay" / MODEL,
        progress=lambda rule, done: executed.append(rule),
    )
    return executed


def test_every_rule_is_judged_and_compared_with_the_published_results(data):
    judge(data)
    table = closed_extraction_table(closed_extractions(data / "results")).frame
    rows = table.reset_index().set_index("extraction")
    assert set(rows["model"]) == {MODEL}
    counts = ["tasks", "empty answers", "solutions that differ", "verdicts that differ", "pass@1"]
    assert rows.loc[EXTRACTION_LABELS[FIRST_BLOCK], counts].tolist() == ["4", "0", "0", "0", "75.0"]
    # All blocks joined end with the wrong function, and the bare function has no marks.
    assert rows.loc[EXTRACTION_LABELS[ALL_BLOCKS], counts].tolist() == ["4", "1", "2", "2", "25.0"]
    assert rows.loc[EXTRACTION_LABELS[OURS], ["tasks", "empty answers", "pass@1"]].tolist() == [
        "4",
        "0",
        "75.0",
    ]
    compared = ["difference", "helped", "hurt", "McNemar p"]
    assert rows.loc[EXTRACTION_LABELS[ALL_BLOCKS], compared].tolist() == [
        "−50.0",
        "0",
        "2",
        "0.500",
    ]
    assert rows.loc[EXTRACTION_LABELS[OURS], ["difference", "helped", "hurt"]].tolist() == [
        "0.0",
        "0",
        "0",
    ]
    assert set(rows.loc[EXTRACTION_LABELS[FIRST_BLOCK], compared]) == {"–"}


def test_what_is_judged_is_read_back_until_an_answer_changes(data):
    assert set(judge(data)) == set(EXTRACTIONS)
    assert judge(data) == []
    file = data / "paper" / RAW_ANSWERS[MODEL]
    file.write_text(file.read_text().replace("return 2", "return 3"))
    assert set(judge(data)) == set(EXTRACTIONS)


def test_without_raw_answers_the_message_names_the_file(data):
    (data / "paper" / RAW_ANSWERS[MODEL]).unlink()
    with pytest.raises(UnavailableError, match=RAW_ANSWERS[MODEL]):
        judge(data)
    assert closed_extractions(data / "results").empty
    assert has_raw_answers(MODEL) and not has_raw_answers("other")


def test_a_damaged_raw_answer_is_named(data):
    write(data / "paper" / RAW_ANSWERS[MODEL], [{"task_id": "MBPP/11", "raw_output": 1}])
    with pytest.raises(DamagedFileError, match="line 1"):
        judge(data)


@pytest.mark.parametrize("model", list(RAW_ANSWERS))
def test_the_committed_verdicts_by_the_first_block_are_the_published_ones(model):
    stored = closed_extractions(ROOT / "results")
    rows = stored[(stored["model"] == model) & (stored["extraction"] == FIRST_BLOCK)]
    assert len(rows) == 500
    assert rows["as_published"].all() and (rows["passed"] == rows["published"]).all()


@pytest.mark.parametrize("model", list(RAW_ANSWERS))
def test_the_first_block_is_the_published_solution_of_every_task(model):
    """On all 500 raw answers that the authors published, if they are on this machine."""
    try:
        answers, tasks = raw_answers(model), load_benchmark("mbpp")
    except UnavailableError as e:
        pytest.skip(str(e))
    folder = Path(os.environ["PKG_PAPER_DIR"]) / "samples" / model / "mbpp"
    samples, problems = read_samples(folder / "voyage_emb.jsonl", tasks)
    published = samples.set_index("task_id")["completion"].to_dict()
    assert len(answers) == 500 and not problems
    assert {task: extract_first_block(text) for task, text in answers.items()} == published
