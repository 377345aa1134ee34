"""MiniLM in 8-bit integers, computed by ONNX Runtime on a processor.

The weights are those of `DEFAULT`, quantized per channel; activations are quantized while it runs.
The second multiplication of each feed-forward layer stays in float32.
The first use converts the model once and stores it, so that later uses need neither PyTorch nor
sentence-transformers. `tests/benchmarks/bench_encoding.py` measures its speed and what retrieval
loses by it.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm.auto import tqdm

from pkg_lib.core.models import cache_dir
from pkg_lib.core.types import UserError
from pkg_lib.core.workers import core_count
from pkg_lib.retrieval.ranking import Vectors

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

FORMAT = 2  # of the stored model; a change of the conversion increases it
MODEL, TOKENIZER = "model.onnx", "tokenizer.json"
OPSET = 17
MAX_TOKENS = 256  # as the default embedder reads


class QuantizedModel:
    """A stored quantized embedder.

    Each text is computed by itself: the scale of quantized activations depends on everything in a
    batch, so that a text would otherwise have another vector in another batch.

    Args:
        folder: The directory that `convert` wrote.

    Raises:
        UserError: ONNX Runtime is missing, or the stored model is damaged.
    """

    def __init__(self, folder: Path) -> None:
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError as e:
            raise _missing(e) from e
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # texts are distributed over threads instead
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(
                str(folder / MODEL), options, providers=["CPUExecutionProvider"]
            )
            self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        except Exception as e:  # both libraries raise types of their own
            raise UserError(
                f"the stored embedder {folder} is damaged ({type(e).__name__}); remove it, "
                "and it is converted again"
            ) from e
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def encode(self, texts: list[str]) -> Vectors:
        """Compute the vectors of texts.

        Args:
            texts: The n texts, at least one.

        Returns:
            float32 unit vectors [n, d].
        """
        self._tokenizer.enable_truncation(MAX_TOKENS)
        encodings = self._tokenizer.encode_batch(texts)
        self._tokenizer.no_truncation()
        token_ids = [np.array([encoding.ids], np.int64) for encoding in encodings]
        with ThreadPoolExecutor(core_count()) as pool:
            return np.concatenate(list(pool.map(self._vector, token_ids)))

    def _vector(self, token_ids: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> Vectors:
        inputs = {"input_ids": token_ids, "attention_mask": np.ones_like(token_ids)}
        vector: Vectors = self._session.run(None, inputs)[0]
        return vector

    def token_counts(self, texts: list[str]) -> list[int]:
        """Count the tokens of whole texts, with the tokens that mark begin and end.

        Args:
            texts: The n texts.

        Returns:
            n counts.
        """
        return [len(encoding.ids) for encoding in self._tokenizer.encode_batch(texts)]


@cache
def quantized_model(name: str, load: Callable[[], SentenceTransformer]) -> QuantizedModel:
    """Load a quantized embedder, once in a process. The first use on a machine converts it.

    Args:
        name: The name of its directory in the cache.
        load: Loads the embedder that is quantized. It is called only for the conversion.

    Returns:
        The model.

    Raises:
        UserError: A package is missing, or the model cannot be written or read.
    """
    folder = cache_dir() / "embedders" / f"{name}-{FORMAT}"
    if not (folder / MODEL).exists():
        note = f"converting {name}, once on this machine (about 20 seconds)"
        tqdm.write(note, file=sys.stderr)
        convert(load(), folder)
    return QuantizedModel(folder)


def convert(embedder: SentenceTransformer, folder: Path) -> None:
    """Quantize an embedder that averages its token vectors, and store it.

    Args:
        embedder: The embedder, as sentence-transformers loads it.
        folder: Where the model and its tokenizer are stored; it appears when both are complete.

    Raises:
        UserError: A package is missing, or the directory cannot be written.
    """
    try:
        from onnxruntime.quantization import QuantType, quantize_dynamic
    except ImportError as e:
        raise _missing(e) from e
    temporary = folder.with_suffix(f".tmp-{os.getpid()}")
    exported = temporary / "float32.onnx"
    try:
        temporary.mkdir(parents=True)
        with warnings.catch_warnings():
            # They are about the exporter's age, traced constants and an optional earlier step.
            warnings.simplefilter("ignore")
            logging.disable(logging.WARNING)
            _export(embedder, exported)
            quantize_dynamic(
                exported,
                temporary / MODEL,
                weight_type=QuantType.QInt8,
                per_channel=True,
                nodes_to_exclude=_feed_forward_outputs(exported),
            )
        exported.unlink()
        embedder.tokenizer.backend_tokenizer.save(str(temporary / TOKENIZER))
        temporary.rename(folder)
    except OSError as e:
        if (folder / MODEL).exists():  # another process has converted it meanwhile
            return
        raise UserError(
            f"cannot store the embedder in {folder} ({e.strerror or e}); "
            "free space, or set PKG_CACHE to another directory"
        ) from e
    finally:
        logging.disable(logging.NOTSET)
        shutil.rmtree(temporary, ignore_errors=True)


def _feed_forward_outputs(path: Path) -> list[str]:
    """Return the names of the second multiplication of each feed-forward layer, which stays float32.

    Its inputs have outliers, so that one scale for all of them rounds the others away. With these
    layers in 8 bits, MRR@10 falls by a percentage point; without them it does not.
    """
    import onnx

    graph = onnx.load(str(path), load_external_data=False).graph
    names = [node.name for node in graph.node if node.op_type == "MatMul"]
    return [n for n in names if n.endswith("/output/dense/MatMul") and "/attention/" not in n]


def _export(embedder: SentenceTransformer, path: Path) -> None:
    """Write the embedder as an ONNX model from token ids to unit vectors."""
    import torch

    class Pooled(torch.nn.Module):
        """The mean of the token vectors, scaled to length 1."""

        def __init__(self, transformer: Any) -> None:
            super().__init__()
            self.transformer = transformer

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            output = self.transformer(input_ids=input_ids, attention_mask=attention_mask)
            weights = attention_mask.unsqueeze(-1).float()
            mean = (output.last_hidden_state * weights).sum(1) / weights.sum(1)
            return torch.nn.functional.normalize(mean, dim=1)

    first_module: Any = embedder[0]
    transformer = first_module.auto_model.float().eval()
    transformer.set_attn_implementation("eager")  # the exporter cannot trace the others
    example = torch.ones(2, 16, dtype=torch.long)
    axes = {0: "batch", 1: "tokens"}
    torch.onnx.export(
        Pooled(transformer),
        (example, example),
        str(path),
        input_names=["input_ids", "attention_mask"],
        output_names=["vectors"],
        dynamic_axes={"input_ids": axes, "attention_mask": axes, "vectors": {0: "batch"}},
        opset_version=OPSET,
        dynamo=False,  # the newer exporter's graph takes a fifth longer
    )


def _missing(error: ImportError) -> UserError:
    return UserError(
        f"the quantized embedder needs the package {error.name}: pip install -r requirements.txt"
    )
