"""LLM-KB's extraction: the published prompt, and what the paper counts of a model's answers."""

from __future__ import annotations

import json

import pytest
from fakes import FakeBackend
from hypothesis import given
from hypothesis import strategies as st

from pkg_lib.core.types import Request
from pkg_lib.generation.cache import GenerationCache
from pkg_lib.generation.generator import Decoding, Generator, StoredRequest
from pkg_lib.papers.dkb.llm_kb import Extraction, extraction_of, prompt_of

BATCH = ("src/a/Cart.java", "src/b/Order.java")


def record(path, name="Cart", needs=("Order",)):
    return {"file_path": path, "class_name": name, "dependencies": list(needs)}


def after(answer, batch=BATCH, finish="end"):
    """The extraction of a batch from one answer: text, or the list of its results."""
    extraction = Extraction(list(batch))
    raw = answer if isinstance(answer, str) else json.dumps({"results": answer})
    extraction.read(batch, raw, finish)
    return extraction


def test_the_prompt_names_and_truncates_the_files():
    texts = {"A.java": "x" * 15_001, "{question}.java": "class {batch_content} {}"}
    prompt = prompt_of(list(texts), texts)
    assert "x" * 15_000 in prompt and "x" * 15_001 not in prompt
    assert "\n--- FILE: {question}.java ---\nclass {batch_content} {}\n" in prompt
    assert '"file_path": "path/to/File.java"' in prompt


def test_records_by_path_and_by_file_name():
    extraction = after([record("./src/a/../a/Cart.java"), record("Order.java", "Order", [])])
    assert (
        list(extraction.records) == list(BATCH)
        and extraction.by_name == 1
        and not extraction.faults
    )
    assert extraction.records[BATCH[0]].dependencies == ("Order",)
    assert extraction.skipped == [] and extraction.success_rate == 1.0


NO_LIST = 'no list "results"'


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("I am sorry", "no JSON"),
        ("", "no JSON"),
        ('{"results": [{"file_path": "src/a/Cart.java"', "no JSON"),
        (json.dumps([record(BATCH[0])]), NO_LIST),
        ({}, NO_LIST),
        (json.dumps({"files": [record(BATCH[0])]}), NO_LIST),
        (["Cart"], "no object"),
        ([{"class_name": "Cart", "dependencies": []}], "names no file"),
        ([record("")], "names no file"),
        ([record(["x"])], "names no file"),
        ([record("src/c/Other.java")], "names a file not in the batch"),
    ],
)
def test_answers_that_give_no_record_are_counted_by_reason(answer, fault):
    extraction = after(answer)
    assert extraction.faults == {fault: 1} and not extraction.records
    assert extraction.skipped == list(BATCH) and extraction.success_rate == 0.0
    assert after(answer, finish="length").faults == {"cut off" if fault == "no JSON" else fault: 1}


@pytest.mark.parametrize("name", ["", None])
def test_a_file_that_is_named_without_a_class_is_processed_and_has_no_record(name):
    extraction = after([record(BATCH[0], name)])
    assert extraction.faults == {"names no class": 1} and not extraction.records
    assert extraction.skipped == [BATCH[1]] and extraction.success_rate == 0.5


@pytest.mark.parametrize(
    ("named", "identified"),
    [(["a/X.java"], 1), (["X.java"], 0), (["X.java", "X.java"], 0), (["else/X.java"], 0)],
)
def test_files_of_one_name_are_all_processed_when_one_is_named(named, identified):
    """Listing 3 looks for the last part of the path among all that was returned."""
    extraction = after([record(n, "X", []) for n in named], ["a/X.java", "b/X.java", "c/Y.java"])
    assert extraction.skipped == ["c/Y.java"] and list(extraction.records) == ["a/X.java"]
    assert len(extraction.identified) == identified


def test_good_records_count_among_faults_and_in_a_fence():
    good = record(BATCH[1], "Order", ["Cart", 3, " Cart "])
    results = [
        7,
        record("X.java"),
        good,
        record(BATCH[1]),
        record(BATCH[0]) | {"dependencies": "Order"},
    ]
    fenced = f"Here it is:\n```json\n{json.dumps({'results': results})}\n```"
    extraction = after(fenced)
    assert {path: r.dependencies for path, r in extraction.records.items()} == {
        BATCH[1]: ("Cart",),
        BATCH[0]: (),
    }
    assert extraction.faults == {
        "no object": 1,
        "names a file not in the batch": 1,
        "names a file again": 1,
    }


KEYS = st.sampled_from(["results", "file_path", "class_name", "dependencies"])
LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=5)


@given(st.recursive(LEAVES, lambda v: st.lists(v) | st.dictionaries(KEYS, v), max_leaves=8))
def test_any_json_is_read(value):
    assert set(after(json.dumps(value)).records) <= set(BATCH)
    assert set(after([value]).records) <= set(BATCH)


TEXTS = {f"s/{n}.java": f"class {n} {{}}" for n in "ABCDE"}


def names(request):
    return [line[10:-4] for line in request.text.split("\n") if line.startswith("--- FILE: ")]


def all_but(*skipped):
    """Answers with a record for each file, but for these where others are asked for with them."""

    def answer(request):
        kept = [f for f in names(request) if f not in skipped or len(names(request)) == 1]
        return json.dumps({"results": [record(f, f[2], ["A", "Logger"]) for f in kept]})

    return answer


@pytest.fixture
def asked(tmp_path):
    """(the extraction of texts by a model that answers so, the files of each prompt); answers are kept."""

    def of(answer, texts=TEXTS, **options):
        backend, cache = FakeBackend(answer), GenerationCache(tmp_path)
        generator = Generator("qwen2.5-coder-1.5b-instruct", Decoding({}), cache, tmp_path, backend)
        while prompts := extraction_of(texts, generator, **options).missing:
            requests = (Request(name, text, "") for name, text in prompts.items())
            generator.complete((StoredRequest(r, "extraction.jsonl") for r in requests), "")
        return extraction_of(texts, generator, **options), list(map(names, backend.asked))

    return of


def test_batches_are_asked_once_and_retries_ask_for_skipped_files_alone(asked):
    answer = all_but("s/B.java", "s/D.java")
    first, prompts = asked(answer, batch=2)
    assert list(map(len, prompts)) == [2, 2, 1] and first.skipped == ["s/B.java", "s/D.java"]
    again, prompts = asked(answer, batch=2)
    assert again.records == first.records and len(again.answers) == 3 and not prompts
    retried, prompts = asked(answer, batch=2, retries=1)
    assert retried.skipped == [] and prompts == [["s/B.java"], ["s/D.java"]]


def test_a_second_retry_is_another_prompt(asked):
    _, prompts = asked(lambda request: "no", {"s/A.java": "class A {}"}, batch=1, retries=3)
    assert len(prompts) == 3  # the first retry has the first prompt again, which is known


def test_the_graph_holds_extracted_classes_only_and_of_two_the_first(asked):
    extraction, _ = asked(all_but("s/E.java"), batch=5)
    graph = extraction.graph()
    assert {n.name: n.path for n in graph.nodes.values()} == {n: f"s/{n}.java" for n in "ABCD"}
    assert set(graph.edges) == {("B", "A"), ("C", "A"), ("D", "A")}
    assert graph.edge_counts() == {"depends_on": 3} and len(extraction.dependencies) == 8
    twice = after(
        [record("a/X.java", "X", []), record("b/X.java", "X", [])], ["a/X.java", "b/X.java"]
    )
    assert len(twice.records) == 2 and twice.graph().nodes["X"].path == "a/X.java"
