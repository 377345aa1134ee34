"""One fork server a setting for the whole session; no test may leave a process of a sample behind."""

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

    yield get
    for worker in workers.values():
        worker.close()
    remove_folders()


@pytest.fixture
def judge(pool):
    """judge(solution, *tests, setting=..., seconds=...) -> Outcome; fails where a process of the sample is
    left. The tests stand apart, but where `given` is None."""

    def run(solution, *tests, setting=HERE, seconds=2.0, packages="stdlib+numpy", entry_point="f", given=""):
        worker = pool(setting, packages)
        server = worker.server
        outcome = worker.run(Job("t", solution, tests, entry_point, seconds, None, given))
        assert worker.server == server, "the fork server did not survive"
        left = psutil.Process(server).children(recursive=True)
        # The tests' own process stays: it has no user id of a sample, and its parent is the fork server.
        assert len(left) <= 1 and all(p.ppid() == server for p in left), "a process of the sample is left"
        return outcome

    return run
