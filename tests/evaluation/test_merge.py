"""Merging shards: the merged results equal those of one run, and conflicts are refused."""

from __future__ import annotations

import json
import shutil

import pytest
from fakes import FakeBackend, WordEmbedder

from pkg_lib import cli
from pkg_lib.core.store import read_rows, write_jsonl
from pkg_lib.core.types import Document, UserError
from pkg_lib.evaluation import merge, pipeline, signals, study
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.storage import method_files
from pkg_lib.evaluation.study import MODEL
from pkg_lib.generation.cache import pack
from pkg_lib.retrieval.knowledge import Knowledge

METHODS = ["NoRAG", "Func-BM25", "NoRAG, T0.8, 1"]
LIMIT = 5
CODE = """\
def first(values):
    return values[0]


def total(numbers):
    return sum(numbers)
"""


def answer(request):
    value = len(request.text) % 3
    return f"```python\ndef {request.entry_point}(*a):\n    return {value}\n```"


def evaluate(results, shard=(1, 1)):
    """Evaluate the methods on one shard of the tasks, into a folder."""
    run = Results(MODEL, limit=LIMIT, results=results, shard=shard)
    Evaluator(run, backend=FakeBackend(answer)).prepare(METHODS)
    return run


def without_seconds(value):
    """Return a stored value with all measured seconds set to 0."""
    if isinstance(value, dict):
        return {key: 0 if key == "seconds" else without_seconds(v) for key, v in value.items()}
    if isinstance(value, list):
        return [without_seconds(item) for item in value]
    return value


def stored_texts(results):
    """Return the text of every file by its name, without the measured seconds."""
    texts = {}
    for path in results.rglob("*"):
        if not path.is_file():
            continue
        name = path.relative_to(results).as_posix()
        if path.suffix == ".json":
            texts[name] = path.read_text()
        else:
            lines = [json.dumps(without_seconds(row)) + "\n" for row in read_rows(path)]
            texts[name] = "".join(lines)
    return texts


def task_ids(*runs):
    return sorted(task.id for run in runs for task in run.tasks)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Folder with the results of the whole run and of its two shards."""
    folder = tmp_path_factory.mktemp("shards")
    knowledge = Knowledge([Document("a", CODE)], WordEmbedder())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Results, "knowledge", property(lambda run: knowledge))
        patch.setattr(signals, "Embedder", WordEmbedder)
        patch.setattr(pipeline, "Embedder", WordEmbedder)
        patch.setattr(pipeline, "versions", lambda: {"commit": "of the day"})
        first = evaluate(folder / "shard1", (1, 2))
        second = evaluate(folder / "shard2", (2, 2))
        whole = evaluate(folder / "whole")
    assert task_ids(first, second) == task_ids(whole)
    assert len(first.tasks) == 3
    assert len(second.tasks) == 2
    return folder


def test_merged_shards_equal_the_whole_run(parts, tmp_path):
    shards = [parts / "shard2", parts / "shard1"]
    lines = merge.merge(shards, tmp_path)
    assert "cache/qwen2.5-coder-0.5b-instruct/humaneval/none/norag.jsonl: 5 added" in lines
    merged = stored_texts(tmp_path)
    assert merged == stored_texts(parts / "whole")
    assert len(merged) > 15
    run = Results(MODEL, limit=LIMIT, results=tmp_path)
    assert not Evaluator(run).lacks(METHODS)
    assert run.verdicts(METHODS).notna().all(axis=None)


def test_merging_a_second_time_changes_no_file(parts, tmp_path):
    def file_states(paths):
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in paths}

    shards = [parts / "shard2", parts / "shard1"]
    merge.merge(shards, tmp_path)
    paths = [path for path in tmp_path.rglob("*") if path.is_file()]
    before = file_states(paths)
    assert merge.merge(shards, tmp_path) == []
    assert file_states(paths) == before


def test_merges_packed_shards(parts, tmp_path):
    shards = []
    for name in ("shard1", "shard2"):
        shard = shutil.copytree(parts / name, tmp_path / name)
        pack(shard / "cache")
        shards.append(shard)
    results = tmp_path / "results"
    merge.merge(shards[:1], results)
    pack(results / "cache")
    merge.merge(shards[1:], results)
    assert stored_texts(results) == stored_texts(parts / "whole")


@pytest.mark.parametrize("changed", ["raw", "solution", "text"])
def test_refuses_two_values_for_one_key_and_names_them(parts, tmp_path, changed):
    other = shutil.copytree(parts / "shard1", tmp_path / "other")
    files = method_files(other, MODEL, "humaneval", "", "NoRAG")
    file_of_field = {"raw": files.completions, "solution": files.samples, "text": files.contexts}
    path = file_of_field[changed]
    row, *rest = read_rows(path)
    write_jsonl(path, (row | {changed: "x"}, *rest))
    with pytest.raises(UserError) as error:
        merge.merge([parts / "shard1", other], tmp_path / "results")
    assert str(path) in str(error.value)
    assert row["task_id"] in str(error.value)
    assert not (tmp_path / "results").exists()


def test_ignores_plain_rows_of_an_earlier_version_beside_packed_ones(parts, tmp_path):
    results = shutil.copytree(parts / "shard2", tmp_path / "results")
    for path in list((results / "runs").rglob("*.jsonl.gz")):
        stale = [row | {"status": "stale"} for row in read_rows(path)]
        write_jsonl(path.with_suffix(""), stale)
    merge.merge([parts / "shard1"], results)
    assert stored_texts(results) == stored_texts(parts / "whole")


def test_accepts_rows_that_differ_only_in_their_duration(parts, tmp_path):
    other = shutil.copytree(parts / "shard1", tmp_path / "other")
    for path in other.rglob("*.jsonl*"):
        rows = list(read_rows(path))
        for row in rows:
            if "seconds" in row:
                row["seconds"] = 99.5
            if "meta" in row:
                row["meta"] = row["meta"] | {"seconds": 99.5}
        write_jsonl(path, rows)
    merge.merge([parts / "shard1", other], tmp_path / "results")
    assert stored_texts(tmp_path / "results") == stored_texts(parts / "shard1")


def test_reports_and_skips_a_truncated_last_line(parts, tmp_path):
    truncated = shutil.copytree(parts / "shard2", tmp_path / "truncated")
    (path,) = (truncated / "cache").rglob("none/norag.jsonl")
    path.write_bytes(path.read_bytes()[:-20])
    lines = merge.merge([truncated], tmp_path / "results")
    assert f"{path}, line 2 is damaged and left out: it is cut off" in lines
    run = Results(MODEL, limit=LIMIT, results=tmp_path / "results", shard=(2, 2))
    assert len(run.completions("NoRAG")) == 1

    # The undamaged shard completes the results later.
    merge.merge([parts / "shard2"], tmp_path / "results")
    assert stored_texts(tmp_path / "results") == stored_texts(parts / "shard2")


def test_reports_and_replaces_a_damaged_verdict_of_the_target(parts, tmp_path):
    results = shutil.copytree(parts / "shard1", tmp_path / "results")
    (path,) = (results / "runs").rglob("none/norag/samples.jsonl.gz")
    first, *rest = read_rows(path)
    write_jsonl(path, (first | {"status": "PASSED"}, *rest))
    lines = merge.merge([parts / "shard1"], results)
    assert any(line.startswith(f"{path}, line 1 is damaged") for line in lines)
    assert stored_texts(results).items() >= stored_texts(parts / "shard1").items()


@pytest.mark.parametrize(
    "place", ["none/norag.jsonl", "none/norag.jsonl.gz", "extra", "extra.jsonl", "f.json"]
)
@pytest.mark.parametrize("target", ["nosuchfile", "itself", ".."])
def test_reports_a_link_that_it_does_not_follow_and_merges_the_rest(parts, tmp_path, place, target):
    shard = shutil.copytree(parts / "shard1", tmp_path / "shard")
    link = shard / "cache" / MODEL / "humaneval" / place
    link.unlink(missing_ok=True)
    link.symlink_to(link.name if target == "itself" else target)
    with pytest.raises(merge.PartlyMergedError) as error:
        merge.merge([shard], tmp_path / "results")
    (message,) = error.value.args
    assert str(link) in message
    assert list((tmp_path / "results" / "runs").rglob("*.jsonl.gz"))


def test_commands_report_a_mistake_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    for words in (["merge", str(tmp_path)], ["run", "--shard", "3/2"], ["run", "--shard", "x"]):
        monkeypatch.setattr("sys.argv", ["pkg-lib", *words])
        assert cli.main() == 2
        reported = capsys.readouterr().err
        assert reported.startswith("error: ")
        assert reported.count("\n") == 1


def test_shard_is_prepared_but_executes_no_notebook(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    choice = study.Choice((MODEL,), ("humaneval",), ("textbook",), limit=5, shard=(2, 2))
    plan = study.plan(choice)
    ids = [task.id for step in plan.steps for task in step.evaluator.run.tasks]
    assert ids == ["HumanEval/1", "HumanEval/3"]
    assert plan.jobs == []
