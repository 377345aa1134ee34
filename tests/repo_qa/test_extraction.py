"""LLM-KB's extraction: the published prompt, and what the paper counts of a model's answers."""

from __future__ import annotations

import json

import pytest
from fakes import FakeBackend
from hypothesis import given
from hypothesis import strategies as st

from pkg_lib.generation.cache import GenerationCache
from pkg_lib.generation.generator import Decoding, Generator
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
    assert list(extraction.records) == list(BATCH) and extraction.by_name == 1 and not extraction.faults
    assert extraction.records[BATCH[0]].dependencies == ("Order",)
    assert extraction.skipped == [] and extraction.success_rate == 1.0


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("I am sorry", "no JSON"),
        ("", "no JSON"),
        ('{"results": [{"file_path": "src/a/Cart.java"', "no JSON"),
        (json.dumps([record(BATCH[0])]), 'no list "results"'),
        ({}, 'no list "results"'),
        (json.dumps({"files": [record(BATCH[0])]}), 'no list "results"'),
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
    if fault == "no JSON":
        assert after(answer, finish="length").faults == {"cut off": 1}


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


def test_one_good_record_among_faults_counts():
    good = record(BATCH[1], "Order", ["Cart", 3, " Cart "])
    extraction = after([7, record("X.java"), good, record(BATCH[1])])
    assert list(extraction.records) == [BATCH[1]] and extraction.records[BATCH[1]].dependencies == ("Cart",)
    assert extraction.faults == {"no object": 1, "names a file not in the batch": 1, "names a file again": 1}
    assert extraction.skipped == [BATCH[0]]


def test_json_in_a_fence_and_dependencies_that_are_no_list():
    results = [record(BATCH[0]) | {"dependencies": "Order"}]
    fenced = f"Here it is:\n```json\n{json.dumps({'results': results})}\n```"
    assert after(fenced).records[BATCH[0]].dependencies == ()


KEYS = st.sampled_from(["results", "file_path", "class_name", "dependencies"])
LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=5)


@given(st.recursive(LEAVES, lambda v: st.lists(v) | st.dictionaries(KEYS, v), max_leaves=8))
def test_any_json_is_read(value):
    assert set(after(json.dumps(value)).records) <= set(BATCH)
    assert set(after([value]).records) <= set(BATCH)


TEXTS = {f"s/{n}.java": f"class {n} {{}}" for n in "ABCDE"}


def names(prompt):
    return [line[10:-4] for line in prompt.split("\n") if line.startswith("--- FILE: ")]


def all_but(*skipped):
    """Answers with a record for each file, but for these where others are asked for with them."""

    def answer(request):
        files = names(request.text)
        kept = [f for f in files if f not in skipped or len(files) == 1]
        return json.dumps({"results": [record(f, f[2], ["A", "Logger"]) for f in kept]})

    return answer


@pytest.fixture
def asked(tmp_path):
    """(the extraction of texts by a model that answers so, its backend); answers are kept."""

    def of(answer, texts=TEXTS, **options):
        backend, cache = FakeBackend(answer), GenerationCache(tmp_path)
        generator = Generator("qwen2.5-coder-1.5b-instruct", Decoding({}), cache, tmp_path, backend)
        while prompts := extraction_of(texts, generator, **options).missing:
            generator.ask(prompts, "extraction.jsonl", "")
        return extraction_of(texts, generator, **options), backend

    return of


def test_batches_are_asked_once_and_go_on_from_the_cache(asked):
    first, backend = asked(all_but("s/B.java"), batch=2)
    assert [len(names(r.text)) for r in backend.asked] == [2, 2, 1] and first.skipped == ["s/B.java"]
    again, silent = asked(all_but(), batch=2)
    assert again.records == first.records and len(again.answers) == 3 and not silent.asked


def test_a_retry_asks_for_skipped_files_alone(asked):
    extraction, backend = asked(all_but("s/B.java", "s/D.java"), batch=2, retries=1)
    assert extraction.skipped == [] and len(extraction.answers) == 5
    assert [names(r.text) for r in backend.asked[3:]] == [["s/B.java"], ["s/D.java"]]


def test_a_second_retry_is_another_prompt(asked):
    _, backend = asked(lambda request: "no", {"s/A.java": "class A {}"}, batch=1, retries=3)
    # The first retry has the first prompt again, which is known.
    assert len({r.text for r in backend.asked}) == len(backend.asked) == 3


def test_the_graph_holds_extracted_classes_only(asked):
    extraction, _ = asked(all_but("s/E.java"), batch=5)
    graph = extraction.graph()
    assert set(graph.nodes) == set("ABCD") and graph.nodes["A"].path == "s/A.java"
    assert set(graph.edges) == {("B", "A"), ("C", "A"), ("D", "A")}
    assert graph.edge_counts() == {"depends_on": 3} and len(extraction.dependencies) == 8


def test_of_two_files_with_one_class_name_the_first_counts():
    extraction = after([record("a/X.java", "X", []), record("b/X.java", "X", [])], ["a/X.java", "b/X.java"])
    assert len(extraction.records) == 2 and extraction.graph().nodes["X"].path == "a/X.java"
