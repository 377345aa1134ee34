"""CrossCodeEval's records (Ding et al., 2023): the next statement of a file whose meaning lies in other files.

Read from PKG_CCEVAL_DIR, as the authors' archive holds it: DIR/<language>/line_completion*.jsonl. A line has `prompt`,
`groundtruth`, `metadata` {task_id, repository, file} and, in the retrieval variants, `crossfile_context` {text, list}.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.chunking.languages import parse, parse_errors
from pkg_lib.core.types import BenchmarkMissing, UserError
from pkg_lib.data.code_match import Match, match

LANGUAGES = ("python", "java", "csharp", "typescript")
VARIABLE = "PKG_CCEVAL_DIR"
_END = re.compile(r"[;{}]")


@dataclass(frozen=True, slots=True)
class CrossFileTask:
    """One statement to complete; `crossfile` are the fragments that the record's own retrieval found, as (path, text)."""

    id: str
    language: str
    repository: str
    path: str
    prompt: str
    reference: str
    crossfile: tuple[tuple[str, str], ...] = ()


def read_crosscodeeval(path: Path, language: str) -> list[CrossFileTask]:
    """The tasks of one file. UserError names a line that is none."""
    if language not in LANGUAGES:
        raise UserError(f"unknown language '{language}'; choose from: {', '.join(LANGUAGES)}")
    lines = path.read_text("utf8").split("\n")
    return [_task(line, language, f"{path}:{n}") for n, line in enumerate(lines, 1) if line.strip()]


def load_crosscodeeval(language: str, file: str = "line_completion.jsonl") -> list[CrossFileTask]:
    """The tasks of a language below PKG_CCEVAL_DIR. BenchmarkMissing where it is not there."""
    folder = os.environ.get(VARIABLE)
    path = Path(folder or ".") / language / file
    if not folder or not path.exists():
        raise BenchmarkMissing(
            f"CrossCodeEval is not at hand: unpack the authors' archive (github.com/amazon-science/cceval) and set {VARIABLE} "
            f"to the directory that holds {language}/{file}"
        )
    return read_crosscodeeval(path, language)


def _task(line: str, language: str, where: str) -> CrossFileTask:
    try:
        row: dict[str, Any] = json.loads(line)
        about = row["metadata"]
        fragments = (row.get("crossfile_context") or {}).get("list", ())
        found = tuple((str(f["filename"]), str(f["retrieved_chunk"])) for f in fragments)
        names = (
            about["task_id"],
            language,
            about["repository"],
            about["file"],
            row["prompt"],
            row["groundtruth"],
        )
        return CrossFileTask(*map(str, names), found)
    except (ValueError, TypeError, AttributeError) as e:
        raise UserError(f"{where} is no record of CrossCodeEval: {e}") from e
    except KeyError as e:
        raise UserError(f"{where} is no record of CrossCodeEval: field {e} is missing") from e


def first_statement(text: str, language: str, prompt: str = "") -> str:
    """The completion up to the end of its first statement, as the authors' scorer cuts it: up to the first semicolon or brace
    (the whole completion if it begins with one); in Python up to the first end of a line where prompt and completion parse
    together. The whole completion where there is no such end. Empty lines before any code are passed over here.
    """
    if language != "python":
        end = _END.search(text)
        return text[: end.end()] if end and end.start() else text
    for newline in re.finditer("\n", text):
        found = text[: newline.start()].rstrip()
        if found and not parse_errors(parse((prompt + found).encode("utf8", "replace"), "python").root_node):
            return found
    return text


def report(path: Path, language: str) -> Iterator[str]:
    """The means of the measures in percent, one a line, of the completions in a file: task_id and completion a line.

    UserError for a line that is none, or a file of which no line is of a task of this language.
    """
    tasks = load_crosscodeeval(language)
    try:
        rows = [json.loads(line) for line in path.read_text("utf8").split("\n") if line.strip()]
        made = {str(row["task_id"]): str(row["completion"]) for row in rows}
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise UserError(
            f"{path} is no file with task_id and completion a line: {type(e).__name__}: {e}"
        ) from e
    scores = score(tasks, made)
    if not scores:
        raise UserError(f"{path} holds no completion of a task of CrossCodeEval's {language}")
    yield f"{len(scores)} of {len(tasks)} tasks measured; {len(made) - len(scores)} completions are of no task"
    for name, value in pd.DataFrame(map(asdict, scores.values())).mean().items():
        yield f"{name}: {100 * value:.1f}"


def score(tasks: Sequence[CrossFileTask], completions: dict[str, str]) -> dict[str, Match]:
    """Task -> its measures, for tasks with a completion."""
    return {
        t.id: match(first_statement(completions[t.id], t.language, t.prompt), t.reference, t.language)
        for t in tasks
        if t.id in completions
    }
