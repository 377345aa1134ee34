"""Rates by topic and their figures, from made-up verdicts whose counts are known."""

import notebook_code
import numpy as np
import pandas as pd
import pytest
from checks import legible

from pkg_lib.analysis.tables import DASH, MINUS
from pkg_lib.core.types import UserError
from pkg_lib.papers.pkg import topic_rates
from pkg_lib.papers.pkg.topics import topics

NAMES = list(topics().index)
COLUMNS = ["None", "BM25", "Block-PKG", "Reranked"]
RADAR, MAPS = notebook_code.definitions("topics_radar"), notebook_code.definitions("umap_correctness")


def made(n=200):
    rng, ids = np.random.default_rng(3), [f"MBPP/{i}" for i in range(n)]
    rates = zip(COLUMNS, (0.6, 0.4, 0.5, 0.7), strict=True)
    frame = pd.DataFrame({c: rng.random(n) < rate for c, rate in rates}, ids)
    return frame.astype("boolean"), pd.Series(rng.choice(NAMES, n, p=[0.2] * 3 + [0.4 / 7] * 7), ids)


def two_topics():
    """20 tasks of each of two topics: Block-PKG solves all strings and no geometry, None half of each."""
    ids = [f"MBPP/{i}" for i in range(40)]
    topic = pd.Series([NAMES[0]] * 20 + [NAMES[3]] * 20, ids)
    frame = pd.DataFrame({"None": [True, False] * 20, "Block-PKG": [True] * 20 + [False] * 20}, ids)
    return frame.astype("boolean"), topic


def test_rates_and_differences_are_those_of_the_topic():
    rates = topic_rates.by_topic(*two_topics())
    strings, geometry = rates.loc[(NAMES[0], "Block-PKG")], rates.loc[(NAMES[3], "Block-PKG")]
    assert (strings["passed"], strings["measured"], strings["difference"]) == (20, 20, 0.5)
    assert geometry["difference"] == -0.5 and geometry["d_low"] < -0.5 < geometry["d_high"] < 0
    nothing = rates.loc[(NAMES[1], "Block-PKG")]
    assert nothing["total"] == 0 and np.isnan(nothing["rate"])
    everything = rates.loc[(topic_rates.ALL, "Block-PKG")]
    assert everything["difference"] == 0 and np.isnan(everything["p_holm"])
    assert strings["p_holm"] == pytest.approx(2 * strings["p"])


def test_not_measured_is_a_dash_and_lowers_n():
    verdicts, topic = two_topics()
    verdicts["Reranked"] = pd.array([pd.NA] * 40, dtype="boolean")
    verdicts.iloc[0, 1] = pd.NA
    rates = topic_rates.by_topic(verdicts, topic)
    shown, against = (rates.apply(RADAR[f], axis=1) for f in ("rate_text", "difference_text"))
    assert shown[NAMES[0], "Block-PKG"] == "100.0 (83.2 to 100.0, n=19)"
    assert (shown.xs("Reranked", level="column") == DASH).all()
    assert (against.xs("Reranked", level="column") == DASH).all()
    assert shown[NAMES[1], "None"] == DASH
    assert against[NAMES[3], "Block-PKG"].startswith(f"{MINUS}50.0 ({MINUS}")


def test_columns_are_what_the_corpus_offers():
    full = pd.DataFrame(columns=[*COLUMNS[:2], "Dense", "Func-BM25", "Func-PKG", *COLUMNS[2:], "Ideal"])
    assert topic_rates.columns_of(full, "Func-PKG") == ["None", "BM25", "Func-PKG", "Reranked"]
    published = full.drop(columns="BM25")
    assert topic_rates.columns_of(published, "Block-PKG") == ["None", "Func-BM25", "Block-PKG", "Reranked"]
    with pytest.raises(UserError, match=r"no column 'JSON-PKG'.*Block-PKG"):
        topic_rates.columns_of(full, "JSON-PKG")


def test_an_effect_that_topics_decide_is_told_from_one_that_they_do_not():
    verdicts, topic = two_topics()
    spread, p = topic_rates.uneven(verdicts["Block-PKG"], verdicts["None"], topic)
    assert spread == pytest.approx(0.5) and p < 0.001
    mixed = pd.Series(np.tile([NAMES[0], NAMES[0], NAMES[3], NAMES[3]], 10), topic.index)
    assert topic_rates.uneven(verdicts["Block-PKG"], verdicts["None"], mixed)[1] > 0.5
    assert topic_rates.uneven(verdicts["None"], verdicts["None"], topic) is None


def test_the_papers_statements_and_what_is_beyond_chance():
    verdicts, topic = two_topics()
    rates = topic_rates.by_topic(verdicts, topic)
    RADAR["column"] = "Block-PKG"
    here = RADAR["statements"](rates)
    assert here["topics with PKG above None"] == "1 of 2" and "topics with PKG above BM25" not in here
    assert here[f"PKG minus None, {NAMES[0]}"] == "+50.0"
    assert here["PKG minus None, Data Structures"] == DASH
    (sentence,) = RADAR["against_none"](rates, "Block-PKG")
    assert "above None in 1 and below in 1 of 2" in sentence
    assert "String Manipulation" in sentence and "Geometry" in sentence


def drawings(verdicts, topic):
    rates = topic_rates.by_topic(verdicts, topic)
    rng = np.random.default_rng(0)
    points = pd.DataFrame(rng.random((len(verdicts), 2)), columns=["x", "y"], index=verdicts.index)
    title = "qwen2.5-coder-0.5b-instruct, MBPP"
    return {
        "radar": RADAR["radar"](rates, title),
        "differences": RADAR["differences"](rates, title),
        "maps": MAPS["outcome_maps"](points, verdicts[["None", "Reranked"]], topic, title),
    }


@pytest.fixture(params=["full", "some not measured", "Reranked not measured", "few", "all solved"])
def any_verdicts(request):
    verdicts, topic = made(8 if request.param == "few" else 200)
    if request.param == "some not measured":
        verdicts.iloc[:60] = pd.NA
    if request.param == "Reranked not measured":
        verdicts["Reranked"] = pd.array([pd.NA] * len(verdicts), dtype="boolean")
    if request.param == "all solved":
        verdicts[:] = True
    return verdicts, topic


def test_texts_are_at_least_7_pt_inside_the_figure_and_do_not_overlap(any_verdicts):
    for name, figure in drawings(*any_verdicts).items():
        legible(figure, 17 if name == "maps" else 8.5)


def test_radar_has_a_line_for_each_measured_column_alone():
    verdicts, topic = made()
    verdicts["Reranked"] = pd.array([pd.NA] * len(verdicts), dtype="boolean")
    figures = drawings(verdicts, topic)
    for name in ("radar", "differences"):
        drawn = [t.get_text() for t in figures[name].legends[0].get_texts()]
        assert drawn == [c for c in COLUMNS[:3] if name == "radar" or c != "None"]
    line = figures["radar"].axes[0].lines[0].get_ydata()
    strings = verdicts["None"][topic == NAMES[0]].mean()
    assert len(line) == 11 and line[0] == line[-1] == pytest.approx(100 * strings)


def test_maps_draw_every_task_once_and_count_them_in_one_legend():
    verdicts, topic = made()
    verdicts.iloc[:5, 0] = pd.NA
    figure = drawings(verdicts, topic)["maps"]
    axes, solved = figure.axes[0], int(verdicts["None"].sum())
    counts = [len(c.get_offsets()) for c in axes.collections]
    assert (len(axes.lines[0].get_xdata()), *counts) == (5, 195 - solved, solved)
    assert axes.get_title(loc="left") == f"None: {solved}/195 solved"
    shares = [verdicts[c][topic == NAMES[0]].dropna() for c in ("None", "Reranked")]
    outcomes, shapes = ([t.get_text() for t in legend.get_texts()] for legend in figure.legends)
    assert outcomes == ["solved", "not solved", "not measured"] and len(shapes) == 10
    assert shapes[0] == f"Strings {', '.join(f'{int(s.sum())}/{len(s)}' for s in shares)}"
