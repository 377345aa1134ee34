"""Algorithm 1: what a round asks, finds, executes and keeps."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from multiprocessing import get_context

import pytest

from pkg_lib.core.types import Outcome, Task, UnavailableError
from pkg_lib.evaluation.stored_rows import read_provenance
from pkg_lib.evaluation.study import LARGER
from pkg_lib.execution.sandbox import run_jobs
from pkg_lib.generation.cache import GenerationCache
from pkg_lib.generation.generator import Generator
from pkg_lib.papers.evor.evor_loop import EvorRound, has_ended
from pkg_lib.papers.evor.evor_methods import EVOR_METHODS
from pkg_lib.papers.evor.evor_run import NOTHING_WRITTEN
from pkg_lib.papers.evor.execution_feedback import (
    MAX_ERROR,
    REPORT_MARK,
    Draft,
    Feedback,
    read_feedback,
)
from pkg_lib.papers.evor.query_evolution import missing_name_query
from tests.fakes import FakeBackend
from tests.papers.evor.conftest import Toy, answer

NARROW = {"context": 7, "snippets": 3, "answer": 9}  # a context has room for one document
ROUNDS = ["EVOR@0", "EVOR@1", "EVOR@2"]


def passed(preparer, columns):
    return preparer.run.verdicts(columns).fillna(False).sum().to_dict()


def test_a_failed_draft_finds_the_document_that_it_lacked(toy, monkeypatch):
    # The question alone finds another document than the program needs.
    preparer, columns = toy(), [f"EVOR of documents@{n}" for n in range(3)]
    monkeypatch.setattr(type(preparer.run.benchmark_spec), "budgets", NARROW)
    preparer.prepare(columns)
    first, second, _ = (
        {c.task_id: c for c in preparer.run.contexts(c)}["toy/0"].source for c in columns
    )
    assert "math.isqrt" not in first and "math.isqrt" in second
    assert [passed(preparer, [c])[c] for c in columns] == [1, 2, 2]


@pytest.mark.parametrize(
    "method", ["EVOR", "Reflexion"]
)  # drawn from the third round on, from the second
def test_a_finished_task_is_not_asked_again_and_keeps_its_answer(toy, method):
    preparer, columns = toy(), [f"{method}@{n}" for n in range(4)]
    preparer.prepare(columns)
    asked = [r for r in preparer.run.generator.backend.asked if "You write" in r.text]
    assert [r.sample for r in asked if r.task_id == "toy/1"] == [0]
    assert len({preparer.run.contexts(c)[1].sha256 for c in columns}) == 1
    assert len({preparer.run.completions(c)["toy/1"].key for c in columns}) == 1
    drawn = {"EVOR": [0, 0, 2, 3], "Reflexion": [0, 1, 2, 3]}[method]
    assert [r.sample for r in asked if r.task_id == "toy/0"] == drawn[: len(asked) - 1]


def test_a_draft_that_adds_nothing_has_failed(toy):
    evolution = toy().run.knowledge
    script = Task("toy/0", "toy", "import math\nroot = 3", "")
    evolution.tasks = {"toy/0": script}
    evolution.results.solutions = lambda column: {"toy/0": "import math\n\nroot = 3\n"}
    assert evolution.drafts("EVOR@0", {})["toy/0"].feedback.error == NOTHING_WRITTEN
    evolution.results.solutions = lambda column: {"toy/0": "import math\nroot = 3\nroot += 1"}
    assert evolution.drafts("EVOR@0", {})["toy/0"].feedback.ok


def test_success_or_three_equal_feedbacks_end_a_task():
    one, other, fine = Feedback(False, "E: 1"), Feedback(False, "E: 2"), Feedback(True)

    def ends(*feedbacks):
        return has_ended(feedbacks)

    assert ends(fine) and ends(one, fine) and ends(one, one, one) and ends(other, one, one, one)
    assert not (ends(one) or ends(one, one) or ends(one, other, one) or ends(one, one, other))


# What must have been asked for, beside programs, so that the test has seen all kinds of prompts.
ASKED = {
    "DocPrompting": (),
    "Reflexion": ("Say in one or two short sentences",),
    "EVOR": ("Which functions", "A draft of the program failed"),
    "EVOR, nearest names": ("Which functions", "There is no `whole_root`"),
    "EVOR + ExeDec": (
        "Which functions",
        "Name at most three steps",
        "A draft of the program failed",
    ),
    "Evolve query": ("Which functions", "A draft of the program failed"),
}


@pytest.mark.parametrize("method", ASKED)
def test_no_round_sees_a_hidden_test_or_a_solution(toy, method, monkeypatch):
    jobs, preparer = [], toy()
    monkeypatch.setattr(
        "pkg_lib.papers.evor.evor_run.run_jobs",
        lambda of, *a, **k: run_jobs(jobs.extend(of := [*of]) or of, *a, **k),
    )
    monkeypatch.setattr(
        type(preparer.run.benchmark_spec), "budgets", NARROW
    )  # or the first drafts run, and all ends
    preparer.prepare(
        [EVOR_METHODS[method].round_name(n) for n in range(EVOR_METHODS[method].rounds + 1)]
    )
    prompts = [r.text for r in preparer.run.generator.backend.asked]
    assert all(any(kind in text for text in prompts) for kind in (*ASKED[method], "You write"))
    assert not [text for text in prompts if "7777" in text or "the reference" in text]
    assert jobs and not [
        job for job in jobs if any("7777" in text for text in (job.solution, *job.tests))
    ]


def test_contexts_name_the_budget_of_a_method_with_its_own(toy):
    preparer = toy()
    preparer.prepare(["RK", "RK, 500 tokens"])
    recorded = {}
    for method in ("RK", "RK, 500 tokens"):
        provenance = read_provenance(preparer.run.files(method).provenance)
        recorded[method] = provenance["budgets"]["context"]
    assert recorded == {"RK": 1000, "RK, 500 tokens": 500}


def test_rounds_go_on_where_they_were_stopped(toy):
    whole = toy()
    whole.prepare(ROUNDS)
    wanted, count = (
        {c: whole.run.solutions(c) for c in ROUNDS},
        len(whole.run.generator.backend.asked),
    )
    shutil.rmtree(whole.run.results)
    stopped, asked = toy(stop=2), 0
    with pytest.raises(KeyboardInterrupt):
        stopped.prepare(ROUNDS)
    again = toy()
    again.prepare(ROUNDS)
    asked = len(stopped.run.generator.backend.asked) + len(again.run.generator.backend.asked)
    assert {c: again.run.solutions(c) for c in ROUNDS} == wanted and asked == count


def test_rounds_go_on_after_kills_and_write_the_same_programs(toy):
    def answering(request):
        name = (
            f"root_{request.sample}"
            if "You write" in request.text and "def half" in request.text
            else ""
        )
        return f"```python\ndef half(n):\n    return {name}(n)\n```" if name else answer(request)

    columns = [f"EVOR@{n}" for n in range(4)]  # the last two are drawn
    whole = toy(answering)
    whole.prepare(columns)
    wanted = {c: whole.run.solutions(c) for c in columns}
    assert "root_3" in wanted["EVOR@3"]["toy/0"]
    shutil.rmtree(whole.run.results)
    codes = [None]
    while codes[-1] != 0:  # a process that answers twice and is killed at the third
        answers = iter(range(2))

        def last(request, left=answers):
            if next(left, "") == "":
                os.kill(os.getpid(), 9)
            return answering(request)

        process = get_context("fork").Process(target=toy(last).prepare, args=(columns,))
        process.start()
        process.join()
        codes.append(process.exitcode)
        assert codes[-1] in (0, -9) and len(codes) < 12
    assert codes.count(-9) >= 3
    assert {c: toy().run.solutions(c) for c in columns} == wanted


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import math\nmath.whole_root(3)", ("no attribute 'whole_root'", "math.whole_root(3)")),
        ("def f(:\n", ("SyntaxError", "def f(:")),
        ("raise ValueError('x' * 1000000)", ("ValueError: xxx", "raise ValueError('x' * 1000000)")),
        ("raise ValueError('\\ud800')", ("ValueError: \\ud800", "raise ValueError('\\ud800')")),
        ("while True: pass", ("Timeout", "")),
        ("", ("", "")),
    ],
)
def test_feedback_names_the_error_and_its_line(program, said):
    rules = Toy()
    rules.seconds = 1.0
    (outcome,) = run_jobs(
        [rules.draft_job(rules.tasks()[0], program, ())], rules.limits(rules.tasks()[0])
    )
    feedback = read_feedback(outcome)
    assert (
        said[0] in feedback.error
        and feedback.line == said[1]
        and len(feedback.error) <= MAX_ERROR + 20
    )
    assert feedback.ok == (program == "") and feedback.text.encode()


def test_what_a_draft_says_in_the_judges_words_is_text():
    for said in ("[1, null]", '["a", 3]', '"a"', "[1, 2, 3]", "{}"):
        feedback = read_feedback(Outcome("failed", "ValueError", REPORT_MARK + said))
        assert (
            not feedback.ok and isinstance(feedback.error, str) and isinstance(feedback.line, str)
        )


def test_a_name_that_does_not_exist_is_asked_for():
    task = Toy().tasks()[0]
    draft = Draft(
        task,
        "",
        Feedback(
            False, "AttributeError: module 'm' has no attribute 'whole_root'", "m.whole_root(3)"
        ),
    )
    assert missing_name_query(draft).startswith("whole_root whole root")
    newlisp = Draft(task, "", Feedback(False, "ERR: invalid function : (whole-root 3)"))
    assert missing_name_query(newlisp).startswith("whole-root")
    assert missing_name_query(Draft(task, "", Feedback(False, "ValueError: 3"))) == task.prompt


def test_what_comes_nearest_to_a_name_that_does_not_exist_is_named(toy, monkeypatch):
    preparer = toy()
    monkeypatch.setattr(type(preparer.run.benchmark_spec), "budgets", NARROW)
    preparer.prepare([f"EVOR, nearest names@{n}" for n in range(2)])
    asked = [
        r.text for r in preparer.run.generator.backend.asked if "There is no `whole_root`" in r.text
    ]
    nearest = [text.partition("There is no `whole_root`")[2].splitlines()[1] for text in asked]
    assert nearest == ["math.isqrt(n): The whole_root of an integer."]


def test_a_round_is_accounted_for(toy, monkeypatch):
    preparer, columns = toy(), [f"EVOR of documents@{n}" for n in range(3)]
    monkeypatch.setattr(type(preparer.run.benchmark_spec), "budgets", NARROW)
    preparer.prepare(columns)
    zero, one, two = (preparer.run.contexts(c) for c in columns)
    rows = preparer.run.generator.cache.rows.values()
    asked = [
        g for g in rows if g.task_id == "toy/0" and "settings" not in g.meta
    ]  # the inputs, the query
    assert [c.spent for c in zero] == [0, 0]
    assert (
        one[0].spent == sum(len(g.tokens) + g.prompt_tokens for g in asked) > 0 and len(asked) == 2
    )
    (inputs,) = (g for g in rows if g.task_id == "toy/1" and "settings" not in g.meta)
    assert one[1].spent == len(inputs.tokens) + inputs.prompt_tokens and one[1].method == columns[0]
    assert two[0].spent is None and two[1].spent is None  # they ran in the round before
    assert (one[0].query, one[0].recall, one[1].recall) == (
        "The whole_root of an integer.",
        1.0,
        None,
    )
    feedback = preparer.run.knowledge.feedback_rows(columns[0])
    assert feedback["toy/1"]["ok"] and not feedback["toy/0"]["ok"]
    assert preparer.run.measures(columns[1])["used"].dropna().to_dict() == {"toy/0": 1.0}


def test_a_model_of_its_own_may_write_the_queries(toy, monkeypatch):
    other = replace(EVOR_METHODS["EVOR of documents"], query_model=LARGER, input_model=LARGER)
    preparer = toy()
    monkeypatch.setattr(type(preparer.run.benchmark_spec), "budgets", NARROW)
    preparer.prepare(["EVOR of documents@0"])
    larger = Generator(
        LARGER,
        preparer.run.generator.decoding,
        GenerationCache(preparer.run.results / "x"),
        preparer.run.results,
    )
    larger.backend = FakeBackend(answer)
    evolution = preparer.run.knowledge
    evolution.generators[LARGER] = larger
    EvorRound(evolution, other, 1).retrieve(preparer.run.tasks)
    assert {
        ("Which functions" in r.text, "Write five" in r.text) for r in larger.backend.asked
    } == {
        (True, False),
        (False, True),
    }
    assert not any("Which functions" in r.text for r in preparer.run.generator.backend.asked)


def test_examples_of_the_documentation_that_run_are_snippets(toy):
    preparer = toy()
    for run in (preparer.run, toy().run):  # the second time they are known
        assert run.knowledge.verified_examples == ["import math\nmath.gcd(4, 6)"]
    preparer.prepare(["RK"])
    assert (
        "Lines of programs that run:\n```python\nmath.gcd(4, 6)\n```"
        in preparer.run.generator.backend.asked[0].text
    )


def test_generated_inputs_are_valid_where_the_reference_solution_takes_them(toy):
    evolution = toy().run.knowledge
    evolution.count_valid_inputs({"toy/0": ("half(16)", "half('a')", "half(2)"), "toy/1": ()})
    assert [(r["inputs"], r["valid"]) for r in toy().run.knowledge.input_rows()] == [(3, 2), (0, 0)]


def test_which_inputs_are_counted_depends_on_no_order_of_methods(toy):
    """Table 6 is of EVOR's inputs; Reflexion's first drafts are others, and so are the inputs for them."""
    toy().prepare(["EVOR@0", "EVOR@1"])
    rows = toy().run.knowledge.input_rows()
    toy(lambda r: answer(r).replace("half(", "half(1 + ")).prepare(["Reflexion@0", "Reflexion@1"])
    assert rows and toy().run.knowledge.input_rows() == rows


@pytest.mark.parametrize(
    ("said", "calls"),
    [
        ("half(1)\nother(2)", ("half(1)",)),
        ("```python\ndef half(n):\n    return half(0)\nprint(half(2))\nx = half(n=[3])\n```", ("half(2)", "half(n=[3])")),
        ("```python\nhalf(math.pi)\nx = 4\nhalf(x)\nhalf(5", ("half(math.pi)",)),  # x is not known; cut off
        ("Such as these:", ()),
    ],
)  # fmt: skip
def test_calls_are_found_in_whatever_a_model_writes_around_them(said, calls):
    rules = Toy()
    task = replace(rules.tasks()[0], prompt="import math\n" + rules.tasks()[0].prompt)
    assert rules.input_calls(said, task) == calls


def test_pages_of_a_directory_are_a_kind_of_knowledge(toy, monkeypatch, tmp_path):
    preparer = toy()
    with pytest.raises(UnavailableError, match="PKG_EVOR_WEB_DIR"):
        preparer.prepare(["EVOR of web@0"])
    (tmp_path / "web" / "toy").mkdir(parents=True)
    (tmp_path / "web" / "toy" / "a.md").write_text("One more: math.isqrt(n)")
    monkeypatch.setenv("PKG_EVOR_WEB_DIR", str(tmp_path / "web"))
    preparer = toy()
    preparer.prepare(["EVOR of web@0"])
    assert all(
        "isqrt" in r.text and "Documentation" not in r.text
        for r in preparer.run.generator.backend.asked
    )


@pytest.mark.parametrize(("method", "whole"), [("EVOR@1", False), ("EVOR, whole programs@1", True)])
def test_a_draft_that_runs_gives_its_calls_or_itself(toy, method, whole):
    def answering(request):
        fails = "def half" in request.text and "nothing_such" not in request.text
        call = "math.nothing_such(n)" if fails else "math.lcm(n, 3)"
        name = "half" if "def half" in request.text else "add"
        return f"```python\nimport math\n\ndef {name}(n):\n    return {call}\n{name}(3)\n```"

    preparer = toy(answering)
    preparer.prepare([method.replace("@1", "@0"), method])
    last = [r.text for r in preparer.run.generator.backend.asked if "You write" in r.text][-1]
    assert (
        "Lines of programs that run:" in last
        and "math.lcm(n, 3)" in last
        and ("def add" in last) == whole
    )
