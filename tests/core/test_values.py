"""Values that modules share cannot be changed by one of them, and can be keys."""

from dataclasses import FrozenInstanceError, fields

import pytest

from pkg_lib.chunking.languages import GRAMMARS
from pkg_lib.core.markdown import fences

VALUES = [GRAMMARS["python"], fences("```python\nx = 1\n```\n")[0]]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_shared_values_are_immutable_and_hashable(value):
    assert value in {value}
    for field in fields(value):
        with pytest.raises(FrozenInstanceError):
            setattr(value, field.name, None)
