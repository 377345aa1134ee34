"""Storage of records: each folder describes its contents, and an earlier layout is refused."""

from __future__ import annotations

import json
import shutil

import pytest
from fakes import FakeBackend

from pkg_lib import cli
from pkg_lib.core.store import read_json, read_rows, write_json
from pkg_lib.core.types import UserError
from pkg_lib.evaluation import merge
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.storage import (
    condition_fields,
    control_folder,
    method_files,
    read_condition,
    stored_conditions,
)
from pkg_lib.evaluation.study import MODEL
from pkg_lib.generation.generator import Sampling
from pkg_lib.retrieval.methods import NO_RAG, sampled_name

SAMPLED = sampled_name(NO_RAG, Sampling(0.8, 0.95, sample=1))


def answer(request):
    return f"```python\ndef {request.entry_point}(*a):\n    return {request.sample}\n```"


@pytest.fixture
def run(tmp_path):
    """Results of two tasks, by greedy decoding and by one sample."""
    run = Results(MODEL, limit=2, results=tmp_path)
    evaluator = Evaluator(run, backend=FakeBackend(answer))
    evaluator.generate([NO_RAG, SAMPLED])
    for method in (NO_RAG, SAMPLED):
        evaluator._judge_method(method)
    return run


def test_condition_describes_its_folder_under_any_folder_name(run):
    conditions = {c.method: c for c in stored_conditions(run.results)}
    assert conditions.keys() == {NO_RAG, SAMPLED}
    sample = conditions[SAMPLED]
    assert (sample.model, sample.benchmark, sample.corpus) == (MODEL, "humaneval", "")
    assert (sample.sample_of, sample.sampling) == (NO_RAG, Sampling(0.8, 0.95, sample=1))
    assert conditions[NO_RAG].sample_of == ""
    assert run.sample_names(NO_RAG) == [SAMPLED]
    folder = run.files(SAMPLED).run
    folder.rename(folder.with_name("anything"))
    assert run.sample_names(NO_RAG) == [SAMPLED]
    assert read_condition(folder.with_name("anything") / "condition.json") == sample


def test_copied_folder_adds_no_sample(run):
    folder = run.files(SAMPLED).run
    shutil.copytree(folder, folder.with_name("copy"))
    assert run.sample_names(NO_RAG) == [SAMPLED]


def test_benchmarks_that_share_completions_share_samples(run):
    run.files(SAMPLED).condition.unlink()
    assert run.sample_names(NO_RAG) == []
    files = method_files(run.results, MODEL, "humaneval+", "", SAMPLED)
    assert files.completions == run.files(SAMPLED).completions
    write_json(files.condition, condition_fields(MODEL, "humaneval+", "", SAMPLED))
    assert run.sample_names(NO_RAG) == [SAMPLED]


def test_condition_records_revision_decoding_and_contexts(run):
    made_from = read_json(run.files(SAMPLED).condition)["made_from"]
    assert made_from["model_revision"] == run.generator.revision
    assert run.generator.revision != ""
    assert made_from["decoding"]["temperature"] == 0.8
    greedy = read_json(run.files(NO_RAG).condition)["made_from"]
    assert "temperature" not in greedy["decoding"]
    provenance = read_json(run.files(NO_RAG).provenance)
    assert made_from["contexts"]["benchmark"] == provenance["benchmark"]


def test_sample_records_the_key_of_its_completion(run):
    completions = run.completions(SAMPLED)
    rows = read_rows(run.files(SAMPLED).samples)
    assert len(rows) == 2
    for row in rows:
        completion = completions[row["task_id"]]
        assert row["generation_key"] == completion.key


def test_interrupted_run_stores_its_condition_with_the_first_completion(tmp_path):
    run = Results(MODEL, limit=2, results=tmp_path)
    backend = FakeBackend(answer, stop=1)
    with pytest.raises(KeyboardInterrupt):
        Evaluator(run, backend=backend).generate([SAMPLED])
    again = Results(MODEL, limit=2, results=tmp_path)
    assert len(again.completions(SAMPLED)) == 1
    assert again.sample_names(NO_RAG) == [SAMPLED]


def test_condition_without_a_completion_is_not_a_sample(tmp_path):
    files = method_files(tmp_path, MODEL, "humaneval", "", SAMPLED)
    write_json(files.condition, condition_fields(MODEL, "humaneval", "", SAMPLED))
    assert Results(MODEL, results=tmp_path).sample_names(NO_RAG) == []


def test_control_folder_records_its_benchmark_and_control(tmp_path):
    run = Results(MODEL, limit=1, results=tmp_path)
    Evaluator(run, backend=FakeBackend(answer)).prepare([NO_RAG])
    for name in run.benchmark_spec.controls:
        folder = control_folder(tmp_path, "humaneval", name)
        assert read_json(folder / "condition.json") == {"benchmark": "humaneval", "control": name}
        assert (folder / "samples.jsonl.gz").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"model": 1},
        {"sampling": {}},
        {"sampling": {"temperature": "hot", "top_p": 1.0, "sample": 1}},
        {"method": None},
    ],
)
def test_reports_a_damaged_condition_in_one_line(run, change):
    path = run.files(SAMPLED).condition
    path.write_text(json.dumps(read_json(path) | change))
    with pytest.raises(UserError) as error:
        run.sample_names(NO_RAG)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["generations", "evaluations"])
def test_refuses_an_earlier_layout_and_changes_no_file(tmp_path, monkeypatch, capsys, name):
    earlier = tmp_path / "earlier"
    kept = earlier / name / "m" / "humaneval" / "none" / "none.jsonl"
    kept.parent.mkdir(parents=True)
    kept.write_text("{}\n")
    with pytest.raises(UserError, match="layout of an earlier version"):
        Results(MODEL, results=earlier)
    with pytest.raises(UserError, match="layout of an earlier version"):
        merge.merge([earlier], tmp_path / "results")
    assert not (tmp_path / "results").exists()
    monkeypatch.setenv("PKG_RESULTS", str(earlier))
    for words in (["pack"], ["report"], ["run", "--dry-run"]):
        monkeypatch.setattr("sys.argv", ["pkg-lib", *words])
        assert cli.main() == 2
        reported = capsys.readouterr().err
        assert str(earlier) in reported
        assert reported.count("\n") == 1
    files = [path for path in earlier.rglob("*") if path.is_file()]
    assert files == [kept]
    assert kept.read_text() == "{}\n"
