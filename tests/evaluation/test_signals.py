"""What a choice among solutions may know: the prompt's own examples, and nothing of a test that it hides."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from fakes import WordEmbedder

from pkg_lib.analysis.selection import (
    BY_EXAMPLES,
    SELECTIONS,
    cross_validated_gate,
    gate_retrieval,
    selected_methods,
    selected_verdicts,
)
from pkg_lib.analysis.stats import mean_pass_at_k
from pkg_lib.core.store import ROOT
from pkg_lib.core.types import ProgramTests, Task
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.data.examples import like_inputs, visible_examples
from pkg_lib.data.mbpp import AssertionTests
from pkg_lib.evaluation import signals
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.signals import (
    Signals,
    encode_solutions,
    gather_signals,
    held_out_jobs,
    judge_held_out,
    read_held_out,
    read_signals,
    signal_jobs,
    stored_signals,
    visible_tasks,
)
from pkg_lib.evaluation.study import MODEL

HIDDEN = "assert inc(41) == 42"
INC = Task(
    "MBPP/1",
    "mbpp",
    "Add one.\nTest: assert inc(1) == 2",
    "inc",
    AssertionTests("", ("assert inc(1) == 2 ", HIDDEN)),
)
RIGHT, LUCKY, LATE, LOOPS = (
    "def inc(x): return x + 1",
    "def inc(x): return 2",
    "def inc(x): return 42 if x > 40 else 0",
    "def inc(x):\n    while True: pass",
)


@pytest.mark.parametrize(
    ("text", "examples"),
    [
        (">>> f('a)', [1])\n    {'b': 2}\n", ["assert f('a)', [1]) == {'b': 2}"]),
        (
            "f(1) == 2, f(2) => true. f(3) should return -1.5.",
            ["f(1) == 2", "f(2) == True", "f(3) == -1.5"],
        ),
        ("f([1,\n 2]) ➞ (1, 'x') # why", ["f([1,\n 2]) == (1, 'x')"]),
        (">>> f(1)\n2\n>>> f(1)\n3", ["f(1) == 2"]),  # each call once
        ("f(1)\n2; f(x) == 3; g(1) == 2; f(1) raises; f(2) == y", []),
        (
            "Test: assert set(f(1)) == set((2,))\nassert f(2)==3",
            ["set(f(1)) == set((2,))", "f(2)==3"],
        ),
    ],
)
def test_examples_are_read_from_a_prompt(text, examples):
    prompt = f'def f(a):\n    """{text}\n    """\n'
    assert [e.removeprefix("assert ") for e in visible_examples(prompt, "f")] == [
        e.removeprefix("assert ") for e in examples
    ]


def test_what_is_read_of_humaneval_stands_in_its_prompts():
    tasks = load_benchmark("humaneval")
    shown = {t.id: visible_examples(t.prompt, t.entry_point) for t in tasks}
    assert sum(map(len, shown.values())) == 404 and sum(map(bool, shown.values())) == 140
    for task in tasks:
        words = "".join(task.prompt.replace("\\\\", "\\").split()).lower()
        for example in shown[task.id]:
            call, _, value = example.removeprefix("assert ").rpartition(" == ")
            assert all("".join(part.split()).lower() in words for part in (call, value))


def hidden_changed(tasks: list[Task]) -> list[Task]:
    hidden = ProgramTests("raise SystemExit")
    return [replace(t, hidden_tests=hidden, solution="raise SystemExit") for t in tasks]


def test_no_hidden_test_reaches_a_choice():
    """Every test and reference solution is another: the evidence stays, and so does each choice."""
    run = Results(MODEL, corpus="textbook+stdlib", limit=30, results=ROOT / "results")
    before = stored_signals(run, run.retrievers)
    choices = {name: selected_methods(before, name) for name in SELECTIONS}
    assert len(before) == 6 and all(len(of) == 30 for of in before.values())
    run.tasks = hidden_changed(run.tasks)
    after = stored_signals(run, run.retrievers)
    assert after == before and all(
        selected_methods(after, name) == choices[name] for name in SELECTIONS
    )
    run.tasks = [replace(t, prompt=t.prompt.replace(">>>", "...")) for t in run.tasks]
    assert len(stored_signals(run, ["NoRAG"])["NoRAG"]) < 30  # the prompt does reach it


def test_what_is_executed_holds_no_hidden_test(monkeypatch, tmp_path):
    """Of what is given to the sandbox: nothing that the prompt does not show."""
    monkeypatch.setattr(signals, "Embedder", WordEmbedder)
    texts = []
    real = signals.run_jobs
    monkeypatch.setattr(
        signals, "run_jobs", lambda jobs, **how: real(texts.extend(jobs) or jobs, **how)
    )
    rows = {}
    for name, tasks in (("told", [INC]), ("changed", hidden_changed([INC]))):
        file = tmp_path / f"{name}.jsonl"
        gather_signals(
            BENCHMARKS["mbpp"],
            visible_tasks(BENCHMARKS["mbpp"], tasks),
            {"": {INC.id: RIGHT + "\n" + HIDDEN}},
            {"": file},
        )
        rows[name] = file.read_text()
    assert rows["told"] == rows["changed"]
    tests = "\n".join(test for job in texts for test in job.tests)
    assert {line for line in tests.splitlines() if "assert" in line} == {"assert inc(1) == 2"}
    humaneval = load_benchmark("humaneval")
    rules = BENCHMARKS["humaneval"]
    visible = visible_tasks(rules, humaneval)
    jobs = [(t, signal_jobs(rules, visible[t.id], "    pass")) for t in humaneval]
    for task, of in jobs:
        shown = {(e,) for e in visible_examples(task.prompt, task.entry_point)}
        assert {job.tests for job in of[2:]} == shown and not any(
            "candidate(" in "".join(j.tests) for j in of
        )


def test_solutions_are_looked_at_once_and_a_stale_row_is_none(monkeypatch, tmp_path):
    monkeypatch.setattr(signals, "EXAMPLE_SECONDS", 0.5)
    monkeypatch.setattr(signals, "Embedder", WordEmbedder)
    rules, asked = BENCHMARKS["mbpp"], visible_tasks(BENCHMARKS["mbpp"], [INC])
    texts = (
        RIGHT,
        LATE,
        LOOPS,
        "def inc(x) return",
        RIGHT + "\nassert inc(1) == 2\nassert inc(0) == 2",
    )
    files = {text: tmp_path / f"{n}.jsonl" for n, text in enumerate(texts)}
    solutions = {text: {INC.id: text} for text in texts}
    gather_signals(rules, asked, solutions, files)
    right, late, loops, broken, own = (
        read_signals(rules, asked, solutions[text], file)[INC.id] for text, file in files.items()
    )
    assert (right.passed, right.shown, right.parses, right.runs) == (1, 1, True, True)
    assert late.passed == 0 and late.behaviour not in ("", right.behaviour)
    assert (loops.passed, loops.behaviour, loops.runs) == (0, "", True)
    assert (broken.parses, broken.runs) == (False, False) and not own.runs
    assert right.runs_as_written and not own.runs_as_written
    assert read_signals(rules, asked, {INC.id: RIGHT}, files[LATE]) == {}  # it is on another text
    monkeypatch.setattr(
        signals, "run_jobs", lambda jobs, **_: iter(jobs and pytest.fail("executed"))
    )
    gather_signals(rules, asked, solutions, files)
    encode_solutions(rules, asked, solutions, files)
    assert all(
        read_signals(rules, asked, solutions[t], f)[INC.id].cosine is not None
        for t, f in files.items()
    )


def test_a_failing_copy_of_an_example_counts_where_the_answer_runs_as_written(tmp_path):
    """The program is judged without the copy, and the authors' reranker executes it."""
    rules, asked = BENCHMARKS["mbpp"], visible_tasks(BENCHMARKS["mbpp"], [INC])
    wrong = "def inc(x):\n    return x"
    copied = wrong + "\nassert inc(1) == 2"
    for text, as_written in (
        (wrong, True),
        (copied, False),
        (RIGHT + "\nassert inc(1) == 2", True),
    ):
        file = tmp_path / f"{len(text)}.jsonl"
        gather_signals(rules, asked, {"m": {INC.id: text}}, {"m": file})
        found = read_signals(rules, asked, {INC.id: text}, file)[INC.id]
        assert (found.runs, found.runs_as_written) == (True, as_written)


def test_a_copied_example_is_taken_out_before_the_program_is_looked_at():
    rules = BENCHMARKS["mbpp"]
    task = visible_tasks(rules, [INC])[INC.id]
    program = signal_jobs(rules, task, LATE + "\nassert inc(1) == 2")[0].solution
    assert "assert" not in program


def test_unshown_tests_decide_where_a_prompt_shows_tests(tmp_path):
    rules, file, passed = BENCHMARKS["mbpp"], tmp_path / "x", {"MBPP/1": False}
    for text, verdict in ((LUCKY, False), (LATE, True)):
        jobs = held_out_jobs(rules, [INC], {INC.id: text})
        assert jobs[INC.id].tests == (HIDDEN,) and read_held_out(jobs, file) == {}
        judge_held_out(jobs, passed, file)
        assert read_held_out(jobs, file) == read_held_out(None, file) == {INC.id: verdict}
    all_shown = replace(INC, prompt=f"{INC.prompt}\n{HIDDEN}")
    assert held_out_jobs(rules, [all_shown], {INC.id: RIGHT}) == {}
    assert held_out_jobs(rules, [replace(INC, prompt="Add one.")], {INC.id: RIGHT}) is None


def test_generated_inputs_are_seeded_and_of_the_same_types():
    examples = ("assert f([1, 'ab'], {'k': True}) == 1", "assert f((2.5,), None) == f(x)")
    inputs = like_inputs(examples, "f", "seed")
    assert inputs == like_inputs(examples, "f", "seed") != like_inputs(examples, "f", "other")
    assert {tuple(type(v) for v in args) for args in inputs} == {(list, dict), (tuple, type(None))}
    assert like_inputs(["assert f(x) == 1"], "f", "seed") == []


def known(passed: int, behaviour: str = "", cosine: float = 0.0, runs: bool = True) -> Signals:
    return Signals("t", "", passed, 2, behaviour, runs, runs, runs, -cosine, cosine)


def choice(**of: Signals) -> dict[str, str]:
    return {name: choose(of) for name, choose in SELECTIONS.items()}


def test_choices_and_their_ties():
    tied = choice(A=known(1), None_=known(1), B=known(0))
    assert {tied[n] for n in BY_EXAMPLES} == {"A"}
    of = {
        "A": known(1),
        "NoRAG": known(1),
        "B": known(2, "x"),
        "C": known(2, "y"),
        "D": known(2, "y"),
    }
    assert [choose(of) for choose in BY_EXAMPLES.values()] == ["B", "C", "C"]
    del of["B"], of["C"], of["D"]
    assert {choose(of) for choose in BY_EXAMPLES.values()} == {"NoRAG"}
    near = choice(
        A=known(2, cosine=0.9, runs=False), B=known(0, cosine=0.5), C=known(0, cosine=0.1)
    )
    assert (near["Equation 11, as printed"], near["Equation 11, authors' code"]) == ("B", "C")


def test_codet_may_prefer_many_that_agree_to_one_that_passes_more():
    of = {"A": known(2, "x"), "B": known(1, "y"), "C": known(1, "y"), "D": known(1, "y")}
    assert SELECTIONS["CodeT"](of) == "B" and SELECTIONS["Visible, then agreement"](of) == "A"


def test_a_choice_is_not_measured_where_a_candidate_is_not():
    of = {c: {i: known(c == "B") for i in "1234"} for c in ("NoRAG", "B")}
    del of["B"]["4"]
    verdicts = pd.DataFrame(
        {"NoRAG": [False, True, True, True], "B": [True, False, None, True]},
        list("1234"),
        dtype="boolean",
    )
    frame = selected_verdicts(of, verdicts)
    assert frame["Visible"].isna().tolist() == [False, False, True, True]
    assert frame["Visible"][:2].tolist() == [True, False] and frame["Ideal Reranker"][:2].all()


def test_pass_at_k_of_draws_is_the_unbiased_estimate_over_tasks():
    draws = pd.DataFrame({1: [1, 0, 0], 2: [0, 0, None], 3: [1, 0, None]}, dtype="boolean")
    two = mean_pass_at_k(draws, 2)
    assert (two.n, two.value) == (2, 0.5) and (two.low, two.high) == (
        0.0,
        1.0,
    )  # 1 - C(1,2)/C(3,2) = 1, and 0
    assert mean_pass_at_k(draws, 1).value == pytest.approx((2 / 3 + 0 + 0) / 3)
    assert mean_pass_at_k(draws, 4) is None


def test_a_gate_asks_only_where_none_fails_its_examples():
    """Of ten tasks None fails the examples of four; asked there, the other column passes two of them."""
    tasks = [str(n) for n in range(10)]
    none = {i: known(0 if n < 4 else 2) for n, i in enumerate(tasks)}
    evidence_ = {"NoRAG": none, "B": {i: known(2 if n < 2 else 0) for n, i in enumerate(tasks)}}
    right = {"NoRAG": [n >= 4 for n in range(10)], "B": [n < 2 for n in range(10)]}
    verdicts = pd.DataFrame(right, tasks, dtype="boolean")
    tokens = pd.DataFrame({"NoRAG": 10.0, "B": 100.0}, tasks)
    never, always = (gate_retrieval(evidence_, verdicts, tokens, gate) for gate in (0.0, 1.0))
    assert (never.asked.sum(), never.passed.sum(), never.spent.sum()) == (0, 6, 100)
    assert (always.asked.sum(), always.taken.sum(), always.passed.sum(), always.spent.sum()) == (
        4,
        2,
        8,
        500,
    )
    by_folds = cross_validated_gate(evidence_, verdicts, tokens)
    assert list(by_folds.index) == tasks and by_folds.passed.sum() in (6, 7, 8)
    useless = cross_validated_gate(evidence_, verdicts.assign(B=False), tokens)
    assert useless.spent.sum() == 100  # what asking never helps, it never costs
    assert len(gate_retrieval(evidence_, verdicts, tokens.drop("3"), 1.0)) == 9


def test_a_gate_is_chosen_on_other_tasks_alone():
    """None fails one task of ten, where the other column would help: no other task could have told so."""
    tasks = [str(n) for n in range(10)]
    evidence_ = {
        "NoRAG": {i: known(2 * (i != "0")) for i in tasks},
        "B": dict.fromkeys(tasks, known(2)),
    }
    verdicts = pd.DataFrame({"NoRAG": [i != "0" for i in tasks], "B": True}, tasks, dtype="boolean")
    tokens = pd.DataFrame({"NoRAG": 10.0, "B": 100.0}, tasks)
    assert gate_retrieval(evidence_, verdicts, tokens, 1.0).passed.all()
    assert not cross_validated_gate(evidence_, verdicts, tokens, folds=10).passed["0"]
