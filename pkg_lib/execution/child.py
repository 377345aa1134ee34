"""The fork server, which sandbox.py starts as a script: it runs each sample in a fork of itself.

It is warm (packages are imported once) and holds the reading end of the verdict's channel, the
clock and the kill switch. A sample's process runs runner.py, or another language's interpreter that
finds SOLUTION and TEST in its environment.

A sample can read everything that was ever in this process's memory. So this process never loads a
job or a sample: jobs are files that are read after the fork. Reports are written to files as well.
Only the tests' process has runner.REPORT. Each sample has a separate file, because a file can keep
more than its text.
"""

# ruff: noqa: PTH100, PTH109, PTH120, PTH123 - descriptors, and a start without pathlib
from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
OWN_PATH = tuple(sys.path)
sys.path.insert(0, HERE)
import confine  # noqa: E402
import filesystem  # noqa: E402
import finder  # noqa: E402
import processes  # noqa: E402
import runner  # noqa: E402
import syscalls  # noqa: E402
import wire  # noqa: E402
from wire import ENDED, FAILED, FAULT, LAYERS, PASSED, PRINTED, SUSPICIOUS, TIMEOUT  # noqa: E402

sys.path.remove(HERE)

OWN_MODULES = ("confine", "filesystem", "finder", "processes", "runner", "syscalls", "wire")
WARM = (
    "array bisect collections copy datetime decimal fractions functools hashlib heapq itertools "
    "json math operator random re statistics string sys threading time traceback types typing"
).split()
NONCE = 16
MOST = (1 << 20) + 1  # bytes that are kept of what a sample reports or prints
# What programs look up and few depend on; `confine.lock` adds HOME.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}
ENVIRONMENT |= dict.fromkeys(("USER", "LOGNAME"), filesystem.NAME)
BUSY = "the machine was too busy, or the tests' process was ended"
NOW = (
    os.WEXITED | os.WNOHANG | os.WNOWAIT
)  # os.waitid: whether it has ended, and it stays to be waited for


@dataclass
class Verdict:
    """How a test ended, why, and after how many seconds.

    If `text` is "", the reason is in runner.REPORT.
    """

    kind: str
    text: str = ""
    seconds: float = 0.0


@dataclass
class Observation:
    """What the fork server has seen of a sample's process.

    Attributes:
        letter: Its last letter on the verdict's channel; see `letter`.
        stopped: TIMEOUT or FAULT if the fork server has stopped waiting, else "".
        tests: PASSED, FAILED or SUSPICIOUS: how the tests in their own process ended, or PASSED
            without one.
        ended: What os.waitid says of a process that ended by itself.
        status: Its wait status.
        used: Processor seconds that count.
        filtered: Whether it reported a fault after its system calls were filtered.
    """

    letter: str
    stopped: str
    tests: str
    ended: os.waitid_result | None
    status: int
    used: float
    filtered: bool

    def verdict(
        self,
        limit: float,
        own_namespace: bool,
        prints: bool,
    ) -> Verdict:
        """Decide the verdict.

        Args:
            limit: The time limit in seconds.
            own_namespace: Whether the sample was process 1 of a namespace.
            prints: Whether an interpreter ran it, so that what it printed decides.
        """
        rejected = self.tests == FAILED or (self.tests == SUSPICIOUS and not self.ended)
        rejected = rejected and not self.stopped
        stopped = self.stopped
        if not stopped and not rejected and self.used >= limit:
            stopped = TIMEOUT
        if prints and not self.letter and not stopped and os.WIFEXITED(self.status):
            verdict = Verdict(PRINTED)
        else:
            heard = self.tests if rejected else self.letter
            verdict = read_verdict(heard, stopped, self.status, limit)
        if self.filtered and verdict.kind == FAULT:
            verdict = Verdict(SUSPICIOUS, "falsely reported a sandbox failure")
        if own_namespace and self.killed and verdict.kind in (ENDED, SUSPICIOUS):
            # Process 1 of a namespace cannot be killed from inside.
            verdict = Verdict(FAULT, "killed from outside")
        return verdict

    @property
    def killed(self) -> bool:
        """Whether the process was killed by somebody else."""
        ended = self.ended
        if not ended or ended.si_code != os.CLD_KILLED:
            return False
        return ended.si_status == signal.SIGKILL


def read_verdict(
    letter: str,
    stopped: str,
    status: int,
    limit: float,
) -> Verdict:
    """Read a verdict from a process's last letter, or from how the process ended.

    Args:
        letter: What `letter` returned.
        stopped: TIMEOUT or FAULT if the fork server has stopped waiting, else "".
        status: The process's wait status.
        limit: The time limit in seconds.
    """
    if letter and letter in (PASSED, FAILED, FAULT, SUSPICIOUS, LAYERS):
        return Verdict(letter)
    if letter:
        return Verdict(SUSPICIOUS, "wrote to the verdict's channel")
    if stopped:
        return Verdict(stopped, f"no verdict within {limit:g} s" if stopped == TIMEOUT else BUSY)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
        number = os.WTERMSIG(status)
        names = {s.value: s.name for s in signal.Signals}
        name = names.get(number, number)
        return Verdict(ENDED, f"killed by {name}")
    return Verdict(ENDED, "ended before the tests completed")


def letter(reader: int, nonce: bytes) -> str:
    """Read the letter that follows the nonce on a channel.

    Nothing else of what was sent stays in this memory.

    Args:
        reader: Descriptor of the channel.
        nonce: What the letter must follow.

    Returns:
        The letter; "?" if something else was sent, "" if the channel was closed.
    """
    buffer = bytearray(len(nonce) + 1)
    size = os.readv(reader, [buffer])
    complete = size == len(buffer) and memoryview(buffer)[:-1] == nonce
    found = "?" if size else ""
    if complete:
        found = chr(buffer[-1])
    buffer[:] = bytes(len(buffer))
    return found


def ends_within(pid: int, seconds: float) -> bool:
    """Wait for the end of a child.

    Args:
        pid: Its process id.
        seconds: How long to wait.
    """
    with open(os.pidfd_open(pid), "rb") as process:
        readable, _, _ = select.select([process], [], [], seconds)
        return bool(readable)


@dataclass
class TestsProcess:
    """The process for the tests of many samples.

    Attributes:
        pid: Its process id.
        orders: The socket to it.
    """

    pid: int
    orders: socket.socket

    def stop(self, patience: float = 0) -> int:
        """End the process.

        Args:
            patience: Seconds to wait for its own end.

        Returns:
            Its exit code if it ended by itself, else 0.
        """
        self.orders.close()
        ended = ends_within(self.pid, patience)
        os.kill(self.pid, signal.SIGKILL)
        status = os.waitpid(self.pid, 0)[1]
        return os.waitstatus_to_exitcode(status) if ended else 0


class Server:
    """The fork server's state: how samples are confined, and what they may import."""

    def __init__(self, setup: dict[str, Any]) -> None:
        """Import packages, enter the layers of the sandbox, and forget what samples must not find.

        Args:
            setup: What `sandbox.Worker` asks for.
        """
        confine.die_with_parent()
        if setup["processor"] is not None:
            os.sched_setaffinity(0, {setup["processor"]})
        self.tests: TestsProcess | None = None
        self.patience = setup["patience"]
        self.processes = processes.Processes()
        _warm(setup["paths"], setup["preload"])
        everything = setup["packages"] == "all"
        paths = setup["paths"]
        names = (*sys.stdlib_module_names, *setup["allowed"])
        self.allowed = None if everything else frozenset(names)
        preloaded = filesystem.loaded(paths) if setup["preload"] else None
        packages = preloaded if everything else setup["allowed"]
        shown = filesystem.trees(OWN_PATH, paths, packages, setup["hidden"])
        self.command: list[str] = []
        loader = ""
        if setup["command"]:
            shown[setup["command"][0]] = []
            loader = filesystem.loader()
            self.command = [loader, *setup["command"]]
        self.plan = confine.enter(setup["deny"], shown, paths, loader)
        self.program = None
        if self.plan.namespaces and self.plan.filtered:  # each sample's process has the id 1
            program = syscalls.program(1, read_only=False, starts=bool(loader))
            self.program = confine.loadable(program)
        for name in OWN_MODULES:
            del sys.modules[name]
        # What a sample finds is made here once: after the fork each step copies the memory that it
        # touches.
        os.environ.clear()
        os.environ.update(ENVIRONMENT)
        sys.argv = [""]
        sys.modules["__main__"] = type(sys)("__main__")
        sys.meta_path.insert(0, finder.Finder(self.allowed, filesystem.SAMPLE))
        confine.limit(setup["memory_mb"], self.plan.processes)
        gc.collect()
        gc.freeze()

    def filter(self) -> Any:
        """Return the system call filter for the process that calls this; None if there is none."""
        if self.program or not self.plan.filtered:
            return self.program
        program = syscalls.program(os.getpid(), read_only=True, starts=bool(self.command))
        return confine.loadable(program)

    def run_job(
        self,
        request: dict[str, Any],
        files: list[int],
    ) -> dict[str, Any]:
        """Run the tests of a job, each in its own processes, up to the first that does not pass.

        Args:
            request: Number of tests, time limit in seconds, and whether tests have a process apart.
            files: Descriptors of the solution and the tests.

        Returns:
            Kind and text of the last verdict, number of its test, and seconds of all.
        """
        verdict = Verdict("")
        seconds = 0.0
        number = 0
        for number in range(request["tests"]):
            verdict = self._run_test(request, files, number)
            seconds += verdict.seconds
            if verdict.kind != PASSED:
                break
        return {
            "kind": verdict.kind,
            "text": verdict.text,
            "test": number,
            "seconds": seconds,
        }

    def _run_test(
        self,
        request: dict[str, Any],
        files: list[int],
        number: int,
    ) -> Verdict:
        """Fork the sample's process, wait for its verdict within the limit, and end it."""
        nonce = os.urandom(NONCE)
        limit = request["seconds"]
        self.processes.before = {}
        os.ftruncate(runner.REPORT, 0)
        ours, theirs = socket.socketpair()
        report = os.memfd_create("report")
        with ours, theirs:
            started = time.monotonic()
            try:
                pid = confine.fork(self.plan)
            except OSError as e:
                os.close(report)
                return Verdict(FAULT, f"no new process: {e}")
            if pid == 0:
                run_sample(self, request, files, number, theirs.detach(), report, nonce)
            theirs.close()
            channel = ours.fileno()
            tests = PASSED
            heard, stopped = self._wait([pid], channel, nonce, started, limit)
            if request["apart"] and heard == PASSED:  # the solution has run
                heard = ""
                tests, stopped = self._test_apart(
                    number, limit, pid, [channel, *files[1:]], started
                )
                if tests == PASSED:  # now the sample has the tests, too
                    self.processes.before[pid] = self.processes.spent(pid)
                    now = time.monotonic()
                    heard, stopped = self._wait([pid], channel, nonce, now, limit)
            seconds = time.monotonic() - started
            seen = self._end(pid, heard, stopped, tests)
        if tests == PASSED:
            os.lseek(runner.REPORT, 0, os.SEEK_SET)
            os.sendfile(runner.REPORT, report, 0, MOST)
        os.close(report)
        verdict = seen.verdict(limit, self.plan.namespaces, bool(self.command))
        if left := self._sweep():
            verdict = Verdict(FAULT, f"{left} processes of the sample could not be ended")
        verdict.seconds = seconds
        return verdict

    def _end(
        self,
        pid: int,
        heard: str,
        stopped: str,
        tests: str,
    ) -> Observation:
        """Kill the sample's process, and return what is known of it."""
        if not heard and not stopped and tests in (PASSED, SUSPICIOUS):
            ends_within(pid, 0.1)  # if it was killed, its files were closed a moment before
        status_text = self.processes.read(f"{pid}/status") if heard == FAULT else ""
        ended = os.waitid(os.P_PID, pid, NOW)
        os.kill(pid, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
        before, _ = self.processes.before.get(pid, (0, 0))
        used = usage.ru_utime + usage.ru_stime - before
        filtered = "Seccomp:\t2" in status_text
        return Observation(heard, stopped, tests, ended, status, used, filtered)

    def _test_apart(
        self,
        number: int,
        limit: float,
        pid: int,
        files: list[int],
        started: float,
    ) -> tuple[str, str]:
        """Run the tests in their own process, while the sample answers their calls.

        Returns:
            PASSED, FAILED or SUSPICIOUS ("" if unknown), and TIMEOUT or FAULT if waiting was
            stopped.
        """
        if self.tests and os.waitid(os.P_PID, self.tests.pid, NOW):
            self._stop_tests()  # it ended between two samples, and neither of them is the cause
        if not self.tests:
            orders, theirs = socket.socketpair()
            with theirs:
                self.tests = TestsProcess(confine.fork(self.plan, inside=False), orders)
                if self.tests.pid == 0:
                    run_tests(theirs, self.allowed)
        tests_pid = self.tests.pid
        orders = self.tests.orders
        try:
            self.processes.before[tests_pid] = self.processes.spent(tests_pid)
            socket.send_fds(orders, [b"!"], files)
            wire.send(orders, number)
            pids = [pid, tests_pid]
            heard, stopped = self._wait(pids, orders.fileno(), b"", started, limit)
        except OSError:
            heard = ""
            stopped = ""
        # In small letters, the process of the tests asks to be replaced after this verdict.
        if heard not in (PASSED, FAILED):
            code = self._stop_tests(0 if heard else 0.1)
            if not heard and code and code != -signal.SIGKILL:
                # Only the tests and the sample's answers run there. Only a kill is from outside.
                heard = SUSPICIOUS
                os.pwrite(runner.REPORT, b"ended the tests' process", 0)
        return heard.upper(), stopped or ("" if heard else FAULT)

    def _stop_tests(self, patience: float = 0) -> int:
        """End the tests' process, so that the next sample gets a new one. Return its exit code."""
        process = self.tests
        self.tests = None
        return process.stop(patience) if process else 0

    def _wait(
        self,
        pids: list[int],
        reader: int,
        nonce: bytes,
        started: float,
        limit: float,
    ) -> tuple[str, str]:
        """Wait for a letter of the last process, until it ends or the time is over.

        Returns:
            The letter, and TIMEOUT or FAULT (the machine was slow) if the time was over.
        """
        ended = os.pidfd_open(pids[-1])
        poll = select.poll()
        poll.register(reader, select.POLLIN)
        poll.register(ended, select.POLLIN)
        os.set_blocking(reader, False)
        try:
            while not poll.poll(0):
                wall = time.monotonic() - started
                left = self.processes.remaining(pids, wall, limit)
                patience = self.patience * limit - wall
                if min(left, patience) <= 0:
                    return "", TIMEOUT if left <= 0 else FAULT
                milliseconds = min(left, patience) * 1000 + 1
                if (
                    wall >= limit
                ):  # look at moments that a sample, which could sleep at them, cannot foresee
                    milliseconds = min(milliseconds, 1 + os.urandom(1)[0])
                poll.poll(milliseconds)
            return letter(reader, nonce), ""
        except OSError:  # it ended without a letter, or with one unread
            return "", ""
        finally:
            os.set_blocking(reader, True)
            os.close(ended)

    def _sweep(self) -> int:
        """Kill what the sample has left running, and return how many processes would not end."""
        if self.plan.namespaces or self.plan.filtered:
            return 0  # the namespace ended with the sample's process, or it could start none
        self._stop_tests()
        end = time.monotonic() + 5
        while time.monotonic() < end:
            for pid in self.processes.children():  # children of one that ends become this process's
                os.kill(pid, signal.SIGKILL)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    continue
            except ChildProcessError:
                return 0
        return len(self.processes.children())


def _warm(paths: list[str], preload: list[str]) -> None:
    """Import what many samples import, and what Python's start without `site` has left out."""
    sys.path += paths
    for name in (*WARM, *preload):
        __import__(name)
    if preload:
        del sys.path[len(sys.path) - len(paths) :]
    site = __import__("site")
    for add in (site.setquit, site.setcopyright, site.sethelper):
        add()
    finder.give_large_stacks()
    streams: tuple[Any, Any] = sys.stdout, sys.stderr
    for stream in streams:
        stream.reconfigure(errors="backslashreplace")


def run_tests(orders: socket.socket, allowed: Any) -> None:
    """Become a process for the tests of many samples, in which no byte of a sample is executed.

    It never returns.

    Args:
        orders: The socket to the fork server.
        allowed: Top-level modules that may be imported; None for all.
    """
    try:
        confine.die_with_parent()
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 2)
        os.dup2(orders.fileno(), 3)
        os.closerange(4, 1024)
        gc.enable()
        runner.serve_tests(socket.socket(fileno=3), allowed)
    finally:
        os._exit(1)


def run_sample(
    server: Server,
    job: dict[str, Any],
    files: list[int],
    number: int,
    out: int,
    report: int,
    nonce: bytes,
) -> None:
    """Become a sample's process: close everything, confine it, then run the sample.

    It never returns.

    Args:
        server: The fork server.
        job: The request.
        files: Descriptors of the solution and the tests; empty to report only the layers.
        number: Number of the test.
        out: Socket for the verdict.
        report: File for what is reported with it.
        nonce: What marks a verdict as the runner's.
    """
    try:
        solution = runner.read(files[0]) if files else ""
        test = ""
        if not job["apart"]:
            test = runner.read(files[1])["tests"][number]
        os.setsid()
        os.dup2(report, 3, inheritable=False)
        report = 3
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(report if server.command and fd else null, fd)
        active = confine.lock(server.plan, job["seconds"], server.filter())
        os.closerange(report + 1, out)
        os.closerange(out + 1, 1024)
        if not files:
            os.pwrite(report, json.dumps(active).encode(), 0)
            os.write(out, nonce + b"L")
            os._exit(0)
        if select.select([out], [], [], 0)[0]:
            os._exit(1)  # the fork server ended before this process asked to end with it
        if server.command:
            os.set_inheritable(out, True)  # if this end closes, the sample counts as ended
            environment = {
                "SOLUTION": solution.replace("\0", "").encode("utf8", "replace"),
                "TEST": test.encode("utf8", "replace"),
            }
            os.execve(server.command[0], server.command, environment)
    except OSError as e:
        os.pwrite(report, f"sandbox setup: {e}".encode(), 0)
        os.write(out, nonce + b"I")
        os._exit(0)
    gc.enable()
    hide = partial(hide_first_run, server)
    runner.run(solution, test, job["apart"], out, report, nonce, server.allowed, hide)


def hide_first_run(server: Server) -> None:
    """In the sample's process, before its second run: hide what the first run has written.

    Args:
        server: The fork server.
    """
    if server.plan.namespaces:
        os.chdir(filesystem.make_work(confine.SECOND_RUN))
        os.environ["HOME"] = os.getcwd()
    if "unittest" in sys.modules:  # its loader remembers where the first run discovered tests
        sys.modules["unittest"].defaultTestLoader._top_level_dir = None
    if "logging" in sys.modules:  # its root logger still writes to the file of the first run
        root = sys.modules["logging"].root
        root.handlers.clear()
        root.setLevel(sys.modules["logging"].WARNING)


def main() -> None:
    """Serve until the parent closes the socket. The first message says which layers are active."""
    with socket.socket(fileno=os.dup(0)) as line:
        gc.disable()
        server = Server(json.loads(sys.argv[1]))
        request = {"seconds": 10.0, "tests": 1, "apart": True}
        first = server.run_job(request, [])
        report = os.pread(runner.REPORT, 8192, 0).decode()
        active = {"sandbox": first["text"] or report}
        if first["kind"] == LAYERS:
            active = json.loads(report)
        wire.send(line, server.plan.layers | active)
        while files := socket.recv_fds(line, 1, 2)[1]:
            wire.send(line, server.run_job(wire.receive(line), files))
            for file in files:
                os.close(file)


if __name__ == "__main__":
    main()
