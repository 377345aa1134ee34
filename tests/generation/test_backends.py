"""Compare the rolling batch with `model.generate` on one prompt at a time, token by token."""

from __future__ import annotations

import json
import random
import shutil

import pytest
import torch
from transformers import TemperatureLogitsWarper, TopPLogitsWarper

from pkg_lib.core.types import Request, UserError
from pkg_lib.generation import backends
from pkg_lib.generation.backends import Row, TransformersBackend
from pkg_lib.generation.prompts import TURN

NEW = 12


def prompts(count: int = 8) -> list[str]:
    pick = random.Random(3)
    return [
        "".join(pick.choices("abcdefgh (:\n", k=pick.choice([1, 3, 9, 30]))) for _ in range(count)
    ]


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(backends, "MAX_NEW_TOKENS", NEW)


@pytest.fixture
def backend(tiny_model):
    return TransformersBackend(tiny_model, slots=4, dtype=torch.float32)


def one_by_one(
    backend: TransformersBackend, texts: list[str], stop: bool = True
) -> list[list[int]]:
    """Return the reference: greedy tokens of `generate`, without the end token or with end tokens off."""
    options = {"max_new_tokens": NEW, "do_sample": False, "pad_token_id": 0}
    options |= {"eos_token_id": sorted(backend.ends)} if stop else {"min_new_tokens": NEW}
    answers = []
    for text in texts:
        ids = backend.prompt_ids(Request("", text, "f"))
        tokens = backend.model.generate(torch.tensor([ids]), **options)[0, len(ids) :].tolist()
        answers.append(tokens[:-1] if stop and tokens[-1] in backend.ends else tokens)
    return answers


def rolling(
    backend: TransformersBackend, texts: list[str]
) -> list[tuple[list[int], str, str, int]]:
    found: dict[str, tuple[list[int], str, str, int]] = {}

    def done(row: Row, raw: str, finish: str) -> None:
        assert row.request.task_id not in found
        found[row.request.task_id] = (row.tokens, raw, finish, row.prompt_tokens)

    backend.generate([Request(str(i), t, "f") for i, t in enumerate(texts)], done)
    return [found[str(i)] for i in range(len(texts))]


@pytest.mark.parametrize("chat", [True, False])
def test_the_batch_gives_the_tokens_of_generate(backend, chat):
    backend.chat = chat
    texts = prompts()
    expected = one_by_one(backend, texts)
    for backend.slots in (1, 3, 5, 64):
        found = rolling(backend, texts)
        assert [tokens for tokens, *_ in found] == expected
        lengths = [len(backend.prompt_ids(Request("", text, "f"))) for text in texts]
        decoded = [backend.tokenizer.decode(t, skip_special_tokens=True) for t in expected]
        assert [raw for _, raw, *_ in found] == decoded
        assert [n for *_, n in found] == lengths
        assert "length" in {finish for _, _, finish, _ in found}


def test_rows_may_end_at_different_positions(backend):
    texts = prompts()
    free = one_by_one(backend, texts, stop=False)
    backend.ends = {free[0][0], free[3][4], free[5][7]}  # one row ends at its first token
    expected = one_by_one(backend, texts)
    lengths = {len(t) for t in expected}
    assert 0 in lengths and len(lengths) >= 3
    for backend.slots in (1, 3, 6):
        found = rolling(backend, texts)
        assert [tokens for tokens, *_ in found] == expected
        ends = ["length" if len(t) == NEW else "end" for t in expected]
        assert [finish for _, _, finish, _ in found] == ends


def test_settled_rows_do_not_affect_the_others(backend, monkeypatch):
    texts = prompts()
    expected = one_by_one(backend, texts)
    plain = TransformersBackend.finish

    def finish(self, row):
        return "settled" if len(row.tokens) == 1 + int(row.request.task_id) else plain(self, row)

    monkeypatch.setattr(TransformersBackend, "finish", finish)
    for i, (tokens, _, why, _) in enumerate(rolling(backend, texts)):
        assert tokens == expected[i][: 1 + i]
        assert why == ("settled" if len(expected[i]) > i else "end")


def finishes(
    backend: TransformersBackend, text: str, whole: bool = False, most: int | None = None
) -> tuple[str, int]:
    """Feed a text to a row token by token; return its first finish and the number of tokens."""
    row = Row(Request("t", "p", "f", whole_answer=whole, max_new_tokens=most), [1])
    for n, token in enumerate(backend.tokenizer(text)["input_ids"], 1):
        row.tokens.append(token)
        if why := backend.finish(row):
            return why, n
    return "", 0


def test_a_row_settles_at_its_closing_fence(backend):
    backend.max_new_tokens = 1000
    fenced = "```python\ndef f(): return\n```\n"
    assert finishes(backend, fenced + "And more.") == ("settled", len(fenced))
    assert finishes(backend, fenced + "And more.", whole=True) == ("", 0)
    assert finishes(backend, "```python\ndef g(): pass\n```\n") == ("", 0)
    assert finishes(backend, "x" * 30 + "<|im_end|>") == ("end", 31)
    backend.max_new_tokens = 10
    assert finishes(backend, fenced) == ("length", 10)
    assert finishes(backend, fenced, most=4) == ("length", 4)
    assert finishes(backend, "x" * 30, most=20) == ("length", 20)


def test_a_row_settles_at_its_closing_tag(backend):
    """The tag arrives in the pieces that Llama's tokenizer splits it into."""
    pieces = ["[PYTHON]", "def f(): return\n", "[", "/", "PY", "TH", "ON", "]", "more"]

    class Pieces:
        def decode(self, tokens, **kwargs):
            return "".join(pieces[t] for t in tokens)

    backend.tokenizer, backend.ends = Pieces(), set()
    finish = [backend.finish(Row(Request("t", "p", "f"), [1], list(range(n)))) for n in range(1, 9)]
    assert finish == [""] * 7 + ["settled"]


def test_the_end_token_ends_a_row_even_if_it_is_the_unknown_token(tiny_model, tmp_path):
    """StarCoder2's tokenizer has one token for both. Otherwise every completion would reach the length limit."""
    folder = shutil.copytree(tiny_model, tmp_path / "same")
    about = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(
        json.dumps(about | {"unk_token": "<|endoftext|>"})
    )
    backend = TransformersBackend(folder, dtype=torch.float32)
    assert backend.tokenizer.unk_token_id == backend.tokenizer.eos_token_id
    assert backend.tokenizer.eos_token_id in backend.ends


def test_the_chat_template_encloses_the_prompt(backend):
    request = Request("", "hi", "f")
    ids = backend.prompt_ids(request)
    assert backend.tokenizer.decode(ids) == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant:"
    backend.chat = False
    assert backend.tokenizer.decode(backend.prompt_ids(request)) == "hi"


def test_a_prompt_of_several_turns(backend):
    ids = backend.prompt_ids(Request("", TURN.join(("code", "read", "task")), "f"))
    turns = "user\ncode<|im_end|>\n<|im_start|>assistant\nread<|im_end|>\n<|im_start|>user\ntask"
    assert backend.tokenizer.decode(ids) == f"<|im_start|>{turns}<|im_end|>\n<|im_start|>assistant:"


def test_accepts_equal_requests_and_no_requests(backend):
    assert rolling(backend, ["abc", "abc"])[0] == rolling(backend, ["abc", "abc"])[1]
    assert rolling(backend, []) == []


@pytest.mark.parametrize("window", [8, 4096])
def test_supports_models_with_a_sliding_window(backend, window):
    """StarCoder2 limits its attention to a window. Its caches must stay correct when rows leave."""
    from transformers import Starcoder2Config, Starcoder2ForCausalLM

    shape = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    ids = {"bos_token_id": 0, "eos_token_id": 256}
    torch.manual_seed(1)
    config = Starcoder2Config(
        vocab_size=259,
        intermediate_size=64,
        initializer_range=0.5,
        sliding_window=window,
        **shape,
        **ids,
    )
    backend.model, backend.slots = Starcoder2ForCausalLM(config).eval(), 3
    texts = prompts()
    backend.ends = {
        tokens[4 + i] for i, tokens in enumerate(one_by_one(backend, texts, stop=False)[:4])
    }
    assert [tokens for tokens, *_ in rolling(backend, texts)] == one_by_one(backend, texts)


def test_weights_that_cannot_be_loaded_are_a_user_error(tmp_path):
    with pytest.raises(UserError, match="cannot be loaded"):
        TransformersBackend(tmp_path)


def test_samples_come_from_the_nucleus_of_transformers():
    logits = torch.tensor([[2.0, 1.0, 0.5, -1.0, 1.0], [0.0, 0.0, 0.0, 0.0, 9.0]])
    draws = torch.arange(0, 1, 1 / 4096)
    for temperature, top_p in ((0.8, 0.95), (1.0, 1.0), (0.2, 0.5), (1.5, 0.8)):
        warped = TopPLogitsWarper(top_p)(
            None, TemperatureLogitsWarper(temperature)(None, logits)
        ).softmax(-1)
        for row, expected in zip(logits, warped, strict=True):
            tokens = backends.sampled(row.expand(len(draws), -1), draws, temperature, top_p)
            share = torch.bincount(tokens, minlength=5) / len(draws)
            assert share.tolist() == pytest.approx(expected.tolist(), abs=2e-3)
            assert not share[expected == 0].any()


def test_a_sample_depends_only_on_its_prompt_and_number(backend):
    texts = prompts(4)
    requests = [Request(f"{i}-{k}", t, "f", k) for i, t in enumerate(texts) for k in range(3)]
    runs = []
    for backend.slots, asked in ((1, requests), (5, requests[::-1]), (64, requests[3:])):
        tokens: dict[str, list[int]] = {}
        keep = lambda row, *_, tokens=tokens: tokens.update({row.request.task_id: row.tokens})  # noqa: E731
        backend.generate(asked, keep, temperature=0.9)
        runs.append(tokens)
    assert runs[0] == runs[1] == {**runs[0], **runs[2]}
    samples = (
        {tuple(runs[0][f"{i}-{k}"]) for k in range(3)} for i in range(4) if len(texts[i]) > 1
    )
    assert {len(different) for different in samples} == {3}


def test_near_samples_contain_the_sampled_token_and_few_others(backend):
    request, tokens = Request("0", prompts(1)[0], "f", 1), {}
    backend.generate([request], lambda row, *_: tokens.update(all=row.tokens), temperature=0.9)
    for at, token in enumerate(tokens["all"]):
        near = backend.near_samples(request, tokens["all"][:at], 0.9, 1.0)
        assert token in near and len(near) < 20  # of 259 tokens in the vocabulary
    firsts = [
        backend.near_samples(Request("0", request.text, "f", n), [], 0.9, 1.0) for n in (1, 2, 3)
    ]
    assert not set.intersection(*firsts)  # other sample numbers give other tokens


def test_a_draft_in_reasoning_opened_by_the_template_does_not_settle(backend):
    draft = "```python\ndef f(): return\n```\n"
    backend.tokenizer.chat_template += "<think>\n"
    backend.generate([Request("0", "p", "f")], lambda *_: None)
    backend.max_new_tokens = 1000
    assert finishes(backend, draft) == ("", 0)
    assert finishes(backend, f"{draft}</think>{draft}") == (
        "settled",
        len(f"{draft}</think>{draft}"),
    )
