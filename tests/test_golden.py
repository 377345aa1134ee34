"""The notebooks reproduce every committed table and figure from the committed results.

They do not change those results. They read only files that their freshness check covers. Every committed figure
is legible in print.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from pkg_lib.analysis import notebook_report
from pkg_lib.analysis.figures import save_figure
from pkg_lib.evaluation.freshness import inputs
from tests import golden
from tests.analysis.checks import problems

# Paths of opened files, while a notebook runs.
OPENED: set[Path] | None = None


def _record_opened_file(event: str, arguments: tuple) -> None:
    if OPENED is not None and event == "open" and isinstance(arguments[0], str):
        OPENED.add(Path(arguments[0]))


# An audit hook cannot be removed. This one does nothing while OPENED is None.
sys.addaudithook(_record_opened_file)


def stored() -> dict[Path, tuple[int, int]]:
    """Return size and modification time of the files that notebooks must not write, by path."""
    found = {}
    for path in golden.COMMITTED.rglob("*"):
        top = path.relative_to(golden.COMMITTED).parts[0]
        if path.is_file() and top not in golden.RENDERED:
            status = path.stat()
            found[path] = (status.st_size, status.st_mtime_ns)
    return found


@pytest.fixture(scope="module")
def rendered(tmp_path_factory, held_completions):
    before = stored()
    with pytest.MonkeyPatch.context() as patch:
        folder = golden.copy_inputs(tmp_path_factory.mktemp("results"))
        patch.setenv("PKG_RESULTS", str(folder))
        patch.chdir(golden.study.NOTEBOOKS)
        yield folder
    assert stored() == before, "a notebook changed its input files"


class Run(NamedTuple):
    """The outcome of a notebook."""

    different: list[str]
    """Tables that differ from the committed ones."""
    opened: set[Path]
    """Files that the notebook opened."""
    figures: dict[str, list[str]]
    """Problems of legibility by figure."""


@pytest.fixture(scope="module")
def run_of(rendered):
    """Run a notebook once for all tests."""
    runs = {}

    def run(job):
        if job.label not in runs:
            figures = {}

            def saved(figure, stem):
                figures[stem.name] = problems(figure)
                return save_figure(figure, stem)

            opened = set()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(notebook_report, "save_figure", saved)
                patch.setitem(globals(), "OPENED", opened)
                different = golden.differences(job, rendered)
            runs[job.label] = Run(different, opened, figures)
        return runs[job.label]

    return run


def jobs():
    """List all jobs. `tests/run.sh` runs the first job of each notebook, `tests/run.sh --all` runs every one."""
    seen = set()
    parameters = []
    for job in golden.work():
        marks = [pytest.mark.exhaustive] if job.notebook in seen else []
        seen.add(job.notebook)
        parameters.append(pytest.param(job, id=job.label, marks=marks))
    return parameters


JOBS = pytest.mark.parametrize("job", jobs())


@JOBS
def test_tables_equal_the_committed_ones(rendered, run_of, job):
    run = run_of(job)
    opened = {path.relative_to(rendered) for path in run.opened if path.is_relative_to(rendered)}
    outputs = {path for path in opened if path.parts[0] in golden.RENDERED}
    assert outputs
    foreign = [path for path in outputs if not path.name.startswith(f"{job.stem}.")]
    assert foreign == []

    covered = inputs(job.parameters)
    for path in opened - outputs:
        assert any(path.is_relative_to(folder) for folder in covered), path

    assert golden.tables(golden.COMMITTED, job)
    assert run.different == []


@JOBS
def test_figures_are_the_committed_ones_and_legible_in_print(run_of, job):
    """At a width of 8.5 or 17 cm, letters have 7 to 10 pt, and no text is clipped or overlaps another."""
    figures = run_of(job).figures
    paths = (golden.COMMITTED / "figures").glob(f"{job.stem}.*.png")
    assert figures.keys() == {path.stem for path in paths}
    illegible = {name: found for name, found in figures.items() if found}
    assert illegible == {}
