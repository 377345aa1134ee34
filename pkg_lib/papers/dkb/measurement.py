"""What is measured of a repository (Sections 6.2 to 6.5): its graph, times, and retrieval.

Retrieval is measured by whether the types that an answer needs reach the context. There are three
readings of "reach", from strict to lenient:

    source  the context has lines of the type's declaration
    listed  the same, or [ONTOLOGY INFO] names the type (the reading that the tables use first)
    named   the context has the type's simple name as a word
"""

import os
import re
import statistics
import tempfile
import time
import timeit
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from pkg_lib.analysis.sentences import counted
from pkg_lib.core.store import read_json, versions, write_json
from pkg_lib.data.questions import Question, gold
from pkg_lib.graph.types.build import BuiltGraph, build, in_mode
from pkg_lib.graph.types.scan import scan, texts
from pkg_lib.graph.types.typegraph import MODES, TypeGraph
from pkg_lib.papers.dkb.entity_scores import record_scores
from pkg_lib.papers.dkb.number_tables import shown_name
from pkg_lib.papers.dkb.pipelines import BUDGET, Gathered, Pipeline
from pkg_lib.papers.dkb.question_tasks import ask, estimate
from pkg_lib.papers.dkb.repository_study import RepositoryStudy, open_study, source_digest
from pkg_lib.papers.dkb.settings import MODEL, SAME_SIZE
from pkg_lib.papers.dkb.splitter import chunks_of
from pkg_lib.retrieval.embed import Embedder
from pkg_lib.retrieval.ranking import Vectors, top

SOURCE = "source"
READING = "listed"
READINGS = (SOURCE, READING, "named")
Value = TypeVar("Value")


def outermost(graph: TypeGraph, name: str) -> str:
    """Return the top-level type around a type.

    Args:
        graph: The graph that has both.
        name: Full name of the type.

    Returns:
        The name of the outermost type; the type itself if it is in none.
    """
    outer, _, _ = name.rpartition(".")
    while outer in graph.nodes:
        name = outer
        outer, _, _ = name.rpartition(".")
    return name


def reached_types(graph: TypeGraph, context: Gathered, reading: str) -> set[str]:
    """Return the types that a context reaches.

    Args:
        graph: The resolved graph, whatever graph the pipeline uses.
        context: A pipeline's context.
        reading: One of READINGS.

    Returns:
        Full names of the types.
    """
    if reading == "named":
        words = set(re.findall(r"[^\W\d][\w$]*", context.text))
        return {node.name for node in graph.nodes.values() if node.simple in words}
    types: set[str] = set()
    listed: set[str] = set()
    for part in context:
        shown = graph.within_lines(part.path, part.first, part.last)
        types.update(node.name for node in shown)
        listed |= part.names
    if reading == "source":
        return types
    for name in listed:
        if name in graph.nodes:
            types.add(name)
        else:
            # In a graph with simple names as keys, a listed name means every type that has it.
            types.update(graph.by_simple.get(name, []))
    return types


def scores(
    graph: TypeGraph,
    question: Question,
    context: Gathered,
    reading: str,
) -> dict[str, float]:
    """Measure the context of a question.

    Args:
        graph: The resolved graph.
        question: The question, with the types that its answer needs.
        context: A pipeline's context.
        reading: One of READINGS.

    Returns:
        `recall`: the share of the needed types that are reached. `precision`: the share of the
        reached types that are needed, where nested types count as their outermost type; NaN if
        nothing is reached.
    """
    reached = reached_types(graph, context, reading)
    needed = gold(question, graph)
    found = [name for name in needed if name in reached]
    reached_outermost = {outermost(graph, name) for name in reached}
    needed_outermost = {outermost(graph, name) for name in needed}
    relevant = reached_outermost & needed_outermost
    precision = float("nan")
    if reached_outermost:
        precision = len(relevant) / len(reached_outermost)
    return {
        "recall": len(found) / len(needed),
        "precision": precision,
    }


def table(study: RepositoryStudy, pipelines: Sequence[Pipeline]) -> pd.DataFrame:
    """Measure the contexts of pipelines.

    Args:
        study: The repository and its questions.
        pipelines: What to measure.

    Returns:
        One row per pipeline, question and reading: recall, precision, characters and excerpts.
    """
    rows = []
    for pipeline, question in product(pipelines, study.questions):
        context = pipeline.gather(question.id)
        excerpts = [part for part in context if part.path]
        for reading in READINGS:
            measured = scores(study.graph, question, context, reading)
            row = {
                "pipeline": pipeline.method,
                "question": question.id,
                "kind": question.kind,
                "reading": reading,
                **measured,
                "characters": len(context.text),
                "excerpts": len(excerpts),
            }
            rows.append(row)
    return pd.DataFrame(rows)


def evidence_of(study: RepositoryStudy) -> dict[str, Any]:
    """Measure the contexts of a study.

    Args:
        study: The repository and its questions.

    Returns:
        The tables "rows" of its pipelines and "variants" of DKB's variants, with the settings.
    """
    return {
        "repository": study.name,
        "k": study.k,
        "depth": study.depth,
        "rows": table(study, study.pipelines),
        "variants": table(study, study.variants),
    }


def measure(
    root: Path,
    name: str,
    folder: Path,
    processes: int = 1,
    tokens: bool = False,
    embed: bool = False,
) -> None:
    """Read, split and graph a repository, and write index.json.

    Args:
        root: Directory or archive of Java source.
        name: Name of the repository.
        folder: Where the file is written.
        processes: Number of processes that parse.
        tokens: Whether the embedder's tokens of all chunks are counted too (Table 3).
        embed: Whether all chunks are embedded too (the time of Table 1).
    """
    circumstances = _circumstances()
    tree = scan(root)
    reading, files = _timed(lambda: dict(texts(tree)))
    splitting, chunks = _timed(
        lambda: {path: chunks_of(path, text) for path, text in files.items()}
    )
    chunk_counts = {path: len(parts) for path, parts in chunks.items()}
    resolved, published = MODES
    built = build(root, resolved, processes)
    graphs = {
        resolved: _figures(built, chunk_counts),
        published: _figures(in_mode(built, published), chunk_counts),
    }
    index = {
        "repository": name,
        "source": source_digest(files),
        "files": len(built.files),
        "characters": sum(map(len, files.values())),
        "chunks": sum(chunk_counts.values()),
        "seconds": {
            "read": round(reading, 3),
            "split": round(splitting, 3),
        },
        "graphs": graphs,
        "processes": processes,
        **circumstances,
    }
    cost = _stored_embedding_cost(folder / "index.json", index["source"])
    if tokens or embed:
        parts = [chunk.text for file_chunks in chunks.values() for chunk in file_chunks]
        with tempfile.TemporaryDirectory() as cache:
            embedder = _warm_embedder(Path(cache))
            if embed:
                cost |= _embed(embedder, parts).cost
            cost |= _token_count(embedder, parts)
    if cost:
        index["embedding"] = cost
    write_json(folder / "index.json", index)


def _stored_embedding_cost(path: Path, source: str) -> dict[str, Any]:
    """Read what embedding the same sources cost, since it takes long to measure; empty if unknown."""
    stored = read_json(path) if path.exists() else {}
    if stored.get("source") != source:
        return {}
    return dict(stored.get("embedding", {}))


def _warm_embedder(cache: Path) -> Embedder:
    """Load the default embedder with an empty cache, so that encoding can be timed."""
    embedder = Embedder(cache=cache)
    embedder.encode(["warm"])  # loads the model
    return embedder


@dataclass(frozen=True)
class Embedded:
    """Texts that were embedded, and the time that it took.

    Attributes:
        vectors: One vector per text.
        cost: "seconds" by the clock, and "processor_seconds" of all processors together.
    """

    vectors: Vectors
    cost: dict[str, float]


def _embed(embedder: Embedder, parts: list[str]) -> Embedded:
    """Embed texts and measure the time."""
    processor_start = time.process_time()
    seconds, vectors = _timed(lambda: embedder.encode(parts))
    processor_seconds = time.process_time() - processor_start
    cost = {"seconds": round(seconds, 3), "processor_seconds": round(processor_seconds, 3)}
    return Embedded(vectors, cost)


def _token_count(embedder: Embedder, parts: list[str]) -> dict[str, Any]:
    """Return the embedder's name and the number of its tokens in texts."""
    return {"embedder": embedder.name, "tokens": _word_pieces(embedder, parts)}


def _word_pieces(embedder: Embedder, parts: list[str]) -> int:
    """Count all word pieces of texts, including those that the embedder cuts off."""
    tokenizer = embedder._model.tokenizer
    pieces = tokenizer(parts, add_special_tokens=False, truncation=False)["input_ids"]
    return sum(map(len, pieces))


def _circumstances() -> dict[str, Any]:
    """Return what seconds depend on. The load is that before a measurement."""
    load, _, _ = os.getloadavg()
    return {
        "processors": os.cpu_count(),
        "load_before": round(load, 2),
        "versions": versions(),
    }


def _figures(built: BuiltGraph, chunk_counts: Mapping[str, int]) -> dict[str, Any]:
    """Return the figures of a graph that index.json keeps."""
    graph = built.graph
    references = sorted(built.resolution.references.items())
    reasons = Counter(reason for _, reason in built.skipped)
    seconds = {step: round(seconds, 3) for step, seconds in built.seconds.items()}
    chunks = [chunk_counts.get(path, 0) for path in graph.by_path]
    return {
        "nodes": graph.node_counts(),
        "edges": graph.edge_counts(),
        "references": dict(references),
        "cycles": len(graph.cycles()),
        "skipped": dict(reasons),
        "seconds": seconds,
        "chunks_of_files_with_a_node": sum(chunks),
    }


def measure_queries(study: RepositoryStudy) -> dict[str, Any]:
    """Measure the times of embedding all chunks and of answering each query.

    Args:
        study: The repository and its questions.

    Returns:
        What is stored beside the ranking, and under "embedding" what embedding costs. A query's time is
        the median of five.
    """
    circumstances = _circumstances()
    parts = [chunk.text for chunk in study.chunks.values()]
    with tempfile.TemporaryDirectory() as folder:
        embedder = _warm_embedder(Path(folder))
        embedded = _embed(embedder, parts)
        study.embedder = study.embedder or embedder
        # A missing ranking is made from these vectors, so before the folder is deleted.
        pipelines = [p for p in study.pipelines if p.method != SAME_SIZE]
    query_seconds: dict[str, dict[str, float]] = {p.method: {} for p in pipelines}
    for question in study.questions:
        searching = _median_time(partial(_search, embedder, embedded.vectors, question))
        for pipeline in pipelines:
            gathering = _median_time(partial(pipeline.gather, question.id))
            seconds = round(searching + gathering, 6)
            query_seconds[pipeline.method][question.id] = seconds
    embedding = _token_count(embedder, parts) | embedded.cost
    return {
        "embedding": embedding,
        "query_seconds": query_seconds,
        "budget": BUDGET._asdict(),
        **circumstances,
    }


def _search(embedder: Embedder, vectors: Vectors, question: Question) -> None:
    """Embed a question and rank all chunks, as a query does."""
    cosines = embedder.compute([question.question]) @ vectors.T
    top(cosines[0])


def record(study: RepositoryStudy) -> None:
    """Measure everything of a study again, and store it.

    Args:
        study: The repository and its questions.
    """
    measure(study.built.tree.root, study.name, study.folder)
    queries = measure_queries(study)
    index_file = study.folder / "index.json"
    write_json(index_file, read_json(index_file) | {"embedding": queries.pop("embedding")})
    evidence = evidence_of(study)
    write_json(study.file("ranking"), study.ranked | queries)
    for name in ("rows", "variants"):
        evidence[name] = evidence[name].to_dict("split", index=False)
    evidence |= {
        "query_seconds": queries["query_seconds"],
        "load_before": queries["load_before"],
        "budget": BUDGET._asdict(),
        "digest": study.digest,
        "versions": versions(),
    }
    write_json(study.file("evidence"), evidence)


@dataclass(frozen=True)
class AskOptions:
    """What the command `dkb ask` does beside measuring contexts.

    Attributes:
        model: The model that answers what is not stored; "" for none.
        methods: The methods that answer; by default No-Graph, DKB and LLM-KB.
        retries: How often LLM-KB's skipped files are sent again.
        record: Whether everything is measured again and stored.
        dry_run: Whether only the cost of the answers is estimated.
        tokens_per_second: Speed of the model, for the estimate.
    """

    model: str = ""
    methods: Sequence[str] = ()
    retries: int = 0
    record: bool = False
    dry_run: bool = False
    tokens_per_second: float | None = None


def run(
    repository: str,
    questions: str,
    results: Path,
    options: AskOptions,
) -> Iterator[str]:
    """Run the command `dkb ask`.

    Args:
        repository: A repository as `place` takes it.
        questions: Path of the file of questions.
        results: The results directory.
        options: What else is done.

    Yields:
        The lines to print.
    """
    study = open_study(
        repository,
        questions,
        results,
        model=options.model or MODEL,
        retries=options.retries,
    )
    counts = [
        counted(len(study.texts), "file"),
        counted(len(study.chunks), "chunk"),
        counted(len(study.questions), "question"),
    ]
    yield f"{shown_name(study.name)}: {', '.join(counts)}"
    if options.dry_run:
        yield from estimate(study, options.methods, options.tokens_per_second)
        return
    if options.model:
        ask(study, options.methods)
        record_scores(study)
        yield from _answer_lines(study)
    if options.record:
        record(study)
    rows = evidence_of(study)["rows"]
    groups = rows.groupby(["pipeline", "reading"], sort=False)
    means = groups[["recall", "precision"]].mean()
    for row in means.reset_index().itertuples():
        rates = f"recall {row.recall:.3f}, precision {row.precision:.3f}"
        yield f"{row.pipeline:<20} {row.reading:<7} {rates}"
    for question in study.questions:
        yield from _missed_lines(study, question)


def _answer_lines(study: RepositoryStudy) -> Iterator[str]:
    """Yield what the model extracted and answered."""
    extraction = study.extracted
    if extraction:
        files = f"{len(extraction.records)} of {len(extraction.files)} files"
        faults = dict(extraction.faults) or "none"
        yield f"LLM-KB by {study.model}: {files}; faults: {faults}"
    counts = [f"{method} {len(rows)}" for method, rows in study.answers.items()]
    yield f"answers: {', '.join(counts)}"


def _missed_lines(study: RepositoryStudy, question: Question) -> Iterator[str]:
    """Yield what each pipeline misses of the types that a question needs."""
    for pipeline in study.pipelines:
        context = pipeline.gather(question.id)
        reached = reached_types(study.graph, context, READING)
        missed = [name for name in gold(question, study.graph) if name not in reached]
        if missed:
            yield f"{question.id}: {pipeline.method} misses {', '.join(missed)}"


def _timed(call: Callable[[], Value]) -> tuple[float, Value]:
    """Return the seconds of a call, and its value."""
    start = time.perf_counter()
    value = call()
    return time.perf_counter() - start, value


def _median_time(call: Callable[[], object]) -> float:
    """Return the median seconds of five calls."""
    return statistics.median(timeit.repeat(call, number=1, repeat=5))
