"""The steps one after the other on a small package, with a model that is a table of answers."""

from __future__ import annotations

import json

import pytest

from pkg_lib.chunking.chunker import Chunker
from pkg_lib.core.types import UserError
from pkg_lib.data.packages import PACKAGES, local
from pkg_lib.data.repoeval import read_repoeval
from pkg_lib.generation.generator import Generator
from pkg_lib.papers.cast import body_prompts, cast_steps, function_benchmarks, function_completions
from pkg_lib.papers.cast import retrieval_quality as quality
from pkg_lib.papers.cast.context_columns import CHUNKERS, COLUMNS, chunked, masked, retrieve
from pkg_lib.papers.cast.function_benchmarks import PackageFunctions, RepoEvalFunctions
from pkg_lib.papers.cast.function_completions import FunctionCompletions
from pkg_lib.retrieval.chunks import BM25Ranker, EmbeddingRanker
from tests.fakes import FakeBackend

MODEL, CHAT = "qwen2.5-coder-0.5b-instruct", "None, chat prompt"
BODY = "    if radius < 0:\n        raise ValueError\n    return radius * radius * math.pi\n"
GOOD = f"```python\n{BODY}```\n"


@pytest.fixture
def benchmark(package, tmp_path, monkeypatch, embedder):
    """The packages are `shapes` alone; embeddings of words; tokens are characters, 900 a context."""
    for name in list(PACKAGES):
        monkeypatch.delitem(PACKAGES, name)
    monkeypatch.setitem(PACKAGES, package.name, package)
    monkeypatch.setattr(FunctionCompletions, "measure", property(lambda self: len))
    monkeypatch.setattr(body_prompts.context_text, "__defaults__", (900,))
    rankers = {"BM25": BM25Ranker(), "MiniLM": EmbeddingRanker("MiniLM", embedder)}
    for module in (function_completions, quality):
        monkeypatch.setattr(module, "make_ranker", rankers.__getitem__)
    cast_steps.run(tmp_path, str, ["tasks"], MODEL)
    return PackageFunctions(tmp_path)


def by_function(area, size):
    """A model that answers by the function that is asked for."""
    answers = {"area": area, "size": size}

    def answer(request):
        chat = request.text.startswith(body_prompts.FIRST)
        head = request.text if chat else request.text.rpartition("def ")[2]
        return next(text for n, text in answers.items() if f"`{n}`" in head or head.startswith(f"{n}("))

    return FakeBackend(answer)


def complete(benchmark, monkeypatch, name="None", area=BODY, size=BODY, limit=None):
    backend = by_function(area, size)
    monkeypatch.setattr(Generator, "_loaded", lambda self: backend)
    FunctionCompletions(benchmark, MODEL, limit).complete(name)
    return backend


def judged(benchmark, name="None"):
    """How many were judged anew, and the verdicts by function."""
    count = FunctionCompletions(benchmark, MODEL).judge(name)
    rows = benchmark.verdicts(MODEL, name)
    return count, {i.rpartition(":")[2].rpartition(".")[2]: row for i, row in rows.items()}


def test_tasks_are_read_back_from_the_archive(benchmark, package):
    tasks = benchmark.tasks()[package.name]
    assert [t.function_name for t in tasks] == ["size", "area"] and all(t.tests for t in tasks)
    assert benchmark.meta("tasks")["packages"]["shapes"]["tasks"] == 2
    assert {r["status"] for r in benchmark.verdicts("controls", "pass").values()} == {"failed"}
    text = benchmark.path.read_text()
    benchmark.path.write_text(text.replace('"prompt_sha256": "', '"prompt_sha256": "0'))
    with pytest.raises(UserError, match=r"is not in shapes 1\.0 as it was"):
        benchmark.tasks()


def test_completions_are_judged_and_measured(benchmark, monkeypatch):
    complete(benchmark, monkeypatch, area=f"{BODY}\n\ndef g():\n    return 1\n", size="        I cannot.")
    count, rows = judged(benchmark)
    assert count == 2 and rows["area"]["status"] == "passed" and 0 < rows["area"]["edit"] < 1
    assert (rows["size"]["status"], rows["size"]["error"]) == ("failed", "SyntaxError")
    path = benchmark.outcome_file(MODEL, "None")
    path.write_text("".join(json.dumps(r | {"edit": 9.0}) + "\n" for r in rows.values()))
    assert judged(benchmark) == (0, rows)  # nothing is executed again; the measures are made anew


def test_an_answer_without_a_body_is_a_failure_of_extraction(benchmark, monkeypatch):
    complete(benchmark, monkeypatch, CHAT, "```python\n```\n", GOOD)
    assert judged(benchmark, CHAT)[1]["area"]["error"] == "ExtractionFailure"


def test_nothing_is_completed_twice_and_a_limit_is_continued(benchmark, monkeypatch):
    assert len(complete(benchmark, monkeypatch, limit=1).asked) == 1
    assert len(complete(benchmark, monkeypatch).asked) == 1
    assert complete(benchmark, monkeypatch).asked == []


def test_a_changed_answer_is_judged_anew(benchmark, monkeypatch):
    complete(benchmark, monkeypatch)
    judged(benchmark)
    path = benchmark.home / "generations" / MODEL / "none.jsonl"
    path.write_text(path.read_text().replace("radius * radius", "3 + radius"))
    count, rows = judged(benchmark)
    assert count == 1 and {r["status"] for r in rows.values()} == {"failed"}


def test_a_chat_turn_asks_for_the_same_with_another_key(benchmark, monkeypatch):
    study = FunctionCompletions(benchmark, MODEL)
    plain, chat = (study.generator(name).decoding for name in ("None", CHAT))
    assert not plain.chat and plain.stop(f"{BODY}\ndef g") and not plain.stop(GOOD)
    assert chat.chat and chat.stop(GOOD)
    assert len(complete(benchmark, monkeypatch).asked) == 2
    assert len(complete(benchmark, monkeypatch, CHAT, GOOD, GOOD).asked) == 2
    assert judged(benchmark, CHAT)[1]["area"]["status"] == "passed"


@pytest.mark.parametrize("name", [n for n, c in COLUMNS.items() if c.chunking])
def test_what_a_column_shows_is_stored_and_masked(benchmark, monkeypatch, name):
    backend = complete(benchmark, monkeypatch, name)
    rows = {r["task_id"]: r for r in benchmark.contexts(name)}
    for request in backend.asked:
        row, context = rows[request.task_id], request.text.partition("\n\n")[0]
        assert row["chunks"] and row["tokens"] <= 900
        line = "return math.pi" if request.task_id.endswith("area") else "side = self.side"
        assert (line in context) == row["holds_body"] and not (line in context and COLUMNS[name].masked)


@pytest.mark.parametrize("chunking", CHUNKERS)
def test_a_masked_corpus_lacks_the_function_alone(package, functions, chunking):
    files = package.files()
    chunks = chunked(CHUNKERS[chunking], files)
    whole = "\n".join(c.text for c in chunks)
    for task in functions.values():
        text = "\n".join(c.text for c in masked(task, chunks))
        body = [line.strip() for line in task.ground_truth.split("\n") if line.strip()]
        elsewhere = files[task.path].replace(task.ground_truth, "") + files["tests/test_shapes.py"]
        assert not [line for line in body if line in text and line not in elsewhere]
        assert f"def {task.function_name}(" not in text and all(line in whole for line in body)
    small = chunked(Chunker("fixed-size", "as-published", lines=1), files)
    task = functions["size"]
    gone = [c for c in small if c not in masked(task, small)]
    assert {c.document for c in gone} == {task.path}
    assert (gone[0].first, gone[-1].last) == task.span[1:]


def test_the_best_chunks_come_first_and_strangers_never(package, functions):
    chunks = retrieve(functions["area"], chunked(CHUNKERS["split-only"], package.files()), BM25Ranker())
    assert "area" in chunks[0].text and not any(c.document == "setup.py" for c in chunks)


def test_retrieval_is_measured_for_every_task_ranker_and_chunking(benchmark):
    rows = quality.measure(benchmark.results, str, "packages", ())
    runs = sum(len(quality.mappings(v)) for v in quality.VARIANTS)
    assert len(rows) == 2 * len(quality.RANKERS) * runs and rows["gold"].ge(1).all()
    assert rows[["nDCG@5", "P@5", "R@5"]].notna().all().all()
    stored = quality.load(benchmark.results)
    assert stored.shape == rows.shape and set(stored["chunking"]) == set(quality.VARIANTS)


def test_repoeval_s_sample_is_completed_and_compared_but_not_executed(
    benchmark, functions, shapes, tmp_path, monkeypatch
):
    monkeypatch.setattr(function_benchmarks, "load_repoeval", lambda: list(functions.values()))
    monkeypatch.setattr(RepoEvalFunctions, "files", lambda self, name: local(shapes, ["shapes"], []).files())
    monkeypatch.setattr(function_benchmarks, "SAMPLE", 3)
    sample = RepoEvalFunctions(tmp_path)
    wanted = sample.ids()
    assert len(wanted) == 3 and sample.ids(1) < wanted
    monkeypatch.setattr(Generator, "_loaded", lambda self: FakeBackend(lambda request: BODY))
    cast_steps.run(tmp_path, str, ["completions", "verdicts"], MODEL, ["cast, BM25"], benchmark="repoeval")
    rows = sample.verdicts(MODEL, "cast, BM25")
    assert rows.keys() == wanted and {r["status"] for r in rows.values()} == {"not_measured"}
    assert all(0 <= r["edit"] <= 1 and r["exact"] in (0, 1) for r in rows.values())
    assert not list(benchmark.home.glob("generations")) and list(
        sample.home.glob("generations/*/cast.bm25.jsonl")
    )


def test_mistakes_are_one_line(benchmark, tmp_path):
    def run(*steps, **options):
        cast_steps.run(tmp_path, str, steps, **({"model": MODEL} | options))

    for steps, options, message in (
        (["all"], {}, "unknown step 'all'"),
        (["completions"], {"columns": ["cast"]}, "unknown column"),
        (["completions"], {"model": "codellama-7b-instruct", "columns": [CHAT]}, "chat models"),
        (["verdicts"], {"model": "nope"}, "unknown model 'nope'"),
        (["completions"], {"benchmark": "swebench-lite"}, "unknown benchmark 'swebench-lite'"),
        ([], {"benchmark": "repoeval"}, "name them alone"),
        (["completions"], {"limit": 0}, "limit is 0; give 1 or more tasks"),
    ):
        with pytest.raises(UserError, match=message):
            run(*steps, **options)


def test_before_the_tasks_are_chosen_the_error_names_the_step(tmp_path):
    with pytest.raises(UserError, match="repo-tasks tasks"):
        PackageFunctions(tmp_path).tasks()
    with pytest.raises(UserError, match="repo-tasks retrieval"):
        quality.load(tmp_path)


def test_a_package_of_the_user_s_gives_tasks_of_repoeval_s_form(shapes, tmp_path):
    lines = []
    cast_steps.write_tasks(local(shapes, ["shapes/"], ["tests"]), tmp_path / "t.jsonl", lines.append, 24)
    tasks = read_repoeval(tmp_path / "t.jsonl")
    assert [t.function_name for t in tasks] == ["size", "area"] and all(t.tests for t in tasks)
    assert {t.repository for t in tasks} == {"mine"} and "tasks: 2" in lines[0]
    with pytest.raises(UserError, match="gives no task"):
        cast_steps.write_tasks(
            local(shapes, ["shapes/constants.py"], ["tests"]), tmp_path / "x.jsonl", str, 24
        )
    assert not (tmp_path / "x.jsonl").exists()


def test_where_nothing_is_to_be_made_neither_weights_nor_sources_are_asked_for(benchmark, monkeypatch):
    names = ["None", "cast, BM25", CHAT]
    for name in names:
        complete(benchmark, monkeypatch, name)
    monkeypatch.setattr(
        FunctionCompletions, "measure", property(lambda self: pytest.fail("asked for weights"))
    )
    monkeypatch.setattr(PackageFunctions, "tasks", lambda self: pytest.fail("asked for a source archive"))
    assert [FunctionCompletions(benchmark, MODEL).complete(name) for name in names] == [0, 0, 0]
    # Tasks chosen anew: what is stored may be others'.
    benchmark.path.write_text("".join(reversed(benchmark.path.read_text().splitlines(keepends=True))))
    with pytest.raises(pytest.fail.Exception, match="source archive"):
        FunctionCompletions(benchmark, MODEL).complete("None")
