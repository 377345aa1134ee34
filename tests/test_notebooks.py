"""Notebooks executed in kernels, with the committed completions and without the weights of models.

test_golden.py renders every page of the study and compares its tables.
"""

from __future__ import annotations

import json

import nbformat
import pandas as pd
import pytest

from pkg_lib.analysis.contents import Section
from pkg_lib.analysis.report import build_report
from pkg_lib.evaluation import notebook_execution, study
from pkg_lib.evaluation.study import Choice


def test_a_notebook_stores_its_section_and_gives_the_same_in_parallel(committed):
    """Progress bars are widgets with random ids, so they are removed."""
    named = ["rq1_code_pkg", "cost"]
    plan = study.plan(Choice(corpora=["textbook+stdlib"], notebooks=named, limit=24))
    notebook_execution.run_jobs(plan.jobs[:1], 1, lambda job, error, seconds: None)
    job, name = plan.jobs[0], plan.jobs[0].stem
    assert all(
        c.execution_count for c in nbformat.read(job.target, 4).cells if c.cell_type == "code"
    )
    outputs = [
        o.get("data", {}) for c in nbformat.read(job.target, 4).cells for o in c.get("outputs", [])
    ]
    as_html = [data for data in outputs if "text/html" in data]
    assert as_html and not any("text/plain" in data for data in as_html)
    section = json.loads((committed / "tables" / f"{name}.json").read_text())
    assert section["findings"] and section["tables"] and section["figures"]
    for table in section["tables"]:
        assert all(
            (committed / f"tables/{table}.{kind}").stat().st_size for kind in ("csv", "md", "tex")
        )
    assert all(list((committed / "figures").glob(f"{name}.*.{kind}")) for kind in ("pdf", "png"))
    verdicts = job.results.verdicts()
    rows = pd.read_csv(committed / "tables" / f"{name}.csv").set_index("method")
    rate = rows.at["Block-PKG", "pass_at_1_percent"].iloc[0]
    assert rate == pytest.approx(100 * verdicts["Block-PKG"].mean(), abs=1e-3)
    folders = ("tables", "figures", "notebooks")
    first = {p: p.read_bytes() for folder in folders for p in (committed / folder).iterdir()}
    runs = committed / "runs"
    # Without the runs, the report does not spend time on the leaderboard of the whole study.
    runs.rename(committed / "runs.aside")
    build_report(committed)
    (committed / "runs.aside").rename(runs)
    place = Section(**section)
    assert f'id="{place.notebook}"' in (committed / "site" / f"{place.page}.html").read_text()

    for path in first:
        path.unlink()
    ends = []
    notebook_execution.run_jobs(plan.jobs, 2, lambda job, error, seconds: ends.append(error))
    assert ends == [None, None] and len(first) > 7 and {p: p.read_bytes() for p in first} == first
