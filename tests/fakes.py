"""Test doubles: an embedder that needs no model, and a model whose answers a function computes."""

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

WORD_DIMENSIONS = 255


def _dimension_of(word: str) -> int:
    digest = hashlib.md5(word.encode())
    number = int(digest.hexdigest(), 16)
    return number % WORD_DIMENSIONS


class WordEmbedder:
    """Embed texts as hashed word counts, so that texts with the same words have a high cosine.

    Args:
        name: Ignored; for compatibility with the real embedder.

    Attributes:
        seen: Every text that was embedded, in order.
    """

    name = folder = "words"
    revision = "r1"
    max_tokens = 10**6

    def __init__(self, name: str = "words") -> None:
        self.seen: list[str] = []

    def token_counts(self, texts: list[str]) -> np.ndarray:
        """Count the words of texts.

        Args:
            texts: The texts.

        Returns:
            One number of words per text.
        """
        counts = [len(text.split()) for text in texts]
        return np.array(counts)

    def missing(self, texts: list[str]) -> list[str]:
        """List the texts that were not embedded yet.

        Args:
            texts: The texts.

        Returns:
            Each missing text once.
        """
        distinct = dict.fromkeys(texts)
        return [text for text in distinct if text not in self.seen]

    def measure_speed(self, texts: list[str]) -> float:
        """Return a fixed speed.

        Args:
            texts: Ignored.

        Returns:
            Tokens per second.
        """
        return 100.0

    def encode(self, texts: list[str]) -> np.ndarray:
        """Embed texts.

        Args:
            texts: The texts.

        Returns:
            Unit vectors, shape [n, 256].
        """
        self.seen += texts
        shape = (len(texts), WORD_DIMENSIONS + 1)
        vectors = np.zeros(shape, np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for word in re.findall(r"[a-z]+", text.lower()):
                vector[_dimension_of(word)] += 1
            # A text without words needs a direction, too.
            vector[WORD_DIMENSIONS] += 1e-3
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / lengths


class FakeBackend:
    """Answer requests with a function instead of a model.

    Args:
        answer: Maps a request to a text, or to a text and its finish reason.
        stop: Number of requests after which the run is interrupted; never if not given.
        tokens: Number of tokens of every answer.

    Attributes:
        asked: The answered requests, in order.
        sampling: Sampling parameters of the last call of `generate`.
    """

    def __init__(
        self,
        answer: Callable[[Request], Any],
        stop: int | None = None,
        tokens: int = 2,
    ) -> None:
        self.answer = answer
        self.stop = stop
        self.asked: list[Request] = []
        self.counts = {
            "tokens": list(range(tokens)),
            "prompt_tokens": 9,
        }

    def generate(
        self,
        requests: list[Request],
        done: Callable[..., None],
        **sampling: float,
    ) -> None:
        """Answer requests one by one.

        Args:
            requests: The requests.
            done: Called with each finished request, its answer and its finish reason.
            **sampling: Sampling parameters, which are only recorded.

        Raises:
            KeyboardInterrupt: `stop` requests are answered.
        """
        self.sampling = sampling
        for request in requests:
            if len(self.asked) == self.stop:
                raise KeyboardInterrupt
            self.asked.append(request)
            answer = self.answer(request)
            if not isinstance(answer, tuple):
                answer = (answer, "end")
            text, finish = answer
            finished = SimpleNamespace(request=request, **self.counts)
            done(finished, text, finish)


def unpacked(path: Path) -> Path:
    """Replace a compressed file of completions by plain lines, so that a test can change them.

    Args:
        path: Path of the plain file.

    Returns:
        The same path.
    """
    compressed = path.with_name(f"{path.name}.gz")
    if compressed.exists():
        path.write_bytes(gzip.decompress(compressed.read_bytes()))
        compressed.unlink()
    return path
