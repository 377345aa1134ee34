from dataclasses import replace
from itertools import pairwise

import pytest

from pkg_lib.core.types import Outcome
from pkg_lib.papers.pkg.waterfall import STAGES, Record, help_hurt, mcnemar, record, waterfall

FULL = Record("t", True, True, True, True, True, True, True)
FIELDS = ("context_found", "in_prompt", "completion", "extracted", "parsed", "ran", "passed")


def counts(records):
    return {s.name: (s.reached, s.lost, s.passed_anyway, s.not_measured) for s in waterfall(records)}


def test_each_stage_loses_its_own():
    records = [FULL, *(replace(FULL, **{f: False, "passed": False}) for f in FIELDS)]
    found = counts(records)
    assert found["tasks"] == (8, 0, 0, 0)
    assert [found[s][0] for s in STAGES] == [7, 6, 5, 4, 3, 2, 1]
    assert all(found[s][1] == 1 for s in STAGES)


def test_counts_add_up_with_every_kind_of_record():
    records = [replace(FULL, **{f: v}) for f in FIELDS for v in (False, True)] + [
        replace(FULL, passed=None)
    ] * 3
    stages = waterfall(records)
    for before, after in pairwise(stages):
        assert before.reached == after.reached + after.lost + after.not_measured
    passed = sum(r.passed is True for r in records)
    assert stages[-1].reached + sum(s.passed_anyway for s in stages) == passed
    assert stages[-1].not_measured == 3


def test_none_has_no_context_stages():
    none = replace(FULL, context_found=None, in_prompt=None)
    assert [s.name for s in waterfall([none, none])] == ["tasks", *STAGES[2:]]
    assert [s.reached for s in waterfall([])] == [0] * 8


def test_a_task_without_context_can_pass_anyway():
    assert counts([FULL, replace(FULL, context_found=False)])["context found"] == (1, 1, 1, 0)


@pytest.mark.parametrize(
    ("outcome", "steps", "answers"),
    [
        ("passed", (True, False, False, False), (True, True, True, True, True)),
        ("failed", (True, True, True, True), (True, True, True, True, False)),
        ("failed", (True, True, False, False), (True, True, False, False, False)),
        ("failed", (True, False, True, False), (True, False, True, False, False)),
        ("not_measured", (True, True, True, True), (True, True, True, True, None)),
    ],
)
def test_records_come_from_outcomes(outcome, steps, answers):
    assert record("t", Outcome(outcome), *steps).answers() == (None, None, *answers)


def test_help_and_hurt():
    none = {"a": True, "b": True, "c": False, "d": False, "e": None, "f": True}
    method = {"a": True, "b": False, "c": True, "d": False, "e": True, "g": True}
    found = help_hurt(none, method)
    assert (found.both, found.helped, found.hurt, found.neither, found.not_measured) == (1, 1, 1, 1, 3)
    assert found.p == 1.0


def test_mcnemar_is_the_exact_binomial():
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(5, 0) == mcnemar(0, 5) == pytest.approx(2 / 32)
    assert mcnemar(9, 1) == pytest.approx(2 * (1 + 10) / 1024)
    assert mcnemar(4, 4) == 1.0
