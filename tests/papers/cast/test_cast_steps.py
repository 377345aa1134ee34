"""The tasks of a small package as a benchmark, from choosing to verdicts, with a model that answers by a function."""

from __future__ import annotations

import pytest

from pkg_lib.chunking.chunker import Chunker
from pkg_lib.core.types import BenchmarkMissing, UserError
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.functions import DATA, FILE, load_repoeval
from pkg_lib.data.packages import PACKAGES, local
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.generation.generator import Generator
from pkg_lib.papers.cast import body_prompts, cast_steps, context_columns, function_bodies
from pkg_lib.papers.cast.body_prompts import RULE
from pkg_lib.papers.cast.cast_results import CastResults
from pkg_lib.papers.cast.context_columns import (
    CHUNKERS,
    MORE_CHUNKERS,
    NAMED_CHUNKERS,
    chunked,
    masked,
    retrieve,
)
from pkg_lib.retrieval.chunks import BM25Ranker, EmbeddingRanker
from tests.fakes import FakeBackend

MODEL = "qwen2.5-coder-0.5b-instruct"
BODY = "    if radius < 0:\n        raise ValueError\n    return radius * radius * math.pi\n"
GOOD = f"```python\n{BODY}```\n"


@pytest.fixture
def folder(package, tmp_path, monkeypatch, embedder):
    """The packages are `shapes` alone; embeddings of words; tokens are characters, 900 a context."""
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    for name in list(PACKAGES):
        monkeypatch.delitem(PACKAGES, name)
    monkeypatch.setitem(PACKAGES, package.name, package)
    monkeypatch.setattr(Generator, "measure", lambda self, text: len(text))
    monkeypatch.setattr(Generator, "weights", lambda self: tmp_path)
    monkeypatch.setattr(context_columns.context_text, "__defaults__", (900,))
    rankers = {"BM25": BM25Ranker(), "MiniLM": EmbeddingRanker("MiniLM", embedder)}
    for module in (context_columns, cast_steps):
        monkeypatch.setattr(module, "make_ranker", lambda name, tokenizer: rankers[name])
    cast_steps.run(tmp_path / "repo_tasks", str, ["tasks"])
    return tmp_path


def by_function(area, size):
    """A model that answers by the function that is asked for."""
    answers = {"area": area, "size": size}

    def answer(request):
        chat = request.text.startswith(body_prompts.FIRST)
        head = request.text if chat else request.text.rpartition("def ")[2]
        return next(
            text for n, text in answers.items() if f"`{n}`" in head or head.startswith(f"{n}(")
        )

    return FakeBackend(answer)


def prepared(name="NoRAG", area=BODY, size=BODY, limit=None, benchmark="packages"):
    """The run with a column completed and judged, and the requests for which the model was asked."""
    backend, run = by_function(area, size), Results(MODEL, benchmark, limit=limit)
    Evaluator(run, backend=backend).prepare([name])
    return run, backend.asked


def by_name(outcomes):
    return {i.rpartition(":")[2].rpartition(".")[2]: outcome for i, outcome in outcomes.items()}


def test_tasks_are_read_back_from_the_archive(folder):
    tasks = BENCHMARKS["packages"].tasks()
    assert [t.entry_point for t in tasks] == ["size", "area"] and all(t.test_names for t in tasks)
    path = folder / "repo_tasks" / "tasks.jsonl"
    path.write_text(path.read_text().replace('"prompt_sha256": "', '"prompt_sha256": "0'))
    with pytest.raises(UserError, match=r"is not in shapes 1\.0 as it was"):
        BENCHMARKS["packages"].tasks()
    path.unlink()
    with pytest.raises(BenchmarkMissing, match="cast prepare tasks"):
        BENCHMARKS["packages"].tasks()


def test_completions_are_judged_and_measured_and_so_are_the_controls(folder):
    run, asked = prepared(area=f"{BODY}\n\ndef g():\n    return 1\n", size="        I cannot.")
    outcomes, measures = by_name(run.outcomes("NoRAG")), run.measures("NoRAG")
    assert len(asked) == 2 and outcomes["area"].status == "passed"
    assert (outcomes["size"].status, outcomes["size"].error) == ("failed", "SyntaxError")
    assert measures["edit"].between(0, 1).all() and len(measures) == 2
    wanted = {name: [passes] * 2 for name, passes in run.benchmark_spec.controls.items()}
    assert {n: rows.tolist() for n, rows in run.controls().items()} == wanted
    assert run.verdicts().columns.tolist()[0] == "NoRAG" and "Reranked" not in run.verdicts()


def test_nothing_is_completed_twice_and_a_limit_is_continued(folder):
    assert [len(prepared(limit=n)[1]) for n in (1, None, None)] == [1, 1, 0]


def test_a_changed_answer_is_judged_anew(folder):
    run, _ = prepared()
    path = run.files("NoRAG").completions
    path.write_text(path.read_text().replace("radius * radius", "3 + radius"))
    assert by_name(Results(MODEL, "packages").outcomes("NoRAG"))["area"].status == "not_measured"
    run, asked = prepared()
    assert asked == [] and by_name(run.outcomes("NoRAG"))["area"].status == "failed"


def test_a_chat_turn_asks_for_the_same_with_another_key(folder):
    plain, chat = (
        Results(MODEL, name).generator.decoding for name in ("packages", "packages-chat")
    )
    assert not plain.chat and plain.stop(f"{BODY}\ndef g") and not plain.stop(GOOD)
    assert chat.chat and chat.stop(GOOD)
    assert len(prepared()[1]) == 2
    run, asked = prepared(area=GOOD, size="```python\n```\n", benchmark="packages-chat")
    outcomes = by_name(run.outcomes("NoRAG"))
    assert len(asked) == 2 and outcomes["area"].status == "passed"
    assert outcomes["size"].error == "ExtractionFailure"
    with pytest.raises(UserError, match="chat models"):
        Results("codellama-7b-instruct", "packages-chat").completions("NoRAG")


@pytest.mark.parametrize("name", [n for n in Results(MODEL, "packages").retrievers if n != "NoRAG"])
def test_what_a_column_shows_is_stored_without_its_text_and_masked(folder, name):
    _, asked = prepared(name)
    contexts = {c.task_id: c for c in Results(MODEL, "packages").contexts(name)}
    for request in asked:
        stored, context = contexts[request.task_id], request.text.partition("\n\n")[0]
        assert stored.source and stored.tokens <= 900 and stored.text is None
        line = "return math.pi" if request.task_id.endswith("area") else "side = self.side"
        assert (line in context) == stored.defines_task
        assert not (line in context and "body in corpus" not in name)


@pytest.mark.parametrize("chunking", NAMED_CHUNKERS)
def test_a_masked_corpus_lacks_the_function_alone(package, functions, chunking):
    files = package.files()
    chunks = chunked(NAMED_CHUNKERS[chunking], files)
    whole = "\n".join(c.text for c in chunks)
    for task in functions.values():
        text = "\n".join(c.text for c in masked(task, chunks))
        body = [line.strip() for line in task.solution.split("\n") if line.strip()]
        elsewhere = files[task.path].replace(task.solution, "") + files["tests/test_shapes.py"]
        assert not [line for line in body if line in text and line not in elsewhere]
        assert f"def {task.entry_point}(" not in text and all(line in whole for line in body)
    small = chunked(Chunker("fixed-size", "as-published", lines=1), files)
    task = functions["size"]
    gone = [c for c in small if c not in masked(task, small)]
    assert {c.document for c in gone} == {task.path}
    assert (gone[0].first, gone[-1].last) == task.span[1:]


def test_the_best_chunks_come_first_and_strangers_never(package, functions):
    chunks = retrieve(
        functions["area"], chunked(CHUNKERS["split-only"], package.files()), BM25Ranker()
    )
    assert "area" in chunks[0].text and not any(c.document == "setup.py" for c in chunks)


def test_retrieval_is_measured_for_every_task_ranker_and_chunking(folder):
    rows = cast_steps.measure_retrieval(folder, str, "packages", ())
    runs = sum(len(cast_steps.mappings(v)) for v in cast_steps.VARIANTS)
    assert len(rows) == 2 * len(cast_steps.RANKERS) * runs and rows["gold"].ge(1).all()
    assert (
        rows[["nDCG@5", "P@5", "R@5"]].notna().all().all()
        and (folder / "retrieval.csv.gz").exists()
    )


@pytest.mark.parametrize("chunking", MORE_CHUNKERS)
def test_retrieval_with_one_more_chunking_is_stored_beside_the_table(folder, chunking):
    steps, out = ["retrieval"], folder / "repo_tasks"
    cast_steps.run(out, str, steps, rankers=["BM25"], chunkings=[chunking])
    assert not (out / "retrieval.csv.gz").exists()
    cast = CastResults(MODEL, {}, out)
    own = cast.ranking("BM25", chunking, "gold", "own")
    assert len(own) == 2 and own.ge(1).all()
    other, mapping = chunking, "mean"
    if chunking == "sliding-window":
        other, mapping = "cast", "mean, sliding-window"
    assert cast.ranking("BM25", other, "nDCG@5", mapping).notna().all()


@pytest.mark.parametrize("ranker", cast_steps.RANKERS)
@pytest.mark.parametrize("chunking", MORE_CHUNKERS)
def test_more_chunkings_are_methods_that_no_study_shows(folder, chunking, ranker):
    name = f"{chunking}, {ranker}"
    assert name not in BENCHMARKS["packages"].methods
    run, asked = prepared(name)
    assert len(asked) == 2 and len(run.contexts(name)) == 2
    headers = [request for request in asked if f"# {RULE}\n# '''\n# " in request.text]
    assert bool(headers) == (chunking == "cast+expansion")


def test_another_chunking_is_refused_in_one_line(folder):
    with pytest.raises(UserError, match=r"unknown chunking 'cast'.*sliding-window"):
        cast_steps.run(folder, str, ["retrieval"], chunkings=["cast"])


def test_repoeval_s_sample_is_completed_and_compared_but_not_executed(
    folder, functions, shapes, monkeypatch
):
    monkeypatch.setattr(function_bodies, "load_repoeval", lambda: list(functions.values()))
    files = local(shapes, ["shapes"], []).files()
    monkeypatch.setattr(function_bodies.RepoEval, "files", lambda self, name: files)
    monkeypatch.setattr(function_bodies, "SAMPLE", 3)
    run = Results(MODEL, "repoeval")
    (first,) = Results(MODEL, "repoeval", limit=1).tasks
    assert len(run.tasks) == 3 and first.id in {t.id for t in run.tasks}
    Evaluator(run, backend=FakeBackend(lambda request: BODY)).prepare(["cast, BM25"])
    assert run.verdicts(["cast, BM25"])["cast, BM25"].isna().all() and not run.controls()
    measures = run.measures("cast, BM25")
    assert len(measures) == 3 and measures["edit"].between(0, 1).all()


def test_a_repository_s_benchmark_and_corpus_go_together(folder):
    for benchmark, corpus in (("packages", "textbook"), ("humaneval", "repository")):
        with pytest.raises(UserError, match="has no corpus"):
            Results(MODEL, benchmark, corpus)


def test_a_package_of_the_user_s_gives_tasks_of_repoeval_s_form(shapes, tmp_path, monkeypatch):
    lines = []
    cast_steps.write_tasks(local(shapes, ["shapes/"], ["tests"]), tmp_path / FILE, lines.append, 24)
    monkeypatch.setenv(DATA.variable, str(tmp_path))
    tasks = load_repoeval()
    assert [t.entry_point for t in tasks] == ["size", "area"] and all(t.test_names for t in tasks)
    assert {t.repository for t in tasks} == {"mine"} and "tasks: 2" in lines[0]
    nothing = local(shapes, ["shapes/constants.py"], ["tests"])
    with pytest.raises(UserError, match="gives no task"):
        cast_steps.write_tasks(nothing, tmp_path / "x.jsonl", str, 24)
    assert not (tmp_path / "x.jsonl").exists()


def test_reading_asks_for_neither_weights_nor_sources(folder, monkeypatch):
    prepared("cast, BM25")
    for name in ("measure", "weights"):
        monkeypatch.setattr(Generator, name, lambda self, *text: pytest.fail("asked for weights"))
    run = Results(MODEL, "packages")
    assert not list(Evaluator(run).missing("cast, BM25")) and run.outcomes("cast, BM25")

    def gone(self):
        raise BenchmarkMissing("no archive")

    monkeypatch.setattr(function_bodies.PackageFunctions, "tasks", gone)
    with pytest.raises(
        BenchmarkMissing, match="no archive"
    ):  # where None was never judged, no task is known
        Results(MODEL, "packages", results=folder / "other")
