"""Runs commands of pkg_lib in separate processes, without importing its libraries for each.

A new interpreter spends seconds on imports before it carries out a command. Here a server imports the libraries once
and forks for every command. Each command has its own memory, environment, directory and streams, as in a shell.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

# What the commands import, the program itself among it. It must read no variable of the environment while it is imported.
IMPORTED = [
    "pkg_lib.cli",
    "pkg_lib.analysis.report",
    "pkg_lib.evaluation.batch",
    "pkg_lib.evaluation.merge",
    "pkg_lib.evaluation.verify",
    "pkg_lib.papers.pkg.cases",
    "pkg_lib.papers.pkg.closed_extraction",
    "pkg_lib.papers.pkg.cost",
    "pkg_lib.papers.pkg.replay",
    "pkg_lib.papers.pkg.task_pages",
]
FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(IMPORTED)


def run(
    *words: object, folder: Path | None = None, timeout: float = 300, **environment: str
) -> subprocess.CompletedProcess[str]:
    """`python -m pkg_lib WORDS`, in this directory or another, with variables beside those of this process."""
    command = ["pkg_lib", *map(str, words)]
    with tempfile.TemporaryDirectory() as streams:
        output, errors = Path(streams, "output"), Path(streams, "errors")
        arguments = (command, folder or Path.cwd(), os.environ | environment, output, errors)
        process = FORKING.Process(target=_carry_out, args=arguments)
        process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            raise subprocess.TimeoutExpired(command, timeout)
        texts = [path.read_text("utf8") for path in (output, errors)]
        return subprocess.CompletedProcess(command, process.exitcode, *texts)


def _carry_out(
    command: list[str], folder: Path, environment: dict[str, str], output: Path, errors: Path
) -> None:
    for stream, path in ((1, output), (2, errors)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = command
    from pkg_lib import cli

    sys.exit(cli.main())
