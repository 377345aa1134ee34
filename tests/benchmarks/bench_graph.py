"""Measure the graph at the paper's scale (Table 8): build, save, load, search and prune.

    python tests/benchmarks/bench_graph.py [--functions 115000] [--embedder words] [--encode 500] [--beam 100]
    [--output FILE]

`ratio` is the processor time of build and save divided by that of plain `ast.parse` on the same installed
sources. `ratio_paused` is the same with `ast.parse` while the garbage collector is paused. Vectors are hashed
words, which lie in clusters as real texts do, or those of a real embedder. A real embedder takes hours if its
cache is empty.
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
    TESTS = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]

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

DIMENSIONS = 384
EXACT_QUERIES = 20
SAMPLED_TEXTS = 20_000
RATIO_GOAL = 2.3


def installed_documents(functions: int) -> list[Document]:
    """Read source files of the standard library, then of installed packages, in sorted order.

    Args:
        functions: Number of functions to reach.

    Returns:
        The first files that together hold so many functions.
    """
    locations = sysconfig.get_paths()
    in_stdlib = sorted(Path(locations["stdlib"]).rglob("*.py"))
    paths = [path for path in in_stdlib if "site-packages" not in path.parts]
    paths += sorted(Path(locations["purelib"]).rglob("*.py"))

    documents: list[Document] = []
    count = 0
    for path in paths:
        if count >= functions:
            break
        text = path.read_text("utf-8-sig", "surrogateescape")
        # A file that the graph reports as skipped belongs to the corpus too.
        documents.append(Document(str(path), text))
        with suppress(UNPARSABLE):
            count += len(functions_of(text))
    return documents


def parse_all(documents: list[Document], pause: bool = False) -> None:
    """Parse every source and discard the syntax tree; building a graph cannot be faster.

    Args:
        documents: The sources.
        pause: Whether to pause the garbage collector.
    """
    collector = paused_collector() if pause else nullcontext()
    with warnings.catch_warnings(), collector:
        warnings.simplefilter("ignore")
        for document in documents:
            with suppress(UNPARSABLE):
                ast.parse(document.text)


def build_and_save(
    documents: list[Document], path: Path, processes: int
) -> tuple[dict[str, float], Graph]:
    """Measure building and saving a graph.

    Args:
        documents: The sources.
        path: Folder to save the graph in.
        processes: Number of processes.

    Returns:
        The seconds and the functions per second, and the graph.
    """
    build_s, build_cpu_s, graph = timed(
        lambda: build_code_graph(documents, {"corpus": "installed source"}, processes)
    )
    save_s, save_cpu_s, _ = timed(lambda: disk.save(graph, path))
    wall_s = build_s + save_s
    figures = {
        "wall_s": wall_s,
        "cpu_s": build_cpu_s + save_cpu_s,
        "save_s": save_s,
        "functions_per_s": len(graph.of_type(IMPL)) / wall_s,
    }
    return figures, graph


def building(
    documents: list[Document],
    folder: Path,
) -> tuple[dict, Graph]:
    """Measure parsing, then build and save with one process and with two.

    Args:
        documents: The sources.
        folder: Folder for both saved graphs.

    Returns:
        The figures and the graph.
    """
    figures: dict = {}
    for name, pause in (("parse", False), ("parse_paused", True)):
        wall_s, cpu_s, _ = timed(lambda pause=pause: parse_all(documents, pause))
        figures[name] = {"wall_s": wall_s, "cpu_s": cpu_s}
    figures["one"], graph = build_and_save(documents, folder / "one", 1)
    figures["two"], graph_of_two = build_and_save(documents, folder / "two", 2)
    figures["ratio"] = figures["one"]["cpu_s"] / figures["parse"]["cpu_s"]
    figures["ratio_paused"] = figures["one"]["cpu_s"] / figures["parse_paused"]["cpu_s"]
    # A saved graph ends with its digest.
    digest_of_one = (folder / "one" / disk.GRAPH).read_bytes()[-32:]
    digest_of_two = (folder / "two" / disk.GRAPH).read_bytes()[-32:]
    figures["same_graph"] = same_graph(graph, graph_of_two) and digest_of_one == digest_of_two
    return figures, graph


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
    """Load a saved graph in a new process.

    Args:
        folder: Folder of the saved graph.

    Returns:
        The seconds, and the resident megabytes of the process before and after loading.
    """
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", LOAD, folder]
    printed = subprocess.check_output(command, env=environment, text=True)
    load_s, imports_mb, resident_mb = map(float, printed.split())
    return {
        "load_s": load_s,
        "imports_mb": imports_mb,
        "resident_mb": resident_mb,
    }


class WordVectors:
    """An encoder of texts as unit vectors [n, 384]: hashed words, randomly projected.

    Args:
        sample: Texts that determine the weights of words. Rare words weigh more.
    """

    name = "hashed words projected to 384 dimensions"

    def __init__(self, sample: list[str]) -> None:
        self.words = HashingVectorizer(
            token_pattern=r"[A-Z]?[a-z]+|[A-Z]+|\d+",
            n_features=2**15,
            norm=None,
            alternate_sign=False,
        )
        occurs = self.words.transform(sample) > 0
        seen = occurs.sum(axis=0).A1
        weights = np.log((1 + len(sample)) / (1 + seen))
        random = np.random.default_rng(0).normal(size=(len(seen), DIMENSIONS))
        self.projection = (random * weights[:, None]).astype(np.float32)

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return the vectors of texts, one row per text."""
        counts = self.words.transform(texts).astype(np.float32)
        counts.data = np.log1p(counts.data)
        rows = counts @ self.projection
        rows = rows + 1e-3 * self.projection[0]  # gives a direction to a text without words
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def half(text: str, random: np.random.Generator) -> str:
    """Drop about half of a text's words, to make a query with nearly the same meaning.

    Args:
        text: The text.
        random: Source of random numbers.

    Returns:
        The remaining words.
    """
    words = np.array(re.findall(r"\w+", text), str)
    kept = random.random(len(words)) < 0.5
    return " ".join(words[kept])


def recall(
    index: HNSWIndex,
    exact: FlatIndex,
    queries: np.ndarray,
) -> float:
    """Measure the recall@1 of an approximate index.

    Args:
        index: The approximate index.
        exact: An exact index of the same rows.
        queries: Vectors of the queries.

    Returns:
        The share of queries for which `index` finds the nearest neighbour, or one equally near.
    """
    _, best = exact.search(queries, 1)
    positions, cosines = index.search(queries, 1)
    found = (cosines >= best - 1e-6) & (positions >= 0)
    return float(found.mean())


def milliseconds_per_query(index, queries: np.ndarray) -> float:
    """Search queries one at a time.

    Args:
        index: The index.
        queries: Vectors of the queries.

    Returns:
        The median milliseconds.
    """
    index.search(queries[:1])  # warm-up
    seconds = []
    for query in queries:
        wall_s, _, _ = timed(lambda query=query: index.search(query[None]))
        seconds.append(wall_s)
    return 1e3 * float(np.median(seconds))


def searching(
    matrix: np.ndarray,
    nodes: np.ndarray,
    queries: np.ndarray,
    ef_construction: int,
) -> dict[str, object]:
    """Measure exact search and HNSW.

    The exact index has one row per node, as in the paper. HNSW has one row per distinct text because it links
    equal rows badly.

    Args:
        matrix: One vector per distinct text.
        nodes: Row of `matrix` for each node.
        queries: Vectors of the queries.
        ef_construction: HNSW's parameter of that name.

    Returns:
        Milliseconds per query of both indexes, and the recall of HNSW by its parameter efSearch.
    """
    exact_ms = milliseconds_per_query(FlatIndex(matrix[nodes]), queries[:EXACT_QUERIES])
    flat = FlatIndex(matrix)
    hnsw_build_s, _, hnsw = timed(lambda: HNSWIndex(matrix, ef_construction=ef_construction))
    by_ef = {}
    for ef in (64, 128, 256):
        hnsw.index.hnsw.efSearch = ef
        by_ef[str(ef)] = {
            "ms": milliseconds_per_query(hnsw, queries),
            "recall_at_1": recall(hnsw, flat, queries),
        }
    return {
        "exact_rows": len(nodes),
        "exact_ms": exact_ms,
        "hnsw_rows": len(matrix),
        "hnsw": by_ef,
        "hnsw_links": LINKS,
        "hnsw_build_s": hnsw_build_s,
        "hnsw_ef_construction": ef_construction,
    }


class Stub:
    """An encoder that takes almost no time, so that only pruning is measured."""

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return equal vectors of one dimension."""
        return np.ones((len(texts), 1), np.float32)


def pruning(graph: Graph, count: int = 500) -> dict[str, float]:
    """Measure how long pruning one function takes, without encoding.

    Args:
        graph: The graph.
        count: Number of functions that have blocks.

    Returns:
        The median, the 99th percentile and the maximum in milliseconds.
    """
    shuffled = np.random.default_rng(0).permutation(graph.of_type(IMPL))
    candidates = shuffled[: 4 * count]
    with_blocks = [node for node in candidates if len(graph.children(node))]
    query = np.ones(1, np.float32)
    stub = Stub()
    milliseconds = []
    for node in with_blocks[:count]:
        wall_s, _, _ = timed(lambda node=node: prune(graph, int(node), query, stub))
        milliseconds.append(1e3 * wall_s)
    median, p99, most = np.percentile(milliseconds, [50, 99, 100])
    return {
        "median_ms": float(median),
        "p99_ms": float(p99),
        "max_ms": float(most),
    }


def encoding(graph: Graph, count: int) -> dict[str, float]:
    """Measure the embedder with an empty cache.

    Args:
        graph: The graph.
        count: Number of blocks to encode.

    Returns:
        Texts per processor second, and the speed relative to sentence-transformers with its defaults.
    """
    shuffled = np.random.default_rng(0).permutation(graph.of_type(BLOCK))
    texts = list(dict.fromkeys(graph.payloads(shuffled[:count])))
    with tempfile.TemporaryDirectory() as cache:
        embedder = Embedder(cache=Path(cache))
        embedder.encode(["warm up"])
        _, ours_s, _ = timed(lambda: embedder.encode(texts))
        _, defaults_s, _ = timed(lambda: embedder._model.encode(texts, show_progress_bar=False))
    return {
        "texts": len(texts),
        "texts_per_cpu_s": len(texts) / ours_s,
        "ratio_to_defaults": defaults_s / ours_s,
    }


def measure(
    functions: int,
    folder: Path,
    embedder: str = "words",
    encode: int = 0,
    beam: int = 100,
    queries: int = 1000,
) -> dict:
    """Measure all steps.

    Args:
        functions: Number of functions in the corpus.
        folder: Folder for the saved graphs.
        embedder: Name of an embedder, or "words" for hashed words.
        encode: Number of blocks to encode with MiniLM; 0 leaves out the measurement.
        beam: HNSW's parameter efConstruction.
        queries: Number of search queries.

    Returns:
        All figures, and the versions of packages.
    """
    load_before = os.getloadavg()[0]
    documents = installed_documents(functions)
    build_figures, graph = building(documents, folder)
    account = ledger(documents, graph)
    graph_mb = (folder / "one" / disk.GRAPH).stat().st_size / 1e6
    load_figures = loading(folder / "one")

    texts = graph.texts.to_pylist()
    if embedder == "words":
        step = max(1, len(texts) // SAMPLED_TEXTS)
        encoder = WordVectors(texts[::step])
    else:
        encoder = Embedder(embedder)
    vectors_s, _, matrix = timed(lambda: encoder.encode(texts))
    random = np.random.default_rng(1)
    chosen = random.choice(len(texts), queries)
    asked = [half(texts[position], random) for position in chosen]
    query_vectors = encoder.encode(asked)

    figures: dict = {
        "load_before": load_before,
        "processors": os.cpu_count(),
        "documents": len(documents),
        "nodes": len(graph),
        "functions": account.implementations,
        "edges": graph.edges.num_rows,
        "payloads": len(graph.texts),
        "ledger": str(account).split("\n"),
        "balanced": account.balanced,
        "build": build_figures,
        "disk_mb_without_vectors": graph_mb,
        **load_figures,
        "vectors": encoder.name,
        "vectors_s": vectors_s,
        "disk_mb": graph_mb + matrix.nbytes / 1e6,
        "search": searching(matrix, graph.text, query_vectors, beam),
        "pruning": pruning(graph),
    }
    if encode:
        figures["encoding"] = encoding(graph, encode)
    figures["versions"] = versions()
    return figures


def table(figures: dict) -> str:
    """Lay out the figures beside Table 8 of the paper."""
    rows = [("", "Table 8 (PKG)", "here"), *table8_rows(figures)]
    return "\n".join(f"{step:<32} {paper:<28} {here}" for step, paper, here in rows)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark from the command line.

    Args:
        arguments: Command-line arguments; by default those of the process.

    Returns:
        The exit status: 0 if the graphs are correct and building meets the goal, else 1.
    """
    parser = argparse.ArgumentParser(description="the graph at the paper's scale beside Table 8")
    parser.add_argument("--functions", type=int, default=115_000)
    parser.add_argument("--embedder", default="words")
    parser.add_argument(
        "--encode",
        type=int,
        default=0,
        help="blocks to encode (0: not measured)",
    )
    parser.add_argument(
        "--beam",
        type=int,
        default=EF_CONSTRUCTION,
        help="efConstruction of HNSW",
    )
    parser.add_argument("--output", type=Path, help="default: results/benchmarks/graph.json")
    options = parser.parse_args(arguments)
    configuration = vars(options).copy()
    del configuration["output"]
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(folder=Path(folder), **configuration)
    output = options.output or results_dir() / "benchmarks" / "graph.json"
    write_json(output, {"configuration": configuration, **rounded(figures)})
    print(table(figures))
    for line in figures["ledger"]:
        print(line)
    build = figures["build"]
    correct = figures["balanced"] and build["same_graph"]
    fast = build["ratio"] <= RATIO_GOAL
    return 0 if correct and fast else 1


if __name__ == "__main__":
    sys.exit(main())
