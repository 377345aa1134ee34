"""A repository from its files to stored rankings, records and answers; the second time nothing is computed."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path

import pytest

from pkg_lib.core.store import read_json, write_json
from pkg_lib.core.types import UserError
from pkg_lib.papers.dkb import dkb, measuring
from pkg_lib.papers.dkb import dkb_prompts as prompts
from pkg_lib.papers.dkb import dkb_study as study

SHOP = Path(__file__).parent.parent / "data" / "shop"
QUESTIONS = str(SHOP / "questions.yaml")


class Answering:
    """A backend: a record for each file but the third of a batch, and for a question the names in its context."""

    def __init__(self):
        self.asked = []

    def generate(self, requests, done):
        for request in requests:
            self.asked.append(request.text)
            row = type("Row", (), {"request": request, "prompt_tokens": 100, "tokens": [1, 2, 3]})()
            done(row, self.answer(request.text), "end")

    @staticmethod
    def answer(prompt):
        files = re.findall(r"^--- FILE: (.*) ---$", prompt, re.M)
        if not files:
            return "CartService and a NoSuchHelperFactory."
        rows = [
            {"file_path": f, "class_name": Path(f).stem, "dependencies": ["CartService"]}
            for n, f in enumerate(files)
            if n != 2
        ]
        return json.dumps({"results": rows})


@pytest.fixture
def opened(tmp_path, embedder):
    return study.open_repository(str(SHOP), QUESTIONS, tmp_path, embedder)


def test_a_ranking_is_made_once_and_again_when_the_content_changes(opened, tmp_path, embedder):
    assert opened.name == "shop" and len(opened.texts) == 53 and len(opened.chunks) == 81
    (best, score), *rest = opened.repository.ranking["Q15"]
    assert best in opened.chunks and len(rest) == 80 and score >= rest[0][1] >= rest[-1][1]
    seen = len(embedder.seen)
    again = study.open_repository(str(SHOP), QUESTIONS, tmp_path, embedder)
    assert again.repository.ranking == opened.repository.ranking and len(embedder.seen) == seen
    copy = tmp_path / "copy" / "shop"
    shutil.copytree(SHOP, copy)
    next(copy.rglob("Money.java")).write_text("class Money {}")
    changed = study.open_repository(str(copy), QUESTIONS, tmp_path, embedder)
    assert changed.ranked["digest"] != opened.ranked["digest"] and len(embedder.seen) > seen


def test_what_was_measured_is_not_overwritten_by_other_questions_nor_shown_for_another_source(
    opened, tmp_path, embedder
):
    measuring.measure(SHOP, "shop", opened.folder)
    write_json(opened.file("ranking"), opened.ranked | {"embedding_seconds": 1.5})
    fewer = tmp_path / "fewer.yaml"
    fewer.write_text(Path(QUESTIONS).read_text("utf8").partition("  - id: Q2\n")[0])
    asked = study.open_repository(str(SHOP), str(fewer), tmp_path, embedder)
    assert len(asked.questions) == 1 and "embedding_seconds" not in asked.ranked
    again = study.open_repository(str(SHOP), QUESTIONS, tmp_path, embedder)
    assert again.ranked["embedding_seconds"] == 1.5 and len(again.ranked["ranking"]) == 15
    assert dkb.Study(again).index["files"] == 53

    copy = tmp_path / "copy" / "shop"
    shutil.copytree(SHOP, copy)
    next(copy.rglob("OrderMailListener.java")).unlink()  # no question needs it
    other = study.open_repository(str(copy), QUESTIONS, tmp_path, embedder)
    assert dkb.Study(other).index is None and "embedding_seconds" not in other.ranked
    measuring.measure(copy, "shop", other.folder)
    assert dkb.Study(other).index["files"] == 52 and dkb.Study(again).index["files"] == 53


def test_retries_that_were_paid_for_make_the_graph(opened):
    class Single(Answering):
        @staticmethod
        def answer(prompt):
            return "sorry" if prompt.count("--- FILE: ") > 1 else Answering.answer(prompt)

    found = study.extract(opened, retries=1, backend=Single())
    assert len(found.records) == 53
    once, again = (study.pipelines(opened, retries=n)[-1] for n in (0, 1))
    assert len(once.graph.nodes) == 1 and len(again.graph.nodes) > 50


def test_what_is_stored_fits_the_shop():
    """The committed figures are of the committed sources and questions."""
    results = Path(__file__).parents[2] / "results"
    opened = study.open_repository(str(SHOP), QUESTIONS, results)
    assert opened.folder == study.folder_of(results, "shop")
    assert {opened.file(n).name for n in ("ranking", "evidence")} == {"ranking.json", "evidence.json"}


def test_without_a_model_there_is_no_llm_kb_and_no_answer(opened):
    chosen = study.pipelines(opened)
    assert [p.column for p in chosen] == ["No-Graph", study.SAME_SIZE, "DKB"]
    assert study.stored_extraction(opened) is None and study.stored_answers(opened, chosen) == {}


def test_no_graph_of_the_same_size_is_no_larger_than_dkb(opened):
    _, same, dkb = study.pipelines(opened)
    for q in opened.questions:
        assert len(same.gather(q.id).text) <= len(dkb.gather(q.id).text)


def test_llm_kb_and_answers_are_asked_once(opened):
    backend = Answering()
    found = study.extract(opened, backend=backend)
    assert len(backend.asked) == 14 and len(found.records) == 40 and len(found.skipped) == 13
    chosen = study.pipelines(opened)
    assert [p.column for p in chosen][-1] == "LLM-KB"
    for q in opened.questions:
        assert {e.path for e in chosen[-1].gather(q.id).excerpts} <= set(found.records)
        assert not chosen[-1].gather(q.id).listed
    made = study.answers(opened, chosen, backend=backend)
    assert len(backend.asked) == 14 + 4 * 15 and {len(a) for a in made.values()} == {15}
    assert study.stored_answers(opened, chosen) == made and len(backend.asked) == 74
    again = study.extract(opened, retries=1, backend=backend)
    assert len(backend.asked) == 74 + 13 and not again.skipped
    prompt = backend.asked[-14]
    assert prompt.startswith("You are a Senior Java Architect.") and "Gemini-generated" in prompt


def test_the_prompts_are_filled_without_reading_braces_of_the_code():
    text = prompts.fill(prompts.DKB, context="{question} {x}", question="Who?")
    assert "Context:\n{question} {x}\n\nQuestion: Who?\n" in text and "Use the [ONTOLOGY INFO]" in text


def test_figures_of_the_shop(tmp_path):
    found = measuring.measure(SHOP, "shop", tmp_path)
    assert read_json(tmp_path / "index.json") == found
    assert (found["files"], found["chunks"], found["characters"]) == (53, 81, 49_246)
    resolved, published = (found["graphs"][m] for m in ("resolved", "as-published"))
    assert sum(resolved["nodes"].values()) == 61 and sum(published["nodes"].values()) == 60
    assert resolved["chunks_of_files_with_a_node"] == 81 and published["chunks_of_files_with_a_node"] == 80
    assert found["truncated_files"] == 0 and all(s >= 0 for s in resolved["seconds"].values())


def test_variants_change_one_thing(opened):
    found = {p.column: p for p in study.variants(opened)}
    dkb, coupled = found["DKB"], found["as published"]
    assert [p.depth for p in found.values()] == [1, 0, 2, 3, 1, 1, 1]
    assert (
        dkb.paths is None
        and len(coupled.paths) == 52
        and coupled.by_file
        and coupled.graph.mode == "as-published"
    )
    assert not found["without interface consumers"].interfaces


def test_run_says_what_reaches_the_context(opened, monkeypatch, tmp_path):
    monkeypatch.setattr(study, "open_repository", lambda *a: opened)
    lines = list(measuring.run(str(SHOP), QUESTIONS, tmp_path))
    assert lines[0] == "shop: 53 files, 81 chunks, 15 questions"
    assert sum(line.startswith("DKB") for line in lines) == 3


def test_places(monkeypatch, tmp_path):
    assert study.place("tests/data/shop") == SHOP and study.place(str(tmp_path)) == tmp_path
    monkeypatch.setenv(study.JDK, str(tmp_path))
    assert study.place("openjdk-17") == tmp_path
    monkeypatch.setenv(study.JDK, str(tmp_path / "no"))
    with pytest.raises(UserError, match=f"openjdk-17-source or set {study.JDK}"):
        study.place("openjdk-17")


def test_a_repository_without_java(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(UserError, match=r"has no .java file"):
        study.open_repository(str(tmp_path), QUESTIONS, tmp_path)


def test_queries_are_measured_with_the_embedder_anew(opened, monkeypatch, embedder):
    class Fresh(type(embedder)):
        """Counts words, and has a tokenizer."""

        def __init__(self, cache=None):
            super().__init__()
            self._model = type("Model", (), {})()
            self._model.tokenizer = lambda texts, **k: {"input_ids": [t.split() for t in texts]}

        def _compute(self, texts):
            return self.encode(texts)

    monkeypatch.setattr(measuring, "Embedder", Fresh)
    found = measuring.measure_queries(opened)
    assert set(found["query_seconds"]) == {"No-Graph", "DKB"} and len(found["query_seconds"]["DKB"]) == 15
    assert found["embedded_tokens"] == sum(len(c.text.split()) for c in opened.chunks.values())
    assert found["embedding_seconds"] >= 0 and found["ranking"] == opened.ranked["ranking"]


def test_a_module_of_the_jdk_is_unpacked_once(own_cache, tmp_path, monkeypatch):
    archive = tmp_path / "src.zip"
    with zipfile.ZipFile(archive, "w") as z:
        z.writestr("java.sql/java/sql/Driver.java", "package java.sql; public interface Driver {}")
        z.writestr("java.base/A.java", "class A {}")
    monkeypatch.setenv(study.JDK, str(archive))
    root = study.place("openjdk-17/java.sql")
    assert root.name == "java.sql" and own_cache in root.parents
    assert [p.name for p in root.rglob("*.java")] == ["Driver.java"]
    assert study.place("openjdk-17/java.sql") == root
    with pytest.raises(UserError, match=r"has no module java\.nosuch"):
        study.place("openjdk-17/java.nosuch")


def test_recorded_evidence_is_read_back(opened, monkeypatch, tmp_path):
    from pkg_lib.papers.dkb import dkb

    monkeypatch.setattr(study, "open_repository", lambda *a: opened)
    monkeypatch.setattr(measuring, "measure_queries", lambda o: None)
    list(measuring.run(str(SHOP), QUESTIONS, tmp_path, record=True))
    stored, now = dkb.recorded(tmp_path, "shop"), dkb.Study(opened)
    assert stored.columns == now.columns and stored.kinds == now.kinds
    assert stored.against("DKB", "No-Graph") == now.against("DKB", "No-Graph")
    with pytest.raises(UserError, match="no evidence of other is recorded; choose from: shop"):
        dkb.recorded(tmp_path, "other")
    with pytest.raises(UserError, match="no index of other is recorded; choose from: java"):
        dkb.stored_index(tmp_path / "nothing", "other")
    assert (
        dkb.recorded(tmp_path, "java.net.http") is None and dkb.stored_index(tmp_path, "openjdk-17") is None
    )
