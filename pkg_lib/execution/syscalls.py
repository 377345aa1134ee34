"""`call` makes a system call by its C name; `program` is the filter (seccomp BPF, x86-64) of a sample's.

Denied calls fail with EPERM, a PermissionError: no new process (threads are allowed), no program started, no
socket but a connected pair of streams, no signal to another process now or later (F_SETOWN), no priority but
the present one, no other process's processors, no tracing, no shared IPC objects, no nameless file in memory,
no mounts, no kernel facilities; with `read_only`, where no mount namespace sees to it, no change of any file.

Advisory locks (flock, lockf) are pretended: the call returns success and the kernel sets no lock. A sample is
one process, alone with its files, so a lock of its own would always be granted. A real lock could be seen by
other samples, because Python's files and the devices are the same for all of them.
"""

# ruff: noqa: PTH122, PTH123 - a start without pathlib
from __future__ import annotations

import ctypes
import os
import struct
import tomllib

libc = ctypes.CDLL(None, use_errno=True)
for _name in ("capset", "mount", "prctl", "syscall", "umount2", "unshare"):
    getattr(libc, _name)  # looked up once here, not anew in every forked process

ARCHITECTURE, X32 = 0xC000003E, 0x40000000
ALLOW, KILL, DENY, UNKNOWN, AGAIN = 0x7FFF0000, 0x80000000, 0x50001, 0x50026, 0x5000B
PRETEND = 0x50000  # the call is not made and returns 0
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
WRITING = 0x3 | 0x40 | 0x200 | 0x400000  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_TMPFILE

with open(f"{os.path.splitext(__file__)[0]}.toml", "rb") as _file:
    CALLS = tomllib.load(_file)  # name -> number, by what a call is for

OPEN, OPENAT, CLONE, CLONE3, PRLIMIT = 2, 257, 56, 435, 302
KILL_CALL, TGKILL, SOCKETPAIR, FCNTL, IOCTL, PRCTL = 62, 234, 53, 72, 16, 157
FLOCK, SETPRIORITY, FADVISE = 73, 141, 221
# F_SETOWN, F_SETSIG, F_SETOWN_EX; locks of descriptors (F_OFD_GETLK to F_OFD_SETLKW), F_SETLEASE, F_NOTIFY.
# F_GETLK is real: as no sample sets a lock, it has none of another's to tell. SQLite's WAL mode needs it.
FCNTL_REFUSED = (8, 10, 15, 36, 37, 38, 1024, 1026)
FCNTL_LOCKS = (6, 7)  # F_SETLK, F_SETLKW
GETSOCKOPT, COOKIES = 55, (57, 71)  # numbers that count up through all samples
SIGNAL_OWNERS_BY_IOCTL = (
    0x8901,
    0x8902,
    0x5412,
)  # FIOSETOWN, SIOCSPGRP; TIOCSTI types for the user
STREAMS = (1, 0x801, 0x80001, 0x80801)  # SOCK_STREAM, with SOCK_NONBLOCK and SOCK_CLOEXEC
# How the C libraries make a thread (glibc, musl): with another flag its maker may wait, as if for a disk.
THREADS = (0x3D0F00, 0x7D0F00)
THREAD_NAMES = (15, 16)  # PR_SET_NAME, PR_GET_NAME; of prctl nothing else


def call(name: str, *args: object) -> int:
    """A libc function by name; OSError with its errno where it returns -1."""
    result = getattr(libc, name)(*args)
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def _op(code: int, k: int, hit: int = 0, miss: int = 0) -> bytes:
    return struct.pack("HBBI", code, hit, miss, k)


def _refuse(number: int, answer: int = DENY) -> bytes:
    return _op(EQUAL, number, 0, 1) + _op(RETURN, answer)


def _by_argument(
    number: int, argument: int, test: int, values: tuple, hit: int, miss: int
) -> bytes:
    """Call `number` is answered `hit` where its argument (low 32 bits) passes with a value, else `miss`."""
    size = len(values)
    tests = [_op(test, value, size - i, 0) for i, value in enumerate(values)]
    body = b"".join([_op(LOAD, 16 + 8 * argument), *tests, _op(RETURN, miss), _op(RETURN, hit)])
    return _op(EQUAL, number, 0, len(body) // 8) + body


def _allow_only(number: int, argument: int, *values: int) -> bytes:
    return _by_argument(number, argument, EQUAL, values, ALLOW, DENY)


def _own_limits() -> bytes:
    """Allow prlimit for the process itself (0), but let its processor time (0 too) only be read.

    A sample could end itself by that limit. The call reads where its third argument, a pointer, is null.
    """
    other, time = [_op(LOAD, 16), _op(EQUAL, 0, 1, 0)], [_op(LOAD, 24), _op(EQUAL, 0, 1, 0)]
    reads = [_op(LOAD, 32), _op(EQUAL, 0, 0, 2), _op(LOAD, 36), _op(EQUAL, 0, 1, 0)]
    tests = [*other, _op(RETURN, DENY), *time, _op(RETURN, ALLOW), *reads, _op(RETURN, DENY)]
    tests.append(_op(RETURN, ALLOW))
    return b"".join([_op(EQUAL, PRLIMIT, 0, len(tests)), *tests])


def _present_priority() -> bytes:
    """Allow setpriority where it changes nothing (`os.nice(0)`).

    A sample that could lower its priority would wait for a processor until it counts as not measured.
    """
    values = (os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) & 0xFFFFFFFF)
    tests = b""
    for argument, value in enumerate(values):
        tests += _op(LOAD, 16 + 8 * argument) + _op(EQUAL, value, 1, 0) + _op(RETURN, DENY)
    tests += _op(RETURN, ALLOW)
    return _op(EQUAL, SETPRIORITY, 0, len(tests) // 8) + tests


def _fcntl() -> bytes:
    """Refuse commands whose effects others see, and pretend to lock."""
    refused = [_op(EQUAL, value, 0, 1) + _op(RETURN, DENY) for value in FCNTL_REFUSED]
    pretended = [_op(EQUAL, value, 0, 1) + _op(RETURN, PRETEND) for value in FCNTL_LOCKS]
    body = b"".join([_op(LOAD, 24), *refused, *pretended, _op(RETURN, ALLOW)])
    return _op(EQUAL, FCNTL, 0, len(body) // 8) + body


def program(own_pid: int, read_only: bool, starts: bool = False) -> bytes:
    """The filter for a process whose id, as it sees it, is `own_pid`, 8 bytes an instruction.

    `starts`: it may become another program, which keeps the filter; Landlock says which."""
    parts = [_op(LOAD, 4), _op(EQUAL, ARCHITECTURE, 1, 0), _op(RETURN, KILL), _op(LOAD, 0)]
    parts += [_op(AT_LEAST, X32, 0, 1), _op(RETURN, DENY)]
    for group in ("processes", "signals", "shared", "shown", "kernel"):
        parts += [
            _refuse(n) for name, n in CALLS[group].items() if not (starts and name == "execve")
        ]
    # UNKNOWN (ENOSYS) makes the C library start threads by the older call, whose flags a filter can read.
    parts.append(_refuse(CLONE3, UNKNOWN))
    parts.append(_by_argument(CLONE, 0, EQUAL, THREADS, ALLOW, AGAIN))
    parts += [_allow_only(number, 0, own_pid) for number in (KILL_CALL, TGKILL)]
    parts += [_allow_only(number, 0, 0, own_pid) for number in CALLS["scheduling"].values()]
    parts += [_own_limits(), _allow_only(SOCKETPAIR, 1, *STREAMS)]
    parts.append(_allow_only(PRCTL, 0, *THREAD_NAMES))
    parts += [_present_priority(), _fcntl(), _refuse(FLOCK, PRETEND)]
    parts.append(_refuse(FADVISE, PRETEND))  # a hint, by which one could ask what is cached
    parts.append(_by_argument(GETSOCKOPT, 2, EQUAL, COOKIES, DENY, ALLOW))
    parts.append(_by_argument(IOCTL, 1, EQUAL, SIGNAL_OWNERS_BY_IOCTL, DENY, ALLOW))
    if read_only:
        parts += map(_refuse, CALLS["files"].values())
        parts.append(_by_argument(OPEN, 1, ANY_BIT, (WRITING,), DENY, ALLOW))
        parts.append(_by_argument(OPENAT, 2, ANY_BIT, (WRITING,), DENY, ALLOW))
    return b"".join([*parts, _op(RETURN, ALLOW)])
