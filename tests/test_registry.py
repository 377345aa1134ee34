"""Registries of named entries, and worker processes that return results in order."""

from __future__ import annotations

import operator
import os
from types import SimpleNamespace

import pytest

from pkg_lib.core.registry import Registry
from pkg_lib.core.types import UserError
from pkg_lib.core.workers import ordered


def test_a_registry_finds_entries_by_name_and_keeps_their_order():
    first = SimpleNamespace(name="b")
    second = SimpleNamespace(name="a")
    registry = Registry("column", [first])
    assert registry.register(second) is second
    assert list(registry) == ["b", "a"]
    assert registry.get_or_fail("a") is second
    with pytest.raises(UserError, match=r"^unknown column 'x'; choose from: b, a$"):
        registry.get_or_fail("x")
    with pytest.raises(UserError, match="registered twice"):
        Registry("column", {"NoRAG": 0}).register(1, "NoRAG")


def test_workers_return_results_in_order_and_pass_on_exceptions():
    assert list(ordered(operator.neg, range(50), 3)) == [-number for number in range(50)]
    assert list(ordered(operator.neg, [], 2)) == []
    with pytest.raises(TypeError):
        list(ordered(operator.neg, ["text"], 2))


def test_reports_a_worker_process_that_died():
    with pytest.raises(UserError, match=r"a worker process died .*use processes=1"):
        list(ordered(os._exit, [9] * 5, 2))
