"""Rates by topic, their findings and figures, from made-up verdicts whose counts are known."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from checks import legible

from pkg_lib.analysis.figures import save_figure
from pkg_lib.analysis.tables import DASH, MINUS
from pkg_lib.core.types import UserError
from pkg_lib.papers.pkg import topic_figures, topic_rates
from pkg_lib.papers.pkg.topics import topics

NAMES = list(topics().index)
COLUMNS = ["None", "BM25", "Block-PKG", "Reranked"]


def made(n=200, seed=3, columns=COLUMNS):
    rng = np.random.default_rng(seed)
    ids = [f"MBPP/{i}" for i in range(n)]
    frame = pd.DataFrame(
        {c: rng.random(n) < rate for c, rate in zip(columns, (0.6, 0.4, 0.5, 0.7), strict=False)}, ids
    )
    return frame.astype("boolean"), pd.Series(rng.choice(NAMES, n, p=[0.2] * 3 + [0.4 / 7] * 7), ids)


def two_topics():
    """20 tasks of each of two topics: Block-PKG solves all strings and no geometry, None half of each."""
    ids = [f"MBPP/{i}" for i in range(40)]
    topic = pd.Series([NAMES[0]] * 20 + [NAMES[3]] * 20, ids)
    frame = pd.DataFrame({"None": [True, False] * 20, "Block-PKG": [True] * 20 + [False] * 20}, ids)
    return frame.astype("boolean"), topic


def test_rates_and_differences_are_those_of_the_topic():
    found = topic_rates.by_topic(*two_topics())
    strings, geometry = found.loc[(NAMES[0], "Block-PKG")], found.loc[(NAMES[3], "Block-PKG")]
    assert (strings["passed"], strings["measured"], strings["difference"]) == (20, 20, 0.5)
    assert geometry["difference"] == -0.5 and geometry["d_low"] < -0.5 < geometry["d_high"] < 0
    assert found.at[(NAMES[1], "Block-PKG"), "total"] == 0 and np.isnan(
        found.at[(NAMES[1], "Block-PKG"), "rate"]
    )
    assert found.at[(topic_rates.ALL, "Block-PKG"), "difference"] == 0
    assert found.at[(NAMES[0], "Block-PKG"), "p_holm"] == pytest.approx(
        2 * found.at[(NAMES[0], "Block-PKG"), "p"]
    )


def test_rates_are_set_beside_each_other_on_the_same_tasks():
    verdicts, _ = two_topics()
    verdicts["Reranked"], verdicts.iloc[3, 1] = pd.NA, pd.NA
    assert list(topic_rates.common(verdicts).index) == [f"MBPP/{i}" for i in range(40) if i != 3]
    assert len(topic_rates.common(verdicts[["Reranked"]])) == 40


def test_not_measured_is_a_dash_and_lowers_n():
    verdicts, topic = two_topics()
    verdicts["Reranked"] = pd.NA
    verdicts.iloc[0, 1] = pd.NA
    table = topic_rates.grid(topic_rates.by_topic(verdicts.astype("boolean"), topic), "mbpp").frame
    assert table.at[NAMES[0], "Block-PKG"] == "100.0 (83.2 to 100.0, n=19)"
    assert (table["Reranked"] == DASH).all() and (table["Reranked against None"] == DASH).all()
    assert table.at[NAMES[1], "None"] == DASH and table.at[NAMES[1], "tasks"] == "0"
    assert table.at[NAMES[3], "Block-PKG against None"].startswith(f"{MINUS}50.0 ({MINUS}")


def test_columns_are_what_the_corpus_offers():
    full = pd.DataFrame(
        columns=["None", "BM25", "Dense", "Func-BM25", "Func-PKG", "Block-PKG", "Reranked", "Ideal"]
    )
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


def test_findings_name_topics_beyond_chance_and_set_them_beside_the_paper():
    verdicts, topic = two_topics()
    said = topic_rates.findings(topic_rates.by_topic(verdicts, topic), verdicts, topic, "Block-PKG")
    text = " ".join(said)
    assert "Block-PKG is above None in 1 and below in 1 of 2 measured topics, beyond chance in String" in text
    assert "The effect of Block-PKG depends on the topic beyond chance" in text
    assert "Block-PKG is in 1 of 2." in text
    assert f"String Manipulation and Text Processing +50.0; Data Structures {DASH}." in text


def test_findings_say_what_is_not_measured():
    verdicts, topic = two_topics()
    verdicts["None"] = pd.array([pd.NA] * 40, dtype="boolean")
    said = topic_rates.findings(topic_rates.by_topic(verdicts, topic), verdicts, topic, "Block-PKG")
    assert said == ["Not measured: None.", "Without None there is nothing to compare a column with."]


def test_replayed_rates_leave_out_what_has_nothing_of_the_benchmark(tmp_path):
    (tmp_path / "replay" / "other").mkdir(parents=True)
    found = topic_rates.replayed_rates(tmp_path, "other", "mbpp", pd.Series(dtype=object), "Block-PKG")
    assert found == {} and topic_rates.replay_findings(found, "Block-PKG") == []
    assert (topic_rates.replay_grid(found, "mbpp").frame == DASH).all(axis=None)


def drawings(verdicts, topic):
    found = topic_rates.by_topic(verdicts, topic)
    rng = np.random.default_rng(0)
    points = pd.DataFrame(rng.random((len(verdicts), 2)), columns=["x", "y"], index=verdicts.index)
    title = "qwen2.5-coder-0.5b-instruct, MBPP"
    return {
        "radar": topic_figures.radar(found, title),
        "differences": topic_figures.topic_differences(found, title),
        "maps": topic_figures.outcome_maps(points, verdicts[["None", "Reranked"]], topic, title),
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


@pytest.mark.parametrize(("name", "width"), [("radar", 8.5), ("differences", 8.5), ("maps", 17)])
def test_texts_are_at_least_7_pt_inside_the_figure_and_do_not_overlap(name, width, any_verdicts):
    legible(drawings(*any_verdicts)[name], width)


def test_radar_has_a_line_for_each_measured_column_alone():
    verdicts, topic = made()
    verdicts["Reranked"] = pd.array([pd.NA] * len(verdicts), dtype="boolean")
    figure = drawings(verdicts, topic)["radar"]
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["None", "BM25", "Block-PKG"]
    line = figure.axes[0].lines[0].get_ydata()
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
    assert (
        outcomes == ["solved", "not solved", "not measured"]
        and len(shapes) == 10
        and axes.get_legend() is None
    )
    assert shapes[0] == f"Strings {', '.join(f'{int(s.sum())}/{len(s)}' for s in shares)}"


def test_same_bytes_twice_whatever_the_users_settings(tmp_path):
    first = drawings(*made())
    with mpl.rc_context({"font.size": 20, "savefig.dpi": 50}):
        second = drawings(*made())
    for name, figure in first.items():
        one, two = (
            save_figure(figure, tmp_path / f"a.{name}"),
            save_figure(second[name], tmp_path / f"b.{name}"),
        )
        assert all(one[kind].read_bytes() == two[kind].read_bytes() for kind in one)
