"""One query, step by step: the tables, the tree, the figure and the sentences say what `explain` did."""

import pytest

from pkg_lib.analysis.tables import DASH
from pkg_lib.core.types import Document, UserError
from pkg_lib.papers.pkg import query_steps
from pkg_lib.papers.pkg.query_figures import draw_branches
from pkg_lib.retrieval.explain import explain
from pkg_lib.retrieval.knowledge import Knowledge
from pkg_lib.retrieval.prune import PRUNINGS
from tests.analysis.checks import legible

SOURCE = """def helper(sentence):
    return sentence.strip()


def count_sentences(text):
    boring = exciting = 0
    for sentence in text.split("."):
        if helper(sentence).startswith("I"):
            boring += 1
    while exciting:
        exciting -= 1
    return boring
"""
QUERY = "count boring sentence: boring sentence starts"


@pytest.fixture
def knowledge(embedder):
    other = Document("e", "def other(x):\n    return x\n")
    return Knowledge([Document("d", SOURCE), other], embedder)


@pytest.fixture
def pruned(knowledge):
    return explain(knowledge, QUERY, pruning="paper-literal", calls=500)


def test_every_way_of_pruning_has_its_note():
    assert set(query_steps.PRUNING_NOTES) == set(PRUNINGS)


def test_a_block_belongs_to_its_function(knowledge, pruned):
    graph, best = pruned.graph, pruned.nodes[0]
    assert query_steps.function_of(graph, best) == "count_sentences"
    block = query_steps.branches_of_best(pruned)[0]
    assert query_steps.function_of(graph, block) == "count_sentences"
    assert query_steps.lines_of(graph, block) == "7-9"


def test_nodes_are_ranked_with_their_function_and_place(pruned):
    table = query_steps.nearest_table(pruned, QUERY, "function")
    first = table.frame.loc["1"]
    assert first["function"] == "count_sentences" and first["where"] == "d:5-12"
    assert first["cosine"] == f"{pruned.cosines[0]:.3f}"
    assert len(table.frame) == 3 and QUERY in table.notes[0]


def test_the_removed_branch_is_marked_in_the_table_the_tree_and_the_sentences(pruned):
    lines = query_steps.lines_of(pruned.graph, pruned.removed)
    effects = query_steps.branches_table(pruned, "paper-literal").frame["pruning"]
    assert effects[lines] == "removed" and (effects.drop(lines) == DASH).all()
    tree = query_steps.pruning_tree(pruned)
    assert tree.count("<del>") == tree.count("pruned</strong>") == 1
    sentences = query_steps.query_findings(pruned, "function")
    assert f"lines {lines} were removed" in sentences[1]
    assert "d:1-2" in query_steps.context_html(pruned) + " ".join(sentences)


def test_blocks_below_the_removed_branch_are_struck_out_with_it(knowledge):
    explained = explain(knowledge, "exciting exciting", pruning="paper-literal")
    assert query_steps.lines_of(explained.graph, explained.removed) == "7-9"
    below = list(explained.graph.descendants(explained.removed))
    tree = query_steps.pruning_tree(explained)
    assert below and tree.count("<del>") == 1 + len(below)


def test_a_node_that_stays_whole_says_so(knowledge):
    whole = explain(knowledge, QUERY, pruning="unpruned")
    effects = query_steps.branches_table(whole, "unpruned").frame["pruning"]
    assert effects[DASH] == "kept whole"
    assert "Nothing was removed" in query_steps.query_findings(whole, "function")[1]
    assert "<del>" not in query_steps.pruning_tree(whole)


def test_a_page_holds_every_step_of_a_query(knowledge, pruned):
    page = query_steps.query_page(knowledge, QUERY, "function", "paper-literal", 500).data
    assert query_steps.pruning_tree(pruned) in page
    assert query_steps.context_html(pruned) in page
    with pytest.raises(UserError, match="empty"):
        query_steps.query_page(knowledge, " ", "function", "guarded", 0)


@pytest.mark.parametrize("unit", ["function", "block"])
def test_the_figure_is_legible_and_has_a_cosine_for_each_branch(knowledge, unit):
    explained = explain(knowledge, QUERY, unit, pruning="paper-literal")
    shown = legible(draw_branches(explained))
    for branch in query_steps.branches_of_best(explained):
        assert f"{explained.without[branch]:.3f}" in shown
    assert ("removed" in shown) == (explained.removed >= 0)
