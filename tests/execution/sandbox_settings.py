"""The settings in which tests attack the sandbox: its user, the place of Python, and what the kernel grants.

Each setting runs in a separate process (sandbox_serve.py). If root runs the tests, that process mounts Python, its
packages and the checkout a second time, in a directory that everybody or only root may enter. So one machine
provides every setting. Another user has only the settings of that user.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from pkg_lib.core.types import Outcome
from pkg_lib.execution.sandbox import ALLOW_ROOT, DENY, Job

ROOT = Path(__file__).resolve().parents[2]
SERVE = "tests/execution/sandbox_serve.py"
PACKAGES = Path(find_spec("numpy").origin).parents[1]
VERSION = f"python3.{sys.version_info[1]}"
HERE = "as the tests run"
BARE = "rlimits alone"
USER = 54321  # id of an ordinary user
MOUNTED = ("python", "site-packages", "checkout")


@dataclass(frozen=True)
class Setting:
    """Where and as whom a sandbox runs.

    Attributes:
        deny: Comma-separated layers of the sandbox that the setting does not have.
        user: User id that runs the sandbox; 0 is root.
        hidden: Whether only root may enter the directory of Python.
    """

    deny: str = ""
    user: int = 0
    hidden: bool = False


SETTINGS = {
    "root": Setting(),
    "root, no namespaces": Setting("namespaces"),
    "root, hidden Python": Setting(hidden=True),
    "ordinary user": Setting(user=USER),
    "ordinary user, no namespaces": Setting("namespaces", USER),
}
NO_NAMESPACES = [name for name, setting in SETTINGS.items() if setting.deny]
OTHERS = {
    HERE: Setting(),
    BARE: Setting("namespaces,filter,landlock"),
    "root, hidden Python, no namespaces": Setting("namespaces", hidden=True),
    "root, no Landlock": Setting("landlock"),
    "ordinary user, no Landlock": Setting("landlock", USER),
    "the filter alone": Setting("namespaces,landlock"),
}
folders: dict[bool, Path] = {}  # folders with mounts, by whether they are hidden


def _setting(name: str) -> Setting:
    """Return the setting of a name."""
    return SETTINGS[name] if name in SETTINGS else OTHERS[name]


@cache
def _may_mount() -> bool:
    """Return whether this user may mount in a mount namespace of its own."""
    result = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    return result.returncode == 0


def _folder(hidden: bool) -> Path:
    """Return a directory to mount in, created once.

    Args:
        hidden: Whether only root may enter it.

    Returns:
        The directory.
    """
    if hidden not in folders:
        folder = Path(tempfile.mkdtemp(prefix="pkg-setting-"))
        for name in MOUNTED:
            (folder / name).mkdir()
        folder.chmod(0o700 if hidden else 0o755)
        folders[hidden] = folder
    return folders[hidden]


def remove_folders() -> None:
    """Remove the created directories, but never what another process has mounted on them."""
    for folder in folders.values():
        for name in MOUNTED:
            (folder / name).rmdir()
        folder.rmdir()
    folders.clear()


def _closed_parent(path: str) -> Path | None:
    """Return the first directory above a path that other users may not enter, from the root down."""
    for parent in reversed(Path(path).parents):
        if not parent.stat().st_mode & 0o001:
            return parent
    return None


def command(name: str, packages: str) -> list[str]:
    """Return the command line that runs sandbox_serve.py in a setting.

    Skips the test if this machine or user cannot provide the setting.

    Args:
        name: Name of the setting.
        packages: The packages that samples may import.

    Returns:
        The command line.
    """
    setting = _setting(name)
    is_root = os.geteuid() == 0
    of_this_user = not is_root and (setting.user or name == BARE)
    if name == HERE or of_this_user:
        return [sys.executable, str(ROOT / SERVE), str(ROOT), str(PACKAGES), packages, "0"]
    if not is_root or not _may_mount():
        pytest.skip("needs root, with the right to mount")

    folder = _folder(setting.hidden)
    steps = [
        f"mount --rbind '{sys.base_prefix}' '{folder / 'python'}'",
        f"mount --rbind '{PACKAGES}' '{folder / 'site-packages'}'",
        f"mount --rbind '{ROOT}' '{folder / 'checkout'}'",
    ]
    closed = _closed_parent(sys.base_prefix)
    if closed and not setting.hidden:
        # Python may look for its own libraries where it was installed.
        steps += [
            f"mount -t tmpfs -o mode=755 none '{closed}'",
            f"mkdir -p '{sys.base_prefix}'",
            f"mount --rbind '{folder / 'python'}' '{sys.base_prefix}'",
        ]
    steps.append(f"exec '{folder}/python/bin/{VERSION}' '{folder}/checkout/{SERVE}' \"$@\"")
    script = " && ".join(steps)
    arguments = [
        str(folder / "checkout"),
        str(folder / "site-packages"),
        packages,
        str(setting.user),
    ]
    shell = ["sh", "-c", script, "serve", *arguments]
    return ["unshare", "-m", "--propagation", "private", *shell]


class Remote:
    """A sandbox worker that runs in a setting.

    Attributes:
        layers: The active layers of the sandbox.
        refusal: The message of a run that may not start; "" if it may.
        server: Process id of the fork server.
        parent: Process id of the fork server's parent.
        checkout: Path of the checkout in the setting.
        packages: Path of the installed packages in the setting.

    Args:
        name: Name of the setting.
        packages: The packages that samples may import.
    """

    def __init__(self, name: str, packages: str) -> None:
        environment = dict(os.environ)
        environment[DENY] = _setting(name).deny
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        for unwanted in ("PYTHONPATH", ALLOW_ROOT):
            environment.pop(unwanted, None)
        self.process = subprocess.Popen(
            command(name, packages),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.checkout, self.packages = self.process.args[-4:-2]
        answer = self._answer()
        self.layers = answer["layers"]
        self.refusal = answer["refusal"]
        self.server = answer["server"]
        self.parent = answer["parent"]

    def _answer(self) -> dict:
        line = self.process.stdout.readline()
        assert line, "the process of the setting has ended"
        return json.loads(line)

    def run(self, job: Job) -> Outcome:
        """Run a job and return its outcome."""
        self.send(job)
        return self.receive()

    def send(self, job: Job) -> None:
        """Start a job without waiting for its outcome."""
        self.process.stdin.write(json.dumps(asdict(job)) + "\n")
        self.process.stdin.flush()

    def receive(self) -> Outcome:
        """Wait for the outcome of the job that was sent."""
        answer = self._answer()
        self.server = answer["server"]
        return Outcome(**answer["outcome"])

    def close(self) -> None:
        """End the process of the setting."""
        self.process.communicate(timeout=30)
