"""The stored contexts and completions of an experiment.

A completion is found by its prompt, where the prompt can be built from the stored context. Otherwise it is
found by the digest of its prompt, or of its context.
"""

import re
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pkg_lib.core.registry import unknown
from pkg_lib.core.store import slug
from pkg_lib.core.types import NOTHING, Context, Generation, Request, Task, UserError
from pkg_lib.data import corpora
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.evaluation.context_validity import find_leaks
from pkg_lib.evaluation.experiment import StoredExperiment
from pkg_lib.evaluation.stored_rows import (
    CONTEXT,
    by_task,
    read_provenance,
    read_verdicts,
)
from pkg_lib.generation.extraction import extract
from pkg_lib.retrieval.enhanced import ENHANCED, stored_docstrings
from pkg_lib.retrieval.methods import (
    NO_RAG,
    RetrieverFactory,
    context_method,
    is_method,
    knowledge_of,
    parse_method,
)


class StoredAnswers(StoredExperiment):
    """An experiment with its contexts and completions, as they are stored."""

    # Contexts

    @cached_property
    def _contexts(self) -> dict[str, list[Context]]:
        """The contexts that were read already, by method."""
        return {}

    @cached_property
    def knowledge(self) -> Any:
        """The knowledge base that the methods retrieve from."""
        if self.benchmark_spec.corpus:
            return self.benchmark_spec.knowledge(self.generator)
        knowledge = knowledge_of(self.corpus)
        knowledge.leak_check = find_leaks
        return knowledge

    def retriever_factory(self, method: str) -> RetrieverFactory:
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
            raise self._unavailable(method)
        name = context_method(method)
        if name not in self._contexts:
            stored = self.stored_contexts(name)
            ids = [task.id for task in self.tasks if task.id in stored]
            self._contexts[name] = [stored[task_id] for task_id in ids]
        return self._contexts[name]

    def contexts_by_task(self, method: str) -> dict[str, Context]:
        """Read a method's stored contexts.

        Args:
            method: A method that the corpus offers.

        Returns:
            Context by task id, for the tasks of this experiment.
        """
        return {context.task_id: context for context in self.contexts(method)}

    def _unavailable(self, method: str) -> UserError:
        """Return the error that says why a method is not offered."""
        if is_method(method):
            obstacle = self.prompt_obstacle(parse_method(method))
            if obstacle:
                return UserError(f"method '{method}' is not available: {obstacle}")
        return unknown("method", method, self.retrievers, f"for corpus {self.corpus}")

    def stored_contexts(self, method: str) -> dict[str, Context]:
        """Read the contexts of all tasks of the benchmark.

        Contexts of a user-supplied corpus are left out once the corpus, its embedder, or the tokenizer of
        its BM25 has changed. Contexts of enhanced functions are left out once their docstrings have changed.

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
        """Tell whether the source of the stored contexts has changed since they were retrieved."""
        provenance = read_provenance(self.files(method).provenance)
        if method == ENHANCED and self._docstrings_changed(provenance):
            return True
        if method == NO_RAG or not corpora.own(self.corpus):
            return False
        with suppress(UserError):  # stored contexts remain readable without the corpus
            current_digest = corpora.corpus_digest(self.knowledge.documents)
            if provenance.get("corpus_digest") != current_digest:
                return True
        if is_method(method) and parse_method(method).by_words:
            tokenizer = provenance.get("tokenizer", corpora.ASCII)
            return bool(tokenizer != corpora.tokenizer_of(self.corpus))
        embedder = corpora.parse_corpus(self.corpus).embedder
        return bool(provenance.get("embedder", embedder) != embedder)

    def _docstrings_changed(self, provenance: dict[str, Any]) -> bool:
        """Tell whether functions were enhanced with other docstrings than the stored ones."""
        documents = corpora.parse_corpus(self.corpus).documents
        try:
            current = stored_docstrings(documents).sha256
        except UserError:
            return False  # stored contexts remain readable without the docstrings
        docstrings = provenance.get("docstrings")
        if not isinstance(docstrings, dict):
            return True
        return docstrings.get("sha256") != current

    def lacks_published_context(self, method: str, context: Context) -> bool:
        """Tell whether the authors published no context for a task, so that it is not measured.

        Args:
            method: A method.
            context: Its context for the task.
        """
        if self.corpus != corpora.PUBLISHED or context_method(method) == NO_RAG:
            return False
        return context.sha256 == NOTHING

    def with_text(self, context: Context) -> Context:
        """Return a context with its text, also if the text may not be stored.

        Args:
            context: A stored context.

        Returns:
            The context. A text that the authors published is read from their data where this
            machine has them; otherwise, the text stays None.
        """
        if context.text is not None or self.corpus != corpora.PUBLISHED:
            return context
        text = self._published_texts.get(context.source)
        found = replace(context, text=text)
        return found if found.sha256 == context.sha256 else context

    @cached_property
    def _published_texts(self) -> dict[str, str]:
        """The texts that the authors published, by document; none without their data."""
        with suppress(UserError):
            return {document.id: document.text for document in self.knowledge.documents}
        return {}

    # Prompts

    def settings(self, method: str) -> str:
        """Return a digest of how a method prompts: model, revision, decoding, sample and prompt variant.

        Args:
            method: A method.
        """
        spec = parse_method(method)
        generator = self.generator_of(method)
        return generator.key(spec.prompt_variant, spec.sampling.sample)

    def request(self, task: Task, context: Context, method: str) -> Request:
        """Build the prompt of a task: Format(q, C(q)) of Equation 10, before the model's chat template.

        Args:
            task: The task.
            context: Its context.
            method: The method, which decides the prompt style and variant.

        Returns:
            The prompt, and how it is sent.
        """
        spec = parse_method(method)
        style = self.prompt_style(spec)
        measure = self.generator.measure
        prompt = self.benchmark_spec.prompt(task, context.text or "", style, measure)
        return Request(
            task.id,
            prompt,
            task.entry_point,
            spec.sampling.sample,
            as_it_is=bool(spec.style) and not spec.in_chat,
            whole_answer=bool(spec.style),
        )

    # Completions

    def completions(self, method: str) -> dict[str, Generation]:
        """Read the stored completions of a method.

        Args:
            method: A method that the corpus offers.

        Returns:
            Completion by task id; a task without one is left out.

        Raises:
            DamagedFileError: The file of completions cannot be read.
        """
        cache = self.generator.cache
        cache.require(self.files(method).completions)
        contexts = [c for c in self.contexts(method) if not self.lacks_published_context(method, c)]
        if self.benchmark_spec.in_tokens:
            find = self._completions_by_prompt_digest
        elif self.tasks_absent or any(context.text is None for context in contexts):
            find = self._completions_by_context_digest
        else:
            find = self._completions_by_prompt
        found = find(method, contexts)
        return {task_id: answer for task_id, answer in found.items() if answer is not None}

    def _completions_by_prompt(
        self,
        method: str,
        contexts: list[Context],
    ) -> dict[str, Generation | None]:
        """Find completions by the prompts that the contexts give."""
        generator = self.generator_of(method)
        found = {}
        for context in contexts:
            task = self.tasks_by_id[context.task_id]
            request = self.request(task, context, method)
            completion = generator.stored(request.text, request.sample)
            found[task.id] = completion
        return found

    def _completions_by_prompt_digest(
        self,
        method: str,
        contexts: list[Context],
    ) -> dict[str, Generation | None]:
        """Find completions of prompts that cannot be rebuilt without the model's tokenizer.

        A context that was taken from an earlier round has the completion of that round.
        """
        stored = self.generator.cache.by_prompt()
        source = context_method(method)
        found = {}
        for context in contexts:
            prompting_method = method if context.method == source else context.method
            settings = self.settings(prompting_method)
            completion = stored.get((context.prompt_sha256, settings))
            if not completion:
                completion = stored.get((context.prompt_sha256, None))
            found[context.task_id] = completion
        return found

    def _completions_by_context_digest(
        self,
        method: str,
        contexts: list[Context],
    ) -> dict[str, Generation | None]:
        """Find completions if the tasks, or the texts of contexts, are not available."""
        stored = self._completions_by_context(self.settings(method))
        generator = self.generator_of(method)
        tasks = {}
        solutions = {}
        if self.tasks_absent:
            solutions = self.stored_solutions(method)
        else:
            tasks = self.tasks_by_id
        found: dict[str, Generation | None] = {}
        for context in contexts:
            task_id = context.task_id
            if task_id in tasks and context.text is not None:
                request = self.request(tasks[task_id], context, method)
                completion = generator.stored(request.text, request.sample)
            else:
                completion = stored.get((task_id, context.sha256))
            if completion is None and task_id in solutions:
                candidates = []
                for (_, sha256), candidate in stored.items():
                    if sha256 == context.sha256:
                        candidates.append(candidate)
                completion = self._completion_of_solution(solutions[task_id], candidates)
            found[task_id] = completion
        return found

    def _completions_by_context(self, settings: str) -> dict[tuple[str, str], Generation]:
        """Return completions with these settings by task id and digest of the context.

        Two benchmarks may have the same task ids with different prompts, so only files of benchmarks with
        the same prompts are searched. Tasks of one prompt share a completion.
        """
        cache = self.generator.cache
        # Most methods have the same settings, and a cache only grows: its size is its version.
        version = (settings, len(cache.rows))
        if version in self._found_by_context:
            return self._found_by_context[version]
        files = self._files_with_same_prompts()
        found: dict[tuple[str, str], Generation] = {}
        for key, completion in cache.rows.items():
            if cache.files[key] not in files:
                continue
            if completion.meta.get("settings") != settings:
                continue
            context_sha256 = completion.meta.get("context_sha256", "")
            task_id = completion.task_id
            for same_prompt_id in self._tasks_of_same_prompt.get(task_id, [task_id]):
                found[same_prompt_id, context_sha256] = completion
        self._found_by_context = {version: found}
        return found

    def _files_with_same_prompts(self) -> set[Path]:
        """Return the files of completions of the benchmarks that have this benchmark's prompts."""
        cache = self.generator.cache
        folders = set()
        for benchmark in BENCHMARKS.values():
            if benchmark.prompts == self.benchmark_spec.prompts:
                folders.add(cache.root / slug(benchmark.name))
        found = set()
        for file in set(cache.files.values()):
            if not folders.isdisjoint(file.parents):
                found.add(file)
        return found

    @cached_property
    def _found_by_context(self) -> dict[tuple[str, int], dict[tuple[str, str], Generation]]:
        """The last result of `_completions_by_context`, by its settings and the cache's size."""
        return {}

    @cached_property
    def _tasks_of_same_prompt(self) -> dict[str, list[str]]:
        """Ids of the tasks that share a task's prompt, itself among them, by task id."""
        if self.tasks_absent:
            return {}
        by_prompt: dict[str, list[str]] = {}
        by_task_id = {}
        for task in load_benchmark(self.benchmark):
            same_prompt = by_prompt.setdefault(task.prompt, [])
            same_prompt.append(task.id)
            by_task_id[task.id] = same_prompt
        return by_task_id

    def _completion_of_solution(
        self,
        solution: str,
        completions: list[Generation],
    ) -> Generation | None:
        """Find the completion that gave a solution, of a task that shares its prompt.

        None is returned if several completions fit.
        """
        names = re.findall(r"def\s+(\w+)", solution) or [""]
        starts_program = self.benchmark_spec.starts_program
        fitting = {}
        for completion in completions:
            for name in names:
                if extract(completion.raw, name, starts_program) == solution:
                    fitting[completion.key] = completion
        if len(fitting) != 1:
            return None
        return next(iter(fitting.values()))

    def stored_solutions(self, method: str) -> dict[str, str]:
        """Read the solutions that the stored verdicts are on, without a check against the completions.

        Args:
            method: A method that the corpus offers.

        Returns:
            Solution by task id; none for a task whose completion is not stored any more.
        """
        rows = read_verdicts(self.files(method).samples, self.generator.cache.rows)
        solutions = {}
        for task in self.tasks:
            if task.id in rows and rows[task.id]["solution"] is not None:
                solutions[task.id] = rows[task.id]["solution"]
        return solutions
