"""Questions about a Java repository as a benchmark, with one method for each pipeline (Section 6.3).

Loaded with the plug-ins (core/registry.py). Nothing is executed. An answer is measured by the
needed types that it names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from pkg_lib.core.registry import unknown
from pkg_lib.core.types import Context, Outcome, Task, digest
from pkg_lib.data.benchmark import Benchmark
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.corpora import JAVA
from pkg_lib.generation.generator import Decoding, Generator
from pkg_lib.papers.dkb.settings import (
    ANSWER_TOKENS,
    ARMS,
    BASE,
    LLM_KB,
    OURS,
    decoding,
)
from pkg_lib.retrieval.methods import METHODS, Method

if TYPE_CHECKING:
    from pkg_lib.papers.dkb.pipelines import Gathered
    from pkg_lib.papers.dkb.repository_study import RepositoryStudy


def named(needs: set[str], answer: str) -> float:
    """Return the share of needed types that an answer names.

    Args:
        needs: Simple names of types.
        answer: A model's answer.

    Returns:
        The share whose name is a word of the answer, from 0 to 1.
    """
    words = set(re.findall(r"\w+", answer))
    return len(needs & words) / len(needs)


@dataclass(frozen=True)
class JavaQuestions(Benchmark):
    """The questions of a file about a repository.

    A context is the whole prompt, since each pipeline has its own text around chunks and question.

    Attributes:
        name: Name of the benchmark.
        title: Its title in tables.
        repository: Path of the repository below the checkout.
        questions: Path of the file of questions below the checkout.
        opened: A study that replaces both paths.
    """

    name: str
    title: str
    repository: str = ""
    questions: str = ""
    opened: RepositoryStudy | None = None

    corpus = JAVA
    notebook = "dkb"
    methods = (BASE, OURS, LLM_KB)
    home = "a YAML file of questions"
    seconds = 0.0
    in_tokens = True
    selects = False
    controls = MappingProxyType({})

    @property
    def prompts(self) -> str:  # type: ignore[override]
        """Name of the prompts, which are the benchmark's own."""
        return self.name

    def tasks(self) -> list[Task]:
        """Return the questions as tasks.

        Returns:
            One task per question. Its solution lists the simple names of the needed types, one per
            line.
        """
        from pkg_lib.data.questions import read_questions
        from pkg_lib.papers.dkb.repository_study import place

        study = self.opened
        questions = study.questions if study else read_questions(place(self.questions))
        tasks = []
        for question in questions:
            simple_names = [name.rpartition(".")[2] for name in question.needs]
            task = Task(
                id=question.id,
                benchmark=self.name,
                prompt=question.question,
                entry_point="",
                solution="\n".join(simple_names),
            )
            tasks.append(task)
        return tasks

    def knowledge(self, generator: Generator) -> RepositoryStudy:
        """Return the study whose pipelines retrieve.

        Args:
            generator: The model that extracts LLM-KB's graph.

        Returns:
            The open study, or the one of the paths.
        """
        from pkg_lib.papers.dkb.repository_study import open_study

        return self.opened or open_study(
            self.repository,
            self.questions,
            generator.results,
            model=generator.model,
            backend=generator.backend,
        )

    def decoding(self, style: str) -> Decoding:
        """Return how a model decodes its answers.

        Args:
            style: Prompt style of the model.

        Returns:
            Greedy decoding.
        """
        return decoding("questions", ANSWER_TOKENS, style)

    def prompt(
        self,
        task: Task,
        context: str,
        style: str,
        measure: Callable[[str], int] = len,
    ) -> str:
        """Return the prompt of a task, which is its context.

        Args:
            task: The question.
            context: The prompt of a pipeline.
            style: Not used.
            measure: Not used.

        Returns:
            The context.
        """
        return context

    def solution(self, task: Task, raw: str) -> str:
        """Return an answer unchanged.

        Args:
            task: The question.
            raw: The answer.

        Returns:
            The answer.
        """
        return raw

    def program(self, task: Task, solution: str) -> str:
        """Return an answer unchanged.

        Args:
            task: The question.
            solution: The answer.

        Returns:
            The answer.
        """
        return solution

    def tests(self, task: Task, protocol: str) -> tuple[str, ...]:
        """Return what identifies a measurement: the needed types.

        Args:
            task: The question.
            protocol: Not used.

        Returns:
            The names as one text.
        """
        return (task.solution,)

    def job(
        self,
        task: Task,
        solution: str,
        protocol: str = "pkg-paper",
    ) -> Outcome:
        """Return that nothing is executed.

        Args:
            task: The question.
            solution: The answer.
            protocol: Not used.

        Returns:
            The outcome "not_measured".
        """
        return Outcome("not_measured", detail="an answer is measured, not executed")

    def measures(self, task: Task, solution: str) -> dict[str, float]:
        """Measure an answer.

        Args:
            task: The question.
            solution: The answer.

        Returns:
            `named`: the share of the needed types that the answer names.
        """
        needs = set(task.solution.split("\n"))
        return {"named": named(needs, solution)}


@dataclass
class PipelineRetriever:
    """Returns the published prompts of a pipeline as contexts.

    Attributes:
        study: The repository and its questions.
        method: Name of the pipeline.
    """

    study: RepositoryStudy
    method: str

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """Return the prompt of each question.

        LLM-KB's graph is extracted first, if it is not stored.

        Args:
            tasks: The questions.

        Returns:
            One context per question, in order.
        """
        if self.method == LLM_KB:
            self.study.extract()
        pipeline = self.study.pipeline(self.method)
        prompts = self.study.prompts(pipeline)
        contexts = []
        for task in tasks:
            source = _source(pipeline.gather(task.id))
            prompt = prompts[task.id]
            contexts.append(Context(task.id, self.method, prompt, source, defines_task=False))
        return contexts


def _source(gathered: Gathered) -> str:
    """Return the files and lines of a context."""
    excerpts = [part for part in gathered if part.path]
    return "; ".join(f"{part.path}:{part.first}-{part.last}" for part in excerpts)


def ask(study: RepositoryStudy, methods: Sequence[str] = ()) -> int:
    """Prompt the study's model with the questions whose answers are not stored.

    Each method is finished and stored before the next one begins. Answers of No-Graph and DKB need no
    graph by a model.

    Args:
        study: The repository and its questions.
        methods: Methods that answer; by default No-Graph, DKB and LLM-KB.

    Returns:
        The number of prompts that the model received.

    Raises:
        UserError: A method is unknown, or the model is unavailable.
    """
    from pkg_lib.evaluation.pipeline import Evaluator
    from pkg_lib.evaluation.results import Results

    # Contexts are stored under this name, so other sources, questions or sizes need another one.
    settings = str((study.k, study.depth, study.retries))
    made_from = digest(study.digest, settings)[:8]
    name = f"{study.name}-questions-{made_from}"
    BENCHMARKS[name] = JavaQuestions(name, f"Questions about {study.name}", opened=study)
    run = Results(study.model, name, results=study.results)
    evaluator = Evaluator(run, backend=study.backend)
    return sum(evaluator.prepare([method]) for method in _arms(methods))


def _arms(methods: Sequence[str]) -> Sequence[str]:
    """Return the methods that answer, after a check of their names."""
    for method in methods:
        if method not in ARMS:
            raise unknown("method", method, ARMS)
    return methods or JavaQuestions.methods


def estimate(
    study: RepositoryStudy,
    methods: Sequence[str] = (),
    tokens_per_second: float | None = None,
) -> Iterator[str]:
    """Estimate what `ask` would cost. The model that answers is not loaded.

    The prompts need a ranking of all chunks. If none is stored, they are embedded first.

    Args:
        study: The repository and its questions.
        methods: Methods that answer; by default No-Graph, DKB and LLM-KB.
        tokens_per_second: Speed at which the model writes; None if it is unknown.

    Yields:
        A line per method: prompts without a stored answer, their tokens, and the most tokens that are
        written for them.

    Raises:
        UserError: A method is unknown.
    """
    from pkg_lib.papers.dkb.llm_kb import MAX_NEW_TOKENS  # slow to import

    yield "dry run: nothing is generated; tokens and time are estimates, without the time to read the prompts"
    for method in _arms(methods):
        if method == LLM_KB and not study.extracted:
            prompts = list(study.extraction(study.retries).missing.values())
            yield _cost_line(f"{method}, extraction", prompts, MAX_NEW_TOKENS, tokens_per_second)
            yield f"{method}: {len(study.questions)} questions, once its graph is extracted"
            continue
        stored = study.stored_answers(study.pipeline(method))
        every_prompt = study.prompts(study.pipeline(method))
        prompts = [text for question, text in every_prompt.items() if question not in stored]
        yield _cost_line(method, prompts, ANSWER_TOKENS, tokens_per_second)


def _cost_line(
    label: str,
    prompts: Sequence[str],
    most: int,
    tokens_per_second: float | None,
) -> str:
    """Say how many tokens prompts have, and how many are written for them at most."""
    from pkg_lib.evaluation.forecast import CHARS_PER_TOKEN  # slow to import

    tokens = sum(map(len, prompts)) // CHARS_PER_TOKEN
    written = most * len(prompts)
    line = f"{label}: {len(prompts)} prompts of {tokens:,} tokens, at most {written:,} written"
    if tokens_per_second:
        line += f", {written / tokens_per_second / 60:,.0f} minutes"
    return line


def _register() -> None:
    shop = JavaQuestions(
        name="shop-questions",
        title="Questions about a shop",
        repository="tests/data/shop",
        questions="tests/data/shop/questions.yaml",
    )
    BENCHMARKS.register(shop)
    for name in ARMS:
        retriever = partial(PipelineRetriever, method=name)
        METHODS.register(Method(name, retriever, (JAVA,), "chunk"))


_register()
