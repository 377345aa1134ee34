"""Test the channel between the processes of the tests and the sample: exact values, and rejection of noise."""

import array
import contextlib
import datetime as dt
import json
import os
import re
import signal
import struct
import threading
import time
import uuid
from collections import ChainMap, Counter, OrderedDict, UserList, deque, namedtuple
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction

import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pkg_lib.execution import wire
from pkg_lib.execution.sandbox import Job, Limits, Worker, run_jobs

FLOATS = st.floats(allow_nan=True, width=64)
ZONES = st.one_of(
    st.none(), st.integers(-1439, 1439).map(lambda m: dt.timezone(dt.timedelta(minutes=m)))
)
ARRAYS = st.lists(st.integers(-9, 9), min_size=4, max_size=4).flatmap(
    lambda x: st.sampled_from(["int8", "float32", "complex128", "bool", "U3", "S2"]).map(
        lambda kind: np.array(x).astype(kind).reshape(2, 2)
    )
)
ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**60), 10**60),
    FLOATS,
    st.complex_numbers(),
    st.text(st.characters()),
    st.binary(),
    st.decimals(),
    st.fractions(),
    st.dates(),
    st.timedeltas(),
    st.datetimes(timezones=ZONES),
    st.builds(range, st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 9)),
)
KEYS = st.one_of(
    st.integers(), st.text(), st.tuples(st.integers(), st.text()), st.frozensets(st.integers())
)
VALUES = st.recursive(
    st.one_of(
        ATOMS,
        ARRAYS,
        st.integers(0, 9).map(np.int64),
        st.floats(width=32).map(np.float32),
        st.sampled_from([np.str_(""), np.bytes_(b""), np.zeros((0, 2)), np.array(3)]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(KEYS, inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=4).map(OrderedDict),
        st.sets(KEYS, max_size=4),
        st.frozensets(KEYS, max_size=4),
        st.lists(inner, max_size=4).map(deque),
        st.dictionaries(KEYS, st.integers(), max_size=4).map(Counter),
    ),
    max_leaves=12,
)


def same(a, b) -> bool:
    """Compare two values by type and bits, and by order for ordered containers."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float) and type(a) is float:
        return struct.pack(">d", a) == struct.pack(">d", b)
    if type(a) is complex:
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, np.ndarray | np.generic):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return same([*a.items()], [*b.items()])
    if isinstance(a, list | tuple | deque):
        return len(a) == len(b) and all(map(same, a, b))
    return repr(a) == repr(b) if isinstance(a, Decimal | Fraction) else a == b


def over(value):
    packed = json.loads(json.dumps(wire.Packer().pack(value)))
    return wire.Unpacker().unpack(packed)


SLOW = settings(
    max_examples=int(os.environ.get("PKG_EXAMPLES", "100")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@SLOW
@given(VALUES)
def test_values_keep_their_type_and_bits(value):
    assert same(over(value), value)


def test_transfers_a_long_integer():
    assert over(-(10**6000)) == -(10**6000)


def test_does_not_convert_a_fraction_to_text():
    """Its text would be a number of ten million digits."""
    for parts in (["1e10000000", None], ["1e10000000"], [1.0, 1]):
        with pytest.raises(TypeError):
            wire.Unpacker().unpack(["Fraction", *parts])


def test_rejects_an_array_whose_bytes_do_not_fit_its_shape():
    for kind, shape, text in (("<i4", [-1], "00"), ("<i4", [1], "0000000000"), ("<U1", [2], "00")):
        with pytest.raises((ValueError, TypeError)):
            wire.Unpacker().unpack(["array", 0, kind, shape, text])


def test_keeps_shared_and_recursive_objects():
    inner = [1]
    a, b = over([inner, inner])
    assert a is b and a == [1]
    loop: list = []
    loop.append(loop)
    out = over(loop)
    assert out[0] is out


@pytest.mark.parametrize(
    "value", [object(), type("A", (), {"__module__": "builtins"})(), lambda: 1, type, len]
)
def test_rejects_values_that_are_not_plain_data(value):
    with pytest.raises(TypeError, match=type(value).__name__):
        wire.Packer().pack(value)


class Everything:
    def __eq__(self, other):
        return True

    __hash__ = None


Pair = namedtuple("Pair", "x y")
SUBCLASSES = [
    (Pair(1, [2]), (1, [2])),
    (Enum("A", {"B": "b"}, type=str).B, "b"),
    (IntEnum("A", {"B": 3}).B, 3),
    (type("A", (Everything, float), {})(0.5), 0.5),
    (type("A", (Everything, dict), {})(a=1), {"a": 1}),
    (ChainMap({1: 2}, {3: 4}), {3: 4, 1: 2}),
    (UserList([1]), [1]),
    (array.array("i", [1]), [1]),
    (bytearray(b"x"), b"x"),
    (OrderedDict(a=1).keys(), {"a": 1}.keys()),
]


@pytest.mark.parametrize(("value", "base"), SUBCLASSES)
def test_transfers_a_subclass_as_its_base_class(value, base):
    assert same(over(value), base)


@pytest.mark.parametrize("value", [uuid.UUID(int=1), re.match("", ""), np.array([object()])])
def test_transfers_only_the_truth_of_library_values(value):
    got = over(value)
    assert (
        got
        and got != value
        and got is not True
        and type(got).__name__.endswith(type(value).__name__)
    )


NODES = st.recursive(
    st.one_of(
        st.none(),
        st.integers(),
        st.text(),
        st.sampled_from([*wire.CONTAINERS, *wire.MADE, "array", "=", 0, 1]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), st.dictionaries(st.text(), inner, max_size=2)
    ),
    max_leaves=15,
)


@SLOW
@given(
    st.one_of(
        st.binary(max_size=200).map(lambda b: len(b).to_bytes(4) + b),
        st.binary(),
        NODES,
        st.tuples(
            st.sampled_from(["value", "raised", "no value"]), NODES, st.lists(NODES, max_size=1)
        ),
    )
)
def test_any_answer_is_a_plain_value_or_rejected(answer):
    """The tests read noise, half messages and malformed messages without another error and without hanging."""
    ours, theirs = wire.socket.socketpair()
    refused: list[str] = []

    class Refused(BaseException):
        pass

    def refuse(why):
        refused.append(why)
        raise Refused

    data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    with ours, theirs:
        ours.settimeout(20)
        theirs.sendall(data if isinstance(answer, bytes) else len(data).to_bytes(4) + data)
        theirs.shutdown(wire.socket.SHUT_WR)
        try:
            given_back = wire.stand_in(ours, refuse, "f")([1, [2]], {3})
        except Refused:
            assert refused
        else:
            json.dumps(wire.Packer().pack(given_back))  # raises if the value cannot be packed


def judged(code: str, test: str, **more):
    return next(run_jobs([Job("t", code, (test,), "f", 5.0, None, "", **more)]))


@pytest.mark.parametrize(
    ("code", "test"),
    [
        ("def f(x): x.sort()", "x = [2, 1]\nassert f(x) is None and x == [1, 2]"),
        (
            "def f(x): x[0].append(x[1]); return x",
            "x = [[], 1]; y = x[0]\nassert f(x) is x and y == [1]",
        ),
        ("def f(x, *, by): return [x * by]", "assert f(2, by=3) == [6]"),
        ("def f(x): yield from range(x)", "assert list(f(3)) == [0, 1, 2]"),
        (
            "def f(x): raise KeyError(x)",
            "try: f(1)\nexcept KeyError as e: assert e.args == (1,)\nelse: assert 0",
        ),
        (
            "class E(ValueError): pass\ndef f(x): raise E('no')",
            "try: f(1)\nexcept ValueError as e: assert str(e) == 'no'",
        ),
        (
            "from decimal import *\ndef f(x): return 1 / Decimal(x)",  # the arguments of its exception contain a class
            "try: f(0)\nexcept ZeroDivisionError as e: assert 'DivisionByZero' in str(e)\nelse: assert 0",
        ),
        (
            "def f(x): raise ExceptionGroup('two', [ValueError(x)])",
            "try: f(1)\nexcept Exception as e: assert 'two' in str(e)\nelse: assert 0",
        ),
        (
            "def f(x): return bytes([255]).decode()",
            "try: f(1)\nexcept UnicodeDecodeError as e: assert e.end == 1\nelse: assert 0",
        ),
        (
            "def f(x): yield x; raise KeyError(x)",
            "x = f(1)\nassert next(x) == 1\ntry: next(x)\nexcept KeyError as e: assert e.args == (1,)\nelse: assert 0",
        ),
        ("def f(x): return [(n for n in y)]\ny = [1]", "assert list(*f(1)) == [1] and f(1) != [1]"),
        (
            "def f(x): return map(x.append, (1, 2))",
            "x = []\nassert list(f(x)) == [None] * 2 and x == [1, 2]",
        ),
        ("n = []\ndef f(x): n.append(x); return len(n)", "assert [f(0), f(0)] == [1, 2]"),
        (
            "import numpy as np\ndef f(x): x += 1; return x.sum()",
            "import numpy as np\nx = np.zeros(2)\nassert f(x) == 2 and x[0] == 1",
        ),
        ("def f(x): return x.keys()", "assert f({1: 2}) == {1}"),
        # The sample runs twice, and each run may fill half of the directory.
        ("import os\nos.mkdir('d')\ndef f(x): return os.listdir()", "assert f(1) == ['d']"),
        (
            "for n in range(4): open(str(n), 'wb').write(bytes(10**7))\nfor n in range(3000): open(f'f{n}', 'w')\ndef f(x): return x",
            "assert f(1) == 1",
        ),
        (
            "import random\ndef f(x): return x",
            "import random\nx = random.random()\nassert f(x) == x",
        ),
    ],
)
def test_calls_behave_as_in_one_process(code, test):
    assert judged(code, test).status == "passed"


def test_error_details_are_short():
    code = """
import sys
def f(x):
    frame = sys._getframe()
    while 'line' not in frame.f_locals: frame = frame.f_back
    data = b'["no value", "' + b'q' * 10**7 + b'", null]'
    frame.f_locals['line'].sendall(len(data).to_bytes(4) + data)
    while True: pass
"""
    worker = Worker(Limits(packages="stdlib"))
    try:
        assert (
            worker.run(Job("t", code, ("assert f(1) == 1",), "f", 3.0, None, "")).error
            == "Suspicious"
        )
        assert os.fstat(worker.report).st_size < 9000
    finally:
        worker.close()


def test_reports_values_that_cannot_be_transferred():
    outcome = judged(
        "class A:\n    def __eq__(self, o): return True\ndef f(x): return A()", "assert f(1) == 2"
    )
    assert (outcome.error, outcome.detail) == ("Suspicious", "not comparable by value: builtins.A")


@pytest.mark.parametrize(
    ("code", "test", "error", "detail"),
    [
        (
            "import uuid\ndef f(x): return uuid.UUID(int=x)",
            "assert f(1) == 2",
            "AssertionError",
            "AssertionError",
        ),
        (
            "import re\ndef f(x): return re.match('', '')",
            "f(1) + 1",
            "TypeError",
            "operand type(s) for +: 're.Match'",
        ),
        ("import re\ndef f(x): return re.match('', '')", "assert f(1)", "", ""),
        ("import re\ndef f(x): return re.match('', '')", "assert not f(1)", "AssertionError", ""),
        (
            "from unittest.mock import ANY\ndef f(x): return ANY",
            "assert f(1) == 2",
            "AssertionError",
            "",
        ),
        (
            "from unittest.mock import ANY\ndef f(x): return ANY",
            "assert 2 != f(1)",
            "AssertionError",
            "",
        ),
        ("def f(x): return (y for _ in '1')", "assert f(1) == ''", "AssertionError", ""),
        (
            "def f(x): return (y for _ in '1')",
            "assert list(f(1)) == []",
            "NameError",
            "'y' is not defined",
        ),
    ],
)
def test_values_that_are_not_plain_data_get_the_verdict_of_the_official_harness(
    code, test, error, detail
):
    outcome = judged(code, test)
    assert outcome.error == error and detail in outcome.detail, outcome


def test_reports_an_answer_that_is_too_long_as_such():
    """MBPP+ 255 has such an answer. Its reference solution was once reported as a forgery of the verdict channel."""
    test = f"assert len(f({wire.LONGEST})) == {wire.LONGEST}"
    outcome = judged("def f(n): return 'a' * n", test)
    assert outcome.error == "Suspicious" and str(wire.LONGEST) in outcome.detail, outcome
    assert (
        judged("def f(n): return 'a' * (n - 99)", test.replace("==", "+ 99 ==")).status == "passed"
    )


def test_a_sample_that_passes_only_in_a_separate_process_fails():
    """An honest sample may do so, because a transferred set may have another iteration order (MBPP/341)."""
    outcome = judged(
        "import math\nmath.n = n = getattr(math, 'n', 1) + 1\ndef f(x): return n",
        "assert f(1) == 2",
    )
    assert (outcome.status, outcome.error) == ("failed", "AssertionError")


def test_a_missing_function_is_a_name_error_of_the_tests():
    lacking = judged("x = 1", "assert f(1) == 2")
    assert (lacking.error, lacking.detail.split(" | ")[0]) == (
        "NameError",
        "NameError: name 'f' is not defined",
    )
    assert judged("x = 1", "assert sum([1, 1]) == 2").status == "passed"


def test_reports_a_forbidden_import_inside_a_function():
    assert judged("def f(x): import pandas", "assert f(1) == 2").error == "ForbiddenImport"


def test_the_detail_says_if_tests_share_the_process():
    job = Job("t", "def f(x): return 2", ("assert f(1) == 2",), "f")
    assert next(run_jobs([job])).detail == "shared"


@pytest.mark.parametrize("victim", ["tests", "sample", "server"])
def test_killed_processes_lose_no_verdict_and_leave_no_process(victim):
    """If a process is killed from outside at any moment, the job runs again."""
    code = "import time\ndef f(x):\n    time.sleep(0.02)\n    return x"
    job = Job(
        "t", code, ("assert [f(i) for i in range(5)] == [0, 1, 2, 3, 4]",), "f", 10.0, None, ""
    )
    worker, killed = Worker(Limits(packages="stdlib")), 0
    try:
        for n in range(int(os.environ.get("PKG_KILLS", "3"))):
            assert worker.run(job).status == "passed"  # it stands again
            outcome: list = []
            thread = threading.Thread(target=lambda out=outcome: out.append(worker.run(job)))
            thread.start()
            time.sleep(0.03 * (n % 7))
            with contextlib.suppress(psutil.NoSuchProcess):  # the process may be restarting
                server = psutil.Process(worker.process.pid)
                found = sorted(
                    server.children(), key=lambda p: p.pid
                )  # the process of the tests is older
                chosen = {"server": [server], "tests": found[:1], "sample": found[1:]}[victim]
                for process in chosen:
                    process.send_signal(signal.SIGKILL)
                    killed += 1
            thread.join(60)
            assert outcome and outcome[0].status == "passed", outcome
    finally:
        family = []
        with contextlib.suppress(psutil.NoSuchProcess):
            server = psutil.Process(worker.process.pid)
            family = [server, *server.children(recursive=True)]
        worker.close()
    assert killed
    assert not psutil.wait_procs(family, timeout=10)[1]


RIGHT = "def f(x): return x"
LOOK = """
import ctypes, os, sys
l = ctypes.CDLL(None); l.sbrk.restype = ctypes.c_void_p
l.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
r, w = os.pipe()
known = [x for m in [*sys.modules.values()] for x in [m, *vars(m).values()]] + [[] for _ in range(999)] + [globals()]
places = {id(x) >> 20 for x in known}
pages = {(m + d << 20) + n for m in places for d in (-1, 0, 1) for n in range(0, 1 << 20, 4096)}
pages |= {*range(l.sbrk(0) - (64 << 20) & ~4095, l.sbrk(0), 4096)}
found = set()
for page in pages:
    if l.write(w, page, 4096) > 0:
        back = os.read(r, 4096)[::-1]  # reversed, so that this copy does not contain the mark
        at = back.find(b"QQ")  # the code does not contain the mark in either direction
        while at >= 0:
            if back[at + 3 : at + 7] == b"KRAM":
                found.add(back[at + 2] - 48)
            at = back.find(b"QQ", at + 1)
def f(x): return sorted(found)
"""
LEAVERS = {
    "its text": "#" + "MARK1QQ" * 999,
    "its error": "raise ValueError('MARK' + '2QQ')",
    "its answer": "def f(x): return 'MARK' + '3QQ'",
    "its error to the tests": "def f(x): raise ValueError('MARK' + '4QQ')",
    "a word that is no verdict": "import os\nfor n in range(3, 64):\n    try: os.write(n, b'MARK' + b'5QQ')\n    except OSError: pass",
    "its name": "import ctypes\nctypes.CDLL(None).prctl(15, b'MARK' + b'6QQ', 0, 0, 0)\nwhile True: pass",
    "what it prints": "print('MARK' + '7QQ')",
}


@pytest.mark.parametrize("given", ["", None])
def test_the_memory_search_finds_a_mark(given):
    """This is the control of the next test: the search finds an existing mark."""
    code = "kept = ''.join(['MARK', '7QQ'])\n" + LOOK
    test = "assert f(1) == [7], f(1)"
    [outcome] = run_jobs(
        [Job("t", code, (test,), "f", 5.0, None, given)], Limits(packages="stdlib"), workers=1
    )
    assert outcome.status == "passed", outcome


@pytest.mark.parametrize("left", LEAVERS)
@pytest.mark.parametrize("given", ["", None])
def test_a_sample_finds_no_data_of_other_samples_in_memory(left, given):
    """Every sample starts with the memory of the fork server."""
    test = "assert f(1) == [], f(1)"
    jobs = [Job("t", code, (test,), "f", 1.0, None, given) for code in (LEAVERS[left], LOOK)]
    first, second = run_jobs(jobs, Limits(packages="stdlib"), workers=1)
    assert (first.status, second.status) == ("failed", "passed"), second


LEAVE = """
import fcntl, os
try: os.setxattr(3, 'user.mark', b'MARK')
except OSError: pass
fcntl.fcntl(3, fcntl.F_SETFL, os.O_APPEND)
os.pwrite(3, b'MARK', 0)
"""
FIND = """
import fcntl, os
kept = {}
for n in range(1024):
    try: kept[n] = os.fstat(n).st_size, fcntl.fcntl(n, fcntl.F_GETFL) & os.O_APPEND, [a for a in os.listxattr(n) if a[:4] == 'user']
    except OSError as e:
        if e.errno != 9: kept[n] = os.fstat(n).st_size, 0, []
def f(x): return sorted(kept.values())
"""


def test_a_sample_has_five_empty_descriptors():
    """The descriptors are the null device, a file for output, and the channel of the tests, all without data."""
    test = f"assert f(1) == {[(0, 0, [])] * 5}, f(1)"
    codes = (LEAVE, FIND, LEAVE + "raise ValueError('SECRET')", FIND)
    jobs = [Job("t", code, (test,), "f", 2.0, None, "") for code in codes]
    outcomes = [*run_jobs(jobs, Limits(packages="stdlib"), workers=1)]
    assert [o.status for o in outcomes] == ["failed", "passed"] * 2, outcomes


def test_messages_of_tests_do_not_reach_the_sample():
    """The message of the tests contains the expected value."""
    code = """
import os, threading
def look():
    while True:
        for n in range(3, 64):
            try:
                if b'EXPECTED' in os.pread(n, 4096, 0): os.setxattr(3, 'user.mark', b'MARK')
            except OSError: pass
try: marked = os.listxattr(3)
except OSError: marked = []
threading.Thread(target=look, daemon=True).start()
def f(x):
    if marked: raise KeyError
    return x
"""
    jobs = [Job("t", code, ("assert f(1) == 2, 'EXPECTED'",), "f", 1.0, None, "")] * 60
    assert {o.detail[:24] for o in run_jobs(jobs, Limits(packages="stdlib"))} == {
        "AssertionError: EXPECTED"
    }


def test_a_sample_whose_answer_ends_the_tests_process_fails():
    """One answer creates a chain of 300,000 containers. Freeing it overflows the stack."""
    code = """
import json, sys
def f(x):
    frame = sys._getframe()
    while 'line' not in frame.f_locals: frame = frame.f_back
    line = frame.f_locals['line']
    chain = [["defaultdict", n] for n in range(100, 300100)]
    chain += [["defaultdict", n, "k", ["=", n + 1]] for n in range(100, 300099)]
    data = json.dumps(["value", ["list", 99, ["=", 99], ["defaultdict", 100]], chain]).encode()
    line.sendall(len(data).to_bytes(4) + data)
    while True: pass
"""
    jobs = [Job("t", text, ("assert f(1) == 1",), "f", 3.0, None, "") for text in [code, RIGHT] * 3]
    outcomes = [*run_jobs(jobs, Limits(packages="stdlib"), workers=1)]
    assert [o.status for o in outcomes] == ["failed", "passed"] * 3, outcomes


def test_a_sample_that_ends_without_reading_the_tests_fails():
    """Its end of the channel closes with an unread message, which the other end sees as an error."""
    code = """
import os, select, sys
def f(x):
    frame = sys._getframe()
    while 'line' not in frame.f_locals: frame = frame.f_back
    line = frame.f_locals['line']
    data = b'["value", 1, null]'
    line.sendall(len(data).to_bytes(4) + data)
    select.select([line], [], [], 2)
    os._exit(0)
"""
    job = Job("t", code, ("assert f(1) == 1",), "f", 3.0, None, "")
    (outcome,) = run_jobs([job], Limits(packages="stdlib"))
    assert (outcome.error, outcome.detail) == ("Others", "ended before the tests completed")


def test_replaces_a_tests_process_that_has_grown():
    worker, pids = Worker(Limits(packages="stdlib")), []
    try:
        for size in (1, 1, 10_000_000, 1):
            job = Job(
                "t",
                "def f(n): return [0] * n",
                (f"assert len(f({size})) == {size}",),
                "f",
                9.0,
                None,
                "",
            )
            assert worker.run(job).status == "passed"
            pids += [p.pid for p in psutil.Process(worker.process.pid).children()]
    finally:
        worker.close()
    assert len(pids) == 3 and pids[0] == pids[1] != pids[2], pids


@pytest.mark.parametrize("given", ["", None])
def test_a_detail_contains_no_data_of_the_previous_sample(given):
    long = "def f(x): raise ValueError('long ' * 60)"
    jobs = [Job("t", text, ("assert f(1) == 2",), "f", 3.0, None, given) for text in (long, RIGHT)]
    (alone,) = run_jobs(jobs[1:], Limits(packages="stdlib"))
    _, after = run_jobs(jobs, Limits(packages="stdlib"), workers=1)
    assert after.detail == alone.detail == "AssertionError | failing: assert f(1) == 2"


def test_a_tests_process_that_ends_between_samples_fails_neither():
    worker, job = (
        Worker(Limits(packages="stdlib")),
        Job("t", RIGHT, ("assert f(1) == 1",), "f", 3.0, None, ""),
    )
    try:
        for number in (signal.SIGSEGV, signal.SIGKILL):
            assert worker.run(job).status == "passed"
            (tests,) = psutil.Process(worker.process.pid).children()
            tests.send_signal(number)
            time.sleep(0.5)
            assert worker.run(job).status == "passed"
    finally:
        worker.close()


def test_memory_of_one_samples_answers_is_free_for_the_next():
    """Forty recursive answers take 40 MB each in the process of the tests, whose limit is 1 GB."""
    code = "def f(n):\n    x = [chr(0x1f600) + 'a' * n]\n    x.append(x)\n    return x"
    jobs = [Job("t", code, ("assert f(10_000_000) == 2",), "f", 9.0, None, "")] * 40
    assert {o.error for o in run_jobs(jobs, Limits(packages="stdlib"), workers=1)} == {
        "AssertionError"
    }


@pytest.mark.parametrize("size", [1, 999, 99_999])
def test_the_memory_search_finds_remaining_data(size):
    job = Job(
        "t",
        f"kept = b'QQ0KRAM'[::-1] + bytes({size})\n{LOOK}",
        ("assert f(1) == [0]",),
        "f",
        5.0,
        None,
        "",
    )
    assert next(run_jobs([job], Limits(packages="stdlib"))).status == "passed"


def test_restarts_a_server_that_is_killed_during_its_start():
    others, started = psutil.Process().children(), []

    def kill():
        while len(started) < 2:
            for process in psutil.Process().children():
                if process not in others + started:
                    started.append(process)
                    if len(started) == 1:
                        process.kill()
            time.sleep(0.002)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    (outcome,) = run_jobs([Job("t", "x = 1")], Limits(packages="stdlib"))
    thread.join(20)
    assert outcome.status == "passed" and len(started) == 2


def test_runs_a_solution_of_any_length():
    jobs = [
        Job(
            "t",
            f"def f(x): return x\n#{'x' * (70 << 20)}",
            ("assert f(1) == 1",),
            "f",
            9.0,
            None,
            "",
        )
    ]
    assert next(run_jobs(jobs)).status == "passed"


def test_the_memory_of_the_parent_does_not_grow():
    jobs = (
        Job("t", f"def f(x): return {n % 3}", ("assert f(1) == 2",), "f", 5.0, None, "")
        for n in range(600)
    )
    sizes = []
    for n, _ in enumerate(run_jobs(jobs, Limits(packages="stdlib"))):
        if n in (200, 599):
            sizes.append(psutil.Process().memory_info().rss)
    assert sizes[1] - sizes[0] < 1 << 20  # 2.6 KB per sample
