"""Single tasks, from stored results to cases: `python -m pkg_lib show` and the notebook case_studies.

Nothing is generated or encoded. A page for the user's own eyes holds all that is at hand; one that goes into
results/ holds only what may be copied: HumanEval's tasks, and contexts of `corpora.redistributable` corpora.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pkg_lib.analysis.stats import BASELINE
from pkg_lib.analysis.tables import TITLES
from pkg_lib.core.store import read_rows, results_dir, slug, stem, write_text
from pkg_lib.core.types import NOTHING, Context, Document, Generation, Outcome, Task, UserError
from pkg_lib.data import corpora
from pkg_lib.execution.errors import split_detail
from pkg_lib.experiment.experiment import VERDICT, Experiment, open_experiment
from pkg_lib.experiment.study import STUDY
from pkg_lib.graph.text.structure import structured
from pkg_lib.papers.pkg.cases import Case, Hidden, Side, page
from pkg_lib.retrieval.trace import Traced, trace

COPYABLE = ("humaneval",)  # benchmarks whose tasks may stand in results/ (MIT licence)


def column_of(experiment: Experiment, column: str) -> str:
    """The column that is set against None; "" takes the last that the corpus offers: Block-PKG, JSON-PKG for text.

    UserError for another one, and for None, Reranked and Ideal, which have no context.
    """
    offered = [c for c in experiment.retrievers if c != BASELINE]
    if column and column not in offered:
        where = f"for a case of corpus {experiment.corpus}"
        raise UserError(f"unknown column '{column}' {where}; choose from: {', '.join(offered)}")
    return column or offered[-1]


@dataclass
class Gatherer:
    """Cases of one experiment and column. `public` leaves out what may not be copied into results/."""

    experiment: Experiment
    column: str
    public: bool

    @cached_property
    def contexts(self) -> dict[str, Context]:
        """task id -> the column's stored context."""
        return {c.task_id: c for c in self.experiment.known_contexts(self.column)}

    def case(self, task_id: str, outcomes: tuple[Outcome, Outcome]) -> Case:
        """One task with what stands behind its verdicts without and with the column."""
        task = next(t for t in self.experiment.tasks if t.id == task_id)
        context = self.contexts.get(task_id)
        traced = self._traced(context)
        text = traced if isinstance(traced, Hidden) else traced.text
        if context is not None and context.text is not None:
            text = context.text
        sides = self._side(BASELINE, task, outcomes[0]), self._side(self.column, task, outcomes[1])
        entry_point, prompt = (
            "" if self._withheld else task.entry_point,
            self._prompt(task, sides[0].completion),
        )
        return Case(task_id, self.experiment.heading, entry_point, prompt, context, text, traced, sides)

    @property
    def _withheld(self) -> bool:
        """Whether the tasks' texts are left out; then nothing depends on whether they can be had here."""
        return self.public and self.experiment.benchmark not in COPYABLE

    def _prompt(self, task: Task, completion: Generation | None) -> str | Hidden:
        if self._withheld:
            name = TITLES.get(task.benchmark, task.benchmark)
            sha = completion.meta.get("prompt_sha256", "") if completion else ""
            known = f"; the whole prompt without retrieval has SHA-256 {sha}" if sha else ""
            return Hidden(f"not shown, since tasks of {name} are not copied into results/{known}")
        return Hidden(f"not at hand ({self.experiment.why})") if self.experiment.why else task.prompt

    def _side(self, column: str, task: Task, outcome: Outcome) -> Side:
        if self._withheld:  # the detail's second half is a test of the benchmark
            outcome = replace(outcome, detail=split_detail(outcome.detail)[0])
        completions, solutions = self._generated[column]
        return Side(column, completions.get(task.id), solutions.get(task.id), outcome)

    @cached_property
    def _generated(self) -> dict[str, tuple[dict[str, Generation], dict[str, str]]]:
        """column -> (task id -> completion, task id -> solution)."""
        columns = (BASELINE, self.column)
        return {c: (self.experiment.completions(c), self.experiment.solutions(c)) for c in columns}

    def _traced(self, context: Context | None) -> Traced | Hidden:
        if context is None:
            return Hidden("not stored")
        if context.sha256 == NOTHING:
            return Traced("")
        corpus = self.experiment.corpus
        if self.public and not corpora.redistributable(corpus):
            why = f"texts of {corpus} are not copied into results/; source and digest stand above"
            return Hidden(f"not shown, since {why}")
        try:
            return trace(
                context, self._documents, getattr(self.experiment.knowledge, "structure", structured)
            )
        except UserError as e:
            return Hidden(f"not at hand ({e})")

    @cached_property
    def _documents(self) -> dict[str, Document]:
        return {d.id: d for d in self.experiment.knowledge.documents}


def show(
    model: str, benchmark: str, task_id: str, corpus: str = "", column: str = "", output: Path | None = None
) -> Path:
    """Writes the page of one task from what is stored and returns its path.

    Without a corpus the study's first for the benchmark is taken. UserError for an unknown name or an empty store.
    """
    corpus = corpus or next((p.corpus for p in STUDY if p.benchmark == benchmark), STUDY[0].corpus)
    experiment = open_experiment(model, benchmark, corpus)
    column = column_of(experiment, column)
    tasks = [t.id for t in experiment.tasks]
    if task_id not in tasks:
        raise UserError(f"unknown task '{task_id}' of {benchmark}; choose from: {tasks[0]} to {tasks[-1]}")
    outcomes = _stored(experiment, BASELINE, task_id), _stored(experiment, column, task_id)
    case = Gatherer(experiment, column, public=False).case(task_id, outcomes)
    if not any(side.solution is not None for side in case.sides):
        folder = experiment.results / "evaluations" / model / benchmark
        stored = ", ".join(sorted(f"{p.parent.name} {p.stem}" for p in folder.glob("*/*.jsonl"))) or "nothing"
        command = f"./run_all.sh --model {model} --benchmark {benchmark} --corpus {corpus}"
        nothing = f"no completion is stored for {task_id} without or with {column}"
        raise UserError(f"{nothing}; {command} makes them (stored: {stored})")
    name = f"{stem(model, benchmark, corpus)}.{slug(task_id.replace('/', '-'))}.{slug(column)}.html"
    path = output or results_dir() / "shown" / name
    write_text(path, page(case))
    return path


def _stored(experiment: Experiment, column: str, task_id: str) -> Outcome:
    """The stored verdict on the very solution that the stored completion gives; not measured otherwise."""
    path = (experiment.results / experiment.place("evaluations", column)).with_suffix(".jsonl")
    rows = read_rows(path, VERDICT) if path.exists() else []
    row = next((r for r in rows if r["task_id"] == task_id), None)
    if row is None or row.get("solution") != experiment.solutions(column).get(task_id):
        return Outcome("not_measured", detail="no verdict on this solution is stored")
    return Outcome.of(row)
