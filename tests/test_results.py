"""Files that are replaced whole, names that stay apart, and what a result says it was made with."""

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
    (tmp_path / "file").write_text("in the way")
    return tmp_path / "file"


def test_results_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "a" / "b"))
    assert results_dir() == tmp_path / "a" / "b" and results_dir().is_dir()
    monkeypatch.setattr(store.os, "access", lambda *a: False)  # root may write anywhere
    with pytest.raises(UserError, match="not writable"):
        results_dir()
    monkeypatch.undo()
    monkeypatch.delenv("PKG_RESULTS", raising=False)
    assert results_dir() == store.ROOT / "results"


@pytest.mark.parametrize("below", ["", "below"])
def test_results_dir_that_cannot_be(in_the_way, monkeypatch, below):
    with pytest.raises(UserError, match="move it away"):
        write_text(in_the_way / "x", "text")
    monkeypatch.setenv("PKG_RESULTS", str(in_the_way / below))
    with pytest.raises(UserError, match="set PKG_RESULTS"):
        results_dir()
    with pytest.raises(UserError, match=r"cannot write .* is not a directory; move it away"):
        write_json(in_the_way / below / "x.json", {})


def test_slugs_of_two_directories_differ():
    assert [slug(name) for name in ("textbook+stdlib", "Func-BM25")] == [
        "textbook+stdlib",
        "func-bm25",
    ]
    names = ["source:/a/b", "source:/a-b", "source:/A/b", "source:a/b", "source:/" + "long/" * 100]
    assert len({slug(n) for n in names}) == len(names)
    assert all(len(slug(n)) < 120 and "/" not in slug(n) for n in names)


def test_write_text_replaces_whole_and_leaves_no_other_file(tmp_path, monkeypatch):
    path = tmp_path / "a" / "x.txt"
    for text in ("one", "two\u2028é", ""):
        write_text(path, text)
        assert path.read_text("utf8") == text
    assert [p.name for p in path.parent.iterdir()] == ["x.txt"]
    path.write_bytes(b"\xff\xfe")  # a damaged one
    write_text(path, "good")
    before = path.stat()
    write_text(path, "good")
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.Path, "replace", full)
    with pytest.raises(UserError, match="No space left"):
        write_text(path, "new")
    assert path.read_text() == "good"


def test_json_round_trips(tmp_path):
    rows = [{"b": 1, "a": "é\ud800\u2028\n"}, {}]
    for name in ("x.jsonl", "x.jsonl.gz"):
        write_jsonl(tmp_path / name, rows)
        assert read_rows(tmp_path / name) == rows
    write_json(tmp_path / "x.json", {"b": 1, "a": [None]})
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": [None], "b": 1}


def test_packed_rows_are_left_alone_where_only_the_compression_differs(tmp_path):
    """As another machine's may, whose results would else seem changed."""
    path, rows = tmp_path / "x.jsonl.gz", [{"a": n} for n in range(100)]
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
def test_packed_rows_that_compress_too_well_are_still_read(tmp_path, rows):
    """A reader refuses what unpacks to more than 200 times its size."""
    path = tmp_path / "x.jsonl.gz"
    write_jsonl(path, rows)
    assert read_rows(path) == rows


@pytest.mark.parametrize("damage", [b"", b"x", b"\x1f\x8b"])
def test_damaged_packed_rows_are_named_and_replaced(tmp_path, damage):
    path = tmp_path / "x.jsonl.gz"
    write_jsonl(path, [{"a": 1}])
    path.write_bytes(damage + path.read_bytes()[: -9 if damage else -1])
    with pytest.raises(UserError, match=r"x\.jsonl\.gz is damaged"):
        read_rows(path)
    write_jsonl(path, [{"a": 1}])
    assert read_rows(path) == [{"a": 1}]


@pytest.mark.parametrize("damage", [b'{"a": 1', b"\xff", b"", b"nonsense"])
def test_a_damaged_row_is_named(tmp_path, damage):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n' + damage + b'\n{"a": 2}\n')
    with pytest.raises(UserError, match=r"x\.jsonl, line 2 is damaged: "):
        read_rows(path)


def test_versions(monkeypatch):
    about = versions()
    assert about["numpy"].count(".") == 2 and set(store.PACKAGES) < set(about)
    assert about["commit"] == "unknown" or len(about["commit"]) == 40

    def no_git(*args, **kwargs):
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", no_git)
    monkeypatch.setattr(store, "PACKAGES", ("no-such-package-here",))
    about = versions()
    assert (about["commit"], about["no-such-package-here"]) == ("unknown", "absent")
