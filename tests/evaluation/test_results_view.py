"""Runs as they are stored, and what prepares them: all but completions is computed for real."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from dataclasses import replace

import pandas as pd
import pytest
from fakes import FakeBackend, WordEmbedder, unpacked

from pkg_lib.core.reading import contents
from pkg_lib.core.store import ROOT, read_rows, write_jsonl
from pkg_lib.core.types import (
    NOTHING,
    BenchmarkMissing,
    Context,
    Document,
    Generation,
    Task,
    UserError,
)
from pkg_lib.data import mbpp
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.data.corpora import load_corpus
from pkg_lib.data.mbpp import AssertionTests
from pkg_lib.data.published import context_id
from pkg_lib.evaluation import forecast, study
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.storage import method_files
from pkg_lib.evaluation.study import MODEL, STUDY
from pkg_lib.retrieval.knowledge import Knowledge, TextKnowledge
from pkg_lib.retrieval.methods import RERANKED, SELECTING, context_method, methods_of

FIRST = STUDY[0]


@pytest.fixture(params=["textbook+stdlib", "pkg-contexts"])
def run(request, committed):
    return Results(MODEL, corpus=request.param, limit=8)


def without_some(path, keep):
    """Leaves those lines of a file whose task the predicate keeps."""
    write_jsonl(path, [row for row in read_rows(unpacked(path)) if keep(row["task_id"])])


@pytest.mark.parametrize("part", STUDY, ids=lambda p: f"{p.model}-{p.benchmark}-{p.corpus}")
@pytest.mark.slow
def test_the_committed_study_lacks_nothing(committed, monkeypatch, part):
    """A fresh clone shows the whole study without weights and the authors' data."""
    monkeypatch.delenv("PKG_PAPER_DIR", raising=False)
    run = Results(part.model, part.benchmark, part.corpus)
    columns = list(part.methods or run.retrievers)
    forecasts = forecast.forecast(Evaluator(run), columns, set())
    assert [(c.missing, c.todo) for c in forecasts] == [(0, 0)] * len(columns)
    assert Evaluator(run).prepare(columns) == 0
    frame = run.verdicts(list(part.methods) or None)
    asked = {
        c: {x.task_id for x in run.contexts(c) if not run.unpublished(c, x)} for c in run.retrievers
    }
    everywhere = set.intersection(*(asked[c] for c in run.candidates))
    assert all(
        set(frame.index[frame[c].notna()]) == asked.get(context_method(c), everywhere)
        for c in frame
    )
    counts = {"humaneval": 164, "mbpp": 500, "beatnum": 93, "monkey": 80}
    counts |= {"more-itertools": 30, "newlisp": 60, "networkx": 100}
    assert (
        len(frame) == counts[re.sub("-(m|module|public)$", "", part.benchmark)]
    )  # of a library's, however it is judged


def test_verdicts_cover_every_task_and_column(run):
    frame = run.verdicts()
    assert list(frame) == [*methods_of("textbook"), *SELECTING] and frame.notna().all(axis=None)
    assert list(frame.index) == [t.id for t in run.tasks]
    assert (frame["Ideal Reranker"] == frame[list(methods_of("textbook"))].any(axis=1)).all()
    chosen = {task: row["chosen"] for task, row in run.selections().items()}
    assert all(frame.at[task, "Reranked"] == frame.at[task, chosen[task]] for task in frame.index)


def test_reading_writes_and_executes_nothing(run, monkeypatch):
    """What the store lacks is not measured."""
    monkeypatch.setattr(
        "pkg_lib.evaluation.pipeline.run_with_limits", lambda *a, **k: pytest.fail("executed")
    )
    shutil.rmtree(run.results / "runs")
    before = {p: p.stat().st_mtime_ns for p in run.results.rglob("*")}
    assert run.verdicts().isna().all(axis=None) and run.selections() == {}
    assert all(series.empty for series in run.controls().values())
    assert {p: p.stat().st_mtime_ns for p in run.results.rglob("*")} == before


def test_executing_again_gives_the_stored_verdicts(run):
    def verdicts():
        return {i: (o.status, o.error) for i, o in run.outcomes("Block-PKG").items()}

    stored = verdicts()
    run.files("Block-PKG").samples.unlink()
    assert Evaluator(run).prepare([]) == 0 and verdicts() == stored
    assert [t for t, _ in Evaluator(run, fresh=True).missing("NoRAG")] == run.tasks  # asked again


@pytest.mark.parametrize(("measured", "counted"), [(3, False), (4, True)])
def test_a_column_with_verdicts_on_fewer_than_half_of_the_tasks_is_not_measured(
    committed, measured, counted
):
    run = Results(MODEL, corpus="published", limit=8)
    kept = [t.id for t in run.tasks][:measured]
    without_some(run.files("Func-PKG").samples, kept.__contains__)
    assert run.verdicts()["Func-PKG"].notna().sum() == (measured if counted else 0)


def test_a_task_without_a_published_context_is_not_asked(committed):
    """Its prompt would be None's."""
    run = Results(MODEL, corpus="published")
    none = {c.task_id for c in run.contexts("Block-PKG") if c.sha256 == NOTHING}
    assert len(none) == 6 and not none & set(run.completions("Block-PKG"))
    assert len(run.completions("Block-PKG")) == 158 and not list(
        Evaluator(run).missing("Block-PKG")
    )
    assert set(run.verdicts(["Block-PKG"]).query("`Block-PKG`.isna()").index) == none


def test_the_verdict_of_another_solution_is_none(committed):
    run = Results(MODEL, limit=1)
    path = run.files("NoRAG").samples
    first, *rows = read_rows(path)
    other = {"status": "failed", "error": "NameError", "sha256": "of another solution"}
    write_jsonl(path, [first | other, *rows])
    assert run.outcomes("NoRAG")["HumanEval/0"].status == "not_measured"
    Evaluator(run).prepare([])
    assert run.outcomes("NoRAG")["HumanEval/0"].error not in ("NameError", "not_measured")


def test_results_that_are_open_see_a_verdict_that_is_written_later(committed):
    run = Results(MODEL, FIRST.benchmark, FIRST.corpus)
    assert run.outcomes("NoRAG")["HumanEval/0"].status != "not_measured"
    path = run.files("NoRAG").samples
    write_jsonl(path, [row for row in read_rows(path) if row["task_id"] != "HumanEval/0"])
    assert run.outcomes("NoRAG")["HumanEval/0"].status == "not_measured"


def test_what_a_caller_does_with_solutions_changes_no_later_ones(committed):
    run = Results(MODEL, FIRST.benchmark, FIRST.corpus)
    run.solutions("NoRAG").clear()
    run.outcomes("NoRAG").clear()
    assert "HumanEval/0" in run.solutions("NoRAG") and "HumanEval/0" in run.outcomes("NoRAG")


def test_missing_completion_is_not_measured_and_never_a_failure(committed):
    without_some(Results(MODEL).files("NoRAG").completions, lambda task: task != "HumanEval/3")
    run = Results(MODEL, limit=5)
    frame = run.verdicts(["NoRAG"])
    assert run.outcomes("NoRAG")["HumanEval/3"].status == "not_measured"
    assert frame["NoRAG"].isna().sum() == 1 and frame.at["HumanEval/3", "NoRAG"] is pd.NA
    (prompt,) = Evaluator(run).prompts("NoRAG")
    assert (prompt.request.task_id, prompt.file) == ("HumanEval/3", "humaneval/none/norag.jsonl")
    assert len(run.solutions("NoRAG")) == 4
    parameters = run.generator.decoding.parameters | {"max_new_tokens": 64}
    run.generator.decoding = replace(run.generator.decoding, parameters=parameters)
    assert len(Evaluator(run).prompts("NoRAG")) == 5  # completions of other parameters are none
    assert run.solutions("NoRAG") == {}


def test_control_rows_bracket_the_scale(committed):
    controls = Results(MODEL).controls()
    assert not controls["return None"].any() and len(controls["return None"]) == 164
    assert controls["canonical solution"].all() and len(controls["canonical solution"]) == 164


def test_draws_are_columns_of_their_own_that_resume_and_leave_the_others_as_they_are(committed):
    asked = study.Choice(samples=2, temperature=0.5, top_p=0.9).generated_methods
    assert asked == ("NoRAG, T0.5, p0.9, 1", "NoRAG, T0.5, p0.9, 2")
    before, limited = Results(MODEL, limit=4).verdicts(), Results(MODEL, limit=4)
    backend = FakeBackend(
        lambda r: f"```python\ndef {r.entry_point}(*a):\n    return {r.sample}\n```", stop=5
    )
    with pytest.raises(KeyboardInterrupt):
        Evaluator(limited, backend=backend).prepare([*asked])
    backend.stop = None
    assert Evaluator(Results(MODEL, limit=4), backend=backend).prepare([*asked]) == 3  # of eight
    assert backend.sampling == {"temperature": 0.5, "top_p": 0.9}
    assert {(r.task_id, r.sample) for r in backend.asked} == {
        (t.id, n) for t in limited.tasks for n in (1, 2)
    }
    again = Results(MODEL, limit=4)
    assert again.draws("NoRAG", "T0.5") == [*asked]
    assert again.draws("NoRAG") == [*asked, *again.draws("NoRAG", "T0.8")]
    assert again.verdicts().equals(before) and set(asked) < set(again.stored_methods())
    assert again.verdicts([*asked]).notna().all(axis=None)
    for number, column in enumerate(asked, 1):
        assert all(f"return {number}" in solution for solution in again.solutions(column).values())


def test_the_prompt_of_a_papers_model_is_sent_raw_or_in_the_chat_template(committed):
    """The two are completions of their own, whose answers are kept whole."""
    names = "NoRAG, codellama prompt", "NoRAG, codellama prompt in chat", "NoRAG"
    backend = FakeBackend(lambda r: f"[PYTHON]\ndef {r.entry_point}(*a):\n    return 1\n[/PYTHON]")
    preparer = Evaluator(Results(MODEL, limit=1), fresh=True, backend=backend)
    assert preparer.generate([*names[:2]]) == 2
    raw, in_chat = backend.asked
    assert raw.text == in_chat.text
    assert raw.text.startswith("[INST] You are a python programmer.")
    assert (raw.as_it_is, in_chat.as_it_is) == (True, False)
    assert raw.whole_answer
    assert in_chat.whole_answer
    run = Results(MODEL, limit=1)
    keys = {next(iter(run.completions(name).values())).key for name in names}
    assert len(keys) == 3


def test_a_model_without_a_chat_template_has_no_prompts_in_chat(committed):
    run = Results("codellama-7b-instruct", limit=1)
    assert run.offers("NoRAG, codellama prompt")
    assert not run.offers("NoRAG, codellama prompt in chat")


def test_a_variant_is_offered_where_the_style_of_the_model_has_it(committed):
    paper, chat = (Results(m, corpus="textbook") for m in ("codellama-7b-instruct", study.MODEL))
    for method in ("Func-PKG", "Block-PKG"):
        assert paper.offers(f"{method}, helper section") and chat.offers(
            f"{method}, helper section"
        )
        assert paper.offers(f"{method}, no delimiters")
        assert not chat.offers(f"{method}, no delimiters")
    context = Context("HumanEval/0", "Func-PKG", "x = 1")
    usual, delimited = (
        paper.request(paper.tasks[0], context, m) for m in ("Func-PKG", "Func-PKG, helper section")
    )
    assert delimited == usual  # so that they share a completion


@pytest.mark.parametrize(
    ("model", "corpus", "method", "reason"),
    [
        ("starcoder2-7b", "published", "Block-PKG, no delimiters", "style plain of model starcod"),
        (
            "codellama-7b-instruct",
            "textbook",
            "Block-PKG, deepseek prompt in chat",
            "style codella",
        ),
        ("starcoder2-7b", "python-docs", "Block-PKG", "unknown method .* for corpus python-docs"),
    ],
)
def test_a_refused_method_names_the_model_or_the_corpus_that_lacks_it(
    model, corpus, method, reason, committed
):
    with pytest.raises(UserError, match=reason):
        Results(model, corpus=corpus, limit=1).contexts(method)


def test_unknown_names(committed):
    with pytest.raises(UserError, match="unknown method 'Nosuch' for corpus textbook; "):
        Results(MODEL, limit=1).contexts("Nosuch")
    for names in (("nosuch",), (MODEL, "nosuch"), (MODEL, "humaneval", "nosuch")):
        with pytest.raises(UserError, match=r"unknown (model|benchmark|corpus) 'nosuch'; .*list"):
            Results(*names)


def test_provenance_names_what_the_result_was_made_from(run):
    about = run.provenance()
    assert about["revision"].startswith("gguf-sha256-1d9614638d18")
    assert about["decoding"]["max_new_tokens"] == 512 and about["tasks"] == 8
    assert len(about["corpus_digest"]) == 1


def with_knowledge(monkeypatch, knowledge):
    monkeypatch.setattr(Results, "knowledge", property(knowledge))


@pytest.fixture
def own_corpus(tmp_path, monkeypatch):
    """A function that writes a tree with one function of that name, and gives its corpus."""
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    with_knowledge(
        monkeypatch, lambda run: Knowledge(load_corpus(run.corpus).documents, WordEmbedder())
    )

    def corpus(name: str) -> str:
        (tmp_path / "code").mkdir(exist_ok=True)
        code = f"def {name}(values):\n    for value in values:\n        if value:\n            return value\n"
        (tmp_path / "code" / "module.py").write_text(code + "    return None\n")
        return f"source:{tmp_path / 'code'}"

    return corpus


def retrieved(corpus, column="Func-BM25", limit=2, **options):
    return Evaluator(Results(MODEL, corpus=corpus, limit=limit), **options).contexts(column)


def test_contexts_of_a_changed_tree_are_retrieved_again(own_corpus):
    for name in ("first", "second"):
        assert [c.text.split("(")[0] for c in retrieved(own_corpus(name))] == [f"def {name}"] * 2


def test_limited_run_adds_its_contexts_to_those_of_others(own_corpus):
    corpus = own_corpus("first")
    for limit, fresh, stored in ((3, False, 3), (2, True, 3), (5, False, 5)):
        retrieved(corpus, limit=limit, fresh=fresh)
        assert len(Results(MODEL, corpus=corpus, limit=5).stored_contexts("Func-BM25")) == stored


def test_context_that_defines_the_task_is_marked(own_corpus):
    corpus = own_corpus("has_close_elements")
    for _ in range(2):  # retrieved, and as stored
        assert [c.defines_task for c in retrieved(corpus, "Func-PKG")] == [True, False]
    assert [c.defines_task for c in retrieved(corpus, "NoRAG")] == [False, False]


def test_source_that_does_not_parse_is_named_in_what_the_run_leaves(own_corpus, tmp_path, caplog):
    corpus = own_corpus("first")
    (tmp_path / "code" / "broken.py").write_text("def f(:\n")
    retrieved(corpus)
    meta = Results(MODEL, corpus=corpus, limit=2).files("Func-BM25").provenance
    ((document, reason),) = json.loads(meta.read_text())["graph"]["skipped"]
    assert document == "source/broken.py" and reason.startswith("does not parse: SyntaxError")
    assert "1 of 2 documents" in caplog.text and "source/broken.py" in caplog.text


def test_a_text_corpus_has_columns_of_its_own_and_follows_its_pages(tmp_path, monkeypatch):
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "a.md").write_text("# Lists\n\nA list holds items in their order, and grows.\n")
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("PKG_PYTHON_DOCS", str(pages))
    with_knowledge(
        monkeypatch, lambda run: TextKnowledge(load_corpus(run.corpus).documents, WordEmbedder())
    )
    assert all("grows" in c.text for c in retrieved("python-docs", "JSON-PKG"))
    frame = Results(MODEL, corpus="python-docs", limit=2).verdicts()
    assert list(frame) == [
        "NoRAG",
        "BM25",
        "VoyageEmb",
        "JSON-PKG",
        *SELECTING,
    ] and frame.isna().all(axis=None)
    (pages / "a.md").write_text("# Lists\n\nA list holds items, and shrinks.\n")
    now = retrieved("python-docs", "JSON-PKG")
    assert all("shrinks" in c.text for c in now)
    shutil.rmtree(pages)
    gone = retrieved("python-docs", "JSON-PKG")  # stored, and the user's own: without their text
    assert [c.sha256 for c in gone] == [c.sha256 for c in now] and {c.text for c in gone} == {None}


def test_an_empty_context_is_stored_as_what_it_is(tmp_path, monkeypatch):
    """Its text is nobody's; with it the completion without retrieval is found by its prompt."""
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    ids = [t.id for t in load_benchmark("humaneval", 2)]
    named = zip(ids, ("", "def f(): 1"), strict=True)
    texts = [Document(context_id("Func-PKG", i), text) for i, text in named]
    with_knowledge(monkeypatch, lambda run: Knowledge(texts, WordEmbedder()))
    retrieved("published", "Func-PKG")
    stored = Results(MODEL, corpus="published", limit=2).stored_contexts("Func-PKG")
    assert [c.text for c in stored.values()] == ["", None]


@pytest.mark.parametrize("line", ["{}", "null", "[]", '{"task_id": "HumanEval/0"}', "{torn"])
@pytest.mark.parametrize(
    "stage",
    [
        "contexts/humaneval/pkg-contexts/bm25/contexts.jsonl.gz",
        f"runs/humaneval/{MODEL}/none/norag/samples.jsonl.gz",
    ],
)
def test_damaged_result_is_named_in_one_line(committed, stage, line):
    path, run = committed / stage, Results(MODEL, corpus="pkg-contexts", limit=2)
    path.write_bytes(gzip.compress(line.encode() + b"\n" + contents(path)))
    with pytest.raises(UserError, match=rf"{path.name}, line 1 is damaged: "):
        run.verdicts(["NoRAG", "BM25"])
    run.files("BM25").provenance.write_text("{")
    with pytest.raises(UserError, match=r"bm25/provenance.json, line 1 is damaged"):
        run.provenance()


def with_tasks(monkeypatch, benchmark, tasks):
    monkeypatch.setattr(type(BENCHMARKS[benchmark]), "tasks", lambda self: tasks)


def test_tasks_of_one_prompt_share_a_completion_also_where_contexts_are_hidden(
    committed, monkeypatch
):
    """MBPP has such twins; their second has no line of its own in the cache."""
    first, *_ = tasks = load_benchmark("humaneval")
    twin = replace(first, id="HumanEval/999")
    with_tasks(monkeypatch, "humaneval", [*tasks, twin])
    path = Results(MODEL, corpus="pkg-contexts").files("Block-PKG").contexts
    of_first, *rows = read_rows(path)
    write_jsonl(path, [of_first, *rows, of_first | {"task_id": twin.id}])
    completions = Results(MODEL, corpus="pkg-contexts").completions("Block-PKG")
    assert of_first["text"] is None
    assert completions[twin.id] == completions[first.id] and len(completions) == len(tasks) + 1


@pytest.mark.skipif(
    mbpp.DATA.variable not in os.environ,
    reason=f"{mbpp.DATA.variable} names no directory with mbpp.jsonl",
)
def test_hidden_contexts_find_no_completion_of_another_benchmark_with_the_same_ids(committed):
    """`mbpp-signature` asks for the tasks of `mbpp` in other words; the empty context is the same in both."""
    for benchmark in ("mbpp", "mbpp-signature"):
        run = Results(MODEL, benchmark, "pkg-contexts", limit=5)
        completions = run.completions("NoRAG")
        run._contexts["NoRAG"] = [
            replace(c, text=None, sha256=c.sha256) for c in run.contexts("NoRAG")
        ]
        assert len(completions) == 5 and run.completions("NoRAG") == completions


def test_the_reranker_parses_what_is_executed(committed, monkeypatch):
    """An MBPP prompt is prose: only the solution must parse there."""
    test, solution = AssertionTests("", ("assert inc(1) == 2",)), "def inc(x): return x + 1"
    prose = Task("MBPP/1", "mbpp", "Write a function to add one.", "inc", test, solution)
    with_tasks(monkeypatch, "mbpp", [prose])
    run = Results(MODEL, "mbpp", "pkg-contexts")
    solutions = {"NoRAG": {prose.id: prose.solution}}
    monkeypatch.setattr(run, "solutions", lambda column: solutions.get(column, {}))
    Evaluator(run).prepare([])
    assert run.selections()[prose.id]["candidates"]["NoRAG"]["parses"] is True


def test_a_reference_that_needs_setup_code_passes_as_a_control(committed, monkeypatch):
    """Under pkg-paper MBPP/367 has no `root` to test; the control row tells of the harness alone."""
    test = AssertionTests("one = 1", ("assert inc(one) == 2",))
    task = Task("MBPP/1", "mbpp", "Add one to it.", "inc", test, "def inc(x): return x + 1")
    with_tasks(monkeypatch, "mbpp", [task])
    run = Results(MODEL, "mbpp", "pkg-contexts")
    Evaluator(run).prepare([])
    assert run.controls()["canonical solution"].tolist() == [True]


def test_a_column_that_is_added_later_changes_no_choice(committed, monkeypatch):
    """Candidates are those that were offered when they were first chosen among."""
    run = Results(MODEL, corpus="pkg-contexts", limit=4)
    assert run.verdicts()[list(SELECTING)].notna().all(axis=None)
    run.files(RERANKED).condition.write_text('{"candidates": ["NoRAG"]}')
    verdicts = run.verdicts()
    assert run.candidates == ["NoRAG"] and verdicts["Ideal Reranker"].equals(
        verdicts["NoRAG"].rename("Ideal Reranker")
    )


@pytest.fixture
def gone(committed, monkeypatch):
    """HumanEval's package is not there; what a run read before that."""
    run = Results(MODEL, corpus=FIRST.corpus)
    expected = run.verdicts(), run.controls(), run.provenance(), run.completions("BM25")

    def missing(self):
        raise BenchmarkMissing("it is not available")

    monkeypatch.setattr(type(BENCHMARKS["humaneval"]), "tasks", missing)
    return expected


def test_stored_verdicts_are_shown_where_the_benchmark_is_missing(gone):
    verdicts, controls, provenance, completions = gone
    stored = Results(MODEL, FIRST.benchmark, FIRST.corpus)
    assert stored.tasks_absent == "it is not available" and stored.tasks_absent in forecast.heading(
        stored
    )
    assert stored.verdicts().equals(verdicts) and stored.provenance() == provenance
    assert all(stored.controls()[n].equals(controls[n]) for n in controls)
    assert stored.completions("BM25") == completions
    assert Evaluator(stored).prepare(["NoRAG"]) == 0 and not list(
        Evaluator(stored).missing("NoRAG")
    )


def test_completions_of_hidden_contexts_follow_the_method_and_the_cache(committed, monkeypatch):
    monkeypatch.delenv("PKG_PAPER_DIR", raising=False)
    run = Results(MODEL, "humaneval", "published")
    by_method = {name: run.completions(name) for name in ("Func-PKG", "Func-PKG, context first")}
    texts = [{task: c.raw for task, c in found.items()} for found in by_method.values()]
    assert all(texts) and texts[0] != texts[1]
    # A completion that is stored after the first look is found by the next one.
    task_id, completion = next(iter(by_method["Func-PKG"].items()))
    run = Results(MODEL, "humaneval", "published")
    rows = run.generator.cache.rows
    key = next(key for key, row in rows.items() if row == completion)
    row = rows.pop(key)
    assert task_id not in run.completions("Func-PKG")
    rows[key] = row
    assert run.completions("Func-PKG")[task_id] == completion


def test_a_task_that_shares_its_prompt_keeps_its_completion_where_the_benchmark_is_missing(
    gone, committed
):
    """Without retrieval all have the empty context, which does not tell whose completion it is."""
    files = method_files(committed, MODEL, "humaneval", "", "NoRAG")
    for path in (files.samples, files.contexts):
        rows = read_rows(path)
        (twenty,) = [row for row in rows if row["task_id"] == "HumanEval/20"]
        write_jsonl(path, [*rows, twenty | {"task_id": "HumanEval/164"}])
    completions = Results(MODEL, FIRST.benchmark, FIRST.corpus).completions("NoRAG")
    assert len(completions) == 165 and completions["HumanEval/164"] == completions["HumanEval/20"]


def test_without_stored_verdicts_the_missing_benchmark_is_named(gone):
    with pytest.raises(BenchmarkMissing, match="not available"):
        Results("codellama-7b-instruct", FIRST.benchmark, FIRST.corpus)
    with pytest.raises(BenchmarkMissing, match="not available"):
        Evaluator(Results(MODEL, FIRST.benchmark, FIRST.corpus), fresh=True)


def test_no_committed_record_is_empty():
    """An empty file would name a column, a corpus or a choice of which nothing is known."""
    stored = (ROOT / "results").rglob("*.jsonl*")
    assert [p for p in stored if not contents(p)] == []


def test_the_reasoning_tags_of_a_model_s_entry_are_read(run, monkeypatch):
    task = run.tasks[0].id
    text = "<inner>\n```python\ndef f(): return 0\n```\n</inner>    return 1\n"
    completion = Generation("key", task, text, [], "end", 1)
    monkeypatch.setattr(run, "completions", lambda column: {task: completion})
    assert run.solutions("NoRAG")[task] != "    return 1\n"
    spec = replace(run.generator.spec, reasoning_tags=[["<inner>", "</inner>"]])
    monkeypatch.setattr(run.generator, "spec", spec)
    assert run.solutions("NoRAG")[task] == "    return 1\n"


def test_the_leak_free_control_gets_the_check_that_needs_hidden_tests():
    run = Results(MODEL, corpus="textbook", limit=1)
    (task,) = run.tasks
    solution = task.prompt + task.solution
    assert list(run.knowledge.leak_check([(task, solution), (task, "x = 1")])) == [True, False]
