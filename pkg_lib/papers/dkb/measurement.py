"""What is measured of a repository: its graph, seconds of indexing and of a query, and whether the types that
an answer needs reach the context. Three readings, from strict to lenient:

    source  some lines of the type's declaration stand in the context
    listed  the same, or [ONTOLOGY INFO] names its node            (the reading that the tables use first)
    named   its simple name stands in the context as a word, wherever
"""

import os
import re
import statistics
import tempfile
import time
import timeit
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pkg_lib.core.store import versions, write_json
from pkg_lib.data.questions import Question, gold
from pkg_lib.graph.types.build import BuiltGraph, build, in_mode
from pkg_lib.graph.types.scan import scan, texts
from pkg_lib.graph.types.typegraph import MODES, TypeGraph
from pkg_lib.papers.dkb.pipelines import BUDGET, Gathered, Pipeline
from pkg_lib.papers.dkb.question_tasks import ask
from pkg_lib.papers.dkb.repository_study import RepositoryStudy, open_study, source_digest
from pkg_lib.papers.dkb.settings import MODEL, SAME_SIZE
from pkg_lib.papers.dkb.splitter import chunks_of
from pkg_lib.retrieval.embed import Embedder

READINGS = ("source", "listed", "named")
READING = "listed"


def outermost(graph: TypeGraph, name: str) -> str:
    """The top-level type around a type, which a package or nothing is around."""
    while (outer := name.rpartition(".")[0]) in graph.nodes:
        name = outer
    return name


def reached_types(graph: TypeGraph, context: Gathered, reading: str) -> set[str]:
    """The types that a context reaches, by the resolved graph, whatever graph a pipeline uses."""
    if reading == "named":
        words = set(re.findall(r"[^\W\d][\w$]*", context.text))
        return {node.name for node in graph.nodes.values() if node.simple in words}
    types = {
        n.name for part in context for n in graph.within_lines(part.path, part.first, part.last)
    }
    for name in chain.from_iterable(part.names for part in context if reading == "listed"):
        # In a graph that is keyed by simple names, a listed name means all types that have it.
        types.update([name] if name in graph.nodes else graph.by_simple.get(name, []))
    return types


def scores(
    graph: TypeGraph, question: Question, context: Gathered, reading: str
) -> dict[str, float]:
    """Recall: the share of the needed types that are reached. Precision: of the reached types those needed, a
    nested type as the type around it; NaN where nothing is reached."""
    reached, needed = reached_types(graph, context, reading), gold(question, graph)
    whole, wanted = ({outermost(graph, n) for n in names} for names in (reached, needed))
    precision = len(whole & wanted) / len(whole) if whole else float("nan")
    return {"recall": sum(n in reached for n in needed) / len(needed), "precision": precision}


def table(study: RepositoryStudy, pipelines: Sequence[Pipeline]) -> pd.DataFrame:
    """A row a pipeline, question and reading: recall, precision, the context's characters, excerpts."""
    rows = []
    for pipeline, q in product(pipelines, study.questions):
        context = pipeline.gather(q.id)
        sizes = {
            "characters": len(context.text),
            "excerpts": sum(bool(part.path) for part in context),
        }
        about = {"pipeline": pipeline.column, "question": q.id, "kind": q.kind}
        rows += [
            about | {"reading": r} | scores(study.graph, q, context, r) | sizes for r in READINGS
        ]
    return pd.DataFrame(rows)


def evidence_of(study: RepositoryStudy) -> dict[str, Any]:
    """The `table` of a study's pipelines ("rows") and variants, with the sizes that they are of."""
    frames = {"rows": table(study, study.pipelines), "variants": table(study, study.variants)}
    return {"repository": study.name, "k": study.k, "depth": study.depth} | frames


def measure(root: Path, name: str, folder: Path, processes: int = 1) -> None:
    """Reads, splits and graphs a repository, writes index.json into the folder. No model is needed."""
    load, tree = os.getloadavg()[0], scan(root)
    reading, files = _timed(lambda: dict(texts(tree)))
    splitting, count = _timed(
        lambda: {path: len(chunks_of(path, text)) for path, text in files.items()}
    )
    built = build(root, MODES[0], processes)
    index = {
        "repository": name,
        "source": source_digest(files),
        "files": len(built.files),
        "characters": sum(map(len, files.values())),
        "chunks": sum(count.values()),
        "seconds": {"read": round(reading, 3), "split": round(splitting, 3)},
        "graphs": {
            m: _figures(built if m == MODES[0] else in_mode(built, m), count) for m in MODES
        },
        "processes": processes,
    }
    write_json(folder / "index.json", index | _circumstances(load))


def _circumstances(load: float) -> dict[str, Any]:
    return {"processors": os.cpu_count(), "load_before": round(load, 2), "versions": versions()}


def _figures(built: BuiltGraph, chunks: Mapping[str, int]) -> dict[str, Any]:
    return {
        "nodes": built.graph.node_counts(),
        "edges": built.graph.edge_counts(),
        "references": dict(sorted(built.resolution.references.items())),
        "cycles": len(built.graph.cycles()),
        "skipped": dict(Counter(reason for _, reason in built.skipped)),
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
        chosen = [
            p for p in study.pipelines if p.column != SAME_SIZE
        ]  # made from these vectors, if need be
    seconds: dict[str, dict[str, float]] = {p.column: {} for p in chosen}
    for q in study.questions:
        search = _median(lambda q=q: np.argsort(-(embedder.compute([q.question]) @ vectors.T)[0]))
        for p in chosen:
            seconds[p.column][q.id] = round(search + _median(lambda p=p, q=q: p.gather(q.id)), 6)
    # Word pieces as the embedder's tokenizer counts them, those that it cuts off too.
    tokenizer = embedder._model.tokenizer  # type: ignore[union-attr]
    pieces = tokenizer(parts, add_special_tokens=False, truncation=False)["input_ids"]
    tokens = {"embedding_seconds": round(embedding, 3), "embedded_tokens": sum(map(len, pieces))}
    return tokens | {"query_seconds": seconds, "budget": BUDGET._asdict()} | _circumstances(load)


def record(study: RepositoryStudy) -> None:
    """Measures everything of a study again, and keeps it."""
    measure(study.built.tree.root, study.name, study.folder)
    queries, evidence = measure_queries(study), evidence_of(study)
    write_json(study.file("ranking"), study.ranked | queries)
    about = {"budget": BUDGET._asdict(), "digest": study.digest, "versions": versions()}
    frames = {name: evidence[name].to_dict("split", index=False) for name in ("rows", "variants")}
    write_json(study.file("evidence"), evidence | frames | about)


def run(
    repository: str,
    questions: str,
    results: Path,
    model: str = "",
    retries: int = 0,
    again: bool = False,
) -> Iterator[str]:
    """What `dkb ask` prints; asks `model` for what is not stored, measures and records if `again`."""
    study = open_study(repository, questions, results, model=model or MODEL, retries=retries)
    sizes = f"{len(study.texts):,} files, {len(study.chunks):,} chunks, {len(study.questions)} questions"
    yield f"{study.name}: {sizes}"
    if model:
        ask(study)
        e, faults = study.extracted, dict(study.extracted.faults) or "none"
        yield f"LLM-KB by {model}: {len(e.records)} of {len(e.files)} files; faults: {faults}"
        yield f"answers: {', '.join(f'{column} {len(rows)}' for column, rows in study.answers.items())}"
    if again:
        record(study)
    groups = evidence_of(study)["rows"].groupby(["pipeline", "reading"], sort=False)
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
