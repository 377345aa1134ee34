"""The files that a sample can reach: Python's own, allowed packages, and a work directory.

There are two ways to limit them, and a machine may lack either. `own_root` moves the fork server
into a root directory of mounts, so that a Python in root's own home also serves an ordinary user.
`ruleset` makes each sample's Landlock rules. No directory is made on the machine, so a killed run
leaves none.
"""

# ruff: noqa: PTH101, PTH102, PTH104, PTH103, PTH110, PTH112, PTH114, PTH115
# ruff: noqa: PTH118, PTH119, PTH120, PTH123, PTH208, PTH211
# this starts without pathlib
from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable, Iterator

from syscalls import call

MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
# mount_setattr's
RDONLY = 1
NOSUID = 2
NODEV = 4
NOEXEC = 8
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
SYS_MOUNT_SETATTR = 442
AT_FDCWD = -100
AT_RECURSIVE = 0x8000
MNT_DETACH = 2
SYS_CREATE_RULESET = 444
SYS_ADD_RULE = 445
SYS_RESTRICT_SELF = 446
EXECUTE = 1
WRITE_FILE = 2
READ_FILE = 4
READ_DIR = 8
RIGHTS = {
    1: 13,
    2: 14,
    3: 15,
    4: 15,
    5: 16,
}  # number of rights on files that a Landlock version knows
# bind and connect; abstract sockets and signals
ALL_TCP = 3
ALL_SCOPES = 3
LISTED_BY_NOBODY = 0o111
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
USERS = "/etc/passwd"
GROUPS = "/etc/group"
SYSTEM = (
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/usr/lib/zoneinfo",
    "/etc/zoneinfo",
)
# shared by both runs of a solution (runner.py): each may fill half
WORK_MB = 128
FILES = 8192
# Where the root of mounts is put together: it exists everywhere, and no file can be made in it.
NOWHERE = "/proc"
SAMPLE = "/sandbox/sample"  # in that root: the memory that each sample has for itself
CURRENT = SAMPLE + "/current"  # a link to the directories of the present run
NAME = "sandbox"  # of the user and the group
WRITABLE = {"/tmp": "tmp", "/var/tmp": "tmp", "/dev/shm": "shm"}  # path -> its directory in CURRENT

Trees = dict[str, list[str]]  # path that is shown -> paths below it that stay hidden


def trees(
    python: Iterable[str],
    paths: Iterable[str],
    packages: Iterable[str] | None,
    hidden: list[str],
) -> Trees:
    """List what a sample may read.

    Args:
        python: The search path of Python itself. Packages below it stay hidden.
        paths: Directories of installed packages.
        packages: Top-level modules of `paths` to show; None for all.
        hidden: Paths that stay hidden where all packages are shown.

    Returns:
        The trees, with the directories of the shared libraries that this process has loaded.
    """
    shown: Trees = {}
    for path in (*python, *_library_folders()):
        if os.path.isdir(path):
            shown[path] = _other_packages(path)
    shown |= {p: [] for p in SYSTEM if os.path.exists(p)}
    for path in paths:
        if packages is None:
            if os.path.isdir(path):
                shown[path] = [h for h in hidden if _below(h, path)]
            continue
        for package in packages:
            for name in (package, f"{package}.py", f"{package}.libs"):
                if os.path.exists(place := os.path.join(path, name)):
                    shown[place] = []
    return shown


def loaded(paths: Iterable[str]) -> set[str]:
    """Return the top-level modules in some directories that this process has imported.

    Args:
        paths: The directories.
    """
    found = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if any(_below(file, path) for path in paths):
            found.add(name.partition(".")[0])
    return found


def _other_packages(folder: str) -> list[str]:
    """Return the directories of packages beside Python's own library."""
    folders = [entry for entry in os.scandir(folder) if entry.is_dir()]
    return [
        entry.path
        for entry in folders
        if entry.name.endswith("-packages") or entry.name.startswith("python")
    ]


def _mapped_files() -> list[str]:
    """Return the files that this process has mapped to memory."""
    with open("/proc/self/maps", encoding="utf8", errors="replace") as file:
        return [line.split(maxsplit=5)[5].strip() for line in file if "/" in line]


def _library_folders() -> set[str]:
    libraries = [p for p in _mapped_files() if ".so" in os.path.basename(p)]
    return {os.path.dirname(p) for p in libraries if "-packages/" not in p}


def loader() -> str:
    """Return the dynamic loader of this Python.

    A process that may execute only the loader starts only programs that it may read.
    """
    return next(p for p in _mapped_files() if os.path.basename(p).startswith("ld-"))


def _below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def own_root(
    shown: Trees,
    machine: str,
    user: int,
    group: int,
) -> None:
    """Move this process into a read-only root directory in memory.

    It has the shown trees at their own paths. No device but DEVICES opens, and /proc is empty and
    cannot be listed. `empty_work` fills SAMPLE. The paths in WRITABLE lead there, unless Python
    itself is installed below one of them.

    Args:
        shown: What samples may read.
        machine: The processor's architecture.
        user: The only user that USERS names.
        group: The only group that GROUPS names.

    Raises:
        OSError: The kernel refuses a mount.
    """
    call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    _mount_memory(NOWHERE, "mode=755,size=1m")
    for path in sorted(shown):
        _bind(path)
        for hidden in shown[path]:
            _mount_memory(NOWHERE + hidden, "mode=755,size=1m")
    for folder in ("/dev", "/proc", "/etc", SAMPLE):
        os.makedirs(NOWHERE + folder, exist_ok=True)
    _link_library_folders()
    os.chmod(NOWHERE + "/proc", LISTED_BY_NOBODY)
    _write(USERS, f"{NAME}:x:{user}:{group}::{CURRENT}/work:/bin/sh\n")
    _write(GROUPS, f"{NAME}:x:{group}:\n")
    for path, name in WRITABLE.items():
        if not os.path.lexists(NOWHERE + path):
            os.makedirs(os.path.dirname(NOWHERE + path), exist_ok=True)
            os.symlink(f"{CURRENT}/{name}", NOWHERE + path)
    for path in DEVICES:
        _write(path, "")
    _set_attributes(NOWHERE, RDONLY | NOSUID | NODEV)
    for path in DEVICES:  # after it, since only these are to open as devices
        _bind(path)
        _set_attributes(NOWHERE + path, RDONLY | NOSUID | NOEXEC)
    os.chdir(NOWHERE)
    call("syscall", SYS_PIVOT_ROOT[machine], b".", b".")
    call("umount2", b".", MNT_DETACH)
    os.chdir("/")


def _link_library_folders() -> None:
    """Make the links in the root directory that lead to libraries, such as /lib64."""
    for name in os.listdir("/"):
        link = f"/{name}"
        own = NOWHERE + link
        is_library = name.startswith("lib") and os.path.islink(link)
        if is_library and not os.path.lexists(own):
            os.symlink(os.readlink(link), own)


def _write(path: str, text: str) -> None:
    """Write a file of the new root directory."""
    with open(NOWHERE + path, "w", encoding="ascii") as file:
        file.write(text)


def _bind(path: str) -> None:
    """Mount a file or a directory at the same path of the new root directory."""
    target = NOWHERE + path
    if not os.path.exists(target):
        folder = target if os.path.isdir(path) else os.path.dirname(target)
        os.makedirs(folder, exist_ok=True)
        if folder != target:
            _write(path, "")
    source = os.fsencode(path)
    call("mount", source, os.fsencode(target), None, MS_BIND | MS_REC, None)


def _mount_memory(path: str, options: str) -> None:
    flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
    call("mount", b"none", os.fsencode(path), b"tmpfs", flags, options.encode())


def _set_attributes(path: str, attributes: int) -> None:
    data = struct.pack("QQQQ", attributes, 0, 0, 0)
    name = os.fsencode(path)
    size = ctypes.c_size_t(len(data))
    call("syscall", SYS_MOUNT_SETATTR, AT_FDCWD, name, AT_RECURSIVE, data, size)


def empty_work() -> None:
    """Mount a sample's own memory, of WORK_MB; `make_work` fills it as the sample's user."""
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


def ruleset(
    shown: Trees,
    folders: Iterable[str],
    rooted: bool,
    run: str,
) -> int:
    """Make Landlock's rules.

    Args:
        shown: What may be read.
        folders: Directories that may be listed.
        rooted: Whether this process is in an `own_root`, where SAMPLE may be written.
        run: The program that may be started; "" for none.

    Returns:
        A descriptor of the rules.

    Raises:
        OSError: The kernel has no Landlock.
    """
    version = call("syscall", SYS_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    every = (1 << RIGHTS.get(version, 16)) - 1
    # The structure has grown with the versions. A kernel refuses fields that it does not know.
    size = 8 if version < 4 else 16 if version < 6 else 24
    attributes = struct.pack("QQQ", every, ALL_TCP, ALL_SCOPES)[:size]
    rules: int = call("syscall", SYS_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)
    for path, hidden in shown.items():
        for piece in _without(path, hidden):
            _allow(rules, piece, READ_FILE | READ_DIR)
        if hidden:
            _allow(rules, path, READ_DIR)
    for path in folders:
        _allow(rules, path, READ_DIR)
    for path in DEVICES:
        _allow(rules, path, READ_FILE | WRITE_FILE)
    if rooted:
        _allow(rules, "/", READ_DIR)  # only what is shown is there
        for path in (USERS, GROUPS):
            _allow(rules, path, READ_FILE)
        _allow(
            rules, os.path.dirname(SAMPLE), every
        )  # a rule on what is mounted there would not hold
    if run:
        _allow(rules, run, READ_FILE | EXECUTE)
    return rules


def _without(path: str, hidden: list[str]) -> Iterator[str]:
    """Yield the largest paths at and below `path` with nothing hidden: rules only add rights."""
    if not any(_below(h, path) for h in hidden):
        yield path
        return
    for name in os.listdir(path):
        child = os.path.join(path, name)
        if child not in hidden:
            yield from _without(child, hidden)


def _allow(
    rules: int,
    path: str,
    rights: int,
) -> None:
    try:
        opened = os.open(path, os.O_PATH)
    except OSError:  # a broken link, or a path that this user cannot reach: nothing to allow
        return
    try:
        rights &= rights if os.path.isdir(path) else READ_FILE | WRITE_FILE | EXECUTE
        rule = struct.pack("=Qi", rights, opened)
        call("syscall", SYS_ADD_RULE, rules, 1, rule, 0)
    finally:
        os.close(opened)


def restrict(rules: int) -> None:
    """Put the rules on this process, for good. It must have given up new privileges.

    Args:
        rules: What `ruleset` returned.

    Raises:
        OSError: The kernel refuses.
    """
    call("syscall", SYS_RESTRICT_SELF, rules, 0)
