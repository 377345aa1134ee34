"""What a kernel and papermill add to the notebooks, from the committed completions and without weights.

Every page of the study is rendered, and its tables compared, by test_golden.py.
"""

from __future__ import annotations

import json
from dataclasses import replace

import nbformat
import pytest

from pkg_lib.analysis.contents import Section
from pkg_lib.analysis.report import build_report
from pkg_lib.experiment import study
from pkg_lib.experiment.run import Run

FIRST = study.STUDY[0]


def cell_of(notebook: str, limit: int):
    experiment = Run(FIRST.model, FIRST.benchmark, FIRST.corpus, limit)
    return study.cells([notebook], [(experiment, FIRST)], {})[0][1]


def test_a_limited_notebook_leaves_its_section_and_is_the_same_when_run_again(committed):
    """Progress bars come as widgets with random ids; they are taken out."""
    cell = cell_of("rq1_code_pkg", 24)
    assert study.execute(cell) == ""
    first, name = cell.target.read_text(), cell.target.stem
    assert all(c.execution_count for c in nbformat.reads(first, 4).cells if c.cell_type == "code")
    section = json.loads((committed / "tables" / f"{name}.json").read_text())
    assert section["findings"] and section["tables"] and section["figures"]
    for table in section["tables"]:
        assert all((committed / f"tables/{table}.{kind}").stat().st_size for kind in ("csv", "md", "tex"))
    assert all(list((committed / "figures").glob(f"{name}.*.{kind}")) for kind in ("pdf", "png"))
    verdicts = Run(FIRST.model, FIRST.benchmark, FIRST.corpus, 24).verdicts()
    rows = (committed / "tables" / f"{name}.csv").read_text()
    assert f"{100 * verdicts['Block-PKG'].mean():.1f}" in rows
    build_report(committed)
    place = Section(**section)
    assert f'id="{place.notebook}"' in (committed / "site" / f"{place.page}.html").read_text()

    assert study.execute(cell) == ""
    assert cell.target.read_text() == first


def test_a_failing_notebook_is_saved_at_its_failing_cell_and_named(committed, monkeypatch, tmp_path):
    source = nbformat.read(study.NOTEBOOKS / "rq1_code_pkg.ipynb", as_version=4)
    del source.cells[3:]
    source.cells.append(nbformat.v4.new_code_cell("1 / 0"))
    nbformat.write(source, tmp_path / "broken.ipynb")
    monkeypatch.setattr(study, "NOTEBOOKS", tmp_path)
    cell = cell_of("broken", 2)
    assert study.execute(cell).startswith("ZeroDivisionError")
    saved = nbformat.read(cell.target, as_version=4)
    assert any(o.output_type == "error" for o in saved.cells[-1].outputs)


def test_a_notebook_that_a_mistake_or_ctrl_c_stops_leaves_the_last_executed_one(committed, monkeypatch):
    import papermill

    cell = cell_of("rq1_code_pkg", 2)
    wrong = replace(cell, parameters=cell.parameters | {"model": "nosuch"})
    assert study.execute(wrong).startswith("UserError: unknown model 'nosuch'")
    assert not list(cell.target.parent.iterdir())
    cell.target.write_text("the last one")

    def interrupted(source, target, *args, **kwargs):
        target.write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(papermill, "execute_notebook", interrupted)
    with pytest.raises(KeyboardInterrupt):
        study.execute(cell)
    assert cell.target.read_text() == "the last one"
    assert [p.name for p in cell.target.parent.iterdir()] == [cell.target.name]
