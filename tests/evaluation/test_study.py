"""The plan of a study: parts, notebooks and their parameters, and what is left out."""

from dataclasses import replace

import pytest
from fakes import FakeBackend

from pkg_lib.core.types import UserError
from pkg_lib.evaluation import study
from pkg_lib.evaluation.study import LARGER, MODEL, STUDY, Choice, Part

FIRST = STUDY[0]


def jobs(**chosen):
    """(corpus of the run, or None; notebook) of each notebook that a choice of few tasks would execute."""
    return [
        (j.results and j.results.corpus, j.notebook)
        for j in study.plan(Choice(limit=2, **chosen)).jobs
    ]


@pytest.mark.parametrize(
    ("choice", "chosen"),
    [
        (Choice(), STUDY),
        (Choice(benchmarks=["mbpp-all"]), [Part("mbpp-all", FIRST.corpus)]),
        (
            Choice(models=[MODEL, LARGER], benchmarks=["humaneval", "mbpp"]),
            [p for p in STUDY if p.benchmark in ("humaneval", "mbpp")],
        ),
        (
            Choice(corpora=["stdlib"], methods=["NoRAG"]),
            [Part(FIRST.benchmark, "stdlib", ("NoRAG",))],
        ),
        (
            Choice(models=[LARGER], benchmarks=["mbpp-all"]),
            [Part("mbpp-all", FIRST.corpus, model=LARGER)],
        ),
        (Choice([LARGER], ["mbpp"], ["stdlib"]), [Part("mbpp", "stdlib", model=LARGER)]),
        (
            Choice(models=["a-new-one"]),
            [
                Part(p.benchmark, p.corpus, (), p.notebooks, "a-new-one")
                for p in STUDY
                if p.model == MODEL
            ],
        ),
    ],
)
def test_parts_follow_the_choice(choice, chosen):
    assert study.parts(choice) == list(chosen)


def test_what_one_run_of_a_plan_asks_the_next_ones_know(tmp_path, monkeypatch):
    """None is the same column with every corpus: it is asked, and paid, once."""
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    chosen = Choice(corpora=["textbook", "pkg-contexts"], methods=["NoRAG"], limit=2, shard=(1, 2))
    steps = [s for s in study.plan(chosen).steps if s.evaluator]
    assert len(steps) == 2
    steps[1].evaluator.run.completions(
        "Block-PKG"
    )  # as a plan looks before the first run is prepared
    steps[0].evaluator.run.generator.backend = FakeBackend(lambda request: "pass")
    assert steps[0].evaluator.generate(["NoRAG"]) == 1
    assert not steps[1].evaluator.lacks(["NoRAG"]) and steps[1].evaluator.generate(["NoRAG"]) == 0


def test_a_number_of_slots_reaches_the_model_and_no_key(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    chosen = Choice(corpora=["textbook"], notebooks=["rq1_code_pkg"], limit=1)
    generators = []
    for slots in (None, 3):
        (step, *_) = study.plan(replace(chosen, slots=slots)).steps
        generators.append(step.evaluator.run.generator)
    asked = {}
    monkeypatch.setattr("pkg_lib.generation.generator.fetch", lambda *_: tmp_path)
    monkeypatch.setattr(
        "pkg_lib.generation.backends.TransformersBackend",
        lambda path, **options: asked.update(options),
    )
    generators[1].loaded()
    assert asked["slots"] == 3 and len({g.key("a prompt") for g in generators}) == 1


def test_a_notebook_takes_what_it_declares_and_runs_once_when_it_is_about_no_model(committed):
    named = ["error_types", "closed_models"]
    plan = study.plan(Choice(corpora=["textbook", "pkg-contexts"], notebooks=named, limit=2))
    about = {"model": MODEL, "benchmark": "humaneval", "corpus": "pkg-contexts", "limit": 2}
    assert [(j.notebook, j.parameters) for j in plan.jobs[1:]] == [
        ("error_types", about),
        ("closed_models", {"limit": 2}),
    ]
    assert plan.jobs[2].stem == "limit-2.closed_models" and len({j.target for j in plan.jobs}) == 3


def test_a_notebook_is_shown_for_the_runs_that_it_is_for(committed):
    corpora = ["textbook", "docstrings:json"]
    shown = jobs(corpora=corpora)
    assert ("textbook", "rq1_code_pkg") in shown and ("docstrings:json", "rq2_text_pkg") in shown
    assert ("textbook", "rq2_text_pkg") not in shown and (
        "docstrings:json",
        "rq1_code_pkg",
    ) not in shown
    assert None not in {
        corpus for corpus, _ in shown
    }  # those about no model are of the whole study
    with pytest.raises(UserError, match="notebook rq2_text_pkg is for corpora of text"):
        jobs(corpora=corpora[:1], notebooks=["rq2_text_pkg"])
    assert jobs(benchmarks=["humaneval"], notebooks=["umap_correctness", "claims"])[-1] == (
        None,
        "claims",
    )


def test_parameters_of_ones_own_reach_their_notebook_and_its_file_name(committed):
    choice = Choice(
        notebooks=["error_types"], corpora=["textbook"], limit=2, parameters={"method": "BM25"}
    )
    (job,) = study.plan(choice).jobs
    assert job.parameters["method"] == "BM25" and "method-bm25" in job.stem and job.is_custom
    assert study.stem_of("error_types", None, method="Block-PKG") == "error_types"
    long = [study.stem_of("error_types", None, method="x" * 300, corpus=c) for c in ("a", "b")]
    assert max(map(len, long)) < 60 and len({*long}) == 2


def test_a_run_that_does_not_measure_a_column_is_left_out_by_name(committed):
    choice = {"notebooks": ["error_types"], "parameters": {"method": "Func-PKG"}, "limit": 2}
    plan = study.plan(Choice(corpora=["textbook", "python-docs"], **choice))
    assert (
        [j.results.corpus for j in plan.jobs]
        == [s.evaluator.run.corpus for s in plan.steps]
        == ["textbook"]
    )
    assert ["python-docs: method Func-PKG is not measured" in line for line in plan.left_out] == [
        True
    ]
    assert all('measured: "NoRAG"' in line for line in plan.left_out)  # "NoRAG" is a column
    with pytest.raises(UserError, match="Func-PKG is not measured"):
        study.plan(Choice(corpora=["stdlib"], methods=["NoRAG", "Block-PKG"], **choice))


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (Choice(methods=["x"]), "'x'"),
        (Choice(notebooks=["error_types"], parameters={"method": "x"}), "'x'"),
        (Choice(notebooks=["error_types"], parameters={"method": 3}), "must be str"),
        (Choice(parameters={"model": "x"}), "takes it as --model"),
        *(
            (
                Choice(notebooks=[n], parameters={"nosuch": 1}),
                f"unknown parameter 'nosuch' of notebook {n}",
            )
            for n in study.notebooks()
        ),
    ],
)
def test_a_mistake_in_a_name_or_value_is_told(committed, choice, words):
    with pytest.raises(UserError, match=words):
        study.plan(choice)


def test_a_limit_beyond_the_benchmark_is_no_limit(committed):
    choice = Choice(
        benchmarks=["humaneval"], notebooks=["rq1_code_pkg", "closed_models"], limit=9999
    )
    assert {j.parameters["limit"] for j in study.plan(choice).jobs} == {None}


def test_a_notebook_of_several_benchmarks_takes_the_limit_of_their_runs(committed):
    for limit, shown in ((2, 2), (9999, None)):
        choice = Choice(models=[MODEL], benchmarks=["newlisp"], notebooks=["evor"], limit=limit)
        (job,) = study.plan(choice).jobs
        assert (job.parameters.get("limit"), job.parameters["generator"]) == (shown, MODEL)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("Reranked, as printed", "is computed beside Reranked"),
        ("Ideal Reranker", "is computed beside the methods"),
        ("no such thing at all", "unknown method"),
    ],
)
def test_methods_that_no_one_generates_with(method, words):
    with pytest.raises(UserError, match=words):
        study.parts(study.Choice(methods=[method]))
