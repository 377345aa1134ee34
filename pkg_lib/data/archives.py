"""Source archives of public registries: fetched once, used only after their SHA-256 was found to be right, never committed.

Nothing of an archive is executed to get it (pip and npm would run its build).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tarfile
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from pkg_lib.core.models import cache_dir
from pkg_lib.core.types import UserError

if TYPE_CHECKING:
    import httpx

INDEX, NPM = "https://pypi.org/simple", "https://registry.npmjs.org"
TIMEOUT_S = 60
Address = Callable[["httpx.Client"], str]


def unpacked(archive: str, sha256: str, address: Address) -> Path:
    """The directory into which a .tar.gz or .tgz was unpacked; `address` finds its URL when it must be fetched.

    UserError where it cannot be had or is not the pinned one.
    """
    home = cache_dir() / "packages"
    folder, file = home / f"{archive}.d", home / archive
    if (folder / ".complete").exists():
        return folder
    try:
        home.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            _download(archive, file, address)
        _verify(file, sha256)
        shutil.rmtree(folder, ignore_errors=True)
        with tarfile.open(file) as tar:
            tar.extractall(folder, filter="data")
        (folder / ".complete").write_text(sha256)
    except (OSError, tarfile.TarError) as e:
        raise UserError(
            f"{archive} cannot be unpacked in {home} ({e}); delete it there, or set PKG_CACHE"
        ) from e
    return folder


def _verify(file: Path, sha256: str) -> None:
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if found != sha256:
        file.unlink()
        raise UserError(f"{file.name} has SHA-256 {found[:16]}…, not {sha256[:16]}…: removed; run it again")


def _download(archive: str, file: Path, address: Address) -> None:
    import httpx

    try:
        with httpx.Client(timeout=TIMEOUT_S, follow_redirects=True) as client:
            data = client.get(address(client)).raise_for_status().content
    except (httpx.HTTPError, httpx.InvalidURL) as e:
        raise UserError(
            f"{archive} cannot be had ({type(e).__name__}: {e}); put it into {file.parent} by hand"
        ) from e
    temporary = file.with_name(file.name + ".tmp")
    temporary.write_bytes(data)
    temporary.replace(file)


def pypi(name: str, archive: str) -> Address:
    """Where a file of a project lies in the package index (PIP_INDEX_URL, else PyPI)."""

    def address(client: httpx.Client) -> str:
        index = os.environ.get("PIP_INDEX_URL") or INDEX
        listing = client.get(f"{index.rstrip('/')}/{name}/").raise_for_status()
        return file_url(listing.text, str(listing.url), archive)

    return address


def npm(path: str) -> Address:
    """A file of the npm registry (NPM_CONFIG_REGISTRY, else the public one)."""
    return lambda client: f"{(os.environ.get('NPM_CONFIG_REGISTRY') or NPM).rstrip('/')}/{path}"


def file_url(listing: str, page: str, archive: str) -> str:
    """The address of a file on a page of a package index (PEP 503). UserError where it is not there."""
    for address in map(unescape, re.findall(r'<a[^>]*\shref="([^"]+)"', listing)):
        if address.partition("#")[0].rpartition("/")[2] == archive:
            return urljoin(page, address.partition("#")[0])
    raise UserError(f"{archive} is not on {page}")
