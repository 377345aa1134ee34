"""Func-PKG over functions with docstrings by a model: its corpus, contexts and provenance."""

from __future__ import annotations

import pytest

from pkg_lib.core.store import read_json, read_rows, write_jsonl
from pkg_lib.core.types import Context, Task, UnavailableError, UserError
from pkg_lib.data.corpora import load_corpus
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.papers.pkg import enhancer
from pkg_lib.retrieval.knowledge import Knowledge
from pkg_lib.retrieval.methods import (
    METHODS,
    knowledge_of,
    methods_of,
    retrieving_methods,
    variant_methods,
)
from pkg_lib.retrieval.trace import trace
from tests.fakes import FakeBackend, WordEmbedder

MODEL = "qwen2.5-coder-0.5b-instruct"
METHOD = "Func-PKG, enhanced"
SOURCE = '''\
def told(values):
    """Bananas by weight."""
    if values:
        for v in values:
            print(v)
    return values


class Fruit:
    def mean(self, items):
        if not items:
            while unrelated_words():
                nothing_of_it()
        return sum(items) / len(items)

    def refused(self):
        return 1


def one(x): return x
'''
WRITTEN = {"mean": "How many kiwis there are on average.", "one": "Peels an orange.", "refused": ""}


def answer(request):
    return WRITTEN[request.text.partition("def ")[2].partition("(")[0]]


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "fruit.py").write_text(SOURCE)
    return f"source:{tmp_path / 'src'}"


def knowledge(corpus, top=1) -> Knowledge:
    return Knowledge(load_corpus(corpus).documents, WordEmbedder(), top, corpus=corpus)


def enhance(corpus, tmp_path, count=None, model=MODEL):
    return enhancer.enhance(corpus, model, count, tmp_path / "results", FakeBackend(answer))


def retrieve(corpus, *prompts) -> list[Context]:
    tasks = [Task(f"T/{i}", "made-up", prompt, "f") for i, prompt in enumerate(prompts)]
    return METHODS[METHOD].make_retriever(knowledge(corpus)).retrieve(tasks)


def test_written_docstrings_influence_retrieval_and_are_shown(corpus, tmp_path):
    enhance(corpus, tmp_path)
    prompts = (
        "kiwis there are on average sum items",
        "bananas by weight",
        "orange peels",
        "refused self",
    )
    kiwi, banana, orange, refused = retrieve(corpus, *prompts)
    assert [c.source for c in (kiwi, banana, orange, refused)] == [
        f"source/fruit.py:{lines}" for lines in ("10-14", "1-6", "20-20", "16-17")
    ]
    head = 'def mean(self, items):\n    """How many kiwis there are on average."""\n    '
    assert kiwi.text == f"{head}return sum(items) / len(items)"
    assert kiwi.pruned == "11-13"  # the lines of the source without the new docstring
    assert orange.text == 'def one(x):\n    """Peels an orange."""\n    return x'
    assert refused.text == "def refused(self):\n    return 1"  # no docstring was accepted
    assert banana.text.startswith('def told(values):\n    """Bananas by weight."""')
    assert {c.method for c in (kiwi, banana)} == {METHOD}


def test_equals_func_pkg_without_new_docstrings(corpus, tmp_path):
    """Functions whose docstring did not change are retrieved and pruned as by Func-PKG."""
    enhancer.enhance(corpus, MODEL, None, tmp_path / "results", FakeBackend(lambda request: ""))
    tasks = [
        Task(f"T/{i}", "", p, "f") for i, p in enumerate(("mean items sum", "bananas", "x one"))
    ]
    plain = methods_of(corpus)["Func-PKG"](knowledge(corpus)).retrieve(tasks)
    enhanced = METHODS[METHOD].make_retriever(knowledge(corpus)).retrieve(tasks)
    assert [(c.source, c.text, c.pruned) for c in enhanced] == [
        (c.source, c.text, c.pruned) for c in plain
    ]
    assert [c.score for c in enhanced] == pytest.approx([c.score for c in plain], abs=1e-6)


def test_omits_functions_that_the_model_was_not_prompted_for(corpus, tmp_path, caplog):
    log = enhance(corpus, tmp_path, 1)
    retriever = METHODS[METHOD].make_retriever(knowledge(corpus))
    counts = retriever.about["docstrings"]
    assert (log["asked"], counts["not asked"], counts["own docstring"], counts["model"]) == (
        1,
        2,
        1,
        MODEL,
    )
    assert "2 of 4 functions" in caplog.text
    assert len(retriever.functions) == 2
    enhance(corpus, tmp_path)
    later = METHODS[METHOD].make_retriever(knowledge(corpus)).about["docstrings"]
    assert "not asked" not in later and later["sha256"] != counts["sha256"]
    assert (later["written"], later["none accepted"], later["own docstring"]) == (2, 1, 1)


def test_interrupted_enhancement_counts_settled_functions(corpus, tmp_path):
    """Answers that are not judged do not count. A rejected first form is prompted for again."""
    with pytest.raises(KeyboardInterrupt):
        enhancer.enhance(corpus, MODEL, None, tmp_path / "results", FakeBackend(answer, stop=3))
    counts = METHODS[METHOD].make_retriever(knowledge(corpus)).about["docstrings"]
    assert (
        counts["own docstring"] == 1 and counts["not asked"] >= 1 and "none accepted" not in counts
    )


def test_reports_missing_and_ambiguous_docstrings(corpus, tmp_path, monkeypatch):
    with pytest.raises(UnavailableError, match="pkg-lib pkg enhance"):
        METHODS[METHOD].make_retriever(knowledge(corpus))
    enhance(corpus, tmp_path)
    enhance(corpus, tmp_path, model="starcoder2-7b")
    with pytest.raises(UserError, match="PKG_ENHANCER") as error:
        METHODS[METHOD].make_retriever(knowledge(corpus))
    assert MODEL in str(error.value) and "starcoder2-7b" in str(error.value)
    monkeypatch.setenv("PKG_ENHANCER", "starcoder2-7b")
    assert (
        METHODS[METHOD].make_retriever(knowledge(corpus)).about["docstrings"]["model"]
        == "starcoder2-7b"
    )
    monkeypatch.setenv("PKG_ENHANCER", "nosuch")
    with pytest.raises(UnavailableError, match="by nosuch"):
        METHODS[METHOD].make_retriever(knowledge(corpus))


def test_is_a_separate_method_for_code(corpus):
    assert METHOD in variant_methods() and METHOD not in retrieving_methods()
    assert Results("qwen2.5-coder-0.5b-instruct", corpus=corpus, limit=1).offers(METHOD)
    for other in ("published", "python-docs"):
        assert not Results("qwen2.5-coder-0.5b-instruct", corpus=other, limit=1).offers(METHOD)
    assert knowledge_of(f"{corpus}, top 3").corpus == corpus


def test_generates_again_when_docstrings_have_changed(corpus, tmp_path, monkeypatch):
    enhance(corpus, tmp_path, 1)
    monkeypatch.setattr(
        "pkg_lib.evaluation.stored_answers.knowledge_of", lambda name: knowledge(corpus)
    )
    results = tmp_path / "results"

    def completed(limit: int = 2) -> list[str]:
        backend = FakeBackend(lambda request: "```python\nx = 1\n```")
        Evaluator(
            Results(MODEL, corpus=corpus, limit=limit, results=results), backend=backend
        ).generate([METHOD])
        return [request.text for request in backend.asked]

    first = completed(3)
    assert len(first) == 3 and completed() == []
    (meta,) = (results / "contexts").rglob("func-pkg.enhanced/provenance.json")
    assert read_json(meta)["docstrings"]["not asked"] == 2
    assert read_json(meta)["pruning"] == "guarded"
    enhance(corpus, tmp_path)
    assert Results(MODEL, corpus=corpus, limit=2, results=results).contexts(METHOD) == []
    completed()
    assert "not asked" not in read_json(meta)["docstrings"]
    # What the third task got was retrieved from other docstrings.
    assert len(Results(MODEL, corpus=corpus, limit=3, results=results).contexts(METHOD)) == 2
    (file,) = (results / "enhanced").rglob("*.jsonl.gz")
    file.unlink()  # what was retrieved remains readable
    assert len(Results(MODEL, corpus=corpus, limit=2, results=results).contexts(METHOD)) == 2


def test_traces_only_contexts_that_the_corpus_contains(corpus, tmp_path):
    enhance(corpus, tmp_path)
    kiwi, banana = retrieve(corpus, "kiwis there are on average sum items", "bananas by weight")
    documents = {d.id: d for d in load_corpus(corpus)}
    assert trace(banana, documents).text == banana.text
    with pytest.raises(UserError, match="a model wrote"):
        trace(kiwi, documents)


def test_reports_a_damaged_file_of_docstrings(corpus, tmp_path):
    enhance(corpus, tmp_path)
    (file,) = (tmp_path / "results" / "enhanced").rglob("*.jsonl.gz")
    write_jsonl(file, [*read_rows(file), {"payload_sha256": 7}])
    with pytest.raises(UserError, match=file.name):
        retrieve(corpus, "x")


def test_omits_an_edited_docstring_that_does_not_fit(corpus, tmp_path):
    enhance(corpus, tmp_path)
    (file,) = (tmp_path / "results" / "enhanced").rglob("*.jsonl.gz")
    rows = list(read_rows(file))
    for row in rows:
        row["docstring"] = row["docstring"] and 'kiwis"""\n        x = 1\n        """'
    write_jsonl(file, rows)
    (context,) = retrieve(corpus, "sum items len")
    assert context.source == "source/fruit.py:10-14" and '"""' not in context.text
