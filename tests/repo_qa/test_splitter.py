"""The same chunks as langchain-text-splitters gives, with the right lines."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pkg_lib.papers.dkb.splitter import chunks_of, split

HERE = Path(__file__).parent
STORED = json.loads((HERE / "data" / "splitter.json").read_text("utf8"))  # see "made_with"
SHOP = HERE.parent / "data" / "shop"


def test_the_chunks_of_langchain():
    for case in STORED["cases"]:
        spans = split(case["text"], case["size"], case["overlap"])
        assert [case["text"][a:b] for a, b in spans] == case["chunks"]
    assert len(STORED["shop"]) == 53
    for path, digests in STORED["shop"].items():
        chunks = chunks_of(path, (SHOP / path).read_text("utf8"))
        assert [hashlib.sha256(c.text.encode()).hexdigest()[:12] for c in chunks] == digests


texts = st.lists(
    st.sampled_from(["a", "word", " ", "\n", "\n\n", "  ", "x" * 30]), max_size=60
).map("".join)


@given(texts, st.integers(1, 40), st.integers(0, 39))
def test_nothing_but_white_space_is_lost_and_lines_are_those_of_the_text(text, size, overlap):
    overlap = min(overlap, size - 1)
    spans, lines = list(split(text, size, overlap)), text.split("\n")
    held = {i for a, b in spans for i in range(a, b)}
    assert all(text[i].isspace() for i in set(range(len(text))) - held)
    assert all(0 < b - a <= size for a, b in spans) and spans == sorted(spans)
    for chunk in chunks_of("A.java", text, size, overlap):
        assert chunk.text in "\n".join(lines[chunk.first - 1 : chunk.last])
        assert chunk.text.count("\n") == chunk.last - chunk.first
