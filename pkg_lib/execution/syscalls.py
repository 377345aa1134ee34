"""System calls: `call` makes one by its C name; `program` is the filter (seccomp BPF, x86-64) of what a
sample may not ask.

Denied calls fail with EPERM, so Python sees a PermissionError: no new process (threads are allowed), no
program started, no socket but a connected pair of streams, no signal to another process and none arranged for
later (F_SETOWN), no other process's priority or processors, no tracing, no shared IPC objects, no file in
memory that has no name, no mounts, no kernel facilities. Where no mount namespace makes the file system
read-only, `read_only` also denies every call that creates, changes or removes a file.
"""

from __future__ import annotations

import ctypes
import os
import struct

libc = ctypes.CDLL(None, use_errno=True)
for _name in ("capset", "mount", "prctl", "syscall", "umount2", "unshare"):
    getattr(libc, _name)  # looked up once here, not anew in every forked process

ARCHITECTURE, X32 = 0xC000003E, 0x40000000
ALLOW, KILL, DENY, UNKNOWN, AGAIN = 0x7FFF0000, 0x80000000, 0x50001, 0x50026, 0x5000B
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
CLONE_THREAD = 0x10000
WRITING = 0x3 | 0x40 | 0x200 | 0x400000  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_TMPFILE


def _numbered(table: str) -> dict[str, int]:
    """Name -> number, from a table of "name number" with commas between."""
    return {name: int(number) for name, number in (row.split() for row in table.split(","))}


# What a sample may not ask at all, by what it is for; numbers of x86-64.
PROCESSES = _numbered(
    """
    fork 57, vfork 58, execve 59, execveat 322, ptrace 101, unshare 272, setns 308, process_vm_readv 310,
    process_vm_writev 311, pidfd_open 434, pidfd_getfd 438
    """
)
SIGNALS = _numbered("tkill 200, rt_sigqueueinfo 129, rt_tgsigqueueinfo 297, pidfd_send_signal 424")
SHARED = _numbered(
    """
    socket 41, bind 49, connect 42, listen 50, accept 43, accept4 288, memfd_create 319, memfd_secret 447,
    shmget 29, semget 64, msgget 68, mq_open 240
    """
)
KERNEL = _numbered(
    """
    mount 165, umount2 166, pivot_root 155, chroot 161, mount_setattr 442, open_tree 428, move_mount 429,
    fsopen 430, fsconfig 431, fsmount 432, fspick 433, open_by_handle_at 304, bpf 321, perf_event_open 298,
    userfaultfd 323, io_uring_setup 425, io_uring_enter 426, io_uring_register 427, add_key 248,
    request_key 249, keyctl 250, init_module 175, finit_module 313, delete_module 176, kexec_load 246,
    reboot 169, swapon 167, swapoff 168, settimeofday 164, clock_settime 227, sethostname 170,
    setdomainname 171, personality 135, quotactl 179, acct 163, iopl 172, ioperm 173, syslog 103,
    vhangup 153, modify_ldt 154, kcmp 312, fanotify_init 300, migrate_pages 256, move_pages 279,
    process_madvise 440, ioprio_set 251
    """
)
FILES = _numbered(
    """
    creat 85, openat2 437, truncate 76, rename 82, renameat 264, renameat2 316, mkdir 83, mkdirat 258,
    rmdir 84, link 86, linkat 265, unlink 87, unlinkat 263, symlink 88, symlinkat 266, chmod 90, fchmod 91,
    fchmodat 268, fchmodat2 452, chown 92, fchown 93, lchown 94, fchownat 260, mknod 133, mknodat 259,
    utime 132, utimes 235, futimesat 261, utimensat 280, setxattr 188, lsetxattr 189, fsetxattr 190,
    removexattr 197, lremovexattr 198, fremovexattr 199, setxattrat 463, removexattrat 466,
    file_setattr 469
    """
)
OPEN, OPENAT, CLONE, CLONE3, PRLIMIT = 2, 257, 56, 435, 302
AT_FDCWD = 0xFFFFFF9C
KILL_CALL, TGKILL, SOCKETPAIR, FCNTL, IOCTL, PRCTL, SETPRIORITY = 62, 234, 53, 72, 16, 157, 141
SCHED = _numbered(
    """
    setparam 142, getparam 143, setscheduler 144, getscheduler 145, rr_get_interval 148, setaffinity 203,
    getaffinity 204, setattr 314, getattr 315
    """
)
SIGNAL_OWNERS = (8, 10, 15)  # F_SETOWN, F_SETSIG, F_SETOWN_EX
SIGNAL_OWNERS_BY_IOCTL = (0x8901, 0x8902, 0x5412)  # FIOSETOWN, SIOCSPGRP; TIOCSTI types for the user
STREAMS = (1, 0x801, 0x80001, 0x80801)  # SOCK_STREAM, with SOCK_NONBLOCK and SOCK_CLOEXEC
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
    number: int, argument: int, test: int, values: tuple[int, ...], hit: int, miss: int
) -> bytes:
    """Call `number` is answered `hit` where its argument (low 32 bits) passes with a value, else `miss`."""
    size = len(values)
    tests = [_op(test, value, size - i, 0) for i, value in enumerate(values)]
    body = b"".join([_op(LOAD, 16 + 8 * argument), *tests, _op(RETURN, miss), _op(RETURN, hit)])
    return _op(EQUAL, number, 0, len(body) // 8) + body


def _allow_only(number: int, argument: int, *values: int) -> bytes:
    return _by_argument(number, argument, EQUAL, values, ALLOW, DENY)


def _refuse_unless(number: int, argument: int, value: int) -> bytes:
    """Call `number` is denied where its argument is another value, else left to what follows."""
    body = _op(LOAD, 16 + 8 * argument) + _op(EQUAL, value, 1, 0) + _op(RETURN, DENY) + _op(LOAD, 0)
    return _op(EQUAL, number, 0, len(body) // 8) + body


def _own_priority(own_pid: int) -> bytes:
    """setpriority of this process alone: its first argument PRIO_PROCESS (0), its second this process."""
    itself = [_op(LOAD, 24), _op(EQUAL, 0, 2, 0), _op(EQUAL, own_pid, 1, 0)]
    answers = [_op(RETURN, DENY), _op(RETURN, ALLOW)]
    tests = [_op(LOAD, 16), _op(EQUAL, 0, 1, 0), _op(RETURN, DENY), *itself, *answers]
    return b"".join([_op(EQUAL, SETPRIORITY, 0, len(tests)), *tests])


def program(own_pid: int, read_only: bool) -> bytes:
    """The filter for a process whose id, as it sees it, is `own_pid`: 8 bytes an instruction."""
    parts = [_op(LOAD, 4), _op(EQUAL, ARCHITECTURE, 1, 0), _op(RETURN, KILL), _op(LOAD, 0)]
    parts += [_op(AT_LEAST, X32, 0, 1), _op(RETURN, DENY)]
    for number in (*PROCESSES.values(), *SIGNALS.values(), *SHARED.values(), *KERNEL.values()):
        parts.append(_refuse(number))
    # UNKNOWN (ENOSYS) makes the C library start threads by the older call, whose flags a filter can read.
    parts.append(_refuse(CLONE3, UNKNOWN))
    parts.append(_by_argument(CLONE, 0, ANY_BIT, (CLONE_THREAD,), ALLOW, AGAIN))
    parts += [_allow_only(number, 0, own_pid) for number in (KILL_CALL, TGKILL)]
    parts += [_allow_only(number, 0, 0, own_pid) for number in SCHED.values()]
    parts += [_allow_only(PRLIMIT, 0, 0), _allow_only(SOCKETPAIR, 1, *STREAMS)]
    parts += [_allow_only(PRCTL, 0, *THREAD_NAMES), _own_priority(own_pid)]
    parts.append(_by_argument(FCNTL, 1, EQUAL, SIGNAL_OWNERS, DENY, ALLOW))
    parts.append(_by_argument(IOCTL, 1, EQUAL, SIGNAL_OWNERS_BY_IOCTL, DENY, ALLOW))
    if read_only:
        parts += [_refuse(number) for number in FILES.values()]
        parts.append(_by_argument(OPEN, 1, ANY_BIT, (WRITING,), DENY, ALLOW))
        # The runner sees the text of a path alone, so that a directory's descriptor leads past it into /proc.
        parts.append(_refuse_unless(OPENAT, 0, AT_FDCWD))
        parts.append(_by_argument(OPENAT, 2, ANY_BIT, (WRITING,), DENY, ALLOW))
    return b"".join([*parts, _op(RETURN, ALLOW)])
