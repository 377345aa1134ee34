"""The attack suite: no attack may pass, hang, leave a process, or change anything outside its directory.

Every attack fails its test unless it cheats: f returns 0, and the test expects 2. The setting `rlimits alone`
represents a system that allows neither namespaces nor the system call filter. It runs the attacks that rlimits
and the runner stop by themselves.
"""

import fcntl
import os
import textwrap
import time
import tomllib
from pathlib import Path

import pytest
from sandbox_settings import BARE, NO_NAMESPACES, SETTINGS, Remote

from pkg_lib.execution.sandbox import Job

TEST = "assert f(1) == 2"
CHECK = "def check(candidate):\n    assert candidate(1) == 2\n\ncheck(f)"
ROOT = Path(__file__).resolve().parents[2]

# Groups of attacks:
# - anywhere: rlimits and the runner stop them.
# - locked: only the system call filter or the namespaces stop them.
# - reading, kernel, proc: bodies of functions that succeed if they raise no OSError. {server} and {parent} are
#   processes outside. {checkout} and {packages} are directories that the fork server can access.
ATTACKS = tomllib.loads((ROOT / "tests" / "data" / "attacks.toml").read_text("utf8"))
READING = ATTACKS["reading"]
KERNEL = ATTACKS["kernel"]

DESCRIPTOR = """import os
root = os.open('/', os.O_DIRECTORY)
folder = os.open('proc', os.O_DIRECTORY, dir_fd=root)
os.close(os.open('self/maps', os.O_RDONLY, dir_fd=folder))"""


def cases(group):
    return [pytest.param(code, id=name) for name, code in group.items()]


def pairs(group):
    return [
        pytest.param(attack["code"], attack["errors"], id=name) for name, attack in group.items()
    ]


def refused(outcome, errors):
    assert outcome.status == "failed", outcome
    assert outcome.error in ((errors,) if isinstance(errors, str) else errors), outcome


@pytest.mark.parametrize("setting", [*SETTINGS, BARE])
@pytest.mark.parametrize(("code", "errors"), pairs(ATTACKS["anywhere"]))
def test_attacks_fail_in_every_setting(judge, setting, code, errors):
    if "def all" in code:
        test = "assert all([f(1) == 2])"
    elif "check" in code:
        test = CHECK
    else:
        test = TEST
    refused(judge(code, test, setting=setting, seconds=1.0), errors)


@pytest.mark.parametrize("setting", [*SETTINGS, BARE])
@pytest.mark.parametrize("code", ["x = '\0'", "x = '\ud800'"])
def test_rejects_source_with_invalid_characters(judge, setting, code):
    refused(judge(code, TEST, setting=setting), ("SyntaxError", "Others"))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(("code", "errors"), pairs(ATTACKS["locked"]))
def test_attacks_on_the_kernel_fail_in_every_setting(judge, setting, code, errors):
    refused(judge(code, TEST, setting=setting, seconds=1.0), errors)


def function(body: str, **facts: object) -> str:
    """Return the source of f: it returns 2, as the test expects, unless the system rejects `body`.

    Args:
        body: Statements of the attack.
        **facts: Values of the placeholders in `body`.
    """
    for name, value in facts.items():
        body = body.replace("{" + name + "}", str(value))
    tried = textwrap.indent(body, " " * 8)
    return f"def f(x):\n    try:\n{tried}\n    except OSError: return 0\n    return 2"


@pytest.fixture
def attack(pool, judge):
    def run(setting, body):
        worker = pool(setting)
        devices = [
            str(path)
            for path in Path("/dev").iterdir()
            if path.is_block_device() or path.name in ("mem", "kmsg", "port")
        ]
        code = function(
            body,
            devices=devices,
            server=worker.server,
            parent=worker.parent,
            packages=worker.packages,
            checkout=worker.checkout,
        )
        return judge(code, TEST, setting=setting)

    return run


@pytest.mark.parametrize("setting", [*SETTINGS, "root, no Landlock", "ordinary user, no Landlock"])
@pytest.mark.parametrize("body", cases(READING))
def test_samples_cannot_read_private_files(attack, setting, body):
    refused(attack(setting, body), ("AssertionError", "Suspicious", "Others"))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("body", cases(KERNEL))
def test_the_kernel_rejects_forbidden_calls(attack, setting, body):
    refused(attack(setting, body), "AssertionError")


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("body", cases(ATTACKS["proc"]))
def test_samples_cannot_read_proc_by_any_path(attack, setting, body):
    refused(attack(setting, body), ("Suspicious", "AssertionError"))


@pytest.mark.parametrize("setting", SETTINGS)
def test_samples_cannot_open_proc_by_descriptors(attack, setting):
    refused(attack(setting, DESCRIPTOR), "AssertionError")


OPEN = [
    "a benchmark's answers",
    "another package",
    "the checkout",
    "a file in memory",
    "a datagram pair",
]


@pytest.mark.parametrize("name", OPEN)
def test_attacks_succeed_without_protection(attack, name):
    assert attack(BARE, (READING | KERNEL)[name]).status == "passed"


def test_detached_grandchildren_are_ended_with_rlimits_alone(judge):
    """The sample passes, and its detached process is ended (the fixture checks this)."""
    code = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(60)\ndef f(x): return 2"
    assert judge(code, TEST, setting=BARE).status == "passed"


@pytest.mark.parametrize("setting", SETTINGS)
def test_samples_cannot_change_files_outside_their_directory(judge, setting, tmp_path):
    kept = tmp_path / "results.jsonl"
    kept.write_text("kept")
    canaries = [folder / "pkg-attack" for folder in (Path.home(), ROOT, ROOT / "results", tmp_path)]
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
def test_samples_cannot_write_a_10_gb_file(judge, setting, tmp_path):
    code = "f = open('big', 'wb')\nfor _ in range(10 << 10): f.write(bytes(1 << 20))"
    code = code if setting != BARE else code.replace("'big'", repr(str(tmp_path / "big")))
    refused(judge(code, TEST, setting=setting), "Others")
    size = sum(p.stat().st_size for p in tmp_path.iterdir())
    assert size <= 16 << 20


@pytest.mark.parametrize("setting", [*SETTINGS, BARE])
def test_samples_see_a_constant_environment(judge, setting, monkeypatch):
    """The environment is the same in every run, except for the work directory."""
    monkeypatch.setenv("PKG_ATTACK_SECRET", "key")
    known = {"PATH": "/usr/bin:/bin", "SHELL": "/bin/sh", "USER": "sandbox", "LOGNAME": "sandbox"}
    code = f"import os\nassert dict(os.environ) == {known} | {{'HOME': os.getcwd()}}"
    assert judge(code, setting=setting).status == "passed"
    for path in ("/proc/self/environ", f"/proc/{os.getpid()}/environ"):
        code = f"def f(x): return 2 if b'PKG_ATTACK' in open({path!r}, 'rb').read() else 0"
        refused(judge(code, TEST, setting=setting), ("Suspicious", "Others"))


LOCKED = """
import fcntl, os, time
held = [os.open(os.__file__, os.O_RDONLY), os.open(os.path.dirname(os.__file__), os.O_RDONLY)]
for file in held: fcntl.flock(file, fcntl.LOCK_EX)
fcntl.lockf(held[0], fcntl.LOCK_SH, 1, 5)
fcntl.lockf(1, fcntl.LOCK_EX, 1, 7)  # the null device
time.sleep(1.5)
def f(x): return 2
"""


def locked_files(worker):
    """Return the files that this process finds locked while a sample holds its locks, and the outcome."""
    found = set()
    worker.send(Job("t", LOCKED, (TEST,), "f", 5.0))
    for _ in range(20):
        time.sleep(0.05)
        for path in (os.__file__, os.path.dirname(os.__file__), os.devnull):
            file = os.open(path, os.O_RDWR if path == os.devnull else os.O_RDONLY)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if path == os.devnull:
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                found.add(path)
            os.close(file)
    return found, worker.receive()


@pytest.mark.parametrize("setting", SETTINGS)
def test_locks_of_a_sample_are_invisible_to_other_processes(pool, setting):
    """A lock on a file that all samples share could send a message to a sample of another worker."""
    found, outcome = locked_files(pool(setting))
    assert not found, (found, outcome)
    assert outcome.status == "passed", (found, outcome)


def test_locks_are_visible_without_protection(pool):
    found, _ = locked_files(pool(BARE))
    assert os.__file__ in found
    assert os.devnull in found


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_sample_cannot_query_locks_of_another_sample(pool, judge, setting):
    """The locks of samples are simulated, so the kernel knows nothing about them."""
    other = Remote(setting, "stdlib")
    asks = """
    import fcntl, struct, time
    null = 1  # standard output is the null device
    def f(x):
        time.sleep(0.5)
        asked = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0)
        fcntl.lockf(null, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(null, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return 2 if struct.unpack('hhqqi4x', fcntl.fcntl(null, fcntl.F_GETLK, asked))[0] == fcntl.F_UNLCK else 0
    """
    try:
        other.send(Job("t", LOCKED, (TEST,), "f", 5.0))
        assert judge(textwrap.dedent(asks), TEST, setting=setting).status == "passed"
        assert other.receive().status == "passed"
    finally:
        other.close()


@pytest.mark.parametrize("setting", SETTINGS)
def test_large_thread_stacks_do_not_lift_the_memory_limit(judge, setting):
    """The address space is limited by the job; large stacks may add at most 512 MB."""
    refused(judge("x = bytearray(1200 << 20)", TEST, setting=setting, seconds=10.0), "Memory")
    code = "import threading\nthreading.stack_size(1 << 29)\nx = bytearray(1700 << 20)"
    refused(judge(code, TEST, setting=setting, seconds=10.0), "Memory")


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_sample_that_blocks_signals_times_out(judge, setting):
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
    assert time.monotonic() - started < 40  # allows for a busy machine


def test_the_time_limit_counts_all_threads(judge):
    """A hundred threads share one processor, so the first one gets hardly any time."""
    code = """
    import hashlib, os, threading
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    go = threading.Event()
    def hog():
        go.wait()
        while True: hashlib.pbkdf2_hmac('sha256', b'x', b'y', 10**7)
    for _ in range(110): threading.Thread(target=hog).start()
    go.set()
    hog()
    """
    outcome = judge(textwrap.dedent(code), TEST, seconds=0.5)
    assert outcome.error == "Timeout" and outcome.seconds < 10, outcome


@pytest.mark.parametrize("setting", [*SETTINGS, BARE])
@pytest.mark.parametrize("code", cases(ATTACKS["honest"]))
def test_honest_code_is_not_suspected(judge, setting, code):
    # Custom objects need tests in the same process. With separate tests, a hundred threads would start twice.
    given = None if "__eq__" in code or "range(100)" in code else ""
    assert judge(code, TEST, setting=setting, given=given).status == "passed"


def test_the_work_directory_is_empty_and_writable(judge):
    code = "import os, tempfile\nassert os.listdir('.') == []\nopen('a', 'w').write('x')\ntempfile.mkdtemp()"
    assert judge(code).status == "passed"
    assert judge(code).status == "passed"


@pytest.mark.parametrize("setting", [name for name in SETTINGS if name not in NO_NAMESPACES])
@pytest.mark.parametrize(
    "code",
    [
        "from multiprocessing.dummy import Pool\ndef f(x): return sum(Pool(2).map(int, '11'))",
        "import os, tempfile\ndef f(x):\n    open(tempfile.mkstemp()[1], 'w').write('22'); return 2",
        "def f(x): return open('/dev/null', 'w').write('22')",
    ],
)
def test_honest_code_may_write_files(judge, setting, code):
    assert judge(code, TEST, setting=setting).status == "passed"


@pytest.mark.parametrize("setting", SETTINGS)
def test_two_workers_may_run_many_threads_at_once(pool, setting):
    """Two fork servers run a hundred threads each at the same time."""
    code = "import threading, time\nfor _ in range(100): threading.Thread(target=time.sleep, args=(1,)).start()\ndef f(x): return 2"
    workers = [Remote(setting, "stdlib") for _ in range(2)]
    try:
        for worker in workers:
            worker.send(Job("t", code + "\nimport time; time.sleep(1.5)", (TEST,), seconds=10))
        assert [worker.receive().status for worker in workers] == ["passed", "passed"]
    finally:
        for worker in workers:
            worker.close()
