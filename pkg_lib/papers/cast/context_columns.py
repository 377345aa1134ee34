"""The columns of the study: which chunks, ranked by what, from which corpus, stand in the prompt.

The corpus of a task is all Python files of its repository, tests among them, as RepoEval has it. Where it is
*masked*, every chunk that shares a line with the task's function is left out, so that no line of the answer
can be retrieved. The columns "body in corpus" are as CodeRAG-Bench's public scripts build theirs: all chunks,
the answer among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pkg_lib.chunking.chunker import Chunk, Chunker
from pkg_lib.chunking.source import encode
from pkg_lib.core.types import UserError
from pkg_lib.data.repoeval import RepoTask
from pkg_lib.retrieval.chunks import BM25_NAME, Ranker, order

CHUNKERS = {name: Chunker(name, "as-published") for name in ("cast", "fixed-size", "split-only")}
BEST = 20  # more chunks than these fit into no budget here


@dataclass(frozen=True, slots=True)
class ContextColumn:
    """`chunking` names a chunker ("" for no context), `ranker` a ranker; `chat` asks in a chat turn."""

    chunking: str = ""
    ranker: str = ""
    masked: bool = True
    chat: bool = False


COLUMNS = {
    "None": ContextColumn(),
    "fixed-size, BM25": ContextColumn("fixed-size", "BM25"),
    "cast, BM25": ContextColumn("cast", "BM25"),
    "fixed-size, MiniLM": ContextColumn("fixed-size", "MiniLM"),
    "cast, MiniLM": ContextColumn("cast", "MiniLM"),
    "fixed-size, MiniLM, body in corpus": ContextColumn("fixed-size", "MiniLM", masked=False),
    "cast, MiniLM, body in corpus": ContextColumn("cast", "MiniLM", masked=False),
    "split-only, MiniLM": ContextColumn("split-only", "MiniLM"),
    "None, chat prompt": ContextColumn(chat=True),
}


def column(name: str) -> ContextColumn:
    """The column of that name; UserError for an unknown one."""
    if name not in COLUMNS:  # names hold commas
        raise UserError(f"unknown column '{name}'; choose from: {'; '.join(COLUMNS)}")
    return COLUMNS[name]


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
