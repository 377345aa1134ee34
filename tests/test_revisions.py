"""Models of a directory or of the hub through the real loading: which bytes are loaded, and by which keys."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest
import torch

from pkg_lib.core import embedders, models
from pkg_lib.core.models import MODELS, ModelSpec, fetch, model_spec
from pkg_lib.core.store import read_json
from pkg_lib.core.types import Document, Generation, UserError
from pkg_lib.data import benchmark
from pkg_lib.data.corpora import CORPORA, CorpusSource
from pkg_lib.data.structuring import structure
from pkg_lib.evaluation import forecast
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.papers.pkg import enhancer
from pkg_lib.retrieval.embed import Embedder

REPO, OLD, NEW = "someone/tiny", "a" * 40, "b" * 40


@pytest.fixture(scope="session")
def other_model(tiny_model, tmp_path_factory) -> Path:
    """The same model with other weights."""
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(tiny_model, tmp_path_factory.mktemp("other") / "model")
    weights = {
        name: -tensor for name, tensor in load_file(tiny_model / "model.safetensors").items()
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.fixture
def results(own_cache, tmp_path, monkeypatch):
    """An empty results directory, short completions, and retrieval out of reach."""
    monkeypatch.setitem(benchmark.DECODING, "max_new_tokens", 8)
    monkeypatch.setattr(
        "pkg_lib.evaluation.stored_answers.knowledge_of", lambda corpus: pytest.fail("retrieved")
    )
    return tmp_path / "results"


def complete(results: Path, limit: int = 2, model: str = "tiny") -> dict[str, Generation]:
    """Task -> completion without retrieval, made or stored."""
    tiny = Results(model, limit=limit, results=results)
    Evaluator(tiny).generate(["NoRAG"])
    return tiny.completions("NoRAG")


def revisions(completions: dict[str, Generation]) -> set[str]:
    return {g.meta["revision"] for g in completions.values()}


def differ(one: dict[str, Generation], other: dict[str, Generation]) -> bool:
    """Whether two models made them: other tokens, and no key in common."""
    tokens, keys = (
        [[getattr(g, n) for g in c.values()] for c in (one, other)] for n in ("tokens", "key")
    )
    return tokens[0] != tokens[1] and not {*keys[0]} & {*keys[1]}


def test_a_model_of_a_directory(results, tiny_model, other_model, tmp_path, monkeypatch):
    folder = shutil.copytree(tiny_model, tmp_path / "directory")
    monkeypatch.setitem(MODELS, "tiny", ModelSpec("tiny", str(folder), "chat", 0.001))
    stored = results / "cache/tiny/humaneval/none/norag.jsonl"
    first = complete(results)
    assert (
        complete(results) == first and len(stored.read_text().splitlines()) == 2
    )  # nothing is made twice
    shutil.copy(other_model / "model.safetensors", folder / "model.safetensors")
    second = complete(results)
    assert len(stored.read_text().splitlines()) == 4 and differ(first, second)
    assert len(revisions(first)) == len(revisions(second)) == 1 and revisions(first) != revisions(
        second
    )
    shutil.rmtree(folder)  # a reader without the weights sees what was made with them last
    assert Results("tiny", limit=2, results=results).completions("NoRAG") == second


def test_the_digest_of_a_directory_is_of_its_contents(own_cache, tiny_model, other_model, tmp_path):
    same = shutil.copytree(tiny_model, tmp_path / "same")
    (same / "README.md").write_text("not loaded")
    first = models.directory_digest(tiny_model)
    assert models.directory_digest(same) == first != models.directory_digest(other_model)
    (same / "generation_config.json").write_text("{}")
    assert models.directory_digest(same) != models.directory_digest(tiny_model)


def test_a_directory_without_a_model_is_told_before_retrieval(results, tmp_path, monkeypatch):
    for place in (tmp_path, tmp_path / "nowhere"):
        monkeypatch.setitem(MODELS, "tiny", ModelSpec("tiny", str(place), "chat", 0.001))
        with pytest.raises(UserError, match=r"is not a directory with a model"):
            Evaluator(Results("tiny", limit=2, results=results)).generate(["NoRAG", "Func-PKG"])


def test_a_hub_that_does_not_answer_is_told_before_retrieval(results, hub, monkeypatch):
    hub.close()
    with pytest.raises(UserError, match="does not answer"):
        Evaluator(Results("tiny", limit=2, results=results)).generate(["NoRAG", "Func-PKG"])
    monkeypatch.setitem(MODELS, "tiny", replace(model_spec("tiny"), needs_gpu=True))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="needs a GPU"):
        fetch("tiny")


class Hub(ThreadingHTTPServer):
    """A hub with one repository: commit -> directory, the commit that main means, and the paths it has sent."""

    def __init__(self, commits: dict[str, Path]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.commits, self.main, self.sent = commits, OLD, []
        self.address = f"http://127.0.0.1:{self.server_port}"
        Thread(target=self.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    def content(self, path: str) -> tuple[bytes | None, dict[str, str]]:
        if path == "/":
            return b"", {}
        resolve = path.removeprefix(f"/{REPO}/resolve/").split("/", 1)
        commit = self.main if resolve[0] == "main" else resolve[0]
        if len(resolve) == 2 and commit in self.commits:
            file = self.commits[commit] / resolve[1]
            mark = {"ETag": f'"{commit[:8]}-{file.name}"', "X-Repo-Commit": commit}
            return (file.read_bytes(), mark) if file.is_file() else (None, {})
        rest = path.removeprefix(f"/api/models/{REPO}")
        commit = rest.rpartition("/")[2] if rest else self.main
        if rest == path or commit not in self.commits:
            return None, {}
        paths = self.commits[commit].iterdir()
        files = [
            {"type": "file", "path": p.name, "size": p.stat().st_size, "oid": p.name} for p in paths
        ]
        about = {"id": REPO, "sha": commit, "siblings": [{"rfilename": f["path"]} for f in files]}
        return json.dumps(files if "/tree/" in rest else about).encode(), {
            "Content-Type": "application/json"
        }


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        content, headers = self.server.content(path)
        self.send_response(404 if content is None else 200)
        for name, value in (headers | {"Content-Length": str(len(content or b""))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET" and content:
            self.server.sent += [path] if "/resolve/" in path else []
            self.wfile.write(content)

    do_HEAD = do_GET

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def hub(tiny_model, other_model, tmp_path, monkeypatch):
    """A hub whose main branch is the tiny model's old commit; the model `tiny` is its repository."""
    from huggingface_hub import constants

    started = Hub({OLD: tiny_model, NEW: other_model})
    template = started.address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", started.address)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setenv("HF_ENDPOINT", started.address)
    monkeypatch.setitem(MODELS, "tiny", ModelSpec("tiny", REPO, "chat", 0.001))
    yield started
    started.close()


def test_all_completions_of_a_results_directory_are_of_one_commit(results, hub, tmp_path):
    first = complete(results, limit=1)
    assert revisions(first) == {OLD}
    hub.main = NEW
    both = complete(results, limit=2)
    assert revisions(both) == {OLD} and both.items() >= first.items()
    assert not any(NEW in path for path in hub.sent)
    elsewhere = complete(tmp_path / "elsewhere", limit=2)
    assert revisions(elsewhere) == {NEW} and differ(elsewhere, both)


def test_a_pinned_commit_is_the_one_that_is_loaded(results, hub, monkeypatch):
    monkeypatch.setitem(MODELS, "tiny", ModelSpec("tiny", REPO, "chat", 0.001, revision=NEW))
    assert fetch("tiny").name == NEW
    assert revisions(complete(results)) == {NEW}
    assert not any(OLD in path for path in hub.sent)
    monkeypatch.setitem(MODELS, "tiny", ModelSpec("tiny", REPO, "chat", 0.001, revision="c" * 40))
    with pytest.raises(
        UserError, match=r"commit cccccccccccc of someone/tiny cannot be downloaded"
    ):
        complete(results)


def test_a_model_by_its_name_on_the_hub(results, hub, tmp_path):
    """The revision that is asked for is resolved to a commit, passed on, recorded and part of the key."""
    main, other = (complete(results, model=f"hf:{REPO}{mark}") for mark in ("", f"@{NEW}"))
    assert revisions(main) == {OLD} and revisions(other) == {NEW} and differ(main, other)
    records = {r["name"]: r for r in map(read_json, results.rglob("revision.json"))}
    first, second = {"asked": "", "revision": OLD}, {"asked": NEW, "revision": NEW}
    names = {f"hf:{REPO}": first, f"hf:{REPO}@{NEW}": second}
    assert records == {name: {"name": name, "repo": REPO} | about for name, about in names.items()}
    plain = complete(results, model=f"hf:{REPO}#plain")
    assert not {g.key for g in plain.values()} & {g.key for g in main.values()}
    assert len({p.parent for p in results.rglob("norag.jsonl") if "cache" in p.parts}) == 3


def test_the_enhancer_and_the_structurer_take_a_model_of_the_hub(
    results, hub, filling_model, tmp_path, monkeypatch
):
    hub.commits[NEW] = filling_model
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("def f(x):\n    return x\n")
    model = f"hf:{REPO}@{NEW}"
    log = enhancer.enhance(f"source:{tmp_path / 'src'}", model, None, results)
    assert (log["revision"], log["asked"]) == (NEW, 1)
    with pytest.raises(UserError, match="no fill-in-the-middle"):  # the old commit has other tokens
        enhancer.enhance(f"source:{tmp_path / 'src'}", f"hf:{REPO}@{OLD}", None, results)
    monkeypatch.setattr("pkg_lib.data.structuring.MAX_NEW_TOKENS", 4)
    page = Document("t/0", "Lists\n\n" + "word " * 50, "text")
    monkeypatch.setitem(CORPORA, "toy", CorpusSource("toy", lambda: [page], "made up", "text"))
    log = structure("toy", "llm", results, model)
    assert (log["revision"], log["documents"], log["structured"]) == (
        NEW,
        1,
        0,
    )  # it writes nonsense


def test_a_model_by_its_directory(results, tiny_model, other_model):
    one, other = (complete(results, model=f"path:{folder}") for folder in (tiny_model, other_model))
    assert differ(one, other) and next(iter(revisions(one))).startswith("files-sha256-")


def test_without_the_hub_its_local_cache_serves(results, hub, tmp_path):
    first = complete(results, limit=1)
    hub.close()
    assert complete(results, limit=2).items() >= first.items()
    assert revisions(complete(tmp_path / "elsewhere", limit=1)) == {OLD}


def test_reading_asks_no_hub(results, hub, monkeypatch):
    monkeypatch.setattr("pkg_lib.core.hub.reachable", lambda: pytest.fail("asked the hub"))
    unknown = Results("tiny", limit=2, results=results)
    assert unknown.completions("NoRAG") == {} and unknown.generator.revision == ""
    assert forecast.forecast(Evaluator(unknown), ["NoRAG"], set())[0].todo == 2


FROZEN = {  # keys of the two default models' first prompt; a change would lose every committed completion
    "qwen2.5-coder-0.5b-instruct": "054b655f00373b3c5d7e75b0d4c0deee",
    "qwen2.5-coder-1.5b-instruct": "82267e3192b9ce5e597716b057cf8f9b",
}


@pytest.mark.parametrize("model", FROZEN)
def test_committed_keys_are_as_they_were(committed, model):
    experiment = Results(model, limit=1)
    (context,) = experiment.contexts("NoRAG")
    request = experiment.request(experiment.tasks[0], context, "NoRAG")
    assert experiment.generator.key(request.text) == FROZEN[model]
    assert FROZEN[model] in experiment.generator.cache.rows


def test_vectors_of_two_commits_of_an_embedder_do_not_meet(own_cache, hub, monkeypatch):
    monkeypatch.setitem(embedders.EMBEDDERS, "tiny", embedders.EmbedderSpec("tiny", REPO))
    names, paths = [], set()
    for hub.main in (OLD, NEW):
        names.append(embedders.embedder_spec("tiny").pinned)
        paths |= {
            Embedder(name).cache.path for name in ("tiny", names[-1], f"hf:{REPO}@{hub.main}")
        }
    assert names == [f"tiny@{OLD}", f"tiny@{NEW}"] and len(paths) == 4
    hub.close()
    assert Embedder("tiny").revision == NEW
    monkeypatch.setattr("pkg_lib.core.hub.reachable", lambda: pytest.fail("asked the hub"))
    assert [embedders.embedder_spec(name).pinned for name in names] == names
