"""The plan of a study: its parts, its notebooks with their parameters, and what it omits."""

from dataclasses import replace

import pytest
from fakes import FakeBackend

from pkg_lib.core.types import UserError
from pkg_lib.evaluation import study
from pkg_lib.evaluation.study import LARGER, MODEL, STUDY, Choice, Part

FIRST = STUDY[0]


def planned_notebooks(**choice):
    """Return (corpus, notebook) of each planned job. The corpus of a whole study is None."""
    planned = []
    for job in study.plan(Choice(limit=2, **choice)).jobs:
        corpus = job.results.corpus if job.results else None
        planned.append((corpus, job.notebook))
    return planned


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


def test_evaluators_of_a_plan_share_their_completions(tmp_path, monkeypatch):
    """NoRAG does not depend on the corpus, so it is generated and paid for once."""
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    choice = Choice(corpora=["textbook", "pkg-contexts"], methods=["NoRAG"], limit=2, shard=(1, 2))
    evaluators = [step.evaluator for step in study.plan(choice).steps if step.evaluator]
    first, second = evaluators
    # A plan reads completions before the first evaluator is prepared.
    second.run.completions("Block-PKG")
    first.run.generator.backend = FakeBackend(lambda request: "pass")
    assert first.generate(["NoRAG"]) == 1
    assert not second.lacks(["NoRAG"])
    assert second.generate(["NoRAG"]) == 0


def test_number_of_slots_reaches_the_model_but_not_the_generation_key(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    choice = Choice(corpora=["textbook"], notebooks=["rq1_code_pkg"], limit=1)

    def generator(slots):
        first_step = study.plan(replace(choice, slots=slots)).steps[0]
        return first_step.evaluator.run.generator

    by_default = generator(None)
    with_slots = generator(3)
    model_options = {}
    monkeypatch.setattr("pkg_lib.generation.generator.fetch", lambda *_: tmp_path)
    monkeypatch.setattr(
        "pkg_lib.generation.backends.TransformersBackend",
        lambda path, **options: model_options.update(options),
    )
    with_slots.loaded()
    assert model_options["slots"] == 3
    assert with_slots.key("a prompt") == by_default.key("a prompt")


def test_notebook_gets_the_parameters_it_declares_and_runs_once_without_a_model(committed):
    notebooks = ["error_types", "closed_models"]
    plan = study.plan(Choice(corpora=["textbook", "pkg-contexts"], notebooks=notebooks, limit=2))
    _, of_corpus, of_study = plan.jobs
    assert of_corpus.notebook == "error_types"
    assert of_corpus.parameters == {
        "model": MODEL,
        "benchmark": "humaneval",
        "corpus": "pkg-contexts",
        "limit": 2,
    }
    assert of_study.notebook == "closed_models"
    assert of_study.parameters == {"limit": 2}
    assert of_study.stem == "limit-2.closed_models"
    assert len({job.target for job in plan.jobs}) == 3


def test_notebook_is_planned_only_for_corpora_that_it_supports(committed):
    planned = planned_notebooks(corpora=["textbook", "docstrings:json"])
    assert ("textbook", "rq1_code_pkg") in planned
    assert ("docstrings:json", "rq2_text_pkg") in planned
    assert ("textbook", "rq2_text_pkg") not in planned
    assert ("docstrings:json", "rq1_code_pkg") not in planned
    # Notebooks without a model show the whole study, not a choice of corpora.
    assert None not in {corpus for corpus, _ in planned}
    with pytest.raises(UserError, match="notebook rq2_text_pkg is for corpora of text"):
        planned_notebooks(corpora=["textbook"], notebooks=["rq2_text_pkg"])
    planned = planned_notebooks(benchmarks=["humaneval"], notebooks=["umap_correctness", "claims"])
    assert planned[-1] == (None, "claims")


def test_custom_parameters_reach_the_notebook_and_its_file_name(committed):
    choice = Choice(
        notebooks=["error_types"], corpora=["textbook"], limit=2, parameters={"method": "BM25"}
    )
    (job,) = study.plan(choice).jobs
    assert job.parameters["method"] == "BM25"
    assert "method-bm25" in job.stem
    assert job.is_custom


def test_stem_omits_default_parameters_and_shortens_long_ones():
    assert study.stem_of("error_types", None, method="Block-PKG") == "error_types"
    first = study.stem_of("error_types", None, method="x" * 300, corpus="a")
    second = study.stem_of("error_types", None, method="x" * 300, corpus="b")
    assert len(first) < 60
    assert len(second) < 60
    assert first != second


def test_plan_omits_and_reports_a_corpus_that_does_not_measure_the_method(committed):
    choice = {"notebooks": ["error_types"], "parameters": {"method": "Func-PKG"}, "limit": 2}
    plan = study.plan(Choice(corpora=["textbook", "python-docs"], **choice))
    assert [job.results.corpus for job in plan.jobs] == ["textbook"]
    assert [step.evaluator.run.corpus for step in plan.steps] == ["textbook"]
    (line,) = plan.left_out
    assert "python-docs: method Func-PKG is not measured" in line
    assert 'measured: "NoRAG"' in line
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
def test_rejects_an_unknown_name_or_an_invalid_value(committed, choice, words):
    with pytest.raises(UserError, match=words):
        study.plan(choice)


def test_limit_above_the_number_of_tasks_counts_as_no_limit(committed):
    choice = Choice(
        benchmarks=["humaneval"], notebooks=["rq1_code_pkg", "closed_models"], limit=9999
    )
    limits = {job.parameters["limit"] for job in study.plan(choice).jobs}
    assert limits == {None}


def test_notebook_of_several_benchmarks_gets_the_limit_of_their_results(committed):
    for limit, expected in ((2, 2), (9999, None)):
        choice = Choice(models=[MODEL], benchmarks=["newlisp"], notebooks=["evor"], limit=limit)
        (job,) = study.plan(choice).jobs
        assert job.parameters.get("limit") == expected
        assert job.parameters["generator"] == MODEL


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("Reranked, as printed", "is computed beside Reranked"),
        ("Ideal Reranker", "is computed beside the methods"),
        ("no such thing at all", "unknown method"),
    ],
)
def test_rejects_methods_that_generate_no_completions(method, words):
    with pytest.raises(UserError, match=words):
        study.parts(study.Choice(methods=[method]))
