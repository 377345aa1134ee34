"""Files that are replaced whole, names that stay apart, and what a result says it was made with."""

from __future__ import annotations

import json
import subprocess

import pytest

from pkg_lib.core import store as results
from pkg_lib.core.store import read_rows, results_dir, slug, versions, write_json, write_jsonl, write_text
from pkg_lib.core.types import UserError


@pytest.fixture
def in_the_way(tmp_path):
    (tmp_path / "file").write_text("in the way")
    return tmp_path / "file"


def test_results_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "a" / "b"))
    assert results_dir() == tmp_path / "a" / "b"
    assert results_dir().is_dir()
    monkeypatch.delenv("PKG_RESULTS")
    assert results_dir() == results.ROOT / "results"


@pytest.mark.parametrize("below", ["", "below"])
def test_results_dir_that_cannot_be(in_the_way, monkeypatch, below):
    monkeypatch.setenv("PKG_RESULTS", str(in_the_way / below))
    with pytest.raises(UserError, match="set PKG_RESULTS"):
        results_dir()


def test_a_file_that_cannot_be_written_names_the_variable_where_it_helps(in_the_way, monkeypatch, tmp_path):
    with pytest.raises(UserError, match="name a writable place"):
        write_text(in_the_way / "x", "text")
    monkeypatch.setenv("PKG_RESULTS", str(in_the_way))
    with pytest.raises(UserError, match="set PKG_RESULTS to a writable directory"):
        write_text(in_the_way / "x", "text")


def test_results_dir_without_permission(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    monkeypatch.setattr(results.os, "access", lambda *a: False)  # root may write anywhere
    with pytest.raises(UserError, match="not writable"):
        results_dir()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("textbook+stdlib", "textbook+stdlib"), ("Func-BM25", "func-bm25"), ("pkg-contexts", "pkg-contexts")],
)
def test_slug(name, expected):
    assert slug(name) == expected


def test_slugs_of_two_directories_differ():
    names = ["source:/a/b", "source:/a-b", "source:/A/b", "source:a/b", "source:/" + "long/" * 100]
    assert len({slug(n) for n in names}) == len(names)
    assert all(len(slug(n)) < 120 and "/" not in slug(n) for n in names)


def test_write_text_replaces_whole_and_leaves_no_other_file(tmp_path):
    path = tmp_path / "a" / "x.txt"
    for text in ("one", "two\u2028é", ""):
        write_text(path, text)
        assert path.read_text("utf8") == text
    assert [p.name for p in path.parent.iterdir()] == ["x.txt"]


def test_the_same_text_leaves_the_file_alone(tmp_path):
    path = tmp_path / "x.txt"
    write_text(path, "same")
    before = path.stat()
    write_text(path, "same")
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


def test_a_damaged_file_is_replaced(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"\xff\xfe")
    write_text(path, "good")
    assert path.read_text() == "good"


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.txt"
    write_text(path, "old")
    monkeypatch.setattr(
        results.Path, "replace", lambda *a: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(UserError, match="No space left"):
        write_text(path, "new")
    assert path.read_text() == "old"


def test_a_place_that_cannot_be_written(in_the_way):
    with pytest.raises(UserError, match="cannot write"):
        write_json(in_the_way / "x.json", {})


def test_json_round_trips(tmp_path):
    rows = [{"b": 1, "a": "é\ud800\u2028\n"}, {}]
    write_jsonl(tmp_path / "x.jsonl", rows)
    assert read_rows(tmp_path / "x.jsonl") == rows
    write_json(tmp_path / "x.json", {"b": 1, "a": [None]})
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": [None], "b": 1}


@pytest.mark.parametrize("damage", [b'{"a": 1', b"\xff", b"", b"nonsense"])
def test_a_damaged_row_is_named(tmp_path, damage):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n' + damage + b'\n{"a": 2}\n')
    with pytest.raises(UserError, match=r"x\.jsonl:2 is damaged; delete the file"):
        read_rows(path)


def test_versions():
    found = versions()
    assert found["numpy"].count(".") == 2 and set(results.PACKAGES) < set(found)
    assert found["commit"] == "unknown" or len(found["commit"]) == 40


def test_versions_without_git_and_without_a_package(monkeypatch):
    def no_git(*args, **kwargs):
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", no_git)
    monkeypatch.setattr(results, "PACKAGES", ("no-such-package-here",))
    found = versions()
    assert (found["commit"], found["no-such-package-here"]) == ("unknown", "absent")
