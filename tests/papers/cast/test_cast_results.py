"""Stored results of cAST as tables and figures read them.

They hold verdicts, similarity of bodies, retrieval measures and controls.
"""

from types import SimpleNamespace

import pandas as pd
import pytest

from pkg_lib.analysis.stats import BASELINE
from pkg_lib.analysis.tables import DASH
from pkg_lib.core.store import write_json, write_text
from pkg_lib.core.types import UnavailableError, UserError
from pkg_lib.evaluation.controls import ControlError
from pkg_lib.papers.cast.cast_figures import pass_rate_figure
from pkg_lib.papers.cast.cast_findings import main_finding, repoeval_findings
from pkg_lib.papers.cast.cast_results import (
    CHAT,
    CHAT_BENCHMARK,
    PACKAGES_BENCHMARK,
    REPOEVAL,
    REPOEVAL_ROWS,
    REPOEVAL_TESTS,
    CastResults,
    load_cast_results,
    load_further_results,
)
from pkg_lib.papers.cast.cast_steps import BASELINES, VARIANTS, mappings, measured_beside
from pkg_lib.papers.cast.cast_tables import (
    chunk_size_table,
    context_length_table,
    merging_table,
    models_table,
    repoeval_tests_table,
)
from pkg_lib.papers.cast.function_bodies import longer, sized
from tests.analysis.checks import legible

MODEL = "some-model"
METHOD = "cast, BM25"
ROWS = """task_id,package,ranker,chunking,mapping,nDCG@5
a,p,BM25,cast,mean,0.5
b,p,BM25,cast,mean,
a,p,BM25,cast,own,1.0
a,p,MiniLM,cast,mean,0.25
a,p,BM25,fixed-size,own,0.75
"""


class StoredRun:
    """Results on one benchmark, built from literal values.

    Args:
        tasks: Task ids in order.
        verdicts: Verdicts of each method by task.
        similarities: Edit similarity of each method by task.
        controls: Verdicts of each control row by task.
    """

    def __init__(self, tasks, verdicts, similarities=(), controls=()):
        self.tasks = [SimpleNamespace(id=task) for task in tasks]
        self.similarities = dict(similarities)
        self.retrievers = dict.fromkeys([*verdicts, *self.similarities])
        self.benchmark_spec = SimpleNamespace(controls={"right": True, "empty": False})
        self.stored_verdicts = pd.DataFrame(verdicts, dtype="boolean")
        self.stored_controls = dict(controls)

    def verdicts(self):
        return self.stored_verdicts.copy()

    def measures(self, method):
        values = self.similarities.get(method, {})
        return pd.DataFrame({"edit": values}, dtype=float)

    def controls(self):
        return self.stored_controls

    def provenance(self):
        return {"model": MODEL}


def verdicts_of(**by_task):
    return pd.Series(by_task, dtype="boolean")


def cast_of(folder, **runs):
    return CastResults(MODEL, runs, folder)


@pytest.fixture
def cast(tmp_path):
    """Results on the tasks a and b, on their chat benchmark, and on RepoEval's task x."""
    packages = StoredRun(
        ["a", "b"],
        verdicts={
            BASELINE: verdicts_of(b=True, a=False),
            METHOD: verdicts_of(a=True),
            "cast, MiniLM": verdicts_of(a=None, b=None),
        },
        similarities={METHOD: {"b": 0.5, "gone": 0.9}, "split-only, MiniLM": {}},
    )
    chat = StoredRun(
        ["a", "b"],
        verdicts={BASELINE: verdicts_of(a=True, b=True)},
        similarities={BASELINE: {"a": 1.0}},
    )
    repoeval = StoredRun(["x"], verdicts={}, similarities={METHOD: {"x": 0.25}})
    runs = {PACKAGES_BENCHMARK: packages, CHAT_BENCHMARK: chat, REPOEVAL: repoeval}
    return cast_of(tmp_path, **runs)


def test_verdicts_follow_the_order_of_the_tasks_and_omit_unmeasured_methods(cast):
    assert list(cast.verdicts) == [BASELINE, METHOD, CHAT]
    assert cast.verdicts[BASELINE].tolist() == [False, True]
    assert cast.verdicts[METHOD].isna().tolist() == [False, True]
    without = cast_of(cast.folder, packages=cast.packages)
    assert CHAT not in without.verdicts


def test_a_method_without_verdicts_is_missing_for_every_task(cast):
    missing = cast.verdicts_of("cast, MiniLM")
    assert missing.isna().all()
    assert list(missing.index) == ["a", "b"]
    assert cast.verdicts_of(METHOD)["a"]


def test_reads_similarity_from_the_benchmark_of_the_method(cast):
    assert cast.body_match(METHOD, "edit").to_dict() == {"b": 0.5}
    assert cast.body_match(CHAT, "edit").to_dict() == {"a": 1.0}
    assert cast.body_match(METHOD, "edit", REPOEVAL).to_dict() == {"x": 0.25}


@pytest.mark.parametrize("method", ["split-only, MiniLM", "no such method"])
def test_unmeasured_similarity_is_empty(cast, method):
    assert cast.body_match(method, "edit").empty
    assert cast_of(cast.folder, packages=cast.packages).body_match(METHOD, "edit", REPOEVAL).empty


def test_selects_a_ranking_by_ranker_chunking_and_mapping(cast):
    write_text(cast.folder / "retrieval.csv", ROWS)
    assert cast.ranking("BM25", "cast", "nDCG@5").to_dict() == {"a": 0.5}
    assert cast.ranking("BM25", "cast", "nDCG@5", "own").to_dict() == {"a": 1.0}
    assert cast.ranking("MiniLM", "cast", "nDCG@5").to_dict() == {"a": 0.25}
    assert cast.ranking("BM25", "fixed-size", "nDCG@5").to_dict() == {"a": 0.75}
    assert cast.ranking("BM25", "split-only", "nDCG@5").empty


def test_rankings_of_repoeval_are_empty_until_they_are_measured(cast):
    write_text(cast.folder / "retrieval.csv", ROWS)
    row = "cAST, own chunks"
    assert cast.repoeval_ranking("BM25", row, "nDCG@5").empty
    reloaded = CastResults(MODEL, cast.runs, cast.folder)
    write_text(cast.folder / REPOEVAL / "retrieval.csv", ROWS)
    assert reloaded.repoeval_ranking("BM25", row, "nDCG@5").to_dict() == {"a": 1.0}


@pytest.mark.parametrize(("chunking", "mapping"), REPOEVAL_ROWS.values(), ids=REPOEVAL_ROWS)
def test_the_retrieval_step_measures_every_row_of_the_repoeval_table(chunking, mapping):
    if (chunking, mapping) not in measured_beside("sliding-window"):
        assert chunking in VARIANTS | BASELINES
        assert mapping in mappings(chunking, REPOEVAL)


def test_names_the_step_whose_results_are_missing(cast):
    with pytest.raises(UnavailableError, match="chunk_statistics"):
        _ = cast.chunk_statistics


def test_the_provenance_includes_every_step(cast):
    for step in ("tasks", "retrieval", "chunk_statistics"):
        write_json(cast.folder / f"{step}.meta.json", {"step": step})
    provenance = cast.provenance()
    assert provenance["generator"] == {"model": MODEL}
    assert provenance["retrieval"] == {"step": "retrieval"}


@pytest.mark.parametrize(("passes", "is_right"), [(True, True), (False, False)])
def test_rejects_a_control_row_with_the_wrong_outcome(tmp_path, passes, is_right):
    controls = {"right": verdicts_of(a=passes), "empty": verdicts_of(a=False)}
    cast = cast_of(tmp_path, packages=StoredRun(["a"], {}, controls=controls))
    if is_right:
        cast.check_controls()
        return
    with pytest.raises(ControlError, match="right"):
        cast.check_controls()


def test_a_model_without_stored_verdicts_is_unavailable(tmp_path):
    with pytest.raises(UnavailableError, match=MODEL):
        load_cast_results(tmp_path, MODEL)


def test_the_figure_of_pass_rates_groups_contexts_by_retriever(tmp_path):
    tasks = [f"t{number}" for number in range(20)]
    passed = {BASELINE: 0, "fixed-size, BM25": 0, "cast, BM25": 20, longer(8000, "BM25"): 2}
    verdicts = {}
    for name, count in passed.items():
        verdicts[name] = verdicts_of(**{task: at < count for at, task in enumerate(tasks)})
    chat = StoredRun(tasks, verdicts={BASELINE: verdicts["cast, BM25"]})
    packages = StoredRun(tasks, verdicts)
    results = cast_of(tmp_path, packages=packages, **{CHAT_BENCHMARK: chat})
    figure = pass_rate_figure(results)
    shown = legible(figure)
    rows = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert rows == [
        "no retrieval",
        f"{BASELINE} (20)",
        f"{CHAT} (20)",
        "BM25",
        "fixed-size (20)",
        "cAST (20)",
    ]
    assert [text for text in shown if text.endswith("chunks for 1 of 1 retrievers")]


@pytest.fixture
def tested(cast):
    """The results of `cast`, with two of three methods on four functions of RepoEval that tests judge."""
    sound = {"right": verdicts_of(w=True, x=True, y=True, z=True)}
    sound["empty"] = ~sound["right"]
    cast.packages.stored_controls = {
        "right": verdicts_of(a=True, b=True),
        "empty": verdicts_of(a=False, b=False),
    }
    cast.runs[REPOEVAL_TESTS] = StoredRun(
        list("wxyz"),
        verdicts={
            BASELINE: verdicts_of(w=False, x=False, y=False, z=True),
            METHOD: verdicts_of(w=True, x=True, y=False, z=True),
        },
        controls=sound,
    )
    return cast


def test_functions_of_repoeval_that_tests_judge_have_rates_and_dashes(tested):
    table = repoeval_tests_table(tested).frame
    assert table.loc[BASELINE, "Pass@1"].startswith("25.0 (")
    row = table.loc[METHOD]
    assert (row["n"], row["difference from NoRAG"]) == ("4", "+50.0")
    assert (row["helped"], row["hurt"]) == ("2", "0")
    assert set(table.loc["fixed-size, BM25"]) == {DASH}
    assert repoeval_findings(tested) == []
    verdicts = tested.runs[REPOEVAL_TESTS].stored_verdicts
    verdicts["fixed-size, BM25"] = verdicts[BASELINE]
    del tested.repoeval_verdicts
    (sentence,) = repoeval_findings(tested)
    assert "+50.0 percentage points" in sentence


def test_without_runs_on_repoeval_every_cell_is_a_dash(cast):
    assert set(repoeval_tests_table(cast).frame.to_numpy().ravel()) == {DASH}


def test_checks_the_controls_of_both_benchmarks(tested):
    tested.check_controls()
    tested.runs[REPOEVAL_TESTS].stored_controls["empty"]["y"] = True
    with pytest.raises(ControlError, match="empty"):
        tested.check_controls()


@pytest.fixture
def variants(tmp_path):
    """Two package functions and two of RepoEval: variants pass one, cAST itself passes none."""
    names = ["split-only, BM25", sized(1500, "BM25"), longer(4000, "BM25")]
    verdicts = {"cast, BM25": verdicts_of(a=False, b=False)}
    verdicts |= {name: verdicts_of(a=True, b=False) for name in names}
    packages = StoredRun(["a", "b"], verdicts)
    packages.benchmark_spec.budgets = {"context_tokens": 1000}
    on_repoeval = {longer(8000, "BM25"): verdicts_of(x=True, y=True)}
    repoeval = StoredRun(["x", "y"], on_repoeval)
    write_text(tmp_path / "retrieval.csv", ROWS)
    return cast_of(tmp_path, packages=packages, **{REPOEVAL_TESTS: repoeval})


def cells_of(table, *words):
    """Cells of the one row whose label has these words, those of other studies left out."""
    (label,) = [row for row in table.frame.index if all(word in row for word in words)]
    return table.frame.loc[label].tolist()


def test_table_2_has_pass_rates_of_split_only(variants):
    cells = cells_of(merging_table(variants), "package functions", "Pass@1")
    assert cells[0].startswith("0.0 (")
    assert cells[2].startswith("50.0 (")
    assert {cells[1], cells[3]} == {DASH}


def test_table_3_has_the_length_of_each_context(variants):
    table = context_length_table(variants)
    assert list(table.frame)[1:] == ["3,500 tokens", "4,000 tokens", "8,000 tokens"]
    default, *longer_cells = cells_of(table, "package functions", "BM25")
    assert default.startswith("0.0 (")
    assert [cell[:4] for cell in longer_cells] == [DASH, "50.0", DASH]
    assert cells_of(table, "with tests", "BM25")[3].startswith("100.0 (")


def test_table_4_has_pass_rates_of_each_maximum_size(variants):
    cells = cells_of(chunk_size_table(variants), "package functions", "Pass@1, BM25")
    assert [cell[:4] for cell in cells] == [DASH, "50.0", "0.0 ", DASH, DASH]


def test_the_main_finding_counts_completed_functions_and_tests_the_difference(tmp_path):
    tasks = [f"t{number}" for number in range(12)]
    chunked = verdicts_of(**{task: at < 9 for at, task in enumerate(tasks)})
    fixed = verdicts_of(**dict.fromkeys(tasks, False))
    both = {"cast, BM25": chunked, "fixed-size, BM25": fixed}
    (sentence,) = main_finding(cast_of(tmp_path, packages=StoredRun(tasks, both)))
    assert "9 of 12 functions" in sentence
    assert "is significant: +75.0" in sentence
    one = StoredRun(tasks, {"cast, BM25": chunked})
    assert main_finding(cast_of(tmp_path, packages=one)) == []


def test_the_table_of_models_has_a_row_for_each_model_and_measured_retriever(tmp_path):
    tasks = [f"t{number}" for number in range(12)]
    chunked = verdicts_of(**{task: at < 9 for at, task in enumerate(tasks)})
    fixed = verdicts_of(**dict.fromkeys(tasks, False))
    both = {BASELINE: fixed, "cast, BM25": chunked, "fixed-size, BM25": fixed}
    small = cast_of(tmp_path, packages=StoredRun(tasks, both))
    large = CastResults(
        "large", {PACKAGES_BENCHMARK: StoredRun(tasks, {BASELINE: chunked})}, tmp_path
    )
    table = models_table([small, large])
    row = table.frame.loc[f"{MODEL}, BM25"]
    assert row["cAST"].startswith("75.0 (")
    assert row["cAST minus fixed-size"] == "+75.0"
    assert table.frame.loc["large, BM25", "NoRAG"].startswith("75.0 (")
    assert table.frame.loc["large, BM25", "cAST"] == DASH


def test_further_models_are_those_that_are_measured(tmp_path):
    assert load_further_results(tmp_path, "") == ([], [])
    larger = "qwen2.5-coder-1.5b-instruct"
    assert load_further_results(tmp_path, larger) == ([], [larger])
    assert larger in models_table([], [larger]).notes[-1]
    with pytest.raises(UserError, match="no-such-model"):
        load_further_results(tmp_path, "no-such-model")
