"""Commands on results with a damaged file: one error line and exit code 2; whatever does not need the file works."""

from __future__ import annotations

import gzip
import json
import os
import shutil

import commands
import pytest

from pkg_lib.core.store import ROOT
from pkg_lib.evaluation.study import MODEL

CONTEXTS = "contexts/humaneval/pkg-contexts/func-pkg/contexts.jsonl.gz"
VERDICTS = f"runs/humaneval/{MODEL}/pkg-contexts/func-pkg/samples.jsonl.gz"
ANSWERS = f"cache/{MODEL}/humaneval/pkg-contexts/func-pkg.jsonl.gz"
DAMAGE = {
    "truncated": lambda data: data[:-20],
    "not gzip": lambda data: b"{}\n" * 10,
    "empty": lambda data: b"",
    "nested": lambda data: gzip.compress(b"[" * 100_000 + b"\n"),
    "wrong types": lambda data: gzip.compress(b'{"task_id": [], "status": 1, "key": {}}\n'),
    "bomb": lambda data: gzip.compress(b" " * 2**26),
}
# The file is valid gzip, and its lines are damaged.
LINES_ALONE = ("nested", "wrong types")
RUN = ("run", "--model", MODEL, "--benchmark", "humaneval", "--shard", "1/2", "--limit", "4")


@pytest.fixture
def results(tmp_path):
    """Copy the committed results of one model on one benchmark."""
    folder = tmp_path / "results"
    parts = ["runs/humaneval/controls"]
    for corpus in ("none", "pkg-contexts", "published"):
        parts.append(f"cache/{MODEL}/humaneval/{corpus}")
        parts.append(f"runs/humaneval/{MODEL}/{corpus}")
        parts.append(f"contexts/humaneval/{corpus}")
    for part in parts:
        shutil.copytree(ROOT / "results" / part, folder / part)
    return folder


def call(results, *words):
    """Run a command in a separate process; return exit code, standard output and standard error."""
    done = commands.run(*words, folder=results.parent, PKG_RESULTS=str(results))
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def damage(path, how):
    """Damage a file; return its new content."""
    path.write_bytes(DAMAGE[how](path.read_bytes()))
    return path.read_bytes()


def error_lines(errors):
    """Return the lines of standard error that report an error."""
    return [line for line in errors.splitlines() if line.startswith("error: ")]


@pytest.mark.parametrize("file", [CONTEXTS, VERDICTS, ANSWERS])
@pytest.mark.parametrize("how", DAMAGE)
def test_skips_a_run_that_needs_a_damaged_file_and_continues_with_others(results, file, how):
    if file == ANSWERS and how in LINES_ALONE:
        pytest.skip("a damaged line of the cache is generated again, which needs weights")
    left = damage(results / file, how)
    code, out, errors = call(
        results, *RUN, "--corpus", "pkg-contexts", "--corpus", "published", "--method", "Func-PKG"
    )
    lines = error_lines(errors)
    assert code == 2 and any(str(results / file) in line and "damaged" in line for line in lines), (
        errors
    )
    assert (out + errors).count(f"{results / file}") == 1
    assert "| published: " in out and all(len(line) < 700 for line in lines)
    assert (results / file).read_bytes() == left


@pytest.mark.parametrize("how", DAMAGE)
def test_shows_a_case_unless_it_needs_the_damaged_file(results, how):
    damage(results / ANSWERS, how)
    asked = ("show", MODEL, "humaneval", "HumanEval/1", "--corpus")
    assert call(results, *asked, "published", "--method", "Func-PKG")[0] == 0
    code, _, errors = call(results, *asked, "pkg-contexts", "--method", "Func-PKG")
    if (
        how in LINES_ALONE
    ):  # the damaged line is reported and skipped, and its answer is not measured
        assert code == 0 and f"{results / ANSWERS}, line 1 is damaged" in errors
    else:
        assert code == 2 and len(error_lines(errors)) == 1


@pytest.mark.parametrize("how", DAMAGE)
def test_packing_and_merging_lose_nothing(results, tmp_path, how):
    plain = results / ANSWERS.removesuffix(".gz")
    rows = gzip.decompress((results / ANSWERS).read_bytes()).splitlines(keepends=True)
    plain.write_bytes(b"".join([rows[0], b"{torn in the middle\n", rows[1]]))
    other = results / f"cache/{MODEL}/humaneval/none/norag.jsonl"
    other.write_bytes(gzip.decompress(other.with_name("norag.jsonl.gz").read_bytes()))
    left = damage(results / ANSWERS, how)
    shard = tmp_path / "shard"
    (shard / ANSWERS).parent.mkdir(parents=True)
    (shard / ANSWERS).write_bytes(gzip.compress(rows[2]))
    extra = shard / f"cache/{MODEL}/humaneval/published/extra.jsonl"
    extra.parent.mkdir(parents=True)
    extra.write_bytes(rows[3])
    for words in (["pack"], ["merge", shard]):
        code, _, errors = call(results, *words)
        if how in LINES_ALONE:  # the damaged lines are set aside
            assert code == 0
        else:
            assert code == 2 and any(str(results / ANSWERS) in line for line in error_lines(errors))
            assert (results / ANSWERS).read_bytes() == left and plain.exists()
    assert not other.exists()  # this file was packed nevertheless
    assert (results / extra.relative_to(shard)).exists()
    if how in LINES_ALONE:
        aside = plain.with_name(plain.name + ".damaged").read_bytes()
        assert b"{torn in the middle\n" in aside
        assert all(line in aside for line in gzip.decompress(left).splitlines())


def test_report_and_verify_cache_name_damaged_files(results):
    for number, how in enumerate(DAMAGE):
        folder = results / "runs" / "humaneval" / MODEL / "published" / f"m{number}"
        folder.mkdir()
        (folder / "condition.json").write_bytes(DAMAGE[how](b"{" * 50))
    for name in (ANSWERS, VERDICTS):
        damage(results / name, "truncated")
    (results / "tables").mkdir()
    (results / "tables" / "a.json").write_bytes(b"[" * 100_000)
    (results / "tables" / "b.json").mkdir()
    os.mkfifo(results / "tables" / "c.json")
    (results / "tables" / "d.json").write_bytes(b"\xff\xfe")
    (results / "notebooks").mkdir()
    (results / "notebooks" / "n.ipynb").write_bytes(b'{"cells": ' + b"[" * 100_000)
    (results / "notebooks" / "n.html").write_bytes(b"\xff")
    (results / "index.html").write_bytes(b"\xff")
    code, _, errors = call(results, "report")
    assert code == 2 and len(error_lines(errors)) == 1
    assert all(f"tables/{name}.json" in errors for name in "abcd") and "n.ipynb" in errors
    assert "m0/condition.json" in errors
    assert "humaneval" in (results / "leaderboard.csv").read_text()
    code, _, errors = call(results, "verify-cache", "--model", MODEL, "--sample", "100000")
    assert code == 2 and len(error_lines(errors)) == 1


SAMPLES = {
    "truncated.jsonl": json.dumps({"task_id": "HumanEval/0", "completion": "    return 1"})[
        :-5
    ].encode(),
    "nested.jsonl": b"[" * 100_000 + b"\n",
    "types.jsonl": b'{"task_id": {}, "completion": []}\n{"task_id": "\\ud800", "completion": "\\ud800"}\n',
    "long.jsonl": b'{"task_id": "HumanEval/0", "completion": "' + b"x" * 20_000_000 + b'"}\n',
    "binary.jsonl": bytes(range(256)) * 100,
    "blank.jsonl": b"\n" * 1_000_000,
    "surrogates.jsonl": b'{"task_id": "HumanEval/0", "completion": "    return \'\\ud800\'"}\n',
}


def test_replay_evaluates_valid_samples_and_names_damaged_ones(tmp_path):
    folder = tmp_path / "samples" / "humaneval"
    folder.mkdir(parents=True)
    good = [{"task_id": f"HumanEval/{n}", "completion": "    return 1"} for n in range(3)]
    (folder / "good.jsonl").write_text("".join(json.dumps(row) + "\r\n" for row in good))
    for name, data in SAMPLES.items():
        (folder / name).write_bytes(data)
    (folder / "directory.jsonl").mkdir()
    os.mkfifo(folder / "fifo.jsonl")
    (folder / "loop.jsonl").symlink_to("loop.jsonl")
    (folder / "escape\x1b[2J.jsonl").write_text("{}\n")
    with open(os.fsencode(folder) + b"/not\xffutf8.jsonl", "w") as file:
        file.write("".join(json.dumps(row) + "\n" for row in good))
    code, out, errors = call(tmp_path / "results", "replay", tmp_path / "samples")
    names = (
        "directory.jsonl",
        "escape\\x1b[2J.jsonl",
        "fifo.jsonl",
        "loop.jsonl",
        "not\\xffutf8.jsonl",
    )
    assert code == 2 and len(error_lines(errors)) == len(names)
    assert all(name in errors for name in names)
    for name in ("truncated", "nested", "types", "long", "binary"):
        assert f"{name}.jsonl, line 1 is damaged: " in out
    assert any(line.split()[:2] == ["humaneval", "good"] for line in out.splitlines())
    stored = tmp_path / "results/replay/samples/humaneval"
    for path in (stored / "good.jsonl.gz", stored / "good.done.json"):
        path.write_bytes(b"{\n")  # it is evaluated again
        assert call(tmp_path / "results", "replay", tmp_path / "samples")[1].count(
            " good "
        ) == out.count(" good ")


@pytest.mark.parametrize(
    "data",
    [b"", b"\n\n", b"[" * 100_000, b"\xff", b'{"task_id": 11}\n', b'{"task_id": "x", "text": 1}'],
)
def test_reports_a_damaged_data_set_in_one_line(tmp_path, monkeypatch, data):
    (tmp_path / "mbpp").mkdir()
    (tmp_path / "mbpp" / "mbpp.jsonl").write_bytes(data)
    monkeypatch.setenv("PKG_MBPP_DIR", str(tmp_path / "mbpp"))
    code, _, errors = call(
        tmp_path / "results", "run", "--model", MODEL, "--benchmark", "mbpp", "--shard", "1/2"
    )
    (line,) = error_lines(errors)
    assert (
        code == 2
        and "mbpp.jsonl" in line
        and "damaged: " in line
        and "git" not in line
        and "delete" not in line
    )


@pytest.mark.parametrize(
    "text", ["[", "a = " + "[" * 100_000, "a = 1", "a = " + "9" * 5000, "\ufeff[", "\0"]
)
def test_reports_damaged_endpoints_and_prices_in_one_line(tmp_path, monkeypatch, text):
    path = tmp_path / "endpoints.toml"
    path.write_text(text)
    monkeypatch.setenv("PKG_ENDPOINTS", str(path))
    code, _, errors = call(tmp_path / "results", "list")
    assert code == 2 and len(error_lines(errors)) == 1 and str(path) in errors
    monkeypatch.delenv("PKG_ENDPOINTS")
    words = ("run", "--model", MODEL, "--benchmark", "humaneval", "--dry-run", "--prices", path)
    code, _, errors = call(tmp_path / "results", *words)
    assert code == 2 and len(error_lines(errors)) == 1 and str(path) in errors
