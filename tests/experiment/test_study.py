"""The plan of a study: parts, notebooks and their parameters; and an experiment whose benchmark is not at
hand."""

import pytest

from pkg_lib.core.types import UserError
from pkg_lib.experiment import study
from pkg_lib.experiment.run import Run

FIRST = study.STUDY[0]


def test_parts_follow_the_choice():
    assert study.parts([], [], []) == list(study.STUDY)
    assert {p.benchmark for p in study.parts(["humaneval"], [], [])} == {"humaneval"}
    assert study.parts(["mbpp-all"], [], []) == [study.Part("mbpp-all", FIRST.corpus)]
    assert study.parts([], ["textbook", "stdlib"], ["None"]) == [
        study.Part(FIRST.benchmark, "textbook", ("None",)),
        study.Part(FIRST.benchmark, "stdlib", ("None",)),
    ]
    other = "qwen2.5-coder-1.5b-instruct"
    both = study.parts(["humaneval"], [], [], [study.MODEL, "a-new-one"])
    assert {p.model for p in both} == {study.MODEL, "a-new-one"}
    assert {p.corpus for p in both if p.model == "a-new-one"} == {
        p.corpus for p in both if p.model == study.MODEL
    }
    assert all(not p.columns for p in both if p.model == "a-new-one")
    again = study.parts(["humaneval", "mbpp"], [], [], [study.MODEL, other])
    assert [p for p in again if p.model == study.MODEL] == [p for p in study.STUDY if p.model == study.MODEL]
    assert [p for p in again if p.model == other] == [p for p in study.STUDY if p.model == other]
    assert study.parts(["mbpp-all"], [], [], [other]) == [study.Part("mbpp-all", FIRST.corpus, model=other)]
    assert study.parts(["mbpp"], ["stdlib"], [], [other]) == [study.Part("mbpp", "stdlib", model=other)]
    with pytest.raises(UserError, match="unknown column 'x'"):
        study.parts([], [], ["x"])


def test_a_notebook_takes_what_it_declares_and_runs_once_when_it_is_about_no_model(committed):
    experiments = [Run(study.MODEL, limit=2), Run(study.MODEL, corpus="pkg-contexts", limit=2)]
    work = study.cells([], [(e, FIRST) for e in experiments], {}, 2)
    shared = [c for e, c in work if e is None]
    assert [(c.notebook, c.parameters, c.stem) for c in shared if c.notebook == "closed_models"] == [
        ("closed_models", {"limit": 2}, "limit-2.closed_models")
    ]
    own = [c for e, c in work if e is experiments[1] and c.notebook == "error_types"]
    assert own[0].parameters == {
        "model": study.MODEL,
        "benchmark": "humaneval",
        "corpus": "pkg-contexts",
        "limit": 2,
    }
    assert len({c.target for _, c in work}) == len(work)


def test_a_notebook_is_shown_for_the_experiments_that_it_is_for(committed, tmp_path, monkeypatch):
    code, text = Run(study.MODEL, limit=2), Run(study.MODEL, corpus="docstrings:json", limit=2)
    planned = [(code, FIRST), (text, study.Part("humaneval", "docstrings:json"))]
    shown = {(e.corpus, c.notebook) for e, c in study.cells([], planned, {}, 2) if e}
    assert ("textbook", "rq1_code_pkg") in shown and ("docstrings:json", "rq2_text_pkg") in shown
    assert ("textbook", "rq2_text_pkg") not in shown and ("docstrings:json", "rq1_code_pkg") not in shown
    with pytest.raises(
        UserError, match="notebook rq2_text_pkg is for corpora of text, and no such experiment"
    ):
        study.cells(["rq2_text_pkg"], planned[:1], {}, 2)
    narrow = [(code, study.Part("humaneval", "textbook", (), ("error_types",)))]
    assert [c.notebook for e, c in study.cells([], narrow, {}, 2) if e] == ["error_types"]
    assert [c.notebook for e, c in study.cells(["rq1_code_pkg"], narrow, {}, 2) if e] == ["rq1_code_pkg"]


def test_own_parameters_reach_their_notebook_and_its_file_name(committed):
    (_, cell), *_ = study.cells(["error_types"], [(Run(study.MODEL, limit=2), FIRST)], {"column": "BM25"})
    assert cell.parameters["column"] == "BM25"
    assert "column-bm25" in cell.stem
    same = study.stem_of("error_types", None, column="Block-PKG")
    assert same == "error_types"
    long = [study.stem_of("error_types", None, column="x" * 300, corpus=c) for c in ("a", "b")]
    assert max(map(len, long)) < 60 and len({*long}) == 2


def test_an_experiment_that_does_not_measure_a_column_is_left_out_by_name(committed):
    found = study.plan(
        [FIRST, study.Part("humaneval", "python-docs")], ["error_types"], 2, False, {"column": "Func-PKG"}
    )
    assert (
        [e.corpus for e, _ in found.notebooks]
        == [p.run.corpus for p, _ in found.experiments]
        == [FIRST.corpus]
    )
    assert ["python-docs: column Func-PKG is not measured" in line for line in found.left_out] == [True]
    narrow = study.Part(FIRST.benchmark, "stdlib", ("None", "Block-PKG"))
    with pytest.raises(UserError, match="Func-PKG is not measured"):
        study.plan([narrow], ["error_types"], 2, False, {"column": "Func-PKG"})
    with pytest.raises(UserError, match="unknown column 'nosuch'"):
        study.plan([FIRST], ["error_types"], 2, False, {"column": "nosuch"})


def test_notebooks_about_no_model_run_with_the_whole_study_or_by_name(committed):
    def names(parts, *named):
        return {c.notebook for e, c in study.plan(parts, list(named), 2, False, {}).notebooks if e is None}

    assert names([FIRST]) == set() and names([FIRST], "claims", "rq1_code_pkg") == {"claims"}
    assert "claims" in names(list(study.STUDY))


@pytest.mark.parametrize(
    ("own", "words"),
    [({"nosuch": 1}, "no notebook of .* has a parameter 'nosuch'"), ({"column": 3}, "must be str")],
)
def test_unknown_and_ill_typed_parameters_are_named(committed, own, words):
    with pytest.raises(UserError, match=words):
        study.cells(["error_types"], [(Run(study.MODEL, limit=2), FIRST)], own)


@pytest.mark.parametrize("notebook", study.notebooks())
def test_every_notebook_refuses_an_unknown_parameter(committed, notebook):
    with pytest.raises(UserError, match="nosuch"):
        study.execute(study.NotebookJob(notebook, {"nosuch": 1}, notebook))


def test_limit_beyond_the_benchmark_is_no_limit(committed):
    assert Run(study.MODEL, limit=9999).limit is None
    assert Run(study.MODEL, limit=9999).stem == Run(study.MODEL).stem
