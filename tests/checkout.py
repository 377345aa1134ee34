"""A checkout as a new user has it, set up by run_all.sh with the packages of the running environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Variables of the developer's shell that a new user does not have.
HIDDEN = (
    "PYTHONPATH",
    "PKG_RESULTS",
    "PKG_VENV",
    "VIRTUAL_ENV",
)
TEXT = {
    "capture_output": True,
    "text": True,
}
AUTHOR = (
    "-c",
    "user.name=test",
    "-c",
    "user.email=test@example.org",
)


class Checkout:
    """A checkout in a directory.

    Args:
        root: The directory.

    Attributes:
        root: The directory.
        python: The interpreter of the checkout's virtual environment.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.python = root / ".venv" / "bin" / "python"

    def git(self, *arguments: str) -> str:
        """Run git in the checkout.

        Args:
            *arguments: Command and options.

        Returns:
            The standard output.
        """
        command = ["git", *AUTHOR, *arguments]
        done = subprocess.run(command, cwd=self.root, check=True, **TEXT)
        return done.stdout

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment variables of a new user.

        Args:
            **more: Further variables.

        Returns:
            Value by name.
        """
        variables = dict(os.environ)
        for name in HIDDEN:
            variables.pop(name, None)
        # The stamp names the CPU build, also on a machine with a GPU.
        variables["PKG_TORCH"] = "cpu"
        variables.update(more)
        return variables

    def run(
        self,
        *command: str,
        cwd: Path | None = None,
        **more: str,
    ) -> subprocess.CompletedProcess:
        """Run run_all.sh.

        Args:
            *command: Arguments of run_all.sh.
            cwd: Current directory; the checkout if not given.
            **more: Further environment variables.

        Returns:
            The finished process with its output as text.
        """
        return subprocess.run(
            [str(self.root / "run_all.sh"), *command],
            cwd=cwd or self.root,
            env=self.environment(**more),
            timeout=300,
            **TEXT,
        )


def copy_tracked(target: Path, leave_out: str = "\0") -> None:
    """Copy the files that git tracks or would track.

    Args:
        target: Directory of the copy.
        leave_out: Paths that begin with this text are not copied.
    """
    command = ["git", "ls-files", "-coz", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, **TEXT)
    for name in listed.stdout.split("\0"):
        source = ROOT / name
        copy = target / name
        if source.is_file() and not name.startswith(leave_out):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)


def make(folder: Path) -> Checkout:
    """Copy the files that git tracks or would track, commit them and set the copy up.

    Args:
        folder: Parent of the checkout's directory.

    Returns:
        The checkout.
    """
    checkout = Checkout(folder / "study")
    copy_tracked(checkout.root)
    checkout.git("init", "-q")
    checkout.git("add", "-A")
    checkout.git("commit", "-q", "-m", "cloned")
    _make_environment(checkout)
    done = checkout.run("--setup")
    assert done.returncode == 0, done.stderr
    return checkout


def _make_environment(checkout: Checkout) -> None:
    """Create `.venv` on top of the running environment, with the stamp of a complete installation."""
    venv = checkout.root / ".venv"
    command = [sys.executable, "-m", "venv", "--without-pip", venv]
    subprocess.run(command, check=True)
    (site_packages,) = venv.glob("lib/python3.*/site-packages")
    running = sysconfig.get_paths()["purelib"]
    link = site_packages / "below.pth"
    link.write_text(f"{running}\n")
    pip = venv / "bin" / "pip"
    pip.write_text(f'#!/bin/sh\nexec "{checkout.python}" -m pip "$@"\n')
    pip.chmod(0o755)
    for name in ("share", "etc"):
        source = Path(sys.prefix) / name
        shutil.copytree(
            source,
            venv / name,
            symlinks=True,
            dirs_exist_ok=True,
        )
    requirements = checkout.root / "requirements.txt"
    digest = sha256(requirements.read_bytes())
    stamp = venv / ".requirements.sha256"
    stamp.write_text(digest.hexdigest())
