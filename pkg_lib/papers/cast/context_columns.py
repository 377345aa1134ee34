"""What a column of chunks retrieves: which chunks, ranked by what, from which part of a task's repository.

The corpus of a task is all Python files of its repository, tests among them, as RepoEval has it; *masked*, it
lacks every chunk that shares a line with the task's function. The columns "body in corpus" take all chunks,
the answer among them, as CodeRAG-Bench's public scripts do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from tqdm.auto import tqdm

from pkg_lib.chunking.chunker import Chunk, Chunker
from pkg_lib.chunking.source import encode
from pkg_lib.core.types import Context, Document, UserError
from pkg_lib.data.corpora import UNICODE
from pkg_lib.data.functions import RepoTask
from pkg_lib.papers.cast.body_prompts import CONTEXT_TOKENS, RULE
from pkg_lib.retrieval.budget import fill_context
from pkg_lib.retrieval.chunks import BM25_NAME, Ranker, make_ranker
from pkg_lib.retrieval.ranking import top

CHUNKERS = {name: Chunker(name, "as-published") for name in ("cast", "fixed-size", "split-only")}
BEST = 20  # more chunks than these fit into no budget here
Measure = Callable[[str], int]


def chunked(chunker: Chunker, files: Mapping[str, str]) -> list[Chunk]:
    return [
        c
        for path, text in files.items()
        for c in chunker.chunk(encode(text), path).chunks
        if c.size
    ]


def masked(task: RepoTask, chunks: Sequence[Chunk]) -> list[Chunk]:
    """The chunks that share no line with the task's function, from its first decorator to its body's end."""
    path, first, last = task.span
    return [c for c in chunks if c.document != path or c.last < first or c.first > last]


def retrieve(task: RepoTask, chunks: Sequence[Chunk], ranker: Ranker) -> list[Chunk]:
    """The best chunks for the task's query, best first; none that shares no word with it, for BM25."""
    scores = ranker.scores([task.query], list(chunks))[0]
    return [chunks[i] for i in top(scores, BEST) if ranker.name != BM25_NAME or scores[i] > 0]


def context_text(
    chunks: Sequence[Chunk], measure: Measure, limit: int = CONTEXT_TOKENS
) -> tuple[str, list[Chunk]]:
    """The best chunks as comments up to `limit` (in what `measure` counts), and those used."""
    intro = "the below code fragment can be found in:"
    shown = [
        replace(c, text=f"{intro}\n{c.document}\n{RULE}\n{c.text.rstrip()}\n{RULE}") for c in chunks
    ]
    text, used = fill_context(shown, limit, lambda t: measure(commented(t)))
    return (commented(text) if used else ""), used


def commented(text: str) -> str:
    """Every line behind "# ", under CodeRAG-Bench's first line."""
    title = "Here are some relevant code fragments from other files of the repo:"
    return "".join(
        f"# {line}".rstrip() + "\n" for line in [title, RULE, *text.rstrip("\n").split("\n")]
    )


class Repositories:
    """What the columns share: the chunks of each repository, and the model's measure of a context."""

    def __init__(
        self, files: Callable[[str], dict[str, str]], measure: Measure, tokenizer: str = UNICODE
    ) -> None:
        self.measure = measure
        self.tokenizer = tokenizer
        self.chunks = cache(lambda repository, name: chunked(CHUNKERS[name], files(repository)))

    @property
    def documents(self) -> list[Document]:
        raise UserError("each task has a repository of its own; the stored source names the chunks")

    def column(self, *about: Any) -> ChunkRetriever:
        return ChunkRetriever(self, *about)


@dataclass
class ChunkRetriever:
    """The best chunks of a task's repository within the budget; `defines_task`: its body is in them."""

    repositories: Repositories
    column: str
    chunking: str
    ranker: str
    masked: bool

    def retrieve(self, tasks: list[RepoTask]) -> list[Context]:
        ranker = make_ranker(self.ranker, self.repositories.tokenizer)
        return [
            self._context(t, ranker)
            for t in tqdm(tasks, desc=f"{self.column}: contexts", unit="task")
        ]

    def _context(self, task: RepoTask, ranker: Ranker) -> Context:
        chunks = self.repositories.chunks(task.repository, self.chunking)
        best = retrieve(task, masked(task, chunks) if self.masked else chunks, ranker)
        text, used = context_text(best, self.repositories.measure)
        first, last = task.gold
        holds = any(c.document == task.path and c.first <= last and c.last >= first for c in used)
        source = "; ".join(c.source for c in used)
        return Context(task.id, self.column, text, source, defines_task=holds and not self.masked)
