"""Package archives are pinned, unpacked without executing anything, and checked by their SHA-256."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from pkg_lib.core.types import UserError
from pkg_lib.data import packages
from pkg_lib.data.packages import local


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[str]:
    """Serve files over HTTP; yield the address of the server.

    Args:
        files: Contents by path. Changes are visible to later requests.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path in files else 404)
            self.end_headers()
            self.wfile.write(files.get(self.path, b""))

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_unpacks_an_archive_once_without_running_it(package, own_cache):
    files = package.files()
    assert list(files) == sorted(files)
    assert "nobody runs this" in files["setup.py"]
    (own_cache / "packages" / package.archive).unlink()
    assert package.files() == files


def test_rejects_an_archive_with_another_digest(package, own_cache, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    file = own_cache / "packages" / package.archive
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(UserError, match="SHA-256"):
        package.files()
    assert not package.available


def test_downloads_an_archive_and_checks_its_digest(package, own_cache, monkeypatch):
    file = own_cache / "packages" / package.archive
    data = file.read_bytes()
    file.write_bytes(b"another archive, which is replaced")
    page = f'<a href="../../f/{file.name}#sha256=1">'
    served = {"/simple/shapes/": page.encode()}
    with serving(served) as address:
        monkeypatch.setenv("PIP_INDEX_URL", f"{address}/simple")
        served[f"/f/{file.name}"] = data + b"x"
        with pytest.raises(UserError, match="SHA-256"):
            package.files()
        assert not package.available
        served[f"/f/{file.name}"] = data
        assert "setup.py" in package.files()
        assert file.read_bytes() == data


@pytest.mark.parametrize("files", [None, {"../../../escaped.py": "x = 1\n"}])
def test_rejects_damaged_archives_and_paths_outside_the_directory(
    package, own_cache, archived, files
):
    data = archived(files, "shapes-1.0") if files else b"no archive"
    (own_cache / "packages" / package.archive).write_bytes(data)
    with pytest.raises(UserError, match="cannot be unpacked"):
        replace(package, sha256=hashlib.sha256(data).hexdigest()).files()
    assert not list(own_cache.parent.rglob("escaped.py"))


def test_an_offline_download_reports_where_to_put_the_file(package, own_cache, monkeypatch):
    (own_cache / "packages" / package.archive).unlink()
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "http://127.0.0.1:9")
    with pytest.raises(
        UserError, match=r"shapes-1\.0\.tar\.gz cannot be downloaded .* put .* into"
    ):
        package.files()
    with pytest.raises(UserError, match=r"rxjs\.tgz .*put .* into"):
        packages.unpacked("rxjs.tgz", "0", npm_path="rxjs/-/rxjs.tgz")


def test_finds_the_address_of_a_file_on_an_index_page():
    page = '<a href="../../f/a-1.tar.gz#sha256=1">a</a><a data-x="1" href="https://h/b-1-py3.whl">b</a>'
    assert packages.file_url(page, "https://i/simple/a/", "a-1.tar.gz") == "https://i/f/a-1.tar.gz"
    assert packages.file_url(page, "https://i/simple/a/", "b-1-py3.whl") == "https://h/b-1-py3.whl"
    with pytest.raises(UserError, match="is not on"):
        packages.file_url(page, "https://i/simple/a/", "a-2.tar.gz")


def test_rejects_sources_outside_the_directory(shapes):
    for sources in (["other"], ["../mine/shapes"], [str(shapes / "shapes")]):
        with pytest.raises(UserError, match="has no"):
            local(shapes, sources, ["tests"])
