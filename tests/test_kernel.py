"""What a notebook's error is taken for, and what a user sees of it."""

from __future__ import annotations

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from pkg_lib.experiment import kernel

RAISES = "from pkg_lib.{module} import {name}\nraise {name}('mend\\nthis')"


@pytest.mark.parametrize(
    ("module", "name", "told"),
    [
        ("core.types", "UserError", "mend this"),
        ("analysis.stats", "ControlError", "mend this"),
        ("core.types", "BenchmarkMissing", "mend this"),
        ("core.types", "NotAtHand", "mend this"),
        ("core.types", "dataclass", ""),
    ],
)
def test_a_mistake_is_known_by_its_bases_and_shown_as_one_line(tmp_path, monkeypatch, module, name, told):
    source, target = tmp_path / "n.ipynb", tmp_path / "out.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(RAISES.format(module=module, name=name))]), source)
    error = kernel.execute(source, target, {})
    assert error and kernel.mistake(error) == told
    assert bool(kernel.not_at_hand(error)) == (name in ("BenchmarkMissing", "NotAtHand"))
    assert target.exists() == (not told)
