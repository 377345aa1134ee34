"""The claims of the EVOR paper on its own tables."""

import tomllib

import pytest

from pkg_lib.analysis.tables import HERE
from pkg_lib.papers.claims import evor_claims

ROWS = tomllib.loads((HERE / "reference" / "evor_claims.toml").read_text("utf8"))["claim"]


def test_each_claim_on_the_tables_has_a_reading():
    printed = {row["id"] for row in ROWS if "better" not in row}
    assert printed == evor_claims.READINGS.keys()


@pytest.mark.parametrize(
    ("claim", "numbers"),
    [
        ("gain-chatgpt", {"ChatGPT": 16.1}),
        ("baselines-small", {"MPSC": 0.1, "ExeDec": 0.5, "Reflexion": 1.6}),
        ("ring-zero", {"MPSC": 0.0, "ExeDec": 0.0, "Reflexion": 0.0}),
    ],
)
def test_readings_are_the_printed_numbers(claim, numbers):
    assert evor_claims.READINGS[claim]() == pytest.approx(numbers)
