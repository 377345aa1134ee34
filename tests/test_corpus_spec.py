"""Names of corpora: parsing and printing are inverse to each other."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pkg_lib.core.embedders import INT8
from pkg_lib.core.types import UserError
from pkg_lib.data.corpora import load_corpus, with_options
from pkg_lib.data.corpus_spec import CONTEXT_CHARS, MINILM, CorpusPart, CorpusSpec, parse_corpus

# Random sequences of these words often look like options.
WORDS = ["a", "/x y", "source", ":", "+", ",", " ", "3", "bolt", "//", "\n", "é"]
OPTION_TEXTS = [", embedder ", ", top 3", ", top ", ", 500 characters", ", tokenizer a"]
TEXTS = st.lists(st.sampled_from(WORDS + OPTION_TEXTS)).map("".join)
PARTS = st.builds(CorpusPart, st.sampled_from(["textbook", "stdlib"])) | st.builds(
    CorpusPart, st.sampled_from(["source", "docstrings", "bolt", "bolt+s"]), TEXTS
)
OPTIONS = {
    "embedder": st.just(MINILM) | TEXTS,
    "top_k": st.integers(1, 20),
    "length": st.integers(1, 9000),
    "tokenizer": st.sampled_from(["", "ascii", "unicode"]),
}


@st.composite
def specs(draw):
    fields = {name: draw(values) for name, values in OPTIONS.items()}
    try:
        return CorpusSpec(tuple(draw(st.lists(PARTS, min_size=1, max_size=3))), **fields)
    except UserError:  # no name expresses these fields
        return CorpusSpec((CorpusPart("textbook"),), top_k=fields["top_k"])


@given(specs())
def test_parsing_a_printed_corpus_returns_the_same_corpus(spec):
    assert parse_corpus(spec.name) == spec
    assert parse_corpus(str(spec)) == spec
    assert parse_corpus(spec) == spec


@given(TEXTS)
@example("textbook")
@example("textbook+stdlib, embedder hf:org/name@" + "a" * 40 + ", top 3, 500 characters")
@example("source:/a, b/c+textbook, tokenizer ascii")
@example("bolt+s://host:7687/name, top 2")
@example("")
@example("source:")
def test_printing_a_parsed_canonical_name_returns_the_same_name(name):
    with suppress(UserError):
        spec = parse_corpus(name)
        assert parse_corpus(spec.name) == spec
        # A canonical name does not state the default options.
        defaults = (
            f", embedder {MINILM}",
            f", embedder {INT8}",
            ", top 1",
            f", {CONTEXT_CHARS} characters",
        )
        if not any(default in name for default in defaults):
            assert spec.name == name


def test_parses_the_fields_of_a_name():
    spec = parse_corpus("textbook+source:/a:b, embedder E@c, top 3, 500 characters, tokenizer x")
    parts = (CorpusPart("textbook"), CorpusPart("source", "/a:b"))
    assert spec == CorpusSpec(parts, "E@c", 3, 500, "x")
    assert spec.documents == "textbook+source:/a:b"
    assert not spec.has_default_options
    assert parse_corpus("textbook, top 1").name == "textbook"
    graph = parse_corpus("bolt+s://host/name, top 2")
    assert graph.is_stored_graph
    assert graph.documents == "bolt+s://host/name"


@pytest.mark.parametrize("path", ["/a+b", "/a, top 3", "/a, embedder x"])
def test_refuses_a_path_that_no_name_can_contain(path):
    with pytest.raises(UserError, match="rename it"):
        CorpusSpec((CorpusPart("source", path),))


def test_keeps_the_options_of_a_name_unless_others_are_given():
    spec = with_options("textbook, top 3", "", 1, 100, "")
    assert spec == replace(parse_corpus("textbook"), top_k=3, length=100)


def test_user_supplied_code_uses_the_quantized_embedder_by_default():
    assert parse_corpus("textbook+stdlib").embedder == MINILM
    assert parse_corpus("textbook+source:/a").embedder == INT8
    chosen = with_options("source:/", MINILM, 1, CONTEXT_CHARS, "")
    assert chosen.name == f"source:/, embedder {MINILM}"
    assert chosen.embedder == MINILM
    assert with_options("source:/", "", 1, CONTEXT_CHARS, "").name == "source:/"


def test_makes_the_path_of_a_directory_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = parse_corpus("textbook+source:code, top 3").with_absolute_paths()
    assert spec.name == f"textbook+source:{tmp_path}/code, top 3"
    assert parse_corpus("source:").with_absolute_paths().name == "source:"


def test_loads_a_corpus_by_name_by_path_and_by_value(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    name = f"source:{tmp_path}"
    for argument in (name, tmp_path, str(tmp_path), parse_corpus(name)):
        corpus = load_corpus(argument)
        assert [document.id for document in corpus] == ["source/a.py"]
        assert len(corpus) == 1
        assert corpus.spec.name == name
        assert corpus.kind == "code"
