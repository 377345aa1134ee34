"""newLISP: what its judge promises, and that an untrusted program stays in the sandbox."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pkg_lib.core.types import BenchmarkMissing, Outcome, UserError
from pkg_lib.execution.sandbox import Job, run_jobs
from pkg_lib.papers.evor import newlisp
from pkg_lib.papers.evor.execution_feedback import read_feedback
from pkg_lib.papers.evor.newlisp import NewLisp, judged, same
from tests.papers.evor import newlisp_recipe as recipe

BENCHMARK = NewLisp()
TASKS = {t.entry_point: t for t in BENCHMARK.tasks()}
TASK = TASKS["plus-one"]
TESTS = TASK.hidden_tests


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter, fetched once a machine; where it cannot be had the test is skipped, and says why."""
    try:
        return newlisp.fetched()
    except BenchmarkMissing as e:
        pytest.skip(str(e))


def outcomes(*jobs: Job | Outcome) -> list[Outcome]:
    return list(run_jobs(jobs, BENCHMARK.limits(TASK), workers=1))


def draft(body: str, seconds: float = 3.0, calls: tuple[str, ...] = ("(f 1)",)) -> Job:
    job = BENCHMARK.draft_job(TASK, body, calls)
    return Job(job.id, job.solution, job.tests, job.entry_point, seconds, job.judge)


def values(*bodies: str) -> list[str]:
    """What (f 1) prints for each body, as the judge of a wrong value names it."""
    jobs = [draft(f"(define (f x) {body})") for body in bodies]
    wrong = lambda job: lambda text: judged(job.solution, ("(f 1)",), ['"never"'], text)  # noqa: E731
    jobs = [Job(j.id, j.solution, j.tests, "", j.seconds, wrong(j)) for j in jobs]
    return [o.detail.removeprefix("(f 1) is ") for o in outcomes(*jobs)]


def test_every_canonical_solution_passes_and_nil_never(program):
    rights = [BENCHMARK.job(t, BENCHMARK.control(t, "canonical solution")) for t in TASKS.values()]
    wrongs = [
        BENCHMARK.job(t, BENCHMARK.control(t, "return None")) for t in list(TASKS.values())[::6]
    ]
    assert [o.status for o in outcomes(*rights, *wrongs)] == ["passed"] * 60 + ["failed"] * 10


def test_files_network_processes_and_memory_are_out_of_reach(program):
    checkout = Path(newlisp.__file__).resolve().parents[3]
    said = values(
        f'(list (read-file "{checkout}/README.md") (directory "{checkout}") (directory "/proc/1"))',
        '(list (net-connect "127.0.0.1" 80) (net-listen 4711) (net-eval "127.0.0.1" 4711 "1"))',
        '(import "libc.so.6" "socket") (socket 2 1 0)',
        '(list (exec "id") (process "/bin/true") (= (! "id") 0) (fork 1) (spawn (quote r) 1))',
        '(import "libc.so.6" "execl") (list (execl "/bin/true" "true" 0) (execl "/usr/bin/env" "env" 0))',
        f'(import "libc.so.6" "execl") (execl "{program}" "newlisp" 0)',
        '(list (write-file "/usr/a" "b") (delete-file "/usr/bin/env") (env "HOME"))',
    )
    assert said == [
        "(nil nil nil)",
        '(nil nil (1 "Cannot open socket"))',
        "-1",
        "(nil nil nil nil nil)",
        "(-1 -1)",
        "-1",
        "(nil nil nil)",
    ]


def test_endless_programs_end_and_are_named(program):
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


def test_a_verdict_cannot_be_printed(program):
    calls, expected = TESTS.calls, TESTS.expected
    mark = "\2{} ({})\3".format
    guesses = "".join(mark(i, "(1 2 4)") for i in range(len(calls)))
    both = "(define (plus-one d) (print {}) nil)"
    forged = [
        f"(print {json.dumps(guesses)}) (exit)",
        both.format(json.dumps(mark(0, expected[0]))),
        "(define (plus-one d) (for (i 3 40) (write i {})))".format('"P"'),
        "(define (plus-one d) '(1 2 4)) (constant 'list (fn () '(1 2 4)))",
    ]
    found = outcomes(*(BENCHMARK.job(TASK, text) for text in forged))
    assert [o.status for o in found] == ["failed"] * 4
    assert found[2].error == "Suspicious"


def test_output_of_its_own_does_not_spoil_a_right_answer(program):
    noisy = TASK.solution.replace("(let (out", '(println "look: 1 2 (") (let (out', 1)
    other_context = f"{TASK.solution}\n(context 'Other)"
    assert [
        o.status for o in outcomes(*(BENCHMARK.job(TASK, s) for s in (noisy, other_context)))
    ] == ["passed"] * 2


def test_feedback_is_the_language_s_own_error_and_the_line_that_calls(program):
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
    for solution, outcome in zip(cases, outcomes(*map(draft, cases)), strict=True):
        feedback, (error, line) = read_feedback(outcome), cases[solution]
        assert feedback.ok == (not error) == (outcome.status == "passed")
        assert feedback.error.removeprefix("ERR: ").startswith(error)
        assert feedback.line == line


def test_stored_results_still_belong_to_these_tasks():
    assert json.loads(TESTS.text) == [[*TESTS.calls], [*TESTS.expected]]


def test_a_draft_is_run_on_its_calls_alone(program):
    job = BENCHMARK.draft_job(TASK, "(define (plus-one d) d)", ("(plus-one '(7))",))
    sent = "\n".join((job.solution, *job.tests))
    assert "(plus-one '(7))" in sent
    assert not any(call in sent for call in TESTS.calls)
    expected, task_calls = TESTS.expected, "".join(TESTS.calls)
    judging = BENCHMARK.job(TASK, "")
    assert not any(value in judging.tests[0] for value in expected if f"'{value}" not in task_calls)


def test_no_start_of_the_interpreter_is_not_a_failure():
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
def test_values_are_compared_as_data(printed, expected, equal):
    assert same(printed, f"({expected})") is equal


def test_the_block_that_defines_the_function_is_the_solution():
    raw = "First:\n```lisp\n(define (help x) x)\n```\nthen\n```\n(define (plus-one digits)\n  digits)\n```\n"
    assert BENCHMARK.solution(TASK, raw) == "(define (plus-one digits)\n  digits)\n"
    assert (
        BENCHMARK.solution(TASK, "```\n(define (plus-one-more d) d)\n```")
        == "(define (plus-one-more d) d)\n"
    )
    assert BENCHMARK.solution(TASK, "(define (plus-one d) d)") == "(define (plus-one d) d)"


def test_generated_inputs_are_calls_that_close():
    raw = "Here:\n(plus-one '(1 2))\n(plus-one '(1 2)\n(plus-one \"a)\n(other 1)\n(plus-one '(1 2))\n(plus-one '(9))"
    assert BENCHMARK.input_calls(raw, TASK) == ("(plus-one '(1 2))", "(plus-one '(9))")


def test_the_manual_is_cut_into_its_sections(program):
    documents = BENCHMARK.documents()
    assert len(documents) == 485  # of 489 anchors four are other names of the next
    assert "syntax: (append list-1 [list-2 ... ])" in documents["append"]
    assert (
        "(append '(1 2 3) '(4 5 6) '(a b))  → (1 2 3 4 5 6 a b)\n\n(set 'aList"
        in documents["append"]
    )
    assert not any("<tt>" in text or "&lt;" in text for text in documents.values())


def test_needed_are_the_sections_of_what_the_solution_uses(program):
    assert BENCHMARK.needed(TASKS["add-binary"]) == {"define", "bits", "arithmetic", "int"}
    needed = [BENCHMARK.needed(t) for t in TASKS.values()]
    assert all(needed)
    assert len(frozenset().union(*needed)) > 70


@pytest.mark.parametrize("name", ["move-zeros", "reverse-vowels"])
def test_inputs_are_made_again_as_they_are(name):
    row = next(
        r
        for r in map(json.loads, newlisp.PROBLEMS.read_text("utf8").splitlines())
        if r["name"] == name
    )
    assert recipe.made(row) == row


def test_inputs_are_valid_few_and_tell_faulty_solutions():
    for row in map(json.loads, newlisp.PROBLEMS.read_text("utf8").splitlines()):
        assert 4 <= len(row["calls"]) == len(row["expected"]) <= recipe.MOST
        assert len(set(row["expected"])) > 1
        assert all(recipe.is_valid(row, seed) for seed in row["seeds"])
        example = row["statement"].splitlines()[-1].partition(" gives ")[0]
        assert example not in row["calls"]


def test_what_is_missing_is_one_line_of_advice(own_cache, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BenchmarkMissing, match="install Debian's package newlisp"):
        BENCHMARK.draft_job(TASK, "", ())
    monkeypatch.setenv("PKG_NEWLISP", str(tmp_path / "newlisp"))
    with pytest.raises(UserError, match="PKG_NEWLISP"):
        BENCHMARK.limits(TASK)
    assert not list(own_cache.iterdir())
