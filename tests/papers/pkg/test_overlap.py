"""Figure 6: a partition of the solved tasks, counts expected by chance, the greedy order and both figures."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg_lib.analysis.tables import DASH
from pkg_lib.core.types import UserError
from pkg_lib.papers.pkg import overlap
from pkg_lib.papers.pkg.overlap import exact_regions, expected_by_chance, greedy_order, venn_methods
from pkg_lib.papers.pkg.overlap_figures import (
    CENTRES,
    LARGEST,
    RADIUS,
    draw_intersections,
    draw_venn,
    place_of_count,
)
from tests.analysis.checks import CODE, TEXT, legible

THREE = ["NoRAG", "Func-BM25", "Block-PKG"]
# Whether each method solves each of eight tasks.
ROWS = [
    (1, 1, 1),
    (1, 1, 0),
    (1, 0, 0),
    (1, 0, 0),
    (0, 1, 1),
    (0, 1, 0),
    (0, 0, 0),
    (0, 0, 0),
]
SMALL = pd.DataFrame(ROWS, [f"HumanEval/{i}" for i in range(8)], THREE).astype(bool)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_regions_and_their_expected_counts_partition_the_tasks(rows):
    solved = pd.DataFrame(rows, [str(i) for i in range(len(rows))], columns=THREE)
    regions = exact_regions(solved)
    partitioned = []
    for region, tasks in regions.items():
        partitioned += tasks
        for task in tasks:
            assert frozenset(solved.columns[solved.loc[task]]) == region
    assert sorted(partitioned) == sorted(solved.index)
    total = sum(expected_by_chance(solved, region) for region in regions)
    assert total == pytest.approx(len(solved))
    assert expected_by_chance(SMALL, frozenset(THREE)) == 0.5


@given(st.lists(st.tuples(*[st.booleans()] * 4), min_size=1, max_size=30))
def test_the_greedy_order_adds_ever_fewer_tasks_and_ends_at_the_ideal(rows):
    solved = pd.DataFrame(rows, columns=list("abcd"))
    steps = greedy_order(solved)
    added = steps["adds"].tolist()
    assert steps["together"].iloc[-1] == solved.any(axis=1).sum() == sum(added)
    assert added == sorted(added, reverse=True)
    assert added[0] == solved.sum().max()


def test_the_greedy_order_breaks_ties_by_the_given_order():
    assert list(greedy_order(SMALL.iloc[-2:]).index) == THREE


def test_selects_the_sets_of_the_paper_the_corpus_or_the_user():
    verdicts = pd.DataFrame({method: [True] for method in CODE}).astype("boolean")
    assert venn_methods(verdicts) == THREE
    assert venn_methods(verdicts, "VoyageEmb+BM25") == ["VoyageEmb", "BM25"]
    text = pd.DataFrame({method: [True] for method in TEXT}).astype("boolean")
    assert venn_methods(text) == ["NoRAG", "BM25", "JSON-PKG"]
    unmeasured = verdicts.assign(**{"Func-BM25": pd.NA})
    assert venn_methods(unmeasured) == ["NoRAG", "Block-PKG"]
    with pytest.raises(UserError, match="unknown method 'Ideal Reranker' in sets"):
        venn_methods(verdicts, "NoRAG+Ideal Reranker")
    for wrong in ("NoRAG", "NoRAG+NoRAG", "NoRAG+BM25+VoyageEmb+Func-PKG"):
        with pytest.raises(UserError, match="two or three different methods"):
            venn_methods(verdicts, wrong)


def test_excludes_tasks_that_a_method_did_not_measure():
    verdicts = SMALL.astype("boolean")
    verdicts.iloc[0, 1] = pd.NA
    assert "HumanEval/0" not in overlap.solved_tasks(verdicts, THREE).index
    assert "HumanEval/0" in overlap.solved_tasks(verdicts, ["NoRAG"]).index


def test_tables_list_regions_tasks_of_a_single_method_and_gains():
    regions = overlap.regions_table(SMALL, "HumanEval").frame
    assert len(regions) == 8
    assert regions.loc["NoRAG", "tasks"] == "2"
    assert regions.loc["NoRAG + Func-BM25 + Block-PKG", "tasks by chance"] == "0.5"
    assert (regions["tasks in the paper (CodeLlama-7B)"] != DASH).sum() == 3
    on_mbpp = overlap.regions_table(SMALL, "MBPP").frame
    assert list(on_mbpp) == list(regions)[:-1], "the paper's figure is about HumanEval"
    alone = overlap.alone_table(SMALL).frame
    assert alone["tasks solved by no other method"].tolist() == ["2, 3", "5", "none"]
    gains = overlap.gains_table(SMALL).frame
    assert gains["solved so far"].tolist() == [4, 6, 6]
    assert gains.loc["2. Func-BM25"].tolist() == [4, 2, "2.0", 6, "75.0"]
    sizes = overlap.intersections_table(SMALL).frame["tasks"]
    assert sizes.index[-1] == "no method"
    assert sizes.sum() == 8
    assert sizes.iloc[0] == 2


def test_tables_and_findings_without_tasks_show_no_number():
    empty = SMALL.iloc[:0]
    regions = overlap.regions_table(empty, "HumanEval").frame
    assert (regions.iloc[:, :4] == DASH).all(axis=None)
    assert (overlap.gains_table(empty).frame["% of tasks"] == DASH).all()
    assert "Fewer than two" in overlap.venn_findings(empty)[0]
    assert overlap.gain_findings(empty) == []


def test_findings_report_expected_counts_and_methods_that_add_nothing():
    shared, alone = overlap.venn_findings(SMALL)
    assert "1 (by chance 0.5)" in shared
    assert "NoRAG 2 (by chance 1.5)" in alone
    together, without_gain = overlap.gain_findings(SMALL)
    assert "6 of 8 tasks" in together
    assert "Func-BM25 adds 2" in together
    assert without_gain.endswith("Block-PKG.")


@pytest.mark.parametrize(
    ("columns", "times"), [(THREE, 120), (THREE[:2], 1), (THREE[:1], 1), (THREE, 0)]
)
def test_the_venn_diagram_is_legible_and_shows_every_region(columns, times):
    solved = pd.concat([SMALL[columns]] * times) if times else SMALL[columns].iloc[:0]
    shown = legible(draw_venn(solved, "qwen2.5-coder-0.5b-instruct, humaneval"))
    if not times or len(columns) < 2:
        assert "fewer than two methods are measured" in shown
        return
    counts = [str(len(tasks)) for tasks in exact_regions(solved).values()]
    shown_counts = [text for text in shown if text.isdigit()]
    assert sorted(shown_counts) == sorted(counts)
    methods = "both methods" if len(columns) == 2 else "all 3 methods"
    note = f"{len(solved)} tasks, measured with {methods}"
    message = "the figure does not state its tasks; the two figures may count different ones"
    assert [text for text in shown if text.endswith(note)], message


def test_every_count_is_placed_in_its_region():
    for region in exact_regions(SMALL):
        place = np.array(place_of_count(THREE, region))
        around = set()
        for method, centre in zip(THREE, CENTRES[3], strict=True):
            if np.linalg.norm(place - centre) < RADIUS:
                around.add(method)
        assert around == region


def many(tasks):
    """Random verdicts of six methods on the given number of tasks."""
    solves = np.random.default_rng(3).random((tasks, 6)) < 0.4
    return pd.DataFrame(solves, [f"HumanEval/{i}" for i in range(tasks)], CODE[:6])


@pytest.mark.parametrize("solved", [many(2_000), many(0), SMALL[["NoRAG"]]], ids=len)
def test_the_intersections_are_legible_and_state_how_many_are_omitted(solved):
    title = "qwen2.5-coder-0.5b-instruct\nHumanEval, corpus textbook+stdlib"
    figure = draw_intersections(solved, title)
    shown = legible(figure)
    sizes = [len(tasks) for tasks in overlap.intersections(solved).values()]
    assert [bar.get_height() for bar in figure.axes[0].patches] == sizes[:LARGEST]
    states_omitted = any("smaller combinations" in text for text in shown)
    assert states_omitted == (len(sizes) > LARGEST)
    if len(solved):
        note = f"{len(solved)} tasks, measured with all {solved.shape[1]} methods"
        assert [text for text in shown if text.startswith(note)]


def test_overlap_of_few_tasks_is_not_said_to_exceed_chance():
    rows = [[True] * 3, [True] * 3, [True] * 3, [False] * 3]
    few = pd.DataFrame(rows, columns=["NoRAG", "Func-BM25", "Block-PKG"])
    assert overlap.venn_findings(few)[0].startswith("It is not shown that")
    many = pd.concat([few] * 10, ignore_index=True)
    assert overlap.venn_findings(many)[0].startswith("The methods solve the same tasks more often")
