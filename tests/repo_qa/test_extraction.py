"""LLM-KB's extraction: the published prompt, and what the paper counts in the answers of a model."""

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
    """The extraction of a batch from one answer.

    Args:
        answer: The text of the answer, or the list of its results.
        batch: Paths of the files in the prompt.
        finish: Why the model stopped.
    """
    extraction = Extraction(list(batch))
    raw = answer if isinstance(answer, str) else json.dumps({"results": answer})
    extraction.read(batch, raw, finish)
    return extraction


def test_the_prompt_names_and_truncates_the_files():
    texts = {"A.java": "x" * 15_001, "{question}.java": "class {batch_content} {}"}
    prompt = prompt_of(list(texts), texts)
    assert "x" * 15_000 in prompt
    assert "x" * 15_001 not in prompt
    assert "\n--- FILE: {question}.java ---\nclass {batch_content} {}\n" in prompt
    assert '"file_path": "path/to/File.java"' in prompt


def test_identifies_files_by_path_and_by_file_name():
    extraction = after([record("./src/a/../a/Cart.java"), record("Order.java", "Order", [])])
    assert list(extraction.records) == list(BATCH)
    assert extraction.by_name == 1
    assert not extraction.faults
    assert extraction.records[BATCH[0]].dependencies == ("Order",)
    assert extraction.skipped == []
    assert extraction.success_rate == 1.0


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
def test_counts_answers_without_a_record_by_reason(answer, fault):
    extraction = after(answer)
    assert extraction.faults == {fault: 1}
    assert not extraction.records
    assert extraction.skipped == list(BATCH)
    assert extraction.success_rate == 0.0
    truncated = after(answer, finish="length")
    assert truncated.faults == {"cut off at the token limit" if fault == "no JSON" else fault: 1}


@pytest.mark.parametrize("name", ["", None])
def test_a_file_named_without_a_class_counts_as_processed_and_has_no_record(name):
    extraction = after([record(BATCH[0], name)])
    assert extraction.faults == {"names no class": 1}
    assert not extraction.records
    assert extraction.skipped == [BATCH[1]]
    assert extraction.success_rate == 0.5


@pytest.mark.parametrize(
    ("named", "identified"),
    [(["a/X.java"], 1), (["X.java"], 0), (["X.java", "X.java"], 0), (["else/X.java"], 0)],
)
def test_naming_one_file_marks_all_files_of_that_name_as_processed(named, identified):
    """Listing 3 searches all returned paths for the last part of a file's path."""
    records = [record(path, "X", []) for path in named]
    extraction = after(records, ["a/X.java", "b/X.java", "c/Y.java"])
    assert extraction.skipped == ["c/Y.java"]
    assert list(extraction.records) == ["a/X.java"]
    assert len(extraction.identified) == identified


def test_reads_valid_records_beside_faulty_ones_in_a_fenced_answer():
    results = [
        7,
        record("X.java"),
        record(BATCH[1], "Order", ["Cart", 3, " Cart "]),
        record(BATCH[1]),
        record(BATCH[0]) | {"dependencies": "Order"},
    ]
    extraction = after(f"Here it is:\n```json\n{json.dumps({'results': results})}\n```")
    dependencies = {path: found.dependencies for path, found in extraction.records.items()}
    assert dependencies == {BATCH[1]: ("Cart",), BATCH[0]: ()}
    assert extraction.faults == {
        "no object": 1,
        "names a file not in the batch": 1,
        "names a file again": 1,
    }


KEYS = st.sampled_from(["results", "file_path", "class_name", "dependencies"])
LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=5)


@given(st.recursive(LEAVES, lambda v: st.lists(v) | st.dictionaries(KEYS, v), max_leaves=8))
def test_reads_any_json(value):
    assert set(after(json.dumps(value)).records) <= set(BATCH)
    assert set(after([value]).records) <= set(BATCH)


TEXTS = {f"s/{n}.java": f"class {n} {{}}" for n in "ABCDE"}


def names(request):
    """The paths of the files in a prompt."""
    lines = request.text.split("\n")
    return [line[10:-4] for line in lines if line.startswith("--- FILE: ")]


def all_but(*skipped):
    """A model that gives a record for each file, but skips these if they are not alone in the prompt."""

    def answer(request):
        files = names(request)
        kept = [file for file in files if file not in skipped or len(files) == 1]
        records = [record(file, file[2], ["A", "Logger"]) for file in kept]
        return json.dumps({"results": records})

    return answer


@pytest.fixture
def extracted(tmp_path):
    """Extract texts with a fake model; return the extraction and the files of each new prompt.

    Answers are stored, so that a second call sends only prompts that are new.
    """

    def extract(answer, texts=TEXTS, **options):
        backend = FakeBackend(answer)
        cache = GenerationCache(tmp_path)
        generator = Generator("qwen2.5-coder-1.5b-instruct", Decoding({}), cache, tmp_path, backend)
        while prompts := extraction_of(texts, generator, **options).missing:
            requests = []
            for name, text in prompts.items():
                requests.append(StoredRequest(Request(name, text, ""), "extraction.jsonl"))
            generator.complete(requests, "")
        prompted_files = [names(request) for request in backend.asked]
        return extraction_of(texts, generator, **options), prompted_files

    return extract


def test_prompts_for_each_batch_once_and_retries_only_skipped_files(extracted):
    answer = all_but("s/B.java", "s/D.java")
    first, prompts = extracted(answer, batch=2)
    assert [len(files) for files in prompts] == [2, 2, 1]
    assert first.skipped == ["s/B.java", "s/D.java"]
    again, prompts = extracted(answer, batch=2)
    assert again.records == first.records
    assert len(again.answers) == 3
    assert not prompts
    retried, prompts = extracted(answer, batch=2, retries=1)
    assert retried.skipped == []
    assert prompts == [["s/B.java"], ["s/D.java"]]


def test_a_second_retry_is_another_prompt(extracted):
    texts = {"s/A.java": "class A {}"}
    _, prompts = extracted(lambda request: "no", texts, batch=1, retries=3)
    # The first retry repeats the first prompt, whose answer is stored.
    assert len(prompts) == 3


def test_the_graph_contains_extracted_classes_and_the_first_of_equal_names(extracted):
    extraction, _ = extracted(all_but("s/E.java"), batch=5)
    graph = extraction.graph()
    paths = {node.name: node.path for node in graph.nodes.values()}
    assert paths == {"A": "s/A.java", "B": "s/B.java", "C": "s/C.java", "D": "s/D.java"}
    assert set(graph.edges) == {("B", "A"), ("C", "A"), ("D", "A")}
    assert graph.edge_counts() == {"depends_on": 3}
    assert len(extraction.dependencies) == 8
    same_name = [record("a/X.java", "X", []), record("b/X.java", "X", [])]
    extraction = after(same_name, ["a/X.java", "b/X.java"])
    assert len(extraction.records) == 2
    assert extraction.graph().nodes["X"].path == "a/X.java"
