"""Price tables: dollars for a million tokens, for the notebook `cost` and `--dry-run --prices`."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd

from pkg_lib.core.types import UserError

COLUMNS = ("input_usd_per_million", "output_usd_per_million")
DEFAULT = Path(__file__).parent / "reference" / "prices.csv"


def read_prices(path: Path) -> pd.DataFrame:
    """Index model, COLUMNS as numbers, NaN for an empty cell. UserError for an absent or damaged file."""
    try:
        prices = pd.read_csv(path, dtype=str, index_col="model")[list(COLUMNS)].apply(pd.to_numeric)
        if ((prices < 0) | (prices == math.inf)).any(axis=None) or prices.index.has_duplicates:
            raise ValueError("a price is no number of 0 or more, or a model stands there twice")
    except (OSError, ValueError, KeyError, TypeError) as e:
        columns = f"it needs the columns model, {', '.join(COLUMNS)}"
        raise UserError(f"cannot read prices from {path} ({getattr(e, 'strerror', e)}); {columns}") from e
    return prices
