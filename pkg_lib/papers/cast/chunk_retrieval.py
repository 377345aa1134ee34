"""The contexts of cAST's methods: chunks of a task's repository, ranked and cut to a budget.

The corpus of a task is every Python file of its repository, including tests, as in RepoEval. A
*masked* corpus lacks each chunk that shares a line with the task's function. The variants "body in
corpus" keep all chunks, and so the reference body, as CodeRAG-Bench's public scripts do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from tqdm.auto import tqdm

from pkg_lib.chunking.chunker import WINDOW_LINES, WINDOW_STEP, Chunk, Chunker
from pkg_lib.chunking.source import encode
from pkg_lib.core.types import Context, Document, UserError
from pkg_lib.data.corpora import UNICODE
from pkg_lib.data.functions import RepoTask
from pkg_lib.papers.cast.body_prompts import BUDGETS, CHUNK_SIZES, CONTEXT_TOKENS, RULE
from pkg_lib.retrieval.budget import fill_context
from pkg_lib.retrieval.chunks import BM25_NAME, Ranker, make_ranker
from pkg_lib.retrieval.quality import relevant_chunks
from pkg_lib.retrieval.ranking import top

# The chunkings of Tables 1 and 2, as the authors' package cuts.
CHUNKERS = {name: Chunker(name, "as-published") for name in ("cast", "fixed-size", "split-only")}
# Chunkings that no table of the paper has: astchunk's headers, its overlap of one node, and the
# windows from which RepoEval's own baseline retrieves.
SLIDING = "sliding-window"
MORE_CHUNKERS = {
    "cast+expansion": Chunker("cast", "as-published", chunk_expansion=True),
    "cast+overlap": Chunker("cast", "as-published", chunk_overlap=1),
    SLIDING: Chunker(SLIDING, "as-published", lines=WINDOW_LINES, step=WINDOW_STEP),
}
# The maximum chunk sizes of Table 4.
SIZED_CHUNKERS = {f"cast {size}": Chunker("cast", "as-published", size) for size in CHUNK_SIZES}
NAMED_CHUNKERS = CHUNKERS | MORE_CHUNKERS | SIZED_CHUNKERS
TOKENS_PER_CHUNK = 50  # at least this many on average, so a ranking of budget / 50 chunks is enough
Measure = Callable[[str], int]


def chunked(chunker: Chunker, files: Mapping[str, str]) -> list[Chunk]:
    """Cut the files of a repository into chunks.

    Args:
        chunker: The chunker.
        files: Text of each file by path.

    Returns:
        The chunks of all files in order, without those that hold only white space.
    """
    chunks: list[Chunk] = []
    for path, text in files.items():
        chunks += chunker.chunk(encode(text), path).chunks
    return [chunk for chunk in chunks if chunk.size]


def masked(task: RepoTask, chunks: Sequence[Chunk]) -> list[Chunk]:
    """Leave out the chunks that could reveal a task's reference body.

    Args:
        task: The function to complete.
        chunks: Chunks of its repository.

    Returns:
        The chunks that share no line with the function, from its first decorator to its end.
    """
    revealing = relevant_chunks(chunks, [task.span])
    return [chunk for position, chunk in enumerate(chunks) if position not in revealing]


def retrieve(
    task: RepoTask,
    chunks: Sequence[Chunk],
    ranker: Ranker,
    limit: int = CONTEXT_TOKENS,
) -> list[Chunk]:
    """Retrieve the best chunks for a task.

    Args:
        task: The function to complete. Its query is the code before the body.
        chunks: What is searched.
        ranker: Scores the chunks.
        limit: The tokens that the context may have.

    Returns:
        At most one chunk per TOKENS_PER_CHUNK tokens, best first. BM25 returns none that shares no
        word with the query.
    """
    (scores,) = ranker.scores([task.query], list(chunks))
    best = top(scores, limit // TOKENS_PER_CHUNK)
    if ranker.name == BM25_NAME:
        shares_word = scores[best] > 0
        best = best[shares_word]
    return [chunks[position] for position in best]


def context_text(
    chunks: Sequence[Chunk],
    measure: Measure,
    limit: int = CONTEXT_TOKENS,
) -> tuple[str, list[Chunk]]:
    """Write the best chunks as comments, cut to a budget (Appendix A.1).

    Args:
        chunks: Retrieved chunks, best first.
        measure: Counts the tokens of a text.
        limit: The budget in tokens.

    Returns:
        The comments, and the chunks in them; the last chunk may be cut at a line end.
    """
    intro = "the below code fragment can be found in:"
    shown = []
    for chunk in chunks:
        code = chunk.text.rstrip()
        text = f"{intro}\n{chunk.document}\n{RULE}\n{code}\n{RULE}"
        shown.append(replace(chunk, text=text))

    def measure_commented(text: str) -> int:
        return measure(commented(text))

    joined, used = fill_context(shown, limit, measure_commented)
    if not used:
        return "", used
    return commented(joined), used


def commented(text: str) -> str:
    """Turn a text into comments under CodeRAG-Bench's title.

    Args:
        text: Chunks as `context_text` joins them.

    Returns:
        The title and the text, each line behind "# ".
    """
    title = "Here are some relevant code fragments from other files of the repo:"
    lines = text.rstrip("\n").split("\n")
    comments = ""
    for line in [title, RULE, *lines]:
        comment = f"# {line}".rstrip()
        comments += f"{comment}\n"
    return comments


class Repositories:
    """The repositories of a benchmark, whose chunks all methods share.

    Attributes:
        measure: Counts the tokens of a text as the generator does.
        budgets: Tokens of a context ("context_tokens", unless a method has a limit of its own), and of
            other parts of a prompt.
        tokenizer: How BM25 splits words.
        chunks: (repository, chunking) -> its chunks; each is computed once.
    """

    def __init__(
        self,
        files: Callable[[str], dict[str, str]],
        measure: Measure,
        budgets: Mapping[str, int] = BUDGETS,
        tokenizer: str = UNICODE,
    ) -> None:
        self.measure = measure
        self.budgets = budgets
        self.tokenizer = tokenizer

        @cache
        def chunks(repository: str, chunking: str) -> list[Chunk]:
            return chunked(NAMED_CHUNKERS[chunking], files(repository))

        self.chunks = chunks

    @property
    def documents(self) -> list[Document]:
        """Refuse, since there is no corpus that all tasks share.

        Raises:
            UserError: Always.
        """
        raise UserError("each task has a repository of its own; the stored source names the chunks")

    def retriever(
        self,
        method: str,
        chunking: str,
        ranker: str,
        masked: bool,
        limit: int = 0,
    ) -> ChunkRetriever:
        """Return the retriever of a method.

        Args:
            method: Name of the method.
            chunking: A name in NAMED_CHUNKERS.
            ranker: Name of a ranker.
            masked: Whether the corpus lacks the task's function.
            limit: The tokens that a context may have; 0 for the limit of the repositories.

        Returns:
            A retriever over these repositories.
        """
        limit = limit or self.budgets["context_tokens"]
        return ChunkRetriever(self, method, chunking, ranker, masked, limit)


@dataclass
class ChunkRetriever:
    """Retrieves the best chunks of a task's repository within the budget.

    Attributes:
        repositories: The repositories of the tasks.
        method: Name of the method.
        chunking: A name in NAMED_CHUNKERS.
        ranker: Name of a ranker.
        masked: Whether the corpus lacks the task's function.
        limit: The tokens that a context may have.
    """

    repositories: Repositories
    method: str
    chunking: str
    ranker: str
    masked: bool
    limit: int

    @property
    def about(self) -> dict[str, Any]:
        """What is recorded with the contexts: the budgets, with the limit of the method."""
        return {"budgets": {**self.repositories.budgets, "context_tokens": self.limit}}

    def retrieve(self, tasks: list[RepoTask]) -> list[Context]:
        """Retrieve a context for each task.

        Args:
            tasks: Functions to complete.

        Returns:
            One context per task, in order. `defines_task` tells whether the body is in it.
        """
        ranker = make_ranker(self.ranker, self.repositories.tokenizer)
        progress = tqdm(tasks, desc=f"{self.method}: contexts", unit="task")
        return [self._context(task, ranker) for task in progress]

    def _context(self, task: RepoTask, ranker: Ranker) -> Context:
        """Retrieve the context of a task."""
        chunks = self.repositories.chunks(task.repository, self.chunking)
        if self.masked:
            chunks = masked(task, chunks)
        best = retrieve(task, chunks, ranker, self.limit)
        text, used = context_text(best, self.repositories.measure, self.limit)
        body = (task.path, *task.gold)
        shows_body = bool(relevant_chunks(used, [body]))
        return Context(
            task_id=task.id,
            method=self.method,
            text=text,
            source="; ".join(chunk.source for chunk in used),
            defines_task=shows_body and not self.masked,
        )
