"""Completions of the repository tasks, column by column; a stopped run goes on where it was.

Greedy decoding, one sample (the paper samples once at temperature 0.2), at most MAX_NEW_TOKENS new tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from pkg_lib.chunking.chunker import Chunk
from pkg_lib.core.models import fetch, model_spec, revision_of
from pkg_lib.core.store import read_rows, write_json, write_jsonl
from pkg_lib.core.types import Generation, Request, UserError, digest
from pkg_lib.data.functions import read_package
from pkg_lib.data.packages import named
from pkg_lib.data.repoeval import RepoTask
from pkg_lib.generation.cache import GenerationCache, generation_key
from pkg_lib.papers.cast import cast_prompts as prompts
from pkg_lib.papers.cast import cast_store as store
from pkg_lib.papers.cast.cast_columns import CHUNKERS, chunked, column, masked, retrieve
from pkg_lib.retrieval.chunks import Ranker, make_ranker

SLOTS = 16
DECODING: dict[str, Any] = {"max_new_tokens": prompts.MAX_NEW_TOKENS, "do_sample": False, "dtype": "bfloat16"}
STOP = {"plain": ("body ended", prompts.ended), "chat": ("first block closed", prompts.settled)}
BUDGETS = {"context_tokens": prompts.CONTEXT_TOKENS, "left_tokens": prompts.LEFT_TOKENS}


def check_limit(limit: int | None) -> None:
    """UserError for a limit that leaves no task; None is all of them."""
    if limit is not None and limit < 1:
        raise UserError(f"limit is {limit}; give 1 or more tasks of each package")


class Completing:
    """The stored tasks, a model by name, and the completions of the columns.

    `limit` completes so many tasks of each package, in the order of the digest of their ids: a spread part of all, which a
    greater limit continues. UserError for an unknown model or a limit below 1.
    """

    def __init__(self, results: Path, model: str, limit: int | None = None) -> None:
        check_limit(limit)
        self.results, self.model, self.spec, self.limit = results, model, model_spec(model), limit
        self.revision = revision_of(self.spec, results)
        self.cache = GenerationCache(store.home(results) / "generations" / model)
        self._rankers: dict[str, Ranker] = {}
        self._chunks: dict[tuple[str, str], list[Chunk]] = {}

    @cached_property
    def tasks(self) -> dict[str, list[RepoTask]]:
        """Package -> its tasks, from its source archive."""
        return store.load_tasks(self.results)

    @cached_property
    def weights(self) -> Path:
        """The model's directory, asked for where a prompt without a completion is to be made."""
        self.revision = revision_of(self.spec, self.results, resolve=True)
        return fetch(self.model, self.revision)

    @cached_property
    def measure(self) -> Callable[[str], int]:
        """A text's length in the model's tokens."""
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(self.weights)
        return lambda text: len(tokenizer(text, add_special_tokens=False)["input_ids"])

    def key(self, prompt: str, style: str) -> str:
        return generation_key(
            self.model, self.revision, prompt, DECODING | {"stop": STOP[style][0], "style": style}
        )

    def prompts(self, name: str) -> dict[str, str]:
        """Task -> the user's turn of the column; what it holds is stored in contexts/."""
        found, rows = {}, []
        for package, tasks in self.tasks.items():
            for task in tqdm(tasks, desc=f"{name}: contexts from {package}", unit="task"):
                context, row = self._context(package, task, name)
                left = prompts.left_context(task, self.measure)
                found[task.id] = prompts.prompt(task, left, context, column(name).chat)
                rows.append(row | {"prompt_sha256": digest(found[task.id])})
        write_jsonl(store.context_file(self.results, name), rows)
        return found

    def _context(self, package: str, task: RepoTask, name: str) -> tuple[str, dict[str, Any]]:
        about = column(name)
        if not about.chunking:
            return "", {"task_id": task.id, "chunks": [], "tokens": 0, "holds_body": False}
        chunks = self._chunks_of(package, about.chunking)
        pool = masked(task, chunks) if about.masked else chunks
        text, used = prompts.context_text(retrieve(task, pool, self._ranker(about.ranker)), self.measure)
        first, last = task.gold
        holds = not about.masked and any(
            c.document == task.path and c.first <= last and c.last >= first for c in used
        )
        where = [c.source for c in used]
        return text, {"task_id": task.id, "chunks": where, "tokens": self.measure(text), "holds_body": holds}

    def _chunks_of(self, package: str, chunking: str) -> list[Chunk]:
        if (package, chunking) not in self._chunks:
            self._chunks[package, chunking] = chunked(CHUNKERS[chunking], read_package(named(package)))
        return self._chunks[package, chunking]

    def _ranker(self, name: str) -> Ranker:
        if name not in self._rankers:
            self._rankers[name] = make_ranker(name)
        return self._rankers[name]

    def run(self, columns: Sequence[str]) -> int:
        """Completes what is missing and returns how many prompts that was. Prompts that two columns share are asked once."""
        made = 0
        for name in columns:
            style, chosen = self._style(name), self._chosen()
            if self._complete_as_stored(name, chosen):
                continue
            asked = self.prompts(name)
            missing = {
                i: text
                for i, text in asked.items()
                if i in chosen and self.key(text, style) not in self.cache
            }
            if missing:
                self._complete(self.backend, name, missing)
                made += len(missing)
            write_json(store.context_file(self.results, name).with_suffix(".meta.json"), self._about(name))
        return made

    def _style(self, name: str) -> str:
        if column(name).chat and self.spec.style != "chat":
            raise UserError(
                f"column '{name}' is for chat models, and {self.model} is prompted as {self.spec.style}"
            )
        return "chat" if column(name).chat else "plain"

    def _chosen(self) -> set[str]:
        ids: dict[str, list[str]] = {}
        for row in store.stored_rows(self.results):
            ids.setdefault(row["package"], []).append(row["id"])
        return {i for own in ids.values() for i in sorted(own, key=digest)[: self.limit]}

    def _complete_as_stored(self, name: str, chosen: set[str]) -> bool:
        """Whether each chosen task's prompt, as contexts/ has it of these very settings, has its completion."""
        path = store.context_file(self.results, name)
        if not path.exists() or store.load_meta(
            self.results, f"contexts/{path.stem}.meta.json"
        ) != self._about(name):
            return False
        made = {g.meta.get("prompt_sha256") for g in self.cache.rows.values()}
        return chosen <= {
            r["task_id"] for r in read_rows(path, ("task_id", "prompt_sha256")) if r["prompt_sha256"] in made
        }

    @cached_property
    def backend(self) -> Any:
        """The model, loaded at the first prompt without a completion."""
        from pkg_lib.generation.backends import (
            TransformersBackend,
        )  # torch is not needed for what is complete

        return TransformersBackend(self.weights, slots=SLOTS, max_new_tokens=prompts.MAX_NEW_TOKENS)

    def _complete(self, backend: Any, name: str, missing: dict[str, str]) -> None:
        style = self._style(name)
        backend.chat, backend.stop = style == "chat", STOP[style][1]
        with tqdm(total=len(missing), desc=f"{self.model}: {name}", unit="completion") as bar:

            def done(row: Any, raw: str, finish: str) -> None:
                text = row.request.text
                meta = {"prompt_sha256": digest(text), "revision": self.revision}
                made = Generation(
                    self.key(text, style),
                    row.request.task_id,
                    raw,
                    row.tokens,
                    finish,
                    row.prompt_tokens,
                    meta,
                )
                self.cache.append(f"{store.slug_of(name)}.jsonl", made)
                bar.update()

            backend.generate([Request(i, text, "") for i, text in missing.items()], done)

    def _about(self, name: str) -> dict[str, Any]:
        """What the column's prompts and completions are made with."""
        return {
            "model": self.model,
            "revision": self.revision,
            "decoding": DECODING,
            "style": self._style(name),
            "budgets": BUDGETS,
            "tasks": digest((store.home(self.results) / "tasks.jsonl").read_text("utf8")),
        }
