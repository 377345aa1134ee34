"""The stored notebooks: no outputs, one commented parameters cell, short cells, no absolute paths."""

import ast
import re
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
IMPORTS = (ast.Import, ast.ImportFrom)
# Notebook -> its maximum number of lines of code. Blank lines and comments do not count.
CODE_LINES = {
    "build_graphs": 120,
    "case_studies": 80,
    "cast": 120,
    "claims": 120,
    "dkb": 120,
    "error_types": 80,
    "evor": 120,
    "explore": 120,
    "overlap": 80,
    "rq1_code_pkg": 80,
    "rq2_text_pkg": 80,
    "rq3_representation": 80,
    "umap_correctness": 80,
    "closed_models": 80,
    "cost": 80,
    "topics_radar": 80,
    "what_helps": 80,
}
CELL_LINES = 12
ABSOLUTE_PATH = re.compile(r"/\w|~|[A-Za-z]:\\")
OUTPUT_CALL = re.compile(r"report\.(table|figure|add_findings)\(")


@pytest.fixture(params=NOTEBOOKS, ids=lambda p: p.stem)
def cells(request):
    notebook = nbformat.read(request.param, as_version=4)
    nbformat.validate(notebook)
    return notebook.cells


def code_cells(cells):
    return [cell for cell in cells if cell.cell_type == "code"]


def test_has_one_parameters_cell_with_a_comment_for_every_parameter(cells):
    (cell,) = [cell for cell in cells if "parameters" in cell.metadata.get("tags", [])]
    lines = cell.source.splitlines()
    assert lines[0].startswith("# ")
    for statement in ast.parse(cell.source).body:
        assert isinstance(statement, ast.Assign)
        ast.literal_eval(statement.value)
        assert re.search(r"#\s*\w", lines[statement.end_lineno - 1]), lines[statement.lineno - 1]


def test_code_cells_are_short_without_outputs_and_only_the_first_imports(cells):
    first, *later = code_cells(cells)
    for cell in (first, *later):
        assert cell.outputs == []
        assert cell.execution_count is None
        assert "sys.path" not in cell.source
    for statement in ast.parse(first.source).body:
        assert isinstance(statement, IMPORTS)
    for cell in later:
        assert len(cell.source.splitlines()) <= 15
        for node in ast.walk(ast.parse(cell.source)):
            assert not isinstance(node, (*IMPORTS, ast.ClassDef, ast.Try))
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not ABSOLUTE_PATH.match(node.value)


def test_text_introduces_the_code(cells):
    """Every question is asked in a text cell before code answers it."""
    assert cells[0].cell_type == "markdown"
    assert cells[0].source.startswith("# ")
    count = len(code_cells(cells))
    assert len(cells) - count >= count / 2


def test_every_table_and_figure_is_displayed(cells):
    """Jupyter displays the last expression of a cell; a table in a loop or an `if` would get lost."""
    for cell in code_cells(cells):
        tree = ast.parse(cell.source)
        for node in ast.walk(tree):
            hidden = isinstance(node, ast.Expr) and node is not tree.body[-1]
            if hidden and isinstance(node.value, ast.Call):
                assert not OUTPUT_CALL.match(ast.unparse(node.value))


def lines_of_code(source):
    """Return the lines that are neither blank nor comments."""
    lines = [line.strip() for line in source.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("name", sorted(CODE_LINES))
def test_a_notebook_is_short_and_defines_nothing(name):
    """A notebook loads and shows data. The library computes."""
    notebook = nbformat.read(NOTEBOOKS[0].with_name(f"{name}.ipynb"), as_version=4)
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    counts = []
    for cell in code_cells(notebook.cells):
        counts.append(len(lines_of_code(cell.source)))
        for node in ast.walk(ast.parse(cell.source)):
            assert not isinstance(node, definitions), ast.unparse(node)
    assert sum(counts) <= CODE_LINES[name]
    assert max(counts) <= CELL_LINES
