"""CrossCodeEval's records (Ding et al., 2023): the next statement of a file whose meaning lies in others.

From PKG_CCEVAL_DIR, as the authors' archive holds it: DIR/<language>/line_completion.jsonl.
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
_END = re.compile(r"[;{}]")


def load_crosscodeeval(language: str) -> list[Task]:
    """The tasks of a language. BenchmarkMissing where they are not at hand."""
    KEYWORDS.get_or_fail(language)

    def task(row: dict[str, Any]) -> Task:
        name, prompt = str(row["metadata"]["task_id"]), str(row["prompt"])
        return Task(name, "crosscodeeval", prompt, "", solution=str(row["groundtruth"]))

    return DATA.records((f"{language}/line_completion.jsonl",), task)


def first_statement(text: str, language: str, prompt: str = "") -> str:
    """The completion up to the end of its first statement, as the authors' scorer cuts it; else the whole.

    That is the first semicolon or brace (not at its very start); in Python the first end of a line with code
    where prompt and completion parse together.
    """
    if language != "python":
        end = _END.search(text)
        return text[: end.end()] if end and end.start() else text
    for newline in re.finditer("\n", text):
        part = text[: newline.start()].rstrip()
        if part and not parse_errors(
            parse((prompt + part).encode("utf8", "replace"), "python").root_node
        ):
            return part
    return text


def report(path: Path, language: str) -> Iterator[str]:
    """The means of the measures of a file's completions in percent, one a line. UserError for none."""
    tasks = load_crosscodeeval(language)
    title = "completions: task_id and completion a line"
    completions = dict(
        read_records(path, title, lambda row: (str(row["task_id"]), str(row["completion"])))
    )
    known = [t for t in tasks if t.id in completions]
    if not known:
        raise UserError(f"{path} holds no completion of a task of {DATA.title}'s {language}")
    texts = [(first_statement(completions[t.id], language, t.prompt), t.solution) for t in known]
    strangers = len(completions) - len(known)
    yield f"{len(known)} of {len(tasks)} tasks measured; {strangers} completions are of no task"
    for name, value in pd.DataFrame([match(*pair, language) for pair in texts]).mean().items():
        yield f"{name}: {100 * value:.1f}"
