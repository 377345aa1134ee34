"""What is measured on a repository, and where it is kept.

NAME is the repository's; another one of the same name, whose index.json is of another source, is kept as NAME-DIGEST, and a
ranking of other questions as ranking-DIGEST.json, so that what was measured of one is never shown for another, nor overwritten.

    results/repo_qa/NAME/index.json       files, chunks, graphs in both modes, seconds by step, with the configuration
    results/repo_qa/NAME/ranking.json     every question's chunks by cosine, the best first; seconds of a query by pipeline
    results/repo_qa/NAME/evidence.json    recall and precision, to be read where the source is not at hand
    results/repo_qa/NAME/answers/MODEL/extraction.jsonl   a model's answers to LLM-KB's extraction prompts
    results/repo_qa/NAME/answers/MODEL/questions.jsonl    a model's answers to the questions, of all pipelines

Seconds are measured when these files are made and only read afterwards, so a notebook shows the same at every run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pkg_lib.core.models import cache_dir, model_spec, revision_of
from pkg_lib.core.store import ROOT, read_json, slug, write_json
from pkg_lib.core.types import Generation, UserError, digest
from pkg_lib.data.questions import Question, read_questions
from pkg_lib.generation.asking import Asker, Backend
from pkg_lib.generation.cache import GenerationCache
from pkg_lib.graph.types.build import Built, build, in_mode
from pkg_lib.graph.types.scan import Tree, scan, texts
from pkg_lib.graph.types.typegraph import MODES
from pkg_lib.papers.dkb import dkb_prompts as prompts
from pkg_lib.papers.dkb import knowledge
from pkg_lib.papers.dkb import llm_kb as extraction
from pkg_lib.papers.dkb.pipelines import DEPTH, TOP_K, Budget, GraphPipeline, NoGraph, Pipeline, Repository
from pkg_lib.papers.dkb.splitter import Chunk, chunks_of
from pkg_lib.retrieval.embed import DEFAULT, Embedder

MODEL = "qwen2.5-coder-1.5b-instruct"
ANSWER_TOKENS = 256
KEPT = 400  # chunks of a ranking that are stored
SAME_SIZE = "No-Graph, same size"
JDK = "PKG_JAVA_SOURCE"
JDK_AT = Path("/usr/lib/jvm/openjdk-17/lib/src.zip")


def folder_of(results: Path, name: str) -> Path:
    return results / "repo_qa" / slug(name)


def stored_index(folder: Path) -> dict[str, Any] | None:
    """index.json of a folder, None where nothing was measured."""
    path = folder / "index.json"
    return read_json(path) if path.exists() else None


def source_digest(read: Mapping[str, str]) -> str:
    """Of a repository's files, by path and text."""
    return digest(*(part for path in sorted(read) for part in (path, read[path])))


def java_source() -> Path:
    """The JDK's own source: PKG_JAVA_SOURCE, else where Debian's openjdk-17-source puts it. UserError where it is not."""
    path = Path(os.environ.get(JDK) or JDK_AT)
    if not path.exists():
        raise UserError(
            f"{path} is not there; install Debian's openjdk-17-source or set {JDK} to a src.zip or directory"
        )
    return path


def place(repository: str) -> Path:
    """A repository by path, absolute or below the checkout; "openjdk-17" is the JDK's own source.

    "openjdk-17/java.sql" is one of its modules, which is unpacked once into the cache directory.
    """
    if repository.partition("/")[0] == "openjdk-17":
        module = repository.partition("/")[2]
        return _module(java_source(), module) if module else java_source()
    return Path(repository) if Path(repository).is_absolute() else ROOT / repository


def _module(source: Path, module: str) -> Path:
    """A module's directory; UserError where the source has none of this name."""
    if source.is_dir():
        if not (source / module).is_dir():
            raise _no_module(source, module, (p.name for p in source.iterdir() if p.is_dir()))
        return source / module
    with Tree(source) as tree:
        every = scan(source).paths
        paths = [p for p in every if p.startswith(f"{module}/")]
        found = {p: tree.read(p) for p in paths}
    if not found:
        raise _no_module(source, module, (p.partition("/")[0] for p in every))
    folder = cache_dir() / "java-source" / digest(str(source.resolve()))[:8]
    for path, data in found.items():
        if isinstance(data, bytes) and ".." not in path.split("/") and not (folder / path).exists():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
    return folder / module


def _no_module(source: Path, module: str, known: Iterable[str]) -> UserError:
    return UserError(f"{source} has no module {module}; choose from: {', '.join(sorted(set(known)))}")


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
    def source(self) -> str:
        return source_digest(self.texts)

    @cached_property
    def folder(self) -> Path:
        """Where what is stored of this very source lies."""
        home = folder_of(self.results, self.name)
        stored = stored_index(home)
        return (
            home
            if stored is None or stored.get("source") == self.source
            else home.with_name(f"{home.name}-{self.source[:8]}")
        )

    def file(self, stem: str) -> Path:
        """A file that is made from the source and the questions."""
        path = self.folder / f"{stem}.json"
        other = path.exists() and read_json(path).get("digest") != self.digest
        return path.with_name(f"{stem}-{self.digest[:8]}.json") if other else path

    @cached_property
    def digest(self) -> str:
        """Of the chunks and questions: what a ranking is made from, with the embedder."""
        return digest(
            DEFAULT,
            *(f"{c.id} {c.text}" for c in self.chunks.values()),
            *(q.id + " " + q.question for q in self.questions),
        )

    def built(self, mode: str = "resolved") -> Built:
        if mode not in self._graphs:
            self._graphs[mode] = in_mode(self.built(), mode) if mode != MODES[0] else build(self.root)
        return self._graphs[mode]

    @cached_property
    def ranked(self) -> dict[str, Any]:
        """The content of ranking.json, made where there is none of this source and these questions."""
        path = self.file("ranking")
        if not path.exists():
            write_json(path, _rank(self))
        return read_json(path)

    @cached_property
    def repository(self) -> Repository:
        ranking = {q: [(c, float(s)) for c, s in row] for q, row in self.ranked["ranking"].items()}
        return Repository(self.texts, self.chunks, ranking)

    def covered(self, mode: str) -> frozenset[str]:
        """The files that a node's `path` names: what the coupled variant embeds."""
        return frozenset(n.path for n in self.built(mode).graph.nodes.values())


def open_repository(
    repository: str, questions: str, results: Path, embedder: Embedder | None = None
) -> Opened:
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
    opened: Opened,
    k: int = TOP_K,
    depth: int = DEPTH,
    model: str = MODEL,
    budget: Budget | None = None,
    retries: int = 0,
) -> list[Pipeline]:
    """The three pipelines, and No-Graph at the size of DKB's contexts.

    LLM-KB is there when its extraction, with so many retries, is complete.
    """
    budget = budget or Budget()
    dkb = GraphPipeline(opened.repository, opened.built().graph, "DKB", k, depth, budget=budget)
    sizes = {q.id: len(dkb.gather(q.id).text) for q in opened.questions}
    found: list[Pipeline] = [
        NoGraph(opened.repository, k),
        NoGraph(opened.repository, k, sizes, SAME_SIZE),
        dkb,
    ]
    if extracted := stored_extraction(opened, model, retries):
        found.append(llm_kb(opened, extracted, k, depth, budget))
    return found


def llm_kb(
    opened: Opened,
    extracted: extraction.Extraction,
    k: int,
    depth: int,
    budget: Budget,
    column: str = "LLM-KB",
) -> Pipeline:
    """LLM-KB: chunks of analysed files only, dependencies both ways, no types of edges, no summary."""
    graph, paths = knowledge.graph_of(extracted), frozenset(extracted.records)
    return GraphPipeline(
        opened.repository, graph, column, k, depth, paths, interfaces=False, summary=False, budget=budget
    )


def variants(opened: Opened, k: int = TOP_K, depth: int = DEPTH) -> list[Pipeline]:
    """DKB with one thing changed at a time."""
    graph, published = opened.built().graph, opened.built("as-published").graph
    made = {
        "DKB": {},
        "depth 0 (interface consumers only)": {"depth": 0},
        "depth 2": {"depth": 2},
        "depth 3": {"depth": 3},
        "without interface consumers": {"interfaces": False},
        "coupled": {"paths": opened.covered("resolved")},
    }
    found: list[Pipeline] = [
        GraphPipeline(opened.repository, graph, name, **{"k": k, "depth": depth} | options)
        for name, options in made.items()
    ]
    paths = opened.covered("as-published")
    return [
        *found,
        GraphPipeline(opened.repository, published, "as published", k, depth, paths, by_file=True),
    ]


def asker_of(opened: Opened, model: str, stage: str, most: int, backend: Backend | None = None) -> Asker:
    """The model with what it has answered so far for this repository and stage."""
    cache = GenerationCache(opened.folder / "answers" / slug(model))
    revision = revision_of(model_spec(model), opened.results, resolve=backend is None)
    return Asker(model, revision, cache, f"{stage}.jsonl", stage, most, backend)


def extract(
    opened: Opened,
    model: str = MODEL,
    retries: int = 0,
    batch: int = extraction.BATCH,
    backend: Backend | None = None,
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


PROMPTS = {
    "No-Graph": prompts.NO_GRAPH,
    SAME_SIZE: prompts.NO_GRAPH,
    "DKB": prompts.DKB,
    "LLM-KB": prompts.LLM_KB,
}


def answers(
    opened: Opened, chosen: Sequence[Pipeline], model: str = MODEL, backend: Backend | None = None
) -> dict[str, dict[str, Generation]]:
    """pipeline -> question -> answer, by the published prompts; the model is loaded where an answer is missing."""
    asker = asker_of(opened, model, "questions", ANSWER_TOKENS, backend)
    found = {}
    for pipeline in chosen:
        asked = {
            q.id: prompts.fill(
                PROMPTS[pipeline.column], context=pipeline.gather(q.id).text, question=q.question
            )
            for q in opened.questions
        }
        found[pipeline.column] = asker.ask(asked)
    return found


def stored_answers(
    opened: Opened, chosen: Sequence[Pipeline], model: str = MODEL
) -> dict[str, dict[str, Generation]]:
    """`answers` of those pipelines whose answers are all stored."""
    found: dict[str, dict[str, Generation]] = {}
    for pipeline in chosen:
        try:
            found |= answers(opened, [pipeline], model, _Silent())
        except Missing:
            continue
    return found
