"""The contexts of the pipelines, on a hand-made repository whose graph and ranking are known."""

from __future__ import annotations

import pytest

from pkg_lib.core.types import Context, UserError
from pkg_lib.data.questions import Question
from pkg_lib.graph.types.java import facts_of
from pkg_lib.graph.types.listing import graph_of as published
from pkg_lib.graph.types.resolve import graph_of
from pkg_lib.papers.dkb.evidence import Judge, paired, table
from pkg_lib.papers.dkb.pipelines import Budget, Excerpt, Gathered, GraphPipeline, NoGraph, Repository
from pkg_lib.papers.dkb.splitter import chunks_of

TEXTS = {
    "Api.java": "interface Api { void work(); }",
    "Impl.java": "class Impl implements Api { Store store; }",
    "Web.java": "class Web { Api api; }",
    "Job.java": "class Job { Web web; }",
    "Store.java": "class Store { static class Row {} }",
    "Lone.java": "class Lone {}",
}
QUESTION = Question("Q", "who uses Impl?", ("Impl", "Web", "Store", "Job"), "upstream")


def repository(*order):
    chunks = {c.id: c for path, text in TEXTS.items() for c in chunks_of(path, text)}
    best = [(f"{name}.java#0", 1 - i / 10) for i, name in enumerate(order)]
    return Repository(TEXTS, chunks, {"Q": best})


@pytest.fixture(scope="module")
def graph():
    return graph_of({p: facts_of(t.encode()) for p, t in TEXTS.items()}).graph


def test_no_graph_is_the_best_chunks_and_nothing_else():
    found = NoGraph(repository("Lone", "Impl", "Web"), k=2).gather("Q")
    assert (
        found.text
        == "// Lone.java\nclass Lone {}\n\n// Impl.java\nclass Impl implements Api { Store store; }\n"
    )
    assert (
        [e.path for e in found.excerpts] == ["Lone.java", "Impl.java"]
        and not found.listed
        and found.score == 1.0
    )


@pytest.mark.parametrize(("k", "depth", "says"), [(0, 1, "k = 0"), (-1, 1, "k = -1"), (1, -2, "depth = -2")])
def test_sizes_that_no_pipeline_can_take(graph, k, depth, says):
    with pytest.raises(UserError, match=says):
        GraphPipeline(repository("Impl"), graph, "DKB", k, depth)
    if k < 1:
        with pytest.raises(UserError, match=says):
            NoGraph(repository("Impl"), k)


def test_no_graph_of_a_size_takes_as_many_chunks_as_fit():
    one = len(NoGraph(repository("Impl"), k=1).gather("Q").text) + 1
    made = repository("Impl", "Web", "Job")
    for size, count in ((1, 1), (one, 1), (one + 33, 1), (one + 37, 2), (10_000, 3)):
        found = NoGraph(made, sizes={"Q": size}).gather("Q")
        assert len(found.excerpts) == count
        assert count == 1 or len(found.text) <= size


def test_dkb_goes_both_ways_and_through_interfaces(graph):
    found = GraphPipeline(repository("Impl"), graph, "DKB").gather("Q")
    assert found.seeds == ["Impl"] and set(found.listed) == {"Impl", "Api", "Store", "Web"}
    assert [e.path for e in found.excerpts] == ["Impl.java", "Api.java", "Store.java", "Web.java"]
    assert "\n[ONTOLOGY INFO]: Impl implements Api. Checking consumers of Api...\n" in found.text
    assert " - [INJECTS/USES] -> Api (implements)\n - [INJECTS/USES] -> Store (injects)\n" in found.text
    assert " - [USED BY] <- Web (uses (via interface))\n" in found.text


def test_without_the_interface_rule_the_consumer_is_missed(graph):
    found = GraphPipeline(repository("Impl"), graph, "DKB", interfaces=False).gather("Q")
    assert set(found.listed) == {"Impl", "Api", "Store"} and "Web" not in found.text


@pytest.mark.parametrize(("depth", "above"), [(1, {"Web"}), (2, {"Web", "Job"})])
def test_depth(graph, depth, above):
    found = GraphPipeline(repository("Api"), graph, "DKB", depth=depth, interfaces=False).gather("Q")
    assert set(found.listed) - {"Api", "Impl", "Store"} == above
    assert " - [USED BY] <- Web (injects)\n" in found.text
    assert (" - [USED BY] <- Job (indirectly)\n" in found.text) == ("Job" in above)


def test_the_coupled_variant_retrieves_from_files_of_the_graph_only(graph):
    made = repository("Lone", "Impl", "Web")
    paths = frozenset({"Impl.java", "Web.java"})
    assert GraphPipeline(made, graph, "DKB", k=1, paths=paths).gather("Q").seeds == ["Impl"]


def test_budgets(graph):
    made = repository("Impl", "Web", "Job", "Lone")
    whole = GraphPipeline(made, graph, "DKB").gather("Q")
    for total in (60, 120, 250, 400):
        small = GraphPipeline(made, graph, "DKB", budget=Budget(total=total)).gather("Q")
        assert len(small.text) <= total and small.truncated and len(small.excerpts) <= len(whole.excerpts)
    assert not whole.truncated
    short = GraphPipeline(repository("Impl"), graph, "DKB", budget=Budget(chunk=5, neighbour=9)).gather("Q")
    assert "// Impl.java\nclass\n" in short.text and "// Api.java\ninterface\n" in short.text
    few = GraphPipeline(repository("Impl"), graph, "DKB", budget=Budget(neighbours=1)).gather("Q")
    assert set(few.listed) == {"Impl", "Api", "Web"} and few.truncated


def test_as_published_takes_the_file_name_for_the_class(graph):
    simple = published({p: facts_of(t.encode()) for p, t in TEXTS.items()})
    found = GraphPipeline(repository("Store"), simple, "as published", by_file=True).gather("Q")
    assert found.seeds == ["Store"] and set(found.listed) == {"Store", "Impl"}
    assert GraphPipeline(repository("Store"), graph, "DKB").gather("Q").seeds == ["Store", "Store.Row"]


def test_pipelines_are_retrievers(graph):
    (context,) = GraphPipeline(repository("Impl", "Web"), graph, "DKB").retrieve([QUESTION.task()])
    assert isinstance(context, Context) and (context.task_id, context.column, context.score) == (
        "Q",
        "DKB",
        1.0,
    )
    assert context.source.startswith("Impl.java; Web.java; Api.java") and context.text


def test_evidence_by_hand(graph):
    judge = Judge(graph)
    none = NoGraph(repository("Impl", "Store"), k=2).gather("Q")
    assert judge.reached(none, "source") == {"Impl", "Store", "Store.Row"}
    assert judge.scores(QUESTION, none, "source") == (0.5, 1.0)  # Row counts as Store
    assert judge.reached(none, "named") == {"Impl", "Api", "Store", "Store.Row"}
    assert judge.scores(QUESTION, none, "named") == (0.5, pytest.approx(2 / 3))
    dkb = GraphPipeline(repository("Impl"), graph, "DKB", budget=Budget(total=330)).gather("Q")
    assert "// Web.java" not in dkb.text
    assert (
        judge.scores(QUESTION, dkb, "listed")[0] == 0.75 and judge.scores(QUESTION, dkb, "source")[0] < 0.75
    )


def test_only_the_types_whose_lines_are_shown_are_reached():
    source = "class One {\n}\nclass Two {\n}\nclass Three {\n}"
    judge = Judge(graph_of({"A.java": facts_of(source.encode())}).graph)
    assert judge.reached(Gathered("", [Excerpt("A.java", 3, 3)]), "source") == {"Two"}
    assert judge.reached(Gathered("", [Excerpt("A.java", 2, 4)]), "source") == {"One", "Two"}
    assert judge.reached(Gathered("", [Excerpt("B.java", 1, 9)]), "source") == set()


def test_nothing_reached_has_no_precision(graph):
    recall, precision = Judge(graph).scores(QUESTION, NoGraph(repository(), k=2).gather("Q"), "source")
    assert recall == 0 and precision != precision


def test_the_table_has_a_row_a_pipeline_question_and_reading(graph):
    made = repository("Impl", "Lone")
    frame = table(Judge(graph), [QUESTION], [NoGraph(made, 1), GraphPipeline(made, graph, "DKB", 1)])
    assert frame[["pipeline", "reading"]].to_numpy().tolist() == [
        [p, r] for p in ("No-Graph", "DKB") for r in ("source", "listed", "named")
    ]
    recall = frame.set_index(["pipeline", "reading"])["recall"]
    assert recall["No-Graph", "source"] == 0.25 and recall["DKB", "source"] == 0.75


def test_paired_by_hand():
    d = paired([1.0, 1.0, 1.0, 1.0, 0.5], [0.5, 0.5, 0.5, 0.5, 0.5])
    assert (
        d.n == 5 and d.value == pytest.approx(0.4) and d.p == 2 / 16
    )  # one difference is 0 and says nothing
    assert 0 < d.low < 0.4 < d.high <= 0.5
    assert paired([1.0, 0.0], [0.0, 1.0]).p == 1.0 and paired([1.0], [1.0]).p == 1.0
    assert paired([float("nan"), 1.0], [0.0, 0.0]).n == 1 and paired([], []).n == 0
    assert paired([0.1, 0.9, 0.4], [0.2, 0.1, 0.3]) == paired([0.1, 0.9, 0.4], [0.2, 0.1, 0.3])


def test_many_questions_are_tested_with_random_signs():
    assert paired([1.0] * 20, [0.0] * 20).p < 0.001
