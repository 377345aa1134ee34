"""Test the evaluation of external samples: error reports, evaluation of the rest, comparison of verdicts."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest

from pkg_lib.core.store import ROOT, write_jsonl
from pkg_lib.core.types import Outcome, Task, UserError
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.papers.pkg import replay as module
from pkg_lib.papers.pkg.replay import (
    CANDIDATES,
    find_samples,
    read_samples,
    replay,
    replayed,
    tabulate,
    verdict_frame,
)

PUBLISHED = {
    ("claude-3-haiku", "humaneval"): (122, 118, 121, 117, 111, 121, 144),
    ("gpt-4o", "humaneval"): (145, 146, 147, 146, 147, 147, 157),
    ("claude-3-haiku", "mbpp"): (336, 338, 330, 338, 335, 338, 365),
    ("gpt-4o", "mbpp"): (407, 403, 415, 408, 407, 417, 430),
}
METHODS = ("no_rag", "bm25", "voyage_emb", "voyage_func", "voyage_block", "reranked", "ideal")


@pytest.fixture
def three(monkeypatch):
    """Limit HumanEval to its first three tasks."""
    tasks = load_benchmark("humaneval", 3)
    monkeypatch.setattr(module, "load_benchmark", lambda name: tasks)
    return tasks


def write(folder: Path, method: str, lines: list[str]) -> Path:
    path = folder / "humaneval" / f"{method}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(("\n".join(lines) + "\n").encode("utf8", "surrogateescape"))
    return path


def row(task: str, completion: str, **more) -> str:
    return json.dumps({"task_id": task, "completion": completion} | more)


def test_reports_every_bad_line_and_keeps_the_others(tmp_path, three):
    lines = [
        row("HumanEval/1", "    pass", passed=False, result="failed"),
        '{"task_id": "HumanEv',
        "",
        "[1]",
        '{"task_id": "HumanEval/2"}',
        row("HumanEval/999", "x"),
        row("HumanEval/1", "    return 1"),
        row("HumanEval/0", "x"),
        '{"task_id": "HumanEval/2", "completion": null}',
        "\udcff",
    ]
    path = write(tmp_path, "m", lines)
    samples, (*problems, last) = read_samples(path, three)
    assert samples[["task_id", "completion", "published"]].to_numpy().tolist() == [
        ["HumanEval/0", "x", None],
        ["HumanEval/1", "    pass", False],
        ["HumanEval/2", None, None],
        ["HumanEval/1", "    return 1", None],
    ]
    assert [p.split(" is damaged: ")[0] for p in problems] == [
        f"{path}, line {n}" for n in (2, 4, 5, 6, 9, 10)
    ]
    assert f"{path}, line 6 is damaged: unknown task_id 'HumanEval/999'" in problems
    assert last.startswith(
        f"{path}: 1 of 3 tasks have no completion (damaged lines that are left out: 6)"
    )


def test_rejects_nan_only_in_fields_that_are_read(tmp_path, three):
    lines = [
        row("HumanEval/0", "x", score=float("nan")),
        row("HumanEval/1", "x", passed=float("nan")),
    ]
    samples, problems = read_samples(write(tmp_path, "m", lines), three)
    assert samples.completion.notna().sum() == 1 and "line 2 is damaged" in problems[0]


def test_replay_writes_the_table_and_the_disagreements(tmp_path, three):
    right = [t.solution for t in three]
    texts = (right[0], "    return 0\n", "    return 0\n")
    rows = zip(three, texts, (True, True, False), strict=True)
    write(tmp_path, "none", [row(t.id, text, passed=passed) for t, text, passed in rows])
    write(tmp_path, "block", [row(three[0].id, "    return 0\n"), row(three[1].id, right[1])])
    write(tmp_path, "reranked", [row(t.id, t.solution) for t in three])
    done = replay(tmp_path, tmp_path / "out")
    table = done.table.set_index("method")
    assert list(table.index) == ["block", "none", "reranked", "ideal"]
    assert table.passed.to_dict() == {"block": 1, "none": 1, "reranked": 3, "ideal": 2}
    assert table.not_measured.to_dict() == {"block": 1, "none": 0, "reranked": 0, "ideal": 1}
    assert table["pass@1"].to_dict() == {
        "block": 50.0,
        "none": 33.3,
        "reranked": 100.0,
        "ideal": 100.0,
    }
    assert table.published["none"] == 2 and pd.isna(table.published["block"])
    assert table.disagree["none"] == 1
    assert [c for c in table if c.startswith("pass@")] == ["pass@1"]
    assert done.disagreements.task_id.tolist() == [three[1].id]
    assert (
        len(done.problems) == 1
        and f"1 of 3 tasks have no completion: {three[2].id}" in done.problems[0]
    )
    assert (tmp_path / "out" / "table.csv").is_file()
    assert len(pd.read_csv(tmp_path / "out" / "disagreements.csv")) == 1
    assert not list((tmp_path / "out").rglob("*.tmp"))


def test_reuses_finished_files_and_runs_changed_files_again(tmp_path, three, monkeypatch):
    path = write(tmp_path, "none", [row(t.id, t.solution, passed=True) for t in three])
    first = replay(tmp_path, tmp_path / "out")
    calls = []
    real = module.run_jobs
    monkeypatch.setattr(module, "run_jobs", lambda *a, **how: (calls.append(1), real(*a, **how))[1])
    again = replay(tmp_path, tmp_path / "out")
    pd.testing.assert_frame_equal(first.outcomes, again.outcomes)
    assert not calls
    path.write_text(path.read_text().replace("return", "return None and"))
    assert replay(tmp_path, tmp_path / "out").table.passed.tolist() == [0]
    (tmp_path / "out" / "humaneval" / "none.done.json").unlink()
    replay(tmp_path, tmp_path / "out")
    assert len(calls) == 2


def test_rejects_wrong_directories_and_protocols(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "m.jsonl").write_text("")
    with pytest.raises(UserError, match="holds no"):
        find_samples(tmp_path)
    with pytest.raises(UserError, match="unknown protocol"):
        replay(tmp_path, tmp_path, protocol="strict")


def test_mbpp_ids_may_be_numbers(tmp_path):
    path = tmp_path / "mbpp" / "m.jsonl"
    path.parent.mkdir()
    path.write_text("\n".join(row(task, "x") for task in (11, "11", "MBPP/11")))
    samples, problems = read_samples(path, [Task("MBPP/11", "mbpp", "", "f")])
    assert samples["task_id"].tolist() == ["MBPP/11"] * 3 and not problems


def test_pass_at_k_requires_k_samples_of_every_task(tmp_path, three):
    samples = {0: "RW", 1: "WW", 2: "RWR"}
    text = {"R": lambda t: t.solution, "W": lambda t: "    return 0\n"}
    lines = [row(three[i].id, text[c](three[i])) for i, letters in samples.items() for c in letters]
    write(tmp_path, "none", lines)
    done = replay(tmp_path, tmp_path / "out")
    (method,) = done.table.to_dict("records")
    assert (method["method"], method["tasks"], method["passed"], method["failed"]) == (
        "none",
        3,
        3,
        4,
    )
    assert method["pass@1"] == pytest.approx(100 * (1 / 2 + 0 + 2 / 3) / 3, abs=0.05)
    assert method["pass@2"] == pytest.approx(100 * (1 + 0 + 1) / 3, abs=0.05)
    assert "pass@5" not in method and "published" not in method
    again = replay(tmp_path, tmp_path / "out")
    pd.testing.assert_frame_equal(done.outcomes, again.outcomes)
    assert sorted(again.outcomes["sample"]) == [0, 0, 0, 1, 1, 1, 2]


def test_the_oracle_needs_two_candidates_that_were_both_measured():
    verdicts = {
        "1": ("failed", "passed"),
        "2": ("passed", "not_measured"),
        "3": ("failed", "failed"),
    }
    rows = [
        ("b", m, t, s, None)
        for t, pair in verdicts.items()
        for m, s in zip("xy", pair, strict=True)
    ]
    frame = pd.DataFrame(rows, columns=["benchmark", "method", "task_id", "status", "published"])
    *_, last = tabulate(frame).itertuples()
    assert (last.method, last.passed, last.failed, last.not_measured) == ("ideal", 1, 1, 1)
    without = frame[frame.method == "x"]
    assert list(tabulate(pd.concat([without, without.assign(method="reranked")])).method) == [
        "reranked",
        "x",
    ]


def outcomes(*passed):
    verdicts = [Outcome("passed") if p else Outcome("failed", "AssertionError") for p in passed]
    return dict(zip([f"HumanEval/{i}" for i in range(4)], verdicts, strict=True))


def test_the_authors_files_become_methods_of_this_study(tmp_path):
    rows = [
        {"task_id": "HumanEval/0", "status": "passed", "error": "", "detail": "", "seconds": 0.1}
    ]
    for method in ("no_rag", "voyage_block"):
        judged = [row | {"benchmark": "humaneval", "method": method} for row in rows]
        write_jsonl(tmp_path / "replay" / "m" / "humaneval" / f"{method}.jsonl.gz", judged)
    assert set(replayed(tmp_path, "m", "humaneval")) == {"NoRAG", "Block-PKG"}
    assert replayed(tmp_path, "m", "mbpp") == {}
    with pytest.raises(UserError, match="replay DIR"):
        replayed(tmp_path, "other", "humaneval")


def test_the_oracle_is_the_union_of_all_candidates():
    every = {c: outcomes(c == "BM25", c == "NoRAG", 0, 0) for c in CANDIDATES}
    frame = verdict_frame(every | {"Reranked": outcomes(1, 1, 1, 1)})
    assert list(frame["Ideal Reranker"]) == [True, True, False, False]
    del every["VoyageEmb"]
    assert (
        verdict_frame(every)["Ideal Reranker"].isna().all()
        and len(verdict_frame(every, limit=2)) == 2
    )


@pytest.mark.parametrize("model", ["claude-3-haiku", "gpt-4o"])
def test_committed_replays_match_the_counts_of_the_paper(model):
    table = pd.read_csv(ROOT / "results" / "replay" / model / "table.csv").set_index(
        ["benchmark", "method"]
    )
    for benchmark in ("humaneval", "mbpp"):
        assert tuple(table.passed[benchmark][list(METHODS)]) == PUBLISHED[model, benchmark]
    assert not table.disagree.any()


@pytest.mark.slow
@pytest.mark.skipif(
    not {"PKG_PAPER_DIR", "PKG_MBPP_DIR"} <= os.environ.keys(),
    reason="PKG_PAPER_DIR and PKG_MBPP_DIR name the published samples and MBPP",
)
def test_published_verdicts_are_reproduced(tmp_path, monkeypatch):
    """This covers the first 30 tasks. The committed replays cover all of them."""
    monkeypatch.setattr(module, "load_benchmark", lambda name: load_benchmark(name, 30))
    done = replay(Path(os.environ["PKG_PAPER_DIR"]) / "samples" / "claude-3-haiku", tmp_path)
    assert len(done.outcomes) == 2 * 6 * 30 and set(done.outcomes.status) == {"passed", "failed"}
    assert done.disagreements.empty
