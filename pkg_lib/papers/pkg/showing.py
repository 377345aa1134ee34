"""Single tasks, from stored results to cases: `python -m pkg_lib show` and the notebook case_studies.

Nothing is generated or encoded. A page for the user's own eyes holds all that is at hand; one that goes into
results/ holds only what may be copied: HumanEval's tasks, and contexts of `corpora.redistributable` corpora.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pkg_lib.analysis.stats import BASELINE
from pkg_lib.core.store import results_dir, slug, stem, write_text
from pkg_lib.core.types import NOTHING, Context, Document, Generation, Outcome, Task, UserError
from pkg_lib.data import corpora
from pkg_lib.execution.errors import split_detail
from pkg_lib.experiment.run import Run
from pkg_lib.experiment.study import STUDY
from pkg_lib.graph.text.structure import structured
from pkg_lib.papers.pkg.cases import Case, Hidden, Side, page
from pkg_lib.retrieval.trace import Traced, trace


def column_of(run: Run, column: str) -> str:
    """The column that is set against None; "" takes the last that the corpus offers: Block-PKG, JSON-PKG for
    text.

    UserError for another one, and for None, Reranked and Ideal, which have no context.
    """
    offered = [c for c in run.retrievers if c != BASELINE]
    if column and column not in offered:
        where = f"for a case of corpus {run.corpus}"
        raise UserError(f"unknown column '{column}' {where}; choose from: {', '.join(offered)}")
    return column or offered[-1]


@dataclass
class ColumnCases:
    """The cases of one run and column. `public` leaves out what may not be copied into results/."""

    run: Run
    column: str
    public: bool

    @cached_property
    def contexts(self) -> dict[str, Context]:
        """task id -> the column's stored context."""
        return {c.task_id: c for c in self.run.contexts(self.column)}

    @cached_property
    def outcomes(self) -> tuple[dict[str, Outcome], dict[str, Outcome]]:
        """task id -> stored verdict, without retrieval and with the column."""
        return self.run.outcomes(BASELINE), self.run.outcomes(self.column)

    def case(self, task_id: str) -> Case:
        """One task with what stands behind its verdicts without and with the column."""
        task = next(t for t in self.run.tasks if t.id == task_id)
        context, entry_point = self.contexts.get(task_id), "" if self._withheld else task.entry_point
        traced = self._traced(context)
        text = traced if isinstance(traced, Hidden) else traced.text
        if context is not None and context.text is not None:
            text = context.text
        sides = self._side(0, BASELINE, task_id), self._side(1, self.column, task_id)
        prompt = self._prompt(task, sides[0].completion)
        return Case(task_id, self.run.heading, entry_point, prompt, context, text, traced, sides)

    @property
    def _withheld(self) -> bool:
        """Whether the tasks' texts are left out; then nothing depends on whether they can be had here."""
        return self.public and not self.run.rules.copyable

    def _prompt(self, task: Task, completion: Generation | None) -> str | Hidden:
        if self._withheld:
            sha = completion.meta.get("prompt_sha256", "") if completion else ""
            known = f"; the whole prompt without retrieval has SHA-256 {sha}" if sha else ""
            why = f"tasks of {self.run.rules.title} are not copied into results/"
            return Hidden(f"not shown, since {why}{known}")
        return Hidden(f"not at hand ({self.run.tasks_absent})") if self.run.tasks_absent else task.prompt

    def _side(self, number: int, column: str, task_id: str) -> Side:
        outcome = self.outcomes[number][task_id]
        if self._withheld:  # the detail's second half is a test of the benchmark
            outcome = replace(outcome, detail=split_detail(outcome.detail)[0])
        completions, solutions = self._generated[number]
        return Side(column, completions.get(task_id), solutions.get(task_id), outcome)

    @cached_property
    def _generated(self) -> list[tuple[dict[str, Generation], dict[str, str]]]:
        """(task id -> completion, task id -> solution) without retrieval and with the column."""
        return [(self.run.completions(c), self.run.solutions(c)) for c in (BASELINE, self.column)]

    def _traced(self, context: Context | None) -> Traced | Hidden:
        if context is None:
            return Hidden("not stored")
        if context.sha256 == NOTHING:
            return Traced("")
        corpus = self.run.corpus
        if self.public and not corpora.redistributable(corpus):
            why = f"texts of {corpus} are not copied into results/; source and digest stand above"
            return Hidden(f"not shown, since {why}")
        try:
            structure = getattr(self.run.knowledge, "structure", structured)
            return trace(context, self._documents, structure)
        except UserError as e:
            return Hidden(f"not at hand ({e})")

    @cached_property
    def _documents(self) -> dict[str, Document]:
        return {d.id: d for d in self.run.knowledge.documents}


def show(
    model: str, benchmark: str, task_id: str, corpus: str = "", column: str = "", output: Path | None = None
) -> Path:
    """Writes the page of one task from what is stored and returns its path.

    Without a corpus the study's first for the benchmark is taken. UserError for an unknown name or an empty
    store.
    """
    corpus = corpus or next((p.corpus for p in STUDY if p.benchmark == benchmark), STUDY[0].corpus)
    run = Run(model, benchmark, corpus)
    column = column_of(run, column)
    tasks = [t.id for t in run.tasks]
    if task_id not in tasks:
        raise UserError(f"unknown task '{task_id}' of {benchmark}; choose from: {tasks[0]} to {tasks[-1]}")
    case = ColumnCases(run, column, public=False).case(task_id)
    if not any(side.solution is not None for side in case.sides):
        folder = run.results / "evaluations" / model / benchmark
        stored = ", ".join(sorted(f"{p.parent.name} {p.stem}" for p in folder.glob("*/*.jsonl"))) or "nothing"
        command = f"./run_all.sh --model {model} --benchmark {benchmark} --corpus {corpus}"
        nothing = f"no completion is stored for {task_id} without or with {column}"
        raise UserError(f"{nothing}; {command} makes them (stored: {stored})")
    name = f"{stem(model, benchmark, corpus)}.{slug(task_id.replace('/', '-'))}.{slug(column)}.html"
    path = output or results_dir() / "shown" / name
    write_text(path, page(case))
    return path
