"""A question about one's own code: the same model with and without a context, and the user's test."""

from __future__ import annotations

import dataclasses

import pytest
from fakes import FakeBackend

from pkg_lib.core.types import UserError
from pkg_lib.evaluation import asking, study

CODE = "def blorp(x):\n    return x * 7\n"
WITH = "Use blorp:\n```python\ndef answer(x):\n    return x * 7\n```"
WITHOUT = "```python\ndef answer(x):\n    return x\n```"


@pytest.fixture
def asked(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "a.py").write_text(CODE)

    def ask(question="blorp of x", test="", **more):
        backend = FakeBackend(lambda request: WITH if "blorp(x)" in request.text else WITHOUT)
        return asking.ask(
            folder, question, study.MODEL, "Func-BM25", test=test, backend=backend, **more
        )

    return ask


def test_both_answers_their_prompts_and_verdicts(asked):
    before = []
    without, answer = asked(
        test="assert answer(2) == 14\n", retrieved=lambda *found: before.append(found)
    )
    assert before == [(answer.context, answer.prompt)]
    assert (without.method, answer.method) == ("NoRAG", "Func-BM25")
    assert "return x * 7" not in without.prompt.text and CODE.strip() in answer.prompt.text
    assert answer.context.source == "source/a.py:1-2"
    assert (without.outcome.status, answer.outcome.status) == ("failed", "passed")
    shown = "\n".join([*asking.context_lines(*before[0]), *asking.answer_lines(without, answer)])
    for words in ("source/a.py:1-2", answer.prompt.messages[0]["content"], answer.solution):
        assert words in shown
    assert shown.endswith("verdict: passed") and "verdict: failed (AssertionError" in shown


def test_without_a_test_there_is_no_verdict(asked):
    without, answer = asked()
    assert without.outcome is None and answer.outcome is None
    assert "verdict" not in "\n".join(asking.answer_lines(without, answer))


def test_a_terminal_receives_no_control_characters(asked):
    without, answer = asked()
    hostile = dataclasses.replace(answer, solution="a\x1b[31mb\n\tc")
    shown = "\n".join(asking.answer_lines(without, hostile))
    assert "\x1b" not in shown and "\n\tc" in shown


def test_an_empty_question_and_a_test_that_is_none_are_one_line(asked, tmp_path):
    with pytest.raises(UserError, match="question is empty"):
        asked(" ")
    (tmp_path / "t.py").write_text("def (:\n")
    with pytest.raises(UserError, match="not valid Python"):
        asking.read_test(tmp_path / "t.py")
    (tmp_path / "t.py").write_text("\n")
    with pytest.raises(UserError, match="empty"):
        asking.read_test(tmp_path / "t.py")
    with pytest.raises(UserError, match=r"missing\.py"):
        asking.read_test(tmp_path / "missing.py")


def test_the_command_prints_both_answers(asked, tmp_path, monkeypatch, capsys):
    from pkg_lib import cli

    ask = asking.ask
    backend = FakeBackend(lambda request: WITH if "blorp(x)" in request.text else WITHOUT)
    monkeypatch.setattr(asking, "ask", lambda *given, **more: ask(*given, backend=backend, **more))
    command = ["pkg-lib", "ask", str(tmp_path / "code"), "blorp of x", "--method", "Func-BM25"]
    monkeypatch.setattr("sys.argv", command)
    assert cli.main() == 0
    shown = capsys.readouterr().out
    assert "source/a.py:1-2" in shown and "== answer under NoRAG" in shown
