"""Archives: pinned, unpacked without executing anything, refused when they are others."""

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
    """The address of a server of these files, path -> contents."""

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


def test_an_archive_is_unpacked_once_and_read_without_running_it(package, own_cache):
    files = package.files()
    assert list(files) == sorted(files) and "nobody runs this" in files["setup.py"]
    (own_cache / "packages" / package.archive).unlink()
    assert package.files() == files


def test_another_archive_is_refused(package, own_cache, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    file = own_cache / "packages" / package.archive
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(UserError, match="SHA-256"):
        package.files()
    assert not package.available


def test_an_archive_is_downloaded_and_checked(package, own_cache, monkeypatch):
    file = own_cache / "packages" / package.archive
    data = file.read_bytes()
    file.write_bytes(b"another archive, which is replaced")
    served = {"/simple/shapes/": f'<a href="../../f/{file.name}#sha256=1">'.encode()}
    with serving(served) as address:
        monkeypatch.setenv("PIP_INDEX_URL", f"{address}/simple")
        served[f"/f/{file.name}"] = data + b"x"
        with pytest.raises(UserError, match="SHA-256"):
            package.files()
        assert not package.available
        served[f"/f/{file.name}"] = data
        assert "setup.py" in package.files() and file.read_bytes() == data


@pytest.mark.parametrize("files", [None, {"../../../escaped.py": "x = 1\n"}])
def test_what_is_no_archive_or_leaves_its_directory_is_one_line(
    package, own_cache, archived, files
):
    data = archived(files, "shapes-1.0") if files else b"no archive"
    (own_cache / "packages" / package.archive).write_bytes(data)
    with pytest.raises(UserError, match="cannot be unpacked"):
        replace(package, sha256=hashlib.sha256(data).hexdigest()).files()
    assert not list(own_cache.parent.rglob("escaped.py"))


def test_without_a_network_the_error_says_where_to_put_the_file(package, own_cache, monkeypatch):
    (own_cache / "packages" / package.archive).unlink()
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "http://127.0.0.1:9")
    with pytest.raises(
        UserError, match=r"shapes-1\.0\.tar\.gz cannot be downloaded .* put .* into"
    ):
        package.files()
    with pytest.raises(UserError, match=r"rxjs\.tgz .*put .* into"):
        packages.unpacked("rxjs.tgz", "0", npm_path="rxjs/-/rxjs.tgz")


def test_a_file_is_found_on_a_page_of_an_index():
    page = '<a href="../../f/a-1.tar.gz#sha256=1">a</a><a data-x="1" href="https://h/b-1-py3.whl">b</a>'
    assert packages.file_url(page, "https://i/simple/a/", "a-1.tar.gz") == "https://i/f/a-1.tar.gz"
    assert packages.file_url(page, "https://i/simple/a/", "b-1-py3.whl") == "https://h/b-1-py3.whl"
    with pytest.raises(UserError, match="is not on"):
        packages.file_url(page, "https://i/simple/a/", "a-2.tar.gz")


def test_a_place_that_is_not_below_the_directory_is_refused(shapes):
    for sources in (["other"], ["../mine/shapes"], [str(shapes / "shapes")]):
        with pytest.raises(UserError, match="has no"):
            local(shapes, sources, ["tests"])
