"""The settings in which the sandbox is attacked: who runs it, where Python lies, and what the kernel grants.

A setting is a process of its own (sandbox_serve.py). For root, the running Python, its packages and the
checkout are mounted there a second time, in a directory that everybody or only root may enter: so one
machine, with root, has every setting. Without root there are those of the user who runs the tests.
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
HERE, BARE = "as the tests run", "rlimits alone"
USER = 54321


@dataclass(frozen=True)
class Setting:
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
folders: dict[bool, Path] = {}


@cache
def _may_mount() -> bool:
    return (
        subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0
    )


def _folder(hidden: bool) -> Path:
    """A directory to mount things in, which everybody or only root may enter."""
    if hidden not in folders:
        folders[hidden] = Path(tempfile.mkdtemp(prefix="pkg-setting-"))
        for name in ("python", "site-packages", "checkout"):
            (folders[hidden] / name).mkdir()
        folders[hidden].chmod(0o700 if hidden else 0o755)
    return folders[hidden]


def remove_folders() -> None:
    """Directory by directory: what is mounted on them elsewhere must not be removed with them."""
    for folder in folders.values():
        for name in ("python", "site-packages", "checkout"):
            (folder / name).rmdir()
        folder.rmdir()
    folders.clear()


def command(name: str, packages: str) -> list[str]:
    """The command line that serves in a setting; skips where this machine or user cannot have it."""
    setting, root = (SETTINGS | OTHERS)[name], os.geteuid() == 0
    if name == HERE or (not root and (setting.user or name == BARE)):
        return [sys.executable, str(ROOT / SERVE), str(ROOT), str(PACKAGES), packages, "0"]
    if not root or not _may_mount():
        pytest.skip("needs root, with the right to mount")
    folder = _folder(setting.hidden)
    sources = {"python": sys.base_prefix, "site-packages": PACKAGES, "checkout": ROOT}
    mounts = " && ".join(
        f"mount --rbind '{source}' '{folder / name}'" for name, source in sources.items()
    )
    closed = next(
        (p for p in reversed(Path(sys.base_prefix).parents) if not p.stat().st_mode & 0o001), None
    )
    if (
        closed and not setting.hidden
    ):  # Python's own libraries may be looked for where it was installed
        mounts += f" && mount -t tmpfs -o mode=755 none '{closed}' && mkdir -p '{sys.base_prefix}'"
        mounts += f" && mount --rbind '{folder / 'python'}' '{sys.base_prefix}'"
    script = f"{mounts} && exec '{folder}/python/bin/{VERSION}' '{folder}/checkout/{SERVE}' \"$@\""
    about = [str(folder / "checkout"), str(folder / "site-packages"), packages, str(setting.user)]
    return ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "serve", *about]


class Remote:
    """A Worker in a setting: `layers` what is active, `server` and `parent` its processes, `refusal` what a
    run says that may not start, `checkout` and `packages` where these lie there."""

    def __init__(self, name: str, packages: str) -> None:
        environment = os.environ | {
            DENY: (SETTINGS | OTHERS)[name].deny,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        for unwanted in ("PYTHONPATH", ALLOW_ROOT):
            environment.pop(unwanted, None)
        streams = {"stdin": -1, "stdout": -1, "text": True}
        self.process = subprocess.Popen(command(name, packages), **streams, env=environment)
        self.checkout, self.packages = self.process.args[-4:-2]
        answer = self._answer()
        self.layers, self.refusal = answer["layers"], answer["refusal"]
        self.server, self.parent = answer["server"], answer["parent"]

    def _answer(self) -> dict:
        line = self.process.stdout.readline()
        assert line, "the setting's process has ended"
        return json.loads(line)

    def run(self, job: Job) -> Outcome:
        self.send(job)
        return self.receive()

    def send(self, job: Job) -> None:
        self.process.stdin.write(json.dumps(asdict(job)) + "\n")
        self.process.stdin.flush()

    def receive(self) -> Outcome:
        answer = self._answer()
        self.server = answer["server"]
        return Outcome(**answer["outcome"])

    def close(self) -> None:
        self.process.communicate(timeout=30)
