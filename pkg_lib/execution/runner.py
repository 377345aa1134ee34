"""What runs solution and tests: the sample's process as the official harness does, the tests' process apart.

The sample's says "passed" with a nonce, which code that searches for it finds. For a task that is judged
apart this is half a verdict: the other half is what `judge` finds in a process where no byte of the sample is
executed. For a `shared` task it is all, as it is in the official harness.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import marshal
import os
import random
import re
import socket
import sys
from collections.abc import Callable, Container
from typing import Any, NoReturn

import wire

SAMPLE, TEST = "<sample>", "<test>"
LONGEST = 500
Names = Container[str] | None
INSTALLED = re.compile(r".*-packages/(?:__pycache__/)?([^/.]+)(?:/.*)?[^/]*\.pyc?")


def run(
    solution: str, test: str | None, code: Any, apart: bool, out: int, nonce: bytes, allowed: Names
) -> NoReturn:
    """Never returns: writes the verdict to `out`, answers the calls of tests that stand `apart`, and ends."""
    write, leave, execute, space = os.write, os._exit, exec, {}
    sys.addaudithook(_import_rule(allowed))
    try:
        program = compile(solution, SAMPLE, "exec", dont_inherit=True)
        execute(program, space)
        if code is not None:
            execute(code, space)
        verdict = b"P" if apart or code is None else b"Pshared"
    except BaseException as e:  # noqa: BLE001  whatever a sample raises, SystemExit among it, is its verdict
        verdict = b"F" + describe(e, test, allowed)
    write(out, nonce + verdict)
    if verdict == b"P" and apart:
        space.clear()
        execute(program, space)  # anew: what the tests changed in it is gone
        wire.serve(socket.socket(fileno=out), space)
    leave(0)


def judge(orders: socket.socket) -> NoReturn:
    """In the tests' process: one job after the other, up to the first that does not pass."""
    own, state = orders.fileno(), random.getstate()

    def refuse(why: str) -> NoReturn:
        os.write(own, why[:3000].encode("utf8", "replace"))
        os._exit(0)

    while True:
        _, (fd,), *_ = socket.recv_fds(orders, 1, 1)
        code, text, given, entry_point = wire.receive(orders)
        random.setstate(state)
        space: dict[str, Any] = {}
        with socket.socket(fileno=fd) as line:
            try:
                exec(given, space)
                code = marshal.loads(bytes.fromhex(code))
                names = [n for n in code.co_names if n not in space and not hasattr(builtins, n)]
                space |= {n: sys.modules.get(n) or wire.stand_in(n, line, refuse) for n in names}
                space[entry_point] = wire.stand_in(entry_point, line, refuse)
                exec(code, space)
            except BaseException as e:  # noqa: BLE001  as in the sample's process
                _, _, *parts = describe(e, text, None).decode("utf8", "replace").split("\n")
                refuse(" | failing: ".join(p for p in parts if p))
        os.write(own, b"P")


def _import_rule(allowed: Names) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook: Python's own error for a package that the setting forbids, however it is asked for."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "import":
            name = args[0]
        # importlib.import_module raises no import event: a package's __init__ does, a lone file not.
        elif event == "open" and type(args[0]) is str and (file := INSTALLED.fullmatch(args[0])):
            name = file[1]
        else:
            return
        top = name.partition(".")[0]
        if allowed is not None and top not in allowed and not top.startswith("_sysconfigdata"):
            raise ModuleNotFoundError(f"No module named {top!r}", name=top)

    return hook


def describe(e: BaseException, test: str | None, allowed: frozenset[str] | None) -> bytes:
    """Lines of: class names most derived first, forbidden package, last line of the traceback, assertion."""
    try:
        names = " ".join(c.__name__ for c in type(e).__mro__ if isinstance(c.__name__, str))
        line = " ".join(f"{type(e).__name__}: {e}".split()).removesuffix(":")
    except BaseException:  # noqa: BLE001  a hostile __str__
        names, line = "Exception", "an error that cannot be printed"
    blocked = ""
    if isinstance(e, ImportError) and allowed is not None and type(e.name) is str:
        top = e.name.partition(".")[0]
        blocked = "" if top in allowed else top
    parts = (names, blocked, line[:LONGEST], _failing(e, test)[:LONGEST])
    return "\n".join(p.replace("\n", " ") for p in parts).encode("utf8", "replace")


def _failing(e: BaseException, test: str | None) -> str:
    """The source of the innermost statement of the tests at which the error came up."""
    number, tb = 0, e.__traceback__
    while tb is not None and test is not None:
        if tb.tb_frame.f_code.co_filename == TEST:
            number = tb.tb_lineno
        tb = tb.tb_next
    if not number or test is None:
        return ""
    line = test.splitlines()[number - 1].strip()
    if line.startswith("assert "):  # the whole tree costs as much as running the sample
        with contextlib.suppress(SyntaxError):
            compile(line, TEST, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
            return line
    statements = [n for n in ast.walk(ast.parse(test)) if isinstance(n, ast.stmt)]
    around = [n for n in statements if n.lineno <= number <= (n.end_lineno or 0)]
    return ast.get_source_segment(test, max(around, key=lambda n: n.lineno)) or "" if around else ""
