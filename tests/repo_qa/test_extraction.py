"""LLM-KB's extraction: the published prompt, and what the paper counts of a model's answers."""

from __future__ import annotations

import json

import pytest
from fakes import FakeBackend
from hypothesis import given
from hypothesis import strategies as st

from pkg_lib.generation.cache import GenerationCache
from pkg_lib.generation.generator import Decoding, Generator
from pkg_lib.papers.dkb import llm_kb as extraction
from pkg_lib.papers.dkb.llm_kb import Extraction, extract, prompt_of, read

MODEL = "qwen2.5-coder-1.5b-instruct"
BATCH = ("src/a/Cart.java", "src/b/Order.java")


def record(path, name="Cart", needs=("Order",)):
    return {"file_path": path, "class_name": name, "dependencies": list(needs)}


def after(raw, batch=BATCH, finish="end"):
    found = Extraction(list(batch))
    read(found, batch, raw if isinstance(raw, str) else json.dumps(raw), finish)
    return found


def test_the_prompt_names_and_truncates_the_files():
    prompt = prompt_of(
        ["A.java", "{question}.java"], {"A.java": "x" * 15_001, "{question}.java": "class {batch_content} {}"}
    )
    assert "x" * 15_000 in prompt and "x" * 15_001 not in prompt
    assert "\n--- FILE: {question}.java ---\nclass {batch_content} {}\n" in prompt
    assert '"file_path": "path/to/File.java"' in prompt and prompt.startswith(
        "You are a static code analyzer."
    )


def test_records_by_path_and_by_file_name():
    found = after({"results": [record("./src/a/../a/Cart.java"), record("Order.java", "Order", [])]})
    assert list(found.records) == list(BATCH) and found.by_name == 1 and not found.faults
    assert found.records[BATCH[0]].dependencies == ("Order",)
    assert found.skipped == [] and found.success_rate == 1.0


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("I am sorry", extraction.NOT_JSON),
        ("", extraction.NOT_JSON),
        ('{"results": [{"file_path": "src/a/Cart.java"', extraction.NOT_JSON),
        ([record(BATCH[0])], extraction.NO_RESULTS),
        ({"results": {}}, extraction.NO_RESULTS),
        ({"files": [record(BATCH[0])]}, extraction.NO_RESULTS),
        ({"results": ["Cart"]}, extraction.NO_RECORD),
        ({"results": [{"class_name": "Cart", "dependencies": []}]}, extraction.NO_FILE),
        ({"results": [record("")]}, extraction.NO_FILE),
        ({"results": [record(["x"])]}, extraction.NO_FILE),
        ({"results": [record("src/c/Other.java")]}, extraction.NOT_IN_BATCH),
    ],
)
def test_answers_that_give_no_record_are_counted_by_reason(value, fault):
    found = after(value)
    assert found.faults == {fault: 1} and not found.records
    assert found.skipped == list(BATCH) and found.success_rate == 0.0
    if fault == extraction.NOT_JSON:
        assert after(value, finish="length").faults == {extraction.CUT_OFF: 1}


@pytest.mark.parametrize("name", ["", None])
def test_a_file_that_is_named_without_a_class_is_processed_as_the_paper_counts_and_has_no_record(name):
    found = after({"results": [record(BATCH[0], name)]})
    assert found.faults == {extraction.NO_CLASS: 1} and not found.records
    assert found.skipped == [BATCH[1]] and found.success_rate == 0.5


def test_files_of_one_name_are_all_processed_when_one_is_named():
    """Listing 3 looks for the last part of the path among all that was returned."""
    for named in (["a/Order.java"], ["Order.java"], ["Order.java", "Order.java"], ["elsewhere/Order.java"]):
        found = Extraction(["a/Order.java", "b/Order.java", "c/Cart.java"])
        read(found, found.files, json.dumps({"results": [record(n, "Order", []) for n in named]}))
        assert found.skipped == ["c/Cart.java"] and list(found.records) == ["a/Order.java"]


def test_one_good_record_among_faults_counts():
    found = after(
        {"results": [7, record("X.java"), record(BATCH[1], "Order", ["Cart", 3, " Cart "]), record(BATCH[1])]}
    )
    assert list(found.records) == [BATCH[1]] and found.records[BATCH[1]].dependencies == ("Cart",)
    assert found.faults == {extraction.NO_RECORD: 1, extraction.NOT_IN_BATCH: 1, extraction.TWICE: 1}
    assert found.skipped == [BATCH[0]] and found.success_rate == 0.5


def test_json_in_a_fence_and_dependencies_that_are_no_list():
    fenced = (
        "Here it is:\n```json\n"
        + json.dumps({"results": [record(BATCH[0], needs=()) | {"dependencies": "Order"}]})
        + "\n```"
    )
    assert after(fenced).records[BATCH[0]].dependencies == ()


def test_a_file_of_another_ones_name_counts_as_the_paper_counts_and_is_told_apart_beside():
    batch = ["a/X.java", "b/X.java", "c/Y.java"]
    for path, both in (("a/X.java", 1), ("X.java", 0), ("c/Y.java", 1), ("Y.java", 1)):
        found = Extraction(list(batch))
        read(found, batch, json.dumps({"results": [record(path, "X", [])]}))
        assert found.success_by_path == both / 3 and len(found.named) == (2 if "X" in path else 1)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda v: (
            st.lists(v)
            | st.dictionaries(st.sampled_from(["results", "file_path", "class_name", "dependencies"]), v)
        ),
        max_leaves=8,
    )
)
def test_any_json_is_read(value):
    found = after(value)
    assert set(found.records) <= set(BATCH)


@pytest.fixture
def asker(tmp_path):
    """(a function that asks what is not stored, the backend that it asks) of an answer to a prompt."""

    def of(answer):
        decoding = Decoding({"max_new_tokens": 700, "stage": "extraction"})
        backend = FakeBackend(lambda request: answer(request.text))
        generator = Generator(MODEL, decoding, GenerationCache(tmp_path), tmp_path, backend)
        return lambda prompts: generator.ask(prompts, "extraction.jsonl", ""), backend

    return of


def names(prompt):
    return [line[10:-4] for line in prompt.split("\n") if line.startswith("--- FILE: ")]


TEXTS = {f"s/{n}.java": f"class {n} {{}}" for n in "ABCDE"}


def all_but(*missing):
    def answer(prompt):
        kept = [p for p in names(prompt) if not (p in missing and len(names(prompt)) > 1)]
        return json.dumps({"results": [record(p, p[2], ["A", "Logger"]) for p in kept]})

    return answer


def test_batches_are_asked_once_and_go_on_from_the_cache(asker):
    first, backend = asker(all_but("s/B.java"))
    found = extract(TEXTS, first, batch=2)
    assert [len(names(r.text)) for r in backend.asked] == [2, 2, 1] and found.skipped == ["s/B.java"]
    again, silent = asker(all_but())
    assert extract(TEXTS, again, batch=2).records == found.records and not silent.asked
    assert found.seconds >= 0 and len(found.answers) == 3


def test_a_retry_asks_for_skipped_files_alone(asker):
    one, backend = asker(all_but("s/B.java", "s/D.java"))
    found = extract(TEXTS, one, batch=2, retries=1)
    assert found.skipped == [] and found.retried == 2
    assert [names(r.text) for r in backend.asked[3:]] == [["s/B.java"], ["s/D.java"]]


def test_a_second_retry_is_another_prompt(asker):
    one, backend = asker(lambda prompt: "no")
    extract({"s/A.java": "class A {}"}, one, batch=1, retries=3)
    # The first retry has the first prompt again, which is known.
    assert len({r.text for r in backend.asked}) == len(backend.asked) == 3


def test_the_graph_holds_extracted_classes_only(asker):
    found = extract(TEXTS, asker(all_but("s/E.java"))[0], batch=5)
    graph = found.graph()
    assert set(graph.nodes) == set("ABCD") and graph.nodes["A"].path == "s/A.java"
    assert set(graph.edges) == {("B", "A"), ("C", "A"), ("D", "A")} and graph.edge_counts() == {
        "depends_on": 3
    }
    assert len(found.dependencies) == 8


def test_of_two_files_with_one_class_name_the_first_counts():
    found = Extraction(["a/X.java", "b/X.java"])
    for path in found.files:
        read(found, [path], json.dumps({"results": [record(path, "X", [])]}))
    assert found.graph().nodes["X"].path == "a/X.java"
