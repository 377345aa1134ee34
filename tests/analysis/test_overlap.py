"""Figure 6: regions that are a partition, counts by chance by hand, the greedy order, and both drawings."""

import numpy as np
import pandas as pd
import pytest
from checks import CODE, TEXT, legible
from hypothesis import given
from hypothesis import strategies as st
from notebook_code import definitions

from pkg_lib.core.types import UserError

OVERLAP = definitions("overlap")
THREE = ["NoRAG", "Func-BM25", "Block-PKG"]
ROWS = [(1, 1, 1), (1, 1, 0), (1, 0, 0), (1, 0, 0), (0, 1, 1), (0, 1, 0), (0, 0, 0), (0, 0, 0)]
SMALL = pd.DataFrame(ROWS, [f"HumanEval/{i}" for i in range(8)], THREE).astype(bool)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_regions_part_the_tasks_and_so_do_their_chances(rows):
    passed = pd.DataFrame(rows, [str(i) for i in range(len(rows))], columns=THREE)
    parts = OVERLAP["regions"](passed)
    assert sorted(t for tasks in parts.values() for t in tasks) == sorted(passed.index)
    for region, tasks in parts.items():
        assert all(frozenset(passed.columns[passed.loc[t]]) == region for t in tasks)
    assert sum(OVERLAP["by_chance"](passed, r) for r in parts) == pytest.approx(len(passed))
    assert OVERLAP["by_chance"](SMALL, frozenset(THREE)) == 0.5


@given(st.lists(st.tuples(*[st.booleans()] * 4), min_size=1, max_size=30))
def test_the_greedy_order_ends_at_ideal_and_adds_less_and_less(rows):
    passed = pd.DataFrame(rows, columns=list("abcd"))
    steps = OVERLAP["greedy"](passed)
    added = [n for _, n, _ in steps]
    assert steps[-1][2] == passed.any(axis=1).sum() == sum(added)
    assert added == sorted(added, reverse=True) and added[0] == passed.sum().max()


def test_sets_follow_the_paper_the_kind_of_corpus_or_the_user(verdicts):
    chosen = OVERLAP["chosen"]
    assert chosen(verdicts, "") == THREE
    assert chosen(verdicts, "VoyageEmb+BM25") == ["VoyageEmb", "BM25"]
    assert chosen(pd.DataFrame({c: [True] for c in TEXT}), "") == ["NoRAG", "BM25", "JSON-PKG"]
    assert chosen(verdicts.assign(**{"Func-BM25": pd.NA}), "") == ["NoRAG", "Block-PKG"]
    with pytest.raises(UserError, match="no column 'Ideal Reranker'"):
        chosen(verdicts, "NoRAG+Ideal Reranker")
    for wrong in ("NoRAG", "NoRAG+NoRAG", "NoRAG+BM25+VoyageEmb+Func-PKG"):
        with pytest.raises(UserError, match="two or three different columns"):
            chosen(verdicts, wrong)


@pytest.mark.parametrize(
    ("columns", "times"), [(THREE, 120), (THREE[:2], 1), (THREE[:1], 1), (THREE, 0)]
)
def test_the_venn_diagram_is_legible_and_shows_every_region(columns, times):
    passed = pd.concat([SMALL[columns]] * times) if times else SMALL[columns].iloc[:0]
    shown = legible(OVERLAP["venn"](passed, "qwen2.5-coder-0.5b-instruct, humaneval"))
    if times and len(columns) > 1:
        counts = [str(len(t)) for t in OVERLAP["regions"](passed).values()]
        assert sorted(t for t in shown if t.isdigit()) == sorted(counts)
    else:
        assert "fewer than two columns are measured" in shown


def test_every_count_stands_in_its_region():
    for region in OVERLAP["regions"](SMALL):
        place = np.array(OVERLAP["place"](THREE, region))
        circles = zip(THREE, OVERLAP["CENTRES"][3], strict=True)
        around = {c for c, centre in circles if np.linalg.norm(place - centre) < OVERLAP["RADIUS"]}
        assert around == region


def many(tasks):
    solves = np.random.default_rng(3).random((tasks, 6)) < 0.4
    return pd.DataFrame(solves, [f"HumanEval/{i}" for i in range(tasks)], CODE[:6])


@pytest.mark.parametrize("passed", [many(2_000), many(0), SMALL[["NoRAG"]]], ids=len)
def test_the_upset_plot_is_legible_and_says_what_it_leaves_out(passed):
    figure = OVERLAP["upset"](
        passed, "qwen2.5-coder-0.5b-instruct, HumanEval, corpus textbook+stdlib"
    )
    shown = legible(figure, 17.0)
    sizes = [len(tasks) for tasks in OVERLAP["intersections"](passed).values()]
    assert [b.get_height() for b in figure.axes[0].patches] == sizes[: OVERLAP["LARGEST"]]
    assert any("not drawn" in t for t in shown) == (len(sizes) > OVERLAP["LARGEST"])
