"""The one way to ask a model: what is in the cache is not asked again, and every answer is kept at once."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from tqdm.auto import tqdm

from pkg_lib.core.endpoints import endpoints
from pkg_lib.core.locks import writing
from pkg_lib.core.models import fetch, model_spec, revision_of
from pkg_lib.core.types import Generation, Request, digest
from pkg_lib.generation.cache import GenerationCache, generation_key, read_generations, stored_files
from pkg_lib.generation.extraction import continuation_ended


class Backend(Protocol):
    """What writes: `TransformersBackend`, `RemoteBackend` for an endpoint, or anything that does the same.

    `sampling` holds temperature and top_p where the tokens are drawn; without it decoding is greedy.
    """

    def generate(
        self, requests: list[Request], done: Callable[[Any, str, Any], None], **sampling: float
    ) -> None: ...


@dataclass(frozen=True)
class Decoding:
    """`parameters` are part of the cache key, the rest are the backend's; `chat` None: the style decides."""

    parameters: dict[str, Any]
    stop: Callable[[str], bool] | None = None
    slots: int | None = None
    chat: bool | None = None

    @property
    def sampling(self) -> dict[str, float]:
        """How tokens are drawn; nothing where decoding is greedy."""
        names = ("temperature", "top_p") if self.parameters.get("do_sample") else ()
        return {name: self.parameters[name] for name in names}


@dataclass(frozen=True)
class Prompt:
    """One prompt with the file of the cache that its answer goes to and what is recorded beside it."""

    request: Request
    file: str
    about: dict[str, Any] = field(default_factory=dict)


class Generator:
    """A model by name, how it decodes, its cache; without a backend weights are fetched when it is asked."""

    def __init__(
        self,
        model: str,
        decoding: Decoding,
        cache: GenerationCache,
        results: Path,
        backend: Backend | None = None,
    ) -> None:
        self.model, self.spec, self.decoding = model, model_spec(model), decoding
        self.cache, self.results, self.backend = cache, results, backend
        self._holds_weights = False
        self.revision = revision_of(self.spec, results)
        if self.spec.endpoint:  # what only holds where tokens are written here
            asked = {k: v for k, v in decoding.parameters.items() if k not in ("dtype", "stop")}
            self.decoding = replace(decoding, parameters=asked)

    def decoding_with(self, changed: dict[str, Any]) -> Generator:
        """A generator of the same model, revision, cache and backend, with changed parameters of decoding."""
        if not changed:
            return self
        other = copy(self)
        other.decoding = replace(self.decoding, parameters=self.decoding.parameters | changed)
        return other

    def key(self, text: str, sample: int = 0) -> str:
        """The cache key of a prompt."""
        return generation_key(self.model, self.revision, text, self.decoding.parameters, sample)

    def stored(self, text: str, sample: int = 0) -> Generation | None:
        """The answer in the cache; None where there is none."""
        return self.cache.rows.get(self.key(text, sample))

    def weights(self) -> Path:
        """The model's directory; from here on keys name the revision that is loaded."""
        self.revision = revision_of(self.spec, self.results, resolve=True)
        return fetch(self.model, self.revision)

    def measure(self, text: str) -> int:
        """How many of the model's tokens a text has."""
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def known_tokens(self, texts: Iterable[str]) -> set[str]:
        """Tell which texts are single tokens of the model.

        Args:
            texts: What may be tokens, such as those that mark the parts of a prompt.

        Returns:
            Those that are in the model's vocabulary.

        Raises:
            UserError: The model is not available.
        """
        return {*texts} & self._tokenizer.get_vocab().keys()

    @cached_property
    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self.weights())

    def complete(self, prompts: Iterable[Prompt], description: str) -> int:
        """Complete the prompts whose answers are not in the cache, each once.

        Every answer is stored as it comes, so an interrupted run can be continued.

        Args:
            prompts: What to complete.
            description: What the progress bar says.

        Returns:
            How many prompts the model was given.

        Raises:
            UserError: The model is not available, answers are missing at the end, or another run is writing
                to the results directory.
        """
        prompts = list(prompts)
        if all(self.stored(p.request.text, p.request.sample) for p in prompts):
            return 0
        with writing(self.results):
            self.cache.refresh()  # another run may have ended in the meantime
            return self._complete(prompts, description)

    def _complete(self, prompts: list[Prompt], description: str) -> int:
        todo = [p for p in prompts if self.stored(p.request.text, p.request.sample) is None]
        if not todo:
            return 0
        for file in {prompt.file for prompt in todo}:
            self.cache.require(self.cache.root / file)  # it may hold these very answers
        backend = self.loaded()  # from here on the revision is known, and so are the keys
        asked = {self.key(p.request.text, p.request.sample): p for p in todo}
        last = time.perf_counter()
        with tqdm(total=len(asked), desc=f"{self.model}: {description}", unit="completion") as bar:

            def done(row: Any, raw: str, finish: Literal["end", "settled", "length"]) -> None:
                nonlocal last
                key, now = self.key(row.request.text, row.request.sample), time.perf_counter()
                about = {"prompt_sha256": digest(row.request.text), "revision": self.revision}
                # Rows of a batch share its steps, so an answer's seconds are those since the one before.
                about |= (
                    asked[key].about | {"seconds": round(now - last, 3)} | getattr(row, "about", {})
                )
                counts = row.tokens, finish, row.prompt_tokens
                self.cache.append(
                    asked[key].file, Generation(key, row.request.task_id, raw, *counts, about)
                )
                last = now
                bar.update()

            backend.generate(
                [prompt.request for prompt in asked.values()], done, **self.decoding.sampling
            )
        return len(asked)

    def loaded(self) -> Backend:
        """The model itself."""
        chat = self.spec.style == "chat" if self.decoding.chat is None else self.decoding.chat
        most = self.decoding.parameters.get("max_new_tokens")
        if self.backend is None and self.spec.endpoint:
            from pkg_lib.generation.remote import RemoteBackend

            self.backend = RemoteBackend(
                endpoints().get_or_fail(self.spec.endpoint), chat, most, self._kept
            )
            self.revision = revision_of(self.spec, self.results, resolve=True)
        elif self.backend is None:
            # Here, since torch is not needed where nothing is asked.
            from pkg_lib.generation.backends import TransformersBackend

            ends = continuation_ended if self.spec.style == "plain" else None
            options = {
                "slots": self.decoding.slots,
                "stop": self.decoding.stop or ends,
                "chat": chat,
            }
            self.backend = TransformersBackend(self.weights(), max_new_tokens=most, **options)
            self._holds_weights = True
        return self.backend

    def release(self) -> None:
        """Drop weights that were loaded here, so that the next model finds the memory free.

        A backend that was passed in is kept. The weights are loaded again when a prompt needs them.
        """
        if not self._holds_weights:
            return
        self.backend, self._holds_weights = None, False
        gc.collect()
        from torch import (
            cuda,
        )  # here, since torch is slow to import and was needed for the weights anyway

        if cuda.is_available():
            cuda.empty_cache()

    def _kept(self) -> tuple[int, int]:
        """The tokens of all prompts and answers in the cache's files, those of other benchmarks too."""
        asked = written = 0
        for path in stored_files(self.cache.root):
            for _, generation in read_generations(path):
                if generation is not None:
                    asked += generation.prompt_tokens
                    written += len(generation.tokens)
        return asked, written
