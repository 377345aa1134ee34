from itertools import pairwise

from pkg_lib.experiment.waterfall import STAGES, TaskRecord, waterfall

FULL = TaskRecord("t", True, True, True, True, True, True, True)
FIELDS = TaskRecord._fields[1:]


def counts(records):
    return {s.name: (s.reached, s.lost, s.passed_anyway, s.not_measured) for s in waterfall(records)}


def test_each_stage_loses_its_own():
    records = [FULL, *(FULL._replace(**{f: False, "passed": False}) for f in FIELDS)]
    found = counts(records)
    assert found["tasks"] == (8, 0, 0, 0)
    assert [found[s][0] for s in STAGES] == [7, 6, 5, 4, 3, 2, 1]
    assert all(found[s][1] == 1 for s in STAGES)


def test_counts_add_up_with_every_kind_of_record():
    records = [FULL._replace(**{f: v}) for f in FIELDS for v in (False, True)] + [
        FULL._replace(passed=None)
    ] * 3
    stages = waterfall(records)
    for before, after in pairwise(stages):
        assert before.reached == after.reached + after.lost + after.not_measured
    passed = sum(r.passed is True for r in records)
    assert stages[-1].reached + sum(s.passed_anyway for s in stages) == passed
    assert stages[-1].not_measured == 3


def test_none_has_no_context_stages():
    none = FULL._replace(context_found=None, in_prompt=None)
    assert [s.name for s in waterfall([none, none])] == ["tasks", *STAGES[2:]]
    assert [s.reached for s in waterfall([])] == [0] * 8


def test_a_task_without_context_can_pass_anyway():
    assert counts([FULL, FULL._replace(context_found=False)])["context found"] == (1, 1, 1, 0)
