"""Algorithm 1: what a round asks, finds, executes and keeps."""

from __future__ import annotations

import pytest

from pkg_lib.execution.sandbox import run_jobs
from pkg_lib.papers.evor.methods import METHODS
from pkg_lib.papers.evor.rounds import Draft, absent_names
from pkg_lib.papers.evor.unfamiliar import LONGEST, Feedback
from tests.papers.evor.conftest import Toy, answer

ROUNDS = ["EVOR@0", "EVOR@1", "EVOR@2"]


def passed(preparer, columns):
    return preparer.run.verdicts(columns).fillna(False).sum().to_dict()


def test_a_failed_draft_finds_the_document_that_it_lacked(toy, monkeypatch):
    monkeypatch.setattr("tests.papers.evor.conftest.Toy.budgets", {"context": 20, "snippets": 5, "answer": 9})
    preparer = toy()
    preparer.prepare(ROUNDS)
    first, second, _ = ({c.task_id: c for c in preparer.run.contexts(c)} for c in ROUNDS)
    assert "math.isqrt" in second["toy/0"].source
    assert (
        "no attribute 'whole_root'" in str(preparer.run.outcomes("EVOR@0")["toy/0"].detail)
        or first["toy/0"].source
    )
    assert passed(preparer, ROUNDS)["EVOR@2"] == 2


def test_a_finished_task_is_not_asked_again(toy):
    preparer = toy()
    preparer.prepare(ROUNDS)
    asked = [r.task_id for r in preparer.run.generator.backend.asked if "You write" in r.text]
    assert asked.count("toy/1") == 1
    contexts = [preparer.run.contexts(c)[1].sha256 for c in ROUNDS]
    assert len(set(contexts)) == 1 and passed(preparer, ROUNDS)["EVOR@2"] == 2


def test_three_equal_feedbacks_end_a_task(toy):
    wrong = lambda r: "1" if "Write five" in r.text else "```python\ndef root(n):\n    return absent\n```"  # noqa: E731
    preparer = toy(lambda r: wrong(r) if "root" in r.text else answer(r))
    preparer.prepare([f"Evolve knowledge@{n}" for n in range(5)])
    texts = [
        r.text for r in preparer.run.generator.backend.asked if "You write" in r.text and r.task_id == "toy/0"
    ]
    assert 1 <= len(texts) <= 3


@pytest.mark.parametrize("method", ["EVOR", "Reflexion", "EVOR + ExeDec", "DocPrompting", "Evolve query"])
def test_no_round_sees_a_hidden_test(toy, method, monkeypatch):
    jobs = []
    monkeypatch.setattr(
        "pkg_lib.papers.evor.rounds.run_jobs",
        lambda of, *a, **k: run_jobs(jobs.extend(of := [*of]) or of, *a, **k),
    )
    preparer = toy()
    preparer.prepare([METHODS[method].column(n) for n in range(METHODS[method].rounds + 1)])
    seen = [r.text for r in preparer.run.generator.backend.asked] + [
        t for j in jobs for t in (j.solution, *j.tests)
    ]
    assert seen and not any("7777" in text for text in seen)


def test_rounds_go_on_where_they_were_stopped(toy):
    whole = toy()
    whole.prepare(ROUNDS)
    wanted, count = {c: whole.run.solutions(c) for c in ROUNDS}, len(whole.run.generator.backend.asked)
    import shutil

    shutil.rmtree(whole.run.results)
    stopped, asked = toy(stop=2), 0
    with pytest.raises(KeyboardInterrupt):
        stopped.prepare(ROUNDS)
    again = toy()
    again.prepare(ROUNDS)
    asked = len(stopped.run.generator.backend.asked) + len(again.run.generator.backend.asked)
    assert {c: again.run.solutions(c) for c in ROUNDS} == wanted and asked == count


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import math\nmath.whole_root(3)", ("no attribute 'whole_root'", "math.whole_root(3)")),
        ("def f(:\n", ("SyntaxError", "def f(:")),
        ("raise ValueError('x' * 1000000)", ("ValueError: xxx", "raise ValueError('x' * 1000000)")),
        ("while True: pass", ("Timeout", "")),
        ("", ("", "")),
    ],
)
def test_feedback_names_the_error_and_its_line(program, said):
    rules = Toy()
    rules.seconds = 1.0
    (outcome,) = run_jobs([rules.look(rules.tasks()[0], program, ())], rules.limits(rules.tasks()[0]))
    feedback = rules.feedback(outcome)
    assert said[0] in feedback.error and feedback.line == said[1] and len(feedback.error) <= LONGEST + 20
    assert feedback.ok == (program == "")


def test_a_name_that_does_not_exist_is_asked_for():
    task = Toy().tasks()[0]
    draft = Draft(
        task,
        "",
        Feedback(False, "AttributeError: module 'm' has no attribute 'whole_root'", "m.whole_root(3)"),
    )
    assert absent_names(draft).startswith("whole_root whole root")
    assert absent_names(Draft(task, "", Feedback(False, "ValueError: 3"))) == task.prompt
