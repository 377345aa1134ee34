"""Measure code search: find the reference solution of an MBPP task by the task's text.

    python tests/benchmarks/bench_code_search.py [--distractors 20000] [--tasks 500] [--weight 0.5]
    [--output FILE]

The query is the task text alone. The candidates are the reference solutions of the tasks, and distractors:
distinct other functions of installed source. MiniLM and BM25 are configured as in the study. The constants of
the two fusions are not fitted to these tasks.

`paired` counts the tasks on which a method ranks the solution better or worse than MiniLM. Its `p_first` is the
p-value of the exact McNemar test on first places. `variations` holds the figures for other sets of candidates.
Encoding 75 functions takes about a second on two cores.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
import sysconfig
from collections.abc import Iterator
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

BENCHMARK = "mbpp"
RRF_CONSTANT = 60
MINILM = "MiniLM"
LEXICAL = "BM25"
RANK_FUSION = "reciprocal rank fusion"
SCORE_FUSION = "score fusion"
WITHOUT_DOCSTRINGS = "distractors without docstrings"


def query_of(task: Task) -> str:
    """Return the task text: the prompt without its last line, which names the function."""
    return task.prompt.rpartition("\n")[0]


def documents() -> Iterator[Document]:
    """Yield installed source files in a fixed order."""
    yield from load_corpus("textbook+stdlib")
    yield from load_corpus(f"source:{sysconfig.get_paths()['purelib']}")


def distractors(count: int, solutions: set[str]) -> list[str]:
    """Collect distinct installed functions that are not solutions.

    Args:
        count: Number of functions.
        solutions: Stripped sources of the functions to leave out.

    Returns:
        The sources of the functions.

    Raises:
        UserError: Fewer functions are installed.
    """
    functions: dict[str, None] = {}
    for document in documents():
        graph = build_code_graph([document])
        for text in graph.payloads(graph.of_type(IMPL)):
            if text.strip() not in solutions:
                functions[text] = None
        if len(functions) >= count:
            return list(functions)[:count]
    raise UserError(
        f"only {len(functions)} distinct functions are installed; give a smaller --distractors"
    )


def relevance(tasks: list[Task], texts: list[str]) -> np.ndarray:
    """Mark the candidates that are a task's reference solution.

    Args:
        tasks: The tasks.
        texts: The candidates.

    Returns:
        A Boolean array [tasks, texts].
    """
    relevant = np.zeros((len(tasks), len(texts)), bool)
    for row, task in enumerate(tasks):
        relevant[row] = [task.solution == text for text in texts]
    return relevant


def lexical_scores(texts: list[str], queries: list[str]) -> np.ndarray:
    """Return the BM25 scores [queries, texts]."""
    positions, best_first = BM25(texts, ASCII).search(queries, len(texts))
    scores = np.zeros(best_first.shape)
    np.put_along_axis(scores, positions, best_first, axis=1)
    return scores


def dense_scores(
    texts: list[str],
    queries: list[str],
    embedder: Any,
) -> np.ndarray:
    """Return the cosine similarities [queries, texts]."""
    cosines = embedder.encode(queries) @ embedder.encode(texts).T
    return cosines.astype(np.float64)


def rank_of(scores: np.ndarray, relevant: np.ndarray) -> np.ndarray:
    """Rank the best relevant text of each query.

    A tie counts against the method: an irrelevant text with the same score ranks first.

    Args:
        scores: Scores [queries, texts].
        relevant: Which texts are relevant, of the same shape.

    Returns:
        Ranks [queries]; the first rank is 1.
    """
    best = np.where(relevant, scores, -np.inf).max(axis=1, keepdims=True)
    ahead = (scores >= best) & ~relevant
    return 1 + ahead.sum(axis=1)


def by_ranks(systems: list[np.ndarray]) -> np.ndarray:
    """Combine scores by reciprocal rank fusion (Cormack et al., 2009).

    Texts with equal scores share the worst of their ranks.

    Args:
        systems: Scores [queries, texts] of each method.

    Returns:
        Combined scores of the same shape.
    """
    fused = np.zeros(systems[0].shape)
    for scores in systems:
        ranks = rankdata(-scores, method="max", axis=1)
        fused += 1 / (RRF_CONSTANT + ranks)
    return fused


def scaled(scores: np.ndarray) -> np.ndarray:
    """Scale the scores of each query to the range from 0 to 1."""
    low = scores.min(axis=1, keepdims=True)
    high = scores.max(axis=1, keepdims=True)
    return (scores - low) / np.where(high > low, high - low, 1)


def figures(ranks: np.ndarray) -> dict[str, float]:
    """Compute MRR@10, recall@1 and recall@5.

    Args:
        ranks: Rank of the relevant text of each query. A rank beyond 10 counts 0 in MRR@10.

    Returns:
        The three means over the queries.
    """
    by_query = {
        "mrr_at_10": np.where(ranks <= 10, 1 / ranks, 0),
        "recall_at_1": ranks <= 1,
        "recall_at_5": ranks <= 5,
    }
    return {name: round(float(values.mean()), 4) for name, values in by_query.items()}


def paired(
    ranks: np.ndarray,
    reference: np.ndarray,
) -> dict[str, float]:
    """Compare the ranks of a method with those of a reference method on the same queries.

    Args:
        ranks: Ranks of the method.
        reference: Ranks of the reference method.

    Returns:
        The numbers of queries with a better and a worse rank, and the p-value of the exact McNemar test on
        first places.
    """
    first = ranks == 1
    reference_first = reference == 1
    gained = int((first & ~reference_first).sum())
    lost = int((~first & reference_first).sum())
    return {
        "better": int((ranks < reference).sum()),
        "worse": int((ranks > reference).sum()),
        "p_first": round(mcnemar(gained, lost), 6),
    }


def measure(
    tasks: list[Task],
    others: list[str],
    embedder: Any,
    weight: float,
) -> dict[str, Any]:
    """Measure MiniLM, BM25 and both fusions.

    Args:
        tasks: The tasks. Their solutions are candidates.
        others: The other candidates.
        embedder: Encoder of queries and candidates.
        weight: Weight of BM25 in the fusion of scores.

    Returns:
        The figures of each method, and its comparison with MiniLM.
    """
    texts = [task.solution for task in tasks] + others
    queries = [query_of(task) for task in tasks]
    relevant = relevance(tasks, texts)
    dense = dense_scores(texts, queries, embedder)
    lexical = lexical_scores(texts, queries)
    methods = {
        MINILM: dense,
        LEXICAL: lexical,
        RANK_FUSION: by_ranks([dense, lexical]),
        SCORE_FUSION: (1 - weight) * scaled(dense) + weight * scaled(lexical),
    }
    ranks = {name: rank_of(scores, relevant) for name, scores in methods.items()}
    against_minilm = {}
    for name in (LEXICAL, RANK_FUSION, SCORE_FUSION):
        against_minilm[name] = paired(ranks[name], ranks[MINILM])
    return {
        "candidates": len(texts),
        "methods": {name: figures(of_method) for name, of_method in ranks.items()},
        "paired": against_minilm,
    }


def without_docstring(function: str) -> str:
    """Remove the docstring of a function.

    Args:
        function: Source of a function.

    Returns:
        The source without the lines of the docstring. A source that is not a valid function, or has no
        docstring, is returned unchanged.
    """
    try:
        node = ast.parse(function).body[0]
    except SyntaxError:
        return function
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return function
    if ast.get_docstring(node) is None:
        return function
    docstring = node.body[0]
    lines = function.split("\n")
    return "\n".join(lines[: docstring.lineno - 1] + lines[docstring.end_lineno :])


def variations(
    tasks: list[Task], others: list[str], every: list[str], embedder: Any
) -> dict[str, dict[str, Any]]:
    """Measure MiniLM and BM25 with other sets of candidates.

    Args:
        tasks: The tasks.
        others: The distractors.
        every: All reference solutions of MBPP.
        embedder: Encoder of queries and candidates.

    Returns:
        The figures of each method by set of candidates. MiniLM is not measured on distractors without
        docstrings.
    """
    solutions = [task.solution for task in tasks]
    queries = [query_of(task) for task in tasks]
    shuffled = np.random.default_rng(0).permutation(len(others))
    half = [others[position] for position in shuffled[: len(others) // 2]]
    bare = dict.fromkeys(without_docstring(other) for other in others)
    candidates = {
        f"with all {len(every)} reference solutions of MBPP": [*every, *others],
        f"with {len(half):,} of the distractors": [*solutions, *half],
        WITHOUT_DOCSTRINGS: [*solutions, *bare],
    }
    varied: dict[str, dict[str, Any]] = {}
    for name, texts in candidates.items():
        relevant = relevance(tasks, texts)
        varied[name] = {}
        if name != WITHOUT_DOCSTRINGS:
            dense = dense_scores(texts, queries, embedder)
            varied[name][MINILM] = figures(rank_of(dense, relevant))
        lexical = lexical_scores(texts, queries)
        varied[name][LEXICAL] = figures(rank_of(lexical, relevant))
    return varied


def run(
    count: int,
    limit: int,
    weight: float,
    embedder: Any = None,
) -> dict[str, Any]:
    """Run the benchmark.

    Args:
        count: Number of distractors.
        limit: Number of tasks.
        weight: Weight of BM25 in the fusion of scores, from 0 to 1.
        embedder: Encoder of queries and candidates; MiniLM by default.

    Returns:
        The configuration, the figures and the versions of packages.

    Raises:
        UserError: An argument is out of range, or too few functions are installed.
    """
    if count < 1 or not 0 <= weight <= 1:
        raise UserError(
            f"--distractors {count} --weight {weight}: give 1 or more, and a weight from 0 to 1"
        )
    tasks = load_benchmark(BENCHMARK, limit)
    others = distractors(count, {task.solution.strip() for task in tasks})
    embedder = embedder or Embedder()
    all_tasks = load_benchmark(f"{BENCHMARK}-all")
    every = list(dict.fromkeys(task.solution for task in all_tasks))
    configuration = {
        "benchmark": BENCHMARK,
        "tasks": len(tasks),
        "query": "task text alone",
        "distractors_from": "textbook, stdlib, installed packages; files in sorted order",
        "distractors": len(others),
        "distractors_sha256": digest(*others),
        "embedder": embedder.name,
        "rrf_constant": RRF_CONSTANT,
        "bm25_weight": weight,
    }
    return {
        "configuration": configuration,
        **measure(tasks, others, embedder, weight),
        "variations": variations(tasks, others, every, embedder),
        "versions": versions(),
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark from the command line.

    Args:
        arguments: Command-line arguments; by default those of the process.

    Returns:
        The exit status: 0, or 2 for a user's mistake.
    """
    parser = argparse.ArgumentParser(
        description="MBPP text -> reference solution among distractor functions"
    )
    parser.add_argument("--distractors", type=int, default=20_000)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument(
        "--weight",
        type=float,
        default=0.5,
        help="of BM25 in the fusion of scores",
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="default: results/benchmarks/code_search.json",
    )
    options = parser.parse_args(arguments)
    try:
        log = run(options.distractors, options.tasks, options.weight)
        output = options.output or results_dir() / "benchmarks" / "code_search.json"
        write_json(output, log)
    except UserError as e:
        print(f"error: {e}", file=sys.stderr)
        return 2
    del log["versions"]
    print(json.dumps(log, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
