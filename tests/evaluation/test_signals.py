"""Test-free signals: they come from visible examples and never from a hidden test."""

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

# The prompt shows the first test of this task and hides the second.
SHOWN = "assert inc(1) == 2"
HIDDEN = "assert inc(41) == 42"
INC = Task(
    "MBPP/1",
    "mbpp",
    "Add one.\nTest: assert inc(1) == 2",
    "inc",
    AssertionTests("", ("assert inc(1) == 2 ", HIDDEN)),
)

PASSES_BOTH = "def inc(x): return x + 1"
PASSES_SHOWN = "def inc(x): return 2"
PASSES_HIDDEN = "def inc(x): return 42 if x > 40 else 0"
NEVER_RETURNS = "def inc(x):\n    while True: pass"


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
def test_reads_examples_from_a_prompt(text, examples):
    prompt = f'def f(a):\n    """{text}\n    """\n'
    found = [example.removeprefix("assert ") for example in visible_examples(prompt, "f")]
    assert found == [example.removeprefix("assert ") for example in examples]


def test_examples_of_humaneval_occur_in_its_prompts():
    def squeeze(text):
        return "".join(text.split())

    tasks = load_benchmark("humaneval")
    examples = {task.id: visible_examples(task.prompt, task.entry_point) for task in tasks}
    assert sum(len(found) for found in examples.values()) == 404
    assert sum(bool(found) for found in examples.values()) == 140
    for task in tasks:
        prompt = squeeze(task.prompt.replace("\\\\", "\\")).lower()
        for example in examples[task.id]:
            call, _, value = example.removeprefix("assert ").rpartition(" == ")
            assert squeeze(call).lower() in prompt
            assert squeeze(value).lower() in prompt


def replace_hidden_parts(tasks: list[Task]) -> list[Task]:
    """Replace the hidden tests and the reference solution of every task."""
    hidden = ProgramTests("raise SystemExit")
    return [replace(task, hidden_tests=hidden, solution="raise SystemExit") for task in tasks]


def test_hidden_tests_do_not_influence_the_selection():
    run = Results(MODEL, corpus="textbook+stdlib", limit=30, results=ROOT / "results")
    before = stored_signals(run, run.retrievers)
    selected = {name: selected_methods(before, name) for name in SELECTIONS}
    assert len(before) == 6
    assert all(len(of_method) == 30 for of_method in before.values())

    run.tasks = replace_hidden_parts(run.tasks)
    after = stored_signals(run, run.retrievers)
    assert after == before
    for name in SELECTIONS:
        assert selected_methods(after, name) == selected[name]

    # A changed prompt does change the signals, so the comparison above can fail.
    run.tasks = [replace(task, prompt=task.prompt.replace(">>>", "...")) for task in run.tasks]
    assert len(stored_signals(run, ["NoRAG"])["NoRAG"]) < 30


def test_stored_selections_follow_from_the_stored_signals():
    """Reranked and the analysis of the signals make the same choice."""
    run = Results(MODEL, corpus="textbook+stdlib", results=ROOT / "results")
    stored = stored_signals(run, run.candidates)
    rows = run.selections()
    assert len(rows) == len(run.tasks)
    names = {"chosen": "Equation 11, authors' code", "chosen_as_printed": "Equation 11, as printed"}
    for field, name in names.items():
        chosen = {task_id: row[field] for task_id, row in rows.items()}
        assert chosen == selected_methods(stored, name)


def test_executed_programs_contain_no_hidden_test(monkeypatch, tmp_path):
    monkeypatch.setattr(signals, "Embedder", WordEmbedder)
    executed = []
    run_jobs = signals.run_jobs

    def record_and_run(jobs, **options):
        executed.extend(jobs)
        return run_jobs(jobs, **options)

    monkeypatch.setattr(signals, "run_jobs", record_and_run)
    mbpp = BENCHMARKS["mbpp"]
    solutions = {"": {INC.id: PASSES_BOTH + "\n" + HIDDEN}}

    def gathered(name, task):
        file = tmp_path / f"{name}.jsonl"
        gather_signals(mbpp, visible_tasks(mbpp, [task]), solutions, {"": file})
        return file.read_text()

    (changed,) = replace_hidden_parts([INC])
    assert gathered("original", INC) == gathered("changed", changed)
    tests = "\n".join(test for job in executed for test in job.tests)
    assert {line for line in tests.splitlines() if "assert" in line} == {SHOWN}


def test_jobs_of_humaneval_contain_only_visible_examples():
    tasks = load_benchmark("humaneval")
    humaneval = BENCHMARKS["humaneval"]
    visible = visible_tasks(humaneval, tasks)
    for task in tasks:
        jobs = signal_jobs(humaneval, visible[task.id], "    pass")
        examples = visible_examples(task.prompt, task.entry_point)
        assert {job.tests for job in jobs[2:]} == {(example,) for example in examples}
        assert not any("candidate(" in "".join(job.tests) for job in jobs)


def test_gathers_signals_once_and_ignores_rows_of_another_solution(monkeypatch, tmp_path):
    monkeypatch.setattr(signals, "EXAMPLE_SECONDS", 0.5)
    monkeypatch.setattr(signals, "Embedder", WordEmbedder)
    mbpp = BENCHMARKS["mbpp"]
    tasks = visible_tasks(mbpp, [INC])
    texts = {
        "right": PASSES_BOTH,
        "passes hidden": PASSES_HIDDEN,
        "loops": NEVER_RETURNS,
        "broken": "def inc(x) return",
        "with assertions": PASSES_BOTH + "\nassert inc(1) == 2\nassert inc(0) == 2",
    }
    files = {name: tmp_path / f"{name}.jsonl" for name in texts}
    solutions = {name: {INC.id: text} for name, text in texts.items()}
    gather_signals(mbpp, tasks, solutions, files)

    def stored(name):
        return read_signals(mbpp, tasks, solutions[name], files[name])[INC.id]

    right = stored("right")
    assert (right.passed, right.shown, right.parses, right.runs) == (1, 1, True, True)
    assert right.runs_as_written
    passes_hidden = stored("passes hidden")
    assert passes_hidden.passed == 0
    assert passes_hidden.behaviour not in ("", right.behaviour)
    loops = stored("loops")
    assert (loops.passed, loops.behaviour, loops.runs) == (0, "", True)
    broken = stored("broken")
    assert (broken.parses, broken.runs) == (False, False)
    with_assertions = stored("with assertions")
    assert not with_assertions.runs
    assert not with_assertions.runs_as_written

    # The stored row belongs to another solution.
    assert read_signals(mbpp, tasks, {INC.id: PASSES_BOTH}, files["passes hidden"]) == {}

    def refuse_jobs(jobs, **_options):
        if jobs:
            pytest.fail("a solution was executed again")
        return iter(jobs)

    monkeypatch.setattr(signals, "run_jobs", refuse_jobs)
    gather_signals(mbpp, tasks, solutions, files)
    encode_solutions(mbpp, tasks, solutions, files)
    for name in texts:
        assert stored(name).cosine is not None


def test_failing_copy_of_an_example_counts_when_the_answer_runs_as_written(tmp_path):
    """The program is judged without the copy, but the authors' reranker executes it."""
    mbpp = BENCHMARKS["mbpp"]
    tasks = visible_tasks(mbpp, [INC])
    wrong = "def inc(x):\n    return x"
    expected = {
        wrong: True,
        wrong + "\n" + SHOWN: False,
        PASSES_BOTH + "\n" + SHOWN: True,
    }
    for number, (text, runs_as_written) in enumerate(expected.items()):
        file = tmp_path / f"{number}.jsonl"
        gather_signals(mbpp, tasks, {"m": {INC.id: text}}, {"m": file})
        found = read_signals(mbpp, tasks, {INC.id: text}, file)[INC.id]
        assert found.runs
        assert found.runs_as_written == runs_as_written


def test_removes_a_copied_example_from_the_program():
    mbpp = BENCHMARKS["mbpp"]
    task = visible_tasks(mbpp, [INC])[INC.id]
    jobs = signal_jobs(mbpp, task, PASSES_HIDDEN + "\n" + SHOWN)
    assert "assert" not in jobs[0].solution


def test_held_out_tests_decide_when_a_prompt_shows_some_tests(tmp_path):
    mbpp = BENCHMARKS["mbpp"]
    file = tmp_path / "x"
    failed = {INC.id: False}
    for text, verdict in ((PASSES_SHOWN, False), (PASSES_HIDDEN, True)):
        jobs = held_out_jobs(mbpp, [INC], {INC.id: text})
        assert jobs[INC.id].tests == (HIDDEN,)
        assert read_held_out(jobs, file) == {}
        judge_held_out(jobs, failed, file)
        assert read_held_out(jobs, file) == {INC.id: verdict}
        assert read_held_out(None, file) == {INC.id: verdict}
    shows_all_tests = replace(INC, prompt=f"{INC.prompt}\n{HIDDEN}")
    assert held_out_jobs(mbpp, [shows_all_tests], {INC.id: PASSES_BOTH}) == {}
    shows_no_test = replace(INC, prompt="Add one.")
    assert held_out_jobs(mbpp, [shows_no_test], {INC.id: PASSES_BOTH}) is None


def test_generated_inputs_depend_on_the_seed_and_keep_the_types():
    examples = ("assert f([1, 'ab'], {'k': True}) == 1", "assert f((2.5,), None) == f(x)")
    inputs = like_inputs(examples, "f", "seed")
    assert inputs == like_inputs(examples, "f", "seed")
    assert inputs != like_inputs(examples, "f", "other")
    types = {tuple(type(value) for value in arguments) for arguments in inputs}
    assert types == {(list, dict), (tuple, type(None))}
    assert like_inputs(["assert f(x) == 1"], "f", "seed") == []


def known_signals(
    passed: int, behaviour: str = "", cosine: float = 0.0, runs: bool = True
) -> Signals:
    """Return signals of a solution that passes ``passed`` of two examples."""
    return Signals("t", "", passed, 2, behaviour, runs, runs, runs, -cosine, cosine)


def select_by_examples(candidates: dict[str, Signals]) -> list[str]:
    """Return the method that each selection by visible examples takes."""
    return [select(candidates) for select in BY_EXAMPLES.values()]


def test_selections_and_how_they_break_ties():
    tied = {"A": known_signals(1), "None_": known_signals(1), "B": known_signals(0)}
    for name in BY_EXAMPLES:
        assert SELECTIONS[name](tied) == "A"

    candidates = {
        "A": known_signals(1),
        "NoRAG": known_signals(1),
        "B": known_signals(2, "x"),
        "C": known_signals(2, "y"),
        "D": known_signals(2, "y"),
    }
    assert select_by_examples(candidates) == ["B", "C", "C"]
    only_tied = {"A": candidates["A"], "NoRAG": candidates["NoRAG"]}
    assert set(select_by_examples(only_tied)) == {"NoRAG"}

    by_cosine = {
        "A": known_signals(2, cosine=0.9, runs=False),
        "B": known_signals(0, cosine=0.5),
        "C": known_signals(0, cosine=0.1),
    }
    assert SELECTIONS["Equation 11, as printed"](by_cosine) == "B"
    assert SELECTIONS["Equation 11, authors' code"](by_cosine) == "C"


def test_codet_may_prefer_a_large_cluster_to_one_solution_that_passes_more():
    candidates = {
        "A": known_signals(2, "x"),
        "B": known_signals(1, "y"),
        "C": known_signals(1, "y"),
        "D": known_signals(1, "y"),
    }
    assert SELECTIONS["CodeT"](candidates) == "B"
    assert SELECTIONS["Visible, then agreement"](candidates) == "A"


def test_selection_is_not_measured_when_a_candidate_is_not_measured():
    tasks = ["1", "2", "3", "4"]
    of_methods = {
        "NoRAG": {task: known_signals(0) for task in tasks},
        "B": {task: known_signals(1) for task in tasks if task != "4"},
    }
    verdicts = pd.DataFrame(
        {"NoRAG": [False, True, True, True], "B": [True, False, None, True]},
        tasks,
        dtype="boolean",
    )
    frame = selected_verdicts(of_methods, verdicts)
    assert frame["Visible"].isna().tolist() == [False, False, True, True]
    assert frame["Visible"][:2].tolist() == [True, False]
    assert frame["Ideal Reranker"][:2].all()


def test_pass_at_k_of_samples_is_the_unbiased_estimate_over_tasks():
    samples = pd.DataFrame({1: [1, 0, 0], 2: [0, 0, None], 3: [1, 0, None]}, dtype="boolean")
    two = mean_pass_at_k(samples, 2)
    # The first task counts 1 - C(1,2)/C(3,2) = 1, the second counts 0.
    assert (two.n, two.value) == (2, 0.5)
    assert (two.low, two.high) == (0.0, 1.0)
    assert mean_pass_at_k(samples, 1).value == pytest.approx((2 / 3 + 0 + 0) / 3)
    assert mean_pass_at_k(samples, 4) is None


TASKS = [str(number) for number in range(10)]
TOKENS = pd.DataFrame({"NoRAG": 10.0, "B": 100.0}, TASKS)


def test_gate_retrieves_only_where_norag_fails_its_examples():
    """NoRAG fails the examples of four tasks; retrieval solves two of these."""
    no_rag_fails = {"0", "1", "2", "3"}
    retrieval_passes = {"0", "1"}
    of_methods = {
        "NoRAG": {task: known_signals(0 if task in no_rag_fails else 2) for task in TASKS},
        "B": {task: known_signals(2 if task in retrieval_passes else 0) for task in TASKS},
    }
    passed = {
        "NoRAG": [task not in no_rag_fails for task in TASKS],
        "B": [task in retrieval_passes for task in TASKS],
    }
    verdicts = pd.DataFrame(passed, TASKS, dtype="boolean")

    never = gate_retrieval(of_methods, verdicts, TOKENS, 0.0)
    assert never.asked.sum() == 0
    assert never.passed.sum() == 6
    assert never.spent.sum() == 100
    always = gate_retrieval(of_methods, verdicts, TOKENS, 1.0)
    assert always.asked.sum() == 4
    assert always.taken.sum() == 2
    assert always.passed.sum() == 8
    assert always.spent.sum() == 500

    by_folds = cross_validated_gate(of_methods, verdicts, TOKENS)
    assert list(by_folds.index) == TASKS
    assert by_folds.passed.sum() in (6, 7, 8)
    useless = cross_validated_gate(of_methods, verdicts.assign(B=False), TOKENS)
    assert useless.spent.sum() == 100, "retrieval that never helps must cost nothing"
    assert len(gate_retrieval(of_methods, verdicts, TOKENS.drop("3"), 1.0)) == 9


def test_gate_is_fitted_on_other_tasks_only():
    """Retrieval helps on one task of ten, and no other task reveals that."""
    of_methods = {
        "NoRAG": {task: known_signals(0 if task == "0" else 2) for task in TASKS},
        "B": {task: known_signals(2) for task in TASKS},
    }
    passed = {"NoRAG": [task != "0" for task in TASKS], "B": True}
    verdicts = pd.DataFrame(passed, TASKS, dtype="boolean")
    assert gate_retrieval(of_methods, verdicts, TOKENS, 1.0).passed.all()
    assert not cross_validated_gate(of_methods, verdicts, TOKENS, folds=10).passed["0"]
