"""Stored rows: a verdict refers to its solution, or holds it."""

import pytest

from pkg_lib.core.reading import DamagedFileError
from pkg_lib.core.store import write_jsonl
from pkg_lib.core.types import Generation
from pkg_lib.evaluation.stored_rows import read_verdicts, solution_fields

ANSWER = "Here it is:\n```python\ndef f(x):\n    return 'é' * x\n```\nDone."
SOLUTION = "def f(x):\n    return 'é' * x\n"
COMPLETIONS = {"k": Generation("k", "t", ANSWER, [1], "end", 3)}


def verdict(**fields):
    about = {"task_id": "t", "status": "passed", "error": "", "detail": "", "sha256": "0"}
    return about | {"generation_key": "k"} | fields


def read(folder, row, completions=COMPLETIONS):
    path = folder / "samples.jsonl.gz"
    write_jsonl(path, [row])
    return read_verdicts(path, completions)["t"]["solution"]


@pytest.mark.parametrize(
    "solution", [SOLUTION, "", "def f(x): pass", ANSWER], ids=["part", "empty", "other", "whole"]
)
def test_a_solution_is_read_as_it_was_stored(tmp_path, solution):
    assert read(tmp_path, verdict(**solution_fields(solution, ANSWER))) == solution


def test_a_part_of_the_completion_is_stored_by_its_place():
    assert "solution" not in solution_fields(SOLUTION, ANSWER)
    assert solution_fields(SOLUTION, "") == {"solution": SOLUTION}


def test_a_solution_without_its_completion_is_unknown(tmp_path):
    row = verdict(**solution_fields(SOLUTION, ANSWER))
    assert read(tmp_path, row, {}) is None
    assert read(tmp_path, verdict(solution=SOLUTION), {}) == SOLUTION
    assert read(tmp_path, verdict()) == ""  # verdicts by the authors' rules


@pytest.mark.parametrize("place", [(10**17, -(10**17)), (-5, 3), (7, 7)])
def test_an_implausible_place_gives_some_text(tmp_path, place):
    row = verdict(solution_begin=place[0], solution_end=place[1])
    assert read(tmp_path, row) in ANSWER


def test_a_place_that_is_no_number_is_damaged(tmp_path):
    with pytest.raises(DamagedFileError, match="solution_begin"):
        read(tmp_path, verdict(solution_begin="1", solution_end=2))
