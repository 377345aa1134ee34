"""A Java repository with its questions: pipelines, evidence, a model's answers, and where each is stored.

results/repo_qa/NAME has index.json (files, chunks, graphs, seconds by step), ranking.json (every question's
chunks, seconds of a query), evidence.json (recall and precision) and answers/MODEL (LLM-KB's extraction).
Another repository of the name is kept as NAME-DIGEST, other questions as ranking-DIGEST.json.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pkg_lib.core.data_folders import data_folder
from pkg_lib.core.models import cache_dir, model_spec
from pkg_lib.core.reading import absolute, is_there
from pkg_lib.core.source_tree import ends_with, find, read_each
from pkg_lib.core.store import (
    ROOT,
    cache_folder,
    read_json,
    results_dir,
    slug,
    write_bytes,
    write_json,
)
from pkg_lib.core.types import Generation, Request, UserError, digest
from pkg_lib.data.questions import Question, gold, read_questions
from pkg_lib.generation.cache import GenerationCache
from pkg_lib.generation.generator import Backend, Generator, StoredRequest
from pkg_lib.graph.types.build import BuiltGraph, build, in_mode
from pkg_lib.graph.types.scan import SUFFIX, scan, texts
from pkg_lib.graph.types.typegraph import TypeGraph
from pkg_lib.papers.dkb import llm_kb
from pkg_lib.papers.dkb.pipelines import CHUNKS_ALONE, DEPTH, TOP_K, Pipeline, RankedText
from pkg_lib.papers.dkb.settings import (
    ANSWER_TOKENS,
    BASE,
    LLM_KB,
    MODEL,
    OURS,
    SAME_SIZE,
    decoding,
)
from pkg_lib.papers.dkb.splitter import TextChunk, chunks_of
from pkg_lib.retrieval.embed import DEFAULT, Embedder

KEPT = 400  # chunks of a ranking that are stored
JDK = "PKG_JAVA_SOURCE"
JDK_AT = "/usr/lib/jvm/openjdk-17/lib/src.zip"


def place(repository: str) -> Path:
    """A repository by path, absolute or below the checkout.

    "openjdk-17" is the JDK's own source; "openjdk-17/java.sql" a module, unpacked into the cache directory.
    """
    name, _, module = repository.partition("/")
    if name != "openjdk-17":
        return ROOT / repository
    source = data_folder(JDK) or Path(JDK_AT)
    if not source.exists():
        raise UserError(
            f"{source} is not there; install openjdk-17-source or set {JDK} to src.zip or folder"
        )
    if source.is_dir() or not module:
        return source / module
    folder = cache_dir() / "java-source" / digest(str(absolute(source)))[:8]
    tree = find(source, ends_with(SUFFIX))
    tree.files = [file for file in tree.files if file.name.startswith(f"{module}/")]
    for file, data in read_each(tree):
        write_bytes(folder / file.name, data)
    if not tree.files:
        raise UserError(f"{source} has no module {module}; name one that it has")
    return folder / module


def folder_of(results: Path, name: str) -> Path:
    return results / "repo_qa" / slug(name)


def _fits(path: Path, key: str, digest: str) -> bool:
    """Whether nothing is stored there yet, or what is has this digest."""
    return not is_there(path) or read_json(path).get(key) == digest


def source_digest(files: Mapping[str, str]) -> str:
    """Of a repository's files, by path and text."""
    return digest(*(part for path in sorted(files) for part in (path, files[path])))


@dataclass
class RepositoryStudy:
    """A repository with its questions, the sizes of its pipelines and the model that is asked about it."""

    name: str
    results: Path
    questions: list[Question]
    built: BuiltGraph
    texts: dict[str, str]
    chunks: dict[str, TextChunk]
    model: str = MODEL
    k: int = TOP_K
    depth: int = DEPTH
    retries: int = 0  # how often LLM-KB asks again for skipped files
    embedder: Embedder | None = None
    backend: Backend | None = None

    def __post_init__(self) -> None:
        """UserError for an unknown model, a size that no pipeline can take, a needed type that is none."""
        model_spec(self.model)
        Pipeline("", RankedText({}, {}, {}), self.graph, self.k, self.depth)
        if self.k > KEPT and len(self.chunks) > KEPT:
            raise UserError(
                f"k = {self.k}: of {len(self.chunks):,} chunks the best {KEPT} are stored"
            )
        for question in self.questions:
            gold(question, self.graph)

    @property
    def graph(self) -> TypeGraph:
        return self.built.graph

    @cached_property
    def digest(self) -> str:
        """Of the chunks and questions: what a ranking is made from, with the embedder."""
        chunks = (f"{c.id} {c.text}" for c in self.chunks.values())
        return digest(DEFAULT, *chunks, *(q.id + " " + q.question for q in self.questions))

    @cached_property
    def folder(self) -> Path:
        """Where what is stored of this very source lies."""
        home, source = folder_of(self.results, self.name), source_digest(self.texts)
        return (
            home if _fits(home / "index.json", "source", source) else Path(f"{home}-{source[:8]}")
        )

    def file(self, stem: str) -> Path:
        """A file that is made from the source and the questions."""
        path = self.folder / f"{stem}.json"
        return (
            path
            if _fits(path, "digest", self.digest)
            else path.with_stem(f"{stem}-{self.digest[:8]}")
        )

    @cached_property
    def index(self) -> dict[str, Any] | None:
        """index.json, None where it was not measured."""
        path = self.folder / "index.json"
        return read_json(path) if is_there(path) else None

    @cached_property
    def ranked(self) -> dict[str, Any]:
        """The content of ranking.json, made where there is none of this source and these questions."""
        path, ids, ranking = self.file("ranking"), list(self.chunks), {}
        if not is_there(path):
            embedder = self.embedder or Embedder()
            vectors = embedder.encode([c.text for c in self.chunks.values()])
            cosines = embedder.encode([q.question for q in self.questions]) @ vectors.T
            for q, row in zip(self.questions, cosines, strict=True):
                best = np.argsort(-row, kind="stable")[:KEPT]
                ranking[q.id] = [[ids[i], round(float(row[i]), 6)] for i in best]
            about = {"digest": self.digest, "embedder": embedder.name, "chunks": len(ids)}
            write_json(path, about | {"ranking": ranking})
        return read_json(path)

    @cached_property
    def repository(self) -> RankedText:
        return RankedText(self.texts, self.chunks, self.ranked["ranking"])

    def pipelines_of(self, columns: Mapping[str, Mapping[str, Any]]) -> list[Pipeline]:
        """DKB by other names, with what differs from it."""
        usual = {"graph": self.graph, "k": self.k, "depth": self.depth}
        return [
            Pipeline(column, self.repository, **usual | options)
            for column, options in columns.items()
        ]

    @cached_property
    def pipelines(self) -> list[Pipeline]:
        """The pipelines, and No-Graph at the size of DKB's contexts; LLM-KB where it is stored."""
        (dkb,) = self.pipelines_of({OURS: {}})
        counts = {
            q.id: self.repository.fitting(q.id, len(dkb.gather(q.id).text)) for q in self.questions
        }
        columns = {BASE: CHUNKS_ALONE, SAME_SIZE: CHUNKS_ALONE | {"counts": counts}, OURS: {}}
        return self.pipelines_of(
            columns | ({LLM_KB: analysed(self.extracted)} if self.extracted else {})
        )

    @property
    def variants(self) -> list[Pipeline]:
        """DKB with one thing changed at a time; LLM-KB after a retry where that is stored."""
        published = in_mode(self.built, "as-published").graph
        changes: dict[str, dict[str, Any]] = {
            OURS: {},
            "depth 0 (interface consumers only)": {"depth": 0},
            "depth 2": {"depth": 2},
            "depth 3": {"depth": 3},
            "without interface consumers": {"interfaces": False},
            "coupled": {"paths": frozenset(self.graph.by_path)},
            "as published": {
                "graph": published,
                "paths": frozenset(published.by_path),
                "by_file": True,
            },
            "neighbours nearest to the question first": {"nearest": "first"},
            "their lines nearest to the question": {"nearest": "lines"},
        }
        again = self.extraction(retries=1)
        if len(again.answers) > len(self.extraction(retries=0).answers):
            changes["LLM-KB, one retry"] = analysed(again)
        return self.pipelines_of(changes)

    @cached_property
    def extractor(self) -> Generator:
        """The model as LLM-KB asks it; its answers lie with what is stored of the repository."""
        cache = GenerationCache(self.folder / "answers" / slug(self.model))
        how = decoding("extraction", llm_kb.MAX_NEW_TOKENS, model_spec(self.model).style)
        return Generator(self.model, how, cache, self.results, self.backend)

    def extraction(self, retries: int) -> llm_kb.Extraction:
        """LLM-KB's records as far as answers are stored."""
        return llm_kb.extraction_of(self.texts, self.extractor, retries=retries)

    @cached_property
    def extracted(self) -> llm_kb.Extraction | None:
        """LLM-KB's records; None where an answer is not stored."""
        extraction = self.extraction(self.retries)
        return None if extraction.missing else extraction

    def prompts(self, pipeline: Pipeline) -> dict[str, str]:
        """question -> published prompt."""
        template = llm_kb.PROMPTS[pipeline.column.partition(",")[0]]
        contexts = {q: pipeline.gather(q.id).text for q in self.questions}
        return {
            q.id: llm_kb.fill(template, context=c, question=q.question) for q, c in contexts.items()
        }

    @cached_property
    def answers(self) -> dict[str, dict[str, Generation]]:
        """pipeline -> question -> answer, of those pipelines whose answers are all stored."""
        how = decoding("questions", ANSWER_TOKENS, model_spec(self.model).style)
        cache = GenerationCache(cache_folder(self.results, self.model))
        stored = Generator(self.model, how, cache, self.results).stored
        answers = {
            p.column: {q: stored(text) for q, text in self.prompts(p).items()}
            for p in self.pipelines
        }
        return {column: rows for column, rows in answers.items() if None not in rows.values()}

    def extract(self) -> None:
        """Asks the model for LLM-KB's records, as far as they are not stored."""
        while prompts := self.extraction(self.retries).missing:
            asked = (Request(name, text, "") for name, text in prompts.items())
            self.extractor.complete(
                (StoredRequest(r, "extraction.jsonl") for r in asked), "extraction"
            )
        for known in ("extracted", "pipelines"):  # made without these records
            self.__dict__.pop(known, None)


def analysed(extraction: llm_kb.Extraction) -> dict[str, Any]:
    """LLM-KB: chunks of analysed files only, dependencies both ways, no types of edges, no summary."""
    changed = {"interfaces": False, "summary": False}
    return {"graph": extraction.graph(), "paths": frozenset(extraction.records)} | changed


def open_study(
    repository: str, questions: str, results: Path | None = None, **options: Any
) -> RepositoryStudy:
    """A repository by `place` with its question file; UserError where there is nothing to read."""
    root, asked = place(repository), read_questions(place(questions))
    files = dict(texts(scan(root)))
    chunks = {c.id: c for path, text in files.items() for c in chunks_of(path, text)}
    if not chunks:
        raise UserError(f"{root} has no {SUFFIX} file that can be read")
    return RepositoryStudy(
        root.name, results or results_dir(), asked, build(root), files, chunks, **options
    )
