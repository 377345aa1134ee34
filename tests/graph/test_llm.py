"""The JSON in a model's answer."""

from __future__ import annotations

import pytest

from pkg_lib.graph.text.llm import json_part


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ('  {"a": 1} hope this helps', '{"a": 1}'),
        ('```json\n{"a": "```"}\n```', '{"a": "```"}'),
        ('```\n{"a": 1}\n```\nand', '{"a": 1}'),
        ('So {"a": {"b": 1}}.', '{"a": {"b": 1}}'),
        ("{", "{"),
        ("nothing", "nothing"),
        ("", ""),
    ],
)
def test_json_part(raw, expected):
    assert json_part(raw) == expected
