"""Methods run in order of cost, and a dry run says what is encoded."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import FakeBackend, WordEmbedder

from pkg_lib.core.embedders import DEFAULT, INT8
from pkg_lib.core.speeds import notebook_speed, record_speed
from pkg_lib.core.types import Unavailable, UserError
from pkg_lib.evaluation import forecast, pipeline, study
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results

METHODS = ["Block-PKG", "Func-PKG", "Func-BM25", "NoRAG"]
ANSWER = "```python\ndef f():\n    return 1\n```"


@pytest.fixture
def evaluator(tmp_path, monkeypatch):
    """An experiment on a small code base in which every text counts as expensive to encode."""
    monkeypatch.setenv("PKG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(pipeline, "FEW_TEXTS", 1)
    folder = tmp_path / "code"
    folder.mkdir()
    body = "def f{0}(x):\n    if x > {0}:\n        return x\n    return {0}\n"
    (folder / "a.py").write_text("\n".join(body.format(n) for n in range(4)))
    results = Results(study.MODEL, "humaneval", f"source:{folder}", 3, tmp_path / "results")
    results.knowledge.embedder = WordEmbedder()
    return Evaluator(results, backend=FakeBackend(lambda request: ANSWER))


def test_first_answers_come_before_anything_is_encoded(evaluator):
    embedder, backend = evaluator.run.knowledge.embedder, evaluator.run.generator.backend
    encoded_before_answer = []
    answer = backend.answer
    backend.answer = lambda request: (
        encoded_before_answer.append(len(embedder.seen)) or answer(request)
    )
    assert evaluator.generate(METHODS) == len(encoded_before_answer) > 6
    # NoRAG and Func-BM25 first; then functions are encoded, and blocks at last.
    assert encoded_before_answer[:6] == [0] * 6
    assert 0 < encoded_before_answer[6] < encoded_before_answer[-1]


def test_what_a_method_still_has_to_encode(evaluator):
    assert len(evaluator.texts_to_encode("Func-PKG")) == 4
    assert evaluator.texts_to_encode("Func-BM25") == evaluator.texts_to_encode("NoRAG") == []
    evaluator.generate(METHODS)
    assert evaluator.texts_to_encode("Func-PKG") == []


def test_a_dry_run_counts_the_texts_and_their_time(evaluator):
    found = forecast.forecast(evaluator, METHODS, set())
    by_method = {f.method: f for f in found}
    assert by_method["Func-PKG"].texts == 4
    assert by_method["Func-PKG"].encoding_seconds == pytest.approx(4 / 100)
    assert by_method["Func-BM25"].texts == by_method["NoRAG"].texts == 0
    lines = forecast.lines(evaluator.run, found, forecast.Rates())
    assert "  to encode for Func-PKG: 4 texts, 0 s by the speed measured now" in lines
    assert evaluator.run.knowledge.embedder.seen == []
    rates = forecast.Rates(tokens_per_second=10.0)
    cost = forecast.cost(evaluator.run, found, rates)
    encoding = sum(f.encoding_seconds for f in found)
    assert cost.seconds == pytest.approx(cost.new_tokens / 10 + encoding)


def test_a_corpus_without_functions_is_reported_before_anything_is_generated(evaluator):
    corpus, results = evaluator.run.corpus, evaluator.run.results
    Path(corpus.removeprefix("source:"), "a.py").write_text("X = 1\n")
    backend = FakeBackend(lambda request: ANSWER)
    results = Results(study.MODEL, "humaneval", corpus, 3, results)
    results.knowledge.embedder = WordEmbedder()
    evaluator = Evaluator(results, backend=backend)
    with pytest.raises(UserError, match="no functions that Func-PKG could find"):
        forecast.forecast(evaluator, ["NoRAG", "Func-PKG"], set())
    with pytest.raises(UserError, match="no functions that Func-PKG could find"):
        evaluator.generate(["NoRAG", "Func-PKG"])
    assert backend.asked == []


def test_contexts_of_another_embedder_are_retrieved_again(evaluator):
    evaluator.generate(METHODS)
    run = evaluator.run

    def stored(method):
        return Results(run.model, run.benchmark, run.corpus, run.limit, run.results).contexts(
            method
        )

    assert stored("Func-PKG") and stored("Func-BM25")
    for method in ("Func-PKG", "Func-BM25"):
        path = run.files(method).provenance
        path.write_text(path.read_text().replace(INT8, DEFAULT))
    assert not stored("Func-PKG") and stored("Func-BM25")


def test_the_time_of_notebooks_comes_from_this_machine_once_some_ran(own_cache):
    assert "about 18 s" in forecast.notebook_line(["cost", "cost", "overlap"], 0)
    record_speed(notebook_speed("cost"), 2, 40.0)  # two at once
    assert "about 46 s" in forecast.notebook_line(["cost", "cost", "overlap"], 0)
    record_speed(notebook_speed("dkb"), 1, 4000.0)  # one that the run does not execute
    assert "about 46 s" in forecast.notebook_line(["cost", "cost", "overlap"], 0)
    assert forecast.notebook_line([], 3) == "notebooks: 0 to execute, 3 unchanged"


def test_a_dry_run_asks_for_missing_docstrings_like_the_run(evaluator):
    with pytest.raises(Unavailable):
        forecast.forecast(evaluator, ["Func-PKG, enhanced"], set())
