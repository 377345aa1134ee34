"""Bounds of what a round prompts a model for beside its programs, for a dry run."""

from collections.abc import Sequence
from dataclasses import dataclass

from pkg_lib.core.types import FurtherPrompts, Task
from pkg_lib.papers.evor.evor_benchmark import EvorBenchmark
from pkg_lib.papers.evor.evor_methods import EvorMethod
from pkg_lib.papers.evor.evor_run import ANSWER_TOKENS, INPUT_TOKENS, SCRIPT_TOKENS
from pkg_lib.papers.evor.subgoals import (
    MAX_PARTS,
    PARTS_TOKENS,
    SUBGOAL_TOKENS,
    SUBPROGRAM_TOKENS,
)
from pkg_lib.papers.evor.templates import PROMPTS

CHARACTERS_PER_TOKEN = 3  # of code and English; tokens are longer
TEMPLATE_TOKENS = 200  # of a prompt beside documents, drafts and inputs, at most


@dataclass
class PromptCounts:
    """Counts the prompts of one round, as if no task had ended before.

    A draft is counted as long as an answer may be.

    Attributes:
        benchmark: The benchmark.
        method: The method of the round.
        tasks: The problems n.
    """

    benchmark: EvorBenchmark
    method: EvorMethod
    tasks: Sequence[Task]

    def further_prompts(self, number: int) -> list[FurtherPrompts]:
        """Count the prompts for scripts, inputs I, queries q_i, reflections and parts of programs.

        Args:
            number: The iteration i, from 0.

        Returns:
            One entry per kind of prompt.
        """
        found = []
        method = self.method
        if method.writes_scripts:
            found.append(self._scripts())
        if number == 1:
            inputs = self._about_drafts("requests for inputs", INPUT_TOKENS)
            found.append(inputs)
        if number >= 1 and method.query in PROMPTS["queries"]:
            queries = self._about_drafts("queries", ANSWER_TOKENS, shown=INPUT_TOKENS)
            found.append(queries)
        if number >= 1 and method.thinks == "reflection":
            reflections = self._about_drafts("reflections", ANSWER_TOKENS)
            found.append(reflections)
        if method.executes_subgoals:
            found.append(self._parts())
        return found

    def _scripts(self) -> FurtherPrompts:
        """One script per document, whose prompt holds at most the window."""
        prompt_tokens = 0.0
        documents = self.benchmark.documents().values()
        for document in documents:
            length = len(document) / CHARACTERS_PER_TOKEN
            prompt_tokens += min(length, self.method.loop.window)
            prompt_tokens += TEMPLATE_TOKENS
        return FurtherPrompts(
            what="scripts",
            count=len(documents),
            prompt_tokens=prompt_tokens,
            new_tokens=len(documents) * SCRIPT_TOKENS,
            shared=True,
        )

    def _about_drafts(
        self,
        what: str,
        new_tokens: int,
        shown: int = 0,
    ) -> FurtherPrompts:
        """One prompt per task with its draft, and with `shown` further tokens."""
        answer = self.benchmark.budgets["answer"]
        prompt_tokens = 0.0
        for task in self.tasks:
            prompt_tokens += len(task.prompt) / CHARACTERS_PER_TOKEN
            prompt_tokens += answer + TEMPLATE_TOKENS + shown
        return FurtherPrompts(
            what=what,
            count=len(self.tasks),
            prompt_tokens=prompt_tokens,
            new_tokens=len(self.tasks) * new_tokens,
        )

    def _parts(self) -> FurtherPrompts:
        """A subgoal and a subprogram for each part, with the retrieved knowledge if there is any."""
        length = PARTS_TOKENS + TEMPLATE_TOKENS
        if self.method.sources:
            length = self.method.loop.window
        parts = MAX_PARTS * len(self.tasks)
        count = 2 * parts
        return FurtherPrompts(
            what="subgoals and subprograms",
            count=count,
            prompt_tokens=count * length,
            new_tokens=parts * (SUBGOAL_TOKENS + SUBPROGRAM_TOKENS),
        )
