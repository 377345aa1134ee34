"""Retrieval quality on repository tasks: nDCG, precision and recall for every task, ranker and chunking.

As CodeRAG-Bench builds RepoEval's retrieval task, which cAST follows: the corpus is every Python file of the
repository as it is, the query what precedes the body, and gold are the chunks that share a line with the
function. Other chunkings than a fixed-size baseline are measured on the baseline's chunks, through scores of
lines (Appendix A.2, ranking.py): by their mean, and beside it by the greatest ("max"), and the ranking of
their own chunks without any mapping ("own"). Nothing retrieved here reaches a prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

import pandas as pd

from pkg_lib.chunking.chunker import MAX_SIZE, Chunker
from pkg_lib.core.store import versions, write_json, write_text
from pkg_lib.data import swebench
from pkg_lib.data.benchmarks import BENCHMARKS
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


Query = tuple[str, str, Sequence[Span]]  # its id, its text, the lines that answer it
Repository = tuple[str, Mapping[str, str], Sequence[Query]]  # name, path -> text, what is asked of it


def _of_functions(tasks: Iterable[RepoTask], files: Callable[[str], dict[str, str]]) -> Iterator[Repository]:
    queries: dict[str, list[Query]] = {}
    for task in tasks:
        queries.setdefault(task.repository, []).append((task.id, task.query, [task.span]))
    return ((name, files(name), of) for name, of in queries.items())


def _of_swebench() -> Iterator[Repository]:
    """One repository a problem, since each is of a commit of its own."""
    for issue in swebench.load_swebench():
        yield issue.id, swebench.DATA.repository(issue.id), [(issue.id, issue.query, issue.gold)]


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
        ids, texts, spans = zip(*queries, strict=True)
        for (name, pool), (ranker, scorer) in product(pools.items(), scorers.items()):
            scores = scorer.scores(list(texts), pool)
            for mapping in mappings(name, benchmark):
                aggregate, _, lines = mapping.partition(", ")
                target = pool if mapping == OWN else pools[f"{BASELINE} {lines}".strip()]
                golds = [relevant(target, span) for span in spans]
                on_target = scores if mapping == OWN else map_scores(pool, scores, target, aggregate)
                about = {"package": repository, "ranker": ranker, "chunking": name, "mapping": mapping}
                about |= {"chunks": len(pool), "gold": list(map(len, golds))}
                frames.append(pd.DataFrame({"task_id": ids} | about).join(evaluate(on_target, golds)))
    place = folder if benchmark == "packages" else folder / benchmark
    rows, path = pd.concat(frames, ignore_index=True), place / "retrieval.csv"
    write_text(path, rows.to_csv(index=False, lineterminator="\n", float_format="%.6f"))
    about = {"max_size": MAX_SIZE, "baseline_lines": CHUNKERS[BASELINE].lines, "mode": CHUNKERS["cast"].mode}
    write_json(path.with_suffix(".meta.json"), about | {"versions": versions()})
    means = rows.groupby(["ranker", "chunking", "mapping"], sort=False)[[c for c in rows if "@" in c]].mean()
    say((100 * means).round(1).to_string())
    return rows


def mappings(chunking: str, benchmark: str = "packages") -> tuple[str, ...]:
    """How a chunking's scores are measured; the first is the one that the tables show."""
    if chunking.startswith(BASELINE):
        return (OWN,)
    others = [f"{MEAN}, {n}" for n in LINES] if benchmark == "repoeval" and chunking == "cast" else []
    return (MEAN, "max", OWN, *others) if chunking in CHUNKERS else (MEAN,)
