"""A Java repository with its questions: pipelines, a model's answers, and where they are stored.

results/repo_qa/NAME holds:

    index.json      files, chunks, graphs, and seconds of each step
    ranking.json    the chunks for every question, and seconds of a query
    evidence.json   recall and precision of the contexts
    answers/MODEL   LLM-KB's extraction, and scores of the answers (entities.json)

Another repository of the same name is stored as NAME-DIGEST, and other questions as
ranking-DIGEST.json.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pkg_lib.core.data_folders import data_folder
from pkg_lib.core.embedders import DEFAULT
from pkg_lib.core.models import cache_dir, model_spec
from pkg_lib.core.reading import absolute, is_there
from pkg_lib.core.registry import unknown
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
from pkg_lib.data.questions import Question, disputed, gold, read_questions
from pkg_lib.generation.cache import GenerationCache
from pkg_lib.generation.generator import Backend, Generator, StoredRequest
from pkg_lib.graph.types.build import BuiltGraph, build, in_mode
from pkg_lib.graph.types.scan import SUFFIX, scan, texts
from pkg_lib.graph.types.typegraph import TypeGraph
from pkg_lib.papers.dkb import llm_kb
from pkg_lib.papers.dkb.pipelines import CHUNKS_ALONE, DEPTH, TOP_K, Pipeline, RankedText
from pkg_lib.papers.dkb.settings import (
    ANSWER_TOKENS,
    ARMS,
    BASE,
    LLM_KB,
    MODEL,
    OURS,
    SAME_SIZE,
    decoding,
)
from pkg_lib.papers.dkb.splitter import TextChunk, chunks_of
from pkg_lib.retrieval.embed import Embedder
from pkg_lib.retrieval.ranking import top

KEPT = 400  # stored chunks of a ranking
JDK = "PKG_JAVA_SOURCE"
JDK_AT = "/usr/lib/jvm/openjdk-17/lib/src.zip"


def place(repository: str) -> Path:
    """Return where a repository is.

    Args:
        repository: A path, absolute or below the checkout. "openjdk-17" is the JDK's own source,
            and "openjdk-17/java.sql" one of its modules, unpacked into the cache directory.

    Returns:
        A directory, or an archive.

    Raises:
        UserError: The JDK's source is not available, or has no such module.
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
    return _unpacked_module(source, module)


def _unpacked_module(source: Path, module: str) -> Path:
    """Unpack a module of the JDK's archive into the cache directory."""
    archive = digest(str(absolute(source)))[:8]
    folder = cache_dir() / "java-source" / archive
    tree = find(source, ends_with(SUFFIX))
    tree.files = [file for file in tree.files if file.name.startswith(f"{module}/")]
    for file, data in read_each(tree):
        write_bytes(folder / file.name, data)
    if not tree.files:
        raise UserError(f"{source} has no module {module}; name one that it has")
    return folder / module


def folder_of(results: Path, name: str) -> Path:
    """Return where the results of a repository are stored.

    Args:
        results: The results directory.
        name: Name of the repository.

    Returns:
        The directory.
    """
    return results / "repo_qa" / slug(name)


def _fits(path: Path, key: str, digest: str) -> bool:
    """Return whether a path is free, or holds a file with this digest."""
    if not is_there(path):
        return True
    stored = read_json(path)
    return bool(stored.get(key) == digest)


def source_digest(files: Mapping[str, str]) -> str:
    """Return a digest of a repository's files.

    Args:
        files: Text of each file by path.

    Returns:
        SHA-256 in hex over paths and texts.
    """
    parts: list[str] = []
    for path in sorted(files):
        parts += [path, files[path]]
    return digest(*parts)


@dataclass
class RepositoryStudy:
    """A repository with its questions, the pipelines' settings and the model that answers.

    Attributes:
        name: Name of the repository.
        results: The results directory.
        questions: The questions.
        built: The resolved type graph.
        texts: Text of each file by path.
        chunks: Chunk by id.
        model: The model that extracts LLM-KB's graph and answers.
        k: Number of chunks that a pipeline starts from.
        depth: How many edges DKB follows.
        retries: How often LLM-KB's skipped files are sent again.
        embedder: Embeds chunks and questions; None for the default.
        backend: Runs the model; None for the default.

    Raises:
        UserError: The model is unknown, a setting is out of range, or a question needs a type that
            the repository lacks.
    """

    name: str
    results: Path
    questions: list[Question]
    built: BuiltGraph
    texts: dict[str, str]
    chunks: dict[str, TextChunk]
    model: str = MODEL
    k: int = TOP_K
    depth: int = DEPTH
    retries: int = 0
    embedder: Embedder | None = None
    backend: Backend | None = None

    def __post_init__(self) -> None:
        """Check the settings and the questions."""
        # These calls are made for their checks alone.
        model_spec(self.model)
        Pipeline("", RankedText({}, {}, {}), self.graph, self.k, self.depth)
        if self.k > KEPT and len(self.chunks) > KEPT:
            chunks = f"{len(self.chunks):,} chunks"
            raise UserError(f"k = {self.k}: of {chunks} the best {KEPT} are stored")
        for question in self.questions:
            gold(question, self.graph)
            disputed(question, self.graph)

    @property
    def graph(self) -> TypeGraph:
        """The resolved type graph."""
        return self.built.graph

    @cached_property
    def digest(self) -> str:
        """Digest of chunks, questions and embedder, from which a ranking is made."""
        chunks = [f"{chunk.id} {chunk.text}" for chunk in self.chunks.values()]
        questions = [f"{question.id} {question.question}" for question in self.questions]
        return digest(DEFAULT, *chunks, *questions)

    @cached_property
    def folder(self) -> Path:
        """Where the results of exactly this source are stored."""
        folder = folder_of(self.results, self.name)
        source = source_digest(self.texts)
        if _fits(folder / "index.json", "source", source):
            return folder
        return Path(f"{folder}-{source[:8]}")

    def file(self, stem: str) -> Path:
        """Return where a file about exactly this source and these questions is stored.

        Args:
            stem: "ranking" or "evidence".

        Returns:
            The path.
        """
        path = self.folder / f"{stem}.json"
        if _fits(path, "digest", self.digest):
            return path
        return path.with_stem(f"{stem}-{self.digest[:8]}")

    @cached_property
    def index(self) -> dict[str, Any] | None:
        """The content of index.json, None if it was not measured."""
        path = self.folder / "index.json"
        if not is_there(path):
            return None
        index: dict[str, Any] = read_json(path)
        return index

    @cached_property
    def ranked(self) -> dict[str, Any]:
        """The content of ranking.json, which is computed and stored if it is missing."""
        path = self.file("ranking")
        if not is_there(path):
            write_json(path, self._ranking())
        stored: dict[str, Any] = read_json(path)
        return stored

    def _ranking(self) -> dict[str, Any]:
        """Rank the chunks for every question by the cosine of their vectors."""
        embedder = self.embedder or Embedder()
        vectors = embedder.encode([chunk.text for chunk in self.chunks.values()])
        queries = embedder.encode([question.question for question in self.questions])
        ids = list(self.chunks)
        ranking = {}
        for question, cosines in zip(self.questions, queries @ vectors.T, strict=True):
            best = top(cosines, KEPT)
            ranking[question.id] = [[ids[i], round(float(cosines[i]), 6)] for i in best]
        return {
            "digest": self.digest,
            "embedder": embedder.name,
            "chunks": len(ids),
            "ranking": ranking,
        }

    @cached_property
    def words(self) -> set[str]:
        """The words of all files."""
        text = "\n".join(self.texts.values())
        return set(re.findall(r"\w+", text))

    @cached_property
    def repository(self) -> RankedText:
        """The files, and the chunks ranked for every question."""
        return RankedText(self.texts, self.chunks, self.ranked["ranking"])

    def pipelines_of(self, methods: Mapping[str, Mapping[str, Any]]) -> list[Pipeline]:
        """Make pipelines that differ from DKB.

        Args:
            methods: Name -> the options of `Pipeline` that differ.

        Returns:
            One pipeline per name.
        """
        pipelines = []
        for method, options in methods.items():
            settings = {"graph": self.graph, "k": self.k, "depth": self.depth, **options}
            pipelines.append(Pipeline(method, self.repository, **settings))
        return pipelines

    def pipeline(self, method: str) -> Pipeline:
        """Make one pipeline. Only LLM-KB needs the records that a model extracted.

        Args:
            method: No-Graph, No-Graph with contexts as long as DKB's, DKB or LLM-KB.

        Returns:
            The pipeline.

        Raises:
            UserError: LLM-KB's records are not all stored, or the method is unknown.
        """
        options: dict[str, Any] = {}
        if method == BASE:
            options = CHUNKS_ALONE
        elif method == SAME_SIZE:
            options = {**CHUNKS_ALONE, "counts": self._counts_of_size()}
        elif method == LLM_KB:
            if not self.extracted:
                raise UserError(
                    f"{LLM_KB}'s graph of {self.name} is not extracted; run dkb ask with --model"
                )
            options = analysed(self.extracted)
        elif method != OURS:
            raise unknown("method", method, ARMS)
        (pipeline,) = self.pipelines_of({method: options})
        return pipeline

    def _counts_of_size(self) -> dict[str, int]:
        """Count the chunks that fit into DKB's context of each question."""
        dkb = self.pipeline(OURS)
        counts = {}
        for question in self.questions:
            size = len(dkb.gather(question.id).text)
            counts[question.id] = self.repository.fitting(question.id, size)
        return counts

    @cached_property
    def pipelines(self) -> list[Pipeline]:
        """No-Graph, No-Graph with contexts as long as DKB's, DKB, and LLM-KB if it is stored."""
        methods = ARMS if self.extracted else ARMS[:-1]
        return [self.pipeline(method) for method in methods]

    @property
    def variants(self) -> list[Pipeline]:
        """DKB with one change at a time, and LLM-KB after a retry if that is stored."""
        published = in_mode(self.built, "as-published").graph
        as_published = {
            "graph": published,
            "paths": frozenset(published.by_path),
            "by_file": True,
        }
        changes: dict[str, dict[str, Any]] = {
            OURS: {},
            "depth 0 (interface consumers only)": {"depth": 0},
            "depth 2": {"depth": 2},
            "depth 3": {"depth": 3},
            "without interface consumers": {"interfaces": False},
            "coupled": {"paths": frozenset(self.graph.by_path)},
            "as published": as_published,
            "neighbours nearest to the question first": {"nearest": "first"},
            "neighbours' lines nearest to the question": {"nearest": "lines"},
        }
        once = self.extraction(retries=0)
        again = self.extraction(retries=1)
        if len(again.answers) > len(once.answers):
            changes["LLM-KB, one retry"] = analysed(again)
        return self.pipelines_of(changes)

    @cached_property
    def extractor(self) -> Generator:
        """The model that extracts LLM-KB's graph; its answers are stored with the repository."""
        folder = self.folder / "answers" / slug(self.model)
        return self._generator("extraction", llm_kb.MAX_NEW_TOKENS, folder)

    def _generator(self, stage: str, max_tokens: int, folder: Path) -> Generator:
        """The model with its answers in a folder."""
        how = decoding(stage, max_tokens, model_spec(self.model).style)
        return Generator(self.model, how, GenerationCache(folder), self.results, self.backend)

    def extraction(self, retries: int) -> llm_kb.Extraction:
        """Return LLM-KB's records as far as answers are stored.

        Args:
            retries: How often skipped files are sent again.

        Returns:
            The extraction.
        """
        return llm_kb.extraction_of(self.texts, self.extractor, retries=retries)

    @cached_property
    def extracted(self) -> llm_kb.Extraction | None:
        """LLM-KB's records, None if an answer is not stored."""
        extraction = self.extraction(self.retries)
        return None if extraction.missing else extraction

    def prompts(self, pipeline: Pipeline) -> dict[str, str]:
        """Return the published prompt of every question (Listings 4, 5 and 7).

        Args:
            pipeline: The pipeline that gathers the contexts.

        Returns:
            Prompt by question.
        """
        name, _, _ = pipeline.method.partition(",")
        template = llm_kb.PROMPTS[name]
        prompts = {}
        for question in self.questions:
            context = pipeline.gather(question.id).text
            prompts[question.id] = llm_kb.fill(
                template, context=context, question=question.question
            )
        return prompts

    @cached_property
    def _answering(self) -> Generator:
        """The model that answers the questions."""
        folder = cache_folder(self.results, self.model)
        return self._generator("questions", ANSWER_TOKENS, folder)

    def stored_answers(self, pipeline: Pipeline) -> dict[str, Generation]:
        """Read the stored answers to the prompts of a pipeline.

        Args:
            pipeline: The pipeline that gathers the contexts.

        Returns:
            Answer by question, for the questions whose answer is stored.
        """
        stored = {}
        for question, prompt in self.prompts(pipeline).items():
            answer = self._answering.stored(prompt)
            if answer is not None:
                stored[question] = answer
        return stored

    @cached_property
    def answers(self) -> dict[str, dict[str, Generation]]:
        """Pipeline -> question -> answer, for the pipelines whose answers are all stored."""
        answers = {}
        for pipeline in self.pipelines:
            stored = self.stored_answers(pipeline)
            if len(stored) == len(self.questions):
                answers[pipeline.method] = stored
        return answers

    def extract(self) -> None:
        """Prompt the model for those of LLM-KB's records that are not stored."""
        while prompts := self.extraction(self.retries).missing:
            requests = []
            for name, text in prompts.items():
                request = Request(name, text, entry_point="")
                requests.append(StoredRequest(request, "extraction.jsonl"))
            self.extractor.complete(requests, "extraction")
        for outdated in ("extracted", "pipelines"):  # computed without these records
            self.__dict__.pop(outdated, None)


def analysed(extraction: llm_kb.Extraction) -> dict[str, Any]:
    """Return the options that make a pipeline LLM-KB.

    It retrieves chunks of analysed files only. It follows dependencies both ways, without types of
    edges and without a summary.

    Args:
        extraction: The model's records.

    Returns:
        Options of `Pipeline`.
    """
    return {
        "graph": extraction.graph(),
        "paths": frozenset(extraction.records),
        "interfaces": False,
        "summary": False,
    }


def open_study(
    repository: str, questions: str, results: Path | None = None, **options: Any
) -> RepositoryStudy:
    """Open a repository with its questions.

    Args:
        repository: A repository as `place` takes it.
        questions: Path of the file of questions, absolute or below the checkout.
        results: The results directory; None for the default.
        **options: Further attributes of the study.

    Returns:
        The study.

    Raises:
        UserError: There is nothing to read, or an option is wrong.
    """
    root = place(repository)
    asked = read_questions(place(questions))
    files = dict(texts(scan(root)))
    chunks = {}
    for path, text in files.items():
        for chunk in chunks_of(path, text):
            chunks[chunk.id] = chunk
    if not chunks:
        raise UserError(f"{root} has no {SUFFIX} file that can be read")
    return RepositoryStudy(
        name=root.name.removesuffix(".zip"),
        results=results or results_dir(),
        questions=asked,
        built=build(root),
        texts=files,
        chunks=chunks,
        **options,
    )
