"""What `typegraph --record` and `repo-qa` measure of a repository, print and keep."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
import timeit
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pkg_lib.core.store import versions, write_json
from pkg_lib.data.questions import gold
from pkg_lib.graph.types.build import BuiltGraph, build, in_mode
from pkg_lib.graph.types.scan import by_reason, scan, texts
from pkg_lib.graph.types.typegraph import MODES
from pkg_lib.papers.dkb.evidence import READING, reached_types
from pkg_lib.papers.dkb.pipelines import BUDGET
from pkg_lib.papers.dkb.repository_study import MODEL, SAME_SIZE, RepositoryStudy, open_study, source_digest
from pkg_lib.papers.dkb.splitter import chunks_of
from pkg_lib.retrieval.embed import Embedder


def measure(root: Path, name: str, folder: Path, processes: int = 1) -> dict[str, Any]:
    """Reads, splits and graphs a repository, writes index.json into the folder. No model is needed."""
    load, tree = os.getloadavg()[0], scan(root)
    reading, files = _timed(lambda: dict(texts(tree)))
    splitting, count = _timed(lambda: {path: len(chunks_of(path, text)) for path, text in files.items()})
    built = build(root, MODES[0], processes)
    index = {
        "repository": name,
        "source": source_digest(files),
        "files": len(files) + sum(p.endswith(".java") for p, _ in tree.skipped),
        "characters": sum(map(len, files.values())),
        "chunks": sum(count.values()),
        "seconds": {"read": round(reading, 3), "split": round(splitting, 3)},
        "graphs": {m: _figures(built if m == MODES[0] else in_mode(built, m), count) for m in MODES},
        "processes": processes,
        **_circumstances(load),
    }
    write_json(folder / "index.json", index)
    return index


def _circumstances(load: float) -> dict[str, Any]:
    return {"processors": os.cpu_count(), "load_before": round(load, 2), "versions": versions()}


def _figures(built: BuiltGraph, chunks: Mapping[str, int]) -> dict[str, Any]:
    return {
        "nodes": built.graph.node_counts(),
        "edges": built.graph.edge_counts(),
        "references": dict(sorted(built.resolution.references.items())),
        "cycles": len(built.graph.cycles()),
        "skipped": by_reason(built.skipped),
        "seconds": {step: round(s, 3) for step, s in built.seconds.items()},
        "chunks_of_files_with_a_node": sum(chunks.get(path, 0) for path in built.graph.by_path),
    }


def measure_queries(study: RepositoryStudy) -> dict[str, Any]:
    """Embeds all chunks anew and asks each question five times; what goes beside the ranking."""
    load, parts = os.getloadavg()[0], [c.text for c in study.chunks.values()]
    with tempfile.TemporaryDirectory() as folder:
        embedder = Embedder(cache=Path(folder))
        embedder.encode(["warm"])  # loads the model
        embedding, vectors = _timed(lambda: embedder.encode(parts))
        study.embedder = study.embedder or embedder
        chosen = [p for p in study.pipelines if p.column != SAME_SIZE]  # made from these vectors, if need be
    seconds: dict[str, dict[str, float]] = {p.column: {} for p in chosen}
    for q in study.questions:
        search = _median(lambda q=q: np.argsort(-(embedder._compute([q.question]) @ vectors.T)[0]))
        for p in chosen:
            seconds[p.column][q.id] = round(search + _median(lambda p=p, q=q: p.gather(q.id)), 6)
    # Word pieces as the embedder's tokenizer counts them, those that it cuts off too.
    tokenizer = embedder._model.tokenizer  # type: ignore[union-attr]
    pieces = tokenizer(parts, add_special_tokens=False, truncation=False)["input_ids"]
    tokens = {"embedding_seconds": round(embedding, 3), "embedded_tokens": sum(map(len, pieces))}
    return tokens | {"query_seconds": seconds, "budget": BUDGET._asdict()} | _circumstances(load)


def record(study: RepositoryStudy) -> None:
    """Measures everything of a study again, and keeps it."""
    measure(study.root, study.name, study.folder)
    queries = measure_queries(study)
    write_json(study.file("ranking"), study.ranked | queries)
    about = {"k": study.k, "depth": study.depth, "budget": BUDGET._asdict(), "digest": study.digest}
    frames = {n: getattr(study.evidence, n).to_dict("split", index=False) for n in ("rows", "variants")}
    write_json(study.file("evidence"), about | frames | {"versions": versions()})


def run(
    repository: str, questions: str, results: Path, model: str = "", retries: int = 0, again: bool = False
) -> Iterator[str]:
    """What `repo-qa` prints; asks `model` for what is not stored, measures and records if `again`."""
    study = open_study(repository, questions, results, model=model or MODEL, retries=retries)
    sizes = f"{len(study.texts):,} files, {len(study.chunks):,} chunks, {len(study.questions)} questions"
    yield f"{study.name}: {sizes}"
    if model:
        study.ask()
        e = study.extracted
        faults = dict(e.faults) or "none"
        yield f"LLM-KB by {model}: {len(e.records)} of {len(e.files)} files; faults: {faults}"
        yield f"answers: {', '.join(f'{column} {len(rows)}' for column, rows in study.answers.items())}"
    if again:
        record(study)
    groups = study.evidence.rows.groupby(["pipeline", "reading"], sort=False)
    for (pipeline, reading), row in groups[["recall", "precision"]].mean().iterrows():
        yield f"{pipeline:<20} {reading:<7} recall {row['recall']:.3f}, precision {row['precision']:.3f}"
    for q in study.questions:
        for pipeline in study.pipelines:
            reached = reached_types(study.graph, pipeline.gather(q.id), READING)
            if missed := [n for n in gold(q, study.graph) if n not in reached]:
                yield f"{q.id}: {pipeline.column} misses {', '.join(missed)}"


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    value = call()
    return time.perf_counter() - start, value


def _median(call: Callable[[], Any]) -> float:
    return statistics.median(timeit.repeat(call, number=1))  # of five
