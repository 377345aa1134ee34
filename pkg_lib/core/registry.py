"""What can be chosen by name. PAPERS and the user's Python files that PKG_PLUGINS names (a:b) add entries."""

import os
import runpy
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from pkg_lib.core.reading import absolute, in_the_way, shown
from pkg_lib.core.types import UserError

Entry = TypeVar("Entry")
LINE = 113  # characters of an error, with its choices
LONGEST_NAME = 60  # characters of a user's name that are repeated in an error
SIMILAR = 75.0  # of 100, in rapidfuzz's weighted ratio
MOST_SHOWN = 3
# kind of name -> the part of `pkg-lib list` that shows it
LISTED = {
    "model": "models",
    "benchmark": "benchmarks",
    "corpus": "corpora",
    "column": "methods",
    "method": "methods",
    "embedder": "embedders",
    "notebook": "notebooks",
    "prompt style": "styles",
}
# By name: nothing here imports what stands above it.
PAPERS = (
    "pkg_lib.papers.cast.function_bodies",
    "pkg_lib.papers.dkb.question_tasks",
    "pkg_lib.papers.evor.library_tasks",
    "pkg_lib.papers.evor.private_eval",
    "pkg_lib.papers.evor.methods",
    "pkg_lib.papers.evor.evor_bench",
    "pkg_lib.papers.evor.newlisp",
)


def unknown(kind: str, name: object, choices: Iterable[object], where: str = "") -> UserError:
    """Make the error for a name that is none of the choices, with the closest of them.

    Args:
        kind: What the name should name, such as "model".
        name: What the user wrote.
        choices: The names that exist.
        where: What the choices belong to, such as "for corpus textbook"; it follows the name.

    Returns:
        An error of one line. It shows all choices where they fit on the line, else the command that lists
        them or some examples.
    """
    names = [str(choice) for choice in choices]
    given = shown(str(name))
    if len(given) > LONGEST_NAME:
        given = f"{given[: LONGEST_NAME - 1]}…"
    message = f"unknown {kind} '{given}'{where and ' '}{where}; "
    if not names:
        return UserError(f"{message}none is described")
    close = closest(str(name), names)
    if close:
        suggestion = f"did you mean {' or '.join(map(repr, close))}? "
        room = LINE - len(message) - len("`pkg-lib list benchmarks` shows all")
        message += suggestion if len(suggestion) <= room else f"did you mean '{close[0]}'? "
    everything = f"choose from: {joined(names)}"
    if len(message) + len(everything) <= LINE:
        return UserError(message + everything)
    if kind in LISTED:
        return UserError(f"{message}`pkg-lib list {LISTED[kind]}` shows all")
    if close:
        return UserError(message.rstrip())
    return UserError(f"{message}{len(names)} exist, such as {joined(names[:MOST_SHOWN])}")


def closest(name: str, names: Iterable[str]) -> list[str]:
    """Return the names that a misspelled one is likely to mean.

    Args:
        name: What the user wrote. A part of a name will do, such as "qwen".
        names: The names that exist.

    Returns:
        The closest name, and a second one that is as close; none where no name is similar.
    """
    from rapidfuzz import fuzz, process, utils  # only a mistake needs it
    from rapidfuzz.distance import OSA

    name = name[:LONGEST_NAME]
    how = {"scorer": fuzz.WRatio, "processor": utils.default_process, "score_cutoff": SIMILAR}
    names = list(names)
    similar = process.extract(name, names, limit=None, **how)
    if (
        not similar and len(name) > 2
    ):  # in a short name one wrong letter, or two exchanged, lowers the score much
        similar = [(n, 0.0, 0) for n in names if OSA.distance(name.casefold(), n.casefold()) == 1]
    # That score ignores punctuation and what surrounds a part of a name.
    # The plain ratio decides between equals.
    rank = {
        match: (score, fuzz.ratio(name.casefold(), match.casefold())) for match, score, _ in similar
    }
    return [match for match in rank if rank[match] == max(rank.values())][:2]


def joined(names: Iterable[str]) -> str:
    """Names in a line, also where one of them holds a comma."""
    names = list(names)
    return ("; " if any("," in n for n in names) else ", ").join(names)


class Registry(dict[str, Entry]):
    """Entries by name, as listed; `kind` is for error messages. An iterable's entries have a `name`."""

    def __init__(self, kind: str, entries: Iterable[Any] | Mapping[str, Entry] = ()) -> None:
        super().__init__()
        self.kind = kind
        pairs = entries.items() if isinstance(entries, Mapping) else ((e.name, e) for e in entries)
        for name, entry in pairs:
            self.register(entry, name)

    def register(self, entry: Entry, name: str = "") -> Entry:
        """Adds an entry under its name. Raises UserError for a name that is taken."""
        name = name or entry.name
        if name in self:
            raise UserError(
                f"{self.kind} {name} is registered twice; give one of them another name"
            )
        self[name] = entry
        return entry

    def get_or_fail(self, name: str) -> Entry:
        """The entry of a name. Raises UserError with the names to choose from."""
        if name not in self:
            raise unknown(self.kind, name, self)
        return self[name]


def plugins() -> list[Path]:
    """The files that PKG_PLUGINS names."""
    names = filter(None, os.environ.get("PKG_PLUGINS", "").split(os.pathsep))
    return [absolute(name) for name in names]


def load_plugins() -> None:
    """Loads the papers' entries and the user's files, each once. UserError for a file that is not there."""
    for module in PAPERS:
        import_module(module)
    for path in plugins():
        _load(path)


@cache
def _load(path: Path) -> None:
    if obstacle := in_the_way(path):
        raise UserError(
            f"PKG_PLUGINS names a file that cannot be read: {obstacle}, or name another"
        )
    if not path.is_file():
        advice = f"name Python files, joined by '{os.pathsep}'"
        raise UserError(f"PKG_PLUGINS names {path}, which is not there; {advice}")
    try:
        runpy.run_path(str(path), run_name="pkg_lib_plugin")
    except UserError:
        raise
    except (Exception, SystemExit) as e:
        raise UserError(f"PKG_PLUGINS names {path}, which fails: {type(e).__name__}: {e}") from e
