"""Show single tasks without retrieval and with a method (Appendix B.5).

A public page contains only texts that may be copied.
"""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pkg_lib.analysis.sentences import counted
from pkg_lib.analysis.stats import BASELINE
from pkg_lib.analysis.tables import render
from pkg_lib.core.registry import unknown
from pkg_lib.core.store import results_dir, slug, stem, write_text
from pkg_lib.core.types import NOTHING, Context, Generation, Outcome, Task, UserError
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.corpora import PUBLISHED, parse_corpus, redistributable
from pkg_lib.evaluation.conditions import Sample
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.storage import stored_conditions
from pkg_lib.evaluation.study import STUDY
from pkg_lib.execution.errors import split_detail
from pkg_lib.graph.text.structure import structured
from pkg_lib.papers.pkg.graph_figures import inline, subgraph
from pkg_lib.retrieval.methods import EVERY_METHOD, METHODS, parse_method
from pkg_lib.retrieval.trace import Traced, trace

SUGGESTED_TASKS = 3  # how many task ids an error suggests


@dataclass(frozen=True, slots=True)
class Hidden:
    """The reason why something is not shown.

    Attributes:
        why: The reason.
    """

    why: str


@dataclass(frozen=True, slots=True)
class Side:
    """A task under one method.

    Attributes:
        name: The method.
        completion: The model's answer; None if none was generated.
        solution: The extracted solution; None if there is none.
        outcome: The verdict.
    """

    name: str
    completion: Generation | None
    solution: str | None
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Round:
    """One round of a method that builds on earlier rounds.

    Attributes:
        side: The solution of the round and its verdict.
        context: The query of the round and what it retrieved.
        feedback: What executing the round's draft reported.
    """

    side: Side
    context: Context
    feedback: str


@dataclass(frozen=True, slots=True)
class Case:
    """One task without retrieval and with a method.

    Attributes:
        task_id: The task.
        experiment: The model and the benchmark, as a heading.
        entry_point: Name of the function that is asked for; "" on a page that withholds the task.
        prompt: The task's prompt.
        context: The method's context; None if none is stored.
        text: The text of the context.
        traced: Where the context is in the corpus.
        sides: The task without retrieval, and with the method.
        rounds: The rounds up to the method's; empty for a method without earlier rounds.
    """

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
    def method(self) -> str:
        """The method that is compared with no retrieval."""
        return self.sides[1].name

    @property
    def diff(self) -> list[tuple[str, str]]:
        """The (mark, line) pairs from the solution without retrieval to the other; empty if equal."""
        solutions = [side.solution or "" for side in self.sides]
        before, after = [solution.rstrip("\n").split("\n") for solution in solutions]
        lines = list(difflib.unified_diff(before, after, lineterm="", n=len(before)))
        without_header = lines[3:]
        return [(line[:1], line[1:]) for line in without_header]


@dataclass
class MethodCases:
    """The cases of one experiment and method.

    Attributes:
        results: The experiment.
        method: The method that is compared with no retrieval.
        public: Whether only texts are shown that may be copied into results/.
    """

    results: Results
    method: str
    public: bool

    @cached_property
    def contexts(self) -> dict[str, Context]:
        """The method's stored contexts by task id."""
        return self.results.contexts_by_task(self.method)

    @cached_property
    def outcomes(self) -> tuple[dict[str, Outcome], dict[str, Outcome]]:
        """The stored verdicts by task id, without retrieval and with the method."""
        return self.results.outcomes(BASELINE), self.results.outcomes(self.method)

    @cached_property
    def _completions(self) -> dict[str, dict[str, Generation]]:
        """The completions by task id, of both methods."""
        return {method: self.results.completions(method) for method in (BASELINE, self.method)}

    @property
    def _withheld(self) -> bool:
        """Whether the tasks' texts are left out, even where they are available."""
        return self.public and not self.results.benchmark_spec.copyable

    def case(self, task_id: str) -> Case:
        """Collect what is stored of one task without retrieval and with the method.

        Args:
            task_id: A task of the benchmark.

        Returns:
            The case. Each text that is not shown is replaced by the reason.
        """
        task = next(task for task in self.results.tasks if task.id == task_id)
        context = self.contexts.get(task_id)
        traced = self._traced(context)
        text = traced if isinstance(traced, Hidden) else traced.text
        if context is not None and context.text is not None:
            text = context.text
        without_retrieval = self._side(BASELINE, task_id)
        with_method = self._side(self.method, task_id)
        return Case(
            task_id=task_id,
            experiment=self.results.heading,
            entry_point="" if self._withheld else task.entry_point,
            prompt=self._prompt(task, without_retrieval.completion),
            context=context,
            text=text,
            traced=traced,
            sides=(without_retrieval, with_method),
            rounds=tuple(self._rounds(task_id)),
        )

    def _rounds(self, task_id: str) -> Iterator[Round]:
        """Yield the rounds up to the method's, if it builds on earlier ones."""
        methods = _methods_up_to(self.method)
        if len(methods) == 1:
            return
        for method in methods:
            contexts = self.results.contexts_by_task(method)
            if task_id not in contexts:
                continue
            solution = self.results.solutions(method).get(task_id)
            outcome = self.results.outcomes(method)[task_id]
            side = Side(method, None, solution, outcome)
            row = self.results.knowledge.feedback_rows(method).get(task_id)
            feedback = "not executed"
            if row:
                feedback = row["error"] or "no error"
            yield Round(side, contexts[task_id], feedback)

    def _prompt(self, task: Task, completion: Generation | None) -> str | Hidden:
        """The task's prompt, or why it is not shown."""
        if self._withheld:
            why = f"tasks of {self.results.benchmark_spec.title} are not copied into results/"
            sha256 = completion.meta.get("prompt_sha256") if completion else None
            if sha256:
                why += f"; the whole prompt without retrieval has SHA-256 {sha256}"
            return Hidden(f"not shown, since {why}")
        if self.results.tasks_absent:
            return Hidden(f"not available ({self.results.tasks_absent})")
        return task.prompt

    def _side(self, method: str, task_id: str) -> Side:
        """The task under a method, without the tests of a benchmark that is not shown."""
        outcome = self.results.outcomes(method)[task_id]
        if self._withheld:  # the second half of the detail is a test of the benchmark
            detail, _ = split_detail(outcome.detail)
            outcome = replace(outcome, detail=detail)
        completion = self._completions[method].get(task_id)
        solution = self.results.solutions(method).get(task_id)
        return Side(method, completion, solution, outcome)

    def _traced(self, context: Context | None) -> Traced | Hidden:
        """Where the context is in the corpus, or why this is not shown."""
        if context is None:
            return Hidden("not stored")
        if context.sha256 == NOTHING:
            return Traced("")
        corpus = self.results.corpus
        if self.public and not redistributable(corpus):
            texts = f"texts of {corpus} are not copied into results/"
            return Hidden(f"not shown, since {texts}; source and digest are given above")
        try:
            knowledge = self.results.knowledge
            has_documents = hasattr(knowledge, "documents")
            if not has_documents or not parse_corpus(corpus).has_default_options:
                return Hidden("not stored; source and digest are given above")
            documents = {document.id: document for document in knowledge.documents}
            structure = getattr(knowledge, "structure", structured)
            return trace(context, documents, structure)
        except UserError as error:
            return Hidden(f"not available ({error})")


def _methods_up_to(method: str) -> list[str]:
    """The methods of the earlier rounds that a method builds on, then the method itself."""
    methods = [method]
    while True:
        about = METHODS.get(methods[0])
        if about is None or about.needs in ((), EVERY_METHOD):
            return methods
        methods = [*about.needs, *methods]


def compared_method(results: Results, method: str) -> str:
    """Choose the method that is compared with no retrieval.

    Args:
        results: An experiment.
        method: A method with contexts; "" for the last stored one of the methods that are the benchmark's
            or corpus' default.

    Returns:
        The method.

    Raises:
        UserError: The corpus does not offer the method, or the method has no contexts.
    """
    offered = [name for name in results.retrievers if name != BASELINE]
    if method:
        if method not in offered:
            raise unknown("method", method, offered, f"for corpus {results.corpus}")
        return method
    usual = [name for name in results.benchmark_spec.methods if name in offered] or offered
    stored = [name for name in usual if results.files(name).samples.exists()]
    return stored[-1] if stored else usual[-1]


def score(context: Context | None) -> float | None:
    """Return the retriever's score of a context.

    Args:
        context: A context, or None.

    Returns:
        The score; None if there is no context or no score, as for a context of several documents.
    """
    if context is None or context.sha256 == NOTHING:
        return None
    if context.source.startswith("published/"):
        return None
    return context.score or None


def measure(method: str) -> str:
    """Name what the score of a method is.

    Args:
        method: A method with contexts.

    Returns:
        "BM25 score" or "cosine".
    """
    return "BM25 score" if method.endswith("BM25") else "cosine"


def sentence(case: Case) -> str:
    """Say what changed in a case, and with which context.

    Args:
        case: The case.

    Returns:
        One paragraph.
    """
    before, after = case.sides
    verdicts = f"{_verdict(before)} without retrieval and {_verdict(after)} with {case.method}"
    sentences = [f"{case.task_id}: {verdicts}.", _about_context(case)]
    if before.solution is not None and after.solution is not None:
        sentences.append(_about_change(case))
    undefined = re.search(r"name '(\w+)' is not defined", after.outcome.detail)
    if undefined and isinstance(case.text, str):
        name = undefined[1]
        occurs = re.search(rf"\b{name}\b", case.text)
        verb = "is" if occurs else "is not"
        sentences.append(
            f"The name {name}, which the solution does not define, {verb} in the context."
        )
    return " ".join(sentences)


def _about_change(case: Case) -> str:
    marks = [mark for mark, _ in case.diff]
    if not marks:
        return "Both solutions are the same."
    lost, gained = marks.count("-"), marks.count("+")
    lines = counted(lost, "line")
    return f"The solution lacks {lines} of the one without retrieval, and adds {gained}."


def _verdict(side: Side) -> str:
    outcome = side.outcome
    if outcome.status == "passed":
        return "passes"
    if outcome.status == "not_measured":
        return "is not measured"
    if side.completion is not None and side.completion.finish == "length":
        return f"fails ({outcome.error}, cut off)"
    return f"fails ({outcome.error})"


def _about_context(case: Case) -> str:
    context = case.context
    if context is None:
        return "No context is stored."
    if context.sha256 == NOTHING:
        return "No context was found."
    value = score(context)
    scored = "" if value is None else f" ({measure(case.method)} {value:.3f})"
    verbs = {True: "defines", False: "does not define", None: "may or may not define"}
    verb = verbs[context.defines_task]
    function = f"the function {case.entry_point}" if case.entry_point else "the function asked for"
    return f"The context{scored} {verb} {function}."


def fragment(case: Case, level: int) -> str:
    """Write a case as a fragment of HTML, in which the texts of models and corpora are escaped.

    Args:
        case: The case.
        level: Level of the headings.

    Returns:
        The fragment.
    """
    drawing = ""
    if isinstance(case.traced, Traced) and case.traced.graph is not None:
        drawing = inline(subgraph(case.traced))
    details = [split_detail(side.outcome.detail) for side in case.sides]
    return render(
        "case.html.j2",
        case=case,
        score=score(case.context),
        measure=measure(case.method),
        level=level,
        drawing=drawing,
        details=details,
    )


def page(case: Case) -> str:
    """Write a case as an HTML page that runs no script and loads nothing.

    Args:
        case: The case.

    Returns:
        The page.
    """
    body = fragment(case, 2)
    return render("case_page.html.j2", case=case, sentence=sentence(case), body=body)


def _rebuilding_lines(sample: Sample, style: str) -> Iterator[str]:
    """Say why the text of a prompt is not shown, and how to rebuild it in Python."""
    about = sample.condition
    if about.corpus == PUBLISHED:
        yield "Its text is not stored, because the authors' contexts may not be copied."
        yield "It is shown once PKG_PAPER_DIR names a directory with the authors' data (docs/environment.md)."
        return
    yield "Its text is not stored: the corpus may not be copied, or the model's tokenizer cuts the text."
    yield "Rebuild it in Python:"
    yield "    from pkg_lib import build_prompt, load_benchmark, load_corpus, make_retriever"
    yield f"    tasks = load_benchmark({about.benchmark!r})"
    yield f"    (task,) = [task for task in tasks if task.id == {sample.task_id!r}]"
    yield f"    corpus = load_corpus({about.corpus!r})"
    yield f"    (context,) = make_retriever({str(about.method)!r}, corpus).retrieve([task])"
    yield f"    print(build_prompt(task, context, {style!r}))"


def prompt_lines(sample: Sample, style: str) -> Iterator[str]:
    """Return the prompt of a sample as it was sent, for a terminal.

    Args:
        sample: A task under one method.
        style: The prompt style of its model.

    Yields:
        A heading, then the messages with their roles. Where the text is not stored, how to rebuild it.
    """
    about = sample.condition
    digest = "not made yet"
    if sample.prompt_sha256:
        digest = f"sha256 {sample.prompt_sha256[:16]}"
    if sample.prompt_tokens is not None:
        digest += f", {sample.prompt_tokens} tokens"
    yield f"prompt of {sample.task_id} under {about.method} ({digest}):"
    if sample.prompt is None:
        yield from _rebuilding_lines(sample, style)
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
    results = Results(model, benchmark, corpus or _default_corpus(benchmark))
    if method != BASELINE:
        method = compared_method(results, method)
    _check_task(results, task_id)
    style = results.prompt_style(parse_method(method))
    if method == BASELINE:
        yield from prompt_lines(results.sample(method, task_id), style)
        return
    case = MethodCases(results, method, public=False).case(task_id)
    if all(side.solution is None for side in case.sides):
        raise _nothing_stored(results, method, task_id)
    path = output or _page_path(results, method, task_id)
    write_text(path, page(case))
    yield from prompt_lines(results.sample(method, task_id), style)
    yield str(path)


def _default_corpus(benchmark: str) -> str:
    """The study's first corpus of a benchmark; "" for a benchmark with a corpus of its own."""
    for part in STUDY:
        if part.benchmark == benchmark:
            return part.corpus
    has_own_corpus = BENCHMARKS.get_or_fail(benchmark).corpus
    return "" if has_own_corpus else STUDY[0].corpus


def _check_task(results: Results, task_id: str) -> None:
    """Raise UserError with similar task ids if the benchmark does not have the task."""
    tasks = [task.id for task in results.tasks]
    if task_id in tasks:
        return
    near = ", ".join(difflib.get_close_matches(task_id, tasks, SUGGESTED_TASKS, 0))
    advice = f"choose from its {len(tasks)}, such as {near}"
    raise UserError(f"unknown task '{task_id}' of {results.benchmark}; {advice}")


def _nothing_stored(results: Results, method: str, task_id: str) -> UserError:
    """The error for a task of which no completion is stored."""
    model, benchmark = results.model, results.benchmark
    names = set()
    for condition in stored_conditions(results.results, model, benchmark):
        names.add(f"{condition.corpus} {condition.method}".strip())
    stored = ", ".join(sorted(names)) or "nothing"
    command = f"./run_all.sh --model {model} --benchmark {benchmark} --corpus {results.corpus}"
    problem = f"no completion is stored for {task_id} without or with {method}"
    return UserError(f"{problem}; {command} makes them (stored: {stored})")


def _page_path(results: Results, method: str, task_id: str) -> Path:
    """The file of a task's page in results/shown."""
    experiment = stem(results.model, results.benchmark, results.corpus)
    task = slug(task_id.replace("/", "-"))
    return results_dir() / "shown" / f"{experiment}.{task}.{slug(method)}.html"
