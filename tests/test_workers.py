"""Answers in order, from workers that may die."""

from __future__ import annotations

import operator
import os

import pytest

from pkg_lib.core.types import UserError
from pkg_lib.core.workers import ordered


def test_answers_come_in_order():
    assert list(ordered(operator.neg, range(50), 3)) == [-i for i in range(50)]


def test_nothing_to_do():
    assert list(ordered(operator.neg, [], 2)) == []


@pytest.mark.parametrize("value", [1, 9])
def test_a_worker_that_dies_is_a_users_error(value):
    with pytest.raises(UserError, match=r"a worker process died .*use processes=1"):
        list(ordered(os._exit, [value] * 5, 2))


def test_what_a_function_raises_is_raised_here():
    with pytest.raises(TypeError):
        list(ordered(operator.neg, ["text"], 2))
