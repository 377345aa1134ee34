"""Python packages with tests, as their source archives: where the tasks of this folder come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pkg_lib.core.types import UserError
from pkg_lib.data.archives import pypi, unpacked


@dataclass(frozen=True, slots=True)
class Package:
    """One pinned source archive, or a directory (`root`) that a user names.

    `sources` and `tests` are directories or files of the archive (below its top folder): the code whose functions are masked,
    and the tests that judge. `libraries` names the installed packages that it needs beside the standard library.
    """

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
    def folder(self) -> str:
        """The archive's top folder."""
        return self.archive.removesuffix(".tar.gz")


PACKAGES: dict[str, Package] = {
    p.name: p
    for p in (
        Package(
            "redframes",
            "1.4.1",
            "redframes-1.4.1.tar.gz",
            "a340a7b9e1b09b5e32967e67fecef5b0e7026a9c0c379ab8ec872f0ba2d7b5a4",
            ("redframes",),
            ("tests",),
            "BSD-2-Clause",
            ("pandas",),
        ),
        # test_recipes.py is left out: it needs unittest.mock, which the sandbox takes for a way around the tests.
        Package(
            "more-itertools",
            "10.8.0",
            "more_itertools-10.8.0.tar.gz",
            "f638ddf8a1a0d134181275fb5d58b086ead7c6a72429ad725c67503f13ba30bd",
            ("more_itertools",),
            ("tests/test_more.py",),
            "MIT",
        ),
        Package(
            "toolz",
            "1.0.0",
            "toolz-1.0.0.tar.gz",
            "2c86e3d9a04798ac556793bced838816296a2f085017664e4995cb40a1047a02",
            ("toolz", "tlz"),
            ("toolz/tests",),
            "BSD-3-Clause",
        ),
    )
}


def named(name: str) -> Package:
    """The entry of a package; UserError with the valid names for an unknown one."""
    if name not in PACKAGES:
        raise UserError(f"unknown package '{name}'; choose from: {', '.join(PACKAGES)}")
    return PACKAGES[name]


def local(root: Path, sources: Sequence[str], tests: Sequence[str], libraries: Sequence[str] = ()) -> Package:
    """A directory of the user's as a package; files are imported by their paths. UserError where a place is not there."""
    places = [PurePosixPath(p).as_posix() for p in (*sources, *tests)]
    for place in places:
        if ".." in place.split("/") or place.startswith("/") or not (root / place).exists():
            raise UserError(f"{root} has no {place}; name packages and tests as they lie below the directory")
    n = len(sources)
    return Package(
        root.resolve().name, "", "", "", tuple(places[:n]), tuple(places[n:]), "", tuple(libraries), root
    )


def tree(package: Package) -> Path:
    """The directory, or the archive's top folder, fetched at the first call.

    UserError where it cannot be had or is not the pinned one.
    """
    if package.root is not None:
        return package.root
    return unpacked(package.archive, package.sha256, pypi(package.name, package.archive)) / package.folder
