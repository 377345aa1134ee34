"""Python packages with tests, as their source archives: where the tasks of this folder come from.

An archive is fetched from the package index by name and used only after its SHA-256 was found to be right; nothing of it is
executed to get it (pip would run its build). It is kept in the cache directory and never in the repository.
"""

from __future__ import annotations

import hashlib
import os
import re
import tarfile
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from urllib.parse import urljoin

from pkg_lib.models import cache_dir
from pkg_lib.types import UserError

INDEX = "https://pypi.org/simple"
TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Package:
    """One pinned source archive.

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

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def folder(self) -> str:
        """The archive's top folder."""
        return self.archive.removesuffix(".tar.gz")


PACKAGES: dict[str, Package] = {
    p.name: p
    for p in (
        Package(
            "redframes", "1.4.1", "redframes-1.4.1.tar.gz", "a340a7b9e1b09b5e32967e67fecef5b0e7026a9c0c379ab8ec872f0ba2d7b5a4",
            ("redframes",), ("tests",), "BSD-2-Clause", ("pandas",),
        ),
        # test_recipes.py is left out: it needs unittest.mock, which the sandbox takes for a way around the tests.
        Package(
            "more-itertools", "10.8.0", "more_itertools-10.8.0.tar.gz",
            "f638ddf8a1a0d134181275fb5d58b086ead7c6a72429ad725c67503f13ba30bd",
            ("more_itertools",), ("tests/test_more.py",), "MIT",
        ),
        Package(
            "toolz", "1.0.0", "toolz-1.0.0.tar.gz", "2c86e3d9a04798ac556793bced838816296a2f085017664e4995cb40a1047a02",
            ("toolz", "tlz"), ("toolz/tests",), "BSD-3-Clause",
        ),
    )
}  # fmt: skip


def named(name: str) -> Package:
    """The entry of a package; UserError with the valid names for an unknown one."""
    if name not in PACKAGES:
        raise UserError(f"unknown package '{name}'; choose from: {', '.join(PACKAGES)}")
    return PACKAGES[name]


def tree(package: Package) -> Path:
    """The unpacked archive's top folder, fetched at the first call. UserError where it cannot be had or is not the pinned one."""
    home = cache_dir() / "packages"
    folder = home / package.folder
    if not (folder / ".complete").exists():
        archive = home / package.archive
        try:
            home.mkdir(parents=True, exist_ok=True)
            if not archive.exists():
                _download(package, archive)
            _verify(package, archive)
            with tarfile.open(archive) as tar:
                tar.extractall(home, filter="data")
            (folder / ".complete").write_text(package.sha256)
        except (OSError, tarfile.TarError) as e:
            raise UserError(f"{package.label} cannot be unpacked in {home} ({e}); delete it there, or set PKG_CACHE") from e
    return folder


def at_hand(package: Package) -> bool:
    """Whether the unpacked archive is in the cache."""
    return (cache_dir() / "packages" / package.folder / ".complete").exists()


def _verify(package: Package, archive: Path) -> None:
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != package.sha256:
        archive.unlink()
        raise UserError(f"{package.archive} has SHA-256 {found[:16]}…, not {package.sha256[:16]}…: removed; run it again")


def _download(package: Package, archive: Path) -> None:
    import httpx

    index = os.environ.get("PIP_INDEX_URL") or INDEX
    page = f"{index.rstrip('/')}/{package.name}/"
    try:
        with httpx.Client(timeout=TIMEOUT_S, follow_redirects=True) as client:
            listing = client.get(page).raise_for_status()
            data = client.get(file_url(listing.text, str(listing.url), package.archive)).raise_for_status().content
    except httpx.HTTPError as e:
        raise UserError(
            f"{package.label} cannot be had: {page} does not answer ({type(e).__name__}); put {package.archive} into "
            f"{archive.parent} by hand"
        ) from e
    temporary = archive.with_name(archive.name + ".tmp")
    temporary.write_bytes(data)
    temporary.replace(archive)


def file_url(listing: str, page: str, archive: str) -> str:
    """The address of a file on a page of a package index (PEP 503). UserError where it is not there."""
    for address in map(unescape, re.findall(r'<a[^>]*\shref="([^"]+)"', listing)):
        if address.partition("#")[0].rpartition("/")[2] == archive:
            return urljoin(page, address.partition("#")[0])
    raise UserError(f"{archive} is not on {page}")
