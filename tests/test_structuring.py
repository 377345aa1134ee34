"""`structure` end to end with a made-up model: its files, its log, what was lost against `headings`."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pkg_lib import cli
from pkg_lib.core.markdown import fences
from pkg_lib.core.store import ROOT, read_json, read_rows
from pkg_lib.core.types import Document, Task, UserError
from pkg_lib.data.corpora import CORPORA, CorpusSource, check_name, load_corpus
from pkg_lib.data.structuring import (
    AGAIN,
    MAX_CHARS,
    PROMPT,
    Structurer,
    json_part,
    kept,
    load_structured,
    sections,
    structure,
)
from pkg_lib.data.text_corpora import DEBIAN_DOCS
from pkg_lib.graph.text.documents import Structured
from pkg_lib.graph.text.structure import events, structured
from pkg_lib.retrieval import methods
from pkg_lib.retrieval.trace import trace
from tests.fakes import FakeBackend

MODEL = "qwen2.5-coder-1.5b-instruct"
PROSE = "word " * 50


def page(i: int) -> str:
    return f"Title {i}\n=======\n\n{PROSE}\n\nLook::\n\n    x = {i}\n    y\n"


def answering(documents, bad, written=None) -> FakeBackend:
    """A model that answers with the headings' JSON; `bad` documents get invalid JSON for as many prompts."""
    good = {s.document: json.dumps(s.value) for s in structured(documents, "headings")} | (
        written or {}
    )
    return FakeBackend(
        lambda r: '{"a": }' if r.sample <= bad.get(r.task_id, 0) else good[r.task_id], tokens=5
    )


def names_asked(backend) -> list[str]:
    return [r.task_id for r in backend.asked]


@pytest.fixture
def docs(tmp_path, monkeypatch, own_cache):
    """Four sections that qualify, one too short and one too long, of Python's documentation."""
    files = {f"tutorial/p{i}.rst": page(i) for i in range(4)}
    files |= {
        f"howto/{n}.rst": "Title\n=====\n\n" + "word " * count
        for n, count in (("a", 2), ("b", 900))
    }
    for name, text in files.items():
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs" / name).write_text(text)
    monkeypatch.setenv("PKG_PYTHON_DOCS", str(tmp_path / "docs"))
    return [Document(f"python-docs/tutorial/p{i}", page(i), "rst") for i in range(4)]


def test_the_model_run(docs, tmp_path):
    names = [d.id for d in docs]
    backend = answering(docs, {names[1]: 1, names[2]: 99})
    log = structure("python-docs", "llm", tmp_path / "r", MODEL, 3, backend)
    assert names_asked(backend) == [*names[:3], *names[1:3], names[2]]
    expected = {"in_corpus": 6, "qualifying": 4, "documents": 3, "structured": 2, "answers": 6}
    expected |= {"retries": 3, "valid_at_first_answer": 1, "validity_rate": 0.3333}
    expected |= {"validity_rate_with_retries": 0.6667, "rejected_by_reason": {"no JSON": 1}}
    expected |= {"asked_in_this_run": 6, "invalid_answers_by_reason": {"no JSON": 4}}
    expected |= {"prompt_tokens": 54, "new_tokens": 30}
    assert {k: log[k] for k in expected} == expected
    assert list(log["rejected"]) == [names[2]] and log["rejected"][names[2]].startswith(
        "no JSON: Expecting"
    )
    folder = tmp_path / "r" / "structured" / "python-docs"
    (path,) = folder.glob("*.jsonl")
    assert read_json(next(folder.glob("*.log.json"))) == log
    rows = [(r["document"], r["value"] is None, r["attempts"]) for r in read_rows(path)]
    assert rows == [(names[0], False, 1), (names[1], False, 2), (names[2], True, 3)]
    again = answering(docs, {})
    second = structure(
        "python-docs", "llm", tmp_path / "r", MODEL, 4, again
    )  # only the fourth is new
    assert (
        names_asked(again) == names[3:]
        and second["answers"] == 7
        and second["asked_in_this_run"] == 1
    )
    assert [s.value is not None for s in load_structured(path, docs)] == [True, True, False, True]


TUTORIAL = "Lists in Python\n\n" + "".join(
    f"Part {i} says {'much ' * 120}\n\n    code({i})\n\n" for i in range(20)
)


@pytest.fixture
def tutorials(tmp_path, monkeypatch, own_cache):
    """A corpus of the hub's kind: one tutorial that fits a prompt, and one that does not."""
    documents = [Document("t/0", f"Short\n\n{PROSE}\n", "text"), Document("t/1", TUTORIAL, "text")]
    monkeypatch.setitem(CORPORA, "toy", CorpusSource("toy", lambda: documents, "made up", "text"))
    return documents


def test_a_long_tutorial_is_split_into_sections(tutorials, tmp_path):
    def answer(request):
        number = request.task_id.rpartition(" ")[2]
        return (
            '{"a": }'
            if number == "2"
            else json.dumps({"Lists": {"explanation": f"of {request.task_id}"}})
        )

    with pytest.raises(KeyboardInterrupt):
        structure("toy", "llm", tmp_path / "r", MODEL, backend=FakeBackend(answer, stop=2))
    backend = FakeBackend(answer)
    log = structure("toy", "llm", tmp_path / "r", MODEL, backend=backend)
    parts = sections(tutorials[1])
    assert {p.text.partition("\n")[0] for p in parts[1:]} == {"Lists in Python (continued)"}
    assert (
        all(len(p.text) <= MAX_CHARS for p in parts)
        and len({p.id for p in parts}) == len(parts) > 2
    )
    for i in range(20):
        assert sum(f"code({i})" in p.text for p in parts) == 1
    # Of the first run two answers are known; the second part is asked three times in vain.
    assert len(backend.asked) == 1 + len(parts) - 2 + 2
    expected = {
        "qualifying": 2,
        "documents": 2,
        "structured": 2,
        "split_documents": 1,
        "rejected": {},
    }
    expected |= {"sections": 1 + len(parts), "long_documents": "split"}
    assert {name: log[name] for name in expected} == expected
    assert list(log["rejected_sections"]) == [parts[1].id] and log["incomplete_documents"] == 1
    (path,) = (tmp_path / "cache" / "structured" / "toy").glob("*.jsonl")
    first, second = load_structured(path, tutorials)
    assert (first.value, first.attempts) == ({"Lists": {"explanation": "of t/0"}}, 1)
    assert second.attempts == len(parts) + 2 and len(second.value) == len(parts) - 1
    assert list(second.value)[:2] == ["Lists", "Lists (2)"]
    assert parts[1].id in second.reason and parts[0].id not in second.reason and not first.reason
    skipped = structure("toy", "llm", tmp_path / "r", MODEL, None, backend, long_documents="skip")
    assert (skipped["qualifying"], skipped["sections"]) == (1, 1)


def test_a_tutorial_is_split_at_its_headings_and_not_at_comments():
    code = "".join(f"# step {i}\nrun({i})\n" for i in range(40))
    text = "".join(f"## Part {i}\n\n{'word ' * 220}\n\n{code}\n" for i in range(6))
    parts = sections(Document("t", f"Lists\n\n{text}", "text"))
    bodies = [part.text.removeprefix("Lists (continued)\n\n") for part in parts]
    assert len(parts) > 2 and all(body.startswith("## Part") for body in bodies[1:])


@pytest.mark.parametrize("mark", ["```", "~~~~"])
def test_code_that_is_split_keeps_its_fence(mark):
    lines = [f"# step {i}\nrun({i})" for i in range(400)]
    text = f"Lists\n\n{mark}python\n" + "\n".join(lines) + f"\n{mark}\nThe end.\n"
    parts = sections(Document("t", text, "text"))
    assert len(parts) > 1 and all(len(part.text) <= MAX_CHARS for part in parts)
    blocks = [fences(part.text) for part in parts]
    assert all(len(found) == 1 and found[0].closed for found in blocks)
    assert all(found[0].language == "python" for found in blocks)
    code = "\n".join(found[0].code.strip("\n") for found in blocks)
    assert [line for line in code.split("\n") if line] == "\n".join(lines).split("\n")
    found = [event for part in parts for event in events(replace(part, kind="markdown"))]
    assert not [event for event in found if event.kind == "heading"]
    assert parts[-1].text.endswith("The end.\n")


def test_a_document_without_json_for_any_section_is_rejected(tutorials, tmp_path):
    log = structure("toy", "llm", tmp_path / "r", MODEL, backend=FakeBackend(lambda request: "no"))
    assert (log["structured"], list(log["rejected"])) == (0, ["t/0", "t/1"])


def test_python_docs_are_structured_as_the_committed_ones(docs, tmp_path):
    """The committed JSON is of documents that fit a prompt; others are split only when that is asked for."""
    backend = FakeBackend(lambda request: '{"a": "b"}')
    assert structure("python-docs", "llm", tmp_path / "r", MODEL, None, backend)["qualifying"] == 4
    log = structure(
        "python-docs", "llm", tmp_path / "s", MODEL, None, backend, long_documents="split"
    )
    assert (log["qualifying"], log["split_documents"], log["structured"]) == (5, 1, 5)


@pytest.mark.parametrize("style", ["", "#plain"])
def test_a_model_of_a_directory_structures(docs, tmp_path, tiny_model, monkeypatch, style):
    """A model by its place instead of a registered name, through the real loading."""
    monkeypatch.setattr("pkg_lib.data.structuring.MAX_NEW_TOKENS", 4)
    model = f"path:{tiny_model}{style}"
    log = structure("python-docs", "llm", tmp_path / "r", model, 1)
    assert (log["model"], log["answers"], log["structured"]) == (
        model,
        3,
        0,
    )  # it is a random model
    assert log["revision"].startswith("files-sha256-")
    again = structure("python-docs", "llm", tmp_path / "r", model, 1)
    assert (again["answers"], again["asked_in_this_run"]) == (3, 0)
    (path,) = (tmp_path / "r" / "structured" / "python-docs").glob("*.jsonl")
    assert len(load_structured(path, docs)) == 1


GOOD, LATE, NEVER = "d/good", "d/late", "d/never"
TEXT = "Title\n=======\n\nText of {} with {{braces}}.\n"
DOCUMENTS = [Document(name, TEXT.format(name), "rst") for name in (GOOD, LATE, NEVER)]
EXAMPLE = 'Here: {"Title late": {"examples": [{"code": "x = 1\\n"}]}} Done.'
ANSWERS = {
    GOOD: ['```json\n{"Title good": {"explanation": "Text"}}\n```'],
    LATE: ["Sure! Here is", '{"a": 1, "a": 2}', EXAMPLE],
    NEVER: [('{"a": [1, 2', "length"), '{"a": NaN}', "[1, 2]"],
}


def asked_for(folder, stop=None):
    """What the structurer makes of the documents, its log, the requests."""
    backend = FakeBackend(lambda request: ANSWERS[request.task_id][request.sample - 1], stop)
    values, log = Structurer(MODEL, folder, folder, backend).structure(DOCUMENTS, "d.jsonl")
    assert log["asked_in_this_run"] == len(backend.asked)
    return values, log, backend.asked


def test_invalid_then_valid_and_a_retry_that_says_what_was_wrong(tmp_path):
    (good, late, never), log, asked = asked_for(tmp_path)
    assert (good.value, good.attempts) == ({"Title good": {"explanation": "Text"}}, 1)
    assert (late.value, late.attempts) == ({"Title late": {"examples": [{"code": "x = 1\n"}]}}, 3)
    assert (never.value, never.reason, never.attempts) == (None, "no object: list", 3)
    assert (log["asked_in_this_run"], log["answers"], log["retries"]) == (7, 7, 4)
    prompts = [r.text for r in asked if r.task_id == NEVER]
    assert (
        AGAIN.format(reason="cut off: after 11 characters") in prompts[1]
        and "cut off" not in prompts[2]
    )
    assert AGAIN.format(reason="not a number: NaN") in prompts[2] and len(set(prompts)) == 3
    assert all("Text of d/never with {braces}." in p and "{{" not in p for p in prompts)


@pytest.mark.parametrize("stop", [0, 2, 6])
def test_a_stopped_run_goes_on(tmp_path, stop):
    with pytest.raises(KeyboardInterrupt):
        asked_for(tmp_path, stop)
    values, _, asked = asked_for(tmp_path)
    assert values == asked_for(tmp_path / "other")[0] and len(asked) == 7 - stop
    assert asked_for(tmp_path)[2] == []  # everything is stored


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ('  {"a": 1} hope this helps', '{"a": 1}'),
        ('```json\n{"a": "```"}\n```', '{"a": "```"}'),
        ('```\n{"a": 1}\n```\nand', '{"a": 1}'),
        ('- So:\n\n  ```json\n  {"a": 1}\n  ```\n', '{"a": 1}'),
        ('```python\nx = {}\n```\n```JSON\n{"a": 1}\n```', '{"a": 1}'),
        ('<think>\n```json\n{}\n```\n</think>{"a": 1}</s>', '{"a": 1}'),
        ('\ufeff{"a": 1}', '{"a": 1}'),
        ('So {"a": {"b": 1}}.', '{"a": {"b": 1}}'),
        *((text, text) for text in ("{", "nothing", "")),
    ],
)
def test_the_json_in_a_models_answer(raw, expected):
    assert json_part(raw) == expected


@pytest.mark.skipif(not DEBIAN_DOCS.is_dir(), reason="Python's documentation is not installed")
def test_the_committed_answers_are_known(tmp_path, monkeypatch):
    monkeypatch.delenv("PKG_PYTHON_DOCS", raising=False)
    folder = ROOT / "results" / "structured" / "answers" / MODEL
    model = Structurer(MODEL, folder, tmp_path)
    documents = {d.id: d for d in load_corpus("python-docs")}
    first = [a for a in model.cache.rows.values() if a.meta["attempt"] == 1]
    prompts = {a.key: PROMPT.format(text=documents[a.task_id].text.strip("\n")) for a in first}
    assert len(prompts) == 48 and all(model.key(text) == key for key, text in prompts.items())


def test_headings_and_a_text_that_has_changed(docs, tmp_path):
    log = structure("python-docs", "headings", tmp_path / "r")
    assert (log["documents"], log["structured"], log["rejected"]) == (6, 6, {})
    path = tmp_path / "r" / "structured" / "python-docs" / "headings.jsonl"
    assert [r["value"] for r in read_rows(path)[:4]] == [
        s.value for s in structured(docs, "headings")
    ]
    with pytest.raises(UserError, match=r"p0 has changed since it was structured"):
        load_structured(path, [Document(docs[0].id, "other", "rst")])
    assert len(load_structured(path, [])) == 6


def test_what_may_not_be_copied_stays_out_of_the_results(tmp_path, own_cache):
    structure("docstrings:json", "docstrings", tmp_path / "r")
    assert [p.name for p in (tmp_path / "r").rglob("*") if p.is_file()] == ["docstrings.log.json"]
    assert len(list((own_cache / "structured").rglob("docstrings.jsonl"))) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("textbook", "headings"), "corpus textbook is code; structurers take text"),
        (("nosuch", "headings"), "unknown corpus 'nosuch'"),
        (
            ("python-docs", "nosuch"),
            "unknown structurer 'nosuch'; choose from: headings, docstrings, llm",
        ),
        (("python-docs", "llm"), "structurer llm takes a --model"),
        (("python-docs", "headings", MODEL), "structurer headings takes no --model"),
        (("python-docs", "llm", "nosuch"), "unknown model 'nosuch'"),
        (
            ("python-docs", "llm", MODEL, 1, None, "nosuch"),
            "unknown .*long.* 'nosuch'.*split, skip",
        ),
        (("python-docs", "headings", "", 1, None, "split"), "any length"),
    ],
)
def test_users_errors(docs, tmp_path, arguments, message):
    with pytest.raises(UserError, match=message):
        structure(*arguments[:2], tmp_path / "r", *arguments[2:])


def test_what_a_model_lost_and_made_up():
    document = Document("d", page(1), "rst")
    whole = structured([document], "headings")[0].value
    words = {"Title 1": {"explanation": PROSE}}
    other = {"Title": {"examples": [{"code": "x=1\ny\n"}], "explanation": "made up"}}
    logs = [kept([document], [Structured("d", value)]) for value in (whole, words, other, None)]
    shares = [
        tuple(log[name] for name in ("words", "words_added", "code_examples")) for log in logs
    ]
    # Of 56 words Look, x, 1 and y are gone; "made up" are two of six.
    assert shares[:2] == [(1.0, 0.0, 1.0), (round(52 / 56, 4), 0.0, 0.0)]
    assert shares[2][1:] == (round(2 / 6, 4), 1.0) and shares[3] == (None, None, None)


def test_json_that_a_model_wrote_is_a_corpus(docs, tmp_path, monkeypatch, embedder, capsys):
    """From `structure` to the graph, the contexts of JSON-PKG and back to where one stands."""
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "r"))
    query = "close elements of numbers threshold"
    written = {docs[0].id: json.dumps({"Written by the model": {"explanation": query}})}
    structure(
        "python-docs", "llm", tmp_path / "r", MODEL, 3, answering(docs, {docs[2].id: 99}, written)
    )
    corpus = f"structured:python-docs/llm-{MODEL}"
    monkeypatch.setattr("sys.argv", ["pkg-lib", "graph", corpus])
    assert cli.main() == 0
    assert "skipped: no JSON 1" in capsys.readouterr().out
    knowledge = methods.knowledge_of(corpus)
    knowledge.embedder = embedder
    tasks = [Task("T", "", query, "")]
    (context,) = methods.methods_of(corpus)["JSON-PKG"](knowledge).retrieve(tasks)
    assert context.text == f"path = Written by the model/explanation ; value = {query}"
    documents = {d.id: d for d in knowledge.documents}
    assert trace(context, documents, knowledge.structure).text == context.text
    (row,) = methods.methods_of(corpus)["BM25"](knowledge).retrieve(
        [replace(tasks[0], prompt="word title")]
    )
    assert (
        row.source in documents and row.text in documents[row.source].text
    )  # the rows are the pages' own
    (tmp_path / "docs" / "tutorial" / "p0.rst").write_text(page(9))
    with pytest.raises(UserError, match="has changed since it was structured"):
        methods.knowledge_of(corpus).graph  # noqa: B018
    with pytest.raises(
        UserError,
        match=r"structured:no/thing: there is no .*thing\.jsonl; run `pkg-lib pkg structure`",
    ):
        check_name("structured:no/thing")
