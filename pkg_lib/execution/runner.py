"""What runs solution and tests: the tests' process apart, then the sample's as the official harness does.

Apart, no byte of the sample is executed where the tests are, and none of the tests is where it could read its
answers. If it passed it gets them too, and says so with a nonce, which code finds: all of a `shared` one.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import json
import marshal
import os
import random
import resource
import socket
import sys
from collections.abc import Callable, Container
from functools import partial
from typing import Any, NoReturn

import wire

SAMPLE, TEST = "<sample>", "<test>"
SAID = (
    1  # where the tests' process and the fork server have the file for what is said with a verdict
)
MOST = 4096  # characters that are looked at of an error
GROWN = 1 << 17  # kilobytes that samples' answers may leave in the tests' process
Names = Container[str] | None


def run(
    solution: str,
    test: str,
    apart: bool,
    out: int,
    said: int,
    nonce: bytes,
    allowed: Names,
    anew: Callable[[], None],
) -> NoReturn:
    """Answer the calls of tests that run `apart`, then write the verdict to `out`. Never returns.

    Args:
        solution: The sample's program.
        test: Tests that share its process; empty where they run apart.
        apart: Whether a process of its own has the tests first.
        out: Socket for the verdict, and for the tests that run apart.
        said: File for what is reported with the verdict.
        nonce: What marks a verdict as the runner's.
        allowed: Top-level modules that may be imported; None: all.
        anew: Called before the second run, to hide what the first has written.
    """
    write, write_at, leave, execute = os.write, os.pwrite, os._exit, exec
    space, state = {}, random.getstate()
    try:
        program, code = compile(solution, SAMPLE, "exec", dont_inherit=True), compiled(test)
        execute(program, space)
        if apart:
            write(out, nonce + b"P")
            code = wire.serve(socket.socket(fileno=os.dup(out)), space)
            random.setstate(state)
            with contextlib.suppress(OSError):
                anew()
            execute(program, space := {})  # what the tests changed in it is gone
        execute(marshal.loads(code), space)
        verdict = b"P"
    except BaseException as e:  # noqa: BLE001  whatever a sample raises, SystemExit among it, is its verdict
        write_at(said, describe(e, allowed), 0)
        verdict = b"F"
    write(out, nonce + verdict)
    leave(0)


def read(file: int) -> Any:
    return json.loads(os.pread(file, os.fstat(file).st_size, 0))


def compiled(test: str) -> bytes:
    """As marshal has it; a text that is no code as it is, so that it fails where it is executed."""
    try:
        return marshal.dumps(compile(test, TEST, "exec", dont_inherit=True))
    except (SyntaxError, ValueError):
        return marshal.dumps(test)


def judge(orders: socket.socket, allowed: Names) -> NoReturn:
    """In the tests' process: one job after the other, until a sample answers with what is no value.

    A verdict in small letters says that the process has GROWN and is to be replaced.
    """
    peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # noqa: E731
    state, most = random.getstate(), peak() + GROWN

    def say(verdict: str, text: bytes = b"") -> None:
        # None that failed sees the tests: by what it leaves, such as pages of files in memory, it could tell
        # the next sample of the task.
        os.ftruncate(SAID, 0)
        os.pwrite(SAID, text, 0)
        if verdict in "Pp":
            with contextlib.suppress(OSError):  # the sample may have ended
                wire.send(line, ["", code.hex()])
        orders.sendall(verdict.encode())

    def refuse(why: str) -> NoReturn:
        say("S", why[:MOST].encode("utf8", "replace"))
        os._exit(0)

    while True:
        _, (fd, file), *_ = socket.recv_fds(orders, 1, 2)
        job, number = read(file), wire.receive(orders)
        code = compiled(job["tests"][number])
        os.close(file)
        random.setstate(state)
        with socket.socket(fileno=fd) as line:
            stand_in = partial(wire.stand_in, line, refuse)
            verdict = _judged(
                marshal.loads(code), job["given"], job["entry_point"], stand_in, allowed
            )
            # What its answers fill is given back before its verdict: where that fails, it is its own doing.
            gc.collect()
            say(verdict[0].lower() if peak() > most else verdict[0], verdict[1])


def _judged(
    tests: Any, given: str, entry_point: str, stand_in: Callable[[str], Callable], allowed: Names
) -> tuple[str, bytes]:
    """(P or F, what `describe` says)."""
    space: dict[str, Any] = {}
    try:
        exec(given, space)
        names = [n for n in tests.co_names if n not in space and not hasattr(builtins, n)]
        space |= {n: sys.modules.get(n) or stand_in(n) for n in names} | {
            entry_point: stand_in(entry_point)
        }
        exec(tests, space)
    except BaseException as e:  # noqa: BLE001  as in the sample's process
        return "F", describe(e, allowed)
    return "P", b""


def describe(e: BaseException, allowed: Names) -> bytes:
    """Lines: class names, most derived first; forbidden package; the traceback's last; the tests' number."""
    try:
        names = " ".join(c.__name__ for c in type(e).__mro__ if isinstance(c.__name__, str))
        line = " ".join(f"{type(e).__name__}: {e}"[:MOST].split()).removesuffix(":")
    except BaseException:  # noqa: BLE001  a hostile __str__
        names, line = "Exception", "an error that cannot be printed"
    top = (
        e.name[:100].partition(".")[0] if isinstance(e, ImportError) and type(e.name) is str else ""
    )
    blocked = "" if allowed is None or top in allowed else top
    number, tb = 0, e.__traceback__
    while tb is not None:  # up to the innermost statement of the tests at which the error came up
        number = tb.tb_lineno if tb.tb_frame.f_code.co_filename == TEST else number
        tb = tb.tb_next
    parts = (names[:MOST], blocked, line[:500], number)
    return "\n".join(str(p).replace("\n", " ") for p in parts).encode("utf8", "replace")
