"""The notebooks as stored: no outputs, one commented parameters cell, short cells, no paths of one machine."""

import ast
import re
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
IMPORTS = (ast.Import, ast.ImportFrom)
# How many lines of code a notebook may have. Blank lines and comments are free.
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


@pytest.fixture(params=NOTEBOOKS, ids=lambda p: p.stem)
def cells(request):
    notebook = nbformat.read(request.param, as_version=4)
    nbformat.validate(notebook)
    return notebook.cells


def test_one_parameters_cell_in_which_every_parameter_has_a_comment(cells):
    (cell,) = (c for c in cells if "parameters" in c.metadata.get("tags", []))
    lines = cell.source.splitlines()
    assert lines[0].startswith("# ")
    for statement in ast.parse(cell.source).body:
        assert isinstance(statement, ast.Assign)
        ast.literal_eval(statement.value)
        assert re.search(r"#\s*\w", lines[statement.end_lineno - 1]), lines[statement.lineno - 1]


def test_code_cells_are_short_without_outputs_and_import_in_the_first(cells):
    code = [c for c in cells if c.cell_type == "code"]
    assert all(c.outputs == [] and c.execution_count is None for c in code)
    assert all(len(c.source.splitlines()) <= 15 for c in code[1:])  # the first one imports
    first, *rest = [ast.parse(c.source) for c in code]
    assert all(isinstance(s, IMPORTS) for s in first.body)
    later = [n for tree in rest for n in ast.walk(tree)]
    assert not [n for n in later if isinstance(n, (*IMPORTS, ast.ClassDef, ast.Try))]
    assert not any("sys.path" in c.source for c in code)
    texts = [n.value for n in later if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    assert not [s for s in texts if re.match(r"/\w|~|[A-Za-z]:\\", s)]
    # Every question is told before code answers it.
    assert cells[0].cell_type == "markdown" and cells[0].source.startswith("# ")
    assert len(cells) - len(code) >= len(code) / 2


def test_every_table_and_figure_is_seen(cells):
    # Jupyter shows a cell's last expression; what is made within a loop or an `if` must be displayed.
    for tree in (ast.parse(c.source) for c in cells if c.cell_type == "code"):
        dropped = [n for n in ast.walk(tree) if isinstance(n, ast.Expr) and n is not tree.body[-1]]
        calls = [ast.unparse(n.value) for n in dropped if isinstance(n.value, ast.Call)]
        assert not [
            call for call in calls if re.match(r"report\.(table|figure|add_findings)\(", call)
        ]


def lines_of_code(source):
    """Lines that are neither blank nor comments."""
    lines = [line.strip() for line in source.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("name", sorted(CODE_LINES))
def test_a_notebook_loads_and_shows_and_leaves_the_computing_to_the_library(name):
    notebook = nbformat.read(NOTEBOOKS[0].with_name(f"{name}.ipynb"), as_version=4)
    sources = [c.source for c in notebook.cells if c.cell_type == "code"]
    counts = [len(lines_of_code(source)) for source in sources]
    assert sum(counts) <= CODE_LINES[name]
    assert max(counts) <= CELL_LINES
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    defined = [n for s in sources for n in ast.walk(ast.parse(s)) if isinstance(n, definitions)]
    assert defined == []
