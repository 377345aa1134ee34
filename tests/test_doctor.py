"""The doctor prints the state of every name."""

from __future__ import annotations

from pkg_lib import doctor
from pkg_lib.core import models
from pkg_lib.data import corpora
from pkg_lib.data.benchmarks import BENCHMARKS


def test_prints_a_line_for_every_name_although_some_are_unavailable(monkeypatch, tmp_path):
    def load(name):
        """Replace the loading of a corpus, which has its own tests."""
        if name == "stdlib":
            raise doctor.UserError("no such corpus here")
        return []

    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    monkeypatch.delenv("PKG_EVOR_WEB_DIR", raising=False)
    monkeypatch.setenv("PKG_ENDPOINTS", str(tmp_path / "e.toml"))
    (tmp_path / "e.toml").write_text(
        '[mine]\nbase_url = "http://h/v1"\nmodel = "m"\nkey = "NO_SUCH_KEY"\n'
    )
    layers = {"seccomp": True, "namespaces": "not allowed here"}
    monkeypatch.setattr(doctor, "layers", lambda: layers)
    monkeypatch.setattr(corpora, "load_corpus", load)
    lines = [line for line in doctor.lines() if line.startswith("  ")]
    states = dict(line.split(None, 1) for line in lines)
    assert {*models.MODELS, *BENCHMARKS, *corpora.CORPORA, "GPU", "results"} <= states.keys()
    assert states["endpoint:mine"] == "m at http://h/v1 (not contacted now); NO_SUCH_KEY is not set"
    assert states["namespaces"] == "not active: not allowed here"
    assert states["seccomp"] == "active"
    assert states["stdlib"] == "not available: no such corpus here"
    assert states["textbook"].startswith("available, 0 documents")
    # MBPP is either in a local directory or loaded from the hub on first use.
    assert states["mbpp"].startswith(("available", "loaded when used"))
    assert states["evor_web"].startswith("not found; set")
