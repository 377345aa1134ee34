"""The notebooks as stored: no outputs, one commented parameters cell, short cells, no paths of one
machine."""

import ast
import re
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


@pytest.fixture(params=NOTEBOOKS, ids=lambda p: p.stem)
def cells(request):
    notebook = nbformat.read(request.param, as_version=4)
    nbformat.validate(notebook)
    return notebook.cells


def code(cells):
    return [c for c in cells if c.cell_type == "code"]


def test_there_are_notebooks():
    assert NOTEBOOKS


def test_stored_without_outputs(cells):
    assert all(c.outputs == [] and c.execution_count is None for c in code(cells))


def test_one_parameters_cell_in_which_every_parameter_has_a_comment(cells):
    tagged = [c for c in cells if "parameters" in c.metadata.get("tags", [])]
    assert len(tagged) == 1
    lines = tagged[0].source.splitlines()
    assert lines[0].startswith("# ")
    for statement in ast.parse(tagged[0].source).body:
        assert isinstance(statement, ast.Assign)
        ast.literal_eval(statement.value)
        assert re.search(r"#\s*\w", lines[statement.end_lineno - 1]), lines[statement.lineno - 1]


def test_code_cells_are_short_and_parse(cells):
    for cell in code(cells):
        assert len(cell.source.splitlines()) <= 15, cell.source
        ast.parse(cell.source)


def test_imports_stand_in_the_first_code_cell(cells):
    first, *rest = code(cells)
    assert all(isinstance(s, (ast.Import, ast.ImportFrom)) for s in ast.parse(first.source).body)
    later = [n for c in rest for n in ast.walk(ast.parse(c.source))]
    assert not [n for n in later if isinstance(n, (ast.Import, ast.ImportFrom, ast.ClassDef, ast.Try))]


def test_no_absolute_path_and_no_change_of_the_import_path(cells):
    for cell in code(cells):
        assert "sys.path" not in cell.source
        constants = [n.value for n in ast.walk(ast.parse(cell.source)) if isinstance(n, ast.Constant)]
        assert not [s for s in constants if isinstance(s, str) and re.match(r"/\w|~|[A-Za-z]:\\", s)]


def test_every_question_is_told_before_code_answers_it(cells):
    assert cells[0].cell_type == "markdown" and cells[0].source.startswith("# ")
    assert sum(c.cell_type == "markdown" for c in cells) >= len(code(cells)) / 2
