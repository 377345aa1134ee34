"""Answers in order, from workers that may die."""

import operator
import os

import pytest

from pkg_lib.core.types import UserError
from pkg_lib.core.workers import ordered


@pytest.mark.parametrize("count", [0, 50])
def test_answers_come_in_order(count):
    assert list(ordered(operator.neg, range(count), 3)) == [-i for i in range(count)]


@pytest.mark.parametrize("value", [1, 9])
def test_a_worker_that_dies_is_a_users_error(value):
    with pytest.raises(UserError, match=r"a worker process died .*use processes=1"):
        list(ordered(os._exit, [value] * 5, 2))


def test_what_a_function_raises_is_raised_here():
    with pytest.raises(TypeError):
        list(ordered(operator.neg, ["text"], 2))
