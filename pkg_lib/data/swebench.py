"""SWE-bench Lite's records (Jimenez et al., 2024): an issue's text, and the lines that its patch changed.

From PKG_SWEBENCH_DIR: test.jsonl (princeton-nlp/SWE-bench_Lite on the Hugging Face hub), and each problem's
repository at its commit as repositories/INSTANCE_ID. Retrieval is measured; no patch is executed.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

from unidiff import Hunk, PatchSet, UnidiffParseError

from pkg_lib.core.types import UserError
from pkg_lib.data.records import DataSet

DATA = DataSet("SWE-bench Lite", "PKG_SWEBENCH_DIR", "test.jsonl of princeton-nlp/SWE-bench_Lite")


class Issue(NamedTuple):
    """One problem. `gold`: (path, first line, last line), from 1, of the file as it is before the patch."""

    id: str
    query: str
    gold: tuple[tuple[str, int, int], ...]


def load_swebench() -> list[Issue]:
    """The 300 problems. BenchmarkMissing where they are not at hand."""
    return DATA.records(("test.jsonl",), _issue)


def _issue(row: dict[str, Any]) -> Issue:
    gold = tuple(changed_lines(str(row["patch"])))
    return Issue(str(row["instance_id"]), str(row["problem_statement"]), gold)


def changed_lines(patch: str) -> Iterator[tuple[str, int, int]]:
    """(path, first, last) of each run that a unified diff changes, as before it; none of a new file.

    For a mere insertion it is the line before that. UserError for a text that is no diff.
    """
    try:
        files = PatchSet(patch)
    except UnidiffParseError as e:
        raise UserError(f"a patch is no unified diff: {e}") from e
    for file in files:
        if not file.is_added_file:
            path = file.source_file.removeprefix("a/") if file.is_rename else file.path
            yield from ((path, *run) for hunk in file for run in _runs(hunk))


def _runs(hunk: Hunk) -> Iterator[tuple[int, int]]:
    before = max(hunk.source_start - (hunk.source_length > 0), 1)
    # What is none of the three is the mark "No newline at end of file".
    lines = [line for line in hunk if line.is_context or line.is_added or line.is_removed]
    for in_context, group in groupby(lines, key=lambda line: line.is_context):
        run = list(group)
        if in_context:
            before = run[-1].source_line_no
        else:
            removed = [line.source_line_no for line in run if line.is_removed] or [before]
            yield removed[0], removed[-1]
