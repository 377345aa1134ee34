"""A run in shards, joined: the same as the run as a whole; what disagrees is refused, what is torn is named."""

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

COLUMNS = ["NoRAG", "Func-BM25", "NoRAG, T0.8, 1"]
LIMIT = 5
TEXT = (
    "def first(values):\n    return values[0]\n\n\ndef total(numbers):\n    return sum(numbers)\n"
)


def answer(request):
    return f"```python\ndef {request.entry_point}(*a):\n    return {len(request.text) % 3}\n```"


def complete(results, shard=(1, 1)):
    run = Results(MODEL, limit=LIMIT, results=results, shard=shard)
    Evaluator(run, backend=FakeBackend(answer)).prepare(COLUMNS)
    return run


def files(results):
    """name -> bytes, with the seconds that each run measured anew set to 0."""

    def same(value):
        if isinstance(value, dict):
            return {k: 0 if k == "seconds" else same(v) for k, v in value.items()}
        return [same(v) for v in value] if isinstance(value, list) else value

    def text(path):
        if path.suffix == ".json":
            return path.read_text()
        return "".join(json.dumps(same(row)) + "\n" for row in read_rows(path))

    return {p.relative_to(results).as_posix(): text(p) for p in results.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """The results of the whole run, and of its two shards."""
    folder = tmp_path_factory.mktemp("shards")
    knowledge = Knowledge([Document("a", TEXT)], WordEmbedder())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Results, "knowledge", property(lambda run: knowledge))
        for module in (signals, pipeline):
            patch.setattr(module, "Embedder", WordEmbedder)
        patch.setattr(pipeline, "versions", lambda: {"commit": "of the day"})
        shards = [(n, 2) for n in (1, 2)]
        runs = [complete(folder / f"shard{n}", (n, of)) for n, of in shards]
        whole = complete(folder / "whole")
    assert sorted(t.id for r in runs for t in r.tasks) == sorted(t.id for t in whole.tasks)
    assert [len(r.tasks) for r in runs] == [3, 2]
    return folder


def test_shards_joined_are_the_whole_run(parts, tmp_path):
    shards = [parts / f"shard{n}" for n in (2, 1)]
    lines = merge.merge(shards, tmp_path)
    assert "cache/qwen2.5-coder-0.5b-instruct/humaneval/none/norag.jsonl: 5 added" in lines
    joined = files(tmp_path)
    assert joined == files(parts / "whole") and len(joined) > 15
    run = Results(MODEL, limit=LIMIT, results=tmp_path)
    assert not Evaluator(run).lacks(COLUMNS) and run.verdicts(COLUMNS).notna().all(axis=None)
    before = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in tmp_path.rglob("*") if p.is_file()}
    assert merge.merge(shards, tmp_path) == []
    assert {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in before} == before


def test_packed_shards_are_joined_too(parts, tmp_path):
    shards = [shutil.copytree(parts / f"shard{n}", tmp_path / f"shard{n}") for n in (1, 2)]
    for folder in shards:
        pack(folder / "cache")
    merge.merge(shards[:1], tmp_path / "results")
    pack(tmp_path / "results" / "cache")
    merge.merge(shards[1:], tmp_path / "results")
    assert files(tmp_path / "results") == files(parts / "whole")


@pytest.mark.parametrize("changed", ["raw", "solution", "text"])
def test_two_answers_for_one_key_are_refused_by_name(parts, tmp_path, changed):
    other = shutil.copytree(parts / "shard1", tmp_path / "other")
    of_none = method_files(other, MODEL, "humaneval", "", "NoRAG")
    path = {"raw": of_none.completions, "solution": of_none.samples, "text": of_none.contexts}[
        changed
    ]
    row, *rest = read_rows(path)
    write_jsonl(path, (row | {changed: "x"}, *rest))
    with pytest.raises(UserError) as error:
        merge.merge([parts / "shard1", other], tmp_path / "results")
    assert str(path) in str(error.value) and row["task_id"] in str(error.value)
    assert not (tmp_path / "results").exists()


def test_plain_rows_of_an_earlier_version_do_not_count_beside_packed_ones(parts, tmp_path):
    results = shutil.copytree(parts / "shard2", tmp_path / "results")
    for path in [*(results / "runs").rglob("*.jsonl.gz")]:
        write_jsonl(path.with_suffix(""), [row | {"status": "stale"} for row in read_rows(path)])
    merge.merge([parts / "shard1"], results)
    assert files(results) == files(parts / "whole")


def test_what_only_the_machine_decides_is_no_disagreement(parts, tmp_path):
    other = shutil.copytree(parts / "shard1", tmp_path / "other")
    for path in other.rglob("*.jsonl*"):
        rows = read_rows(path)
        rows = [r | {n: 99.5 for n in ("seconds",) if n in r} for r in rows]
        rows = [r | ({"meta": r["meta"] | {"seconds": 99.5}} if "meta" in r else {}) for r in rows]
        write_jsonl(path, rows)
    merge.merge([parts / "shard1", other], tmp_path / "results")
    assert files(tmp_path / "results") == files(parts / "shard1")


def test_a_torn_last_line_is_named_and_left_out(parts, tmp_path):
    torn = shutil.copytree(parts / "shard2", tmp_path / "torn")
    (path,) = (torn / "cache").rglob("none/norag.jsonl")
    path.write_bytes(path.read_bytes()[:-20])
    lines = merge.merge([torn], tmp_path / "results")
    assert f"{path}, line 2 is damaged and left out: it is cut off" in lines
    run = Results(MODEL, limit=LIMIT, results=tmp_path / "results", shard=(2, 2))
    assert len(run.completions("NoRAG")) == 1
    merge.merge([parts / "shard2"], tmp_path / "results")  # the whole of it later
    assert files(tmp_path / "results") == files(parts / "shard2")


def test_a_damaged_verdict_of_the_target_is_named_and_replaced(parts, tmp_path):
    results = shutil.copytree(parts / "shard1", tmp_path / "results")
    (path,) = (results / "runs").rglob("none/norag/samples.jsonl.gz")
    first, *rest = read_rows(path)
    write_jsonl(path, (first | {"status": "PASSED"}, *rest))
    lines = merge.merge([parts / "shard1"], results)
    assert any(line.startswith(f"{path}, line 1 is damaged") for line in lines)
    assert files(results).items() >= files(parts / "shard1").items()


@pytest.mark.parametrize(
    "place", ["none/norag.jsonl", "none/norag.jsonl.gz", "extra", "extra.jsonl", "f.json"]
)
@pytest.mark.parametrize("target", ["nosuchfile", "itself", ".."])
def test_a_link_that_is_not_followed_is_named_and_the_rest_is_merged(
    parts, tmp_path, place, target
):
    shard = shutil.copytree(parts / "shard1", tmp_path / "shard")
    link = shard / "cache" / MODEL / "humaneval" / place
    link.unlink(missing_ok=True)
    link.symlink_to(link.name if target == "itself" else target)
    with pytest.raises(merge.PartlyMerged) as error:
        merge.merge([shard], tmp_path / "results")
    assert len(error.value.args) == 1 and str(link) in error.value.args[0]
    assert list((tmp_path / "results" / "runs").rglob("*.jsonl.gz"))


def test_commands_refuse_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    for words in (["merge", str(tmp_path)], ["run", "--shard", "3/2"], ["run", "--shard", "x"]):
        monkeypatch.setattr("sys.argv", ["pkg-lib", *words])
        assert cli.main() == 2
        said = capsys.readouterr().err
        assert said.startswith("error: ") and said.count("\n") == 1


def test_a_shard_is_prepared_and_shown_by_no_notebook(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    plan = study.plan(study.Choice((MODEL,), ("humaneval",), ("textbook",), limit=5, shard=(2, 2)))
    assert [t.id for step in plan.steps for t in step.evaluator.run.tasks] == [
        "HumanEval/1",
        "HumanEval/3",
    ]
    assert plan.jobs == []
