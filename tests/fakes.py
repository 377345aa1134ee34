"""An embedder that needs no model, and a model that answers by a function."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from pkg_lib.core.types import Request


class WordEmbedder:
    """Texts -> unit vectors [n, 256]: hashed word counts, so that shared words mean a high cosine."""

    name = folder = "words"
    revision = "r1"
    max_tokens = 10**6

    def __init__(self, name: str = "words") -> None:
        self.seen: list[str] = []

    def token_counts(self, texts: list[str]) -> np.ndarray:
        return np.array([len(text.split()) for text in texts])

    def missing(self, texts: list[str]) -> list[str]:
        return [text for text in dict.fromkeys(texts) if text not in self.seen]

    def measure_speed(self, texts: list[str]) -> float:
        return 100.0

    def encode(self, texts: list[str]) -> np.ndarray:
        self.seen += texts
        rows = np.zeros((len(texts), 256), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in re.findall(r"[a-z]+", text.lower()):
                row[int(hashlib.md5(word.encode()).hexdigest(), 16) % 255] += 1
            row[255] += 1e-3  # a text without words has a direction too
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class FakeBackend:
    """A model of `answer(request)`, text or (text, finish), interrupted after `stop` requests; `asked`: those."""

    def __init__(
        self, answer: Callable[[Request], Any], stop: int | None = None, tokens: int = 2
    ) -> None:
        self.answer, self.stop, self.asked = answer, stop, []
        self.counts = {"tokens": list(range(tokens)), "prompt_tokens": 9}

    def generate(
        self, requests: list[Request], done: Callable[..., None], **sampling: float
    ) -> None:
        self.sampling = sampling
        for request in requests:
            if len(self.asked) == self.stop:
                raise KeyboardInterrupt
            self.asked.append(request)
            answer = self.answer(request)
            raw, finish = answer if isinstance(answer, tuple) else (answer, "end")
            done(SimpleNamespace(request=request, **self.counts), raw, finish)


def unpacked(path: Path) -> Path:
    """A stored file, its packed completions as plain lines, so that a test may change them."""
    packed = path.with_name(f"{path.name}.gz")
    if packed.exists():
        path.write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    return path
