"""Samples against retrieval: equally many candidates of each family, and what selections make of them."""

from types import SimpleNamespace

import pandas as pd
import pytest

from pkg_lib.analysis.stats import BASELINE, ORACLE
from pkg_lib.evaluation.signals import Signals
from pkg_lib.papers.pkg import candidate_families as families
from tests.analysis.checks import legible

SAMPLES = [f"{BASELINE}, T0.8, {n}" for n in range(1, 6)]
TASKS = ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("retrieved", "samples", "expected"),
    [
        (
            "BM25 VoyageEmb Func-BM25 Func-PKG Block-PKG",
            5,
            ("VoyageEmb Func-BM25 Func-PKG Block-PKG", 4, "Func-PKG Block-PKG", 2),
        ),
        (
            "VoyageEmb Func-BM25 Func-PKG Block-PKG",
            4,
            ("VoyageEmb Func-BM25 Func-PKG Block-PKG", 4, "Func-PKG Block-PKG", 2),
        ),
        ("BM25 VoyageEmb JSON-PKG", 5, ("BM25 VoyageEmb JSON-PKG", 3, "VoyageEmb JSON-PKG", 1)),
        ("Func-PKG Block-PKG", 0, ("Func-PKG Block-PKG", 0, "", 0)),
    ],
)
def test_families_have_equally_many_candidates(retrieved, samples, expected):
    found = families.candidate_families([BASELINE, *retrieved.split(), *SAMPLES[:samples]])
    retrieving, count, half, of_samples = expected
    wanted = {
        families.RETRIEVAL: retrieving.split(),
        families.SAMPLES: SAMPLES[:count],
        families.BOTH: [*half.split(), *SAMPLES[:of_samples]],
    }
    assert found == {name: [BASELINE, *of] for name, of in wanted.items() if of}
    assert len({len(of) for of in found.values()}) == 1


def signals(passed):
    """Test-free signals of each task: how many of two visible examples pass."""
    found = {}
    for task, count in zip(TASKS, passed, strict=True):
        found[task] = Signals(task, "", count, 2, "", True, True, True, None, None)
    return found


def completions(prompt, new):
    return {task: SimpleNamespace(prompt_tokens=prompt, tokens=[0] * new) for task in TASKS}


@pytest.fixture
def candidates():
    """Func-PKG solves the last two tasks, the sample the second; visible examples tell each time."""
    verdicts = {
        BASELINE: [True, False, False, False],
        "Func-PKG": [False, False, True, True],
        SAMPLES[0]: [True, True, False, False],
    }
    known = {
        BASELINE: signals([2, 0, 0, 0]),
        "Func-PKG": signals([0, 0, 2, 1]),
        SAMPLES[0]: signals([2, 2, 0, 0]),
    }
    tokens = {
        BASELINE: completions(10, 5),
        "Func-PKG": completions(40, 5),
        SAMPLES[0]: completions(10, 6),
    }
    results = SimpleNamespace(
        corpus="textbook",
        model="m",
        benchmark="b",
        retrievers=[BASELINE, "Func-PKG"],
        completions=tokens.get,
    )
    frame = pd.DataFrame(verdicts, TASKS, dtype="boolean")
    return families.CandidateSet(results, known, frame, families.candidate_families(list(known)))


def test_visible_examples_select_and_the_best_single_method_is_known_in_hindsight(candidates):
    selected = candidates.select_in_family(families.RETRIEVAL)
    assert selected[families.VISIBLE].tolist() == [True, False, True, True]
    assert selected[families.BEST].tolist() == [False, False, True, True]
    assert selected[families.ALONE].tolist() == [True, False, False, False]
    assert selected[ORACLE].sum() == 3


def test_only_tasks_that_every_candidate_measured_count(candidates):
    candidates.verdicts.loc["a", SAMPLES[0]] = pd.NA
    assert list(candidates.select_in_family(families.RETRIEVAL).index) == ["b", "c", "d"]


def test_tables_of_selections_and_families(candidates):
    selections = families.family_selections({"run": candidates})
    rows = families.selections_table({"run": candidates}, selections).frame
    assert rows.loc["run, retrieval (2)", "tasks"] == 4
    assert rows.loc["run, retrieval (2)", "by visible examples"].startswith("75.0 (")
    assert rows.loc["run, samples (2)", f"{BASELINE} alone"].startswith("25.0 (")
    (visible, oracle) = families.families_table(selections).frame.index
    assert (visible, oracle) == ("run, by visible examples", f"run, {ORACLE}")
    cells = families.families_table(selections).frame.loc[visible]
    assert cells["only samples / only retrieval"] == "1 / 2"
    only = {("run", families.SAMPLES): selections["run", families.SAMPLES]}
    assert families.families_table(only).frame.empty


def test_equal_candidates_are_not_significantly_different_on_four_tasks(candidates):
    selections = families.family_selections({"run": candidates})
    (sentence,) = families.equal_candidates_finding(selections)
    assert "more tasks" in sentence and "in none of the 1 experiments" in sentence
    assert "fewer in none" in sentence
    samples_only = {("run", families.SAMPLES): selections["run", families.SAMPLES]}
    assert families.equal_candidates_finding(samples_only) == []


def test_a_token_curve_adds_candidates_one_by_one(candidates):
    curve = families.token_curve(candidates, families.RETRIEVAL)
    assert curve["tokens"].tolist() == [15.0, 60.0]
    assert curve["value"].tolist() == [25.0, 75.0]
    assert (curve["low"] < curve["value"]).all() and (curve["value"] < curve["high"]).all()


def test_the_figure_of_tokens_compares_samples_with_retrieval(candidates):
    shown = legible(families.token_curves_figure({"run": candidates}))
    assert {"run (4)", "plain samples", "retrieval"} <= set(shown)
    # One sample reaches 50 % at 31 tokens, where the line of retrieval is at 43 %.
    message = (
        "At equal tokens, samples are ahead of retrieval\n"
        "in {} experiments with both (estimates),\ncorpus textbook\nm"
    )
    assert message.format("1 of 1") in shown
    del candidates.families[families.SAMPLES]
    shown = legible(families.token_curves_figure({"run": candidates}))
    assert "plain samples:\nnot measured" in shown
    assert message.format("0 of 0") in shown


def test_the_gate_saves_tokens_where_the_baseline_passes_its_examples(candidates):
    row = families.gate_table({"run": candidates}, "c").frame.loc["run, Func-PKG"]
    assert (row["tasks"], row[BASELINE]) == (4, "25.0")
    # The first task alone passes its examples: 45 of 240 tokens at most are saved.
    assert float(row["tokens saved, %"]) == pytest.approx(100 * 45 / 240, abs=0.1)
    assert (
        row[f"{BASELINE}, and retrieval where it fails the examples"] == "75.0"
        and row["retrieval used, % of tasks"] == "75.0"
    )


def test_samples_are_tabulated_with_pass_at_k_and_runs_without_them_are_left_out():
    frame = pd.DataFrame({1: [True, False], 2: [False, False]}, dtype="boolean")
    sampled = SimpleNamespace(sample_names=lambda *_: [1, 2], verdicts=lambda _: frame)
    without = SimpleNamespace(sample_names=lambda *_: [])
    rows = families.samples_table({"with": sampled, "without": without}, 0.8).frame
    assert rows.loc["with"].tolist()[:2] == [2, 2]
    assert rows.loc["with", "pass@1"].startswith("25.0 (")
    assert rows.loc["with", "pass@2"].startswith("50.0 (") and rows.loc["with", "pass@5"] == "–"
    assert "without" not in rows.index


@pytest.mark.parametrize(("samples", "more"), [(0.5, False), (0.6, True), (0.4, False)])
def test_samples_solve_more_only_above_the_rate_of_retrieval_at_their_tokens(samples, more):
    at_100_tokens = pd.DataFrame({"tokens": [100], "value": [samples]})
    retrieval = pd.DataFrame({"tokens": [50, 150], "value": [0.4, 0.6]})
    assert families.samples_solve_more(at_100_tokens, retrieval) == more
