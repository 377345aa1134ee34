"""A checkout as a new user has it, set up by run_all.sh over the packages of the running environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HIDDEN = ("PYTHONPATH", "PKG_RESULTS", "PKG_VENV", "VIRTUAL_ENV")  # of the developer's own shell
TEXT = {"capture_output": True, "text": True}


class Checkout:
    """`root` is the directory, `python` the interpreter of its environment."""

    def __init__(self, root: Path) -> None:
        self.root, self.python = root, root / ".venv" / "bin" / "python"

    def git(self, *arguments: str) -> str:
        name = ("-c", "user.name=test", "-c", "user.email=test@example.org")
        return subprocess.run(["git", *name, *arguments], cwd=self.root, check=True, **TEXT).stdout

    def environment(self, **more: str) -> dict[str, str]:
        # The stamp is that of the CPU build, also on a machine with a GPU.
        return (
            {k: v for k, v in os.environ.items() if k not in HIDDEN} | {"PKG_TORCH": "cpu"} | more
        )

    def run(
        self, *command: str, cwd: Path | None = None, **more: str
    ) -> subprocess.CompletedProcess:
        """run_all.sh with these arguments, as typed in `cwd` (the checkout itself if not given)."""
        words = [str(self.root / "run_all.sh"), *command]
        return subprocess.run(
            words, cwd=cwd or self.root, env=self.environment(**more), timeout=300, **TEXT
        )


def copy_tracked(target: Path, leave_out: str = "\0") -> None:
    """Copies what git tracks or would track, without the paths that begin with `leave_out`."""
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, check=True, **TEXT
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not name.startswith(leave_out):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def make(folder: Path) -> Checkout:
    """Copies what git tracks or would track, and sets it up."""
    checkout = Checkout(folder / "study")
    copy_tracked(checkout.root)
    for command in ("init -q", "add -A", "commit -q -m cloned"):
        checkout.git(*command.split())
    _environment(checkout)
    done = checkout.run("--setup")
    assert done.returncode == 0, done.stderr
    return checkout


def _environment(checkout: Checkout) -> None:
    """`.venv` over the running environment, with the stamp that says that the requirements are installed."""
    venv = checkout.root / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (site,) = venv.glob("lib/python3.*/site-packages")
    (site / "below.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    (venv / "bin" / "pip").write_text(f'#!/bin/sh\nexec "{checkout.python}" -m pip "$@"\n')
    (venv / "bin" / "pip").chmod(0o755)
    for name in ("share", "etc"):
        shutil.copytree(Path(sys.prefix) / name, venv / name, symlinks=True, dirs_exist_ok=True)
    stamp = sha256((checkout.root / "requirements.txt").read_bytes()).hexdigest()
    (venv / ".requirements.sha256").write_text(stamp)
