"""Question files: what is read, and one line for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from pkg_lib.core.types import UserError
from pkg_lib.data.questions import Question, gold, read_questions
from pkg_lib.graph.types.build import build

SHOP = Path(__file__).parent.parent / "data" / "shop"
A = "{id: a, question: b, needs: [A]}"


def test_the_shop_has_fifteen_questions_whose_types_all_exist():
    questions, graph = read_questions(SHOP / "questions.yaml"), build(SHOP).graph
    assert [q.id for q in questions] == [f"Q{n}" for n in range(1, 16)]
    assert {q.kind for q in questions} == {"local", "semantics", "upstream", "multi-hop"}
    assert all(len(gold(q, graph)) == len(q.needs) for q in questions)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("questions: [", "no YAML"),
        ("[]", "questions: Input should be a valid list"),
        ("questions: []", "questions: List should have at least 1 item"),
        ("questions: [{id: a, question: b}]", "questions 1 needs: Field required"),
        (
            "questions: [{id: a, question: b, needs: []}]",
            "questions 1 needs: Tuple should have at least 1",
        ),
        (
            "questions: [{id: a, question: ' ', needs: [A]}]",
            "questions 1 question: String should have",
        ),
        (
            "questions: [{id: a, question: b, needs: [A], gold: [B]}]",
            "questions 1 gold: Unexpected",
        ),
        (f"questions: [{A}, {A}]", "two questions have the id a"),
        (None, "give a YAML file of questions"),
    ],
)
def test_mistakes(tmp_path, text, says):
    path = tmp_path / "q.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=says) as e:
        read_questions(path)
    assert str(path) in str(e.value) and "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("needed", "says"),
    [
        ("Nobody", r"question Q: Nobody is no type of the repository; name one that is$"),
        ("OrderServise", r"\(OrderService"),
        (
            "Address",
            r"means com.example.shop.model.Address, com.example.shop.shipping.Address; give one",
        ),
    ],
)
def test_needed_types_that_are_none_or_several(needed, says):
    with pytest.raises(UserError, match=says):
        gold(Question("Q", "?", (needed,)), build(SHOP).graph)
