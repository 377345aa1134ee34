"""The mode `as-published` against Listing 1 as it is printed, run with tree-sitter's own queries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pkg_lib.graph.types.build import build
from pkg_lib.graph.types.java import facts_of
from pkg_lib.graph.types.listing import graph_of
from typegraph.listing import listing

SHOP = Path(__file__).parent.parent / "data" / "shop"


def test_the_shop_as_the_listing_builds_it():
    files = {p.relative_to(SHOP).as_posix(): p.read_bytes() for p in sorted(SHOP.rglob("*.java"))}
    file_map, injects = listing(files)
    graph = build(SHOP, "as-published").graph
    assert {n.name: n.path for n in graph.nodes.values()} == file_map
    inherited = {pair for pair, labels in graph.edges.items() if labels != ("injects",)}
    assert {pair for pair, labels in graph.edges.items() if labels == ("injects",)} == injects - inherited
    assert all(len(labels) == 1 for labels in graph.edges.values())


def graph(**files):
    return graph_of({f"{name}.java": facts_of(source.encode()) for name, source in files.items()})


def test_the_last_file_of_a_name_gives_its_path_and_edges():
    found = graph(
        a="package a; class Item { X x; }", b="package b; class Item { Y y; }", c="class X {} class Y {}"
    )
    assert found.nodes["Item"].path == "b.java"
    assert {e for e in found.edges if e[0] == "Item"} == {("Item", "Y")}


def test_every_type_of_a_file_has_all_its_fields_and_itself():
    found = graph(a="class A { static A instance; B b; } class B {}")
    assert set(found.edges) == {("A", "A"), ("A", "B"), ("B", "A"), ("B", "B")}


def test_only_what_is_written_as_one_name_is_seen():
    found = graph(
        a="class A extends List<B> implements x.C { C[] c; Set<C> d; x.C e; A(C... rest) {} }",
        b="class B {}",
        c="class C {}",
    )
    assert found.edges == {}


def test_inheritance_replaces_injects_and_an_interface_extends_nothing():
    assert graph(a="interface I {}", b="class B implements I { I delegate; }").edges == {
        ("B", "I"): ("implements",)
    }
    assert graph(a="interface I {}", b="interface J extends I {}").edges == {}
    assert graph(a="class A {}", b="class B extends A {}").edges == {("B", "A"): ("extends",)}


def test_files_come_in_the_order_of_a_walk():
    """Those of a directory before those of the directories in it, whatever their names."""
    files = {"a/Item.java": "class Item { X x; }", "z.java": "class Item { Y y; } class X {} class Y {}"}
    nodes = graph_of({path: facts_of(source.encode()) for path, source in files.items()}).nodes
    assert nodes["Item"].path == "a/Item.java"


@pytest.mark.parametrize(
    ("archive", "files", "nodes", "edges"),
    [("shopizer-3.2.7.zip", 1210, 1158, 1503), ("openmrs-core-9ecb855.zip", 1258, 1371, 1517)],
)
def test_the_papers_own_repositories_give_its_numbers(archive, files, nodes, edges):
    path = Path(os.environ.get("PKG_DKB_DIR", "nowhere")) / archive
    if not path.exists():
        pytest.skip("the paper's repositories are not at hand; PKG_DKB_DIR names their directory")
    built = build(path, "as-published", processes=1)
    assert (len(built.files), len(built.graph.nodes), len(built.graph.edges)) == (files, nodes, edges)
