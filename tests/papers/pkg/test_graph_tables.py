"""Tables on graphs: sizes, the conservation ledger, skipped documents, costs, runs of models, and code search."""

import pytest

from pkg_lib.analysis.tables import DASH
from pkg_lib.core.store import write_json
from pkg_lib.core.types import Document
from pkg_lib.graph.graph_ledger import ledger
from pkg_lib.graph.schema import build_code_graph
from pkg_lib.graph.text.documents import Structured, build_text_graph
from pkg_lib.papers.pkg import graph_tables
from pkg_lib.papers.pkg.graph_building import CorpusGraph

FUNCTION = "def f(a):\n    for x in a:\n        print(x)\n"
CONTENT = {"title": "A title", "parts": [{"code": "a = 1"}]}


@pytest.fixture(scope="module")
def code():
    """Two documents with a function each, and one that is not Python."""
    documents = [Document("one", FUNCTION), Document("two", "def g():\n    return 1\n")]
    graph = build_code_graph(documents)
    return CorpusGraph("small", documents, graph, ledger(documents, graph), 0.5)


@pytest.fixture(scope="module")
def text():
    documents = [Document("t", "", "rst")]
    graph = build_text_graph(documents, [Structured("t", CONTENT)])
    return CorpusGraph("prose", documents, graph, None, 0.5)


def test_sizes_are_counted_by_type_and_add_up(code, text):
    frame = graph_tables.sizes_table([code, text]).frame
    assert frame.loc["documents"].tolist() == ["2", "1"]
    assert frame.loc["IMPL nodes"].tolist() == ["2", DASH]
    assert frame.loc["PATHVALUE nodes", "small"] == DASH
    for column in ("small", "prose"):
        kinds = [cell for name, cell in frame[column].items() if name.endswith(" nodes")]
        counts = [int(cell) for cell in kinds if cell != DASH]
        assert sum(counts) == int(frame.loc["nodes", column])


def test_nothing_is_lost_of_code_and_text(code, text):
    frame = graph_tables.conservation_table([code, text]).frame
    assert frame.loc["small"].tolist() == ["functions", "2", "2", "0", "0", "0"]
    assert frame.loc["prose"].tolist() == ["documents", "1", "1", "0", "0", DASH]


def test_skipped_documents_are_counted_by_reason(code):
    assert graph_tables.skipped_table([code]).frame.index.tolist() == ["nothing"]
    documents = [Document("one", FUNCTION), Document("broken", "nothing to parse here (")]
    graph = build_code_graph(documents)
    broken = CorpusGraph("broken", documents, graph, ledger(documents, graph), 0.5)
    frame = graph_tables.skipped_table([broken]).frame
    assert frame["documents"].tolist() == ["1"]
    assert frame.index[0].startswith("broken: ")


def test_costs_that_were_not_measured_are_dashes_beside_the_paper(tmp_path, text):
    table = graph_tables.cost_table(tmp_path, {}, text)
    nodes = table.frame.loc["path-value nodes, prose"]
    assert nodes["measured here"] == str(text.nodes["PATHVALUE"])
    assert nodes["in the paper (PKG)"] != DASH
    assert DASH in set(table.frame["measured here"])


def test_the_index_is_shown_by_search_beam():
    at_4 = {"ms": 0.123, "recall_at_1": 0.9}
    search = {
        "exact_rows": 2000,
        "exact_ms": 1.5,
        "hnsw_rows": 1000,
        "hnsw": {"16": at_4 | {"recall_at_1": 1.0}, "4": at_4},
    }
    frame = graph_tables.search_table({"search": search}).frame
    assert frame.index.tolist() == ["exact (flat)", "HNSW, efSearch 4", "HNSW, efSearch 16"]
    assert frame.loc["exact (flat)"].tolist() == ["2,000", "1.50", "1.000"]
    assert frame.loc["HNSW, efSearch 4"].tolist() == ["1,000", "0.12", "0.900"]
    assert graph_tables.search_table({}).frame.to_numpy().tolist() == [[DASH] * 3]


LOG = {
    "model": "a-model",
    "corpus": "small",
    "revision": "r1",
    "functions": 1200,
    "without_docstring": 7,
    "asked": 5,
    "accepted": 2,
    "rejected": {"empty": 1, "code leaked": 2},
    "tokens": 99,
}


def test_runs_of_the_enhancer_are_named_and_reasons_are_ordered(tmp_path):
    write_json(tmp_path / "enhanced" / "a-model" / "small.log.json", LOG)
    table = graph_tables.docstrings_table(tmp_path)
    cells = table.frame.loc["a-model, small"].tolist()
    assert cells == ["1,200", "7", "5", "2", "3", "code leaked 2, empty 1", "99"]
    assert any("a-model is r1" in note for note in table.notes)


def test_runs_of_the_structurer_show_a_dash_for_what_is_not_known(tmp_path):
    log = {"structurer": "headings", "corpus": "prose", "documents": 3, "structured": 3}
    log |= {"rejected_by_reason": {}, "validity_rate": 0.5}
    write_json(tmp_path / "structured" / "prose" / "headings.log.json", log)
    cells = graph_tables.structured_table(tmp_path).frame.loc["headings, prose"].tolist()
    assert cells == ["3", "50.0", DASH, "3", "0", DASH, DASH, DASH, DASH]


@pytest.mark.parametrize(
    "table_of",
    [
        graph_tables.docstrings_table,
        graph_tables.docstring_effects_table,
        graph_tables.structured_table,
    ],
)
def test_without_a_run_the_table_says_so(tmp_path, table_of):
    frame = table_of(tmp_path).frame
    assert frame.index.tolist() == ["no run yet"]
    assert set(frame.iloc[0]) == {DASH}


MEASURED = {"mrr_at_10": 0.5, "recall_at_1": 0.25, "recall_at_5": 1}
CODE_SEARCH = {
    "methods": {"BM25": MEASURED, "MiniLM": {"mrr_at_10": 0.75}},
    "paired": {"BM25": {"better": 3, "worse": 1, "p_first": 0.0001}},
    "variations": {"without distractors": {"BM25": MEASURED}},
    "configuration": {
        "bm25_weight": 0.5,
        "rrf_constant": 60,
        "distractors": 1000,
        "tasks": 500,
        "embedder": "an-embedder",
    },
}


def test_code_search_is_shown_with_its_paired_test():
    table = graph_tables.code_search_table(CODE_SEARCH)
    cells = table.frame.loc["BM25"].tolist()
    assert cells[:3] == ["0.500", "0.250", "1.000"]
    assert cells[-3:] == [3, 1, "< 0.001"]
    assert table.frame.loc["MiniLM"].tolist()[1:3] == [DASH, DASH]
    assert any("1,000" in note for note in table.notes)


def test_code_search_that_was_not_measured_shows_the_published_rows():
    table = graph_tables.code_search_table({})
    assert len(table.frame)
    ours = table.frame[["MRR@10", "recall@1", "recall@5"]]
    assert set(ours.to_numpy().ravel()) == {DASH}


def test_code_search_is_shown_for_every_set_of_candidates():
    frame = graph_tables.code_search_sets_table(CODE_SEARCH).frame
    assert frame.index.tolist() == ["as above", "without distractors"]
    assert frame.loc["as above", "MiniLM MRR@10"] == "0.750"
    assert frame.loc["without distractors", "BM25 recall@5"] == "1.000"
    assert frame.loc["without distractors", "MiniLM MRR@10"] == DASH
