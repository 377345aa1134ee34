import pytest

from pkg_lib.execution import errors
from pkg_lib.execution.errors import BEYOND, TABLE7, classify, join_detail, split_detail, table7


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (UnboundLocalError, "NameError"),
        (TabError, "IndentationError"),
        (SyntaxError, "SyntaxError"),
        (KeyError, "Others"),
        (AssertionError, "AssertionError"),
        (MemoryError, "Memory"),
        (ModuleNotFoundError, "Others"),
        (SystemExit, "Others"),
    ],
)
def test_classes_are_named_by_their_nearest_type(error, name):
    assert classify([c.__name__ for c in error.__mro__]) == name


def test_forbidden_import_and_table7():
    assert classify(["ModuleNotFoundError"], forbidden_import=True) == "ForbiddenImport"
    assert [table7(e) for e in TABLE7] == list(TABLE7)
    assert {table7(e) for e in BEYOND} == {"Others"}


def test_detail_keeps_both_parts():
    parts = "AssertionError", "assert f(1) == 2"
    assert split_detail(join_detail(*parts)) == parts
    assert split_detail(join_detail("Timeout")) == ("Timeout", "")
    assert len(join_detail("x" * 9999)) == errors.LONGEST
