"""A fork server, started by sandbox.py as a script, that judges each sample in a process forked from it.

It is warm (packages are imported once) and holds the verdict's reading end, the clock and the kill switch.
A sample's process is runner.py's, or an interpreter that finds SOLUTION and TEST in its environment.

A sample can read all that was ever in this process's memory, so no text of a job or of a sample comes there:
jobs are files that are read after the fork. What is said with a verdict is one too: the tests' process has
SAID, which no sample has, and each sample one of its own, since a file can keep more than its text.
"""

# ruff: noqa: PTH100, PTH109, PTH120, PTH123, PTH208 - descriptors, and a start without pathlib
from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import time
from functools import partial
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
OWN_PATH = tuple(sys.path)
sys.path.insert(0, HERE)
import confine  # noqa: E402
import filesystem  # noqa: E402
import finder  # noqa: E402
import runner  # noqa: E402
import syscalls  # noqa: E402
import wire  # noqa: E402

sys.path.remove(HERE)

WARM = (
    "array bisect collections copy datetime decimal fractions functools hashlib heapq itertools json math "
    "operator random re statistics string sys threading time traceback types typing"
).split()
NONCE = 16
MOST = (1 << 20) + 1  # bytes of what a sample says or prints that are kept
DISK = 10  # times its limit that a sample may seem to wait for a disk
# What programs look up and few depend on; `confine.lock` adds HOME.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}
ENVIRONMENT |= dict.fromkeys(("USER", "LOGNAME"), filesystem.NAME)
BUSY = "the machine was too busy, or the tests' process was ended"
APART = 3  # seconds that values may cost the sample for one of the tests' own; limits that the tests have


class Server:
    """The fork server's state: the plan, what may be imported, and where /proc is read from."""

    def __init__(self, setup: dict[str, Any]) -> None:
        confine.die_with_parent()
        if setup["processor"] is not None:
            os.sched_setaffinity(0, {setup["processor"]})
        self.judge: tuple[int, socket.socket] | None = None
        self.before: dict[int, tuple[float, float]] = {}  # what that has spent on other samples
        self.patience = setup["patience"]
        self.proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        self._warm(setup)
        everything, paths = setup["packages"] == "all", setup["paths"]
        self.allowed = (
            None if everything else frozenset((*sys.stdlib_module_names, *setup["allowed"]))
        )
        preloaded = filesystem.loaded(paths) if setup["preload"] else None
        packages = preloaded if everything else setup["allowed"]
        shown = filesystem.trees(OWN_PATH, paths, packages, setup["hidden"])
        shown |= {path: [] for path in setup["command"][:1]}
        started = filesystem.loader() if setup["command"] else ""
        self.command = [started, *setup["command"]] if started else []
        self.plan = confine.enter(setup["deny"], shown, paths, started)
        program = syscalls.program(1, read_only=False, starts=bool(started))
        self.program = (
            confine.loadable(program) if self.plan.namespaces and self.plan.filtered else None
        )
        for name in ("confine", "filesystem", "finder", "runner", "syscalls", "wire"):
            del sys.modules[name]
        # What a sample finds is made here once: after the fork each step copies the memory that it touches.
        os.environ.clear()
        os.environ.update(ENVIRONMENT)
        sys.argv = [""]
        sys.modules["__main__"] = type(sys)("__main__")
        sys.meta_path.insert(0, finder.Finder(self.allowed, filesystem.SAMPLE))
        confine.limit(setup["memory_mb"], self.plan.processes)
        gc.collect()
        gc.freeze()

    def _warm(self, setup: dict[str, Any]) -> None:
        sys.path += setup["paths"]
        for name in (*WARM, *setup["preload"]):
            __import__(name)
        if setup["preload"]:
            del sys.path[len(sys.path) - len(setup["paths"]) :]
        site = __import__("site")  # started with -S, which leaves out the builtins that it adds
        for add in (site.setquit, site.setcopyright, site.sethelper):
            add()
        finder.give_large_stacks()
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(errors="backslashreplace")

    def filter(self) -> Any:
        """The system call filter for the process that calls this, or None where there is none."""
        if self.program or not self.plan.filtered:
            return self.program
        return confine.loadable(
            syscalls.program(os.getpid(), read_only=True, starts=bool(self.command))
        )


def judge(server: Server, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
    """All tests of a job (files: solution, tests), each in its own processes, up to the first not passed."""
    verdict, seconds = {}, 0.0
    for number in range(request["tests"]):
        verdict = supervised(server, request, files, number) | {"test": number}
        seconds += verdict["seconds"]
        if verdict["kind"] != "P":
            break
    return verdict | {"seconds": seconds}


def supervised(
    server: Server, request: dict[str, Any], files: list[int], number: int
) -> dict[str, Any]:
    """Forks the sample's process, waits for its verdict within the limit, and leaves no process behind."""
    nonce, limit, apart = os.urandom(NONCE), request["seconds"], "P"
    server.before = {}
    os.ftruncate(runner.SAID, 0)
    ours, theirs = socket.socketpair()
    said = os.memfd_create("said")
    with ours, theirs:
        started = time.monotonic()
        try:
            pid = confine.fork(server.plan)
        except OSError as e:
            os.close(said)
            return {"kind": "I", "text": f"no new process: {e}", "seconds": 0.0}
        if pid == 0:
            sample(server, request, files, number, theirs.detach(), said, nonce)
        theirs.close()
        kind, end = wait(server, [pid], ours.fileno(), nonce, started, limit)
        if request["apart"] and kind == "P":
            apart, end = judged_apart(
                server, number, limit, pid, [ours.fileno(), *files[1:]], started
            )
            kind = ""
            if apart == "P":  # now the sample has the tests too
                server.before[pid] = spent(server, pid)
                kind, end = wait(server, [pid], ours.fileno(), nonce, time.monotonic(), limit)
        seconds = time.monotonic() - started
        if not (kind or end) and apart in ("P", "S"):
            with open(
                os.pidfd_open(pid), "rb"
            ) as dead:  # if it was killed, its files closed a moment before
                select.select([dead], [], [], 0.1)
        locked = kind == "I" and "Seccomp:\t2" in read_proc(server, f"{pid}/status")
        gone = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        os.kill(pid, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
    if apart == "P":
        os.lseek(runner.SAID, 0, os.SEEK_SET)
        os.sendfile(runner.SAID, said, 0, MOST)
    os.close(said)
    failed = not end and (apart == "F" or (apart == "S" and not gone))
    used = usage.ru_utime + usage.ru_stime - server.before.get(pid, (0, 0))[0]
    end = end or ("T" if used >= limit and not failed else "")
    verdict = read_verdict(apart if failed else kind, end, status, limit)
    if locked and verdict["kind"] == "I":
        verdict = {"kind": "S", "text": "says that the sandbox failed"}
    if server.command and not (kind or end) and os.WIFEXITED(status):
        verdict = {"kind": "O", "text": ""}
    # Process 1 of a namespace cannot be killed from inside.
    killed = gone and (gone.si_code, gone.si_status) == (os.CLD_KILLED, signal.SIGKILL)
    if killed and server.plan.namespaces and verdict["kind"] in "ES":
        verdict = {"kind": "I", "text": "killed from outside"}
    if left := sweep(server):
        verdict = {"kind": "I", "text": f"{left} processes of the sample could not be ended"}
    return verdict | {"seconds": seconds}


def judged_apart(
    server: Server, number: int, limit: float, pid: int, fds: list[int], started: float
) -> tuple[str, str]:
    """(P, F or S; `wait`'s end) of the tests in their own process, which the sample answers."""
    if server.judge and os.waitid(os.P_PID, server.judge[0], os.WEXITED | os.WNOHANG | os.WNOWAIT):
        stop_judge(server)  # it ended between two samples: neither's doing
    if not server.judge:
        orders, theirs = socket.socketpair()
        with theirs:
            server.judge = confine.fork(server.plan, inside=False), orders
            if server.judge[0] == 0:
                tests(theirs, server.allowed)
    judge_pid, orders = server.judge
    try:
        server.before[judge_pid] = spent(server, judge_pid)
        socket.send_fds(orders, [b"!"], fds)
        wire.send(orders, number)
        kind, end = wait(server, [pid, judge_pid], orders.fileno(), b"", started, limit)
    except OSError:
        kind, end = "", ""
    if kind not in ("P", "F"):
        ended = stop_judge(server, 0 if kind else 0.1)
        if not kind and ended and ended != -signal.SIGKILL:
            # Nothing runs there but the tests and what the sample answered: only a kill is another's.
            kind = "S"
            os.pwrite(runner.SAID, b"ended the tests' process", 0)
    return kind.upper(), end or ("" if kind else "I")


def tests(orders: socket.socket, allowed: Any) -> None:
    """A process for the tests of many samples, in which no byte of one is executed. Never returns."""
    try:
        confine.die_with_parent()
        null = os.open(os.devnull, os.O_RDWR)
        for fd, taken in ((null, 0), (null, 2), (orders.fileno(), 3)):
            os.dup2(fd, taken)
        os.closerange(4, 1024)
        gc.enable()
        runner.judge(socket.socket(fileno=3), allowed)
    finally:
        os._exit(1)


def stop_judge(server: Server, patience: float = 0) -> int:
    """Ends the tests' process; its exit code if it had ended. The next sample gets a new one."""
    (pid, orders), server.judge = server.judge, None
    orders.close()
    with open(os.pidfd_open(pid), "rb") as dead:  # it may be about to end
        ended = select.select([dead], [], [], patience)[0]
    os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    return os.waitstatus_to_exitcode(status) if ended else 0


def sample(
    server: Server,
    job: dict[str, Any],
    files: list[int],
    number: int,
    out: int,
    said: int,
    nonce: bytes,
) -> None:
    """In the sample's process: everything closed, locked, then run. Never returns."""
    try:
        solution = runner.read(files[0]) if files else ""
        test = "" if job["apart"] else runner.read(files[1])["tests"][number]
        os.setsid()
        os.dup2(said, 3, inheritable=False)
        said = 3
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(said if server.command and fd else null, fd)
        active = confine.lock(server.plan, job["seconds"], server.filter())
        os.closerange(said + 1, out)
        os.closerange(out + 1, 1024)
        if not files:
            os.pwrite(said, json.dumps(active).encode(), 0)
            os.write(out, nonce + b"L")
            os._exit(0)
        if select.select([out], [], [], 0)[0]:
            os._exit(1)  # the fork server ended before this process asked to end with it
        if server.command:
            os.set_inheritable(
                out, True
            )  # an end of the pipe that closes is taken for the sample's own end
            texts = {"SOLUTION": solution.replace("\0", ""), "TEST": test}
            os.execve(
                server.command[0],
                server.command,
                {k: v.encode("utf8", "replace") for k, v in texts.items()},
            )
    except OSError as e:
        os.pwrite(said, f"sandbox setup: {e}".encode(), 0)
        os.write(out, nonce + b"I")
        os._exit(0)
    gc.enable()
    runner.run(
        solution, test, job["apart"], out, said, nonce, server.allowed, partial(anew, server)
    )


def anew(server: Server) -> None:
    """In the sample's process, before its second run: hide what the first run has written."""
    if server.plan.namespaces:
        os.chdir(filesystem.make_work(confine.SECOND_RUN))
        os.environ["HOME"] = os.getcwd()
    if "unittest" in sys.modules:  # its loader remembers where the first run discovered tests
        sys.modules["unittest"].defaultTestLoader._top_level_dir = None
    if "logging" in sys.modules:  # its root logger still writes to the file of the first run
        root = sys.modules["logging"].root
        root.handlers.clear()
        root.setLevel(sys.modules["logging"].WARNING)


def wait(
    server: Server, pids: list[int], reader: int, nonce: bytes, started: float, limit: float
) -> tuple[str, str]:
    """(what the last process's letter is, "T" where the limit ended it, "I" where the machine was slow)."""
    ended = os.pidfd_open(pids[-1])
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    poll.register(ended, select.POLLIN)
    os.set_blocking(reader, False)
    try:
        while not (news := poll.poll(0)):
            wall = time.monotonic() - started
            left, patience = remaining(server, pids, wall, limit), server.patience * limit - wall
            if min(left, patience) <= 0:
                break
            # Past the limit at moments that nobody can foresee, who would sleep but for them.
            longest = min(left, patience) * 1000 + 1
            poll.poll(longest if wall < limit else min(longest, 1 + os.urandom(1)[0]))
        return (letter(reader, nonce), "") if news else ("", "T" if left <= 0 else "I")
    except OSError:  # it ended without a word, or with one unread
        return "", ""
    finally:
        os.set_blocking(reader, True)
        os.close(ended)


def letter(reader: int, nonce: bytes) -> str:
    """What comes after the nonce; "?" without one, "" at the end of the line. No more of it stays here."""
    buffer = bytearray(len(nonce) + 1)
    size = os.readv(reader, [buffer])
    own = size == len(buffer) and memoryview(buffer)[:-1] == nonce
    heard = chr(buffer[-1]) if own else "?" if size else ""
    buffer[:] = bytes(len(buffer))
    return heard


def remaining(server: Server, pids: list[int], wall: float, limit: float) -> float:
    """Seconds left after `wall`, so that a busy machine flips no verdict.

    Processor time decides for processes that run or wait for a page (feigned or not, up to DISK times the
    limit); where all sleep it is wall time, less what they stood ready without a processor. What a sample's
    calls cost, the tests' process pays too.
    """
    if wall < limit:
        return limit - wall
    used, ready = zip(*(spent(server, pid) for pid in pids), strict=True)
    apart = sum(used[1:])
    values = min(apart, limit)
    states = [stat(server, pid)[:1] for pid in pids]
    if ["R"] in states or ["D"] in states:
        left = min(limit + APART * values - used[0], APART * limit + 1 - apart)
        return left if ["R"] in states else min(left, DISK * limit - wall + sum(ready))
    return limit + APART * values + apart - wall + sum(ready)


def spent(server: Server, pid: int) -> tuple[float, float]:
    """(processor seconds of all threads, seconds that the first stood ready without one) since `before`."""
    try:
        used = time.clock_gettime(~pid << 3 | 2)  # as clock_getcpuclockid has it
    except OSError:  # it has just ended
        used = 0.0
    ready = int((read_proc(server, f"{pid}/schedstat") or "0 0").split()[1]) / 1e9
    before = server.before.get(pid, (0, 0))
    return used - before[0], ready - before[1]


def stat(server: Server, pid: int | str) -> list[str]:
    """A process's state, its parent and more; nothing of one that has ended."""
    return read_proc(server, f"{pid}/stat").split()


def read_proc(server: Server, path: str) -> str:
    """A file of /proc as it was before it was hidden; nothing where a process has just ended.

    Without the process's name, which a sample chooses: it is not to stay in this memory."""
    buffer = bytearray(8192)
    try:
        file = os.open(path, os.O_RDONLY, dir_fd=server.proc)
        size = os.readv(file, [buffer])
        os.close(file)
    except OSError:
        return ""
    text = bytes(memoryview(buffer)[buffer.rfind(b")") + 1 : size]).decode()
    buffer[:] = bytes(len(buffer))
    return text


def read_verdict(kind: str, end: str, status: int, limit: float) -> dict[str, Any]:
    """What was said, or how the sample's process ended, as the reply's `kind` and `text` ("": as in SAID)."""
    if kind and kind in "PFISL":
        return {"kind": kind, "text": ""}
    if kind:
        return {"kind": "S", "text": "wrote to the verdict's channel"}
    if end:
        return {"kind": end, "text": f"no verdict within {limit:g} s" if end == "T" else BUSY}
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
        names = {s.value: s.name for s in signal.Signals}
        return {
            "kind": "E",
            "text": f"killed by {names.get(number := os.WTERMSIG(status), number)}",
        }
    return {"kind": "E", "text": "ended before the tests completed"}


def sweep(server: Server) -> int:
    """Kills what the sample started and orphaned, until nothing is left; the number that would not end."""
    if server.plan.namespaces or server.plan.filtered:
        return 0  # the namespace ended with the sample's process, or it could start none
    if server.judge:
        stop_judge(server)
    end = time.monotonic() + 5
    while time.monotonic() < end:
        for pid in children(server):  # those of one that ends become this process's
            os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return 0
    return len(children(server))


def children(server: Server) -> list[int]:
    """This process's, by their ids."""
    own, names = [str(os.getpid())], filter(str.isdigit, os.listdir(server.proc))
    return [int(n) for n in names if stat(server, n)[1:2] == own]


def main() -> None:
    """Serves until the parent closes the socket; the first message says which layers are active."""
    with socket.socket(fileno=os.dup(0)) as line:
        gc.disable()
        server = Server(json.loads(sys.argv[1]))
        first = judge(server, {"seconds": 10.0, "tests": 1, "apart": True}, [])
        said = os.pread(runner.SAID, 8192, 0).decode()
        active = json.loads(said) if first["kind"] == "L" else {"sandbox": first["text"] or said}
        wire.send(line, server.plan.layers | active)
        while files := socket.recv_fds(line, 1, 2)[1]:
            wire.send(line, judge(server, wire.receive(line), files))
            for file in files:
                os.close(file)


if __name__ == "__main__":
    main()
