"""Test that the speeds of this machine are kept, replaced by newer ones, and ignored if damaged."""

from __future__ import annotations

import pytest

from pkg_lib.core import speeds


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_CACHE", str(tmp_path))
    return tmp_path


def test_keeps_the_last_speed():
    assert speeds.speeds() == {}
    speeds.record_speed("a", 100, 10.0)
    speeds.record_speed("b", 30, 10.0)
    speeds.record_speed("a", 50, 10.0)
    assert speeds.speeds() == {"a": 5.0, "b": 3.0}


def test_ignores_short_or_empty_measurements():
    speeds.record_speed("a", 100, 0.1)
    speeds.record_speed("a", 0, 10.0)
    assert speeds.speeds() == {}


@pytest.mark.parametrize("text", ["", "[1]", '{"a": "fast"}', "{"])
def test_ignores_a_damaged_file(cache, text):
    (cache / "speeds.json").write_text(text)
    assert speeds.speeds() == {}
    speeds.record_speed("a", 100, 10.0)
    assert speeds.speeds() == {"a": 10.0}


def test_a_read_only_cache_is_not_an_error(cache):
    (cache / "speeds.json").mkdir()
    speeds.record_speed("a", 100, 10.0)
    assert speeds.speeds() == {}
