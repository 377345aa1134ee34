"""The ``ask`` command: answers with and without retrieved code, judged by the user's test."""

from __future__ import annotations

import dataclasses

import pytest
from fakes import FakeBackend

from pkg_lib.core.types import UserError
from pkg_lib.evaluation import asking, study

CODE = "def blorp(x):\n    return x * 7\n"
WITH_CONTEXT = "Use blorp:\n```python\ndef answer(x):\n    return x * 7\n```"
WITHOUT_CONTEXT = "```python\ndef answer(x):\n    return x\n```"


def make_backend():
    """Return a model that answers right only when the prompt shows the code."""
    return FakeBackend(
        lambda request: WITH_CONTEXT if "blorp(x)" in request.text else WITHOUT_CONTEXT
    )


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Function that asks a question about a folder with one function."""
    monkeypatch.setenv("PKG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "a.py").write_text(CODE)

    def ask(question="blorp of x", test="", **options):
        return asking.ask(
            folder,
            question,
            study.MODEL,
            "Func-BM25",
            test=test,
            backend=make_backend(),
            **options,
        )

    return ask


def test_returns_both_answers_with_prompts_and_verdicts(ask):
    retrieved = []
    without, answer = ask(
        test="assert answer(2) == 14\n",
        retrieved=lambda context, prompt: retrieved.append((context, prompt)),
    )
    assert retrieved == [(answer.context, answer.prompt)]
    assert (without.method, answer.method) == ("NoRAG", "Func-BM25")
    assert "return x * 7" not in without.prompt.text
    assert CODE.strip() in answer.prompt.text
    assert answer.context.source == "source/a.py:1-2"
    assert without.outcome.status == "failed"
    assert answer.outcome.status == "passed"


def test_prints_context_prompt_answers_and_verdicts(ask):
    without, answer = ask(test="assert answer(2) == 14\n")
    lines = asking.context_lines(answer.context, answer.prompt)
    lines = [*lines, *asking.answer_lines(without, answer)]
    printed = "\n".join(lines)
    assert "source/a.py:1-2" in printed
    assert answer.prompt.messages[0]["content"] in printed
    assert answer.solution in printed
    assert "verdict: failed (AssertionError" in printed
    assert printed.endswith("verdict: passed")


def test_without_a_test_there_is_no_verdict(ask):
    without, answer = ask()
    assert without.outcome is None
    assert answer.outcome is None
    assert "verdict" not in "\n".join(asking.answer_lines(without, answer))


def test_removes_control_characters_from_printed_answers(ask):
    without, answer = ask()
    hostile = dataclasses.replace(answer, solution="a\x1b[31mb\n\tc")
    printed = "\n".join(asking.answer_lines(without, hostile))
    assert "\x1b" not in printed
    assert "\n\tc" in printed


def test_rejects_an_empty_question_and_an_unusable_test(ask, tmp_path):
    with pytest.raises(UserError, match="question is empty"):
        ask(" ")
    test = tmp_path / "t.py"
    test.write_text("def (:\n")
    with pytest.raises(UserError, match="not valid Python"):
        asking.read_test(test)
    test.write_text("\n")
    with pytest.raises(UserError, match="empty"):
        asking.read_test(test)
    with pytest.raises(UserError, match=r"missing\.py"):
        asking.read_test(tmp_path / "missing.py")


def test_prints_answers_side_by_side_in_a_wide_terminal(ask):
    without, answer = ask()
    narrow = list(asking.answer_lines(without, answer, 122))
    assert narrow == list(asking.answer_lines(without, answer))
    wide = list(asking.answer_lines(without, answer, 123))
    assert wide[0].split(" | ") == [f"{'== answer under NoRAG':<60}", "== answer under Func-BM25"]
    assert len(wide) < len(narrow)
    assert all(len(line) <= 123 for line in wide)


@pytest.mark.parametrize(
    "text",
    [
        "def test_answer():\n    assert answer(2) == 14\n",
        "if __name__ == '__main__':\n    assert answer(2) == 14\n",
        "import unittest\n\nclass TestAnswer(unittest.TestCase):\n    def test_answer(self):\n"
        "        self.assertEqual(answer(2), 14)\n\nif __name__ == '__main__':\n    unittest.main()\n",
    ],
)
def test_runs_test_functions_and_test_cases(ask, tmp_path, text):
    test = tmp_path / "t.py"
    test.write_text(text)
    without, answer = ask(test=asking.read_test(test))
    assert (without.outcome.status, answer.outcome.status) == ("failed", "passed")


@pytest.mark.parametrize(
    "text",
    [
        "import math\n\ndef check():\n    assert answer(2) == 14\n",
        '"""Tests of answer."""\nX = 14\n',
    ],
)
def test_rejects_a_test_that_tests_nothing(tmp_path, text):
    test = tmp_path / "t.py"
    test.write_text(text)
    with pytest.raises(UserError, match="tests nothing"):
        asking.read_test(test)


@pytest.mark.parametrize(
    "text",
    [
        "def test_answer(fixture):\n    assert answer(2) == 14\n",
        "class TestAnswer:\n    def test_answer(self):\n        assert answer(2) == 14\n",
        "async def test_answer():\n    assert answer(2) == 14\n",
    ],
)
def test_rejects_a_test_that_only_pytest_could_run(tmp_path, text):
    test = tmp_path / "t.py"
    test.write_text(text)
    with pytest.raises(UserError, match="needs pytest"):
        asking.read_test(test)


def test_keeps_other_conditions_on_the_name_of_the_module(ask, tmp_path):
    test = tmp_path / "t.py"
    test.write_text("if __name__ == 'another':\n    assert False\nassert answer(2) == 14\n")
    _, answer = ask(test=asking.read_test(test))
    assert answer.outcome.status == "passed"


def test_command_prints_both_answers(ask, tmp_path, monkeypatch, capsys):
    from pkg_lib import cli

    real_ask = asking.ask

    def ask_with_fake_model(*arguments, **options):
        return real_ask(*arguments, backend=make_backend(), **options)

    monkeypatch.setattr(asking, "ask", ask_with_fake_model)
    command = ["pkg-lib", "ask", str(tmp_path / "code"), "blorp of x", "--method", "Func-BM25"]
    monkeypatch.setattr("sys.argv", command)
    assert cli.main() == 0
    printed = capsys.readouterr().out
    assert str(tmp_path / "code" / "a.py:1-2") in printed
    assert "== answer under NoRAG" in printed
