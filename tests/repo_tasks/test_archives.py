"""Archives: pinned, unpacked without executing anything, refused when they are others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pkg_lib.core.types import UserError
from pkg_lib.data import archives
from pkg_lib.data.functions import read_package
from pkg_lib.data.packages import PACKAGES, named, tree
from pkg_lib.papers.cast.source_trees import TREES


def test_an_archive_is_unpacked_once_and_read_without_running_it(package, own_cache):
    files = read_package(package)
    assert (
        list(files) == sorted(files)
        and "shapes/__init__.py" in files
        and "nobody runs this" in files["setup.py"]
    )
    (own_cache / "packages" / package.archive).unlink()
    assert read_package(package) == files


def test_another_archive_is_refused_and_removed(package, own_cache):
    file = own_cache / "packages" / package.archive
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(UserError, match="SHA-256"):
        tree(package)
    assert not file.exists()


def test_what_is_no_archive_is_one_line(package, own_cache, monkeypatch):
    import hashlib

    (own_cache / "packages" / package.archive).write_bytes(b"no archive")
    with pytest.raises(UserError, match="cannot be unpacked"):
        tree(replace(package, sha256=hashlib.sha256(b"no archive").hexdigest()))


def test_a_file_that_leaves_the_directory_is_refused(package, own_cache):
    import hashlib

    from .conftest import archive_of

    data = archive_of({"../../../escaped.py": "x = 1\n"}, "shapes-1.0")
    (own_cache / "packages" / package.archive).write_bytes(data)
    with pytest.raises(UserError, match="cannot be unpacked"):
        tree(replace(package, sha256=hashlib.sha256(data).hexdigest()))
    assert not list(own_cache.parent.rglob("escaped.py"))


def test_without_a_network_the_error_says_where_to_put_the_file(package, own_cache, monkeypatch):
    (own_cache / "packages" / package.archive).unlink()
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(UserError, match=r"shapes-1\.0\.tar\.gz cannot be had .* put it into"):
        tree(package)


def test_a_file_is_found_on_a_page_of_an_index():
    page = '<a href="../../f/a-1.0.tar.gz#sha256=1">a-1.0.tar.gz</a><a data-x="1" href="https://h/b-1.0-py3.whl">b</a>'
    assert archives.file_url(page, "https://i/simple/a/", "a-1.0.tar.gz") == "https://i/f/a-1.0.tar.gz"
    assert archives.file_url(page, "https://i/simple/a/", "b-1.0-py3.whl") == "https://h/b-1.0-py3.whl"
    with pytest.raises(UserError, match="is not on"):
        archives.file_url(page, "https://i/simple/a/", "a-2.0.tar.gz")


def test_names():
    assert named("toolz") is PACKAGES["toolz"]
    with pytest.raises(UserError, match="choose from: redframes, more-itertools, toolz"):
        named("numpy")
    assert len({t.archive for t in TREES} | {p.archive for p in PACKAGES.values()}) == len(TREES) + len(
        PACKAGES
    )
