"""The splitter gives the chunks of langchain-text-splitters, with correct line numbers."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pkg_lib.papers.dkb.splitter import chunks_of, split

HERE = Path(__file__).parent
# The key "made_with" names the version of langchain-text-splitters.
STORED = json.loads((HERE / "data" / "splitter.json").read_text("utf8"))
SHOP = HERE.parent / "data" / "shop"


def test_gives_the_chunks_of_langchain():
    for case in STORED["cases"]:
        text = case["text"]
        spans = split(text, case["size"], case["overlap"])
        assert [text[start:stop] for start, stop in spans] == case["chunks"]
    assert len(STORED["shop"]) == 53
    for path, digests in STORED["shop"].items():
        chunks = chunks_of(path, (SHOP / path).read_text("utf8"))
        found = [hashlib.sha256(chunk.text.encode()).hexdigest()[:12] for chunk in chunks]
        assert found == digests


pieces = st.sampled_from(["a", "word", " ", "\n", "\n\n", "  ", "x" * 30])
texts = st.lists(pieces, max_size=60).map("".join)


@given(texts, st.integers(1, 40), st.integers(0, 39))
def test_loses_only_white_space_and_numbers_lines_correctly(text, size, overlap):
    overlap = min(overlap, size - 1)
    spans = list(split(text, size, overlap))
    assert spans == sorted(spans)
    covered = set()
    for start, stop in spans:
        assert 0 < stop - start <= size
        covered.update(range(start, stop))
    lost = set(range(len(text))) - covered
    assert all(text[position].isspace() for position in lost)
    lines = text.split("\n")
    for chunk in chunks_of("A.java", text, size, overlap):
        assert chunk.text in "\n".join(lines[chunk.first - 1 : chunk.last])
        assert chunk.text.count("\n") == chunk.last - chunk.first
