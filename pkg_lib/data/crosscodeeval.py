"""CrossCodeEval's records (Ding et al., 2023): statements whose meaning is in other files.

They are read from PKG_CCEVAL_DIR, laid out as in the authors' archive:
DIR/<language>/line_completion.jsonl.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.chunking.languages import parse, parse_errors
from pkg_lib.core.types import Task, UserError
from pkg_lib.data.code_match import KEYWORDS, match
from pkg_lib.data.records import DataSet, read_records

DATA = DataSet("CrossCodeEval", "PKG_CCEVAL_DIR", "the archive of github.com/amazon-science/cceval")


def load_crosscodeeval(language: str) -> list[Task]:
    """Load the tasks of a language.

    Args:
        language: "python", "java", "typescript" or "csharp".

    Returns:
        Tasks in the order of the file. They have no tests and no entry point.

    Raises:
        BenchmarkMissingError: The data set is not available.
        UserError: The language is unknown.
    """
    KEYWORDS.get_or_fail(language)
    return DATA.records((f"{language}/line_completion.jsonl",), _task)


def _task(row: dict[str, Any]) -> Task:
    name = str(row["metadata"]["task_id"])
    prompt = str(row["prompt"])
    return Task(name, "crosscodeeval", prompt, "", solution=str(row["groundtruth"]))


def _completion(row: dict[str, Any]) -> tuple[str, str]:
    """Return a task's id and its completion."""
    return str(row["task_id"]), str(row["completion"])


def first_statement(
    text: str,
    language: str,
    prompt: str = "",
) -> str:
    """Cut a completion after its first statement, as the authors' scorer does.

    Args:
        text: The completion.
        language: Its language.
        prompt: What it completes.

    Returns:
        In Python, the text up to the first line end where prompt and completion parse together. In
        other languages, the text up to the first semicolon or brace, unless that is its first
        character. The whole text if there is no such place.
    """
    if language != "python":
        end = re.search("[;{}]", text)
        return text[: end.end()] if end and end.start() else text
    for newline in re.finditer("\n", text):
        statement = text[: newline.start()].rstrip()
        source = (prompt + statement).encode("utf8", "replace")
        if statement and not parse_errors(parse(source, "python").root_node):
            return statement
    return text


def report(
    path: Path,
    language: str,
) -> Iterator[str]:
    """Measure the completions of a file.

    Args:
        path: A JSONL file with ``task_id`` and ``completion`` in each line.
        language: Language of the tasks.

    Yields:
        How many tasks were measured, then the mean of each measure in percent.

    Raises:
        UserError: The file has no completion of a task.
    """
    tasks = load_crosscodeeval(language)
    title = "completions: task_id and completion a line"
    completions = dict(read_records(path, title, _completion))
    measured = [task for task in tasks if task.id in completions]
    if not measured:
        raise UserError(f"{path} holds no completion of a task of {DATA.title}'s {language}")
    unknown = len(completions) - len(measured)
    yield f"{len(measured)} of {len(tasks)} tasks measured; {unknown} completions are of no task"
    rows = []
    for task in measured:
        statement = first_statement(completions[task.id], language, task.prompt)
        rows.append(match(statement, task.solution, language))
    for name, value in pd.DataFrame(rows).mean().items():
        yield f"{name}: {100 * value:.1f}"
