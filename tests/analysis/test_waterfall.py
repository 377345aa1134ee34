from itertools import pairwise

import pandas as pd
from notebook_code import definitions

from pkg_lib.evaluation.results import STAGES

FULL = dict.fromkeys(STAGES, True)
waterfall = definitions("error_types")["waterfall"]


def counts(*records):
    """Stage -> (reached, lost, passed anyway, not measured) of tasks that reach all stages but these."""
    frame = pd.DataFrame([FULL | r for r in records], columns=list(STAGES), dtype="boolean")
    return {row[0]: row[1:] for row in waterfall(frame).itertuples(name=None)}


def test_each_stage_loses_its_own():
    stages = counts({}, *({s: False, "passed": False} for s in STAGES))
    assert stages["tasks"] == (8, 0, 0, 0)
    assert [stages[s][:2] for s in STAGES] == [(reached, 1) for reached in (7, 6, 5, 4, 3, 2, 1)]


def test_counts_add_up_with_every_kind_of_record():
    kinds = [{s: value} for s in STAGES for value in (False, True)]
    rows = list(counts(*kinds, *[{"passed": None}] * 3).values())
    for (before, *_), (reached, lost, _, unknown) in pairwise(rows):
        assert before == reached + lost + unknown
    assert rows[-1][0] + sum(row[2] for row in rows) == 2 * len(STAGES) - 1 and rows[-1][3] == 3


def test_none_has_no_context_stages():
    without = {"context found": None, "in the prompt": None}
    assert list(counts(without, without)) == ["tasks", *STAGES[2:]]
    assert [row[0] for row in counts().values()] == [0] * 8


def test_a_task_without_context_can_pass_anyway():
    assert counts({}, {"context found": False})["context found"] == (1, 1, 1, 0)
