"""Figure 6: regions that are a partition, counts by chance by hand, the greedy order, and both drawings."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from checks import legible
from hypothesis import given
from hypothesis import strategies as st

from pkg_lib.analysis.figures import save_figure
from pkg_lib.analysis.tables import CODE, DASH, TEXT
from pkg_lib.core.types import UserError
from pkg_lib.papers.pkg import overlap, overlap_figures

THREE = ["None", "Func-BM25", "Block-PKG"]
SMALL = pd.DataFrame(
    {
        "None": [1, 1, 1, 1, 0, 0, 0, 0],
        "Func-BM25": [1, 1, 0, 0, 1, 1, 0, 0],
        "Block-PKG": [1, 0, 0, 0, 1, 0, 0, 0],
    },
    [f"HumanEval/{i}" for i in range(8)],
).astype(bool)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_regions_part_the_tasks_and_so_do_their_chances(rows):
    passed = pd.DataFrame(rows, [str(i) for i in range(len(rows))], columns=THREE)
    found = overlap.regions(passed)
    assert sorted(t for tasks in found.values() for t in tasks) == sorted(passed.index)
    for region, tasks in found.items():
        assert all(frozenset(passed.columns[passed.loc[t]]) == region for t in tasks)
    assert sum(overlap.by_chance(passed, r) for r in found) == pytest.approx(len(passed))


def test_independent_columns_give_what_chance_gives():
    passed = pd.DataFrame(list(product([True, False], repeat=3)), columns=THREE)
    assert all(overlap.by_chance(passed, r) == len(t) == 1 for r, t in overlap.regions(passed).items())


def test_regions_beside_the_paper_where_it_prints_them():
    frame = overlap.region_grid(SMALL, "humaneval").frame
    assert frame["tasks"].tolist() == ["1", "1", "0", "2", "1", "1", "0", "2"]
    assert frame["published (CodeLlama-7B)"].tolist() == ["27", DASH, DASH, DASH, DASH, "12", "16", DASH]
    assert frame.at["None + Func-BM25 + Block-PKG", "by chance"] == "0.5"
    assert set(overlap.region_grid(SMALL, "mbpp").frame["published (CodeLlama-7B)"]) == {DASH}
    assert set(
        overlap.region_grid(SMALL[["None", "Block-PKG"]], "humaneval").frame["published (CodeLlama-7B)"]
    ) == {DASH}


def test_intersections_come_by_size_and_nobodys_last():
    frame = overlap.intersection_grid(SMALL).frame
    assert frame.index.tolist()[0] == "None" and frame.index[-1] == "no column"
    assert (
        frame["tasks"].astype(int).sum() == 8 and frame["tasks"].astype(int).iloc[:-1].is_monotonic_decreasing
    )


def test_tasks_of_one_column_alone_are_named():
    frame = overlap.alone_grid(SMALL).frame
    assert frame.loc["None"].tolist() == ["4", "2", "1.5", "2, 3"]
    assert frame.loc["Block-PKG"].tolist() == ["2", "0", "0.5", "none"]


@given(st.lists(st.tuples(*[st.booleans()] * 4), min_size=1, max_size=30))
def test_the_greedy_order_ends_at_ideal_and_adds_less_and_less(rows):
    passed = pd.DataFrame(rows, columns=list("abcd"))
    steps = overlap.greedy(passed)
    added = [n for _, n, _ in steps]
    assert steps[-1][2] == passed.any(axis=1).sum() == sum(added)
    assert added == sorted(added, reverse=True) and added[0] == passed.sum().max()


def test_what_a_column_adds_and_would_add_by_chance():
    frame = overlap.greedy_grid(SMALL).frame
    assert frame.index.tolist() == ["1. None", "2. Func-BM25", "3. Block-PKG"]
    assert frame.loc["2. Func-BM25"].tolist() == ["4", "2", "2.0", "6", "75.0"]
    assert frame.loc["3. Block-PKG"].tolist() == ["2", "0", "0.5", "6", "75.0"]


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


def test_findings_follow_the_regions():
    said = overlap.findings(SMALL, SMALL)
    assert said[0] == (
        "Of 8 tasks measured in None, Func-BM25, Block-PKG, all 3 solve 1 (0.5 if they were independent) and none solves 2 (1.5)."
    )
    assert "None 2 (by chance 1.5), Func-BM25 1 (by chance 1.5), Block-PKG 0 (by chance 0.5)" in said[1]
    assert "solve 6 of 8 tasks; None alone solves 4, then Func-BM25 adds 2, Block-PKG adds 0" in said[2]
    assert said[3] == "Without loss to Ideal one can leave out: Block-PKG."
    assert overlap.findings(SMALL[["None"]], SMALL)[0].startswith("Fewer than two columns")
    assert overlap.findings(SMALL.iloc[:0], SMALL.iloc[:0])[0].startswith("Fewer than two columns")


@pytest.mark.parametrize("columns", [THREE, THREE[:2], THREE[:1]])
@pytest.mark.parametrize("times", [0, 1, 120])
def test_the_venn_diagram_is_legible_and_shows_every_region(columns, times):
    passed = pd.concat([SMALL[columns]] * times) if times else SMALL[columns].iloc[:0]
    shown = legible(overlap_figures.venn(passed, "qwen2.5-coder-0.5b-instruct, humaneval"))
    if times and len(columns) > 1:
        counts = [str(len(t)) for t in overlap.regions(passed).values()]
        assert sorted(t for t in shown if t.isdigit()) == sorted(counts)
    else:
        assert "fewer than two columns are measured" in shown


def test_every_count_stands_in_its_region():
    def inside(place, centre):
        return np.hypot(place[0] - centre[0], place[1] - centre[1]) < overlap_figures.RADIUS

    for region in overlap.regions(SMALL):
        place = overlap_figures.middle(THREE, region)
        circles = zip(THREE, overlap_figures.CENTRES[3], strict=True)
        assert frozenset(c for c, centre in circles if inside(place, centre)) == region


def many(tasks):
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {c: rng.random(tasks) < 0.4 for c in CODE[:6]}, [f"HumanEval/{i}" for i in range(tasks)]
    )


@pytest.mark.parametrize("passed", [many(164), many(20_000), many(0), SMALL, SMALL[["None"]]], ids=len)
def test_the_upset_plot_is_legible_and_says_what_it_leaves_out(passed):
    figure = overlap_figures.upset(
        passed, "qwen2.5-coder-0.5b-instruct, HumanEval (164 tasks), corpus textbook+stdlib"
    )
    shown = legible(figure, 17.0)
    bars = [b.get_height() for b in figure.axes[0].patches]
    found = [len(t) for _, t in overlap.intersections(passed)] if len(passed) else []
    assert bars == found[: overlap_figures.LARGEST]
    assert any("not drawn" in t for t in shown) == (len(found) > overlap_figures.LARGEST)


def test_the_same_bytes_twice(tmp_path):
    for draw in (overlap_figures.venn, overlap_figures.upset):
        a, b = (save_figure(draw(SMALL, "m"), tmp_path / n) for n in "ab")
        assert all(a[k].read_bytes() == b[k].read_bytes() for k in a)
