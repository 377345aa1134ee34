"""Compute what an experiment lacks: contexts, completions, verdicts, signals, selections and control rows.

Contexts, verdicts, signals and selections of an experiment are written only here. Every stage resumes
from its files. A stored verdict is reused only for the same solution, tests and protocol.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from pkg_lib.core.embedders import DEFAULT, embedder_spec
from pkg_lib.core.locks import writing
from pkg_lib.core.store import versions, write_json, write_jsonl
from pkg_lib.core.types import (
    NOTHING,
    BenchmarkMissingError,
    Context,
    Outcome,
    Task,
    UnavailableError,
    UserError,
    digest,
)
from pkg_lib.data import corpora
from pkg_lib.data.benchmark import tasks_digest
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.evaluation.conditions import Condition
from pkg_lib.evaluation.context_validity import check_contexts, renamed_reference
from pkg_lib.evaluation.controls import check_controls
from pkg_lib.evaluation.reranking import (
    CandidateScore,
    choose,
    choose_as_printed,
    cosines,
    embedded_text,
)
from pkg_lib.evaluation.results import Results, load_results, verdict_series
from pkg_lib.evaluation.signals import (
    encode_solutions,
    prepare_signals,
    stored_signals,
    visible_tasks,
)
from pkg_lib.evaluation.storage import write_control_condition, write_selection_condition
from pkg_lib.evaluation.stored_rows import (
    VERDICT,
    Row,
    Rows,
    by_task,
    read_provenance,
    solution_fields,
)
from pkg_lib.execution.batches import run_with_limits
from pkg_lib.execution.sandbox import Job, Limits
from pkg_lib.generation.authors_extraction import AUTHORS_RULES
from pkg_lib.generation.extraction import defines
from pkg_lib.generation.generator import Backend, Generator, StoredRequest
from pkg_lib.retrieval.embed import Embedder
from pkg_lib.retrieval.methods import (
    NO_RAG,
    RERANKED,
    completion_stages,
    context_method,
    parse_method,
)

FEW_TEXTS = 64  # texts that are encoded in seconds, also on slow machines
# Fields that few contexts have; they are stored only where they have a value.
OPTIONAL_FIELDS = ("tokens", "prompt_sha256", "query", "spent", "recall")
# Makes the job that judges a solution, or the verdict where no job is needed.
JobFactory = Callable[[Task, str, str], Job | Outcome]


def evaluate(
    conditions: Condition | str | Sequence[Condition | str],
    results: Path | None = None,
    backend: Backend | None = None,
    fresh: bool = False,
) -> Results:
    """Retrieve, generate, extract and test what is not stored yet, and store it.

    An interrupted evaluation can be continued by the same call.

    Args:
        conditions: One condition, or several that differ only in their methods.
        results: The results directory; None for the configured one.
        backend: What generates; None loads the model when a prompt needs it.
        fresh: Whether stored contexts, completions and verdicts are made again.

    Returns:
        The results of these methods.

    Raises:
        UserError: Something that is needed is not available, or another run is writing to the results.
    """
    found = load_results(conditions, results)
    if found.tasks_absent:
        raise BenchmarkMissingError(found.tasks_absent)
    evaluator = Evaluator(found, fresh, backend)
    if fresh or evaluator.lacks(found.methods) or _lacks_verdicts(found):
        evaluator.prepare(found.methods)
    return found


def _lacks_verdicts(results: Results) -> bool:
    """Whether a completed task of these methods lacks a verdict by any of its extractions."""
    for method in results.methods:
        completions = results.completions(method)
        rules = AUTHORS_RULES if parse_method(method).style else ()
        for rule in (None, *rules):
            outcomes = results.outcomes(method, rule)
            if any(outcomes[task_id].status == "not_measured" for task_id in completions):
                return True
    return False


def run_tests(tasks: Sequence[Task], solutions: Sequence[str]) -> list[Outcome]:
    """Test solutions in the sandbox, as their benchmarks' protocols say.

    Args:
        tasks: Tasks of any benchmarks.
        solutions: One solution per task.

    Returns:
        One outcome per task: passed, failed or not measured.

    Raises:
        UserError: A task's benchmark is not registered.
    """
    jobs = []
    for task, solution in zip(tasks, solutions, strict=True):
        benchmark = BENCHMARKS.get_or_fail(task.benchmark)
        jobs.append((benchmark.job(task, solution), benchmark.limits(task)))
    return _outcomes(jobs)


def _outcomes(jobs: Sequence[tuple[Job | Outcome, Limits]], what: str = "") -> list[Outcome]:
    """Run jobs within their limits; outcomes among them stay.

    Args:
        jobs: Each job with its limits, or an outcome that needs no job.
        what: What a progress bar says; "" for no bar.

    Returns:
        The outcomes in order.
    """
    to_run = [(job, limits) for job, limits in jobs if isinstance(job, Job)]
    hides_bar = not what or len(jobs) < 20
    with tqdm(total=len(to_run), desc=what, unit="sample", disable=hides_bar) as bar:
        executed = iter(run_with_limits(to_run, lambda _: bar.update()))
    return [next(executed) if isinstance(job, Job) else job for job, _ in jobs]


def encoding_passes(texts: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Order methods by how many texts they encode, fewest first.

    Args:
        texts: The texts that each method needs.

    Returns:
        Method -> its texts without those of an earlier method.
    """
    encoded: set[str] = set()
    passes = {}
    for method in sorted(texts, key=lambda method: len(texts[method])):
        passes[method] = [text for text in texts[method] if text not in encoded]
        encoded.update(passes[method])
    return passes


class Evaluator:
    """Computes what an experiment lacks.

    Attributes:
        run: The experiment.
        fresh: Whether contexts, completions and verdicts are made again, whatever is stored. A new
            completion is appended to the cache, where the last one counts.
    """

    def __init__(self, run: Results, fresh: bool = False, backend: Backend | None = None) -> None:
        """Create an evaluator. Nothing is loaded or computed yet.

        Args:
            run: The experiment.
            fresh: Whether stored contexts, completions and verdicts are ignored.
            backend: What generates; None loads the model when it is needed.

        Raises:
            BenchmarkMissingError: `fresh` is set, but the tasks are not available.
        """
        self.run = run
        self.fresh = fresh
        self._retrieved: dict[str, list[Context]] = {}
        if fresh:
            if run.tasks_absent:
                raise BenchmarkMissingError(run.tasks_absent)
            run.generator.cache.clear()
        if backend is not None:
            run.generator.backend = backend

    def prepare(self, methods: list[str]) -> int:
        """Complete what the methods lack. Then judge and rerank all methods of the corpus.

        Args:
            methods: Methods of the corpus.

        Returns:
            How many completions were generated.

        Raises:
            ControlError: A control row has a wrong score: a test or a reference solution is wrong.
            UserError: Something that is needed is not available, or another run is writing to the results.
        """
        if self.run.tasks_absent:
            return 0
        with writing(self.run.results):
            return self._prepare(methods)

    def _prepare(self, methods: list[str]) -> int:
        run = self.run
        if self.lacks(methods):
            self._require_model()
        self._judge_controls()
        generated = self.generate(methods)
        corpus_methods = list(run.retrievers)
        every_method = list(dict.fromkeys(corpus_methods + methods))
        for method in every_method:
            self._judge_method(method)
        spec = run.benchmark_spec
        if spec.selects:
            self._make_signals(every_method)
            self._rerank()
            sources = [context_method(method) for method in every_method]
            for source in dict.fromkeys(sources):
                self._judge_contexts(source)
        self.fresh = False  # what is stored from here on was made now
        return generated

    def _judge_controls(self) -> None:
        """Judge the control rows, so that wrong tests stop a run before a model generates anything."""
        run = self.run
        spec = run.benchmark_spec
        for name in spec.controls:
            path = run.control_samples(name)
            write_control_condition(path.parent, run.benchmark, name)
            self._judge(path, run.control_solutions(name), spec.control_job)
        for name, verdicts in run.controls().items():
            # The sandbox may have failed on a task; the tables report that.
            measured = verdicts.dropna()
            required = {name: 100 if spec.controls[name] else 0}
            check_controls({name: measured}, measured.index, required)

    # Completions

    def missing(self, method: str) -> Iterator[tuple[Task, Context | None]]:
        """Find the tasks that lack a completion.

        Args:
            method: A method of the corpus.

        Yields:
            Task and context; None for a context that is not retrieved yet.
        """
        run = self.run
        if run.tasks_absent:
            return
        contexts = {context.task_id: context for context in self._known_contexts(method)}
        completed = run.completions(method)
        without_context = context_method(method) == NO_RAG
        for task in run.tasks:
            if task.id in completed:
                continue
            if without_context:
                context: Context | None = Context(task.id, NO_RAG, "")
            else:
                context = contexts.get(task.id)
            if context is None or not run.lacks_published_context(method, context):
                yield task, context

    def lacks(self, methods: Iterable[str]) -> bool:
        """Tell whether one of the methods lacks a completion.

        Args:
            methods: Methods of the corpus.
        """
        for method in methods:
            for _ in self.missing(method):
                return True
        return False

    def generate(self, methods: list[str]) -> int:
        """Complete what the methods lack. An interrupted run can be continued.

        Args:
            methods: Methods of the corpus.

        Returns:
            How many prompts were completed.

        Raises:
            UserError: Weights, a key, the corpus or the tasks are not available.
        """
        if not self.lacks(methods):
            return 0
        self._require_model()
        count = 0
        for stage in completion_stages(methods):
            for group in self._by_cost(stage):
                count += self._complete(group)
        return count

    def _by_cost(self, methods: list[str]) -> list[list[str]]:
        """Order methods so that the first answers need not wait for the vectors of other methods.

        Returns:
            First all methods that need few new vectors, or none. Then each other method by itself,
            those with the fewest texts to encode first.
        """
        texts = {method: self.texts_to_encode(method) for method in methods}
        sizes = {method: len(prompts) for method, prompts in texts.items()}
        at_once = [method for method in methods if sizes[method] < FEW_TEXTS]
        few = [method for method in at_once if texts[method]]
        if few:
            count = len(set().union(*[texts[method] for method in few]))
            note = f"{', '.join(few)}: {count:,} texts of the corpus to encode"
            tqdm.write(note, file=sys.stderr)
        large = [method for method in sizes if method not in at_once]
        new_texts = encoding_passes({method: texts[method] for method in large})
        encoding = list(new_texts)
        for number, method in enumerate(encoding, 1):
            passes = f"pass {number} of {len(encoding)}"
            note = f"{method}: {len(new_texts[method]):,} texts of the corpus to encode ({passes})"
            tqdm.write(note, file=sys.stderr)
        groups = [[method] for method in encoding]
        if at_once:
            groups.insert(0, at_once)
        return groups

    def texts_to_encode(self, method: str) -> list[str]:
        """Return the texts of the corpus whose vectors a method needs and that are not stored.

        Args:
            method: A method of the corpus.

        Returns:
            The texts, each once; none if the method's contexts are stored, or come from elsewhere.

        Raises:
            UserError: The corpus is not available.
        """
        run = self.run
        name = context_method(method)
        is_known = len(self._known_contexts(method)) == len(run.tasks)
        if name == NO_RAG or is_known or run.benchmark_spec.stored_with:
            return []
        retriever = run.retriever_factory(name)(run.knowledge)
        encoded_texts = getattr(retriever, "encoded_texts", None)
        if encoded_texts is None:
            return []
        missing: list[str] = run.knowledge.embedder.missing(encoded_texts())
        return missing

    def _complete(self, methods: list[str]) -> int:
        """Complete the prompts of several methods. Methods with the same decoding share a batch."""
        count = 0
        generators: dict[str, Generator] = {}
        prompts: dict[str, list[StoredRequest]] = {}
        for method in methods:
            generator = self.run.generator_of(method)
            key = generator.key("")
            generators.setdefault(key, generator)
            method_prompts = self.prompts(method)
            if method_prompts:
                self._store_condition(method)
            prompts.setdefault(key, []).extend(method_prompts)
        for key, generator in generators.items():
            count += generator.complete(prompts[key], f"on {self.run.benchmark}")
        return count

    def _require_model(self) -> None:
        """Check that model and embedder are available before retrieval, which takes minutes."""
        corpus = corpora.parse_corpus(self.run.corpus)
        embedder_spec(corpus.embedder).require_key()
        generator = self.run.generator
        if generator.backend is not None:
            return
        if generator.spec.endpoint:
            generator.loaded()
        else:
            generator.weights()

    def prompts(self, method: str) -> list[StoredRequest]:
        """Return the prompts of a method that have no completion. Contexts are retrieved where needed.

        Args:
            method: A method of the corpus.
        """
        run = self.run
        contexts = self.contexts(method)
        todo = {task.id: task for task, _ in self.missing(method)}
        if any(context.text is None for context in contexts if context.task_id in todo):
            contexts = self._with_texts(method, contexts)
        cache = run.generator.cache
        path = run.files(method).completions
        file = str(path.relative_to(cache.root))
        settings = run.settings(method)
        prompts = []
        for context in contexts:
            task = todo.get(context.task_id)
            if task is None:
                continue
            request = run.request(task, context, method)
            about = {"settings": settings, "context_sha256": context.sha256}
            prompts.append(StoredRequest(request, file, about))
        return prompts

    # Contexts

    def contexts(self, method: str) -> list[Context]:
        """Return a method's contexts, stored ones where they cover all tasks.

        Args:
            method: A method of the corpus.

        Returns:
            One context per task, in order.
        """
        known = self._known_contexts(method)
        if len(known) == len(self.run.tasks):
            return known
        return self._retrieve(method)

    def _known_contexts(self, method: str) -> list[Context]:
        """Return the stored contexts; if they are made again, only those of this evaluation."""
        stored = self.run.contexts(method)  # refuses an unknown method
        if self.fresh:
            return self._retrieved.get(context_method(method), [])
        return stored

    def _retrieve(self, method: str) -> list[Context]:
        """Retrieve and store the contexts of all tasks."""
        run = self.run
        name = context_method(method)
        base = run.benchmark_spec.stored_with
        if base:
            raise UnavailableError(
                f"{run.benchmark} has the contexts of {base}, which lacks those of {name}: "
                f"complete benchmark {base} on corpus {run.corpus} first"
            )
        make_retriever = run.retriever_factory(name)
        retriever = make_retriever(None if name == NO_RAG else run.knowledge)
        retrieved = retriever.retrieve(run.tasks)
        contexts = []
        for task, context in zip(run.tasks, retrieved, strict=True):
            contexts.append(self._described(context, task, name))
        about = dict(getattr(retriever, "about", {}))
        pruning = getattr(retriever, "pruning", "")
        if pruning:
            about["pruning"] = pruning
        self._store_contexts(name, contexts, about)
        self._retrieved[name] = run._contexts[name] = contexts
        return contexts

    def _described(self, context: Context, task: Task, method: str) -> Context:
        """Add what retrievers do not know: whether it defines the task's function, tokens and prompt."""
        run = self.run
        if context.defines_task is None:
            defines_task = defines(context.text or "", task.entry_point)
            context = replace(context, defines_task=defines_task)
        if run.benchmark_spec.in_tokens and context.text is not None:
            request = run.request(task, context, method)
            context = replace(
                context,
                tokens=run.generator.measure(context.text),
                prompt_sha256=digest(request.text),
            )
        return context

    def _with_texts(self, method: str, stored: list[Context]) -> list[Context]:
        """Retrieve again where stored contexts lack their text, and check that the digests agree."""
        run = self.run
        retriever = run.retriever_factory(method)(run.knowledge)
        contexts = retriever.retrieve(run.tasks)
        changed = []
        for new, old in zip(contexts, stored, strict=True):
            if new.sha256 != old.sha256:
                changed.append(new.task_id)
        if changed:
            raise UserError(
                f"corpus {run.corpus} retrieves other contexts for {method} than the stored ones "
                f"({len(changed)} tasks, first {changed[0]}): run with --fresh to replace them"
            )
        return contexts

    def _store_contexts(
        self,
        method: str,
        contexts: list[Context],
        about_retriever: dict[str, Any],
    ) -> None:
        """Store contexts; a part of the tasks keeps the contexts of other tasks from the same corpus."""
        run = self.run
        files = run.files(method)
        about = self._provenance(method) | about_retriever
        before = read_provenance(files.provenance)
        rows = {}
        is_part = run.limit or run.shard[1] > 1
        if is_part and before and _same_source(before, about):
            rows = by_task(files.contexts)
        with_text = method == NO_RAG or corpora.redistributable(run.corpus)
        for context in contexts:
            row = _context_row(context)
            if not with_text and context.text:
                row["text"] = None
            rows[context.task_id] = row
        write_jsonl(files.contexts, rows.values())
        write_json(files.provenance, about)

    def _provenance(self, method: str) -> dict[str, Any]:
        """What contexts are retrieved from."""
        run = self.run
        about: dict[str, Any] = {
            "method": method,
            "benchmark": tasks_digest(load_benchmark(run.benchmark)),
            "versions": versions(),
        }
        if run.benchmark_spec.in_tokens:
            about["revision"] = run.generator.revision
            about["budgets"] = dict(run.benchmark_spec.budgets)
        if method == NO_RAG or run.benchmark_spec.corpus:
            return about
        documents = run.knowledge.documents
        spec = corpora.parse_corpus(run.corpus)
        about["corpus"] = run.corpus
        about["corpus_digest"] = corpora.corpus_digest(documents)
        about["documents"] = len(documents)
        about["embedder"] = spec.embedder
        about["context_chars"] = spec.length
        if not spec.has_default_options:
            about["top"] = spec.top_k
            about["embedder_revision"] = run.knowledge.embedder.revision
        tokenizer = corpora.tokenizer_of(run.corpus)
        if tokenizer != corpora.ASCII:
            about["tokenizer"] = tokenizer
        revisions = corpora.hub_revisions(run.corpus)
        if revisions:
            about["data_sets"] = revisions
        if parse_method(method).uses_graph and run.corpus != corpora.PUBLISHED:
            graph = run.knowledge.graph
            about["graph"] = {
                "nodes": len(graph),
                "edges": graph.edges.num_rows,
                "skipped": graph.skipped,
            }
        return about

    def _judge_contexts(self, method: str) -> None:
        """Run the contexts that were not judged yet as solutions of their tasks.

        NoRAG has no contexts. For it, the renamed reference solutions are judged, as a control.
        """
        run = self.run
        path = run.files(method).validity
        is_control = method == NO_RAG
        known = {}
        if not self.fresh:
            known = run.leakage(method)
        rows = by_task(path)
        lacking = {}  # digest of the context by task id
        for context in self._known_contexts(method):
            has_text = is_control or context.sha256 != NOTHING
            if has_text and context.task_id not in known:
                lacking[context.task_id] = context.sha256
        is_outdated = len(known) < len(rows)  # some rows belong to earlier contexts
        texts = self._texts_of(method, lacking, retrieve_again=is_outdated or not rows)
        tasks = [task for task in run.tasks if task.id in texts]
        if not tasks:
            return
        if is_control:
            for task in tasks:
                texts[task.id] = renamed_reference(task)
        pairs = [(task, texts[task.id]) for task in tasks]
        rows = {task_id: row for task_id, row in rows.items() if task_id in known}
        results = check_contexts(pairs, is_control)
        for task, validity in zip(tasks, results, strict=True):
            row = asdict(validity)
            row["task_id"] = task.id
            row["sha256"] = run.verdict_mark(task, lacking[task.id])
            rows[task.id] = row
        self._write(path, rows)

    def _texts_of(
        self,
        method: str,
        digests: dict[str, str],
        retrieve_again: bool,
    ) -> dict[str, str]:
        """Return the texts of contexts.

        Args:
            method: The method that retrieved the contexts.
            digests: Digest of the context by task id.
            retrieve_again: Whether to retrieve once more if a text is not stored.

        Returns:
            Text by task id; a context whose text is not available, or has another digest, is left out.
        """
        run = self.run
        contexts = self._known_contexts(method)
        lacks_text = any(c.text is None for c in contexts if c.task_id in digests)
        if lacks_text and retrieve_again:
            with suppress(UserError):
                retriever = run.retriever_factory(method)(run.knowledge)
                contexts = retriever.retrieve(run.tasks)
        texts = {}
        for context in contexts:
            is_wanted = digests.get(context.task_id) == context.sha256
            if is_wanted and context.text is not None:
                texts[context.task_id] = context.text
        return texts

    # Verdicts

    def _judge_method(self, method: str) -> None:
        """Judge the solutions of a method, by all extractions if the authors' are compared."""
        run = self.run
        files = run.files(method)
        solutions = run.solutions(method)
        if not solutions:
            return
        make_job = run.benchmark_spec.job
        self._store_condition(method)
        self._judge(files.samples, solutions, make_job, method)
        if parse_method(method).style:
            for rule in AUTHORS_RULES:
                authors_solutions = run.authors_solutions(method, rule)
                file = files.authors_verdicts(rule)
                self._judge(file, authors_solutions, make_job, method, stores_solutions=False)

    def _store_condition(self, method: str) -> None:
        """Store what the folder of a method's samples holds."""
        path = self.run.files(method).condition
        write_json(path, self.run.condition_record(method))

    def _judge(
        self,
        path: Path,
        solutions: dict[str, str],
        make_job: JobFactory,
        method: str = "",
        stores_solutions: bool = True,
    ) -> None:
        """Execute the solutions that have no verdict, and store their verdicts.

        Args:
            path: The file of verdicts.
            solutions: Solution by task id.
            make_job: Makes the job that judges a solution.
            method: The method whose completions gave the solutions; "" for a control row.
            stores_solutions: Whether the solution is stored beside its verdict. It can be extracted
                again from the stored completion.
        """
        run = self.run
        spec = run.benchmark_spec
        current = {}
        if not self.fresh:
            current = run.current_verdicts(path, solutions)
        # A sandbox failure is not a verdict: the next run tests the solution again.
        judged = []
        jobs = []
        for task in run.tasks:
            if task.id not in solutions:
                continue
            verdict = current.get(task.id)
            if verdict and verdict["status"] != "not_measured":
                continue
            solution = solutions[task.id]
            job = make_job(task, solution, run.protocol)
            judged.append(task)
            jobs.append((job, spec.limits(task)))
        if not jobs:
            return
        outcomes = _outcomes(jobs, f"executing {method or 'control rows'}")
        rows = by_task(path, VERDICT)
        completions = {}
        if method:
            completions = run.completions(method)
        for task, outcome in zip(judged, outcomes, strict=True):
            row = self._verdict_row(task, solutions[task.id], outcome)
            completion = ""
            if task.id in completions:
                row["generation_key"] = completions[task.id].key
                completion = completions[task.id].raw
            if stores_solutions:
                row |= solution_fields(solutions[task.id], completion)
            rows[task.id] = row
        self._write(path, rows)

    def _verdict_row(self, task: Task, solution: str, outcome: Outcome) -> Row:
        """Return the fields of a verdict, with the solution's similarity to the reference."""
        row = asdict(outcome)
        row["seconds"] = round(outcome.seconds, 2)
        measures = self.run.benchmark_spec.measures(task, solution)
        for name, value in measures.items():
            row[name] = round(value, 6)
        row["task_id"] = task.id
        row["sha256"] = self.run.verdict_mark(task, solution)
        return row

    def _write(self, path: Path, rows: Rows) -> None:
        """Write rows by task id, in the order of this experiment's tasks, then those of other tasks."""
        ordered: Rows = {}
        for task in self.run.tasks:
            if task.id in rows:
                ordered[task.id] = rows[task.id]
        ordered |= rows
        write_jsonl(path, ordered.values())

    # Signals and selection

    def _make_signals(self, methods: list[str]) -> None:
        """Make the test-free signals of all solutions, with the cosines of Equation 11."""
        run = self.run
        signals = {}
        held_out = {}
        solutions = {}
        passed = {}
        for method in methods:
            files = run.files(method)
            signals[method] = files.signals
            held_out[method] = files.held_out
            solutions[method] = run.solutions(method)
            passed[method] = verdict_series(run.outcomes(method))
        spec = run.benchmark_spec
        prepare_signals(spec, run.tasks, solutions, passed, signals, held_out)
        visible = visible_tasks(spec, run.tasks)
        encode_solutions(spec, visible, solutions, signals)

    def _rerank(self) -> None:
        """Select again where the solutions have changed since the last selection."""
        run = self.run
        if self.fresh:
            candidates = list(run.retrievers)
            known: Rows = {}
        else:
            candidates = run.candidates
            known = run.selections()
        marks = run.selection_marks(candidates)
        todo = {task_id: mark for task_id, mark in marks.items() if task_id not in known}
        files = run.files(RERANKED)
        lacks_condition = known and not files.condition.exists()
        if todo or lacks_condition:
            write_selection_condition(files, run.model, run.benchmark, run.corpus, candidates)
        if todo:
            rows = by_task(files.selections)
            rows |= self._select(todo, candidates)
            self._write(files.selections, rows)

    def _select(self, marks: dict[str, str], candidates: list[str]) -> Rows:
        """Select among the solutions of tasks by both rules of Equation 11.

        Args:
            marks: Digest of what each selection is made from, by task id.
            candidates: The methods that may be chosen; the solutions of others are only scored.

        Returns:
            Row by task id, for tasks whose solutions all have signals.
        """
        rows = {}
        for task_id, scores in self._candidate_scores(marks).items():
            eligible = {}
            stored_scores = {}
            for method, score in scores.items():
                stored_scores[method] = asdict(score)
                if method in candidates:
                    eligible[method] = score
            rows[task_id] = {
                "task_id": task_id,
                "chosen": choose(eligible),
                "chosen_as_printed": choose_as_printed(eligible),
                "candidates": stored_scores,
                "sha256": marks[task_id],
            }
        return rows

    def _candidate_scores(self, task_ids: Iterable[str]) -> dict[str, dict[str, CandidateScore]]:
        """Score the solutions of tasks with the corpus' embedder.

        Args:
            task_ids: Tasks.

        Returns:
            Score by task id and method. A task is left out while the sandbox failed on one of its solutions.
        """
        run = self.run
        signals = stored_signals(run, run.retrievers)
        found = candidate_texts(run, task_ids)
        embedder = corpora.parse_corpus(run.corpus).embedder
        encoded: list[tuple[float, float]] = []
        if embedder != DEFAULT:  # the signals have the cosines of the default embedder
            triples = [texts for _, _, texts in found]
            encoded = cosines(Embedder(embedder).encode, triples)
        scores: dict[str, dict[str, CandidateScore]] = {}
        for position, (task_id, method, _) in enumerate(found):
            solution_signals = signals[method][task_id]
            cosine, as_printed = solution_signals.cosine, solution_signals.cosine_as_printed
            if encoded:
                cosine, as_printed = encoded[position]
            assert cosine is not None and as_printed is not None
            task_scores = scores.setdefault(task_id, {})
            task_scores[method] = CandidateScore(
                parses=solution_signals.parses,
                runs=solution_signals.runs,
                runs_as_written=solution_signals.runs_as_written,
                cosine=cosine,
                cosine_as_printed=as_printed,
            )
        return scores


def _same_source(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Tell whether contexts of two provenances were retrieved from the same corpus and docstrings."""
    names = ("corpus_digest", "docstrings")
    return all(before.get(name) == now.get(name) for name in names)


def _context_row(context: Context) -> dict[str, Any]:
    """The row of a context as it is stored."""
    row = {}
    for name in Context.__slots__:
        value = getattr(context, name)
        if name in OPTIONAL_FIELDS and value in (None, ""):
            continue
        row[name] = value
    row["score"] = round(context.score, 6)
    return row


def candidate_texts(
    run: Results,
    task_ids: Iterable[str],
) -> list[tuple[str, str, tuple[str, str, str]]]:
    """List what the reranker embeds (Section 3.3).

    Args:
        run: The results with the solutions.
        task_ids: Tasks. A task is left out while the sandbox failed on one of its solutions.

    Returns:
        For each solution the task id, the method, and the texts: the query, the solution as it is, and
        the solution reduced as in the authors' code.
    """
    spec = run.benchmark_spec
    signals = stored_signals(run, run.retrievers)
    solutions = {method: run.solutions(method) for method in run.retrievers}
    found = []
    for task_id in task_ids:
        task = run.tasks_by_id[task_id]
        query = spec.reranking_query(task)
        methods = [method for method in solutions if task_id in solutions[method]]
        if not all(task_id in signals[method] for method in methods):
            continue
        for method in methods:
            solution = solutions[method][task_id]
            program = spec.program(task, solution)
            runs = signals[method][task_id].runs_as_written
            reduced = embedded_text(solution, program, task.entry_point, runs)
            texts = (query, solution, reduced)
            found.append((task_id, method, texts))
    return found
