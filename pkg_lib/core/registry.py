"""What can be chosen by name.

PAPERS and the user's Python files, which PKG_PLUGINS names (a:b), add entries to the registries.
"""

import os
import runpy
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from pkg_lib.core.reading import absolute, describe_obstacle, shown
from pkg_lib.core.types import UserError

Entry = TypeVar("Entry")
PLUGIN = "pkg_lib_plugin"  # name of the module that a user's file is executed as
LINE = 113  # characters of an error, with its choices
LONGEST_NAME = 60  # characters of a user's name that are repeated in an error
SIMILAR = 75.0  # of 100, in rapidfuzz's weighted ratio
MOST_SHOWN = 3
# kind of name -> the part of `pkg-lib list` that shows it
LISTED = {
    "model": "models",
    "benchmark": "benchmarks",
    "corpus": "corpora",
    "method": "methods variants",
    "embedder": "embedders",
    "notebook": "notebooks",
    "prompt style": "styles",
}
# kind of name -> how the user's own is named
OWN = {"corpus": "; a directory of code is source:DIR"}
# As text, because this module imports nothing of a higher rank.
PAPERS = (
    "pkg_lib.papers.cast.function_bodies",
    "pkg_lib.papers.cast.repoeval_tests",
    "pkg_lib.papers.dkb.question_tasks",
    "pkg_lib.papers.evor.library_tasks",
    "pkg_lib.papers.evor.scipy_tasks",
    "pkg_lib.papers.evor.private_eval",
    "pkg_lib.papers.evor.evor_registration",
    "pkg_lib.papers.evor.evor_bench",
    "pkg_lib.papers.evor.newlisp",
)


def unknown(kind: str, name: object, choices: Iterable[object], where: str = "") -> UserError:
    """Build the error for a name that is none of the choices, with the closest of them.

    Args:
        kind: What the name should name, such as "model".
        name: What the user wrote.
        choices: The names that exist.
        where: What the choices belong to, such as "for corpus textbook"; it follows the name.

    Returns:
        An error of one line. It shows all choices if they fit on the line, else the command that
        lists them or some examples.
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
        room = LINE - len(message) - len("`pkg-lib list methods variants` shows all")
        message += suggestion if len(suggestion) <= room else f"did you mean '{close[0]}'? "
    everything = f"choose from: {joined(names)}"
    if len(message) + len(everything) <= LINE:
        return UserError(message + everything)
    listing = f"`pkg-lib list {LISTED[kind]}` shows all" if kind in LISTED else ""
    if not close:
        listing += OWN.get(kind, "")
    if close and (not listing or len(message) + len(listing) > LINE):
        return UserError(message.rstrip())
    if listing:
        return UserError(message + listing)
    return UserError(f"{message}{len(names)} exist, such as {joined(names[:MOST_SHOWN])}")


def closest(name: str, names: Iterable[str]) -> list[str]:
    """Return the names that a misspelled one is likely to mean.

    Args:
        name: What the user wrote. A part of a name is enough, such as "qwen".
        names: The names that exist.

    Returns:
        The closest name, and a second one that is as close; none if no name is similar.
    """
    # Imported here because only a mistake needs it.
    from rapidfuzz import fuzz, utils
    from rapidfuzz.distance import OSA

    name = name[:LONGEST_NAME]
    scores: dict[str, tuple[float, float]] = {}
    for other in names:
        # The weighted ratio ignores punctuation and what surrounds a part of a name.
        # The plain ratio decides between equals.
        weighted = fuzz.WRatio(name, other, processor=utils.default_process)
        scores[other] = (weighted, fuzz.ratio(name.casefold(), other.casefold()))
    similar = [other for other in scores if scores[other][0] >= SIMILAR]
    if not similar and len(name) > 2:
        # In a short name, one wrong letter or two exchanged ones lower the ratio much.
        similar = [n for n in scores if OSA.distance(name.casefold(), n.casefold()) == 1]
        scores = {other: (0.0, plain) for other, (_, plain) in scores.items()}
    best = max((scores[other] for other in similar), default=None)
    return [other for other in similar if scores[other] == best][:2]


def joined(names: Iterable[str]) -> str:
    """Return names in one line, also if one of them contains a comma.

    Args:
        names: The names.
    """
    names = list(names)
    separator = "; " if any("," in name for name in names) else ", "
    return separator.join(names)


class Registry(dict[str, Entry]):
    """Entries by name, in the order in which they are listed.

    Args:
        kind: What an entry is, for messages.
        entries: The first entries, by name, or objects with a `name`.
    """

    def __init__(self, kind: str, entries: Iterable[Any] | Mapping[str, Entry] = ()) -> None:
        super().__init__()
        self.kind = kind
        objects: Iterable[Any] = entries
        if isinstance(entries, Mapping):
            for name, entry in entries.items():
                self.register(entry, name)
        else:
            for entry in objects:
                self.register(entry)

    def register(self, entry: Entry, name: str = "") -> Entry:
        """Add an entry.

        Args:
            entry: The entry.
            name: Its name; by default the entry's own attribute `name`.

        Returns:
            The entry.

        Raises:
            UserError: The name is taken.
        """
        name = name or getattr(entry, "name", "")
        if name in self:
            raise UserError(
                f"{self.kind} {name} is registered twice; give one of them another name"
            )
        self[name] = entry
        return entry

    def get_or_fail(self, name: str) -> Entry:
        """Return the entry of a name.

        Args:
            name: What the user wrote.

        Raises:
            UserError: There is no such entry. The error lists similar names or all of them.
        """
        if name not in self:
            raise unknown(self.kind, name, self)
        return self[name]


def plugins() -> list[Path]:
    """Return the files that PKG_PLUGINS names."""
    names = os.environ.get("PKG_PLUGINS", "").split(os.pathsep)
    return [absolute(name) for name in names if name]


def load_plugins() -> None:
    """Load the papers' entries and the user's files, each once.

    Raises:
        UserError: A file of the user does not exist, or fails.
    """
    for module in PAPERS:
        import_module(module)
    for path in plugins():
        _load(path)


_begun: set[Path] = set()  # a user's file may import public names of pkg_lib, which load all files


def _load(path: Path) -> None:
    if path in _begun:
        return
    obstacle = describe_obstacle(path)
    if obstacle:
        raise UserError(
            f"PKG_PLUGINS names a file that cannot be read: {obstacle}, or name another file"
        )
    if not path.is_file():
        advice = f"name Python files, joined by '{os.pathsep}'"
        raise UserError(f"PKG_PLUGINS names {path}, which does not exist; {advice}")
    _begun.add(path)
    try:
        runpy.run_path(str(path), run_name=PLUGIN)
    except UserError:
        _begun.remove(path)
        raise
    except (Exception, SystemExit) as e:
        _begun.remove(path)
        raise UserError(f"PKG_PLUGINS names {path}, which fails: {type(e).__name__}: {e}") from e
