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

    def gpus(self, listed: str, code: int = 0, cuda: str = "13.0", capability: str = "8.0") -> None:
        """What nvidia-smi says."""
        answers = f"""case "$1" in
            -L) echo '{listed}' ;;
            --query-gpu=compute_cap) echo '{capability}' ;;
            *) echo '{BANNER.format(cuda)}' ;;
        esac"""
        self.tool("nvidia-smi", f"#!/bin/sh\n{answers}\nexit {code}\n")

    def set_up(self, *options: str, **variables: str) -> subprocess.CompletedProcess:
        """Run the set-up from another directory."""
        return self.start("--setup", *options, **variables)

    def start(self, *options: str, **variables: str) -> subprocess.CompletedProcess:
        """Run the script from another directory."""
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
        return subprocess.run([ROOT / "run_all.sh", *options], **about)

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
    # A wheel of the CPU build that is available satisfies == but not ===.
    assert f"torch==={PINS['torch']}" in machine.asked and "+cpu" not in machine.asked
    assert machine.requirements() == {*PINS, *GPU_PINS} - {"faiss-cpu"}


def test_faiss_for_the_cpu_where_there_is_none_for_the_gpu(machine):
    machine.gpus(LISTED)
    machine.tool("uname", "#!/bin/sh\necho Linux aarch64\n")
    done = machine.set_up()
    assert "CUDA build: " in done.stderr and f"faiss-cpu {PINS['faiss-cpu']}" in done.stderr
    assert machine.requirements() == {*PINS}


@pytest.mark.parametrize(
    ("cuda", "capability", "build"),
    [
        ("13.0", "8.0", "13.0"),
        ("13.2", "", "13.0"),
        ("13.0", "7.0", "12.6"),  # a Volta, for which CUDA 13 has no code
        ("12.9", "9.0", "12.6"),
        ("12.2", "8.0", "12.6"),
        ("12.0", "[N/A]", "12.6"),
        ("12.8", "12.0", ""),  # a Blackwell, for which the build for CUDA 12.6 has no code
        ("11.8", "8.0", ""),
        ("N/A", "8.0", ""),
    ],
)
def test_the_build_is_one_that_driver_and_gpu_support(machine, cuda, capability, build):
    machine.gpus(LISTED, cuda=cuda, capability=capability)
    done = machine.set_up("--dry-run")
    (line,) = [line for line in done.stderr.splitlines() if " build: " in line]
    if build:
        assert line.startswith("CUDA build: ") and f"for CUDA {build} " in line
    else:
        assert line.startswith("CPU build: ") and "no CUDA build" in line


def test_the_build_for_cuda_12_brings_its_own_libraries(machine):
    machine.gpus(LISTED, cuda="12.2")
    machine.tool("uname", "#!/bin/sh\necho Linux x86_64\n")
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    assert f"torch=={PINS['torch']}+cu126" in machine.asked
    assert machine.requirements() == {*PINS, "faiss-gpu"} - {"faiss-cpu"}
    before = machine.asked
    assert machine.set_up().returncode == 0 and machine.asked == before
    machine.gpus(LISTED, cuda="13.0")
    assert machine.set_up().returncode == 0
    assert f"torch==={PINS['torch']}" in machine.asked.removeprefix(before)


def test_a_build_for_cuda_12_that_cannot_be_had_is_one_error_and_no_other_build(machine):
    machine.gpus(LISTED, cuda="12.2")
    machine.pip('case "$*" in *cu126*) exit 1;; *) exit 0;; esac')
    done = machine.set_up()
    assert done.returncode == 2 and "error: the cu126 build of torch" in done.stderr
    assert "download.pytorch.org/whl/cu126" in machine.asked and not machine.stamp.exists()


@pytest.mark.parametrize("listed", [LISTED, ""])
def test_a_dry_run_says_which_build_and_installs_nothing(machine, listed):
    machine.gpus(listed, 0 if listed else 9)
    done = machine.set_up("--dry-run")
    assert done.returncode == 0 and ("CUDA build: " if listed else "CPU build: ") in done.stderr
    assert not machine.venv.exists()


@pytest.mark.parametrize("options", [("--setup", "--dry-run"), ("--dry-run", "--setup")])
def test_a_dry_run_is_dry_in_any_order(machine, options):
    done = machine.start(*options)
    assert done.returncode == 0 and "CPU build: " in done.stderr and not machine.venv.exists()


def test_the_user_can_choose_the_build(machine):
    machine.gpus(LISTED)
    assert "CPU build: " in machine.set_up("--dry-run", PKG_TORCH="cpu").stderr
    assert "for CUDA 12.6 " in machine.set_up("--dry-run", PKG_TORCH="cu126").stderr
    machine.gpus(LISTED, cuda="12.4")
    assert "for CUDA 12.6 " in machine.set_up("--dry-run", PKG_TORCH="cuda").stderr
    machine.gpus("", 9)
    assert "for CUDA 13.0 " in machine.set_up("--dry-run", PKG_TORCH="cuda").stderr
    machine.gpus(LISTED, cuda="11.4")
    refused = [machine.set_up("--dry-run", PKG_TORCH=name) for name in ("rocm", "cuda")]
    assert [done.returncode for done in refused] == [2, 2]
    assert refused[0].stderr.startswith("error: PKG_TORCH=rocm")
    assert "CUDA 11.4" in refused[1].stderr
    assert all(len(done.stderr.splitlines()) == 1 for done in refused)


def test_the_cuda_build_replaces_that_of_the_cpu_and_then_serves_both(machine):
    """As in a home directory that nodes with and without a GPU share."""
    machine.set_up()
    machine.gpus(LISTED)
    machine.tool("uname", "#!/bin/sh\necho Linux x86_64\n")
    assert machine.set_up().returncode == 0
    assert (
        "uninstall -q -y faiss-cpu faiss-gpu" in machine.asked
        and machine.stamp.read_text().endswith(" cu130\n")
    )
    before = machine.asked
    machine.gpus("", 9)
    assert machine.set_up().returncode == 0 and machine.asked == before
    assert machine.set_up(PKG_TORCH="cpu").returncode == 0
    assert machine.asked != before and " " not in machine.stamp.read_text()


def test_a_package_that_is_missing_is_an_error_but_not_the_faiss_that_was_replaced(machine):
    """Once the package itself is installed, pip misses the faiss-cpu that it names."""
    machine.gpus(LISTED)
    machine.tool("uname", "#!/bin/sh\necho Linux x86_64\n")
    faiss = "pkg-lib 1.0.0 requires faiss-cpu, which is not installed."
    machine.pip(f'if [ "$1" = check ]; then echo "{faiss}"; exit 1; fi')
    assert machine.set_up().returncode == 0
    machine.stamp.unlink()
    other = "transformers 5.23.0 has requirement tokenizers<1, but you have tokenizers 2."
    machine.pip(f'if [ "$1" = check ]; then echo "{faiss}"; echo "{other}"; exit 1; fi')
    done = machine.set_up()
    assert done.returncode == 2 and "tokenizers" in done.stderr and not machine.stamp.exists()


@pytest.mark.parametrize("options", [("--setup", "--fresh"), ("--model", "x", "--setup")])
def test_an_unknown_option_of_the_set_up_is_one_line(machine, options):
    done = machine.start(*options)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and not machine.venv.exists()
