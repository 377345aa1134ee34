"""EVOR's benchmarks do not depend on its rounds, and no module hides an import in a string."""

import ast
from pathlib import Path

import pytest

import pkg_lib.papers.evor

FOLDER = Path(pkg_lib.papers.evor.__file__).parent
BENCHMARKS = (
    "evor_benchmark",
    "evor_bench",
    "library_tasks",
    "newlisp",
    "private_eval",
    "scipy_tasks",
)
LOOP_MODULES = {"evor_methods", "knowledge_base", "query_evolution", "evor_run", "evor_loop"}


def imported(module: str) -> set[str]:
    """Return the modules of the folder that a module imports, including imports inside functions."""
    tree = ast.parse((FOLDER / f"{module}.py").read_text("utf8"))
    names = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        source = node.module or ""
        if source == "pkg_lib.papers.evor":
            names.update(alias.name for alias in node.names)
        elif source.startswith("pkg_lib.papers.evor."):
            names.add(source.rpartition(".")[2])
    return names


@pytest.mark.parametrize("module", BENCHMARKS)
def test_benchmarks_do_not_import_modules_of_the_loop(module):
    assert not imported(module) & LOOP_MODULES


def test_no_module_is_imported_by_a_string():
    found = set()
    for path in FOLDER.glob("*.py"):
        if "import_module" in path.read_text("utf8"):
            found.add(path.name)
    # The sandbox loads a library under a new name, and the modules of a pinned library by name.
    assert found == {"private_library.py", "make_library.py"}
