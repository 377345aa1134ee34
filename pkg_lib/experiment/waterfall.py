"""Where a method loses its tasks (Section 5's error analysis): each followed from the benchmark to its
verdict.

A task is lost at the first stage it does not reach. A task without context is lost to the method; where it is
asked all the same and passes, it is counted as passed anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pkg_lib.core.types import Outcome

STAGES = ("context found", "in the prompt", "completion", "extracted", "parsed", "ran", "passed")


class TaskRecord(NamedTuple):
    """One task's way, one answer a stage of STAGES; None where the stage is not the method's (None has no
    context).

    `passed` None is not measured. `ran`: the program without its tests ran through.
    """

    task_id: str
    context_found: bool | None
    in_prompt: bool | None
    completion: bool
    extracted: bool
    parsed: bool
    ran: bool
    passed: bool | None


class Stage(NamedTuple):
    """`reached` + `lost` + `not_measured` is the number that reached the stage before.

    `passed_anyway` are those of `lost` that passed nevertheless.
    """

    name: str
    reached: int
    lost: int = 0
    passed_anyway: int = 0
    not_measured: int = 0


def record(
    task_id: str,
    outcome: Outcome,
    completion: bool,
    extracted: bool,
    parsed: bool,
    ran: bool,
    context_found: bool | None = None,
    in_prompt: bool | None = None,
) -> TaskRecord:
    """What passed has taken every stage from the completion on, whatever the other arguments say."""
    if outcome.status == "passed":
        return TaskRecord(task_id, context_found, in_prompt, True, True, True, True, True)
    passed = None if outcome.status == "not_measured" else False
    return TaskRecord(task_id, context_found, in_prompt, completion, extracted, parsed, ran, passed)


def waterfall(records: Iterable[TaskRecord]) -> list[Stage]:
    """Stages from "tasks" to "passed". A stage that no record has is left out.

    A task that is not measured is taken out at "passed", as not measured, where it got so far.
    """
    left = list(records)
    stages = [Stage("tasks", len(left))]
    for place, name in enumerate(STAGES, 1):
        last, answers = name == "passed", [r[place] for r in left]
        if left and not last and all(a is None for a in answers):
            continue
        lost = [r for r in left if r[place] is False]
        left = [r for r in left if r[place] or (r[place] is None and not last)]
        anyway = sum(r.passed is True for r in lost)
        stages.append(Stage(name, len(left), len(lost), anyway, answers.count(None) if last else 0))
    return stages
