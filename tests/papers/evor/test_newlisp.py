"""newLISP: verdicts on programs, feedback on drafts, and isolation of untrusted programs in the sandbox."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pkg_lib.core.types import BenchmarkMissingError, Outcome, UserError
from pkg_lib.execution.sandbox import Job, run_jobs
from pkg_lib.papers.evor import newlisp
from pkg_lib.papers.evor.execution_feedback import read_feedback
from pkg_lib.papers.evor.newlisp import NewLisp, judged, same
from tests.papers.evor import newlisp_recipe as recipe

BENCHMARK = NewLisp()
TASKS = {task.entry_point: task for task in BENCHMARK.tasks()}
TASK = TASKS["plus-one"]
TESTS = TASK.hidden_tests


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter, fetched once per machine. Tests are skipped where it is unavailable."""
    try:
        return newlisp.fetched()
    except BenchmarkMissingError as error:
        pytest.skip(str(error))


def outcomes(*jobs: Job | Outcome) -> list[Outcome]:
    """Run jobs in the sandbox."""
    return list(run_jobs(jobs, BENCHMARK.limits(TASK), workers=1))


def draft(body: str, seconds: float = 3.0, calls: tuple[str, ...] = ("(f 1)",)) -> Job:
    """A job that runs a draft on its calls."""
    job = BENCHMARK.draft_job(TASK, body, calls)
    return Job(job.id, job.solution, job.tests, job.entry_point, seconds, job.judge)


def values(*bodies: str) -> list[str]:
    """Evaluate function bodies in the sandbox.

    Each job expects a value that no body returns, so that the outcome's detail names the actual value.

    Args:
        *bodies: Bodies of a function `f` that is called as `(f 1)`.

    Returns:
        The value of each body in newLISP's syntax.
    """

    def never_equal(solution):
        return lambda printed: judged(solution, ("(f 1)",), ['"never"'], printed)

    jobs = []
    for body in bodies:
        job = draft(f"(define (f x) {body})")
        judge = never_equal(job.solution)
        jobs.append(Job(job.id, job.solution, job.tests, "", job.seconds, judge))
    return [outcome.detail.removeprefix("(f 1) is ") for outcome in outcomes(*jobs)]


def test_canonical_solutions_pass_and_nil_fails(program):
    tasks = list(TASKS.values())
    canonical = [BENCHMARK.job(t, BENCHMARK.control(t, "canonical solution")) for t in tasks]
    nil = [BENCHMARK.job(t, BENCHMARK.control(t, "return None")) for t in tasks[::6]]
    statuses = [outcome.status for outcome in outcomes(*canonical, *nil)]
    assert statuses == ["passed"] * 60 + ["failed"] * 10


def test_programs_cannot_reach_files_network_processes_or_memory(program):
    checkout = Path(newlisp.__file__).resolve().parents[3]
    returned = values(
        f'(list (read-file "{checkout}/README.md") (directory "{checkout}") (directory "/proc/1"))',
        '(list (net-connect "127.0.0.1" 80) (net-listen 4711) (net-eval "127.0.0.1" 4711 "1"))',
        '(import "libc.so.6" "socket") (socket 2 1 0)',
        '(list (exec "id") (process "/bin/true") (= (! "id") 0) (fork 1) (spawn (quote r) 1))',
        '(import "libc.so.6" "execl") (list (execl "/bin/true" "true" 0) (execl "/usr/bin/env" "env" 0))',
        f'(import "libc.so.6" "execl") (execl "{program}" "newlisp" 0)',
        '(list (write-file "/usr/a" "b") (delete-file "/usr/bin/env") (env "HOME"))',
    )
    assert returned == [
        "(nil nil nil)",
        '(nil nil (1 "Cannot open socket"))',
        "-1",
        "(nil nil nil nil nil)",
        "(-1 -1)",
        "-1",
        "(nil nil nil)",
    ]


def test_stops_programs_that_exceed_a_limit_and_reports_the_limit(program):
    loop, recursion, memory, flood = outcomes(
        draft("(define (f x) (while true))", 0.3),
        draft("(define (f x) (+ 1 (f x)))"),
        draft('(define (f x) (dup "x" 2000000000))'),
        draft('(define (f x) (write 1 (dup "x" 1100000)) (write 1 (dup "x" 1100000)))'),
    )
    assert (loop.status, loop.error) == ("failed", "Timeout")
    assert read_feedback(recursion).error.startswith("ERR: call or result stack overflow")
    assert read_feedback(memory).error == "ERR: not enough memory in function dup"
    assert (flood.status, flood.detail) == ("failed", "printed more than 1048576 bytes")


def test_a_program_cannot_forge_a_verdict(program):
    calls, expected = TESTS.calls, TESTS.expected

    def result_line(number, value):
        """What the harness prints for the value of one call."""
        return f"\2{number} ({value})\3"

    all_results = "".join(result_line(number, "(1 2 4)") for number in range(len(calls)))
    first_result = json.dumps(result_line(0, expected[0]))
    forged = [
        f"(print {json.dumps(all_results)}) (exit)",
        f"(define (plus-one d) (print {first_result}) nil)",
        '(define (plus-one d) (for (i 3 40) (write i "P")))',
        "(define (plus-one d) '(1 2 4)) (constant 'list (fn () '(1 2 4)))",
    ]
    found = outcomes(*(BENCHMARK.job(TASK, text) for text in forged))
    assert [outcome.status for outcome in found] == ["failed"] * 4
    assert found[2].error == "Suspicious"


def test_a_correct_program_may_print_or_change_the_context(program):
    noisy = TASK.solution.replace("(let (out", '(println "look: 1 2 (") (let (out', 1)
    other_context = f"{TASK.solution}\n(context 'Other)"
    found = outcomes(BENCHMARK.job(TASK, noisy), BENCHMARK.job(TASK, other_context))
    assert [outcome.status for outcome in found] == ["passed"] * 2


def test_feedback_is_the_error_of_the_interpreter_and_the_calling_line(program):
    cases = {
        "(define (f x)\n  (let (y 1)\n    (first y)))": (
            "array, list or string expected in function first : y",
            "(first y)))",
        ),
        "(define (f x)\n  (helper x 2))": ("invalid function : (helper x 2)", "(helper x 2))"),
        "(define (f x) (rest x))\n(define (g y) (rest y))\n(define (h) 1": (
            "missing parenthesis",
            "",
        ),
        "(define (g y) (slice y 9 1 1))\n(define (f x)\n  (slice x 9))": (
            "list or string expected in function slice",
            "(slice x 9))",
        ),
        "(define (f x) x)": ("", ""),
    }
    found = outcomes(*map(draft, cases))
    for (error, line), outcome in zip(cases.values(), found, strict=True):
        feedback = read_feedback(outcome)
        assert feedback.ok == (not error) == (outcome.status == "passed")
        assert feedback.error.removeprefix("ERR: ").startswith(error)
        assert feedback.line == line


def test_the_text_of_the_tests_holds_calls_and_expected_values():
    assert json.loads(TESTS.text) == [[*TESTS.calls], [*TESTS.expected]]


def test_a_draft_runs_only_on_its_own_calls(program):
    draft_job = BENCHMARK.draft_job(TASK, "(define (plus-one d) d)", ("(plus-one '(7))",))
    sent = "\n".join((draft_job.solution, *draft_job.tests))
    assert "(plus-one '(7))" in sent
    assert not any(call in sent for call in TESTS.calls)
    task_calls = "".join(TESTS.calls)
    (tests, *_) = BENCHMARK.job(TASK, "").tests
    for value in TESTS.expected:
        assert value not in tests or f"'{value}" in task_calls


def test_an_interpreter_that_does_not_start_is_not_a_failed_program():
    outcome = judged("", ("(f)",), ["1"], "error while loading shared libraries: libreadline.so.8")
    assert outcome.status == "not_measured"
    assert read_feedback(outcome) is None


@pytest.mark.parametrize(
    ("printed", "expected", "equal"),
    [
        ("(3)", "3", True),
        ("(3)", "3.0", True),
        ("(0.3333333333)", "0.33333333333333", True),
        ("(3.5)", "3", False),
        ('("3")', "3", False),
        ("(nil)", "()", False),
        ("(((1 2)\n  (3)))", "((1 2) (3))", True),
        ("(((1 2 3)))", "((1 2) (3))", False),
        ('("a b")', '"a  b"', False),
        ("(true)", "nil", False),
        ("(x", "x", False),
        ("", "nil", False),
    ],
)
def test_compares_values_as_data(printed, expected, equal):
    assert same(printed, f"({expected})") is equal


def test_the_solution_is_the_block_that_defines_the_function():
    definition = "(define (plus-one digits)\n  digits)\n"
    raw = f"First:\n```lisp\n(define (help x) x)\n```\nthen\n```\n{definition}```\n"
    assert BENCHMARK.solution(TASK, raw) == definition
    other_name = "```\n(define (plus-one-more d) d)\n```"
    assert BENCHMARK.solution(TASK, other_name) == "(define (plus-one-more d) d)\n"
    assert BENCHMARK.solution(TASK, "(define (plus-one d) d)") == "(define (plus-one d) d)"


def test_extracts_distinct_complete_calls_as_inputs():
    lines = [
        "Here:",
        "(plus-one '(1 2))",
        "(plus-one '(1 2)",
        '(plus-one "a)',
        "(other 1)",
        "(plus-one '(1 2))",
        "(plus-one '(9))",
    ]
    calls = BENCHMARK.input_calls("\n".join(lines), TASK)
    assert calls == ("(plus-one '(1 2))", "(plus-one '(9))")


def test_splits_the_manual_into_sections(program):
    documents = BENCHMARK.documents()
    assert len(documents) == 485  # Four of the 489 anchors are other names of the next section.
    section = documents["append"]
    assert "syntax: (append list-1 [list-2 ... ])" in section
    assert "(append '(1 2 3) '(4 5 6) '(a b))  → (1 2 3 4 5 6 a b)\n\n(set 'aList" in section
    assert not any("<tt>" in text or "&lt;" in text for text in documents.values())


def test_needed_sections_are_those_of_the_functions_that_the_solution_uses(program):
    assert BENCHMARK.needed(TASKS["add-binary"]) == {"define", "bits", "arithmetic", "int"}
    needed = [BENCHMARK.needed(task) for task in TASKS.values()]
    assert all(needed)
    assert len(frozenset().union(*needed)) > 70


@pytest.mark.parametrize("name", ["move-zeros", "reverse-vowels"])
def test_regenerates_the_stored_inputs(name):
    rows = map(json.loads, newlisp.PROBLEMS.read_text("utf8").splitlines())
    row = next(row for row in rows if row["name"] == name)
    assert recipe.regenerated(row) == row


def test_stored_inputs_are_few_and_have_different_results():
    for row in map(json.loads, newlisp.PROBLEMS.read_text("utf8").splitlines()):
        assert 4 <= len(row["calls"]) == len(row["expected"]) <= recipe.MOST
        assert len(set(row["expected"])) > 1
        assert all(recipe.is_valid(row, seed) for seed in row["seeds"])
        example = row["statement"].splitlines()[-1].partition(" gives ")[0]
        assert example not in row["calls"]


def test_a_missing_interpreter_is_reported_with_advice(own_cache, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BenchmarkMissingError, match="install Debian's package newlisp"):
        BENCHMARK.draft_job(TASK, "", ())
    monkeypatch.setenv("PKG_NEWLISP", str(tmp_path / "newlisp"))
    with pytest.raises(UserError, match="PKG_NEWLISP"):
        BENCHMARK.limits(TASK)
    assert not list(own_cache.iterdir())
