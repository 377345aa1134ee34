"""Every name has a line with its state, with and without the data."""

from __future__ import annotations

from pkg_lib import doctor
from pkg_lib.core import models
from pkg_lib.data import corpora
from pkg_lib.data.benchmarks import BENCHMARKS


def test_every_name_has_a_line_and_what_is_not_available_stops_nothing(monkeypatch, tmp_path):
    def load(name):  # what loads has tests of its own
        if name == "stdlib":
            raise doctor.UserError("no such corpus here")
        return []

    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    monkeypatch.delenv("PKG_EVOR_WEB_DIR", raising=False)
    monkeypatch.setenv("PKG_ENDPOINTS", str(tmp_path / "e.toml"))
    (tmp_path / "e.toml").write_text(
        '[mine]\nbase_url = "http://h/v1"\nmodel = "m"\nkey = "NO_SUCH_KEY"\n'
    )
    monkeypatch.setattr(
        doctor, "layers", lambda: {"seccomp": True, "namespaces": "not allowed here"}
    )
    monkeypatch.setattr(corpora, "load_corpus", load)
    facts = dict(line.split(None, 1) for line in doctor.lines() if line.startswith("  "))
    assert {*models.MODELS, *BENCHMARKS, *corpora.CORPORA, "GPU", "results"} <= facts.keys()
    assert facts["endpoint:mine"] == "m at http://h/v1 (not contacted now); NO_SUCH_KEY is not set"
    assert facts["namespaces"] == "not active: not allowed here" and facts["seccomp"] == "active"
    assert facts["stdlib"] == "not available: no such corpus here"
    assert facts["textbook"].startswith("available, 0 documents")
    # With a directory for it, or from the hub when it is used.
    assert facts["mbpp"].startswith(("available", "loaded when used"))
    assert facts["evor_web"].startswith("not found; set")
