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
from pkg_lib.core.types import Context, Task, Unavailable
from pkg_lib.generation.extraction import blocks
from pkg_lib.papers.evor.evor_loop import EvorRound
from pkg_lib.papers.evor.evor_methods import EVOR_METHODS, LAST_PROMPT, MPSC_SAMPLES, SAMPLES
from pkg_lib.papers.evor.evor_run import EvorRun
from pkg_lib.papers.evor.templates import PROGRAMS, PROMPTS
from pkg_lib.retrieval.methods import context_method

CHECKS = 3  # specifications that a model is prompted for
TESTS = 5  # assertions that a model is prompted for
POWER_STEPS = 50  # of power iteration
PERSPECTIVES = PROMPTS["mpsc"]  # "tests" and "checks"
ASSERTION = re.compile(r"^\s*assert (.+?)(?:  #.*)?$", re.M)
AGREEMENTS = re.compile(r"^RuntimeError: ([01]*)$")
Tests = Sequence[tuple[str, str]]  # call of the function, expected value


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
            expected = ast.unparse(comparison.comparators[0])
            found[ast.unparse(call), expected] = None
    return list(found)[:TESTS]


def _comparison(line: str) -> ast.Compare | None:
    """Parse a line as a comparison for equality."""
    tree = parsed_or_none(line)
    statement = tree.body[0] if tree and tree.body else None
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Compare):
        return None
    is_equality = isinstance(statement.value.ops[0], ast.Eq)
    return statement.value if is_equality else None


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
        for statement in tree.body if tree else ():
            if isinstance(statement, ast.FunctionDef):
                found[statement.name] = ast.unparse(statement)
    return [found.get(f"check_{number}", "") for number in range(1, CHECKS + 1)]


def agreement_expressions(tests: Tests, name: str) -> list[str]:
    """Return the expressions that tell which vertices of the graph agree.

    Args:
        tests: The tests.
        name: The function that is tested.

    Returns:
        Whether a solution agrees with each test and with each check, then whether each check agrees
        with each test.
    """
    with_tests = [f"{call} == ({expected})" for call, expected in tests]
    arguments = [call.removeprefix(name)[1:-1] for call, _ in tests]
    with_checks = []
    between = []
    for number in range(1, CHECKS + 1):
        results = []
        for (call, expected), given in zip(tests, arguments, strict=True):
            results.append(f"check_{number}({call}, {given})")
            between.append(f"check_{number}({expected}, {given})")
        with_checks.append(" and ".join(results) or "False")
    return with_tests + with_checks + between


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
    vertices = solutions + tests + CHECKS
    expressions = tests + CHECKS + tests * CHECKS
    values = np.zeros((solutions, expressions))
    for row, bits in enumerate(agreements):
        if bits:
            values[row] = [int(bit) for bit in bits]
    of_solutions = values[:, : tests + CHECKS]
    # A check agrees with a test whatever the solution is; one that ran tells.
    of_checks = values[:, tests + CHECKS :].max(0).reshape(CHECKS, tests)
    first_check = solutions + tests
    edges = np.zeros((vertices, vertices))
    edges[:solutions, solutions:] = of_solutions
    edges[first_check:, solutions:first_check] = of_checks
    edges = edges + edges.T + np.eye(vertices)
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
            Unavailable: A round of EVOR is not completed.
        """
        evor = EVOR_METHODS["EVOR"]
        last: dict[str, Context] = {}
        for number, name in enumerate(evor.round_names):
            if number > 0:
                self._require(evor.round_name(number - 1), len(tasks))
            evor_round = EvorRound(self.run, evor, number)
            for context in evor_round.retrieve(tasks):
                if context.method == name:
                    last[context.task_id] = context
        return [replace(last[task.id], method=LAST_PROMPT, spent=None) for task in tasks]

    def _require(self, round_name: str, tasks: int) -> None:
        completed = self.run.results.completions(round_name)
        if len(completed) < tasks:
            raise Unavailable(f"{LAST_PROMPT} needs all of EVOR: complete {round_name} first")


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
        """
        is_python = self.run.benchmark.language == "python"
        functions = [task for task in tasks if task.entry_point and is_python]
        tests, specifications, spent = self._perspectives(functions)
        selected = self._selected(functions, tests, specifications)
        stored = self.run.results.contexts(context_method(self.samples[0]))
        contexts = {context.task_id: context for context in stored}
        chosen = []
        for task in tasks:
            context = replace(
                contexts[task.id],
                method=selected.get(task.id, self.samples[0]),
                spent=spent.get(task.id, 0),
            )
            chosen.append(context)
        return chosen

    def _perspectives(
        self,
        tasks: Sequence[Task],
    ) -> tuple[dict[str, str], dict[str, str], dict[str, int]]:
        """The answers with tests, those with checks, and the tokens of both, by task."""
        texts: dict[str, dict[str, str]] = {}
        spent = {task.id: 0 for task in tasks}
        for perspective, template in PERSPECTIVES.items():
            prompts = {}
            for task in tasks:
                prompts[task.id] = template.format(task=task.prompt, name=task.entry_point)
            answers = self.run.ask(f"MPSC.{perspective}", prompts)
            texts[perspective] = {}
            for task_id, answer in answers.items():
                texts[perspective][task_id] = answer.raw
                spent[task_id] += len(answer.tokens)
                spent[task_id] += answer.prompt_tokens
        return texts["tests"], texts["checks"], spent

    def _selected(
        self,
        tasks: Sequence[Task],
        test_answers: Mapping[str, str],
        check_answers: Mapping[str, str],
    ) -> dict[str, str]:
        """Task id -> the sample with the best connected solution; of equals the first."""
        solutions = [self.run.results.solutions(sample) for sample in self.samples]
        tests = {t.id: assertions(test_answers[t.id], t.entry_point) for t in tasks}
        jobs = []
        for task in tasks:
            expressions = agreement_expressions(tests[task.id], task.entry_point)
            functions = [f"lambda: {expression}" for expression in expressions]
            probe = PROGRAMS["probe"].format(
                checks="\n".join(checks(check_answers[task.id])),
                pairs=", ".join(functions),
            )
            programs = [of_sample[task.id] for of_sample in solutions]
            jobs += [self.run.benchmark.draft_job(task, p, (probe,)) for p in programs]
        agreements = []
        for feedback in self.run.execute(jobs, "MPSC's solutions"):
            reported = feedback.error if feedback else ""
            match = AGREEMENTS.search(reported)
            agreements.append(match[1] if match else "")
        selected = {}
        for number, task in enumerate(tasks):
            of_task = agreements[number * SAMPLES : (number + 1) * SAMPLES]
            scores = confidence(of_task, len(tests[task.id]))
            selected[task.id] = self.samples[int(scores.argmax())]
        return selected
