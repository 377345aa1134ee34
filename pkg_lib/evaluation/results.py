"""What is stored of one experiment: a model on a benchmark, with contexts from one corpus.

`storage` says where the records are. Reading computes and writes nothing. `pipeline.evaluate` makes
what is missing.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.core.models import model_spec
from pkg_lib.core.reading import NUMBER, is_there
from pkg_lib.core.registry import load_plugins, unknown
from pkg_lib.core.store import cache_folder, check_layout, results_dir, slug, stem
from pkg_lib.core.types import (
    NOTHING,
    BenchmarkMissing,
    Context,
    Generation,
    Outcome,
    Request,
    Task,
    UserError,
    digest,
)
from pkg_lib.data import corpora
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.evaluation.conditions import Condition, Sample, parse_condition
from pkg_lib.evaluation.context_validity import ContextValidity, find_leaks
from pkg_lib.evaluation.storage import (
    SAMPLES,
    MethodFiles,
    condition_fields,
    control_folder,
    is_measured,
    method_files,
    read_candidates,
    sharing_completions,
    stored_conditions,
)
from pkg_lib.evaluation.stored_rows import (
    CONTEXT,
    LEAK,
    SELECTION,
    VERDICT,
    by_task,
    read_provenance,
)
from pkg_lib.generation.authors_extraction import AUTHORS_RULES
from pkg_lib.generation.cache import GenerationCache, stored
from pkg_lib.generation.completion import Completion
from pkg_lib.generation.extraction import answer_of, extract
from pkg_lib.generation.generator import Generator, Sampling
from pkg_lib.generation.prompts import TEMPLATES, turns
from pkg_lib.retrieval.enhanced import ENHANCED, stored_docstrings
from pkg_lib.retrieval.methods import (
    AS_PRINTED,
    IDEAL,
    NO_RAG,
    RERANKED,
    SELECTING,
    Method,
    RetrieverFactory,
    context_method,
    is_method,
    knowledge_of,
    methods_of,
    parse_method,
    variant_methods,
)

# Share of the tasks that must have a verdict; a method with fewer counts as not measured.
LEAST = 0.5
# Fields that a condition does not repeat: where contexts were retrieved, and long lists.
ONLY_IN_PROVENANCE = ("method", "versions", "graph")
STAGES = ("context found", "in the prompt", "completion", "extracted", "parsed", "ran", "passed")


class Results:
    """The stored records of one model on one benchmark with one corpus.

    Where the benchmark's tasks are not available but verdicts are stored, `tasks_absent` says why they are
    not. Verdicts are then returned as they are stored, without a check that they belong to these solutions.

    Attributes:
        model: The model's name.
        benchmark: The benchmark's name.
        corpus: The corpus' name.
        rules: The benchmark.
        tasks: The tasks, in the benchmark's order.
        limit: How many of the first tasks are taken; None for all.
        shard: (i, n): part i of the tasks, of n parts.
        results: The results directory.
        retrievers: Factory of the retriever by method, for the methods that the corpus offers.
        caches: Completion caches by place; several results of one plan share them.
        slots: How many prompts are decoded together; None for as many as fit into memory.
        methods: The methods that `samples` and the comparisons of this object are about.
    """

    protocol = "pkg-paper"

    def __init__(
        self,
        model: str,
        benchmark: str = "humaneval",
        corpus: str = "",
        limit: int | None = None,
        results: Path | None = None,
        shard: tuple[int, int] = (1, 1),
    ) -> None:
        """Name an experiment.

        Args:
            model: A model by name.
            benchmark: A benchmark by name.
            corpus: A corpus by name; "" for the benchmark's own or the default one.
            limit: Take only so many of the first tasks.
            results: The results directory; None for the configured one.
            shard: Take only part i of n parts of the tasks.

        Raises:
            UserError: A name is unknown, or the benchmark does not go with the corpus.
            BenchmarkMissing: Neither tasks nor verdicts are available.
        """
        load_plugins()
        model_spec(model)  # an unknown model is reported before anything is read
        self.rules = BENCHMARKS.get_or_fail(benchmark)
        self.model = model
        self.benchmark = benchmark
        self.corpus = corpus or self.rules.corpus or corpora.DEFAULT
        self.limit = limit
        self.shard = shard
        self.results = results or results_dir()
        check_layout(self.results)
        corpora.check_name(self.corpus)
        self.retrievers = methods_of(self.corpus)
        self._check_corpus()
        self.caches: dict[tuple[Path, str], GenerationCache] = {}
        self.slots: int | None = None
        self._contexts: dict[str, list[Context]] = {}
        self.tasks_absent = ""
        self.tasks = self._load_tasks()
        self.methods: list[str] = list(self.retrievers)

    def _check_corpus(self) -> None:
        """Raise UserError where only one of benchmark and corpus goes with nothing but its own partner."""
        own = self.rules.corpus
        if self.corpus == own or not {self.corpus, own} & set(corpora.OF_TASKS):
            return
        pairs = [f"{b.name} with {b.corpus}" for b in BENCHMARKS.values() if b.corpus]
        raise UserError(
            f"benchmark {self.benchmark} has no corpus {self.corpus}; "
            f"these go together: {', '.join(pairs)}"
        )

    def _load_tasks(self) -> list[Task]:
        """Return the tasks of this shard; bare ids from the stored verdicts where tasks are not available."""
        try:
            tasks = load_benchmark(self.benchmark, self.limit)
        except BenchmarkMissing as error:
            if not is_measured(self.results, self.model, self.benchmark):
                raise
            self.tasks_absent = str(error)
            ids = list(by_task(self.files(NO_RAG).samples, VERDICT))
            tasks = [Task(i, self.benchmark, "", "") for i in ids[: self.limit]]
        if self.limit and len(tasks) < self.limit:
            self.limit = None  # a limit that takes every task is none
        # Tasks of one prompt share a completion, so they stay in one shard.
        place: dict[str, int] = {}
        for task in tasks:
            place.setdefault(task.prompt, len(place) + 1)
        part, parts = self.shard
        return [task for task in tasks if place[task.prompt] % parts == part % parts]

    # Names

    @property
    def stem(self) -> str:
        """What the names of this experiment's tables, figures and notebooks begin with."""
        return stem(self.model, self.benchmark, self.corpus, self.limit)

    @property
    def label(self) -> str:
        """What progress lines call it."""
        return f"{self.model} | {self.benchmark} | {self.corpus}"

    @property
    def heading(self) -> str:
        """A heading for a page."""
        tasks = f"{self.rules.title} ({len(self.tasks)} tasks)"
        return f"{self.model}, {tasks}, corpus {self.corpus}"

    @property
    def narrow_heading(self) -> str:
        """A heading of two lines for a figure of one text column."""
        return f"{self.model}\n{self.rules.title}, corpus {self.corpus}"

    # Files

    def files(self, method: str) -> MethodFiles:
        """Return the paths of a method's files, whether the files exist or not.

        Args:
            method: A method.
        """
        return method_files(self.results, self.model, self.benchmark, self.corpus, method)

    def control_samples(self, name: str) -> Path:
        """Return the path of the verdicts on a control row.

        Args:
            name: A control of the benchmark.
        """
        return control_folder(self.results, self.benchmark, name) / SAMPLES

    # Methods

    def offers(self, method: str) -> bool:
        """Tell whether the corpus has a method, or the one that it varies.

        Args:
            method: Any name.
        """
        if method in self.retrievers or not is_method(method):
            return method in self.retrievers
        variant = parse_method(method)
        if not variant.variant_of:
            return False
        if variant.make_retriever and corpora.kind_of(self.corpus) not in variant.corpus_kinds:
            return False
        return not self._prompt_obstacle(variant) and self.offers(variant.variant_of)

    def _prompt_obstacle(self, variant: Method) -> str:
        """Say why the model or the benchmark has no prompt for a variant; "" if there is one."""
        # A benchmark with a corpus of its own has prompts of its own, too.
        if (variant.prompt_variant or variant.style) and self.rules.corpus:
            return f"benchmark {self.benchmark} has its own prompts, without variants"
        style = self.generator.spec.style
        if self.prompt_style(variant) not in TEMPLATES:
            name = f"prompt style {variant.style or style}"
            owner = "" if variant.style else f" of model {self.model}"
            return f"the {name}{owner} has no variant '{variant.prompt_variant}'"
        if variant.in_chat and style != "chat":
            return f"model {self.model} has prompt style {style}, which is no chat template"
        return ""

    def prompt_style(self, method: Method) -> str:
        """Return the name of the prompt style and variant that a method sends to the model.

        Args:
            method: A method.
        """
        style = method.style or self.generator.spec.style
        return f"{style}, {method.prompt_variant}" if method.prompt_variant else style

    def stored_columns(self) -> list[str]:
        """Return the methods, variants and samples that have stored completions or verdicts."""
        names = list(self.retrievers)
        names += [method for method in variant_methods() if self.offers(method)]
        found = []
        for name in names:
            # Equal prompts share the completions of another method.
            files = self.files(name)
            if stored(files.completions) or is_there(files.samples):
                found.append(name)
        samples = self._stored_samples()
        for name in self.retrievers:
            found += samples.get(name, [])
        return found

    def draws(self, method: str, decoding: str = "") -> list[str]:
        """Return the names of a method's stored samples, in order.

        Args:
            method: A method that is sampled.
            decoding: Only samples of this decoding, such as "T0.8"; "" for all.
        """
        names = self._stored_samples().get(method, [])
        return [name for name in names if decoding in ("", *name.split(", "))]

    def _stored_samples(self) -> dict[str, list[str]]:
        """Names of the stored samples by the method that is sampled, in order."""
        samplings: dict[str, dict[str, Sampling]] = {}
        for benchmark in sharing_completions(self.benchmark):
            for condition in stored_conditions(self.results, self.model, benchmark, self.corpus):
                if not condition.sample_of:
                    continue
                # A run that was stopped may have left a condition without a completion.
                if stored(self.files(condition.method).completions):
                    of_method = samplings.setdefault(condition.sample_of, {})
                    of_method[condition.method] = condition.sampling
        names = {}
        for method, of_method in samplings.items():
            numbered = [(s.temperature, s.top_p, s.sample, name) for name, s in of_method.items()]
            names[method] = [name for *_, name in sorted(numbered)]
        return names

    def condition_record(self, method: str) -> dict[str, Any]:
        """Return the content of a method's `condition.json`: the condition, and what it was made from.

        Args:
            method: A method.
        """
        provenance = read_provenance(self.files(method).provenance)
        fields = condition_fields(self.model, self.benchmark, self.corpus, method)
        fields["made_from"] = {
            "model_revision": self.generator.revision,
            "decoding": dict(self.generator_of(method).decoding.parameters),
            "protocol": self.protocol,
            "contexts": {n: v for n, v in provenance.items() if n not in ONLY_IN_PROVENANCE},
        }
        return fields

    # Contexts

    @cached_property
    def knowledge(self) -> Any:
        """What the methods retrieve from."""
        if self.rules.corpus:
            return self.rules.knowledge(self.generator)
        knowledge = knowledge_of(self.corpus)
        knowledge.leak_check = find_leaks
        return knowledge

    def maker(self, method: str) -> RetrieverFactory:
        """Return what makes the retriever of a method's contexts.

        Args:
            method: A method that the corpus offers.
        """
        name = context_method(method)
        factory = self.retrievers.get(name) or parse_method(name).make_retriever
        assert factory is not None, f"{name} does not retrieve"
        return factory

    def contexts(self, method: str) -> list[Context]:
        """Read a method's stored contexts.

        Args:
            method: A method that the corpus offers.

        Returns:
            Contexts in the order of the tasks; none for a task without one.

        Raises:
            UserError: The corpus does not offer the method, or the model has no prompt for it.
        """
        if not self.offers(method):
            obstacle = self._prompt_obstacle(parse_method(method)) if is_method(method) else ""
            if obstacle:
                raise UserError(f"method '{method}' is not available: {obstacle}")
            raise unknown("method", method, self.retrievers, f"for corpus {self.corpus}")
        name = context_method(method)
        if name not in self._contexts:
            of_task = self.stored_contexts(name)
            self._contexts[name] = [of_task[t.id] for t in self.tasks if t.id in of_task]
        return self._contexts[name]

    def stored_contexts(self, method: str) -> dict[str, Context]:
        """Read the contexts of all tasks of the benchmark.

        Contexts of a user-supplied corpus are left out once the corpus, or the tokenizer of its BM25, has
        changed; contexts of enhanced functions once their docstrings have changed.

        Args:
            method: A method that the corpus offers.

        Returns:
            Context by task id.
        """
        rows = by_task(self.files(method).contexts, CONTEXT)
        if not rows or self._are_outdated(context_method(method)):
            return {}
        contexts = {}
        for task_id, row in rows.items():
            fields = {name: row[name] for name in Context.__slots__ if name in row}
            contexts[task_id] = Context(**fields)
        return contexts

    def _are_outdated(self, method: str) -> bool:
        """Whether stored contexts were retrieved from something else than what is there now."""
        about = read_provenance(self.files(method).provenance)
        if method == ENHANCED:
            with suppress(UserError):  # stored contexts remain readable without the docstrings
                now = stored_docstrings(corpora.parse_corpus(self.corpus).documents).sha256
                docstrings = about.get("docstrings")
                if not isinstance(docstrings, dict) or docstrings.get("sha256") != now:
                    return True
        if method == NO_RAG or not corpora.own(self.corpus):
            return False
        with suppress(UserError):  # stored contexts remain readable without the corpus
            if corpora.corpus_digest(self.knowledge.documents) != about.get("corpus_digest"):
                return True
        tokenizer = about.get("tokenizer", corpora.ASCII)
        return method.endswith("BM25") and tokenizer != corpora.tokenizer_of(self.corpus)

    def leakage(self, method: str) -> dict[str, ContextValidity]:
        """Read what a method's contexts are as solutions of their tasks.

        Args:
            method: A method. For NoRAG this is the control: the reference solution under another name.

        Returns:
            Result by task id, for the contexts as they are now.
        """
        rows = by_task(self.files(method).validity, LEAK)
        if not self.tasks_absent:
            tasks = {task.id: task for task in self.tasks}
            current = {}
            for context in self.contexts(method):
                row = rows.get(context.task_id)
                mark = self.verdict_mark(tasks[context.task_id], context.sha256)
                if row is not None and row["sha256"] == mark:
                    current[context.task_id] = row
            rows = current
        return {
            task_id: ContextValidity(**{name: row[name] for name in ContextValidity.__slots__})
            for task_id, row in rows.items()
        }

    def unpublished(self, method: str, context: Context) -> bool:
        """Tell whether the authors published no context for a task, so that it is not measured.

        Args:
            method: A method.
            context: Its context for the task.
        """
        absent = self.corpus == corpora.PUBLISHED and context.sha256 == NOTHING
        return absent and context_method(method) != NO_RAG

    # Completions

    @cached_property
    def generator(self) -> Generator:
        """The model with its cache. Completions are found by the generator's keys."""
        decoding = self.rules.decoding(model_spec(self.model).style)
        if self.slots:
            decoding = replace(decoding, slots=self.slots)
        place = cache_folder(self.results, self.model)
        own = self.rules.stored_with or self.benchmark
        if (place, own) not in self.caches:
            self.caches[place, own] = GenerationCache(place, own)
        return Generator(self.model, decoding, self.caches[place, own], self.results)

    def generator_of(self, method: str) -> Generator:
        """Return the same model and cache with the decoding of a method.

        Args:
            method: A method.
        """
        return self.generator.decoding_with(parse_method(method).decoding)

    def settings(self, method: str) -> str:
        """Return a digest of how a method prompts: model, revision, decoding, sample and prompt variant.

        Args:
            method: A method.
        """
        about = parse_method(method)
        return self.generator_of(method).key(about.prompt_variant, about.sampling.sample)

    def request(self, task: Task, context: Context, method: str) -> Request:
        """Build the prompt of a task: Format(q, C(q)) of Equation 10, before the model's chat template.

        Args:
            task: The task.
            context: Its context.
            method: The method, which decides the wording.

        Returns:
            The prompt, and how it is sent.
        """
        about = parse_method(method)
        style = self.prompt_style(about)
        text = self.rules.prompt(task, context.text or "", style, self.generator.measure)
        return Request(
            task.id,
            text,
            task.entry_point,
            about.sampling.sample,
            as_it_is=bool(about.style) and not about.in_chat,
            whole_answer=bool(about.style),
        )

    def completions(self, method: str) -> dict[str, Generation]:
        """Read the stored completions of a method.

        Args:
            method: A method that the corpus offers.

        Returns:
            Completion by task id; a task without one is left out.

        Raises:
            Damaged: The file of completions cannot be read.
        """
        self.generator.cache.require(self.files(method).completions)
        contexts = [c for c in self.contexts(method) if not self.unpublished(method, c)]
        if self.rules.in_tokens:
            found = self._completions_by_prompt_digest(method, contexts)
        elif self.tasks_absent or any(c.text is None for c in contexts):
            found = self._completions_by_context_digest(method, contexts)
        else:
            found = self._completions_by_prompt(method, contexts)
        return {task_id: answer for task_id, answer in found.items() if answer is not None}

    def _completions_by_prompt(
        self, method: str, contexts: list[Context]
    ) -> dict[str, Generation | None]:
        """Find completions by the prompts that the contexts give."""
        generator = self.generator_of(method)
        tasks = {task.id: task for task in self.tasks}
        found = {}
        for context in contexts:
            request = self.request(tasks[context.task_id], context, method)
            found[context.task_id] = generator.stored(request.text, request.sample)
        return found

    def _completions_by_prompt_digest(
        self, method: str, contexts: list[Context]
    ) -> dict[str, Generation | None]:
        """Find completions of prompts that only the model's tokenizer could build again.

        A context that was taken from an earlier round has the answer of that round.
        """
        known = self.generator.cache.by_prompt()
        found = {}
        for context in contexts:
            own = context.method == context_method(method)
            settings = self.settings(method if own else context.method)
            answer = known.get((context.prompt_sha256, settings))
            found[context.task_id] = answer or known.get((context.prompt_sha256, None))
        return found

    def _completions_by_context_digest(
        self, method: str, contexts: list[Context]
    ) -> dict[str, Generation | None]:
        """Find completions where the tasks, or the texts of contexts, are not available."""
        answers = self._answers_by_context(self.settings(method))
        tasks = {} if self.tasks_absent else {task.id: task for task in self.tasks}
        generator = self.generator_of(method)
        solutions = self.solutions(method) if self.tasks_absent else {}
        found: dict[str, Generation | None] = {}
        for context in contexts:
            task_id = context.task_id
            if task_id in tasks and context.text is not None:
                request = self.request(tasks[task_id], context, method)
                answer = generator.stored(request.text, request.sample)
            else:
                answer = answers.get((task_id, context.sha256))
            if answer is None and task_id in solutions:
                same = [g for (_, sha256), g in answers.items() if sha256 == context.sha256]
                answer = _answer_of_solution(solutions[task_id], same, self.rules.starts_program)
            found[task_id] = answer
        return found

    def _answers_by_context(self, settings: str) -> dict[tuple[str, str], Generation]:
        """Completions with these settings by task id and digest of the context.

        Benchmarks share task ids but not prompts. Tasks of one prompt share a completion.
        """
        cache = self.generator.cache
        files: set[Path] = set()
        for benchmark in BENCHMARKS.values():
            if benchmark.prompts == self.rules.prompts:
                folder = cache.root / slug(benchmark.name)
                files |= {file for file in set(cache.files.values()) if file.is_relative_to(folder)}
        found = {}
        for key, generation in cache.rows.items():
            if cache.files[key] not in files or generation.meta.get("settings") != settings:
                continue
            context = generation.meta.get("context_sha256", "")
            for task_id in self._tasks_of_same_prompt.get(generation.task_id, [generation.task_id]):
                found[task_id, context] = generation
        return found

    @cached_property
    def _tasks_of_same_prompt(self) -> dict[str, list[str]]:
        """Ids of the tasks that share a task's prompt, itself among them, by task id."""
        by_prompt: dict[str, list[str]] = {}
        for task in [] if self.tasks_absent else load_benchmark(self.benchmark):
            by_prompt.setdefault(task.prompt, []).append(task.id)
        return {task_id: ids for ids in by_prompt.values() for task_id in ids}

    # Solutions and verdicts

    def solutions(self, method: str) -> dict[str, str]:
        """Extract the solutions from a method's completions.

        Args:
            method: A method that the corpus offers.

        Returns:
            Solution by task id; as stored where the tasks are not available.
        """
        if self.tasks_absent:
            rows = self._verdict_rows(method)
            return {t.id: rows[t.id]["solution"] for t in self.tasks if t.id in rows}
        tasks = {task.id: task for task in self.tasks}
        solutions = {}
        for task_id, completion in self.completions(method).items():
            text = answer_of(Completion(completion.raw, self.generator.spec))
            solutions[task_id] = self.rules.solution(tasks[task_id], text)
        return solutions

    def authors_solutions(self, method: str, rule: str) -> dict[str, str]:
        """Extract the solutions of a method by one of the authors' rules.

        Args:
            method: A method whose answers are kept whole (`Method.style`).
            rule: One of AUTHORS_RULES.

        Returns:
            Solution by task id; empty where the tasks are not available.
        """
        if self.tasks_absent:
            return {}
        completions = self.completions(method)
        extract = AUTHORS_RULES[rule]
        return {task_id: extract(g.raw) for task_id, g in completions.items()}

    def outcomes(self, method: str, authors_rule: str | None = None) -> dict[str, Outcome]:
        """Read the verdicts on a method's solutions.

        Args:
            method: A method.
            authors_rule: One of AUTHORS_RULES, if it extracted the solutions. By default, this
                project's rule did.

        Returns:
            Outcome by task id; a task without a stored verdict is not measured.
        """
        if authors_rule is not None:
            file = self.files(method).authors_verdicts(authors_rule)
            rows = self.current_verdicts(file, self.authors_solutions(method, authors_rule))
        else:
            rows = self._verdict_rows(method)
        absent = Outcome("not_measured", detail="no stored verdict")
        return {t.id: Outcome.of(rows[t.id]) if t.id in rows else absent for t in self.tasks}

    def measures(self, method: str) -> pd.DataFrame:
        """Read how similar the judged solutions are to the references.

        Args:
            method: A method.

        Returns:
            Values [task, measure]; no rows where the benchmark has no such measures.
        """
        rows = self._verdict_rows(method)
        other_fields = {*VERDICT, *Outcome.__slots__}
        values = {}
        for task in self.tasks:
            row = rows.get(task.id)
            if row is not None:
                values[task.id] = {
                    name: value
                    for name, value in row.items()
                    if name not in other_fields and isinstance(value, NUMBER)
                }
        return pd.DataFrame.from_dict(values, orient="index", dtype=float)

    def _verdict_rows(self, method: str) -> dict[str, dict[str, Any]]:
        solutions = {} if self.tasks_absent else self.solutions(method)
        return self.current_verdicts(self.files(method).samples, solutions)

    def current_verdicts(self, path: Path, solutions: dict[str, str]) -> dict[str, dict[str, Any]]:
        """Read the verdicts of a file that are on these very solutions, tests, protocol and packages.

        Args:
            path: A file of verdicts.
            solutions: Solution by task id.

        Returns:
            Row by task id; all rows of the file where the tasks are not available.
        """
        rows = by_task(path, VERDICT)
        if self.tasks_absent:
            return rows
        current = {}
        for task in self.tasks:
            if task.id in solutions and task.id in rows:
                mark = self.verdict_mark(task, solutions[task.id])
                if rows[task.id]["sha256"] == mark:
                    current[task.id] = rows[task.id]
        return current

    def verdict_mark(self, task: Task, solution: str) -> str:
        """Return a digest of what a verdict is on.

        Args:
            task: The task.
            solution: A solution of it.
        """
        packages = self.rules.limits(task).packages
        return digest(self.rules.fingerprint(task, solution), self.protocol, packages)

    def verdicts(self, methods: list[str] | None = None) -> pd.DataFrame:
        """Return whether each method solves each task.

        Args:
            methods: Methods; None for the corpus' default methods, the selecting ones last.

        Returns:
            Boolean [task, method]: True passed, False failed, <NA> not measured. A method with verdicts on
            fewer than LEAST of the tasks is not measured at all.
        """
        offered = list(self.retrievers)
        if self.rules.selects:
            offered += SELECTING
        wanted = methods or offered
        selecting = {*SELECTING, AS_PRINTED} if self.rules.selects else set()
        candidates = self.candidates if selecting & set(wanted) else []
        others = [m for m in wanted if m not in (*offered, AS_PRINTED)]
        needed = [m for m in self.retrievers if m in wanted or m in candidates] + others
        series = {method: verdict_series(self.outcomes(method)) for method in needed}
        frame = _without_sparse(pd.DataFrame(series))
        if candidates:
            frame[RERANKED] = self._verdicts_of_chosen(frame[candidates], "chosen")
            frame[AS_PRINTED] = self._verdicts_of_chosen(frame[candidates], "chosen_as_printed")
            frame[IDEAL] = ideal(frame[candidates])
        shown = [m for m in (*offered, AS_PRINTED) if m in wanted and m in frame]
        return _without_sparse(frame[shown + others])

    # Selection among the solutions of several methods

    @property
    def candidates(self) -> list[str]:
        """The methods among whose solutions Reranked and Ideal Reranker select.

        These are the methods that were offered at the first selection, so that a method that is added later
        changes no stored result.
        """
        names = read_candidates(self.files(RERANKED))
        if names is None:
            return list(self.retrievers)
        return [name for name in names if name in self.retrievers]

    def selections(self) -> dict[str, dict[str, Any]]:
        """Read what the reranker saw and chose (Section 3.3), for the solutions as they are now.

        Returns:
            Row by task id: `chosen` and `chosen_as_printed` name methods, `candidates` has the scores.
        """
        rows = by_task(self.files(RERANKED).selections, SELECTION)
        if self.tasks_absent:
            return rows
        marks = self.selection_marks(self.candidates)
        return {i: rows[i] for i, mark in marks.items() if rows.get(i, {}).get("sha256") == mark}

    @cached_property
    def _queries(self) -> dict[str, str]:
        """What the solutions of a task are compared with, by task id."""
        return {task.id: self.rules.reranking_query(task) for task in self.tasks}

    def selection_marks(self, candidates: list[str]) -> dict[str, str]:
        """Return digests of what each selection is made from: query, candidates and solutions.

        Args:
            candidates: The methods that may be chosen.

        Returns:
            Digest by task id, for tasks with a solution by any method.
        """
        solutions = {method: self.solutions(method) for method in self.retrievers}
        marks = {}
        for task in self.tasks:
            parts = [SELECTION_RULE, self._queries[task.id]]
            scored_only = []
            for method, of_task in solutions.items():
                if task.id in of_task:
                    parts += [method, of_task[task.id]]
                    if method not in candidates:
                        scored_only.append(method)
            if len(parts) > 2:
                marks[task.id] = digest(*parts, "only scored", *scored_only)
        return marks

    def _verdicts_of_chosen(self, candidates: pd.DataFrame, rule: str) -> pd.Series:
        """Return the verdicts on the chosen solutions.

        Args:
            candidates: Verdicts [task, method] of the candidates.
            rule: The field of a selection that names the chosen method.

        Returns:
            One verdict per task; not measured while a candidate is missing, as for the ideal reranker.
        """
        known = candidates.dropna()
        values = {}
        for task_id, row in self.selections().items():
            method = row.get(rule, "")
            if task_id in known.index and method in known:
                values[task_id] = known.at[task_id, method]
        return pd.Series(values, dtype="boolean").reindex(candidates.index)

    # Samples

    def sample(self, method: str, task_id: str) -> Sample:
        """Return everything that is stored of one task under one method.

        Args:
            method: A method that the corpus offers.
            task_id: A task, such as "HumanEval/20".

        Returns:
            The sample, with the prompt exactly as it is sent.

        Raises:
            UserError: The method or the task is unknown.
        """
        ids = [task.id for task in self.tasks]
        if task_id not in ids:
            raise unknown("task", task_id, ids, f"of {self.benchmark}")
        return next(s for s in self.samples(method) if s.task_id == task_id)

    def samples(self, method: str) -> list[Sample]:
        """Return everything that is stored of a method.

        Args:
            method: A method that the corpus offers.

        Returns:
            One sample per task, in order.
        """
        name = parse_method(method).name
        condition = Condition(self.model, self.benchmark, self.corpus, name, self.limit)
        contexts = {context.task_id: context for context in self.contexts(name)}
        completions = self.completions(name)
        solutions = self.solutions(name)
        outcomes = self.outcomes(name)
        samples = []
        for task in self.tasks:
            context = contexts.get(task.id)
            completion = completions.get(task.id)
            meta = completion.meta if completion else {}
            prompt = None
            prompt_sha256 = meta.get("prompt_sha256") or ""
            if self._can_build_prompt(name, context):
                request = self.request(task, context or Context(task.id, NO_RAG, ""), name)
                prompt = turns(request.text)
                prompt_sha256 = digest(request.text)
            sample = Sample(
                condition,
                task.id,
                context,
                prompt,
                prompt_sha256,
                completion.raw if completion else None,
                solutions.get(task.id, ""),
                outcomes[task.id],
                completion.prompt_tokens if completion else None,
                len(completion.tokens) if completion else None,
                meta.get("seconds"),
            )
            samples.append(sample)
        return samples

    def _can_build_prompt(self, method: str, context: Context | None) -> bool:
        """Whether the prompt of a task follows from what is stored, without the model's tokenizer."""
        if self.tasks_absent or self.rules.in_tokens:
            return False
        if context_method(method) == NO_RAG:
            return True
        return context is not None and context.text is not None

    # Summaries

    def records(self, method: str) -> pd.DataFrame:
        """Return which stages each task reaches.

        Args:
            method: A method.

        Returns:
            Boolean [task, STAGES]; <NA> where the method has no such stage or it was not measured. "ran":
            the program without its tests runs through. A task that passes has reached every stage from the
            completion on.
        """
        selections = self.selections()
        completions = self.completions(method)
        solutions = self.solutions(method)
        contexts = {context.task_id: context for context in self.contexts(method)}
        without_context = context_method(method) == NO_RAG
        records = {}
        for task_id, outcome in self.outcomes(method).items():
            completion = completions.get(task_id)
            if without_context:
                found: list[Any] = [pd.NA, pd.NA]
            else:
                context = contexts.get(task_id)
                retrieved = context is not None and context.sha256 != NOTHING
                # The completion may have been made with another context than the one stored now.
                in_prompt = retrieved and (
                    completion is None or completion.meta.get("context_sha256") == context.sha256  # type: ignore[union-attr]
                )
                found = [retrieved, in_prompt]
            passed = passes(outcome)
            if passed is True:
                reached: list[Any] = [True] * 4
            else:
                scored = selections.get(task_id, {}).get("candidates", {}).get(method, {})
                extracted = bool(solutions.get(task_id, "").strip())
                reached = [completion is not None, extracted]
                reached += [scored.get("parses", False), scored.get("runs", False)]
            records[task_id] = [*found, *reached, passed]
        frame = pd.DataFrame.from_dict(records, orient="index", columns=list(STAGES))
        return frame.astype("boolean")

    def own_assertions(self, method: str) -> frozenset[str]:
        """Return the tasks whose solution fails an assertion of its own before any test.

        Args:
            method: A method.

        Returns:
            Task ids. Such a task counts as failed.
        """
        records = self.records(method)
        outcomes = self.outcomes(method)
        stopped = records["parsed"] & ~records["ran"] & ~records["passed"].fillna(True)
        ids = records.index[stopped]
        return frozenset(i for i in ids if outcomes[i].error == "AssertionError")

    def controls(self) -> dict[str, pd.Series]:
        """Read the verdicts on the control rows, which go through the same execution as a model's text.

        Returns:
            Boolean verdicts by name of the control.
        """
        series = {}
        for name in self.rules.controls:
            solutions = {} if self.tasks_absent else self.control_solutions(name)
            rows = self.current_verdicts(self.control_samples(name), solutions)
            outcomes = {t.id: Outcome.of(rows[t.id]) for t in self.tasks if t.id in rows}
            series[name] = verdict_series(outcomes)
        return series

    def control_solutions(self, name: str) -> dict[str, str]:
        """Return the solutions of a control row by task id.

        Args:
            name: A control of the benchmark.
        """
        return {task.id: self.rules.control(task, name) for task in self.tasks}

    def provenance(self) -> dict[str, Any]:
        """Return what the results were made from.

        Returns:
            Fields for the last section of a page. Versions and commit are those of the retrieval.
        """
        retrieved = {}
        for method in self.retrievers:
            about = read_provenance(self.files(method).provenance)
            if about:
                retrieved[method] = about
        decoding = dict(self.generator.decoding.parameters)
        decoding.pop("style", None)
        packages = {self.rules.limits(task).packages for task in self.tasks}
        digests = {
            about["corpus_digest"] for about in retrieved.values() if "corpus_digest" in about
        }
        return {
            "model": self.model,
            "revision": self.generator.revision,
            "decoding": decoding,
            "benchmark": self.benchmark,
            "benchmark_digest": retrieved.get(NO_RAG, {}).get("benchmark", ""),
            "tasks": len(self.tasks),
            "protocol": self.protocol,
            "packages": ", ".join(sorted(packages)),
            "corpus": self.corpus,
            "corpus_digest": sorted(digests),
            "retrieved_with": [about.get("versions") for about in retrieved.values()][-1:],
        }


def load_results(
    conditions: Condition | str | Sequence[Condition | str], results: Path | None = None
) -> Results:
    """Read what is stored under conditions. Nothing is computed.

    Args:
        conditions: One condition, or several that differ in their methods alone; also as text, such as
            "qwen2.5-coder-0.5b-instruct | humaneval | textbook+stdlib | Func-PKG".
        results: The results directory; None for the configured one.

    Returns:
        The stored results of these methods.

    Raises:
        UserError: The conditions differ in more than their methods, or a name is unknown.
    """
    given = [conditions] if isinstance(conditions, (Condition, str)) else list(conditions)
    of_all = [parse_condition(c) if isinstance(c, str) else c for c in given]
    if not of_all:
        raise UserError("no condition is given; give at least one")
    first = of_all[0]
    experiment = (first.model, first.benchmark, first.corpus, first.limit)
    for condition in of_all:
        if (condition.model, condition.benchmark, condition.corpus, condition.limit) != experiment:
            raise UserError(
                f"{condition} and {first} differ in more than the method; load each by itself"
            )
    found = Results(*experiment, results=results)
    found.methods = list(dict.fromkeys(str(condition.method) for condition in of_all))
    for method in found.methods:
        if not (found.offers(method) or method in (*SELECTING, AS_PRINTED)):
            raise unknown("method", method, found.retrievers, f"for corpus {found.corpus}")
    return found


# Part of the digest of a stored selection: the rule by which it was made.
SELECTION_RULE = "authors' code, query without hints, answers run as written"


def _answer_of_solution(
    solution: str, answers: list[Generation], starts_program: bool
) -> Generation | None:
    """Find the answer that gave a solution, of a task that shares its prompt; None if several fit."""
    names = re.findall(r"def\s+(\w+)", solution) or [""]
    fitting = {}
    for generation in answers:
        if any(extract(generation.raw, name, starts_program) == solution for name in names):
            fitting[generation.key] = generation
    return next(iter(fitting.values())) if len(fitting) == 1 else None


def passes(outcome: Outcome) -> Any:
    """Return True or False, or <NA> for an outcome that was not measured.

    Args:
        outcome: A verdict.
    """
    return pd.NA if outcome.status == "not_measured" else outcome.status == "passed"


def verdict_series(outcomes: Mapping[str, Outcome]) -> pd.Series:
    """Return verdicts as a series.

    Args:
        outcomes: Outcome by task id.

    Returns:
        Boolean per task: True passed, False failed, <NA> not measured.
    """
    values = [passes(outcome) for outcome in outcomes.values()]
    return pd.Series(values, list(outcomes), dtype="boolean")


def ideal(verdicts: pd.DataFrame) -> pd.Series:
    """Return the verdicts of an oracle that selects a passing solution where there is one.

    Args:
        verdicts: Boolean [task, method] of the candidates.

    Returns:
        True where a candidate passed; <NA> while one has no verdict. Such a task could only be known as
        solved, never as unsolved: counting it would favour the oracle.
    """
    solved = verdicts.fillna(False).any(axis=1).astype("boolean")
    return solved.mask(verdicts.isna().any(axis=1))


def _without_sparse(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Remove the verdicts of methods that are measured on too few tasks."""
    kept = verdicts.copy()
    for method in verdicts:
        known = verdicts[method].notna()
        if known.mean() < LEAST:
            kept[method] = verdicts[method].mask(known)
    return kept
