"""What is at hand is told for every name, with and without the data."""

from __future__ import annotations

import pytest

from pkg_lib import doctor
from pkg_lib.core import models
from pkg_lib.data import corpora
from pkg_lib.data.benchmarks import BENCHMARKS


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """Nothing is loaded that has a test of its own."""
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    monkeypatch.setattr(doctor, "layers", lambda: {"seccomp": True, "namespaces": "not allowed here"})
    monkeypatch.setattr(corpora, "load_corpus", lambda name: [])


def test_every_name_has_a_line_of_its_own(quick):
    said = list(doctor.lines())
    named = [line.split()[0] for line in said if line.startswith("  ")]
    assert {*models.MODELS, *BENCHMARKS, *corpora.CORPORA} <= set(named)
    assert any("not active: not allowed here" in line for line in said)


def test_what_is_not_at_hand_is_said_and_stops_nothing(quick, monkeypatch):
    monkeypatch.undo()
    monkeypatch.delenv("PKG_PAPER_DIR", raising=False)
    for name in (corpora.PUBLISHED, "pkg-contexts"):
        assert doctor._try(lambda name=name: doctor._corpus(name)).startswith("not at hand: ")
