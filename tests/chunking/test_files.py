"""Trees of files: what cannot be read is named by reason, and the rest goes on."""

from __future__ import annotations

import os

import pytest

from pkg_lib.chunking import trees as files
from pkg_lib.chunking.chunker import Chunker
from pkg_lib.core.types import UserError


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.py").write_bytes(b"x = 1\r\ny = '\xe9'\r\n")
    (tmp_path / "a" / "Two.java").write_text("class Two { int f() { return 1; } }\n")
    (tmp_path / "empty.py").write_bytes(b"")
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "notes.txt").write_text("not code")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "itself.py").symlink_to(tmp_path / "itself.py")
    os.mkfifo(tmp_path / "pipe.py")
    return tmp_path


def test_a_tree_with_every_kind_of_bad_file(tree):
    chunks, ledger = files.chunk_tree(tree, Chunker())
    assert [a.document for a in ledger.accounts] == ["broken.py", "empty.py", "a/Two.java", "a/one.py"]
    assert ledger.skipped == {files.LINK: ["loop", "itself.py"], files.SPECIAL: ["pipe.py"]}
    assert (
        b"".join(c.data for c in chunks if c.document == "a/one.py") == (tree / "a" / "one.py").read_bytes()
    )
    words = str(ledger)
    for part in (
        "4 files,",
        "1 files do not parse everywhere (broken.py)",
        "1 files are not UTF-8 (a/one.py)",
        "1 files are empty (empty.py)",
        "1 files have line ends other than LF (a/one.py)",
        "skipped 2: symbolic link, not followed (loop, itself.py)",
        "skipped 1: not a regular file (pipe.py)",
    ):
        assert part in words
    table = ledger.table()
    assert list(table["utf8"]) == [True, True, True, False] and table["bytes_in"].sum() == sum(
        len(c.data) for c in chunks
    )


def test_many_bad_files_are_named_up_to_five(tmp_path):
    for number in range(7):
        (tmp_path / f"{number}.py").write_text("def f(:\n")
        (tmp_path / f"link{number}.py").symlink_to(tmp_path / "0.py")
    words = str(files.chunk_tree(tmp_path, Chunker())[1])
    assert "7 files do not parse everywhere (0.py, 1.py, 2.py, 3.py, 4.py, ...)" in words
    assert (
        "skipped 7: symbolic link, not followed (link0.py, link1.py, link2.py, link3.py, link4.py, ...)"
        in words
    )


def test_a_very_large_file_is_remarked_upon(tmp_path):
    (tmp_path / "small.py").write_text("x = 1\n")
    (tmp_path / "large.py").write_text("x = 1\n" * 200_000)
    _, ledger = files.chunk_tree(tmp_path, Chunker(method="fixed-size"))
    assert "1 files are larger than 1 MB (large.py)" in str(ledger)


def test_a_bad_file_with_a_name_that_cannot_be_printed_is_named(tmp_path):
    (tmp_path / "a\nb\udcff.py").write_text("def f(:\n")
    words = str(files.chunk_tree(tmp_path, Chunker())[1])
    assert words.splitlines()[-1] == r"  1 files do not parse everywhere (a\nb\\xff.py)"


def test_unreadable_files_and_directories_are_named(tree, monkeypatch):
    scandir, read_bytes = os.scandir, files.Path.read_bytes

    def closed(path):
        if str(path).endswith("/a"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    def unreadable(path):
        if path.name == "broken.py":
            raise PermissionError(13, "Permission denied")
        return read_bytes(path)

    monkeypatch.setattr(os, "scandir", closed)
    monkeypatch.setattr(files.Path, "read_bytes", unreadable)
    _, ledger = files.chunk_tree(tree, Chunker())
    assert [a.document for a in ledger.accounts] == ["empty.py"]
    assert ledger.skipped["unreadable (Permission denied)"] == ["broken.py", "a"]


def test_languages_are_chosen_and_workers_change_nothing(tree, monkeypatch):
    monkeypatch.setattr(files, "BATCH", 20)
    alone, ledger = files.chunk_tree(tree, Chunker(max_size=5), {"python"})
    assert {a.language for a in ledger.accounts} == {"python"}
    assert files.chunk_tree(tree, Chunker(max_size=5), {"python"}, processes=2) == (alone, ledger)


def test_mistakes(tree):
    with pytest.raises(UserError, match="no such directory"):
        files.chunk_tree(tree / "nosuch", Chunker())
    with pytest.raises(UserError, match="processes = 0"):
        files.chunk_tree(tree, Chunker(), processes=0)
