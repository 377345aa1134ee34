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


def pins_of(name):
    """Version by package of a file of requirements."""
    lines = (ROOT / name).read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


PINS, GPU_PINS = pins_of("requirements.txt"), pins_of("requirements-gpu.txt")
NAMED = """jupyterlab papermill pandas matplotlib seaborn scikit-learn umap-learn networkx faiss-cpu transformers
torch datasets"""


def test_both_ways_to_install_have_the_same_exact_pins_but_for_faiss():
    every = [*PINS.items(), *GPU_PINS.items()]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", "==".join(pin)) for pin in every)
    assert {name.lower() for name in PINS} >= {*NAMED.split()}
    assert GPU_PINS["faiss-gpu"] == PINS["faiss-cpu"] and not PINS.keys() & GPU_PINS.keys()
    dependencies = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    (pip,) = (d["pip"] for d in dependencies if isinstance(d, dict))
    assert (
        dict(p.split("==") for p in pip)
        == {k: v for k, v in PINS.items() if k != "faiss-cpu"} | GPU_PINS
    )


def test_the_extra_has_the_same_pins():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert dict(p.split("==") for p in extras["endpoints"]).items() <= PINS.items()
    # What the others bring is no part of the study: pinned all the same, and beside the pins, not against them.
    others = dict(
        p.split("==") for name, pins in extras.items() if name != "endpoints" for p in pins
    )
    assert all(PINS.get(name, pin) == pin for name, pin in others.items())


LISTED = (
    "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-8f3e)\nGPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-11c0)"
)
BANNER = "| NVIDIA-SMI 580.65.06    Driver Version: 580.65.06    CUDA Version: {}     |"
# Makes DIR/bin/pip, which keeps what it is asked for in DIR/pip.log.
MAKE_PIP = """#!/bin/sh
if [ "$2" != venv ]; then exit 0; fi
mkdir -p "$3/bin"
cat >"$3/bin/pip" <<'END'
#!/bin/sh
echo "$@" >>"${0%/bin/pip}/pip.log"
PIP_BODY
END
chmod +x "$3/bin/pip"
"""


class Machine:
    """A machine with programs of its own: `tools` are found before those of the system."""

    def __init__(self, folder: Path) -> None:
        self.tools, self.venv, self.folder = folder / "tools", folder / "venv", folder
        self.tools.mkdir()
        self.pip("")
        self.gpus("", 9)  # as without a driver, whatever this machine has

    def tool(self, name: str, text: str) -> None:
        (self.tools / name).write_text(text)
        (self.tools / name).chmod(0o755)

    def pip(self, body: str) -> None:
        """What the environment's pip does after it has kept its arguments."""
        self.tool("python3.11", MAKE_PIP.replace("PIP_BODY", body))

    def gpus(self, listed: str, code: int = 0, cuda: str = "13.0") -> None:
        """What nvidia-smi says."""
        answer = f"if [ \"$1\" = -L ]; then echo '{listed}'; else echo '{BANNER.format(cuda)}'; fi"
        self.tool("nvidia-smi", f"#!/bin/sh\n{answer}\nexit {code}\n")

    def set_up(self, *options: str, **variables: str) -> subprocess.CompletedProcess:
        """Run the set-up from another directory."""
        environment = {
            "PATH": f"{self.tools}:/usr/bin:/bin",
            "PKG_VENV": str(self.venv),
            **variables,
        }
        about = {
            "env": environment,
            "cwd": self.folder,
            "capture_output": True,
            "text": True,
            "timeout": 60,
        }
        return subprocess.run([ROOT / "run_all.sh", "--setup", *options], **about)

    @property
    def asked(self) -> str:
        """What pip was asked for."""
        return (self.venv / "pip.log").read_text()

    @property
    def stamp(self) -> Path:
        return self.venv / ".requirements.sha256"

    def requirements(self) -> set[str]:
        """The packages that pip was given as a file."""
        lines = (self.venv / "requirements.txt").read_text().splitlines()
        return {line.split("==")[0] for line in lines if "==" in line and not line.startswith("#")}


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_second_start_needs_no_installation(machine):
    """The stamps of an installed environment are all that set-up looks at."""
    files = [(ROOT / name).read_bytes() for name in ("requirements.txt", "pyproject.toml")]
    pins, project = (sha256(data).hexdigest() for data in files)
    machine.venv.mkdir()
    machine.stamp.write_text(pins)
    (machine.venv / ".pkg_lib").write_text(f"{ROOT} {project}")
    done = machine.set_up()
    assert done.returncode == 0 and not (machine.venv / "pip.log").exists()


def test_failed_installation_is_not_taken_for_a_complete_one(machine):
    """A pip that fails for the requirements (a network cut after torch) ends in one error without a stamp."""
    machine.pip('case "$*" in *"-r "*) exit 1;; *) exit 0;; esac')
    done = machine.set_up()
    assert done.returncode == 2
    assert "error: the packages of requirements.txt cannot be installed" in done.stderr
    assert not machine.stamp.exists()


@pytest.mark.parametrize(
    ("listed", "code"),
    [("", 9), ("No devices were found", 0), (LISTED, 1), ("NVIDIA-SMI has failed: no driver", 0)],
)
def test_the_cpu_build_where_nvidia_smi_lists_no_gpu(machine, listed, code):
    machine.gpus(listed, code)
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if " build: " in line]
    assert line.startswith("CPU build: ") and f"torch {PINS['torch']}+cpu" in line
    assert f"torch=={PINS['torch']}+cpu" in machine.asked
    assert machine.requirements() == {*PINS}


def test_the_cuda_build_where_nvidia_smi_lists_a_gpu(machine):
    machine.gpus(LISTED)
    machine.tool("uname", "#!/bin/sh\necho Linux x86_64\n")
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if " build: " in line]
    assert (
        line.startswith("CUDA build: ")
        and "GPU 0: NVIDIA A100-SXM4-40GB" in line
        and "UUID" not in line
    )
    assert f"faiss-gpu {GPU_PINS['faiss-gpu']}" in line and "warning" not in done.stderr
    # A wheel of the CPU build that lies at hand satisfies == but not ===.
    assert f"torch==={PINS['torch']}" in machine.asked and "+cpu" not in machine.asked
    assert machine.requirements() == {*PINS, *GPU_PINS} - {"faiss-cpu"}


def test_faiss_for_the_cpu_where_there_is_none_for_the_gpu(machine):
    machine.gpus(LISTED)
    machine.tool("uname", "#!/bin/sh\necho Linux aarch64\n")
    done = machine.set_up()
    assert "CUDA build: " in done.stderr and f"faiss-cpu {PINS['faiss-cpu']}" in done.stderr
    assert machine.requirements() == {*PINS}


def test_an_old_driver_is_one_warning(machine):
    machine.gpus(LISTED, cuda="12.4")
    done = machine.set_up("--dry-run")
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert "CUDA 12" in line and "CUDA 13" in line


@pytest.mark.parametrize("listed", [LISTED, ""])
def test_a_dry_run_says_which_build_and_installs_nothing(machine, listed):
    machine.gpus(listed, 0 if listed else 9)
    done = machine.set_up("--dry-run")
    assert done.returncode == 0 and ("CUDA build: " if listed else "CPU build: ") in done.stderr
    assert not machine.venv.exists()


def test_the_user_can_choose_the_build(machine):
    machine.gpus(LISTED)
    assert "CPU build: " in machine.set_up("--dry-run", PKG_TORCH="cpu").stderr
    machine.gpus("", 9)
    assert "CUDA build: " in machine.set_up("--dry-run", PKG_TORCH="cuda").stderr
    wrong = machine.set_up("--dry-run", PKG_TORCH="rocm")
    assert wrong.returncode == 2 and wrong.stderr.startswith("error: PKG_TORCH=rocm")
    assert len(wrong.stderr.splitlines()) == 1


def test_the_cuda_build_replaces_that_of_the_cpu_and_then_serves_both(machine):
    """As in a home directory that nodes with and without a GPU share."""
    machine.set_up()
    machine.gpus(LISTED)
    machine.tool("uname", "#!/bin/sh\necho Linux x86_64\n")
    assert machine.set_up().returncode == 0
    assert (
        "uninstall -q -y faiss-cpu faiss-gpu" in machine.asked
        and machine.stamp.read_text().endswith("cuda\n")
    )
    before = machine.asked
    machine.gpus("", 9)
    assert machine.set_up().returncode == 0 and machine.asked == before
    assert machine.set_up(PKG_TORCH="cpu").returncode == 0
    assert machine.asked != before and "cuda" not in machine.stamp.read_text()


def test_a_package_that_is_missing_is_an_error_but_not_the_faiss_that_was_replaced(machine):
    """Once the package itself is installed, pip misses the faiss-cpu that it names."""
    machine.gpus(LISTED)
    machine.tool("uname", "#!/bin/sh\necho Linux x86_64\n")
    faiss = "pkg-lib 0.1.0 requires faiss-cpu, which is not installed."
    machine.pip(f'if [ "$1" = check ]; then echo "{faiss}"; exit 1; fi')
    assert machine.set_up().returncode == 0
    machine.stamp.unlink()
    other = "transformers 5.23.0 has requirement tokenizers<1, but you have tokenizers 2."
    machine.pip(f'if [ "$1" = check ]; then echo "{faiss}"; echo "{other}"; exit 1; fi')
    done = machine.set_up()
    assert done.returncode == 2 and "tokenizers" in done.stderr and not machine.stamp.exists()


def test_an_unknown_option_of_the_set_up_is_one_line(machine):
    done = machine.set_up("--fresh")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and not machine.venv.exists()
