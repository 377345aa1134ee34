"""The two ways to install agree, and the scripts do what the README says."""

from __future__ import annotations

import re
import subprocess
from hashlib import sha256
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
NAMED = set(
    "jupyterlab papermill pandas matplotlib seaborn scikit-learn umap-learn networkx faiss-cpu transformers torch "
    "datasets".split()
)


def pins() -> dict[str, str]:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_every_requirement_is_pinned_exactly():
    for line in (ROOT / "requirements.txt").read_text().splitlines():
        assert not line or line.startswith("#") or re.fullmatch(r"[\w.-]+==[\w.]+", line), line
    assert {name.lower() for name in pins()} >= NAMED


def test_conda_environment_has_the_same_pins_but_for_faiss():
    dependencies = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    conda = [d for d in dependencies if isinstance(d, str)]
    (pip,) = [d["pip"] for d in dependencies if isinstance(d, dict)]
    expected = {k: v for k, v in pins().items() if k != "faiss-cpu"}
    assert dict(p.split("==") for p in pip) == expected
    assert any(d.split("=")[0] == "faiss-gpu" for d in conda)


def test_second_start_needs_no_installation(tmp_path):
    """The stamps of an installed environment are all that set-up looks at, from any directory."""
    venv = tmp_path / "venv"
    venv.mkdir()
    pins, project = (
        sha256((ROOT / n).read_bytes()).hexdigest() for n in ("requirements.txt", "pyproject.toml")
    )
    (venv / ".requirements.sha256").write_text(pins)
    (venv / ".pkg_lib").write_text(f"{ROOT} {project}")
    environment = {"PATH": "/usr/bin:/bin", "PKG_VENV": str(venv)}
    done = subprocess.run([ROOT / "run_all.sh", "--setup"], cwd=tmp_path, env=environment, timeout=20)
    assert done.returncode == 0


def test_failed_installation_is_not_taken_for_a_complete_one(tmp_path):
    """A pip that fails for the requirements (a network cut after torch) ends in one error, and leaves no
    stamp."""
    venv, tools = tmp_path / "venv", tmp_path / "tools"
    tools.mkdir()
    pip = '#!/bin/sh\\ncase "$*" in *"-r "*) exit 1;; *) exit 0;; esac\\n'
    made = f"mkdir -p $3/bin; printf '{pip}' >$3/bin/pip; chmod +x $3/bin/pip"
    (tools / "python3.11").write_text(f'#!/bin/sh\nif [ "$2" = venv ]; then {made}; fi\n')
    (tools / "python3.11").chmod(0o755)
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "PKG_VENV": str(venv)}
    about = {"env": environment, "capture_output": True, "text": True, "timeout": 20}
    done = subprocess.run([ROOT / "run_all.sh", "--setup"], **about)
    assert done.returncode == 2
    assert "error: the packages of requirements.txt cannot be installed" in done.stderr
    assert not (venv / ".requirements.sha256").exists()
