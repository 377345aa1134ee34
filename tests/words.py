"""An embedder that needs no model."""

from __future__ import annotations

import hashlib
import re

import numpy as np


class WordEmbedder:
    """Texts -> unit vectors [n, 256]: hashed word counts, so that shared words mean a high cosine."""

    name = "words"

    def __init__(self) -> None:
        self.seen: list[str] = []

    def encode(self, texts: list[str]) -> np.ndarray:
        self.seen += texts
        rows = np.zeros((len(texts), 256), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in re.findall(r"[a-z]+", text.lower()):
                row[int(hashlib.md5(word.encode()).hexdigest(), 16) % 255] += 1
            row[255] += 1e-3  # a text without words has a direction too
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)
