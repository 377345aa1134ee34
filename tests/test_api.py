"""The public Python API, used as a researcher would use it."""

import os
import re
import subprocess
import sys
import time

import pytest
from fakes import FakeBackend, WordEmbedder
from hypothesis import given
from hypothesis import strategies as st

import pkg_lib
from pkg_lib import (
    Condition,
    Method,
    build_graph,
    build_prompt,
    compare,
    evaluate,
    extract_solution,
    generate,
    load_benchmark,
    load_corpus,
    load_results,
    make_retriever,
    pass_at_k,
    run_tests,
)
from pkg_lib.core.store import ROOT, read_rows
from pkg_lib.core.types import UserError
from pkg_lib.evaluation.conditions import parse_condition
from pkg_lib.generation.authors_extraction import ALL_BLOCKS, FIRST_BLOCK
from pkg_lib.generation.cache import GenerationCache
from pkg_lib.retrieval.methods import METHODS, Sampling, parse_method, sampled_name

MODEL = "qwen2.5-coder-0.5b-instruct"
CORPUS = "textbook+stdlib"
STORED = ROOT / "results"


def test_exports_at_most_twenty_documented_names():
    assert len(pkg_lib.__all__) <= 20
    for name in pkg_lib.__all__:
        assert getattr(pkg_lib, name).__doc__, name
    assert set(dir(pkg_lib)) == set(pkg_lib.__all__)


def seconds_of(code: str) -> float:
    """Measure how long a new interpreter takes to execute code."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    return time.perf_counter() - start


def test_importing_the_package_is_fast():
    code = (
        "import sys, pkg_lib; heavy = {'numpy', 'pandas', 'torch', 'transformers'};"
        "assert not heavy & sys.modules.keys()"
    )
    with_import = seconds_of(code)
    interpreter_alone = seconds_of("pass")
    # The import should add only milliseconds. The margin allows for a busy machine.
    assert with_import < 3 * interpreter_alone + 0.3


def test_evaluates_a_user_supplied_corpus_step_by_step(tmp_path, monkeypatch):
    """The steps are corpus, graph, retrieval, prompts, completions, solutions and verdicts."""
    monkeypatch.setattr("pkg_lib.retrieval.embed.Embedder", lambda name: WordEmbedder())
    source = tmp_path / "code"
    source.mkdir()
    (source / "counting.py").write_text(
        'def count_vowels(text):\n    """Count vowels."""\n    return sum(c in "aeiou" for c in text)\n'
    )
    corpus = load_corpus(source)
    graph = build_graph(corpus)
    assert graph.node_counts()["IMPL"] == 1
    tasks = load_benchmark("humaneval", limit=2)
    contexts = make_retriever("Func-PKG", corpus).retrieve(tasks)
    assert [context.task_id for context in contexts] == ["HumanEval/0", "HumanEval/1"]
    for context in contexts:
        assert "count_vowels" in context.text

    pairs = zip(tasks, contexts, strict=True)
    prompts = [build_prompt(task, context, "chat") for task, context in pairs]
    assert "count_vowels" in prompts[0].messages[-1]["content"]
    answers = {task.id: f"```python\n{task.prompt}{task.solution}\n```" for task in tasks}
    answers["HumanEval/1"] = "I do not know."
    backend = FakeBackend(lambda request: answers[request.task_id])
    cache = GenerationCache(tmp_path / "cache")
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    completions = generate(MODEL, prompts, cache=cache, backend=backend)
    pairs = zip(completions, tasks, strict=True)
    solutions = [extract_solution(completion, task) for completion, task in pairs]
    outcomes = run_tests(tasks, solutions)
    assert [outcome.status for outcome in outcomes] == ["passed", "failed"]


def test_loads_and_compares_stored_results():
    methods = ["NoRAG", "BM25", "Func-PKG"]
    conditions = [Condition(MODEL, "humaneval", CORPUS, method) for method in methods]
    results = load_results([str(condition) for condition in conditions], STORED)
    rates = pass_at_k(results)
    assert list(rates.index) == methods
    assert (rates["n"] == 164).all()
    table = compare(results)
    assert list(table.index) == ["BM25", "Func-PKG"]
    expected = 100 * (rates["pass_at_k"]["BM25"] - rates["pass_at_k"]["NoRAG"])
    assert table["difference"]["BM25"] == pytest.approx(expected)


def test_loading_from_a_missing_directory_creates_nothing_and_comparing_names_it(
    tmp_path, monkeypatch
):
    missing = tmp_path / "results"
    monkeypatch.setenv("PKG_RESULTS", str(missing))
    conditions = [Condition(MODEL, "humaneval", CORPUS, method) for method in ("NoRAG", "BM25")]
    results = load_results(conditions)
    with pytest.raises(UserError, match=re.escape(f"is stored in {missing}")):
        compare(results)
    assert not missing.exists()


def test_a_stored_sample_contains_prompt_context_completion_and_verdict():
    results = load_results(Condition(MODEL, "humaneval", CORPUS, "Func-PKG"), STORED)
    sample = results.sample("Func-PKG", "HumanEval/20")
    content = sample.prompt[-1]["content"]
    assert sample.context.text
    assert sample.context.text in content
    task = next(task for task in results.tasks if task.id == "HumanEval/20")
    assert task.prompt.strip() in content
    assert sample.outcome.status in ("passed", "failed")
    assert sample.completion
    assert sample.solution
    assert sample.prompt_sha256
    assert sample.condition == results.samples("Func-PKG")[0].condition
    with pytest.raises(UserError, match="HumanEval/2O"):
        results.sample("Func-PKG", "HumanEval/2O")


def wrong_answer(request, tasks):
    """Return a function that does nothing."""
    return f"```python\n{tasks[request.task_id].prompt}    return None\n```"


def generates_nothing() -> FakeBackend:
    """Return a model that fails the test if it gets a request."""
    return FakeBackend(lambda _: pytest.fail("a stored completion was generated again"))


def test_evaluate_generates_only_missing_completions(tmp_path):
    tasks = {task.id: task for task in load_benchmark("humaneval", limit=3)}
    requested = []

    def answer(request):
        requested.append(request.task_id)
        return wrong_answer(request, tasks)

    condition = Condition(MODEL, "humaneval", CORPUS, "NoRAG", limit=3)
    for _ in range(2):
        results = evaluate(condition, tmp_path, FakeBackend(answer))
        assert pass_at_k(results)["pass_at_k"]["NoRAG"] == 0
    assert sorted(requested) == sorted(tasks)


@given(
    st.sampled_from(sorted(METHODS)),
    st.floats(0.1, 2.0).map(lambda temperature: round(temperature, 2)),
    st.sampled_from([0.5, 0.9, 0.95, 1.0]),
    st.integers(1, 200),
)
def test_parsing_and_printing_a_method_are_inverse(name, temperature, top_p, number):
    assert isinstance(parse_method(name), Method)
    assert str(parse_method(name)) == name
    sampled = sampled_name(name, Sampling(temperature, top_p, sample=number))
    method = parse_method(sampled)
    assert str(method) == sampled
    assert (method.sampling.temperature, method.sampling.top_p) == (temperature, top_p)
    assert method.sampling.sample == number


@given(
    st.sampled_from(["humaneval", "mbpp"]),
    st.sampled_from(["", CORPUS, "python-docs, top 3"]),
    st.sampled_from(sorted(METHODS)),
    st.none() | st.integers(1, 1000),
)
def test_parsing_and_printing_a_condition_are_inverse(benchmark, corpus, method, limit):
    condition = Condition(MODEL, benchmark, corpus, method, limit)
    assert parse_condition(str(condition)) == condition
    assert parse_condition(str(condition)).id == condition.id


@pytest.mark.parametrize("text", ["", "a | b", "a | b | c | None | first x", "a | b | c | Nothing"])
def test_refuses_an_invalid_condition_in_one_line(text):
    with pytest.raises(UserError) as refused:
        parse_condition(text)
    assert "\n" not in str(refused.value)


def test_computes_a_lost_verdict_again(tmp_path):
    tasks = {task.id: task for task in load_benchmark("humaneval", limit=2)}
    backend = FakeBackend(lambda request: wrong_answer(request, tasks))
    condition = Condition(MODEL, "humaneval", CORPUS, "NoRAG", limit=2)
    results = evaluate(condition, tmp_path, backend)
    results.files("NoRAG").samples.unlink()
    assert pass_at_k(load_results(condition, tmp_path))["n"]["NoRAG"] == 0
    again = evaluate(condition, tmp_path, generates_nothing())
    assert pass_at_k(again)["n"]["NoRAG"] == 2


def test_computes_verdicts_for_the_authors_extraction_and_lost_ones_again(tmp_path):
    tasks = {task.id: task for task in load_benchmark("humaneval", limit=2)}

    def answer(request):
        task = tasks[request.task_id]
        return f"{task.prompt}{task.solution}"

    backend = FakeBackend(answer)
    method = "NoRAG, codellama prompt"
    condition = Condition(MODEL, "humaneval", CORPUS, method, limit=2)
    results = evaluate(condition, tmp_path, backend)
    # The answers contain no fences. One rule extracts the whole answer, the other extracts nothing.
    assert set(results.authors_solutions(method, ALL_BLOCKS).values()) == {""}
    for rule, status in ((ALL_BLOCKS, "failed"), (FIRST_BLOCK, "passed")):
        found = results.outcomes(method, rule).values()
        assert {outcome.status for outcome in found} == {status}
    # The solutions follow from the stored answers, so they are not stored again.
    verdicts = results.files(method).authors_verdicts(FIRST_BLOCK)
    rows = read_rows(verdicts)
    assert len(rows) == 2
    assert not any(row.get("solution") for row in rows)
    verdicts.unlink()
    again = evaluate(condition, tmp_path, generates_nothing())
    statuses = [outcome.status for outcome in again.outcomes(method, FIRST_BLOCK).values()]
    assert statuses == ["passed", "passed"]


def test_the_first_call_knows_the_methods_of_papers_and_plugins(tmp_path):
    """A new process has imported nothing else. The plugin imports public names itself."""
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from pkg_lib import Context, Method\n"
        "from pkg_lib.retrieval.methods import METHODS\n"
        "METHODS.register(Method('Mine', lambda knowledge: None, ('code',), 'row'))\n"
    )
    code = (
        "import pkg_lib\n"
        "print(pkg_lib.Condition('m', 'beatnum', '', 'EVOR@0').method)\n"
        "print(pkg_lib.Condition('m', method='Mine').method)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"PKG_PLUGINS": str(plugin)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["EVOR@0", "Mine"], done.stderr
