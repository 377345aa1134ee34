"""`python -m pkg_lib chunk`: JSON lines out, the same bytes back, mistakes in one line."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pkg_lib import cli
from pkg_lib.chunking import stream
from pkg_lib.core.types import UserError

ROOT = Path(__file__).resolve().parents[2]
DATA = b"# caf\xe9\r\ndef f(x):\r\n\treturn x\r\n\x00" + "ü = '''\n日本語\n'''".encode()


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "pkg_lib", "chunk", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, cwd=ROOT, timeout=120)


def test_the_pipe_gives_the_file_back(tmp_path):
    (tmp_path / "a.py").write_bytes(DATA)
    done = run(tmp_path / "a.py", "--mode", "lossless", "--max-size", "6")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) > 3 and rows[0].keys() == {"document", "start", "stop", "first", "last", "text", "size"}
    assert b"lost" in done.stderr and done.returncode == 0
    assert run("--join", stdin=done.stdout).stdout == DATA


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["nosuch.py"], "cannot read"),
        (["a.py", "--mode", "half"], "unknown mode"),
        (["a.py", "--language", "cobol"], "unknown language"),
        (["a.txt"], "--language"),
        ([], "name a file"),
    ],
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, capsys, arguments, word):
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "a.txt").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pkg_lib", "chunk", *arguments])
    assert cli.main() == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and word in error and error.count("\n") == 1


@pytest.mark.parametrize("line", [b"{}\n", b"[1]\n", b"not json\n", b'{"text": 1}\n'])
def test_what_is_no_chunk_is_not_joined(line):
    with pytest.raises(UserError, match="line 1 of standard input is no chunk"):
        stream.join(io.BytesIO(line), io.BytesIO())
