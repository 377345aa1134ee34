"""What the commands share: common options, how their values are read, and how lines are printed."""

from __future__ import annotations

import cmd
import io
import shutil
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from pkg_lib.core import models
from pkg_lib.core.reading import printable
from pkg_lib.core.types import UserError
from pkg_lib.data.corpora import parse_corpus
from pkg_lib.generation.prompts import TEMPLATES


def arg(about: str, **more: Any) -> Any:
    """Declare an argument of a command.

    Args:
        about: Its help text.
        **more: Settings of `typer.Argument`.
    """
    return typer.Argument(help=about, **more)


def opt(about: str, *names: str, least: float | None = None, **more: Any) -> Any:
    """Declare an option of a command.

    Args:
        about: Its help text.
        *names: Its names; by default that of the parameter.
        least: Its smallest value.
        **more: Settings of `typer.Option`.
    """
    return typer.Option(*names, help=about, min=least, **more)


def model_name(name: str, style: str = "") -> str:
    """Return the name of a model as cache keys and files have it.

    Args:
        name: A model's name as the user wrote it.
        style: The prompt style; "" for the model's usual style.

    Returns:
        The name with an absolute directory, and with its style unless that is chat.

    Raises:
        UserError: There is no such model or style, or the model has a prompt style of its own.
    """
    if not name or (name in models.MODELS and not style):
        return name
    if name in models.MODELS:
        takers = ", ".join(models.KINDS.values())
        raise UserError(f"model {name} has a prompt style of its own; --style is only for {takers}")
    spec = models.model_spec(name)
    style = style or spec.style
    TEMPLATES.get_or_fail(style)
    bare = f"path:{spec.directory}" if spec.directory else name.partition("#")[0]
    return bare if style == "chat" else f"{bare}#{style}"


def absolute_corpus(name: str) -> str:
    """Make the directories of `source:DIR` absolute, since notebooks run in another directory.

    Args:
        name: The name of a corpus, or several joined by "+".
    """
    return parse_corpus(name).with_absolute_paths().name


KINDS_OF_MODELS = ", ".join(models.KINDS.values())
Many = list[str] | None
MODEL_HELP = f"A model from `list`, or {KINDS_OF_MODELS}."
EMBEDDER_HELP = f"An embedder from `list`, or {KINDS_OF_MODELS}."
CORPUS_HELP = "A corpus from `list`, or several joined by '+'."
BENCHMARK_HELP = "A benchmark from `list`."
AS_MODEL: dict[str, Any] = {"parser": model_name, "metavar": "MODEL"}
Model = Annotated[str, opt(MODEL_HELP, **AS_MODEL)]
ModelArgument = Annotated[str, arg(MODEL_HELP, **AS_MODEL)]
Corpus = Annotated[str, opt(CORPUS_HELP)]
CorpusArgument = Annotated[str, arg(CORPUS_HELP)]
BenchmarkArgument = Annotated[str, arg(BENCHMARK_HELP)]
Embedding = Annotated[str, opt(EMBEDDER_HELP)]
Limit = Annotated[int | None, opt("Only the first N tasks, or documents.", least=1)]
Slots = Annotated[
    int | None, opt("Prompts decoded together. Default: by the GPU's memory.", least=1)
]
Processes = Annotated[int, opt("Number of parallel processes.", least=1)]
Engine = Annotated[
    str, opt("Where to encode, build graphs and execute samples: local, or ray[:HOST:PORT].")
]
OutputFile = Annotated[Path | None, opt("The file to write.")]


def say(lines: Iterable[object]) -> None:
    """Print lines to standard output."""
    for line in lines:
        typer.echo(line)


def one_line(message: str) -> str:
    """Escape line breaks and other control characters.

    Args:
        message: A message, perhaps about a file whose name somebody else chose.

    Returns:
        Printable text in one line.
    """
    safe = message.strip().encode("utf8", "surrogateescape").decode("utf8", "backslashreplace")
    return printable(safe)


def _screen_width() -> int:
    """Return the columns of the terminal, or COLUMNS; 100 if the output is a file or a pipe."""
    return max(40, shutil.get_terminal_size((100, 24)).columns)


def wrapped(line: str, indent: int) -> str:
    """Break a line at the width of the screen, but never within a word, which may be a path.

    Args:
        line: One line of text; the spaces that it starts with are kept.
        indent: How far the following lines are indented.

    Returns:
        The text in as many lines as it needs.
    """
    return textwrap.fill(
        line,
        _screen_width(),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )


def lines_in_columns(names: Iterable[str]) -> list[str]:
    """Arrange names in columns that fit the screen; they are read down each column.

    Args:
        names: The names.

    Returns:
        Indented lines.
    """
    buffer = io.StringIO()
    cmd.Cmd(stdout=buffer).columnize(list(names), _screen_width() - 2)
    return [f"  {line}".rstrip() for line in buffer.getvalue().splitlines()]


def log_lines(log: dict[str, Any]) -> Iterable[str]:
    """Describe the log of a step that a model did.

    Args:
        log: The figures of the step by name.

    Yields:
        A line for each figure, and one for the number of rejected answers by reason.
    """
    for name, value in log.items():
        if isinstance(value, dict) and name.startswith("rejected"):
            value = ", ".join(f"{reason} {count}" for reason, count in value.items()) or "none"
        if isinstance(value, str | int | float) and "digest" not in name:
            yield f"{name.replace('_', ' ')}: {value}"
