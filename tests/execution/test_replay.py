"""Samples from elsewhere: what is wrong is named, the rest is evaluated, verdicts are compared."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest

from pkg_lib.core.types import UserError
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.papers.pkg import replay as module
from pkg_lib.papers.pkg.replay import find_samples, read_samples, replay, tabulate, task_id_of

PUBLISHED = {
    ("claude-3-haiku", "humaneval"): (122, 118, 121, 117, 111, 121, 144),
    ("gpt-4o", "humaneval"): (145, 146, 147, 146, 147, 147, 157),
    ("claude-3-haiku", "mbpp"): (336, 338, 330, 338, 335, 338, 365),
    ("gpt-4o", "mbpp"): (407, 403, 415, 408, 407, 417, 430),
}
METHODS = ("no_rag", "bm25", "voyage_emb", "voyage_func", "voyage_block", "reranked", "ideal")


@pytest.fixture
def three(monkeypatch):
    """HumanEval cut to its first three tasks."""
    tasks = load_benchmark("humaneval", 3)
    monkeypatch.setattr(module, "load_benchmark", lambda name: tasks)
    return tasks


def write(folder: Path, method: str, lines: list[str]) -> Path:
    path = folder / "humaneval" / f"{method}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf8")
    return path


def row(task: str, completion: str, **more) -> str:
    return json.dumps({"task_id": task, "completion": completion} | more)


def test_every_bad_line_is_named_and_the_rest_kept(tmp_path, three):
    good = row("HumanEval/1", "    pass", passed=False, result="failed")
    lines = [
        good,
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
    path = tmp_path / "humaneval" / "m.jsonl"
    path.parent.mkdir()
    path.write_bytes("\n".join(lines).encode("utf8", "surrogateescape"))
    samples = read_samples(path, three)
    assert samples.completions == {
        "HumanEval/1": [("    pass", False), ("    return 1", None)],
        "HumanEval/0": [("x", None)],
    }
    *lines, last = samples.problems
    assert [p.split(":")[1] for p in lines] == ["2", "4", "5", "6", "9", "10"]
    assert f"{path}:6: unknown task_id 'HumanEval/999'" in lines
    assert last == f"{path}: 1 of 3 tasks have no completion: HumanEval/2"


def test_replay_table_ideal_and_disagreements(tmp_path, three):
    right = [t.solution for t in three]
    write(
        tmp_path,
        "none",
        [
            row(three[0].id, right[0], passed=True),
            row(three[1].id, "    return 0\n", passed=True),
            row(three[2].id, "    return 0\n", passed=False),
        ],
    )
    write(tmp_path, "block", [row(three[0].id, "    return 0\n"), row(three[1].id, right[1])])
    write(tmp_path, "reranked", [row(t.id, t.solution) for t in three])
    done = replay(tmp_path, tmp_path / "out")
    table = done.table.set_index("method")
    assert list(table.index) == ["block", "none", "reranked", "ideal"]
    assert table.passed.to_dict() == {"block": 1, "none": 1, "reranked": 3, "ideal": 2}
    assert table.not_measured.to_dict() == {"block": 1, "none": 0, "reranked": 0, "ideal": 1}
    assert table["pass@1"].to_dict() == {"block": 50.0, "none": 33.3, "reranked": 100.0, "ideal": 100.0}
    assert table.published["none"] == 2 and pd.isna(table.published["block"])
    assert table.disagree["none"] == 1
    assert [c for c in table if c.startswith("pass@")] == ["pass@1"]
    assert done.disagreements.task_id.tolist() == [three[1].id]
    assert len(done.problems) == 1 and f"1 of 3 tasks have no completion: {three[2].id}" in done.problems[0]
    assert (tmp_path / "out" / "table.csv").is_file()
    assert len(pd.read_csv(tmp_path / "out" / "disagreements.csv")) == 1
    assert not list((tmp_path / "out").rglob("*.tmp"))


def test_a_finished_file_is_read_back_and_a_changed_one_run_again(tmp_path, three, monkeypatch):
    path = write(tmp_path, "none", [row(t.id, t.solution, passed=True) for t in three])
    first = replay(tmp_path, tmp_path / "out")
    calls = []
    real = module.evaluate
    monkeypatch.setattr(module, "evaluate", lambda *a, **how: (calls.append(1), real(*a, **how))[1])
    again = replay(tmp_path, tmp_path / "out")
    pd.testing.assert_frame_equal(first.outcomes, again.outcomes)
    assert not calls
    path.write_text(path.read_text().replace("return", "return None and"))
    assert replay(tmp_path, tmp_path / "out").table.passed.tolist() == [0]
    (tmp_path / "out" / "humaneval" / "none.done.json").unlink()
    replay(tmp_path, tmp_path / "out")
    assert len(calls) == 2


def test_progress_names_the_file(tmp_path, three):
    write(tmp_path, "none", [row(t.id, t.solution) for t in three])
    seen = []
    replay(tmp_path, tmp_path / "out", progress=lambda name, n: seen.append((name, n)))
    assert seen == [("humaneval/none", n) for n in (1, 2, 3)]


def test_wrong_directories_are_refused(tmp_path):
    with pytest.raises(UserError, match="holds no"):
        find_samples(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "m.jsonl").write_text("")
    with pytest.raises(UserError, match="holds no"):
        find_samples(tmp_path)
    with pytest.raises(UserError, match="unknown protocol"):
        replay(tmp_path, tmp_path, protocol="strict")


def test_mbpp_ids_may_be_numbers():
    assert task_id_of("mbpp", 11) == task_id_of("mbpp", "11") == task_id_of("mbpp", "MBPP/11") == "MBPP/11"
    assert task_id_of("humaneval", "HumanEval/0") == "HumanEval/0"


def test_several_samples_a_task_give_pass_at_k_as_far_as_every_task_has_them(tmp_path, three):
    samples = {0: "RW", 1: "WW", 2: "RWR"}
    text = {"R": lambda t: t.solution, "W": lambda t: "    return 0\n"}
    lines = [row(three[i].id, text[c](three[i])) for i, letters in samples.items() for c in letters]
    write(tmp_path, "none", lines)
    done = replay(tmp_path, tmp_path / "out")
    (method,) = done.table.to_dict("records")
    assert (method["method"], method["tasks"], method["passed"], method["failed"]) == ("none", 3, 3, 4)
    assert method["pass@1"] == pytest.approx(100 * (1 / 2 + 0 + 2 / 3) / 3, abs=0.05)
    assert method["pass@2"] == pytest.approx(100 * (1 + 0 + 1) / 3, abs=0.05)
    assert "pass@5" not in method and "published" not in method
    again = replay(tmp_path, tmp_path / "out")
    pd.testing.assert_frame_equal(done.outcomes, again.outcomes)
    assert sorted(again.outcomes["sample"]) == [0, 0, 0, 1, 1, 1, 2]


def test_one_method_has_no_ideal(tmp_path, three):
    write(tmp_path, "none", [row(t.id, t.solution) for t in three])
    write(tmp_path, "reranked", [row(t.id, t.solution) for t in three])
    assert replay(tmp_path, tmp_path / "out").table.method.tolist() == ["none", "reranked"]


def test_ideal_is_not_measured_where_a_candidate_is_not():
    rows = [
        ("b", m, t, s, None)
        for t, pair in {
            "1": ("failed", "passed"),
            "2": ("passed", "not_measured"),
            "3": ("failed", "failed"),
        }.items()
        for m, s in zip("xy", pair, strict=True)
    ]
    table = tabulate(pd.DataFrame(rows, columns=["benchmark", "method", "task_id", "status", "published"]))
    ideal = table[table.method == "ideal"].iloc[0]
    assert (ideal.passed, ideal.failed, ideal.not_measured) == (1, 1, 1)


@pytest.mark.slow
@pytest.mark.skipif(
    "PKG_PAPER_DIR" not in os.environ, reason="PKG_PAPER_DIR names no directory with the published samples"
)
@pytest.mark.skipif(
    "PKG_MBPP_DIR" not in os.environ, reason="PKG_MBPP_DIR names no directory with mbpp.jsonl"
)
@pytest.mark.parametrize("model", ["claude-3-haiku", "gpt-4o"])
def test_every_published_verdict_is_reproduced(model, tmp_path):
    done = replay(Path(os.environ["PKG_PAPER_DIR"]) / "samples" / model, tmp_path)
    cells = done.table.set_index(["benchmark", "method"]).passed
    for benchmark in ("humaneval", "mbpp"):
        assert tuple(cells[benchmark][list(METHODS)]) == PUBLISHED[model, benchmark]
    assert len(done.outcomes) == 6 * (164 + 500)
    assert done.disagreements.empty
    assert not done.problems
