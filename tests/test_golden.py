"""Every number of every committed table is what the notebooks compute now from the committed runs.

They leave those as they are, and read nothing of them that their freshness does not look at.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pkg_lib.evaluation.freshness import inputs
from tests import golden

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


@pytest.mark.parametrize("job", golden.work(), ids=lambda job: job.label)
def test_tables_are_as_committed(rendered, job, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(globals(), "OPENED", opened := set())
        different = golden.differences(job, rendered)
    read = {p.relative_to(rendered) for p in opened if p.is_relative_to(rendered)}
    outputs = {p for p in read if p.parts[0] in golden.RENDERED}
    assert outputs and [p for p in outputs if not p.name.startswith(f"{job.stem}.")] == []
    covered = inputs(job.parameters)
    assert [
        p for p in read - outputs if not any(p.is_relative_to(folder) for folder in covered)
    ] == []
    assert golden.tables(golden.COMMITTED, job)
    assert different == []
