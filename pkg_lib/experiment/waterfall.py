"""Where a method loses its tasks (Section 5's error analysis): each is followed to its verdict.

A task is lost at the first stage it does not reach. A task without context is lost to the method; where it is
asked all the same and passes, it is counted as passed anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

STAGES = ("context found", "in the prompt", "completion", "extracted", "parsed", "ran", "passed")


class TaskRecord(NamedTuple):
    """One task's way, an answer a stage; None: the stage is not the method's, or `passed` not measured.

    `ran`: the program without its tests ran through.
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
    """`reached` + `lost` + `not_measured` reached the stage before; `passed_anyway` are of the lost ones."""

    name: str
    reached: int
    lost: int = 0
    passed_anyway: int = 0
    not_measured: int = 0


def waterfall(records: Iterable[TaskRecord]) -> list[Stage]:
    """Stages from "tasks" to "passed", without those that no record has."""
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
