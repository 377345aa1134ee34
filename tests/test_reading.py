"""Reading of damaged files.

Every reader reports damage as "FILE, line N is damaged: REASON", and needs little memory for any file.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from pkg_lib.core import reading
from pkg_lib.core.limits import MAX_DAMAGED_ROWS, MAX_DEPTH, MAX_ROW_BYTES
from pkg_lib.core.reading import DamagedFileError
from pkg_lib.core.store import ROOT, read_json, read_rows, rows_sha256

ROW = b'{"task_id": "a", "n": 1}'
FIELDS = {"task_id": str, "n": int}
# Damaged line -> part of the reason.
LINES = {
    b"{": "not JSON",
    b"nonsense": "not JSON",
    b'{"task_id": "a", "n": 1} x': "not JSON",
    b'{"task_id": "a", "n": 1}{"task_id": "b", "n": 1}': "not JSON",
    b"\0\0\0\0": "not JSON",
    b'{"task_id": "a\0", "n": 1}': "not JSON",
    b'{"task_id": "\xff", "n": 1}': "not UTF-8",
    b'{"task_id": "\xed\xa0\x80", "n": 1}': "not UTF-8",
    '{"task_id": "a", "n": 1}'.encode("utf-16"): "not UTF-8",
    b"": "blank",
    b"  \t\r": "blank",
    b"[" * 100_000: "nested too deep",
    b'{"a":' * 100_000: "nested too deep",
    b'{"task_id": "a", "n": 1, "x": '
    + b"[" * MAX_DEPTH
    + b"]" * MAX_DEPTH
    + b"}": "nested too deep",
    b'{"task_id": "a", "n": NaN}': "NaN",
    b'{"task_id": "a", "n": 1, "x": [-Infinity]}': "-Infinity",
    b'{"task_id": "a", "n": 1, "x": 1e999}': "too large",
    b'{"task_id": "a", "n": ' + b"9" * 5000 + b"}": "digits",
    b'{"task_id": "a", "n": ' + b"9" * 4000 + b"}": "field n",
    b'{"task_id": "a", "n": true}': "field n",
    b'{"task_id": "a", "n": "1"}': "field n",
    b'{"task_id": "a", "n": null}': "field n",
    b'{"task_id": ["a"], "n": 1}': "field task_id",
    b'{"task_id": {}, "n": 1}': "field task_id",
    b'{"n": 1}': "field task_id",
    b"[]": "not an object",
    b"null": "not an object",
    b"1": "not an object",
    b'"' + b"x" * 1000 + b'"': "not an object",
    b'{"task_id": "'
    + base64.b64encode(random.Random(0).randbytes(MAX_ROW_BYTES))
    + b'", "n": 1}': "longer than",
}


@pytest.fixture(params=["x.jsonl", "x.jsonl.gz"])
def path(request, tmp_path):
    return tmp_path / request.param


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(gzip.compress(data, 1) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("line", LINES, ids=lambda line: LINES[line])
def test_reports_a_damaged_line_with_the_reason(path, line):
    write(path, ROW + b"\n" + line + b"\n" + ROW + b"\n")
    with pytest.raises(DamagedFileError) as error:
        read_rows(path, FIELDS)
    (message,) = error.value.args
    assert message.startswith(f"{path}, line 2 is damaged: ")
    assert LINES[line] in message
    assert len(message) < len(str(path)) + 250
    assert message.isprintable()
    assert "git " not in message
    rows = list(reading.scan(path, FIELDS))
    assert [row.value is not None for row in rows] == [True, False, True]
    assert rows[1].number == 2
    assert LINES[line] in rows[1].why


@pytest.mark.parametrize(
    "data",
    [
        ROW + b"\n" + ROW,
        ROW + b"\r\n" + ROW + b"\r\n",
        b"\xef\xbb\xbf" + ROW + b"\n" + b" " + ROW + b" \n",
    ],
    ids=["no last newline", "CRLF", "byte order mark"],
)
def test_accepts_other_line_ends_and_a_byte_order_mark(path, data):
    assert read_rows(write(path, data), FIELDS) == [json.loads(ROW)] * 2


def test_skips_blank_lines_if_they_are_allowed(path):
    write(path, b"\n" + ROW + b"\n \n\n" + ROW + b"\n\n")
    assert [number for number, _ in reading.rows(path, FIELDS, blank=True)] == [2, 5]
    assert read_rows(write(path, b"")) == []


def test_skips_long_and_damaged_lines_and_reads_the_others(path):
    text = base64.b64encode(random.Random(0).randbytes(3 * MAX_ROW_BYTES))
    long = b'{"task_id": "' + text + b'"}'
    write(path, b"\n".join([ROW, long, ROW, b"{", ROW]))
    rows = list(reading.scan(path, FIELDS))
    assert [row.number for row in rows if row.value] == [1, 3, 5]
    assert rows[1].line.text is None


def test_stops_reading_after_too_many_damaged_lines(path):
    write(path, b"{\n" * (MAX_DAMAGED_ROWS + 5))
    with pytest.raises(DamagedFileError, match=r"more than 1,000 lines"):
        list(reading.scan(path))


def damaged_files(folder: Path) -> dict[str, Path]:
    """Create files that cannot be read at all; return their paths by kind of damage."""
    sound = gzip.compress(ROW + b"\n")
    rows = [b'{"task_id": "%d", "n": 1}\n' % number for number in range(20_000)]
    long = gzip.compress(b"".join(rows))
    flipped = bytes(byte ^ 0xFF for byte in long[500:520])
    contents = {
        "empty": b"",
        "one byte": b"\x1f",
        "header alone": sound[:10],
        "truncated": long[:-3000],
        "without its checksum": sound[:-8],
        "a wrong checksum": sound[:-8] + b"\0" * 8,
        "plain text": ROW + b"\n",
        "another format": b"PK\x03\x04" + b"\0" * 40,
        "garbage behind it": sound + b"garbage",
        "flipped bits": long[:500] + flipped + long[520:],
    }
    paths = {}
    for name, data in contents.items():
        paths[name] = folder / f"{name}.jsonl.gz"
        paths[name].write_bytes(data)
    paths["a directory"] = folder / "directory.jsonl.gz"
    paths["a directory"].mkdir()
    paths["a FIFO"] = folder / "fifo.jsonl.gz"
    os.mkfifo(paths["a FIFO"])
    paths["a device"] = Path("/dev/zero")
    paths["a broken link"] = folder / "link.jsonl"
    paths["a broken link"].symlink_to("nowhere")
    return paths


def scan(path: Path) -> list:
    return list(reading.scan(path))


UNREADABLE = (
    "damaged: ",
    "cannot be read: ",
    "is a directory, not a file",
    "is not a regular file",
)


def test_reports_a_file_that_cannot_be_read(tmp_path):
    for name, path in damaged_files(tmp_path).items():
        for read in (read_rows, read_json, reading.read_text, scan):
            with pytest.raises(DamagedFileError) as error:
                read(path)
            (message,) = error.value.args
            assert message.startswith(str(path)), name
            assert any(reason in message for reason in UNREADABLE), name
        assert len(rows_sha256(path)) == 64


def test_reads_compressed_files_with_several_members_and_padding(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(ROW + b"\n") * 3 + b"\0" * 100)
    assert len(read_rows(path, FIELDS)) == 3

    # These rows are longer than the chunks in which a file is decompressed.
    rows = [{"task_id": "é" * number, "n": number} for number in range(3000)]
    lines = [json.dumps(row) + "\n" for row in rows]
    write(path, "".join(lines).encode())
    assert read_rows(path, FIELDS) == rows


# Content of a JSON file -> part of the reason why it is damaged.
OBJECTS = {
    b"": "not JSON",
    b'{"a": 1,\n "b": }': "line 2",
    b"[1]": "not an object",
    b"[" * 100_000: "nested too deep",
    b'{"a": NaN}': "NaN",
    b'{"a": "\xff"}': "not UTF-8",
    b'{"b": 1}': "field a is missing",
    b'{"a": "x"}': "field a",
}


@pytest.mark.parametrize("data", OBJECTS, ids=lambda data: OBJECTS[data])
def test_reports_a_damaged_object(tmp_path, data):
    path = tmp_path / "x.json"
    path.write_bytes(data)
    with pytest.raises(DamagedFileError) as error:
        read_json(path, {"a": int})
    message = str(error.value)
    assert message.startswith(str(path))
    assert " damaged: " in message
    assert OBJECTS[data] in message
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n')
    assert read_json(path, {"a": int}) == {"a": 1}


def message_about(path: Path) -> str:
    """Read a damaged file; return the error message."""
    with pytest.raises(DamagedFileError) as error:
        read_json(path)
    message = str(error.value)
    assert "delete" not in message
    return message


def test_advice_depends_on_the_origin_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    mine = tmp_path / "mine.json"
    stored = tmp_path / "results" / "x.json"
    answers = tmp_path / "results" / "cache" / "m" / "x.json"
    for path in (mine, stored, answers):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{")
        advice = message_about(path).rpartition("; ")[2]
        assert "git " not in advice
    assert "correct the file" in message_about(mine)
    assert "regenerates it" in message_about(stored)
    assert "regenerates its contents" in message_about(answers)

    command = ["git", "-C", ROOT, "ls-files", "README.md"]
    tracked = subprocess.run(command, capture_output=True, text=True).stdout
    assert ("git checkout" in message_about(ROOT / "README.md")) == bool(tracked)
    message_about(ROOT / "results" / "README.md")


BOMBS = {
    "blanks": b" " * 2**20,
    "blank lines": b"\n" * 2**20,
    "brackets": b"[" * 2**20,
    "rows": b'{"task_id": "a", "n": 1, "x": [[],[],[],[],[]]}\n' * 20_000,
}


# Reads a file with every reader; prints their errors and the peak memory in KiB.
READ_BOMB = """\
import sys
from pathlib import Path
from pkg_lib.core import reading, store

def scan(path):
    return list(reading.scan(path))

path = Path(sys.argv[1])
for read in (store.read_rows, store.read_json, reading.read_text, scan):
    try:
        read(path)
    except reading.DamagedFileError as error:
        print(error)
status = Path('/proc/self/status').read_text()
print(status.split('VmHWM:')[1].split()[0])
"""


def bomb(path: Path, part: bytes, parts: int) -> Path:
    """Compress many copies of a part."""
    with gzip.open(path, "wb", 9) as file:
        for _ in range(parts):
            file.write(part)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_refuses_a_decompression_bomb_early_and_with_little_memory(tmp_path, name):
    """The file has 1.5 MB and expands to 1.5 GB."""
    path = bomb(tmp_path / "x.jsonl.gz", BOMBS[name], 1500)
    command = [sys.executable, "-c", READ_BOMB, path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout.count(str(path)) == 4
    peak_memory = int(done.stdout.split()[-1])  # KiB
    assert peak_memory < 600 * 1024
