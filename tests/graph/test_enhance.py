"""Docstrings filled in: where they go, what is taken, and that the function stays what it was."""

from __future__ import annotations

import ast
import json
import re
import textwrap

import pytest

from pkg_lib.core.store import ROOT, read_rows, write_jsonl
from pkg_lib.core.types import Document, Request, Task, UserError, digest
from pkg_lib.generation.generator import Decoding, Generator
from pkg_lib.graph import enhance
from pkg_lib.graph.enhance import (
    UnfitDocstringError,
    candidates,
    enhanced_payloads,
    extract_docstring,
    hole,
)
from pkg_lib.graph.schema import IMPL, build_code_graph
from pkg_lib.papers.pkg import enhancer
from tests.fakes import FakeBackend

QWEN = enhance.FAMILIES["qwen2.5-coder"]
MODEL = "qwen2.5-coder-0.5b-instruct"
D = '"""D."""'
PLACES = [  # {} is where the line of the docstring goes
    "    def f(self):\n        {}return 1",
    "\tdef f(self):\n\t\t{}return 1",
    "def f(\n    x,  # why\n    # and\n    y=(1,\n2),\n) -> int:\n    {}return x",
    "@a\n@b(1)\ndef f():\n    {}pass",
    "def f():  # c\n    {}# why\n    x",
    "def f():\n    {}@a\n    def g(): pass",
    "    def f(self):\n        {}x = '''\na'''",
    'def f():\n    {}f"x"',
]


@pytest.mark.parametrize("place", PLACES)
def test_where_the_docstring_goes(place):
    indent = re.search(r"[ \t]*(?={})", place)[0]
    assert hole(place.replace("{}", "")).fill("D.") == place.replace("{}", f"{D}\n{indent}")


@pytest.mark.parametrize("signature", ["def f():", "def f(é='ü:'):"])
def test_a_function_in_one_line(signature):
    assert hole(f"{signature} return 1").fill("D.") == f"{signature}\n    {D}\n    return 1"


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ('def f():\n    """D."""', "has a docstring"),
        ("def f(): 'D.'", "has a docstring"),
        ('def f():\n    """"""\n    return 1', "has a docstring"),
        ("def f():\n" + "    x = 1\n" * (enhance.MAX_CHARS // 9), "longer than 4000 characters"),
        ("def f():\n    return '<|fim_middle|>'", "holds a token of the model"),
        ("def f(): \\\n    return 1", "no place for a docstring"),
        ("def f(:", "does not parse"),
        ("x = 1", "more than one statement"),
        ("def f(): pass\nx = 1", "more than one statement"),
    ],
)
def test_functions_that_are_not_asked_for(payload, reason):
    with pytest.raises(UnfitDocstringError, match=reason):
        hole(payload)


def test_functions_of_the_textbook(textbook):
    graph = textbook[1]
    holes, skipped = candidates(graph)
    assert len(holes) + sum(skipped.values()) == len(graph.of_type(IMPL))  # none is lost
    assert len(holes) > 100 and set(skipped) == {"has a docstring", "same text as another"}
    for sha, (node, place) in holes.items():
        assert digest(graph.payload(node)) == sha and place.payload == graph.payload(node)
        new, old = (
            ast.parse(textwrap.dedent(t)).body[0] for t in (place.fill("Does it."), place.payload)
        )
        assert ast.get_docstring(new, clean=False) == "Does it." and ast.get_docstring(old) is None
        del new.body[0]
        assert ast.dump(new) == ast.dump(old)


MEAN = "def f(items):\n    return sum(items) / len(items)"
DOCTEST = "Gives the 'mean'\n\n    >>> f([1])\n    1.0"


@pytest.mark.parametrize(
    ("raw", "finish", "expected"),
    [
        ("The mean of the items.", "end", "The mean of the items."),
        ('The mean."""\n    return 0', "end", "The mean."),
        ("The mean.<|endoftext|>def g(): pass", "end", "The mean."),
        ("\n    The mean.\n    ", "end", "\n    The mean.\n    "),
        (DOCTEST, "end", f"{DOCTEST}\n    "),
        ('Gives the "mean"', "end", 'Gives the "mean" '),
        (" \n\n ... 1", "end", "rejected: empty"),
        ("TODO: write this", "end", "rejected: a placeholder"),
        ('Gives the "mean', "end", "rejected: quotes broken"),
        ("Ends in a backslash\\", "end", "rejected: does not parse"),
        ("The mean.\n    return sum(items) / len(items)", "end", "rejected: code leaked"),
        ("The mean.\n\n\ndef g(x):", "end", "rejected: code leaked"),
        ("print('mean', items)", "end", "rejected: code leaked"),
        ("The mean.\n    raise NotImplementedError()", "end", "rejected: code leaked"),
        ("The mean.\n    and\n    and\n    and", "end", "rejected: repeats itself"),
        # A text that ran into its length is cut back.
        ("The mean of all. It is taken over the", "length", "The mean of all."),
        (
            "The mean.\n    Parameters are\n    the it",
            "length",
            "The mean.\n    Parameters are\n    ",
        ),
        ("The mean of all the", "length", "rejected: no end"),
        ('The mean of all the"""', "length", "The mean of all the"),
    ],
)
def test_what_is_taken(raw, finish, expected):
    try:
        taken = extract_docstring(hole(MEAN), raw, QWEN, finish)
    except UnfitDocstringError as e:
        taken = f"rejected: {e}"
    assert taken == expected


def test_prompts_and_their_end():
    place, head = hole("def f():\n    return 1"), '<|fim_prefix|>def f():\n    """<|fim_suffix|>'
    assert place.prompt(QWEN, "closed") == f'{head}"""\n    return 1<|fim_middle|>'
    assert place.prompt(QWEN, "open") == f"{head}\n    return 1<|fim_middle|>"
    starcoder = enhance.Hole("", "a", "b").prompt(enhance.fim_of("starcoder2-7b"), "closed")
    assert starcoder == "<fim_prefix>a<fim_suffix>b<fim_middle>"
    with pytest.raises(UnfitDocstringError, match="the code would change"):
        place.fill('D."""\n    x = 1\n    """E.')
    texts = ('The end."""', "The end.<|fim_pad|>", 'The "end".')
    assert [enhance.closed(text, QWEN) for text in texts] == [True, True, False]


# The run, on a corpus of one's own and a model that is a table.

SOURCES = {
    "a.py": f"{MEAN.replace('f(', 'mean(')}\n\n\ndef told():\n    'Told.'\n\n\ndef empty(): pass\n",
    "b.py": "class A:\n    def size(self):\n        return self.n\n",
    "c.py": f"{MEAN.replace('f(', 'mean(')}\n",
}
ANSWERS = {"mean": "The average of numbers.", "size": "How many bananas there are.", "empty": ""}


def named(request: Request) -> str:
    return re.search(r"def (\w+)", request.text)[1]


def table(stop=None) -> FakeBackend:
    return FakeBackend(lambda request: ANSWERS[named(request)], stop)


@pytest.fixture
def corpus(tmp_path) -> str:
    (tmp_path / "src").mkdir()
    for name, text in SOURCES.items():
        (tmp_path / "src" / name).write_text(text)
    return f"source:{tmp_path / 'src'}"


def rows_of(corpus, results) -> list:
    return list(enhancer.DocstringFile(MODEL, corpus, results).rows.values())


def test_a_run_and_its_log(corpus, tmp_path):
    backend = table()
    log = enhancer.enhance(corpus, MODEL, 9, tmp_path, backend)
    expected = {
        "asked": 3,
        "accepted": 2,
        "rejected": {"empty": 1},
        "functions": 5,
        "without_docstring": 3,
    }
    expected |= {"tokens": 8, "prompt_tokens": 36}
    expected |= {"not_asked": {"has a docstring": 1, "same text as another": 1}}
    assert {name: log[name] for name in expected} == expected
    assert [log["by_form"][f]["asked"] for f in ("closed", "open")] == [
        3,
        1,
    ]  # the rejected is asked again
    asked = [named(request) for request in backend.asked]
    assert sorted(asked) == ["empty", "empty", "mean", "size"] and asked[-1] == "empty"
    (path,) = tmp_path.glob("enhanced/*/*.log.json")
    assert json.loads(path.read_text()) == log and log["revision"].startswith("gguf-sha256-")
    reasons = {r["name"]: r["reason"] for r in rows_of(corpus, tmp_path) if r["form"] == "closed"}
    assert reasons == {"mean": "", "size": "", "empty": "empty"}


def test_a_run_first_says_how_many_functions_it_prompts_for_and_for_how_long(corpus, tmp_path):
    said = []
    with pytest.raises(KeyboardInterrupt):
        enhancer.enhance(corpus, MODEL, 2, tmp_path, table(stop=0), announce=said.append)
    assert len(said) == 1 and f"by {MODEL} for 2 of 3 functions" in said[0]
    assert "2 without an answer, time unknown" in said[0]
    enhancer.enhance(corpus, MODEL, 2, tmp_path, table(), announce=said.append)
    (path,) = tmp_path.glob("enhanced/*/*.log.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"asked": 2, "seconds": 240}))
    enhancer.enhance(corpus, MODEL, None, tmp_path, table(), announce=said.append)
    assert "for 3 of 3 functions" in said[2] and "1 without an answer, about 2 min" in said[2]
    enhancer.enhance(corpus, MODEL, None, tmp_path, table(), announce=said.append)
    assert said[3].endswith("all have an answer already")


def test_a_run_resumes_and_what_is_stored_is_judged_again(corpus, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        enhancer.enhance(corpus, MODEL, 9, tmp_path, table(stop=2))
    (path,) = tmp_path.glob("enhanced/*/*.jsonl")
    path.write_bytes(path.read_bytes()[:-20])  # the last line torn
    backend, again = table(), table()
    log = enhancer.enhance(corpus, MODEL, 9, tmp_path, backend)
    packed = path.with_name(f"{path.name}.gz")
    assert not path.exists()
    rows = list(read_rows(packed))
    assert len(backend.asked) == 3 and len(rows_of(corpus, tmp_path)) == len(rows) == 4
    write_jsonl(packed, [row | {"reason": row["reason"].replace("empty", "")} for row in rows])
    assert enhancer.enhance(corpus, MODEL, 9, tmp_path, again) == log and again.asked == []
    assert list(read_rows(packed)) == rows


def test_the_committed_docstrings_are_known(textbook):
    file = enhancer.DocstringFile(MODEL, "textbook+stdlib", ROOT / "results")
    generator = Generator(MODEL, Decoding(enhancer.PARAMETERS), file, ROOT / "results")
    holes, rows = candidates(textbook[1])[0], list(file.rows.values())
    known = [(holes[r["payload_sha256"]][1], r) for r in rows if r["payload_sha256"] in holes]
    assert len(rows) >= 840 and len(known) > 9
    for place, row in known:
        assert generator.key(place.prompt(QWEN, row["form"])) == row["key"]
        assert enhancer.verdict(place, row, QWEN) == {k: row[k] for k in ("docstring", "reason")}


def test_a_model_of_a_directory_fills_in_the_middle(corpus, tmp_path, filling_model):
    """A model by its place instead of a registered name, through the real loading; it writes nonsense."""
    log = enhancer.enhance(corpus, f"path:{filling_model}", None, tmp_path)
    assert log["asked"] == 3 and log["tokens"] > 0 and log["revision"].startswith("files-sha256-")
    again = enhancer.enhance(
        corpus, f"path:{filling_model}", None, tmp_path, FakeBackend(lambda r: pytest.fail())
    )
    assert again == log


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("starcoder2-7b", "starcoder2"),
        ("hf:bigcode/starcoder2-3b", "starcoder2"),
        ("hf:Qwen/Qwen2.5-Coder-7B-Instruct@main#plain", "qwen2.5-coder"),
        ("hf:google/codegemma-2b", "codegemma"),
        ("hf:someone/other", "codegemma"),  # told by its tokens
        ("path:/models/starcoder2-of-mine", "codegemma"),
    ],
)
def test_the_family_of_a_model(model, family):
    codegemma = enhance.FAMILIES["codegemma"]
    assert enhance.fim_of(model, lambda texts: {*texts} & {*codegemma}) == enhance.FAMILIES[family]


@pytest.mark.parametrize(
    "model", ["hf:someone/other", "path:/models/starcoder2", "endpoint:starcoder2"]
)
def test_a_model_without_the_tokens_is_refused(model):
    with pytest.raises(UserError, match="no fill-in-the-middle tokens"):
        enhance.fim_of(model, lambda texts: {*QWEN[:2]})


@pytest.mark.parametrize(
    ("model", "message"), [("none", "unknown model"), ("llama-3.1-8b-instruct", "no fill-in")]
)
def test_users_mistakes(corpus, tmp_path, tiny_model, model, message):
    with pytest.raises(UserError, match=message):
        enhancer.enhance(corpus, model, 1, tmp_path, table())
    with pytest.raises(UserError, match="no fill-in"):
        enhancer.enhance(corpus, f"path:{tiny_model}", 1, tmp_path, table())


def graph_and_rows(corpus, tmp_path):
    enhancer.enhance(corpus, MODEL, 9, tmp_path, table())
    graph = build_code_graph([Document(name, text) for name, text in SOURCES.items()])
    return graph, rows_of(corpus, tmp_path)


def test_enhanced_payloads_lie_beside_the_graph(corpus, tmp_path):
    graph, rows = graph_and_rows(corpus, tmp_path)
    before = graph.payloads(range(len(graph)))
    mean = 'def mean(items):\n    """The average of numbers."""\n    return sum(items) / len(items)'
    size = '    def size(self):\n        """How many bananas there are."""\n        return self.n'
    places = {graph.where(v): text for v, text in enhanced_payloads(graph, rows).items()}
    assert places == {"a.py:1-2": mean, "b.py:2-3": size, "c.py:1-2": mean}
    assert graph.payloads(range(len(graph))) == before
    broken = [r | {"docstring": 'x"""\n    y = 1\n    """'} for r in rows if r["docstring"]]
    assert enhanced_payloads(graph, []) == enhanced_payloads(graph, broken) == {}


def test_what_it_changes_in_retrieval(corpus, tmp_path, embedder, monkeypatch):
    graph, rows = graph_and_rows(corpus, tmp_path)
    tasks = [
        Task("T/0", "x", "many bananas", "size"),
        Task("T/1", "x", "told", "told"),
    ]
    frame = enhancer.retrieval_change(graph, rows, tasks, embedder)
    assert [graph.where(v) for v in frame["after"]] == ["b.py:2-3", "a.py:5-6"]
    assert list(frame["before"] != frame["after"]) == [True, False]
    assert list(frame["defines_before"]) == [False, True] and list(frame["defines_after"]) == [
        True,
        True,
    ]
    assert list(frame["enhanced"]) == [True, False]
    same = enhancer.retrieval_change(graph, [], tasks, embedder)
    assert not same["enhanced"].any() and (same["before"] == same["after"]).all()
    assert (same["score_before"] == same["score_after"]).all()
    # Over a benchmark, kept beside the docstrings.
    monkeypatch.setattr(enhancer, "load_benchmark", lambda name: tasks)
    log = enhancer.measure_change(corpus, MODEL, "humaneval", tmp_path, embedder)
    counts = {
        "tasks": 2,
        "top1_changed": 1,
        "top1_enhanced": 1,
        "defines_before": 1,
        "defines_after": 2,
    }
    assert {name: log[name] for name in counts} == counts and log["mean_cosine_rise"] > 0
    with pytest.raises(UserError, match="no docstrings of qwen"):
        enhancer.measure_change(corpus, MODEL, "humaneval", tmp_path / "nowhere", embedder)
    (path,) = tmp_path.glob("enhanced/*/*.humaneval.change.json")
    assert json.loads(path.read_text()) == log
