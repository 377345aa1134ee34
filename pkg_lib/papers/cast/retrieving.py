"""Retrieval quality on the repository tasks: nDCG, precision and recall at 5 and 10 for every task, ranker and chunking.

As CodeRAG-Bench builds RepoEval's retrieval task, which cAST follows: the corpus is every Python file of the repository as it
is, the query what precedes the body, and gold are the chunks that share a line with the function. Other chunkings than the
fixed-size baseline are measured on the baseline's chunks, through scores of lines (Appendix A.2; analysis/ranking.py).
The paper does not say how a chunk's lines become its score: the mean is taken, and beside it for cAST and split-only the
greatest ("max"), and the ranking of their own chunks without any mapping ("own"). Nothing retrieved here reaches a prompt.

RepoEval's own tasks and SWE-bench Lite's are measured in the same way, from the directories of their variables: their
repositories lie in repositories/NAME, a directory or a .zip. What is measured of them is kept as retrieval.BENCHMARK.csv.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from pkg_lib.chunking.chunker import MAX_SIZE, Chunk, Chunker
from pkg_lib.core.store import slug, versions, write_json, write_text
from pkg_lib.core.types import UserError
from pkg_lib.data import repoeval as tasks
from pkg_lib.data import swebench
from pkg_lib.data.functions import read_package, read_tree
from pkg_lib.data.packages import named
from pkg_lib.papers.cast import cast_store as store
from pkg_lib.papers.cast.cast_columns import CHUNKERS, chunked
from pkg_lib.retrieval.chunks import Ranker, make_ranker
from pkg_lib.retrieval.ranking import Span, evaluate, map_scores, relevant

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


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of a repository, and the lines that answer it."""

    id: str
    text: str
    gold: tuple[Span, ...]


Repository = tuple[
    str, Mapping[str, str], Sequence[Query]
]  # name, path -> text of its Python files, what is asked of it


def _of_packages(results: Path) -> Iterator[Repository]:
    for package, own in store.load_tasks(results).items():
        yield package, read_package(named(package)), [Query(t.id, t.query, (t.span,)) for t in own]


def _of_repoeval() -> Iterator[Repository]:
    by_name: dict[str, list[Query]] = {}
    for task in tasks.load_repoeval():
        by_name.setdefault(task.repository, []).append(Query(task.id, task.query, (task.span,)))
    for name, queries in by_name.items():
        yield name, _repository(tasks.VARIABLE, name), queries


def _of_swebench() -> Iterator[Repository]:
    """One repository a problem, since each is of a commit of its own."""
    for issue in swebench.load_swebench():
        yield issue.id, _repository(swebench.VARIABLE, issue.id), [Query(issue.id, issue.query, issue.gold)]


BENCHMARKS: dict[str, Callable[[], Iterator[Repository]]] = {
    "repoeval": _of_repoeval,
    "swebench-lite": _of_swebench,
}


def _repository(variable: str, name: str) -> dict[str, str]:
    place = Path(os.environ[variable], "repositories", name)
    for path in (place, place.with_name(f"{name}.zip")):
        if path.exists() and (files := read_tree(path)):
            return files
    raise UserError(
        f"{place} (or .zip) with Python files is not there; put the repository there ({variable})"
    )


def measure(
    results: Path, say: Callable[[str], None], benchmark: str = "", rankers: Sequence[str] = RANKERS
) -> pd.DataFrame:
    """Writes retrieval.csv, a row a task, ranker and chunking, and what it was made from; returns it.

    `benchmark` is a name of BENCHMARKS, "" the packages' tasks. UserError for an unknown name or what is not at hand.
    """
    if benchmark and benchmark not in BENCHMARKS:
        raise UserError(f"unknown benchmark '{benchmark}'; choose from: {', '.join(BENCHMARKS)}")
    scorers = {name: make_ranker(name) for name in rankers}
    repositories = BENCHMARKS[benchmark]() if benchmark else _of_packages(results)
    found = pd.concat(_measured(repositories, scorers, say), ignore_index=True)
    path = store.home(results) / (f"retrieval.{slug(benchmark)}.csv" if benchmark else "retrieval.csv")
    write_text(path, found.to_csv(index=False, lineterminator="\n", float_format="%.6f"))
    about = {"max_size": MAX_SIZE, "baseline_lines": CHUNKERS[BASELINE].lines, "mode": CHUNKERS["cast"].mode}
    write_json(path.with_suffix(".meta.json"), about | {"versions": versions()})
    shown = [c for c in found if "@" in c]
    for (ranker, chunking, mapping), rows in found.groupby(["ranker", "chunking", "mapping"], sort=False):
        figures = ", ".join(f"{name} {100 * value:.1f}" for name, value in rows[shown].mean().items())
        say(f"{ranker}, {chunking} ({mapping}), {rows[shown].notna().all(axis=1).sum()} tasks: {figures}")
    return found


def _measured(
    repositories: Iterable[Repository], rankers: Mapping[str, Ranker], say: Callable[[str], None]
) -> Iterator[pd.DataFrame]:
    for repository, files, queries in repositories:
        pools = {name: chunked(chunker, files) for name, chunker in VARIANTS.items()}
        for name, pool in pools.items():
            say(f"{repository}: {name}, {len(pool)} chunks")
            for ranker, scorer in rankers.items():
                scores = scorer.scores([q.text for q in queries], pool)
                for mapping in mappings(name):
                    about = {
                        "package": repository,
                        "ranker": ranker,
                        "chunking": name,
                        "mapping": mapping,
                        "chunks": len(pool),
                    }
                    yield _evaluated(queries, scores, pool, pools[BASELINE], about)


def mappings(chunking: str) -> tuple[str, ...]:
    """How a chunking's scores are measured; the first is the one that the tables show."""
    if chunking == BASELINE:
        return (OWN,)
    return (MEAN, "max", OWN) if chunking in CHUNKERS else (MEAN,)


def _evaluated(
    queries: Sequence[Query],
    scores: np.ndarray,
    pool: list[Chunk],
    baseline: list[Chunk],
    about: Mapping[str, object],
) -> pd.DataFrame:
    mapping = str(about["mapping"])
    target = pool if mapping == OWN else baseline
    golds = [relevant(target, q.gold) for q in queries]
    mapped = scores if mapping == OWN else map_scores(pool, scores, baseline, mapping)
    rows = evaluate(mapped, golds)
    rows.insert(0, "task_id", [q.id for q in queries])
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
