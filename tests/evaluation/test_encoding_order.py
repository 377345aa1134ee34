"""Methods run in order of encoding cost, and a dry run reports what they encode."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fakes import FakeBackend, WordEmbedder

from pkg_lib.core.embedders import DEFAULT, INT8
from pkg_lib.core.speeds import notebook_speed, record_speed
from pkg_lib.core.types import UnavailableError, UserError
from pkg_lib.evaluation import forecast, pipeline, study
from pkg_lib.evaluation.pipeline import Evaluator, encoding_passes
from pkg_lib.evaluation.results import Results
from pkg_lib.generation import calibration

METHODS = ["Block-PKG", "Func-PKG", "Func-BM25", "NoRAG"]
ANSWER = "```python\ndef f():\n    return 1\n```"


@pytest.fixture
def evaluator(tmp_path, monkeypatch):
    """Evaluator of a small code base in which every text counts as expensive to encode."""
    monkeypatch.setenv("PKG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(pipeline, "FEW_TEXTS", 1)
    folder = tmp_path / "code"
    folder.mkdir()
    body = "def f{0}(x):\n    if x > {0}:\n        return x\n    return {0}\n"
    (folder / "a.py").write_text("\n".join(body.format(n) for n in range(4)))
    results = Results(study.MODEL, "humaneval", f"source:{folder}", 3, tmp_path / "results")
    results.knowledge.embedder = WordEmbedder()
    return Evaluator(results, backend=FakeBackend(lambda request: ANSWER))


def test_generates_first_answers_before_anything_is_encoded(evaluator):
    embedder = evaluator.run.knowledge.embedder
    encoded_before_answer = []

    def answer(request):
        encoded_before_answer.append(len(embedder.seen))
        return ANSWER

    evaluator.run.generator.backend.answer = answer
    assert evaluator.generate(METHODS) == len(encoded_before_answer) > 6
    # NoRAG and Func-BM25 come first. Then functions are encoded, and blocks last.
    assert encoded_before_answer[:6] == [0] * 6
    assert 0 < encoded_before_answer[6] < encoded_before_answer[-1]


def test_lists_the_texts_that_a_method_has_to_encode(evaluator):
    assert len(evaluator.texts_to_encode("Func-PKG")) == 4
    assert evaluator.texts_to_encode("Func-BM25") == []
    assert evaluator.texts_to_encode("NoRAG") == []
    evaluator.generate(METHODS)
    assert evaluator.texts_to_encode("Func-PKG") == []


def test_dry_run_counts_texts_and_encoding_time(evaluator):
    forecasts = forecast.forecast(evaluator, METHODS, set())
    by_method = {of_method.method: of_method for of_method in forecasts}
    assert by_method["Func-PKG"].texts == 4
    assert by_method["Func-PKG"].encoding_seconds == pytest.approx(4 / 100)
    assert by_method["Func-BM25"].texts == 0
    assert by_method["NoRAG"].texts == 0
    lines = forecast.lines(evaluator.run, forecasts, forecast.Rates())
    assert "  to encode for Func-PKG: 4 texts, 0 s by the speed measured now" in lines
    assert evaluator.run.knowledge.embedder.seen == []
    rates = forecast.Rates(tokens_per_second=10.0)
    cost = forecast.cost(evaluator.run, forecasts, rates)
    encoding_seconds = sum(of_method.encoding_seconds for of_method in forecasts)
    assert cost.seconds == pytest.approx(cost.new_tokens / 10 + encoding_seconds)


def test_reports_a_corpus_without_functions_before_generating_anything(evaluator):
    corpus = evaluator.run.corpus
    Path(corpus.removeprefix("source:"), "a.py").write_text("X = 1\n")
    backend = FakeBackend(lambda request: ANSWER)
    results = Results(study.MODEL, "humaneval", corpus, 3, evaluator.run.results)
    results.knowledge.embedder = WordEmbedder()
    evaluator = Evaluator(results, backend=backend)
    with pytest.raises(UserError, match="no functions that Func-PKG could find"):
        forecast.forecast(evaluator, ["NoRAG", "Func-PKG"], set())
    with pytest.raises(UserError, match="no functions that Func-PKG could find"):
        evaluator.generate(["NoRAG", "Func-PKG"])
    assert backend.asked == []


def test_ignores_stored_contexts_of_another_embedder(evaluator):
    evaluator.generate(METHODS)
    run = evaluator.run

    def stored(method):
        reopened = Results(run.model, run.benchmark, run.corpus, run.limit, run.results)
        return reopened.contexts(method)

    assert stored("Func-PKG")
    assert stored("Func-BM25")
    for method in ("Func-PKG", "Func-BM25"):
        path = run.files(method).provenance
        path.write_text(path.read_text().replace(INT8, DEFAULT))
    assert not stored("Func-PKG")
    assert stored("Func-BM25"), "Func-BM25 does not depend on the embedder"


def test_estimates_notebook_time_from_runs_on_this_machine(own_cache):
    assert "about 18 s" in forecast.notebook_line(["cost", "cost", "overlap"], 0)
    record_speed(notebook_speed("cost"), 2, 40.0)  # two notebooks at once
    assert "about 46 s" in forecast.notebook_line(["cost", "cost", "overlap"], 0)
    record_speed(notebook_speed("dkb"), 1, 4000.0)  # not part of this run
    assert "about 46 s" in forecast.notebook_line(["cost", "cost", "overlap"], 0)
    assert forecast.notebook_line([], 3) == "notebooks: 0 to execute, 3 unchanged"


def test_dry_run_fails_like_the_run_when_docstrings_are_missing(evaluator):
    with pytest.raises(UnavailableError):
        forecast.forecast(evaluator, ["Func-PKG, enhanced"], set())


def test_methods_that_encode_much_are_forecast_as_batches_of_their_own(evaluator, monkeypatch):
    """A batch takes as many steps as its longest answer has tokens."""
    monkeypatch.setattr(forecast, "speeds", dict)
    monkeypatch.setattr(calibration, "layer_seconds", lambda rows: 1.0)
    one = forecast.MethodForecast("NoRAG", 0, 5, 5, 0.0, 500.0, 9, longest=200.0)
    other = replace(one, method="BM25", longest=300.0)
    rates = forecast.Rates()
    together = forecast.cost(evaluator.run, [one, other], rates).seconds
    encoding = replace(other, texts=forecast.FEW_TEXTS, encoding_seconds=0.0)
    apart = forecast.cost(evaluator.run, [one, encoding], rates).seconds
    assert apart / together == pytest.approx((200 + 300) / 300)


def test_the_whole_time_is_known_if_every_part_is(monkeypatch):
    monkeypatch.setattr(forecast, "speeds", dict)
    known = forecast.Cost(1, 1.0, 1.0, 30.0, None)
    assert forecast.total_time([known, known], ["cost"]) == ["in all: about 66 s"]
    assert forecast.total_time([known, replace(known, seconds=None)], ["cost"]) == []
    assert forecast.total_time([replace(known, todo=0)], ["cost"]) == []


def test_a_text_of_two_methods_is_encoded_in_the_first_pass():
    texts = {"Block-PKG": ["a", "b", "c"], "Func-PKG": ["a", "d"]}
    passes = encoding_passes(texts)
    assert list(passes.items()) == [("Func-PKG", ["a", "d"]), ("Block-PKG", ["b", "c"])]
