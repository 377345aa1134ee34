"""Entries by name: the lookup error names the choices, and no entry takes another's place."""

from types import SimpleNamespace

import pytest

from pkg_lib.core.registry import Registry
from pkg_lib.core.types import UserError


def test_entries_are_found_by_name_in_their_order():
    first, second = SimpleNamespace(name="b"), SimpleNamespace(name="a")
    registry = Registry("column", [first])
    assert registry.register(second) is second
    assert list(registry) == ["b", "a"] and registry.get_or_fail("a") is second
    assert Registry("index", {"flat": list}).get_or_fail("flat") is list


def test_an_unknown_name_is_one_line_with_the_choices():
    registry = Registry("column", {"None": 0, "BM25": 1})
    with pytest.raises(UserError, match=r"^unknown column 'x'; choose from: None, BM25$"):
        registry.get_or_fail("x")


def test_a_name_is_given_once():
    with pytest.raises(UserError, match="registered twice"):
        Registry("column", {"None": 0}).register(1, "None")
