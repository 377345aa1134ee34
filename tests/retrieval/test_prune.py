"""Equations 6 and 7: what a removal leaves, and which one wins."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from graph.source_trees import Expected, bodies, render
from hypothesis import given

from pkg_lib.core.types import Document
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.graph.code import parses
from pkg_lib.graph.schema import BLOCK, IMPL, build_code_graph
from pkg_lib.retrieval.embed import Embedder
from pkg_lib.retrieval.methods import METHODS
from pkg_lib.retrieval.prune import (
    GUARDED,
    LITERAL,
    PRUNINGS,
    UNPRUNED,
    prune,
    without_branch,
)

# Figure 3 of the paper: sentences that begin with "I" are boring; the code counts exciting ones too.
FIGURE_3 = """def count_sentences(text):
    boring = exciting = 0
    for sentence in text.split("."):
        if sentence.strip().startswith("I"):
            boring += 1
        if sentence.strip().endswith("!"):
            exciting += 1
            exciting_sentence = sentence
    return boring
"""


def check_removals(graph) -> int:
    """Every removal parses where the node did, and leaves every line outside the branch as it was."""
    removals = [
        (v, b) for v in map(int, np.flatnonzero(graph.type)) for b in map(int, graph.branches(v))
    ]
    for v, branch in removals:
        rest, lines = without_branch(graph, v, branch), graph.payload(v).split("\n")
        assert parses(rest) or not parses("\n".join(lines))
        start, stop = graph.first[branch] - graph.first[v], graph.last[branch] - graph.first[v] + 1
        kept = rest.split("\n")
        assert kept[:start] == lines[:start]
        after = len(lines) - stop
        assert kept[len(kept) - after :] == lines[stop:]
        assert [line.strip() for line in kept[start : len(kept) - after]] in ([], ["pass"])
    return len(removals)


def test_every_removal_of_the_textbook_keeps_parsing(textbook):
    assert check_removals(textbook[1]) > 500


@given(bodies)
def test_every_removal_of_generated_source_keeps_parsing(body):
    out = Expected()
    render(body, out)
    check_removals(build_code_graph([Document("d", "\n".join(out.lines) + "\n")]))


@pytest.mark.parametrize(
    ("source", "rest"),
    [
        ("def f():\n    for a in b:\n        c\n", "def f():\n    pass"),
        (
            "def f():\n    x = 1\n    if a:\n        c\n    return x\n",
            "def f():\n    x = 1\n    return x",
        ),
        ("def f():\n    '''doc'''\n    if a:\n        c\n", "def f():\n    '''doc'''"),
        ("def f():\n    # why\n    if a:\n        c\n", "def f():\n    # why\n    pass"),
        ("def f():\n    @deco\n    def g(): pass\n", "def f():\n    pass"),
        ("def f():\n\tif a:\n\t\tc\n", "def f():\n\tpass"),
    ],
)
def test_a_suite_left_empty_gets_a_pass(source, rest):
    graph = build_code_graph([Document("d", source)])
    assert without_branch(graph, 1, graph.branches(1)[0]) == rest


def test_figure_3_keeps_what_counts_boring_sentences(embedder):
    graph = build_code_graph([Document("d", FIGURE_3)])
    loop = int(graph.of_type(BLOCK)[1])
    (query,) = embedder.encode(
        ["Count boredoms: a boring sentence starts with the word I. Sentence boring."]
    )
    pruned = prune(graph, loop, query, embedder, LITERAL)
    assert "boring += 1" in pruned.text and "exciting" not in pruned.text
    assert pruned.text.startswith("for sentence in")  # dedented
    assert graph.first[pruned.branch] == 6


def test_equation_7_takes_the_highest_cosine(embedder):
    graph = build_code_graph([Document("d", FIGURE_3)])
    nodes = [
        v for v in range(len(graph)) if graph.type[v] in (IMPL, BLOCK) and len(graph.branches(v))
    ]
    for question in ("exciting sentence ends", "boring sentence starts", "text split"):
        (query,) = embedder.encode([question])
        for v in nodes:
            branches = graph.branches(v).tolist()
            scores = [
                float(embedder.encode([without_branch(graph, v, b)])[0] @ query) for b in branches
            ]
            pruned = prune(graph, v, query, embedder, LITERAL)
            assert pruned.score == pytest.approx(max(scores))
            assert pruned.branch == branches[int(np.argmax(scores))]
            assert pruned.text == textwrap.dedent(without_branch(graph, v, pruned.branch))


def test_a_node_without_branches_stays(embedder):
    graph = build_code_graph([Document("d", "class A:\n    def f(self):\n        return 1\n")])
    for pruning in PRUNINGS:
        pruned = prune(graph, 1, embedder.encode(["one"])[0], embedder, pruning)
        assert (pruned.text, pruned.branch) == ("def f(self):\n    return 1", -1)


def test_guarded_pruning_is_equation_7_where_that_raises_the_cosine(embedder, textbook):
    graph = textbook[1]
    kept = removed = 0
    for v in (int(v) for v in graph.of_type(IMPL)[:150] if len(graph.branches(v))):
        for question in ("sort the items of a list", graph.payload(v - 1)):
            (query,) = embedder.encode([question])
            whole = float(embedder.encode([graph.payload(v)])[0] @ query)
            paper, guarded = (prune(graph, v, query, embedder, p) for p in (LITERAL, GUARDED))
            assert prune(graph, v, query, embedder, UNPRUNED).score == pytest.approx(whole)
            assert guarded.score == pytest.approx(max(paper.score, whole))
            assert guarded.branch in (paper.branch, -1)
            assert guarded.text == (
                paper.text if guarded.branch >= 0 else textwrap.dedent(graph.payload(v))
            )
            kept, removed = kept + (guarded.branch < 0), removed + (guarded.branch >= 0)
    assert kept and removed


def test_equal_cosines_leave_the_node_whole_and_else_take_the_first_branch(embedder):
    graph = build_code_graph(
        [Document("d", "def f():\n    if a1:\n        1\n    if a2:\n        1\n")]
    )
    query = np.zeros(256, np.float32)
    assert prune(graph, 1, query, embedder, LITERAL).branch == 3
    assert prune(graph, 1, query, embedder).branch == -1


# Figure 3 again, as MiniLM sees it. The first function counts both in one loop, the second in a loop each.
TWO_LOOPS = """def count_sentences(text):
    boring = 0
    exciting = 0
    sentences = re.split(r"[.?!]\\s*", text)
    for sentence in sentences:
        if sentence.startswith("I"):
            boring += 1
    for sentence in sentences:
        if sentence.startswith("Wow"):
            exciting += 1
    return boring, exciting
"""
CAPTION = "Write a function that counts the total number of boring sentences. "
CAPTION += "A boring sentence starts with the word 'I'."


@pytest.fixture(scope="module")
def minilm(tmp_path_factory):
    return Embedder(cache=tmp_path_factory.mktemp("vectors"))


@pytest.mark.parametrize("pruning", [LITERAL, GUARDED])
@pytest.mark.parametrize(
    ("source", "node", "question", "paper", "kept_by_guard"),
    [
        (FIGURE_3, BLOCK, CAPTION, "exciting", False),
        (TWO_LOOPS, IMPL, CAPTION, "exciting", False),
        (TWO_LOOPS, IMPL, "HumanEval/91", "exciting", True),
        # Not what the paper says: with the benchmark's own words the wrong branch goes, by 0.003.
        (FIGURE_3, BLOCK, "HumanEval/91", "boring", True),
    ],
    ids=["caption, block", "caption, function", "HumanEval/91, function", "HumanEval/91, block"],
)
def test_figure_3_with_minilm(minilm, source, node, question, paper, kept_by_guard, pruning):
    """Which branch Equation 7 removes with real vectors, and where the guarded form removes none."""
    graph, prompts = (
        build_code_graph([Document("d", source)]),
        {t.id: t.prompt for t in load_benchmark("humaneval")},
    )
    (query,) = minilm.encode([prompts.get(question, question)])
    pruned = prune(graph, int(graph.of_type(node)[int(node == BLOCK)]), query, minilm, pruning)
    if pruning == GUARDED and kept_by_guard:
        assert (
            pruned.branch == -1 and "boring += 1" in pruned.text and "exciting += 1" in pruned.text
        )
    else:
        assert (
            f"{paper} += 1" in graph.payload(pruned.branch) and f"{paper} += 1" not in pruned.text
        )
        assert ("exciting" if paper == "boring" else "boring") + " += 1" in pruned.text


@pytest.mark.parametrize("column", ["Func-PKG", "Block-PKG"])
def test_a_column_is_guarded_unless_its_name_says_otherwise(column):
    ways = {"": "guarded", ", paper-literal": "paper-literal", ", unpruned": "unpruned"}
    assert {name: METHODS[f"{column}{name}"].make_retriever(None).pruning for name in ways} == ways
