"""Validation of the price table."""

from __future__ import annotations

import pytest

from pkg_lib.core.types import UserError
from pkg_lib.papers.pkg import cost

HEAD = "model,input_usd_per_million,output_usd_per_million\n"


@pytest.mark.parametrize(
    "text",
    [
        None,  # no such file
        "",
        "a,b\n",
        HEAD + "m,x,1",
        HEAD + "m,-1,1",
        HEAD + "m,inf,1",
        HEAD + "m,1,1\nm,2,2",
    ],
)
def test_reports_a_damaged_table_an_invalid_price_and_a_repeated_model(tmp_path, text):
    path = tmp_path / "p.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=r"cannot read prices from .*p\.csv"):
        cost.read_prices(path)
    assert not cost.read_prices(cost.PRICES).empty
