"""Measures a repository once, and writes index.json, ranking.json and evidence.json."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pkg_lib.core.store import versions, write_json
from pkg_lib.core.types import digest
from pkg_lib.data.questions import gold
from pkg_lib.graph.types.build import BuiltGraph, build, in_mode
from pkg_lib.graph.types.scan import by_reason, scan, texts
from pkg_lib.graph.types.typegraph import MODES
from pkg_lib.papers.dkb.evidence import READING
from pkg_lib.papers.dkb.llm_kb import TRUNCATED_AT
from pkg_lib.papers.dkb.pipelines import Budget
from pkg_lib.papers.dkb.repository_study import MODEL, SAME_SIZE, RepositoryStudy, open_study
from pkg_lib.papers.dkb.splitter import OVERLAP, SIZE, chunks_of
from pkg_lib.retrieval.embed import Embedder

REPEATS = 5  # of a query's latency; the median counts


def measure(root: Path, name: str, folder: Path, processes: int = 1) -> dict[str, Any]:
    """Reads, splits and graphs a repository, writes index.json into the folder. No model is needed."""
    load, tree = os.getloadavg()[0], scan(root)
    reading, files = _timed(lambda: dict(texts(tree)))
    splitting, count = _timed(lambda: {path: len(chunks_of(path, text)) for path, text in files.items()})
    built = build(root, MODES[0], processes)
    sizes = [len(t) for t in files.values()]
    index = {
        "repository": name,
        "source": digest(*(part for path in sorted(files) for part in (path, files[path]))),
        "files": len(files) + sum(p.endswith(".java") for p, _ in tree.skipped),
        "read": len(files),
        "characters": sum(sizes),
        "chunks": sum(count.values()),
        "chunk_size": SIZE,
        "chunk_overlap": OVERLAP,
        "seconds": {"read": round(reading, 3), "split": round(splitting, 3)},
        "graphs": {m: _figures(built if m == MODES[0] else in_mode(built, m), count) for m in MODES},
        "truncated_files": sum(s > TRUNCATED_AT for s in sizes),
        "truncated_characters": sum(max(0, s - TRUNCATED_AT) for s in sizes),
        "processes": processes,
        "processors": os.cpu_count(),
        "load_before": round(load, 2),
        "versions": versions(),
    }
    write_json(folder / "index.json", index)
    return index


def _figures(built: BuiltGraph, chunks: Mapping[str, int]) -> dict[str, Any]:
    covered = {n.path for n in built.graph.nodes.values()}
    return {
        "nodes": built.graph.node_counts(),
        "edges": built.graph.edge_counts(),
        "pairs": len(built.graph.edges),
        "references": dict(sorted(built.resolution.references.items())),
        "ambiguous": len(built.resolution.ambiguous),
        "again": len(built.resolution.again),
        "cycles": len(built.graph.cycles()),
        "skipped": by_reason(built.skipped),
        "remarks": by_reason(built.remarks),
        "seconds": {step: round(s, 3) for step, s in built.seconds.items()},
        "files_with_a_node": len(covered),
        "chunks_of_files_with_a_node": sum(n for p, n in chunks.items() if p in covered),
    }


def measure_queries(study: RepositoryStudy) -> dict[str, Any]:
    """Embeds all chunks anew and asks each question REPEATS times; adds both to ranking.json."""
    parts = [c.text for c in study.chunks.values()]
    with tempfile.TemporaryDirectory() as folder:
        embedder = Embedder(cache=Path(folder))
        embedder.encode(["warm"])  # loads the model
        embedding, vectors = _timed(lambda: embedder.encode(parts))
        study.embedder = study.embedder or embedder
        study.ranked  # noqa: B018 (a ranking that is not stored is made from these vectors)
    chosen = [p for p in study.pipelines if p.column != SAME_SIZE]
    seconds: dict[str, dict[str, float]] = {p.column: {} for p in chosen}
    for q in study.questions:
        search = _median(lambda q=q: np.argsort(-(embedder._compute([q.question]) @ vectors.T)[0]))
        for p in chosen:
            seconds[p.column][q.id] = round(search + _median(lambda p=p, q=q: p.gather(q.id)), 6)
    # Word pieces as the embedder's tokenizer counts them, those that it cuts off too.
    tokenizer = embedder._model.tokenizer  # type: ignore[union-attr]
    pieces = tokenizer(parts, add_special_tokens=False, truncation=False)["input_ids"]
    ranked = study.ranked | {
        "embedding_seconds": round(embedding, 3),
        "embedded_tokens": sum(map(len, pieces)),
        "query_seconds": seconds,
        "budget": Budget()._asdict(),
        "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "versions": versions(),
    }
    write_json(study.file("ranking"), ranked)
    return ranked


def record(study: RepositoryStudy) -> None:
    """Measures everything of a study again, and keeps it."""
    measure(study.root, study.name, study.folder)
    measure_queries(study)
    about = {"k": study.k, "depth": study.depth, "budget": Budget()._asdict()}
    about |= {"digest": study.digest, "versions": versions()}
    for name in ("rows", "variants"):
        about[name] = getattr(study.evidence, name).to_dict("split", index=False)
    write_json(study.file("evidence"), about)


def run(
    repository: str, questions: str, results: Path, model: str = "", retries: int = 0, again: bool = False
) -> Iterator[str]:
    """What `repo-qa` prints; asks `model` for what is not stored, measures and records if `again`."""
    study = open_study(repository, questions, results, model=model or MODEL, retries=retries)
    sizes = f"{len(study.texts):,} files, {len(study.chunks):,} chunks, {len(study.questions)} questions"
    yield f"{study.name}: {sizes}"
    if model:
        e = study.extract()
        faults = dict(e.faults) or "none"
        yield f"LLM-KB by {model}: {len(e.records)} of {len(e.files)} files; faults: {faults}"
    if again:
        record(study)
    groups = study.evidence.rows.groupby(["pipeline", "reading"], sort=False)
    for (pipeline, reading), row in groups[["recall", "precision"]].mean().iterrows():
        yield f"{pipeline:<20} {reading:<7} recall {row['recall']:.3f}, precision {row['precision']:.3f}"
    for q in study.questions:
        for pipeline in study.pipelines:
            reached = study.judge.reached(pipeline.gather(q.id), READING)
            if missed := [n for n in gold(q, study.graph) if n not in reached]:
                yield f"{q.id}: {pipeline.column} misses {', '.join(missed)}"
    if model:
        answers = {p.column: study.ask(p) for p in study.pipelines if p.column != SAME_SIZE}
        yield f"answers: {', '.join(f'{column} {len(rows)}' for column, rows in answers.items())}"


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    value = call()
    return time.perf_counter() - start, value


def _median(call: Callable[[], Any]) -> float:
    return statistics.median(_timed(call)[0] for _ in range(REPEATS))
