"""The files that a sample can reach: Python's own, the allowed packages, the time zones, a work directory.

A machine may lack either way to say so: `own_root` moves the fork server into a root directory of mounts, in
which a Python in root's own home serves an ordinary user too; `ruleset` makes each sample's Landlock rules.
No directory is made on the machine, so that a run that is killed leaves none.
"""

# ruff: noqa: PTH101, PTH102, PTH104, PTH103, PTH110, PTH112, PTH114, PTH115, PTH118, PTH119, PTH120, PTH123, PTH208, PTH211 -
# no pathlib here
from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable, Iterator

from syscalls import call

MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 0x1000, 0x4000, 0x40000
RDONLY, NOSUID, NODEV, NOEXEC = 1, 2, 4, 8  # mount_setattr's
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MNT_DETACH = 442, -100, 0x8000, 2
SYS_CREATE_RULESET, SYS_ADD_RULE, SYS_RESTRICT_SELF = 444, 445, 446
READ_FILE, READ_DIR, WRITE_FILE, EXECUTE = 4, 8, 2, 1
LISTED_BY_NOBODY = 0o111
RIGHTS = {
    1: 13,
    2: 14,
    3: 15,
    4: 15,
    5: 16,
}  # Landlock's version -> how many rights on files it knows
ALL_TCP, ALL_SCOPES = 3, 3  # bind and connect; abstract sockets and signals
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
USERS, GROUPS = "/etc/passwd", "/etc/group"
SYSTEM = (
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/usr/lib/zoneinfo",
    "/etc/zoneinfo",
)
WORK_MB, FILES = 128, 8192  # of both runs of a solution (runner.py), so that each may fill half
NOWHERE = (
    "/proc"  # always there, and no file can be made in it: where the root of mounts is put together
)
SAMPLE = "/sandbox/sample"  # in that root: the memory that each sample has for itself
NAME = "sandbox"  # the user's, and the group's
CURRENT = SAMPLE + "/current"  # a link to the directories of the present run
WRITABLE = {
    "/tmp": "tmp",
    "/var/tmp": "tmp",
    "/dev/shm": "shm",
}  # path -> where it leads in CURRENT

Trees = dict[str, list[str]]


def trees(python: Iterable, paths: Iterable, packages: Iterable | None, hidden: list[str]) -> Trees:
    """Path -> the paths below it that stay hidden, for all that a sample may read.

    Of `paths` the top-level modules `packages` (None: all but `hidden`); without the packages in them the
    search path of `python` and the directories of the shared libraries loaded now (others lie beside them).
    """
    own = {p: _other_packages(p) for p in (*python, *_library_folders()) if os.path.isdir(p)}
    own |= {p: [] for p in SYSTEM if os.path.exists(p)}
    if packages is None:
        return own | {p: [h for h in hidden if _below(h, p)] for p in paths if os.path.isdir(p)}
    names = [n for top in packages for n in (top, f"{top}.py", f"{top}.libs")]
    return own | {
        p: [] for path in paths for n in names if os.path.exists(p := os.path.join(path, n))
    }


def loaded(paths: Iterable[str]) -> set[str]:
    """The top-level modules below `paths` that this process has imported."""
    files = [
        (name, getattr(module, "__file__", None) or "")
        for name, module in list(sys.modules.items())
    ]
    return {name.partition(".")[0] for name, file in files if any(_below(file, p) for p in paths)}


def _other_packages(folder: str) -> list[str]:
    names = [n for n in os.listdir(folder) if n.endswith("-packages") or n.startswith("python")]
    return [os.path.join(folder, n) for n in names if os.path.isdir(os.path.join(folder, n))]


def _library_folders() -> set[str]:
    with open("/proc/self/maps", encoding="utf8", errors="replace") as f:
        mapped = {line.split(maxsplit=5)[5].strip() for line in f if "/" in line}
    return {
        os.path.dirname(p) for p in mapped if ".so" in os.path.basename(p) and "-packages/" not in p
    }


def loader() -> str:
    """The dynamic loader of this Python: who may execute it alone starts the programs that it may read."""
    with open("/proc/self/maps", encoding="utf8", errors="replace") as f:
        return next(p for line in f if os.path.basename(p := line.split()[-1]).startswith("ld-"))


def _below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def own_root(shown: Trees, machine: str, user: int, group: int) -> None:
    """Moves into a read-only root directory in memory with the `shown` trees at their own paths.

    No device but DEVICES opens, /proc is empty and cannot be listed. `empty_work` fills SAMPLE. The paths in
    WRITABLE lead there, unless Python itself is installed below one of them. USERS and GROUPS name nobody but
    the sample's `user` and `group`.
    """
    call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    _mount_memory(NOWHERE, "mode=755,size=1m")
    for path in sorted(shown):
        _bind(path, NOWHERE + path)
        for hidden in shown[path]:
            _mount_memory(NOWHERE + hidden, "mode=755,size=1m")
    for folder in ("/dev", "/proc", SAMPLE):
        os.makedirs(NOWHERE + folder, exist_ok=True)
    for name in os.listdir("/"):
        if (
            name.startswith("lib")
            and os.path.islink("/" + name)
            and not os.path.lexists(f"{NOWHERE}/{name}")
        ):
            os.symlink(os.readlink("/" + name), f"{NOWHERE}/{name}")
    os.chmod(NOWHERE + "/proc", LISTED_BY_NOBODY)
    os.makedirs(NOWHERE + "/etc", exist_ok=True)
    lines = {
        USERS: f"{NAME}:x:{user}:{group}::{CURRENT}/work:/bin/sh\n",
        GROUPS: f"{NAME}:x:{group}:\n",
    }
    for path, line in lines.items():
        with open(NOWHERE + path, "w", encoding="ascii") as file:
            file.write(line)
    for path, name in WRITABLE.items():
        if not os.path.lexists(NOWHERE + path):
            os.makedirs(os.path.dirname(NOWHERE + path), exist_ok=True)
            os.symlink(f"{CURRENT}/{name}", NOWHERE + path)
    for path in DEVICES:
        os.close(os.open(NOWHERE + path, os.O_CREAT))
    _set_attributes(NOWHERE, RDONLY | NOSUID | NODEV)
    for path in DEVICES:  # after it, since they alone are to open as devices
        _bind(path, NOWHERE + path)
        _set_attributes(NOWHERE + path, RDONLY | NOSUID | NOEXEC)
    os.chdir(NOWHERE)
    call("syscall", SYS_PIVOT_ROOT[machine], b".", b".")
    call("umount2", b".", MNT_DETACH)
    os.chdir("/")


def _bind(source: str, target: str) -> None:
    if not os.path.exists(target):
        folder = target if os.path.isdir(source) else os.path.dirname(target)
        os.makedirs(folder, exist_ok=True)
        if folder != target:
            os.close(os.open(target, os.O_CREAT))
    call("mount", os.fsencode(source), os.fsencode(target), None, MS_BIND | MS_REC, None)


def _mount_memory(path: str, options: str) -> None:
    call(
        "mount",
        b"none",
        os.fsencode(path),
        b"tmpfs",
        MS_NOSUID | MS_NODEV | MS_NOEXEC,
        options.encode(),
    )


def _set_attributes(path: str, attributes: int) -> None:
    data, name = struct.pack("QQQQ", attributes, 0, 0, 0), os.fsencode(path)
    size = ctypes.c_size_t(len(data))
    call("syscall", SYS_MOUNT_SETATTR, AT_FDCWD, name, AT_RECURSIVE, data, size)


def empty_work() -> None:
    """The sample's own directories in memory, WORK_MB in all; `make_work` fills them in its name."""
    _mount_memory(SAMPLE, f"size={WORK_MB}m,nr_inodes={FILES},mode=1777")


def make_work(run: str) -> str:
    """Make the empty directories of a sample's run and let WRITABLE lead there.

    Args:
        run: A name that this sample has not used before.

    Returns:
        The path of the work directory.
    """
    own = f"{SAMPLE}/{run}"
    for name in ("", "/work", "/tmp", "/shm"):
        os.mkdir(own + name)
    os.symlink(own, own + "/link")
    os.rename(own + "/link", CURRENT)
    return own + "/work"


def ruleset(shown: Trees, folders: Iterable[str], rooted: bool, run: str) -> int:
    """Landlock's descriptor: `shown` is read, `folders` are listed, `run` is started; in an `own_root` SAMPLE
    is written."""
    version = call("syscall", SYS_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    every = (1 << RIGHTS.get(version, 16)) - 1
    # The structure has grown with the versions: a kernel refuses fields that it does not know.
    size = 8 if version < 4 else 16 if version < 6 else 24
    attributes = struct.pack("QQQ", every, ALL_TCP, ALL_SCOPES)[:size]
    rules = call("syscall", SYS_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)
    for path, hidden in shown.items():
        for piece in _without(path, hidden):
            _allow(rules, piece, READ_FILE | READ_DIR)
    for path in (*folders, *(p for p, hidden in shown.items() if hidden)):
        _allow(rules, path, READ_DIR)
    for path in DEVICES:
        _allow(rules, path, READ_FILE | WRITE_FILE)
    if rooted:
        _allow(rules, "/", READ_DIR)  # nothing is there but what is shown
        for path in (USERS, GROUPS):
            _allow(rules, path, READ_FILE)
        _allow(rules, os.path.dirname(SAMPLE), every)  # not on what is mounted there
    if run:
        _allow(rules, run, READ_FILE | EXECUTE)
    return rules


def _without(path: str, hidden: list[str]) -> Iterator[str]:
    """The largest paths at and below `path` that hold nothing of `hidden`: a rule takes nothing back."""
    if not any(_below(h, path) for h in hidden):
        yield path
        return
    for name in os.listdir(path):
        child = os.path.join(path, name)
        if child not in hidden:
            yield from _without(child, hidden)


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH)
    except OSError:  # a broken link, or a path that this user cannot reach: nothing to allow
        return
    try:
        rights &= rights if os.path.isdir(path) else READ_FILE | WRITE_FILE | EXECUTE
        call("syscall", SYS_ADD_RULE, rules, 1, struct.pack("=Qi", rights, opened), 0)
    finally:
        os.close(opened)


def restrict(rules: int) -> None:
    """Puts the rules on this process, for good. It must have given up new privileges."""
    call("syscall", SYS_RESTRICT_SELF, rules, 0)
