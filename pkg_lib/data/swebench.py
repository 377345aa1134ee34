"""SWE-bench Lite's records (Jimenez et al., 2024): issues, and the lines that a patch changes.

PKG_SWEBENCH_DIR holds test.jsonl (princeton-nlp/SWE-bench_Lite on the Hugging Face hub), and each
issue's repository at its commit as repositories/INSTANCE_ID. Retrieval is measured; no patch is
executed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from unidiff.errors import UnidiffParseError
from unidiff.patch import Hunk, PatchSet

from pkg_lib.core.types import UserError
from pkg_lib.data.records import DataSet

DATA = DataSet("SWE-bench Lite", "PKG_SWEBENCH_DIR", "test.jsonl of princeton-nlp/SWE-bench_Lite")


@dataclass(frozen=True, slots=True)
class Issue:
    """One issue.

    Attributes:
        id: SWE-bench's instance id.
        query: Text of the issue.
        gold: Path, first and last line of what the patch changes, before the patch; lines count
            from 1.
    """

    id: str
    query: str
    gold: tuple[tuple[str, int, int], ...]


def load_swebench() -> list[Issue]:
    """Load the 300 issues.

    Raises:
        BenchmarkMissingError: The data set is not available.
    """
    return DATA.records(("test.jsonl",), _issue)


def _issue(row: dict[str, Any]) -> Issue:
    gold = tuple(changed_lines(str(row["patch"])))
    return Issue(str(row["instance_id"]), str(row["problem_statement"]), gold)


def changed_lines(patch: str) -> Iterator[tuple[str, int, int]]:
    """Find the lines that a patch changes.

    Args:
        patch: A unified diff.

    Yields:
        Path, first and last line of each changed run of lines, as they are before the patch. For a
        pure insertion this is the line before it. New files have none.

    Raises:
        UserError: The text is not a unified diff.
    """
    try:
        files = PatchSet(patch)
    except UnidiffParseError as e:
        raise UserError(f"a patch is not a unified diff: {e}") from e
    for file in files:
        if file.is_added_file:
            continue
        path = file.source_file.removeprefix("a/") if file.is_rename else file.path
        for hunk in file:
            for first, last in _changed_runs(hunk):
                yield path, first, last


def _changed_runs(hunk: Hunk) -> Iterator[tuple[int, int]]:
    """Yield the first and last old line of each run of added and removed lines."""
    before = max(hunk.source_start - (hunk.source_length > 0), 1)
    removed: list[int] = []
    changed = False
    for line in hunk:
        number = line.source_line_no or before  # added lines have none
        if line.is_removed:
            removed.append(number)
        if line.is_removed or line.is_added:
            changed = True
        elif line.is_context:
            if changed:
                yield _run(removed, before)
            before = number
            removed = []
            changed = False
    if changed:
        yield _run(removed, before)


def _run(removed: list[int], before: int) -> tuple[int, int]:
    if not removed:
        return before, before
    return removed[0], removed[-1]
