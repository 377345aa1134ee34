"""Test that each response body of a real or hostile server is either an answer or a reported fault."""

from __future__ import annotations

import base64
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from endpoint_stub import Stub

from pkg_lib.core import limits
from pkg_lib.core.endpoints import Endpoint
from pkg_lib.core.types import Request, UserError
from pkg_lib.generation import remote
from pkg_lib.generation.responses import (
    InvalidResponseError,
    answer_bytes,
    read_answer,
    read_embeddings,
    response_bytes,
)

DATA = Path(__file__).parents[1] / "data" / "responses"
CODE = "def f():\n    return 1\n"
USAGE = {"prompt_tokens": 5, "completion_tokens": 7}
MOST = 512
BIG = answer_bytes(MOST)


def chat(content=CODE, finish="stop", *, usage=USAGE, message=None, choice=None, **more) -> bytes:
    """Return a body of /chat/completions."""
    said = {"role": "assistant", "content": content} if message is None else message
    first = {"index": 0, "finish_reason": finish, "message": said} | (choice or {})
    return json.dumps({"id": "x", "model": "m", "choices": [first], "usage": usage} | more).encode()


def without(body: bytes, *path: str | int) -> bytes:
    """Return a body without one field."""
    value = inner = json.loads(body)
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    return json.dumps(value).encode()


def parts(*of) -> bytes:
    return chat([*of])


def text_part(text, kind="text"):
    return {"type": kind, "text": text}


THINKING = {"type": "thinking", "thinking": [text_part("hm")]}
ERROR = {"message": "the model is overloaded", "code": 503}
RAW = b'{"choices": [{"finish_reason": "stop", "message": {"content": "x"}}], "z": %s}'

LIKELY = {"token": "x", "logprob": -0.123456789, "bytes": [120, 121, 122]}


def choice(content, index):
    return {"index": index, "finish_reason": "stop", "message": {"content": content}}


# Body -> the text of the answer.
ANSWERS = {
    "plain": (chat(), CODE),
    "empty": (chat(""), ""),
    "content null": (chat(None), ""),
    "content missing (Gemini)": (chat(message={"role": "assistant"}), ""),
    "role missing": (chat(message={"content": CODE}), CODE),
    "refused in its own field": (chat(None, message={"content": None, "refusal": "no"}), ""),
    "refused in a part": (parts({"type": "refusal", "refusal": "no"}), ""),
    "content filter with half a text": (chat("half", "content_filter"), "half"),
    "cut": (chat("half", "length"), "half"),
    "cut (Mistral)": (chat("half", "model_length"), "half"),
    "STOP in capitals (Gemini)": (chat(finish="STOP"), CODE),
    "MAX_TOKENS in capitals": (chat(finish="MAX_TOKENS"), CODE),
    "eos_token (TGI)": (chat(finish="eos_token"), CODE),
    "eos (Together)": (chat(finish="eos"), CODE),
    "stop_sequence": (chat(finish="stop_sequence"), CODE),
    "COMPLETE (Cohere)": (chat(finish="COMPLETE"), CODE),
    "tool_calls without text": (chat(None, "tool_calls"), ""),
    "reasoning_content (vLLM)": (
        chat(message={"content": CODE, "reasoning_content": "draft"}),
        CODE,
    ),
    "reasoning (OpenRouter)": (chat(message={"content": CODE, "reasoning": "draft"}), CODE),
    "reasoning alone": (chat(message={"content": None, "reasoning_content": "draft"}), ""),
    "parts": (parts(text_part("a"), text_part("b")), "ab"),
    "parts with thinking": (parts(THINKING, text_part(CODE)), CODE),
    "parts with reasoning that has a text": (
        parts(text_part("draft", "reasoning"), text_part("b")),
        "b",
    ),
    "parts that are strings": (parts("a", "b"), "ab"),
    "parts without a type": (parts({"text": "a"}), "a"),
    "output_text": (parts(text_part("a", "output_text")), "a"),
    "no parts": (parts(), ""),
    "NUL": (chat("a\x00b"), "a\x00b"),
    "a lone surrogate": (chat("a\ud800b"), "a\ud800b"),
    "carriage returns and trailing blanks": (chat(" a\r\n \t\n"), " a\r\n \t\n"),
    "a byte order mark": (b"\xef\xbb\xbf" + chat(), CODE),
    "blanks before the body": (b" \n" * 500 + chat(), CODE),
    "unknown fields": (chat(created="yesterday", object=[], service_tier={}), CODE),
    "a date in the year 999999": (chat(created=31494784780800), CODE),
    "an error that is null": (chat(error=None), CODE),
    "an id that is a number": (chat(id=7), CODE),
    "an id that is a list": (chat(id=[1]), CODE),
    "an id of 100,000 characters": (chat(id="i" * 100_000), CODE),
    "log probabilities": (
        chat(choice={"logprobs": {"content": [{"logprob": -9999.0}] * 500}}),
        CODE,
    ),
    "two choices": (
        chat(choices=[*json.loads(chat("a"))["choices"], *json.loads(chat("b"))["choices"]]),
        "a",
    ),
    "choices in another order": (chat(choices=[choice("b", 1), choice("a", 0)]), "a"),
    "choices that count from 1": (chat(choices=[choice("a", 1), choice("b", 2)]), "a"),
    "a second choice that is broken": (chat(choices=[choice("a", 0), {"index": 1}, None]), "a"),
    "an index that is no number": (chat(choices=[choice("a", "x"), choice("b", [])]), "a"),
    "20 log probabilities for each token": (
        chat(
            choice={"logprobs": {"content": [{"token": "x", "top_logprobs": [LIKELY] * 20}] * MOST}}
        ),
        CODE,
    ),
    "a text of brackets alone": (chat("[" * BIG), "[" * BIG),
    "the longest text": (chat("x" * BIG), "x" * BIG),
    "nested, but not too deep": (RAW % (b"[" * 200 + b"]" * 200), "x"),
    "usage missing": (without(chat(), "usage"), CODE),
    "usage null": (chat(usage=None), CODE),
    "usage a list": (chat(usage=[]), CODE),
}

FAULTS = {
    "finish abort": chat(finish="abort"),
    "finish error": chat(finish="error"),
    "finish null": chat(finish=None),
    "finish missing": without(chat(), "choices", 0, "finish_reason"),
    "finish empty": chat(finish=""),
    "finish unknown": chat(finish="whatever"),
    "finish cancelled": chat(finish="cancelled"),
    "finish load (Ollama)": chat(finish="load"),
    "finish pause_turn": chat(finish="pause_turn"),
    "finish insufficient_system_resource (DeepSeek)": chat(finish="insufficient_system_resource"),
    "finish a number": chat(finish=1),
    "error in a 200": json.dumps({"error": ERROR}).encode(),
    "error as text": json.dumps({"error": "overloaded"}).encode(),
    "error beside choices": chat(error=ERROR),
    "error inside the choice (OpenRouter)": chat("half", choice={"error": ERROR}),
    "object error (vLLM)": json.dumps({"object": "error", "message": "no", "code": 400}).encode(),
    "type error (Anthropic)": json.dumps({"type": "error", "error": ERROR}).encode(),
    "detail (FastAPI)": json.dumps({"detail": [{"msg": "no"}]}).encode(),
    "message alone (a gateway)": json.dumps({"message": "no healthy upstream"}).encode(),
    "message null": chat(choice={"message": None}),
    "message missing": without(chat(), "choices", 0, "message"),
    "message a text": chat(choice={"message": "x"}),
    "content a number": chat(7),
    "content true": chat(True),
    "content an object": chat({"a": 1}),
    "a part whose text is a number": parts(text_part(7)),
    "a part whose text is missing": parts({"type": "text"}),
    "a part that is a number": parts(7),
    "more parts than are read": parts(*[{"type": "x"}] * (limits.MAX_PARTS + 1)),
    "an error in the choice with index 0": chat(
        choices=[choice("b", 1), choice("a", 0) | {"error": ERROR}]
    ),
    "choices empty": chat(choices=[]),
    "choices missing": without(chat(), "choices"),
    "choices null": chat(choices=None),
    "choices an object": chat(choices={}),
    "a choice that is null": chat(choices=[None]),
    "a continuation where a message was asked for": json.dumps(
        {"choices": [{"text": CODE, "finish_reason": "stop"}]}
    ).encode(),
    "a list": b"[]",
    "null": b"null",
    "a number": b"7",
    "a text": b'"x"',
    "an empty object": b"{}",
    "nothing": b"",
    "blanks": b"  ",
    "HTML": b"<html>hi</html>",
    "a stream": b'data: {"choices": [{"delta": {"content": "x"}}]}\n\ndata: [DONE]\n',
    "two objects": chat() * 2,
    "cut in the middle": chat()[:-30],
    "not UTF-8": b"\xff\xfe\x00",
    "NaN": RAW % b"NaN",
    "Infinity": RAW % b"-Infinity",
    "a number beyond floats": RAW % b"1e999",
    "a number of 10,000 digits": RAW % (b"1" * 10_000),
    "nested 900 times": RAW % (b"[" * 900 + b"]" * 900),
    "objects nested 900 times": RAW % (b'{"a":' * 900 + b"1" + b"}" * 900),
    "nested 200,000 times": b"[" * 200_000 + b"]" * 200_000,
    "a text that is too long": chat("x" * (BIG + 1)),
    "a text that is too long as UTF-8": chat("\U0001f600" * (BIG // 4 + 1)),
    "parts that are too long together": parts(*[text_part("x" * 1000)] * (BIG // 1000 + 1)),
    "a body that is too large": chat(pad="x" * response_bytes(MOST)),
    "e20": (DATA / "e20_finish_abort.json").read_bytes(),
}


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("openai")
    with Stub() as stub:
        yield stub


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.005)


def ask(server: Stub, body: bytes, api="openai", **fields) -> remote.Reply:
    """Return what the backend reads from a body; raise UserError for a fault."""
    server.rule = lambda _: body
    url = server.url if api == "openai" else server.url.removesuffix("/v1")
    fields = {"retries": 0, "concurrency": 1, "timeout": 20.0} | fields
    endpoint = Endpoint("stub", url, "m", api=api, **fields)
    replies: list[remote.Reply] = []
    backend = remote.RemoteBackend(endpoint, True, MOST, lambda: (0, 0))
    backend.generate(
        [Request("HumanEval/0", "write f " * 10, "f")], lambda reply, *_: replies.append(reply)
    )
    return replies[0]


@pytest.mark.parametrize("name", ANSWERS)
def test_answers(name, server):
    body, text = ANSWERS[name]
    assert ask(server, body).raw == text


@pytest.mark.parametrize("name", FAULTS)
def test_faults(name, server):
    with pytest.raises(UserError) as fault:
        ask(server, FAULTS[name])
    line = str(fault.value)
    assert line.isprintable() and len(line) < 700


# Body -> text in the message of its fault.
TOLD = {
    "message missing": "choices.message is missing",
    "message a text": "choices.message holds 'x'",
    "message null": "choices.message holds null",
    "content a number": "choices.message.content holds 7",
    "content an object": "choices.message.content holds an object",
    "a part that is a number": "choices.message.content holds a list",
    "choices empty": "choices holds a list of 0",
    "choices null": "choices holds null",
    "a choice that is null": "choices holds null",
    "finish a number": "choices.finish_reason holds 1",
    "finish null": "no finish reason",
    "finish missing": "no finish reason",
    "finish empty": "no finish reason",
    "finish abort": "'abort'",
}


@pytest.mark.parametrize("name", TOLD)
def test_a_fault_reports_the_field_and_its_value(name, server):
    with pytest.raises(UserError) as fault:
        ask(server, FAULTS[name])
    assert TOLD[name] in str(fault.value)


def test_retries_a_fault_and_reports_the_servers_message(server):
    asked = len(server.seen)
    with pytest.raises(UserError, match="overloaded"):
        ask(server, FAULTS["error in a 200"], retries=2)
    assert len(server.seen) - asked == 3


def test_records_the_finish_reason_and_the_servers_model_name(server):
    assert ask(server, ANSWERS["cut"][0]).finish == "length"
    assert ask(server, ANSWERS["MAX_TOKENS in capitals"][0]).finish == "length"
    assert ask(server, ANSWERS["plain"][0]).finish == "end"
    for name in ("refused in its own field", "refused in a part"):
        assert ask(server, ANSWERS[name][0]).about["refusal"] == "no"
    assert (
        ask(server, ANSWERS["content filter with half a text"][0]).about["refusal"]
        == "content_filter"
    )
    about = ask(server, chat(model="m\x1b[31m\ud800" + "x" * 10**5, id={"a": 1})).about
    assert about["server_model"].isprintable() and len(about["server_model"]) <= limits.MAX_LABEL
    assert "id" not in about


# Counts of prompt and new tokens -> whether they are recorded.
COUNTS = [
    (5, 7, True),
    (5.0, 7.0, True),
    (80, 512, True),
    (5, 512 + 1000, False),
    (10**9, 7, False),
    (-(10**9), 7, False),
    (5, -5, False),
    (5, 3 * 10**8, False),
    (5, 10**15, False),
    (5, 10**25, False),
    (5, 1e25, False),
    (5, 7.5, False),
    (5, 0, False),
    (0, 7, False),
    (5, "7", False),
    (5, True, False),
    (5, None, False),
    (None, None, False),
    (5, [7], False),
]


@pytest.mark.parametrize(("prompt", "new", "recorded"), COUNTS)
def test_records_only_plausible_token_counts(prompt, new, recorded, server):
    reply = ask(server, chat(usage={"prompt_tokens": prompt, "completion_tokens": new}))
    assert reply.raw == CODE and ("usage" in reply.about) is recorded
    assert (reply.prompt_tokens, len(reply.tokens)) == (
        (int(prompt), int(new)) if recorded else (0, 0)
    )


@pytest.mark.parametrize("usage", [{"prompt_tokens": -(10**9), "completion_tokens": -5}, None, {}])
def test_implausible_token_counts_end_a_run_with_a_budget(server, usage):
    asked = len(server.seen)
    server.rule = lambda _: chat(usage=usage)
    endpoint = Endpoint("stub", server.url, "m", retries=0, concurrency=1, budget={"tokens": 10**6})
    backend = remote.RemoteBackend(endpoint, True, MOST, lambda: (0, 0))
    requests = [Request(f"HumanEval/{n}", f"write f{n}", "f") for n in range(3)]
    kept = []
    with pytest.raises(UserError, match="budget"):
        backend.generate(requests, lambda reply, *_: kept.append(reply))
    assert len(kept) == 1 == len(server.seen) - asked


def test_hidden_reasoning_counts_up_to_the_limit_of_the_request(server):
    body = chat("x", usage={"prompt_tokens": 5, "completion_tokens": 9000})
    assert "usage" not in ask(server, body).about
    allowed = ask(server, body, omit=("max_tokens",), extra={"max_completion_tokens": 10_000})
    assert allowed.about["usage"]["new_tokens"] == 9000


@pytest.mark.parametrize("name", ["e18_nul.json", "e19_content_parts.json"])
def test_stores_inputs_as_sent(name, server):
    body = (DATA / name).read_bytes()
    content = json.loads(body)["choices"][0]["message"]["content"]
    sent = content if isinstance(content, str) else content[-1]["text"]
    assert ask(server, body).raw == sent and "has_close_elements" in sent


def test_replaces_only_the_key_itself(server, monkeypatch):
    key = "sk-a/b\"c'0123456789"
    monkeypatch.setenv("STUB_KEY", key)
    assert (
        ask(server, chat(f"<{key}> {key[:-1]} sk-a"), key="STUB_KEY").raw
        == f"<***> {key[:-1]} sk-a"
    )
    assert ask(server, chat("a\x00***"), key="STUB_KEY").raw == "a\x00***"
    for told in (key, json.dumps(key).replace("/", "\\/")):
        with pytest.raises(UserError) as fault:
            ask(server, json.dumps({"error": f"bad {told}"}).encode(), key="STUB_KEY")
        assert "***" in str(fault.value) and "0123456789" not in str(fault.value)


@pytest.mark.parametrize("key", ["a", "\0", "1234567", "e"])
def test_rejects_a_key_that_may_occur_in_any_text(key, monkeypatch):
    monkeypatch.setattr(os, "environ", {"STUB_KEY": key})
    with pytest.raises(UserError, match="STUB_KEY"):
        remote.RemoteBackend(
            Endpoint("stub", "http://h/v1", "m", key="STUB_KEY"), True, 1, lambda: (0, 0)
        )


def message(content, stop="end_turn", **more) -> bytes:
    """Return a body of Anthropic's /messages."""
    usage = {"input_tokens": 5, "output_tokens": 7}
    about = {"id": "x", "type": "message", "role": "assistant", "model": "m", "usage": usage}
    return json.dumps(about | {"content": content, "stop_reason": stop} | more).encode()


MESSAGES = {
    "text": (message([text_part(CODE)]), CODE),
    "thinking": (
        message([{"type": "thinking", "thinking": "hm", "signature": "s"}, text_part(CODE)]),
        CODE,
    ),
    "redacted thinking": (
        message([{"type": "redacted_thinking", "data": "x"}, text_part("a")]),
        "a",
    ),
    "no blocks": (message([]), ""),
    "a refusal": (message([], "refusal"), ""),
    "a tool": (
        message([{"type": "tool_use", "id": "t", "name": "n", "input": {}}], "tool_use"),
        "",
    ),
    "cut": (message([text_part("a")], "max_tokens"), "a"),
    "window": (message([text_part("a")], "model_context_window_exceeded"), "a"),
    "stop sequence": (message([text_part("a")], "stop_sequence"), "a"),
    "pause": (message([text_part("a")], "pause_turn"), None),
    "no reason": (message([text_part("a")], None), None),
    "content null": (message(None), None),
    "an error": (json.dumps({"type": "error", "error": ERROR}).encode(), None),
    "an answer of the other API": (chat(), None),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages(name, server):
    pytest.importorskip("anthropic")
    body, text = MESSAGES[name]
    if text is None:
        with pytest.raises(UserError):
            ask(server, body, "anthropic")
    else:
        reply = ask(server, body, "anthropic")
        assert reply.raw == text and (reply.prompt_tokens == 5 or not text or text == "a")


def test_the_text_of_a_continuation():
    def read(choice):
        body = json.dumps({"choices": [{"finish_reason": "stop"} | choice]}).encode()
        return read_answer(body, "openai", False, "p", MOST).text

    assert read({"text": CODE}) == CODE and read({"text": None}) == ""
    for choice in (
        {},
        {"text": 7},
        {"message": {"content": CODE}},
        {"text": "a", "finish_reason": "abort"},
    ):
        with pytest.raises(InvalidResponseError):
            read(choice)


def vectors(*rows, **more) -> bytes:
    data = [{"index": n, "embedding": row} for n, row in enumerate(rows)]
    return json.dumps({"data": data} | more).encode()


def packed(*numbers: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def test_embeddings_are_one_vector_for_each_text():
    np.testing.assert_allclose(read_embeddings(vectors([3, 4], [0.0, 2]), 2), [[0.6, 0.8], [0, 1]])
    np.testing.assert_allclose(read_embeddings(vectors(packed(3, 4)), 1), [[0.6, 0.8]])
    for numbers in ([3e30, 4e30], [3e-30, 4e-30], [3e100, 4e100], packed(3e38, 4e37)):
        (vector,) = read_embeddings(vectors(numbers), 1)
        assert vector.dtype == np.float32 and np.linalg.norm(vector) == pytest.approx(1)
    without_index = b'{"data": [{"embedding": [0, 2]}, {"embedding": [3, 0]}]}'
    np.testing.assert_allclose(read_embeddings(without_index, 2), [[0, 1], [1, 0]])
    swapped = b'{"data": [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0]}]}'
    np.testing.assert_allclose(read_embeddings(swapped, 2), [[1, 0], [0, 1]])


BROKEN_VECTORS = {
    "too few": vectors([1, 0]),
    "too many": vectors([1, 0], [1, 0], [1, 0]),
    "none": vectors(),
    "one index twice": b'{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}',
    "a negative index": b'{"data": [{"index": -1, "embedding": [1]}, {"index": 0, "embedding": [1]}]}',
    "other lengths": vectors([1, 0], [1, 0, 0]),
    "empty": vectors([], []),
    "without a direction": vectors([0, 0], [1, 0]),
    "an index beyond the texts": b'{"data": [{"index": 2, "embedding": [1]}, {"index": 0, "embedding": [1]}]}',
    "an index that is a text": b'{"data": [{"index": "1", "embedding": [1]}, {"index": 0, "embedding": [1]}]}',
    "numbers as texts": vectors(["1", "2"], [1, 0]),
    "true": vectors([True, False], [1, 0]),
    "nested": vectors([[1, 0]], [[1, 0]]),
    "a number of 400 digits": vectors([10**400, 0], [1, 0]),
    "an object": vectors({"0": 1}, [1, 0]),
    "a number": vectors(7, [1, 0]),
    "elements that are null": b'{"data": [null, null]}',
    "data null": b'{"data": null}',
    "data an object": b'{"data": {"0": [1], "1": [1]}}',
    "beyond the squares of float64": vectors([1e300, 0], [1, 0]),
    "NaN": vectors([float("nan"), 0], [1, 0]),
    "texts": vectors(["a", "b"], [1, 0]),
    "null": vectors(None, [1, 0]),
    "not base64": vectors("!!!", packed(1, 0)),
    "half a number": vectors(base64.b64encode(b"abc").decode(), packed(1, 0)),
    "NaN in base64": vectors(packed(float("nan"), 0), packed(1, 0)),
    "too many numbers": vectors(
        [1] * (limits.MAX_DIMENSIONS + 1), [1] * (limits.MAX_DIMENSIONS + 1)
    ),
    "an error": json.dumps({"error": ERROR}).encode(),
    "no data": b"{}",
}


@pytest.mark.parametrize("name", BROKEN_VECTORS)
def test_broken_embeddings(name):
    with pytest.raises(InvalidResponseError):
        read_embeddings(BROKEN_VECTORS[name], 2)


def test_stored_answers_can_be_read_again():
    most = limits.MAX_ANSWER_BYTES
    assert 6 * most + 4 * (most + 10**4) + 2**20 < limits.MAX_ROW_BYTES
    assert response_bytes(10**9) == limits.MAX_RESPONSE_BYTES and answer_bytes(10**9) == most


READ = """
import resource, sys, time
from pkg_lib.core import limits
from pkg_lib.generation.responses import InvalidResponseError, answer_elements, read_answer, read_embeddings, response_bytes
before, unit, after, tokens, fill, count = sys.argv[1:]
before, unit, after = before.encode(), unit.encode(), after.encode()
units = (response_bytes(int(tokens)) - len(before) - len(after)) // len(unit)
if fill == "elements":  # as many as the parser accepts
    most = limits.MAX_ELEMENTS if int(count) else answer_elements(int(tokens))
    units = min(units, (most - 20) // sum(unit.count(c) for c in b"[{,"))
body = before + unit * (units - 1) + unit.rstrip(b",") + after
began = time.process_time()
try:
    read_embeddings(body, int(count)) if int(count) else read_answer(body, "openai", True, "p", int(tokens))
    ended = "answer"
except InvalidResponseError as e:
    ended = str(e) if len(str(e)) < 2000 else "long"
seconds = time.process_time() - began
peak = open("/proc/self/status").read().split("VmHWM:")[1].split()[0]  # ru_maxrss includes the parent
print(int(peak) / 1024, seconds, ended)
"""
SAID = '{"choices":[{"finish_reason":"stop","message":{"content":['
CROWDED = {
    "parts that are empty": (SAID, "{},", "]}}]}"),
    "parts that are texts": (SAID, '"",', "]}}]}"),
    "parts of an unknown type": (SAID, '{"type":"x"},', "]}}]}"),
    "parts that are numbers": (SAID, "1,", "]}}]}"),
    "choices that are empty": ('{"choices":[', "{},", "]}"),
    "choices that are lists": ('{"choices":[', "[[]],", "]}"),
    "choices without a content": ('{"choices":[', '{"message":{}},', "]}"),
    "nested objects": ('{"choices":[],"z":[', '{"a":{"a":{"a":{"a":{}}}}},', "]}"),
    "nested lists": ('{"choices":[],"z":[', "[" * 250 + "]" * 250 + ",", "]}"),
    "an error": ('{"error":[', "{},", "]}"),
    "vectors that are empty": ('{"data":[', '{"embedding":[]},', "]}"),
    "a vector of texts": ('{"data":[{"embedding":[', '"",', "]}]}"),
    "a vector of objects": ('{"data":[{"embedding":[', '{"a":1},', "]}]}"),
    "a vector of numbers": ('{"data":[{"embedding":[', "0.5,", "]}]}"),
}


@pytest.mark.parametrize("fill", ["bytes", "elements"])
@pytest.mark.parametrize("tokens", [MOST, 2**17])
@pytest.mark.parametrize("name", CROWDED)
def test_a_body_of_many_small_values_takes_little_memory_and_time(name, tokens, fill):
    count = 4 if "vector" in name else 0
    command = [sys.executable, "-P", "-c", READ, *CROWDED[name], str(tokens), fill, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    megabytes, seconds, ended = done.stdout.split(maxsplit=2)
    assert float(megabytes) < 700 and float(seconds) < 10
    assert ended.strip() not in ("answer", "long")
