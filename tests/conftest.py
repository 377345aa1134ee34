"""What the tests share: an embedder that needs no model, a small corpus, the textbook graph, settings for
hypothesis."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from fakes import WordEmbedder
from hypothesis import HealthCheck, settings

from pkg_lib.core.data_folders import SUBFOLDERS, data_folder

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Tests set and remove a data set's own variable, so that PKG_DATA must not provide it a second time.
for variable in SUBFOLDERS:
    if folder := data_folder(variable):
        os.environ[variable] = str(folder)
os.environ.pop("PKG_DATA", None)
# Files that the fast lane does not even import: kernels, browsers, models, waits for a limit. Single tests elsewhere
# carry the marker `slow`.
SLOW = {
    "analysis/test_browser.py",
    "analysis/test_cases.py",
    "analysis/test_figures.py",
    "analysis/test_topics.py",
    "benchmarks/test_benchmarks.py",
    "execution/test_attacks.py",
    "execution/test_official.py",
    "execution/test_official_evalplus.py",
    "execution/test_replay.py",
    "execution/test_sandbox.py",
    "evaluation/test_batch.py",
    "generation/test_backends.py",
    "generation/test_resume.py",
    "graph/test_bolt.py",
    "retrieval/test_stored_graph.py",
    "graph/test_enhance.py",
    "graph/test_ledger.py",
    "papers/cast/test_cast_steps.py",
    "papers/cast/test_repository_functions.py",
    "papers/evor/test_library_tasks.py",
    "retrieval/test_embed.py",
    "retrieval/test_prune.py",
    "test_benchmarks.py",
    "test_engine.py",
    "test_front_door.py",
    "test_golden.py",
    "test_hostile_results.py",
    "test_jupyter.py",
    "test_kernel.py",
    "test_notebooks.py",
    "test_plugins.py",
    "test_revisions.py",
    "test_task_maps.py",
}


def within_tests(path: Path) -> str:
    return path.relative_to(ROOT / "tests").as_posix()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    fast = config.option.markexpr == "not slow"
    return True if fast and within_tests(collection_path) in SLOW else None


# Files that take minutes. They start first, then the other slow ones, and quick ones last: no worker is left alone with
# a long one at the end.
LONGEST = (
    "test_golden.py",
    "test_front_door.py",
    "test_hostile_results.py",
    "benchmarks/test_benchmarks.py",
    "execution/test_wire.py",
    "execution/test_sandbox.py",
    "execution/test_forgeries.py",
    "test_jupyter.py",
)


def starts_at(item: pytest.Item) -> int:
    name = within_tests(item.path)
    if name in LONGEST:
        return LONGEST.index(name)
    return len(LONGEST) if name in SLOW else len(LONGEST) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=starts_at)
    for item in items:
        if within_tests(item.path) in SLOW:
            item.add_marker("slow")


@pytest.fixture
def no_waiting():
    """End a test that waits for the other end of a FIFO."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits"))
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


# The same examples at every run: a red test must be red again.
settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    max_examples=60,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def checkout(tmp_path_factory):
    """A checkout of its own, set up by run_all.sh (`checkout.make`)."""
    import checkout

    return checkout.make(tmp_path_factory.mktemp("clone"))


@pytest.fixture
def embedder() -> WordEmbedder:
    return WordEmbedder()


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty PKG_CACHE."""
    monkeypatch.setenv("PKG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def textbook():
    """(documents, graph) of the whole `algorithms` package."""
    from pkg_lib.data.corpora import load_corpus
    from pkg_lib.graph.schema import build_code_graph

    documents = load_corpus("textbook").documents
    return documents, build_code_graph(documents)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory) -> Path:
    """A directory with a random two-layer Qwen2 and a tokenizer of single bytes: 256 tokens, then the special
    ones."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    folder = tmp_path_factory.mktemp("tiny")
    alphabet = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = {
        "eos_token": "<|endoftext|>",
        "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
    }
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    fast.chat_template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant:"
    fast.save_pretrained(folder)
    about = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(
        json.dumps(about | {"unk_token": None})
    )  # as Qwen's own says
    torch.manual_seed(0)
    shape = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    ids = {
        "bos_token_id": None,
        "eos_token_id": fast.eos_token_id,
        "pad_token_id": fast.eos_token_id,
    }
    config = Qwen2Config(
        vocab_size=len(fast), intermediate_size=64, initializer_range=0.5, **shape, **ids
    )
    Qwen2ForCausalLM(config).float().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def filling_model(tiny_model, tmp_path_factory) -> Path:
    """The tiny model with Qwen's tokens for filling in the middle."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from pkg_lib.graph.enhance import FAMILIES

    folder = tmp_path_factory.mktemp("filling") / "some-model"
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    special = [*FAMILIES["qwen2.5-coder"][:4], "<|im_start|>", "<|im_end|>"]
    tokenizer.add_special_tokens({"additional_special_tokens": special})
    tokenizer.save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def held_completions():
    """The committed completions. While they are held, files with the same contents need no parsing."""
    from pkg_lib.generation.cache import GenerationCache

    return [GenerationCache(model) for model in (ROOT / "results" / "cache").iterdir()]


@pytest.fixture
def committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held_completions) -> Path:
    """A copy of the committed contexts, completions and verdicts as the results directory, and no weights to
    fall back on."""
    for stage in (
        "contexts",
        "cache",
        "runs",
        "replay",
        "tasks",
        "repo_qa",
        "repo_tasks",
    ):
        shutil.copytree(ROOT / "results" / stage, tmp_path / "results" / stage)
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(
        "pkg_lib.core.models.fetch", lambda name, revision="": pytest.fail("asked for weights")
    )
    return tmp_path / "results"
