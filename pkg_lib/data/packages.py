"""Python packages with tests: pinned source archives (archives.toml), or a directory of the user's."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pkg_lib.core.registry import Registry
from pkg_lib.core.types import UserError
from pkg_lib.data.archives import is_unpacked, unpacked
from pkg_lib.data.records import read_tree

PINNED = tomllib.loads(Path(__file__).with_name("archives.toml").read_text("utf8"))


@dataclass(frozen=True, slots=True)
class Package:
    """One pinned source archive, or a directory (`root`) of the user's; archives.toml explains the fields."""

    name: str
    version: str
    archive: str
    sha256: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    licence: str
    libraries: tuple[str, ...] = ()
    root: Path | None = None

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}".rstrip()

    @property
    def at_hand(self) -> bool:
        """Whether its sources are here already."""
        return self.root is not None or is_unpacked(self.archive)

    @property
    def tree(self) -> Path:
        """The directory of its sources, fetched at the first call. UserError where it cannot be had."""
        if self.root is not None:
            return self.root
        return unpacked(self.archive, self.sha256, project=self.name) / self.archive.removesuffix(".tar.gz")

    def files(self) -> dict[str, str]:
        """path -> text of every Python file, tests among them (RepoEval's corpus)."""
        return read_tree(self.tree)


def _package(row: dict[str, Any]) -> Package:
    return Package(**{k: tuple(v) if isinstance(v, list) else v for k, v in row.items()})


PACKAGES: Registry[Package] = Registry("package", map(_package, PINNED["python"]))


def local(root: Path, sources: Sequence[str], tests: Sequence[str], libraries: Sequence[str] = ()) -> Package:
    """A directory of the user's as a package. UserError where a place is not there."""
    places = [PurePosixPath(p).as_posix() for p in (*sources, *tests)]
    for place in places:
        if ".." in place.split("/") or place.startswith("/") or not (root / place).exists():
            raise UserError(f"{root} has no {place}; name packages and tests as they lie below the directory")
    code, deciding = tuple(places[: len(sources)]), tuple(places[len(sources) :])
    return Package(root.resolve().name, "", "", "", code, deciding, "", tuple(libraries), root)
