"""A library made anew: the rules on a small one, and more-itertools whole."""

import os
import subprocess
import sys

import pytest

from pkg_lib import cli
from pkg_lib.core.types import UserError
from pkg_lib.papers.evor import make_library
from pkg_lib.papers.evor.make_library import Library

SPEC = {
    "module": "other",
    "alias": {"tl": "ot"},
    "keep": ["Keeper"],
    "skip": [],
    "parameters": {"limit": "bound"},
    "words": {
        "keeper": "holder",
        "slow": "calm",
        "walk": "tour",
        "find": "seek",
        "up": "over",
        "down": "under",
    },
    "merged": [{"name": "go", "argument": "way", "apis": {"rise": "walk_up", "fall": "walk_down"}}],
    "gathered": [{"name": "Checks", "about": "Questions.", "apis": {"even": "is_even"}}],
}
TEXT = '''\
"""Tools that walk."""

__all__ = ["Keeper", "slow_walk", "find_walk", "walk_up", "walk_down", "is_even", "sort"]


class Keeper:
    pass


def slow_walk(xs, limit=2):
    """Walk through `xs`, at most `limit` deep; `find_walk` finds. A walk is no slow_walk.

    >>> slow_walk([1, 2], limit=1)
    [1]

    Parameters
    ----------
    limit : int
        The limit of the walk.

    See Also
    --------
    find_walk
    """
    return xs[:limit]


def find_walk(xs):
    # find_walk is named in a comment
    found = {"limit": slow_walk(xs, limit=1)}
    return f"{slow_walk(xs, limit=1)!r:>6} {found['limit']} {{slow_walk}}"


def walk_up(n, step=1):
    """Up."""
    return n + step


def walk_down(n, step=1):
    """Down."""
    return n - step


def is_even(n):
    return n % 2 == 0


def sort(xs):
    return sorted(xs)
'''
USE = """\
import tool as tl


def test():
    return tl.walk_up(1, step=2), tl.is_even(2), tl.find_walk([7, 8]), tl.sort([2, 1])
"""


def tiny(text=TEXT, **changes):
    return Library(
        "tiny", SPEC | changes, {"tool/__init__.py": text, "tool/tests/test_tool.py": USE}, "tool"
    )


@pytest.fixture(scope="module")
def made():
    return tiny().rewritten()


def run(text, name="other"):
    space = {"__name__": name}
    exec(text, space)
    return space


def test_names_change_in_code_and_the_program_stays_the_same(made):
    before, after = run(TEXT), run(made["other/__init__.py"])
    assert before["find_walk"]([7, 8]) == "   [7] [7] {slow_walk}"
    assert after["seek_tour"]([7, 8]) == "   [7] [7] {calm_tour}"  # text of an f-string, too
    assert after["calm_tour"]([1, 2, 3], bound=1) == [1]
    assert after["go"]("rise", 1, 2) == 3 and after["go"]("fall", 1) == 0
    assert after["Checks"].even(4)
    assert {"Keeper", "sort"} <= after.keys()  # kept by the list, and an attribute of lists
    assert not {"slow_walk", "find_walk", "walk_up", "is_even"} & after.keys()
    with pytest.raises(ValueError, match='way must be "rise" or "fall"'):
        after["go"]("across", 1)


def test_docstrings_change_in_code_alone(made):
    doc = run(made["other/__init__.py"])["calm_tour"].__doc__
    assert doc.startswith(
        "Walk through `xs`, at most `bound` deep; `seek_tour` finds. A walk is no calm_tour."
    )
    assert ">>> calm_tour([1, 2], bound=1)" in doc
    assert "bound : int\n        The limit of the walk." in doc
    assert doc.rstrip().endswith("seek_tour")


def test_calls_of_what_was_joined_change_with_it(made):
    text = made["other/tests/test_tool.py"]
    assert "import other as ot" in text
    assert (
        'ot.go("rise", 1, step=2), ot.Checks.even(2), ot.seek_tour([7, 8]), ot.sort([2, 1])' in text
    )


def test_a_synonym_that_is_used_already_is_not_taken():
    names = tiny(TEXT + "\n\ndef calm_tour():\n    pass\n").names
    assert "slow_walk" not in names and "find_walk" in names


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"parameters": {"limit": "step"}}, "names that collide: step"),
        ({"parameters": {"limit": "other"}}, "names that collide: other"),
        (
            {"gathered": [{"name": "Checks", "about": "", "apis": {"odd": "is_odd"}}]},
            "has no is_odd",
        ),
    ],
)
def test_what_libraries_toml_gives_wrongly_is_one_line(changes, said):
    with pytest.raises(UserError, match=said):
        tiny(**changes).rewritten()


def test_a_library_without_doctests_is_refused():
    with pytest.raises(UserError, match="tiny has no doctests"):
        tiny(TEXT.replace(">>>", "")).rewritten()


@pytest.mark.parametrize(
    ("library", "said"),
    [
        (tiny(TEXT.replace(">>>", "")), "error: tiny has no doctests"),
        (tiny(parameters={"limit": "step"}), "error: tiny: names that collide: step"),
    ],
)
def test_the_command_says_in_one_line_what_is_wrong(library, said, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(make_library, "library_of", lambda name: library)
    monkeypatch.setattr(
        sys, "argv", ["pkg_lib", "evor", "make-library", "tiny", "--output", str(tmp_path / "new")]
    )
    assert cli.main() == 2
    error = capsys.readouterr().err
    assert error.startswith(said) and error.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_what_is_quoted_in_a_text_is_data():
    """The values of a merged function's argument stay as the function takes them."""
    merged = [{"name": "go", "argument": "way", "apis": {"slow": "walk_up", "b": "walk_down"}}]
    library = tiny(TEXT + "\n\ndef slow(xs):\n    return xs\n", merged=merged)
    go = run(library.rewritten()["other/__init__.py"])["go"]
    assert library.names["slow"] == "calm" and go("slow", 1) == 2
    assert go.__doc__.startswith('With ``way="slow"``: Up.')


def test_an_output_that_exists_and_an_unknown_library_are_refused(tmp_path):
    with pytest.raises(UserError, match="exists"):
        make_library.make("networkx", tmp_path)
    with pytest.raises(UserError, match="unknown library 'nope'"):
        make_library.make("nope", tmp_path / "new")


@pytest.fixture(scope="module")
def streamkit(tmp_path_factory):
    """more-itertools under its new names."""
    if not (package := make_library.LIBRARIES["more-itertools"]).available:
        try:
            package.files()
        except UserError as e:
            pytest.skip(str(e))
    folder = tmp_path_factory.mktemp("made") / "library"
    make_library.make("more-itertools", folder)
    return folder


def digest_of(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_twice_made_has_the_same_bytes(streamkit, tmp_path):
    first = digest_of(streamkit)
    command = [sys.executable, "-m", "pkg_lib", "evor", "make-library", "more-itertools"]
    command += ["--output", str(tmp_path / "x")]
    subprocess.run(
        command, check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": "7"}
    )
    assert digest_of(tmp_path / "x") == first


def test_its_own_tests_pass_under_the_new_names(streamkit):
    """A sample; networkx-m.json in results/evor counts all of networkx."""
    cases = "ChunkedTests SplitBeforeTest SplitAfterTest LocateTests ZipOffsetTest InterleaveTests"
    cases = f"{cases} DuplicatesEverSeenTests DuplicatesJustSeenTests".split()
    command = [sys.executable, "-B", "-m", "unittest", *(f"tests.test_more.{c}" for c in cases)]
    done = subprocess.run(command, cwd=streamkit, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stderr.rpartition("Ran ")[2].split()[0]) >= 30
    code = "import doctest, streamkit.extra as m; r = doctest.testmod(m); print(*r)"
    done = subprocess.run(
        [sys.executable, "-B", "-c", code], cwd=streamkit, capture_output=True, text=True
    )
    failed, tried = map(int, done.stdout.splitlines()[-1].split())
    assert failed == 0 and tried > 300


def test_an_original_name_that_is_gone_raises(streamkit):
    code = "import streamkit; streamkit.batched_up; streamkit.chunked"
    done = subprocess.run(
        [sys.executable, "-B", "-c", code], cwd=streamkit, capture_output=True, text=True
    )
    assert "module 'streamkit' has no attribute 'chunked'" in done.stderr
