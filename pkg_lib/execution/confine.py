"""The kernel's part of the sandbox: namespaces, rlimits, an ordinary user, capabilities.

It needs Linux; the system call filter is for x86-64. child.py calls `enter` and `limit` once in the
fork server, `fork` for each sample, and `lock` last in the sample's process.
"""

# ruff: noqa: PTH109, PTH116, PTH123, PTH208 - descriptors, and a start without pathlib
from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import filesystem
from syscalls import call, libc

NEWNS = 0x20000
NEWUTS = 0x4000000
NEWIPC = 0x8000000
NEWUSER = 0x10000000
NEWPID = 0x20000000
NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
CLEAR_ALL = 4
FILTER_MODE = 2
CAPABILITY_VERSION = 0x20080522
SYS_CLONE = {"x86_64": 56, "aarch64": 220}
PROCESSES = 128
FILE_MB = 16
# Address space that a program may use beyond its job's limit once it chooses the size of stacks
# (finder.py). A thread's stack is released a moment after `join` returns, so a program that starts
# one thread of 512 MB after the other needs two such stacks at times.
STACK_MB = 512
FIRST_RUN = "first"
SECOND_RUN = "second"
SWITCHED_OFF = "switched off by PKG_SANDBOX_DENY"
Layers = dict[str, bool | str]  # True for a layer that is active, else why it is not


@dataclass
class Confinement:
    """How each sample's process is confined.

    Attributes:
        layers: The layers that the fork server has tried to enter.
        namespaces: Whether a sample has namespaces of its own.
        filtered: Whether a sample's system calls are filtered.
        user: User id that a sample takes; 0 for the fork server's own.
        rules: Descriptor of Landlock's rules, or -1.
        processes: RLIMIT_NPROC.
    """

    layers: Layers = field(default_factory=dict)
    namespaces: bool = False
    filtered: bool = False
    user: int = 0
    rules: int = -1
    processes: int = PROCESSES


def prctl(
    option: int,
    value: int = 0,
    third: int = 0,
) -> None:
    """Call prctl.

    Args:
        option: The operation.
        value: Its first argument.
        third: Its second argument.

    Raises:
        OSError: The kernel refuses.
    """
    call("prctl", option, *map(ctypes.c_ulong, (value, third, 0, 0)))


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends.

    The caller must check whether the parent has already ended.
    """
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def enter(
    deny: list[str],
    shown: filesystem.Trees,
    folders: list[str],
    run: str,
) -> Confinement:
    """Enter the layers that the fork server shares with all its samples.

    Args:
        deny: Layers to leave out: "namespaces", "filter", "landlock".
        shown: What samples may read.
        folders: Directories that samples may list.
        run: The program that samples may start; "" for none.

    Returns:
        How to confine each sample. Its `layers` say why a layer is not active.
    """
    plan = Confinement()
    prctl(
        PR_SET_CHILD_SUBREAPER, 1
    )  # orphans become children of this process, so that none is lost
    own_user = os.geteuid()
    user = 0 if own_user else _spare_user()
    other_tasks = _tasks_of(own_user) if own_user else 0

    def enter_namespaces() -> None:
        machine = platform.machine()
        if "namespaces" in deny or machine not in SYS_CLONE:
            raise OSError(0, f"{SWITCHED_OFF}, or not known for {machine}")
        _unshare_all()
        filesystem.own_root(shown, machine, user or own_user, user or os.getegid())

    def make_rules() -> None:
        if "landlock" in deny:
            raise OSError(0, SWITCHED_OFF)
        plan.rules = filesystem.ruleset(shown, folders, plan.namespaces, run)

    active = _attempt(enter_namespaces)
    plan.namespaces = active is True
    plan.layers |= dict.fromkeys(
        (f"{kind} namespace" for kind in ("network", "process", "mount", "ipc")), active
    )
    if not plan.namespaces:
        plan.processes += other_tasks
    plan.layers["Landlock"] = _attempt(make_rules)
    plan.filtered = platform.machine() == "x86_64" and "filter" not in deny
    ordinary = plan.layers["ordinary user"] = True if own_user else _check_user(user, shown)
    plan.user = user if ordinary is True else 0
    prctl(PR_SET_DUMPABLE, 0)
    return plan


def _attempt(step: Callable[[], None]) -> bool | str:
    """Return True after a step of the setup, or the system's reason why it failed."""
    try:
        step()
    except OSError as e:
        return e.strerror or str(e)
    return True


def _unshare_all() -> None:
    """Enter new network, mount, IPC and host-name namespaces, and as a user a user namespace."""
    wanted = NEWNS | NEWNET | NEWIPC | NEWUTS
    uid = os.geteuid()
    gid = os.getegid()
    if uid == 0:  # in a user namespace no other user would be left for the sample to become
        call("unshare", wanted)
        return
    call("unshare", wanted | NEWUSER)
    maps = {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}
    for name, text in maps.items():
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _spare_user() -> int:
    """Return a user id that nobody has, since threads are counted by user; 0 for none."""
    first = count = 0
    with open("/proc/self/uid_map", encoding="ascii") as file:
        for line in file:
            start, _, size = map(int, line.split())
            if size > count:
                first = start
                count = size
    half = min(count, 1 << 31) // 2
    return first + half + os.getpid() % half if half else 0


def _check_user(user: int, shown: filesystem.Trees) -> bool | str:
    """Return True if root can switch to a user who can read `shown`; else the reason why not."""
    if not user:
        return "no unprivileged user is available"
    pid = os.fork()
    if pid == 0:
        try:
            _become(user)
            paths = (*shown, os.__file__)
            readable = all(os.access(path, os.R_OK) for path in paths)
            os._exit(0 if readable else 1)
        except OSError:
            os._exit(2)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code == 1:
        return "an ordinary user cannot read this Python or its packages"
    return True if code == 0 else "root cannot switch to another user"


def _become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _tasks_of(uid: int) -> int:
    """Return how many threads of a user RLIMIT_NPROC may count beside a sample's own."""
    total = 15 * PROCESSES  # samples of other workers
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{name}").st_uid == uid:
                total += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue
    return total


def fork(plan: Confinement, inside: bool = True) -> int:
    """Fork as `os.fork` does.

    The bare system call takes flags. It also leaves `random` as it is, so every sample starts in
    the same state.

    Args:
        plan: How samples are confined.
        inside: Whether the child becomes process 1 of namespaces of its own, where the kernel
            allows it.

    Returns:
        The child's process id, or 0 in the child.

    Raises:
        OSError: The kernel refuses.
    """
    if not plan.namespaces:
        return os.fork()
    flags = signal.SIGCHLD | (NEWPID | NEWNS if inside else 0)
    number = SYS_CLONE[platform.machine()]
    pid: int = libc.syscall(number, flags, 0, 0, 0, 0)
    if pid == -1:
        code = ctypes.get_errno()
        raise OSError(code, f"clone: {os.strerror(code)}")
    return pid


def lock(
    plan: Confinement,
    seconds: float,
    program: ctypes.Array[ctypes.c_char] | None,
) -> Layers:
    """Confine this process, which is a sample's: limits, no privileges, filtered system calls.

    Args:
        plan: How samples are confined.
        seconds: The job's time limit.
        program: The system call filter, as `loadable` returns it.

    Returns:
        The layers of this process.

    Raises:
        OSError: A layer of the plan cannot be entered.
    """
    if plan.namespaces:
        filesystem.empty_work()
    # More than child.wait allows: the kernel's count may run ahead of its clock.
    _limit(resource.RLIMIT_CPU, int(12 * seconds) + 6)
    if plan.user:
        _become(plan.user)
    os.chdir(filesystem.make_work(FIRST_RUN) if plan.namespaces else filesystem.NOWHERE)
    os.environ["HOME"] = os.getcwd()
    call("capset", struct.pack("Ii", CAPABILITY_VERSION, 0), bytes(24))
    prctl(PR_SET_DUMPABLE, 0)  # again: the kernel may have changed it with the user
    die_with_parent()
    if plan.rules >= 0:
        filesystem.restrict(plan.rules)
    active: Layers = dict.fromkeys(("rlimits", "no new privileges", "capabilities dropped"), True)
    unavailable = "not for this machine, or switched off"
    active["system call filter"] = install_filter(program) if program else unavailable
    unlimited = os.geteuid() == 0 and not program
    active["process-count limit"] = "root is exempt from RLIMIT_NPROC" if unlimited else True
    return active


def limit(memory_mb: int, processes: int) -> None:
    """Set the limits that every sample inherits, except time: last in the fork server.

    Args:
        memory_mb: Address space in megabytes.
        processes: How many processes and threads the user may have.
    """
    prctl(PR_CAP_AMBIENT, CLEAR_ALL)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    _limit(resource.RLIMIT_AS, (memory_mb + STACK_MB) << 20)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (min(memory_mb << 20, hard), hard))
    _limit(resource.RLIMIT_FSIZE, FILE_MB << 20)
    _limit(resource.RLIMIT_NPROC, processes)
    _limit(resource.RLIMIT_NOFILE, 1024)
    for kind in (resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_MSGQUEUE):
        _limit(kind, 0)


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def loadable(program: bytes) -> ctypes.Array[ctypes.c_char]:
    """Return a filter as the kernel takes it.

    It is made before the fork: making a ctypes type takes longer than the system call.

    Args:
        program: What `syscalls.program` returned.
    """
    code = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    loader = ctypes.create_string_buffer(head, len(head))
    loader.code = code  # type: ignore[attr-defined]  # kept as long as what points to it
    return loader


def install_filter(program: ctypes.Array[ctypes.c_char]) -> bool | str:
    """Filter the system calls of this process from now on.

    Args:
        program: What `loadable` returned.

    Returns:
        True, or the system's reason why it failed.
    """
    return _attempt(lambda: prctl(PR_SET_SECCOMP, FILTER_MODE, ctypes.addressof(program)))
