"""Experiments on the committed results: nothing is generated, everything else is computed for real."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import cached_property

import pandas as pd
import pytest

from pkg_lib.analysis.findings import findings
from pkg_lib.core.types import Document, Task, UserError
from pkg_lib.data.benchmarks import BENCHMARKS, MBPP_DIR, load_benchmark
from pkg_lib.data.corpora import kind_of, load_corpus
from pkg_lib.data.published import context_id
from pkg_lib.experiment.completions import NOTHING, Completions
from pkg_lib.experiment.experiment import CHOOSING, CONTROLS, Experiment
from pkg_lib.experiment.forecast import forecast
from pkg_lib.experiment.study import MODEL, STUDY
from pkg_lib.retrieval.columns import COLUMNS, Column, columns_of
from pkg_lib.retrieval.retrievers import Knowledge, NoRetrieval
from pkg_lib.retrieval.text_columns import TextKnowledge

HERE = [p for p in STUDY if (p.model, p.benchmark, p.columns) == (MODEL, "humaneval", ())]


@pytest.fixture(params=[p for p in HERE if kind_of(p.corpus) == "code"], ids=lambda p: p.corpus)
def experiment(request, committed):
    return Experiment(MODEL, corpus=request.param.corpus, limit=8)


def test_committed_study_is_complete(experiment):
    """No prompt of the study lacks its completion, so a fresh clone needs no weights and no corpus."""
    assert experiment.missing(list(experiment.retrievers)) == {}


def test_verdicts_cover_every_task_and_column(experiment):
    frame = experiment.verdicts()
    assert list(frame) == [*experiment.retrievers, *CHOOSING]
    assert list(frame.index) == [t.id for t in experiment.tasks]
    assert frame.notna().all(axis=None)
    assert (frame["Ideal"] == frame[list(experiment.retrievers)].any(axis=1)).all()
    chosen = experiment.reranked()
    assert all(frame.at[task, "Reranked"] == frame.at[task, chosen[task]] for task in frame.index)


@pytest.mark.parametrize(("measured", "counted"), [(3, False), (4, True)])
def test_a_column_with_verdicts_on_fewer_than_half_of_the_tasks_is_not_measured(
    committed, monkeypatch, measured, counted
):
    def some(self, column, whole=Experiment.solutions):
        found = whole(self, column)
        return dict(list(found.items())[:measured]) if column == "Func-PKG" else found

    monkeypatch.setattr(Experiment, "solutions", some)
    verdicts = Experiment(MODEL, corpus="published", limit=8).verdicts()
    said = " ".join(findings(verdicts, "humaneval"))
    assert verdicts["Func-PKG"].notna().sum() == (measured if counted else 0)
    assert ("Not measured: Func-PKG" in said, "Func-PKG +" in said or "Func-PKG 0.0" in said) == (
        not counted,
        counted,
    )


def test_stored_verdicts_are_those_of_executing_again(experiment):
    stored = experiment.outcomes("Block-PKG")
    again = Experiment(MODEL, corpus=experiment.corpus, limit=8)
    (again.results / again.place("evaluations", "Block-PKG")).with_suffix(".jsonl").unlink()
    assert {i: (o.status, o.error) for i, o in again.outcomes("Block-PKG").items()} == {
        i: (o.status, o.error) for i, o in stored.items()
    }


def test_an_assertion_of_the_solution_s_own_is_told_from_a_test(committed):
    """HumanEval/6 without retrieval: the function is right, and the model's own test of it is wrong."""
    experiment = Experiment(MODEL, limit=8)
    assert experiment.own_assertions("None") == {"HumanEval/6"}
    assert experiment.outcomes("None")["HumanEval/6"].error == "AssertionError"


def test_a_task_without_a_published_context_is_not_asked(committed):
    """Its prompt would be None's."""
    experiment = Experiment(MODEL, corpus="published")
    none = {c.task_id for c in experiment.known_contexts("Block-PKG") if c.sha256 == NOTHING}
    assert len(none) == 6 and not none & set(experiment.completions("Block-PKG"))
    assert len(experiment.completions("Block-PKG")) == 158 and experiment.missing(["Block-PKG"]) == {}
    assert set(experiment.verdicts(["Block-PKG"]).query("`Block-PKG`.isna()").index) == none
    assert forecast(experiment, ["Block-PKG"], set())[0].missing == 0


def test_changed_solution_is_executed_again(committed):
    e = Experiment(MODEL, limit=1)
    path = e.results / "evaluations" / MODEL / "humaneval" / "none" / "none.jsonl"
    e.outcomes("None")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[0] |= {"status": "failed", "error": "NameError", "sha256": "of another solution"}
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    truth = Experiment(MODEL, limit=1, results=e.results).outcomes("None")["HumanEval/0"]
    assert truth.error != "NameError"


def test_missing_completion_is_not_measured_and_never_a_failure(committed):
    path = committed / "generations" / MODEL / "humaneval" / "none" / "none.jsonl"
    kept = [
        line for line in path.read_text().splitlines(True) if json.loads(line)["task_id"] != "HumanEval/3"
    ]
    path.write_text("".join(kept))
    e = Experiment(MODEL, limit=5)
    assert e.outcomes("None")["HumanEval/3"].status == "not_measured"
    frame = e.verdicts(["None"])
    assert frame["None"].isna().sum() == 1 and frame.at["HumanEval/3", "None"] is pd.NA
    (request, name, _) = next(iter(e.missing(["None"]).values()))
    assert (request.task_id, name) == ("HumanEval/3", "humaneval/none/none.jsonl")


def test_completions_of_other_parameters_are_not_used(committed, monkeypatch):
    monkeypatch.setitem(Completions.key.__globals__["DECODING"], "max_new_tokens", 64)
    assert len(Experiment(MODEL, limit=3).missing(["None"])) == 3


def test_control_rows_bracket_the_scale(committed):
    controls = Experiment(MODEL).controls()
    assert set(controls) == set(CONTROLS)
    assert not controls["return None"].any() and len(controls["return None"]) == 164
    assert controls["canonical solution"].all()


def test_unknown_column(committed):
    with pytest.raises(
        UserError, match="unknown column 'Nosuch' for corpus textbook; choose from: None, BM25"
    ):
        Experiment(MODEL, limit=1).contexts("Nosuch")


def test_provenance_names_what_the_result_was_made_from(experiment):
    about = experiment.provenance()
    assert about["revision"].startswith("gguf-sha256-1d9614638d18")
    assert about["decoding"]["max_new_tokens"] == 512 and about["tasks"] == 8
    assert len(about["corpus_digest"]) == 1


def tree(folder, name: str) -> str:
    folder.mkdir(exist_ok=True)
    code = f"def {name}(values):\n    for value in values:\n        if value:\n            return value\n    return None\n"
    (folder / "module.py").write_text(code)
    return f"source:{folder}"


def test_contexts_of_a_changed_tree_are_retrieved_again(tmp_path, monkeypatch, embedder):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(
        Completions, "knowledge", property(lambda self: Knowledge(load_corpus(self.corpus), embedder))
    )
    corpus = tree(tmp_path / "code", "first")
    before = Experiment(MODEL, corpus=corpus, limit=2).contexts("Func-BM25")
    assert [c.text.split("(")[0] for c in before] == ["def first"] * 2
    tree(tmp_path / "code", "second")
    assert [
        c.text.split("(")[0] for c in Experiment(MODEL, corpus=corpus, limit=2).contexts("Func-BM25")
    ] == ["def second"] * 2


@pytest.fixture
def pages(tmp_path, monkeypatch, embedder):
    """A user's own directory of pages as the corpus python-docs."""
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "a.md").write_text("# Lists\n\nA list holds items in their order, and grows.\n")
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("PKG_PYTHON_DOCS", str(folder))
    knowledge = property(lambda self: TextKnowledge(load_corpus(self.corpus), embedder))
    monkeypatch.setattr(Completions, "knowledge", knowledge)
    return folder


def test_a_text_corpus_has_columns_of_its_own_and_follows_its_pages(pages):
    def found():
        return Experiment(MODEL, corpus="python-docs", limit=2).contexts("JSON-PKG")

    assert all("grows" in c.text for c in found())
    frame = Experiment(MODEL, corpus="python-docs", limit=2).verdicts()
    assert list(frame) == ["None", "BM25", "Dense", "JSON-PKG", *CHOOSING] and frame.isna().all(axis=None)
    (pages / "a.md").write_text("# Lists\n\nA list holds items, and shrinks.\n")
    now = found()
    assert all("shrinks" in c.text for c in now)
    (pages / "a.md").unlink()
    pages.rmdir()
    gone = found()  # what is stored stays; the pages are the user's, so that their text is not in it
    assert [c.sha256 for c in gone] == [c.sha256 for c in now] and {c.text for c in gone} == {None}


def test_an_empty_context_is_stored_as_what_it_is(tmp_path, monkeypatch, embedder):
    """Its text is nobody's; with it the completion without retrieval is found by its prompt."""
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    tasks = load_benchmark("humaneval", 2)
    texts = [
        Document(context_id("Func-PKG", t.id), text)
        for t, text in zip(tasks, ("", "def f(): 1"), strict=True)
    ]
    monkeypatch.setattr(Completions, "knowledge", property(lambda self: Knowledge(texts, embedder)))
    Experiment(MODEL, corpus="published", limit=2).contexts("Func-PKG")
    stored = Experiment(MODEL, corpus="published", limit=2).stored_contexts("Func-PKG")
    assert [c.text for c in stored.values()] == ["", None]


def test_context_that_defines_the_task_is_marked(tmp_path, monkeypatch, embedder):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(
        Completions, "knowledge", property(lambda self: Knowledge(load_corpus(self.corpus), embedder))
    )
    corpus = tree(tmp_path / "code", "has_close_elements")
    found = Experiment(MODEL, corpus=corpus, limit=2)
    assert [c.defines_task for c in found.contexts("Func-PKG")] == [True, False]
    assert [c.defines_task for c in found.contexts("Func-PKG")] == [True, False]  # as stored
    assert [c.defines_task for c in found.contexts("None")] == [False, False]


def test_source_that_does_not_parse_is_named_in_what_the_run_leaves(tmp_path, monkeypatch, embedder, caplog):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(
        Completions, "knowledge", cached_property(lambda self: Knowledge(load_corpus(self.corpus), embedder))
    )
    Completions.knowledge.__set_name__(Completions, "knowledge")
    corpus = tree(tmp_path / "code", "first")
    (tmp_path / "code" / "broken.py").write_text("def f(:\n")
    e = Experiment(MODEL, corpus=corpus, limit=2)
    e.contexts("Func-BM25")
    about = json.loads((e.results / e.place("contexts", "Func-BM25")).with_suffix(".meta.json").read_text())
    ((document, reason),) = about["graph"]["skipped"]
    assert document == "source/broken.py" and reason.startswith("does not parse: SyntaxError")
    assert "1 of 2 documents" in caplog.text and "source/broken.py" in caplog.text


def test_limited_run_adds_its_contexts_to_those_of_others(tmp_path, monkeypatch, embedder):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(
        Completions, "knowledge", property(lambda self: Knowledge(load_corpus(self.corpus), embedder))
    )
    corpus = tree(tmp_path / "code", "first")
    Experiment(MODEL, corpus=corpus, limit=3).contexts("Func-BM25")
    Experiment(MODEL, corpus=corpus, limit=2, fresh=True).contexts("Func-BM25")
    assert len(Experiment(MODEL, corpus=corpus, limit=3).stored_contexts("Func-BM25")) == 3
    Experiment(MODEL, corpus=corpus, limit=5).contexts("Func-BM25")
    assert len(Experiment(MODEL, corpus=corpus, limit=5).stored_contexts("Func-BM25")) == 5


@pytest.mark.parametrize("line", ["{}", "null", "[]", '{"task_id": "HumanEval/0"}', "{torn"])
@pytest.mark.parametrize(
    "stage", ["contexts/humaneval/pkg-contexts/bm25.jsonl", f"evaluations/{MODEL}/humaneval/none/none.jsonl"]
)
def test_damaged_result_is_named_in_one_line(committed, stage, line):
    path = committed / stage
    path.write_text(line + "\n" + path.read_text())
    with pytest.raises(UserError, match=rf"{path.name}:1 is damaged; delete the file"):
        Experiment(MODEL, corpus="pkg-contexts", limit=2).verdicts(["None", "BM25"])


def test_damaged_provenance_is_named(committed):
    meta = committed / "contexts/humaneval/pkg-contexts/bm25.meta.json"
    meta.write_text("{")
    with pytest.raises(UserError, match=r"bm25\.meta\.json is damaged"):
        Experiment(MODEL, corpus="pkg-contexts", limit=2).provenance()


def test_tasks_of_one_prompt_share_a_completion_also_where_contexts_are_hidden(committed, monkeypatch):
    """MBPP has such twins; their second has no line of its own in the cache."""
    first, *_ = tasks = load_benchmark("humaneval")
    twin = replace(first, id="HumanEval/999")
    monkeypatch.setitem(BENCHMARKS, "humaneval", lambda protocol: [*tasks, twin])
    e = Experiment(MODEL, corpus="pkg-contexts")
    contexts = e.stored_contexts("Block-PKG")
    e._contexts["Block-PKG"] = [*contexts.values(), replace(contexts[first.id], task_id=twin.id)]
    assert contexts[first.id].text is None
    found = e.completions("Block-PKG")
    assert found[twin.id] == found[first.id] and len(found) == len(tasks) + 1


@pytest.mark.skipif(MBPP_DIR not in os.environ, reason=f"{MBPP_DIR} names no directory with mbpp.jsonl")
def test_hidden_contexts_find_no_completion_of_another_benchmark_with_the_same_ids(committed):
    """`mbpp-signature` asks for the tasks of `mbpp` in other words; the empty context is the same in both."""
    for benchmark in ("mbpp", "mbpp-signature"):
        e = Experiment(MODEL, benchmark, "pkg-contexts", limit=5)
        open_ = e.completions("None")
        e._contexts["None"] = [replace(c, text=None, sha256=c.sha256) for c in e.contexts("None")]
        assert len(open_) == 5 and e.completions("None") == open_


def test_the_reranker_parses_what_is_executed(committed, monkeypatch):
    """An MBPP prompt is prose: only the solution must parse there."""
    test, solution = "\n# ---\nassert inc(1) == 2", "def inc(x): return x + 1"
    prose = Task("MBPP/1", "mbpp", "Write a function to add one.", "inc", test, solution)
    monkeypatch.setitem(BENCHMARKS, "mbpp", lambda protocol: [prose])
    e = Experiment(MODEL, "mbpp", "pkg-contexts")
    monkeypatch.setattr(e, "solutions", lambda column: {prose.id: prose.solution} if column == "None" else {})
    e.reranked()
    assert e._stored("evaluations", "reranked", ())[prose.id]["candidates"]["None"]["parses"] is True


def test_a_reference_that_needs_setup_code_passes_as_a_control(committed, monkeypatch):
    """Under pkg-paper MBPP/367 has no `root` to test; the control row tells of the harness and not of that."""
    task = Task(
        "MBPP/1",
        "mbpp",
        "Add one to it.",
        "inc",
        "one = 1\n# ---\nassert inc(one) == 2",
        "def inc(x): return x + 1",
    )
    monkeypatch.setitem(BENCHMARKS, "mbpp", lambda protocol: [task])
    controls = Experiment(MODEL, "mbpp", "pkg-contexts").controls()
    assert controls["canonical solution"].all() and not controls["return None"].any()


class Toy(NoRetrieval):
    """A column that is registered and was never run."""

    column = "Toy"


@pytest.mark.parametrize("part", HERE, ids=lambda p: p.corpus)
def test_a_column_that_is_added_changes_no_stored_result(committed, monkeypatch, part):
    assert (committed / f"evaluations/{MODEL}/humaneval/{part.corpus}/candidates.json").exists()
    before = Experiment(MODEL, corpus=part.corpus).verdicts()
    assert before[list(CHOOSING)].notna().any().all()
    monkeypatch.setitem(COLUMNS, "Toy", Column("Toy", Toy, (kind_of(part.corpus),)))
    experiment = Experiment(MODEL, corpus=part.corpus)
    after = experiment.verdicts()
    assert list(after) == [*columns_of(part.corpus), *CHOOSING] and after["Toy"].isna().all()
    pd.testing.assert_frame_equal(after.drop(columns="Toy"), before)
    assert "Toy" not in experiment.candidates


def test_a_column_that_is_run_later_is_scored_and_not_chosen(committed, monkeypatch):
    """Until the candidates are named anew, by `--fresh` or by taking candidates.json away."""
    before = Experiment(MODEL, corpus="pkg-contexts", limit=12).verdicts()
    monkeypatch.setitem(COLUMNS, "Toy", Column("Toy", Toy))
    right = lambda self, column, whole=Experiment.solutions: (  # noqa: E731
        {t.id: t.solution for t in self.tasks} if column == "Toy" else whole(self, column)
    )
    monkeypatch.setattr(Experiment, "solutions", right)
    experiment = Experiment(MODEL, corpus="pkg-contexts", limit=12)
    after = experiment.verdicts()
    assert after["Toy"].all() and not before["Ideal"].all()
    pd.testing.assert_frame_equal(after.drop(columns="Toy"), before)
    rows = experiment._stored("evaluations", "reranked", ("candidates",))
    assert all(r["candidates"]["Toy"]["runs"] for i, r in rows.items() if i in after.index)
    (experiment.results / experiment.place("evaluations", "candidates")).with_suffix(".json").unlink()
    assert Experiment(MODEL, corpus="pkg-contexts", limit=12).verdicts()["Ideal"].all()
