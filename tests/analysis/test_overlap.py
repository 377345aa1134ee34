"""Figure 6: regions that are a partition, counts by chance by hand, the greedy order, and both drawings."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from checks import CODE, TEXT, legible
from hypothesis import given
from hypothesis import strategies as st
from notebook_code import definitions

from pkg_lib.core.types import UserError
from pkg_lib.papers.pkg import overlap

FIGURES = definitions("overlap")
THREE = ["None", "Func-BM25", "Block-PKG"]
ROWS = [(1, 1, 1), (1, 1, 0), (1, 0, 0), (1, 0, 0), (0, 1, 1), (0, 1, 0), (0, 0, 0), (0, 0, 0)]
SMALL = pd.DataFrame(ROWS, [f"HumanEval/{i}" for i in range(8)], THREE).astype(bool)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_regions_part_the_tasks_and_so_do_their_chances(rows):
    passed = pd.DataFrame(rows, [str(i) for i in range(len(rows))], columns=THREE)
    parts = overlap.regions(passed)
    assert sorted(t for tasks in parts.values() for t in tasks) == sorted(passed.index)
    for region, tasks in parts.items():
        assert all(frozenset(passed.columns[passed.loc[t]]) == region for t in tasks)
    assert sum(overlap.by_chance(passed, r) for r in parts) == pytest.approx(len(passed))


def test_independent_columns_give_what_chance_gives():
    passed = pd.DataFrame(list(product([True, False], repeat=3)), columns=THREE)
    assert all(overlap.by_chance(passed, r) == len(t) == 1 for r, t in overlap.regions(passed).items())
    assert overlap.by_chance(SMALL, frozenset(THREE)) == 0.5


def test_intersections_come_by_size_without_nobodys():
    names = [overlap.named(region, THREE) for region in overlap.intersections(SMALL)]
    assert names[0] == "None" and "no column" not in names and len(names) == 5
    assert overlap.named(frozenset(), THREE) == "no column"


@given(st.lists(st.tuples(*[st.booleans()] * 4), min_size=1, max_size=30))
def test_the_greedy_order_ends_at_ideal_and_adds_less_and_less(rows):
    passed = pd.DataFrame(rows, columns=list("abcd"))
    steps = overlap.greedy(passed)
    added = [n for _, n, _ in steps]
    assert steps[-1][2] == passed.any(axis=1).sum() == sum(added)
    assert added == sorted(added, reverse=True) and added[0] == passed.sum().max()


def test_only_tasks_measured_in_all_columns_count(verdicts):
    verdicts.iloc[:15, 5] = pd.NA
    verdicts["Dense"] = pd.NA
    assert overlap.measured(verdicts) == ["None", "BM25", "Func-BM25", "Func-PKG", "Block-PKG"]
    assert len(overlap.solved(verdicts, THREE)) == 25 and len(overlap.solved(verdicts, THREE[:2])) == 40


def test_sets_follow_the_paper_the_kind_of_corpus_or_the_user(verdicts):
    assert overlap.chosen(verdicts, "") == THREE
    assert overlap.chosen(verdicts, "Dense+BM25") == ["Dense", "BM25"]
    assert overlap.chosen(pd.DataFrame({c: [True] for c in TEXT}), "") == ["None", "BM25", "JSON-PKG"]
    assert overlap.chosen(verdicts.assign(**{"Func-BM25": pd.NA}), "") == ["None", "Block-PKG"]
    with pytest.raises(UserError, match="no column 'Ideal'"):
        overlap.chosen(verdicts, "None+Ideal")
    for wrong in ("None", "None+None", "None+BM25+Dense+Func-PKG"):
        with pytest.raises(UserError, match="two or three different columns"):
            overlap.chosen(verdicts, wrong)


@pytest.mark.parametrize("columns", [THREE, THREE[:2], THREE[:1]])
@pytest.mark.parametrize("times", [0, 1, 120])
def test_the_venn_diagram_is_legible_and_shows_every_region(columns, times):
    passed = pd.concat([SMALL[columns]] * times) if times else SMALL[columns].iloc[:0]
    shown = legible(FIGURES["venn"](passed, "qwen2.5-coder-0.5b-instruct, humaneval"))
    if times and len(columns) > 1:
        counts = [str(len(t)) for t in overlap.regions(passed).values()]
        assert sorted(t for t in shown if t.isdigit()) == sorted(counts)
    else:
        assert "fewer than two columns are measured" in shown


def test_every_count_stands_in_its_region():
    for region in overlap.regions(SMALL):
        place = np.array(FIGURES["place"](THREE, region))
        circles = zip(THREE, FIGURES["CENTRES"][3], strict=True)
        around = {c for c, centre in circles if np.linalg.norm(place - centre) < FIGURES["RADIUS"]}
        assert around == region


def many(tasks):
    solves = np.random.default_rng(3).random((tasks, 6)) < 0.4
    return pd.DataFrame(solves, [f"HumanEval/{i}" for i in range(tasks)], CODE[:6])


@pytest.mark.parametrize("passed", [many(164), many(20_000), many(0), SMALL, SMALL[["None"]]], ids=len)
def test_the_upset_plot_is_legible_and_says_what_it_leaves_out(passed):
    title = "qwen2.5-coder-0.5b-instruct, HumanEval (164 tasks), corpus textbook+stdlib"
    figure = FIGURES["upset"](passed, title)
    shown = legible(figure, 17.0)
    sizes = [len(tasks) for tasks in overlap.intersections(passed).values()]
    assert [b.get_height() for b in figure.axes[0].patches] == sizes[: FIGURES["LARGEST"]]
    assert any("not drawn" in t for t in shown) == (len(sizes) > FIGURES["LARGEST"])
