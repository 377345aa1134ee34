"""One fork server a mode for the whole session; no test may leave a process of a sample behind."""

import os

import psutil
import pytest

from pkg_lib.execution.sandbox import DENY, Job, Limits, Worker

MODES = {"full": "", "namespaces denied": "namespaces", "rlimits alone": "namespaces,filter"}


def start(mode: str, packages: str = "stdlib+numpy") -> Worker:
    before = os.environ.get(DENY)
    os.environ[DENY] = MODES[mode]
    try:
        return Worker(Limits(packages=packages))
    finally:
        if before is None:
            del os.environ[DENY]
        else:
            os.environ[DENY] = before


@pytest.fixture(scope="session")
def pool():
    workers: dict[tuple[str, str], Worker] = {}

    def get(mode: str = "full", packages: str = "stdlib+numpy") -> Worker:
        if (mode, packages) not in workers:
            workers[mode, packages] = start(mode, packages)
        return workers[mode, packages]

    yield get
    for worker in workers.values():
        worker.close()
        assert not os.path.exists(worker.work)


@pytest.fixture
def judge(pool):
    """judge(solution, *tests, mode=..., seconds=...) -> Outcome; fails where a process of the sample is left."""

    def run(solution, *tests, mode="full", seconds=2.0, packages="stdlib+numpy", entry_point="f"):
        worker = pool(mode, packages)
        server = worker.process.pid
        outcome = worker.run(Job("t", solution, tests, entry_point, seconds))
        assert worker.process.pid == server, "the fork server did not survive"
        assert not psutil.Process(server).children(recursive=True), "a process of the sample is left"
        assert os.listdir(worker.work) == []
        return outcome

    return run
