"""Test the way from a prompt to a solution through the public functions, with a fake backend."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from pkg_lib.core.models import model_spec
from pkg_lib.core.types import Context, Task, UserError
from pkg_lib.generation.completion import Completion
from pkg_lib.generation.extraction import extract_solution
from pkg_lib.generation.generator import GREEDY, Sampling, generate
from pkg_lib.generation.prompts import TURN, build_prompt

MODEL = "qwen2.5-coder-0.5b-instruct"
CODE = "def f(x):\n    return x\n"
TASK = Task("T/0", "toy", 'def f(x):\n    """Return x."""\n', "f", "", "")


class Echo:
    """A backend that answers each request with a fenced function and counts the requests."""

    def __init__(self) -> None:
        self.requests = []

    def generate(self, requests, done, **sampling):
        for request in requests:
            self.requests.append((request, sampling))
            row = SimpleNamespace(request=request, tokens=[1, 2], prompt_tokens=3)
            done(row, f"```python\n{CODE}```\n", "end")


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))


def test_a_prompt_contains_the_messages_as_sent():
    prompt = build_prompt(TASK, "x = 1", "chat")
    (message,) = prompt.messages
    assert message == {"role": "user", "content": prompt.text}
    assert TASK.prompt in prompt.text and "x = 1" in prompt.text
    earlier = build_prompt(TASK, "x = 1", "chat, earlier turn")
    assert [m["role"] for m in earlier.messages] == ["user", "assistant", "user"]
    assert TURN.join(m["content"] for m in earlier.messages) == earlier.text


def test_a_context_may_be_an_object():
    context = Context(TASK.id, "BM25", "x = 1")
    assert build_prompt(TASK, context, "plain") == build_prompt(TASK, "x = 1", "plain")
    with pytest.raises(UserError, match="T/0"):
        build_prompt(TASK, replace(context, text=None), "plain")
    with pytest.raises(UserError, match="nosuch"):
        build_prompt(TASK, "", "nosuch")


def test_each_prompt_is_completed_once_and_in_order():
    prompts = [build_prompt(replace(TASK, id=f"T/{n}"), f"x = {n}", "chat") for n in range(3)]
    backend = Echo()
    first = generate(MODEL, prompts, backend=backend)
    again = generate(MODEL, [*prompts[::-1], prompts[0]], backend=backend)
    assert [c.task_id for c in first] == ["T/0", "T/1", "T/2"]
    assert [c.task_id for c in again] == ["T/2", "T/1", "T/0", "T/0"]
    assert len(backend.requests) == 3
    assert (first[0].finish, first[0].prompt_tokens, first[0].new_tokens) == ("end", 3, 2)
    assert extract_solution(first[0], TASK) == CODE


def test_samples_are_stored_separately():
    prompt = build_prompt(TASK, "", "chat")
    backend = Echo()
    for sample in (1, 2, 1):
        generate(MODEL, [prompt], Sampling(0.8, 0.95, sample=sample), backend=backend)
    generate(MODEL, [prompt], backend=backend)
    asked = [(request.sample, sampling) for request, sampling in backend.requests]
    warm = {"temperature": 0.8, "top_p": 0.95}
    assert asked == [(1, warm), (2, warm), (0, {})]


def test_key_parameters_match_the_committed_study():
    greedy = {"max_new_tokens": 512, "do_sample": False, "dtype": "bfloat16", "stop": "settled"}
    assert GREEDY.parameters == greedy
    sampled = greedy | {"do_sample": True, "temperature": 0.8, "top_p": 0.95}
    assert Sampling(0.8, 0.95, sample=1).parameters == sampled


def test_a_solution_is_free_of_reasoning_and_ends_with_the_body():
    thinking = Completion(f"<think>\n{CODE}</think>\n```python\n{CODE}```\n", model_spec(MODEL))
    assert extract_solution(thinking, TASK) == CODE
    plain = Completion("    return x\n\nprint(f(1))\n", model_spec("hf:a/b#plain"))
    assert extract_solution(plain, TASK) == "    return x\n"
    assert extract_solution(CODE, TASK) == CODE
