"""Topics: their assignment by rules and by the embedding, and rates by topic from known verdicts."""

import numpy as np
import pandas as pd
import pytest
from checks import legible
from sklearn.metrics import cohen_kappa_score

from pkg_lib.analysis.tables import DASH, MINUS
from pkg_lib.core.types import Task, UserError
from pkg_lib.papers.pkg import topic_agreement, topic_figures, topic_rates, topics
from pkg_lib.papers.pkg.map_figures import draw_maps

NAMES = list(topics.topics().index)
COLUMNS = ["NoRAG", "BM25", "Block-PKG", "Reranked"]
UNIT = np.eye(len(NAMES), dtype=np.float32)
LABELS = pd.read_csv(topics.REFERENCE / "topics_labels.csv", comment="#", index_col="task_id")[
    "topic"
]


def task(number, text, solution=""):
    prompt = f"{text}\nTest: assert sort_string('a') == 'b'"
    return Task(f"MBPP/{number}", "mbpp", prompt, "f", solution=solution)


def assigned(*tasks, near=0):
    return topics.assign(tasks, UNIT[[near] * len(tasks)], UNIT)


def test_ignores_the_hint_that_a_prompt_adds():
    topic = assigned(task(1, "Write a function to find the volume of a cone.")).loc["MBPP/1"]
    assert topics.statement(task(1, "Add.")) == "Add."
    assert topic["topic"] == "Geometry and Trigonometry" and topic["by"] == "rule"


def test_uses_the_solution_and_then_the_nearest_description_if_no_rule_matches_the_text():
    vague, near = "Solve the riddle.", NAMES.index("Algorithms")
    frame = assigned(task(1, vague, "return re.sub('a', '', x)"), task(2, vague), near=near)
    assert list(frame["topic"]) == ["String Manipulation and Text Processing", "Algorithms"]
    assert (
        list(frame["by"]) == ["rule", "embedding"]
        and frame.at["MBPP/2", "category"] == topics.NEAREST
    )


def test_statement_of_humaneval_is_the_docstring_without_examples():
    helper = 'def helper():\n    """No."""\n\n'
    prompt = helper + 'def f(x):\n    """ Count them.\n    >>> f("string")\n    1\n    """\n'
    assert topics.statement(Task("HumanEval/0", "humaneval", prompt, "f")) == "Count them."


@pytest.mark.parametrize(("helped", "bounds"), [(10, (1.0, 1.0)), (3, (0.0, 1.0))])
def test_share_of_topics_is_bounded_by_significant_topics_and_open_for_small_changes(
    helped, bounds
):
    values = [False] * 20
    column = pd.Series(([True] * helped + values)[:20] * 2, dtype="boolean")
    others, topic = (
        pd.DataFrame({"NoRAG": values * 2}, dtype="boolean"),
        pd.Series(["a"] * 20 + ["b"] * 20),
    )
    assert topics.share_above(column, others, topic) == (40, 1.0, *bounds)
    assert topics.share_above(others["NoRAG"], column.to_frame(), topic) == (
        40,
        0.0,
        0.0,
        1 - bounds[0],
    )
    assert topics.share_above(column.mask(column.notna()), others, topic) is None


def test_every_rule_assigns_one_of_the_ten_topics():
    assert len(NAMES) == 10 and {r.topic for r in topics.rules()} == set(NAMES)
    assert {r.where for r in topics.rules()} == {"text", "solution"}
    published = set(pd.read_csv(topics.REFERENCE / "pkg_topics.csv")["topic"].dropna())
    assert set(topics.topics().query("source == 'paper'").index) == published


def test_kappa_equals_that_of_sklearn_and_is_undefined_for_one_label():
    answer = LABELS.where(np.arange(100) % 4 > 0, "Algorithms")
    value, low, high = topic_agreement.cohens_kappa(LABELS, answer)
    assert value == pytest.approx(cohen_kappa_score(LABELS, answer)) and low < value < high
    assert abs((low + high) / 2 - value) < 0.03 and 0.1 < high - low < 0.3
    one = pd.Series(["Algorithms"] * 3)
    assert np.isnan(topic_agreement.cohens_kappa(one, one)).all()


def random_verdicts(n=200):
    rng, ids = np.random.default_rng(3), [f"MBPP/{i}" for i in range(n)]
    rates = zip(COLUMNS, (0.6, 0.4, 0.5, 0.7), strict=True)
    frame = pd.DataFrame({c: rng.random(n) < rate for c, rate in rates}, ids)
    return frame.astype("boolean"), pd.Series(
        rng.choice(NAMES, n, p=[0.2] * 3 + [0.4 / 7] * 7), ids
    )


def two_topics():
    """Verdicts of 20 tasks of each of two topics.

    Block-PKG solves all tasks about strings and none about geometry; NoRAG solves half of each.
    """
    ids = [f"MBPP/{i}" for i in range(40)]
    topic = pd.Series([NAMES[0]] * 20 + [NAMES[3]] * 20, ids)
    frame = pd.DataFrame(
        {"NoRAG": [True, False] * 20, "Block-PKG": [True] * 20 + [False] * 20}, ids
    )
    return frame.astype("boolean"), topic


def test_unmeasured_value_is_a_dash_and_lowers_n():
    verdicts, topic = two_topics()
    verdicts["Reranked"] = pd.array([pd.NA] * 40, dtype="boolean")
    verdicts.iloc[0, 1] = pd.NA
    rates = topic_rates.rates_by_topic(verdicts, topic)
    shown = rates.apply(topic_rates.rate_text, axis=1)
    against = rates.apply(topic_rates.difference_text, axis=1)
    assert shown[NAMES[0], "Block-PKG"] == "100.0 (83.2 to 100.0, n=19)"
    for texts in (shown, against):
        assert (texts.xs("Reranked", level="method") == DASH).all()
    assert shown[NAMES[1], "NoRAG"] == DASH
    assert against[NAMES[3], "Block-PKG"].startswith(f"{MINUS}50.0 ({MINUS}")


def test_shows_the_methods_that_the_corpus_offers():
    full = pd.DataFrame(
        columns=[*COLUMNS[:2], "VoyageEmb", "Func-BM25", "Func-PKG", *COLUMNS[2:], "Ideal Reranker"]
    )
    assert topic_rates.shown_methods(full, "Func-PKG") == ["NoRAG", "BM25", "Func-PKG", "Reranked"]
    without = full.drop(columns="BM25")
    assert topic_rates.shown_methods(without, "Block-PKG") == [
        "NoRAG",
        "Func-BM25",
        "Block-PKG",
        "Reranked",
    ]
    with pytest.raises(UserError, match=r"'JSON-PKG'.*Block-PKG"):
        topic_rates.shown_methods(full, "JSON-PKG")


def test_distinguishes_effects_that_depend_on_topics_from_others():
    verdicts, topic = two_topics()
    dependence, none = topic_rates.topic_dependence, verdicts["NoRAG"]
    spread, p = dependence(verdicts["Block-PKG"], none, topic)
    assert spread == pytest.approx(0.5) and p < 0.001
    mixed = pd.Series(np.tile([NAMES[0], NAMES[0], NAMES[3], NAMES[3]], 10), topic.index)
    assert dependence(verdicts["Block-PKG"], none, mixed)[1] > 0.5
    assert dependence(none, none, topic) is None


def findings(verdicts, topic):
    rates = topic_rates.rates_by_topic(verdicts, topic)
    return topic_rates.topic_findings(verdicts, rates, "Block-PKG")


def test_findings_name_the_topics_that_differ_and_whether_they_matter():
    verdicts, topic = two_topics()
    summary, base = findings(verdicts, topic)
    assert summary == "Block-PKG solves fewer tasks than NoRAG in 1 of 2 topics, and more in 1."
    assert f"{NAMES[0]} (50.0 %, 20 tasks)" in base
    rates = topic_rates.rates_by_topic(verdicts, topic)
    row = topic_rates.dependence_table(verdicts, rates, topic).frame.loc["Block-PKG"]
    assert row.tolist() == ["1", "1", "2", "50.0", "< 0.001"]


def test_findings_report_unmeasured_values():
    verdicts, topic = two_topics()
    verdicts["Reranked"] = pd.array([pd.NA] * 40, dtype="boolean")
    first, *rest = findings(verdicts, topic)
    assert "Reranked" in first and not any("Reranked" in sentence for sentence in rest)
    rates = topic_rates.rates_by_topic(verdicts, topic)
    assert list(topic_rates.dependence_table(verdicts, rates, topic).frame.index) == ["Block-PKG"]
    verdicts["NoRAG"] = pd.array([pd.NA] * 40, dtype="boolean")
    assert len(findings(verdicts, topic)) == 2, "without a baseline nothing is compared"


def test_the_papers_statements_are_counted_over_measured_topics():
    verdicts, topic = two_topics()
    rates = topic_rates.rates_by_topic(verdicts, topic)
    rows = topic_rates.paper_statements_table({"m": rates}, "Block-PKG").frame["m"]
    assert rows["topics with PKG above NoRAG"] == "1 of 2"
    assert rows["topics with PKG above BM25"] == DASH
    assert rows[f"PKG minus NoRAG, {NAMES[0]}"] in ("+50.0", DASH)
    assert list(rows.index) == list(topic_rates.PAPER_STATEMENTS)


def test_table_has_rates_and_differences_or_dashes_without_a_replay():
    verdicts, topic = two_topics()
    frame = topic_rates.topic_rates_table(topic_rates.rates_by_topic(verdicts, topic), "t").frame
    assert list(frame) == ["tasks", "NoRAG", "Block-PKG", "Block-PKG against NoRAG"]
    assert frame.loc[topic_rates.ALL_TASKS, "tasks"] == "40"
    assert frame.loc[NAMES[0], "Block-PKG against NoRAG"].startswith("+50.0 (")
    assert (topic_rates.replayed_topics_table({}, "t").frame == DASH).all(axis=None)
    replayed = {"gpt": topic_rates.rates_by_topic(verdicts, topic)}
    cells = topic_rates.replayed_topics_table(replayed, "t").frame.loc[NAMES[3]]
    assert cells.tolist() == ["50.0", f"{MINUS}50.0"]


def test_agreement_is_with_the_labels_of_the_reader():
    ids = list(LABELS.index[:10])
    wrong = next(name for name in NAMES if name != LABELS[ids[0]])
    frame = pd.DataFrame({"topic": LABELS[ids], "nearest": LABELS[ids], "category": "c"})
    frame["by"] = ["embedding", *["rule"] * 9]
    frame.loc[ids[0], "topic"] = wrong
    table = topic_agreement.reader_agreement_table(frame)
    assert table.frame["agree"].tolist() == ["9", "9", "10"]
    assert topic_agreement.reader_agreement_finding(table).count("9 of 10 tasks (90.0 %)") == 1
    assert list(topic_agreement.reader_disagreements_table(frame).frame.index) == [ids[0]]
    assert topic_agreement.rules_sentence(frame).startswith("Rules give 9 of 10 tasks one of 1 ")
    unlabelled = frame.set_axis([f"HumanEval/{n}" for n in range(10)])
    empty = topic_agreement.reader_agreement_table(unlabelled)
    assert set(empty.frame["agree"]) == {DASH}
    assert "not checked" in topic_agreement.reader_agreement_finding(empty)


def test_categories_are_listed_by_their_number_of_tasks():
    frame = pd.DataFrame({"topic": NAMES[0], "category": ["b", "a", "b", "c"]})
    rows = topic_agreement.categories_table(frame).frame
    assert (
        rows.loc[NAMES[0]].tolist() == ["4", "b 2, a 1, c 1"] and rows.loc[NAMES[1], "tasks"] == "0"
    )


def drawings(verdicts, topic):
    rates = topic_rates.rates_by_topic(verdicts, topic)
    title = "qwen2.5-coder-0.5b-instruct, MBPP"
    rng = np.random.default_rng(0)
    points = pd.DataFrame(rng.random((len(verdicts), 2)), columns=["x", "y"], index=verdicts.index)
    drawn = {
        "radar": topic_figures.topic_radar(rates, title),
        "differences": topic_figures.topic_differences(rates, title),
    }
    return drawn | {"maps": draw_maps(points, verdicts[["NoRAG", "Reranked"]], topic, title)}


@pytest.mark.parametrize("case", ["some not measured", "Reranked not measured", "few"])
def test_texts_are_at_least_7_pt_inside_the_figure_and_do_not_overlap(case):
    verdicts, topic = random_verdicts(8 if case == "few" else 200)
    if case == "some not measured":
        verdicts.iloc[:60] = pd.NA
    if case == "Reranked not measured":
        verdicts["Reranked"] = pd.NA
    for name, figure in drawings(verdicts.astype("boolean"), topic).items():
        shown = legible(figure, 17 if name == "maps" else 8.5)
        assert ("Reranked" in shown) == (case != "Reranked not measured" and name != "maps")


def test_radar_labels_its_rings_inwards_and_shows_the_interval_of_no_rag():
    verdicts, topic = random_verdicts()
    figure = drawings(verdicts, topic)["radar"]
    shown = legible(figure)
    assert [text for text in shown if text[0].isdigit()] == ["25", "50", "75 %"]
    assert "NoRAG, 95 %" in shown
    (band,) = figure.axes[0].collections
    rates = topic_rates.rates_by_topic(verdicts, topic).xs("NoRAG", level="method")
    radii = band.get_paths()[0].vertices[:, 1]
    assert radii.max() == pytest.approx(100 * rates.loc[NAMES, "high"].max())
    assert radii.min() == pytest.approx(100 * rates.loc[NAMES, "low"].min())


def test_maps_draw_every_task_once_and_count_tasks_in_one_legend():
    verdicts, topic = random_verdicts()
    verdicts.iloc[:5, 0] = pd.NA
    figure = drawings(verdicts, topic)["maps"]
    axes, solved = figure.axes[0], int(verdicts["NoRAG"].sum())
    counts = [len(c.get_offsets()) for c in axes.collections]
    assert (len(axes.lines[0].get_xdata()), *counts) == (5, 195 - solved, solved)
    shares = [verdicts[c][topic == NAMES[0]].dropna() for c in ("NoRAG", "Reranked")]
    outcomes, shapes = ([t.get_text() for t in legend.get_texts()] for legend in figure.legends)
    assert outcomes == ["solved", "not solved", "not measured"] and len(shapes) == 10
    assert shapes[0] == f"Strings {', '.join(f'{int(s.sum())}/{len(s)}' for s in shares)}"
