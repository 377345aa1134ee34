"""The benchmarks themselves, small: they run, measure what they say, and refuse in one line."""

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
    bench_code_search,
    bench_endpoint,
    bench_generation,
    bench_graph,
    bench_linear,
    bench_typegraph,
    live_endpoint,
    mutations,
)
from pkg_lib.core.types import Generation, Outcome, Request, Task
from pkg_lib.generation import backends
from pkg_lib.generation.backends import TransformersBackend


def test_bm25_small():
    found = bench_bm25.measure(functions=600, queries=30)
    assert (found["functions"], found["queries"]) == (600, 30)
    assert found["same_top1"] >= 0.7
    assert found["ratio"] > 1  # the ratio grows with the corpus; 100 is asked at 50,000


def test_choice_small():
    found = bench_choice.measure(tasks=4)
    assert (found["solutions"], found["looked_at"], found["contexts"]) == (24, 24, 20)
    assert found["passing_contexts"] < 20
    assert min(found["choice_against_official"], found["leak_against_official"]) > 0


def test_chunking_small():
    deep, wide = b"x = " + b"a + " * 2000 + b"a\n", b"x = 1; " * 1500 + b"\n"
    texts = {
        "a.py": b"def f(): pass\n" * 300,
        "deep.py": deep,
        "wide.py": wide,
        "latin.py": b"# \xe9\n",
    }
    files = list(texts.items())
    found = bench_chunking.measure(files, "python", processes=1, repeat=1)
    assert (found["files"], found["not_utf8"], found["same_texts"], found["lossless_broken"]) == (
        4,
        1,
        1,
        0,
    )
    reasons = {name: why.split()[0] for name, why in found["differences"].items()}
    assert reasons == {"deep.py": "astchunk", "wide.py": "indentation"}


def test_generation_with_a_tiny_model(tiny_model, monkeypatch):
    monkeypatch.setattr(backends, "MAX_NEW_TOKENS", 8)
    backend = TransformersBackend(tiny_model, slots=3, dtype=torch.float32)
    found = bench_generation.measure(
        backend, [Request(str(i), "abc" * i, "f") for i in range(1, 6)]
    )
    assert (found["prompts"], found["equal_tokens"]) == (5, 1.0)
    assert 0 < found["rss_loaded_gb"] <= found["rss_peak_gb"] < 6


def test_batching_with_a_tiny_model(tiny_model):
    rules = {"stop": lambda text: False, "max_new_tokens": 6}
    backend = TransformersBackend(tiny_model, slots=3, dtype=torch.float32, **rules)
    found = bench_batching.measure(backend, [Request(str(i), "abc" * i, "f") for i in range(1, 5)])
    assert (found["prompts"], found["equal_tokens"]) == (4, 1.0)
    assert 0 < found["tokens"]["rolling"] == found["tokens"]["continuous"] <= 24
    assert found["ratio"] > 0 and found["ratio_cpu"] > 0


def stored_run(answers, verdicts):
    """What `live_endpoint` reads of a run; a token is a character."""
    made = {
        i: Generation(i, i, text, [*map(ord, text)], "end", 1, {"seconds": 2.0})
        for i, text in answers.items()
    }
    return SimpleNamespace(
        tasks=[Task(i, "", "", "f") for i in answers],
        completions=lambda column: made,
        outcomes=lambda column: {i: Outcome(v) for i, v in verdicts.items()},
        contexts=lambda column: [SimpleNamespace(task_id=i) for i in answers],
        request=lambda task, context, column: Request(task.id, "", "f"),
    )


def test_live_endpoint_names_the_first_token_that_differs():
    passed = dict.fromkeys("abc", "passed")
    direct = stored_run({"a": "same", "b": "x = 1", "c": "cut"}, passed)
    served = stored_run({"a": "same, and more", "b": "x = 2", "c": "c"}, passed | {"b": "failed"})
    asked = []

    def gap(request, tokens, pair):
        asked.append((request.task_id, len(tokens), pair))
        return (0.1, 0.125) if request.task_id == "b" else (0.7, 0.125)

    def tokenize(text, add_special_tokens):
        return {"input_ids": [*map(ord, text)]}

    tokenize.decode = lambda ids: "".join(map(chr, ids))
    found = live_endpoint.compare(
        served, direct, lambda: SimpleNamespace(tokenizer=tokenize, gap=gap, ends={0})
    )
    assert asked == [("b", 4, [ord("1"), ord("2")]), ("c", 1, [ord("u"), 0])]
    assert (found["tasks"], found["passed_served"], found["passed_direct"], found["same_text"]) == (
        3,
        2,
        3,
        1,
    )
    assert found["verdicts_differ"] == ["b"] and found["seconds_an_answer"] == 2.0
    assert {i: d["near_tie"] for i, d in found["differences"].items()} == {"b": True, "c": False}


def test_generation_refuses_without_weights(own_cache, capsys):
    assert bench_generation.main([]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_endpoint_small():
    found = bench_endpoint.measure(count=24, concurrency=8, seconds=0.05, repeat=1)
    assert (found["requests"], found["same_answers"], found["least_s"]) == (24, True, 0.15)
    assert (
        found["ours_s"] > found["least_s"]
        and found["httpx_s"] > found["least_s"]
        and found["ratio"] > 0
    )


def test_bolt_small():
    skip_without()
    found = bench_bolt.measure(nodes=300)
    assert (
        found["same_graph"] and found["nodes"] >= 300 and 0 < found["functions"] < found["vectors"]
    )
    assert found["save_s"] > 0 and found["bare_s"] > 0 and found["ratio"] > 0


def test_graph_small(tmp_path):
    found = bench_graph.measure(300, tmp_path, queries=20)
    assert found["balanced"] and found["build"]["same_graph"]
    assert 300 <= found["functions"] < found["nodes"] and found["payloads"] < found["nodes"]
    assert found["search"]["hnsw"]["128"]["recall_at_1"] > 0.9
    assert found["disk_mb"] > found["disk_mb_without_vectors"] > 0
    lines = bench_graph.table(found).split("\n")
    assert "12,530 MB" in next(line for line in lines if line.startswith("storage"))
    assert next(line for line in lines if line.startswith("encoding")).endswith("–")


REVERSE, ADD = "def f(s):\n    return reverse(words)\n", "def g(s):\n    return sum(numbers)\n"
TASKS = [
    Task(
        "MBPP/1",
        "mbpp",
        "Write a function to reverse words.\nFunction: def f(s)",
        "f",
        solution=REVERSE,
    ),
    Task(
        "MBPP/2", "mbpp", "Write a function to sum numbers.\nFunction: def g(s)", "g", solution=ADD
    ),
]


def test_code_search_ranks_solutions_among_distractors(embedder):
    found = bench_code_search.measure(
        TASKS, ["def h():\n    return noise\n", "def k(): pass"], embedder, 0.5
    )
    perfect = {"mrr_at_10": 1.0, "recall_at_1": 1.0, "recall_at_5": 1.0}
    methods = ("MiniLM", "BM25", "reciprocal rank fusion", "score fusion")
    assert found["candidates"] == 4 and found["methods"] == dict.fromkeys(methods, perfect)
    assert found["paired"]["BM25"] == {"better": 0, "worse": 0, "p_first": 1.0}


def test_code_search_asks_with_the_text_alone_and_leaves_solutions_out():
    assert bench_code_search.query_of(TASKS[0]) == "Write a function to reverse words."
    texts = bench_code_search.distractors(60, set())
    assert len(set(texts)) == 60 and texts == bench_code_search.distractors(60, set())
    assert texts[0] not in bench_code_search.distractors(60, {texts[0].strip()})


def test_code_search_varies_the_candidates(embedder):
    noise = 'def h():\n    """Reverse words."""\n    return noise'
    found = bench_code_search.variations(
        TASKS, [noise, "class K: pass"], [REVERSE, ADD, noise], embedder
    )
    assert list(found)[:2] == [
        "with all 3 reference solutions of MBPP",
        "with 1 of the distractors",
    ]
    assert found["distractors without docstrings"]["BM25"]["mrr_at_10"] == 1.0
    assert bench_code_search.without_docstring(noise) == "def h():\n    return noise"
    assert [bench_code_search.without_docstring(t) for t in ("def k(:", "x = 1")] == [
        "def k(:",
        "x = 1",
    ]


def test_code_search_refuses_in_one_line(capsys):
    assert bench_code_search.main(["--weight", "2"]) == 2
    assert capsys.readouterr().err.startswith("error: --distractors")


def test_typegraph_small():
    found = bench_typegraph.measure(
        Path(__file__).parent.parent / "data" / "shop", files=30, peer=20
    )
    assert (found["files"], found["peer_files"], found["one_change_parsed"]) == (30, 20, 1)
    assert found["same_graph"] and found["same_as_listing"] and found["ratio"] > 0


RANKED = np.array([[0.9, 0.5, 0.1], [0.2, 0.8, 0.4], [0.3, 0.3, 0.3]])
FIRST_ANSWERS = np.array([[True, False, False], [True, False, False], [False, True, False]])


def test_ranks_by_hand_and_a_tie_counts_against_the_answer():
    assert bench_code_search.rank_of(RANKED, FIRST_ANSWERS).tolist() == [1, 3, 3]
    twins = FIRST_ANSWERS | np.array([[False] * 3, [False, True, False], [False] * 3])
    assert bench_code_search.rank_of(RANKED, twins).tolist() == [
        1,
        1,
        3,
    ]  # either twin answers the second


def test_mutations_change_one_line_of_every_folder():
    selected = mutations.chosen(20, seed=1)
    folders = {Path(mutation.module).parent for mutation in selected}
    assert len(selected) == 20 and len(folders) > 15
    for mutation in selected:
        source = (mutations.ROOT / mutation.module).read_text("utf8").split("\n")
        assert source[mutation.line - 1].strip() == mutation.before != mutation.after
        source[mutation.line - 1] = source[mutation.line - 1].replace(
            mutation.before, mutation.after
        )
        ast.parse("\n".join(source))


def test_an_expression_that_is_not_at_its_columns_is_not_changed():
    line = "text = f'{count + 1} of 2'"
    value = ast.parse("count + 1", mode="eval").body
    assert not mutations.is_at_its_columns(value, line)  # columns of another line, as in f-strings
    value.col_offset, value.end_col_offset = line.index("count"), line.index(" +")
    assert not mutations.is_at_its_columns(value, line)  # another expression is there
    value.end_col_offset = line.index("}")
    assert mutations.is_at_its_columns(value, line)


@pytest.mark.parametrize(
    ("unchanged", "result"), [("", "timeout"), ("timeout", mutations.UNDECIDED)]
)
def test_a_time_limit_counts_if_the_unchanged_code_keeps_it(
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


def test_the_tests_of_a_module_are_those_that_import_it():
    assert "tests/core/test_speeds.py" in mutations.tests_of(
        "pkg_lib/core/speeds.py", mutations.ROOT
    )


def test_linear_small():
    found = bench_linear.measure(rows=(256,), repeats=5)
    (layer,) = found["layers"]
    assert layer["rows"] == 256
    if not found["has_bfloat16_instructions"]:
        assert layer["ratio"] > 1.5  # five on an idle processor


def test_cache_small():
    found = bench_cache.measure(rows=16, columns=200, steps=64)
    assert found["ratio"] > 1.5
