"""The fields of stored rows, and how the rows of one file are read.

Every row belongs to one task. A row that lacks a field, or has one of another type, is damaged.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from pkg_lib.core.reading import NUMBER, TEXT_OR_NONE, Fields, Kinds, is_there
from pkg_lib.core.store import read_json, read_rows
from pkg_lib.core.types import Generation, Status

Row = dict[str, Any]
Rows = dict[str, Row]  # by task id

OUTCOME: Kinds = {
    "task_id": str,
    "status": frozenset(get_args(Status)),
    "error": str,
    "detail": str,
}
VERDICT: Kinds = {**OUTCOME, "sha256": str}
CONTEXT: Kinds = {"method": str, "text": TEXT_OR_NONE, "sha256": str}
LEAK: Kinds = {
    "sha256": str,
    "callable": bool,
    "passes": bool,
    "jaccard": NUMBER,
    "edit": NUMBER,
    "statements": list,
}
SELECTION: Kinds = {"chosen": str, "sha256": str, "candidates": dict}
PROVENANCE: Kinds = {
    "benchmark": str,
    "corpus": str,
    "corpus_digest": str,
    "versions": dict,
}
# Types of further fields, where a row has them.
OPTIONAL: Kinds = {
    "seconds": NUMBER,
    "score": NUMBER,
    "source": str,
    "pruned": str,
    "prompt_sha256": str,
    "context_sha256": str,
    "generation_key": str,
    "solution": str,
    "solution_begin": int,
    "solution_end": int,
    "query": str,
    "chosen_as_printed": str,
    "tokens": (int, type(None)),
    "spent": (int, type(None)),
    "recall": (*NUMBER, type(None)),
    "truncated": bool,
    "defines_task": (bool, type(None)),
}


def solution_fields(solution: str, completion: str) -> Row:
    """Return the fields of a verdict that say which solution it is on.

    Most solutions are parts of their completions. Their place there takes less space than their text.

    Args:
        solution: The solution.
        completion: Text of the completion that it was extracted from; "" if there is none.

    Returns:
        `solution_begin` and `solution_end`, its place in the completion, or `solution`, its text.
    """
    begin = completion.find(solution)
    if not solution or begin < 0:
        return {"solution": solution}
    return {"solution_begin": begin, "solution_end": begin + len(solution)}


def by_task(path: Path, fields: Fields = ()) -> Rows:
    """Read the rows of a file by their tasks.

    Args:
        path: A JSONL file with a row for each task.
        fields: The fields that a row must have beside its `task_id`, with their types.

    Returns:
        Row by task id; empty if there is no file.

    Raises:
        DamagedFileError: A row is not such an object, or the file cannot be read.
    """
    if not is_there(path):
        return {}
    required: Kinds = {"task_id": str}
    required |= fields if isinstance(fields, dict) else dict.fromkeys(fields, object)
    return {row["task_id"]: row for row in read_rows(path, required, OPTIONAL)}


def read_verdicts(path: Path, completions: Mapping[str, Generation]) -> Rows:
    """Read verdicts with the solutions that they are on.

    Args:
        path: A file of verdicts.
        completions: The model's completions by generation key.

    Returns:
        Row by task id, with the text `solution`. A solution whose completion is not stored any more is None.

    Raises:
        DamagedFileError: A row is not a verdict, or the file cannot be read.
    """
    rows = by_task(path, VERDICT)
    for row in rows.values():
        if "solution_begin" not in row or "solution_end" not in row:
            row.setdefault("solution", "")
            continue
        completion = completions.get(row.get("generation_key", ""))
        row["solution"] = None
        if completion is not None:
            row["solution"] = completion.raw[row["solution_begin"] : row["solution_end"]]
    return rows


def current_rows(rows: Rows, task_ids: Iterable[str], digest_of: Callable[[str], str]) -> Rows:
    """Select the rows that were made from what is there now.

    Args:
        rows: Row by task id; its `sha256` identifies what it was made from.
        task_ids: The tasks for which there is something now.
        digest_of: Takes a task's id and returns the digest of what there is now.

    Returns:
        Row by task id, in the order of `task_ids`.
    """
    current = {}
    for task_id in task_ids:
        if task_id in rows and rows[task_id]["sha256"] == digest_of(task_id):
            current[task_id] = rows[task_id]
    return current


def read_provenance(path: Path) -> Row:
    """Read what contexts were retrieved from.

    Args:
        path: The file beside the contexts.

    Returns:
        Its fields; empty if there is no file.

    Raises:
        DamagedFileError: The file cannot be read, or holds something else.
    """
    return read_json(path, (), PROVENANCE) if is_there(path) else {}
