"""One fork server a setting for the whole session; no test may leave a process of a sample behind."""

import os

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
        assert not os.path.exists(worker.work)
    remove_folders()


@pytest.fixture
def judge(pool):
    """judge(solution, *tests, setting=..., seconds=...) -> Outcome; fails where a process of the sample is
    left."""

    def run(solution, *tests, setting=HERE, seconds=2.0, packages="stdlib+numpy", entry_point="f"):
        worker = pool(setting, packages)
        server = worker.server
        outcome = worker.run(Job("t", solution, tests, entry_point, seconds))
        assert worker.server == server, "the fork server did not survive"
        assert not psutil.Process(server).children(recursive=True), "a process of the sample is left"
        assert os.listdir(worker.work) == []
        return outcome

    return run
