"""What is measured on a repository, and where it is kept.

    results/repo_qa/NAME/index.json       files, chunks, graphs in both modes, seconds by step, with the configuration
    results/repo_qa/NAME/ranking.json     every question's chunks by cosine, the best first; seconds of a query by pipeline
    results/repo_qa/NAME/answers/MODEL/extraction.jsonl   a model's answers to LLM-KB's extraction prompts
    results/repo_qa/NAME/answers/MODEL/questions.jsonl    a model's answers to the questions, of all pipelines

Seconds are measured when these files are made and only read afterwards, so a notebook shows the same at every run.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pkg_lib.generation.cache import GenerationCache
from pkg_lib.repo_qa import extraction, knowledge, prompts
from pkg_lib.repo_qa.asking import Asker, Backend
from pkg_lib.repo_qa.evidence import Judge
from pkg_lib.repo_qa.evidence import table as evidence_table
from pkg_lib.repo_qa.pipelines import DEPTH, TOP_K, Budget, GraphPipeline, NoGraph, Pipeline, Repository
from pkg_lib.repo_qa.questions import Question, gold, read_questions
from pkg_lib.repo_qa.splitter import OVERLAP, SIZE, Chunk, chunks_of
from pkg_lib.results import ROOT, read_json, slug, versions, write_json
from pkg_lib.retrieval.embed import DEFAULT, Embedder
from pkg_lib.typegraph.build import Built, build, in_mode
from pkg_lib.typegraph.graph import MODES
from pkg_lib.typegraph.scan import by_reason, scan, texts
from pkg_lib.types import Generation, UserError, digest

MODEL = "qwen2.5-coder-1.5b-instruct"
ANSWER_TOKENS = 256
REPEATS = 5  # of a query's latency; the median counts
KEPT = 400  # chunks of a ranking that are stored
SAME_SIZE = "No-Graph, same size"
JDK = "PKG_JAVA_SOURCE"
JDK_AT = Path("/usr/lib/jvm/openjdk-17/lib/src.zip")


def folder_of(results: Path, name: str) -> Path:
    return results / "repo_qa" / slug(name)


def java_source() -> Path:
    """The JDK's own source: PKG_JAVA_SOURCE, else where Debian's openjdk-17-source puts it. UserError where it is not."""
    path = Path(os.environ.get(JDK) or JDK_AT)
    if not path.exists():
        raise UserError(f"{path} is not there; install Debian's openjdk-17-source or set {JDK} to a src.zip or directory")
    return path


def place(repository: str) -> Path:
    """A repository by path: absolute, or below the checkout; "openjdk-17" is the JDK's own source."""
    if repository == "openjdk-17":
        return java_source()
    return Path(repository) if Path(repository).is_absolute() else ROOT / repository


@dataclass
class Opened:
    """A repository with its questions, and what is stored of it. `ranking` is read, or made where it does not fit."""

    name: str
    root: Path
    results: Path
    questions: list[Question]
    texts: dict[str, str]
    embedder: Embedder | None = None
    _graphs: dict[str, Built] = field(default_factory=dict)

    @cached_property
    def chunks(self) -> dict[str, Chunk]:
        return {c.id: c for path, text in self.texts.items() for c in chunks_of(path, text)}

    @cached_property
    def digest(self) -> str:
        """Of the chunks and questions: what a ranking is made from, with the embedder."""
        return digest(
            DEFAULT, *(f"{c.id} {c.text}" for c in self.chunks.values()), *(q.id + " " + q.question for q in self.questions)
        )

    def built(self, mode: str = "resolved") -> Built:
        if mode not in self._graphs:
            self._graphs[mode] = in_mode(self.built(), mode) if mode != MODES[0] else build(self.root)
        return self._graphs[mode]

    @cached_property
    def ranked(self) -> dict[str, Any]:
        """The content of ranking.json, made where it is not there or of another content."""
        path = folder_of(self.results, self.name) / "ranking.json"
        stored = read_json(path) if path.exists() else {}
        if stored.get("digest") != self.digest:
            stored = _rank(self)
            write_json(path, stored)
        return stored

    @cached_property
    def repository(self) -> Repository:
        ranking = {q: [(c, float(s)) for c, s in row] for q, row in self.ranked["ranking"].items()}
        return Repository(self.texts, self.chunks, ranking)

    def covered(self, mode: str) -> frozenset[str]:
        """The files that a node's `path` names: what the coupled variant embeds."""
        return frozenset(n.path for n in self.built(mode).graph.nodes.values())


def open_repository(repository: str, questions: str, results: Path, embedder: Embedder | None = None) -> Opened:
    """A repository by `place` with its question file; UserError for one that is not there or has no file."""
    root, path = place(repository), place(questions)
    found = read_questions(path)
    read = dict(texts(scan(root)))
    if not read:
        raise UserError(f"{root} has no .java file that can be read")
    return Opened(root.name, root, results, found, read, embedder)


def _rank(opened: Opened) -> dict[str, Any]:
    """Cosines of all chunks for each question, the best KEPT, and the seconds of a query."""
    embedder = opened.embedder or Embedder()
    chunks = list(opened.chunks.values())
    vectors = embedder.encode([c.text for c in chunks])
    asked = embedder.encode([q.question for q in opened.questions])
    found = {}
    for q, row in zip(opened.questions, asked @ vectors.T, strict=True):
        best = np.argsort(-row, kind="stable")[:KEPT]
        found[q.id] = [[chunks[i].id, round(float(row[i]), 6)] for i in best]
    return {"digest": opened.digest, "embedder": embedder.name, "chunks": len(chunks), "ranking": found}


def pipelines(
    opened: Opened, k: int = TOP_K, depth: int = DEPTH, model: str = MODEL, budget: Budget | None = None
) -> list[Pipeline]:
    """The three pipelines, and No-Graph at the size of DKB's contexts. LLM-KB is there when its extraction is complete."""
    budget = budget or Budget()
    dkb = GraphPipeline(opened.repository, opened.built().graph, "DKB", k, depth, budget=budget)
    sizes = {q.id: len(dkb.gather(q.id).text) for q in opened.questions}
    found: list[Pipeline] = [NoGraph(opened.repository, k), NoGraph(opened.repository, k, sizes, SAME_SIZE), dkb]
    if extracted := stored_extraction(opened, model):
        found.append(llm_kb(opened, extracted, k, depth, budget))
    return found


def llm_kb(
    opened: Opened, extracted: extraction.Extraction, k: int, depth: int, budget: Budget, column: str = "LLM-KB"
) -> Pipeline:
    """LLM-KB: chunks of analysed files only, dependencies both ways, no types of edges, no summary."""
    graph, paths = knowledge.graph_of(extracted), frozenset(extracted.records)
    return GraphPipeline(opened.repository, graph, column, k, depth, paths, interfaces=False, summary=False, budget=budget)


def variants(opened: Opened, k: int = TOP_K, depth: int = DEPTH) -> list[Pipeline]:
    """DKB with one thing changed at a time."""
    graph, published = opened.built().graph, opened.built("as-published").graph
    made = {
        "DKB": {}, "depth 0 (interface consumers only)": {"depth": 0}, "depth 2": {"depth": 2}, "depth 3": {"depth": 3},
        "without interface consumers": {"interfaces": False}, "coupled": {"paths": opened.covered("resolved")},
    }  # fmt: skip
    found: list[Pipeline] = [
        GraphPipeline(opened.repository, graph, name, **{"k": k, "depth": depth} | options) for name, options in made.items()
    ]
    paths = opened.covered("as-published")
    return [*found, GraphPipeline(opened.repository, published, "as published", k, depth, paths, by_file=True)]


def asker_of(opened: Opened, model: str, stage: str, most: int, backend: Backend | None = None) -> Asker:
    """The model with what it has answered so far for this repository and stage."""
    cache = GenerationCache(folder_of(opened.results, opened.name) / "answers" / slug(model))
    return Asker(model, cache, f"{stage}.jsonl", stage, most, backend)


def extract(
    opened: Opened, model: str = MODEL, retries: int = 0, batch: int = extraction.BATCH, backend: Backend | None = None
) -> extraction.Extraction:
    """LLM-KB's records of a repository; the model is loaded where an answer is missing."""
    asker = asker_of(opened, model, "extraction", extraction.MAX_NEW_TOKENS, backend)
    return extraction.extract(opened.texts, asker, batch, retries)


class _Silent:
    """Stands in for a model that may not be loaded."""

    def generate(self, requests: Sequence[Any], done: Any) -> None:
        raise Missing(f"{len(requests)} answers are not stored")


class Missing(UserError):
    """Answers that only a model could give."""


def stored_extraction(opened: Opened, model: str = MODEL, retries: int = 0) -> extraction.Extraction | None:
    """`extract` from stored answers alone; None where one is missing."""
    try:
        return extract(opened, model, retries, backend=_Silent())
    except Missing:
        return None


PROMPTS = {"No-Graph": prompts.NO_GRAPH, SAME_SIZE: prompts.NO_GRAPH, "DKB": prompts.DKB, "LLM-KB": prompts.LLM_KB}


def answers(
    opened: Opened, chosen: Sequence[Pipeline], model: str = MODEL, backend: Backend | None = None
) -> dict[str, dict[str, Generation]]:
    """pipeline -> question -> answer, by the published prompts; the model is loaded where an answer is missing."""
    asker = asker_of(opened, model, "questions", ANSWER_TOKENS, backend)
    found = {}
    for pipeline in chosen:
        asked = {
            q.id: prompts.fill(PROMPTS[pipeline.column], context=pipeline.gather(q.id).text, question=q.question)
            for q in opened.questions
        }
        found[pipeline.column] = asker.ask(asked)
    return found


def stored_answers(opened: Opened, chosen: Sequence[Pipeline], model: str = MODEL) -> dict[str, dict[str, Generation]]:
    """`answers` of those pipelines whose answers are all stored."""
    found: dict[str, dict[str, Generation]] = {}
    for pipeline in chosen:
        try:
            found |= answers(opened, [pipeline], model, _Silent())
        except Missing:
            continue
    return found


def measure(opened_root: Path, name: str, results: Path, processes: int = 1) -> dict[str, Any]:
    """Reads, splits and graphs a repository, writes index.json, and returns it; what `index_of` shows. No model is needed."""
    load = os.getloadavg()[0]
    start = time.perf_counter()
    tree = scan(opened_root)
    read = dict(texts(tree))
    reading = time.perf_counter() - start
    start = time.perf_counter()
    count = {path: len(chunks_of(path, text)) for path, text in read.items()}
    splitting = time.perf_counter() - start
    built = build(opened_root, MODES[0], processes)
    graphs = {mode: _graph_figures(built if mode == MODES[0] else in_mode(built, mode), count) for mode in MODES}
    sizes = [len(t) for t in read.values()]
    found = {
        "repository": name, "files": len(read) + sum(p.endswith(".java") for p, _ in tree.skipped), "read": len(read),
        "characters": sum(sizes), "chunks": sum(count.values()), "chunk_size": SIZE, "chunk_overlap": OVERLAP,
        "seconds": {"read": round(reading, 3), "split": round(splitting, 3)}, "graphs": graphs,
        "truncated_files": sum(s > extraction.TRUNCATED_AT for s in sizes),
        "truncated_characters": sum(max(0, s - extraction.TRUNCATED_AT) for s in sizes),
        "processes": processes, "processors": os.cpu_count(), "load_before": round(load, 2), "versions": versions(),
    }  # fmt: skip
    write_json(folder_of(results, name) / "index.json", found)
    return found


def _graph_figures(built: Built, count: Mapping[str, int]) -> dict[str, Any]:
    graph = built.graph
    covered = {n.path for n in graph.nodes.values()}
    return {
        "nodes": graph.node_counts(), "edges": graph.edge_counts(), "pairs": len(graph.edges),
        "references": dict(sorted(built.references.items())), "ambiguous": len(built.ambiguous), "again": len(built.again),
        "cycles": len(built.cycles), "skipped": by_reason(built.skipped), "remarks": by_reason(built.remarks),
        "seconds": {step: round(s, 3) for step, s in built.seconds.items()},
        "files_with_a_node": len(covered), "chunks_of_files_with_a_node": sum(n for p, n in count.items() if p in covered),
    }  # fmt: skip


def measure_queries(opened: Opened) -> dict[str, Any]:
    """Embeds all chunks anew and asks each question REPEATS times; adds both to ranking.json and index.json's folder."""
    with tempfile.TemporaryDirectory() as folder:
        embedder = Embedder(cache=Path(folder))
        embedder.encode(["warm"])  # loads the model
        start = time.perf_counter()
        vectors = embedder.encode([c.text for c in opened.chunks.values()])
        embedding = time.perf_counter() - start
    chosen = [p for p in pipelines(opened) if p.column != SAME_SIZE]
    seconds: dict[str, dict[str, float]] = {p.column: {} for p in chosen}
    for q in opened.questions:
        search = _median(
            [_seconds(lambda q=q: np.argsort(-(embedder._compute([q.question]) @ vectors.T)[0])) for _ in range(REPEATS)]
        )
        for p in chosen:
            seconds[p.column][q.id] = round(
                search + _median([_seconds(lambda p=p, q=q: p.gather(q.id)) for _ in range(REPEATS)]), 6
            )
    tokens = _tokens(embedder, [c.text for c in opened.chunks.values()])
    found = opened.ranked | {
        "embedding_seconds": round(embedding, 3), "embedded_tokens": tokens, "query_seconds": seconds,
        "budget": asdict(Budget()), "processors": os.cpu_count(), "load": round(os.getloadavg()[0], 2), "versions": versions(),
    }  # fmt: skip
    write_json(folder_of(opened.results, opened.name) / "ranking.json", found)
    return found


def run(repository: str, questions: str, results: Path, model: str = "", retries: int = 0, record: bool = False) -> Iterator[str]:
    """What `repo-qa` prints: each pipeline's evidence; asks `model` for what is missing, measures seconds if `record`."""
    opened = open_repository(repository, questions, results)
    judge = Judge(opened.built().graph)
    for q in opened.questions:
        gold(q, judge.graph)  # a mistake in the last gold list costs no hours
    yield f"{opened.name}: {len(opened.texts):,} files, {len(opened.chunks):,} chunks, {len(opened.questions)} questions"
    if model:
        found = extract(opened, model, retries)
        yield f"LLM-KB by {model}: {len(found.records)} of {len(found.files)} files; faults: {dict(found.faults) or 'none'}"
    if record:
        measure(opened.root, opened.name, results)
        measure_queries(opened)
    chosen = pipelines(opened, model=model or MODEL)
    means = evidence_table(judge, opened.questions, chosen)
    for (pipeline, reading), row in means.groupby(["pipeline", "reading"], sort=False)[["recall", "precision"]].mean().iterrows():
        yield f"{pipeline:<20} {reading:<7} recall {row['recall']:.3f}, precision {row['precision']:.3f}"
    if model:
        made = answers(opened, [p for p in chosen if p.column != SAME_SIZE], model)
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
