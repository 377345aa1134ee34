"""What the paper's authors published of their retrieval: contexts a task, from PythonAlpaca, by Voyage and BM25.

The directory is named by PKG_PAPER_DIR. Two corpora read it:

    pkg-contexts  the union of its functions and answers, as documents like any other
    published     each task's own top context, column by column, with no retrieval of ours in between

Both are biased: they hold what was retrieved for these very tasks. Row-level BM25 contexts were not published.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pkg_lib.core.types import Document, NotAtHand, UserError, digest

# column -> benchmark -> file below contexts/
FILES = {
    "Dense": {
        "humaneval": "voyage_code_relevant_context_human_eval",
        "mbpp": "voyage_code_relevant_context_mbpp",
    },
    "Func-BM25": {"humaneval": "bm25_relevant_context_humaneval", "mbpp": "bm25_relevant_context_mbpp"},
    "Func-PKG": {
        "humaneval": "humaneval_function_wise_relevant_context",
        "mbpp": "mbpp_function_wise_relevant_context",
    },
    "Block-PKG": {
        "humaneval": "humaneval_blockwise_relevant_context",
        "mbpp": "mbpp_blockwise_relevant_context",
    },
}
# The files count tasks from 0, MBPP's from the first of its test split, task 11.
FIRST = {"humaneval": ("HumanEval", 0), "mbpp": ("MBPP", 11)}


def paper_dir() -> Path:
    """The authors' published data (PKG_PAPER_DIR: contexts/ and samples/ below it); UserError when it is not set."""
    value = os.environ.get("PKG_PAPER_DIR", "")
    if not value or not (Path(value) / "contexts").is_dir():
        raise NotAtHand(
            "the authors' published data: set PKG_PAPER_DIR to a directory with contexts/ and samples/ "
            "(from their replication package, github.com/iamshahd/ProgrammingKnowledgeGraph)"
        )
    return Path(value)


def context_id(column: str, task: str) -> str:
    """The id of the document that holds a task's context."""
    return f"published/{column}/{task}"


def contexts() -> Iterator[Document]:
    """The top context of each task in each column; an empty text where they published none: it is not measured."""
    folder = paper_dir() / "contexts"
    for column, files in FILES.items():
        for benchmark, name in files.items():
            prefix, first = FIRST[benchmark]
            for row in _rows(folder / f"{name}.jsonl"):
                number = first + int(str(row["task_id"]).rpartition("/")[2])
                yield Document(context_id(column, f"{prefix}/{number}"), _top(_found(row)), unit="function")


def union() -> Iterator[Document]:
    """The union of retrieved functions (Voyage and BM25) and answers."""
    functions: dict[str, None] = {}
    answers: dict[str, None] = {}
    for path in sorted((paper_dir() / "contexts").glob("*.jsonl")):
        for found in map(_found, _rows(path)):
            if path.name.startswith("voyage_code"):
                answers[found] = None
            elif "block" not in path.name:
                functions |= dict.fromkeys(f if isinstance(f, str) else f[1] for f in found)
    for text in answers:
        yield Document(f"pkg-contexts/answer-{digest(text)[:12]}", text, kind="answer")
    for text in functions:
        yield Document(f"pkg-contexts/function-{digest(text)[:12]}", text, unit="function")


def _found(row: dict[str, Any]) -> Any:
    """An answer, or a list of functions or [similarity, function] pairs, best first."""
    return row.get("problem", row.get("content")) or []


def _top(found: Any) -> str:
    if not found or isinstance(found, str):
        return found or ""
    return found[0] if isinstance(found[0], str) else found[0][1]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as e:
        raise UserError(f"cannot read {path}: {e.strerror}; get it again from the replication package") from e
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except ValueError as e:
            raise UserError(
                f"{path}:{number} is no JSON; get the file again from the replication package"
            ) from e
        yield row
