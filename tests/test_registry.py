"""Entries by name, and answers in order from workers that may die."""

from __future__ import annotations

import operator
import os
from types import SimpleNamespace

import pytest

from pkg_lib.core.registry import Registry
from pkg_lib.core.types import UserError
from pkg_lib.core.workers import ordered


def test_entries_are_found_by_name_in_their_order():
    first, second = SimpleNamespace(name="b"), SimpleNamespace(name="a")
    registry = Registry("column", [first])
    assert registry.register(second) is second
    assert list(registry) == ["b", "a"] and registry.get_or_fail("a") is second
    with pytest.raises(UserError, match=r"^unknown column 'x'; choose from: b, a$"):
        registry.get_or_fail("x")
    with pytest.raises(UserError, match="registered twice"):
        Registry("column", {"NoRAG": 0}).register(1, "NoRAG")


def test_workers_answer_in_order_and_what_a_function_raises_is_raised_here():
    assert list(ordered(operator.neg, range(50), 3)) == [-i for i in range(50)]
    assert list(ordered(operator.neg, [], 2)) == []
    with pytest.raises(TypeError):
        list(ordered(operator.neg, ["text"], 2))


def test_a_worker_that_dies_is_a_users_error():
    with pytest.raises(UserError, match=r"a worker process died .*use processes=1"):
        list(ordered(os._exit, [9] * 5, 2))
