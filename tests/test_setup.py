"""The two ways to install agree, and run_all.sh sets up once and whole."""

from __future__ import annotations

import re
import subprocess
import tomllib
from hashlib import sha256
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
LINES = (ROOT / "requirements.txt").read_text().splitlines()
PINS = dict(line.split("==") for line in LINES if line and not line.startswith("#"))
NAMED = """jupyterlab papermill pandas matplotlib seaborn scikit-learn umap-learn networkx faiss-cpu transformers
torch datasets"""


def test_both_ways_to_install_have_the_same_exact_pins_but_for_faiss():
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", "==".join(pin)) for pin in PINS.items())
    assert {name.lower() for name in PINS} >= {*NAMED.split()}
    dependencies = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    (pip,) = (d["pip"] for d in dependencies if isinstance(d, dict))
    assert dict(p.split("==") for p in pip) == {k: v for k, v in PINS.items() if k != "faiss-cpu"}
    assert any(d.split("=")[0] == "faiss-gpu" for d in dependencies if isinstance(d, str))


def test_the_extra_has_the_same_pins():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert dict(p.split("==") for p in extras["endpoints"]).items() <= PINS.items()
    # What the others bring is no part of the study: pinned all the same, and beside the pins, not against them.
    others = dict(p.split("==") for name, pins in extras.items() if name != "endpoints" for p in pins)
    assert all(PINS.get(name, pin) == pin for name, pin in others.items())


@pytest.fixture
def set_up(tmp_path):
    """Runs the set-up with an environment in `venv`, from another directory."""
    (tmp_path / "venv").mkdir()
    environment = {"PATH": f"{tmp_path}/tools:/usr/bin:/bin", "PKG_VENV": str(tmp_path / "venv")}
    about = {"env": environment, "cwd": tmp_path, "capture_output": True, "text": True, "timeout": 20}
    return lambda: subprocess.run([ROOT / "run_all.sh", "--setup"], **about)


def test_second_start_needs_no_installation(tmp_path, set_up):
    """The stamps of an installed environment are all that set-up looks at."""
    files = [(ROOT / name).read_bytes() for name in ("requirements.txt", "pyproject.toml")]
    pins, project = (sha256(data).hexdigest() for data in files)
    (tmp_path / "venv" / ".requirements.sha256").write_text(pins)
    (tmp_path / "venv" / ".pkg_lib").write_text(f"{ROOT} {project}")
    assert set_up().returncode == 0


def test_failed_installation_is_not_taken_for_a_complete_one(tmp_path, set_up):
    """A pip that fails for the requirements (a network cut after torch) ends in one error without a stamp."""
    pip = '#!/bin/sh\\ncase "$*" in *"-r "*) exit 1;; *) exit 0;; esac\\n'
    script = f"mkdir -p $3/bin; printf '{pip}' >$3/bin/pip; chmod +x $3/bin/pip"
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "python3.11").write_text(f'#!/bin/sh\nif [ "$2" = venv ]; then {script}; fi\n')
    (tmp_path / "tools" / "python3.11").chmod(0o755)
    done = set_up()
    assert done.returncode == 2
    assert "error: the packages of requirements.txt cannot be installed" in done.stderr
    assert not (tmp_path / "venv" / ".requirements.sha256").exists()
