"""The `llm` structurer with a made-up model: validation, bounded retries, rejection, resuming."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pkg_lib.core.types import Document
from pkg_lib.generation.cache import GenerationCache
from pkg_lib.graph.text.llm import AGAIN, LLM, json_part

DOCUMENTS = [
    Document(f"d/{n}", f"Title {n}\n=======\n\nText {n} with {{braces}}.\n", "rst")
    for n in ("good", "late", "never")
]
ANSWERS = {
    "d/good": ['```json\n{"Title good": {"explanation": "Text"}}\n```'],
    "d/late": [
        "Sure! Here is",
        '{"a": 1, "a": 2}',
        'Here: {"Title late": {"examples": [{"code": "x = 1\\n"}]}} Done.',
    ],
    "d/never": ['{"a": [1, 2', '{"a": NaN}', "[1, 2]"],
}


class Fake:
    """Answers each document's prompts in turn; `stop` makes it fail after so many."""

    def __init__(self, answers=ANSWERS, stop: int = 10**9) -> None:
        self.answers, self.stop = {k: list(v) for k, v in answers.items()}, stop
        self.requests = []

    def generate(self, requests, done):
        for request in requests:
            if len(self.requests) == self.stop:
                raise KeyboardInterrupt
            self.requests.append(request)
            raw = self.answers[request.task_id].pop(0)
            finish = "length" if raw == '{"a": [1, 2' else "end"
            done(SimpleNamespace(request=request, tokens=[1, 2, 3], prompt_tokens=7), raw, finish)


def llm(tmp_path, backend) -> LLM:
    return LLM(backend.generate, GenerationCache(tmp_path), "made-up")


def test_invalid_then_valid(tmp_path):
    backend = Fake()
    structurer = llm(tmp_path, backend)
    good, late, never = structurer.structure(DOCUMENTS)
    assert (good.value, good.attempts) == ({"Title good": {"explanation": "Text"}}, 1)
    assert (late.value, late.attempts) == ({"Title late": {"examples": [{"code": "x = 1\n"}]}}, 3)
    assert (never.value, never.reason, never.attempts) == (None, "no object: list", 3)
    assert structurer.asked == len(backend.requests) == 7
    assert [a.meta["attempt"] for a in structurer.answers["d/late"]] == [1, 2, 3]


def test_a_retry_says_what_was_wrong(tmp_path):
    backend = Fake()
    llm(tmp_path, backend).structure(DOCUMENTS)
    prompts = [r.text for r in backend.requests if r.task_id == "d/never"]
    assert AGAIN.format(reason="cut off: after 11 characters") in prompts[1] and "cut off" not in prompts[2]
    assert AGAIN.format(reason="not a number: NaN") in prompts[2]
    assert all("Text never with {braces}." in p and "{{" not in p for p in prompts)
    assert len(set(prompts)) == 3


@pytest.mark.parametrize("stop", range(7))
def test_a_stopped_run_goes_on(tmp_path, stop):
    first = Fake(stop=stop)
    with pytest.raises(KeyboardInterrupt):
        llm(tmp_path, first).structure(DOCUMENTS)
    rest = {k: v[sum(r.task_id == k for r in first.requests) :] for k, v in ANSWERS.items()}
    second = Fake(rest)
    structurer = llm(tmp_path, second)
    assert structurer.structure(DOCUMENTS) == llm(tmp_path / "other", Fake()).structure(DOCUMENTS)
    assert len(second.requests) == structurer.asked == 7 - stop
    assert llm(tmp_path, Fake({})).structure(DOCUMENTS) == structurer.structure(
        DOCUMENTS
    )  # everything is stored


def test_another_model_revision_style_or_text_asks_again(tmp_path):
    cache, backend = GenerationCache(tmp_path), Fake({"d/good": ANSWERS["d/good"] * 6})
    same = Document("d/good", "other text", "rst")
    asked = [({}, DOCUMENTS[0]), ({}, DOCUMENTS[0]), ({"revision": "2"}, DOCUMENTS[0]), ({}, same)]
    for options, document in [*asked, ({"style": "codellama"}, same)]:
        LLM(backend.generate, cache, "made-up", **options).structure([document])
    assert len(backend.requests) == 4


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ('  {"a": 1} hope this helps', '{"a": 1}'),
        ('```json\n{"a": "```"}\n```', '{"a": "```"}'),
        ('```\n{"a": 1}\n```\nand', '{"a": 1}'),
        ('So {"a": {"b": 1}}.', '{"a": {"b": 1}}'),
        ("{", "{"),
        ("nothing", "nothing"),
        ("", ""),
    ],
)
def test_json_part(raw, expected):
    assert json_part(raw) == expected
