"""Questions about a Java repository as a benchmark, and what each pipeline puts before the model as a column.

Loaded with the plug-ins (core/registry.py). Nothing is executed: an answer is measured by the needed types
that it names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pkg_lib.core.types import Context, Outcome, Task, digest
from pkg_lib.data.benchmark import Benchmark
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.corpora import JAVA
from pkg_lib.generation.generator import Decoding, Generator
from pkg_lib.papers.dkb.settings import ANSWER_TOKENS, BASE, LLM_KB, OURS, SAME_SIZE, decoding
from pkg_lib.retrieval.methods import METHODS, Method

if TYPE_CHECKING:
    from pkg_lib.papers.dkb.repository_study import RepositoryStudy


def named(needs: set[str], answer: str) -> float:
    """The share of the simple names of types that an answer has as words."""
    return len(needs & set(re.findall(r"\w+", answer))) / len(needs)


@dataclass(frozen=True)
class JavaQuestions(Benchmark):
    """A file's questions about a repository, both by path below the checkout, or an `opened` study's.

    A context is the whole prompt: each pipeline words its own around its chunks and the question.
    """

    name: str
    title: str
    repository: str = ""
    questions: str = ""
    opened: RepositoryStudy | None = None

    corpus, notebook, methods = JAVA, "dkb", (BASE, OURS, LLM_KB)
    home, seconds = "a YAML file of questions", 0.0
    in_tokens, selects, controls = True, False, MappingProxyType({})

    @property
    def prompts(self) -> str:  # type: ignore[override]
        return self.name

    def tasks(self) -> list[Task]:
        from pkg_lib.data.questions import read_questions
        from pkg_lib.papers.dkb.repository_study import place

        questions = self.opened.questions if self.opened else read_questions(place(self.questions))
        # A needed type's simple name: what follows the last dot of a full one.
        needs = {q.id: "\n".join(n.rpartition(".")[2] for n in q.needs) for q in questions}
        return [Task(q.id, self.name, q.question, "", solution=needs[q.id]) for q in questions]

    def knowledge(self, generator: Generator) -> RepositoryStudy:
        from pkg_lib.papers.dkb.repository_study import open_study

        about = {"model": generator.model, "backend": generator.backend}
        return self.opened or open_study(
            self.repository, self.questions, generator.results, **about
        )

    def decoding(self, style: str) -> Decoding:
        return decoding("questions", ANSWER_TOKENS, style)

    def prompt(self, task: Task, context: str, style: str, measure: Any = len) -> str:
        return context

    def solution(self, task: Task, raw: str) -> str:
        return raw

    def program(self, task: Task, solution: str) -> str:
        return solution

    def tests(self, task: Task, protocol: str) -> tuple[str, ...]:
        return (task.solution,)

    def job(self, task: Task, solution: str, protocol: str = "pkg-paper") -> Outcome:
        return Outcome("not_measured", detail="an answer is measured, not executed")

    def measures(self, task: Task, solution: str) -> dict[str, float]:
        return {"named": named(set(task.solution.split("\n")), solution)}


@dataclass
class PipelineRetriever:
    """A pipeline's published prompts; LLM-KB's graph is asked of the model first, where it is not stored."""

    study: RepositoryStudy
    column: str

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """One context a question, in order."""
        if self.column == LLM_KB:
            self.study.extract()
        pipeline = next(p for p in self.study.pipelines if p.column == self.column)
        prompts, parts = self.study.prompts(pipeline), {t.id: pipeline.gather(t.id) for t in tasks}
        sources = {
            i: "; ".join(f"{p.path}:{p.first}-{p.last}" for p in of if p.path)
            for i, of in parts.items()
        }
        return [
            Context(t.id, self.column, prompts[t.id], sources[t.id], defines_task=False)
            for t in tasks
        ]


def ask(study: RepositoryStudy) -> int:
    """Asks the study's model what is not stored; returns how many questions that were."""
    from pkg_lib.evaluation.pipeline import Evaluator
    from pkg_lib.evaluation.results import Results

    # Contexts are kept by this name: other sources, questions or sizes have another.
    made_from = digest(study.digest, str((study.k, study.depth, study.retries)))[:8]
    name = f"{study.name}-questions-{made_from}"
    BENCHMARKS[name] = JavaQuestions(name, f"Questions about {study.name}", opened=study)
    run = Results(study.model, name, results=study.results)
    return Evaluator(run, backend=study.backend).prepare(list(JavaQuestions.methods))


BENCHMARKS.register(
    JavaQuestions(
        "shop-questions",
        "Questions about a shop",
        "tests/data/shop",
        "tests/data/shop/questions.yaml",
    )
)
for _name in (BASE, SAME_SIZE, OURS, LLM_KB):
    METHODS.register(Method(_name, partial(PipelineRetriever, column=_name), (JAVA,), "chunk"))
