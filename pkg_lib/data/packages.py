"""Python packages with tests: archives of public registries, pinned by SHA-256, or the user's directory."""

import os
import re
import shutil
import tarfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path, PurePosixPath
from urllib.parse import urljoin

from pkg_lib.core.models import cache_dir
from pkg_lib.core.reading import absolute
from pkg_lib.core.registry import Registry
from pkg_lib.core.source_tree import read_python
from pkg_lib.core.store import sha256_of, write_bytes
from pkg_lib.core.types import UserError

PINNED = tomllib.loads(Path(__file__).with_name("archives.toml").read_text("utf8"))
INDEX, NPM = "https://pypi.org/simple", "https://registry.npmjs.org"
TIMEOUT_S = 60


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
        return self.root is not None or is_unpacked(self.archive)

    @property
    def tree(self) -> Path:
        """The directory of its sources, fetched at the first call. UserError where it cannot be had."""
        if self.root:
            return self.root
        return unpacked(self.archive, self.sha256, project=self.name) / self.archive.removesuffix(
            ".tar.gz"
        )

    def files(self) -> dict[str, str]:
        """path -> text of every Python file, tests among them."""
        return read_python(self.tree)


_ROWS = (
    {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()} for row in PINNED["python"]
)
PACKAGES: Registry[Package] = Registry("package", (Package(**row) for row in _ROWS))


def local(
    root: Path, sources: Sequence[str], tests: Sequence[str], libraries: Sequence[str] = ()
) -> Package:
    """A directory of the user's as a package. UserError where a place is not there."""
    places = [PurePosixPath(p).as_posix() for p in (*sources, *tests)]
    for place in places:
        if ".." in place.split("/") or place.startswith("/") or not (root / place).exists():
            raise UserError(
                f"{root} has no {place}; name packages and tests as they lie below the directory"
            )
    code, deciding = tuple(places[: len(sources)]), tuple(places[len(sources) :])
    return Package(absolute(root).name, "", "", "", code, deciding, "", tuple(libraries), root)


def is_unpacked(archive: str) -> bool:
    return (cache_dir() / "packages" / f"{archive}.d" / ".complete").exists()


def unpacked(archive: str, sha256: str, project: str = "", npm_path: str = "") -> Path:
    """Where an archive of PyPI or npm is unpacked. UserError where it cannot be had or is another one."""
    home = cache_dir() / "packages"
    folder, file = home / f"{archive}.d", home / archive
    if is_unpacked(archive):
        return folder
    try:
        home.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            _download(file, project, npm_path)
        actual = sha256_of(file)
        if actual != sha256:
            file.unlink()
            other = f"SHA-256 {actual[:16]}…, not {sha256[:16]}…"
            raise UserError(f"{archive} has {other}: removed; run it again")
        shutil.rmtree(folder, ignore_errors=True)
        with tarfile.open(file) as tar:
            tar.extractall(folder, filter="data")
        (folder / ".complete").write_text(sha256)
    except (OSError, tarfile.TarError) as e:
        advice = "free space there, or set PKG_CACHE to another directory"
        raise UserError(f"{archive} cannot be unpacked in {home} ({e}); {advice}") from e
    return folder


def _download(file: Path, project: str, npm_path: str) -> None:
    """From PIP_INDEX_URL (else PyPI) or NPM_CONFIG_REGISTRY (else the public registry)."""
    import httpx

    try:
        with httpx.Client(timeout=TIMEOUT_S, follow_redirects=True) as client:
            if npm_path:
                address = f"{(os.environ.get('NPM_CONFIG_REGISTRY') or NPM).rstrip('/')}/{npm_path}"
            else:
                index = (os.environ.get("PIP_INDEX_URL") or INDEX).rstrip("/")
                page = client.get(f"{index}/{project}/").raise_for_status()
                address = file_url(page.text, str(page.url), file.name)
            data = client.get(address).raise_for_status().content
    except (httpx.HTTPError, httpx.InvalidURL) as e:
        raise UserError(
            f"{file.name} cannot be had ({e!r}); put it into {file.parent} by hand"
        ) from e
    write_bytes(file, data)


def file_url(listing: str, page: str, archive: str) -> str:
    """The address of a file on a page of a package index (PEP 503). UserError where it is not there."""
    for address in map(unescape, re.findall(r'<a[^>]*\shref="([^"]+)"', listing)):
        if address.partition("#")[0].rpartition("/")[2] == archive:
            return urljoin(page, address.partition("#")[0])
    raise UserError(f"{archive} is not on {page}")
