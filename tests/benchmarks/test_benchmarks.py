"""The benchmarks themselves, small: they run, measure what they say, and refuse in one line."""

from __future__ import annotations

import torch

from benchmarks import bench_bm25, bench_generation, bench_graph
from pkg_lib.generation import backends
from pkg_lib.generation.backends import TransformersBackend
from pkg_lib.types import Request


def test_bm25_small():
    found = bench_bm25.measure(functions=600, queries=30)
    assert (found["functions"], found["queries"]) == (600, 30)
    assert found["same_top1"] >= 0.7
    assert found["ratio"] > 1  # the ratio grows with the corpus; 100 is asked at 50,000


def test_generation_with_a_tiny_model(tiny_model, monkeypatch):
    monkeypatch.setattr(backends, "MAX_NEW_TOKENS", 8)
    backend = TransformersBackend(tiny_model, slots=3, dtype=torch.float32)
    found = bench_generation.measure(backend, [Request(str(i), "abc" * i, "f") for i in range(1, 6)])
    assert (found["prompts"], found["equal_tokens"]) == (5, 1.0)
    assert 0 < found["rss_loaded_gb"] <= found["rss_peak_gb"] < 6


def test_generation_refuses_without_weights(own_cache, capsys):
    assert bench_generation.main([]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert bench_generation.main(["--model", "nosuch"]) == 2


def test_graph_small(tmp_path):
    found = bench_graph.measure(300, tmp_path, queries=20)
    assert found["balanced"] and found["build"]["same_graph"]
    assert 300 <= found["functions"] < found["nodes"] and found["payloads"] < found["nodes"]
    assert found["search"]["hnsw"]["128"]["recall_at_1"] > 0.9
    assert found["disk_mb"] > found["disk_mb_without_vectors"] > 0 and found["resident_mb"] > found["imports_mb"]
    lines = bench_graph.table(found).split("\n")
    assert "12,530 MB" in next(line for line in lines if line.startswith("storage"))
    assert "not measured" in next(line for line in lines if line.startswith("encoding"))
