"""The price table is checked when it is read."""

from __future__ import annotations

import pytest

from pkg_lib.analysis import prices
from pkg_lib.core.types import UserError


def test_the_price_table_that_comes_along_can_be_read():
    found = prices.read_prices(prices.DEFAULT)
    assert (found.loc[["qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-1.5b-instruct"]] == 0).all(axis=None)


@pytest.mark.parametrize(
    "text", ["", "a,b\n1,2\n", "model,input_usd_per_million,output_usd_per_million\nm,x,1\n", None]
)
def test_a_damaged_price_table_is_named(tmp_path, text):
    path = tmp_path / "p.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=r"cannot read prices from .*p\.csv"):
        prices.read_prices(path)


def test_a_price_below_0_and_a_model_twice_are_refused(tmp_path):
    for row in ("m,-1,1\n", "m,inf,1\n", "m,1,1\nm,2,2\n"):
        (tmp_path / "p.csv").write_text("model,input_usd_per_million,output_usd_per_million\n" + row)
        with pytest.raises(UserError, match="no number of 0 or more, or a model stands there twice"):
            prices.read_prices(tmp_path / "p.csv")
