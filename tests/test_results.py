"""Storage of results: atomic writes, unique directory names, compressed rows, and recorded versions."""

from __future__ import annotations

import gzip
import json
import os
import subprocess

import pytest

from pkg_lib.core import store
from pkg_lib.core.store import (
    read_rows,
    results_dir,
    slug,
    versions,
    write_json,
    write_jsonl,
    write_text,
)
from pkg_lib.core.types import UserError


@pytest.fixture
def in_the_way(tmp_path):
    """Return a file at a path where a directory is needed."""
    file = tmp_path / "file"
    file.write_text("in the way")
    return file


def test_creates_the_results_directory_and_reports_one_that_is_not_writable(tmp_path, monkeypatch):
    folder = tmp_path / "a" / "b"
    monkeypatch.setenv("PKG_RESULTS", str(folder))
    assert results_dir() == folder
    assert folder.is_dir()
    # Tests may run as root, who may write everywhere.
    monkeypatch.setattr(store.os, "access", lambda *_: False)
    with pytest.raises(UserError, match="not writable"):
        results_dir()
    monkeypatch.undo()
    monkeypatch.delenv("PKG_RESULTS", raising=False)
    assert results_dir() == store.ROOT / "results"


@pytest.mark.parametrize("below", ["", "below"])
def test_reports_a_file_in_place_of_a_directory(in_the_way, monkeypatch, below):
    with pytest.raises(UserError, match="move it away"):
        write_text(in_the_way / "x", "text")
    monkeypatch.setenv("PKG_RESULTS", str(in_the_way / below))
    with pytest.raises(UserError, match="set PKG_RESULTS"):
        results_dir()
    with pytest.raises(UserError, match=r"cannot write .* is not a directory; move it away"):
        write_json(in_the_way / below / "x.json", {})


def test_slugs_are_short_and_unique():
    assert slug("textbook+stdlib") == "textbook+stdlib"
    assert slug("Func-BM25") == "func-bm25"
    names = ["source:/a/b", "source:/a-b", "source:/A/b", "source:a/b", "source:/" + "long/" * 100]
    slugs = [slug(name) for name in names]
    assert len(set(slugs)) == len(names)
    for text in slugs:
        assert len(text) < 120
        assert "/" not in text


def test_write_text_replaces_a_file_atomically_and_leaves_an_unchanged_one(tmp_path, monkeypatch):
    path = tmp_path / "a" / "x.txt"
    for text in ("one", "two\u2028é", ""):
        write_text(path, text)
        assert path.read_text("utf8") == text
    assert [file.name for file in path.parent.iterdir()] == ["x.txt"]

    path.write_bytes(b"\xff\xfe")  # damaged text
    write_text(path, "good")
    before = path.stat()
    write_text(path, "good")
    after = path.stat()
    assert after.st_mtime_ns == before.st_mtime_ns
    assert after.st_ino == before.st_ino

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.Path, "replace", full)
    with pytest.raises(UserError, match="No space left"):
        write_text(path, "new")
    assert path.read_text() == "good"


def test_writes_and_reads_json_without_loss(tmp_path):
    rows = [{"b": 1, "a": "é\ud800\u2028\n"}, {}]
    for name in ("x.jsonl", "x.jsonl.gz"):
        write_jsonl(tmp_path / name, rows)
        assert read_rows(tmp_path / name) == rows
    write_json(tmp_path / "x.json", {"b": 1, "a": [None]})
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": [None], "b": 1}


def test_keeps_a_compressed_file_if_only_its_compression_differs(tmp_path):
    """Other machines compress differently. Their results should not seem changed."""
    path = tmp_path / "x.jsonl.gz"
    rows = [{"a": number} for number in range(100)]
    write_jsonl(path, rows)
    other = gzip.compress(gzip.decompress(path.read_bytes()), 1, mtime=0)
    assert other != path.read_bytes()
    path.write_bytes(other)
    write_jsonl(path, rows)
    assert path.read_bytes() == other
    write_jsonl(path, rows[1:])
    assert read_rows(path) == rows[1:]


@pytest.mark.parametrize(
    "rows", [[{"a": "x" * 9_000_000}], [{"a": "x" * 9_000_000}, {"a": os.urandom(2**18).hex()}]]
)
def test_reads_rows_that_compress_very_well(tmp_path, rows):
    """A reader refuses a file that expands to more than 200 times its size."""
    path = tmp_path / "x.jsonl.gz"
    write_jsonl(path, rows)
    assert read_rows(path) == rows


@pytest.mark.parametrize("damage", [b"", b"x", b"\x1f\x8b"])
def test_reports_and_replaces_damaged_compressed_rows(tmp_path, damage):
    path = tmp_path / "x.jsonl.gz"
    write_jsonl(path, [{"a": 1}])
    path.write_bytes(damage + path.read_bytes()[: -9 if damage else -1])
    with pytest.raises(UserError, match=r"x\.jsonl\.gz is damaged"):
        read_rows(path)
    write_jsonl(path, [{"a": 1}])
    assert read_rows(path) == [{"a": 1}]


@pytest.mark.parametrize("damage", [b'{"a": 1', b"\xff", b"", b"nonsense"])
def test_reports_a_damaged_row(tmp_path, damage):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n' + damage + b'\n{"a": 2}\n')
    with pytest.raises(UserError, match=r"x\.jsonl, line 2 is damaged: "):
        read_rows(path)


def test_records_the_versions_of_packages_and_the_commit(monkeypatch):
    recorded = versions()
    assert recorded["numpy"].count(".") == 2
    assert set(store.PACKAGES) < set(recorded)
    assert recorded["commit"] == "unknown" or len(recorded["commit"]) == 40

    def no_git(*args, **kwargs):
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", no_git)
    monkeypatch.setattr(store, "PACKAGES", ("no-such-package-here",))
    recorded = versions()
    assert recorded["commit"] == "unknown"
    assert recorded["no-such-package-here"] == "absent"
