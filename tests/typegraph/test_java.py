"""What one Java file says: types, their references, and what is said of a file that is none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg_lib.graph.types import java
from pkg_lib.graph.types.java import facts_of

EVERYTHING = b"""
package a /* here */ . b; import x.Single; import y.*; import static z.Util.*; import static z.Util.Nested;
@Ann class A<T extends Bound & Other> extends c.Base<Arg, Elem[]> implements I<T>, J {
    @Ann private Map<String, List<@Ann Outer.Inner[]>> m, n;
    int number; Outer<Of>.Inner<? extends Wild> scoped; Late[] array;
    <U> A(Foo f, final List<U> g, Rest... rest) {}
    enum E implements K { X { Hidden hidden; }; }
    record R(Part a, Rest... b) implements L {}
    @interface Note { Foo DEFAULT = null; }
    interface Sub extends K, L { Foo CONSTANT = null; }
    void method() { class Local { Foo inner; } }
    void other() { class Local extends Base2 {} }
}
"""


def references(facts, place):
    return [(facts.types[r.owner].name, r.name) for r in facts.references if r.place == place]


def test_types_of_every_kind_with_those_around_them():
    facts = facts_of(EVERYTHING)
    assert facts.package == "a.b" and not facts.reason and not facts.remarks
    kinds = [f"{t.kind} {t.name}" for t in facts.types]
    assert kinds[:4] == ["class A", "enum A.E", "record A.R", "annotation A.Note"]
    assert kinds[4:] == ["interface A.Sub", "class A.Local", "class A.Local#2"]
    assert [(t.first, t.last) for t in facts.types][:2] == [(3, 13), (7, 7)]
    assert facts.types[0].variables == ("T",)
    # (name, on demand, static)
    single, demand = {("x.Single", False, False), ("y", True, False)}, {("z.Util", True, True)}
    assert set(facts.imports) == single | demand | {("z.Util.Nested", False, True)}


@pytest.mark.parametrize(
    ("place", "owners"),
    [
        ("parameter", "A Foo, A List, A U"),
        ("rest", "A Rest"),
        ("component", "A.R Part, A.R Rest"),
        ("constant", "A.Note Foo, A.Sub Foo"),
        ("extends", "A c.Base, A Arg, A Elem, A.Sub K, A.Sub L, A.Local#2 Base2"),
        ("implements", "A I, A T, A J, A.E K, A.R L"),
        (
            "field",
            "A Map, A String, A List, A Outer.Inner, A Outer.Inner, A Of, A Wild, A Late, "
            "A.E Hidden, A.Local Foo",
        ),
    ],
)
def test_references_with_generics_arrays_and_scoped_names(place, owners):
    written = [f"{owner} {name}" for owner, name in references(facts_of(EVERYTHING), place)]
    assert ", ".join(written) == owners


def test_bare_argument_and_variable_are_told_apart():
    kinds = {
        (r.place, r.name): (r.bare, r.argument, r.variable) for r in facts_of(EVERYTHING).references
    }
    assert kinds["parameter", "Foo"] == (True, False, False)
    assert kinds["parameter", "U"] == kinds["implements", "T"] == (False, True, True)
    assert kinds["extends", "c.Base"] == kinds["field", "Late"] == (False, False, False)


def test_a_syntax_error_leaves_the_types_around_it():
    facts = facts_of(b"class A { Good good; void f( { } }\nclass B { Other other; }")
    assert {t.name.partition(".")[0] for t in facts.types} >= {"A"} and java.ERRORS in facts.remarks
    assert ("A", "Good") in references(facts, "field")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"package a.b;\n/** Only words. */\n", java.NO_TYPE),
        (b"// class\n", java.NO_TYPE),
        (b"\x7fELF class \0\0\0", java.BINARY),
        (b"the class of 1984, and (what) became; of it }", java.NO_TYPE_FOUND),
        (b"/** Of a class. */ module a { requires b; }", java.NO_TYPE),
    ],
)
def test_files_without_types_say_why(data, reason):
    facts = facts_of(data)
    assert facts.reason == reason and not facts.types


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_encodings(encoding):
    facts = facts_of("class Größe { Maß maß; }".encode(encoding))
    assert [t.name for t in facts.types] == ["Größe"] and references(facts, "field") == [
        ("Größe", "Maß")
    ]
    expected = {"utf-16": ("UTF-16",), "latin-1": ("not UTF-8, read as Latin-1",)}.get(encoding, ())
    assert facts.remarks == expected


@pytest.mark.parametrize("end", [b"\r\n", b"\r"])
def test_line_ends_count_as_one(end):
    facts = facts_of(EVERYTHING.replace(b"\n", end))
    assert facts == replace(facts_of(EVERYTHING), remarks=("line ends other than LF",))


def test_text_that_takes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(java, "STEPS", 2000)
    assert facts_of(b"class lorem ipsum dolor, (sit) amet. " * 3000).reason == java.TOO_LONG
    assert [t.name for t in facts_of(b"class After { }").types] == ["After"]


def test_a_row_of_literals_takes_linear_time():
    row = b"1, -2.5f,\n'x', \"}\", " * 60_000
    facts = facts_of(b"class A { Before b; Object[] row = {" + row + b"1};\n After a; }")
    assert references(facts, "field") == [("A", "Before"), ("A", "Object"), ("A", "After")]
    assert facts.types[0].last == 60_002


def test_a_type_that_one_place_declares_twice_is_remarked():
    twice = b"class A {} class A {}", b"class A { class B {} interface B {} }"
    local = b"class A { void f() { class B {} } void g() { class B {} new A() { class C {} }; "
    local += b"new A() { class C {} }; } }"
    assert [java.TWICE in facts_of(source).remarks for source in (*twice, local)] == [
        True,
        True,
        False,
    ]


def test_what_beans_return_and_take():
    more = b"@x.Bean(name = 1) public Web web() { } @Override Not no(No n) { }"
    facts = facts_of(b"class A { @Bean Api<X> api(Store s, int n) { } " + more + b" }")
    assert references(facts, "bean") == [("A", "Api"), ("A", "X"), ("A", "Web")]
    assert references(facts, "bean_parameter") == [("A", "Store")]


VARARGS = {
    b"void put(int @Mark [] @Mark ... values) { }": [],
    b"void put(@M final String @N ... v) { }": [],
    b"void put(String... plain) { } void other(String @A [] @B [] @C... v) { }": [],
    b"void put(int @Z\n@W /* why ... */\n// ...\n... y) { }": [],
    b"void put(X x, @A Bar<@B C @D []> @E @f.G(1) ... y) { }": [],
    b"void put(@M A this, Foo @B ... v) { }": [],
    b"A(@M Foo @N(1) [] @O(\"a) ...\") [] @P(x = @Q(')')) ... v) { }": [("A", "rest", "Foo")],
    b"record R(Foo @A ... v) { }": [("A.R", "component", "Foo")],
    b"record R(Foo @A [] @B ... v) { }": [("A.R", "component", "Foo")],
    b"Api api = (Foo @B ... v) -> v;": [("A", "field", "Api")],
    b"<T extends @X U & @Y V<@Z W>> void put(T @Z ... v) { }": [],
}


@pytest.mark.parametrize("member", VARARGS)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_annotated_varargs_lose_no_references(member, end):
    """JLS 8.4.1: annotations may stand before the ellipsis, which tree-sitter's grammar does not know."""
    source = (
        b"class A {\n Store store;\n "
        + member
        + b'\n String s = "@X ...";\n Other other; Third third; }'
    )
    facts = facts_of(source.replace(b"\n", end))
    found = [(facts.types[r.owner].name, r.place, r.name) for r in facts.references]
    fields = [("A", "field", name) for name in ("Store", "String", "Other", "Third")]
    assert sorted(found) == sorted([*fields, *VARARGS[member]]) and java.ERRORS not in facts.remarks
    assert facts.types[0].last == source.count(b"\n") + 1


def test_only_what_stands_before_an_ellipsis_is_blanked():
    for source in (
        b'@A class B { @C(x = {1, 2}) D d; /* @E ... */ String s = \'"\' + "@F ..."; }',
        b"@A(... ",
        b") @(",
    ):
        assert java.without_vararg_annotations(source) == source


def test_brackets_without_end_do_not_exhaust_the_stack():
    facts = facts_of(b"class A { " + b"List<" * 3000 + b"B" + b">" * 3000 + b" f; }")
    assert ("A", "B") in references(facts, "field")


@given(st.binary(max_size=300), st.sampled_from([b"", b"class A { B b; ", b"interface I extends "]))
def test_any_bytes_give_types_or_a_reason(data, before):
    facts = facts_of(before + data)
    assert bool(facts.types) != bool(facts.reason)
    assert all(0 <= r.owner < len(facts.types) for r in facts.references)
    assert len({t.name for t in facts.types}) == len(facts.types)
