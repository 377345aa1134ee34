"""Answers in order, from workers that die or print."""

from __future__ import annotations

import operator
import os
import sys

import pytest

from pkg_lib.core.types import UserError
from pkg_lib.core.workers import ordered


@pytest.mark.parametrize("processes", [1, 3])
def test_answers_come_in_order(processes):
    assert list(ordered(operator.neg, range(50), processes)) == [-i for i in range(50)]


def test_nothing_to_do():
    assert list(ordered(operator.neg, [], 2)) == []


def test_what_a_function_prints_is_no_answer():
    assert list(ordered(print, ["hello"], 1)) == [None]


@pytest.mark.parametrize(("function", "value"), [(os._exit, 9), (sys.exit, 1), (operator.neg, "text")])
def test_a_worker_that_dies_is_a_users_error(function, value):
    with pytest.raises(UserError, match=r"a worker process died .*use processes=1"):
        list(ordered(function, [value] * 5, 2))
