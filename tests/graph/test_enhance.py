"""Docstrings filled in: where they go, what is taken, and that the function stays what it was."""

from __future__ import annotations

import ast
import json
import re
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from pkg_lib.core.types import Document, Request, Task, UserError, digest
from pkg_lib.generation.backends import TransformersBackend
from pkg_lib.graph.enhance import (
    FAMILIES,
    MAX_CHARS,
    Hole,
    Unfit,
    candidates,
    closed,
    enhanced_payloads,
    fim_of,
    hole,
    judge,
)
from pkg_lib.graph.schema import IMPL, build
from pkg_lib.papers.pkg import enhancer

QWEN = FAMILIES["qwen2.5-coder"]
MODEL = "qwen2.5-coder-0.5b-instruct"

PLACES = {
    "method": ("    def f(self):\n        return 1", '    def f(self):\n        """D."""\n        return 1'),
    "signature over lines": (
        "def f(\n    x,  # why\n    # and\n    y=(1,\n2),\n) -> int:\n    return x",
        'def f(\n    x,  # why\n    # and\n    y=(1,\n2),\n) -> int:\n    """D."""\n    return x',
    ),
    "one line": ("def f(): return 1", 'def f():\n    """D."""\n    return 1'),
    "one line with letters": ("def f(é='ü:'): return é", 'def f(é=\'ü:\'):\n    """D."""\n    return é'),
    "decorated": ("@a\n@b(1)\ndef f():\n    pass", '@a\n@b(1)\ndef f():\n    """D."""\n    pass'),
    "tabs": ("\tdef f(self):\n\t\treturn 1", '\tdef f(self):\n\t\t"""D."""\n\t\treturn 1'),
    "comment and gap": (
        "def f():  # c\n\n    # why\n    x",
        'def f():  # c\n    """D."""\n\n    # why\n    x',
    ),
    "decorated first statement": (
        "def f():\n    @a\n    def g(): pass",
        'def f():\n    """D."""\n    @a\n    def g(): pass',
    ),
    "string in column 0": (
        "    def f(self):\n        x = '''\na'''",
        "    def f(self):\n        \"\"\"D.\"\"\"\n        x = '''\na'''",
    ),
    "f-string first": ('def f():\n    f"{x}"', 'def f():\n    """D."""\n    f"{x}"'),
}


@pytest.mark.parametrize(("payload", "expected"), PLACES.values(), ids=PLACES)
def test_where_the_docstring_goes(payload, expected):
    assert hole(payload).fill("D.") == expected


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ('def f():\n    """D."""', "has a docstring"),
        ("def f(): 'D.'", "has a docstring"),
        ('def f():\n    """"""\n    return 1', "has a docstring"),
        ("def f():\n" + "    x = 1\n" * (MAX_CHARS // 9), "longer than 4000 characters"),
        ("def f():\n    return '<|fim_middle|>'", "holds a token of the model"),
        ("def f(): \\\n    return 1", "no place for a docstring"),
        ("def f(:", "does not parse"),
        ("x = 1", "more than one statement"),
        ("def f(): pass\nx = 1", "more than one statement"),
    ],
)
def test_functions_that_are_not_asked_for(payload, reason):
    with pytest.raises(Unfit, match=reason):
        hole(payload)


def check_same_code(h: Hole, docstring: str) -> None:
    def function(text: str) -> ast.FunctionDef:
        tree = ast.parse("if 1:\n" + text if text[:1].isspace() else text).body[0]
        return tree.body[0] if text[:1].isspace() else tree

    new, old = function(h.fill(docstring)), function(h.payload)
    assert ast.get_docstring(new, clean=False) == docstring and ast.get_docstring(old) is None
    del new.body[0]
    assert ast.dump(new) == ast.dump(old)


def test_functions_of_the_textbook(textbook):
    graph = textbook[1]
    found, skipped = candidates(graph)
    assert len(found) + sum(skipped.values()) == len(graph.of_type(IMPL))  # none is lost
    assert len(found) > 100 and set(skipped) == {"has a docstring", "same text as another"}
    for sha, (node, h) in found.items():
        assert digest(graph.payload(node)) == sha and h.payload == graph.payload(node)
        check_same_code(h, "Does it.")


def outcome(
    raw: str, finish: str = "end", payload: str = "def f(items):\n    return sum(items) / len(items)"
) -> str:
    try:
        return judge(hole(payload), raw, QWEN, finish)
    except Unfit as e:
        return f"rejected: {e}"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("The mean of the items.", "The mean of the items."),
        ('The mean."""\n    return 0', "The mean."),
        ("The mean.<|endoftext|>def g(): pass", "The mean."),
        ("\n    The mean.\n    ", "\n    The mean.\n    "),
        ("The mean.\n\n    :param items: numbers", "The mean.\n\n    :param items: numbers\n    "),
        ("Gives the 'mean'\n    >>> f([1])\n    1.0", "Gives the 'mean'\n    >>> f([1])\n    1.0\n    "),
        ('Gives the "mean"', 'Gives the "mean" '),
        ("", "rejected: empty"),
        (" \n\n ... 1", "rejected: empty"),
        ("TODO: write this", "rejected: a placeholder"),
        ('Gives the "mean', "rejected: quotes broken"),
        ("Ends in a backslash\\", "rejected: does not parse"),
        ("The mean.\n    return sum(items) / len(items)", "rejected: code leaked"),
        ("The mean.\n\n\ndef g(x):", "rejected: code leaked"),
        ("The mean.\n\nreturn  sum(items)\n    return sum(items) / len(items)\n", "rejected: code leaked"),
        ("print('mean', items)", "rejected: code leaked"),
        ("The mean.\n    raise NotImplementedError()", "rejected: code leaked"),
        ("The mean.\n    and\n    and\n    and", "rejected: repeats itself"),
    ],
)
def test_what_is_taken(raw, expected):
    assert outcome(raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("The mean of all. It is taken over the", "The mean of all."),
        ("The mean.\n    Parameters are\n    the it", "The mean.\n    Parameters are\n    "),
        ("The mean of all the", "rejected: no end"),
        ('The mean of all the"""', "The mean of all the"),
    ],
)
def test_a_text_that_ran_into_its_length_is_cut_back(raw, expected):
    assert outcome(raw, "length") == expected


def test_code_that_would_change_is_rejected():
    h = hole("def f():\n    return 1")
    with pytest.raises(Unfit, match="the code would change"):
        h.fill('D."""\n    x = 1\n    """E.')


def test_prompts():
    h = hole("def f():\n    return 1")
    assert (
        h.prompt(QWEN, "closed")
        == '<|fim_prefix|>def f():\n    """<|fim_suffix|>"""\n    return 1<|fim_middle|>'
    )
    assert (
        h.prompt(QWEN, "open") == '<|fim_prefix|>def f():\n    """<|fim_suffix|>\n    return 1<|fim_middle|>'
    )
    assert fim_of("starcoder2-7b").prompt("a", "b") == "<fim_prefix>a<fim_suffix>b<fim_middle>"
    with pytest.raises(UserError, match="no fill-in-the-middle tokens"):
        fim_of("codellama-7b-instruct")


# The run, on a corpus of one's own and a model that is a table.

SOURCES = {
    "a.py": "def mean(items):\n    return sum(items) / len(items)\n\n\ndef told():\n    'Told.'\n\n\ndef empty(): pass\n",
    "b.py": "class A:\n    def size(self):\n        return self.n\n",
    "c.py": "def mean(items):\n    return sum(items) / len(items)\n",
}
ANSWERS = {"mean": "The average of numbers.", "size": "How many bananas there are.", "empty": ""}


class Table:
    """Answers by function name; stops after `upto` answers as a killed run does."""

    def __init__(self, upto: int = 99) -> None:
        self.asked: list[str] = []
        self.upto = upto

    def generate(self, requests, done):
        for request in requests:
            name = re.search(r"def (\w+)", request.text)[1]
            if len(self.asked) == self.upto:
                raise KeyboardInterrupt
            self.asked.append(name)
            done(SimpleNamespace(request=request, tokens=[1, 2], prompt_tokens=9), ANSWERS[name], "end")


@pytest.fixture
def corpus(tmp_path) -> str:
    (tmp_path / "src").mkdir()
    for name, text in SOURCES.items():
        (tmp_path / "src" / name).write_text(text)
    return f"source:{tmp_path / 'src'}"


def test_a_run_and_its_log(corpus, tmp_path):
    log = enhancer.enhance(corpus, MODEL, 9, tmp_path, Table(), forms=("closed",))
    assert (log["asked"], log["accepted"], log["rejected"]) == (3, 2, {"empty": 1})
    assert (log["functions"], log["without_docstring"], log["tokens"], log["prompt_tokens"]) == (5, 3, 6, 27)
    assert log["not_asked"] == {"has a docstring": 1, "same text as another": 1}
    path = enhancer.rows_file(MODEL, corpus, tmp_path)
    stored = json.loads(path.with_suffix(".log.json").read_text())
    assert (
        stored["accepted"] == 2
        and stored["revision"].startswith("gguf-sha256-")
        and "torch" in stored["versions"]
    )
    assert {r["name"]: r["reason"] for r in enhancer.read_enhanced(path)} == {
        "mean": "",
        "size": "",
        "empty": "empty",
    }


def test_what_is_rejected_is_asked_in_the_next_form(corpus, tmp_path):
    table = Table()
    log = enhancer.enhance(corpus, MODEL, 9, tmp_path, table)
    assert sorted(table.asked) == ["empty", "empty", "mean", "size"] and table.asked[-1] == "empty"
    assert [log["by_form"][f]["asked"] for f in ("closed", "open")] == [3, 1]
    assert (log["asked"], log["accepted"], log["tokens"]) == (3, 2, 8)


def test_a_run_resumes(corpus, tmp_path):
    path = enhancer.rows_file(MODEL, corpus, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        enhancer.enhance(corpus, MODEL, 9, tmp_path, Table(upto=2), forms=("closed",))
    first = path.read_bytes()
    path.write_bytes(first[:-20])  # the last line torn
    table = Table()
    enhancer.enhance(corpus, MODEL, 9, tmp_path, table, forms=("closed",))
    assert len(table.asked) == 2 and path.read_bytes().startswith(first.splitlines(keepends=True)[0])
    assert len(enhancer.read_enhanced(path)) == 3 and len(path.read_bytes().splitlines()) == 3
    again = Table()
    enhancer.enhance(corpus, MODEL, 9, tmp_path, again, forms=("closed",))
    assert again.asked == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"count": 0}, "count is 0"),
        ({"forms": ("half",)}, "forms half"),
        ({"model": "none"}, "unknown model"),
        ({"model": "llama-3.1-8b-instruct"}, "no fill-in"),
    ],
)
def test_users_mistakes(corpus, tmp_path, wrong, message):
    with pytest.raises(UserError, match=message):
        enhancer.enhance(
            **{"corpus": corpus, "model": MODEL, "count": 1, "results": tmp_path, "backend": Table()} | wrong
        )


def graph_and_rows(corpus, tmp_path):
    enhancer.enhance(corpus, MODEL, 9, tmp_path, Table())
    graph = build([Document(name, text) for name, text in SOURCES.items()])
    return graph, enhancer.read_enhanced(enhancer.rows_file(MODEL, corpus, tmp_path))


def test_enhanced_payloads_lie_beside_the_graph(corpus, tmp_path):
    graph, rows = graph_and_rows(corpus, tmp_path)
    before = graph.payloads(range(len(graph)))
    found = enhanced_payloads(graph, rows)
    assert {graph.where(v): text for v, text in found.items()} == {
        "a.py:1-2": 'def mean(items):\n    """The average of numbers."""\n    return sum(items) / len(items)',
        "b.py:2-3": '    def size(self):\n        """How many bananas there are."""\n        return self.n',
        "c.py:1-2": 'def mean(items):\n    """The average of numbers."""\n    return sum(items) / len(items)',
    }
    assert graph.payloads(range(len(graph))) == before
    assert enhanced_payloads(graph, []) == {}
    broken = [r | {"docstring": 'x"""\n    y = 1\n    """'} for r in rows if r["docstring"]]
    assert enhanced_payloads(graph, broken) == {}


def test_what_it_changes_in_retrieval(corpus, tmp_path, embedder):
    graph, rows = graph_and_rows(corpus, tmp_path)
    tasks = [Task("T/0", "x", "many bananas", "size", "", ""), Task("T/1", "x", "told", "told", "", "")]
    frame = enhancer.retrieval_change(graph, rows, tasks, embedder)
    assert [graph.where(v) for v in frame["after"]] == ["b.py:2-3", "a.py:5-6"]
    assert list(frame["before"] != frame["after"]) == [True, False]
    assert list(frame["defines_before"]) == [False, True] and list(frame["defines_after"]) == [True, True]
    assert enhancer.change_summary(frame) == {
        "tasks": 2,
        "top1_changed": 1,
        "top1_enhanced": 1,
        "defines_before": 1,
        "defines_after": 2,
        "mean_cosine_rise": pytest.approx((frame["score_after"] - frame["score_before"]).mean()),
    }
    same = enhancer.change_summary(enhancer.retrieval_change(graph, [], tasks, embedder))
    assert (same["top1_changed"], same["top1_enhanced"], same["mean_cosine_rise"]) == (0, 0, 0)
    with pytest.raises(UserError, match="no tasks"):
        enhancer.retrieval_change(graph, rows, [], embedder)


def test_the_change_over_a_benchmark_is_kept_beside_the_docstrings(corpus, tmp_path, embedder, monkeypatch):
    monkeypatch.setattr(
        enhancer, "load_benchmark", lambda name: [Task("T/0", name, "many bananas", "size", "", "")]
    )
    with pytest.raises(UserError, match="no docstrings of qwen"):
        enhancer.measure_change(corpus, MODEL, "humaneval", tmp_path, embedder)
    graph_and_rows(corpus, tmp_path)
    found = enhancer.measure_change(corpus, MODEL, "humaneval", tmp_path, embedder)
    assert (found["tasks"], found["top1_changed"], found["benchmark"]) == (1, 1, "humaneval")
    (path,) = tmp_path.glob("enhanced/*/*.humaneval.change.json")
    assert json.loads(path.read_text()) == found


def test_the_backend_stops_at_the_limit_and_where_it_is_told(tiny_model):
    backend = TransformersBackend(tiny_model, slots=2, dtype=torch.float32, chat=False, max_new_tokens=7)
    backend.ends = set()
    found = {}

    def ask() -> list[tuple[int, str]]:
        found.clear()
        done = lambda row, raw, finish: found.update({row.request.task_id: (len(row.tokens), finish)})  # noqa: E731
        backend.generate([Request(str(i), "<|fim_prefix|>" + "ab" * i, "") for i in range(1, 5)], done)
        return sorted(found.values())

    assert ask() == [(7, "length")] * 4
    backend.stop = lambda text: len(backend.tokenizer(text)["input_ids"]) >= 3
    assert all(count <= 7 and finish == "settled" for count, finish in ask())
    backend.stop = partial(closed, fim=QWEN)
    assert ask() == [(7, "length")] * 4
    assert (
        backend.stop('The end."""') and backend.stop("The end.<|fim_pad|>") and not backend.stop('The "end".')
    )
