"""The sample's own process: executes solution and tests as the official harness does, then answers calls.

Where a task is judged apart this says nothing of worth: what counts comes from the tests' process (wire.py).
For `shared` tasks solution and tests have this interpreter alone. The nonce that makes a verdict valid lives
in the closure of an audit hook, which ends the process at plain ways to it: frames, `gc`, tracing, ctypes. A
determined sample gets past that.
"""

from __future__ import annotations

import _thread
import ast
import builtins
import contextlib
import marshal
import os
import random
import re
import socket
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import wire

SAMPLE, TEST = "<sample>", "<test>"
START, COMPLETED, FAILED = "pkg_lib.start", "pkg_lib.completed", "pkg_lib.failed"
LONGEST = 500
FRAME_ATTRIBUTES = frozenset(("tb_frame", "gi_frame", "cr_frame", "ag_frame"))
SEARCHES = "sys._getframe sys._current_frames sys._current_exceptions gc.get_objects gc.get_referrers"
SEARCHES = f"{SEARCHES} gc.get_referents object.__getattr__ sys.settrace sys.setprofile sys.addaudithook"
MEMORY = "dlopen dlsym dlsym/handle cdata cdata/buffer string_at wstring_at addressof call_function"
MEMORY = frozenset(f"ctypes.{name}" for name in f"{MEMORY} PyObj_FromPtr".split())
SEARCHES = frozenset(SEARCHES.split()) | MEMORY
GIVERS = ("/inspect.py", "/traceback.py", "/logging/__init__.py")
CTYPES = "/ctypes/__init__.py"
INSTALLED = re.compile(r".*-packages/(?:__pycache__/)?([^/.]+)(?:/.*)?[^/]*\.pyc?")

Hook = Callable[[str, tuple[Any, ...]], None]


class Test:
    """The text of the tests and its code, made once for both processes."""

    def __init__(self, text: str) -> None:
        self.text, self.code = text, text
        with contextlib.suppress(SyntaxError, ValueError):  # the text then fails where it is run
            self.code = compile(text, TEST, "exec", dont_inherit=True)


@dataclass(frozen=True)
class Rules:
    """What stands before every sample."""

    allowed: frozenset[str] | None  # the importable top-level names; None: all
    home: tuple[str, ...]  # beginnings of the file names of Python's own code


def run(solution: str, test: Test | None, apart: bool, out: int, secret: list, rules: Rules) -> None:
    """Never returns: writes the verdict to `out`, answers the calls of tests that stand `apart`, and ends."""
    leave, audit, space = os._exit, sys.audit, {}
    sys.addaudithook(_hook(out, secret, rules, apart))
    try:
        code = compile(solution, SAMPLE, "exec", dont_inherit=True)
        _judge(code, test and test.code, space, exec, audit)
    except BaseException as e:  # noqa: BLE001  whatever a sample raises, SystemExit among it, is its verdict
        audit(FAILED, describe(e, test and test.text, rules.allowed))
    space.clear()
    exec(code, space)  # anew: what the tests changed in it is gone
    wire.serve(socket.socket(fileno=out), space)
    leave(0)


def _judge(code: Any, tests: Any, space: dict[str, Any], execute: Callable, audit: Callable) -> None:
    """All names are its own locals, so nothing the sample replaces is used. The last line is the verdict."""
    audit(START)
    execute(code, space)
    if tests is not None:
        execute(tests, space)
    audit(COMPLETED)


LAST_LINE = max(line for _, _, line in _judge.__code__.co_lines() if line)


def _hook(out: int, secret: list[bytes], rules: Rules, apart: bool) -> Hook:
    """The audit hook. Everything it needs is bound here, before any of the sample's code runs."""
    nonce, own, write, leave, getpid = secret.pop(), os.getpid(), os.write, os._exit, os.getpid
    allowed, home, getframe, ident = rules.allowed, rules.home, sys._getframe, _thread.get_ident
    judge: list[types.FrameType] = []
    busy: set[int] = set()

    def say(kind: bytes, text: bytes = b"") -> None:
        if getpid() == own:  # a forked copy of the sample has no verdict
            write(out, nonce + kind + text[:3000])
        if kind != b"P" or not apart:
            leave(0)

    def own_event(event: str, args: tuple[Any, ...], asking: types.FrameType) -> None:
        if event == START and not judge:
            judge.append(asking)
        elif event == COMPLETED and judge and asking is judge[0] and asking.f_lineno == LAST_LINE:
            say(b"P")
        elif event == FAILED:
            say(b"F", args[0] if args and type(args[0]) is bytes else b"")
        else:
            say(b"S", b"forged completion")

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "import":
            _check_import(args[0], allowed)
        elif event == "open":
            # importlib.import_module raises no import event: a package's __init__ does, a lone file not.
            if type(args[0]) is str and (file := INSTALLED.fullmatch(args[0])):
                _check_import(file[1], allowed)
        elif event.startswith("pkg_lib."):
            own_event(event, args, getframe(1))
        elif event in SEARCHES and not apart and (thread := ident()) not in busy:
            busy.add(thread)
            if (event != "object.__getattr__" or args[1] in FRAME_ATTRIBUTES) and _by_sample(getframe(1), home):
                say(b"S", f"used {event}".encode())
            busy.discard(thread)

    return hook


def judge(orders: socket.socket) -> None:
    """In the tests' process: one job after the other, up to the first that does not pass. Never returns."""
    own, state = orders.fileno(), random.getstate()

    def refuse(why: str) -> NoReturn:
        os.write(own, why[:3000].encode("utf8", "replace"))
        os._exit(0)

    while True:
        _, (fd,), *_ = socket.recv_fds(orders, 1, 1)
        code, text, given, entry_point = wire.receive(orders)
        random.setstate(state)
        with socket.socket(fileno=fd) as line:
            space: dict[str, Any] = {}
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


def _check_import(name: str, allowed: frozenset[str] | None) -> None:
    """Python's own error for a package that the setting forbids, however the sample asks for it."""
    top = name.partition(".")[0]
    if allowed is not None and top not in allowed and not top.startswith("_sysconfigdata"):
        raise ModuleNotFoundError(f"No module named {top!r}", name=top)


def _by_sample(frame: types.FrameType | None, home: tuple[str, ...]) -> bool:
    """Whether the sample's code raised an event, itself or by a module that hands out frames or memory."""
    while frame is not None and frame.f_code.co_filename.endswith(CTYPES):
        frame = frame.f_back
    if frame is not None and frame.f_code.co_filename.endswith(GIVERS):
        frame = frame.f_back  # one step: these modules also look at frames for themselves
    return frame is None or not frame.f_code.co_filename.startswith(home)


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
