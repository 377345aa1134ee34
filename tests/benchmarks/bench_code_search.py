"""Code search: MBPP's task text -> its reference solution among functions of installed source.

    python tests/benchmarks/bench_code_search.py [--distractors 20000] [--tasks 500] [--weight 0.5]
    [--output FILE]

The query is the task text alone. Candidates are the reference solutions of the tasks asked, and distinct other
functions of installed source. MiniLM and BM25 are the study's; two fusions of them have constants that are not
fitted to these tasks. `paired`: tasks on which a rank is better and worse than MiniLM's, and McNemar's exact p of
the first places. `variations`: other sets of candidates. Encoding takes a second for 75 functions on two cores.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pkg_lib.analysis.stats import mcnemar
from pkg_lib.core.store import results_dir, versions, write_json
from pkg_lib.core.types import Document, Task, UserError, digest
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.data.corpora import ASCII, load_corpus
from pkg_lib.graph.schema import IMPL, build_code_graph
from pkg_lib.retrieval.bm25 import BM25
from pkg_lib.retrieval.embed import Embedder

BENCHMARK, RRF = "mbpp", 60
MINILM, LEXICAL, RANKS, SCORES = "MiniLM", "BM25", "reciprocal rank fusion", "score fusion"


def query_of(task: Task) -> str:
    """The task text without the last line of the prompt, which names the function."""
    return task.prompt.rpartition("\n")[0]


def documents() -> Iterator[Document]:
    """Installed source in a fixed order; packages are read one file at a time."""
    yield from load_corpus("textbook+stdlib")
    yield from load_corpus(f"source:{sysconfig.get_paths()['purelib']}")


def distractors(count: int, solutions: set[str]) -> list[str]:
    """`count` distinct functions that are no solution. UserError where fewer are installed."""
    functions: dict[str, None] = {}
    for graph in (build_code_graph([document]) for document in documents()):
        texts = graph.payloads(graph.of_type(IMPL))
        functions |= dict.fromkeys(text for text in texts if text.strip() not in solutions)
        if len(functions) >= count:
            return list(functions)[:count]
    raise UserError(
        f"only {len(functions)} distinct functions are installed; give a smaller --distractors"
    )


def relevance(tasks: list[Task], texts: list[str]) -> np.ndarray:
    """Bool [tasks, texts]: which texts are a task's reference solution."""
    return np.array([[t.solution == text for text in texts] for t in tasks])


def lexical_scores(texts: list[str], queries: list[str]) -> np.ndarray:
    """BM25's scores [queries, texts]."""
    positions, best_first = BM25(texts, ASCII).search(queries, len(texts))
    scores = np.zeros(best_first.shape)
    np.put_along_axis(scores, positions, best_first, axis=1)
    return scores


def dense_scores(texts: list[str], queries: list[str], embedder: Any) -> np.ndarray:
    """Cosines [queries, texts]."""
    return (embedder.encode(queries) @ embedder.encode(texts).T).astype(np.float64)


def rank_of(scores: np.ndarray, relevant: np.ndarray) -> np.ndarray:
    """The rank (1: first) of the best relevant text of each query; a tie counts against it."""
    best = np.where(relevant, scores, -np.inf).max(axis=1, keepdims=True)
    return 1 + ((scores >= best) & ~relevant).sum(axis=1)


def by_ranks(systems: list[np.ndarray]) -> np.ndarray:
    """Reciprocal rank fusion (Cormack et al., 2009); equal scores share the worst of their ranks."""
    return sum(1 / (RRF + rankdata(-scores, method="max", axis=1)) for scores in systems)


def scaled(scores: np.ndarray) -> np.ndarray:
    """Each query's scores from 0 to 1."""
    low, high = scores.min(axis=1, keepdims=True), scores.max(axis=1, keepdims=True)
    return (scores - low) / np.where(high > low, high - low, 1)


def measure(tasks: list[Task], others: list[str], embedder: Any, weight: float) -> dict[str, Any]:
    """MRR@10, recall@1 and recall@5 of each method, and each against MiniLM."""
    texts, queries = [t.solution for t in tasks] + others, [query_of(t) for t in tasks]
    relevant = relevance(tasks, texts)
    dense, lexical = dense_scores(texts, queries, embedder), lexical_scores(texts, queries)
    fused = (1 - weight) * scaled(dense) + weight * scaled(lexical)
    methods = {MINILM: dense, LEXICAL: lexical, RANKS: by_ranks([dense, lexical]), SCORES: fused}
    ranks = {name: rank_of(scores, relevant) for name, scores in methods.items()}
    against = {name: paired(r, ranks[MINILM]) for name, r in ranks.items() if name != MINILM}
    by_method = {name: figures(r) for name, r in ranks.items()}
    return {"candidates": len(texts), "methods": by_method, "paired": against}


def variations(
    tasks: list[Task], others: list[str], every: list[str], embedder: Any
) -> dict[str, dict[str, Any]]:
    """Candidates -> method -> figures of the same queries; `every` holds all reference solutions of MBPP."""
    solutions, queries = [t.solution for t in tasks], [query_of(t) for t in tasks]
    half = [
        others[i] for i in np.random.default_rng(0).permutation(len(others))[: len(others) // 2]
    ]
    bare = "distractors without docstrings"
    sets = {
        f"with all {len(every)} reference solutions of MBPP": [*every, *others],
        f"with {len(half):,} of the distractors": [*solutions, *half],
        bare: [*solutions, *dict.fromkeys(map(without_docstring, others))],
    }
    varied: dict[str, dict[str, Any]] = {}
    for name, texts in sets.items():
        scores = {} if name == bare else {MINILM: dense_scores(texts, queries, embedder)}
        scores[LEXICAL] = lexical_scores(texts, queries)
        varied[name] = {m: figures(rank_of(s, relevance(tasks, texts))) for m, s in scores.items()}
    return varied


def without_docstring(function: str) -> str:
    """The function's source without the lines of its docstring; as it is where it does not stand alone."""
    with suppress(SyntaxError):
        node, *_ = ast.parse(function).body
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and ast.get_docstring(node) is not None
        ):
            lines, docstring = function.split("\n"), node.body[0]
            return "\n".join(lines[: docstring.lineno - 1] + lines[docstring.end_lineno :])
    return function


def figures(ranks: np.ndarray) -> dict[str, float]:
    """A rank beyond ten counts 0 in the mean reciprocal rank."""
    hits = {
        "mrr_at_10": np.where(ranks <= 10, 1 / ranks, 0),
        "recall_at_1": ranks <= 1,
        "recall_at_5": ranks <= 5,
    }
    return {name: round(float(values.mean()), 4) for name, values in hits.items()}


def paired(ranks: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    first, other = ranks == 1, reference == 1
    p = mcnemar(int((first & ~other).sum()), int((~first & other).sum()))
    better, worse = int((ranks < reference).sum()), int((ranks > reference).sum())
    return {"better": better, "worse": worse, "p_first": round(p, 6)}


def run(count: int, limit: int, weight: float, embedder: Any = None) -> dict[str, Any]:
    """The configuration and the figures; UserError for a mistake."""
    if count < 1 or not 0 <= weight <= 1:
        raise UserError(
            f"--distractors {count} --weight {weight}: give 1 or more, and a weight from 0 to 1"
        )
    tasks = load_benchmark(BENCHMARK, limit)
    others = distractors(count, {t.solution.strip() for t in tasks})
    embedder = embedder or Embedder()
    configuration = {"benchmark": BENCHMARK, "tasks": len(tasks), "query": "task text alone"}
    configuration["distractors_from"] = (
        "textbook, stdlib, installed packages; files in sorted order"
    )
    configuration |= {"distractors": len(others), "distractors_sha256": digest(*others)}
    configuration |= {"embedder": embedder.name, "rrf_constant": RRF, "bm25_weight": weight}
    every = list(dict.fromkeys(t.solution for t in load_benchmark(f"{BENCHMARK}-all")))
    log = {"configuration": configuration} | measure(tasks, others, embedder, weight)
    return log | {"variations": variations(tasks, others, every, embedder), "versions": versions()}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="MBPP text -> reference solution among distractor functions"
    )
    parser.add_argument("--distractors", type=int, default=20_000)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--weight", type=float, default=0.5, help="of BM25 in the fusion of scores")
    parser.add_argument("--output", type=Path, help="default: results/benchmarks/code_search.json")
    options = parser.parse_args(argv)
    try:
        log = run(options.distractors, options.tasks, options.weight)
        write_json(options.output or results_dir() / "benchmarks" / "code_search.json", log)
    except UserError as e:
        print(f"error: {e}", file=sys.stderr)
        return 2
    print(json.dumps({k: v for k, v in log.items() if k != "versions"}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
