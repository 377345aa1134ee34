"""A repository, from its files to stored rankings, records and answers."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from fakes import FakeBackend

from pkg_lib.core.store import ROOT, read_json, write_json
from pkg_lib.core.types import UserError
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.papers.dkb import measurement
from pkg_lib.papers.dkb import repository_study as module
from pkg_lib.papers.dkb.question_tasks import ask, named
from pkg_lib.papers.dkb.repository_study import open_study, place
from pkg_lib.papers.dkb.settings import MODEL

SHOP = ROOT / "tests" / "data" / "shop"
QUESTIONS = SHOP / "questions.yaml"


def answer(request):
    """A record for each file but the third of a batch, and one answer to all questions."""
    files = re.findall(r"^--- FILE: (.*) ---$", request.text, re.M)
    kept = [f for n, f in enumerate(files) if n != 2]
    records = [
        {"file_path": f, "class_name": Path(f).stem, "dependencies": ["CartService"]} for f in kept
    ]
    return json.dumps({"results": records}) if files else "CartService and a NoSuchHelperFactory."


@pytest.fixture
def opened(tmp_path, embedder):
    """Opens a study of the shop, or of another repository and other questions."""

    def again(repository=SHOP, questions=QUESTIONS, **options):
        return open_study(str(repository), str(questions), tmp_path, embedder=embedder, **options)

    return again


@pytest.fixture
def study(opened):
    return opened()


def test_what_is_kept_is_of_this_source_and_these_questions(study, opened, embedder, tmp_path):
    measurement.measure(SHOP, "shop", study.folder)
    graphs, ranking = study.index["graphs"], study.repository.ranking
    assert (study.index["files"], study.index["chunks"], study.index["characters"]) == (
        53,
        81,
        49_246,
    )
    about = [(sum(g["nodes"].values()), g["chunks_of_files_with_a_node"]) for g in graphs.values()]
    assert about == [(60, 80), (61, 81)]  # as-published, resolved
    (best, score), *rest = ranking["Q15"]
    assert best in study.chunks and len(rest) == 80 and score >= rest[0][1] >= rest[-1][1]
    assert study.extracted is None and study.answers == {}

    write_json(study.file("ranking"), study.ranked | {"load_before": 1.5})
    embedder.seen.clear()
    again = opened()
    assert again.repository.ranking == ranking and again.index == study.index and not embedder.seen

    fewer = tmp_path / "fewer.yaml"
    fewer.write_text(QUESTIONS.read_text("utf8").partition("  - id: Q2\n")[0])
    assert "load_before" not in opened(questions=fewer).ranked and embedder.seen

    changed_shop = shutil.copytree(SHOP, tmp_path / "copy" / "shop")
    next(changed_shop.rglob("OrderMailListener.java")).unlink()  # no question needs it
    other = opened(changed_shop)
    assert other.index is None and "load_before" not in other.ranked
    measurement.measure(changed_shop, "shop", other.folder)
    assert opened(changed_shop).index["files"] == 52 and opened().index["files"] == 53
    assert opened().ranked["load_before"] == 1.5


def test_what_is_stored_fits_the_shop():
    """The committed figures are of the committed sources and questions."""
    study = open_study(str(SHOP), str(QUESTIONS), ROOT / "results")
    assert study.folder == ROOT / "results" / "repo_qa" / "shop"
    assert {study.file(n).name for n in ("ranking", "evidence")} == {
        "ranking.json",
        "evidence.json",
    }
    assert len(study.extracted.answers) == 14 and {"No-Graph", "DKB", "LLM-KB"} <= set(
        study.answers
    )


def test_llm_kb_and_answers_are_asked_once(opened):
    backend, silent = FakeBackend(answer), FakeBackend(answer)
    ask(opened(backend=backend))
    ask(opened(backend=silent))
    assert len(backend.asked) == 14 + 3 * 15 and not silent.asked
    prompt = backend.asked[-1].text
    assert prompt.startswith("You are a Senior Java Architect.") and "Gemini-generated" in prompt
    study = opened()
    assert len(study.extracted.records) == 40 and len(study.extracted.skipped) == 13
    _, same, dkb, kb = study.pipelines
    for q in study.questions:
        assert len(same.gather(q.id).text) <= len(dkb.gather(q.id).text)
        context = kb.gather(q.id)
        assert {part.path for part in context} <= set(study.extracted.records)
        assert not any(part.names for part in context)
    sizes = {column: len(rows) for column, rows in study.answers.items()}
    assert sizes == {"No-Graph": 15, "DKB": 15, "LLM-KB": 15}
    ask(opened(backend=silent, retries=1))
    assert len(silent.asked) == 13 + 15  # each skipped file by itself, then LLM-KB's questions


def test_no_graph_and_dkb_answer_without_a_graph_by_a_model(opened, tmp_path, monkeypatch):
    """Only questions are sent, and the answers are those that are stored when all methods answer."""
    backend = FakeBackend(answer)
    assert ask(opened(backend=backend), ["No-Graph", "DKB"]) == 30
    assert not any("--- FILE: " in request.text for request in backend.asked)
    study = opened(backend=backend)
    assert {method: len(rows) for method, rows in study.answers.items()} == {
        "No-Graph": 15,
        "DKB": 15,
    }
    assert study.extracted is None and [p.method for p in study.pipelines][-1] == "DKB"
    with pytest.raises(UserError, match="LLM-KB's graph of shop is not extracted"):
        study.pipeline("LLM-KB")
    with pytest.raises(UserError, match="unknown method 'NoGraph'; did you mean 'No-Graph'"):
        ask(opened(), ["NoGraph"])
    monkeypatch.setattr(measurement, "open_study", lambda *a, **k: study)
    options = measurement.AskOptions(model=MODEL, methods=["DKB"])
    lines = list(measurement.run(str(SHOP), str(QUESTIONS), tmp_path, options))
    assert lines[1] == "answers: No-Graph 15, DKB 15"
    ask(opened(backend=backend))
    assert len(backend.asked) == 30 + 14 + 15  # then LLM-KB's batches and questions alone


def test_the_answers_of_a_method_are_stored_before_the_next_one_is_asked(opened):
    def broken(request):
        assert "--- FILE: " not in request.text, "the model is gone"
        return answer(request)

    with pytest.raises(AssertionError, match="the model is gone"):
        ask(opened(backend=FakeBackend(broken)))
    assert set(opened().answers) == {"No-Graph", "DKB"}


def test_an_estimate_counts_the_prompts_that_are_not_answered(opened, tmp_path, monkeypatch):
    ask(opened(backend=FakeBackend(answer)), ["DKB"])
    study = opened()
    monkeypatch.setattr(measurement, "open_study", lambda *a, **k: study)
    options = measurement.AskOptions(dry_run=True, tokens_per_second=8)
    _, _, *lines = measurement.run(str(SHOP), str(QUESTIONS), tmp_path, options)
    characters = sum(map(len, study.prompts(study.pipeline("No-Graph")).values()))
    assert lines[0] == (
        f"No-Graph: 15 prompts of {characters // 3:,} tokens, at most 3,840 written, 8 minutes"
    )
    assert lines[1].startswith("DKB: 0 prompts of 0 tokens, at most 0 written")
    assert lines[2].startswith("LLM-KB, extraction: 14 prompts of ")
    assert lines[3] == "LLM-KB: 15 questions, once its graph is extracted"


def test_the_shop_s_questions_are_a_benchmark_whose_answers_are_measured():
    run = Results(MODEL, "shop-questions")
    preparer, columns = Evaluator(run), list(run.retrievers)
    assert columns == ["No-Graph", "No-Graph, same size", "DKB", "LLM-KB"] and not preparer.lacks(
        columns
    )
    shares = {c: round(100 * run.measures(c)["named"].mean()) for c in columns}
    assert shares == {"No-Graph": 61, "No-Graph, same size": 60, "DKB": 60, "LLM-KB": 49}
    assert named({"Cart", "Order"}, "The Cart, and OrderService.") == 0.5
    with pytest.raises(UserError, match="go together"):
        Results(MODEL, "shop-questions", "textbook")


def test_retries_that_were_paid_for_make_the_graph(opened):
    """The first batches answer nothing; every file by itself has a record."""
    backend = FakeBackend(lambda r: "sorry" if r.text.count("FILE: ") > 1 else answer(r))
    ask(opened(retries=1, backend=backend))
    once, again = (opened(retries=n) for n in (0, 1))
    assert [len(s.pipelines[-1].graph.nodes) for s in (once, again)] == [1, 52]  # two Address
    assert not again.extracted.skipped and again.variants[-1].method == "LLM-KB, one retry"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"k": 0}, "k = 0"),
        ({"k": 81}, "k = 81: of 81 chunks the best 80 are stored"),
        ({"depth": -2}, "depth = -2"),
        ({"model": "nope"}, "unknown model 'nope'"),
        ({"questions": "nonesuch.yaml"}, "Nonesuch is no type of the repository"),
        ({"repository": "folder"}, r"contains no .java file"),
    ],
)
def test_a_wrong_parameter_stops_the_study_before_it_shows_anything(
    opened, wrong, says, tmp_path, monkeypatch
):
    (tmp_path / "folder").mkdir()
    (tmp_path / "nonesuch.yaml").write_text("questions: [{id: a, question: b, needs: [Nonesuch]}]")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "KEPT", 80)
    assert opened(k=80).k == 80
    with pytest.raises(UserError, match=says):
        opened(**wrong)


def test_a_recorded_study_is_read_back(study, opened, embedder, monkeypatch, tmp_path):
    embedder.compute = embedder.encode
    embedder._model = SimpleNamespace(
        tokenizer=lambda texts, **k: {"input_ids": [t.split() for t in texts]}
    )
    monkeypatch.setattr(measurement, "Embedder", lambda cache: embedder)
    monkeypatch.setattr(measurement, "open_study", lambda *a, **k: study)
    options = measurement.AskOptions(record=True)
    lines = list(measurement.run(str(SHOP), str(QUESTIONS), tmp_path, options))
    assert lines[0] == "small shop: 53 files, 81 chunks, 15 questions"
    assert sum(line.startswith("DKB") for line in lines) == 3
    assert any(re.match(r"Q\d+: No-Graph misses com\.example\.", line) for line in lines)
    ranked = opened().ranked
    assert {p: len(seconds) for p, seconds in ranked["query_seconds"].items()} == {
        "No-Graph": 15,
        "DKB": 15,
    }
    cost = opened().index["embedding"]
    assert cost["tokens"] == sum(len(c.text.split()) for c in study.chunks.values())
    assert cost["processor_seconds"] >= 0 and ranked["ranking"] == study.ranked["ranking"]
    stored, evidence = read_json(study.file("evidence")), measurement.evidence_of(study)
    for name in ("rows", "variants"):
        assert pd.DataFrame(**stored[name]).equals(evidence[name])


def test_the_cost_of_embedding_is_kept_until_the_sources_change(tmp_path):
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "A.java").write_text("class A {}")
    measurement.measure(sources, "a", tmp_path)
    stored = read_json(tmp_path / "index.json")
    write_json(tmp_path / "index.json", stored | {"embedding": {"tokens": 5, "seconds": 1.0}})
    measurement.measure(sources, "a", tmp_path)
    assert read_json(tmp_path / "index.json")["embedding"] == {"tokens": 5, "seconds": 1.0}
    (sources / "A.java").write_text("class A { int b; }")
    measurement.measure(sources, "a", tmp_path)
    assert "embedding" not in read_json(tmp_path / "index.json")


def test_a_module_of_the_jdk_is_unpacked(own_cache, tmp_path, monkeypatch):
    archive = tmp_path / "src.zip"
    with zipfile.ZipFile(archive, "w") as z:
        z.writestr("java.sql/java/sql/Driver.java", "package java.sql; public interface Driver {}")
        z.writestr("java.base/A.java", "class A {}")
    monkeypatch.setenv(module.JDK, str(archive))
    root = place("openjdk-17/java.sql")
    assert root.name == "java.sql" and own_cache in root.parents and place("openjdk-17") == archive
    assert [p.name for p in root.rglob("*.java")] == ["Driver.java"] and place(
        "openjdk-17/java.sql"
    ) == root
    with pytest.raises(UserError, match=r"has no module java\.nosuch"):
        place("openjdk-17/java.nosuch")
    monkeypatch.setenv(module.JDK, str(tmp_path / "no"))
    with pytest.raises(UserError, match=f"openjdk-17-source or set {module.JDK}"):
        place("openjdk-17")
