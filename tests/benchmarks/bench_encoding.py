"""MiniLM in float32, bfloat16 and 8-bit integers: speed beside sentence-transformers' defaults, and what retrieval loses.

    python tests/benchmarks/bench_encoding.py [--blocks 100] [--repeat 3] [--distractors 20000] [--tasks 500]
    [--output FILE]

`speed`: processor seconds of one thread for distinct blocks of textbook+stdlib, from an empty cache; each repeat
takes the three ways one after the other, and a ratio is sentence-transformers' seconds over ours, the median of
the repeats. `quality`: code search as in bench_code_search.py, by the embedder alone; `first_hits_changed`: by
precision, compared with float32, of the tasks asked, and of HumanEval's prompts over the same candidates.
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
    sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (1, 2)]

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
    graph = build_code_graph(load_corpus("textbook+stdlib").documents)
    some = np.random.default_rng(0).permutation(graph.of_type(BLOCK))[: 2 * count]
    return list(dict.fromkeys(graph.payloads(some)))[:count]


def seconds(models: dict, texts: list[str]) -> dict[str, float]:
    """Processor seconds of each way."""
    taken = {}
    with tempfile.TemporaryDirectory() as cache:
        for name, model in models.items():
            embedder = Embedder(name, Path(cache))
            if name != INT8:
                embedder.__dict__["_model"] = model
            taken[name] = timed(lambda e=embedder: e.encode(texts))[1]
    taken[PLAIN] = timed(lambda: models[DEFAULT].encode(texts, show_progress_bar=False))[1]
    return taken


def speed(texts: list[str], repeat: int) -> dict:
    """Texts a second of each way, and the ratios."""
    import torch

    torch.set_num_threads(1)
    models = {name: None if name == INT8 else Embedder(name)._model for name in NAMES}
    seconds(models, texts[:2])  # warm up
    rounds = [seconds(models, texts) for _ in range(repeat)]
    by_name = {name: len(texts) / median(r[name] for r in rounds) for name in (PLAIN, *NAMES)}
    ratios = {name: median(r[PLAIN] / r[name] for r in rounds) for name in NAMES}
    return {"texts": len(texts), "texts_per_cpu_s": by_name, "ratio_to_defaults": ratios}


def quality(count: int, limit: int) -> dict:
    """Figures of each precision, and how many first hits differ."""
    tasks = load_benchmark(BENCHMARK, limit)
    others = distractors(count, {t.solution.strip() for t in tasks})
    texts, asked = [t.solution for t in tasks] + others, [query_of(t) for t in tasks]
    prompts = [t.prompt for t in load_benchmark("humaneval")]
    relevant, by_name, first = relevance(tasks, texts), {}, []
    for embedder in map(Embedder, NAMES):
        vectors = embedder.encode(texts)
        scores, others_scores = (
            embedder.encode(asked) @ vectors.T,
            embedder.encode(prompts) @ vectors.T,
        )
        by_name[embedder.name] = figures(rank_of(scores.astype(np.float64), relevant))
        first.append((scores.argmax(1), others_scores.argmax(1)))
    about = {}
    for name, found in zip(NAMES[1:], first[1:], strict=True):
        changed = [int((a != b).sum()) for a, b in zip(first[0], found, strict=True)]
        about[name] = {
            BENCHMARK: [changed[0], len(tasks)],
            "humaneval": [changed[1], len(prompts)],
        }
    sizes = {"candidates": len(texts), "candidates_sha256": digest(*texts)}
    return sizes | {"methods": by_name, "first_hits_changed": about}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="MiniLM's precisions: speed and what retrieval loses"
    )
    parser.add_argument("--blocks", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--distractors", type=int, default=20_000)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--output", type=Path, help="default: results/benchmarks/encoding.json")
    options = parser.parse_args(argv)
    log = {"configuration": {k: v for k, v in vars(options).items() if k != "output"}}
    log |= {"speed": speed(blocks(options.blocks), options.repeat)}
    log |= {"quality": quality(options.distractors, options.tasks), "versions": versions()}
    write_json(options.output or results_dir() / "benchmarks" / "encoding.json", rounded(log))
    print(json.dumps(rounded({k: v for k, v in log.items() if k != "versions"}), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
