"""Models from a directory or from the hub: which revision is loaded, and which keys its completions get."""

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
    """Return the directory of the same model with different weights."""
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(tiny_model, tmp_path_factory.mktemp("other") / "model")
    weights = load_file(tiny_model / "model.safetensors")
    negated = {name: -tensor for name, tensor in weights.items()}
    save_file(negated, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.fixture
def results(own_cache, tmp_path, monkeypatch):
    """Return an empty results directory; completions are short, and retrieval fails the test."""
    monkeypatch.setitem(benchmark.DECODING, "max_new_tokens", 8)
    monkeypatch.setattr(
        "pkg_lib.evaluation.stored_answers.knowledge_of",
        lambda corpus: pytest.fail("the evaluator started retrieval"),
    )
    return tmp_path / "results"


def complete(results: Path, limit: int = 2, model: str = "tiny") -> dict[str, Generation]:
    """Generate what is missing; return the completion of each task without retrieval."""
    experiment = Results(model, limit=limit, results=results)
    Evaluator(experiment).generate(["NoRAG"])
    return experiment.completions("NoRAG")


def revisions(completions: dict[str, Generation]) -> set[str]:
    return {completion.meta["revision"] for completion in completions.values()}


def keys(completions: dict[str, Generation]) -> set[str]:
    return {completion.key for completion in completions.values()}


def differ(one: dict[str, Generation], other: dict[str, Generation]) -> bool:
    """Tell whether completions come from two models: they share no key, and their tokens differ."""
    tokens = [completion.tokens for completion in one.values()]
    other_tokens = [completion.tokens for completion in other.values()]
    return tokens != other_tokens and keys(one).isdisjoint(keys(other))


def test_replaced_weights_in_a_directory_are_a_new_revision(
    results, tiny_model, other_model, tmp_path, monkeypatch
):
    folder = shutil.copytree(tiny_model, tmp_path / "directory")
    monkeypatch.setitem(MODELS, "tiny", ModelSpec("tiny", str(folder), "chat", 0.001))
    stored = results / "cache/tiny/humaneval/none/norag.jsonl"

    first = complete(results)
    assert complete(results) == first
    assert len(stored.read_text().splitlines()) == 2  # nothing was generated twice

    shutil.copy(other_model / "model.safetensors", folder / "model.safetensors")
    second = complete(results)
    assert len(stored.read_text().splitlines()) == 4
    assert differ(first, second)
    assert len(revisions(first)) == 1
    assert len(revisions(second)) == 1
    assert revisions(first) != revisions(second)

    # Without the weights, the completions of the latest revision are read.
    shutil.rmtree(folder)
    assert Results("tiny", limit=2, results=results).completions("NoRAG") == second


def test_the_digest_of_a_directory_covers_the_files_that_are_loaded(
    own_cache, tiny_model, other_model, tmp_path
):
    digest = models.directory_digest(tiny_model)
    copy = shutil.copytree(tiny_model, tmp_path / "same")
    (copy / "README.md").write_text("not loaded")
    assert models.directory_digest(copy) == digest
    assert models.directory_digest(other_model) != digest
    (copy / "generation_config.json").write_text("{}")
    assert models.directory_digest(copy) != models.directory_digest(tiny_model)


def test_reports_a_directory_without_a_model_before_retrieval(results, tmp_path, monkeypatch):
    for folder in (tmp_path, tmp_path / "nowhere"):
        monkeypatch.setitem(MODELS, "tiny", ModelSpec("tiny", str(folder), "chat", 0.001))
        evaluator = Evaluator(Results("tiny", limit=2, results=results))
        with pytest.raises(UserError, match=r"is not a directory with a model"):
            evaluator.generate(["NoRAG", "Func-PKG"])


def test_reports_an_unreachable_hub_before_retrieval(results, hub, monkeypatch):
    hub.close()
    with pytest.raises(UserError, match="does not answer"):
        Evaluator(Results("tiny", limit=2, results=results)).generate(["NoRAG", "Func-PKG"])
    monkeypatch.setitem(MODELS, "tiny", replace(model_spec("tiny"), needs_gpu=True))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="needs a GPU"):
        fetch("tiny")


class Hub(ThreadingHTTPServer):
    """A hub with one repository.

    Args:
        commits: Directory of the files by commit.

    Attributes:
        main: Commit of the branch `main`.
        sent: Paths of the files that were sent.
    """

    def __init__(self, commits: dict[str, Path]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.commits = commits
        self.main = OLD
        self.sent: list[str] = []
        self.address = f"http://127.0.0.1:{self.server_port}"
        Thread(target=self.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    def content(self, path: str) -> tuple[bytes | None, dict[str, str]]:
        """Return the content and the headers of a path; the content is None if there is none."""
        if path == "/":
            return b"", {}
        if path.startswith(f"/{REPO}/resolve/"):
            revision, _, name = path.removeprefix(f"/{REPO}/resolve/").partition("/")
            return self.file(revision, name)
        if path.startswith(f"/api/models/{REPO}"):
            return self.description(path.removeprefix(f"/api/models/{REPO}"))
        return None, {}

    def file(self, revision: str, name: str) -> tuple[bytes | None, dict[str, str]]:
        """Return a file of a revision and its headers."""
        commit = self.main if revision == "main" else revision
        if commit not in self.commits:
            return None, {}
        file = self.commits[commit] / name
        if not file.is_file():
            return None, {}
        return file.read_bytes(), {"ETag": f'"{commit[:8]}-{name}"', "X-Repo-Commit": commit}

    def description(self, rest: str) -> tuple[bytes | None, dict[str, str]]:
        """Return the description of a commit, or the list of its files if the path asks for a tree."""
        commit = rest.rpartition("/")[2] if rest else self.main
        if commit not in self.commits:
            return None, {}
        paths = list(self.commits[commit].iterdir())
        if "/tree/" in rest:
            answer = [
                {
                    "type": "file",
                    "path": path.name,
                    "size": path.stat().st_size,
                    "oid": path.name,
                }
                for path in paths
            ]
        else:
            siblings = [{"rfilename": path.name} for path in paths]
            answer = {"id": REPO, "sha": commit, "siblings": siblings}
        return json.dumps(answer).encode(), {"Content-Type": "application/json"}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        content, headers = self.server.content(path)
        self.send_response(404 if content is None else 200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        if self.command == "GET" and content:
            if "/resolve/" in path:
                self.server.sent.append(path)
            self.wfile.write(content)

    do_HEAD = do_GET

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def hub(tiny_model, other_model, tmp_path, monkeypatch):
    """Start a hub whose branch `main` is the commit OLD; register its repository as the model `tiny`."""
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


def test_all_completions_of_a_results_directory_come_from_one_commit(results, hub, tmp_path):
    first = complete(results, limit=1)
    assert revisions(first) == {OLD}
    hub.main = NEW
    both = complete(results, limit=2)
    assert revisions(both) == {OLD}
    assert both.items() >= first.items()
    assert not any(NEW in path for path in hub.sent)
    elsewhere = complete(tmp_path / "elsewhere", limit=2)
    assert revisions(elsewhere) == {NEW}
    assert differ(elsewhere, both)


def test_loads_the_pinned_commit(results, hub, monkeypatch):
    monkeypatch.setitem(MODELS, "tiny", ModelSpec("tiny", REPO, "chat", 0.001, revision=NEW))
    assert fetch("tiny").name == NEW
    assert revisions(complete(results)) == {NEW}
    assert not any(OLD in path for path in hub.sent)
    monkeypatch.setitem(MODELS, "tiny", ModelSpec("tiny", REPO, "chat", 0.001, revision="c" * 40))
    message = r"commit cccccccccccc of someone/tiny cannot be downloaded"
    with pytest.raises(UserError, match=message):
        complete(results)


def test_resolves_and_records_the_revision_of_a_hub_model(results, hub, tmp_path):
    """The revision becomes a commit, which is loaded, recorded and part of the keys."""
    main = complete(results, model=f"hf:{REPO}")
    pinned = complete(results, model=f"hf:{REPO}@{NEW}")
    assert revisions(main) == {OLD}
    assert revisions(pinned) == {NEW}
    assert differ(main, pinned)

    records = [read_json(path) for path in results.rglob("revision.json")]
    records.sort(key=lambda record: record["name"])
    assert records == [
        {"name": f"hf:{REPO}", "repo": REPO, "asked": "", "revision": OLD},
        {"name": f"hf:{REPO}@{NEW}", "repo": REPO, "asked": NEW, "revision": NEW},
    ]

    plain = complete(results, model=f"hf:{REPO}#plain")
    assert keys(plain).isdisjoint(keys(main))
    folders = {path.parent for path in results.rglob("norag.jsonl") if "cache" in path.parts}
    assert len(folders) == 3


def test_enhancer_and_structurer_accept_a_hub_model(
    results, hub, filling_model, tmp_path, monkeypatch
):
    hub.commits[NEW] = filling_model
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("def f(x):\n    return x\n")
    source = f"source:{tmp_path / 'src'}"
    model = f"hf:{REPO}@{NEW}"
    log = enhancer.enhance(source, model, None, results)
    assert (log["revision"], log["asked"]) == (NEW, 1)
    # The old commit lacks the tokens.
    with pytest.raises(UserError, match="no fill-in-the-middle"):
        enhancer.enhance(source, f"hf:{REPO}@{OLD}", None, results)

    monkeypatch.setattr("pkg_lib.data.structuring.MAX_NEW_TOKENS", 4)
    page = Document("t/0", "Lists\n\n" + "word " * 50, "text")
    monkeypatch.setitem(CORPORA, "toy", CorpusSource("toy", lambda: [page], "made up", "text"))
    log = structure("toy", "llm", results, model)
    assert log["revision"] == NEW
    assert log["documents"] == 1
    assert log["structured"] == 0  # the model's weights are random


def test_the_revision_of_a_directory_is_the_digest_of_its_files(results, tiny_model, other_model):
    one = complete(results, model=f"path:{tiny_model}")
    other = complete(results, model=f"path:{other_model}")
    assert differ(one, other)
    (revision,) = revisions(one)
    assert revision.startswith("files-sha256-")


def test_uses_the_local_cache_of_an_unreachable_hub(results, hub, tmp_path):
    first = complete(results, limit=1)
    hub.close()
    assert complete(results, limit=2).items() >= first.items()
    assert revisions(complete(tmp_path / "elsewhere", limit=1)) == {OLD}


def test_reading_results_does_not_contact_the_hub(results, hub, monkeypatch):
    monkeypatch.setattr("pkg_lib.core.hub.reachable", lambda: pytest.fail("contacted the hub"))
    empty = Results("tiny", limit=2, results=results)
    assert empty.completions("NoRAG") == {}
    assert empty.generator.revision == ""
    steps = forecast.forecast(Evaluator(empty), ["NoRAG"], set())
    assert steps[0].todo == 2


# Model -> key of its first prompt. A different key would orphan every committed completion.
FROZEN = {
    "qwen2.5-coder-0.5b-instruct": "054b655f00373b3c5d7e75b0d4c0deee",
    "qwen2.5-coder-1.5b-instruct": "82267e3192b9ce5e597716b057cf8f9b",
}


@pytest.mark.parametrize("model", FROZEN)
def test_keys_of_committed_completions_are_unchanged(committed, model):
    experiment = Results(model, limit=1)
    (context,) = experiment.contexts("NoRAG")
    request = experiment.request(experiment.tasks[0], context, "NoRAG")
    assert experiment.generator.key(request.text) == FROZEN[model]
    assert FROZEN[model] in experiment.generator.cache.rows


def test_vectors_of_two_commits_of_an_embedder_are_stored_apart(own_cache, hub, monkeypatch):
    monkeypatch.setitem(embedders.EMBEDDERS, "tiny", embedders.EmbedderSpec("tiny", REPO))
    pinned_names = []
    paths = set()
    for commit in (OLD, NEW):
        hub.main = commit
        pinned = embedders.embedder_spec("tiny").pinned
        pinned_names.append(pinned)
        for name in ("tiny", pinned, f"hf:{REPO}@{commit}"):
            paths.add(Embedder(name).cache.path)
    assert pinned_names == [f"tiny@{OLD}", f"tiny@{NEW}"]
    assert len(paths) == 4

    hub.close()
    assert Embedder("tiny").revision == NEW
    monkeypatch.setattr("pkg_lib.core.hub.reachable", lambda: pytest.fail("contacted the hub"))
    for name in pinned_names:
        assert embedders.embedder_spec(name).pinned == name
