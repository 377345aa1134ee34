"""Figure 6: regions that are a partition, counts by chance by hand, the greedy order, and both figures."""

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
ROWS = [(1, 1, 1), (1, 1, 0), (1, 0, 0), (1, 0, 0), (0, 1, 1), (0, 1, 0), (0, 0, 0), (0, 0, 0)]
SMALL = pd.DataFrame(ROWS, [f"HumanEval/{i}" for i in range(8)], THREE).astype(bool)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_regions_part_the_tasks_and_so_do_their_chances(rows):
    solved = pd.DataFrame(rows, [str(i) for i in range(len(rows))], columns=THREE)
    parts = exact_regions(solved)
    assert sorted(t for tasks in parts.values() for t in tasks) == sorted(solved.index)
    for region, tasks in parts.items():
        assert all(frozenset(solved.columns[solved.loc[t]]) == region for t in tasks)
    assert sum(expected_by_chance(solved, r) for r in parts) == pytest.approx(len(solved))
    assert expected_by_chance(SMALL, frozenset(THREE)) == 0.5


@given(st.lists(st.tuples(*[st.booleans()] * 4), min_size=1, max_size=30))
def test_the_greedy_order_ends_at_ideal_and_adds_less_and_less(rows):
    solved = pd.DataFrame(rows, columns=list("abcd"))
    steps = greedy_order(solved)
    added = steps["adds"].tolist()
    assert steps["together"].iloc[-1] == solved.any(axis=1).sum() == sum(added)
    assert added == sorted(added, reverse=True) and added[0] == solved.sum().max()


def test_of_methods_that_add_equally_many_the_first_comes_first():
    assert list(greedy_order(SMALL.iloc[-2:]).index) == THREE


def test_sets_follow_the_paper_the_kind_of_corpus_or_the_user():
    verdicts = pd.DataFrame({c: [True] for c in CODE}).astype("boolean")
    assert venn_methods(verdicts) == THREE
    assert venn_methods(verdicts, "VoyageEmb+BM25") == ["VoyageEmb", "BM25"]
    text = pd.DataFrame({c: [True] for c in TEXT}).astype("boolean")
    assert venn_methods(text) == ["NoRAG", "BM25", "JSON-PKG"]
    assert venn_methods(verdicts.assign(**{"Func-BM25": pd.NA})) == ["NoRAG", "Block-PKG"]
    with pytest.raises(UserError, match="unknown method 'Ideal Reranker' in sets"):
        venn_methods(verdicts, "NoRAG+Ideal Reranker")
    for wrong in ("NoRAG", "NoRAG+NoRAG", "NoRAG+BM25+VoyageEmb+Func-PKG"):
        with pytest.raises(UserError, match="two or three different methods"):
            venn_methods(verdicts, wrong)


def test_tasks_that_a_method_did_not_measure_are_in_no_region():
    verdicts = SMALL.astype("boolean")
    verdicts.iloc[0, 1] = pd.NA
    assert "HumanEval/0" not in overlap.solved_tasks(verdicts, THREE).index
    assert "HumanEval/0" in overlap.solved_tasks(verdicts, ["NoRAG"]).index


def test_tables_hold_every_region_the_tasks_of_one_method_and_what_each_adds():
    regions = overlap.regions_table(SMALL, "HumanEval").frame
    assert len(regions) == 8 and regions.loc["NoRAG", "tasks"] == "2"
    assert regions.loc["NoRAG + Func-BM25 + Block-PKG", "by chance"] == "0.5"
    assert (regions["in the paper (CodeLlama-7B)"] != DASH).sum() == 3
    assert (overlap.regions_table(SMALL, "MBPP").frame.iloc[:, -1] == DASH).all()
    alone = overlap.alone_table(SMALL).frame
    assert alone["tasks solved by no other method"].tolist() == ["2, 3", "5", "none"]
    gains = overlap.gains_table(SMALL).frame
    assert gains["solved so far"].tolist() == [4, 6, 6]
    assert gains.loc["2. Func-BM25"].tolist() == [4, 2, "2.0", 6, "75.0"]
    sizes = overlap.intersections_table(SMALL).frame["tasks"]
    assert sizes.index[-1] == "no method" and sizes.sum() == 8 and sizes.iloc[0] == 2


def test_tables_and_findings_without_a_task_show_no_number():
    nothing = SMALL.iloc[:0]
    assert (overlap.regions_table(nothing, "HumanEval").frame.iloc[:, :4] == DASH).all(axis=None)
    assert (overlap.gains_table(nothing).frame["% of tasks"] == DASH).all()
    assert "Fewer than two" in overlap.venn_findings(nothing)[0]
    assert overlap.gain_findings(nothing) == []


def test_findings_give_counts_with_their_chance_and_methods_that_add_nothing():
    first, alone = overlap.venn_findings(SMALL)
    assert "1 (by chance 0.5)" in first and "NoRAG 2 (by chance 1.5)" in alone
    together, useless = overlap.gain_findings(SMALL)
    assert "6 of 8 tasks" in together and "Func-BM25 adds 2" in together
    assert useless.endswith("Block-PKG.")


@pytest.mark.parametrize(
    ("columns", "times"), [(THREE, 120), (THREE[:2], 1), (THREE[:1], 1), (THREE, 0)]
)
def test_the_venn_diagram_is_legible_and_shows_every_region(columns, times):
    solved = pd.concat([SMALL[columns]] * times) if times else SMALL[columns].iloc[:0]
    shown = legible(draw_venn(solved, "qwen2.5-coder-0.5b-instruct, humaneval"))
    if times and len(columns) > 1:
        counts = [str(len(tasks)) for tasks in exact_regions(solved).values()]
        assert sorted(t for t in shown if t.isdigit()) == sorted(counts)
        methods = "both methods" if len(columns) == 2 else "all 3 methods"
        about = f"{len(solved)} tasks, measured with {methods}"
        assert [t for t in shown if t.endswith(about)], "the two figures may count different tasks"
    else:
        assert "fewer than two methods are measured" in shown


def test_every_count_is_placed_in_its_region():
    for region in exact_regions(SMALL):
        place = np.array(place_of_count(THREE, region))
        circles = zip(THREE, CENTRES[3], strict=True)
        around = {m for m, centre in circles if np.linalg.norm(place - centre) < RADIUS}
        assert around == region


def many(tasks):
    solves = np.random.default_rng(3).random((tasks, 6)) < 0.4
    return pd.DataFrame(solves, [f"HumanEval/{i}" for i in range(tasks)], CODE[:6])


@pytest.mark.parametrize("solved", [many(2_000), many(0), SMALL[["NoRAG"]]], ids=len)
def test_the_intersections_are_legible_and_say_what_they_leave_out(solved):
    title = "qwen2.5-coder-0.5b-instruct\nHumanEval, corpus textbook+stdlib"
    figure = draw_intersections(solved, title)
    shown = legible(figure)
    sizes = [len(tasks) for tasks in overlap.intersections(solved).values()]
    assert [b.get_height() for b in figure.axes[0].patches] == sizes[:LARGEST]
    assert any("smaller combinations" in t for t in shown) == (len(sizes) > LARGEST)
    if len(solved):
        about = f"{len(solved)} tasks, measured with all {solved.shape[1]} methods"
        assert [t for t in shown if t.startswith(about)]
