"""Test the decisions of the fork server without a fork, and the classification of errors."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from pkg_lib.execution import child, errors, syscalls
from pkg_lib.execution.errors import classify, join_detail, split_detail
from pkg_lib.execution.processes import Processes

NONCE = b"n" * child.NONCE


@pytest.fixture
def processes():
    found = Processes()
    yield found
    os.close(found.proc)


@pytest.mark.parametrize(
    ("data", "end", "status", "kind"),
    [
        (NONCE + b"P", "", 0, "P"),
        (NONCE + b"P", "T", 9, "P"),
        (NONCE + b"Fx", "", 0, "F"),
        (NONCE + b"T", "", 0, "S"),
        (NONCE, "", 0, "S"),
        (b"P", "", 0, "S"),
        (NONCE[:-1] + b"mP", "", 0, "S"),
        (b"", "T", signal.SIGKILL, "T"),
        (b"", "I", signal.SIGKILL, "I"),
        (b"", "", signal.SIGSEGV, "E"),
        (b"", "", signal.SIGKILL, "E"),
        (b"", "", signal.SIGRTMIN + 6, "E"),
        (b"", "", 0, "E"),
    ],
)
def test_a_verdict_requires_the_nonce(data, end, status, kind):
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    heard = child.letter(reader, NONCE)
    os.close(reader)
    assert child.read_verdict(heard, end, status, 3.0).kind == kind


def test_wall_time_limits_sleeping_and_processor_time_running_processes(processes):
    sleeps = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    with subprocess.Popen(sleeps, stdout=-1) as sleeper:
        sleeper.stdout.readline()
        time.sleep(0.2)
        assert processes.remaining([sleeper.pid], 59.0, 30.0) <= 0
        sleeper.kill()
    assert processes.remaining([os.getpid()], 1.0, 3.0) == 2.0
    # This process is running, so its processor time counts, not its wall time.
    assert 0 < processes.remaining([os.getpid()], 1e5, 1e5) <= 1e5
    # Processor time spent before the job does not count.
    processes.before[os.getpid()] = (-1e5, 0.0)
    assert processes.remaining([os.getpid()], 1e5, 1e5) < 0


def test_a_process_waiting_for_a_disk_gets_ten_times_its_limit(processes, monkeypatch):
    monkeypatch.setattr(processes, "stat", lambda *_: ["D"])
    processes.before[os.getpid()] = processes.spent(os.getpid())
    left = [processes.remaining([os.getpid()], wall, 2.0) for wall in (3.0, 19.0, 25.0)]
    assert left[0] > 1 and 0 < left[1] < 1.5 and left[2] < 0, left


@pytest.mark.parametrize(
    ("state", "sample", "tests", "left"),
    [("R", 11.5, 9.0, 0.5), ("R", 12.5, 9.0, -0.5), ("R", 2.0, 9.0, 1.0), ("S", 0.0, 9.0, 11.0)],
)
def test_costly_values_give_a_sample_at_most_four_limits(
    processes, monkeypatch, state, sample, tests, left
):
    """`sample` and `tests` are seconds spent after 10 s, with a limit of 3 s; the tests themselves have 10 s."""
    monkeypatch.setattr(processes, "stat", lambda *_: [state])
    monkeypatch.setattr(processes, "spent", lambda pid: ({1: sample, 2: tests}[pid], 0.0))
    assert processes.remaining([1, 2], 10.0, 3.0) == left


@pytest.mark.parametrize(
    ("ends", "code"), [("exit(1)", 1), ("import os; os.kill(os.getpid(), 9)", -9), ("", 0)]
)
def test_stop_returns_the_exit_code_of_an_ended_tests_process(ends, code):
    """A process that is still alive gives 0."""
    with subprocess.Popen([sys.executable, "-c", ends or "input()"], stdin=-1) as process:
        tests = child.TestsProcess(process.pid, SimpleNamespace(close=lambda: None))
        assert tests.stop(5.0 if ends else 0.1) == code
        process.returncode = 0  # `stop` has already waited for it


def test_the_description_of_a_huge_error_is_short():
    error = ImportError("x" * 10**7, name="y" * 10**7)
    assert len(child.runner.describe(error, ())) < 9000


def test_an_ended_process_has_no_time_left(processes):
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert processes.remaining([process.pid], 4.0, 3.0) < 0


def test_lists_running_child_processes(processes):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert process.pid in processes.children()
    assert process.pid not in processes.children()


def test_the_filter_has_whole_instructions_and_allows_by_default():
    for program in (syscalls.program(1, True), syscalls.program(1, False)):
        assert len(program) % 8 == 0
        assert program[-8:] == bytes.fromhex("060000000000ff7f")
    assert len(syscalls.program(1, True)) > len(syscalls.program(1, False))


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (UnboundLocalError, "NameError"),
        (TabError, "IndentationError"),
        (SyntaxError, "SyntaxError"),
        (AssertionError, "AssertionError"),
        (MemoryError, "Memory"),
        (ModuleNotFoundError, "Others"),
    ],
)
def test_errors_are_classified_by_their_nearest_known_base_class(error, name):
    assert classify([c.__name__ for c in error.__mro__]) == name


def test_forbidden_imports_have_their_own_error_type():
    assert classify(["ModuleNotFoundError"], forbidden_import=True) == "ForbiddenImport"


def test_split_detail_reverses_join_detail():
    parts = "AssertionError", "assert f(1) == 2"
    assert split_detail(join_detail(*parts)) == parts
    assert split_detail(join_detail("Timeout")) == ("Timeout", "")
    assert len(join_detail("x" * 9999)) == errors.LONGEST
