"""Contexts of DKB's pipelines on a small hand-written repository with a known graph and ranking."""

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
FACTS = {path: facts_of(text.encode()) for path, text in TEXTS.items()}
GRAPH = graph_of(FACTS).graph
QUESTION = Question("Q", "who uses Impl?", ("Impl", "Web", "Store", "Job"), "upstream")


def ranked(*order):
    """The repository with the chunks of these classes ranked in this order."""
    chunks = {}
    for path, text in TEXTS.items():
        for chunk in chunks_of(path, text):
            chunks[chunk.id] = chunk
    ranking = [(f"{name}.java#0", 1 - rank / 10) for rank, name in enumerate(order)]
    return RankedText(TEXTS, chunks, {"Q": ranking})


def dkb(*order, **options):
    """The context that DKB gathers if the classes are ranked in this order."""
    return Pipeline("DKB", ranked(*order), **{"graph": GRAPH} | options).gather("Q")


def no_graph(*order, **options):
    """The context of retrieved chunks alone."""
    return dkb(*order, **CHUNKS_ALONE, **options)


def listed(context):
    """The types that a context names."""
    return {name for part in context for name in part.names}


def paths(context):
    """The files that a context shows, in order."""
    return [part.path for part in context if part.path]


def test_no_graph_gives_only_the_best_chunks():
    context = no_graph("Lone", "Impl", "Web", k=2)
    assert context.text == f"// Lone.java\nclass Lone {{}}\n\n// Impl.java\n{TEXTS['Impl.java']}\n"
    assert paths(context) == ["Lone.java", "Impl.java"]
    assert not listed(context)


def test_no_graph_of_a_given_size_takes_as_many_chunks_as_fit():
    order = ("Impl", "Web", "Job")
    one, two = (len(no_graph(*order, k=k).text) + 1 for k in (1, 2))
    chunks_by_size = {1: 1, one: 1, two - 1: 1, two: 2, 10_000: 3}
    for size, count in chunks_by_size.items():
        assert ranked(*order).fitting("Q", size) == count
        assert len(no_graph(*order, counts={"Q": count})) == count


def test_dkb_follows_edges_in_both_directions_and_through_interfaces():
    context = dkb("Impl")
    assert listed(context) == {"Impl", "Api", "Store", "Web"}
    assert paths(context) == ["Impl.java", "Api.java", "Store.java", "Web.java"]
    text = context.text
    assert "\n[ONTOLOGY INFO]: Impl implements Api. Checking consumers of Api...\n" in text
    implements = " - [INJECTS/USES] -> Api (implements)\n"
    injects = " - [INJECTS/USES] -> Store (injects)\n"
    assert implements + injects in text
    assert " - [USED BY] <- Web (uses (via interface))\n" in text
    assert listed(dkb("Impl", interfaces=False)) == {"Impl", "Api", "Store"}


def test_a_greater_depth_adds_indirect_users():
    near = dkb("Api", depth=1, interfaces=False)
    far = dkb("Api", depth=2, interfaces=False)
    assert "Job" not in near.text
    assert listed(far) - listed(near) == {"Job"}
    assert " - [USED BY] <- Web (injects)\n" in near.text
    assert " <- Job (indirectly)\n" in far.text


def test_budgets_limit_the_context_its_excerpts_and_neighbours():
    order = ("Impl", "Web", "Job", "Lone")
    whole = dkb(*order)
    for total in (60, 120, 250, 400):
        small = dkb(*order, budget=Budget(total=total))
        assert len(small.text) <= total
        assert len(paths(small)) < len(paths(whole))
    short = dkb("Impl", budget=Budget(chunk=5, neighbour=9))
    assert "// Impl.java\nclass\n" in short.text
    assert "// Api.java\ninterface\n" in short.text
    one_neighbour = dkb("Impl", budget=Budget(neighbours=1))
    assert listed(one_neighbour) == {"Impl", "Api", "Web"}


def test_as_published_identifies_classes_by_file_and_embeds_only_files_of_the_graph():
    only_impl = dkb("Lone", "Impl", k=1, paths=frozenset({"Impl.java"}))
    assert paths(only_impl)[0] == "Impl.java"
    by_file = dkb("Store", graph=published(FACTS), by_file=True)
    assert listed(by_file) == {"Store", "Impl"}
    assert listed(dkb("Store")) == {"Store", "Store.Row", "Impl"}


@pytest.mark.parametrize(
    ("nearest", "order"), [("", "Api Store"), ("first", "Store Api"), ("lines", "Store Api")]
)
def test_orders_excerpts_by_similarity_to_the_question(nearest, order):
    context = dkb("Impl", "Store", "Api", k=1, nearest=nearest)
    assert paths(context) == [f"{name}.java" for name in ("Impl", *order.split(), "Web")]


def test_recall_and_precision_of_hand_computed_contexts():
    chunks = no_graph("Impl", "Store", k=2)
    assert reached_types(GRAPH, chunks, "source") == {"Impl", "Store", "Store.Row"}
    # Store.Row counts as Store.
    assert scores(GRAPH, QUESTION, chunks, "source") == {"recall": 0.5, "precision": 1.0}
    assert reached_types(GRAPH, chunks, "named") == {"Impl", "Api", "Store", "Store.Row"}
    assert scores(GRAPH, QUESTION, chunks, "named")["precision"] == pytest.approx(2 / 3)
    assert pd.isna(scores(GRAPH, QUESTION, Gathered(), "source")["precision"])
    context = dkb("Impl", budget=Budget(total=330))
    assert "// Web.java" not in context.text
    assert scores(GRAPH, QUESTION, context, "source")["recall"] == 0.25
    assert scores(GRAPH, QUESTION, context, "listed")["recall"] == 0.75


@pytest.mark.parametrize(
    ("excerpt", "types"),
    [(("A.java", 3, 3), {"Two"}), (("A.java", 2, 4), {"One", "Two"}), (("B.java", 1, 9), set())],
)
def test_reaches_only_the_types_whose_lines_are_shown(excerpt, types):
    source = b"class One {\n}\nclass Two {\n}\nclass Three {\n}"
    graph = graph_of({"A.java": facts_of(source)}).graph
    context = Gathered([ContextPart("", *excerpt)])
    assert reached_types(graph, context, "source") == types


def difference(first, second):
    """The paired difference between two lists of scores."""
    return sign_flip_difference(pd.Series(first, dtype=float), pd.Series(second, dtype=float))


def test_paired_differences_of_hand_computed_scores():
    found = difference([1.0, 1.0, 1.0, 1.0, 0.5], [0.5, 0.5, 0.5, 0.5, 0.5])
    assert found.n == 5
    assert found.value == pytest.approx(0.4)
    assert found.p == 2 / 16  # The pair without a difference does not count.
    assert 0 < found.low < 0.4 < found.high <= 0.5
    assert difference([1.0, 0.0], [0.0, 1.0]).p == 1.0
    assert difference([1.0], [1.0]).p == 1.0
    assert difference([None, 1.0], [0.0, 0.0]).n == 1
    assert difference([], []).n == 0
    # Twenty pairs have too many sign flips to enumerate, so they are sampled.
    assert difference([1.0] * 20, [0.0] * 20).p < 0.001
