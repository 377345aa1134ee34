"""The sample's own process: executes solution and tests, and lets only a completed test run say "passed".

Solution and tests share one interpreter. The nonce that makes a verdict valid lives in the closure of an
audit hook, which no Python object refers to, and the hook stops the process at the first step by which code
could find it (frame walking, `gc` searches, tracing, raw memory through ctypes, /proc). It says "passed" only
when the frame of `_judge` itself asks, at its last line, reached only when the tests' code has returned.
"""

from __future__ import annotations

import _signal
import _thread
import ast
import builtins
import contextlib
import functools
import gc
import os
import re
import signal
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SAMPLE, TEST = "<sample>", "<test>"
START, LOADED, COMPLETED = "pkg_lib.start", "pkg_lib.loaded", "pkg_lib.completed"
FAILED, ALWAYS_EQUAL, SIGNAL = "pkg_lib.failed", "pkg_lib.always_equal", "pkg_lib.signal"
LONGEST = 500
FRAME_ATTRIBUTES = frozenset(("tb_frame", "gi_frame", "cr_frame", "ag_frame"))
SEARCHES = "sys._getframe sys._current_frames sys._current_exceptions gc.get_objects gc.get_referrers"
SEARCHES = frozenset(f"{SEARCHES} gc.get_referents object.__getattr__".split())
FORBIDDEN = frozenset(("sys.settrace", "sys.setprofile", "sys.addaudithook"))
MEMORY = "dlopen dlsym dlsym/handle cdata cdata/buffer string_at wstring_at addressof call_function"
MEMORY = frozenset(f"ctypes.{name}" for name in f"{MEMORY} PyObj_FromPtr".split())
LISTINGS = frozenset(("open", "os.listdir", "os.scandir", "os.chdir", "os.symlink", "os.link"))
PLACES = ("/proc/", "/dev/fd/")
CODE = frozenset(("compile", "code.__new__"))
WATCHED = frozenset(("import",)) | SEARCHES | FORBIDDEN | MEMORY | LISTINGS | CODE
GIVERS = ("/inspect.py", "/traceback.py", "/logging/__init__.py")
CTYPES = "/ctypes/__init__.py"
# A text without any of these words makes no class with an `__eq__` of its own; the search costs 1 ms.
MAKES_CLASSES = ("class", "type", "exec", "eval", "compile", "__", "import_module")
INSTALLED = re.compile(r".*-packages/(?:__pycache__/)?([^/.]+)(?:/.*)?[^/]*\.pyc?")
CALLED = re.compile(r"[A-Za-z_]\w*(?=\s*\()")
BASES = (object, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, type)

Check = Callable[[], list[str]]
Hook = Callable[[str, tuple[Any, ...]], None]
OwnEvent = Callable[[str, tuple[Any, ...], types.FrameType], None]


@dataclass(frozen=True)
class Rules:
    """What stands before every sample."""

    allowed: frozenset[str] | None  # the importable top-level names; None: all
    home: tuple[str, ...]  # beginnings of the file names of Python's own code
    classes: dict[int, type]  # by id, kept alive, so that no id is given again
    builtins: dict[str, Any]


def run(solution: str, test: str | None, entry_point: str, out: int, secret: list, rules: Rules) -> None:
    """Never returns: writes one verdict to `out` and ends the process. `secret` holds the nonce."""
    leave, audit = os._exit, sys.audit
    space: dict[str, Any] = {}
    checks = _integrity_checks(space, rules.builtins, _builtin_names(test) - {entry_point})
    sys.addaudithook(_hook(out, secret, rules, checks))
    try:
        code = compile(solution, SAMPLE, "exec", dont_inherit=True)
        tests = None if test is None else compile(test, TEST, "exec", dont_inherit=True)
        makes_classes = any(w in solution for w in MAKES_CLASSES)
        probe = functools.partial(_probe, rules.classes, audit) if makes_classes else int
        _judge(code, tests, space, exec, audit, probe)
    except BaseException as e:  # noqa: BLE001  whatever a sample raises, SystemExit among it, is its verdict
        audit(FAILED, _describe(e, test, rules.allowed))
    leave(1)


def _judge(
    code: Any, tests: Any, space: dict[str, Any], execute: Callable, audit: Callable, probe: Callable
) -> None:
    """All names are its own locals, so nothing the sample replaces is used. The last line is the verdict."""
    audit(START)
    execute(code, space)
    audit(LOADED)
    if tests is not None:
        execute(tests, space)
    probe()
    audit(COMPLETED)


LAST_LINE = max(line for _, _, line in _judge.__code__.co_lines() if line)


def _hook(out: int, secret: list[bytes], rules: Rules, checks: tuple[Check, Check]) -> Hook:
    """The audit hook. Everything it needs is bound here, before any of the sample's code runs."""
    own_event, suspect = _verdicts(out, secret, checks)
    guard, getframe, ident = _rule_check(rules), sys._getframe, _thread.get_ident
    enabled, stop, resume = gc.isenabled, gc.disable, gc.enable
    busy: set[int] = set()

    def hook(event: str, args: tuple[Any, ...]) -> None:
        thread = ident()
        if thread in busy:
            return
        collecting = enabled()
        stop()  # a collection here would run the sample's finalizers while events are not watched
        busy.add(thread)
        try:
            if event.startswith("pkg_lib."):
                own_event(event, args, getframe(1))
            elif event in WATCHED:
                why = guard(event, args, getframe(1))
                if why:
                    suspect(why)
        finally:
            busy.discard(thread)
            if collecting:
                resume()

    return hook


def _verdicts(out: int, secret: list[bytes], checks: tuple[Check, Check]) -> tuple[OwnEvent, Callable]:
    """Two functions: what becomes of the runner's own events, and the end of a process under suspicion."""
    nonce, own, write, leave, getpid = secret.pop(), os.getpid(), os.write, os._exit, os.getpid
    before, after = checks
    set_plainly = _guard_signals()
    judge: list[types.FrameType] = []
    doubts: list[str] = []

    def say(kind: bytes, text: bytes = b"") -> None:
        if getpid() == own:  # a forked copy of the sample has no verdict
            write(out, nonce + kind + text[:3000])
        leave(0)

    def suspect(why: str) -> None:
        say(b"S", why.encode("utf8", "replace"))

    def completed(asking: types.FrameType) -> None:
        if not judge or asking is not judge[0] or asking.f_lineno != LAST_LINE:
            suspect("forged completion")
        doubts.extend(after())
        if doubts:
            suspect(doubts[0])
        say(b"P")

    def own_event(event: str, args: tuple[Any, ...], asking: types.FrameType) -> None:
        if event == COMPLETED:
            completed(asking)
        elif event == START and not judge:
            judge.append(asking)
        elif event == LOADED:
            doubts.extend(before())
        elif event == SIGNAL:
            if not set_plainly(*args):
                suspect("set a signal handler")
        elif event == FAILED:
            say(b"F", args[0] if args and type(args[0]) is bytes else b"")
        else:
            suspect(args[0] if args and type(args[0]) is str else "forged event")

    return own_event, suspect


def _rule_check(rules: Rules) -> Callable[[str, tuple[Any, ...], types.FrameType], str]:
    """A function that says why an event is suspicious ("" when it is not), or refuses an import."""
    home, allowed, whole = rules.home, rules.allowed, _place_check()

    def guard(event: str, args: tuple[Any, ...], caller: types.FrameType) -> str:
        if event == "import":
            _check_import(args[0], allowed)
        elif event in SEARCHES:
            if (event != "object.__getattr__" or args[1] in FRAME_ATTRIBUTES) and _by_sample(caller, home):
                return f"looked for frames or objects: {event}"
        elif event in FORBIDDEN or (event in MEMORY and _by_sample(caller, home)):
            return f"used {event}"
        elif event in LISTINGS:
            if place := whole(args[0]):
                return f"looked into {place[:50]}"
            # importlib.import_module raises no import event: a package's __init__ does, a lone file not.
            if event == "open" and type(args[0]) is str and (file := INSTALLED.fullmatch(args[0])):
                _check_import(file[1], allowed)
        elif event in CODE and type(args[1]) is str and args[1].startswith(home) and _by_sample(caller, home):
            return "code under a borrowed file name"
        return ""

    return guard


def _place_check() -> Callable[[Any], str]:
    """A function that gives the whole path where a path, also relative or in bytes, leads into PLACES."""
    getcwd = os.getcwd

    def whole(path: Any) -> str:
        text = path.decode("utf8", "replace") if type(path) is bytes else path
        if type(text) is not str:
            return ""
        text = text if text.startswith("/") else f"{getcwd()}/{text}"
        if "proc" not in text and "fd" not in text:
            return ""
        parts: list[str] = []
        for part in text.split("/"):
            if part == "..":
                del parts[-1:]
            elif part not in ("", "."):
                parts.append(part)
        plain = "/" + "/".join(parts)
        return plain if f"{plain}/".startswith(PLACES) else ""

    return whole


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


def _guard_signals() -> Callable[[Any, Any], None]:
    """Takes away signal handlers in Python, which get frames; only the hook holds what sets plain ones."""
    c_signal, audit, getsignal, own = _signal.signal, sys.audit, signal.getsignal, signal.default_int_handler
    plain_types = (int, signal.Signals, signal.Handlers)
    interrupt = int(signal.SIGINT)

    def plain(number: int, handler: Any) -> Any:
        before = getsignal(number)
        audit(SIGNAL, number, handler)
        return before

    def set_plainly(number: Any, handler: Any) -> bool:
        if type(number) not in plain_types:
            return False
        if type(handler) in plain_types or handler is own:
            c_signal(number, handler if handler is own else int(handler))
            return True
        return number == interrupt  # asyncio's, for a key that nobody presses: not set, and no suspicion

    signal.signal = _signal.signal = plain
    return set_plainly


def _integrity_checks(space: dict, base: dict[str, Any], names: frozenset[str]) -> tuple[Check, Check]:
    """Two checks, after the solution and after the tests: the reasons to doubt a pass."""
    live, function = vars(builtins), types.FunctionType
    count, callbacks, modules = _thread._count, gc.callbacks, sys.modules

    def replaced() -> list[str]:
        changed = [f"builtins.{k} replaced" for k, v in base.items() if live.get(k) is not v]
        if space.get("__builtins__") is not live:
            changed.append("__builtins__ replaced")
        shadows = [n for n in names if type(space.get(n)) is function]
        return changed + [f"the tests' {n} replaced" for n in shadows]

    def before() -> list[str]:
        doubts = replaced()
        if count():
            doubts.append("threads running before the tests")
        if callbacks:
            doubts.append("the collector's callbacks set before the tests")
        return doubts

    def after() -> list[str]:
        return replaced() + (["unittest.mock in use"] if "unittest.mock" in modules else [])

    return before, after


def _builtin_names(test: str | None) -> frozenset[str]:
    """The builtin functions that the tests call by name."""
    if test is None:
        return frozenset()
    return frozenset(CALLED.findall(test)) & vars(builtins).keys()


def standing_builtins() -> dict[str, Any]:
    """The builtins by name, "_" aside (the interactive prompt's last value)."""
    return {k: v for k, v in vars(builtins).items() if k != "_"}


def standing_classes() -> dict[int, type]:
    """All classes directly below BASES, by id."""
    return {id(c): c for base in BASES for c in type.__subclasses__(base)}


def _probe(known: dict[int, type], audit: Callable[..., None]) -> None:
    """Reports a class of the sample whose instances equal an object that it cannot know."""
    todo = [c for base in BASES for c in type.__subclasses__(base) if id(c) not in known]
    while todo:
        cls = todo.pop()
        todo.extend(type.__subclasses__(cls))
        makers = [lambda c=cls: c.__new__(c)] if "__eq__" in type.__getattribute__(cls, "__dict__") else []
        makers += [lambda c=cls: c] if type(cls) is not type else []
        if any(map(_equals_anything, makers)):
            audit(ALWAYS_EQUAL, "a type whose objects equal everything")


def _equals_anything(make: Callable[[], Any]) -> bool:
    """Whether what `make` gives (an object, or a class with a metaclass of its own) equals a stranger."""
    try:
        thing = make()
        answer = type(thing).__eq__(thing, object())
        return answer is not NotImplemented and bool(answer)
    except BaseException:  # noqa: BLE001  the sample's own code: whatever it raises, it did not claim equality
        return False


def _describe(e: BaseException, test: str | None, allowed: frozenset[str] | None) -> bytes:
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
