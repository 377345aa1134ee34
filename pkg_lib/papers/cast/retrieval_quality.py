"""Retrieval quality on repository tasks: nDCG, precision and recall for every task, ranker and chunking.

As CodeRAG-Bench builds RepoEval's retrieval task, which cAST follows: the corpus is every Python file of the
repository as it is, the query what precedes the body, and gold are the chunks that share a line with the
function. Other chunkings than a fixed-size baseline are measured on the baseline's chunks, through scores of
lines (Appendix A.2, ranking.py): by their mean, and beside it by the greatest ("max"), and the ranking of
their own chunks without any mapping ("own"). Nothing retrieved here reaches a prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pkg_lib.chunking.chunker import MAX_SIZE, Chunker
from pkg_lib.core.store import versions, write_json, write_text
from pkg_lib.data import swebench
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.records import read_repository
from pkg_lib.data.repoeval import RepoTask, load_repoeval
from pkg_lib.papers.cast.context_columns import CHUNKERS, chunked
from pkg_lib.retrieval.chunks import make_ranker
from pkg_lib.retrieval.ranking import Span, evaluate, map_scores, relevant

RANKERS = ("BM25", "MiniLM")
BASELINE = "fixed-size"
SIZES = (1000, 1500, 2500, 3000)  # Table 4, beside MAX_SIZE
# RepoEval's baselines beside the one of 60 lines, which the paper's precision and recall rule out.
LINES = (20, 10)
VARIANTS = {name: CHUNKERS[name] for name in (BASELINE, "cast", "split-only")}
VARIANTS |= {f"cast {size}": Chunker("cast", "as-published", size) for size in SIZES}
BASELINES = {f"{BASELINE} {n}": Chunker(BASELINE, "as-published", lines=n) for n in LINES}
OWN, MEAN = "own", "mean"


@dataclass(frozen=True, slots=True)
class GoldQuery:
    """What is asked of a repository, and the lines that answer it."""

    id: str
    text: str
    gold: tuple[Span, ...]


Repository = tuple[str, Mapping[str, str], Sequence[GoldQuery]]  # name, path -> text, what is asked of it


def _of_functions(tasks: Iterable[RepoTask], files: Callable[[str], dict[str, str]]) -> Iterator[Repository]:
    by_name: dict[str, list[GoldQuery]] = {}
    for task in tasks:
        by_name.setdefault(task.repository, []).append(GoldQuery(task.id, task.query, (task.span,)))
    for name, queries in by_name.items():
        yield name, files(name), queries


def _of_swebench() -> Iterator[Repository]:
    """One repository a problem, since each is of a commit of its own."""
    for issue in swebench.load_swebench():
        files = read_repository(swebench.VARIABLE, issue.id)
        yield issue.id, files, [GoldQuery(issue.id, issue.query, issue.gold)]


REPOSITORIES: dict[str, Callable[[], Iterator[Repository]]] = {
    "packages": lambda: _of_functions(BENCHMARKS["packages"].tasks(), BENCHMARKS["packages"].files),
    "repoeval": lambda: _of_functions(load_repoeval(), BENCHMARKS["repoeval"].files),
    "swebench-lite": _of_swebench,
}


def measure(folder: Path, say: Callable[[str], None], benchmark: str, rankers: Sequence[str]) -> pd.DataFrame:
    """Writes retrieval.csv, a row a task, ranker and chunking. UserError for what is not at hand."""
    scorers = {name: make_ranker(name) for name in rankers or RANKERS}
    variants = VARIANTS | (BASELINES if benchmark == "repoeval" else {})
    frames = []
    for repository, files, queries in REPOSITORIES[benchmark]():
        pools = {name: chunked(chunker, files) for name, chunker in variants.items()}
        say(f"{repository}: {', '.join(f'{name} {len(pool)}' for name, pool in pools.items())} chunks")
        for name, pool in pools.items():
            for ranker, scorer in scorers.items():
                scores = scorer.scores([q.text for q in queries], pool)
                for mapping in mappings(name, benchmark):
                    aggregate, _, lines = mapping.partition(", ")
                    target = pool if mapping == OWN else pools[f"{BASELINE} {lines}".strip()]
                    golds = [relevant(target, q.gold) for q in queries]
                    on_target = scores if mapping == OWN else map_scores(pool, scores, target, aggregate)
                    about = {"package": repository, "ranker": ranker, "chunking": name, "mapping": mapping}
                    left = pd.DataFrame([{"task_id": q.id, **about, "chunks": len(pool)} for q in queries])
                    frames.append(left.assign(gold=list(map(len, golds))).join(evaluate(on_target, golds)))
    place = folder if benchmark == "packages" else folder / benchmark
    rows, path = pd.concat(frames, ignore_index=True), place / "retrieval.csv"
    write_text(path, rows.to_csv(index=False, lineterminator="\n", float_format="%.6f"))
    about = {"max_size": MAX_SIZE, "baseline_lines": CHUNKERS[BASELINE].lines, "mode": CHUNKERS["cast"].mode}
    write_json(path.with_suffix(".meta.json"), about | {"versions": versions()})
    shown = [c for c in rows if "@" in c]
    for (ranker, chunking, mapping), part in rows.groupby(["ranker", "chunking", "mapping"], sort=False):
        means = ", ".join(f"{name} {100 * value:.1f}" for name, value in part[shown].mean().items())
        say(f"{ranker}, {chunking} ({mapping}), {part[shown].notna().all(axis=1).sum()} tasks: {means}")
    return rows


def mappings(chunking: str, benchmark: str = "packages") -> tuple[str, ...]:
    """How a chunking's scores are measured; the first is the one that the tables show."""
    if chunking.startswith(BASELINE):
        return (OWN,)
    others = [f"{MEAN}, {n}" for n in LINES] if benchmark == "repoeval" and chunking == "cast" else []
    return (MEAN, "max", OWN, *others) if chunking in CHUNKERS else (MEAN,)
