"""The same chunks as langchain-text-splitters gives, with the right lines."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg_lib.papers.dkb.splitter import chunks_of, split

HERE = Path(__file__).parent
STORED = json.loads((HERE / "data" / "splitter.json").read_text("utf8"))  # see "made_with"
SHOP = HERE.parent / "data" / "shop"


@pytest.mark.parametrize(
    "case", STORED["cases"], ids=lambda c: f"{c['size']}-{c['overlap']}-{len(c['text'])}"
)
def test_the_chunks_of_langchain(case):
    spans = split(case["text"], case["size"], case["overlap"])
    assert [case["text"][a:b] for a, b in spans] == case["chunks"]


def test_the_chunks_of_langchain_on_the_shop():
    assert len(STORED["shop"]) == 53
    for path, digests in STORED["shop"].items():
        chunks = chunks_of(path, (SHOP / path).read_text("utf8"))
        assert [hashlib.sha256(c.text.encode()).hexdigest()[:12] for c in chunks] == digests


texts = st.lists(st.sampled_from(["a", "word", " ", "\n", "\n\n", "  ", "x" * 30]), max_size=60).map("".join)


@given(texts, st.integers(1, 40), st.integers(0, 39))
def test_nothing_but_white_space_is_lost(text, size, overlap):
    spans = split(text, size, min(overlap, size - 1))
    held = {i for a, b in spans for i in range(a, b)}
    assert all(text[i].isspace() for i in set(range(len(text))) - held)
    assert all(0 < b - a <= size for a, b in spans)
    assert [a for a, _ in spans] == sorted(a for a, _ in spans)


@given(texts)
def test_lines_are_those_of_the_text(text):
    lines = text.split("\n")
    for chunk in chunks_of("A.java", text, 20, 5):
        assert chunk.text in "\n".join(lines[chunk.first - 1 : chunk.last])
        assert chunk.text.count("\n") == chunk.last - chunk.first


def test_an_overlap_that_is_no_overlap():
    with pytest.raises(ValueError, match="not below"):
        split("text", 10, 10)
