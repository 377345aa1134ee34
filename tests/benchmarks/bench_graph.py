"""The graph at the paper's scale beside Table 8: built, saved, loaded, searched, pruned.

    python tests/benchmarks/bench_graph.py [--functions 115000] [--embedder words] [--encode 500] [--beam 100]
    [--output FILE]

`ratio` is the processor time of build and save over that of plain `ast.parse` on the same installed sources
(the floor); `ratio_paused` that over a floor without the garbage collector. Vectors are hashed words, which lie
in clusters as texts do, or a real embedder's, which takes hours where its cache is empty.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from contextlib import nullcontext, suppress
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (1, 2)]

from graph.source_trees import same_graph

from benchmarks.clock import rounded, timed
from pkg_lib.core.store import ROOT, results_dir, versions, write_json
from pkg_lib.core.types import Document
from pkg_lib.core.workers import paused_collector
from pkg_lib.graph import disk
from pkg_lib.graph.code import UNPARSABLE, functions_of
from pkg_lib.graph.graph_ledger import ledger
from pkg_lib.graph.schema import BLOCK, IMPL, Graph, build_code_graph
from pkg_lib.papers.pkg.cost import table8_rows
from pkg_lib.retrieval.embed import Embedder
from pkg_lib.retrieval.index import EF_CONSTRUCTION, LINKS, FlatIndex, HNSWIndex
from pkg_lib.retrieval.prune import prune


def installed_documents(functions: int) -> list[Document]:
    """Source files of the standard library, then of packages, sorted, that hold so many functions."""
    stdlib, packages = (
        sorted(Path(sysconfig.get_paths()[n]).rglob("*.py")) for n in ("stdlib", "purelib")
    )
    documents, count = [], 0
    for path in [*(p for p in stdlib if "site-packages" not in p.parts), *packages]:
        if count >= functions:
            break
        documents.append(Document(str(path), path.read_text("utf-8-sig", "surrogateescape")))
        with suppress(UNPARSABLE):  # what the graph names as skipped belongs to the corpus as well
            count += len(functions_of(documents[-1].text))
    return documents


def parse_all(documents: list[Document], pause: bool = False) -> None:
    """The floor: a syntax tree of every source, thrown away at once."""
    with warnings.catch_warnings(), paused_collector() if pause else nullcontext():
        warnings.simplefilter("ignore")
        for document in documents:
            with suppress(UNPARSABLE):
                ast.parse(document.text)


def building(documents: list[Document], folder: Path) -> tuple[dict, Graph]:
    """The floor, then build and save with one process and with two."""
    figures, graphs = {}, []
    for name, pause in (("parse", False), ("parse_paused", True)):
        wall, cpu, _ = timed(lambda p=pause: parse_all(documents, p))
        figures[name] = {"wall_s": wall, "cpu_s": cpu}
    for name, processes in (("one", 1), ("two", 2)):
        built = timed(
            lambda n=processes: build_code_graph(documents, {"corpus": "installed source"}, n)
        )
        saved = timed(lambda graph=built[2], name=name: disk.save(graph, folder / name))
        figures[name] = {
            "wall_s": built[0] + saved[0],
            "cpu_s": built[1] + saved[1],
            "save_s": saved[0],
        }
        figures[name]["functions_per_s"] = len(built[2].of_type(IMPL)) / figures[name]["wall_s"]
        graphs.append(built[2])
    for ratio, floor in (("ratio", "parse"), ("ratio_paused", "parse_paused")):
        figures[ratio] = figures["one"]["cpu_s"] / figures[floor]["cpu_s"]
    digests = {(folder / name / disk.GRAPH).read_bytes()[-32:] for name in ("one", "two")}
    return figures | {"same_graph": same_graph(*graphs) and len(digests) == 1}, graphs[0]


LOAD = """
import sys, time, psutil
from pathlib import Path
from pkg_lib.graph import disk
rss = lambda: psutil.Process().memory_info().rss / 2**20
before, start = rss(), time.perf_counter()
graph = disk.load(Path(sys.argv[1]))
print(time.perf_counter() - start, before, rss())
"""


def loading(folder: Path) -> dict[str, float]:
    """Seconds to open the graph in a fresh process, and its resident memory."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", LOAD, folder]
    out = subprocess.check_output(command, env=environment, text=True).split()
    return dict(zip(("load_s", "imports_mb", "resident_mb"), map(float, out), strict=True))


class WordVectors:
    """Texts -> unit vectors [n, 384]: hashed words, those rare in `sample` heavier, randomly projected."""

    name = "hashed words projected to 384 dimensions"

    def __init__(self, sample: list[str]) -> None:
        form = {"n_features": 2**15, "norm": None, "alternate_sign": False}
        self.words = HashingVectorizer(token_pattern=r"[A-Z]?[a-z]+|[A-Z]+|\d+", **form)
        seen = (self.words.transform(sample) > 0).sum(axis=0).A1
        random = np.random.default_rng(0).normal(size=(len(seen), 384))
        self.projection = (random * np.log((1 + len(sample)) / (1 + seen))[:, None]).astype(
            np.float32
        )

    def encode(self, texts: list[str]) -> np.ndarray:
        counts = self.words.transform(texts).astype(np.float32)
        counts.data = np.log1p(counts.data)
        rows = (
            counts @ self.projection + 1e-3 * self.projection[0]
        )  # a text without words has a direction
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def half(text: str, random: np.random.Generator) -> str:
    """The text with half of its words gone: a query that means nearly the same."""
    words = np.array(re.findall(r"\w+", text), str)
    return " ".join(words[random.random(len(words)) < 0.5])


def searching(
    matrix: np.ndarray, nodes: np.ndarray, queries: np.ndarray, ef_construction: int
) -> dict[str, object]:
    """Exact over one row a node, as the paper's; HNSW over distinct payloads: it links twins badly."""
    exact_ms = each(FlatIndex(matrix[nodes]), queries[:20])
    flat = FlatIndex(matrix)
    seconds, _, hnsw = timed(lambda: HNSWIndex(matrix, ef_construction=ef_construction))
    by_ef = {}
    for ef in (64, 128, 256):
        hnsw.index.hnsw.efSearch = ef
        by_ef[str(ef)] = {"ms": each(hnsw, queries), "recall_at_1": recall(hnsw, flat, queries)}
    figures = {
        "exact_rows": len(nodes),
        "exact_ms": exact_ms,
        "hnsw_rows": len(matrix),
        "hnsw": by_ef,
    }
    return figures | {
        "hnsw_links": LINKS,
        "hnsw_build_s": seconds,
        "hnsw_ef_construction": ef_construction,
    }


def recall(index: HNSWIndex, exact: FlatIndex, queries: np.ndarray) -> float:
    """Share of the queries whose nearest neighbour `index` finds, or one as near."""
    bar = exact.search(queries, 1)[1]
    positions, cosines = index.search(queries, 1)
    return float(((cosines >= bar - 1e-6) & (positions >= 0)).mean())


def each(index, queries: np.ndarray) -> float:
    """Median milliseconds of one query at a time."""
    index.search(queries[:1])
    return 1e3 * float(np.median([timed(lambda q=q: index.search(q[None]))[0] for q in queries]))


class Stub:
    """An encoder that costs nothing, so that only pruning is timed."""

    def encode(self, texts: list[str]) -> np.ndarray:
        return np.ones((len(texts), 1), np.float32)


def pruning(graph: Graph, count: int = 500) -> dict[str, float]:
    """Milliseconds to prune one function that has a branch, without encoding."""
    shuffled = np.random.default_rng(0).permutation(graph.of_type(IMPL))
    some = [v for v in shuffled[: 4 * count] if len(graph.children(v))][:count]
    query, stub = np.ones(1, np.float32), Stub()
    taken = [1e3 * timed(lambda v=v: prune(graph, int(v), query, stub))[0] for v in some]
    quantiles = {"median_ms": 50, "p99_ms": 99, "max_ms": 100}
    return {name: float(np.percentile(taken, q)) for name, q in quantiles.items()}


def encoding(graph: Graph, count: int) -> dict[str, float]:
    """Texts a second of the embedder from an empty cache, and of sentence-transformers with its defaults."""
    some = np.random.default_rng(0).permutation(graph.of_type(BLOCK))[:count]
    texts = list(dict.fromkeys(graph.payloads(some)))
    with tempfile.TemporaryDirectory() as cache:
        embedder = Embedder(cache=Path(cache))
        embedder.encode(["warm up"])
        ours = timed(lambda: embedder.encode(texts))[1]
        defaults = timed(lambda: embedder._model.encode(texts, show_progress_bar=False))[1]
    return {
        "texts": len(texts),
        "texts_per_cpu_s": len(texts) / ours,
        "ratio_to_defaults": defaults / ours,
    }


def measure(
    functions: int,
    folder: Path,
    embedder: str = "words",
    encode: int = 0,
    beam: int = 100,
    queries: int = 1000,
) -> dict:
    """All figures; `folder` takes the graph, `beam` is HNSW's efConstruction."""
    figures: dict = {"load_before": os.getloadavg()[0], "processors": os.cpu_count()}
    documents = installed_documents(functions)
    build_times, graph = building(documents, folder)
    account = ledger(documents, graph)
    figures |= {
        "documents": len(documents),
        "nodes": len(graph),
        "functions": account.implementations,
    }
    figures |= {"edges": graph.edges.num_rows, "payloads": len(graph.texts)}
    figures |= {
        "ledger": str(account).split("\n"),
        "balanced": account.balanced,
        "build": build_times,
    }
    size = (folder / "one" / disk.GRAPH).stat().st_size / 1e6
    figures |= {"disk_mb_without_vectors": size, **loading(folder / "one")}
    texts = graph.texts.to_pylist()
    sample = texts[:: max(1, len(texts) // 20_000)]
    encoder = WordVectors(sample) if embedder == "words" else Embedder(embedder)
    seconds, _, matrix = timed(lambda: encoder.encode(texts))
    figures |= {
        "vectors": encoder.name,
        "vectors_s": seconds,
        "disk_mb": size + matrix.nbytes / 1e6,
    }
    random = np.random.default_rng(1)
    asked = encoder.encode([half(texts[i], random) for i in random.choice(len(texts), queries)])
    figures |= {"search": searching(matrix, graph.text, asked, beam), "pruning": pruning(graph)}
    return (
        figures
        | ({"encoding": encoding(graph, encode)} if encode else {})
        | {"versions": versions()}
    )


def table(figures: dict) -> str:
    """The figures beside the paper's Table 8."""
    rows = [("", "Table 8 (PKG)", "here"), *table8_rows(figures)]
    return "\n".join(f"{step:<32} {paper:<28} {here}" for step, paper, here in rows)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="the graph at the paper's scale beside Table 8")
    parser.add_argument("--functions", type=int, default=115_000)
    parser.add_argument("--embedder", default="words")
    parser.add_argument("--encode", type=int, default=0, help="blocks to encode (0: not measured)")
    parser.add_argument("--beam", type=int, default=EF_CONSTRUCTION, help="efConstruction of HNSW")
    parser.add_argument("--output", type=Path, help="default: results/benchmarks/graph.json")
    options = parser.parse_args(argv)
    configuration = {k: v for k, v in vars(options).items() if k != "output"}
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(folder=Path(folder), **configuration)
    output = options.output or results_dir() / "benchmarks" / "graph.json"
    write_json(output, {"configuration": configuration} | rounded(figures))
    print("\n".join([table(figures), *figures["ledger"]]))
    good = (
        figures["balanced"] and figures["build"]["same_graph"] and figures["build"]["ratio"] <= 2.3
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
