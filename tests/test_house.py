"""The architecture of pkg_lib: import directions, unique names, callers of public names, density of code."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter

import nbformat
import pytest

from pkg_lib.core.store import ROOT

PACKAGE = ROOT / "pkg_lib"
# Folder -> rank. A module imports from its own folder and from folders of a lower rank. papers/claims has a higher
# rank than the other papers because it lists what they measure.
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
# Known imports from a folder of a higher rank.
UPWARD: set[tuple[str, str]] = set()

# Known names of several classes.
TWICE: set[str] = set()

# Functions whose names only a string or a script contains: JupyterLab and a test in the sandbox call them.
BY_NAME = {"lab.without_outputs", "papers/cast/inside.run_all"}


def folder_of(module: str) -> str:
    """Return the folder with a rank that contains a module.

    Args:
        module: Path of the module below pkg_lib, without its suffix.
    """
    folders = module.split("/")[:-1]
    depth = 2 if folders[:1] == ["papers"] else 1
    return "/".join(folders[:depth])


def modules() -> dict[str, ast.Module]:
    """Return the syntax tree of every module by its path below pkg_lib, without its suffix."""
    trees = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).with_suffix("").as_posix()
        trees[name] = ast.parse(path.read_text("utf8"))
    return trees


MODULES = modules()


def imports(tree: ast.Module) -> set[str]:
    """Return the modules of pkg_lib that a module imports, also within functions."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    own = [name for name in names if name.startswith("pkg_lib.")]
    paths = {name.removeprefix("pkg_lib.").replace(".", "/") for name in own}
    return paths & MODULES.keys()


def test_imports_point_to_folders_of_a_lower_rank():
    upward = set()
    for module, tree in MODULES.items():
        folder = folder_of(module)
        for imported in imports(tree):
            other = folder_of(imported)
            if folder != other and RANKS[other] >= RANKS[folder]:
                upward.add((module, imported))
    assert upward == UPWARD


def test_modules_do_not_import_each_other_in_a_cycle():
    import networkx

    graph = networkx.DiGraph()
    for module, tree in MODULES.items():
        for imported in imports(tree):
            graph.add_edge(module, imported)
    assert list(networkx.simple_cycles(graph)) == []


def repeated(names: list[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def test_names_of_modules_are_unique():
    names = [module.rpartition("/")[2] for module in MODULES if not module.endswith("__init__")]
    assert repeated(names) == set()


def test_names_of_public_classes_are_unique():
    names = []
    for tree in MODULES.values():
        classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
        names += [name for name in classes if not name.startswith("_")]
    assert repeated(names) == TWICE


def notebook_trees() -> list[ast.Module]:
    """Return the syntax trees of all code cells of the notebooks."""
    trees = []
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        cells = nbformat.read(path, 4).cells
        trees += [ast.parse(cell.source) for cell in cells if cell.cell_type == "code"]
    return trees


def used_name(node: ast.AST) -> str | None:
    """Return the name that a node uses, if it uses one."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value  # it may name a class that is loaded dynamically
    if isinstance(node, ast.alias) and node.asname:
        return node.name.split(".")[-1]
    return None


def used_names() -> set[str | None]:
    """Return every name that pkg_lib and the notebooks use."""
    names = set()
    for tree in [*MODULES.values(), *notebook_trees()]:
        names.update(used_name(node) for node in ast.walk(tree))
    return names


def is_command(node: ast.FunctionDef | ast.ClassDef) -> bool:
    """Tell whether a function is a command, which its decorator calls."""
    return any("app.command" in ast.unparse(decorator) for decorator in node.decorator_list)


def test_every_public_function_and_class_has_a_caller_outside_the_tests():
    used = used_names()
    uncalled = set()
    for module, tree in MODULES.items():
        for node in tree.body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                continue
            private = node.name.startswith("_")
            if not private and node.name not in used and not is_command(node):
                uncalled.add(f"{module}.{node.name}")
    assert uncalled <= BY_NAME


RUN_COMMAND = """\
import sys
sys.argv = {words!r}
from pkg_lib import cli
assert cli.main() == 0
heavy = {{'numpy', 'pandas', 'torch', 'transformers', 'matplotlib', 'scipy', 'networkx', 'nbformat'}}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
"""
IMPORT_RUN = """\
import sys, pkg_lib.cli, pkg_lib.evaluation.batch, pkg_lib.analysis.report
unwanted = {'papermill', 'nbformat', 'jsonschema', 'torch'} & sys.modules.keys()
assert not unwanted, unwanted
"""


def execute(code: str) -> subprocess.CompletedProcess:
    """Execute code in a new interpreter."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("command", [["list"], ["--help"], ["cast", "chunk", "FILE"]])
def test_a_short_command_imports_no_numerical_library(command, tmp_path):
    """Imports take most of the time of a short command."""
    file = tmp_path / "a.py"
    file.write_text("x = 1\n")
    arguments = [str(file) if word == "FILE" else word for word in command]
    done = execute(RUN_COMMAND.format(words=["pkg_lib", *arguments]))
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_run_imports_papermill_only_to_execute_a_notebook():
    """papermill compiles a grammar at its import, which takes as long as all other imports of a run."""
    done = execute(IMPORT_RUN)
    assert done.returncode == 0, done.stderr


def test_the_files_of_slow_tests_exist():
    """A renamed file would return to the fast lane."""
    from tests.conftest import SLOW

    missing = [name for name in SLOW if not (ROOT / "tests" / name).exists()]
    assert missing == []


def test_the_tests_with_skipped_cases_exist():
    """All cases of a renamed test would run again."""
    from tests.conftest import CASES_THAT_STAY

    for name in CASES_THAT_STAY:
        file, _, function = name.partition("::")
        assert f"def {function}(" in (ROOT / "tests" / file).read_text("utf8"), name


# Code tokens per line of code, on average over a folder. Docstrings, comments and layout do not count.
MOST_TOKENS_PER_LINE = 8.0
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
    """Return the numbers of the lines that docstrings occupy."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            lines.update(range(docstring.lineno, docstring.end_lineno + 1))
    return lines


def count_code(module: str) -> tuple[int, int]:
    """Return the number of code tokens of a module and the number of lines with code."""
    source = (PACKAGE / f"{module}.py").read_text("utf8")
    docstrings = docstring_lines(MODULES[module])
    tokens = 0
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_docstring = token.type == tokenize.STRING and token.start[0] in docstrings
        if token.type not in LAYOUT and not is_docstring:
            tokens += 1
            lines.update(range(token.start[0], token.end[0] + 1))
    return tokens, len(lines)


@pytest.mark.parametrize("folder", sorted(RANKS))
def test_code_is_not_too_dense(folder):
    tokens = 0
    lines = 0
    for module in MODULES:
        if folder_of(module) == folder:
            module_tokens, module_lines = count_code(module)
            tokens += module_tokens
            lines += module_lines
    assert tokens / lines <= MOST_TOKENS_PER_LINE
