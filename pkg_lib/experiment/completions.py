"""From tasks to completions for one model, benchmark and corpus. Every stage resumes from its files.

    results/contexts/BENCHMARK/CORPUS/COLUMN.jsonl            what was retrieved, and COLUMN.meta.json: from what
    results/generations/MODEL/BENCHMARK/CORPUS/COLUMN.jsonl   completions (the cache)

None needs no corpus; its files stand under CORPUS = "none" and serve every corpus.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from pkg_lib.core.models import ModelSpec, model_spec, revision_of
from pkg_lib.core.store import read_json, read_rows, results_dir, slug, versions, write_json, write_jsonl
from pkg_lib.core.types import NOTHING, Context, Generation, Request, Task, UserError, digest
from pkg_lib.data import corpora
from pkg_lib.data.benchmarks import benchmark_digest, load_benchmark
from pkg_lib.generation.cache import GenerationCache, generation_key
from pkg_lib.generation.extraction import defines, extract
from pkg_lib.generation.prompts import TEMPLATES
from pkg_lib.retrieval import embed
from pkg_lib.retrieval.columns import columns_of, knowledge_of
from pkg_lib.retrieval.retrievers import CONTEXT_CHARS, Knowledge

# Benchmarks with the same prompts for the same task ids; `mbpp-signature` has the ids of `mbpp` and other prompts.
SAME_PROMPTS = {name: {"mbpp", "mbpp-all"} for name in ("mbpp", "mbpp-all")}
# Decoding parameters of Section 4 (greedy, 512 new tokens); "settled" stops where extraction can no longer change.
DECODING: dict[str, Any] = {"max_new_tokens": 512, "do_sample": False, "dtype": "bfloat16", "stop": "settled"}


@dataclass
class Completions:
    """Names in, records out. `limit` takes the first tasks only; `fresh` computes everything again:
    contexts, completions and verdicts."""

    model: str
    benchmark: str = "humaneval"
    corpus: str = corpora.DEFAULT
    limit: int | None = None
    fresh: bool = False
    results: Path = field(default_factory=results_dir)

    def __post_init__(self) -> None:
        self._contexts: dict[str, list[Context]] = {}
        self.spec: ModelSpec = model_spec(self.model)
        corpora.check_name(self.corpus)
        self.retrievers = columns_of(self.corpus)
        self.tasks: list[Task] = self._load_tasks()

    def _load_tasks(self) -> list[Task]:
        """The benchmark's first `limit` tasks; a limit that takes all of them is none."""
        tasks = load_benchmark(self.benchmark, self.limit)
        if self.limit and len(tasks) < self.limit:
            self.limit = None
        return tasks

    @cached_property
    def knowledge(self) -> Knowledge:
        return knowledge_of(self.corpus)

    @cached_property
    def revision(self) -> str:
        """What stands for the weights; "" where no completion was ever made with this model here."""
        return revision_of(self.spec, self.results)

    @cached_property
    def cache(self) -> GenerationCache:
        cache = GenerationCache(self.results / "generations" / self.model)
        if self.fresh:
            cache.rows.clear()  # The files keep their lines; a completion made again is appended and wins.
        return cache

    def place(self, stage: str, column: str) -> Path:
        """The file of a stage's column, without its suffix."""
        corpus = "none" if column == "None" else slug(self.corpus)
        model = () if stage == "contexts" else (self.model,)
        return Path(stage, *model, self.benchmark, corpus, slug(column))

    def contexts(self, column: str) -> list[Context]:
        """What the column retrieves for each task: stored ones when they cover the tasks, else retrieved now.

        A stored context of a corpus that may not be copied has no text; `completions` then finds its
        completion by the digest of the context.
        """
        found = self.known_contexts(column)
        if len(found) < len(self.tasks):
            self._contexts[column] = found = self._retrieve(column)
        return found

    def known_contexts(self, column: str) -> list[Context]:
        """The column's contexts as far as they are retrieved already, in the order of the tasks; retrieves nothing."""
        if column not in self.retrievers:
            offered = ", ".join(self.retrievers)
            raise UserError(f"unknown column '{column}' for corpus {self.corpus}; choose from: {offered}")
        if column not in self._contexts:
            stored = {} if self.fresh else self.stored_contexts(column)
            self._contexts[column] = [stored[t.id] for t in self.tasks if t.id in stored]
        return self._contexts[column]

    def _retrieve(self, column: str) -> list[Context]:
        found = self.retrievers[column](self.knowledge if column != "None" else None).retrieve(self.tasks)
        found = [
            replace(c, defines_task=defines(c.text, t.entry_point))
            for c, t in zip(found, self.tasks, strict=True)
        ]
        self._store(column, found)
        return found

    def stored_contexts(self, column: str) -> dict[str, Context]:
        """task id -> stored context; none of what a user can change (a tree, a package, a directory) once it has changed."""
        place = self.results / self.place("contexts", column)
        path, meta = place.with_suffix(".jsonl"), place.with_suffix(".meta.json")
        if not path.exists() or (column != "None" and corpora.own(self.corpus) and self._changed(meta)):
            return {}
        rows = read_rows(path, ("task_id", "column", "text", "sha256"))
        return {r["task_id"]: Context(**{k: r[k] for k in Context.__slots__ if k in r}) for r in rows}

    def _changed(self, meta: Path) -> bool:
        """Whether the corpus is another than the one that the stored contexts came from; not where it is gone."""
        try:
            now = corpora.corpus_digest(self.knowledge.documents)
        except UserError:
            return False
        return not meta.exists() or read_json(meta).get("corpus_digest") != now

    def _store(self, column: str, found: list[Context]) -> None:
        """Writes the contexts; a limited run replaces its own tasks' and keeps the others', where they are of one corpus."""
        place = self.results / self.place("contexts", column)
        path, meta, about = (
            place.with_suffix(".jsonl"),
            place.with_suffix(".meta.json"),
            self._provenance(column),
        )
        same = meta.exists() and read_json(meta).get("corpus_digest") == about.get("corpus_digest")
        kept = (
            {r["task_id"]: r for r in read_rows(path, ("task_id",))}
            if self.limit and same and path.exists()
            else {}
        )
        keep_text = column == "None" or corpora.redistributable(self.corpus)
        for c in found:
            row = {k: getattr(c, k) for k in Context.__slots__} | {"score": round(c.score, 6)}
            kept[c.task_id] = row if keep_text or not c.text else row | {"text": None}
        write_jsonl(path, kept.values())
        write_json(meta, about)

    def _provenance(self, column: str) -> dict[str, Any]:
        whole = benchmark_digest(load_benchmark(self.benchmark))
        about: dict[str, Any] = {"column": column, "benchmark": whole, "versions": versions()}
        if column != "None":
            about |= {
                "corpus": self.corpus,
                "corpus_digest": corpora.corpus_digest(self.knowledge.documents),
                "documents": len(self.knowledge.documents),
                "embedder": embed.DEFAULT,
                "context_chars": CONTEXT_CHARS,
            }
        if column.endswith(("-PKG", "-BM25")) and self.corpus != corpora.PUBLISHED:
            graph = self.knowledge.graph
            about["graph"] = {"nodes": len(graph), "edges": graph.edges.num_rows, "skipped": graph.skipped}
        return about

    def prompt(self, task: Task, context: Context) -> str:
        """Format(q, C(q)), Equation 10, before the model's own chat template."""
        return TEMPLATES[self.spec.style](task.prompt, context.text)

    def key(self, prompt: str) -> str:
        """The cache key of a prompt under this model and these decoding parameters."""
        return generation_key(self.model, self.revision, prompt, DECODING | {"style": self.spec.style})

    def unpublished(self, column: str, context: Context) -> bool:
        """Whether the authors published no context for the task. Its prompt would be None's, so the column is not asked."""
        return self.corpus == corpora.PUBLISHED and column != "None" and context.sha256 == NOTHING

    def completions(self, column: str) -> dict[str, Generation]:
        """task id -> cached completion; a task without one is absent (not measured)."""
        found, contexts = {}, [c for c in self.known_contexts(column) if not self.unpublished(column, c)]
        task = {t.id: t for t in self.tasks}
        hidden = self._hidden() if any(c.text is None for c in contexts) else {}
        for c in contexts:
            key = (
                hidden.get((c.task_id, c.sha256))
                if c.text is None
                else self.key(self.prompt(task[c.task_id], c))
            )
            if key in self.cache:
                found[c.task_id] = self.cache[key]
        return found

    def _hidden(self) -> dict[tuple[str, str], str]:
        """Keys by task and context digest, for contexts whose text is not stored; tasks of one prompt share a completion.

        Benchmarks may share task ids and not prompts, so only completions made for this one are looked at.
        """
        wanted, twins, own = self.key(""), self._twins(), SAME_PROMPTS.get(self.benchmark, {self.benchmark})
        rows = (g for key, g in self.cache.rows.items() if self.cache.folders[key] in own)
        same = [g for g in rows if g.meta.get("settings") == wanted]
        return {
            (i, g.meta.get("context_sha256", "")): g.key
            for g in same
            for i in twins.get(g.task_id, (g.task_id,))
        }

    def _twins(self) -> dict[str, list[str]]:
        """task id -> the ids of all tasks with the same prompt, for tasks that are not alone with theirs."""
        by_prompt: dict[str, list[str]] = {}
        for t in load_benchmark(self.benchmark):
            by_prompt.setdefault(t.prompt, []).append(t.id)
        return {i: ids for ids in by_prompt.values() if len(ids) > 1 for i in ids}

    def generate(self, columns: list[str]) -> int:
        """Completes what is missing in the columns and returns how many prompts that was; resumes after any stop."""
        if all(map(self._complete, columns)):
            return 0
        from pkg_lib.core.models import fetch

        # Weights that cannot be had are told before retrieval, which takes minutes.
        self.revision = revision_of(self.spec, self.results, resolve=True)
        weights, missing = fetch(self.model, self.revision), self.missing(columns)
        if missing:
            from pkg_lib.generation.backends import TransformersBackend  # torch is not needed for cached runs

            self.run(TransformersBackend(weights, chat=self.spec.style == "chat"), missing)
        return len(missing)

    def _complete(self, column: str) -> bool:
        """Whether every task has its completion, or needs none, by what is stored; retrieves nothing."""
        have = self.completions(column)
        return len(self.tasks) == sum(
            c.task_id in have or self.unpublished(column, c) for c in self.known_contexts(column)
        )

    def missing(self, columns: list[str]) -> dict[str, tuple[Request, str, dict[str, Any]]]:
        """key -> (request, cache file, what the line records beside the text), for prompts that have no completion."""
        found: dict[str, tuple[Request, str, dict[str, Any]]] = {}
        for column in columns:
            contexts, have = self.contexts(column), self.completions(column)
            if any(
                c.text is None and c.task_id not in have and not self.unpublished(column, c) for c in contexts
            ):
                contexts = self._texts(column, contexts)
            name = str(Path(*self.place("generations", column).parts[2:])) + ".jsonl"
            for task, context in zip(self.tasks, contexts, strict=True):
                if task.id not in have and not self.unpublished(column, context):
                    text = self.prompt(task, context)
                    meta = {
                        "settings": self.key(""),
                        "context_sha256": context.sha256,
                        "prompt_sha256": digest(text),
                    }
                    meta["revision"] = self.revision
                    found.setdefault(self.key(text), (Request(task.id, text, task.entry_point), name, meta))
        return found

    def _texts(self, column: str, stored: list[Context]) -> list[Context]:
        """Retrieves again where stored contexts lack their text; the digests must agree."""
        found = self.retrievers[column](self.knowledge).retrieve(self.tasks)
        changed = [c.task_id for c, s in zip(found, stored, strict=True) if c.sha256 != s.sha256]
        if changed:
            raise UserError(
                f"corpus {self.corpus} retrieves other contexts for {column} than the stored ones ({len(changed)} tasks, "
                f"first {changed[0]}): run with --fresh to replace them"
            )
        return found

    def run(self, backend: Any, missing: dict[str, tuple[Request, str, dict[str, Any]]]) -> None:
        """Feeds the missing requests to a backend and appends each completion to the cache as soon as it is there."""
        keys = {id(request): key for key, (request, _, _) in missing.items()}
        with tqdm(total=len(missing), desc=f"{self.model} on {self.benchmark}", unit="completion") as bar:

            def done(row: Any, raw: str, finish: str) -> None:
                key = keys[id(row.request)]
                _, name, meta = missing[key]
                self.cache.append(
                    name,
                    Generation(key, row.request.task_id, raw, row.tokens, finish, row.prompt_tokens, meta),
                )
                bar.update()

            backend.generate([request for request, _, _ in missing.values()], done)

    def solutions(self, column: str) -> dict[str, str]:
        """task id -> extracted solution of the cached completions."""
        entry = {t.id: t.entry_point for t in self.tasks}
        return {i: extract(g.raw, entry[i]) for i, g in self.completions(column).items()}
