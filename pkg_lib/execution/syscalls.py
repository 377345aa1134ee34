"""The system call filter (seccomp BPF, x86-64): what a sample's process may not ask of the kernel.

Denied calls fail with EPERM, so Python sees a PermissionError: no new process (threads are allowed), no program started,
no socket, no signal to another process, no tracing, no shared IPC objects, no mounts, no kernel facilities. Where no
mount namespace makes the file system read-only, `read_only` also denies every call that creates, changes or removes a file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

ARCHITECTURE, X32 = 0xC000003E, 0x40000000
ALLOW, KILL, DENY, UNKNOWN, AGAIN = 0x7FFF0000, 0x80000000, 0x50001, 0x50026, 0x5000B
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
CLONE_THREAD = 0x10000
WRITING = 0x3 | 0x40 | 0x200 | 0x400000  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_TMPFILE

PROCESSES = {"fork": 57, "vfork": 58, "execve": 59, "execveat": 322, "ptrace": 101, "unshare": 272, "setns": 308,
             "process_vm_readv": 310, "process_vm_writev": 311, "pidfd_open": 434, "pidfd_getfd": 438}
SIGNALS = {"tkill": 200, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "pidfd_send_signal": 424}
SHARED = {"socket": 41, "shmget": 29, "semget": 64, "msgget": 68, "mq_open": 240}
KERNEL = {"mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "mount_setattr": 442, "open_tree": 428,
          "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "open_by_handle_at": 304,
          "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "io_uring_setup": 425, "io_uring_enter": 426,
          "io_uring_register": 427, "add_key": 248, "request_key": 249, "keyctl": 250, "init_module": 175,
          "finit_module": 313, "delete_module": 176, "kexec_load": 246, "reboot": 169, "swapon": 167, "swapoff": 168,
          "settimeofday": 164, "clock_settime": 227, "sethostname": 170, "setdomainname": 171, "personality": 135,
          "quotactl": 179, "acct": 163, "iopl": 172, "ioperm": 173}
FILES = {"creat": 85, "openat2": 437, "truncate": 76, "rename": 82, "renameat": 264, "renameat2": 316, "mkdir": 83,
         "mkdirat": 258, "rmdir": 84, "link": 86, "linkat": 265, "unlink": 87, "unlinkat": 263, "symlink": 88,
         "symlinkat": 266, "chmod": 90, "fchmod": 91, "fchmodat": 268, "fchmodat2": 452, "chown": 92, "fchown": 93,
         "lchown": 94, "fchownat": 260, "mknod": 133, "mknodat": 259, "utime": 132, "utimes": 235, "futimesat": 261,
         "utimensat": 280, "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197,
         "lremovexattr": 198, "fremovexattr": 199}
OPEN, OPENAT, KILL_CALL, TGKILL, CLONE, CLONE3, PRLIMIT = 2, 257, 62, 234, 56, 435, 302


def _op(code: int, k: int, hit: int = 0, miss: int = 0) -> bytes:
    return struct.pack("HBBI", code, hit, miss, k)


def _refuse(number: int, answer: int = DENY) -> bytes:
    return _op(EQUAL, number, 0, 1) + _op(RETURN, answer)


def _by_argument(number: int, argument: int, test: int, value: int, hit: int, miss: int) -> bytes:
    """Call `number` is answered `hit` where its argument (low 32 bits) passes the test, else `miss`."""
    load = _op(LOAD, 16 + 8 * argument)
    return _op(EQUAL, number, 0, 4) + load + _op(test, value, 0, 1) + _op(RETURN, hit) + _op(RETURN, miss)


def refusing(numbers: Iterable[int]) -> bytes:
    """A filter that denies these calls and nothing else."""
    return b"".join([_op(LOAD, 0), *map(_refuse, numbers), _op(RETURN, ALLOW)])


def program(own_pid: int, read_only: bool) -> bytes:
    """The filter for a process whose id, as it sees it, is `own_pid`: 8 bytes an instruction."""
    parts = [_op(LOAD, 4), _op(EQUAL, ARCHITECTURE, 1, 0), _op(RETURN, KILL), _op(LOAD, 0)]
    parts += [_op(AT_LEAST, X32, 0, 1), _op(RETURN, DENY)]
    for number in (*PROCESSES.values(), *SIGNALS.values(), *SHARED.values(), *KERNEL.values()):
        parts.append(_refuse(number))
    # UNKNOWN (ENOSYS) makes the C library start threads by the older call, whose flags a filter can read.
    parts.append(_refuse(CLONE3, UNKNOWN))
    parts.append(_by_argument(CLONE, 0, ANY_BIT, CLONE_THREAD, ALLOW, AGAIN))
    parts.append(_by_argument(KILL_CALL, 0, EQUAL, own_pid, ALLOW, DENY))
    parts.append(_by_argument(TGKILL, 0, EQUAL, own_pid, ALLOW, DENY))
    parts.append(_by_argument(PRLIMIT, 0, EQUAL, 0, ALLOW, DENY))
    if read_only:
        parts += [_refuse(number) for number in FILES.values()]
        parts.append(_by_argument(OPEN, 1, ANY_BIT, WRITING, DENY, ALLOW))
        parts.append(_by_argument(OPENAT, 2, ANY_BIT, WRITING, DENY, ALLOW))
    return b"".join([*parts, _op(RETURN, ALLOW)])
