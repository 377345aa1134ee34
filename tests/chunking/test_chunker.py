"""Chunkers lose nothing, respect the size limit and, in the mode "as-published", equal astchunk."""

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
CHUNKING_SOURCE = Path(__file__).parents[2] / "pkg_lib" / "chunking"
SAMPLES = {path.name: path.read_bytes() for path in sorted(DATA.iterdir())}
SAMPLES["windows.py"] = (CHUNKING_SOURCE / "windows.py").read_bytes()
WHITE = " \t\n\r\x0b\x0c"


def astchunk(text: str, language: str, limit: int, path: str = "", **options) -> list[str]:
    """The texts of astchunk's chunks; a path makes it write headers."""
    template = "default" if path else "none"
    language = language.replace("tsx", "typescript")
    builder = ASTChunkBuilder(max_chunk_size=limit, language=language, metadata_template=template)
    windows = builder.chunkify(text, repo_level_metadata={"filepath": path}, **options)
    return [window["content"] for window in windows]


OPTIONS = (
    {"chunk_expansion": True},
    {"chunk_overlap": 1},
    {"chunk_overlap": 3},
    {"chunk_overlap": 2, "chunk_expansion": True},
)


def published(limit: int, **options) -> Chunker:
    """A chunker in the mode "as-published"."""
    return Chunker(mode="as-published", max_size=limit, **options)


def texts_of(chunks) -> list[str]:
    return [chunk.text for chunk in chunks]


def lines_of(chunks) -> list[tuple[int, int]]:
    """The first and last line of each chunk."""
    return [(chunk.first, chunk.last) for chunk in chunks]


def joined_bytes(chunks) -> bytes:
    return b"".join(encode(chunk.text) for chunk in chunks)


def longest_line(data: bytes) -> int:
    return max(map(len, data.splitlines()), default=0)


def check_lossless(
    data: bytes, name: str, limit: int, method: str = "cast", language: str | None = None
):
    """Check that the chunks of a file are its bytes, with correct sizes and lines."""
    result = Chunker(method, "lossless", limit).chunk(data, name, language)
    chunks = result.chunks
    assert joined_bytes(chunks) == data
    starts = [0, *(chunk.stop for chunk in chunks[:-1])]
    assert [chunk.start for chunk in chunks] == starts[: len(chunks)]
    assert result.coverage.balanced
    assert not result.coverage.bytes_lost
    if method != "fixed-size":
        assert all(0 < chunk.size <= limit for chunk in chunks) or not data.strip()
    if result.coverage.utf8:
        for chunk in chunks:
            assert chunk.size == sum(character not in WHITE for character in chunk.text)
    for chunk in chunks:
        assert chunk.first == data[: chunk.start].count(b"\n") + 1
        assert chunk.last == data[: chunk.stop - 1].count(b"\n") + 1


# The chunks of sliding windows overlap.
LOSSLESS = [method for method in METHODS if method != "sliding-window"]


@pytest.mark.parametrize("method", LOSSLESS)
@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_lossless_at_every_limit(name, method):
    for limit in (1, 2, 7, 40, 150, 600, 5000):
        check_lossless(SAMPLES[name], name, limit, method)


@pytest.mark.parametrize("name", SAMPLES)
def test_as_published_equals_astchunk_on_samples(name):
    text = SAMPLES[name].decode()
    for limit in (3, 20, 60, 150, 600, 5000):
        result = published(limit).chunk(SAMPLES[name], name)
        assert texts_of(result.chunks) == astchunk(text, language_of(name), limit)
        assert result.coverage.balanced


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", SAMPLES)
def test_headers_and_overlap_equal_astchunk_on_samples(name, options):
    text = SAMPLES[name].decode()
    for limit in (3, 20, 60, 150, 600, 5000):
        result = published(limit, **options).chunk(SAMPLES[name], name)
        expected = astchunk(text, language_of(name), limit, name, **options)
        assert texts_of(result.chunks) == expected
        assert result.coverage.balanced


# Pieces of random source, separated by "|".
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
def test_random_text_is_lossless(text, language, limit, method):
    check_lossless(text.encode(), "x", limit, method, language)


@given(st.binary(max_size=200), st.sampled_from(list(GRAMMARS)), st.integers(1, 30))
def test_random_bytes_are_lossless(data, language, limit):
    check_lossless(data, "x", limit, "cast", language)
    assert published(limit).chunk(data, "x", language).coverage.balanced


@given(st.lists(pieces, max_size=40).map("".join), st.integers(3, 40))
def test_as_published_equals_astchunk_on_random_text(text, limit):
    result = published(limit).chunk(text.encode(), "x.py")
    assert result.coverage.balanced
    assert texts_of(result.chunks) == astchunk(text, "python", limit)


NESTED = (
    "class A:\n|  class B:\n|  def f(self):\n|    def g():\n|      x = 1\n|    y = 22\n|z = 3\n"
)
nested = st.sampled_from(NESTED.split("|"))


@given(
    st.lists(st.one_of(pieces, nested), max_size=40).map("".join),
    st.integers(3, 40),
    st.sampled_from(OPTIONS),
)
def test_headers_and_overlap_equal_astchunk_on_random_text(text, limit, options):
    result = published(limit, **options).chunk(text.encode(), "x.py")
    assert result.coverage.balanced
    assert texts_of(result.chunks) == astchunk(text, "python", limit, "x.py", **options)


def installed() -> list[Path]:
    """2000 Python files below 30 kB of the standard library and of installed packages."""
    folders = sysconfig.get_paths()
    standard_library = sorted(Path(folders["stdlib"]).rglob("*.py"))
    packages = sorted(Path(folders["purelib"]).rglob("*.py"))
    found = [path for path in standard_library if "site-packages" not in path.parts]
    found += packages
    small = [path for path in found if path.stat().st_size < 30_000]
    return small[:: len(small) // 2000][:2000]


@pytest.mark.slow
def test_2000_installed_files_are_lossless():
    files = installed()
    assert len(files) == 2000
    for path in files:
        data = path.read_bytes()
        result = Chunker().chunk(data, path.name)
        assert joined_bytes(result.chunks) == data, path
        assert result.coverage.balanced, path


@pytest.mark.slow
def test_as_published_equals_astchunk_on_installed_files():
    """The test uses every 40th file, and one with a leaf over the limit. astchunk accepts only UTF-8."""
    files = {path: path.read_bytes() for path in installed()[::40]}
    files[Path("long.py")] = b"s = '%s'\n" % (b"x" * 3000)
    leaves_over = 0
    for path, data in files.items():
        result = Chunker(mode="as-published").chunk(data, path.name)
        leaves_over += result.coverage.leaves_over
        if not result.coverage.utf8:
            continue
        found = texts_of(result.chunks)
        expected = astchunk(data.decode(), "python", 2000)
        if longest_line(data) > MAX_INDENT:
            # This project limits the indentation of such lines, and astchunk does not.
            found = [text.lstrip() for text in found]
            expected = [text.lstrip() for text in expected]
        assert found == expected, path
    assert leaves_over


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS)
def test_headers_and_overlap_equal_astchunk_on_installed_files(options):
    """The test uses every 20th file with a small limit, so that most chunks are inside a definition."""
    headers = 0
    for path in installed()[::20]:
        data = path.read_bytes()
        result = published(400, **options).chunk(data, path.name)
        assert result.coverage.balanced, path
        if not result.coverage.utf8 or longest_line(data) > MAX_INDENT:
            continue
        found = texts_of(result.chunks)
        assert found == astchunk(data.decode(), "python", 400, path.name, **options), path
        headers += sum("\ndef " in text[:200] for text in found)
    assert headers > 20


def test_a_header_names_the_file_and_the_enclosing_definitions():
    text = "class A(B):\n    @property\n    def f(self):\n        x = 111111\n        y = 222222\n"
    result = published(10, chunk_expansion=True).chunk(text.encode(), "pkg/a.py")
    last = result.chunks[-1]
    header = "'''\npkg/a.py\nclass A(B):\n\tdef f(self):\n'''\n"
    assert last.text == f"{header}        y = 222222"
    assert (last.size, last.first, last.last) == (8, 5, 5)


def test_overlapping_chunks_include_nodes_of_their_neighbours():
    text = b"a = 1\nb = 2\nc = 3\n"
    result = published(3, chunk_overlap=1).chunk(text, "a.py")
    assert [(c.text, c.first, c.last, c.size) for c in result.chunks] == [
        ("a = 1\nb = 2", 1, 2, 6),
        ("a = 1\nb = 2\nc = 3", 1, 3, 9),
        ("b = 2\nc = 3", 2, 3, 6),
    ]
    assert result.coverage.lost == {BETWEEN: 1}  # the last line end of the file


def test_headers_do_not_grow_with_a_very_long_line():
    data = b"class A: x = [" + b"12345, " * 70_000 + b"]\n"
    result = published(2000, chunk_expansion=True).chunk(data, "a.py")
    assert all(len(chunk.text) < 20_000 for chunk in result.chunks)
    assert len(result.chunks) > 100


def test_rejects_options_that_do_not_apply():
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


def test_splits_a_leaf_over_the_limit_at_line_ends_and_drops_it_as_published():
    lines = "a line of text\n" * 10
    data = f'x = 1\ns = """\n{lines}"""\ny = 2\n'.encode()
    lossless = Chunker(max_size=40).chunk(data, "a.py")
    assert lossless.coverage.leaves_over == 1
    assert all(chunk.text.endswith("\n") for chunk in lossless.chunks[1:])
    assert all(chunk.size <= 40 for chunk in lossless.chunks)
    as_published = published(40).chunk(data, "a.py")
    assert as_published.coverage.leaves_over == 1
    assert "a line" not in "".join(texts_of(as_published.chunks))
    assert as_published.coverage.lost[LEAF] == len("\n" + lines)


def test_splits_a_line_over_the_limit_between_characters():
    data = ('s = "' + "é" * 25 + '"\n').encode()
    result = Chunker(max_size=10).chunk(data, "a.py")
    assert "é" * 10 in texts_of(result.chunks)


def test_as_published_counts_lost_bytes_by_reason():
    tabs = b"def f():\n\ta = 11111\n\tb = 22222\n\r\n\tc = 3\n\n\n"
    result = published(14).chunk(tabs, "a.py")
    assert set(result.coverage.lost) == {BETWEEN, LAYOUT}
    assert result.coverage.balanced
    byte_order_mark = b"\xef\xbb\xbf"
    result = Chunker(mode="as-published").chunk(byte_order_mark + b"x = 1\n", "a.py")
    assert result.coverage.lost == {OUTSIDE: 3}
    assert result.chunks[0].text.startswith(" " * 3 + "x = 1")


def test_sizes_count_characters_if_lossless_and_bytes_as_published():
    data = "é = 1\nü = 2\n".encode()
    lossless = Chunker(max_size=3).chunk(data, "a.py").chunks
    assert texts_of(lossless) == ["é = 1\n", "ü = 2\n"]
    as_published = published(3).chunk(data, "a.py").chunks
    assert [(chunk.text, chunk.size) for chunk in as_published] == [
        ("é =", 2),
        ("     1", 1),
        ("ü =", 2),
        ("     2", 1),
    ]


def test_counts_parse_errors_of_methods_that_parse():
    assert Chunker().chunk(b"def f(:\n  )\nx = = 2\n", "a.py").coverage.parse_errors > 0
    assert Chunker("fixed-size").chunk(b"x\n", "a.py").coverage.parse_errors is None


def test_an_empty_file_has_no_chunk_if_lossless_and_one_as_published():
    assert Chunker().chunk(b"", "a.py").chunks == []
    as_published = Chunker(mode="as-published").chunk(b"", "a.py").chunks
    assert texts_of(as_published) == astchunk("", "python", 2000) == [""]


def test_fixed_size_chunks_have_the_given_number_of_lines():
    data = "".join(f"{number}\n" for number in range(7)).encode() + b"end"
    result = Chunker("fixed-size", lines=3).chunk(data, "a.py")
    assert lines_of(result.chunks) == [(1, 3), (4, 6), (7, 8)]
    assert result.coverage.balanced


def test_sliding_windows_overlap_and_end_with_the_file():
    def windows(count, lines=4, step=2):
        data = "".join(f"{number}\n" for number in range(1, count + 1)).encode()
        result = Chunker("sliding-window", lines=lines, step=step).chunk(data, "a.py")
        assert result.coverage.balanced
        assert result.coverage.parse_errors is None
        return lines_of(result.chunks)

    assert windows(0) == []
    assert windows(3) == [(1, 3)]
    assert windows(4) == [(1, 4)]
    assert windows(5) == [(1, 4), (3, 5)]
    assert windows(7) == [(1, 4), (3, 6), (5, 7)]
    assert windows(7, step=4) == [(1, 4), (5, 7)]
    default = Chunker("sliding-window", lines=20).chunk(b"x\n" * 41, "a.py").chunks
    assert lines_of(default) == [(1, 20), (11, 30), (21, 40), (31, 41)]


def test_chunks_of_a_long_line_grow_linearly():
    data = b"x = [" + b"12345, " * 70_000 + b"]\n"
    for mode in ("as-published", "lossless"):
        result = Chunker(mode=mode).chunk(data, "a.py")
        assert result.coverage.balanced
        assert sum(map(len, texts_of(result.chunks))) < 3 * len(data)


def test_a_chain_of_20000_operators_does_not_exceed_the_recursion_limit():
    data = ("x = " + "a + " * 20_000 + "a\n").encode()
    check_lossless(data, "a.py", 2000)


def test_the_suffix_determines_the_language_and_unknown_names_are_rejected():
    source = b"const a = <b>{c}</b>;\nexport default (x) => x ?? 1;\n"
    coverage = Chunker().chunk(source, "a.jsx").coverage
    assert (coverage.language, coverage.parse_errors) == ("javascript", 0)
    with pytest.raises(UserError, match="unknown language 'cobol'; choose from: python"):
        Chunker().chunk(b"", "a.py", "cobol")
    with pytest.raises(UserError, match=r"a\.txt: no language"):
        Chunker().chunk(b"", "a.txt")
    for options, word in (({"method": "nosuch"}, "split-only"), ({"max_size": 0}, "max_size")):
        with pytest.raises(UserError, match=word):
            Chunker(**options)


def test_indentation_and_blank_lines_stay_with_their_lines():
    text = "def h():\n\n    aaaaaaaaaa = 1\n\n    bbbbbbbbbb = 2\n"
    result = Chunker(max_size=12).chunk(text.encode(), "a.py")
    assert texts_of(result.chunks) == [
        "def h():\n\n",
        "    aaaaaaaaaa = 1\n\n",
        "    bbbbbbbbbb = 2\n",
    ]


# Files whose statistics can be counted by hand. SHORT has two functions of 14 characters each.
SHORT = b"def f():\n    return 1\n\n\ndef g():\n    return 2\n"
LONG = b"def h():\n    aaaaaaaaaa = 1\n    bbbbbbbbbb = 2\n    return 3\n"


def cut(data: bytes, limit: int, method: str = "cast", lines: int = 60):
    """How many functions of a Python file the chunks of a chunker split."""
    chunker = Chunker(method, max_size=limit, lines=lines)
    chunks = chunker.chunk(data, "a.py").chunks
    return functions_cut(data, "python", chunks, limit)


def test_split_functions_are_counted_by_whether_they_fit_the_limit():
    assert cut(SHORT, 14) == cut(SHORT, 100) == FunctionCuts(2)
    assert cut(LONG, 31) == FunctionCuts(1, 1, 0, {0, 1})
    assert cut(SHORT, 100, "fixed-size", lines=4) == FunctionCuts(2)
    assert cut(SHORT, 100, "fixed-size", lines=5) == FunctionCuts(2, 1, 1, {0, 1})


def test_statistics_have_one_row_per_language_and_chunker():
    java = b"class B { int f() { return 1; } }"
    files = [("a.py", SHORT), ("b.py", LONG), ("B.java", java), ("notes.txt", b"no")]
    chunkers = [Chunker(max_size=25), published(25), Chunker("fixed-size", lines=5)]
    table = chunk_statistics(files, chunkers)
    assert list(table["language"]) == ["java"] * 3 + ["python"] * 3
    python = table[table["language"] == "python"].set_index(["method", "mode"])
    lossless = python.loc[("cast", "lossless")]
    assert lossless["files"] == 2
    assert lossless["functions"] == 3
    assert lossless["functions_cut"] == 1
    assert lossless["bytes_lost"] == 0
    assert lossless["size_max"] <= 25
    assert 0 < lossless["fill"] <= 1
    assert lossless["bytes"] == len(SHORT) + len(LONG)
    assert python.loc[("cast", "as-published"), "bytes_lost"] > 0
    fixed_size = python.loc[("fixed-size", "lossless")]
    assert np.isnan(fixed_size["fill"])
    assert np.isnan(fixed_size["files_with_parse_errors"])
    assert fixed_size["limit"] == 5
