"""Compare MiniLM in float32, bfloat16 and 8-bit integers: encoding speed and retrieval quality.

    python tests/benchmarks/bench_encoding.py [--blocks 100] [--repeat 3] [--distractors 20000] [--tasks 500]
    [--output FILE]

`speed` holds processor seconds of one thread for distinct blocks of textbook+stdlib, with an empty cache. Each
repetition measures sentence-transformers with its default settings and the three precisions, one after the
other. A ratio is the time of sentence-transformers divided by ours. The median of the repetitions counts.

`quality` holds the figures of code search as in bench_code_search.py, with the embedder alone.
`first_hits_changed` counts, for each lower precision, the queries whose first result differs from that of
float32. The queries are the MBPP tasks, and the prompts of HumanEval on the same candidates.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

if __name__ == "__main__":
    TESTS = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from benchmarks.bench_code_search import (
    BENCHMARK,
    distractors,
    figures,
    query_of,
    rank_of,
    relevance,
)
from benchmarks.clock import rounded, timed
from pkg_lib.core.embedders import BF16, DEFAULT, INT8
from pkg_lib.core.store import results_dir, versions, write_json
from pkg_lib.core.types import digest
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.data.corpora import load_corpus
from pkg_lib.graph.schema import BLOCK, build_code_graph
from pkg_lib.retrieval.embed import Embedder

NAMES = (DEFAULT, BF16, INT8)
PLAIN = "sentence-transformers"


def blocks(count: int) -> list[str]:
    """Return the texts of `count` distinct blocks of the corpus, chosen at random."""
    graph = build_code_graph(load_corpus("textbook+stdlib").documents)
    shuffled = np.random.default_rng(0).permutation(graph.of_type(BLOCK))
    texts = dict.fromkeys(graph.payloads(shuffled[: 2 * count]))
    return list(texts)[:count]


def seconds(models: dict, texts: list[str]) -> dict[str, float]:
    """Measure the processor seconds of each precision and of sentence-transformers.

    Args:
        models: Loaded models by name; the 8-bit model has None because its embedder loads it.
        texts: Texts to encode.

    Returns:
        Processor seconds by name.
    """
    taken = {}
    with tempfile.TemporaryDirectory() as cache:
        for name, model in models.items():
            embedder = Embedder(name, Path(cache))
            if name != INT8:
                embedder.__dict__["_model"] = model
            _, taken[name], _ = timed(lambda embedder=embedder: embedder.encode(texts))
    default_model = models[DEFAULT]
    _, taken[PLAIN], _ = timed(lambda: default_model.encode(texts, show_progress_bar=False))
    return taken


def speed(texts: list[str], repeat: int) -> dict:
    """Measure the speed of each precision on one thread.

    Args:
        texts: Texts to encode.
        repeat: Number of repetitions.

    Returns:
        Texts per processor second, and the speed relative to sentence-transformers.
    """
    import torch

    torch.set_num_threads(1)
    models = {}
    for name in NAMES:
        models[name] = None if name == INT8 else Embedder(name)._model
    seconds(models, texts[:2])  # warm-up
    rounds = [seconds(models, texts) for _ in range(repeat)]
    rates = {}
    for name in (PLAIN, *NAMES):
        rates[name] = len(texts) / median(taken[name] for taken in rounds)
    ratios = {}
    for name in NAMES:
        ratios[name] = median(taken[PLAIN] / taken[name] for taken in rounds)
    return {
        "texts": len(texts),
        "texts_per_cpu_s": rates,
        "ratio_to_defaults": ratios,
    }


def quality(count: int, limit: int) -> dict:
    """Measure the retrieval quality of each precision.

    Args:
        count: Number of distractors.
        limit: Number of MBPP tasks.

    Returns:
        The figures of each precision, and how many first results differ from those of float32.
    """
    tasks = load_benchmark(BENCHMARK, limit)
    others = distractors(count, {task.solution.strip() for task in tasks})
    texts = [task.solution for task in tasks] + others
    queries = [query_of(task) for task in tasks]
    prompts = [task.prompt for task in load_benchmark("humaneval")]
    relevant = relevance(tasks, texts)

    by_precision = {}
    first_of_tasks = {}
    first_of_prompts = {}
    for name in NAMES:
        embedder = Embedder(name)
        vectors = embedder.encode(texts)
        scores = embedder.encode(queries) @ vectors.T
        prompt_scores = embedder.encode(prompts) @ vectors.T
        ranks = rank_of(scores.astype(np.float64), relevant)
        by_precision[embedder.name] = figures(ranks)
        first_of_tasks[name] = scores.argmax(1)
        first_of_prompts[name] = prompt_scores.argmax(1)

    changed = {}
    for name in (BF16, INT8):
        changed_tasks = first_of_tasks[name] != first_of_tasks[DEFAULT]
        changed_prompts = first_of_prompts[name] != first_of_prompts[DEFAULT]
        changed[name] = {
            BENCHMARK: [int(changed_tasks.sum()), len(tasks)],
            "humaneval": [int(changed_prompts.sum()), len(prompts)],
        }
    return {
        "candidates": len(texts),
        "candidates_sha256": digest(*texts),
        "methods": by_precision,
        "first_hits_changed": changed,
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark from the command line.

    Args:
        arguments: Command-line arguments; by default those of the process.

    Returns:
        The exit status 0.
    """
    parser = argparse.ArgumentParser(
        description="MiniLM's precisions: speed and what retrieval loses"
    )
    parser.add_argument("--blocks", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--distractors", type=int, default=20_000)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--output", type=Path, help="default: results/benchmarks/encoding.json")
    options = parser.parse_args(arguments)
    configuration = vars(options).copy()
    del configuration["output"]
    log = {
        "configuration": configuration,
        "speed": speed(blocks(options.blocks), options.repeat),
        "quality": quality(options.distractors, options.tasks),
        "versions": versions(),
    }
    output = options.output or results_dir() / "benchmarks" / "encoding.json"
    write_json(output, rounded(log))
    del log["versions"]
    print(json.dumps(rounded(log), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
