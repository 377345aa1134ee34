"""The one way to prompt a model: completions are stored at once, and stored ones are reused."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from tqdm.auto import tqdm

from pkg_lib.core.endpoints import endpoints
from pkg_lib.core.locks import writing
from pkg_lib.core.models import fetch, model_spec, revision_of
from pkg_lib.core.speeds import record_speed
from pkg_lib.core.store import cache_folder, read_json, results_path, slug
from pkg_lib.core.types import Generation, Request, digest
from pkg_lib.generation.cache import GenerationCache, generation_key, read_generations, stored_files
from pkg_lib.generation.completion import Completion
from pkg_lib.generation.extraction import continuation_ended
from pkg_lib.generation.prompts import Prompt

# Parameters that only matter for weights on this machine. They are not part of an endpoint's keys.
LOCAL_PARAMETERS = ("dtype", "stop")
WINDOW = "max_position_embeddings"  # field of a model's config.json
FEWEST_MEASURED = 8  # prompts from which a speed is kept


class Backend(Protocol):
    """What generates text: ``TransformersBackend``, ``RemoteBackend``, or any class with this method."""

    def generate(
        self,
        requests: list[Request],
        done: Callable[[Any, str, Any], None],
        *,
        temperature: float = 0.0,
        top_p: float = 1.0,
    ) -> None:
        """Complete requests and call ``done`` as each of them ends.

        Args:
            requests: The requests.
            done: Takes an object with ``request``, ``tokens`` and ``prompt_tokens``, the text, and
                the finish.
            temperature: 0 for greedy decoding.
            top_p: Probability mass from which tokens are sampled.
        """


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a model's tokens are chosen.

    Attributes:
        temperature: 0 for greedy decoding.
        top_p: Probability mass from which tokens are sampled; ignored in greedy decoding.
        max_new_tokens: The most tokens of a completion.
        sample: Number of the completion, if several are sampled from one prompt.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    max_new_tokens: int = 512
    sample: int = 0

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of decoding that are part of a completion's key.

        "settled" stops generation where further text cannot change the solution.
        """
        parameters: dict[str, Any] = {
            "max_new_tokens": self.max_new_tokens,
            "do_sample": bool(self.temperature),
            "dtype": "bfloat16",
            "stop": "settled",
        }
        if self.temperature:
            parameters |= {"temperature": self.temperature, "top_p": self.top_p}
        return parameters


GREEDY = Sampling()  # the paper's decoding (Section 4)


@dataclass(frozen=True)
class Decoding:
    """How a model decodes.

    Attributes:
        parameters: What is part of a completion's key.
        stop: Tells of a text whether nothing after it counts; None for the backend's default.
        slots: Number of prompts that are decoded together; None for the backend's default.
        chat: Whether prompts are put into the model's chat template; None if the style decides.
    """

    parameters: dict[str, Any]
    stop: Callable[[str], bool] | None = None
    slots: int | None = None
    chat: bool | None = None

    @property
    def sampling(self) -> dict[str, float]:
        """The temperature and top_p by which tokens are sampled; empty if decoding is greedy."""
        names = ("temperature", "top_p") if self.parameters.get("do_sample") else ()
        return {name: self.parameters[name] for name in names}


@dataclass(frozen=True)
class StoredRequest:
    """A request, and where its completion is stored.

    Attributes:
        request: The request.
        file: Path of the file below the cache's directory.
        about: What is recorded with the completion.
    """

    request: Request
    file: str
    about: dict[str, Any] = field(default_factory=dict)


def generate(
    model: str,
    prompts: Sequence[Prompt],
    sampling: Sampling = GREEDY,
    cache: GenerationCache | None = None,
    backend: Backend | None = None,
) -> list[Completion]:
    """Complete prompts, each once: stored completions are reused, new ones are stored at once.

    Args:
        model: The model's name, such as "qwen2.5-coder-0.5b-instruct" or "endpoint:NAME".
        prompts: Prompts of ``build_prompt``.
        sampling: How tokens are chosen.
        cache: Where completions are stored; by default in the results directory.
        backend: What generates the text; by default the model, whose weights are then downloaded.

    Returns:
        One completion for each prompt, in their order.

    Raises:
        UserError: The model is not available, or another run writes to the results directory.
    """
    results = results_path()
    spec = model_spec(model)
    decoding = Decoding(sampling.parameters | {"style": spec.style})
    if cache is None:
        cache = GenerationCache(cache_folder(results, model))
    generator = Generator(model, decoding, cache, results, backend)
    requests = []
    for prompt in prompts:
        task = prompt.task
        request = Request(task.id, prompt.text, task.entry_point, sampling.sample)
        file = f"{slug(task.benchmark)}/generate.jsonl"
        requests.append(StoredRequest(request, file))
    generator.complete(requests, "prompts")
    completions = []
    for prompt in prompts:
        key = generator.key(prompt.text, sampling.sample)
        stored = cache.rows[key]
        completion = Completion(
            text=stored.raw,
            model=spec,
            task_id=prompt.task.id,
            finish=stored.finish,
            prompt_tokens=stored.prompt_tokens,
            new_tokens=len(stored.tokens),
        )
        completions.append(completion)
    return completions


class Generator:
    """A model by name, with how it decodes and its cache.

    Args:
        model: The model's name.
        decoding: How it decodes.
        cache: The stored completions.
        results: The results directory.
        backend: What writes. Without a backend, weights are fetched when a prompt needs them.
    """

    def __init__(
        self,
        model: str,
        decoding: Decoding,
        cache: GenerationCache,
        results: Path,
        backend: Backend | None = None,
    ) -> None:
        self.model = model
        self.spec = model_spec(model)
        self.decoding = decoding
        self.cache = cache
        self.results = results
        self.backend = backend
        self.revision = revision_of(self.spec, results)
        self._holds_weights = False
        if self.spec.endpoint:
            parameters = dict(decoding.parameters)
            for name in LOCAL_PARAMETERS:
                parameters.pop(name, None)
            self.decoding = replace(decoding, parameters=parameters)

    def decoding_with(self, changed: dict[str, Any]) -> Generator:
        """Return a generator of the same model, cache and backend that decodes in another way.

        Args:
            changed: The parameters of decoding that differ.

        Returns:
            The generator; this one if nothing differs.
        """
        if not changed:
            return self
        other = copy(self)
        parameters = self.decoding.parameters | changed
        other.decoding = replace(self.decoding, parameters=parameters)
        return other

    def key(self, text: str, sample: int = 0) -> str:
        """Return the cache key of a prompt.

        Before ``weights`` or ``loaded`` is called, the revision of the weights may be unknown. Then
        the key is not the one under which a completion will be stored.

        Args:
            text: The prompt, without the model's chat template. The key of any fixed text, such as
                "", identifies the model with its decoding.
            sample: Number of the completion, if several are sampled from one prompt.

        Returns:
            32 hexadecimal digits; see ``generation_key``.
        """
        parameters = self.decoding.parameters
        return generation_key(self.model, self.revision, text, parameters, sample)

    def stored(self, text: str, sample: int = 0) -> Generation | None:
        """Look up the completion of a prompt in the cache; nothing is generated.

        Args:
            text: The prompt, without the model's chat template.
            sample: Number of the completion, if several are sampled from one prompt.

        Returns:
            The completion; None if the cache has none for this model, revision and decoding.
        """
        return self.cache.rows.get(self.key(text, sample))

    def weights(self) -> Path:
        """Return the model's directory; from then on keys name the revision that is loaded."""
        self.revision = revision_of(self.spec, self.results, resolve=True)
        return fetch(self.model, self.revision)

    def measure(self, text: str) -> int:
        """Count the model's tokens in a text.

        The first call loads the tokenizer, for which the model is downloaded if necessary.

        Args:
            text: Any text.

        Returns:
            Number of tokens, without special tokens such as those of the chat template.

        Raises:
            UserError: The model is not available, or it is on a server and has no tokenizer here.
        """
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    @cached_property
    def context_window(self) -> int | None:
        """The most tokens of a prompt with its answer; None if the model's configuration has no number.

        Raises:
            UserError: The model is not available.
        """
        config = read_json(self.weights() / "config.json", optional={WINDOW: int})
        window: int | None = config.get(WINDOW)
        return window

    def known_tokens(self, texts: Iterable[str]) -> set[str]:
        """Tell which texts are single tokens of the model.

        Args:
            texts: Possible tokens, such as those that mark the parts of a prompt.

        Returns:
            Those that are in the model's vocabulary.

        Raises:
            UserError: The model is not available.
        """
        vocabulary = self._tokenizer.get_vocab()
        return {text for text in texts if text in vocabulary}

    @cached_property
    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self.weights())

    def complete(self, requests: Iterable[StoredRequest], description: str) -> int:
        """Complete the requests whose completions are not stored, each once.

        Every completion is stored as it comes, so an interrupted run can be continued.

        Args:
            requests: The requests.
            description: The text beside the progress bar.

        Returns:
            How many prompts the model received.

        Raises:
            UserError: The model is not available, completions are missing at the end, or another
                run writes to the results directory.
        """
        requests = list(requests)
        if not self._missing(requests):
            return 0
        with writing(self.results):
            self.cache.refresh()  # another run may have ended in the meantime
            missing = self._missing(requests)
            if not missing:
                return 0
            for file in {request.file for request in missing}:
                self.cache.require(self.cache.root / file)  # it may hold these completions
            return self._complete(missing, description)

    def _missing(self, requests: list[StoredRequest]) -> list[StoredRequest]:
        """Return the requests without a stored completion."""
        return [r for r in requests if self._key_of(r.request) not in self.cache.rows]

    def _key_of(self, request: Request) -> str:
        return self.key(request.text, request.sample)

    def _complete(self, requests: list[StoredRequest], description: str) -> int:
        backend = self.loaded()  # from here on the revision is known, and so are the keys
        by_key = {self._key_of(stored.request): stored for stored in requests}
        bar = tqdm(total=len(by_key), desc=f"{self.model}: {description}", unit="completion")
        start = last = time.perf_counter()
        new_tokens = 0

        def done(
            row: Any,
            raw: str,
            finish: Literal["end", "settled", "length"],
        ) -> None:
            nonlocal last, new_tokens
            now = time.perf_counter()
            request = row.request
            key = self._key_of(request)
            # Rows of a batch share its steps, so the seconds are those since the row before.
            about = {
                "prompt_sha256": digest(request.text),
                "revision": self.revision,
                **by_key[key].about,
                "seconds": round(now - last, 3),
                **getattr(row, "about", {}),
            }
            generation = Generation(
                key=key,
                task_id=request.task_id,
                raw=raw,
                tokens=row.tokens,
                finish=finish,
                prompt_tokens=row.prompt_tokens,
                meta=about,
            )
            self.cache.append(by_key[key].file, generation)
            last = now
            new_tokens += len(row.tokens)
            bar.update()

        with bar:
            prompts = [stored.request for stored in by_key.values()]
            backend.generate(prompts, done, **self.decoding.sampling)
        # Other backends may be fakes, or run elsewhere; a few prompts are slower than a batch.
        if self._holds_weights and len(by_key) >= FEWEST_MEASURED:
            record_speed(self.model, new_tokens, last - start)
        return len(by_key)

    def loaded(self) -> Backend:
        """Return the backend; without one, connect to the endpoint or load the weights.

        Raises:
            UserError: The model is not available.
        """
        if self.backend is None:
            self.backend = self._open_backend()
        return self.backend

    def _open_backend(self) -> Backend:
        chat = self.decoding.chat
        if chat is None:
            chat = self.spec.style == "chat"
        max_new_tokens = self.decoding.parameters.get("max_new_tokens")
        # The backends are imported here, because torch is slow to import and often not needed.
        if self.spec.endpoint:
            from pkg_lib.generation.remote import RemoteBackend

            endpoint = endpoints().get_or_fail(self.spec.endpoint)
            backend = RemoteBackend(endpoint, chat, max_new_tokens, self._kept_tokens)
            self.revision = revision_of(self.spec, self.results, resolve=True)
            return backend
        from pkg_lib.generation.backends import TransformersBackend

        stop = continuation_ended if self.spec.style == "plain" else None
        weights = self.weights()
        self._holds_weights = True
        return TransformersBackend(
            weights,
            slots=self.decoding.slots,
            chat=chat,
            stop=self.decoding.stop or stop,
            max_new_tokens=max_new_tokens,
        )

    def release(self) -> None:
        """Drop weights that were loaded here, so that the next model finds the memory free.

        A backend that was passed in is kept. The weights are loaded again when a prompt needs them.
        """
        if not self._holds_weights:
            return
        self.backend = None
        self._holds_weights = False
        gc.collect()
        from torch import cuda  # it was imported for the weights anyway

        if cuda.is_available():
            cuda.empty_cache()

    def _kept_tokens(self) -> tuple[int, int]:
        """Count the tokens of all stored prompts and completions, other benchmarks included."""
        prompt_tokens = new_tokens = 0
        for path in stored_files(self.cache.root):
            for _, generation in read_generations(path):
                if generation is not None:
                    prompt_tokens += generation.prompt_tokens
                    new_tokens += len(generation.tokens)
        return prompt_tokens, new_tokens
