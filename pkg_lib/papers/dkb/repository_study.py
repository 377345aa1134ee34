"""A Java repository with its questions: pipelines, evidence, a model's answers, and where each is stored.

    results/repo_qa/NAME/index.json       files, chunks, graphs in both modes, seconds by step
    results/repo_qa/NAME/ranking.json     every question's chunks, the best first; seconds of a query
    results/repo_qa/NAME/evidence.json    recall and precision, to be read where the source is not at hand
    results/repo_qa/NAME/answers/MODEL/extraction.jsonl   a model's answers to LLM-KB's extraction prompts
    results/repo_qa/NAME/answers/MODEL/questions.jsonl    a model's answers to the questions, of all pipelines

Another repository of that NAME is kept as NAME-DIGEST, other questions as ranking-DIGEST.json, so that what
was measured of one is never shown for another, nor overwritten.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pkg_lib.core.models import cache_dir, model_spec
from pkg_lib.core.store import ROOT, read_json, results_dir, slug, write_json
from pkg_lib.core.types import Generation, UserError, digest
from pkg_lib.data.questions import Question, gold, read_questions
from pkg_lib.generation.cache import GenerationCache
from pkg_lib.generation.generator import Backend, Decoding, Generator
from pkg_lib.graph.types.build import BuiltGraph, build, in_mode
from pkg_lib.graph.types.scan import scan, texts
from pkg_lib.graph.types.typegraph import TypeGraph
from pkg_lib.papers.dkb import llm_kb
from pkg_lib.papers.dkb.evidence import ContextEvidence, Judge, table
from pkg_lib.papers.dkb.pipelines import DEPTH, TOP_K, GraphPipeline, NoGraph, Pipeline, RankedText
from pkg_lib.papers.dkb.splitter import TextChunk, chunks_of
from pkg_lib.retrieval.embed import DEFAULT, Embedder

MODEL = "qwen2.5-coder-1.5b-instruct"
ANSWER_TOKENS = 256
KEPT = 400  # chunks of a ranking that are stored
BASE, SAME_SIZE, OURS, LLM_KB = "No-Graph", "No-Graph, same size", "DKB", "LLM-KB"
JDK = "PKG_JAVA_SOURCE"
JDK_AT = "/usr/lib/jvm/openjdk-17/lib/src.zip"
# Shown as not measured where results hold none.
STUDIED = ("java.net.http", "openjdk-17", "openmrs-core", "shopizer")


def folder_of(results: Path, name: str) -> Path:
    return results / "repo_qa" / slug(name)


def place(repository: str) -> Path:
    """A repository by path, absolute or below the checkout; "openjdk-17" is the JDK's own source.

    "openjdk-17/java.sql" is one of its modules, which is unpacked into the cache directory.
    """
    name, _, module = repository.partition("/")
    if name != "openjdk-17":
        return ROOT / repository
    source = Path(os.environ.get(JDK) or JDK_AT)
    if not source.exists():
        raise UserError(
            f"{source} is not there; install openjdk-17-source or set {JDK} to a src.zip or folder"
        )
    if not module:
        return source
    paths = scan(source).paths
    if module not in (modules := {p.partition("/")[0] for p in paths}):
        raise UserError(f"{source} has no module {module}; choose from: {', '.join(sorted(modules))}")
    if source.is_dir():
        return source / module
    folder = cache_dir() / "java-source" / digest(str(source.resolve()))[:8]
    with zipfile.ZipFile(source) as archive:
        wanted = (p for p in paths if p.startswith(f"{module}/"))
        archive.extractall(folder, [p for p in wanted if not (folder / p).exists()])
    return folder / module


class NotStored(Exception):
    """An answer that only a model could give."""


@dataclass
class RepositoryStudy:
    """A repository's files and questions, the sizes of its pipelines and the model that is asked about it.

    UserError for an unknown model, sizes that no pipeline can take, a gold list that names no type of the
    repository. `retries`: how often LLM-KB asks again for skipped files.
    """

    root: Path
    results: Path
    questions: list[Question]
    texts: dict[str, str]
    model: str = MODEL
    k: int = TOP_K
    depth: int = DEPTH
    retries: int = 0
    embedder: Embedder | None = None
    backend: Backend | None = None

    def __post_init__(self) -> None:
        self.generator("", 0)
        Pipeline(RankedText({}, {}, {}), "", self.k, self.depth)
        if self.k > KEPT and len(self.chunks) > KEPT:
            raise UserError(
                f"k = {self.k}: of {len(self.chunks):,} chunks the best {KEPT} are stored; give no more"
            )
        if self.retries < 0:
            raise UserError(f"retries = {self.retries}: give 0 or more")
        for question in self.questions:
            gold(question, self.graph)

    @property
    def name(self) -> str:
        return self.root.name

    @cached_property
    def chunks(self) -> dict[str, TextChunk]:
        return {c.id: c for path, text in self.texts.items() for c in chunks_of(path, text)}

    @cached_property
    def source(self) -> str:
        """A digest of the files, by path and text."""
        return digest(*(part for path in sorted(self.texts) for part in (path, self.texts[path])))

    @cached_property
    def digest(self) -> str:
        """Of the chunks and questions: what a ranking is made from, with the embedder."""
        chunks = (f"{c.id} {c.text}" for c in self.chunks.values())
        return digest(DEFAULT, *chunks, *(q.id + " " + q.question for q in self.questions))

    @cached_property
    def folder(self) -> Path:
        """Where what is stored of this very source lies."""
        home = folder_of(self.results, self.name)
        stored = _stored(home / "index.json")
        fits = stored is None or stored.get("source") == self.source
        return home if fits else home.with_name(f"{home.name}-{self.source[:8]}")

    def file(self, stem: str) -> Path:
        """A file that is made from the source and the questions."""
        path = self.folder / f"{stem}.json"
        stored = _stored(path)
        fits = stored is None or stored.get("digest") == self.digest
        return path if fits else path.with_name(f"{stem}-{self.digest[:8]}.json")

    @cached_property
    def index(self) -> dict[str, Any] | None:
        """index.json of this very source, None where it was not measured."""
        return _stored(self.folder / "index.json")

    @cached_property
    def built(self) -> BuiltGraph:
        return build(self.root)

    @property
    def graph(self) -> TypeGraph:
        return self.built.graph

    def share_of_chunks(self, paths: frozenset[str]) -> float:
        """Equation 4: the share of the chunks that are of these files."""
        return sum(c.path in paths for c in self.chunks.values()) / len(self.chunks)

    @cached_property
    def ranked(self) -> dict[str, Any]:
        """The content of ranking.json, made where there is none of this source and these questions."""
        path = self.file("ranking")
        if not path.exists():
            embedder = self.embedder or Embedder()
            vectors = embedder.encode([c.text for c in self.chunks.values()])
            cosines = embedder.encode([q.question for q in self.questions]) @ vectors.T
            ids, ranking = list(self.chunks), {}
            for q, row in zip(self.questions, cosines, strict=True):
                best = np.argsort(-row, kind="stable")[:KEPT]
                ranking[q.id] = [[ids[i], round(float(row[i]), 6)] for i in best]
            about = {"digest": self.digest, "embedder": embedder.name, "chunks": len(ids)}
            write_json(path, about | {"ranking": ranking})
        return read_json(path)

    @cached_property
    def repository(self) -> RankedText:
        ranking = {q: [(c, float(s)) for c, s in row] for q, row in self.ranked["ranking"].items()}
        return RankedText(self.texts, self.chunks, ranking)

    def dkb(self, column: str = OURS, **options: Any) -> GraphPipeline:
        """DKB, or a variant of it by what differs."""
        options = {"k": self.k, "depth": self.depth, "graph": self.graph} | options
        return GraphPipeline(self.repository, column, **options)

    def llm_kb(self, extraction: llm_kb.Extraction, column: str = LLM_KB) -> GraphPipeline:
        """LLM-KB: chunks of analysed files only, dependencies both ways, no types of edges, no summary."""
        graph, paths = extraction.graph(), frozenset(extraction.records)
        return self.dkb(column, graph=graph, paths=paths, interfaces=False, summary=False)

    @cached_property
    def pipelines(self) -> list[Pipeline]:
        """The pipelines, and No-Graph at the size of DKB's contexts; LLM-KB where it is stored."""
        dkb = self.dkb()
        sizes = {q.id: len(dkb.gather(q.id).text) for q in self.questions}
        base = NoGraph(self.repository, BASE, self.k)
        same_size = NoGraph(self.repository, SAME_SIZE, self.k, sizes=sizes)
        return [base, same_size, dkb, *([self.llm_kb(self.extracted)] if self.extracted else [])]

    @cached_property
    def variants(self) -> list[Pipeline]:
        """DKB with one thing changed at a time."""
        published = in_mode(self.built, "as-published").graph
        changes: dict[str, dict[str, Any]] = {
            OURS: {},
            "depth 0 (interface consumers only)": {"depth": 0},
            "depth 2": {"depth": 2},
            "depth 3": {"depth": 3},
            "without interface consumers": {"interfaces": False},
            "coupled": {"paths": frozenset(self.graph.by_path)},
            "as published": {"graph": published, "paths": frozenset(published.by_path), "by_file": True},
            "neighbours nearest to the question first": {"nearest": "first"},
            "their lines nearest to the question": {"nearest": "lines"},
        }
        return [self.dkb(name, **options) for name, options in changes.items()]

    @cached_property
    def judge(self) -> Judge:
        return Judge(self.graph)

    @cached_property
    def evidence(self) -> ContextEvidence:
        """Recall and precision of pipelines and variants; LLM-KB after a retry where that is stored."""
        variants = list(self.variants)
        again = self._extracted(retries=1) if self.extracted else None
        if again and again.retried:
            variants.append(self.llm_kb(again, "LLM-KB, one retry"))
        frames = (table(self.judge, self.questions, p) for p in (self.pipelines, variants))
        return ContextEvidence(self.name, self.k, self.depth, *frames)

    @cached_property
    def cache(self) -> GenerationCache:
        """What the model has answered so far for this repository."""
        return GenerationCache(self.folder / "answers" / slug(self.model))

    def generator(self, stage: str, most: int) -> Generator:
        """The model, which alone decides where an answer of at most so many tokens ends."""
        style = model_spec(self.model).style
        parameters = {"do_sample": False, "dtype": "bfloat16", "max_new_tokens": most, "stage": stage}
        # Eight at once: the contexts have some 5,000 tokens each.
        decoding = Decoding(parameters | {"style": style}, stop=lambda text: False, slots=8)
        return Generator(self.model, decoding, self.cache, self.results, self.backend)

    def _answers(
        self, stage: str, most: int, prompts: Mapping[str, str], stored: bool
    ) -> dict[str, Generation]:
        """name -> answer; `stored`: NotStored where the model would have to be asked."""
        generator = self.generator(stage, most)
        if stored and not all(map(generator.stored, prompts.values())):
            raise NotStored
        return generator.ask(prompts, f"{stage}.jsonl", stage)

    def extract(self, retries: int | None = None, stored: bool = False) -> llm_kb.Extraction:
        """LLM-KB's records of the repository; the model is loaded where an answer is not stored."""
        return llm_kb.extract(
            self.texts,
            lambda prompts: self._answers("extraction", llm_kb.MAX_NEW_TOKENS, prompts, stored),
            retries=self.retries if retries is None else retries,
        )

    def _extracted(self, retries: int | None = None) -> llm_kb.Extraction | None:
        with suppress(NotStored):
            return self.extract(retries, stored=True)
        return None

    @cached_property
    def extracted(self) -> llm_kb.Extraction | None:
        """`extract` from stored answers alone; None where one is not stored."""
        return self._extracted()

    def ask(self, pipeline: Pipeline, stored: bool = False) -> dict[str, Generation]:
        """question -> answer, by the published prompts."""
        template = llm_kb.PROMPTS[pipeline.column.partition(",")[0]]
        contexts = {q: pipeline.gather(q.id).text for q in self.questions}
        prompts = {q.id: llm_kb.fill(template, context=c, question=q.question) for q, c in contexts.items()}
        return self._answers("questions", ANSWER_TOKENS, prompts, stored)

    @cached_property
    def answers(self) -> dict[str, dict[str, Generation]]:
        """pipeline -> question -> answer, of those pipelines whose answers are all stored."""
        answers = {}
        for pipeline in self.pipelines:
            with suppress(NotStored):
                answers[pipeline.column] = self.ask(pipeline, stored=True)
        return answers


def open_study(
    repository: str, questions: str, results: Path | None = None, **options: Any
) -> RepositoryStudy:
    """A repository by `place` with its question file; UserError where there is nothing to read."""
    root, asked = place(repository), read_questions(place(questions))
    files = dict(texts(scan(root)))
    if not any(map(str.strip, files.values())):
        raise UserError(f"{root} has no .java file that can be read")
    return RepositoryStudy(root, results or results_dir(), asked, files, **options)


def _stored(path: Path) -> dict[str, Any] | None:
    return read_json(path) if path.exists() else None


def recorded(name: str, what: str, results: Path | None = None) -> dict[str, Any] | None:
    """index.json or evidence.json by a repository's name, None where it was not measured.

    UserError for a name that nobody knows.
    """
    results = results or results_dir()
    known = sorted(p.parent.name for p in results.glob(f"repo_qa/*/{what}.json"))
    if (folder := folder_of(results, name)).name not in {*known, *STUDIED}:
        raise UserError(
            f"no {what} of {name} is recorded; choose from: {', '.join(known or STUDIED)}, or use --record"
        )
    return _stored(folder / f"{what}.json")
