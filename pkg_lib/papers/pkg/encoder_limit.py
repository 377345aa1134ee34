"""How many texts of the committed study the encoder reads only the beginning of.

`tests/benchmarks/bench_encoder_limit.py` counts them with the encoder's tokenizer, because
tokenizing all corpora takes minutes. The notebooks show the stored counts.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from pkg_lib.core.embedders import DEFAULT, LONG
from pkg_lib.core.store import read_json
from pkg_lib.core.types import UserError
from pkg_lib.retrieval.embed import Embedder

NAME = "encoder_limit"
ENCODERS = (DEFAULT, LONG)  # the study's setting, and the one that reads more
# What the reranker embeds: a solution as the paper prints the rule, and as the authors' code has it.
WHOLE, REDUCED = "candidates, whole", "candidates, reduced"


def count_cut(texts: Iterable[str]) -> dict[str, int]:
    """Count the texts that are longer than the encoder reads.

    Args:
        texts: The texts. Equal ones are counted each, and tokenized once.

    Returns:
        The number of texts that are cut, by setting of the encoder.

    Raises:
        UserError: The encoder is not available.
    """
    distinct = Counter(texts)
    times = np.fromiter(distinct.values(), int)
    tokens = Embedder(DEFAULT).token_counts(list(distinct))
    cut = {}
    for name in ENCODERS:
        limit = Embedder(name).max_tokens
        cut[name] = int(times[tokens > limit].sum())
    return cut


def stored_counts(results: Path) -> list[dict[str, Any]]:
    """Read the stored counts.

    Args:
        results: The results directory.

    Returns:
        Entries with ``where`` (a corpus, a benchmark or a run), ``unit`` (such as "queries"),
        ``texts`` and ``cut``, as `count_cut` returns it; none where nothing was counted.

    Raises:
        UserError: The file is damaged.
    """
    path = results / "benchmarks" / f"{NAME}.json"
    if not path.is_file():
        return []
    counts = list(read_json(path, {"counts": list})["counts"])
    for entry in counts:
        if not isinstance(entry, dict) or not {"where", "unit", "texts", "cut"} <= entry.keys():
            raise UserError(f"{path} is damaged: an entry of counts lacks a field")
    return counts


def count_rows(results: Path) -> dict[str, list[str]]:
    """Lay out the stored counts for a table.

    Args:
        results: The results directory.

    Returns:
        The number of texts, then for each of `ENCODERS` the number and share of those that are cut.
    """
    rows = {}
    for entry in stored_counts(results):
        cut = [entry["cut"][name] for name in ENCODERS]
        rows[f"{entry['where']}, {entry['unit']}"] = cut_cells(entry["texts"], cut)
    return rows


def cut_cells(texts: int, cut: Iterable[int]) -> list[str]:
    """Print how many of some texts are cut.

    Args:
        texts: The number of texts.
        cut: The number of those that are cut, by setting of the encoder.

    Returns:
        The number of texts, then for each setting the number and share of those that are cut.
    """
    cells = [f"{texts:,}"]
    for count in cut:
        share = count / texts
        cells.append(f"{count:,} ({share:.1%})")
    return cells


def reranking_note(run: str, candidates: int, results: Path) -> str:
    """Say how many of the reranker's candidates the encoder cuts.

    Args:
        run: A run's label.
        candidates: Number of candidates that the reranker has now.
        results: The results directory.

    Returns:
        One or two sentences; "" where these candidates were not counted.
    """
    shares = {}
    for entry in stored_counts(results):
        if entry["where"] == run and entry["texts"] == candidates > 0:
            shares[entry["unit"]] = 100 * entry["cut"][DEFAULT] / entry["texts"]
    if not {WHOLE, REDUCED} <= shares.keys():
        return ""
    return (
        "The paper's formula embeds whole programs. The encoder reads 256 tokens, so it cuts "
        f"{shares[WHOLE]:.1f} % of them. The authors' code embeds the first function alone, of which "
        f"it cuts {shares[REDUCED]:.1f} %."
    )
