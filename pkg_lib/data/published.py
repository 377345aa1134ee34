"""The paper's authors' published retrieval (PKG_PAPER_DIR): contexts a task, by Voyage and BM25.

    pkg-contexts  the union of its functions and answers, as documents like any other
    published     each task's own top context, column by column

Both hold what was retrieved for these very tasks. BM25's file holds functions: what the authors call BM25 is
Func-BM25 here, and BM25 over rows was not published. Of MBPP's 352 published top functions 78 do not parse
(8 of 162 of HumanEval's), and no published block does by itself: blocks are cut out with their indentation.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pkg_lib.core.types import Document, Unavailable, digest
from pkg_lib.data.records import read_records

# column -> its file below contexts/ for HumanEval and for MBPP
FILES = {
    "Dense": ("voyage_code_relevant_context_human_eval", "voyage_code_relevant_context_mbpp"),
    "Func-BM25": ("bm25_relevant_context_humaneval", "bm25_relevant_context_mbpp"),
    "Func-PKG": ("humaneval_function_wise_relevant_context", "mbpp_function_wise_relevant_context"),
    "Block-PKG": ("humaneval_blockwise_relevant_context", "mbpp_blockwise_relevant_context"),
}
# A file below samples/MODEL/BENCHMARK/ -> column
SAMPLES = {
    "no_rag": "None",
    "bm25": "BM25",
    "voyage_emb": "Dense",
    "voyage_func": "Func-PKG",
    "voyage_block": "Block-PKG",
    "reranked": "Reranked",
}
# The files count tasks from 0, MBPP's from the first of its test split, task 11.
FIRST = (("HumanEval", 0), ("MBPP", 11))
TITLE = "the authors' published contexts"


def paper_dir() -> Path:
    """The directory of the authors' published data. UserError without it."""
    value = os.environ.get("PKG_PAPER_DIR", "")
    if not value or not (Path(value) / "contexts").is_dir():
        package = "their replication package, github.com/iamshahd/ProgrammingKnowledgeGraph"
        where = f"a directory with contexts/ and samples/ (from {package})"
        raise Unavailable(f"the authors' published data: set PKG_PAPER_DIR to {where}")
    return Path(value)


def context_id(column: str, task: str) -> str:
    return f"published/{column}/{task}"


def contexts() -> Iterator[Document]:
    """Each task's top context in each column; an empty text where none is published: it is not measured."""
    for column, task, texts in ranked():
        yield Document(context_id(column, task), next(iter(texts), ""), unit="function")


def ranked() -> Iterator[tuple[str, str, list[str]]]:
    """(column, task, its contexts, best first)."""
    folder = paper_dir() / "contexts"
    for column, files in FILES.items():
        for (benchmark, first), name in zip(FIRST, files, strict=True):
            for number, texts in read_records(folder / f"{name}.jsonl", TITLE, _numbered):
                yield column, f"{benchmark}/{first + number}", texts


def union() -> Iterator[Document]:
    """The union of retrieved functions (Voyage and BM25) and answers."""
    functions: dict[str, None] = {}
    answers: dict[str, None] = {}
    for path in sorted((paper_dir() / "contexts").glob("*.jsonl")):
        if "block" not in path.name:
            kept = answers if path.name.startswith("voyage_code") else functions
            kept |= dict.fromkeys(
                text for texts in read_records(path, TITLE, _texts) for text in texts
            )
    yield from (
        Document(f"pkg-contexts/answer-{digest(t)[:12]}", t, kind="answer") for t in answers
    )
    yield from (
        Document(f"pkg-contexts/function-{digest(t)[:12]}", t, unit="function") for t in functions
    )


def _numbered(row: dict[str, Any]) -> tuple[int, list[str]]:
    """The number of a row's task, and its texts."""
    return int(str(row["task_id"]).rpartition("/")[2]), _texts(row)


def _texts(row: dict[str, Any]) -> list[str]:
    """A row's answer, or its functions, best first: texts, or [similarity, text] pairs."""
    value = row.get("problem", row.get("content")) or []
    texts = (
        [value] if isinstance(value, str) else [v if isinstance(v, str) else v[1] for v in value]
    )
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a context is not text")
    return texts
