"""Case studies: which tasks are taken, what is said of them, and that nothing of what a model wrote is executed."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from checks import legible
from matplotlib.text import Text

from pkg_lib.analysis.tables import DASH
from pkg_lib.core.types import Context, Document, Generation, Outcome, UserError
from pkg_lib.graph.schema import BLOCK, IMPL, build
from pkg_lib.papers.pkg import case_figures, cases
from pkg_lib.papers.pkg.cases import Case, Compared, Hidden, Side
from pkg_lib.retrieval.trace import Traced

PASSED, UNKNOWN = Outcome("passed"), Outcome("not_measured")
FAILED = Outcome("failed", "NameError", "NameError: name 'sel' is not defined")
SOURCE = "def f(a):\n    if a < '<b>':\n        for x in sel:\n            use(x)\n    return a\n"
EVIL = "<script>alert('x')</script>"


def compared():
    verdicts = {"a": (0, 1), "b": (0, 1), "c": (1, 0), "d": (1, 1), "e": (0, 0), "f": (0, None), "g": (0, 1)}
    of = {0: FAILED, 1: PASSED, None: UNKNOWN}
    scores = {"a": 0.2, "b": 0.7, "c": 0.5, "d": 0.9}
    contexts = {t: Context(t, "Func-PKG", "x", "d:1-2", s, defines_task=t == "b") for t, s in scores.items()}
    without, with_ = ({t: of[pair[i]] for t, pair in verdicts.items()} for i in (0, 1))
    return Compared("Func-PKG", without, with_, contexts)


def case(**changes):
    graph = build([Document("d", SOURCE)])
    node, (branch, _) = int(graph.of_type(IMPL)[0]), graph.of_type(BLOCK)
    context = Context("T/1", "Func-PKG", "sel = 1", "d:1-5", 0.625, "2-4", defines_task=False)
    sides = (
        Side("None", Generation("k", "T/1", "same\nold", [1, 2], "end", 9), "same\nold", PASSED),
        Side(
            "Func-PKG", Generation("l", "T/1", "same\nnew\nmore", [1], "length", 9), "same\nnew\nmore", FAILED
        ),
    )
    values = {
        "task_id": "T/1",
        "experiment": "m, B",
        "entry_point": "f",
        "prompt": "do it",
        "context": context,
    }
    values |= {"text": "sel = 1", "traced": Traced("sel = 1", graph, node, int(branch)), "sides": sides}
    return Case(**values | changes)


def test_tasks_are_grouped_by_what_changed_where_both_are_measured():
    found = compared()
    assert found.groups == {"helped": ["a", "b", "g"], "hurt": ["c"], "both pass": ["d"], "both fail": ["e"]}
    assert found.scores()["helped"] == {"a": 0.2, "b": 0.7, "g": None}


def test_the_rule_takes_the_highest_score_then_the_benchmarks_order_and_those_without_one_last():
    contexts = {
        t: Context(t, "c", "x", "d:1-2", s) for t, s in {"a": 0.1, "b": 0.5, "c": 0.5, "d": -0.3}.items()
    }
    assert cases.chosen(["z", "a", "b", "c", "d"], contexts, 9) == ["b", "c", "a", "d", "z"]
    assert cases.chosen(["a", "c", "b"], contexts, 1) == ["c"]
    with pytest.raises(UserError, match="count is 0"):
        cases.chosen(["a"], contexts, 0)


def test_an_empty_and_a_published_context_have_no_score():
    assert cases.score(Context("a", "BM25", "")) is None
    assert cases.score(Context("a", "Dense", "x", "published/Dense/a")) is None
    assert cases.score(Context("a", "Dense", "x", "row", 0.0)) == 0.0


def test_table_holds_every_changed_task_with_errors_before_and_after():
    frame = cases.table(compared()).frame
    assert frame.index.tolist() == ["b", "a", "g", "c"]
    assert frame.loc["b"].tolist() == ["helped", "NameError", "passed", "0.700", "yes"]
    assert frame.loc["g"].tolist() == ["helped", "NameError", "passed", DASH, DASH]
    assert frame.loc["c"].tolist() == ["hurt", "passed", "NameError", "0.500", "no"]
    own = cases.table(replace(compared(), own=frozenset("bd"))).frame
    assert (
        own.loc["b"].tolist()[1:3] == ["NameError (its own)", "passed"]
        and own.loc["a"].tolist()[1] == "NameError"
    )


def test_findings_count_all_and_state_the_rule():
    said = cases.findings(compared())
    assert said[0].startswith(
        "Of 6 tasks measured in both, Func-PKG solves 3 that None does not, and None 1 that"
    )
    assert said[1] == "The context defines the function asked for in 1 of 2 helped and 0 of 1 hurt tasks."
    assert said[-1] == cases.RULE


def test_nothing_to_show_is_said_and_makes_empty_tables_and_parts():
    same = Compared("Dense", {"a": PASSED}, {"a": PASSED}, {})
    assert "no task that Dense helped or hurt" in cases.findings(same)[
        1
    ] and cases.RULE not in cases.findings(same)
    assert cases.table(same).frame.empty and "no such task" in cases.table(same).html()
    assert cases.shown([]) == cases.part([]) and "no case to show" in cases.part([])
    assert cases.findings(Compared("Dense", {"a": PASSED}, {"a": UNKNOWN}, {})) == [
        "None and Dense have no task measured in both, so there is no case to show."
    ]


def test_sentence_is_of_the_verdicts_the_context_and_the_solutions():
    assert cases.sentence(case()) == (
        "T/1: passes without retrieval and fails (NameError, cut off) with Func-PKG. "
        "The context (cosine 0.625) does not define f. "
        "The solution lost 1 lines and gained 2. The undefined name sel stands in the context."
    )
    assert "sel does not stand in" in cases.sentence(case(text="selection = 1"))
    assert "undefined" not in cases.sentence(case(text=Hidden("not at hand")))
    assert "No context was found." in cases.sentence(case(context=Context("T/1", "Func-PKG", "")))
    assert "No context is stored." in cases.sentence(case(context=None))
    first = case().sides[0]
    assert "Both solutions are the same." in cases.sentence(
        case(sides=(first, replace(first, name="Func-PKG")))
    )


def test_diff_holds_every_line_of_both_solutions():
    assert case().diff == [(" ", "same"), ("-", "old"), ("+", "new"), ("+", "more")]
    long = "\n".join(map(str, range(50)))
    first, second = case().sides
    found = case(sides=(replace(first, solution=long), replace(second, solution=long + "\n50\n"))).diff
    assert [line for _, line in found] == [*map(str, range(51))] and [m for m, _ in found].count("+") == 1


def test_page_shows_all_elements():
    html = cases.page(case())
    for text in (
        "do it",
        "sel = 1",
        "d:1-5",
        "cosine 0.625",
        "lines 2-4 are the pruned branch",
        "cut off",
        "- old",
        "+ more",
        "None: passed",
        "Func-PKG: failed, NameError",
        "name &#39;sel&#39; is not defined",
    ):
        assert text in html, text
    assert html.count("<del>") == 3 + 1  # three pruned lines, one line that the diff takes out
    assert html == cases.page(case())


@pytest.mark.parametrize(
    "where", ["raw", "solution", "prompt", "text", "detail", "source", "why", "task", "code"]
)
def test_everything_a_model_or_a_corpus_wrote_is_escaped(where):
    first, second = case().sides
    evil = {
        "raw": {"sides": (first, replace(second, completion=replace(second.completion, raw=EVIL)))},
        "solution": {"sides": (first, replace(second, solution=EVIL))},
        "detail": {
            "sides": (first, replace(second, outcome=Outcome("failed", EVIL, f"{EVIL} | failing: {EVIL}")))
        },
        "prompt": {"prompt": EVIL},
        "text": {"text": EVIL},
        "source": {"context": Context("T/1", "Func-PKG", "x", EVIL, 0.5)},
        "why": {"prompt": Hidden(EVIL), "text": Hidden(EVIL), "traced": Hidden(EVIL)},
        "task": {"task_id": EVIL, "experiment": EVIL, "entry_point": EVIL},
        "code": {"traced": traced_of(f'def f():\n    if x:\n        "{EVIL}"\n    "</pre>{EVIL}"\n')},
    }
    found = case(**evil[where])
    for html in (cases.page(found), cases.part([found]), cases.shown([found])):
        assert "<script" not in html.lower() and "&lt;script&gt;" in html


def traced_of(source):
    graph = build([Document(EVIL, source)])
    return Traced("x", graph, int(graph.of_type(IMPL)[0]), int(graph.of_type(BLOCK)[0]))


def test_an_undefined_name_that_is_no_name_is_not_said():
    first, second = case().sides
    odd = replace(second, outcome=Outcome("failed", "NameError", f"NameError: name '{EVIL}' is not defined"))
    assert "undefined" not in cases.sentence(case(sides=(first, odd)))


def test_page_asks_for_nothing_from_elsewhere():
    html = cases.page(case())
    assert "default-src &#39;none&#39;" in html or "default-src 'none'" in html
    assert all(
        r.startswith("data:image/svg+xml") for r in re.findall(r'(?:src|href|url)[=(]"?([^")\s>]+)', html)
    )


def test_what_is_not_shown_has_its_reason():
    html = cases.page(
        case(prompt=Hidden("not here, A"), text=Hidden("not here, B"), traced=Hidden("not here, C"))
    )
    assert all(f"not here, {c}" in html for c in "ABC") and "data:image" not in html and "sel = 1" not in html
    html = cases.page(case(context=None, text=Hidden("not stored"), traced=Hidden("not stored")))
    assert "The context is not stored" in html
    html = cases.page(case(traced=Traced("sel = 1")))
    assert "taken whole" in html and "data:image" not in html
    first, second = case().sides
    html = cases.page(case(sides=(first, Side("Func-PKG", None, None, UNKNOWN))))
    assert (
        "Func-PKG: not generated" in html
        and "nothing to compare" in html
        and "Func-PKG: not measured" in html
    )
    assert "only the solution" in cases.page(case(sides=(first, replace(second, completion=None))))


def test_lone_surrogates_do_not_stop_a_page():
    first, second = case().sides
    html = cases.page(case(sides=(first, replace(second, solution="x = '\ud800'"))))
    assert html.encode()


def svg(figure):
    return base64.b64decode(case_figures.inline(figure).partition("base64,")[2]).decode()


def test_drawing_is_xml_holds_every_node_and_crosses_the_pruned_branch():
    drawn = svg(case_figures.subgraph(case().traced))
    texts = [e.text for e in ElementTree.fromstring(drawn).iter() if e.tag.endswith("}text")]
    assert {"def f(a):", "if a < '<b>':", "for x in sel:", "pruned"} <= set(texts)
    assert case_figures.inline(case_figures.subgraph(case().traced)) == case_figures.inline(
        case_figures.subgraph(case().traced)
    )
    whole = replace(case().traced, removed=-1)
    assert "pruned" not in svg(case_figures.subgraph(whole))


def test_drawing_takes_control_characters_and_very_large_nodes():
    body = "".join(f"    if x == {i}:\n        pass\n" for i in range(90))
    graph = build([Document("d\x07", f"def f(x='\x01'):\n{body}")])
    figure = case_figures.subgraph(Traced("", graph, int(graph.of_type(IMPL)[0])))
    ElementTree.fromstring(svg(figure))
    shown = [t.get_text() for t in figure.findobj(Text)]
    assert any("40 of 91 nodes" in t for t in shown) and sum(t.startswith("if x ==") for t in shown) == 39
    with pytest.raises(ValueError, match="no subgraph"):
        case_figures.subgraph(Traced("a row"))


@pytest.mark.parametrize("count", [0, 1, 60])
def test_scores_are_legible_and_ring_the_shown(count):
    groups = {
        "helped": {f"t{i}": 0.5 + i % 7 / 50 for i in range(count)},
        "hurt": {"u": None},
        "both fail": {"v": 0.9},
    }
    figure = case_figures.scores(groups, ["t0", "v"], "Func-PKG on HumanEval", "cosine")
    shown = legible(figure)
    rings = [x for line in figure.axes[0].lines if line.get_markersize() == 5.5 for x in line.get_xdata()]
    assert sorted(map(float, rings)) == ([0.5, 0.9] if count else [0.9])
    assert {"no score", "no task"} <= set(shown)
    dots = [c.get_offsets() for c in figure.axes[0].collections]
    assert sum(map(len, dots)) == count + 1 and all(
        abs(y - round(y)) <= case_figures.ROOM for d in dots for _, y in d
    )
