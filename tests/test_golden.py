"""Every number of every committed table is what the notebooks compute now from the committed runs."""

from __future__ import annotations

import pytest

from tests import golden

WORK = golden.work()


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = golden.copy_inputs(tmp_path_factory.mktemp("results"))
        patch.setenv("PKG_RESULTS", str(folder))
        patch.chdir(golden.study.NOTEBOOKS)
        yield folder


@pytest.mark.parametrize(("label", "cell"), WORK, ids=[label for label, _ in WORK])
def test_tables_are_as_committed(rendered, label, cell):
    assert golden.tables(golden.COMMITTED, cell)
    assert golden.differences(cell, rendered) == []
