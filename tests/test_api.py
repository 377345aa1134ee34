"""The public interface, used as a researcher would use it."""

import os
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

MODEL, CORPUS = "qwen2.5-coder-0.5b-instruct", "textbook+stdlib"
STORED = ROOT / "results"


def test_at_most_twenty_names_each_with_a_docstring():
    assert len(pkg_lib.__all__) <= 20
    for name in pkg_lib.__all__:
        assert getattr(pkg_lib, name).__doc__, name
    assert set(dir(pkg_lib)) == set(pkg_lib.__all__)


def test_the_package_imports_at_once():
    code = (
        "import sys, pkg_lib; heavy = {'numpy', 'pandas', 'torch', 'transformers'};"
        "assert not heavy & sys.modules.keys()"
    )
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    bare = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], cwd=ROOT, check=True)
    # The interpreter itself is the peer: the package adds a few milliseconds to it.
    assert bare - began < 3 * (time.perf_counter() - bare) + 0.3


def test_from_a_directory_to_verdicts_step_by_step(tmp_path, monkeypatch):
    """Own corpus, graph, one query, one generated answer, one verdict."""
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
    assert all("count_vowels" in context.text for context in contexts)

    prompts = [build_prompt(t, c, "chat") for t, c in zip(tasks, contexts, strict=True)]
    assert "count_vowels" in prompts[0].messages[-1]["content"]
    answers = {task.id: f"```python\n{task.prompt}{task.solution}\n```" for task in tasks}
    answers["HumanEval/1"] = "I do not know."
    backend = FakeBackend(lambda request: answers[request.task_id])
    cache = GenerationCache(tmp_path / "cache")
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    completions = generate(MODEL, prompts, cache=cache, backend=backend)
    solutions = [extract_solution(c, t) for c, t in zip(completions, tasks, strict=True)]
    assert [o.status for o in run_tests(tasks, solutions)] == ["passed", "failed"]


def test_stored_results_without_computation():
    conditions = [Condition(MODEL, "humaneval", CORPUS, m) for m in ("NoRAG", "BM25", "Func-PKG")]
    results = load_results([str(condition) for condition in conditions], STORED)
    rates = pass_at_k(results)
    assert list(rates.index) == ["NoRAG", "BM25", "Func-PKG"] and (rates["n"] == 164).all()
    table = compare(results)
    assert list(table.index) == ["BM25", "Func-PKG"]
    expected = 100 * (rates["pass_at_k"]["BM25"] - rates["pass_at_k"]["NoRAG"])
    assert table["difference"]["BM25"] == pytest.approx(expected)


def test_the_prompt_of_a_task_is_one_step_away():
    results = load_results(Condition(MODEL, "humaneval", CORPUS, "Func-PKG"), STORED)
    sample = results.sample("Func-PKG", "HumanEval/20")
    content = sample.prompt[-1]["content"]
    assert sample.context.text and sample.context.text in content
    task = next(t for t in results.tasks if t.id == "HumanEval/20")
    assert task.prompt.strip() in content
    assert sample.outcome.status in ("passed", "failed") and sample.completion and sample.solution
    assert sample.prompt_sha256 and sample.condition == results.samples("Func-PKG")[0].condition
    with pytest.raises(UserError, match="HumanEval/2O"):
        results.sample("Func-PKG", "HumanEval/2O")


def test_evaluate_makes_what_is_missing_and_nothing_twice(tmp_path):
    tasks = {task.id: task for task in load_benchmark("humaneval", limit=3)}
    asked = []

    def answer(request):
        asked.append(request.task_id)
        return f"```python\n{tasks[request.task_id].prompt}    return None\n```"

    condition = Condition(MODEL, "humaneval", CORPUS, "NoRAG", limit=3)
    for _ in range(2):
        results = evaluate(condition, tmp_path, FakeBackend(answer))
        assert pass_at_k(results)["pass_at_k"]["NoRAG"] == 0
    assert sorted(asked) == sorted(tasks)


@given(
    st.sampled_from(sorted(METHODS)),
    st.floats(0.1, 2.0).map(lambda t: round(t, 2)),
    st.sampled_from([0.5, 0.9, 0.95, 1.0]),
    st.integers(1, 200),
)
def test_every_method_name_round_trips(name, temperature, top_p, number):
    assert str(parse_method(name)) == name and isinstance(parse_method(name), Method)
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
def test_every_condition_round_trips(benchmark, corpus, method, limit):
    condition = Condition(MODEL, benchmark, corpus, method, limit)
    assert parse_condition(str(condition)) == condition
    assert parse_condition(str(condition)).id == condition.id


@pytest.mark.parametrize("text", ["", "a | b", "a | b | c | None | first x", "a | b | c | Nothing"])
def test_what_is_no_condition_is_refused_in_one_line(text):
    with pytest.raises(UserError) as refused:
        parse_condition(text)
    assert "\n" not in str(refused.value)


def test_a_verdict_that_was_lost_is_made_again(tmp_path):
    tasks = {task.id: task for task in load_benchmark("humaneval", limit=2)}
    backend = FakeBackend(lambda r: f"```python\n{tasks[r.task_id].prompt}    return None\n```")
    condition = Condition(MODEL, "humaneval", CORPUS, "NoRAG", limit=2)
    results = evaluate(condition, tmp_path, backend)
    results.files("NoRAG").samples.unlink()
    assert pass_at_k(load_results(condition, tmp_path))["n"]["NoRAG"] == 0
    again = evaluate(condition, tmp_path, FakeBackend(lambda r: pytest.fail("generated again")))
    assert pass_at_k(again)["n"]["NoRAG"] == 2


def test_verdicts_by_the_authors_extractions_are_made_and_a_lost_one_is_made_again(tmp_path):
    tasks = {task.id: task for task in load_benchmark("humaneval", limit=2)}
    backend = FakeBackend(lambda r: f"{tasks[r.task_id].prompt}{tasks[r.task_id].solution}")
    method = "NoRAG, codellama prompt"
    condition = Condition(MODEL, "humaneval", CORPUS, method, limit=2)
    results = evaluate(condition, tmp_path, backend)
    # The answers have no marks: one rule takes their functions, and the other takes nothing.
    assert set(results.authors_solutions(method, ALL_BLOCKS).values()) == {""}
    for rule, status in ((ALL_BLOCKS, "failed"), (FIRST_BLOCK, "passed")):
        found = results.outcomes(method, rule).values()
        assert {outcome.status for outcome in found} == {status}
    # Their text follows from the stored answers, so it is not stored twice.
    stored = read_rows(results.files(method).authors_verdicts(FIRST_BLOCK))
    assert len(stored) == 2 and not any(row.get("solution") for row in stored)
    results.files(method).authors_verdicts(FIRST_BLOCK).unlink()
    again = evaluate(condition, tmp_path, FakeBackend(lambda r: pytest.fail("generated again")))
    statuses = [outcome.status for outcome in again.outcomes(method, FIRST_BLOCK).values()]
    assert statuses == ["passed", "passed"]


def test_names_of_the_papers_and_of_the_users_files_are_known_to_the_first_call(tmp_path):
    """In a process that has imported nothing else; the user's file takes public names itself."""
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
