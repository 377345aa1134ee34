"""The plan of pkg_lib, held against the code: who imports whom, how large it is, names that mean one thing."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path

import nbformat
import pytest

from pkg_lib.core.store import ROOT

PACKAGE = ROOT / "pkg_lib"
# A module imports from its own folder and from those of a lower rank. claims is the ledger of what the other
# papers' folders measure.
RANKS = {
    "core": 0,
    "graph": 1,
    "chunking": 1,
    "generation": 1,
    "execution": 1,
    "data": 2,
    "retrieval": 3,
    "evaluation": 4,
    "analysis": 5,
    "papers/pkg": 6,
    "papers/cast": 6,
    "papers/dkb": 6,
    "papers/evor": 6,
    "papers/claims": 7,
    "": 8,
}
# Imports that still point up; each goes with the folder that is rebuilt.
UPWARD: set[tuple[str, str]] = set()

# Names that still mean two things.
TWICE: set[str] = set()

# Called by what is written in a string or in a script: by JupyterLab, by a test run in
# the sandbox.
BY_NAME = {"lab.without_outputs", "papers/cast/inside.run_all"}


def folder_of(module: str) -> str:
    """The folder with a rank that a module below pkg_lib stands in."""
    parts = module.split("/")[:-1]
    return "/".join(parts[:2]) if parts[:1] == ["papers"] else "/".join(parts[:1])


def modules() -> dict[str, ast.Module]:
    """Path below pkg_lib, without its suffix -> syntax tree."""
    found = sorted(PACKAGE.rglob("*.py"))
    return {
        p.relative_to(PACKAGE).with_suffix("").as_posix(): ast.parse(p.read_text("utf8"))
        for p in found
    }


MODULES = modules()


def imports(tree: ast.Module) -> set[str]:
    """The modules of pkg_lib that are imported anywhere in a tree."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pkg_lib":
            names |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
        elif isinstance(node, ast.Import):
            names |= {a.name for a in node.names if a.name.startswith("pkg_lib.")}
    return {path for name in names if (path := "/".join(name.split(".")[1:])) in MODULES}


def test_imports_point_down():
    upward = set()
    for module, tree in MODULES.items():
        for other in imports(tree):
            mine, theirs = folder_of(module), folder_of(other)
            if mine != theirs and RANKS[theirs] >= RANKS[mine]:
                upward.add((module, other))
    assert upward == UPWARD


def test_no_cycle_within_a_folder():
    import networkx

    graph = networkx.DiGraph((m, o) for m, tree in MODULES.items() for o in imports(tree))
    assert list(networkx.simple_cycles(graph)) == []


def test_no_two_modules_of_one_name():
    names = Counter(Path(m).name for m in MODULES if not m.endswith("__init__"))
    assert [n for n, count in names.items() if count > 1] == []


def test_no_two_public_classes_of_one_name():
    classes = [
        n.name for tree in MODULES.values() for n in tree.body if isinstance(n, ast.ClassDef)
    ]
    names = Counter(n for n in classes if not n.startswith("_"))
    assert {n for n, count in names.items() if count > 1} == TWICE


def called_names() -> set[str]:
    """Every name that pkg_lib and the notebooks use, however they came by it."""
    cells = [nbformat.read(path, 4).cells for path in (ROOT / "notebooks").glob("*.ipynb")]
    sources = [ast.parse(c.source) for notebook in cells for c in notebook if c.cell_type == "code"]
    names = set()
    for node in (n for tree in (*MODULES.values(), *sources) for n in ast.walk(tree)):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.isidentifier()
        ):
            names.add(node.value)  # a class that is loaded by its name
        elif isinstance(node, ast.alias) and node.asname:
            names.add(node.name.split(".")[-1])
    return names


def test_every_public_function_and_class_has_a_caller_outside_the_tests():
    names, public = called_names(), (ast.FunctionDef, ast.ClassDef)
    uncalled = {
        f"{module}.{node.name}"
        for module, tree in MODULES.items()
        for node in tree.body
        if isinstance(node, public) and not node.name.startswith("_") and node.name not in names
        # A command of the line is called by its decorator.
        if not any("app.command" in ast.unparse(d) for d in node.decorator_list)
    }
    assert uncalled <= BY_NAME


@pytest.mark.parametrize("command", [["list"], ["--help"], ["cast", "chunk", "FILE"]])
def test_a_short_command_loads_nothing_that_computes(command, tmp_path):
    """Start-up is imports: `cast chunk` of a small file is to be as quick as the names of a list."""
    (tmp_path / "a.py").write_text("x = 1\n")
    words = ["pkg_lib", *(str(tmp_path / "a.py") if w == "FILE" else w for w in command)]
    code = (
        f"import sys; sys.argv = {words!r}\nfrom pkg_lib import cli\nassert cli.main() == 0\n"
        "heavy = {'numpy', 'pandas', 'torch', 'transformers', 'matplotlib', 'scipy', 'networkx', 'nbformat'}\n"
        "assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_run_loads_what_executes_notebooks_only_where_one_is_due():
    """papermill compiles a grammar at its import, which takes as long as all other imports of a run."""
    code = (
        "import sys, pkg_lib.cli, pkg_lib.evaluation.batch, pkg_lib.analysis.report\n"
        "unwanted = {'papermill', 'nbformat', 'jsonschema', 'torch'} & sys.modules.keys()\n"
        "assert not unwanted, unwanted"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_slow_files_are_there():
    """A file that was renamed would slip back into the fast lane."""
    from tests.conftest import SLOW

    assert [name for name in SLOW if not (ROOT / "tests" / name).exists()] == []


def test_the_tests_with_cases_left_out_are_there():
    """The cases of a test that was renamed would take their time again."""
    from tests.conftest import CASES_THAT_STAY

    for name in CASES_THAT_STAY:
        file, _, function = name.partition("::")
        assert f"def {function}(" in (ROOT / "tests" / file).read_text("utf8"), name


MOST_TOKENS_PER_LINE = (
    8.0  # code tokens per code line of a folder; docstrings, comments and layout are free
)
LAYOUT = {
    tokenize.NEWLINE,
    tokenize.NL,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.COMMENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def docstring_lines(tree: ast.Module) -> set[int]:
    """The lines that docstrings take."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if node.body and isinstance(node.body[0], ast.Expr):
            first = node.body[0]
            if isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                lines.update(range(first.lineno, first.end_lineno + 1))
    return lines


def code_tokens(module: str) -> tuple[int, int]:
    """Code tokens of a module, and the lines that hold one."""
    source = (PACKAGE / f"{module}.py").read_text("utf8")
    docstrings = docstring_lines(MODULES[module])
    tokens, lines = 0, set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        documents = token.type == tokenize.STRING and token.start[0] in docstrings
        if token.type not in LAYOUT and not documents:
            tokens += 1
            lines.update(range(token.start[0], token.end[0] + 1))
    return tokens, len(lines)


@pytest.mark.parametrize("folder", sorted(RANKS))
def test_code_is_no_denser_than_agreed(folder):
    modules = [module for module in MODULES if folder_of(module) == folder]
    tokens, lines = (sum(counts) for counts in zip(*map(code_tokens, modules), strict=True))
    assert tokens / lines <= MOST_TOKENS_PER_LINE
