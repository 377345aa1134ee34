"""README.md and docs/: links and commands are valid, examples run, and the site builds."""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml
from fakes import FakeBackend

import pkg_lib
from pkg_lib import cli
from pkg_lib.core.store import ROOT

README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = [README, ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:PKG_\w+=\S+ )*(?:\./run_all\.sh|(?:\.venv/bin/)?pkg-lib)(?: (.*))?")
OWN_CODE = 'def sort_words(words):\n    """Sort words by length."""\n    return sorted(words)\n'
PLACE = "/path/to/my/code"


def blocks(page: str, language: str) -> list[str]:
    """Return the fenced blocks of a page in one language."""
    text = (ROOT / page).read_text("utf8")
    return [code for tag, code in CODE_BLOCK.findall(text) if tag == language]


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf8"), re.MULTILINE)
    words = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {text.replace(" ", "-") for text in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_points_to_an_existing_file(page):
    text = CODE_BLOCK.sub("", page.read_text("utf8"))
    for link in LINK.findall(text):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target), link


def test_the_readme_is_short():
    assert len(README.read_text("utf8").splitlines()) <= 130


@pytest.mark.skipif(not importlib.util.find_spec("mkdocs"), reason="mkdocs is not installed")
def test_the_site_builds(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "index.html").exists()
    api = (tmp_path / "api" / "index.html").read_text("utf8")
    for name in pkg_lib.__all__:
        assert name in api


def test_the_site_lists_every_page_and_documents_every_public_name():
    configuration = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    listed = set(re.findall(r"\w+\.md", json.dumps(configuration["nav"])))
    assert listed == {page.name for page in DOCS.glob("*.md")}
    documented = re.findall(r"^::: pkg_lib\.\S+\.(\w+)$", (DOCS / "api.md").read_text(), re.M)
    assert sorted(documented) == sorted(pkg_lib.__all__)


def test_the_table_of_the_python_api_shows_every_name_with_its_arguments():
    rows = re.findall(r"^\| `(\w+)\((.*)\)` \| .+ \|$", (DOCS / "api.md").read_text("utf8"), re.M)
    assert [name for name, _ in rows] == sorted(pkg_lib.__all__)
    for name, shown in rows:
        call = ast.parse(f"{name}({shown.removesuffix(', ...')})", mode="eval").body
        listed = [argument.id for argument in call.args]
        listed += [keyword.arg for keyword in call.keywords]
        parameters = [*inspect.signature(getattr(pkg_lib, name)).parameters]
        assert listed == parameters[: len(listed)]
        assert shown.endswith(", ...") == (len(listed) < len(parameters))


def commands() -> list[str]:
    """Return the arguments of every command line of pkg-lib and run_all.sh on the pages."""
    found = set()
    for page in PAGES:
        text = page.read_text("utf8").replace("\\\n", " ")
        indented_lines = re.findall(r"^ {4}(?:\$ )?(.+)$", text, re.MULTILINE)
        inline_code = re.findall(r"`([^`\n]+)`", text)
        for line in indented_lines + inline_code:
            without_comment = re.sub(r"  #.*", "", line).strip()
            command = COMMAND.fullmatch(without_comment)
            if command and command[1]:
                arguments = re.sub(r"\s+", " ", command[1])
                found.add(arguments)
    return sorted(found - {"COMMAND", "--setup", "--setup --dry-run", "--help"})


@pytest.mark.parametrize("command", commands())
def test_every_command_and_option_exists(command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("FILE", "test.py"):
        Path(name).write_text("x = 1\n")
    Path("DIR").mkdir()
    words = [
        str(ROOT / word) if word == "notebooks/prices.csv" else word
        for word in shlex.split(command)
    ]
    if words[0].startswith("-"):
        words.insert(0, "run")
    group = typer.main.get_command(cli.app)
    with group.make_context("pkg-lib", [words[0], "--help"], resilient_parsing=True) as context:
        while hasattr(group, "get_command"):
            name = words.pop(0)
            group = group.get_command(context, name)
            assert group is not None, name
    if words and name != "lab":
        try:
            group.make_context(name, words).close()
        except cli.UsageFault as error:  # the page omits an argument
            assert "Missing argument" in str(error), error
            assert name in ("show", "search"), error


def test_every_environment_variable_is_documented():
    used = set()
    for path in [ROOT / "run_all.sh", *(ROOT / "pkg_lib").rglob("*.py")]:
        used.update(re.findall(r"\bPKG_[A-Z_]*[A-Z]\b", path.read_text("utf8")))
    page = (DOCS / "environment.md").read_text("utf8")
    undocumented = {name for name in used if f"`{name}`" not in page}
    assert undocumented <= {"PKG_SANDBOX_DENY"}  # only the tests of the sandbox set it


def python(*arguments: str, **variables: str) -> subprocess.CompletedProcess:
    """Run Python in the checkout, as a user would."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | variables,
        capture_output=True,
        text=True,
    )


def output_of(code: str, **variables: str) -> str:
    """Execute code, which must succeed; return its output."""
    done = python("-c", code, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_of_the_readme_prints_the_shown_output():
    (code,) = blocks("README.md", "python")
    (output,) = blocks("README.md", "text")
    assert output_of(code) == output


def test_the_main_result_of_the_readme_equals_that_of_the_tables():
    stored = json.loads((ROOT / "results" / "tables" / "what_helps.json").read_text("utf8"))
    finding = re.compile(r"from (\d+) % \(([\d,]+) of ([\d,]+) answers\) to (\d+) % \(([\d,]+)\)")
    rows = finding.findall(stored["findings"][0])
    assert len(rows) == 2
    for page in (README, DOCS / "findings.md"):
        text = page.read_text("utf8")
        for without_rate, without, answers, with_rate, with_it in rows:
            assert (
                f"| {answers} | {without} ({without_rate} %) | {with_it} ({with_rate} %) |" in text
            )


@pytest.mark.slow
def test_the_first_command_of_the_readme_prints_the_shown_output():
    text = README.read_text("utf8")
    example = re.search(r"^    \$ \.venv/bin/pkg-lib (.+)\n((?:    .+\n)+)", text, re.M)
    command, indented_output = example.groups()
    done = python("-m", "pkg_lib", *shlex.split(command))
    assert done.stdout == re.sub(r"^    ", "", indented_output, flags=re.M), done.stderr


@pytest.fixture
def own_code(tmp_path, monkeypatch):
    """Return a folder with one function; results and cache are empty."""
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("PKG_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "a.py").write_text(OWN_CODE)
    return folder


def test_the_examples_of_the_quickstart_run(own_code, monkeypatch, capsys):
    stored, steps = blocks("docs/quickstart.md", "python")
    assert "Func-PKG" in output_of(stored, PKG_RESULTS=str(ROOT / "results"))

    answer = "```python\ndef middle(numbers):\n    return sorted(numbers)[1]\n```"
    backend = FakeBackend(lambda _: answer)
    generate = functools.partial(pkg_lib.generate, backend=backend)
    monkeypatch.setattr(pkg_lib, "generate", generate, raising=False)
    exec(compile(steps.replace(PLACE, str(own_code)), "quickstart.md", "exec"), {})
    assert capsys.readouterr().out.startswith("passed")


def test_the_example_of_user_supplied_code_runs(own_code, monkeypatch, capsys):
    from fakes import WordEmbedder

    monkeypatch.setattr("pkg_lib.retrieval.embed.Embedder", lambda name: WordEmbedder())
    code = blocks("docs/own_code.md", "python")[-1]
    exec(compile(code.replace(PLACE, str(own_code)), "own_code.md", "exec"), {})
    assert "sort_words" in capsys.readouterr().out


USE_PLUGINS = """
from pkg_lib import load_benchmark, load_corpus, make_retriever, run_tests
from pkg_lib.core.models import model_spec
tasks = load_benchmark("my-benchmark")
for solutions in ([t.solution for t in tasks], ["    return None\\n" for _ in tasks]):
    print([outcome.status for outcome in run_tests(tasks, solutions)])
contexts = make_retriever("Longest", load_corpus("my-corpus")).retrieve(tasks)
print(contexts[0].text, model_spec("my-model").style)
"""


def test_the_documented_plugins_work(tmp_path):
    files = blocks("docs/own_method.md", "python") + blocks("docs/own_benchmark.md", "python")
    paths = [tmp_path / f"mine{number}.py" for number in range(len(files))]
    for path, code in zip(paths, files, strict=True):
        path.write_text(code)
    (tmp_path / "tasks.jsonl").write_text(blocks("docs/own_benchmark.md", "json")[0])
    output = output_of(USE_PLUGINS, PKG_PLUGINS=os.pathsep.join(map(str, paths)))
    assert output.splitlines() == [
        "['passed', 'passed']",
        "['failed', 'failed']",
        "def two():",
        "    return 2",
        " chat",
    ]
