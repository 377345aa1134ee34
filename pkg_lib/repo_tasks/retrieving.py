"""Retrieval quality on the repository tasks: nDCG, precision and recall at 5 and 10 for every task, ranker and chunking.

As CodeRAG-Bench builds RepoEval's retrieval task, which cAST follows: the corpus is every Python file of the repository as it
is, the query what precedes the body, and gold are the chunks that share a line with the function. Other chunkings than the
fixed-size baseline are measured on the baseline's chunks, through scores of lines (Appendix A.2; analysis/ranking.py).
The paper does not say how a chunk's lines become its score: the mean is taken, and beside it for cAST and split-only the
greatest ("max"), and the ranking of their own chunks without any mapping ("own"). Nothing retrieved here reaches a prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from pkg_lib.analysis.ranking import evaluate, map_scores, relevant
from pkg_lib.chunking.chunker import MAX_SIZE, Chunk, Chunker
from pkg_lib.chunking.retrieval import make_ranker
from pkg_lib.repo_tasks import store
from pkg_lib.repo_tasks.columns import CHUNKERS, chunked
from pkg_lib.repo_tasks.functions import read_package
from pkg_lib.repo_tasks.packages import named
from pkg_lib.repo_tasks.tasks import RepoTask
from pkg_lib.results import versions, write_json, write_text

RANKERS = ("BM25", "MiniLM")
BASELINE = "fixed-size"
SIZES = (1000, 1500, 2500, 3000)  # Table 4, beside MAX_SIZE
VARIANTS: dict[str, Chunker] = {
    BASELINE: CHUNKERS[BASELINE],
    "cast": CHUNKERS["cast"],
    "split-only": CHUNKERS["split-only"],
    **{f"cast {size}": Chunker("cast", "as-published", size) for size in SIZES},
}
OWN, MEAN = "own", "mean"
COLUMNS = ("task_id", "package", "ranker", "chunking", "mapping", "chunks", "gold")


def measure(results: Path, say: Callable[[str], None]) -> pd.DataFrame:
    """Writes retrieval.csv, a row a task, ranker and chunking, and what it was made from; returns it."""
    tasks = store.load_tasks(results)
    rankers = {name: make_ranker(name) for name in RANKERS}
    frames = []
    for package, own in tasks.items():
        files = read_package(named(package))
        pools = {name: chunked(chunker, files) for name, chunker in VARIANTS.items()}
        for name, pool in pools.items():
            say(f"{package}: {name}, {len(pool)} chunks")
            for ranker, scorer in rankers.items():
                scores = scorer.scores([t.query for t in own], pool)
                for mapping in mappings(name):
                    about = {"package": package, "ranker": ranker, "chunking": name, "mapping": mapping, "chunks": len(pool)}
                    frames.append(_evaluated(own, scores, pool, pools[BASELINE], about))
    found = pd.concat(frames, ignore_index=True)
    write_text(store.home(results) / "retrieval.csv", found.to_csv(index=False, lineterminator="\n", float_format="%.6f"))
    about = {"max_size": MAX_SIZE, "baseline_lines": CHUNKERS[BASELINE].lines, "mode": CHUNKERS["cast"].mode}
    write_json(store.home(results) / "retrieval.meta.json", about | {"versions": versions()})
    return found


def mappings(chunking: str) -> tuple[str, ...]:
    """How a chunking's scores are measured; the first is the one that the tables show."""
    if chunking == BASELINE:
        return (OWN,)
    return (MEAN, "max", OWN) if chunking in CHUNKERS else (MEAN,)


def _evaluated(
    tasks: Sequence[RepoTask], scores: np.ndarray, pool: list[Chunk], baseline: list[Chunk], about: Mapping[str, object]
) -> pd.DataFrame:
    mapping = str(about["mapping"])
    target = pool if mapping == OWN else baseline
    golds = [relevant(target, [(t.path, t.def_lineno + 1, t.gold[1])]) for t in tasks]
    mapped = scores if mapping == OWN else map_scores(pool, scores, baseline, mapping)
    rows = evaluate(mapped, golds)
    rows.insert(0, "task_id", [t.id for t in tasks])
    for place, (name, value) in enumerate(about.items(), 1):
        rows.insert(place, name, value)
    rows.insert(len(COLUMNS) - 1, "gold", [len(g) for g in golds])
    return rows


def load(results: Path) -> pd.DataFrame:
    """The stored rows. UserError where they are not there."""
    path = store.home(results) / "retrieval.csv"
    if not path.exists():
        raise store.missing("retrieval measures", "retrieval")
    return pd.read_csv(path)
