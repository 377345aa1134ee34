"""Repositories as they come: what cannot be read is named; only changed files are parsed."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from pkg_lib.core import source_tree
from pkg_lib.core.source_tree import BINARY, NOT_REGULAR
from pkg_lib.core.store import LINK
from pkg_lib.core.types import UserError
from pkg_lib.graph.types import build as module
from pkg_lib.graph.types.build import build, in_mode, lines
from pkg_lib.graph.types.typegraph import MODES

SHOP = Path(__file__).parent.parent / "data" / "shop"


@pytest.fixture
def tree(tmp_path):
    """A directory with one good file."""
    root = tmp_path / "repo"
    (root / "a").mkdir(parents=True)
    (root / "a" / "Good.java").write_text("package a; class Good { Other other; } class Other {}")
    return root


BAD = {
    "Empty.java": (b"", "empty"),
    "Bytes.java": (b"\0\1\2 class", BINARY),
    "Broken.java": (b"class {{{ ;;", "does not parse: no type found"),
    "package-info.java": (b"package a;", "declares no type"),
}
LARGE = b"class Large {" + b"\n/** One of many rows of a comment. */" * 140_000 + b" Crlf end; }"
ODD = {
    "Crlf.java": (b"class Crlf {\r\n}\r\n", "line ends other than LF"),
    "Large.java": (LARGE, "larger than 1 MB"),
}


def test_bad_files_are_named_and_the_rest_goes_on(tree):
    for name, (data, _) in (BAD | ODD).items():
        (tree / name).write_bytes(data)
    (tree / "Notes.txt").write_text("class Notes {}")
    (tree / "Folder.java").mkdir()
    os.mkfifo(tree / "Pipe.java")
    built = build(tree)
    assert set(built.graph.nodes) == {"a.Good", "a.Other", "Crlf", "Large"}
    assert ("Large", "Crlf") in built.graph.edges  # five megabytes, read to the end
    skipped = {name: reason for name, (_, reason) in BAD.items()} | {"Pipe.java": NOT_REGULAR}
    assert dict(built.skipped) == skipped and len(built.files) == 8
    assert dict(built.remarks) == {name: remark for name, (_, remark) in ODD.items()}
    assert "skipped, empty: 1 (Empty.java)" in lines(built)


def test_links_are_named_and_not_followed(tree):
    """A loop of links ends; a type belongs to its file, not to a link that comes first."""
    links = {
        "A.java": tree / "a" / "Good.java",
        "Dangling.java": "nowhere",
        "a/up": tree,
        "self": "self",
    }
    for name, target in links.items():
        (tree / name).symlink_to(target)
    for mode in MODES:
        built = build(tree, mode)
        assert dict(built.skipped) == dict.fromkeys(["A.java", "Dangling.java", "a/up/"], LINK)
        assert {n.path for n in built.graph.nodes.values()} == {
            "a/Good.java"
        } and not built.resolution.redeclared


def test_what_may_not_be_read_is_named(tree, monkeypatch):
    """By other functions than those of the system, since tests may run as root."""
    (tree / "locked").mkdir()
    (tree / "Locked.java").write_text("class Locked {}")

    def unless_locked(act):
        def call(path):
            if Path(path).name.lower().startswith("locked"):
                raise PermissionError(13, "Permission denied", str(path))
            return act(path)

        return call

    monkeypatch.setattr(os, "scandir", unless_locked(os.scandir))
    opened = os.open
    monkeypatch.setattr(
        os, "open", lambda path, *how: unless_locked(lambda p: opened(p, *how))(path)
    )
    built, why = build(tree), "cannot be read: Permission denied"
    assert dict(built.skipped) == {"locked": f"directory {why}", "Locked.java": why}
    assert len(built.graph.nodes) == 2


def test_a_file_beyond_all_measure_is_skipped_and_names_that_are_no_text_are_read(
    tree, monkeypatch
):
    with (tree / "Huge.java").open("wb") as file:
        file.truncate(source_tree.MAX_FILE_BYTES + 1)
    Path(os.fsdecode(os.fsencode(tree) + b"/\xff.java")).write_text("class Odd {}")
    (tree / "line\nbreak.java").write_text("")
    built = build(tree)
    assert "Odd" in built.graph.nodes and [path for path, _ in built.skipped] == [
        "Huge.java",
        r"line\nbreak.java",
    ]
    "\n".join(lines(built)).encode()


def test_a_zip_archive_gives_the_same_graph_as_its_directory(tmp_path):
    archive = tmp_path / "src.zip"
    with zipfile.ZipFile(archive, "w") as z:
        for path in SHOP.rglob("*.java"):
            z.write(path, path.relative_to(SHOP).as_posix())
    for mode in MODES:
        assert build(archive, mode).graph == build(SHOP, mode).graph


@pytest.mark.parametrize("data", [b"\0class A {}", b"class {{{ ;;"])
def test_a_tree_of_which_nothing_can_be_read_is_refused_by_name(tmp_path, data):
    (tmp_path / "A.java").write_bytes(data)
    with pytest.raises(UserError, match=r"A\.java"):
        build(tmp_path)


@pytest.mark.parametrize("damage", ["member", "encrypted"])
def test_a_damaged_member_of_an_archive_is_named(tmp_path, damage):
    archive = tmp_path / "src.zip"
    with zipfile.ZipFile(archive, "w") as z:
        z.writestr("A.java", "class A {}" * 20)
        z.writestr("B.java", "class B {}")
    data = bytearray(archive.read_bytes())
    data[45 if damage == "member" else data.find(b"PK\1\2") + 8] ^= (
        0xFF if damage == "member" else 1
    )
    archive.write_bytes(data)
    built = build(archive)
    assert list(built.graph.nodes) == ["B"] and built.skipped[0][1].startswith(
        source_tree.DAMAGED if damage == "member" else source_tree.ENCRYPTED
    )


@pytest.mark.parametrize(
    ("root", "options", "says"),
    [
        ("no", {}, "no such directory"),
        ("file.txt", {}, "is not a zip archive"),
        ("", {}, r"contains no \.java file"),
        ("", {"mode": "x"}, "unknown mode 'x'; choose from: resolved, as-published"),
        ("", {"processes": 0}, "processes = 0"),
        ("", {"extra": ["x"]}, "unknown edges 'x'; choose from: arguments, beans"),
        (
            "",
            {"mode": "as-published", "extra": ["beans"]},
            "mode as-published has only the paper's edges",
        ),
    ],
)
def test_mistakes(tmp_path, root, options, says):
    (tmp_path / "file.txt").write_text("x")
    with pytest.raises(UserError, match=says):
        build(tmp_path / root, **options)


def test_only_a_changed_file_is_parsed_again(tree, tmp_path):
    store, added = tmp_path / "store.jsonl", tree / "a" / "New.java"
    store.write_text('{"version": 0}\n["x"]\n')  # another version's is none
    first = build(tree, store=store)
    added.write_text("package a; class New { Good good; }")
    second = build(tree, store=store)
    assert [first.parsed, second.parsed] == [1, 1] and second.graph == build(tree).graph
    added.write_text("package a; class New { Othe3 other; }")  # as long as before
    assert build(tree, store=store).parsed == 1
    added.unlink()
    last = build(tree, store=store)
    assert last.parsed == 0 and last.graph == first.graph
    assert build(tree, "as-published", store=store).graph == build(tree, "as-published").graph
    store.write_text("no store\n")
    with pytest.raises(UserError, match=r"line 1 is damaged: .*another file"):
        build(tree, store=store)


def test_two_processes_and_the_other_mode_of_the_same_files(monkeypatch):
    monkeypatch.setattr(module, "WORTH_A_PROCESS", 1)
    monkeypatch.setattr(module, "PART", 8)
    one, two = build(SHOP), build(SHOP, processes=2)
    assert one.graph == two.graph and one.parsed == two.parsed == 53
    assert in_mode(one, "as-published").graph == build(SHOP, "as-published").graph
    shown = "\n".join(lines(one))
    assert "61 nodes: annotation 2, class 34, enum 2, interface 13, record 10" in shown
    assert "69 edges: extends 6, implements 12, injects 51" in shown
    assert "skipped: none" in shown and "53 files parsed" in shown and "notes" not in shown
