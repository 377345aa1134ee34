"""Chunks: nothing is lost, nothing is too large, and as-published is what astchunk writes."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import numpy as np
import pytest
from astchunk import ASTChunkBuilder
from hypothesis import given
from hypothesis import strategies as st

from pkg_lib.chunking.assembly import MAX_INDENT
from pkg_lib.chunking.chunk_coverage import BETWEEN, LAYOUT, LEAF, OUTSIDE
from pkg_lib.chunking.chunker import METHODS, Chunker
from pkg_lib.chunking.languages import GRAMMARS, language_of
from pkg_lib.chunking.source import encode
from pkg_lib.chunking.statistics import FunctionCuts, chunk_statistics, functions_cut
from pkg_lib.core.types import UserError

DATA = Path(__file__).resolve().parent.parent / "data" / "chunking"
SAMPLES = {p.name: p.read_bytes() for p in sorted(DATA.iterdir())}
SAMPLES["windows.py"] = (
    Path(__file__).parents[2] / "pkg_lib" / "chunking" / "windows.py"
).read_bytes()
WHITE = " \t\n\r\x0b\x0c"


def theirs(text: str, language: str, limit: int, path: str = "", **options) -> list[str]:
    template = "default" if path else "none"
    language = language.replace("tsx", "typescript")
    builder = ASTChunkBuilder(max_chunk_size=limit, language=language, metadata_template=template)
    made = builder.chunkify(text, repo_level_metadata={"filepath": path}, **options)
    return [window["content"] for window in made]


OPTIONS = (
    {"chunk_expansion": True},
    {"chunk_overlap": 1},
    {"chunk_overlap": 3},
    {"chunk_overlap": 2, "chunk_expansion": True},
)


def published(limit: int, **options) -> Chunker:
    return Chunker(mode="as-published", max_size=limit, **options)


def check_lossless(
    data: bytes, name: str, limit: int, method: str = "cast", language: str | None = None
):
    made = Chunker(method, "lossless", limit).chunk(data, name, language)
    assert b"".join(encode(c.text) for c in made.chunks) == data
    assert [c.start for c in made.chunks] == [0, *(c.stop for c in made.chunks[:-1])][
        : len(made.chunks)
    ]
    assert made.coverage.balanced and not made.coverage.bytes_lost
    if method != "fixed-size":
        assert all(0 < c.size <= limit for c in made.chunks) or not data.strip()
    if made.coverage.utf8:
        assert all(c.size == sum(x not in WHITE for x in c.text) for c in made.chunks)
    for c in made.chunks:
        assert (
            data[: c.start].count(b"\n") + 1 == c.first
            and data[: c.stop - 1].count(b"\n") + 1 == c.last
        )


LOSSLESS = [method for method in METHODS if method != "sliding-window"]  # whose chunks overlap


@pytest.mark.parametrize("method", LOSSLESS)
@pytest.mark.parametrize("name", SAMPLES)
def test_lossless_at_every_limit(name, method):
    for limit in (1, 2, 7, 40, 150, 600, 5000):
        check_lossless(SAMPLES[name], name, limit, method)


@pytest.mark.parametrize("name", SAMPLES)
def test_as_published_is_what_astchunk_writes(name):
    for limit in (3, 20, 60, 150, 600, 5000):
        made = Chunker(mode="as-published", max_size=limit).chunk(SAMPLES[name], name)
        assert [c.text for c in made.chunks] == theirs(
            SAMPLES[name].decode(), language_of(name), limit
        )
        assert made.coverage.balanced


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", SAMPLES)
def test_headers_and_overlap_are_what_astchunk_writes(name, options):
    for limit in (3, 20, 60, 150, 600, 5000):
        made = published(limit, **options).chunk(SAMPLES[name], name)
        expected = theirs(SAMPLES[name].decode(), language_of(name), limit, name, **options)
        assert [c.text for c in made.chunks] == expected
        assert made.coverage.balanced


PIECES = (
    "def f(a):\n|    return a\n|class A:\n|x = 1\n|if x:\n|  y()\n|# c\n|int f() { return 1; }\n"
    "|日本語 = 2\n|=>|`${a}`"
    "|\t| |\r\n|\n|(|)|[|]|{|}|\"|'''|é|\\\n|;|\ufeff|\x0c|\0|@"
)
pieces = st.sampled_from(PIECES.split("|"))


@given(
    st.lists(pieces, max_size=40).map("".join),
    st.sampled_from(list(GRAMMARS)),
    st.integers(1, 30),
    st.sampled_from(LOSSLESS),
)
def test_lossless_for_text_of_any_kind(text, language, limit, method):
    check_lossless(text.encode(), "x", limit, method, language)


@given(st.binary(max_size=200), st.sampled_from(list(GRAMMARS)), st.integers(1, 30))
def test_lossless_for_bytes_of_any_kind(data, language, limit):
    check_lossless(data, "x", limit, "cast", language)
    assert Chunker(mode="as-published", max_size=limit).chunk(data, "x", language).coverage.balanced


@given(st.lists(pieces, max_size=40).map("".join), st.integers(3, 40))
def test_as_published_for_text_of_any_kind(text, limit):
    made = Chunker(mode="as-published", max_size=limit).chunk(text.encode(), "x.py")
    assert made.coverage.balanced
    assert [c.text for c in made.chunks] == theirs(text, "python", limit)


NESTED = (
    "class A:\n|  class B:\n|  def f(self):\n|    def g():\n|      x = 1\n|    y = 22\n|z = 3\n"
)
nested = st.sampled_from(NESTED.split("|"))


@given(
    st.lists(st.one_of(pieces, nested), max_size=40).map("".join),
    st.integers(3, 40),
    st.sampled_from(OPTIONS),
)
def test_headers_and_overlap_for_text_of_any_kind(text, limit, options):
    made = published(limit, **options).chunk(text.encode(), "x.py")
    assert made.coverage.balanced
    assert [c.text for c in made.chunks] == theirs(text, "python", limit, "x.py", **options)


def installed() -> list[Path]:
    paths = sysconfig.get_paths()
    found = [
        p for p in sorted(Path(paths["stdlib"]).rglob("*.py")) if "site-packages" not in p.parts
    ]
    found += sorted(Path(paths["purelib"]).rglob("*.py"))
    small = [p for p in found if p.stat().st_size < 30_000]
    return small[:: len(small) // 2000][:2000]


@pytest.mark.slow
def test_lossless_for_2000_installed_files():
    files = installed()
    assert len(files) == 2000
    for path in files:
        data = path.read_bytes()
        made = Chunker().chunk(data, path.name)
        assert b"".join(encode(c.text) for c in made.chunks) == data and made.coverage.balanced, (
            path
        )


@pytest.mark.slow
def test_as_published_is_what_astchunk_writes_for_installed_files():
    """Every 40th of them, and one whose leaf is over the limit; astchunk takes only UTF-8."""
    files = {path: path.read_bytes() for path in installed()[::40]}
    over = 0
    for path, data in (files | {Path("long.py"): b"s = '%s'\n" % (b"x" * 3000)}).items():
        made = Chunker(mode="as-published").chunk(data, path.name)
        over += made.coverage.leaves_over
        if made.coverage.utf8:
            ours = [chunk.text for chunk in made.chunks]
            expected = theirs(data.decode(), "python", 2000)
            if max(map(len, data.splitlines()), default=0) > MAX_INDENT:
                # On such lines astchunk's indentation is the one thing that is limited.
                ours, expected = ([text.lstrip() for text in texts] for texts in (ours, expected))
            assert ours == expected, path
    assert over


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS)
def test_headers_and_overlap_are_what_astchunk_writes_for_installed_files(options):
    """Every 20th of them with a small limit, so that most chunks are inside a definition."""
    headers = 0
    for path in installed()[::20]:
        data = path.read_bytes()
        made = published(400, **options).chunk(data, path.name)
        assert made.coverage.balanced, path
        if not made.coverage.utf8 or max(map(len, data.splitlines()), default=0) > MAX_INDENT:
            continue
        ours = [chunk.text for chunk in made.chunks]
        assert ours == theirs(data.decode(), "python", 400, path.name, **options), path
        headers += sum("\ndef " in text[:200] for text in ours)
    assert headers > 20


def test_a_header_names_the_file_and_the_definitions_around_the_chunk():
    text = "class A(B):\n    @property\n    def f(self):\n        x = 111111\n        y = 222222\n"
    made = published(10, chunk_expansion=True).chunk(text.encode(), "pkg/a.py")
    last = made.chunks[-1]
    head = "'''\npkg/a.py\nclass A(B):\n\tdef f(self):\n'''\n"
    assert last.text == f"{head}        y = 222222"
    assert (last.size, last.first, last.last) == (8, 5, 5)


def test_overlapping_chunks_span_the_nodes_of_their_neighbours():
    text = b"a = 1\nb = 2\nc = 3\n"
    made = published(3, chunk_overlap=1).chunk(text, "a.py")
    assert [(c.text, c.first, c.last, c.size) for c in made.chunks] == [
        ("a = 1\nb = 2", 1, 2, 6),
        ("a = 1\nb = 2\nc = 3", 1, 3, 9),
        ("b = 2\nc = 3", 2, 3, 6),
    ]
    assert made.coverage.lost == {BETWEEN: 1}  # the line end of the file alone


def test_headers_do_not_grow_with_an_endless_line():
    data = b"class A: x = [" + b"12345, " * 70_000 + b"]\n"
    made = published(2000, chunk_expansion=True).chunk(data, "a.py")
    assert all(len(c.text) < 20_000 for c in made.chunks) and len(made.chunks) > 100


def test_options_that_do_not_apply_are_refused():
    for options in (
        {"chunk_overlap": 1},
        {"chunk_expansion": True},
        {"method": "fixed-size", "mode": "as-published", "chunk_overlap": 1},
        {"mode": "as-published", "chunk_overlap": -1},
        {"method": "sliding-window", "lines": 5, "step": 6},
        {"method": "sliding-window", "step": 0},
        {"method": "fixed-size", "step": 5},
        {"method": "cast", "lines": 5},
    ):
        with pytest.raises(UserError, match=r"overlap|step|lines"):
            Chunker(**options)


def test_a_leaf_over_the_limit_is_cut_at_line_ends_or_lost_as_published():
    text = 'x = 1\ns = """\n' + "a line of text\n" * 10 + '"""\ny = 2\n'
    made = Chunker(max_size=40).chunk(text.encode(), "a.py")
    assert made.coverage.leaves_over == 1
    assert all(c.text.endswith("\n") for c in made.chunks[1:]) and all(
        c.size <= 40 for c in made.chunks
    )
    published = Chunker(mode="as-published", max_size=40).chunk(text.encode(), "a.py")
    assert published.coverage.leaves_over == 1 and "a line" not in "".join(
        c.text for c in published.chunks
    )
    assert published.coverage.lost[LEAF] == len("\n" + "a line of text\n" * 10)


def test_a_line_over_the_limit_is_cut_between_characters():
    made = Chunker(max_size=10).chunk(('s = "' + "é" * 25 + '"\n').encode(), "a.py")
    assert "é" * 10 in [c.text for c in made.chunks]


def test_reasons_of_loss_as_published():
    tabs = b"def f():\n\ta = 11111\n\tb = 22222\n\r\n\tc = 3\n\n\n"
    made = Chunker(mode="as-published", max_size=14).chunk(tabs, "a.py")
    assert set(made.coverage.lost) == {BETWEEN, LAYOUT} and made.coverage.balanced
    mark = Chunker(mode="as-published").chunk(b"\xef\xbb\xbfx = 1\n", "a.py")
    assert mark.coverage.lost == {OUTSIDE: 3} and mark.chunks[0].text.startswith(" " * 3 + "x = 1")


def test_sizes_are_characters_without_loss_and_windows_are_of_bytes_as_published():
    text = "é = 1\nü = 2\n".encode()
    assert [c.text for c in Chunker(max_size=3).chunk(text, "a.py").chunks] == [
        "é = 1\n",
        "ü = 2\n",
    ]
    published = Chunker(mode="as-published", max_size=3).chunk(text, "a.py").chunks
    assert [(c.text, c.size) for c in published] == [
        ("é =", 2),
        ("     1", 1),
        ("ü =", 2),
        ("     2", 1),
    ]


def test_files_that_do_not_parse_are_counted():
    assert Chunker().chunk(b"def f(:\n  )\nx = = 2\n", "a.py").coverage.parse_errors > 0
    assert Chunker("fixed-size").chunk(b"x\n", "a.py").coverage.parse_errors is None


def test_empty_files_have_no_chunks_without_loss_and_one_as_published():
    assert Chunker().chunk(b"", "a.py").chunks == []
    published = Chunker(mode="as-published").chunk(b"", "a.py").chunks
    assert [c.text for c in published] == theirs("", "python", 2000) == [""]


def test_fixed_size_takes_lines():
    data = "".join(f"{i}\n" for i in range(7)).encode() + b"end"
    made = Chunker("fixed-size", lines=3).chunk(data, "a.py")
    assert [(c.first, c.last) for c in made.chunks] == [(1, 3), (4, 6), (7, 8)]
    assert made.coverage.balanced


def test_sliding_windows_overlap_and_end_with_the_file():
    def windows(count, lines=4, step=2):
        data = "".join(f"{i}\n" for i in range(1, count + 1)).encode()
        made = Chunker("sliding-window", lines=lines, step=step).chunk(data, "a.py")
        assert made.coverage.balanced and made.coverage.parse_errors is None
        return [(c.first, c.last) for c in made.chunks]

    assert windows(0) == [] and windows(3) == [(1, 3)] and windows(4) == [(1, 4)]
    assert windows(5) == [(1, 4), (3, 5)] and windows(7) == [(1, 4), (3, 6), (5, 7)]
    assert windows(7, step=4) == [(1, 4), (5, 7)]
    default = Chunker("sliding-window", lines=20).chunk(b"x\n" * 41, "a.py").chunks
    assert [(c.first, c.last) for c in default] == [(1, 20), (11, 30), (21, 40), (31, 41)]


def test_nothing_grows_with_the_square_of_a_long_line():
    data = b"x = [" + b"12345, " * 70_000 + b"]\n"
    for mode in ("as-published", "lossless"):
        made = Chunker(mode=mode).chunk(data, "a.py")
        assert made.coverage.balanced and sum(len(c.text) for c in made.chunks) < 3 * len(data)


def test_a_chain_of_20000_operators_is_no_recursion():
    check_lossless(("x = " + "a + " * 20_000 + "a\n").encode(), "a.py", 2000)


def test_the_language_is_the_suffixes_and_an_unknown_one_is_named():
    made = Chunker().chunk(b"const a = <b>{c}</b>;\nexport default (x) => x ?? 1;\n", "a.jsx")
    assert (made.coverage.language, made.coverage.parse_errors) == ("javascript", 0)
    with pytest.raises(UserError, match="unknown language 'cobol'; choose from: python"):
        Chunker().chunk(b"", "a.py", "cobol")
    with pytest.raises(UserError, match=r"a\.txt: no language"):
        Chunker().chunk(b"", "a.txt")
    for options, word in (({"method": "nosuch"}, "split-only"), ({"max_size": 0}, "max_size")):
        with pytest.raises(UserError, match=word):
            Chunker(**options)


def test_indentation_and_blank_lines_stay_with_their_lines():
    text = "def h():\n\n    aaaaaaaaaa = 1\n\n    bbbbbbbbbb = 2\n"
    made = Chunker(max_size=12).chunk(text.encode(), "a.py")
    assert [c.text for c in made.chunks] == [
        "def h():\n\n",
        "    aaaaaaaaaa = 1\n\n",
        "    bbbbbbbbbb = 2\n",
    ]


# Statistics of files small enough to be counted by hand.
SHORT = b"def f():\n    return 1\n\n\ndef g():\n    return 2\n"  # 14 characters each
LONG = b"def h():\n    aaaaaaaaaa = 1\n    bbbbbbbbbb = 2\n    return 3\n"


def cut(data: bytes, limit: int, method: str = "cast", lines: int = 60):
    chunker = Chunker(method, max_size=limit, lines=lines)
    return functions_cut(data, "python", chunker.chunk(data, "a.py").chunks, limit)


def test_a_function_over_the_limit_is_cut_and_one_that_fits_is_told_apart():
    assert cut(SHORT, 14) == cut(SHORT, 100) == FunctionCuts(2)
    assert cut(LONG, 31) == FunctionCuts(1, 1, 0, {0, 1})
    assert cut(SHORT, 100, "fixed-size", lines=4) == FunctionCuts(2)
    assert cut(SHORT, 100, "fixed-size", lines=5) == FunctionCuts(2, 1, 1, {0, 1})


def test_one_row_a_language_and_chunker():
    java = b"class B { int f() { return 1; } }"
    files = [("a.py", SHORT), ("b.py", LONG), ("B.java", java), ("notes.txt", b"no")]
    published = Chunker(mode="as-published", max_size=25)
    table = chunk_statistics(
        files, [Chunker(max_size=25), published, Chunker("fixed-size", lines=5)]
    )
    assert list(table["language"]) == ["java"] * 3 + ["python"] * 3
    python = table[table["language"] == "python"].set_index(["method", "mode"])
    lossless = python.loc[("cast", "lossless")]
    assert [lossless[n] for n in ("files", "functions", "functions_cut", "bytes_lost")] == [
        2,
        3,
        1,
        0,
    ]
    assert lossless["size_max"] <= 25 and 0 < lossless["fill"] <= 1
    assert lossless["bytes"] == len(SHORT) + len(LONG)
    assert python.loc[("cast", "as-published"), "bytes_lost"] > 0
    fixed = python.loc[("fixed-size", "lossless")]
    assert (
        np.isnan(fixed["fill"])
        and np.isnan(fixed["files_with_parse_errors"])
        and fixed["limit"] == 5
    )
