"""The steps one after the other on a small package, with a model that is a table of answers."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from pkg_lib.core.types import UserError
from pkg_lib.data import packages
from pkg_lib.data.repoeval import read_repoeval
from pkg_lib.papers.cast import cast_store as store
from pkg_lib.papers.cast import completing, retrieving, running, verdicts
from pkg_lib.papers.cast.cast_columns import COLUMNS
from pkg_lib.retrieval.chunks import EmbeddingRanker

MODEL, CHAT = "qwen2.5-coder-0.5b-instruct", "None, chat prompt"
BODY = "    if radius < 0:\n        raise ValueError\n    return radius * radius * math.pi\n"
GOOD = f"```python\n{BODY}```\n"


@pytest.fixture
def study(package, tmp_path, monkeypatch, embedder):
    """The packages are `shapes` alone; embeddings of words; tokens are characters; contexts of 900 of them."""
    known = {package.name: package}
    for module in ("packages", "store", "running"):
        monkeypatch.setattr(f"pkg_lib.repo_tasks.{module}.PACKAGES", known)
    monkeypatch.setattr(completing.Completing, "measure", property(lambda self: len))
    monkeypatch.setattr(completing.prompts.context_text, "__defaults__", (900,))
    for module in (completing, retrieving):
        made = module.make_ranker
        fake = lambda name, made=made: EmbeddingRanker(name, embedder) if name == "MiniLM" else made(name)  # noqa: E731
        monkeypatch.setattr(module, "make_ranker", fake)
    running.make_tasks(tmp_path, str)
    return tmp_path


class Backend:
    """Answers by the function that is asked for."""

    def __init__(self, answers):
        self.answers, self.asked = answers, []

    def generate(self, requests, done):
        for request in requests:
            self.asked.append(request)
            head = request.text if self.chat else request.text.rpartition("def ")[2]
            raw = next(
                a for name, a in self.answers.items() if f"`{name}`" in head or head.startswith(f"{name}(")
            )
            done(SimpleNamespace(request=request, tokens=[1, 2], prompt_tokens=len(request.text)), raw, "end")


def complete(study, answers, columns, monkeypatch, limit=None):
    backend = Backend(answers)
    monkeypatch.setattr(completing.Completing, "backend", backend)
    running.complete(study, str, MODEL, columns, limit)
    return backend


def test_tasks_are_read_back_from_the_archive(study, package):
    tasks = store.load_tasks(study)[package.name]
    assert [t.function_name for t in tasks] == ["size", "area"] and all(t.tests for t in tasks)
    assert store.load_meta(study, "tasks.meta.json")["packages"]["shapes"]["tasks"] == 2
    assert {o.status for o in store.load_outcomes(study, "controls", "pass").values()} == {"failed"}


def test_tasks_of_another_archive_are_refused(study):
    path = store.home(study) / "tasks.jsonl"
    path.write_text(path.read_text().replace('"prompt_sha256": "', '"prompt_sha256": "0'))
    with pytest.raises(UserError, match=r"is not in shapes 1\.0 as it was"):
        store.load_tasks(study)


def test_completions_are_judged_and_measured(study, monkeypatch):
    complete(
        study,
        {"area": f"{BODY}\n\ndef g():\n    return 1\n", "size": "        I cannot."},
        ["None"],
        monkeypatch,
    )
    assert verdicts.judge_column(study, MODEL, "None") == 2
    rows = {r["task_id"].rpartition(":")[2]: r for r in verdicts.stored(study, MODEL, "None")}
    assert rows["area"]["status"] == "passed" and 0 < rows["area"]["edit"] < 1
    assert (rows["Square.size"]["status"], rows["Square.size"]["error"]) == ("failed", "SyntaxError")
    assert verdicts.judge_column(study, MODEL, "None") == 0


def test_measures_of_a_stored_verdict_follow_code_match(study, monkeypatch):
    complete(study, {"area": BODY, "size": BODY}, ["None"], monkeypatch)
    verdicts.judge_column(study, MODEL, "None")
    before = verdicts.stored(study, MODEL, "None")
    path = store.outcome_file(study, MODEL, "None")
    path.write_text("".join(json.dumps(r | {"edit": 9.0}) + "\n" for r in before))
    assert verdicts.judge_column(study, MODEL, "None") == 0
    assert verdicts.stored(study, MODEL, "None") == before


def test_an_answer_without_a_body_is_a_failure_of_extraction(study, monkeypatch):
    complete(study, {"area": "```python\n```\n", "size": GOOD}, [CHAT], monkeypatch)
    verdicts.judge_column(study, MODEL, CHAT)
    assert (
        next(r for r in verdicts.stored(study, MODEL, CHAT) if r["task_id"].endswith("area"))["error"]
        == "ExtractionFailure"
    )


def test_nothing_is_completed_twice_and_a_limit_is_continued(study, monkeypatch):
    answers = {"area": BODY, "size": BODY}
    assert len(complete(study, answers, ["None"], monkeypatch, limit=1).asked) == 1
    assert len(complete(study, answers, ["None"], monkeypatch).asked) == 1
    assert complete(study, answers, ["None"], monkeypatch).asked == []


def test_a_changed_answer_is_judged_anew(study, monkeypatch):
    complete(study, {"area": BODY, "size": BODY}, ["None"], monkeypatch)
    verdicts.judge_column(study, MODEL, "None")
    path = store.home(study) / "generations" / MODEL / "none.jsonl"
    path.write_text(path.read_text().replace("radius * radius", "3 + radius"))
    assert verdicts.judge_column(study, MODEL, "None") == 1
    assert {r["status"] for r in verdicts.stored(study, MODEL, "None")} == {"failed"}


def test_a_chat_turn_asks_for_the_same_with_another_key(study, monkeypatch):
    plain = complete(study, {"area": BODY, "size": BODY}, ["None"], monkeypatch)
    assert not plain.chat and plain.stop(f"{BODY}\ndef g") and not plain.stop(GOOD)
    chat = complete(study, {"area": GOOD, "size": GOOD}, [CHAT], monkeypatch)
    assert chat.chat and chat.stop(GOOD) and len(chat.asked) == 2
    assert verdicts.judge_column(study, MODEL, CHAT) == 2
    assert {
        r["task_id"].rpartition(":")[2]
        for r in verdicts.stored(study, MODEL, CHAT)
        if r["status"] == "passed"
    } == {"area"}


@pytest.mark.parametrize("name", [n for n, c in COLUMNS.items() if c.chunking])
def test_what_a_column_shows_is_stored_and_masked(study, monkeypatch, name):
    backend = complete(study, {"area": BODY, "size": BODY}, [name], monkeypatch)
    rows = {
        r["task_id"]: r for r in map(json.loads, store.context_file(study, name).read_text().splitlines())
    }
    for request in backend.asked:
        row = rows[request.task_id]
        context = request.text.partition("\n\n")[0]
        assert row["chunks"] and row["tokens"] <= 900
        shown = (
            "return math.pi" in context if request.task_id.endswith("area") else "side = self.side" in context
        )
        assert shown == row["holds_body"] and not (shown and COLUMNS[name].masked)


def test_retrieval_is_measured_for_every_task_ranker_and_chunking(study):
    rows = retrieving.measure(study, str)
    runs = sum(len(retrieving.mappings(v)) for v in retrieving.VARIANTS)
    assert len(rows) == 2 * len(retrieving.RANKERS) * runs
    assert rows[["nDCG@5", "P@5", "R@5"]].notna().all().all() and rows["gold"].ge(1).all()
    stored = retrieving.load(study)
    assert stored.shape == rows.shape and set(stored["chunking"]) == set(retrieving.VARIANTS)
    before = (store.home(study) / "retrieval.csv").read_bytes()
    retrieving.measure(study, str)
    assert (store.home(study) / "retrieval.csv").read_bytes() == before


def test_unknown_steps_columns_and_models_are_one_line(study):
    with pytest.raises(UserError, match="unknown step 'all'"):
        running.run(study, str, ["all"], MODEL)
    with pytest.raises(UserError, match="unknown column"):
        running.complete(study, str, MODEL, ["cast"])
    with pytest.raises(UserError, match="chat models"):
        running.complete(study, str, "codellama-7b-instruct", [CHAT])
    with pytest.raises(UserError, match="unknown model 'nope'"):
        verdicts.judge_all(study, "nope", str)
    for limit in (0, -1):
        with pytest.raises(UserError, match=f"limit is {limit}; give 1 or more tasks"):
            running.complete(study, str, MODEL, ["None"], limit)


def test_before_the_tasks_are_chosen_the_error_names_the_step(tmp_path):
    with pytest.raises(UserError, match="repo-tasks tasks"):
        store.load_tasks(tmp_path)
    with pytest.raises(UserError, match="repo-tasks retrieval"):
        retrieving.load(tmp_path)


def test_a_package_of_the_user_s_gives_tasks_of_repoeval_s_form(shapes, tmp_path):
    said = []
    running.write_tasks(packages.local(shapes, ["shapes/"], ["tests"]), tmp_path / "tasks.jsonl", said.append)
    found = read_repoeval(tmp_path / "tasks.jsonl")
    assert [t.function_name for t in found] == ["size", "area"] and all(
        t.tests and t.repository == "mine" for t in found
    )
    assert "tasks: 2" in said[0] and said[1].endswith("tasks.jsonl")


def test_a_place_that_is_not_there_or_decides_nothing_is_one_line(shapes, tmp_path):
    for sources in (["other"], ["../mine/shapes"], [str(shapes / "shapes")]):
        with pytest.raises(UserError, match="has no"):
            packages.local(shapes, sources, ["tests"])
    with pytest.raises(UserError, match="gives no task"):
        running.write_tasks(
            packages.local(shapes, ["shapes/constants.py"], ["tests"]), tmp_path / "x.jsonl", str
        )
    assert not (tmp_path / "x.jsonl").exists()


def test_where_nothing_is_missing_neither_weights_nor_sources_are_asked_for(study, monkeypatch):
    names = ["None", "cast, BM25", CHAT]
    complete(study, {"area": BODY, "size": BODY}, names, monkeypatch)
    monkeypatch.setattr(completing.Completing, "measure", property(lambda self: self.weights))
    monkeypatch.setattr(completing, "fetch", lambda *a: pytest.fail("asked for weights"))
    monkeypatch.setattr(store, "read_package", lambda package: pytest.fail("asked for a source archive"))
    assert completing.Completing(study, MODEL).run(names) == 0
    monkeypatch.undo()
    path = store.home(study) / "tasks.jsonl"
    path.write_text(path.read_text() + "\n")  # tasks chosen anew: what is stored may be of others
    assert not completing.Completing(study, MODEL)._complete_as_stored("None", set())
