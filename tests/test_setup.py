"""Installation: the lists of requirements agree, and run_all.sh sets up the environment completely and once."""

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
    """Return version by package of a file of requirements."""
    lines = (ROOT / name).read_text().splitlines()
    return versions([line for line in lines if line and not line.startswith("#")])


def versions(requirements):
    """Return version by package of requirements such as `numpy==2.4.0`."""
    return dict(requirement.split("==") for requirement in requirements)


PINS = pins_of("requirements.txt")
GPU_PINS = pins_of("requirements-gpu.txt")
# Packages that the study uses directly.
REQUIRED = {
    "jupyterlab",
    "papermill",
    "pandas",
    "matplotlib",
    "seaborn",
    "scikit-learn",
    "umap-learn",
    "networkx",
    "faiss-cpu",
    "transformers",
    "torch",
    "datasets",
}


def test_pip_and_conda_install_the_same_exact_versions_except_for_faiss():
    for name, version in [*PINS.items(), *GPU_PINS.items()]:
        assert re.fullmatch(r"[\w.-]+==[\w.]+", f"{name}=={version}")
    assert {name.lower() for name in PINS} >= REQUIRED
    assert GPU_PINS["faiss-gpu"] == PINS["faiss-cpu"]
    assert PINS.keys().isdisjoint(GPU_PINS)

    dependencies = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    (pip,) = [entry["pip"] for entry in dependencies if isinstance(entry, dict)]
    expected = PINS | GPU_PINS
    del expected["faiss-cpu"]
    assert versions(pip) == expected


def test_optional_dependencies_do_not_contradict_the_requirements():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    endpoints = extras.pop("endpoints")
    assert versions(endpoints).items() <= PINS.items()
    # The study does not need the other extras. They are pinned, too, and may add packages.
    for requirements in extras.values():
        for name, version in versions(requirements).items():
            assert PINS.get(name, version) == version


LISTED = (
    "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-8f3e)\nGPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-11c0)"
)
X86 = "#!/bin/sh\necho Linux x86_64\n"  # the program uname
BANNER = "| NVIDIA-SMI 580.65.06    Driver Version: 580.65.06    CUDA Version: {}     |"
# Replaces `python3.11 -m venv DIR`. It creates DIR/bin/pip, which appends its arguments to DIR/pip.log.
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
    """A simulated machine: programs in `tools` take precedence over those of the system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tools = folder / "tools"
        self.venv = folder / "venv"
        self.tools.mkdir()
        self.pip("")
        self.gpus("", 9)  # a machine without a driver

    def tool(self, name: str, text: str) -> None:
        """Install a program."""
        path = self.tools / name
        path.write_text(text)
        path.chmod(0o755)

    def pip(self, body: str) -> None:
        """Set the commands that the environment's pip executes after it has logged its arguments."""
        self.tool("python3.11", MAKE_PIP.replace("PIP_BODY", body))

    def gpus(self, listed: str, code: int = 0, cuda: str = "13.0", capability: str = "8.0") -> None:
        """Set the list of GPUs, exit code, version of CUDA and compute capability of nvidia-smi."""
        answers = f"""case "$1" in
            -L) echo '{listed}' ;;
            --query-gpu=compute_cap) echo '{capability}' ;;
            *) echo '{BANNER.format(cuda)}' ;;
        esac"""
        self.tool("nvidia-smi", f"#!/bin/sh\n{answers}\nexit {code}\n")

    def set_up(self, *options: str, **variables: str) -> subprocess.CompletedProcess:
        """Run `run_all.sh --setup` from another directory."""
        return self.start("--setup", *options, **variables)

    def start(self, *options: str, **variables: str) -> subprocess.CompletedProcess:
        """Run run_all.sh from another directory."""
        environment = {
            "PATH": f"{self.tools}:/usr/bin:/bin",
            "PKG_VENV": str(self.venv),
            **variables,
        }
        return subprocess.run(
            [ROOT / "run_all.sh", *options],
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
        )

    @property
    def pip_log(self) -> str:
        """The arguments of all calls of pip."""
        return (self.venv / "pip.log").read_text()

    @property
    def stamp(self) -> Path:
        """The file that identifies the installed requirements."""
        return self.venv / ".requirements.sha256"

    def requirements(self) -> set[str]:
        """Return the packages in the file of requirements that pip got."""
        lines = (self.venv / "requirements.txt").read_text().splitlines()
        pins = [line for line in lines if "==" in line and not line.startswith("#")]
        return {pin.split("==")[0] for pin in pins}


def build_line(done: subprocess.CompletedProcess) -> str:
    """Return the line of the set-up that names the build of torch."""
    (line,) = [line for line in done.stderr.splitlines() if " build: " in line]
    return line


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def digest(name: str) -> str:
    return sha256((ROOT / name).read_bytes()).hexdigest()


def test_installs_nothing_into_a_complete_environment(machine):
    """The set-up checks only the stamps of an environment."""
    machine.venv.mkdir()
    machine.stamp.write_text(digest("requirements.txt"))
    (machine.venv / ".pkg_lib").write_text(f"{ROOT} {digest('pyproject.toml')}")
    done = machine.set_up()
    assert done.returncode == 0
    assert not (machine.venv / "pip.log").exists()


def test_writes_no_stamp_after_a_failed_installation(machine):
    """pip fails for the requirements, as if the connection broke after the installation of torch."""
    machine.pip('case "$*" in *"-r "*) exit 1;; *) exit 0;; esac')
    done = machine.set_up()
    assert done.returncode == 2
    assert "error: the packages of requirements.txt cannot be installed" in done.stderr
    assert not machine.stamp.exists()


@pytest.mark.parametrize(
    ("listed", "code"),
    [("", 9), ("No devices were found", 0), (LISTED, 1), ("NVIDIA-SMI has failed: no driver", 0)],
)
def test_installs_the_cpu_build_if_nvidia_smi_lists_no_gpu(machine, listed, code):
    machine.gpus(listed, code)
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    line = build_line(done)
    assert line.startswith("CPU build: ")
    assert f"torch {PINS['torch']}+cpu" in line
    assert f"torch=={PINS['torch']}+cpu" in machine.pip_log
    assert machine.requirements() == set(PINS)


def test_installs_the_cuda_build_if_nvidia_smi_lists_a_gpu(machine):
    machine.gpus(LISTED)
    machine.tool("uname", X86)
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    line = build_line(done)
    assert line.startswith("CUDA build: ")
    assert "GPU 0: NVIDIA A100-SXM4-40GB" in line
    assert "UUID" not in line
    assert f"faiss-gpu {GPU_PINS['faiss-gpu']}" in line
    assert "warning" not in done.stderr
    # An installed CPU build would satisfy ==, but not ===.
    assert f"torch==={PINS['torch']}" in machine.pip_log
    assert "+cpu" not in machine.pip_log
    assert machine.requirements() == {*PINS, *GPU_PINS} - {"faiss-cpu"}


def test_installs_faiss_for_the_cpu_if_there_is_no_gpu_build_of_it(machine):
    machine.gpus(LISTED)
    machine.tool("uname", "#!/bin/sh\necho Linux aarch64\n")
    done = machine.set_up()
    assert "CUDA build: " in done.stderr
    assert f"faiss-cpu {PINS['faiss-cpu']}" in done.stderr
    assert machine.requirements() == set(PINS)


@pytest.mark.parametrize(
    ("cuda", "capability", "build"),
    [
        ("13.0", "8.0", "13.0"),
        ("13.2", "", "13.0"),
        ("13.0", "7.0", "12.6"),  # CUDA 13 does not support Volta
        ("12.9", "9.0", "12.6"),
        ("12.2", "8.0", "12.6"),
        ("12.0", "[N/A]", "12.6"),
        ("12.8", "12.0", ""),  # the build for CUDA 12.6 does not support Blackwell
        ("11.8", "8.0", ""),
        ("N/A", "8.0", ""),
    ],
)
def test_selects_a_build_that_driver_and_gpu_support(machine, cuda, capability, build):
    machine.gpus(LISTED, cuda=cuda, capability=capability)
    line = build_line(machine.set_up("--dry-run"))
    if build:
        assert line.startswith("CUDA build: ")
        assert f"for CUDA {build} " in line
    else:
        assert line.startswith("CPU build: ")
        assert "no CUDA build" in line


def test_the_build_for_cuda_12_needs_no_separate_cuda_libraries(machine):
    machine.gpus(LISTED, cuda="12.2")
    machine.tool("uname", X86)
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    assert f"torch=={PINS['torch']}+cu126" in machine.pip_log
    assert machine.requirements() == {*PINS, "faiss-gpu"} - {"faiss-cpu"}

    before = machine.pip_log
    assert machine.set_up().returncode == 0
    assert machine.pip_log == before

    machine.gpus(LISTED, cuda="13.0")
    assert machine.set_up().returncode == 0
    assert f"torch==={PINS['torch']}" in machine.pip_log.removeprefix(before)


def test_reports_that_the_build_for_cuda_12_is_unavailable_and_installs_no_other(machine):
    machine.gpus(LISTED, cuda="12.2")
    machine.pip('case "$*" in *cu126*) exit 1;; *) exit 0;; esac')
    done = machine.set_up()
    assert done.returncode == 2
    assert "error: the cu126 build of torch" in done.stderr
    assert "download.pytorch.org/whl/cu126" in machine.pip_log
    assert not machine.stamp.exists()


@pytest.mark.parametrize("listed", [LISTED, ""])
def test_a_dry_run_names_the_build_and_installs_nothing(machine, listed):
    machine.gpus(listed, 0 if listed else 9)
    done = machine.set_up("--dry-run")
    assert done.returncode == 0
    assert ("CUDA build: " if listed else "CPU build: ") in done.stderr
    assert not machine.venv.exists()


@pytest.mark.parametrize("options", [("--setup", "--dry-run"), ("--dry-run", "--setup")])
def test_a_dry_run_installs_nothing_in_any_order_of_the_options(machine, options):
    done = machine.start(*options)
    assert done.returncode == 0
    assert "CPU build: " in done.stderr
    assert not machine.venv.exists()


def test_the_user_can_choose_the_build(machine):
    machine.gpus(LISTED)
    assert "CPU build: " in machine.set_up("--dry-run", PKG_TORCH="cpu").stderr
    assert "for CUDA 12.6 " in machine.set_up("--dry-run", PKG_TORCH="cu126").stderr
    machine.gpus(LISTED, cuda="12.4")
    assert "for CUDA 12.6 " in machine.set_up("--dry-run", PKG_TORCH="cuda").stderr
    machine.gpus("", 9)
    assert "for CUDA 13.0 " in machine.set_up("--dry-run", PKG_TORCH="cuda").stderr
    machine.gpus(LISTED, cuda="11.4")
    rocm = machine.set_up("--dry-run", PKG_TORCH="rocm")
    cuda = machine.set_up("--dry-run", PKG_TORCH="cuda")
    for refused in (rocm, cuda):
        assert refused.returncode == 2
        assert len(refused.stderr.splitlines()) == 1
    assert rocm.stderr.startswith("error: PKG_TORCH=rocm")
    assert "CUDA 11.4" in cuda.stderr


def test_the_cuda_build_replaces_the_cpu_build_and_is_kept_without_a_gpu(machine):
    """Nodes with and without a GPU may share a home directory."""
    machine.set_up()
    machine.gpus(LISTED)
    machine.tool("uname", X86)
    assert machine.set_up().returncode == 0
    assert "uninstall -q -y faiss-cpu faiss-gpu" in machine.pip_log
    assert machine.stamp.read_text().endswith(" cu130\n")

    before = machine.pip_log
    machine.gpus("", 9)
    assert machine.set_up().returncode == 0
    assert machine.pip_log == before

    assert machine.set_up(PKG_TORCH="cpu").returncode == 0
    assert machine.pip_log != before
    assert " " not in machine.stamp.read_text()


def test_reports_a_missing_package_unless_it_is_the_replaced_faiss(machine):
    """pkg-lib requires faiss-cpu, so pip reports it as missing after faiss-gpu has replaced it."""
    machine.gpus(LISTED)
    machine.tool("uname", X86)
    faiss = "pkg-lib 1.0.0 requires faiss-cpu, which is not installed."
    machine.pip(f'if [ "$1" = check ]; then echo "{faiss}"; exit 1; fi')
    assert machine.set_up().returncode == 0
    machine.stamp.unlink()
    other = "transformers 5.23.0 has requirement tokenizers<1, but you have tokenizers 2."
    machine.pip(f'if [ "$1" = check ]; then echo "{faiss}"; echo "{other}"; exit 1; fi')
    done = machine.set_up()
    assert done.returncode == 2
    assert "tokenizers" in done.stderr
    assert not machine.stamp.exists()


@pytest.mark.parametrize("options", [("--setup", "--fresh"), ("--model", "x", "--setup")])
def test_reports_an_unknown_option_of_the_set_up_in_one_line(machine, options):
    done = machine.start(*options)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert not machine.venv.exists()
