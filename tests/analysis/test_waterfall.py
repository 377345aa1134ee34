from itertools import pairwise

import pytest

from pkg_lib.core.types import Outcome
from pkg_lib.experiment.waterfall import STAGES, TaskRecord, record, waterfall

FULL = TaskRecord("t", True, True, True, True, True, True, True)
FIELDS = TaskRecord._fields[1:]


def counts(records):
    return {s.name: (s.reached, s.lost, s.passed_anyway, s.not_measured) for s in waterfall(records)}


def test_each_stage_loses_its_own():
    stages = counts([FULL, *(FULL._replace(**{f: False, "passed": False}) for f in FIELDS)])
    assert stages.pop("tasks") == (8, 0, 0, 0)
    assert [s[:2] for s in stages.values()] == [(left, 1) for left in (7, 6, 5, 4, 3, 2, 1)]


def test_counts_add_up_with_every_kind_of_record():
    records = [FULL._replace(**{f: v}) for f in FIELDS for v in (False, True)]
    stages = waterfall([*records, *[FULL._replace(passed=None)] * 3])
    for before, after in pairwise(stages):
        assert before.reached == after.reached + after.lost + after.not_measured
    passed = sum(r.passed is True for r in records)
    assert stages[-1].reached + sum(s.passed_anyway for s in stages) == passed
    assert stages[-1].not_measured == 3


def test_none_has_no_context_stages_and_a_task_without_context_can_pass_anyway():
    none = FULL._replace(context_found=None, in_prompt=None)
    assert list(counts([none, none])) == ["tasks", *STAGES[2:]]
    assert [s.reached for s in waterfall([])] == [0] * 8
    assert counts([FULL, FULL._replace(context_found=False)])["context found"] == (1, 1, 1, 0)


@pytest.mark.parametrize(
    ("outcome", "steps", "answers"),
    [
        ("passed", (True, False, False, False), (True, True, True, True, True)),
        ("failed", (True, True, False, False), (True, True, False, False, False)),
        ("failed", (True, False, True, False), (True, False, True, False, False)),
        ("not_measured", (True, True, True, True), (True, True, True, True, None)),
    ],
)
def test_records_come_from_outcomes(outcome, steps, answers):
    assert record("t", Outcome(outcome), *steps)[1:] == (None, None, *answers)
