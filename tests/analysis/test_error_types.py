"""Table 7 and what stands beside it, from made-up outcomes whose counts are known."""

import pytest
from checks import legible

from pkg_lib.analysis.figures import error_bars
from pkg_lib.analysis.tables import DASH
from pkg_lib.core.types import Outcome
from pkg_lib.papers.pkg import error_types
from pkg_lib.papers.pkg.waterfall import Record, help_hurt

FAILED = "failed"
WITHOUT = {
    "a": Outcome("passed"),
    "b": Outcome(FAILED, "AssertionError", "AssertionError | failing: assert f(1) == 2"),
    "c": Outcome(FAILED, "NameError", "NameError: name 'x1' is not defined"),
    "d": Outcome(FAILED, "Timeout"),
    "e": Outcome("not_measured"),
}
WITH = WITHOUT | {
    "a": Outcome(FAILED, "NameError", "NameError: name 'y22' is not defined"),
    "b": Outcome("passed"),
    "e": Outcome(FAILED, "NameError"),
}
NAMES = ("None", "Block-PKG")


def test_counts_name_every_failure_once():
    counts = error_types.error_counts(WITHOUT)
    assert counts.sum() == 3 and counts["Timeout"] == counts["NameError"] == counts["AssertionError"] == 1
    assert error_types.as_published(counts)["Others"] == 1
    assert error_types.as_published(counts).sum() == 3


def test_table_7_puts_ours_beside_the_published_columns_on_mbpp_only():
    table = error_types.table7({("This study", "m"): WITHOUT}, "mbpp")
    assert table.frame.at["AssertionError", ("Published (Table 7)", "StarCoder-7B")] == "198"
    assert table.frame.at["not measured", ("This study", "m")] == "1"
    assert table.frame.at["of Others: Timeout", ("This study", "m")] == "1"
    assert len(error_types.table7({("This study", "m"): WITHOUT}, "humaneval").frame.columns) == 1


def test_shift_and_fates_count_the_tasks_measured_in_both():
    shift = error_types.shift(WITHOUT, WITH, NAMES).frame
    assert list(shift.loc["NameError"]) == ["1", "2", "+1"]
    assert list(shift.loc["AssertionError"]) == ["1", "0", "\N{MINUS SIGN}1"]
    fates = error_types.transitions(WITHOUT, WITH, NAMES).frame.astype(int)
    assert fates.to_numpy().sum() == 4
    assert fates.at["passed", "NameError"] == 1 and fates.at["AssertionError", "passed"] == 1


def test_matrix_is_of_help_and_hurt():
    found = help_hurt({"a": True, "b": False, "c": False}, {"a": False, "b": True, "c": False})
    frame = error_types.matrix(found, NAMES).frame
    assert (
        frame.at["Block-PKG passed", "None failed"] == "1"
        and frame.at["Block-PKG failed", "None failed"] == "1"
    )


def test_messages_of_one_kind_count_together():
    said = error_types.common_messages({"a": WITH["a"], "c": WITHOUT["c"]}).frame
    assert said.at["NameError", "most common messages"] == "2: NameError: name '…' is not defined"


def test_ways_show_losses_and_leave_out_stages_that_a_method_has_not():
    none = [Record("a", None, None, True, True, False, False, False)]
    block = [Record("a", False, False, True, True, True, True, True)]
    frame = error_types.ways({"None": none, "Block-PKG": block}).frame
    assert frame.at["context found", "None"] == "\N{EN DASH}"
    assert frame.at["parsed", "None"] == "0 (\N{MINUS SIGN}1)"
    assert frame.at["context found", "Block-PKG"] == "0 (\N{MINUS SIGN}1, 1 passed anyway)"


def test_findings_follow_the_counts():
    said = error_types.findings(WITHOUT, WITH, NAMES)
    assert said[0] == "Of 4 tasks measured in both, 3 fail with None and 3 with Block-PKG."
    assert "NameError 1 to 2" in said[1]
    assert said[2] == "The 1 tasks that only None solves fail with NameError (1)."
    assert error_types.findings({}, {}, NAMES) == ["None and Block-PKG have no task measured in both."]


def test_what_is_not_measured_is_no_zero():
    nothing = {t: Outcome("not_measured") for t in WITHOUT}
    settings = {("This study", "m"): WITHOUT, ("This study", "+ Func-PKG"): nothing}
    table = error_types.table7(settings, "humaneval").frame["This study", "+ Func-PKG"]
    assert table.pop("not measured") == "5" and set(table) == {DASH}
    assert (error_types.shift(WITHOUT, nothing, NAMES).frame == DASH).all(axis=None)
    assert (error_types.matrix(help_hurt({"a": True}, {}), NAMES).frame == DASH).all(axis=None)
    lost = [Record(t, None, None, False, False, False, False, None) for t in nothing]
    assert (
        error_types.ways({"None": [Record("a", None, None, *[True] * 5)], "Func-PKG": lost}).frame["Func-PKG"]
        == DASH
    ).all()
    figure = error_bars(error_types.count_frame(settings, "humaneval"), "Errors")
    shown = legible(figure)
    assert "not measured" in shown and DASH in shown
    assert "0" not in [t.get_text() for t in figure.axes[0].texts]


@pytest.mark.parametrize("total", [error_types.published().sum()])
def test_the_published_counts_are_read_whole(total):
    assert (total > 50).all() and len(total) == 6


def test_findings_name_equally_frequent_errors_in_one_order():
    """The order of a set of ids differs between runs of Python."""
    kinds = ["TypeError", "NameError", "AssertionError", "SyntaxError"]
    none = {str(i): Outcome("passed") for i in range(40)}
    block = {str(i): Outcome(FAILED, kinds[i % 4]) for i in range(40)}
    said = error_types.findings(none, block, NAMES)[2]
    assert said.endswith("AssertionError (10), NameError (10), SyntaxError (10), TypeError (10).")
