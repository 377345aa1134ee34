"""Answers scored by the types that they name, and the gold lists that were read twice."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pandas as pd
import pytest

from pkg_lib.core.store import ROOT
from pkg_lib.core.types import UserError
from pkg_lib.data.questions import Question, agreement, disputed, gold, read_questions
from pkg_lib.graph.types.build import build
from pkg_lib.papers.dkb.entity_scores import (
    entities_table,
    entity_score,
    entity_scores,
    question_scores_table,
    record_scores,
    recorded_scores,
)
from pkg_lib.papers.dkb.repository_study import open_study

SHOP = ROOT / "tests" / "data" / "shop"
SHOPIZER = ROOT / "tests" / "data" / "shopizer.yaml"


@pytest.fixture(scope="module")
def graph():
    return build(SHOP).graph


QUESTION = Question(
    id="Q1",
    question="Who calls OrderService?",
    needs=("OrderServiceImpl", "CartService"),
    first_only=("OrderController",),
    outside=("HttpSession",),
)
WORDS = {"JpaRepository"}


def score(graph, answer, question=QUESTION):
    return entity_score(question, answer, graph, WORDS)


def test_right_wrong_and_invented_names(graph):
    made = score(
        graph,
        "OrderServiceImpl and `HttpSession`, not OrderService. CheckoutHelperFactory calls it, and "
        "OrderMailListener. OrderController uses a JpaRepository.",
    )
    assert made.right == {"OrderServiceImpl", "HttpSession"} and made.missed == {"CartService"}
    # Named by the question, by one reading or by the sources: neither right nor wrong.
    assert made.wrong == {"OrderMailListener"} and made.invented == {"CheckoutHelperFactory"}
    assert (made.precision, made.recall) == (0.5, pytest.approx(2 / 3))
    assert made.f1 == pytest.approx(4 / 7)


def test_wrong_and_invented_names_cost(graph):
    right = "OrderServiceImpl, CartService, HttpSession."
    best = score(graph, right)
    assert (best.precision, best.recall, best.f1) == (1, 1, 1)
    for more in ("OrderMailListener", "NoSuchHelperFactory"):
        worse = score(graph, f"{right} {more}.")
        assert worse.recall == 1 and worse.precision == 0.75 and worse.f1 < 1


def test_an_answer_that_names_nothing_has_no_precision(graph):
    made = score(graph, "I cannot say.")
    assert math.isnan(made.precision) and made.recall == 0 and made.f1 == 0
    only_wrong = score(graph, "OrderMailListener")
    assert only_wrong.precision == 0 and only_wrong.f1 == 0


def test_short_names_are_words_of_sentences_unless_they_are_in_backticks(graph):
    question = Question(id="Q", question="?", needs=("CartService",))
    assert not score(graph, "The Order and the Address.", question).wrong
    assert score(graph, "The `Order` and the Address.", question).wrong == {"Order"}
    needed = Question(
        id="Q", question="?", needs=(next(n for n in graph.nodes if n.endswith(".Order")),)
    )
    assert score(graph, "The `Order`.", needed).right == {"Order"}
    assert score(graph, "The Order.", needed).missed == {"Order"}


def test_a_name_that_the_question_has_is_not_credited(graph):
    question = Question(
        id="Q", question="What is CartService?", needs=("CartService", "OrderService")
    )
    made = score(graph, "CartService is a service.", question)
    assert not made.right and made.missed == {"OrderService"}


def test_a_type_cannot_be_in_both_readings_and_in_one_alone(graph):
    wrong = Question(id="Q", question="?", needs=("CartService",), second_only=("CartService",))
    with pytest.raises(UserError, match="CartService is needed, so both readings have it"):
        disputed(wrong, graph)
    unknown = Question(id="Q", question="?", needs=("CartService",), first_only=("NoSuch",))
    with pytest.raises(UserError, match="question Q: NoSuch is no type"):
        disputed(unknown, graph)


def test_a_type_of_the_repository_is_not_of_a_library(graph):
    wrong = Question(id="Q", question="?", needs=("CartService",), outside=("OrderService",))
    with pytest.raises(UserError, match="question Q: OrderService is a type of the repository"):
        score(graph, "OrderService", wrong)


def test_agreement_counts_types_of_all_questions():
    first = Question(id="A", question="?", needs=("X", "Y", "X"), first_only=("Z",))
    second = Question(id="B", question="?", needs=("X",), second_only=("Y", "Z"))
    assert agreement([first, second]) == 3 / 6


def test_the_stored_answers_about_the_shop_are_scored():
    study = open_study(str(SHOP), str(SHOP / "questions.yaml"), ROOT / "results")
    scores = entity_scores(study)
    assert scores.groupby("pipeline").size().to_dict() == dict.fromkeys(study.answers, 15)
    assert scores["f1"].between(0, 1).all() and (scores["invented"] > 0).any()
    table = entities_table(study, {}).frame
    assert list(table.index) == [f"small shop, {pipeline}" for pipeline in study.answers]


def test_scores_of_answers_are_shown_later_without_the_sources(tmp_path, monkeypatch):
    study = open_study(str(SHOP), str(SHOP / "questions.yaml"), ROOT / "results")
    scores = entity_scores(study)
    study.results = tmp_path
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    assert recorded_scores("shop", study.model).empty
    record_scores(study)
    stored = recorded_scores("shop", study.model)
    pd.testing.assert_frame_equal(stored, scores)
    assert recorded_scores("shop", "another-model").empty
    study.results = ROOT / "results"
    result = entities_table(study, {"again": stored, "nobody": stored[:0]})
    table = result.frame
    ours = table[table.index.str.startswith("small shop, DKB")]
    again = table[table.index.str.startswith("again, DKB")]
    assert ours.to_numpy().tolist() == again.to_numpy().tolist()
    by_question = question_scores_table("shop", study.questions, stored).frame
    assert len(by_question) == len(study.questions) and "DKB" in by_question
    assert question_scores_table("shop", study.questions, stored[:0]).frame.shape[1] == 1
    assert "nobody, DKB" not in table.index
    assert "nobody, DKB" in result.notes[-1]


def test_shopizer_has_a_question_on_each_theme_of_table_10():
    questions = read_questions(SHOPIZER)
    assert [question.id for question in questions] == [f"S{n}" for n in range(1, 16)]
    themes = " ".join(question.theme for question in questions)
    signals = "save UserStoreHandler generic PricingService Inventory CustomerService Checkout "
    signals += "Authentication SearchService deletion Cart category Transactional Shipping ID"
    assert all(signal in themes for signal in signals.split())
    assert 0.4 < agreement(questions) < 1


@pytest.mark.parametrize(
    ("file", "first", "signals"),
    [
        (
            "openmrs-core.yaml",
            "O1",
            "Context ServiceContext Privilege saveEncounter saveVisit Obs Daemon locale",
        ),
        (
            "thingsboard.yaml",
            "T1",
            "startup Login Telemetry MQTT Netty TbContext tellNext Alarm YAML Queue",
        ),
    ],
)
def test_the_other_repositories_have_a_question_on_each_theme(file, first, signals):
    questions = read_questions(SHOPIZER.with_name(file))
    assert [question.id for question in questions] == [f"{first[0]}{n}" for n in range(1, 16)]
    themes = " ".join(question.theme for question in questions)
    assert all(signal in themes for signal in signals.split())


@pytest.mark.parametrize(
    ("file", "archive"),
    [
        ("shopizer.yaml", "shopizer-3.2.7.zip"),
        ("openmrs-core.yaml", "openmrs-core-9ecb855.zip"),
        ("thingsboard.yaml", "thingsboard-cdfb5be.zip"),
    ],
)
def test_the_gold_lists_are_types_of_the_sources(file, archive):
    sources = Path(os.environ.get("PKG_DKB_DIR", "nowhere")) / archive
    if not sources.exists():
        pytest.skip("the paper's repositories are not available; PKG_DKB_DIR names their directory")
    graph = build(sources, processes=1).graph
    for question in read_questions(SHOPIZER.with_name(file)):
        assert gold(question, graph) and len(disputed(question, graph)) == len(
            {*question.first_only, *question.second_only}
        )
        assert not set(question.outside) & set(graph.by_simple)
