"""SWE-bench Lite's records (Jimenez et al., 2024): an issue's text, and the lines that the accepted patch changed.

From PKG_SWEBENCH_DIR: test.jsonl (princeton-nlp/SWE-bench_Lite on the Hugging Face hub, a record a line), and each problem's
repository at its commit as repositories/INSTANCE_ID, a directory or .zip. The retrieval side is measured (retrieving.py): the
query is the issue, gold are the changed lines of the files before the patch. Executing a patch needs SWE-bench's own
containers and is not attempted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from unidiff import Hunk, PatchSet, UnidiffParseError

from pkg_lib.core.types import BenchmarkMissing, UserError

VARIABLE = "PKG_SWEBENCH_DIR"


@dataclass(frozen=True, slots=True)
class Issue:
    """One problem. `gold` holds (path, first line, last line) of the file as it is before the patch, from 1."""

    id: str
    repository: str
    commit: str
    query: str
    patch: str
    gold: tuple[tuple[str, int, int], ...]


def load_swebench() -> list[Issue]:
    """The 300 problems. BenchmarkMissing where they are not at hand."""
    if not (folder := os.environ.get(VARIABLE)):
        raise BenchmarkMissing(
            f"SWE-bench Lite is not at hand: set {VARIABLE} to a directory with test.jsonl and repositories/"
        )
    return read_swebench(Path(folder) / "test.jsonl")


def read_swebench(path: Path) -> list[Issue]:
    """The problems of a file, a record a line. UserError names a line that is none."""
    try:
        lines = path.read_text("utf8").split("\n")
    except OSError as e:
        raise UserError(
            f"SWE-bench Lite cannot be read: {path}: {e.strerror}; {VARIABLE} names its directory"
        ) from e
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError as e:
                raise UserError(f"{path}:{number} is no record of SWE-bench: {e}") from e
            found.append(issue(row, f"{path}:{number}"))
    return found


def issue(row: dict[str, Any], where: str) -> Issue:
    """A record as an Issue. UserError names what it lacks."""
    try:
        texts = [str(row[n]) for n in ("instance_id", "repo", "base_commit", "problem_statement", "patch")]
    except (KeyError, TypeError) as e:
        raise UserError(f"{where} is no record of SWE-bench: field {e} is missing") from e
    return Issue(*texts, gold=tuple(changed_lines(texts[-1])))


def changed_lines(patch: str) -> Iterator[tuple[str, int, int]]:
    """(path, first, last) of each run of lines that a unified diff changes, all as before it; for a mere insertion the line
    before that. A file that the patch makes anew has none. UserError for a text that is no diff."""
    try:
        files = PatchSet(patch)
    except UnidiffParseError as e:
        raise UserError(f"a patch is no unified diff: {e}") from e
    for file in files:
        if not file.is_added_file:
            path = file.source_file.removeprefix("a/") if file.is_rename else file.path
            for hunk in file:
                yield from ((path, first, last) for first, last in _runs(hunk))


def _runs(hunk: Hunk) -> Iterator[tuple[int, int]]:
    before = max(hunk.source_start - (hunk.source_length > 0), 1)
    own = [
        line for line in hunk if line.is_context or line.is_added or line.is_removed
    ]  # no "No newline at end of file"
    for changed, lines in groupby(own, key=lambda line: not line.is_context):
        group = list(lines)
        if changed:
            removed = [line.source_line_no for line in group if line.is_removed]
            yield (removed[0], removed[-1]) if removed else (before, before)
        else:
            before = group[-1].source_line_no
