"""What can be chosen by name. PAPERS and the user's Python files that PKG_PLUGINS names (a:b) add entries."""

import os
import runpy
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from pkg_lib.core.types import UserError

Entry = TypeVar("Entry")
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


def unknown(kind: str, name: object, choices: Iterable[object]) -> UserError:
    """The error for a name that is none of the choices."""
    known = joined(map(str, choices))
    return UserError(f"unknown {kind} '{name}'; {f'choose from: {known}' if known else 'none is described'}")


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
            raise UserError(f"{self.kind} {name} is registered twice; give one of them another name")
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
    return [Path(name).expanduser().resolve() for name in names]


def load_plugins() -> None:
    """Loads the papers' entries and the user's files, each once. UserError for a file that is not there."""
    for module in PAPERS:
        import_module(module)
    for path in plugins():
        _load(path)


@cache
def _load(path: Path) -> None:
    if not path.is_file():
        advice = f"name Python files, joined by '{os.pathsep}'"
        raise UserError(f"PKG_PLUGINS names {path}, which is not there; {advice}")
    try:
        runpy.run_path(str(path), run_name="pkg_lib_plugin")
    except UserError:
        raise
    except (Exception, SystemExit) as e:
        raise UserError(f"PKG_PLUGINS names {path}, which fails: {type(e).__name__}: {e}") from e
