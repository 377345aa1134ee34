"""Every number of every committed table is what the notebooks compute now from the committed runs, which stay
as they are."""

from __future__ import annotations

import pytest

from tests import golden

WORK = golden.work()


def inputs() -> dict[str, tuple[int, int]]:
    """Path -> size and time of change of all that notebooks may read and not write."""
    files = [p for p in golden.COMMITTED.rglob("*") if p.is_file()]
    places = {p: p.relative_to(golden.COMMITTED) for p in files}
    return {
        str(place): (path.stat().st_size, path.stat().st_mtime_ns)
        for path, place in places.items()
        if place.parts[0] not in golden.RENDERED
    }


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    before = inputs()
    with pytest.MonkeyPatch.context() as patch:
        folder = golden.copy_inputs(tmp_path_factory.mktemp("results"))
        patch.setenv("PKG_RESULTS", str(folder))
        patch.chdir(golden.study.NOTEBOOKS)
        yield folder
    assert inputs() == before, "a notebook has written to what it reads"


@pytest.mark.parametrize(("label", "cell"), WORK, ids=[label for label, _ in WORK])
def test_tables_are_as_committed(rendered, label, cell):
    assert golden.tables(golden.COMMITTED, cell)
    assert golden.differences(cell, rendered) == []
