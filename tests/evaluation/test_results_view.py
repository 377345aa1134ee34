"""Reading stored results and evaluating new ones. Only completions come from a fake model."""

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
    BenchmarkMissingError,
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


def keep_tasks(path, keep):
    """Keep only the rows of a file whose task satisfies the predicate."""
    rows = read_rows(unpacked(path))
    write_jsonl(path, [row for row in rows if keep(row["task_id"])])


@pytest.mark.parametrize("part", STUDY, ids=lambda p: f"{p.model}-{p.benchmark}-{p.corpus}")
@pytest.mark.slow
def test_committed_study_is_complete(committed, monkeypatch, part):
    """A fresh clone shows the whole study without weights and without the authors' data."""
    monkeypatch.delenv("PKG_PAPER_DIR", raising=False)
    run = Results(part.model, part.benchmark, part.corpus)
    methods = list(part.methods or run.retrievers)
    forecasts = forecast.forecast(Evaluator(run), methods, set())
    assert [(f.missing, f.todo) for f in forecasts] == [(0, 0)] * len(methods)
    assert Evaluator(run).prepare(methods) == 0

    measurable = {}
    for method in run.retrievers:
        contexts = run.contexts(method)
        measurable[method] = {
            c.task_id for c in contexts if not run.lacks_published_context(method, c)
        }
    measurable_by_all = set.intersection(*(measurable[method] for method in run.candidates))
    frame = run.verdicts(list(part.methods) or None)
    for method in frame:
        measured = set(frame.index[frame[method].notna()])
        assert measured == measurable.get(context_method(method), measurable_by_all)

    counts = {
        "humaneval": 164,
        "mbpp": 500,
        "beatnum": 93,
        "monkey": 80,
        "more-itertools": 30,
        "newlisp": 60,
        "networkx": 100,
        "scipy": 89,
    }
    # The variants of a library's benchmark judge the same tasks in other ways.
    benchmark = re.sub("-(m|module|public)$", "", part.benchmark)
    assert len(frame) == counts[benchmark]


def test_verdicts_cover_every_task_and_method(run):
    frame = run.verdicts()
    methods = list(methods_of("textbook"))
    assert list(frame) == [*methods, *SELECTING]
    assert frame.notna().all(axis=None)
    assert list(frame.index) == [task.id for task in run.tasks]
    assert (frame["Ideal Reranker"] == frame[methods].any(axis=1)).all()
    selections = run.selections()
    for task in frame.index:
        selected = selections[task]["chosen"]
        assert frame.at[task, "Reranked"] == frame.at[task, selected]


def modification_times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_reading_writes_and_executes_nothing(run, monkeypatch):
    """Verdicts that are not stored are not measured."""
    monkeypatch.setattr(
        "pkg_lib.evaluation.pipeline.run_with_limits",
        lambda *a, **k: pytest.fail("a program was executed"),
    )
    shutil.rmtree(run.results / "runs")
    before = modification_times(run.results)
    assert run.verdicts().isna().all(axis=None)
    assert run.selections() == {}
    assert all(series.empty for series in run.controls().values())
    assert modification_times(run.results) == before


def test_executing_again_gives_the_stored_verdicts(run):
    def verdicts():
        outcomes = run.outcomes("Block-PKG")
        return {task: (outcome.status, outcome.error) for task, outcome in outcomes.items()}

    stored = verdicts()
    run.files("Block-PKG").samples.unlink()
    assert Evaluator(run).prepare([]) == 0
    assert verdicts() == stored


def test_fresh_evaluator_generates_every_task_again(run):
    missing = Evaluator(run, fresh=True).missing("NoRAG")
    assert [task for task, _ in missing] == run.tasks


@pytest.mark.parametrize(("measured", "counted"), [(3, False), (4, True)])
def test_method_is_not_measured_with_verdicts_on_fewer_than_half_of_the_tasks(
    committed, measured, counted
):
    run = Results(MODEL, corpus="published", limit=8)
    kept = {task.id for task in run.tasks[:measured]}
    keep_tasks(run.files("Func-PKG").samples, lambda task: task in kept)
    expected = measured if counted else 0
    assert run.verdicts()["Func-PKG"].notna().sum() == expected


def test_generates_nothing_for_a_task_without_a_published_context(committed):
    """Its prompt would be that of NoRAG."""
    run = Results(MODEL, corpus="published")
    contexts = run.contexts("Block-PKG")
    without_context = {c.task_id for c in contexts if c.sha256 == NOTHING}
    completions = run.completions("Block-PKG")
    assert len(without_context) == 6
    assert not without_context & set(completions)
    assert len(completions) == 158
    assert list(Evaluator(run).missing("Block-PKG")) == []
    verdicts = run.verdicts(["Block-PKG"])["Block-PKG"]
    assert set(verdicts.index[verdicts.isna()]) == without_context


def test_ignores_the_verdict_of_another_solution(committed):
    run = Results(MODEL, limit=1)
    path = run.files("NoRAG").samples
    first, *rows = read_rows(path)
    other = {"status": "failed", "error": "NameError", "sha256": "of another solution"}
    write_jsonl(path, [first | other, *rows])
    assert run.outcomes("NoRAG")["HumanEval/0"].status == "not_measured"
    Evaluator(run).prepare([])
    assert run.outcomes("NoRAG")["HumanEval/0"].error not in ("NameError", "not_measured")


def test_open_results_reread_a_file_of_verdicts_that_changes(committed):
    run = Results(MODEL, FIRST.benchmark, FIRST.corpus)
    assert run.outcomes("NoRAG")["HumanEval/0"].status != "not_measured"
    path = run.files("NoRAG").samples
    rows = read_rows(path)
    write_jsonl(path, [row for row in rows if row["task_id"] != "HumanEval/0"])
    assert run.outcomes("NoRAG")["HumanEval/0"].status == "not_measured"


def test_callers_may_change_returned_solutions_and_outcomes(committed):
    run = Results(MODEL, FIRST.benchmark, FIRST.corpus)
    run.solutions("NoRAG").clear()
    run.outcomes("NoRAG").clear()
    assert "HumanEval/0" in run.solutions("NoRAG")
    assert "HumanEval/0" in run.outcomes("NoRAG")


def test_missing_completion_is_not_measured_rather_than_failed(committed):
    keep_tasks(Results(MODEL).files("NoRAG").completions, lambda task: task != "HumanEval/3")
    run = Results(MODEL, limit=5)
    frame = run.verdicts(["NoRAG"])
    assert run.outcomes("NoRAG")["HumanEval/3"].status == "not_measured"
    assert frame["NoRAG"].isna().sum() == 1
    assert frame.at["HumanEval/3", "NoRAG"] is pd.NA
    (prompt,) = Evaluator(run).prompts("NoRAG")
    assert (prompt.request.task_id, prompt.file) == ("HumanEval/3", "humaneval/none/norag.jsonl")
    assert len(run.solutions("NoRAG")) == 4

    # Completions of other decoding parameters do not count.
    parameters = run.generator.decoding.parameters | {"max_new_tokens": 64}
    run.generator.decoding = replace(run.generator.decoding, parameters=parameters)
    assert len(Evaluator(run).prompts("NoRAG")) == 5
    assert run.solutions("NoRAG") == {}


def test_null_control_fails_and_reference_control_passes_every_task(committed):
    controls = Results(MODEL).controls()
    assert len(controls["return None"]) == 164
    assert not controls["return None"].any()
    assert len(controls["canonical solution"]) == 164
    assert controls["canonical solution"].all()


def return_sample_number(request):
    return f"```python\ndef {request.entry_point}(*a):\n    return {request.sample}\n```"


def test_samples_resume_and_leave_other_methods_unchanged(committed):
    methods = list(study.Choice(samples=2, temperature=0.5, top_p=0.9).generated_methods)
    assert methods == ["NoRAG, T0.5, p0.9, 1", "NoRAG, T0.5, p0.9, 2"]
    before = Results(MODEL, limit=4).verdicts()

    # The first evaluation is interrupted after five of eight completions.
    interrupted = Results(MODEL, limit=4)
    backend = FakeBackend(return_sample_number, stop=5)
    with pytest.raises(KeyboardInterrupt):
        Evaluator(interrupted, backend=backend).prepare(methods)
    backend.stop = None
    assert Evaluator(Results(MODEL, limit=4), backend=backend).prepare(methods) == 3
    assert backend.sampling == {"temperature": 0.5, "top_p": 0.9}
    requested = {(request.task_id, request.sample) for request in backend.asked}
    assert requested == {(task.id, sample) for task in interrupted.tasks for sample in (1, 2)}

    resumed = Results(MODEL, limit=4)
    assert resumed.sample_names("NoRAG", 0.5) == methods
    assert resumed.sample_names("NoRAG") == [*methods, *resumed.sample_names("NoRAG", 0.8)]
    assert resumed.verdicts().equals(before)
    assert set(methods) < set(resumed.stored_methods())
    assert resumed.verdicts(methods).notna().all(axis=None)
    for sample, method in enumerate(methods, 1):
        for solution in resumed.solutions(method).values():
            assert f"return {sample}" in solution


def return_one_in_python_tags(request):
    return f"[PYTHON]\ndef {request.entry_point}(*a):\n    return 1\n[/PYTHON]"


def test_prompt_of_a_papers_model_is_sent_raw_or_in_the_chat_template(committed):
    """Both variants have completions of their own, and both keep the whole answer."""
    names = ["NoRAG, codellama prompt", "NoRAG, codellama prompt in chat", "NoRAG"]
    backend = FakeBackend(return_one_in_python_tags)
    evaluator = Evaluator(Results(MODEL, limit=1), fresh=True, backend=backend)
    assert evaluator.generate(names[:2]) == 2
    raw, in_chat = backend.asked
    assert raw.text == in_chat.text
    assert raw.text.startswith("[INST] You are a python programmer.")
    assert (raw.as_it_is, in_chat.as_it_is) == (True, False)
    assert raw.whole_answer
    assert in_chat.whole_answer
    run = Results(MODEL, limit=1)
    keys = set()
    for name in names:
        (completion,) = run.completions(name).values()
        keys.add(completion.key)
    assert len(keys) == 3


def test_model_without_a_chat_template_offers_no_prompt_in_chat(committed):
    run = Results("codellama-7b-instruct", limit=1)
    assert run.offers("NoRAG, codellama prompt")
    assert not run.offers("NoRAG, codellama prompt in chat")


def test_model_offers_the_variants_of_its_prompt_style(committed):
    paper = Results("codellama-7b-instruct", corpus="textbook")
    chat = Results(study.MODEL, corpus="textbook")
    for method in ("Func-PKG", "Block-PKG"):
        assert paper.offers(f"{method}, helper section")
        assert chat.offers(f"{method}, helper section")
        assert paper.offers(f"{method}, no delimiters")
        assert not chat.offers(f"{method}, no delimiters")
    task = paper.tasks[0]
    context = Context("HumanEval/0", "Func-PKG", "x = 1")
    default = paper.request(task, context, "Func-PKG")
    delimited = paper.request(task, context, "Func-PKG, helper section")
    assert delimited == default, "equal requests share a completion"


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
def test_error_for_an_unavailable_method_names_the_model_or_the_corpus(
    model, corpus, method, reason, committed
):
    with pytest.raises(UserError, match=reason):
        Results(model, corpus=corpus, limit=1).contexts(method)


def test_rejects_unknown_names(committed):
    with pytest.raises(UserError, match="unknown method 'Nosuch' for corpus textbook; "):
        Results(MODEL, limit=1).contexts("Nosuch")
    for names in (("nosuch",), (MODEL, "nosuch"), (MODEL, "humaneval", "nosuch")):
        with pytest.raises(UserError, match=r"unknown (model|benchmark|corpus) 'nosuch'; .*list"):
            Results(*names)


def test_provenance_records_the_inputs_of_a_result(run):
    provenance = run.provenance()
    assert provenance["revision"].startswith("gguf-sha256-1d9614638d18")
    assert provenance["decoding"]["max_new_tokens"] == 512
    assert provenance["tasks"] == 8
    assert len(provenance["corpus_digest"]) == 1


def set_knowledge(monkeypatch, knowledge):
    """Replace the knowledge base of all results by that of a function."""
    monkeypatch.setattr(Results, "knowledge", property(knowledge))


FUNCTION = """\
def {name}(values):
    for value in values:
        if value:
            return value
    return None
"""


@pytest.fixture
def make_corpus(tmp_path, monkeypatch):
    """Function that writes a folder with one function of a given name, and returns its corpus."""
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    set_knowledge(
        monkeypatch, lambda run: Knowledge(load_corpus(run.corpus).documents, WordEmbedder())
    )
    folder = tmp_path / "code"

    def make(name: str) -> str:
        folder.mkdir(exist_ok=True)
        (folder / "module.py").write_text(FUNCTION.format(name=name))
        return f"source:{folder}"

    return make


def retrieve(corpus, method="Func-BM25", limit=2, **options):
    results = Results(MODEL, corpus=corpus, limit=limit)
    return Evaluator(results, **options).contexts(method)


def test_retrieves_contexts_of_a_changed_source_tree_again(make_corpus):
    for name in ("first", "second"):
        contexts = retrieve(make_corpus(name))
        assert [context.text.split("(")[0] for context in contexts] == [f"def {name}"] * 2


def test_limited_run_adds_its_contexts_to_the_stored_ones(make_corpus):
    corpus = make_corpus("first")
    for limit, fresh, expected in ((3, False, 3), (2, True, 3), (5, False, 5)):
        retrieve(corpus, limit=limit, fresh=fresh)
        stored = Results(MODEL, corpus=corpus, limit=5).stored_contexts("Func-BM25")
        assert len(stored) == expected


def test_marks_a_context_that_defines_the_task(make_corpus):
    corpus = make_corpus("has_close_elements")
    for _ in range(2):  # first retrieved, then read from the store
        contexts = retrieve(corpus, "Func-PKG")
        assert [context.defines_task for context in contexts] == [True, False]
    contexts = retrieve(corpus, "NoRAG")
    assert [context.defines_task for context in contexts] == [False, False]


def test_provenance_and_log_name_a_source_that_does_not_parse(make_corpus, tmp_path, caplog):
    corpus = make_corpus("first")
    (tmp_path / "code" / "broken.py").write_text("def f(:\n")
    retrieve(corpus)
    path = Results(MODEL, corpus=corpus, limit=2).files("Func-BM25").provenance
    ((document, reason),) = json.loads(path.read_text())["graph"]["skipped"]
    assert document == "source/broken.py"
    assert reason.startswith("does not parse: SyntaxError")
    assert "1 of 2 documents" in caplog.text
    assert "source/broken.py" in caplog.text


def test_text_corpus_has_its_own_methods_and_follows_changed_pages(tmp_path, monkeypatch):
    pages = tmp_path / "pages"
    pages.mkdir()
    page = pages / "a.md"
    page.write_text("# Lists\n\nA list holds items in their order, and grows.\n")
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("PKG_PYTHON_DOCS", str(pages))
    set_knowledge(
        monkeypatch, lambda run: TextKnowledge(load_corpus(run.corpus).documents, WordEmbedder())
    )
    contexts = retrieve("python-docs", "JSON-PKG")
    assert all("grows" in context.text for context in contexts)
    frame = Results(MODEL, corpus="python-docs", limit=2).verdicts()
    assert list(frame) == ["NoRAG", "BM25", "VoyageEmb", "JSON-PKG", *SELECTING]
    assert frame.isna().all(axis=None)

    page.write_text("# Lists\n\nA list holds items, and shrinks.\n")
    changed = retrieve("python-docs", "JSON-PKG")
    assert all("shrinks" in context.text for context in changed)

    # Contexts of a user-supplied corpus are stored without their text.
    shutil.rmtree(pages)
    stored = retrieve("python-docs", "JSON-PKG")
    assert [context.sha256 for context in stored] == [context.sha256 for context in changed]
    assert {context.text for context in stored} == {None}


def test_stores_an_empty_context_with_its_text(tmp_path, monkeypatch):
    """The empty text has no author. With it, the completion of NoRAG is found by its prompt."""
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    first, second = load_benchmark("humaneval", 2)
    documents = [
        Document(context_id("Func-PKG", first.id), ""),
        Document(context_id("Func-PKG", second.id), "def f(): 1"),
    ]
    set_knowledge(monkeypatch, lambda run: Knowledge(documents, WordEmbedder()))
    retrieve("published", "Func-PKG")
    stored = Results(MODEL, corpus="published", limit=2).stored_contexts("Func-PKG")
    assert [context.text for context in stored.values()] == ["", None]


@pytest.mark.parametrize("line", ["{}", "null", "[]", '{"task_id": "HumanEval/0"}', "{torn"])
@pytest.mark.parametrize(
    "stage",
    [
        "contexts/humaneval/pkg-contexts/bm25/contexts.jsonl.gz",
        f"runs/humaneval/{MODEL}/none/norag/samples.jsonl.gz",
    ],
)
def test_reports_a_damaged_result_in_one_line(committed, stage, line):
    path = committed / stage
    run = Results(MODEL, corpus="pkg-contexts", limit=2)
    path.write_bytes(gzip.compress(line.encode() + b"\n" + contents(path)))
    with pytest.raises(UserError, match=rf"{path.name}, line 1 is damaged: "):
        run.verdicts(["NoRAG", "BM25"])
    run.files("BM25").provenance.write_text("{")
    with pytest.raises(UserError, match=r"bm25/provenance.json, line 1 is damaged"):
        run.provenance()


def set_tasks(monkeypatch, benchmark, tasks):
    """Replace the tasks of a benchmark."""
    monkeypatch.setattr(type(BENCHMARKS[benchmark]), "tasks", lambda self: tasks)


def test_tasks_with_equal_prompts_share_a_completion_when_contexts_are_hidden(
    committed, monkeypatch
):
    """MBPP has such pairs of tasks. The second of a pair has no line of its own in the cache."""
    tasks = load_benchmark("humaneval")
    first = tasks[0]
    twin = replace(first, id="HumanEval/999")
    set_tasks(monkeypatch, "humaneval", [*tasks, twin])
    path = Results(MODEL, corpus="pkg-contexts").files("Block-PKG").contexts
    of_first, *rows = read_rows(path)
    write_jsonl(path, [of_first, *rows, of_first | {"task_id": twin.id}])
    completions = Results(MODEL, corpus="pkg-contexts").completions("Block-PKG")
    assert of_first["text"] is None
    assert completions[twin.id] == completions[first.id]
    assert len(completions) == len(tasks) + 1


@pytest.mark.skipif(
    mbpp.DATA.variable not in os.environ,
    reason=f"{mbpp.DATA.variable} names no directory with mbpp.jsonl",
)
def test_hidden_contexts_find_no_completion_of_another_benchmark_with_equal_ids(committed):
    """`mbpp-signature` has other prompts for the tasks of `mbpp`, with the same empty context."""
    for benchmark in ("mbpp", "mbpp-signature"):
        run = Results(MODEL, benchmark, "pkg-contexts", limit=5)
        completions = run.completions("NoRAG")
        contexts = run.contexts("NoRAG")
        run._contexts["NoRAG"] = [replace(c, text=None, sha256=c.sha256) for c in contexts]
        assert len(completions) == 5
        assert run.completions("NoRAG") == completions


def test_reranker_parses_the_executed_program(committed, monkeypatch):
    """An MBPP prompt is prose, so only the solution has to parse."""
    tests = AssertionTests("", ("assert inc(1) == 2",))
    solution = "def inc(x): return x + 1"
    task = Task("MBPP/1", "mbpp", "Write a function to add one.", "inc", tests, solution)
    set_tasks(monkeypatch, "mbpp", [task])
    run = Results(MODEL, "mbpp", "pkg-contexts")
    solutions = {"NoRAG": {task.id: solution}}
    monkeypatch.setattr(run, "solutions", lambda method: solutions.get(method, {}))
    Evaluator(run).prepare([])
    candidate = run.selections()[task.id]["candidates"]["NoRAG"]
    assert candidate["parses"] is True


def test_reference_control_that_needs_setup_code_passes(committed, monkeypatch):
    """The control checks the harness alone. Under pkg-paper, MBPP/367 has no `root` to test."""
    tests = AssertionTests("one = 1", ("assert inc(one) == 2",))
    task = Task("MBPP/1", "mbpp", "Add one to it.", "inc", tests, "def inc(x): return x + 1")
    set_tasks(monkeypatch, "mbpp", [task])
    run = Results(MODEL, "mbpp", "pkg-contexts")
    Evaluator(run).prepare([])
    assert run.controls()["canonical solution"].tolist() == [True]


def test_method_that_is_added_later_changes_no_selection(committed, monkeypatch):
    """The candidates are those of the first selection."""
    run = Results(MODEL, corpus="pkg-contexts", limit=4)
    assert run.verdicts()[list(SELECTING)].notna().all(axis=None)
    run.files(RERANKED).condition.write_text('{"candidates": ["NoRAG"]}')
    verdicts = run.verdicts()
    assert run.candidates == ["NoRAG"]
    only_candidate = verdicts["NoRAG"].rename("Ideal Reranker")
    assert verdicts["Ideal Reranker"].equals(only_candidate)


@pytest.fixture
def benchmark_missing(committed, monkeypatch):
    """Make HumanEval unavailable. Gives what was read before: verdicts, controls and more."""
    run = Results(MODEL, corpus=FIRST.corpus)
    expected = (run.verdicts(), run.controls(), run.provenance(), run.completions("BM25"))

    def missing(self):
        raise BenchmarkMissingError("it is not available")

    monkeypatch.setattr(type(BENCHMARKS["humaneval"]), "tasks", missing)
    return expected


def test_shows_stored_verdicts_when_the_benchmark_is_missing(benchmark_missing):
    verdicts, controls, provenance, completions = benchmark_missing
    stored = Results(MODEL, FIRST.benchmark, FIRST.corpus)
    assert stored.tasks_absent == "it is not available"
    assert stored.tasks_absent in forecast.heading(stored)
    assert stored.verdicts().equals(verdicts)
    assert stored.provenance() == provenance
    for name, control in controls.items():
        assert stored.controls()[name].equals(control)
    assert stored.completions("BM25") == completions
    assert Evaluator(stored).prepare(["NoRAG"]) == 0
    assert list(Evaluator(stored).missing("NoRAG")) == []


def test_completions_of_hidden_contexts_follow_the_method_and_the_cache(committed, monkeypatch):
    monkeypatch.delenv("PKG_PAPER_DIR", raising=False)
    run = Results(MODEL, "humaneval", "published")
    usual = run.completions("Func-PKG")
    context_first = run.completions("Func-PKG, context first")
    usual_texts = {task: completion.raw for task, completion in usual.items()}
    context_first_texts = {task: completion.raw for task, completion in context_first.items()}
    assert usual_texts
    assert context_first_texts
    assert usual_texts != context_first_texts

    # A completion that is stored after the first read is found by the next one.
    task_id, completion = next(iter(usual.items()))
    run = Results(MODEL, "humaneval", "published")
    rows = run.generator.cache.rows
    key = next(key for key, row in rows.items() if row == completion)
    row = rows.pop(key)
    assert task_id not in run.completions("Func-PKG")
    rows[key] = row
    assert run.completions("Func-PKG")[task_id] == completion


def test_task_with_a_shared_prompt_keeps_its_completion_when_the_benchmark_is_missing(
    benchmark_missing, committed
):
    """All tasks of NoRAG have the empty context, which does not identify a completion."""
    files = method_files(committed, MODEL, "humaneval", "", "NoRAG")
    for path in (files.samples, files.contexts):
        rows = read_rows(path)
        (row,) = [row for row in rows if row["task_id"] == "HumanEval/20"]
        write_jsonl(path, [*rows, row | {"task_id": "HumanEval/164"}])
    completions = Results(MODEL, FIRST.benchmark, FIRST.corpus).completions("NoRAG")
    assert len(completions) == 165
    assert completions["HumanEval/164"] == completions["HumanEval/20"]


def test_reports_a_missing_benchmark_when_no_verdicts_are_stored(benchmark_missing):
    with pytest.raises(BenchmarkMissingError, match="not available"):
        Results("codellama-7b-instruct", FIRST.benchmark, FIRST.corpus)
    with pytest.raises(BenchmarkMissingError, match="not available"):
        Evaluator(Results(MODEL, FIRST.benchmark, FIRST.corpus), fresh=True)


def test_no_committed_record_is_empty():
    """An empty file would name a method, a corpus or a selection without any data."""
    paths = (ROOT / "results").rglob("*.jsonl*")
    assert [path for path in paths if not contents(path)] == []


def test_extraction_removes_the_reasoning_tags_of_a_model(run, monkeypatch):
    task = run.tasks[0].id
    text = "<inner>\n```python\ndef f(): return 0\n```\n</inner>    return 1\n"
    completion = Generation("key", task, text, [], "end", 1)
    monkeypatch.setattr(run, "completions", lambda method: {task: completion})
    assert run.solutions("NoRAG")[task] != "    return 1\n"
    spec = replace(run.generator.spec, reasoning_tags=[["<inner>", "</inner>"]])
    monkeypatch.setattr(run.generator, "spec", spec)
    assert run.solutions("NoRAG")[task] == "    return 1\n"


def test_knowledge_base_of_results_detects_leaked_solutions():
    """The leak-free control needs this check, which executes hidden tests."""
    run = Results(MODEL, corpus="textbook", limit=1)
    (task,) = run.tasks
    solution = task.prompt + task.solution
    leaks = run.knowledge.leak_check([(task, solution), (task, "x = 1")])
    assert list(leaks) == [True, False]
