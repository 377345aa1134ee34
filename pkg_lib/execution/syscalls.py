"""System calls: `call` makes one, and `program` is the filter of a sample's process.

The filter (seccomp BPF) is for x86-64. syscalls.toml lists what it refuses. A refused call fails
with EPERM, a PermissionError. It refuses new processes (threads are allowed) and program starts;
sockets other than a connected pair of streams; signals to another process, now or later (F_SETOWN);
changes of the priority; changes of another process's processors; tracing; shared IPC
objects; anonymous files in memory; mounts; and kernel facilities. With `read_only`, where no mount
namespace protects the files, it also refuses every change of a file.

Advisory locks (flock, lockf) are emulated: the call returns success and the kernel sets no lock. A
sample is the only process that uses its files, so its locks would always be granted. A real
lock could be seen by other samples, because Python's files and the devices are the same for all of
them.
"""

# ruff: noqa: PTH122, PTH123 - this starts without pathlib
from __future__ import annotations

import ctypes
import os
import struct
import tomllib
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)
for _name in ("capset", "mount", "prctl", "syscall", "umount2", "unshare"):
    getattr(libc, _name)  # looked up once here, not again in every forked process

with open(f"{os.path.splitext(__file__)[0]}.toml", "rb") as _file:
    CALLS: dict[str, Any] = tomllib.load(_file)
REFUSED = ("processes", "signals", "shared", "shown", "kernel")  # groups of CALLS
# What the filter answers. AGAIN (EAGAIN) and UNKNOWN (ENOSYS) are errors; PRETEND does nothing and
# returns 0.
ALLOW = 0x7FFF0000
KILL = 0x80000000
DENY = 0x50001
UNKNOWN = 0x50026
AGAIN = 0x5000B
PRETEND = 0x50000
ANSWERS = {
    "allow": ALLOW,
    "deny": DENY,
    "again": AGAIN,
    "pretend": PRETEND,
}
# Instructions of BPF, and where the data has the call's number, the architecture and the arguments.
LOAD = 0x20
EQUAL = 0x15
AT_LEAST = 0x35
ANY_BIT = 0x45
RETURN = 0x06
NUMBER_AT = 0
ARCHITECTURE_AT = 4
ARGUMENTS_AT = 16
X86_64 = 0xC000003E
X32 = 0x40000000
OPEN = 2
OPENAT = 257
CLONE3 = 435
PRLIMIT = 302
KILL_CALL = 62
TGKILL = 234
SETPRIORITY = 141
WRITING = 0x3 | 0x40 | 0x200 | 0x400000  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_TMPFILE


def call(name: str, *args: object) -> int:
    """Call a function of the C library.

    Args:
        name: Its name.
        *args: Its arguments, as ctypes takes them.

    Returns:
        What it returns.

    Raises:
        OSError: It returned -1; with its errno.
    """
    result: int = getattr(libc, name)(*args)
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def instruction(
    code: int,
    value: int,
    hit: int = 0,
    miss: int = 0,
) -> bytes:
    """Encode one instruction of the filter.

    Args:
        code: What it does.
        value: Its operand.
        hit: Instructions to skip if a test succeeds.
        miss: Instructions to skip if a test fails.
    """
    return struct.pack("HBBI", code, hit, miss, value)


def _load_argument(index: int, upper_half: bool = False) -> bytes:
    return instruction(LOAD, ARGUMENTS_AT + 8 * index + 4 * upper_half)


def _answer_if(
    test: int,
    value: int,
    answer: int,
) -> bytes:
    """Answer the call if what is loaded passes a test with a value."""
    return instruction(test, value, 0, 1) + instruction(RETURN, answer)


def _deny_unless_equal(value: int) -> bytes:
    return instruction(EQUAL, value, 1, 0) + instruction(RETURN, DENY)


def _for_call(number: int, *instructions: bytes) -> bytes:
    """Execute instructions for one system call only. They must answer it."""
    body = b"".join(instructions)
    return instruction(EQUAL, number, 0, len(body) // 8) + body


def refuse(number: int, answer: int = DENY) -> bytes:
    """Encode that a system call is never made.

    Args:
        number: Number of the call.
        answer: What it returns instead.
    """
    return _for_call(number, instruction(RETURN, answer))


def _by_argument(
    number: int,
    argument: int,
    answers: dict[int, list[int]],
    otherwise: int,
    test: int = EQUAL,
) -> bytes:
    """Answer a call by the lower 32 bits of an argument; `answers` has each answer's values."""
    body = [_load_argument(argument)]
    for answer, values in answers.items():
        body += [_answer_if(test, value, answer) for value in values]
    return _for_call(number, *body, instruction(RETURN, otherwise))


def _own_limits() -> bytes:
    """Allow prlimit for the process itself (0), but let its processor time (also 0) only be read.

    A sample could end itself by that limit. The call reads where its third argument, a pointer, is
    null.
    """
    return _for_call(
        PRLIMIT,
        _load_argument(0),
        _deny_unless_equal(0),
        _load_argument(1),
        instruction(EQUAL, 0, 1, 0),
        instruction(RETURN, ALLOW),
        _load_argument(2),
        _deny_unless_equal(0),
        _load_argument(2, upper_half=True),
        _deny_unless_equal(0),
        instruction(RETURN, ALLOW),
    )


def _present_priority() -> bytes:
    """Allow setpriority where it changes nothing (`os.nice(0)`).

    A sample that could lower its priority would wait for a processor until it counts as not
    measured.
    """
    present = os.getpriority(os.PRIO_PROCESS, 0) & 0xFFFFFFFF
    body = []
    for argument, value in enumerate((os.PRIO_PROCESS, 0, present)):
        body += [_load_argument(argument), _deny_unless_equal(value)]
    return _for_call(SETPRIORITY, *body, instruction(RETURN, ALLOW))


def program(
    own_pid: int,
    read_only: bool,
    starts: bool = False,
) -> bytes:
    """Encode the filter of a process.

    Args:
        own_pid: The process's id as it sees it.
        read_only: Whether every change of a file is refused.
        starts: Whether the process may become another program, which keeps the filter. Landlock
            decides which one.

    Returns:
        The program, 8 bytes per instruction.
    """
    parts = [
        instruction(LOAD, ARCHITECTURE_AT),
        instruction(EQUAL, X86_64, 1, 0),
        instruction(RETURN, KILL),
        instruction(LOAD, NUMBER_AT),
        _answer_if(AT_LEAST, X32, DENY),
    ]
    for group in REFUSED:
        for name, number in CALLS[group].items():
            if not (starts and name == "execve"):
                parts.append(refuse(number))
    # As if unknown: the C library then starts threads by the older call, whose flags a filter can
    # read.
    parts.append(refuse(CLONE3, UNKNOWN))
    own = {ALLOW: [0, own_pid]}
    parts += [_by_argument(number, 0, own, DENY) for number in CALLS["scheduling"].values()]
    parts += [_by_argument(number, 0, {ALLOW: [own_pid]}, DENY) for number in (KILL_CALL, TGKILL)]
    for rule in CALLS["by_argument"]:
        answers = {ANSWERS[name]: values for name, values in rule.items() if name in ANSWERS}
        otherwise = ANSWERS[rule["otherwise"]]
        parts.append(_by_argument(rule["call"], rule["argument"], answers, otherwise))
    parts += [_own_limits(), _present_priority()]
    parts += [refuse(number, PRETEND) for number in CALLS["pretended"].values()]
    if read_only:
        parts += [refuse(number) for number in CALLS["files"].values()]
        for number, flags in ((OPEN, 1), (OPENAT, 2)):
            parts.append(_by_argument(number, flags, {DENY: [WRITING]}, ALLOW, ANY_BIT))
    return b"".join([*parts, instruction(RETURN, ALLOW)])
