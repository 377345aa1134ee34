"""Python packages with tests: pinned archives of public registries, or the user's directory."""

import os
import shutil
import tarfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urljoin

from pkg_lib.core.models import cache_dir
from pkg_lib.core.reading import absolute
from pkg_lib.core.registry import Registry
from pkg_lib.core.source_tree import read_python
from pkg_lib.core.types import UserError

PINNED = tomllib.loads(Path(__file__).with_name("archives.toml").read_text("utf8"))
INDEX, NPM = "https://pypi.org/simple", "https://registry.npmjs.org"
TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Package:
    """A pinned source archive, or a directory of the user.

    Attributes:
        name: The project's name on PyPI, or the directory's name.
        version: Its version; "" for a directory.
        archive: File name of the archive; "" for a directory.
        sha256: Its digest in hex.
        sources: Directories or files with the code, below the archive's top folder.
        tests: Directories or files with the tests, likewise.
        licence: Identifier of its licence.
        libraries: Installed packages that it needs beside the standard library.
        root: The user's directory; None for an archive.
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
        """Name and version, for messages."""
        return f"{self.name} {self.version}".rstrip()

    @property
    def available(self) -> bool:
        """Whether its files can be read without a download."""
        return self.root is not None or _is_unpacked(self.archive)

    @property
    def tree(self) -> Path:
        """The directory of its files. An archive is downloaded the first time.

        Raises:
            UserError: The archive cannot be downloaded or unpacked.
        """
        if self.root:
            return self.root
        folder = unpacked(self.archive, self.sha256, project=self.name)
        return folder / self.archive.removesuffix(".tar.gz")

    def files(self) -> dict[str, str]:
        """Read every Python file, tests among them.

        Returns:
            Path below `tree` -> text.
        """
        return read_python(self.tree)


def is_test_file(path: str) -> bool:
    """Tell whether a file holds tests by its name: test_NAME.py or NAME_test.py.

    Args:
        path: Path of the file.
    """
    name = PurePosixPath(path).name
    return name.startswith("test_") or name.endswith("_test.py")


def _pinned_packages() -> list[Package]:
    packages = []
    for row in PINNED["python"]:
        tuples = {name: tuple(value) for name, value in row.items() if isinstance(value, list)}
        packages.append(Package(**row | tuples))
    return packages


PACKAGES: Registry[Package] = Registry("package", _pinned_packages())


def local(
    root: Path,
    sources: Sequence[str],
    tests: Sequence[str],
    libraries: Sequence[str] = (),
) -> Package:
    """Describe a directory of the user as a package.

    Args:
        root: The directory.
        sources: Directories or files with the code, below `root`.
        tests: Directories or files with the tests, below `root`.
        libraries: Installed packages that the code needs.

    Raises:
        UserError: A place does not exist, or is outside `root`.
    """
    places = [PurePosixPath(place).as_posix() for place in (*sources, *tests)]
    for place in places:
        outside = ".." in place.split("/") or place.startswith("/")
        if outside or not (root / place).exists():
            raise UserError(
                f"{root} has no {place}; name packages and tests relative to the directory"
            )
    return Package(
        name=absolute(root).name,
        version="",
        archive="",
        sha256="",
        sources=tuple(places[: len(sources)]),
        tests=tuple(places[len(sources) :]),
        licence="",
        libraries=tuple(libraries),
        root=root,
    )


def _is_unpacked(archive: str) -> bool:
    return (cache_dir() / "packages" / f"{archive}.d" / ".complete").exists()


def unpacked(
    archive: str,
    sha256: str,
    project: str = "",
    npm_path: str = "",
) -> Path:
    """Download an archive of PyPI or npm, check it and unpack it, each once.

    Args:
        archive: File name of a .tar.gz or .tgz.
        sha256: Its digest in hex.
        project: The project on PyPI that it belongs to.
        npm_path: Its path below the npm registry instead.

    Returns:
        The directory with its files, in the cache directory.

    Raises:
        UserError: It cannot be downloaded, has another digest, or cannot be unpacked.
    """
    home = cache_dir() / "packages"
    folder = home / f"{archive}.d"
    if _is_unpacked(archive):
        return folder
    try:
        file = _download(home, archive, sha256, project, npm_path)
        shutil.rmtree(folder, ignore_errors=True)
        with tarfile.open(file) as tar:
            tar.extractall(folder, filter="data")
        (folder / ".complete").write_text(sha256)
    except (OSError, tarfile.TarError) as e:
        advice = "free space there, or set PKG_CACHE to another directory"
        raise UserError(f"{archive} cannot be unpacked in {home} ({e}); {advice}") from e
    return folder


def _download(
    home: Path,
    archive: str,
    sha256: str,
    project: str,
    npm_path: str,
) -> Path:
    """The archive in `home`, downloaded if necessary.

    The registries are those of PIP_INDEX_URL and NPM_CONFIG_REGISTRY, else PyPI and npm's own.
    pooch uses a file that is there, and replaces one with another digest. It stores nothing else.
    """
    # Imported here because most commands download no archive.
    import pooch
    import requests

    def fetch(_: str, output: object, __: object) -> None:
        if npm_path:
            registry = os.environ.get("NPM_CONFIG_REGISTRY") or NPM
            address = f"{registry.rstrip('/')}/{npm_path}"
        else:
            index = (os.environ.get("PIP_INDEX_URL") or INDEX).rstrip("/")
            page = requests.get(f"{index}/{project}/", timeout=TIMEOUT_S)
            page.raise_for_status()
            address = file_url(page.text, page.url, archive)
        pooch.HTTPDownloader(timeout=TIMEOUT_S)(address, output, None)

    pooch.get_logger().setLevel("WARNING")  # it reports each download
    try:
        file = pooch.retrieve(archive, f"sha256:{sha256}", archive, home, downloader=fetch)
    except (requests.RequestException, ValueError) as e:
        raise UserError(
            f"{archive} cannot be downloaded ({e}); "
            f"put the file with SHA-256 {sha256[:16]}… into {home} by hand"
        ) from e
    return Path(file)


def file_url(listing: str, page: str, archive: str) -> str:
    """Find the address of a file on a page of a package index (PEP 503).

    Args:
        listing: The page's HTML.
        page: The page's own address.
        archive: The file's name.

    Raises:
        UserError: The page does not list the file.
    """
    from bs4 import BeautifulSoup

    for link in BeautifulSoup(listing, "html.parser").find_all("a", href=True):
        address = str(link["href"]).partition("#")[0]
        if address.rpartition("/")[2] == archive:
            return urljoin(page, address)
    raise UserError(f"{archive} is not on {page}")
