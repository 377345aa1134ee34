"""The contexts of the pipelines, on a hand-made repository whose graph and ranking are known."""

from __future__ import annotations

import pandas as pd
import pytest

from pkg_lib.data.questions import Question
from pkg_lib.graph.types.java import facts_of
from pkg_lib.graph.types.resolve import graph_of, published
from pkg_lib.papers.dkb.evidence_tables import sign_flip_difference
from pkg_lib.papers.dkb.measurement import reached_types, scores
from pkg_lib.papers.dkb.pipelines import (
    CHUNKS_ALONE,
    Budget,
    ContextPart,
    Gathered,
    Pipeline,
    RankedText,
)
from pkg_lib.papers.dkb.splitter import chunks_of

TEXTS = {
    "Api.java": "interface Api { void work(); }",
    "Impl.java": "class Impl implements Api { Store store; }",
    "Web.java": "class Web { Api api; }",
    "Job.java": "class Job { Web web; }",
    "Store.java": "class Store { static class Row {} }",
    "Lone.java": "class Lone {}",
}
FACTS = {p: facts_of(t.encode()) for p, t in TEXTS.items()}
GRAPH = graph_of(FACTS).graph
QUESTION = Question("Q", "who uses Impl?", ("Impl", "Web", "Store", "Job"), "upstream")


def ranked(*order):
    chunks = {c.id: c for path, text in TEXTS.items() for c in chunks_of(path, text)}
    return RankedText(
        TEXTS, chunks, {"Q": [(f"{name}.java#0", 1 - i / 10) for i, name in enumerate(order)]}
    )


def dkb(*order, **options):
    return Pipeline("DKB", ranked(*order), **{"graph": GRAPH} | options).gather("Q")


def no_graph(*order, **options):
    return dkb(*order, **CHUNKS_ALONE, **options)


def listed(context):
    return {name for part in context for name in part.names}


def paths(context):
    return [part.path for part in context if part.path]


def test_no_graph_is_the_best_chunks_and_nothing_else():
    context = no_graph("Lone", "Impl", "Web", k=2)
    assert context.text == f"// Lone.java\nclass Lone {{}}\n\n// Impl.java\n{TEXTS['Impl.java']}\n"
    assert paths(context) == ["Lone.java", "Impl.java"] and not listed(context)


def test_no_graph_of_a_size_takes_as_many_chunks_as_fit():
    order = ("Impl", "Web", "Job")
    lengths = [len(no_graph(*order, k=k).text) + 1 for k in (1, 2, 3)]
    for size, count in ((1, 1), (lengths[0], 1), (lengths[1] - 1, 1), (lengths[1], 2), (10_000, 3)):
        assert (
            ranked(*order).fitting("Q", size) == len(no_graph(*order, counts={"Q": count})) == count
        )


def test_dkb_goes_both_ways_and_through_interfaces():
    context = dkb("Impl")
    assert listed(context) == {"Impl", "Api", "Store", "Web"}
    assert paths(context) == ["Impl.java", "Api.java", "Store.java", "Web.java"]
    assert "\n[ONTOLOGY INFO]: Impl implements Api. Checking consumers of Api...\n" in context.text
    assert (
        " - [INJECTS/USES] -> Api (implements)\n - [INJECTS/USES] -> Store (injects)\n"
        in context.text
    )
    assert " - [USED BY] <- Web (uses (via interface))\n" in context.text
    assert listed(dkb("Impl", interfaces=False)) == {"Impl", "Api", "Store"}


def test_depth():
    near, far = (dkb("Api", depth=depth, interfaces=False) for depth in (1, 2))
    assert "Job" not in near.text and listed(far) - listed(near) == {"Job"}
    assert " - [USED BY] <- Web (injects)\n" in near.text and " <- Job (indirectly)\n" in far.text


def test_budgets():
    order = ("Impl", "Web", "Job", "Lone")
    whole = dkb(*order)
    for total in (60, 120, 250, 400):
        small = dkb(*order, budget=Budget(total=total))
        assert len(small.text) <= total and len(paths(small)) < len(paths(whole))
    short = dkb("Impl", budget=Budget(chunk=5, neighbour=9))
    assert "// Impl.java\nclass\n" in short.text and "// Api.java\ninterface\n" in short.text
    assert listed(dkb("Impl", budget=Budget(neighbours=1))) == {"Impl", "Api", "Web"}


def test_as_published_takes_the_file_name_for_the_class_and_embeds_files_of_the_graph_only():
    assert paths(dkb("Lone", "Impl", k=1, paths=frozenset({"Impl.java"})))[0] == "Impl.java"
    assert listed(dkb("Store", graph=published(FACTS), by_file=True)) == {"Store", "Impl"}
    assert listed(dkb("Store")) == {"Store", "Store.Row", "Impl"}


@pytest.mark.parametrize(
    ("nearest", "order"), [("", "Api Store"), ("first", "Store Api"), ("lines", "Store Api")]
)
def test_excerpts_that_are_chosen_by_the_question(nearest, order):
    context = dkb("Impl", "Store", "Api", k=1, nearest=nearest)
    assert paths(context) == [f"{name}.java" for name in ("Impl", *order.split(), "Web")]


def test_evidence_by_hand():
    chunks = no_graph("Impl", "Store", k=2)
    assert reached_types(GRAPH, chunks, "source") == {"Impl", "Store", "Store.Row"}
    assert scores(GRAPH, QUESTION, chunks, "source") == {
        "recall": 0.5,
        "precision": 1.0,
    }  # Row as Store
    assert reached_types(GRAPH, chunks, "named") == {"Impl", "Api", "Store", "Store.Row"}
    assert scores(GRAPH, QUESTION, chunks, "named")["precision"] == pytest.approx(2 / 3)
    assert pd.isna(scores(GRAPH, QUESTION, Gathered(), "source")["precision"])
    context = dkb("Impl", budget=Budget(total=330))
    assert "// Web.java" not in context.text
    assert [scores(GRAPH, QUESTION, context, r)["recall"] for r in ("source", "listed")] == [
        0.25,
        0.75,
    ]


@pytest.mark.parametrize(
    ("excerpt", "types"),
    [(("A.java", 3, 3), {"Two"}), (("A.java", 2, 4), {"One", "Two"}), (("B.java", 1, 9), set())],
)
def test_only_the_types_whose_lines_are_shown_are_reached(excerpt, types):
    source = b"class One {\n}\nclass Two {\n}\nclass Three {\n}"
    graph = graph_of({"A.java": facts_of(source)}).graph
    assert reached_types(graph, Gathered([ContextPart("", *excerpt)]), "source") == types


def difference(a, b):
    return sign_flip_difference(pd.Series(a, dtype=float), pd.Series(b, dtype=float))


def test_paired_by_hand():
    d = difference([1.0, 1.0, 1.0, 1.0, 0.5], [0.5, 0.5, 0.5, 0.5, 0.5])
    assert (
        d.n == 5 and d.value == pytest.approx(0.4) and d.p == 2 / 16
    )  # a difference of 0 says nothing
    assert 0 < d.low < 0.4 < d.high <= 0.5
    assert difference([1.0, 0.0], [0.0, 1.0]).p == 1.0 and difference([1.0], [1.0]).p == 1.0
    assert difference([None, 1.0], [0.0, 0.0]).n == 1 and difference([], []).n == 0
    assert difference([1.0] * 20, [0.0] * 20).p < 0.001  # random changes of sign
