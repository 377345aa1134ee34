"""The plan of a study: parts, notebooks and their parameters; and an experiment whose benchmark is not at hand."""

import pytest

from pkg_lib.core.types import BenchmarkMissing, UserError
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.experiment import study
from pkg_lib.experiment.experiment import Experiment, StoredExperiment, open_experiment

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


@pytest.mark.parametrize("part", study.STUDY, ids=lambda p: f"{p.model}-{p.benchmark}-{p.corpus}")
def test_every_part_of_the_study_is_measured(committed, monkeypatch, part):
    """Without weights, without the authors' data and without the benchmark where it cannot be had: a fresh clone shows the whole
    study."""
    monkeypatch.delenv("PKG_PAPER_DIR", raising=False)
    experiment = open_experiment(part.model, part.benchmark, part.corpus)
    assert experiment.generate(list(part.columns or experiment.retrievers)) == 0
    frame = experiment.verdicts(list(part.columns) or None)
    known = {c: experiment.known_contexts(c) for c in experiment.retrievers}
    lacking = {c: {x.task_id for x in found if experiment.unpublished(c, x)} for c, found in known.items()}
    assert all(
        set(frame.index[frame[c].isna()]) == lacking.get(c, set().union(*lacking.values())) for c in frame
    )
    assert (sum(map(len, lacking.values())) > 0) == (part.corpus == "published")
    assert len(frame) == (164 if part.benchmark == "humaneval" else 500)


def test_a_notebook_takes_what_it_declares_and_runs_once_when_it_is_about_no_model(committed):
    experiments = [Experiment(study.MODEL, limit=2), Experiment(study.MODEL, corpus="pkg-contexts", limit=2)]
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
    code, text = Experiment(study.MODEL, limit=2), Experiment(study.MODEL, corpus="docstrings:json", limit=2)
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
    (_, cell), *_ = study.cells(
        ["error_types"], [(Experiment(study.MODEL, limit=2), FIRST)], {"column": "BM25"}
    )
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
        [e.corpus for e, _ in found.notebooks] == [e.corpus for e, _ in found.experiments] == [FIRST.corpus]
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
        study.cells(["error_types"], [(Experiment(study.MODEL, limit=2), FIRST)], own)


@pytest.mark.parametrize("notebook", study.notebooks())
def test_every_notebook_refuses_an_unknown_parameter(committed, notebook):
    with pytest.raises(UserError, match="nosuch"):
        study.execute(study.Cell(notebook, {"nosuch": 1}, notebook))


def test_limit_beyond_the_benchmark_is_no_limit(committed):
    assert Experiment(study.MODEL, limit=9999).limit is None
    assert Experiment(study.MODEL, limit=9999).stem == Experiment(study.MODEL).stem


@pytest.fixture
def gone(committed, monkeypatch):
    """HumanEval's package is not there."""

    def missing(protocol):
        raise BenchmarkMissing("it is not at hand")

    reference = Experiment(study.MODEL, corpus=FIRST.corpus)
    expected = (
        reference.verdicts(),
        reference.controls(),
        reference.records("Block-PKG"),
        reference.provenance(),
    )
    monkeypatch.setitem(BENCHMARKS, "humaneval", missing)
    return expected


def test_stored_verdicts_are_shown_where_the_benchmark_is_missing(gone):
    verdicts, controls, records, provenance = gone
    stored = open_experiment(study.MODEL, FIRST.benchmark, FIRST.corpus)
    assert isinstance(stored, StoredExperiment) and "it is not at hand" in stored.remark
    assert stored.verdicts().equals(verdicts)
    assert all(stored.controls()[n].equals(controls[n]) for n in controls)
    assert stored.records("Block-PKG") == records
    assert stored.provenance() == provenance
    assert stored.generate(["None"]) == 0


def test_a_task_that_shares_its_prompt_keeps_its_completion_where_the_benchmark_is_missing(gone, committed):
    """All tasks have the empty context without retrieval, so the context alone does not tell whose completion it is."""
    for stage in (f"evaluations/{study.MODEL}", "contexts"):
        path = committed / stage / "humaneval" / "none" / "none.jsonl"
        (twenty,) = [
            line for line in path.read_text("utf8").splitlines(keepends=True) if '"HumanEval/20"' in line
        ]
        path.write_text(path.read_text("utf8") + twenty.replace("HumanEval/20", "HumanEval/164"), "utf8")
    found = open_experiment(study.MODEL, FIRST.benchmark, FIRST.corpus).completions("None")
    assert len(found) == 165 and found["HumanEval/164"] == found["HumanEval/20"]


def test_without_stored_verdicts_the_missing_benchmark_is_named(gone):
    with pytest.raises(BenchmarkMissing, match="not at hand"):
        open_experiment("codellama-7b-instruct", FIRST.benchmark, FIRST.corpus)
    with pytest.raises(BenchmarkMissing):
        open_experiment(study.MODEL, FIRST.benchmark, FIRST.corpus, fresh=True)


def test_a_corpus_as_parameter_goes_to_notebooks_about_no_model_alone(committed):
    experiment = Experiment(study.MODEL, limit=2)
    found = {
        c.notebook: c
        for _, c in study.cells([], [(experiment, FIRST)], {"corpus": "stdlib", "query": "add"}, 2)
    }
    assert found["explore"].parameters == {
        "corpus": "stdlib",
        "query": "add",
    }  # it has no limit, so it is given none
    assert found["build_graphs"].parameters == {"corpus": "stdlib"}
    assert found["rq1_code_pkg"].parameters["corpus"] == experiment.corpus
    assert "stdlib" in found["explore"].stem and "stdlib" not in found["rq1_code_pkg"].stem
    with pytest.raises(UserError, match="takes it as --corpus"):
        study.cells(["rq1_code_pkg"], [(experiment, FIRST)], {"corpus": "stdlib"})
