"""Where a method loses its tasks, and whom it helps or hurts beside None (Section 5's error analysis).

The waterfall follows every task from the benchmark to its verdict; a task is lost at the first stage it does not reach.
A task without context is lost to the method; where it is asked all the same and passes, it is counted as passed anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pkg_lib.analysis.stats import mcnemar
from pkg_lib.core.types import Outcome

STAGES = ("context found", "in the prompt", "completion", "extracted", "parsed", "ran", "passed")


@dataclass(frozen=True, slots=True)
class Record:
    """One task's way, one answer a stage of STAGES; None where the stage is not the method's (None has no context).

    `passed` None is not measured.
    """

    task_id: str
    context_found: bool | None
    in_prompt: bool | None
    completion: bool
    extracted: bool
    parsed: bool
    ran: bool
    passed: bool | None

    def answers(self) -> tuple[bool | None, ...]:
        """In the order of STAGES."""
        return (
            self.context_found,
            self.in_prompt,
            self.completion,
            self.extracted,
            self.parsed,
            self.ran,
            self.passed,
        )


@dataclass(frozen=True, slots=True)
class Stage:
    """`reached` + `lost` + `not_measured` is the number that reached the stage before.

    `passed_anyway` are those of `lost` that passed nevertheless.
    """

    name: str
    reached: int
    lost: int
    passed_anyway: int = 0
    not_measured: int = 0


@dataclass(frozen=True, slots=True)
class HelpHurt:
    """A method against None on the tasks measured for both. `p`: McNemar's exact test, two-sided."""

    both: int
    helped: int
    hurt: int
    neither: int
    not_measured: int
    p: float


def record(
    task_id: str,
    outcome: Outcome,
    completion: bool,
    extracted: bool,
    parsed: bool,
    ran: bool,
    context_found: bool | None = None,
    in_prompt: bool | None = None,
) -> Record:
    """One task's record. `ran`: the program without its tests ran through.

    What passed has taken every stage from the completion on, whatever the other arguments say.
    """
    if outcome.status == "passed":
        return Record(task_id, context_found, in_prompt, True, True, True, True, True)
    passed = None if outcome.status == "not_measured" else False
    return Record(task_id, context_found, in_prompt, completion, extracted, parsed, ran, passed)


def waterfall(records: Iterable[Record]) -> list[Stage]:
    """Stages from "tasks" to "passed". A stage that no record has is left out.

    A task that is not measured is taken out at "passed", as not measured, where it got so far.
    """
    left = list(records)
    stages = [Stage("tasks", len(left), 0)]
    for i, name in enumerate(STAGES):
        if left and all(r.answers()[i] is None for r in left) and name != "passed":
            continue
        lost = [r for r in left if r.answers()[i] is False]
        unknown = [r for r in left if name == "passed" and r.passed is None]
        left = [
            r for r in left if r.answers()[i] is not False and not (name == "passed" and r.passed is None)
        ]
        stages.append(Stage(name, len(left), len(lost), sum(r.passed is True for r in lost), len(unknown)))
    return stages


def help_hurt(none: Mapping[str, bool | None], method: Mapping[str, bool | None]) -> HelpHurt:
    """The 2x2 table of a method against None by task id; verdicts are None where not measured.

    A task that only one of the two has counts as not measured.
    """
    pairs = [(none.get(t), method.get(t)) for t in dict.fromkeys([*none, *method])]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    helped, hurt = sum(b and not a for a, b in known), sum(a and not b for a, b in known)
    both, neither = sum(a and b for a, b in known), sum(not a and not b for a, b in known)
    return HelpHurt(both, helped, hurt, neither, len(pairs) - len(known), mcnemar(helped, hurt))
