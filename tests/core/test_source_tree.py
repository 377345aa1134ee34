"""Test the reader of source trees and archives on trees designed to break it."""

from __future__ import annotations

import io
import os
import socket
import struct
import sys
import zipfile
from pathlib import Path

import pytest

from pkg_lib import cli
from pkg_lib.core import source_tree
from pkg_lib.core.source_tree import (
    Skipped,
    UnreadableFileError,
    find_python,
    python_text,
    python_texts,
    read_file,
    read_python,
)
from pkg_lib.core.store import LINK
from pkg_lib.core.types import UserError
from pkg_lib.data.corpora import load_corpus
from pkg_lib.data.functions import functions
from pkg_lib.graph.schema import NAME, build_code_graph
from pkg_lib.retrieval.knowledge import Knowledge
from pkg_lib.retrieval.retrievers import BM25Rows

SECRET = "def stolen(): return 'secret'\n"
LATIN = b'# -*- coding: latin-1 -*-\ndef price(x):\n    """caf\xe9: has close elements"""\n    return x * 2\n'
BAD_NAME = os.fsdecode(b"bad\xff\xfe.py")


@pytest.fixture
def hostile(tmp_path):
    """Create a tree with every kind of file that is not source, and a file outside that its links point to."""
    root = tmp_path / "tree"
    for folder in ("deep", "folder.py", "__pycache__"):
        (root / folder).mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.py").write_text(SECRET)
    files = {
        "latin.py": LATIN,
        "folder.py/x.py": b"def inside(): pass\n",
        "crlf.py": b"def crlf(a):\r\n    return a\r\n",
        "cr.py": b"# mac\rdef cr(a):\r    return a\r",
        "ff.py": b"\x0cdef ff(a):\n    return a\n",
        "bom.py": b"\xef\xbb\xbfdef bom(): return 1\n",
        "empty.py": b"",
        "nul.py": b"def nul(): pass\n\0",
        "no_encoding.py": "é = 1".encode("latin-1"),
        "klingon.py": b"# coding: klingon\n",
        "wrong.py": b"# coding: ascii\nx = '\xe9'\n",
        "nested.py": b"def attributes(): return a" + b".b" * 20_000 + b"\n",
        "unary.py": b"x = " + b"-" * 50_000 + b"1\n",
        "brackets.py": b"(" * 100_000,
        "__pycache__/no.py": b"def no(): pass\n",
        "notes.txt": b"def no(): pass\n",
    }
    for name, data in files.items():
        (root / name).write_bytes(data)
    (root / BAD_NAME).write_text("def odd_name(): pass\n")
    (root / "line\nbreak\x1b[31m.py").write_text("def control(): pass\n")
    with (root / "huge.py").open("wb") as file:
        file.truncate(50 * 2**20)
    links = {
        "link.py": outside / "secret.py",
        "folder": outside,
        "loop": root,
        "self.py": "self.py",
        "dangling.py": "nowhere",
        "inside.py": "crlf.py",
        "deep/up.py": "../../outside/secret.py",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    os.mkfifo(root / "pipe.py")
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(root)  # a socket's path is limited to 107 bytes
        server.bind("socket.py")
    return root


@pytest.fixture(autouse=True)
def same_directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def test_reads_regular_files_of_a_hostile_tree_and_reports_the_others(hostile):
    tree = find_python(hostile, ["__pycache__"])
    texts = dict(python_texts(tree))
    odd = {r"bad\xff\xfe.py", r"line\nbreak\x1b[31m.py"}
    nested = {"nested.py", "unary.py", "brackets.py"}
    readable = {"bom.py", "cr.py", "crlf.py", "empty.py", "ff.py", "folder.py/x.py", "latin.py"}
    assert set(texts) == readable | odd | nested
    assert texts["cr.py"] == "# mac\ndef cr(a):\n    return a\n" and "café" in texts["latin.py"]
    links = {"dangling.py", "deep/up.py", "folder/", "inside.py", "link.py", "loop/", "self.py"}
    skipped = {reason: set(paths) for reason, paths in tree.skipped.by_reason.items()}
    assert skipped == {
        LINK: links,
        source_tree.NOT_REGULAR: {"pipe.py", "socket.py"},
        source_tree.too_large(source_tree.MAX_PYTHON_BYTES): {"huge.py"},
        source_tree.BINARY: {"nul.py"},
        source_tree.NO_ENCODING: {"no_encoding.py"},
        source_tree.UNKNOWN_ENCODING: {"klingon.py"},
        source_tree.OTHER_ENCODING: {"wrong.py"},
    }
    assert all(line.isprintable() for line in tree.skipped.summary())


def test_every_method_can_send_what_it_retrieves_from_a_hostile_tree(hostile, caplog):
    documents = load_corpus(f"source:{hostile}").documents
    graph = build_code_graph(documents)
    names = set(graph.payloads(graph.of_type(NAME)))
    assert names == {"price", "inside", "crlf", "cr", "ff", "bom", "odd_name", "control"}
    assert {d.partition("/")[2] for d, _ in graph.skipped} == {
        "nested.py",
        "unary.py",
        "brackets.py",
    }
    units = BM25Rows(Knowledge(documents)).units
    assert any("café" in unit.text for unit in units)
    assert not any("stolen" in unit.text or "secret" in unit.text for unit in units)
    for unit in units:
        (unit.source + unit.text).encode("utf8")
    assert "link.py" in caplog.text and "\x1b" not in caplog.text


def test_files_that_do_not_parse_have_no_functions(hostile):
    texts = read_python(hostile)
    found = {name: [f.name for f in functions(name, text)] for name, text in texts.items()}
    assert found["crlf.py"] == ["crlf"] and found["nested.py"] == found["unary.py"] == []


def test_the_command_line_reports_skipped_files(hostile, monkeypatch, capsys, caplog):
    monkeypatch.setattr(sys, "argv", ["pkg_lib", "graph", f"source:{hostile}"])
    assert cli.main() == 0
    output = capsys.readouterr().out
    assert "nested.py" in output and "\x1b" not in output + caplog.text and "link.py" in caplog.text


def test_an_empty_corpus_is_a_one_line_error(tmp_path, monkeypatch, capsys):
    root = tmp_path / "nothing"
    root.mkdir()
    (root / "pipe.txt").touch()
    for number in range(12):
        (root / f"link{number:02}.py").symlink_to("/etc/passwd")
    monkeypatch.setattr(sys, "argv", ["pkg_lib", "graph", f"source:{root}"])
    assert cli.main() == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1 and "12 skipped" in error
    assert "link09.py" in error and "link10.py" not in error


DECLARED = {
    "# -*- coding: {} -*-\n": (
        "latin-1",
        "iso-8859-15",
        "cp1252",
        "utf-8",
        "cp850",
        "mac-roman",
        "koi8-r",
    ),
    "#!/usr/bin/python\n# vim: set fileencoding={} :\n": ("latin-1", "cp1250", "utf8"),
    "\n\x0c # coding={}\n": ("shift_jis", "gb18030"),
}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("head", "encoding"), [(h, e) for h, names in DECLARED.items() for e in names]
)
def test_reads_declared_encodings(head, encoding, end):
    letter = {"koi8-r": "ж", "shift_jis": "語", "gb18030": "語"}.get(encoding, "ö")
    text = head.format(encoding) + f"def f():\n    return '{letter}'\n"
    assert python_text(text.replace("\n", end).encode(encoding)) == text


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        *((f"# coding: {name}\nx = 1\n".encode(), source_tree.UNKNOWN_ENCODING) for name in (
            "rot13", "base64_codec", "zlib", "hex", "uu", "bz2", "quopri", "nosuch", "punycode", "idna", "x" * 5000,
        )),
        *((f"# coding: {name}\nx = 1\n".encode(), source_tree.OTHER_ENCODING) for name in (
            "undefined", "utf-16", "utf-16-le", "utf-32",
        )),
        (b"\xef\xbb\xbf# coding: latin-1\nx = 1\n", source_tree.OTHER_ENCODING),
        (b"# coding: utf-8\nx = '\xe9'\n", source_tree.OTHER_ENCODING),
        (b"# coding: unicode_escape\nx = '\\ud800'\n", source_tree.OTHER_ENCODING),
        (b"# coding: unicode_escape\nx = '\\x00'\n", source_tree.BINARY),
        (b"# mac\rx = 1\ry = '# coding: utf-8'\r\xe9", source_tree.NO_ENCODING),
        (b"x = '\xe9'\n", source_tree.NO_ENCODING),
        (b"\n" * 5000 + b"x = '\xe9'\n", source_tree.NO_ENCODING),
        ("x = 1\n".encode("utf-16"), source_tree.NO_ENCODING),
        (b"\0" * 100, source_tree.BINARY),
    ],
)  # fmt: skip
def test_rejects_other_encodings(data, reason):
    with pytest.raises(
        UnreadableFileError, match=f"^{reason.replace('(', '[(]').replace(')', '[)]')}$"
    ):
        python_text(data)


def test_reads_directories_deeper_than_the_longest_path(tmp_path, monkeypatch):
    root = tmp_path / "deep"
    root.mkdir()
    monkeypatch.chdir(root)
    for depth in range(2100):
        if depth == 1200:
            Path("reached.py").write_text("x = 1\n")
        os.mkdir("d")
        os.chdir("d")
    tree = find_python(root)
    for _ in range(2100):  # pytest removes old directories recursively, which would fail
        os.chdir("..")
        Path("reached.py").unlink(missing_ok=True)
        Path("d").rmdir()
    assert [file.place.count("/") for file in tree.files] == [1200]
    assert sum(map(len, tree.skipped.by_reason.values())) == 1


def test_reports_a_file_that_changes_during_the_walk(tmp_path):
    for name in ("a.py", "gone.py", "link.py", "pipe.py", "grown.py"):
        (tmp_path / name).write_text("x = 1\n")
    tree = find_python(tmp_path)
    for name in ("gone.py", "link.py", "pipe.py"):
        (tmp_path / name).unlink()
    (tmp_path / "link.py").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe.py")
    with (tmp_path / "grown.py").open("wb") as file:
        file.truncate(source_tree.MAX_PYTHON_BYTES + 1)
    assert [name for name, _ in python_texts(tree)] == ["a.py"]
    assert [path for path, _ in tree.skipped.rows()] == [
        "gone.py",
        "grown.py",
        "link.py",
        "pipe.py",
    ]


def test_does_not_read_devices():
    with pytest.raises(UnreadableFileError, match=source_tree.NOT_REGULAR):
        read_file("/dev/zero")


def test_a_tree_has_limits(tmp_path, monkeypatch):
    for number in range(6):
        (tmp_path / f"{number}.py").write_text("x" * 2**20)
    monkeypatch.setattr(source_tree, "MAX_PYTHON_TREE_BYTES", 3 * 2**20)
    monkeypatch.setattr(source_tree, "MAX_FILES", 5)
    tree = find_python(tmp_path)
    assert [file.name for file in tree.files] == ["0.py", "1.py", "2.py"]
    assert tree.skipped.by_reason == {
        source_tree.TOO_MANY: ["5.py"],
        source_tree.TREE_FULL.format(3): ["3.py", "4.py"],
    }


def test_distinguishes_files_with_the_same_printable_name(tmp_path):
    (tmp_path / os.fsdecode(b"\xff.py")).write_text("x = 1\n")
    (tmp_path / r"\xff.py").write_text("x = 2\n")
    assert read_python(tmp_path) == {r"\xff.py": "x = 2\n", r"\xff#2.py": "x = 1\n"}


def member(name: str, mode: int = 0o100644) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def test_skips_archive_members_that_are_not_files_or_lead_outside(tmp_path):
    path = tmp_path / "a.zip"
    outside = ("/etc/x.py", "../x.py", "a/../../x.py", r"..\x.py", r"a\b.py", "C:x.py", "c:/x.py")
    with zipfile.ZipFile(path, "w") as archive:
        for name in (*outside, "a/ok.py", "a/no.txt"):
            archive.writestr(member(name), "x = 1\n")
        archive.writestr(member("a/link.py", 0o120777), "/etc/passwd")
        archive.writestr(member("a/pipe.py", 0o010644), "")
        archive.writestr(member("folder.py/", 0o040755), "")
        archive.writestr(member("twice.py"), "x = 1\n")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr(member("twice.py"), "x = 2\n")
    tree = find_python(path)
    assert dict(python_texts(tree)) == {"a/ok.py": "x = 1\n", "twice.py": "x = 2\n"}
    skipped = {reason: len(paths) for reason, paths in tree.skipped.by_reason.items()}
    assert skipped == {
        source_tree.OUTSIDE: len(outside),
        LINK: 1,
        source_tree.NOT_REGULAR: 1,
        source_tree.TWICE_IN_ARCHIVE: 1,
    }


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_reads_every_compression_method(tmp_path, method):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("a.py", "x = 1\n" * 1000)
    assert read_python(path) == {"a.py": "x = 1\n" * 1000}


def with_header(path: Path, offset: int, value: bytes) -> None:
    """Overwrite a field of the central directory's only entry."""
    data = bytearray(path.read_bytes())
    start = data.find(b"PK\1\2") + offset
    data[start : start + len(value)] = value
    path.write_bytes(data)


BOMB = 64 * 2**20


@pytest.mark.parametrize(
    ("offset", "value", "reason"),
    [
        (8, b"\1", source_tree.ENCRYPTED),
        (10, b"\x63", source_tree.METHOD),
        (16, b"0000", source_tree.DAMAGED),  # the checksum
        (24, struct.pack("<I", 4), source_tree.DAMAGED),  # a size below the real one
        (42, struct.pack("<I", 10**6), source_tree.DAMAGED),  # the offset of the member
    ],
)
def test_reports_damaged_members(tmp_path, offset, value, reason):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.py", "x = 1\n" * 100)
    with_header(path, offset, value)
    tree = find_python(path)
    assert not list(python_texts(tree)) and tree.skipped.rows()[0][1].startswith(reason)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("claimed", [BOMB, 1000])
def test_does_not_decompress_bombs(tmp_path, method, claimed):
    """This holds for any size that the header claims."""
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("bomb.py", b" " * BOMB)
    with_header(path, 24, struct.pack("<I", claimed))
    tree = find_python(path)
    assert not list(python_texts(tree)) and [name for name, _ in tree.skipped.rows()] == ["bomb.py"]


def test_rejects_a_small_bomb_by_its_compression_ratio(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.py", b" " * 2 * 2**20)
    tree = source_tree.find(path, source_tree.ends_with(".py"))
    assert tree.skipped.rows() == [("a.py", source_tree.RATIO)]


@pytest.mark.parametrize("damage", ["cut", "no zip", "nothing", "directory of a pipe"])
def test_a_file_that_is_not_an_archive_is_a_one_line_error(tmp_path, damage):
    path, data = tmp_path / "a.zip", io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("a.py", "x = 1\n" * 100)
    if damage == "cut":
        path.write_bytes(data.getvalue()[:-30])
    elif damage == "no zip":
        path.write_bytes(b"PK\3\4 no zip")
    elif damage == "directory of a pipe":
        os.mkfifo(path)
    with pytest.raises(UserError, match=r"a\.zip"):
        find_python(path)


def test_the_message_about_skipped_files_is_short():
    skipped = Skipped()
    for n in range(200):
        skipped.add(f"a/rather/long/folder/name/for/this/file_{n}.py", f"reason {n % 7}")
    text = skipped.one_line_summary()
    assert len(text) < 300 and text.count(".py") == 3 and "4 other reasons" in text
    assert all(1 <= line.count(".py") <= 10 and len(line) < 260 for line in skipped.summary())
    assert Skipped().one_line_summary() == ""
