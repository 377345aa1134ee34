"""Test that ordinary programs pass in the sandbox, and that no run sees the files of another.

tests/data/honest_programs.toml lists the programs. docs/security.md states the reason for each that fails.
"""

import textwrap
import tomllib
from pathlib import Path

import pytest
from sandbox_settings import NO_NAMESPACES, SETTINGS

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = tomllib.loads((ROOT / "tests/data/honest_programs.toml").read_text("utf8"))
CASES = {f"{group}-{name}": case for group in PROGRAMS for name, case in PROGRAMS[group].items()}
ANSWER = """    for i, a in enumerate(numbers):
        for j, b in enumerate(numbers):
            if i != j and abs(a - b) < threshold:
                return True
    return False
"""
TEST = """def check(candidate):
    assert candidate([1.0, 2.0, 3.9, 4.0, 5.0, 2.2], 0.3) == True
    assert candidate([1.0, 2.0, 3.9, 4.0, 5.0, 2.2], 0.05) == False
    assert candidate([1.0, 2.0, 5.9, 4.0, 5.0], 0.95) == True

check(f)"""
JUDGES = {"isolated": "", "shared": None}
ISOLATED_SETTINGS = [name for name in SETTINGS if name not in NO_NAMESPACES]
# Programs that need a feature which was enabled for samples. They run in every setting with namespaces.
OPENED = (
    "given-sqlite_file given-fcntl_lock given-environ_home given-environ_path given-pathlib_home given-getpass "
    "given-pydoc_help given-license_credits given-mp_sharedmem given-multiprocessing_pool given-nested_pool "
    "given-recursion_thread512 given-sched_affinity given-listdir_root more-sqlite_wal more-owner more-own_module "
    "more-fadvise more-rlimits_read more-userstring more-home_is_writable"
).split()
# Programs that also run without namespaces. There, a sample cannot write files, which the locks of multiprocessing
# need, and cannot list directories outside that of Python.
WITHOUT_FILES = (
    "given-environ_home given-environ_path given-pathlib_home given-getpass given-pydoc_help given-license_credits "
    "given-multiprocessing_process given-nested_pool given-recursion_thread512 given-sched_affinity "
    "more-rlimits_read"
).split()


def program(case):
    if "program" in case:
        return case["program"]
    body = textwrap.indent(case.get("body", ""), "    ")
    head = "def f(numbers: List[float], threshold: float) -> bool:"
    module = "from typing import List\n" + case.get("module", "")
    return "\n".join([module, head, body, ANSWER, case.get("after", ""), ""])


@pytest.mark.parametrize("given", JUDGES.values(), ids=JUDGES)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_ordinary_programs_pass_unless_a_failure_is_documented(judge, case, given):
    outcome = judge(program(case), TEST, given=given, seconds=10.0)
    if "fails" in case:
        assert outcome.status == "failed", outcome
        assert case["error"] in outcome.detail, outcome
    else:
        assert outcome.status == "passed", outcome


@pytest.mark.parametrize("setting", ISOLATED_SETTINGS)
@pytest.mark.parametrize("name", OPENED)
def test_enabled_features_work_in_every_setting_with_namespaces(judge, setting, name):
    assert judge(program(CASES[name]), TEST, setting=setting, seconds=10.0).status == "passed"


@pytest.mark.parametrize("setting", NO_NAMESPACES)
@pytest.mark.parametrize("name", WITHOUT_FILES)
def test_programs_that_write_no_files_pass_without_namespaces(judge, setting, name):
    assert judge(program(CASES[name]), TEST, setting=setting, seconds=10.0).status == "passed"


def test_at_least_130_of_135_programs_pass():
    failing = [name for name, case in PROGRAMS["given"].items() if "fails" in case]
    assert len(PROGRAMS["given"]) == 135
    assert len(failing) <= 5
    assert len(PROGRAMS["more"]) >= 40


def test_each_reason_of_failure_is_documented():
    headings = [
        line[3:].lower() for line in (ROOT / "docs/security.md").read_text("utf8").splitlines()
    ]
    reasons = {case["fails"] for case in CASES.values() if "fails" in case}
    assert all(any(reason in heading for heading in headings) for reason in reasons)


def test_a_string_like_object_is_compared_as_text(judge):
    code = "from collections import UserString\ndef f(x): return UserString('ab')"
    assert judge(code, "assert f(1) == 'ab'").status == "passed"
    assert judge(code, "assert f(1) == 'b'").error == "AssertionError"


PLACES = "import os\nplaces = ['/tmp/a', '/dev/shm/a', os.path.expanduser('~/b'), 'a']\n"


def test_files_of_a_run_are_invisible_to_other_runs(judge):
    """Other runs are the second run of the same sample, which `given` causes, and the next sample."""
    code = PLACES + "for path in places: open(path, 'x').close()\ndef f(x): return x"
    for _ in range(2):
        assert judge(code, "assert f(1) == 1").status == "passed"


def test_a_program_may_leave_worker_processes_running(judge):
    code = """
    import multiprocessing, time
    multiprocessing.Process(target=time.sleep, args=(60,)).start()
    def f(x): return x
    """
    assert judge(textwrap.dedent(code), "assert f(1) == 1").status == "passed"


def test_a_worker_process_that_raises_has_exit_code_one(judge):
    code = """
    import multiprocessing
    def f(x):
        p = multiprocessing.Process(target=int, args=('a',))
        p.start()
        p.join()
        return p.exitcode
    """
    assert judge(textwrap.dedent(code), "assert f(1) == 1").status == "passed"
