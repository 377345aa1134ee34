"""Every notebook runs from the committed completions, on a few tasks, without weights."""

from __future__ import annotations

import shutil

import nbformat
import pytest

from pkg_lib import study
from pkg_lib.analysis.report import build_report
from pkg_lib.experiment import Experiment
from pkg_lib.results import stem


@pytest.mark.parametrize("corpus", study.CORPORA)
@pytest.mark.parametrize("notebook", study.notebooks())
def test_notebook_runs_on_eight_tasks(committed, notebook, corpus):
    parameters = {"model": study.MODEL, "benchmark": study.BENCHMARK, "corpus": corpus, "limit": 8}
    cell = study.Cell(notebook, parameters)
    assert study.execute(cell) == ""
    executed = nbformat.read(cell.target, as_version=4)
    assert all(c.execution_count for c in executed.cells if c.cell_type == "code")
    name = f"{stem(**parameters)}.{notebook}"
    rows = (committed / "tables" / f"{name}.csv").read_text()
    passed = Experiment(**parameters).verdicts()["Block-PKG"].mean()
    assert f"{100 * passed:.1f}" in rows
    assert sorted((committed / "figures").glob(f"{name}.*.pdf")) and sorted((committed / "figures").glob(f"{name}.*.png"))
    assert name in build_report(committed).read_text()


def test_failing_notebook_is_saved_at_its_failing_cell_and_named(committed, monkeypatch, tmp_path):
    source = nbformat.read(study.NOTEBOOKS / "rq1_code_pkg.ipynb", as_version=4)
    source.cells.append(nbformat.v4.new_code_cell("1 / 0"))
    nbformat.write(source, tmp_path / "broken.ipynb")
    monkeypatch.setattr(study, "NOTEBOOKS", tmp_path)
    cell = study.Cell("broken", {"model": study.MODEL, "benchmark": study.BENCHMARK, "corpus": study.CORPORA[0], "limit": 2})
    assert study.execute(cell).startswith("ZeroDivisionError")
    saved = nbformat.read(cell.target, as_version=4)
    assert any(o.output_type == "error" for o in saved.cells[-1].outputs)


def test_interrupted_notebook_leaves_the_last_executed_one(committed, monkeypatch):
    import papermill

    parameters = {"model": study.MODEL, "benchmark": study.BENCHMARK, "corpus": study.CORPORA[0], "limit": 2}
    cell = study.Cell("rq1_code_pkg", parameters)
    cell.target.parent.mkdir()
    cell.target.write_text("the last one")

    def interrupted(source, target, *args, **kwargs):
        target.write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(papermill, "execute_notebook", interrupted)
    with pytest.raises(KeyboardInterrupt):
        study.execute(cell)
    assert cell.target.read_text() == "the last one"
    assert [p.name for p in cell.target.parent.iterdir()] == [cell.target.name]


def test_executed_notebook_is_the_same_when_the_verdicts_are_executed_again(committed):
    """Progress bars come as widgets with random ids; they are taken out."""
    parameters = {"model": study.MODEL, "benchmark": study.BENCHMARK, "corpus": study.CORPORA[0], "limit": 24}
    cell = study.Cell("rq1_code_pkg", parameters)
    assert study.execute(cell) == ""
    first = cell.target.read_text()
    shutil.rmtree(committed / "evaluations" / "controls")
    assert study.execute(cell) == ""
    assert cell.target.read_text() == first
