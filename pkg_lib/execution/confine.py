"""The kernel's part of the sandbox: namespaces, rlimits, an ordinary user, capabilities (Linux; x86-64).

child.py calls `enter` once in the fork server, `fork` for each sample, `lock` last in the sample's process.
"""

# ruff: noqa: PTH109, PTH116, PTH123, PTH208 - descriptors, and a start without pathlib
from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
from dataclasses import dataclass, field

import filesystem
from syscalls import call, libc

NEWNS, NEWUTS, NEWIPC = 0x20000, 0x4000000, 0x8000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP = 1, 4, 22
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47
SYS_CLONE = {"x86_64": 56, "aarch64": 220}
PROCESSES, FILE_MB = 128, 16
# Address space that a program may have beyond its job's limit once it chooses the size of stacks (finder.py).
# A thread's stack is released a moment after `join` returns: who starts one thread of 512 MB after the other
# needs two such stacks at times.
STACK_MB = 512
FIRST_RUN, SECOND_RUN = "first", "second"


@dataclass
class Confinement:
    """What each sample's process does; `user`: the id it takes (0: its own); `rules`: Landlock's, or -1."""

    layers: dict[str, bool | str] = field(default_factory=dict)
    namespaces: bool = False
    filtered: bool = False
    user: int = 0
    rules: int = -1
    processes: int = PROCESSES


def _prctl(option: int, value: int = 0, third: int = 0) -> None:
    call(
        "prctl",
        option,
        ctypes.c_ulong(value),
        ctypes.c_ulong(third),
        ctypes.c_ulong(0),
        ctypes.c_ulong(0),
    )


def die_with_parent() -> None:
    """SIGKILL for this process when its parent ends from now on; the caller checks whether it has ended."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def enter(deny: list[str], shown: filesystem.Trees, folders: list[str], run: str) -> Confinement:
    """The layers but those in `deny`; the plan: samples read `shown`, list `folders` and may start `run`."""
    plan = Confinement()
    _prctl(
        PR_SET_CHILD_SUBREAPER, 1
    )  # who is orphaned becomes this process's, so that none is lost
    user = _spare_user() if os.geteuid() == 0 else 0
    plan.processes += 0 if os.geteuid() == 0 else _tasks_of(os.geteuid())
    try:
        if "namespaces" in deny or platform.machine() not in SYS_CLONE:
            raise OSError(
                0, f"switched off by PKG_SANDBOX_DENY, or not known for {platform.machine()}"
            )
        _unshare_all()
        filesystem.own_root(shown, platform.machine(), user or os.geteuid(), user or os.getegid())
        plan.namespaces, plan.processes = True, PROCESSES
        reason: bool | str = True
    except OSError as e:
        reason = e.strerror or str(e)
    for name in ("network", "process", "mount", "ipc"):
        plan.layers[f"{name} namespace"] = reason
    try:
        if "landlock" in deny:
            raise OSError(0, "switched off by PKG_SANDBOX_DENY")
        plan.rules = filesystem.ruleset(shown, folders, plan.namespaces, run)
        plan.layers["Landlock"] = True
    except OSError as e:
        plan.layers["Landlock"] = e.strerror or str(e)
    plan.filtered = platform.machine() == "x86_64" and "filter" not in deny
    plan.layers["ordinary user"] = True if os.geteuid() else _check_user(user, shown)
    plan.user = user if plan.layers["ordinary user"] is True else 0
    _prctl(PR_SET_DUMPABLE, 0)
    return plan


def _unshare_all() -> None:
    """New network, mount, IPC and host-name namespaces; for an ordinary user in a new user namespace."""
    wanted = NEWNS | NEWNET | NEWIPC | NEWUTS
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:  # in a user namespace no other user would be left for the sample to become
        call("unshare", wanted)
        return
    call("unshare", wanted | NEWUSER)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as f:
            f.write(text)


def _spare_user() -> int:
    """A user id that nobody else has, since threads are counted by user; 0 where there is none."""
    with open("/proc/self/uid_map", encoding="ascii") as f:
        first, _, count = max((tuple(map(int, line.split())) for line in f), key=lambda r: r[2])
    half = min(count, 1 << 31) // 2
    return first + half + os.getpid() % half if half else 0


def _check_user(user: int, shown: filesystem.Trees) -> bool | str:
    """Whether this user can read what is shown, so that root may become it for the sample; else why not."""
    if not user:
        return "root has no other user here"
    pid = os.fork()
    if pid == 0:
        try:
            _become(user)
            readable = all(os.access(path, os.R_OK) for path in (*shown, os.__file__))
            os._exit(0 if readable else 1)
        except OSError:
            os._exit(2)
    unreadable = "an ordinary user cannot read this Python or its packages"
    answers = True, unreadable, "root may become no other user here"
    return answers[os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]


def _become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _tasks_of(uid: int) -> int:
    """How many threads of this user RLIMIT_NPROC may count besides a sample's, those of other workers too."""
    total = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{name}").st_uid == uid:
                total += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue
    return total + 15 * PROCESSES


def fork(plan: Confinement, inside: bool = True) -> int:
    """os.fork, but where the kernel allows a child `inside` is process 1 of its own namespaces.

    The bare system call takes flags, and leaves `random` as it is: every sample starts in one state.
    """
    if not plan.namespaces:
        return os.fork()
    flags = signal.SIGCHLD | (NEWPID | NEWNS if inside else 0)
    pid = libc.syscall(SYS_CLONE[platform.machine()], flags, 0, 0, 0, 0)
    if pid == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"clone: {os.strerror(number)}")
    return pid


def lock(plan: Confinement, seconds: float, program: ctypes.Array | None) -> dict[str, bool | str]:
    """In the sample's process, last: limits, no privileges, filtered system calls. Returns what is active."""
    if plan.namespaces:
        filesystem.empty_work()
    # Behind child.wait's clock; the kernel's count may run ahead of it.
    _limit(resource.RLIMIT_CPU, int(12 * seconds) + 6)
    if plan.user:
        _become(plan.user)
    os.chdir(filesystem.make_work(FIRST_RUN) if plan.namespaces else filesystem.NOWHERE)
    os.environ["HOME"] = os.getcwd()
    call("capset", struct.pack("Ii", 0x20080522, 0), bytes(24))
    _prctl(PR_SET_DUMPABLE, 0)  # again: the kernel may have set it anew with the user
    die_with_parent()
    if plan.rules >= 0:
        filesystem.restrict(plan.rules)
    active: dict[str, bool | str] = {
        "rlimits": True,
        "no new privileges": True,
        "capabilities dropped": True,
    }
    active["system call filter"] = (
        _filter(program) if program else "not for this machine, or switched off"
    )
    root = os.geteuid() == 0 and not program
    active["process-count limit"] = "root is exempt from RLIMIT_NPROC" if root else True
    return active


def limit(memory_mb: int, processes: int) -> None:
    """In the fork server, last: the limits that every sample inherits. Time is limited in `lock`."""
    _prctl(PR_CAP_AMBIENT, 4)
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    _limit(resource.RLIMIT_AS, (memory_mb + STACK_MB) << 20)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (min(memory_mb << 20, hard), hard))
    values = {"FSIZE": FILE_MB << 20, "NPROC": processes, "NOFILE": 1024}
    for name, value in (values | dict.fromkeys(("CORE", "MEMLOCK", "MSGQUEUE"), 0)).items():
        _limit(getattr(resource, f"RLIMIT_{name}"), value)


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def loadable(program: bytes) -> ctypes.Array[ctypes.c_char]:
    """The program as the kernel takes it, made before the fork: a ctypes type costs more than the call."""
    code = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    loader = ctypes.create_string_buffer(head, len(head))
    loader.code = code  # type: ignore[attr-defined]  # kept as long as what points to it
    return loader


def _filter(program: ctypes.Array[ctypes.c_char]) -> bool | str:
    try:
        _prctl(PR_SET_SECCOMP, 2, ctypes.addressof(program))
    except OSError as e:
        return e.strerror
    return True
