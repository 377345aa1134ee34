"""Renders the committed study again in this process and compares results/tables with the committed files.

Usage: python tests/golden.py [NAME ...]

Prints the tables that differ, for every notebook whose label contains one of the names (for all without names).
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import notebook_code

from pkg_lib.core.store import ROOT
from pkg_lib.evaluation import study

COMMITTED = ROOT / "results"
# Where the command line stores tables that differ, for inspection.
DIFFERENCES = Path("/tmp/golden_differences")
RENDERED = (
    "tables",
    "figures",
    "notebooks",
    "site",
    "index.html",
    "leaderboard.csv",
    "leaderboard.json",
)


def copy_inputs(folder: Path) -> Path:
    """Link to the committed results, except for the rendered ones.

    Args:
        folder: An empty directory for the links.

    Returns:
        The directory.
    """
    for path in COMMITTED.iterdir():
        if path.name not in RENDERED:
            (folder / path.name).symlink_to(path)
    return folder


def work() -> list[study.NotebookJob]:
    """List the notebooks of the study.

    Returns:
        One job per notebook and parameters, in the order in which they run.
    """
    return study.plan(study.Choice()).jobs


def tables(folder: Path, job: study.NotebookJob) -> dict[str, str]:
    """Read the tables that a notebook stored.

    Args:
        folder: A results directory.
        job: The notebook and its parameters.

    Returns:
        Text by file name.
    """
    paths = sorted((folder / "tables").glob(f"{job.stem}.*"))
    return {path.name: path.read_text("utf8") for path in paths}


def differences(job: study.NotebookJob, rendered: Path) -> list[str]:
    """Run a notebook and compare its tables with the committed ones.

    Args:
        job: The notebook and its parameters.
        rendered: The results directory that the notebook writes to.

    Returns:
        File names of the tables that differ.
    """
    notebook_code.run(job.notebook, **job.parameters)
    now = tables(rendered, job)
    committed = tables(COMMITTED, job)
    names = sorted(now.keys() | committed.keys())
    return [name for name in names if now.get(name) != committed.get(name)]


def _keep(names: list[str], rendered: Path) -> None:
    for name in names:
        DIFFERENCES.mkdir(exist_ok=True)
        table = rendered / "tables" / name
        text = table.read_text("utf8") if table.exists() else ""
        (DIFFERENCES / name).write_text(text)


def main(names: list[str]) -> int:
    """Report the differences of the selected notebooks.

    Args:
        names: Parts of the labels of notebooks; all notebooks are selected without names.

    Returns:
        The exit code: 1 if a table differs, otherwise 0.
    """
    import matplotlib

    matplotlib.use("agg")
    exit_code = 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PKG_RESULTS"] = str(copy_inputs(Path(folder)))
        os.chdir(study.NOTEBOOKS)
        for job in work():
            if names and not any(name in job.label for name in names):
                continue
            differing = differences(job, Path(folder))
            print(f"{job.label}: {', '.join(differing) or 'as committed'}", flush=True)
            _keep(differing, Path(folder))
            if differing:
                exit_code = 1
    return exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
