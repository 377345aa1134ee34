"""Makes what a run lacks, and alone does so: contexts, completions, verdicts, selections, control rows.

Every stage resumes from its files; a stored verdict stands for the very same solution, tests and protocol.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from pkg_lib.core.locks import writing
from pkg_lib.core.store import ROWS, versions, write_json, write_jsonl
from pkg_lib.core.types import (
    NOTHING,
    BenchmarkMissing,
    Context,
    NotAtHand,
    Outcome,
    Task,
    UserError,
    digest,
)
from pkg_lib.data import corpora
from pkg_lib.data.benchmark import tasks_digest
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.execution.batches import run_with_limits
from pkg_lib.execution.sandbox import Job
from pkg_lib.experiment.context_validity import check_contexts, renamed_reference
from pkg_lib.experiment.evidence import SHOWN, asked_of, encode, prepare_evidence
from pkg_lib.experiment.reranking import choose, choose_as_printed, cosine_scores, embedded_text
from pkg_lib.experiment.run import (
    AUTHORS_EXTRACTION,
    LEAKAGE,
    VERDICT,
    Run,
    by_task,
    read_provenance,
    verdict_series,
)
from pkg_lib.generation.extraction import defines
from pkg_lib.generation.generator import Backend, Generator, Prompt
from pkg_lib.graph.code import is_python
from pkg_lib.retrieval.columns import column_of, contexts_of, stages
from pkg_lib.retrieval.embed import Embedder

OPTIONAL = ("tokens", "prompt_sha256", "query", "spent", "recall")  # fields that few contexts have
Choosing = dict[str, tuple[Task, dict[str, str], str]]  # as of Run.selection_marks


class Preparer:
    """Prepares a run. `fresh` makes contexts, completions and verdicts again, whatever is stored.

    A completion made again is appended and wins. UserError where weights, corpus or tasks cannot be had.
    """

    def __init__(self, run: Run, fresh: bool = False, backend: Backend | None = None) -> None:
        self.run, self.fresh = run, fresh
        self._retrieved: dict[str, list[Context]] = {}
        if fresh:
            if run.tasks_absent:
                raise BenchmarkMissing(run.tasks_absent)
            run.generator.cache.clear()
        if backend is not None:
            run.generator.backend = backend

    def prepare(self, columns: list[str]) -> int:
        """Make what the columns lack, and judge all their completions.

        Args:
            columns: Names of columns.

        Returns:
            How many completions were made.

        Raises:
            UserError: Something that is needed is not available, or another run is writing to the results.
        """
        if self.run.tasks_absent:
            return 0
        with writing(self.run.results):
            return self._prepare(columns)

    def _prepare(self, columns: list[str]) -> int:
        run = self.run
        count = self.generate(columns)
        for column in dict.fromkeys([*run.retrievers, *columns]):
            self._judge(run.file("evaluations", column), run.solutions(column), run.rules.job)
            if column_of(column).style:
                file = run.file("evaluations", column, AUTHORS_EXTRACTION)
                self._judge(file, run.authors_solutions(column), run.rules.job)
        if run.rules.selects:
            self._rerank()
            for column in dict.fromkeys(contexts_of(c) for c in [*run.retrievers, *columns]):
                self._judge_contexts(column)
            asked = {c: run.file("evaluations", c) for c in [*run.retrievers, *columns]}
            solutions = {c: run.solutions(c) for c in asked}
            passed = {c: verdict_series(run.outcomes(c)) for c in asked}
            prepare_evidence(run.rules, run.tasks, solutions, passed, asked)
            shown = {c: run.file("evaluations", c, SHOWN) for c in asked}
            encode(run.rules, asked_of(run.tasks), solutions, shown)
        for name in run.rules.controls:
            self._judge(run.control_file(name), run.control_solutions(name), run.rules.control_job)
        self.fresh = False  # from here on what is stored is what was made now
        return count

    def missing(self, column: str) -> Iterator[tuple[Task, Context | None]]:
        """Tasks that lack a completion, with their context; None where none is retrieved yet."""
        if self.run.tasks_absent:
            return
        contexts, have = {c.task_id: c for c in self._known(column)}, self.run.completions(column)
        for task in self.run.tasks:
            bare = contexts_of(column) == "None"
            context = Context(task.id, "None", "") if bare else contexts.get(task.id)
            if task.id not in have and not (context and self.run.unpublished(column, context)):
                yield task, context

    def lacks(self, columns: list[str]) -> bool:
        """Whether one of the columns lacks a completion."""
        return any(True for c in columns for _ in self.missing(c))

    def generate(self, columns: list[str]) -> int:
        """Completes what the columns lack; returns how many prompts that was. Resumes after any stop."""
        if not self.lacks(columns):
            return 0
        if (generator := self.run.generator).backend is None:
            # Before retrieval, which takes minutes: weights or a key may not be at hand.
            (generator.loaded if generator.spec.endpoint else generator.weights)()
        count = 0
        for together in stages(columns):
            by_decoding: dict[str, tuple[Generator, list[Prompt]]] = {}
            for column in together:
                generator = self.run.generator_of(column)
                by_decoding.setdefault(generator.key(""), (generator, []))[1].extend(
                    self.prompts(column)
                )
            count += sum(g.complete(p, f"on {self.run.benchmark}") for g, p in by_decoding.values())
        return count

    def prompts(self, column: str) -> list[Prompt]:
        """The column's prompts that have no completion; retrieves what is not retrieved yet."""
        run, contexts = self.run, self.contexts(column)
        todo = {task.id: task for task, _ in self.missing(column)}
        if any(c.text is None for c in contexts if c.task_id in todo):
            contexts = self._with_texts(column, contexts)
        file = str(run.file("generations", column).relative_to(run.generator.cache.root))
        prompts = []
        for task, c in ((todo[c.task_id], c) for c in contexts if c.task_id in todo):
            about = {"settings": run.settings(column), "context_sha256": c.sha256}
            prompts.append(Prompt(run.request(task, c, column), file, about))
        return prompts

    # Contexts

    def contexts(self, column: str) -> list[Context]:
        """What the column retrieves for each task: stored where that covers all, else retrieved now."""
        known = self._known(column)
        return known if len(known) == len(self.run.tasks) else self._retrieve(column)

    def _known(self, column: str) -> list[Context]:
        contexts = self.run.contexts(column)  # names an unknown column
        return self._retrieved.get(contexts_of(column), []) if self.fresh else contexts

    def _retrieve(self, column: str) -> list[Context]:
        run = self.run
        column = contexts_of(column)
        if below := run.rules.stored_with:
            how = f"complete benchmark {below} on corpus {run.corpus} first"
            raise NotAtHand(
                f"{run.benchmark} has the contexts of {below}, which lacks {column}'s: {how}"
            )
        retriever = run.maker(column)(run.knowledge if column != "None" else None)
        contexts = []
        for task, context in zip(run.tasks, retriever.retrieve(run.tasks), strict=True):
            if context.defines_task is None:
                context = replace(context, defines_task=defines(context.text, task.entry_point))
            if run.rules.in_tokens and context.text is not None:
                tokens, asked = (
                    run.generator.measure(context.text),
                    run.request(task, context, column),
                )
                context = replace(context, tokens=tokens, prompt_sha256=digest(asked.text))
            contexts.append(context)
        pruning = {"pruning": retriever.pruning} if getattr(retriever, "pruning", "") else {}
        self._store(column, contexts, pruning | getattr(retriever, "about", {}))
        self._retrieved[column] = run._contexts[column] = contexts
        return contexts

    def _with_texts(self, column: str, stored: list[Context]) -> list[Context]:
        """Retrieves again where stored contexts lack their text; the digests must agree."""
        contexts = self.run.maker(column)(self.run.knowledge).retrieve(self.run.tasks)
        changed = [c.task_id for c, s in zip(contexts, stored, strict=True) if c.sha256 != s.sha256]
        if changed:
            about = f"than the stored ones ({len(changed)} tasks, first {changed[0]})"
            other = f"corpus {self.run.corpus} retrieves other contexts for {column} {about}"
            raise UserError(f"{other}: run with --fresh to replace them")
        return contexts

    def _store(self, column: str, contexts: list[Context], of_retriever: dict[str, Any]) -> None:
        """Writes the contexts; a part of a run keeps those of other tasks, where they are of this corpus."""
        path, meta = (self.run.file("contexts", column, suffix) for suffix in ("", ".meta.json"))
        about = self._provenance(column) | of_retriever
        before = read_provenance(meta)
        same = bool(before) and all(
            before.get(n) == about.get(n) for n in ("corpus_digest", "docstrings")
        )
        rows = by_task(path) if (self.run.limit or self.run.shard[1] > 1) and same else {}
        with_text = column == "None" or corpora.redistributable(self.run.corpus)
        for c in contexts:
            row = {k: getattr(c, k) for k in Context.__slots__} | {"score": round(c.score, 6)}
            row = {k: v for k, v in row.items() if k not in OPTIONAL or v not in (None, "")}
            rows[c.task_id] = row if with_text or not c.text else row | {"text": None}
        write_jsonl(path, rows.values())
        write_json(meta, about)

    def _provenance(self, column: str) -> dict[str, Any]:
        whole = tasks_digest(load_benchmark(self.run.benchmark))
        about: dict[str, Any] = {"column": column, "benchmark": whole, "versions": versions()}
        if self.run.rules.in_tokens:
            about |= {
                "revision": self.run.generator.revision,
                "budgets": dict(self.run.rules.budgets),
            }
        if column == "None" or self.run.rules.corpus:
            return about
        documents = self.run.knowledge.documents
        about |= {"corpus": self.run.corpus, "corpus_digest": corpora.corpus_digest(documents)}
        how, revision = corpora.retrieval(self.run.corpus)[1], self.run.knowledge.embedder.revision
        about |= {"documents": len(documents), "embedder": how.embedder, "context_chars": how.chars}
        about |= (
            {"top": how.top, "embedder_revision": revision} if how != corpora.Retrieval() else {}
        )
        if (tokenizer := corpora.tokenizer_of(self.run.corpus)) != corpora.ASCII:
            about["tokenizer"] = tokenizer
        if revisions := corpora.hub_revisions(self.run.corpus):
            about["data_sets"] = revisions
        if (
            column.partition(", ")[0].endswith(("-PKG", "-BM25"))
            and self.run.corpus != corpora.PUBLISHED
        ):
            graph = self.run.knowledge.graph
            about["graph"] = {
                "nodes": len(graph),
                "edges": graph.edges.num_rows,
                "skipped": graph.skipped,
            }
        return about

    def _judge_contexts(self, column: str) -> None:
        """Runs the contexts as solutions; texts that are not stored are retrieved again, once."""
        run, path = self.run, self.run.file("contexts", column, LEAKAGE)
        control, contexts = column == "None", self._known(column)
        known, rows = {} if self.fresh else run.leakage(column), by_task(path)
        marks = {c.task_id: c.sha256 for c in contexts if control or c.sha256 != NOTHING}
        marks = {i: sha256 for i, sha256 in marks.items() if i not in known}
        changed = len(known) < len(rows)  # some rows are of contexts that were there before
        if any(c.text is None for c in contexts if c.task_id in marks) and (changed or not rows):
            with suppress(UserError):
                contexts = run.maker(column)(run.knowledge).retrieve(run.tasks)
        texts = {
            c.task_id: c.text
            for c in contexts
            if c.text is not None and marks.get(c.task_id) == c.sha256
        }
        tasks = [t for t in run.tasks if t.id in texts]
        if tasks:
            pairs = [(t, renamed_reference(t) if control else texts[t.id]) for t in tasks]
            rows = {i: row for i, row in rows.items() if i in known}
            for task, leak in zip(tasks, check_contexts(pairs, control), strict=True):
                about = {"task_id": task.id, "sha256": run.verdict_mark(task, marks[task.id])}
                rows[task.id] = asdict(leak) | about
            self._write(path, rows)

    # Verdicts

    def _judge(
        self, path: Path, solutions: dict[str, str], job: Callable[[Task, str, str], Job | Outcome]
    ) -> None:
        """Executes the solutions whose verdicts do not stand in the file, and stores them there."""
        run = self.run
        # A fault of the harness is no verdict: it is tried again at the next run.
        current = {} if self.fresh else run.current_verdicts(path, solutions)
        known = {i for i, row in current.items() if row["status"] != "not_measured"}
        todo = [t for t in run.tasks if t.id in solutions and t.id not in known]
        if not todo:
            return
        rows = by_task(path, VERDICT)
        outcomes = self._execute(
            path.name.removesuffix(ROWS), [(t, job(t, solutions[t.id], run.protocol)) for t in todo]
        )
        for task, outcome in zip(todo, outcomes, strict=True):
            row = {k: getattr(outcome, k) for k in Outcome.__slots__} | {
                "seconds": round(outcome.seconds, 2)
            }
            row |= {k: round(v, 6) for k, v in run.rules.measures(task, solutions[task.id]).items()}
            mark = run.verdict_mark(task, solutions[task.id])
            rows[task.id] = row | {
                "task_id": task.id,
                "solution": solutions[task.id],
                "sha256": mark,
            }
        self._write(path, rows)

    def _write(self, path: Path, rows: dict[str, dict[str, Any]]) -> None:
        """Writes rows by task id, in the order of this run's tasks, then those of others."""
        order = [t.id for t in self.run.tasks if t.id in rows]
        write_jsonl(path, (rows[i] for i in dict.fromkeys([*order, *rows])))

    def _execute(self, what: str, jobs: list[tuple[Task, Job | Outcome]]) -> list[Outcome]:
        """The outcomes in order; jobs of the same limits run together."""
        to_run = [(job, self.run.rules.limits(task)) for task, job in jobs if isinstance(job, Job)]
        with tqdm(
            total=len(to_run), desc=f"executing {what}", unit="sample", disable=len(jobs) < 20
        ) as bar:
            judged = iter(run_with_limits(to_run, progress=lambda _: bar.update()))
        return [next(judged) if isinstance(job, Job) else job for _, job in jobs]

    def _rerank(self) -> None:
        """Chooses where the solutions are others than when it was last chosen."""
        run, file = self.run, self.run.file("evaluations", "candidates", ".json")
        candidates = list(run.retrievers) if self.fresh else run.candidates
        known = {} if self.fresh else run.selections()
        todo = {i: about for i, about in run.selection_marks(candidates).items() if i not in known}
        if todo or (known and not file.exists()):
            write_json(file, {"columns": candidates})
        if not todo:
            return
        path = run.file("evaluations", "reranked")
        self._write(
            path, by_task(path) | {row["task_id"]: row for row in self._chosen(todo, candidates)}
        )

    def _chosen(self, todo: Choosing, candidates: list[str]) -> Iterator[dict[str, Any]]:
        programs = {
            (t.id, s): (t, self.run.rules.sanity_job(t, s))
            for t, of, _ in todo.values()
            for s in of.values()
        }
        outcomes = self._execute("runtime sanity", list(programs.values()))
        runs = {key: o.status == "passed" for key, o in zip(programs, outcomes, strict=True)}
        texts: dict[str, list[str]] = {}
        checks: dict[str, list[tuple[bool, bool]]] = {}
        for task, solutions, _ in todo.values():
            texts[task.id], checks[task.id] = [], []
            for solution in solutions.values():
                program = self.run.rules.program(task, solution)
                ran = runs[task.id, solution]
                checks[task.id].append((is_python(program), ran))
                texts[task.id].append(embedded_text(solution, program, task.entry_point, ran))
        encode = Embedder(corpora.retrieval(self.run.corpus)[1].embedder).encode
        # All at once, since a batch costs far less than its texts one by one; below they come from the cache.
        encode([x for t, of, _ in todo.values() for x in (t.prompt, *texts[t.id], *of.values())])
        bar = tqdm(todo.values(), desc="reranking", unit="task", disable=len(todo) < 20)
        for task, solutions, mark in bar:
            scored = cosine_scores(
                encode, task.prompt, list(solutions.values()), texts[task.id], checks[task.id]
            )
            scores = dict(zip(solutions, scored, strict=True))
            eligible = {c: score for c, score in scores.items() if c in candidates}
            yield {
                "task_id": task.id,
                "chosen": choose(eligible),
                "chosen_as_printed": choose_as_printed(eligible),
                "candidates": {c: asdict(score) for c, score in scores.items()},
                "sha256": mark,
            }
