"""The release: the wheel is built from tracked files, contains every file, and works without the checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from checkout import HIDDEN, ROOT, TEXT, copy_tracked

import pkg_lib

pytestmark = pytest.mark.slow
SOURCE = '''def sort_list(numbers):
    """Sort a list of numbers."""
    return sorted(numbers)


def shortest_path(graph, first, last):
    """Find the shortest path between two nodes of a graph."""
    return None
'''


def python_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run this interpreter in a folder without the developer's settings."""
    environment = {key: value for key, value in os.environ.items() if key not in HIDDEN}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, timeout=300, **TEXT
    )


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """Build the source distribution, and the wheel from it; return their folder."""
    folder = tmp_path_factory.mktemp("release")
    copy_tracked(folder / "source", leave_out="results/")
    done = python_in(
        folder / "source", "-m", "build", "--no-isolation", "--outdir", str(folder / "dist")
    )
    assert done.returncode == 0, done.stderr
    return folder / "dist"


@pytest.fixture(scope="module")
def wheel(distributions):
    (wheel,) = distributions.glob("*.whl")
    return wheel


class Installed:
    """An environment with the wheel on top of the packages of the running one.

    `folder` is an empty directory.
    """

    def __init__(self, place: Path, wheel: Path) -> None:
        self.folder, self.venv = place / "empty", place / "venv"
        self.folder.mkdir()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.venv], check=True)
        (site,) = self.venv.glob("lib/python3.*/site-packages")
        below = [path for path in sys.path if path.endswith("-packages")]
        (site / "below.pth").write_text("\n".join([sysconfig.get_paths()["purelib"], *below]))
        pip = [sys.executable, "-m", "pip", "--python", str(self.venv / "bin" / "python")]
        options = ["install", "--quiet", "--no-deps", "--no-index", str(wheel)]
        subprocess.run([*pip, *options], check=True)

    def run(self, program: str, *arguments: str, **more: str) -> subprocess.CompletedProcess:
        """Run a program of the environment in the empty folder."""
        kept = {key: value for key, value in os.environ.items() if key not in HIDDEN}
        path = f"{self.venv / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            [program, *arguments],
            cwd=self.folder,
            env=kept | {"PATH": path} | more,
            timeout=300,
            **TEXT,
        )


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    return Installed(tmp_path_factory.mktemp("installed"), wheel)


def test_all_files_name_the_same_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert version == pkg_lib.__version__ == citation["version"]
    assert str(citation["date-released"]) == pkg_lib.RELEASED
    assert f"version = {{{version}}}" in (ROOT / "README.md").read_text()
    heading = rf"^## {re.escape(version)} \({citation['date-released']}\)$"
    assert re.search(heading, (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_each_issue_template_has_a_required_field():
    templates = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    forms = [yaml.safe_load(p.read_text()) for p in templates if p.name != "config.yml"]
    assert len(forms) >= 2
    for form in forms:
        assert form["name"] and form["description"]
        ids = [part["id"] for part in form["body"]]
        assert len(ids) == len(set(ids))
        assert any(part.get("validations", {}).get("required") for part in form["body"])


def test_both_distributions_pass_twine_check(distributions):
    files = sorted(str(path) for path in distributions.iterdir())
    assert len(files) == 2
    done = python_in(distributions, "-m", "twine", "check", "--strict", *files)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_contains_every_file_of_the_package_and_the_notebooks(wheel, distributions):
    source = distributions.parent / "source"
    wanted = set()
    for path in source.glob("pkg_lib/**/*"):
        if path.is_file() and "__pycache__" not in path.parts:
            wanted.add(path.relative_to(source).as_posix())
    for path in (source / "notebooks").iterdir():
        wanted.add(f"pkg_lib/notebooks/{path.name}")
    assert wanted <= set(zipfile.ZipFile(wheel).namelist())


def test_the_package_is_imported_from_the_wheel(installed):
    code = "import pkg_lib; print(pkg_lib.__file__, pkg_lib.__version__, pkg_lib.load_corpus)"
    done = installed.run("python", "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(installed.venv)) and pkg_lib.__version__ in done.stdout


def test_help_doctor_and_list_work_and_create_no_file(installed):
    assert "search" in installed.run("pkg-lib", "--help").stdout
    state = installed.run("pkg-lib", "doctor")
    assert state.returncode == 0, state.stderr
    assert str(installed.folder / "results") in "".join(state.stdout.split())
    names = installed.run("pkg-lib", "list", "notebooks").stdout
    assert {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")} <= set(names.split())
    assert list(installed.folder.iterdir()) == []  # these commands create no file


def test_searches_a_source_folder_by_words(installed, tmp_path):
    (tmp_path / "sorting.py").write_text(SOURCE)
    code = (
        "from pkg_lib import Task, load_corpus, make_retriever\n"
        f"corpus = load_corpus('source:{tmp_path}')\n"
        "task = Task('mine/0', 'mine', 'sort a list of numbers', '')\n"
        "print(make_retriever('Func-BM25', corpus).retrieve([task])[0].source)\n"
    )
    done = installed.run("python", "-c", code)
    assert done.returncode == 0, done.stderr
    assert "sorting.py:1-3" in done.stdout


def test_renders_a_report_in_the_current_directory(installed):
    done = installed.run("pkg-lib", "report")
    assert done.returncode == 0, done.stderr
    assert (installed.folder / "results" / "index.html").is_file()


@pytest.mark.parametrize(
    "command",
    [
        "lab",
        "show qwen2.5-coder-0.5b-instruct humaneval HumanEval/20",
        "replay samples",
    ],
)
def test_reports_in_one_line_that_a_command_needs_the_checkout(installed, command):
    done = installed.run("pkg-lib", *command.split())
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
