"""Fixtures that run samples in the sandbox.

The session has one fork server per setting. A test fails if a process of its sample is left running.
"""

import contextlib

import psutil
import pytest
from sandbox_settings import HERE, Remote, remove_folders

from pkg_lib.execution.sandbox import Job


@pytest.fixture(scope="session")
def pool():
    """Return a function that starts the worker of a setting once and returns it."""
    workers: dict[tuple[str, str], Remote] = {}

    def get(setting: str = HERE, packages: str = "stdlib+numpy") -> Remote:
        key = (setting, packages)
        if key not in workers:
            workers[key] = Remote(setting, packages)
        return workers[key]

    with contextlib.ExitStack() as stack:
        stack.callback(remove_folders)
        yield get
        for worker in workers.values():
            stack.callback(worker.close)


@pytest.fixture
def judge(pool):
    """Return a function that runs one solution with tests in a setting and returns its outcome.

    It fails if the fork server ends or a process of the sample is left. By default, the tests run in a process of
    their own. With `given=None` they share the process of the sample.
    """

    def run(
        solution,
        *tests,
        setting=HERE,
        seconds=2.0,
        packages="stdlib+numpy",
        entry_point="f",
        given="",
    ):
        worker = pool(setting, packages)
        server = worker.server
        outcome = worker.run(Job("t", solution, tests, entry_point, seconds, None, given))
        assert worker.server == server, "the fork server did not survive"
        server_process = psutil.Process(server)
        left = server_process.children(recursive=True)
        # The process of the tests stays. It does not have the user id of a sample, and its parent is the fork server.
        of_tests = [
            process
            for process in left
            if process.ppid() == server and process.uids() == server_process.uids()
        ]
        assert len(left) <= 1 and left == of_tests, "a process of the sample is left"
        return outcome

    return run
