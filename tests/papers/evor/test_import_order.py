"""EVOR's benchmarks know nothing of rounds, and no module hides an import in a string."""

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
OF_THE_LOOP = {"evor_methods", "knowledge_base", "query_evolution", "evor_run", "evor_loop"}


def imported(module: str) -> set[str]:
    """The modules of the folder that a module imports, wherever the statement is."""
    tree = ast.parse((FOLDER / f"{module}.py").read_text("utf8"))
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = set()
    for statement in statements:
        source = statement.module or ""
        if source == "pkg_lib.papers.evor":
            names.update(alias.name for alias in statement.names)
        elif source.startswith("pkg_lib.papers.evor."):
            names.add(source.rpartition(".")[2])
    return names


@pytest.mark.parametrize("module", BENCHMARKS)
def test_a_benchmark_imports_nothing_of_the_loop(module):
    assert not imported(module) & OF_THE_LOOP


def test_no_module_is_imported_by_a_string():
    texts = {path.name: path.read_text("utf8") for path in FOLDER.glob("*.py")}
    # A library under a new name is loaded in the sandbox, and the modules of a pinned library by name.
    allowed = {"private_library.py", "make_library.py"}
    assert {name for name, text in texts.items() if "import_module" in text} == allowed
