"""Run each benchmark on small inputs, and check its figures and its one-line errors."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from bolt_server import skip_without

from benchmarks import (
    bench_batching,
    bench_bm25,
    bench_bolt,
    bench_cache,
    bench_choice,
    bench_chunking,
    bench_code_base,
    bench_code_search,
    bench_endpoint,
    bench_generation,
    bench_graph,
    bench_linear,
    bench_memory,
    bench_typegraph,
    live_endpoint,
    mutations,
)
from pkg_lib.core.types import Generation, Outcome, Request, Task
from pkg_lib.generation import backends
from pkg_lib.generation.backends import TransformersBackend


def test_bm25_on_a_small_corpus():
    found = bench_bm25.measure(functions=600, queries=30)
    assert (found["functions"], found["queries"]) == (600, 30)
    assert found["same_top1"] >= 0.7
    assert found["ratio"] > 1  # the ratio grows with the corpus; the goal is 100 at 50,000


def test_choice_small():
    found = bench_choice.measure(tasks=4)
    assert (found["solutions"], found["looked_at"], found["contexts"]) == (24, 24, 20)
    assert found["passing_contexts"] < 20
    assert min(found["choice_against_official"], found["leak_against_official"]) > 0


def test_chunking_explains_each_difference_from_astchunk():
    files = [
        ("a.py", b"def f(): pass\n" * 300),
        ("deep.py", b"x = " + b"a + " * 2000 + b"a\n"),
        ("wide.py", b"x = 1; " * 1500 + b"\n"),
        ("latin.py", b"# \xe9\n"),
    ]
    found = bench_chunking.measure(files, "python", processes=1, repeat=1)
    assert found["files"] == 4
    assert found["not_utf8"] == 1
    assert found["same_texts"] == 1
    assert found["lossless_broken"] == 0
    reasons = {name: reason.split()[0] for name, reason in found["differences"].items()}
    assert reasons == {"deep.py": "astchunk", "wide.py": "indentation"}


def test_generation_with_a_tiny_model(tiny_model, monkeypatch):
    monkeypatch.setattr(backends, "MAX_NEW_TOKENS", 8)
    backend = TransformersBackend(tiny_model, slots=3, dtype=torch.float32)
    requests = [Request(str(i), "abc" * i, "f") for i in range(1, 6)]
    found = bench_generation.measure(backend, requests)
    assert (found["prompts"], found["equal_tokens"]) == (5, 1.0)
    assert 0 < found["rss_loaded_gb"] <= found["rss_peak_gb"] < 6


def test_batching_with_a_tiny_model(tiny_model):
    backend = TransformersBackend(
        tiny_model,
        slots=3,
        dtype=torch.float32,
        stop=lambda text: False,
        max_new_tokens=6,
    )
    requests = [Request(str(i), "abc" * i, "f") for i in range(1, 5)]
    found = bench_batching.measure(backend, requests)
    assert (found["prompts"], found["equal_tokens"]) == (4, 1.0)
    assert 0 < found["tokens"]["rolling"] == found["tokens"]["continuous"] <= 24
    assert found["ratio"] > 0
    assert found["ratio_cpu"] > 0


def character_tokens(text):
    """Tokenize a text: each character is a token, whose id is its code point."""
    return [ord(character) for character in text]


def stored_run(answers, verdicts):
    """Return the part of a stored run that `live_endpoint` reads."""
    completions = {}
    outcomes = {}
    for task_id, text in answers.items():
        tokens = character_tokens(text)
        meta = {"seconds": 2.0}
        completions[task_id] = Generation(task_id, task_id, text, tokens, "end", 1, meta)
        outcomes[task_id] = Outcome(verdicts[task_id])
    return SimpleNamespace(
        tasks=[Task(task_id, "", "", "f") for task_id in answers],
        completions=lambda method: completions,
        outcomes=lambda method: outcomes,
        contexts=lambda method: [SimpleNamespace(task_id=task_id) for task_id in answers],
        request=lambda task, context, method: Request(task.id, "", "f"),
    )


def test_live_endpoint_reports_the_first_token_that_differs():
    direct = stored_run(
        answers={"a": "same", "b": "x = 1", "c": "cut"},
        verdicts={"a": "passed", "b": "passed", "c": "passed"},
    )
    served = stored_run(
        answers={"a": "same, and more", "b": "x = 2", "c": "c"},
        verdicts={"a": "passed", "b": "failed", "c": "passed"},
    )
    calls = []

    def gap(request, tokens, pair):
        calls.append((request.task_id, len(tokens), pair))
        return (0.1, 0.125) if request.task_id == "b" else (0.7, 0.125)

    def tokenize(text, add_special_tokens):
        return {"input_ids": character_tokens(text)}

    tokenize.decode = lambda ids: "".join(map(chr, ids))
    backend = SimpleNamespace(tokenizer=tokenize, gap=gap, ends={0})
    found = live_endpoint.compare(served, direct, lambda: backend)
    assert calls == [("b", 4, [ord("1"), ord("2")]), ("c", 1, [ord("u"), 0])]
    assert found["tasks"] == 3
    assert found["passed_served"] == 2
    assert found["passed_direct"] == 3
    assert found["same_text"] == 1
    assert found["verdicts_differ"] == ["b"]
    assert found["seconds_an_answer"] == 2.0
    near_ties = {task: difference["near_tie"] for task, difference in found["differences"].items()}
    assert near_ties == {"b": True, "c": False}
    assert live_endpoint.unexplained(found) == []
    assert live_endpoint.unexplained(found | {"verdicts_differ": ["a", "b", "c"]}) == ["a", "c"]


def test_generation_without_weights_fails_with_one_line(own_cache, capsys):
    assert bench_generation.main([]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_endpoint_with_24_requests():
    found = bench_endpoint.measure(count=24, concurrency=8, seconds=0.05, repeat=1)
    assert (found["requests"], found["same_answers"], found["least_s"]) == (24, True, 0.15)
    assert found["ours_s"] > found["least_s"]
    assert found["httpx_s"] > found["least_s"]
    assert found["ratio"] > 0


def test_bolt_with_300_nodes():
    skip_without()
    found = bench_bolt.measure(nodes=300)
    assert found["same_graph"]
    assert found["nodes"] >= 300
    assert 0 < found["functions"] < found["vectors"]
    assert found["save_s"] > 0
    assert found["bare_s"] > 0
    assert found["ratio"] > 0


def test_graph_small(tmp_path):
    found = bench_graph.measure(300, tmp_path, queries=20)
    assert found["balanced"]
    assert found["build"]["same_graph"]
    assert 300 <= found["functions"] < found["nodes"]
    assert found["payloads"] < found["nodes"]
    assert found["search"]["hnsw"]["128"]["recall_at_1"] > 0.9
    assert found["disk_mb"] > found["disk_mb_without_vectors"] > 0
    lines = bench_graph.table(found).split("\n")
    storage = next(line for line in lines if line.startswith("storage"))
    encoding = next(line for line in lines if line.startswith("encoding"))
    assert "12,530 MB" in storage
    assert encoding.endswith("–")


REVERSE = "def f(s):\n    return reverse(words)\n"
ADD = "def g(s):\n    return sum(numbers)\n"
TASKS = [
    Task(
        "MBPP/1",
        "mbpp",
        "Write a function to reverse words.\nFunction: def f(s)",
        "f",
        solution=REVERSE,
    ),
    Task(
        "MBPP/2",
        "mbpp",
        "Write a function to sum numbers.\nFunction: def g(s)",
        "g",
        solution=ADD,
    ),
]


def test_code_search_ranks_solutions_among_distractors(embedder):
    others = ["def h():\n    return noise\n", "def k(): pass"]
    found = bench_code_search.measure(TASKS, others, embedder, 0.5)
    perfect = {"mrr_at_10": 1.0, "recall_at_1": 1.0, "recall_at_5": 1.0}
    methods = ("MiniLM", "BM25", "reciprocal rank fusion", "score fusion")
    assert found["candidates"] == 4
    assert found["methods"] == dict.fromkeys(methods, perfect)
    assert found["paired"]["BM25"] == {"better": 0, "worse": 0, "p_first": 1.0}


def test_code_search_queries_with_the_text_alone_and_excludes_solutions():
    assert bench_code_search.query_of(TASKS[0]) == "Write a function to reverse words."
    texts = bench_code_search.distractors(60, set())
    assert len(set(texts)) == 60
    assert texts == bench_code_search.distractors(60, set())
    assert texts[0] not in bench_code_search.distractors(60, {texts[0].strip()})


def test_code_search_measures_other_sets_of_candidates(embedder):
    noise = 'def h():\n    """Reverse words."""\n    return noise'
    others = [noise, "class K: pass"]
    every = [REVERSE, ADD, noise]
    found = bench_code_search.variations(TASKS, others, every, embedder)
    assert list(found)[:2] == [
        "with all 3 reference solutions of MBPP",
        "with 1 of the distractors",
    ]
    assert found["distractors without docstrings"]["BM25"]["mrr_at_10"] == 1.0
    assert bench_code_search.without_docstring(noise) == "def h():\n    return noise"
    assert bench_code_search.without_docstring("def k(:") == "def k(:"
    assert bench_code_search.without_docstring("x = 1") == "x = 1"


def test_code_search_rejects_a_weight_above_one(capsys):
    assert bench_code_search.main(["--weight", "2"]) == 2
    assert capsys.readouterr().err.startswith("error: --distractors")


def test_typegraph_of_30_files():
    source = Path(__file__).parent.parent / "data" / "shop"
    found = bench_typegraph.measure(source, files=30, peer=20)
    assert (found["files"], found["peer_files"], found["one_change_parsed"]) == (30, 20, 1)
    assert found["same_graph"]
    assert found["same_as_listing"]
    assert found["ratio"] > 0


def test_rank_of_counts_a_tie_against_the_answer():
    scores = np.array(
        [
            [0.9, 0.5, 0.1],
            [0.2, 0.8, 0.4],
            [0.3, 0.3, 0.3],
        ]
    )
    relevant = np.array(
        [
            [True, False, False],
            [True, False, False],
            [False, True, False],
        ]
    )
    assert bench_code_search.rank_of(scores, relevant).tolist() == [1, 3, 3]
    relevant[1, 1] = True  # the second query has two answers
    assert bench_code_search.rank_of(scores, relevant).tolist() == [1, 1, 3]


def test_mutations_change_single_lines_in_many_folders():
    selected = mutations.chosen(20, seed=1)
    folders = {Path(mutation.module).parent for mutation in selected}
    assert len(selected) == 20
    assert len(folders) > 15
    for mutation in selected:
        lines = (mutations.ROOT / mutation.module).read_text("utf8").split("\n")
        original = lines[mutation.line - 1]
        assert original.strip() == mutation.before != mutation.after
        lines[mutation.line - 1] = original.replace(mutation.before, mutation.after)
        ast.parse("\n".join(lines))


def test_mutations_detect_expressions_with_wrong_columns():
    line = "text = f'{count + 1} of 2'"
    value = ast.parse("count + 1", mode="eval").body
    assert not mutations.is_at_its_columns(value, line)  # columns of another line, as in f-strings
    value.col_offset = line.index("count")
    value.end_col_offset = line.index(" +")
    assert not mutations.is_at_its_columns(value, line)  # another expression is there
    value.end_col_offset = line.index("}")
    assert mutations.is_at_its_columns(value, line)


@pytest.mark.parametrize(
    ("unchanged", "result"), [("", "timeout"), ("timeout", mutations.UNDECIDED)]
)
def test_a_timeout_counts_only_if_the_unchanged_code_has_none(
    tmp_path, monkeypatch, unchanged, result
):
    module = tmp_path / "pkg_lib" / "loop.py"
    module.parent.mkdir()
    module.write_text("while n > 0: n -= 1\n", "utf8")

    def fails(checkout, words, limit):
        return "timeout" if ">=" in module.read_text("utf8") else unchanged

    monkeypatch.setattr(mutations, "fails", fails)
    change = mutations.Mutation("pkg_lib/loop.py", 1, "while n > 0: n -= 1", "while n >= 0: n -= 1")
    assert mutations.find(change, tmp_path, limit=60) == result
    assert module.read_text("utf8") == "while n > 0: n -= 1\n"


def test_mutations_run_the_tests_that_import_the_module():
    tests = mutations.tests_of("pkg_lib/core/speeds.py", mutations.ROOT)
    assert "tests/core/test_speeds.py" in tests


def test_linear_with_256_rows():
    found = bench_linear.measure(rows=(256,), repeats=5)
    (layer,) = found["layers"]
    assert layer["rows"] == 256
    if not found["has_bfloat16_instructions"]:
        assert layer["ratio"] > 1.5  # about 5 on an idle processor


def test_cache_with_16_rows():
    found = bench_cache.measure(rows=16, columns=200, steps=64)
    assert found["ratio"] > 1.5


def test_memory_with_two_prompts(tiny_model):
    found = bench_memory.measure(f"path:{tiny_model}", 2)
    assert found["equal_answers"] is True
    assert found["kept"]["tokens"] == found["given_back"]["tokens"] > 0
    assert found["given_back"]["peak_mb"] > 100


def test_code_base_with_three_functions(tmp_path):
    code = [f"def f{number}(x):\n    return x + {number}\n" for number in range(3)]
    (tmp_path / "a.py").write_text("\n".join(code))
    found = bench_code_base.measure(tmp_path, kill_after=0)
    assert (found["files"], found["texts"], found["stored_when_killed"]) == (1, 3, 4)
    assert found["encoded_again"] == 0
    assert found["words_s"] > 0
    assert found["peak_mb"] > 100
