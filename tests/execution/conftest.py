"""One fork server a setting for the whole session; no test may leave a process of a sample behind."""

import contextlib

import psutil
import pytest
from sandbox_settings import HERE, Remote, remove_folders

from pkg_lib.execution.sandbox import Job


@pytest.fixture(scope="session")
def pool():
    workers: dict[tuple[str, str], Remote] = {}

    def get(setting: str = HERE, packages: str = "stdlib+numpy") -> Remote:
        if (setting, packages) not in workers:
            workers[setting, packages] = Remote(setting, packages)
        return workers[setting, packages]

    with contextlib.ExitStack() as stack:
        stack.callback(remove_folders)
        yield get
        for worker in workers.values():
            stack.callback(worker.close)


@pytest.fixture
def judge(pool):
    """judge(solution, *tests, setting=..., seconds=...) -> Outcome; fails where a process of the sample is
    left. The tests stand apart, but where `given` is None."""

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
        left = psutil.Process(server).children(recursive=True)
        # The tests' own process stays: it has no user id of a sample, and its parent is the fork server.
        own = [p for p in left if p.ppid() == server and p.uids() == psutil.Process(server).uids()]
        assert len(left) <= 1 and left == own, "a process of the sample is left"
        return outcome

    return run
