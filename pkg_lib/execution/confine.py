"""The kernel's part of the sandbox: namespaces, rlimits, capabilities, system call filter (Linux; x86-64 for the filter).

Used inside the sandbox's own processes only (child.py), three times, because each layer has its own lifetime:
`enter` once in the fork server, `fork` for each sample, `lock` last in the sample's own process.
"""

# ruff: noqa: PTH116, PTH120, PTH123, PTH208 - descriptors, and a start without pathlib
from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
from dataclasses import dataclass, field

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 0x4000, 0x40000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 4, 22, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47
SYS_MOUNT_SETATTR, AT_RECURSIVE = 442, 0x8000
SYS_CLONE = {"x86_64": 56, "aarch64": 220}
NOBODY = 65534
PROCESSES = 64
FILE_MB = 16
WORK_MB = 64

libc = ctypes.CDLL(None, use_errno=True)
for _name in ("capset", "mount", "prctl", "syscall", "unshare"):
    getattr(libc, _name)  # looked up once here, not anew in every forked process


@dataclass
class Plan:
    """What the fork server found possible, and what each sample's processes then do."""

    work: str
    layers: dict[str, bool | str] = field(default_factory=dict)
    namespaces: bool = False
    filtered: bool = False
    own_user: bool = False
    processes: int = PROCESSES


def call(name: str, *args: object) -> int:
    """A libc function by name; OSError with its errno where it returns -1."""
    result = getattr(libc, name)(*args)
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def _prctl(option: int, value: int = 0, third: int = 0) -> None:
    call("prctl", option, ctypes.c_ulong(value), ctypes.c_ulong(third), ctypes.c_ulong(0), ctypes.c_ulong(0))


def die_with_parent() -> None:
    """SIGKILL for this process when its parent ends from now on; that it has not ended yet is for the caller to check."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Makes this process the parent of its descendants whose parent has ended, so that none is lost."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def enter(work: str, deny: list[str]) -> Plan:
    """The fork server's own layers, and a plan for its samples; `deny` switches layers off (for tests)."""
    plan = Plan(work)
    try:
        if "namespaces" in deny:
            raise PermissionError("switched off by PKG_SANDBOX_DENY")
        if platform.machine() not in SYS_CLONE:
            raise OSError(0, f"not known for {platform.machine()}")
        _unshare_all()
        _read_only_root()
        plan.namespaces = True
        reason: bool | str = True
    except OSError as e:
        reason = e.strerror or str(e)
    for name in ("network", "process", "mount", "ipc"):
        plan.layers[f"{name} namespace"] = reason
    plan.filtered = platform.machine() == "x86_64" and "filter" not in deny
    plan.own_user = os.geteuid() == 0 and _others_can_read_python()
    plan.processes = PROCESSES + (0 if plan.namespaces or os.geteuid() == 0 else _tasks_of(os.geteuid()))
    return plan


def _unshare_all() -> None:
    """New network, mount, IPC and host-name namespaces; in a new user namespace where this user may not otherwise."""
    wanted = NEWNS | NEWNET | NEWIPC | NEWUTS
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        try:
            call("unshare", wanted)
            return
        except PermissionError:
            pass
    call("unshare", wanted | NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as f:
            f.write(text)


def _read_only_root() -> None:
    """Every mount read-only and without set-user-id programs, in this mount namespace alone."""
    call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    attributes = struct.pack("QQQQ", MS_RDONLY | MS_NOSUID, 0, 0, 0)
    call("syscall", SYS_MOUNT_SETATTR, -100, b"/", AT_RECURSIVE, attributes, ctypes.c_size_t(len(attributes)))


def hide_proc() -> None:
    """An empty, read-only /proc: no environment, memory or descriptors of any process to be found there."""
    call("mount", b"none", b"/proc", b"tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, b"size=4k")


def _others_can_read_python() -> bool:
    """Whether an ordinary user can read the running Python, so that root may become one for the sample."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            os.listdir(os.path.dirname(os.__file__))
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def _tasks_of(uid: int) -> int:
    """How many threads this user has now: RLIMIT_NPROC counts them all where there is no user namespace."""
    total = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{name}").st_uid == uid:
                total += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue
    return total + PROCESSES


def fork(plan: Plan) -> int:
    """os.fork, but where the kernel allows the child is process 1 of its own process and mount namespaces.

    The bare system call, because os.fork takes no flags and unshare serves one fork only. Python's own steps around a
    fork are left out: the fork server has one thread, so no lock is in another's hands, and they cost a third of the
    fork. What differs from os.fork: `random` is not seeded anew, so that every sample starts in the same state.
    """
    if not plan.namespaces:
        return os.fork()
    pid = libc.syscall(SYS_CLONE[platform.machine()], NEWPID | NEWNS | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"clone: {os.strerror(number)}")
    return pid


def _empty_work(plan: Plan) -> None:
    options = f"size={WORK_MB}m,nr_inodes=4096,mode=1777".encode()
    call("mount", b"none", os.fsencode(plan.work), b"tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options)


def lock(plan: Plan, seconds: float, program: ctypes.Array[ctypes.c_char] | None) -> dict[str, bool | str]:
    """In the sample's process, last: limits, no privileges, filtered system calls. Returns what could not be had."""
    if plan.namespaces:
        _empty_work(plan)
    os.chdir(plan.work)
    _limit(resource.RLIMIT_CPU, int(2 * seconds) + 3)  # behind child.wait's clock; the kernel's count may run ahead of it
    if plan.own_user:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    _drop_capabilities()
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    _prctl(PR_SET_DUMPABLE, 0)
    die_with_parent()
    found: dict[str, bool | str] = {"rlimits": True, "no new privileges": True, "capabilities dropped": True}
    found["system call filter"] = _filter(program) if program else "not for this machine, or switched off"
    root = os.geteuid() == 0 and not program
    found["process-count limit"] = "root is exempt from RLIMIT_NPROC" if root else True
    return found


def limit(memory_mb: int, processes: int) -> None:
    """In the fork server, last: the limits that every sample's process inherits. Time is limited in `lock`."""
    for kind, value in (
        (resource.RLIMIT_AS, memory_mb << 20),
        (resource.RLIMIT_FSIZE, FILE_MB << 20),
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        _limit(kind, value)


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _drop_capabilities() -> None:
    _prctl(PR_CAP_AMBIENT, 4)
    header, none = struct.pack("Ii", 0x20080522, 0), bytes(24)
    call("capset", header, none)


def loadable(program: bytes) -> ctypes.Array[ctypes.c_char]:
    """The program as the kernel takes it, made before the fork: a new ctypes type costs more than the system call."""
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
