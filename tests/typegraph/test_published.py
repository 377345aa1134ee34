"""The mode `as-published` against Listing 1 as it is printed, run with tree-sitter's own queries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pkg_lib.graph.types.build import build
from pkg_lib.graph.types.java import facts_of
from pkg_lib.graph.types.resolve import published
from typegraph.listing import listing

SHOP = Path(__file__).parent.parent / "data" / "shop"


def test_the_shop_as_the_listing_builds_it():
    files = {p.relative_to(SHOP).as_posix(): p.read_bytes() for p in sorted(SHOP.rglob("*.java"))}
    file_map, injects = listing(files)
    graph = build(SHOP, "as-published").graph
    assert {n.name: n.path for n in graph.nodes.values()} == file_map
    inherited = {pair for pair, labels in graph.edges.items() if labels != ("injects",)}
    assert graph.edges.keys() - inherited == injects - inherited
    assert all(len(labels) == 1 for labels in graph.edges.values())


def graph(*sources, **files):
    files |= {f"{n}.java": source for n, source in enumerate(sources)}
    return published({name: facts_of(source.encode()) for name, source in files.items()})


@pytest.mark.parametrize(
    ("sources", "edges"),
    [
        # Every type of a file has all its fields, and itself.
        (
            ["class A { static A instance; B b; } class B {}"],
            dict.fromkeys(["AA", "AB", "BA", "BB"], "injects"),
        ),
        # Only what is written as one name is seen.
        (
            [
                "class A extends L<B> implements x.C { B[] b; Set<B> c; x.B d; A(B... e) {} }",
                "class B {}",
            ],
            {},
        ),
        # Inheritance replaces injects, and an interface extends nothing.
        (["interface I {}", "class B implements I { I delegate; }"], {"BI": "implements"}),
        (["interface I {}", "interface J extends I {}"], {}),
        (["class A {}", "class B extends A {}"], {"BA": "extends"}),
    ],
)
def test_edges(sources, edges):
    assert graph(*sources).edges == {tuple(pair): (label,) for pair, label in edges.items()}


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("a.java", "b.java"),
        ("z.java", "a/Item.java"),
    ],  # files of a directory come before its directories
)
def test_the_last_file_of_a_name_in_the_order_of_a_walk_gives_its_path_and_edges(first, last):
    both = {last: "class Item { Y y; }", first: "class Item { X x; } class X {} class Y {}"}
    merged = graph(**both)
    assert merged.nodes["Item"].path == last and merged.digraph.adj["Item"].keys() == {"Y"}


@pytest.mark.parametrize(
    ("archive", "files", "nodes", "edges"),
    [
        ("shopizer-3.2.7.zip", 1210, 1158, 1503),
        ("openmrs-core-9ecb855.zip", 1258, 1371, 1517),
        ("thingsboard-cdfb5be.zip", 4521, 4691, 8575),  # the paper prints 8,570 edges
    ],
)
def test_the_papers_own_repositories_give_its_numbers(archive, files, nodes, edges):
    path = Path(os.environ.get("PKG_DKB_DIR", "nowhere")) / archive
    if not path.exists():
        pytest.skip("the paper's repositories are not available; PKG_DKB_DIR names their directory")
    built = build(path, "as-published", processes=1)
    assert (len(built.files), len(built.graph.nodes), len(built.graph.edges)) == (
        files,
        nodes,
        edges,
    )
