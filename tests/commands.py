"""Runs commands of pkg_lib in separate processes, without importing its libraries for each.

A new interpreter spends seconds on imports before it executes a command. Here a server imports the libraries once
and forks for every command. Each command has its own memory, environment, directory and streams, as in a shell.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

# Modules that the commands import. None of them may read an environment variable while it is imported.
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
    """Run `python -m pkg_lib WORDS`.

    Args:
        *words: Arguments of the command.
        folder: Current directory of the command; this process's if not given.
        timeout: Time limit in seconds.
        **environment: Variables to add to those of this process.

    Returns:
        The finished command with its output as text.

    Raises:
        subprocess.TimeoutExpired: The command did not finish within the time limit.
    """
    command = ["pkg_lib", *map(str, words)]
    variables = os.environ | environment
    with tempfile.TemporaryDirectory() as streams:
        output = Path(streams, "output")
        errors = Path(streams, "errors")
        arguments = (command, folder or Path.cwd(), variables, output, errors)
        process = FORKING.Process(target=_execute, args=arguments)
        process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            raise subprocess.TimeoutExpired(command, timeout)
        return subprocess.CompletedProcess(
            command, process.exitcode, output.read_text("utf8"), errors.read_text("utf8")
        )


def _execute(
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
