"""The functions of a small package as a benchmark, from selection to verdicts.

A fake model answers. Its answer depends only on the function that it is prompted to complete.
"""

from __future__ import annotations

import pytest

from pkg_lib.chunking.chunker import Chunker
from pkg_lib.core.types import BenchmarkMissingError, UserError
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.functions import DATA, FILE, load_repoeval
from pkg_lib.data.packages import PACKAGES, local
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.stored_rows import read_provenance
from pkg_lib.generation.generator import Generator
from pkg_lib.papers.cast import body_prompts, cast_steps, chunk_retrieval, function_bodies
from pkg_lib.papers.cast.body_prompts import RULE
from pkg_lib.papers.cast.cast_results import CastResults
from pkg_lib.papers.cast.cast_steps import RANKERS
from pkg_lib.papers.cast.chunk_retrieval import (
    CHUNKERS,
    MORE_CHUNKERS,
    NAMED_CHUNKERS,
    chunked,
    masked,
    retrieve,
)
from pkg_lib.papers.cast.function_bodies import longer, sized
from pkg_lib.retrieval.chunks import BM25Ranker, EmbeddingRanker
from pkg_lib.retrieval.methods import METHODS
from tests.fakes import FakeBackend

MODEL = "qwen2.5-coder-0.5b-instruct"
BODY = "    if radius < 0:\n        raise ValueError\n    return radius * radius * math.pi\n"
GOOD = f"```python\n{BODY}```\n"
# Method with a longer context -> the tokens that it may have.
LIMITS = {longer(tokens, ranker): tokens for tokens in (3500, 4000, 8000) for ranker in RANKERS}


@pytest.fixture
def folder(package, tmp_path, monkeypatch, embedder):
    """Results directory whose only package is `shapes`.

    Embeddings are word counts, a token is a character, and a context holds 900 tokens.
    """
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    for name in list(PACKAGES):
        monkeypatch.delitem(PACKAGES, name)
    monkeypatch.setitem(PACKAGES, package.name, package)
    monkeypatch.setattr(Generator, "measure", lambda self, text: len(text))
    monkeypatch.setattr(Generator, "weights", lambda self: tmp_path)
    monkeypatch.setattr(
        function_bodies.FunctionBodies, "budgets", {"context_tokens": 900, "left_tokens": 500}
    )
    rankers = {"BM25": BM25Ranker(), "MiniLM": EmbeddingRanker("MiniLM", embedder)}
    for module in (chunk_retrieval, cast_steps):
        monkeypatch.setattr(module, "make_ranker", lambda name, tokenizer: rankers[name])
    cast_steps.run(tmp_path / "repo_tasks", str, ["tasks"])
    return tmp_path


def backend_of(area, size):
    """A fake model that answers with the given text for `area` or for `size`."""
    answers = {"area": area, "size": size}

    def answer(request):
        is_chat = request.text.startswith(body_prompts.FIRST)
        question = request.text if is_chat else request.text.rpartition("def ")[2]
        for name, text in answers.items():
            if f"`{name}`" in question or question.startswith(f"{name}("):
                return text
        raise AssertionError(f"neither area nor size is requested: {question}")

    return FakeBackend(answer)


def prepared(name="NoRAG", area=BODY, size=BODY, limit=None, benchmark="packages"):
    """Complete and judge one method; return its results and the requests sent to the model."""
    backend = backend_of(area, size)
    results = Results(MODEL, benchmark, limit=limit)
    Evaluator(results, backend=backend).prepare([name])
    return results, backend.asked


def by_name(outcomes):
    """Replace the task ids of outcomes by the names of their functions."""
    named = {}
    for task_id, outcome in outcomes.items():
        qualified_name = task_id.rpartition(":")[2]
        named[qualified_name.rpartition(".")[2]] = outcome
    return named


def test_reads_stored_tasks_back_from_the_archive(folder):
    tasks = BENCHMARKS["packages"].tasks()
    assert [task.entry_point for task in tasks] == ["size", "area"]
    assert all(task.test_names for task in tasks)
    path = folder / "repo_tasks" / "tasks.jsonl"
    path.write_text(path.read_text().replace('"prompt_sha256": "', '"prompt_sha256": "0'))
    with pytest.raises(UserError, match=r"is not in shapes 1\.0 as it was"):
        BENCHMARKS["packages"].tasks()
    path.unlink()
    with pytest.raises(BenchmarkMissingError, match="cast prepare tasks"):
        BENCHMARKS["packages"].tasks()


def test_judges_and_measures_completions_and_controls(folder):
    results, requests = prepared(
        area=f"{BODY}\n\ndef g():\n    return 1\n", size="        I cannot."
    )
    outcomes = by_name(results.outcomes("NoRAG"))
    measures = results.measures("NoRAG")
    assert len(requests) == 2
    assert outcomes["area"].status == "passed"
    assert outcomes["size"].status == "failed"
    assert outcomes["size"].error == "SyntaxError"
    assert len(measures) == 2
    assert measures["edit"].between(0, 1).all()
    expected = results.benchmark_spec.controls
    controls = results.controls()
    assert controls.keys() == expected.keys()
    for name, passes in expected.items():
        assert controls[name].tolist() == [passes] * 2
    verdicts = results.verdicts()
    assert verdicts.columns.tolist()[0] == "NoRAG"
    assert "Reranked" not in verdicts


def test_completes_only_the_tasks_that_are_missing(folder):
    _, first = prepared(limit=1)
    _, rest = prepared(limit=None)
    _, again = prepared(limit=None)
    assert [len(first), len(rest), len(again)] == [1, 1, 0]


def test_judges_a_changed_completion_again(folder):
    results, _ = prepared()
    path = results.files("NoRAG").completions
    path.write_text(path.read_text().replace("radius * radius", "3 + radius"))
    stale = by_name(Results(MODEL, "packages").outcomes("NoRAG"))
    assert stale["area"].status == "not_measured"
    results, requests = prepared()
    assert requests == []
    assert by_name(results.outcomes("NoRAG"))["area"].status == "failed"


def test_the_chat_benchmark_prompts_for_the_same_tasks_separately(folder):
    plain = Results(MODEL, "packages").generator.decoding
    chat = Results(MODEL, "packages-chat").generator.decoding
    assert not plain.chat
    assert plain.stop(f"{BODY}\ndef g")
    assert not plain.stop(GOOD)
    assert chat.chat
    assert chat.stop(GOOD)
    _, requests = prepared()
    assert len(requests) == 2
    results, requests = prepared(area=GOOD, size="```python\n```\n", benchmark="packages-chat")
    outcomes = by_name(results.outcomes("NoRAG"))
    assert len(requests) == 2
    assert outcomes["area"].status == "passed"
    assert outcomes["size"].error == "ExtractionFailure"
    with pytest.raises(UserError, match="chat models"):
        Results("codellama-7b-instruct", "packages-chat").completions("NoRAG")


def test_a_longer_context_holds_more_chunks(folder):
    counts = {}
    for name in ("cast, BM25", longer(8000, "BM25")):
        prepared(name)
        contexts = Results(MODEL, "packages").contexts(name)
        counts[name] = sum(len(context.source.split("; ")) for context in contexts)
    assert counts[longer(8000, "BM25")] > counts["cast, BM25"]


def test_the_sized_methods_retrieve_chunks_of_their_size(monkeypatch):
    asked = []
    monkeypatch.setattr(
        chunk_retrieval.Repositories,
        "retriever",
        lambda self, *names, **options: asked.append((*names, options)),
    )
    repositories = chunk_retrieval.Repositories(dict, len)
    for size in (1000, 1500, 2500, 3000):
        METHODS[sized(size, "BM25")].make_retriever(repositories)
        _, chunking, ranker, options = asked.pop()
        assert (NAMED_CHUNKERS[chunking].max_size, ranker) == (size, "BM25")
        assert options == {"masked": True, "limit": 0}


@pytest.mark.parametrize("name", [n for n in Results(MODEL, "packages").retrievers if n != "NoRAG"])
def test_stores_contexts_without_text_and_masks_the_solution(folder, name):
    _, requests = prepared(name)
    contexts = {c.task_id: c for c in Results(MODEL, "packages").contexts(name)}
    provenance = read_provenance(Results(MODEL, "packages").files(name).provenance)
    assert provenance["budgets"] == {"context_tokens": LIMITS.get(name, 900), "left_tokens": 500}
    for request in requests:
        stored = contexts[request.task_id]
        assert stored.source
        assert stored.tokens <= LIMITS.get(name, 900)
        assert stored.text is None
        context = request.text.partition("\n\n")[0]
        is_area = request.task_id.endswith("area")
        solution_line = "return math.pi" if is_area else "side = self.side"
        shows_solution = solution_line in context
        assert shows_solution == stored.defines_task
        assert not (shows_solution and "body in corpus" not in name)


@pytest.mark.parametrize("chunking", NAMED_CHUNKERS)
def test_masking_removes_only_the_function(package, functions, chunking):
    files = package.files()
    chunks = chunked(NAMED_CHUNKERS[chunking], files)
    all_text = "\n".join(chunk.text for chunk in chunks)
    for task in functions.values():
        masked_text = "\n".join(chunk.text for chunk in masked(task, chunks))
        other_code = files[task.path].replace(task.solution, "") + files["tests/test_shapes.py"]
        assert f"def {task.entry_point}(" not in masked_text
        for line in filter(None, map(str.strip, task.solution.split("\n"))):
            assert line in all_text
            assert line not in masked_text or line in other_code
    one_line_chunks = chunked(Chunker("fixed-size", "as-published", lines=1), files)
    task = functions["size"]
    kept = masked(task, one_line_chunks)
    removed = [chunk for chunk in one_line_chunks if chunk not in kept]
    assert {chunk.document for chunk in removed} == {task.path}
    assert (removed[0].first, removed[-1].last) == task.span[1:]


def test_retrieves_the_best_chunk_first_and_only_from_sources(package, functions):
    chunks = chunked(CHUNKERS["split-only"], package.files())
    retrieved = retrieve(functions["area"], chunks, BM25Ranker())
    assert "area" in retrieved[0].text
    assert not any(chunk.document == "setup.py" for chunk in retrieved)


def test_measures_retrieval_for_every_task_ranker_and_chunking(folder):
    rows = cast_steps.measure_retrieval(folder, str, "packages", ())
    mappings = sum(len(cast_steps.mappings(variant)) for variant in cast_steps.VARIANTS)
    assert len(rows) == 2 * len(cast_steps.RANKERS) * mappings
    assert rows["gold"].ge(1).all()
    assert rows[["nDCG@5", "P@5", "R@5"]].notna().all().all()
    assert (folder / "retrieval.csv.gz").exists()


@pytest.mark.parametrize("chunking", MORE_CHUNKERS)
def test_stores_retrieval_with_an_additional_chunking_in_a_separate_file(folder, chunking):
    out = folder / "repo_tasks"
    cast_steps.run(out, str, ["retrieval"], rankers=["BM25"], chunkings=[chunking])
    assert not (out / "retrieval.csv.gz").exists()
    cast = CastResults(MODEL, {}, out)
    gold = cast.ranking("BM25", chunking, "gold", "own")
    assert len(gold) == 2
    assert gold.ge(1).all()
    other, mapping = chunking, "mean"
    if chunking == "sliding-window":
        other, mapping = "cast", "mean, sliding-window"
    assert cast.ranking("BM25", other, "nDCG@5", mapping).notna().all()


@pytest.mark.parametrize("ranker", cast_steps.RANKERS)
@pytest.mark.parametrize("chunking", MORE_CHUNKERS)
def test_additional_chunkings_are_methods_outside_the_study(folder, chunking, ranker):
    name = f"{chunking}, {ranker}"
    assert name not in BENCHMARKS["packages"].methods
    results, requests = prepared(name)
    assert len(requests) == 2
    assert len(results.contexts(name)) == 2
    with_header = [request for request in requests if f"# {RULE}\n# '''\n# " in request.text]
    assert bool(with_header) == (chunking == "cast+expansion")


def test_rejects_an_unknown_additional_chunking(folder):
    with pytest.raises(UserError, match=r"unknown chunking 'cast'.*sliding-window"):
        cast_steps.run(folder, str, ["retrieval"], chunkings=["cast"])


def test_completes_and_compares_a_sample_of_repoeval_without_executing_it(
    folder, functions, shapes, monkeypatch
):
    files = local(shapes, ["shapes"], []).files()
    monkeypatch.setattr(function_bodies, "load_repoeval", lambda: list(functions.values()))
    monkeypatch.setattr(function_bodies.RepoEval, "files", lambda self, name: files)
    monkeypatch.setattr(function_bodies, "SAMPLE", 3)
    results = Results(MODEL, "repoeval")
    (first,) = Results(MODEL, "repoeval", limit=1).tasks
    assert len(results.tasks) == 3
    assert first.id in {task.id for task in results.tasks}
    backend = FakeBackend(lambda request: BODY)
    Evaluator(results, backend=backend).prepare(["cast, BM25"])
    assert results.verdicts(["cast, BM25"])["cast, BM25"].isna().all()
    assert not results.controls()
    measures = results.measures("cast, BM25")
    assert len(measures) == 3
    assert measures["edit"].between(0, 1).all()


def test_rejects_a_corpus_that_does_not_belong_to_the_benchmark(folder):
    for benchmark, corpus in (("packages", "textbook"), ("humaneval", "repository")):
        with pytest.raises(UserError, match="has no corpus"):
            Results(MODEL, benchmark, corpus)


def test_writes_the_tasks_of_a_user_supplied_package_in_repoeval_format(
    shapes, tmp_path, monkeypatch
):
    messages = []
    package = local(shapes, ["shapes/"], ["tests"])
    cast_steps.write_tasks(package, tmp_path / FILE, messages.append, 24)
    monkeypatch.setenv(DATA.variable, str(tmp_path))
    tasks = load_repoeval()
    assert [task.entry_point for task in tasks] == ["size", "area"]
    assert all(task.test_names for task in tasks)
    assert {task.repository for task in tasks} == {"mine"}
    assert "tasks: 2" in messages[0]
    without_functions = local(shapes, ["shapes/constants.py"], ["tests"])
    with pytest.raises(UserError, match="gives no task"):
        cast_steps.write_tasks(without_functions, tmp_path / "x.jsonl", str, 24)
    assert not (tmp_path / "x.jsonl").exists()


def test_reading_results_needs_neither_weights_nor_sources(folder, monkeypatch):
    prepared("cast, BM25")
    for name in ("measure", "weights"):
        monkeypatch.setattr(
            Generator, name, lambda self, *text: pytest.fail("the model was loaded")
        )
    results = Results(MODEL, "packages")
    assert not list(Evaluator(results).missing("cast, BM25"))
    assert results.outcomes("cast, BM25")

    def without_archive(self):
        raise BenchmarkMissingError("no archive")

    monkeypatch.setattr(function_bodies.PackageFunctions, "tasks", without_archive)
    # A directory without verdicts of NoRAG does not store the tasks, so the archive is needed.
    with pytest.raises(BenchmarkMissingError, match="no archive"):
        Results(MODEL, "packages", results=folder / "other")
