"""Fixtures that the tests share, the selection of tests for each lane, and the settings of hypothesis."""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from fakes import WordEmbedder
from hypothesis import HealthCheck, settings

from pkg_lib.core.data_folders import SUBFOLDERS, data_folder

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Tests set and remove the variable of a single data set. PKG_DATA must not provide that data set as well.
for variable in SUBFOLDERS:
    if folder := data_folder(variable):
        os.environ[variable] = str(folder)
os.environ.pop("PKG_DATA", None)
# Files that the fast lane does not even import, because the tests of each take two seconds or more. They start
# kernels, browsers, models and processes, or wait for a limit. Single tests elsewhere carry the marker `slow`.
SLOW = {
    "analysis/test_browser.py",
    "analysis/test_cases.py",
    "analysis/test_claim_data.py",
    "analysis/test_csv_text.py",
    "analysis/test_figures.py",
    "analysis/test_leaderboard.py",
    "analysis/test_model_topics.py",
    "analysis/test_report.py",
    "analysis/test_validity_counts.py",
    "analysis/test_topics.py",
    "benchmarks/test_benchmarks.py",
    "chunking/test_chunk_jsonl.py",
    "chunking/test_chunker.py",
    "chunking/test_windows.py",
    "core/test_source_tree.py",
    "evaluation/test_batch.py",
    "evaluation/test_context_validity.py",
    "evaluation/test_encoding_order.py",
    "evaluation/test_forecast.py",
    "evaluation/test_merge.py",
    "evaluation/test_results_view.py",
    "evaluation/test_signals.py",
    "evaluation/test_storage.py",
    "evaluation/test_study.py",
    "evaluation/test_verify.py",
    "execution/test_attacks.py",
    "execution/test_batches.py",
    "execution/test_forgeries.py",
    "execution/test_honest_programs.py",
    "execution/test_official.py",
    "execution/test_official_evalplus.py",
    "execution/test_replay.py",
    "execution/test_sandbox.py",
    "execution/test_wire.py",
    "generation/test_backends.py",
    "generation/test_batch_size.py",
    "generation/test_extract.py",
    "generation/test_hostile.py",
    "generation/test_remote.py",
    "generation/test_responses.py",
    "generation/test_resume.py",
    "graph/test_bolt.py",
    "graph/test_enhance.py",
    "graph/test_ledger.py",
    "graph/test_schema.py",
    "graph/test_structure.py",
    "papers/cast/test_cast_steps.py",
    "papers/cast/test_repository_functions.py",
    "papers/evor/test_algorithm1.py",
    "papers/evor/test_evor_bench.py",
    "papers/evor/test_library_tasks.py",
    "papers/evor/test_make_library.py",
    "papers/evor/test_mpsc.py",
    "papers/evor/test_newlisp.py",
    "papers/evor/test_private_eval.py",
    "papers/evor/test_rounds.py",
    "papers/evor/test_scipy_tasks.py",
    "papers/pkg/test_closed_extraction.py",
    "papers/pkg/test_overlap.py",
    "papers/pkg/test_prompt_effects.py",
    "repo_qa/test_repository_study.py",
    "retrieval/test_augment.py",
    "retrieval/test_embed.py",
    "retrieval/test_embedders.py",
    "retrieval/test_prune.py",
    "retrieval/test_quantized.py",
    "retrieval/test_stored_graph.py",
    "retrieval/test_words.py",
    "test_api.py",
    "test_benchmarks.py",
    "test_cli.py",
    "test_doctor.py",
    "test_documentation.py",
    "test_engine.py",
    "test_evalplus.py",
    "test_front_door.py",
    "test_golden.py",
    "test_hostile_results.py",
    "test_jupyter.py",
    "test_kernel.py",
    "test_locks.py",
    "test_messages.py",
    "test_notebooks.py",
    "test_plugins.py",
    "test_reading.py",
    "test_release.py",
    "test_revisions.py",
    "test_setup.py",
    "test_structuring.py",
    "test_task_maps.py",
    "typegraph/test_build.py",
    "typegraph/test_resolve.py",
}


# `tests/run.sh` should take a quarter of an hour on two cores, so it skips some cases of slow tests.
# `tests/run.sh --all` runs them too. Test -> number of its first cases that `tests/run.sh` runs. 0 skips the whole
# test; a smaller test checks the same behaviour.
CASES_THAT_STAY = {
    "benchmarks/test_benchmarks.py::test_batching_with_a_tiny_model": 0,
    "benchmarks/test_benchmarks.py::test_choice_small": 0,
    "benchmarks/test_benchmarks.py::test_generation_with_a_tiny_model": 0,
    "benchmarks/test_benchmarks.py::test_graph_small": 0,
    "chunking/test_chunker.py::test_headers_and_overlap_equal_astchunk_on_installed_files": 1,
    "chunking/test_chunker.py::test_2000_installed_files_are_lossless": 0,
    "evaluation/test_batch.py::test_reports_failed_notebooks_and_executes_them_again": 1,
    "evaluation/test_results_view.py::test_committed_study_is_complete": 4,
    "evaluation/test_verify.py::test_reports_a_changed_token_with_its_reason": 1,
    "execution/test_official.py::test_the_official_package_gives_every_verdict_of_a_column": 0,
    "generation/test_batch_size.py::test_halves_the_batch_when_memory_runs_out_and_gives_the_same_answers": 1,
    "generation/test_batch_size.py::test_other_errors_that_mean_lack_of_memory": 1,
    "generation/test_extraction_forms.py::test_time_grows_in_proportion_to_junk": 4,
    "generation/test_hostile.py::test_memory_is_bounded": 2,
    "generation/test_responses.py::test_a_body_of_many_small_values_takes_little_memory_and_time": 8,
    "papers/cast/test_cast_steps.py::test_additional_chunkings_are_methods_outside_the_study": 1,
    "papers/cast/test_cast_steps.py::test_stores_contexts_without_text_and_masks_the_solution": 2,
    "papers/evor/test_algorithm1.py::test_the_loop_runs_on_the_benchmarks_of_the_study": 0,
    "papers/evor/test_mpsc.py::test_with_evor_mpsc_samples_the_last_prompt_of_each_task": 0,
    "papers/evor/test_private_eval.py::test_another_library_of_the_form_works_by_its_directory": 1,
    "papers/evor/test_private_eval.py::test_controls": 1,
    "papers/evor/test_private_eval.py::test_the_authors_solutions_pass_and_empty_or_public_ones_do_not": 1,
    "papers/evor/test_rounds.py::test_a_finished_task_is_not_asked_again_and_keeps_its_answer": 1,
    "papers/evor/test_rounds.py::test_no_round_sees_a_hidden_test_or_a_solution": 3,
    "papers/evor/test_rounds.py::test_rounds_go_on_where_they_were_stopped": 0,
    "test_benchmarks.py::test_reference_solutions_pass_and_empty_functions_fail": 1,
    "test_front_door.py::test_a_command_works_as_documented_and_leaves_the_checkout_unchanged": 8,
    "test_front_door.py::test_runs_one_model_with_an_empty_results_directory": 0,
    "test_hostile_results.py::test_shows_a_case_unless_it_needs_the_damaged_file": 2,
    "test_hostile_results.py::test_skips_a_run_that_needs_a_damaged_file_and_continues_with_others": 6,
    "test_hostile_results.py::test_packing_and_merging_lose_nothing": 2,
    "test_jupyter.py::test_executes_a_notebook_without_changing_the_checkout": 0,
    "test_plugins.py::test_list_doctor_and_dry_run_know_the_names_of_plugins": 0,
    "test_reading.py::test_refuses_a_decompression_bomb_early_and_with_little_memory": 1,
    "test_release.py::test_reports_in_one_line_that_a_command_needs_the_checkout": 1,
    "test_revisions.py::test_enhancer_and_structurer_accept_a_hub_model": 0,
    "test_structuring.py::test_structures_with_a_model_from_a_directory": 1,
}


def mark_cases_left_out(items: list[pytest.Item]) -> None:
    """Mark the cases that only `tests/run.sh --all` runs.

    Args:
        items: All collected tests.
    """
    seen: Counter[str] = Counter()
    for item in items:
        name = f"{within_tests(item.path)}::{item.originalname}"
        seen[name] += 1
        if seen[name] > CASES_THAT_STAY.get(name, sys.maxsize):
            item.add_marker("exhaustive")


def within_tests(path: Path) -> str:
    """Return a path relative to this folder.

    Args:
        path: Path of a test file.

    Returns:
        The relative path, with slashes.
    """
    return path.relative_to(ROOT / "tests").as_posix()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore the slow files in the fast lane.

    Args:
        collection_path: A file or directory.
        config: pytest's configuration, which holds the selection of markers.

    Returns:
        True for an ignored file; None leaves the decision to pytest.
    """
    fast = "not slow" in config.option.markexpr
    if fast and within_tests(collection_path) in SLOW:
        return True
    return None


# Files that take minutes. They start first, then the other slow ones, and quick ones last. Otherwise one worker
# would still run a long file after the others have finished.
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
    """Return the sort key of a test: tests of longer files run earlier.

    Args:
        item: The test.

    Returns:
        The rank of its file, from 0.
    """
    name = within_tests(item.path)
    if name in LONGEST:
        return LONGEST.index(name)
    if name in SLOW:
        return len(LONGEST)
    return len(LONGEST) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests and mark the slow ones.

    Args:
        items: All collected tests.
    """
    items.sort(key=starts_at)
    mark_cases_left_out(items)
    for item in items:
        if within_tests(item.path) in SLOW:
            item.add_marker("slow")


@pytest.fixture
def no_waiting():
    """Fail a test that blocks for a minute, for example because it waits for the other end of a FIFO."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("blocked for 60 seconds"))
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


# Every run uses the same examples, so that a failure can be reproduced.
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
    """Return a separate checkout that run_all.sh has set up."""
    import checkout

    return checkout.make(tmp_path_factory.mktemp("clone"))


@pytest.fixture
def embedder() -> WordEmbedder:
    """Return an embedder that needs no model."""
    return WordEmbedder()


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set PKG_CACHE to a directory that does not exist yet."""
    monkeypatch.setenv("PKG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def textbook():
    """Return the documents and the graph of the corpus `textbook`."""
    from pkg_lib.data.corpora import load_corpus
    from pkg_lib.graph.schema import build_code_graph

    documents = load_corpus("textbook").documents
    return documents, build_code_graph(documents)


def skip_imports_in_collections() -> None:
    """Leave out what exists by now when garbage is collected, which imports of torch slow down to half a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def fast_collections() -> None:
    """Collect garbage fast in a test file, whatever earlier files have imported."""
    skip_imports_in_collections()


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory) -> Path:
    """Return the directory of a two-layer Qwen2 with random weights.

    Its tokenizer knows the 256 bytes and the special tokens.
    """
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
    fast.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "<|im_start|>assistant:"
    )
    fast.save_pretrained(folder)
    configuration = folder / "tokenizer_config.json"
    tokenizer_settings = json.loads(configuration.read_text())
    tokenizer_settings["unk_token"] = None  # as in Qwen's tokenizers
    configuration.write_text(json.dumps(tokenizer_settings))
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(fast),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.5,
        bos_token_id=None,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.eos_token_id,
    )
    Qwen2ForCausalLM(config).float().save_pretrained(folder)
    skip_imports_in_collections()
    return folder


@pytest.fixture(scope="session")
def filling_model(tiny_model, tmp_path_factory) -> Path:
    """Return the directory of the tiny model with Qwen's fill-in-the-middle tokens."""
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
    """Keep the committed completions in memory, so that files with the same contents need no parsing."""
    from pkg_lib.generation.cache import GenerationCache

    return [GenerationCache(model) for model in (ROOT / "results" / "cache").iterdir()]


@pytest.fixture
def committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held_completions) -> Path:
    """Set PKG_RESULTS to a copy of the committed contexts, completions and verdicts.

    A test fails if it loads the weights of a model.
    """
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
        "pkg_lib.core.models.fetch",
        lambda name, revision="": pytest.fail("a test without models requested weights"),
    )
    return tmp_path / "results"
