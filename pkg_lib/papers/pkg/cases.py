"""Single tasks without retrieval and with a column (Appendix B.5); `public` pages hold only free texts."""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pkg_lib.analysis.stats import BASELINE
from pkg_lib.analysis.tables import render
from pkg_lib.core.registry import unknown
from pkg_lib.core.store import results_dir, slug, stem, write_text
from pkg_lib.core.types import NOTHING, Context, Generation, Outcome, Task, UserError
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.corpora import parse_corpus, redistributable
from pkg_lib.evaluation.conditions import Sample
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.storage import stored_conditions
from pkg_lib.evaluation.study import STUDY
from pkg_lib.execution.errors import split_detail
from pkg_lib.graph.text.structure import structured
from pkg_lib.papers.pkg.graph_figures import inline, subgraph
from pkg_lib.retrieval.methods import EVERY_METHOD, METHODS
from pkg_lib.retrieval.trace import Traced, trace


@dataclass(frozen=True, slots=True)
class Hidden:
    """Why something is not shown."""

    why: str


@dataclass(frozen=True, slots=True)
class Side:
    """One setting of a case; `completion` and its `solution` are None where none was generated."""

    name: str
    completion: Generation | None
    solution: str | None
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Round:
    """One round of a column that needs the one before: what was asked, found and written, and how it ran."""

    side: Side
    context: Context
    said: str


@dataclass(frozen=True, slots=True)
class Case:
    """One task without retrieval and with a column; `traced`: where its context stands in the corpus."""

    task_id: str
    experiment: str
    entry_point: str
    prompt: str | Hidden
    context: Context | None
    text: str | Hidden
    traced: Traced | Hidden
    sides: tuple[Side, Side]
    rounds: tuple[Round, ...] = ()

    @property
    def column(self) -> str:
        return self.sides[1].name

    @property
    def diff(self) -> list[tuple[str, str]]:
        """(mark, line) from the solution without retrieval to the one with it; empty for the same."""
        texts = [(s.solution or "").rstrip("\n").split("\n") for s in self.sides]
        lines = list(difflib.unified_diff(*texts, lineterm="", n=len(texts[0])))
        return [(line[:1], line[1:]) for line in lines[3:]]


@dataclass
class ColumnCases:
    """The cases of one run and column."""

    run: Results
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

    @cached_property
    def _generated(self) -> list[tuple[dict[str, Generation], dict[str, str]]]:
        """(task id -> completion, task id -> solution) without retrieval and with the column."""
        return [(self.run.completions(c), self.run.solutions(c)) for c in (BASELINE, self.column)]

    @property
    def _withheld(self) -> bool:
        """Whether the tasks' texts are left out; then nothing depends on whether they can be had here."""
        return self.public and not self.run.benchmark_spec.copyable

    def case(self, task_id: str) -> Case:
        """One task with what stands behind its verdicts without and with the column."""
        task = next(t for t in self.run.tasks if t.id == task_id)
        context, entry_point = (
            self.contexts.get(task_id),
            "" if self._withheld else task.entry_point,
        )
        traced = self._traced(context)
        text = traced if isinstance(traced, Hidden) else traced.text
        if context is not None and context.text is not None:
            text = context.text
        sides = self._side(0, BASELINE, task_id), self._side(1, self.column, task_id)
        prompt = self._prompt(task, sides[0].completion)
        rounds = tuple(self._rounds(task_id))
        return Case(
            task_id, self.run.heading, entry_point, prompt, context, text, traced, sides, rounds
        )

    def _rounds(self, task_id: str) -> Iterator[Round]:
        """The rounds up to the column's, where it has any before."""
        names = [self.column]
        while (about := METHODS.get(names[0])) and about.needs not in ((), EVERY_METHOD):
            names = [*about.needs, *names]
        for name in names if len(names) > 1 else ():
            context = {c.task_id: c for c in self.run.contexts(name)}.get(task_id)
            if context is not None:
                side = Side(
                    name,
                    None,
                    self.run.solutions(name).get(task_id),
                    self.run.outcomes(name)[task_id],
                )
                feedback = self.run.knowledge.feedback_rows(name).get(task_id)
                yield Round(
                    side, context, feedback["error"] or "no error" if feedback else "not executed"
                )

    def _prompt(self, task: Task, completion: Generation | None) -> str | Hidden:
        if self._withheld:
            sha = completion.meta.get("prompt_sha256", "") if completion else ""
            known = f"; the whole prompt without retrieval has SHA-256 {sha}" if sha else ""
            why = f"tasks of {self.run.benchmark_spec.title} are not copied into results/"
            return Hidden(f"not shown, since {why}{known}")
        return (
            Hidden(f"not available ({self.run.tasks_absent})")
            if self.run.tasks_absent
            else task.prompt
        )

    def _side(self, number: int, column: str, task_id: str) -> Side:
        outcome = self.outcomes[number][task_id]
        if self._withheld:  # the detail's second half is a test of the benchmark
            outcome = replace(outcome, detail=split_detail(outcome.detail)[0])
        completions, solutions = self._generated[number]
        return Side(column, completions.get(task_id), solutions.get(task_id), outcome)

    def _traced(self, context: Context | None) -> Traced | Hidden:
        if context is None:
            return Hidden("not stored")
        if context.sha256 == NOTHING:
            return Traced("")
        if self.public and not redistributable(self.run.corpus):
            texts = f"texts of {self.run.corpus} are not copied into results/"
            return Hidden(f"not shown, since {texts}; source and digest are given above")
        try:
            knowledge = self.run.knowledge
            if (
                not hasattr(knowledge, "documents")
                or not parse_corpus(self.run.corpus).has_default_options
            ):
                return Hidden("not stored; source and digest are given above")
            documents = {d.id: d for d in knowledge.documents}
            return trace(context, documents, getattr(knowledge, "structure", structured))
        except UserError as e:
            return Hidden(f"not available ({e})")


def column_of(run: Results, column: str) -> str:
    """The column set against NoRAG, "" for the last of the benchmark's or corpus' own that is stored.

    UserError for a column without contexts.
    """
    offered = [c for c in run.retrievers if c != BASELINE]
    if column and column not in offered:
        raise unknown("method", column, offered, f"for corpus {run.corpus}")
    usual = [c for c in run.benchmark_spec.methods if c in offered] or offered
    return column or [usual[-1], *(c for c in usual if run.files(c).samples.exists())][-1]


def score(context: Context | None) -> float | None:
    """The retriever's score of a context; None where there is none, as of one made of several documents."""
    if context is None or context.sha256 == NOTHING or context.source.startswith("published/"):
        return None
    return context.score or None


def measure(column: str) -> str:
    """What a column's score is."""
    return "BM25 score" if column.endswith("BM25") else "cosine"


def sentence(case: Case) -> str:
    """What changed and beside which context, in words."""
    before, after = case.sides
    verdicts = f"{_verdict(before)} without retrieval and {_verdict(after)} with {case.column}"
    words = [f"{case.task_id}: {verdicts}.", _about_context(case)]
    if before.solution is not None and after.solution is not None:
        marks = [mark for mark, _ in case.diff]
        change = f"The solution lost {marks.count('-')} lines and gained {marks.count('+')}."
        words.append(change if marks else "Both solutions are the same.")
    undefined = re.search(r"name '(\w+)' is not defined", after.outcome.detail)
    if undefined and isinstance(case.text, str):
        is_there = "is" if re.search(rf"\b{undefined[1]}\b", case.text) else "is not"
        words.append(f"The undefined name {undefined[1]} {is_there} in the context.")
    return " ".join(words)


def _verdict(side: Side) -> str:
    cut_off = (
        ", cut off" if side.completion is not None and side.completion.finish == "length" else ""
    )
    known = {"passed": "passes", "not_measured": "is not measured"}
    return known.get(side.outcome.status, f"fails ({side.outcome.error}{cut_off})")


def _about_context(case: Case) -> str:
    if case.context is None or case.context.sha256 == NOTHING:
        return "No context is stored." if case.context is None else "No context was found."
    value, defines = score(case.context), case.context.defines_task
    scored = f" ({measure(case.column)} {value:.3f})" if value is not None else ""
    verb = {True: "defines", False: "does not define", None: "may or may not define"}[defines]
    return f"The context{scored} {verb} {case.entry_point or 'the function asked for'}."


def fragment(case: Case, level: int) -> str:
    """One case as HTML with headings of `level`; the text of models and corpora is escaped."""
    has_graph = isinstance(case.traced, Traced) and case.traced.graph is not None
    about = {"score": score(case.context), "measure": measure(case.column), "level": level}
    about["drawing"] = inline(subgraph(case.traced)) if has_graph else ""
    about["details"] = [split_detail(side.outcome.detail) for side in case.sides]
    return render("case.html.j2", case=case, **about)


def page(case: Case) -> str:
    """One case as a page of its own: no script, no network."""
    return render("case_page.html.j2", case=case, sentence=sentence(case), body=fragment(case, 2))


def prompt_lines(sample: Sample) -> Iterator[str]:
    """Return the prompt of a sample as it was sent, for a terminal.

    Args:
        sample: A task under one method.

    Yields:
        A heading, then the messages with their roles. Where the text is not stored, how to rebuild it.
    """
    tokens = f", {sample.prompt_tokens} tokens" if sample.prompt_tokens is not None else ""
    digest = f"sha256 {sample.prompt_sha256[:16]}" if sample.prompt_sha256 else "not made yet"
    yield f"prompt of {sample.task_id} under {sample.condition.method} ({digest}{tokens}):"
    if sample.prompt is None:
        about = sample.condition
        yield "Its text is not stored: the corpus may not be copied, or a tokenizer cuts the prompt."
        yield "Rebuild it in Python with pkg_lib:"
        yield f"    tasks = [t for t in load_benchmark({about.benchmark!r}) if t.id == {sample.task_id!r}]"
        yield f"    retriever = make_retriever({str(about.method)!r}, load_corpus({about.corpus!r}))"
        yield "    build_prompt(tasks[0], retriever.retrieve(tasks)[0], STYLE)"
        return
    for message in sample.prompt:
        yield f"[{message['role']}]"
        yield message["content"]


def show(
    model: str,
    benchmark: str,
    task_id: str,
    corpus: str = "",
    method: str = "",
    output: Path | None = None,
) -> Iterator[str]:
    """Print the prompt of one task, and write a page with everything that is stored of it.

    Args:
        model: A model by name.
        benchmark: A benchmark by name.
        task_id: One of its tasks.
        corpus: A corpus by name; "" for the study's first one of the benchmark.
        method: A method; "" for the last of the corpus' methods that is stored.
        output: The page; None for a file in results/shown.

    Yields:
        The lines of the prompt, then the path of the page. NoRAG has no page, since a page compares a method
        with it.

    Raises:
        UserError: A name is unknown, or nothing is stored of the task.
    """
    other = "" if BENCHMARKS.get_or_fail(benchmark).corpus else STUDY[0].corpus  # "": its own
    corpus = corpus or next((p.corpus for p in STUDY if p.benchmark == benchmark), other)
    run = Results(model, benchmark, corpus)
    if method != BASELINE:
        method = column_of(run, method)
    tasks = [t.id for t in run.tasks]
    if task_id not in tasks:
        near = ", ".join(difflib.get_close_matches(task_id, tasks, 3, 0))
        choose = f"choose from its {len(tasks)}, such as {near}"
        raise UserError(f"unknown task '{task_id}' of {benchmark}; {choose}")
    if method == BASELINE:
        yield from prompt_lines(run.sample(method, task_id))
        return
    case = ColumnCases(run, method, public=False).case(task_id)
    if not any(side.solution is not None for side in case.sides):
        conditions = stored_conditions(run.results, model, benchmark)
        names = {f"{c.corpus} {c.method}".strip() for c in conditions}
        stored = ", ".join(sorted(names)) or "nothing"
        command = f"./run_all.sh --model {model} --benchmark {benchmark} --corpus {corpus}"
        nothing = f"no completion is stored for {task_id} without or with {method}"
        raise UserError(f"{nothing}; {command} makes them (stored: {stored})")
    name = f"{stem(model, benchmark, corpus)}.{slug(task_id.replace('/', '-'))}.{slug(method)}.html"
    path = output or results_dir() / "shown" / name
    write_text(path, page(case))
    yield from prompt_lines(run.sample(method, task_id))
    yield str(path)
