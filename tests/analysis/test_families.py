"""Which columns the notebooks compare: as many candidates of each family."""

import pandas as pd
import pytest
from notebook_code import function

DRAWS = [f"NoRAG, T0.8, {n}" for n in range(1, 6)]


@pytest.mark.parametrize(
    ("retrieved", "draws", "expected"),
    [
        (
            "BM25 Dense Func-BM25 Func-PKG Block-PKG",
            5,
            ("Dense Func-BM25 Func-PKG Block-PKG", 4, "Func-PKG Block-PKG", 2),
        ),
        (
            "Dense Func-BM25 Func-PKG Block-PKG",
            4,
            ("Dense Func-BM25 Func-PKG Block-PKG", 4, "Func-PKG Block-PKG", 2),
        ),
        ("BM25 Dense JSON-PKG", 5, ("BM25 Dense JSON-PKG", 3, "Dense JSON-PKG", 1)),
        ("Func-PKG Block-PKG", 0, ("Func-PKG Block-PKG", 0, "", 0)),
    ],
)
def test_families_have_equally_many_candidates(retrieved, draws, expected):
    known = pd.DataFrame(columns=["NoRAG", *retrieved.split(), *DRAWS[:draws]])
    found = function("what_helps", "families", verdicts={"m": known}, BASELINE="NoRAG", SIZE=5)("m")
    ours, samples, half, drawn = expected
    wanted = {
        "retrieval": ours.split(),
        "samples": DRAWS[:samples],
        "both": [*half.split(), *DRAWS[:drawn]],
    }
    assert found == {name: ["NoRAG", *of] for name, of in wanted.items() if of}
    assert len({len(of) for of in found.values()}) == 1
