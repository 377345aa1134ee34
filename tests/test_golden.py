"""Every number of every committed table is what the notebooks compute now from the committed runs.

They leave those as they are, and read nothing of them that their freshness does not look at. Every committed
figure can be read in print.
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

OPENED: set[Path] | None = None


def _opened(event: str, arguments: tuple) -> None:
    if OPENED is not None and event == "open" and isinstance(arguments[0], str):
        OPENED.add(Path(arguments[0]))


sys.addaudithook(
    _opened
)  # stays for the life of the process, and does nothing while OPENED is None


def stored() -> dict[Path, tuple[int, int]]:
    """Path -> size and time of change of all that notebooks may read and not write."""
    files = [p for p in golden.COMMITTED.rglob("*") if p.is_file()]
    kept = [p for p in files if p.relative_to(golden.COMMITTED).parts[0] not in golden.RENDERED]
    return {p: (p.stat().st_size, p.stat().st_mtime_ns) for p in kept}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory, held_completions):
    before = stored()
    with pytest.MonkeyPatch.context() as patch:
        folder = golden.copy_inputs(tmp_path_factory.mktemp("results"))
        patch.setenv("PKG_RESULTS", str(folder))
        patch.chdir(golden.study.NOTEBOOKS)
        yield folder
    assert stored() == before, "a notebook has written to what it reads"


class Run(NamedTuple):
    """A notebook that ran: tables that differ, files that it opened, figure -> what is wrong with it."""

    different: list[str]
    opened: set[Path]
    figures: dict[str, list[str]]


@pytest.fixture(scope="module")
def run_of(rendered):
    """Runs a notebook once for all tests."""
    runs = {}

    def run(job):
        if job.label not in runs:
            figures = {}

            def saved(figure, stem):
                figures[stem.name] = problems(figure)
                return save_figure(figure, stem)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(notebook_report, "save_figure", saved)
                patch.setitem(globals(), "OPENED", opened := set())
                different = golden.differences(job, rendered)
            runs[job.label] = Run(different, opened, figures)
        return runs[job.label]

    return run


def jobs():
    """All jobs; of each notebook `tests/run.sh` runs the first one only, and `tests/run.sh --all` every one."""
    seen = set()
    for job in golden.work():
        marks = [pytest.mark.exhaustive] if job.notebook in seen else []
        seen.add(job.notebook)
        yield pytest.param(job, id=job.label, marks=marks)


JOBS = pytest.mark.parametrize("job", jobs())


@JOBS
def test_tables_are_as_committed(rendered, run_of, job):
    different, opened, _ = run_of(job)
    read = {p.relative_to(rendered) for p in opened if p.is_relative_to(rendered)}
    outputs = {p for p in read if p.parts[0] in golden.RENDERED}
    assert outputs and [p for p in outputs if not p.name.startswith(f"{job.stem}.")] == []
    covered = inputs(job.parameters)
    assert [
        p for p in read - outputs if not any(p.is_relative_to(folder) for folder in covered)
    ] == []
    assert golden.tables(golden.COMMITTED, job)
    assert different == []


@JOBS
def test_figures_are_those_committed_and_can_be_read_in_print(run_of, job):
    """At 8.5 or 17 cm: letters of 7 to 10 pt, no text clipped or over another."""
    figures = run_of(job).figures
    committed = {path.stem for path in (golden.COMMITTED / "figures").glob(f"{job.stem}.*.png")}
    assert figures.keys() == committed
    assert {name: found for name, found in figures.items() if found} == {}
