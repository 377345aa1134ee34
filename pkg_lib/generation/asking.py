"""Prompts to a language model in a rolling batch; every answer is cached as soon as it is there, a stopped
run goes on.

Lines go to a file of a `GenerationCache`. `meta` holds the seconds since the answer before, so that the sum
over all answers is what the model took. A batch shares its steps, so the seconds of one answer alone say
nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pkg_lib.core.models import fetch, model_spec
from pkg_lib.core.types import Generation, Request, digest
from pkg_lib.generation.cache import GenerationCache, generation_key

SLOTS = 8  # answers that are written together; their contexts have some 5,000 tokens each


class Backend(Protocol):
    """What is asked of a model: `TransformersBackend` of generation/backends.py, or anything that does the
    same."""

    def generate(self, requests: list[Request], done: Callable[[Any, str, str], None]) -> None: ...


class Lazy:
    """Loads the model when something is left to ask; the model alone decides where an answer ends."""

    def __init__(self, model: str, revision: str, max_new_tokens: int) -> None:
        self.model, self.revision, self.most = model, revision, max_new_tokens
        self._loaded: Backend | None = None

    def generate(self, requests: list[Request], done: Callable[[Any, str, str], None]) -> None:
        if self._loaded is None:
            from pkg_lib.generation.backends import (
                TransformersBackend,
            )  # torch is not needed for cached answers

            chat = model_spec(self.model).style == "chat"
            self._loaded = TransformersBackend(
                fetch(self.model, self.revision),
                chat=chat,
                slots=SLOTS,
                stop=lambda text: False,
                max_new_tokens=self.most,
            )
        self._loaded.generate(requests, done)


@dataclass
class Asker:
    """A model with its cache. `revision`, `stage` and `max_new_tokens` are part of the key; `asked` counts
    this run's prompts."""

    model: str
    revision: str
    cache: GenerationCache
    file: str
    stage: str
    max_new_tokens: int
    backend: Backend | None = None
    asked: int = 0

    def __post_init__(self) -> None:
        decoding = {"do_sample": False, "dtype": "bfloat16", "max_new_tokens": self.max_new_tokens}
        self.params = decoding | {"stage": self.stage, "style": model_spec(self.model).style}
        self.backend = self.backend or Lazy(self.model, self.revision, self.max_new_tokens)

    def key(self, prompt: str) -> str:
        """The cache key of a prompt's greedy answer."""
        return generation_key(self.model, self.revision, prompt, self.params)

    def known(self, prompt: str) -> Generation | None:
        """The stored answer, None where there is none."""
        return self.cache.rows.get(self.key(prompt))

    def ask(self, prompts: Mapping[str, str]) -> dict[str, Generation]:
        """name -> answer for name -> prompt; asks what the cache does not hold."""
        todo = {
            self.key(p): Request(name, p, "<answer>") for name, p in prompts.items() if self.known(p) is None
        }
        last = time.perf_counter()

        def done(row: Any, raw: str, finish: Any) -> None:
            nonlocal last
            now = time.perf_counter()
            key, asked = self.key(row.request.text), row.request
            meta = {"seconds": round(now - last, 3), "prompt_sha256": digest(asked.text), "stage": self.stage}
            last = now
            self.cache.append(
                self.file, Generation(key, asked.task_id, raw, row.tokens, finish, row.prompt_tokens, meta)
            )

        self.asked += len(todo)
        if todo:
            assert self.backend is not None
            self.backend.generate(list(todo.values()), done)
        return {name: self.cache[self.key(prompt)] for name, prompt in prompts.items()}
