"""MPSC (Huang et al., 2023; Section 3.1), reduced: the best connected of five solutions.

Solutions are samples of the bare prompt, or of EVOR's last prompt. Three checks tell whether a result
fits its arguments, and five tests are assertions. A model is prompted for both once. Solutions, tests
and checks are the vertices of a graph, and vertices that agree when they are executed are joined. The
confidence in a vertex is its eigenvector centrality. The measures of agreement within one perspective
are left out. A task without a function keeps its first solution.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pkg_lib.core.python_syntax import parsed_or_none
from pkg_lib.core.types import Context, Task, UserError
from pkg_lib.generation.extraction import blocks
from pkg_lib.papers.evor.evor_loop import EvorRound
from pkg_lib.papers.evor.evor_methods import (
    EVOR_METHODS,
    LAST_PROMPT,
    MPSC_SAMPLES,
    SAMPLES,
    tokens_of,
)
from pkg_lib.papers.evor.evor_run import EvorRun
from pkg_lib.papers.evor.templates import PROGRAMS, PROMPTS
from pkg_lib.retrieval.methods import context_method

CHECKS = 3  # specifications that a model is prompted for
CHECK_NAMES = [f"check_{number}" for number in range(1, CHECKS + 1)]
TESTS = 5  # assertions that a model is prompted for
POWER_STEPS = 50  # of power iteration
ASSERTION = re.compile(r"^\s*assert (.+?)(?:  #.*)?$", re.M)
AGREEMENTS = re.compile(r"^RuntimeError: ([01]*)$")
Tests = Sequence[tuple[str, str]]  # call of the function, expected value


@dataclass(frozen=True, slots=True)
class Perspectives:
    """What a model wrote about a task beside its solutions.

    Attributes:
        tests: Calls of the function with their expected values.
        checks: The functions check_1, check_2 and check_3; "" for a missing one.
        spent: The tokens of both.
    """

    tests: Tests
    checks: Sequence[str]
    spent: int


def assertions(raw: str, name: str) -> list[tuple[str, str]]:
    """Read the tests from an answer.

    Args:
        raw: The model's answer.
        name: The function that is tested.

    Returns:
        At most TESTS pairs of a call and its expected value, from ``assert call == value``.
    """
    found: dict[tuple[str, str], None] = {}
    for line in ASSERTION.findall(raw):
        comparison = _comparison(line)
        if comparison is None:
            continue
        call = comparison.left
        if isinstance(call, ast.Call) and ast.unparse(call.func) == name:
            expected = comparison.comparators[0]
            test = (ast.unparse(call), ast.unparse(expected))
            found[test] = None
    return list(found)[:TESTS]


def _comparison(line: str) -> ast.Compare | None:
    """Return the comparison for equality that a line consists of; None without one."""
    tree = parsed_or_none(line)
    if tree is None or not tree.body:
        return None
    statement = tree.body[0]
    if not isinstance(statement, ast.Expr):
        return None
    comparison = statement.value
    if isinstance(comparison, ast.Compare) and isinstance(comparison.ops[0], ast.Eq):
        return comparison
    return None


def checks(raw: str) -> list[str]:
    """Read the checks from an answer.

    Args:
        raw: The model's answer.

    Returns:
        The functions check_1, check_2 and check_3; "" for a missing one.
    """
    found = {}
    for block in blocks(raw):
        tree = parsed_or_none(block.code)
        if tree is None:
            continue
        for statement in tree.body:
            if isinstance(statement, ast.FunctionDef):
                found[statement.name] = ast.unparse(statement)
    return [found.get(name, "") for name in CHECK_NAMES]


def agreement_expressions(tests: Tests, name: str) -> list[str]:
    """Return the expressions that tell which vertices of the graph agree.

    Args:
        tests: The tests.
        name: The function that is tested.

    Returns:
        Whether a solution agrees with each test and with each check, then whether each check agrees
        with each test.
    """
    solution_and_test = []
    solution_and_check = []
    check_and_test = []
    for call, expected in tests:
        solution_and_test.append(f"{call} == ({expected})")
    for check in CHECK_NAMES:
        results = []
        for call, expected in tests:
            arguments = call.removeprefix(name)[1:-1]
            results.append(f"{check}({call}, {arguments})")
            check_and_test.append(f"{check}({expected}, {arguments})")
        solution_and_check.append(" and ".join(results) or "False")
    return solution_and_test + solution_and_check + check_and_test


def confidence(agreements: Sequence[str], tests: int) -> npt.NDArray[Any]:
    """Compute the eigenvector centrality of solutions.

    Args:
        agreements: For each solution a "0" or "1" for each of `agreement_expressions`; "" for a
            solution that did not run.
        tests: Number of tests.

    Returns:
        Centrality [solution].
    """
    solutions = len(agreements)
    first_check = solutions + tests
    vertices = first_check + CHECKS
    edges = np.eye(vertices)
    for row, bits in enumerate(agreements):
        if not bits:
            continue
        agrees = np.array([bit == "1" for bit in bits])
        solution_agreements = agrees[: tests + CHECKS]
        edges[row, solutions:] = solution_agreements
        edges[solutions:, row] = solution_agreements
        # A check agrees with a test whatever the solution is; one that ran tells.
        check_agreements = agrees[tests + CHECKS :].reshape(CHECKS, tests)
        edges[first_check:, solutions:first_check] += check_agreements
        edges[solutions:first_check, first_check:] += check_agreements.T
    edges = np.minimum(edges, 1)
    scores = np.ones(vertices)
    for _ in range(POWER_STEPS):
        scores = edges @ scores
        scores /= np.linalg.norm(scores)
    return scores[:solutions].round(9)


@dataclass
class LastPrompts:
    """The context of each task in the last round of EVOR that prompted for it.

    Attributes:
        run: The model on a benchmark.
    """

    run: EvorRun

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """Return the last context of each task.

        Args:
            tasks: The problems n.

        Returns:
            One context per task, in order.

        Raises:
            UnavailableError: A round of EVOR is not completed.
        """
        evor = EVOR_METHODS["EVOR"]
        last: dict[str, Context] = {}
        for number, name in enumerate(evor.round_names):
            evor_round = EvorRound(self.run, evor, number)
            for context in evor_round.retrieve(tasks):
                if context.method == name:
                    last[context.task_id] = context
        return [replace(last[task.id], method=LAST_PROMPT, spent=None) for task in tasks]


@dataclass
class MpscRetriever:
    """The context of the selected sample, under that sample's name, so that its answer counts.

    Attributes:
        run: The model on a benchmark.
        name: A key of MPSC_SAMPLES.
    """

    run: EvorRun
    name: str

    @property
    def samples(self) -> tuple[str, ...]:
        """The names of the five samples."""
        return MPSC_SAMPLES[self.name]

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """Return the context of the selected sample of each task.

        Args:
            tasks: The problems n.

        Returns:
            One context per task, in order.

        Raises:
            UserError: A sample lacks an answer.
        """
        functions: list[Task] = []
        if self.run.benchmark.language == "python":
            functions = [task for task in tasks if task.entry_point]
        perspectives = self._perspectives(functions)
        selected = self._selected(functions, perspectives)
        contexts = self.run.results.contexts_by_task(context_method(self.samples[0]))
        chosen = []
        for task in tasks:
            spent = perspectives[task.id].spent if task.id in perspectives else 0
            context = replace(
                contexts[task.id],
                method=selected.get(task.id, self.samples[0]),
                spent=spent,
            )
            chosen.append(context)
        return chosen

    def _perspectives(self, tasks: Sequence[Task]) -> dict[str, Perspectives]:
        """Prompt for the tests and the checks of each task."""
        answers = {}
        for what, template in PROMPTS["mpsc"].items():
            prompts = {}
            for task in tasks:
                prompts[task.id] = template.format(task=task.prompt, name=task.entry_point)
            answers[what] = self.run.ask(f"MPSC.{what}", prompts)
        perspectives = {}
        for task in tasks:
            tests = answers["tests"][task.id]
            specifications = answers["checks"][task.id]
            perspectives[task.id] = Perspectives(
                tests=assertions(tests.raw, task.entry_point),
                checks=checks(specifications.raw),
                spent=tokens_of(tests) + tokens_of(specifications),
            )
        return perspectives

    def _selected(
        self,
        tasks: Sequence[Task],
        perspectives: Mapping[str, Perspectives],
    ) -> dict[str, str]:
        """Select the sample with the best connected solution of each task; the first one on a tie.

        Returns:
            Name of the sample by task id.

        Raises:
            UserError: A sample lacks an answer.
        """
        solutions = [self.run.results.solutions(sample) for sample in self.samples]
        for sample, by_task in zip(self.samples, solutions, strict=True):
            for task in tasks:
                if task.id not in by_task:
                    advice = f'run it first: --method "{sample}"'
                    raise UserError(f"{self.name}: {sample} has no answer to {task.id}; {advice}")
        jobs = []
        for task in tasks:
            probe = _probe(task, perspectives[task.id])
            programs = [by_task[task.id] for by_task in solutions]
            jobs += [self.run.benchmark.draft_job(task, program, (probe,)) for program in programs]
        agreements = []
        for feedback in self.run.execute(jobs, "MPSC's solutions"):
            reported = feedback.error if feedback else ""
            match = AGREEMENTS.search(reported)
            agreements.append(match[1] if match else "")
        selected = {}
        for number, task in enumerate(tasks):
            first = number * SAMPLES
            task_agreements = agreements[first : first + SAMPLES]
            scores = confidence(task_agreements, len(perspectives[task.id].tests))
            selected[task.id] = self.samples[int(scores.argmax())]
        return selected


def _probe(task: Task, perspectives: Perspectives) -> str:
    """A program that reports which vertices agree when it runs after a solution."""
    expressions = agreement_expressions(perspectives.tests, task.entry_point)
    return PROGRAMS["probe"].format(
        checks="\n".join(perspectives.checks),
        pairs=", ".join(f"lambda: {expression}" for expression in expressions),
    )
