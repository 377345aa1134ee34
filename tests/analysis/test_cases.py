"""Case studies: which tasks are taken, what is said of them, and that nothing of what a model wrote is
executed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pkg_lib.core.types import Context, Document, Generation, Outcome, UserError
from pkg_lib.graph.schema import BLOCK, IMPL, build
from pkg_lib.papers.pkg import cases
from pkg_lib.papers.pkg.cases import Case, Hidden, Side
from pkg_lib.retrieval.trace import Traced

PASSED, UNKNOWN = Outcome("passed"), Outcome("not_measured")
FAILED = Outcome("failed", "NameError", "NameError: name 'sel' is not defined")
SOURCE = "def f(a):\n    if a < '<b>':\n        for x in sel:\n            use(x)\n    return a\n"
EVIL = "<script>alert('x')</script>"


def traced_of(source, name="d"):
    graph = build([Document(name, source)])
    return Traced("sel = 1", graph, int(graph.of_type(IMPL)[0]), int(graph.of_type(BLOCK)[0]))


SIDES = (
    Side("None", Generation("k", "T/1", "same\nold", [1, 2], "end", 9), "same\nold", PASSED),
    Side("Func-PKG", Generation("l", "T/1", "same\nnew", [1], "length", 9), "same\nnew\nmore", FAILED),
)


def case(**changes):
    context = Context("T/1", "Func-PKG", "sel = 1", "d:1-5", 0.625, "2-4", defines_task=False)
    values = {"task_id": "T/1", "experiment": "m, B", "entry_point": "f", "prompt": "do it", "sides": SIDES}
    values |= {"context": context, "text": "sel = 1", "traced": traced_of(SOURCE)}
    return Case(**values | changes)


def with_second(**changes):
    return {"sides": (SIDES[0], replace(SIDES[1], **changes))}


def test_the_rule_takes_the_highest_score_then_the_order_given_and_those_without_one_last():
    scores = {"a": 0.1, "b": 0.5, "c": 0.5, "d": -0.3}
    contexts = {t: Context(t, "c", "x", "d:1-2", s) for t, s in scores.items()}
    assert cases.ranked(["z", "a", "b", "c", "d"], contexts, 9) == ["b", "c", "a", "d", "z"]
    assert cases.ranked(["a", "c", "b"], contexts, 1) == ["c"]
    with pytest.raises(UserError, match="count is 0"):
        cases.ranked(["a"], contexts, 0)


def test_an_empty_and_a_published_context_have_no_score():
    assert cases.score(None) is None and cases.score(Context("a", "BM25", "")) is None
    assert cases.score(Context("a", "Dense", "x", "published/Dense/a")) is None
    assert cases.score(Context("a", "Dense", "x", "row", 0.0)) == 0.0


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
    assert "Both solutions are the same." in cases.sentence(case(**with_second(solution="same\nold")))
    no_name = Outcome("failed", "NameError", f"NameError: name '{EVIL}' is not defined")
    assert "undefined" not in cases.sentence(case(**with_second(outcome=no_name)))


def test_diff_holds_every_line_of_both_solutions():
    assert case().diff == [(" ", "same"), ("-", "old"), ("+", "new"), ("+", "more")]
    long = "\n".join(map(str, range(50)))
    sides = (replace(SIDES[0], solution=long), replace(SIDES[1], solution=long + "\n50\n"))
    diff = case(sides=sides).diff
    assert [line for _, line in diff] == [*map(str, range(51))] and [m for m, _ in diff].count("+") == 1


def test_page_shows_all_elements_and_asks_for_nothing_from_elsewhere():
    html = cases.page(case())
    shown = ("do it", "sel = 1", "d:1-5", "cosine 0.625", "2-4 are the pruned branch", "cut off", "- old")
    shown += ("+ more", "None: passed", "Func-PKG: failed, NameError", "name &#39;sel&#39; is not defined")
    assert [text for text in shown if text not in html] == []
    assert html.count("<del>") == 3 + 1  # three pruned lines, one line that the diff takes out
    assert html == cases.page(case())
    assert "default-src &#39;none&#39;" in html or "default-src 'none'" in html
    addresses = re.findall(r'(?:src|href|url)[=(]"?([^")\s>]+)', html)
    assert addresses and all(a.startswith("data:image/svg+xml") for a in addresses)


EVILS = {
    "raw": with_second(completion=replace(SIDES[1].completion, raw=EVIL)),
    "solution": with_second(solution=EVIL),
    "detail": with_second(outcome=Outcome("failed", EVIL, f"{EVIL} | failing: {EVIL}")),
    "prompt": {"prompt": EVIL},
    "text": {"text": EVIL},
    "source": {"context": Context("T/1", "Func-PKG", "x", EVIL, 0.5)},
    "why": {"prompt": Hidden(EVIL), "text": Hidden(EVIL), "traced": Hidden(EVIL)},
    "task": {"task_id": EVIL, "experiment": EVIL, "entry_point": EVIL},
    "code": {"traced": traced_of(f'def f():\n    if x:\n        "{EVIL}"\n    "</pre>{EVIL}"\n', EVIL)},
}


@pytest.mark.parametrize("where", EVILS)
def test_everything_a_model_or_a_corpus_wrote_is_escaped(where):
    evil = case(**EVILS[where])
    for html in (cases.page(evil), cases.fragment(evil, 3)):
        assert "<script" not in html.lower() and "&lt;script&gt;" in html


def test_what_is_not_shown_has_its_reason():
    html = cases.page(case(prompt=Hidden("no, A"), text=Hidden("no, B"), traced=Hidden("no, C")))
    assert all(f"no, {c}" in html for c in "ABC") and "data:image" not in html and "sel = 1" not in html
    html = cases.page(case(context=None, text=Hidden("not stored"), traced=Hidden("not stored")))
    assert "The context is not stored" in html
    html = cases.page(case(traced=Traced("sel = 1")))
    assert "taken whole" in html and "data:image" not in html
    html = cases.page(case(**with_second(completion=None, solution=None, outcome=UNKNOWN)))
    assert "Func-PKG: not generated" in html and "Func-PKG: not measured" in html
    assert "nothing to compare" in html
    assert "only the solution" in cases.page(case(**with_second(completion=None)))


def test_lone_surrogates_do_not_stop_a_page():
    assert cases.page(case(**with_second(solution="x = '\ud800'"))).encode()
