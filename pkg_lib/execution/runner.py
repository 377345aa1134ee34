"""Runs a solution and its tests: first in two processes, then in one as the official harness.

With two processes, the tests' process executes no code of the sample, and the sample cannot read the
tests. A sample that passed then gets the tests and runs them in its own process. It reports the
verdict with a nonce, which its code can find. If tests run only in the sample's process, the verdict
relies only on that nonce.
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
from types import CodeType
from typing import Any, NoReturn

import wire

SAMPLE = "<sample>"
TEST = "<test>"
# Where the tests' process and the fork server have the file for what is reported with a verdict.
REPORT = 1
MOST = 4096  # characters that are looked at of an error
GROWN = 1 << 17  # kilobytes that samples' answers may leave in the tests' process
Names = Container[str] | None


def run(
    solution: str,
    test: str,
    apart: bool,
    out: int,
    report: int,
    nonce: bytes,
    allowed: Names,
    hide_first_run: Callable[[], None],
) -> NoReturn:
    """Run a solution with its tests, and write the verdict to `out`. Never returns.

    The locals are bound before the sample runs, so that it cannot replace what they name.

    Args:
        solution: The sample's program.
        test: Tests that share its process; empty where they run apart.
        apart: Whether a process of its own has the tests first. Their calls are answered here.
        out: Socket for the verdict, and to the tests that run apart.
        report: File for what is reported with the verdict.
        nonce: What marks a verdict as the runner's.
        allowed: Top-level modules that may be imported; None for all.
        hide_first_run: Called before the second run, to hide what the first has written.
    """
    write = os.write
    write_at = os.pwrite
    leave = os._exit
    execute = exec
    space: dict[str, Any] = {}
    state = random.getstate()
    try:
        program = compile(solution, SAMPLE, "exec", dont_inherit=True)
        code = compiled(test)
        execute(program, space)
        if apart:
            write(out, nonce + b"P")
            code = wire.serve(socket.socket(fileno=os.dup(out)), space)
            random.setstate(state)
            with contextlib.suppress(OSError):
                hide_first_run()
            execute(program, space := {})  # without what the tests changed
        execute(marshal.loads(code), space)
        verdict = b"P"
    except BaseException as e:  # noqa: BLE001  SystemExit is a verdict, too
        write_at(report, describe(e, allowed), 0)
        verdict = b"F"
    write(out, nonce + verdict)
    leave(0)


def read(file: int) -> Any:
    """Read a file of JSON from its start.

    Args:
        file: Its descriptor.
    """
    return json.loads(wire.contents(file))


def compiled(test: str) -> bytes:
    """Compile tests.

    Args:
        test: The program.

    Returns:
        Its code as marshal has it, or the text itself if it is not Python, so that it fails where
        it is executed.
    """
    try:
        return marshal.dumps(compile(test, TEST, "exec", dont_inherit=True))
    except (SyntaxError, ValueError):
        return marshal.dumps(test)


def serve_tests(orders: socket.socket, allowed: Names) -> NoReturn:
    """In the tests' process: run the tests of one job after the other. Never returns.

    It ends when a sample answers with what is not a value. A verdict in small letters says that the
    process has grown by more than GROWN and is to be replaced.

    Args:
        orders: The socket to the fork server.
        allowed: Top-level modules that may be imported; None for all.
    """
    state = random.getstate()
    largest = _peak_memory() + GROWN

    def answer(verdict: str, text: bytes = b"") -> None:
        # Only a sample that passed gets the tests. Another could tell the next sample of the task
        # about them by what it leaves, such as pages of files in memory.
        os.ftruncate(REPORT, 0)
        os.pwrite(REPORT, text, 0)
        if verdict in "Pp":
            with contextlib.suppress(OSError):  # the sample may have ended
                wire.send(line, ["", code.hex()])
        orders.sendall(verdict.encode())

    def refuse(why: str) -> NoReturn:
        answer("S", why[:MOST].encode("utf8", "replace"))
        os._exit(0)

    while True:
        _, (fd, file), *_ = socket.recv_fds(orders, 1, 2)
        job = read(file)
        number = wire.receive(orders)
        code = compiled(job["tests"][number])
        os.close(file)
        random.setstate(state)
        with socket.socket(fileno=fd) as line:
            stand_in = partial(wire.stand_in, line, refuse)
            failure = _failure(
                marshal.loads(code), job["given"], job["entry_point"], stand_in, allowed
            )
            verdict = "P" if failure is None else "F"
            # The memory that its answers fill is released before its verdict. If that fails, it is
            # the sample's own doing.
            gc.collect()
            if _peak_memory() > largest:
                verdict = verdict.lower()
            answer(verdict, failure or b"")


def _peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _failure(
    tests: CodeType,
    given: str,
    entry_point: str,
    stand_in: Callable[[str], wire.Make],
    allowed: Names,
) -> bytes | None:
    """Run tests with stand-ins for the sample's functions, and describe their failure."""
    space: dict[str, Any] = {}
    try:
        exec(given, space)
        for name in tests.co_names:
            if name not in space and not hasattr(builtins, name):
                space[name] = sys.modules.get(name) or stand_in(name)
        space[entry_point] = stand_in(entry_point)
        exec(tests, space)
    except BaseException as e:  # noqa: BLE001  as in the sample's process
        return describe(e, allowed)
    return None


def describe(e: BaseException, allowed: Names) -> bytes:
    """Describe an exception in four lines, as `sandbox` reads them.

    Args:
        e: The exception.
        allowed: Top-level modules that may be imported; None for all.

    Returns:
        Names of its class and base classes, most derived first; the forbidden package, if it is
        one; the last line of the traceback; and the line number of the innermost statement of the
        tests.
    """
    try:
        names = " ".join(c.__name__ for c in type(e).__mro__ if isinstance(c.__name__, str))
        line = " ".join(f"{type(e).__name__}: {e}"[:MOST].split()).removesuffix(":")
    except BaseException:  # noqa: BLE001  a hostile __str__
        names = "Exception"
        line = "an error that cannot be printed"
    package = ""
    if isinstance(e, ImportError) and type(e.name) is str:
        package = e.name[:100].partition(".")[0]
    if allowed is None or package in allowed:
        package = ""
    number = 0
    traceback = e.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == TEST:
            number = traceback.tb_lineno
        traceback = traceback.tb_next
    parts = (names[:MOST], package, line[:500], str(number))
    text = "\n".join(part.replace("\n", " ") for part in parts)
    return text.encode("utf8", "replace")
