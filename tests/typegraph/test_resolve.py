"""Which type a name means, by Java's scopes; the sources are made from the expected targets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg_lib.graph.types import listing as published
from pkg_lib.graph.types.java import facts_of
from pkg_lib.graph.types.resolve import graph_of


def resolved(**files):
    return graph_of({f"{name}.java": facts_of(source.encode()) for name, source in files.items()})


def edges(found):
    return found.graph.edges


CLIENT = "package a; {imports} class Client {{ Item item; }}"
TWO = {"x": "package x; public class Item {}", "y": "package y; public class Item {}"}


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
    found = resolved(c=CLIENT.format(imports=imports), **TWO)
    assert set(edges(found)) == ({("a.Client", target)} if target else set())
    assert found.references == ({"edge": 1} if target else {"external": 1})


def test_the_own_package_shadows_imports_on_demand():
    found = resolved(c=CLIENT.format(imports="import x.*;"), own="package a; class Item {}", **TWO)
    assert set(edges(found)) == {("a.Client", "a.Item")}


def test_two_imports_on_demand_are_ambiguous_and_reported():
    found = resolved(c=CLIENT.format(imports="import x.*; import y.*;"), **TWO)
    assert not found.graph.edges and found.references == {"ambiguous": 1}
    assert found.ambiguous == [("c.java", "Item", ("x.Item", "y.Item"))]


def test_java_lang_against_an_import_on_demand():
    found = resolved(
        c="package a; import x.*; class C { Record r; String s; }", x="package x; public class Record {}"
    )
    assert found.ambiguous == [("c.java", "Record", ("java.lang.Record", "x.Record"))]
    assert found.references == {"ambiguous": 1, "external": 1}


def test_java_lang_of_the_project_itself_needs_no_import():
    found = resolved(s="package java.lang; public class String {}", c="package a; class C { String s; }")
    assert set(edges(found)) == {("a.C", "java.lang.String")}


def test_a_type_that_its_package_hides_is_not_imported_on_demand():
    hidden = "package y; class Item {}"
    found = resolved(c=CLIENT.format(imports="import x.*; import y.*;"), x=TWO["x"], y=hidden)
    assert set(edges(found)) == {("a.Client", "x.Item")} and not found.ambiguous


def test_nested_and_inherited_members():
    found = resolved(
        base="package a; public class Base { public static class Entry {} }",
        sub="package b; import a.Base; class Sub extends Base { Entry entry; Deep.Leaf leaf; "
        "static class Deep { static class Leaf {} } }",
        far="package c; import b.*; class Far { b.Sub.Deep.Leaf full; a.Base.Entry entry; }",
        static="package d; import static a.Base.*; class Other { Entry entry; }",
        demand="package e; import a.Base.*; class More { Entry entry; }",
    )
    assert edges(found) == {
        ("b.Sub", "a.Base"): ("extends",),
        ("b.Sub", "a.Base.Entry"): ("injects",),
        ("b.Sub", "b.Sub.Deep.Leaf"): ("injects",),
        ("c.Far", "b.Sub.Deep.Leaf"): ("injects",),
        ("c.Far", "a.Base.Entry"): ("injects",),
        ("d.Other", "a.Base.Entry"): ("injects",),
        ("e.More", "a.Base.Entry"): ("injects",),
    }


def test_an_import_of_a_types_members_on_demand_brings_inherited_ones_only_if_static():
    files = {
        "base": "package a; public class Base { public static class Entry {} }",
        "sub": "package a; public class Sub extends Base {}",
    }
    plain = resolved(c="package b; import a.Sub.*; class C { Entry e; }", **files)
    static = resolved(c="package b; import static a.Sub.*; class C { Entry e; }", **files)
    assert ("b.C", "a.Base.Entry") not in edges(plain) and ("b.C", "a.Base.Entry") in edges(static)


def test_type_variables_are_no_types_and_arguments_of_supertypes_are_not_inherited():
    found = resolved(
        r="package a; class Repo<T> { T value; } class Item {} class T {}",
        i="package a; class ItemRepo extends Repo<Item> { T real; Repo<Item> other; }",
    )
    assert edges(found) == {
        ("a.ItemRepo", "a.Repo"): ("injects", "extends"),
        ("a.ItemRepo", "a.T"): ("injects",),
        ("a.ItemRepo", "a.Item"): ("injects",),
    }
    assert found.references["type variable"] == 1 and found.references["argument of a supertype"] == 1


def test_extra_edges_of_arguments_of_supertypes_and_of_beans():
    source = (
        "class Repo<T> {} class Item {} class Items extends Repo<Item> implements Comparable<Items> {} "
        "class Config { @Bean Repo<Item> repo(Items items) { } }"
    )
    facts = {"a.java": facts_of(source.encode())}
    plain, wide = graph_of(facts), graph_of(facts, ("arguments", "beans"))
    assert edges(plain) == {("Items", "Repo"): ("extends",)}
    assert edges(wide) == edges(plain) | {
        ("Items", "Item"): ("arguments",),
        ("Config", "Repo"): ("provides",),
        ("Config", "Item"): ("provides",),
        ("Config", "Items"): ("injects",),
    }


def test_a_supertype_may_be_a_member_of_the_enclosing_type_but_not_of_the_type_itself():
    found = resolved(
        a="package a; class Outer { static class Base {} static class Sub extends Base {} }",
        b="package b; class Own extends Inner { static class Inner {} }",
    )
    assert edges(found) == {("a.Outer.Sub", "a.Outer.Base"): ("extends",)}


def test_a_type_variable_ends_with_what_declares_it():
    found = resolved(a="class T {} class A { <T> A(T x) {} T after; }")
    assert edges(found) == {("A", "T"): ("injects",)} and found.references["type variable"] == 1


def test_labels_by_kind_of_type():
    found = resolved(
        a="interface I {} interface J extends I {} class B {} class C extends B implements I {} "
        "enum E implements I {} "
        "record R(B b) implements J {} @interface N {}"
    )
    assert edges(found) == {
        ("J", "I"): ("extends",),
        ("C", "B"): ("extends",),
        ("C", "I"): ("implements",),
        ("E", "I"): ("implements",),
        ("R", "B"): ("injects",),
        ("R", "J"): ("implements",),
    }
    assert found.graph.node_counts() == {"annotation": 1, "class": 2, "enum": 1, "interface": 2, "record": 1}


def test_cyclic_inheritance_ends_and_is_named():
    found = resolved(
        a="class A extends B { Inner x; } class B extends C {} class C extends A {} "
        "class S extends S {} class D extends A {}"
    )
    assert found.graph.cycles() == [["A", "B", "C"], ["S"]]


def test_a_type_declared_in_two_files_counts_once():
    found = resolved(
        main="package a; class C { X x; } class X {}", test="package a; class C { Y y; } class Y {}"
    )
    assert found.again == [("test.java", "a.C")]
    assert set(edges(found)) == {("a.C", "a.X")} and found.graph.nodes["a.C"].path == "main.java"


def test_within_goes_so_many_edges():
    graph = resolved(a="class A { B b; } class B { C c; } class C { A a; D d; } class D {}").graph
    assert graph.within("A", 0, "successors") == []
    assert graph.within("A", 1, "successors") == ["B"]
    assert graph.within("A", 10**12, "successors") == ["B", "C", "D"]
    assert graph.within("D", 2, "predecessors") == ["C", "B"]


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
        own = package if way == "same" else "users"
        imports = {"import": f"import {package}.{name};", "demand": f"import {package}.*;"}.get(way, "")
        shape = draw(st.sampled_from(["{}", "{}[]", "java.util.List<{}>", "Map<String, ? super {}>"]))
        written = f"{package}.{name}" if way == "full" else name
        place = draw(st.sampled_from(["%s f;", "User%d(%s x) {}", "User%d(int i, %s... x) {}"]))
        type_ = shape.format(written)
        body = place % ((number, type_) if "%d" in place else type_)
        files[f"user{number}"] = f"package {own};\n{imports}\nclass User{number} {{ {body} }}\n"
        expected.add((f"{own}.User{number}", f"{package}.{name}"))
    return files, expected


@given(projects())
def test_every_reference_finds_the_type_that_it_was_made_for(made):
    files, expected = made
    found = graph_of({name: facts_of(source.encode()) for name, source in files.items()})
    assert set(found.graph.edges) == expected
    backwards = graph_of({name: facts_of(source.encode()) for name, source in reversed(files.items())})
    assert backwards.graph.edges == found.graph.edges
    assert list(backwards.graph.nodes) == list(found.graph.nodes)


@given(projects())
def test_simple_names_merge_what_packages_keep_apart(made):
    files, _ = made
    facts = {name: facts_of(source.encode()) for name, source in files.items()}
    merged, whole = published.graph_of(facts), graph_of(facts).graph
    assert set(merged.nodes) == {n.simple for n in whole.nodes.values()}
    assert all(a in merged.nodes and b in merged.nodes for a, b in merged.edges)
