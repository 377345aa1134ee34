"""Completions of functions, column by column, and their verdicts; a stopped run goes on where it was.

Greedy decoding, one sample (the paper samples once at temperature 0.2), at most MAX_NEW_TOKENS new tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import cache, cached_property
from typing import Any

from tqdm.auto import tqdm

from pkg_lib.core.models import model_spec
from pkg_lib.core.store import write_json, write_jsonl
from pkg_lib.core.types import Generation, Outcome, Request, UserError, digest
from pkg_lib.data.code_match import match
from pkg_lib.data.repoeval import RepoTask
from pkg_lib.generation.cache import GenerationCache
from pkg_lib.generation.generator import Decoding, Generator, Prompt
from pkg_lib.papers.cast import body_prompts
from pkg_lib.papers.cast.context_columns import CHUNKERS, chunked, column, masked, retrieve
from pkg_lib.papers.cast.function_benchmarks import FunctionBenchmark, slug_of, without_seconds
from pkg_lib.retrieval.chunks import make_ranker

DECODING = {"max_new_tokens": body_prompts.MAX_NEW_TOKENS, "do_sample": False, "dtype": "bfloat16"}
_STOPS = {"plain": ("body ended", body_prompts.ended), "chat": ("first block closed", body_prompts.settled)}
STYLES = {
    style: Decoding(DECODING | {"stop": name, "style": style}, stop, 16, chat=style == "chat")
    for style, (name, stop) in _STOPS.items()
}
BUDGETS = {"context_tokens": body_prompts.CONTEXT_TOKENS, "left_tokens": body_prompts.LEFT_TOKENS}
NO_BODY = Outcome("failed", "ExtractionFailure", "the answer holds no body")


class FunctionCompletions:
    """What a model makes of a benchmark's functions; of the first `limit` of each repository, or of all.

    UserError for an unknown model or a limit below 1.
    """

    def __init__(self, benchmark: FunctionBenchmark, model: str, limit: int | None = None) -> None:
        if limit is not None and limit < 1:
            raise UserError(f"limit is {limit}; give 1 or more tasks")
        self.benchmark, self.model, self.limit = benchmark, model, limit
        cache_of_model = GenerationCache(benchmark.home / "generations" / model_spec(model).name)
        self.generators = {
            style: Generator(model, how, cache_of_model, benchmark.results) for style, how in STYLES.items()
        }
        self.ranker, self.files = cache(make_ranker), cache(benchmark.files)
        self.chunks = cache(lambda repository, name: chunked(CHUNKERS[name], self.files(repository)))

    @cached_property
    def tasks(self) -> dict[str, list[RepoTask]]:
        return self.benchmark.tasks()

    @cached_property
    def measure(self) -> Callable[[str], int]:
        """A text's length in the model's tokens."""
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(self.generators["plain"].weights())
        return lambda text: len(tokenizer(text, add_special_tokens=False)["input_ids"])

    def generator(self, name: str) -> Generator:
        """What completes a column. UserError where that is for chat models and this is none."""
        generator = self.generators["chat" if column(name).chat else "plain"]
        if column(name).chat and generator.spec.style != "chat":
            how = f"{self.model} is prompted as {generator.spec.style}"
            raise UserError(f"column '{name}' is for chat models, and {how}")
        return generator

    def prompts(self, name: str) -> dict[str, str]:
        """Task -> the user's turn of the column; what it holds is stored in contexts/."""
        prompts, rows = {}, []
        for repository, tasks in self.tasks.items():
            for task in tqdm(tasks, desc=f"{name}: contexts from {repository}", unit="task"):
                context, about = self._context(repository, task, name)
                left = body_prompts.left_context(task, self.measure)
                prompts[task.id] = body_prompts.prompt(task, left, context, column(name).chat)
                rows.append({"task_id": task.id, **about, "prompt_sha256": digest(prompts[task.id])})
        write_jsonl(self.benchmark.context_file(name), rows)
        return prompts

    def _context(self, repository: str, task: RepoTask, name: str) -> tuple[str, dict[str, Any]]:
        about = column(name)
        if not about.chunking:
            return "", {"chunks": [], "tokens": 0, "holds_body": False}
        chunks = self.chunks(repository, about.chunking)
        best = retrieve(task, masked(task, chunks) if about.masked else chunks, self.ranker(about.ranker))
        text, used = body_prompts.context_text(best, self.measure)
        first, last = task.gold
        holds = any(c.document == task.path and c.first <= last and c.last >= first for c in used)
        chunks_used = {"chunks": [c.source for c in used], "tokens": self.measure(text)}
        return text, chunks_used | {"holds_body": holds and not about.masked}

    def complete(self, name: str) -> int:
        """Completes what lacks a completion and returns how many prompts that was."""
        generator, ids = self.generator(name), self.benchmark.ids(self.limit)
        made_so = self.benchmark.meta(f"contexts/{slug_of(name)}") == self.about(name)
        if made_so and ids <= self.stored(name).keys():
            return 0
        texts, file = self.prompts(name), f"{slug_of(name)}.jsonl"
        prompts = [Prompt(Request(i, text, ""), file) for i, text in texts.items() if i in ids]
        count = generator.complete(prompts, name)
        write_json(self.benchmark.context_file(name).with_suffix(".meta.json"), self.about(name))
        return count

    def stored(self, name: str) -> dict[str, Generation]:
        """Task -> the stored completion of the very prompt that the column's context gave."""
        by_prompt = {g.meta.get("prompt_sha256"): g for g in self.generators["plain"].cache.rows.values()}
        rows = self.benchmark.contexts(name)
        return {r["task_id"]: by_prompt[r["prompt_sha256"]] for r in rows if r["prompt_sha256"] in by_prompt}

    def about(self, name: str) -> dict[str, Any]:
        """What the column's prompts and completions are made with."""
        generator, budgets = self.generator(name), {"budgets": BUDGETS, "tasks": self.benchmark.state}
        about = {"model": self.model, "revision": generator.revision, "decoding": DECODING}
        return about | {"style": generator.decoding.parameters["style"]} | budgets

    def judge(self, name: str) -> int:
        """Judges the completions of a column whose verdict is not stored; returns how many that was.

        A task without a completion is in no row. The measures against the reference are always made anew.
        """
        completions, known = self.stored(name), self.benchmark.verdicts(self.model, name)
        body_of = body_prompts.extract_body if column(name).chat else body_prompts.continued_body
        rows, judged = [], 0
        for repository, tasks in self.tasks.items() if completions else ():
            bodies = {t.id: body_of(completions[t.id].raw, t) for t in tasks if t.id in completions}
            new = [t for t in tasks if t.id in bodies and not _same(known.get(t.id), bodies[t.id])]
            outcomes = {t.id: NO_BODY for t in new if not bodies[t.id]}
            samples = [(t, bodies[t.id]) for t in new if bodies[t.id]]
            if samples:
                verdicts = self.benchmark.outcomes(repository, samples)
                outcomes |= {t.id: outcome for (t, _), outcome in zip(samples, verdicts, strict=True)}
            judged += len(new)
            for task in (t for t in tasks if t.id in bodies):
                row = known.get(task.id, {})
                if task.id in outcomes:
                    row = _row(task, bodies[task.id], completions[task.id], outcomes[task.id])
                measures = asdict(match(bodies[task.id], task.ground_truth))
                rows.append(row | {k: round(v, 6) for k, v in measures.items()})
        if rows:
            self.benchmark.save_verdicts(self.model, name, rows)
        return judged


def _same(row: dict[str, Any] | None, body: str) -> bool:
    return row is not None and row["body_sha256"] == digest(body) and row["status"] != "not_measured"


def _row(task: RepoTask, body: str, completion: Generation, outcome: Outcome) -> dict[str, Any]:
    size = {"tokens": len(completion.tokens), "prompt_tokens": completion.prompt_tokens}
    about = {"finish": completion.finish, **size, "body_sha256": digest(body)}
    return {"task_id": task.id, **without_seconds(outcome), **about}
