"""Test that data sets are found below PKG_DATA or in the folders of their own variables."""

from __future__ import annotations

import pytest

from pkg_lib.core.data_folders import data_folder, how_to_provide, state_of
from pkg_lib.core.types import UserError


@pytest.fixture
def data(tmp_path, monkeypatch):
    (tmp_path / "data" / "mbpp").mkdir(parents=True)
    monkeypatch.delenv("PKG_MBPP_DIR", raising=False)
    monkeypatch.delenv("PKG_EVOR_DIR", raising=False)
    monkeypatch.setenv("PKG_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def test_a_data_sets_own_variable_overrides_the_common_directory(data, monkeypatch):
    assert data_folder("PKG_MBPP_DIR") == data / "mbpp"
    assert data_folder("PKG_EVOR_DIR") is None
    assert state_of("PKG_MBPP_DIR") == f"{data / 'mbpp'} (by PKG_DATA)"
    assert "not found" in state_of("PKG_EVOR_DIR")

    monkeypatch.setenv("PKG_MBPP_DIR", str(data.parent / "mine"))
    assert data_folder("PKG_MBPP_DIR") == data.parent / "mine"
    assert "does not exist (by PKG_MBPP_DIR)" in state_of("PKG_MBPP_DIR")

    monkeypatch.setenv("PKG_MBPP_DIR", "")
    assert data_folder("PKG_MBPP_DIR") is None
    monkeypatch.delenv("PKG_MBPP_DIR")
    monkeypatch.delenv("PKG_DATA")
    assert data_folder("PKG_MBPP_DIR") is None


def test_reports_a_wrong_directory_and_names_both_variables(data, monkeypatch):
    monkeypatch.setenv("PKG_DATA", str(data / "nosuch"))
    with pytest.raises(UserError, match=r"PKG_DATA names .*nosuch"):
        data_folder("PKG_MBPP_DIR")
    advice = how_to_provide("PKG_MBPP_DIR", "D")
    assert "PKG_MBPP_DIR" in advice and "PKG_DATA" in advice and "mbpp" in advice
