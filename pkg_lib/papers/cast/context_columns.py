"""What a column of chunks retrieves: which chunks, ranked by what, from which part of a task's repository.

The corpus of a task is all Python files of its repository, tests among them, as RepoEval has it. Where it is
*masked*, every chunk that shares a line with the task's function is left out, so that no line of the answer
can be retrieved. The columns "body in corpus" are as CodeRAG-Bench's public scripts build theirs: all chunks,
the answer among them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from tqdm.auto import tqdm

from pkg_lib.chunking.chunker import Chunk, Chunker
from pkg_lib.chunking.source import encode
from pkg_lib.core.types import Context
from pkg_lib.data.repoeval import RepoTask
from pkg_lib.papers.cast.body_prompts import context_text
from pkg_lib.retrieval.chunks import BM25_NAME, Ranker, make_ranker, order

CHUNKERS = {name: Chunker(name, "as-published") for name in ("cast", "fixed-size", "split-only")}
BEST = 20  # more chunks than these fit into no budget here


def chunked(chunker: Chunker, files: Mapping[str, str]) -> list[Chunk]:
    """The chunks of all files with anything in them."""
    return [c for path, text in files.items() for c in chunker.chunk(encode(text), path).chunks if c.size]


def masked(task: RepoTask, chunks: Sequence[Chunk]) -> list[Chunk]:
    """The chunks that share no line with the task's function, from its first decorator to its body's end."""
    path, first, last = task.span
    return [c for c in chunks if c.document != path or c.last < first or c.first > last]


def retrieve(task: RepoTask, chunks: Sequence[Chunk], ranker: Ranker) -> list[Chunk]:
    """The best chunks for the task's query, best first; none that shares no word with it, for BM25."""
    scores = ranker.scores([task.query], list(chunks))[0]
    return [chunks[i] for i in order(scores, BEST) if ranker.name != BM25_NAME or scores[i] > 0]


class Repositories:
    """What the columns share: the chunks of each repository, and the model's measure of a context."""

    def __init__(self, files: Callable[[str], dict[str, str]], measure: Callable[[str], int]) -> None:
        self.files, self.measure = files, measure
        self.chunks = cache(lambda repository, name: chunked(CHUNKERS[name], files(repository)))


class Chunks:
    """The best chunks of a task's repository within the budget; `defines_task`: its body is in them."""

    def __init__(
        self, knowledge: Repositories, column: str, chunking: str, ranker: str, masked: bool = True
    ) -> None:
        self.knowledge, self.column, self.chunking, self.masked = knowledge, column, chunking, masked
        self.ranker = make_ranker(ranker)

    def retrieve(self, tasks: list[RepoTask]) -> list[Context]:
        """One context a task, in order."""
        return [self._context(t) for t in tqdm(tasks, desc=f"{self.column}: contexts", unit="task")]

    def _context(self, task: RepoTask) -> Context:
        chunks = self.knowledge.chunks(task.repository, self.chunking)
        best = retrieve(task, masked(task, chunks) if self.masked else chunks, self.ranker)
        text, used = context_text(best, self.knowledge.measure)
        first, last = task.gold
        holds = any(c.document == task.path and c.first <= last and c.last >= first for c in used)
        source = "; ".join(c.source for c in used)
        return Context(task.id, self.column, text, source, defines_task=holds and not self.masked)
