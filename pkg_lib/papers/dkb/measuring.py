"""Measures a repository once, and writes what study.py describes: index.json, ranking.json and evidence.json."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from pkg_lib.core.models import model_spec
from pkg_lib.core.store import versions, write_json
from pkg_lib.core.types import UserError
from pkg_lib.data.questions import gold
from pkg_lib.graph.types.build import Built, build, in_mode
from pkg_lib.graph.types.scan import by_reason, scan, texts
from pkg_lib.graph.types.typegraph import MODES
from pkg_lib.papers.dkb import dkb_study as study
from pkg_lib.papers.dkb import llm_kb as extraction
from pkg_lib.papers.dkb.evidence import Judge
from pkg_lib.papers.dkb.evidence import table as evidence_table
from pkg_lib.papers.dkb.pipelines import DEPTH, TOP_K, Budget
from pkg_lib.papers.dkb.splitter import OVERLAP, SIZE, chunks_of
from pkg_lib.retrieval.embed import Embedder

REPEATS = 5  # of a query's latency; the median counts


def measure(root: Path, name: str, folder: Path, processes: int = 1) -> dict[str, Any]:
    """Reads, splits and graphs a repository, writes index.json into the folder, and returns it. No model is needed."""
    load = os.getloadavg()[0]
    start = time.perf_counter()
    tree = scan(root)
    read = dict(texts(tree))
    reading = time.perf_counter() - start
    start = time.perf_counter()
    count = {path: len(chunks_of(path, text)) for path, text in read.items()}
    splitting = time.perf_counter() - start
    built = build(root, MODES[0], processes)
    graphs = {
        mode: _graph_figures(built if mode == MODES[0] else in_mode(built, mode), count) for mode in MODES
    }
    sizes = [len(t) for t in read.values()]
    found = {
        "repository": name,
        "source": study.source_digest(read),
        "files": len(read) + sum(p.endswith(".java") for p, _ in tree.skipped),
        "read": len(read),
        "characters": sum(sizes),
        "chunks": sum(count.values()),
        "chunk_size": SIZE,
        "chunk_overlap": OVERLAP,
        "seconds": {"read": round(reading, 3), "split": round(splitting, 3)},
        "graphs": graphs,
        "truncated_files": sum(s > extraction.TRUNCATED_AT for s in sizes),
        "truncated_characters": sum(max(0, s - extraction.TRUNCATED_AT) for s in sizes),
        "processes": processes,
        "processors": os.cpu_count(),
        "load_before": round(load, 2),
        "versions": versions(),
    }
    write_json(folder / "index.json", found)
    return found


def _graph_figures(built: Built, count: Mapping[str, int]) -> dict[str, Any]:
    graph = built.graph
    covered = {n.path for n in graph.nodes.values()}
    return {
        "nodes": graph.node_counts(),
        "edges": graph.edge_counts(),
        "pairs": len(graph.edges),
        "references": dict(sorted(built.references.items())),
        "ambiguous": len(built.ambiguous),
        "again": len(built.again),
        "cycles": len(built.cycles),
        "skipped": by_reason(built.skipped),
        "remarks": by_reason(built.remarks),
        "seconds": {step: round(s, 3) for step, s in built.seconds.items()},
        "files_with_a_node": len(covered),
        "chunks_of_files_with_a_node": sum(n for p, n in count.items() if p in covered),
    }


def measure_queries(opened: study.Opened) -> dict[str, Any]:
    """Embeds all chunks anew and asks each question REPEATS times; adds both to ranking.json."""
    with tempfile.TemporaryDirectory() as folder:
        embedder = Embedder(cache=Path(folder))
        embedder.encode(["warm"])  # loads the model
        start = time.perf_counter()
        vectors = embedder.encode([c.text for c in opened.chunks.values()])
        embedding = time.perf_counter() - start
        opened.embedder = opened.embedder or embedder
        opened.repository  # noqa: B018 (a ranking that is missing is made from these vectors)
    chosen = [p for p in study.pipelines(opened) if p.column != study.SAME_SIZE]
    seconds: dict[str, dict[str, float]] = {p.column: {} for p in chosen}
    for q in opened.questions:
        search = _median(
            [
                _seconds(lambda q=q: np.argsort(-(embedder._compute([q.question]) @ vectors.T)[0]))
                for _ in range(REPEATS)
            ]
        )
        for p in chosen:
            seconds[p.column][q.id] = round(
                search + _median([_seconds(lambda p=p, q=q: p.gather(q.id)) for _ in range(REPEATS)]), 6
            )
    tokens = _tokens(embedder, [c.text for c in opened.chunks.values()])
    found = opened.ranked | {
        "embedding_seconds": round(embedding, 3),
        "embedded_tokens": tokens,
        "query_seconds": seconds,
        "budget": asdict(Budget()),
        "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "versions": versions(),
    }
    write_json(opened.file("ranking"), found)
    return found


def run(
    repository: str, questions: str, results: Path, model: str = "", retries: int = 0, record: bool = False
) -> Iterator[str]:
    """What `repo-qa` prints: each pipeline's evidence; asks `model` for what is missing, measures seconds if `record`.

    UserError for an unknown model or a number of retries below 0.
    """
    if retries < 0:
        raise UserError(f"retries = {retries}: give 0 or more")
    if model:
        model_spec(model)
    opened = study.open_repository(repository, questions, results)
    judge = Judge(opened.built().graph)
    for q in opened.questions:
        gold(q, judge.graph)  # a mistake in the last gold list costs no hours
    yield f"{opened.name}: {len(opened.texts):,} files, {len(opened.chunks):,} chunks, {len(opened.questions)} questions"
    if model:
        found = study.extract(opened, model, retries)
        yield f"LLM-KB by {model}: {len(found.records)} of {len(found.files)} files; faults: {dict(found.faults) or 'none'}"
    if record:
        measure(opened.root, opened.name, opened.folder)
        measure_queries(opened)
    chosen = study.pipelines(opened, model=model or study.MODEL, retries=retries)
    means = evidence_table(judge, opened.questions, chosen)
    if record:
        about = {
            "k": TOP_K,
            "depth": DEPTH,
            "budget": asdict(Budget()),
            "digest": opened.digest,
            "versions": versions(),
        }
        changed = evidence_table(judge, opened.questions, study.variants(opened))
        rows = {
            "rows": means.to_dict("split", index=False),
            "variants": changed.to_dict("split", index=False),
        }
        write_json(opened.file("evidence"), about | rows)
    for (pipeline, reading), row in (
        means.groupby(["pipeline", "reading"], sort=False)[["recall", "precision"]].mean().iterrows()
    ):
        yield f"{pipeline:<20} {reading:<7} recall {row['recall']:.3f}, precision {row['precision']:.3f}"
    if model:
        made = study.answers(opened, [p for p in chosen if p.column != study.SAME_SIZE], model)
        yield f"answers: {', '.join(f'{column} {len(found)}' for column, found in made.items())}"


def _tokens(embedder: Embedder, parts: list[str]) -> int:
    """Word pieces of all chunks as the embedder's tokenizer counts them, those that it cuts off too."""
    tokenizer = embedder._model.tokenizer  # type: ignore[union-attr]
    return sum(len(ids) for ids in tokenizer(parts, add_special_tokens=False, truncation=False)["input_ids"])


def _seconds(call: Any) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _median(values: list[float]) -> float:
    return float(np.median(values))
