"""The price table is checked when it is read."""

from __future__ import annotations

import pytest

from pkg_lib.core.types import UserError
from pkg_lib.papers.pkg import cost

HEAD = "model,input_usd_per_million,output_usd_per_million\n"


@pytest.mark.parametrize(
    "text", [None, "", "a,b\n", *(HEAD + r for r in ("m,x,1", "m,-1,1", "m,inf,1", "m,1,1\nm,2,2"))]
)
def test_a_damaged_table_a_wrong_price_and_a_model_twice_are_named(tmp_path, text):
    path = tmp_path / "p.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=r"cannot read prices from .*p\.csv"):
        cost.read_prices(path)
    assert not cost.read_prices(cost.PRICES).empty
