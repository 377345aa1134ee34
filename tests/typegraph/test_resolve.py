"""Which type a name means, by Java's scopes; the sources are made from the expected targets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg_lib.graph.types.java import facts_of
from pkg_lib.graph.types.resolve import graph_of, published


def resolved(*sources, extra=(), **files):
    """The resolution of sources, in files by name or by number."""
    files |= {f"file{n}": source for n, source in enumerate(sources)}
    return graph_of(
        {f"{name}.java": facts_of(source.encode()) for name, source in files.items()}, extra
    )


def edges(resolution):
    """ "A injects B" for every label of every pair."""
    return {
        f"{a} {label} {b}" for (a, b), labels in resolution.graph.edges.items() for label in labels
    }


CLIENT = "package a; {imports} class Client {{ Item item; }}"
TWO = ("package x; public class Item {}", "package y; public class Item {}")


@pytest.mark.parametrize(
    ("imports", "target"),
    [
        ("import x.Item;", "x.Item"),
        ("import y.*;", "y.Item"),
        ("import y.*; import x.Item;", "x.Item"),  # a single import shadows one on demand
        ("import org.other.Item; import y.*;", None),  # an external one too
        ("", None),
        ("import x.nothing.*;", None),
    ],
)
def test_one_simple_name_in_two_packages(imports, target):
    resolution = resolved(CLIENT.format(imports=imports), *TWO)
    assert edges(resolution) == ({f"a.Client injects {target}"} if target else set())
    assert resolution.references == ({"edge": 1} if target else {"external": 1})


def test_two_imports_on_demand_are_ambiguous_and_reported():
    both = CLIENT.format(imports="import x.*; import y.*;")
    resolution = resolved(*TWO, client=both)
    assert not resolution.graph.edges and resolution.references == {"ambiguous": 1}
    assert resolution.ambiguous == [("client.java", "Item", ("x.Item", "y.Item"))]
    hidden = resolved(both, TWO[0], "package y; class Item {}")  # other packages do not see it
    assert edges(hidden) == {"a.Client injects x.Item"} and not hidden.ambiguous


def test_java_lang_against_an_import_on_demand():
    source = "package a; import x.*; class C { Record r; String s; }"
    resolution = resolved("package x; public class Record {}", c=source)
    assert resolution.ambiguous == [("c.java", "Record", ("java.lang.Record", "x.Record"))]
    assert resolution.references == {"ambiguous": 1, "external": 1}


BASE = "package a; public class Base { public static class Entry {} }"
SUB = "package a; public class Sub extends Base {}"
SCOPES = {
    "the file's own package shadows imports on demand": (
        [CLIENT.format(imports="import x.*;"), "package a; class Item {}", *TWO],
        "a.Client injects a.Item",
    ),
    "java.lang of the project itself needs no import": (
        ["package java.lang; public class String {}", "package a; class C { String s; }"],
        "a.C injects java.lang.String",
    ),
    "nested and inherited members": (
        [
            BASE,
            "package b; import a.Base; class Sub extends Base { Entry entry; Deep.Leaf leaf; "
            "static class Deep { static class Leaf {} } }",
            "package c; import b.*; class Far { b.Sub.Deep.Leaf full; a.Base.Entry entry; }",
            "package d; import static a.Base.*; class Other { Entry entry; }",
            "package e; import a.Base.*; class More { Entry entry; }",
        ],
        "b.Sub extends a.Base, b.Sub injects a.Base.Entry, b.Sub injects b.Sub.Deep.Leaf, "
        "c.Far injects b.Sub.Deep.Leaf, c.Far injects a.Base.Entry, d.Other injects a.Base.Entry, "
        "e.More injects a.Base.Entry",
    ),
    "a type's members on demand: inherited ones not": (
        [BASE, SUB, "package b; import a.Sub.*; class C { Entry e; }"],
        "a.Sub extends a.Base",
    ),
    "a type's members on demand: inherited ones if static": (
        [BASE, SUB, "package b; import static a.Sub.*; class C { Entry e; }"],
        "a.Sub extends a.Base, b.C injects a.Base.Entry",
    ),
    "a supertype may be a member of the enclosing type, but not of the type itself": (
        [
            "package a; class Outer { static class Base {} static class Sub extends Base {} }",
            "package b; class Own extends Inner { static class Inner {} }",
        ],
        "a.Outer.Sub extends a.Outer.Base",
    ),
    "a type variable ends with what declares it": (
        ["class T {} class A { <T> A(T x) {} T after; }"],
        "A injects T",
    ),
    "labels by kind of type": (
        [
            "interface I {} interface J extends I {} class B {} class C extends B implements I {} "
            "enum E implements I {} record R(B b) implements J {} @interface N {}"
        ],
        "J extends I, C extends B, C implements I, E implements I, R injects B, R implements J",
    ),
}


@pytest.mark.parametrize(("sources", "expected"), SCOPES.values(), ids=SCOPES)
def test_scopes(sources, expected):
    assert edges(resolved(*sources)) == set(expected.split(", "))


def test_type_variables_are_no_types_and_arguments_of_supertypes_are_not_inherited():
    resolution = resolved(
        "package a; class Repo<T> { T value; } class Item {} class T {}",
        "package a; class ItemRepo extends Repo<Item> { T real; Repo<Item> other; }",
    )
    targets = {"extends a.Repo", "injects a.Repo", "injects a.T", "injects a.Item"}
    assert edges(resolution) == {f"a.ItemRepo {target}" for target in targets}
    assert (
        resolution.references["type variable"]
        == resolution.references["argument of a supertype"]
        == 1
    )


def test_extra_edges_of_arguments_of_supertypes_and_of_beans():
    source = (
        "class Repo<T> {} class Item {} class Items extends Repo<Item> implements Comparable<Items> {} "
        "class Config { @Bean Repo<Item> repo(Items items) { } }"
    )
    wide = {
        "Items arguments Item",
        "Config provides Repo",
        "Config provides Item",
        "Config injects Items",
    }
    assert edges(resolved(source)) == {"Items extends Repo"}
    assert edges(resolved(source, extra=("arguments", "beans"))) == {"Items extends Repo"} | wide


def test_cyclic_inheritance_ends_and_is_named():
    source = "class A extends B { Inner x; } class B extends C {} class C extends A {} "
    graph = resolved(source + "class S extends S {} class D extends A {}").graph
    assert graph.cycles() == [["A", "B", "C"], ["S"]]


def test_a_type_declared_in_two_files_counts_once():
    main, test = (f"package a; class C {{ {x} x; }} class {x} {{}}" for x in "XY")
    resolution = resolved(main=main, test=test)
    assert resolution.redeclared == [("test.java", "a.C")]
    assert (
        edges(resolution) == {"a.C injects a.X"}
        and resolution.graph.nodes["a.C"].path == "main.java"
    )


def test_within_goes_so_many_edges():
    graph = resolved("class A { B b; } class B { C c; } class C { A a; D d; } class D {}").graph
    steps = [graph.within("A", depth, "successors") for depth in (0, 1, 10**12)]
    assert steps == [[], ["B"], ["B", "C", "D"]] and graph.within("D", 2, "predecessors") == [
        "C",
        "B",
    ]


names = st.sampled_from(["Item", "Order", "Node"])
packages = st.sampled_from(["p", "p.q", "r"])


@st.composite
def projects(draw):
    """(files, expected edges): types of equal names in packages, each referred to in one of four ways."""
    types = draw(st.sets(st.tuples(packages, names), min_size=2, max_size=7))
    files = {f"{p}.{n}": f"package {p};\npublic class {n} {{}}\n" for p, n in types}
    expected = set()
    for number, (package, name) in enumerate(sorted(types)):
        way = draw(st.sampled_from(["full", "import", "demand", "same"]))
        user_package = package if way == "same" else "users"
        imports = {"import": f"import {package}.{name};", "demand": f"import {package}.*;"}.get(
            way, ""
        )
        shape = draw(
            st.sampled_from(["{}", "{}[]", "java.util.List<{}>", "Map<String, ? super {}>"])
        )
        written = shape.format(f"{package}.{name}" if way == "full" else name)
        user = f"User{number}"
        body = draw(
            st.sampled_from(
                [f"{written} f;", f"{user}({written} x) {{}}", f"{user}({written}... x) {{}}"]
            )
        )
        files[user] = f"package {user_package};\n{imports}\nclass {user} {{ {body} }}\n"
        expected.add(f"{user_package}.{user} injects {package}.{name}")
    return files, expected


@given(projects())
def test_every_reference_means_the_type_that_it_was_made_for(project):
    """Whatever the order of the files; simple names merge what packages keep apart."""
    files, expected = project
    whole, backwards = resolved(**files), resolved(**dict(reversed(files.items())))
    assert edges(whole) == expected and backwards.graph.edges == whole.graph.edges
    assert list(backwards.graph.nodes) == list(whole.graph.nodes)
    merged = published({name: facts_of(source.encode()) for name, source in files.items()})
    assert set(merged.nodes) == {n.simple for n in whole.graph.nodes.values()}
    assert all(a in merged.nodes and b in merged.nodes for a, b in merged.edges)
