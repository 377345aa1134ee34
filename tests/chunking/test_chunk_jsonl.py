"""Trees of files and `pkg-lib cast chunk`: the same bytes back, what cannot be read is named."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pkg_lib import cli
from pkg_lib.chunking import chunk_jsonl
from pkg_lib.chunking.chunk_coverage import CoverageReport
from pkg_lib.chunking.chunker import Chunker
from pkg_lib.chunking.source import encode
from pkg_lib.core.source_tree import NOT_REGULAR
from pkg_lib.core.store import LINK
from pkg_lib.core.types import UserError

ROOT = Path(__file__).resolve().parents[2]
DATA = b"# caf\xe9\r\ndef f(x):\r\n\treturn x\r\n\x00" + "ü = '''\n日本語\n'''".encode()


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "pkg_lib", "cast", "chunk", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, cwd=ROOT, timeout=120)


def test_the_pipe_gives_the_file_back(tmp_path):
    (tmp_path / "a.py").write_bytes(DATA)
    done = run(tmp_path / "a.py", "--mode", "lossless", "--max-size", "6")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) > 3 and rows[0].keys() == {
        "document",
        "start",
        "stop",
        "first",
        "last",
        "text",
        "size",
    }
    assert b"lost" in done.stderr and done.returncode == 0
    assert run("--join", stdin=done.stdout).stdout == DATA


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["nosuch.py"], "nosuch.py"),
        (["a.py", "--mode", "half"], "unknown mode"),
        (["a.py", "--language", "cobol"], "unknown language"),
        (["a.txt"], "--language"),
        ([], "needs a file or a directory"),
    ],
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, capsys, arguments, word):
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "a.txt").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pkg_lib", "cast", "chunk", *arguments])
    assert cli.main() == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and word in error and error.count("\n") == 1


@pytest.mark.parametrize("line", [b"{}\n", b"[1]\n", b"not json\n", b'{"text": 1}\n'])
def test_what_is_no_chunk_is_not_joined(line):
    with pytest.raises(UserError, match="line 1 of standard input is not a chunk"):
        chunk_jsonl.join_chunks(io.BytesIO(line), io.BytesIO())


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


def chunk_tree(root, chunker: Chunker, languages=None, processes: int = 1):
    report, chunks = CoverageReport(), []
    for made in chunk_jsonl.chunk_files(
        chunk_jsonl.walk(root, report, languages), chunker, processes
    ):
        chunks += made.chunks
        report.files.append(made.coverage)
    return chunks, report


def test_a_tree_with_every_kind_of_bad_file(tree):
    chunks, report = chunk_tree(tree, Chunker())
    assert [a.document for a in report.files] == [
        "broken.py",
        "empty.py",
        "a/Two.java",
        "a/one.py",
    ]
    assert report.skipped.by_reason == {LINK: ["itself.py", "loop/"], NOT_REGULAR: ["pipe.py"]}
    one = b"".join(encode(c.text) for c in chunks if c.document == "a/one.py")
    assert one == (tree / "a/one.py").read_bytes()
    named = [
        ("syntax errors", "broken.py"),
        ("UTF-8", "a/one.py"),
        ("empty", "empty.py"),
        ("LF", "a/one.py"),
    ]
    for remark, name in named:
        assert any(remark in line and name in line for line in str(report).splitlines())


def test_two_files_whose_printed_names_are_equal_are_both_chunked(tmp_path):
    """One name has bytes that are not UTF-8; the other is how these bytes are printed."""
    for name in (b"bad\xff\xfe.py", rb"bad\xff\xfe.py"):
        with open(os.fsencode(tmp_path) + b"/" + name, "w") as file:
            file.write("x = 1\n")
    out = io.BytesIO()
    assert "2 files" in str(chunk_jsonl.write_chunks(tmp_path, Chunker(), None, out))
    names = [json.loads(line)["document"] for line in out.getvalue().splitlines()]
    assert len(set(names)) == 2 and all(name.endswith(".py") for name in names)


def test_many_bad_files_are_named_up_to_five_and_in_print(tmp_path):
    for number in range(7):
        (tmp_path / f"{number}\nb\udcff.py").write_text("def f(:\n")
    line = str(chunk_tree(tmp_path, Chunker())[1]).splitlines()[-1]
    assert (
        "7 files" in line
        and r"0\nb\\xff.py, " in line
        and line.endswith(", ...)")
        and "5" not in line
    )


def test_unreadable_files_and_directories_are_named(tree, monkeypatch):
    scandir, opened = os.scandir, os.open

    def closed(path):
        if str(path).endswith("/a"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    def unreadable(path, *how):
        if str(path).endswith("broken.py"):
            raise PermissionError(13, "Permission denied")
        return opened(path, *how)

    monkeypatch.setattr(os, "scandir", closed)
    monkeypatch.setattr(os, "open", unreadable)
    _, report = chunk_tree(tree, Chunker())
    assert [a.document for a in report.files] == ["empty.py"]
    assert report.skipped.by_reason["cannot be read: Permission denied"] == ["broken.py"]
    assert report.skipped.by_reason["directory cannot be read: Permission denied"] == ["a"]


def test_languages_are_chosen_and_workers_change_nothing(tree):
    alone = chunk_tree(tree, Chunker(max_size=5), {"python"})
    assert {a.language for a in alone[1].files} == {"python"}
    assert chunk_tree(tree, Chunker(max_size=5), {"python"}, processes=2) == alone


def test_mistakes(tree):
    with pytest.raises(UserError, match="no such directory"):
        chunk_tree(tree / "nosuch", Chunker())
    with pytest.raises(UserError, match="processes = 0"):
        chunk_tree(tree, Chunker(), processes=0)
