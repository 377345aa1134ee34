"""The command `structure` with a fake model: its files, its log, and what it loses against `headings`."""

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
INVALID = '{"a": }'


def page(i: int) -> str:
    return f"Title {i}\n=======\n\n{PROSE}\n\nLook::\n\n    x = {i}\n    y\n"


def answering(documents, bad, written=None) -> FakeBackend:
    """Return a model that writes the JSON of the structurer `headings`.

    Args:
        documents: Documents that the model knows.
        bad: Document id -> number of its first prompts that get invalid JSON.
        written: Document id -> JSON that replaces that of `headings`.
    """
    answers = {item.document: json.dumps(item.value) for item in structured(documents, "headings")}
    if written:
        answers.update(written)

    def answer(request):
        if request.sample <= bad.get(request.task_id, 0):
            return INVALID
        return answers[request.task_id]

    return FakeBackend(answer, tokens=5)


def prompted_documents(backend) -> list[str]:
    return [request.task_id for request in backend.asked]


@pytest.fixture
def docs(tmp_path, monkeypatch, own_cache):
    """Set PKG_PYTHON_DOCS to six pages; return the four that are neither too short nor too long."""
    files = {f"tutorial/p{i}.rst": page(i) for i in range(4)}
    files["howto/a.rst"] = "Title\n=====\n\n" + "word " * 2
    files["howto/b.rst"] = "Title\n=====\n\n" + "word " * 900
    for name, text in files.items():
        path = tmp_path / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("PKG_PYTHON_DOCS", str(tmp_path / "docs"))
    return [Document(f"python-docs/tutorial/p{i}", page(i), "rst") for i in range(4)]


def test_structures_documents_with_a_model_and_logs_the_outcome(docs, tmp_path):
    names = [document.id for document in docs]
    backend = answering(docs, {names[1]: 1, names[2]: 99})
    log = structure("python-docs", "llm", tmp_path / "r", MODEL, 3, backend)
    assert prompted_documents(backend) == [*names[:3], *names[1:3], names[2]]
    expected = {
        "in_corpus": 6,
        "qualifying": 4,
        "documents": 3,
        "structured": 2,
        "answers": 6,
        "retries": 3,
        "valid_at_first_answer": 1,
        "validity_rate": 0.3333,
        "validity_rate_with_retries": 0.6667,
        "rejected_by_reason": {"no JSON": 1},
        "asked_in_this_run": 6,
        "invalid_answers_by_reason": {"no JSON": 4},
        "prompt_tokens": 54,
        "new_tokens": 30,
    }
    assert {name: log[name] for name in expected} == expected
    assert list(log["rejected"]) == [names[2]]
    assert log["rejected"][names[2]].startswith("no JSON: Expecting")

    folder = tmp_path / "r" / "structured" / "python-docs"
    (path,) = folder.glob("*.jsonl")
    assert read_json(next(folder.glob("*.log.json"))) == log
    rows = [(row["document"], row["value"] is None, row["attempts"]) for row in read_rows(path)]
    assert rows == [(names[0], False, 1), (names[1], False, 2), (names[2], True, 3)]

    # Of four documents, the second run structures only the fourth.
    second_backend = answering(docs, {})
    second_log = structure("python-docs", "llm", tmp_path / "r", MODEL, 4, second_backend)
    assert prompted_documents(second_backend) == names[3:]
    assert second_log["answers"] == 7
    assert second_log["asked_in_this_run"] == 1
    loaded = load_structured(path, docs)
    assert [item.value is not None for item in loaded] == [True, True, False, True]


TUTORIAL = "Lists in Python\n\n" + "".join(
    f"Part {i} says {'much ' * 120}\n\n    code({i})\n\n" for i in range(20)
)


@pytest.fixture
def tutorials(tmp_path, monkeypatch, own_cache):
    """Register a corpus of two tutorials: one fits a prompt, the other does not."""
    documents = [
        Document("t/0", f"Short\n\n{PROSE}\n", "text"),
        Document("t/1", TUTORIAL, "text"),
    ]
    monkeypatch.setitem(CORPORA, "toy", CorpusSource("toy", lambda: documents, "made up", "text"))
    return documents


def test_splits_a_long_tutorial_into_sections(tutorials, tmp_path):
    def answer(request):
        number = request.task_id.rpartition(" ")[2]
        if number == "2":
            return INVALID
        return json.dumps({"Lists": {"explanation": f"of {request.task_id}"}})

    with pytest.raises(KeyboardInterrupt):
        structure("toy", "llm", tmp_path / "r", MODEL, backend=FakeBackend(answer, stop=2))
    backend = FakeBackend(answer)
    log = structure("toy", "llm", tmp_path / "r", MODEL, backend=backend)

    parts = sections(tutorials[1])
    first_lines = {part.text.partition("\n")[0] for part in parts[1:]}
    assert first_lines == {"Lists in Python (continued)"}
    assert all(len(part.text) <= MAX_CHARS for part in parts)
    assert len(parts) > 2
    assert len({part.id for part in parts}) == len(parts)
    for i in range(20):
        assert sum(f"code({i})" in part.text for part in parts) == 1

    # The interrupted run stored two answers. The second section gets three invalid answers.
    assert len(backend.asked) == 1 + len(parts) - 2 + 2
    expected = {
        "qualifying": 2,
        "documents": 2,
        "structured": 2,
        "split_documents": 1,
        "rejected": {},
        "sections": 1 + len(parts),
        "long_documents": "split",
    }
    assert {name: log[name] for name in expected} == expected
    assert list(log["rejected_sections"]) == [parts[1].id]
    assert log["incomplete_documents"] == 1

    (path,) = (tmp_path / "cache" / "structured" / "toy").glob("*.jsonl")
    short, long = load_structured(path, tutorials)
    assert short.value == {"Lists": {"explanation": "of t/0"}}
    assert short.attempts == 1
    assert not short.reason
    assert long.attempts == len(parts) + 2
    assert len(long.value) == len(parts) - 1
    assert list(long.value)[:2] == ["Lists", "Lists (2)"]
    assert parts[1].id in long.reason
    assert parts[0].id not in long.reason

    skipped = structure("toy", "llm", tmp_path / "r", MODEL, None, backend, long_documents="skip")
    assert (skipped["qualifying"], skipped["sections"]) == (1, 1)


def test_splits_a_tutorial_at_its_headings_and_not_at_comments_in_code():
    code = "".join(f"# step {i}\nrun({i})\n" for i in range(40))
    text = "".join(f"## Part {i}\n\n{'word ' * 220}\n\n{code}\n" for i in range(6))
    parts = sections(Document("t", f"Lists\n\n{text}", "text"))
    bodies = [part.text.removeprefix("Lists (continued)\n\n") for part in parts]
    assert len(parts) > 2
    assert all(body.startswith("## Part") for body in bodies[1:])


@pytest.mark.parametrize("mark", ["```", "~~~~"])
def test_split_code_stays_within_fences(mark):
    code = "\n".join(f"# step {i}\nrun({i})" for i in range(400))
    text = f"Lists\n\n{mark}python\n{code}\n{mark}\nThe end.\n"
    parts = sections(Document("t", text, "text"))
    assert len(parts) > 1
    split_code = []
    for part in parts:
        assert len(part.text) <= MAX_CHARS
        (block,) = fences(part.text)
        assert block.closed
        assert block.language == "python"
        split_code += [line for line in block.code.split("\n") if line]
        kinds = [event.kind for event in events(replace(part, kind="markdown"))]
        assert "heading" not in kinds
    assert split_code == code.split("\n")
    assert parts[-1].text.endswith("The end.\n")


def test_rejects_a_document_without_json_for_any_section(tutorials, tmp_path):
    log = structure("toy", "llm", tmp_path / "r", MODEL, backend=FakeBackend(lambda _: "no"))
    assert log["structured"] == 0
    assert list(log["rejected"]) == ["t/0", "t/1"]


def test_splits_long_python_docs_only_on_request(docs, tmp_path):
    """The committed JSON covers the documents that fit a prompt."""
    backend = FakeBackend(lambda _: '{"a": "b"}')
    log = structure("python-docs", "llm", tmp_path / "r", MODEL, None, backend)
    assert log["qualifying"] == 4
    log = structure(
        "python-docs", "llm", tmp_path / "s", MODEL, None, backend, long_documents="split"
    )
    assert (log["qualifying"], log["split_documents"], log["structured"]) == (5, 1, 5)


@pytest.mark.parametrize("style", ["", "#plain"])
def test_structures_with_a_model_from_a_directory(docs, tmp_path, tiny_model, monkeypatch, style):
    """The model is loaded from its directory and needs no registered name."""
    monkeypatch.setattr("pkg_lib.data.structuring.MAX_NEW_TOKENS", 4)
    model = f"path:{tiny_model}{style}"
    log = structure("python-docs", "llm", tmp_path / "r", model, 1)
    assert log["model"] == model
    assert log["answers"] == 3
    assert log["structured"] == 0  # the model's weights are random
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


def structure_documents(folder, stop=None):
    """Structure the documents; return their values, the log and the requests to the model."""
    backend = FakeBackend(lambda request: ANSWERS[request.task_id][request.sample - 1], stop)
    structurer = Structurer(MODEL, folder, folder, backend)
    values, log = structurer.structure(DOCUMENTS, "d.jsonl")
    assert log["asked_in_this_run"] == len(backend.asked)
    return values, log, backend.asked


def test_retries_after_invalid_json_and_quotes_the_error(tmp_path):
    (good, late, never), log, requests = structure_documents(tmp_path)
    assert good.value == {"Title good": {"explanation": "Text"}}
    assert good.attempts == 1
    assert late.value == {"Title late": {"examples": [{"code": "x = 1\n"}]}}
    assert late.attempts == 3
    assert never.value is None
    assert never.reason == "no object: list"
    assert never.attempts == 3
    assert (log["asked_in_this_run"], log["answers"], log["retries"]) == (7, 7, 4)

    prompts = [request.text for request in requests if request.task_id == NEVER]
    assert AGAIN.format(reason="cut off: after 11 characters") in prompts[1]
    assert "cut off" not in prompts[2]
    assert AGAIN.format(reason="not a number: NaN") in prompts[2]
    assert len(set(prompts)) == 3
    for prompt in prompts:
        assert "Text of d/never with {braces}." in prompt
        assert "{{" not in prompt


@pytest.mark.parametrize("stop", [0, 2, 6])
def test_resumes_an_interrupted_run(tmp_path, stop):
    with pytest.raises(KeyboardInterrupt):
        structure_documents(tmp_path, stop)
    values, _, requests = structure_documents(tmp_path)
    assert len(requests) == 7 - stop
    uninterrupted, _, _ = structure_documents(tmp_path / "other")
    assert values == uninterrupted
    _, _, requests = structure_documents(tmp_path)
    assert requests == []  # all answers are stored


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
def test_extracts_the_json_from_an_answer(raw, expected):
    assert json_part(raw) == expected


@pytest.mark.skipif(not DEBIAN_DOCS.is_dir(), reason="Python's documentation is not installed")
def test_committed_answers_have_the_keys_of_todays_prompts(tmp_path, monkeypatch):
    monkeypatch.delenv("PKG_PYTHON_DOCS", raising=False)
    folder = ROOT / "results" / "structured" / "answers" / MODEL
    structurer = Structurer(MODEL, folder, tmp_path)
    texts = {document.id: document.text for document in load_corpus("python-docs")}
    stored = structurer.cache.rows.values()
    first_answers = {answer.key: answer for answer in stored if answer.meta["attempt"] == 1}
    assert len(first_answers) == 48
    for key, answer in first_answers.items():
        prompt = PROMPT.format(text=texts[answer.task_id].strip("\n"))
        assert structurer.key(prompt) == key


def test_headings_are_structured_and_a_changed_text_is_reported(docs, tmp_path):
    log = structure("python-docs", "headings", tmp_path / "r")
    assert (log["documents"], log["structured"], log["rejected"]) == (6, 6, {})
    path = tmp_path / "r" / "structured" / "python-docs" / "headings.jsonl"
    stored = [row["value"] for row in read_rows(path)[:4]]
    assert stored == [item.value for item in structured(docs, "headings")]
    with pytest.raises(UserError, match=r"p0 has changed since it was structured"):
        load_structured(path, [Document(docs[0].id, "other", "rst")])
    assert len(load_structured(path, [])) == 6


def test_keeps_text_that_must_not_be_redistributed_out_of_the_results(tmp_path, own_cache):
    structure("docstrings:json", "docstrings", tmp_path / "r")
    files = [path.name for path in (tmp_path / "r").rglob("*") if path.is_file()]
    assert files == ["docstrings.log.json"]
    cached = list((own_cache / "structured").rglob("docstrings.jsonl"))
    assert len(cached) == 1


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
def test_reports_invalid_arguments(docs, tmp_path, arguments, message):
    corpus, structurer, *further = arguments
    with pytest.raises(UserError, match=message):
        structure(corpus, structurer, tmp_path / "r", *further)


def kept_shares(document, value):
    """Return the shares of words kept, words added and code examples kept."""
    log = kept([document], [Structured(document.id, value)])
    return log["words"], log["words_added"], log["code_examples"]


def test_measures_what_a_model_lost_and_added():
    document = Document("d", page(1), "rst")
    complete = structured([document], "headings")[0].value
    assert kept_shares(document, complete) == (1.0, 0.0, 1.0)

    # Of 56 words, "Look", "x", "1" and "y" are lost.
    without_code = {"Title 1": {"explanation": PROSE}}
    assert kept_shares(document, without_code) == (round(52 / 56, 4), 0.0, 0.0)

    # Two of six words, "made up", are not in the document.
    with_additions = {"Title": {"examples": [{"code": "x=1\ny\n"}], "explanation": "made up"}}
    _, words_added, code_examples = kept_shares(document, with_additions)
    assert (words_added, code_examples) == (round(2 / 6, 4), 1.0)

    assert kept_shares(document, None) == (None, None, None)


def test_the_json_of_a_model_can_be_used_as_a_corpus(docs, tmp_path, monkeypatch, embedder, capsys):
    """The JSON becomes a graph; contexts are retrieved from it and traced back to their place in it."""
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "r"))
    query = "close elements of numbers threshold"
    written = {docs[0].id: json.dumps({"Written by the model": {"explanation": query}})}
    backend = answering(docs, {docs[2].id: 99}, written)
    structure("python-docs", "llm", tmp_path / "r", MODEL, 3, backend)
    corpus = f"structured:python-docs/llm-{MODEL}"
    monkeypatch.setattr("sys.argv", ["pkg-lib", "graph", corpus])
    assert cli.main() == 0
    assert "skipped: no JSON 1" in capsys.readouterr().out

    knowledge = methods.knowledge_of(corpus)
    knowledge.embedder = embedder
    available = methods.methods_of(corpus)
    task = Task("T", "", query, "")
    (context,) = available["JSON-PKG"](knowledge).retrieve([task])
    assert context.text == f"path = Written by the model/explanation ; value = {query}"
    documents = {document.id: document for document in knowledge.documents}
    assert trace(context, documents, knowledge.structure).text == context.text

    # BM25 retrieves from the original pages.
    word_task = replace(task, prompt="word title")
    (row,) = available["BM25"](knowledge).retrieve([word_task])
    assert row.source in documents
    assert row.text in documents[row.source].text

    (tmp_path / "docs" / "tutorial" / "p0.rst").write_text(page(9))
    with pytest.raises(UserError, match="has changed since it was structured"):
        methods.knowledge_of(corpus).graph  # noqa: B018
    with pytest.raises(
        UserError,
        match=r"structured:no/thing: there is no .*thing\.jsonl; run `pkg-lib pkg structure`",
    ):
        check_name("structured:no/thing")
