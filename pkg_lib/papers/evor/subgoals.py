"""ExeDec (Shi et al., 2023; Section 3.1): a program is written in parts, each executed before the next.

A subgoal model predicts the state that the next part of the program has to reach. The synthesizer writes
the subprogram of that part, and all parts up to it are executed. The state that they reach is shown to both
for the next part. M then combines the subprograms as the answer, from a context that holds them.

The paper says neither how many subgoals there are nor what a state is. Here there are at most MAX_PARTS. A
state is the variables at the top level after the parts ran, those of the last part first and as many as the
length of an error allows, or the error with its line. A part that failed is left out when later parts run.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pkg_lib.core.types import Generation, Task, UnavailableError
from pkg_lib.papers.evor.evor_run import EvorRun, code_in
from pkg_lib.papers.evor.execution_feedback import Feedback
from pkg_lib.papers.evor.templates import PROGRAMS, PROMPTS

MAX_PARTS = 3
SUBGOAL_TOKENS = 60  # of a subgoal
SUBPROGRAM_TOKENS = 200  # of a subprogram
PARTS_TOKENS = MAX_PARTS * (
    SUBGOAL_TOKENS + SUBPROGRAM_TOKENS + 100
)  # of all parts with their states
VARIABLE_CHARACTERS = 60  # of a variable's value in a state
NOTHING_LEFT = "DONE"  # what the subgoal model answers when the parts do everything
STATE_MARK = "state: "  # what the report of a state begins with
STATE_REPORT = f"RuntimeError: {STATE_MARK}"  # the same, as execution feedback has it
UNKNOWN_STATE = "not known"  # after a fault of the sandbox


@dataclass(frozen=True, slots=True)
class ProgramPart:
    """One part of a program.

    Attributes:
        subgoal: The state that it has to reach.
        subprogram: Its lines.
        state: The state after it ran, or its error.
        ran: Whether it ran. A part that failed is shown with its error, and later parts run without it.
    """

    subgoal: str
    subprogram: str
    state: str
    ran: bool


@dataclass
class Decomposition:
    """Writes the programs of several tasks in parts.

    Attributes:
        run: M, E and the benchmark.
        name: The round, under whose name answers and states are stored.
        subgoal_model: The subgoal model by name; "" for M.
        knowledge: Task id -> the retrieved knowledge K_r; "" for none.
        parts: Task id -> at most MAX_PARTS parts, in order, as far as they are written.
        answers: The models' answers by task id, to count their tokens.
    """

    run: EvorRun
    name: str
    subgoal_model: str
    knowledge: Mapping[str, str]
    parts: dict[str, list[ProgramPart]] = field(default_factory=dict)
    answers: list[dict[str, Generation]] = field(default_factory=list)

    def write(self, tasks: Sequence[Task]) -> None:
        """Write and execute the parts of each task's program.

        Args:
            tasks: The problems n.

        Raises:
            UnavailableError: The benchmark's programs are not in Python.
        """
        benchmark = self.run.benchmark
        if benchmark.language != "python":
            raise UnavailableError(
                f"{self.name} executes parts of Python programs, and those of {benchmark.title} are in "
                f"{benchmark.language}; choose another benchmark"
            )
        self.parts = {task.id: [] for task in tasks}
        unfinished = list(tasks)
        for number in range(1, MAX_PARTS + 1):
            subgoals = self._subgoals(number, unfinished)
            unfinished = [task for task in unfinished if task.id in subgoals]
            subprograms = self._subprograms(number, unfinished, subgoals)
            feedbacks = self._executed(number, unfinished, subprograms)
            for task in unfinished:
                feedback = feedbacks.get(task.id)
                part = ProgramPart(
                    subgoal=subgoals[task.id],
                    subprogram=subprograms[task.id],
                    state=state_of(feedback),
                    ran=feedback is not None and feedback.error.startswith(STATE_REPORT),
                )
                self.parts[task.id].append(part)

    def combined(self, task: Task) -> str:
        """Return the part of a context from which M combines the subprograms.

        Args:
            task: The problem n.

        Returns:
            The text; "" without parts.
        """
        parts = self.parts[task.id]
        if not parts:
            return ""
        template: str = PROMPTS["subgoals"]["combined"]
        return template.format(parts=self._shown(parts)).strip()

    def _shown(self, parts: Sequence[ProgramPart]) -> str:
        """The parts as prompts show them."""
        if not parts:
            nothing: str = PROMPTS["subgoals"]["nothing"]
            return nothing
        template: str = PROMPTS["subgoals"]["part"]
        texts = []
        for number, part in enumerate(parts, 1):
            text = template.format(
                number=number,
                subgoal=part.subgoal,
                program=self.run.benchmark.fenced(part.subprogram),
                state=part.state,
            )
            texts.append(text.strip())
        return "\n\n".join(texts)

    def _subgoals(self, number: int, tasks: Sequence[Task]) -> dict[str, str]:
        """Prompt for the next subgoal; a task whose parts do everything has none."""
        answers = self._ask("subgoal", number, tasks, {}, self.subgoal_model, SUBGOAL_TOKENS)
        subgoals = {}
        for task_id, answer in answers.items():
            subgoal = " ".join(answer.raw.split())
            if subgoal and not re.search(rf"\b{NOTHING_LEFT}\b", subgoal):
                subgoals[task_id] = subgoal
        return subgoals

    def _subprograms(
        self,
        number: int,
        tasks: Sequence[Task],
        subgoals: Mapping[str, str],
    ) -> dict[str, str]:
        """Prompt M, the synthesizer, for the subprogram of each subgoal."""
        answers = self._ask("subprogram", number, tasks, subgoals, "", SUBPROGRAM_TOKENS)
        return {task_id: code_in(answer.raw) for task_id, answer in answers.items()}

    def _ask(
        self,
        what: str,
        number: int,
        tasks: Sequence[Task],
        subgoals: Mapping[str, str],
        model: str,
        max_tokens: int,
    ) -> dict[str, Generation]:
        """Prompt a model for the next subgoal or subprogram of each task."""
        template: str = PROMPTS["subgoals"][what]
        prompts = {}
        for task in tasks:
            prompt = template.format(
                knowledge=self.knowledge[task.id],
                task=task.prompt,
                parts=self._shown(self.parts[task.id]),
                subgoal=subgoals.get(task.id, ""),
            )
            prompts[task.id] = prompt.strip()
        answers = self.run.ask(f"{self.name}.{what} {number}", prompts, model, max_tokens)
        self.answers.append(answers)
        return answers

    def _executed(
        self,
        number: int,
        tasks: Sequence[Task],
        subprograms: Mapping[str, str],
    ) -> dict[str, Feedback]:
        """Execute each program up to the new part, without the parts that failed."""
        benchmark = self.run.benchmark
        report = PROGRAMS["state"].format(mark=STATE_MARK, longest=VARIABLE_CHARACTERS)
        jobs = {}
        for task in tasks:
            earlier = [part.subprogram for part in self.parts[task.id] if part.ran]
            lines = [benchmark.beginning(task), *earlier, subprograms[task.id], report]
            jobs[task.id] = benchmark.draft_job(task, "\n".join(lines), ())
        name = f"{self.name}.state {number}"
        return self.run.feedback_on(name, jobs, f"the parts of {self.name}")


def state_of(feedback: Feedback | None) -> str:
    """Return the state after the parts of a program ran.

    Args:
        feedback: The feedback on a program that ends with the report of its state; None after a fault of
            the sandbox.

    Returns:
        Its variables with their values, or the error with its line.
    """
    if feedback is None or feedback.ok:
        return UNKNOWN_STATE
    if feedback.error.startswith(STATE_REPORT):
        return feedback.error.removeprefix(STATE_REPORT) or "no variables"
    return feedback.text
