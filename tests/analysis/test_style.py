"""Every figure has the house style: no module and no notebook bypasses it."""

from __future__ import annotations

import ast

import nbformat
import pytest

from pkg_lib.core.store import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SOURCES = [*sorted((ROOT / "pkg_lib").rglob("*.py")), *NOTEBOOKS]
SIZES = {"fontsize", "labelsize", "title_fontsize", "size"}
THEMES = {"rcParams", "rc_context", "plot_style", "set_theme", "set_style", "set_context"}
LEAST = 7  # pt, in the final size


def source_of(path):
    if path.suffix == ".py":
        return path.read_text("utf8")
    return "\n".join(
        c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"
    )


def bypasses(tree):
    """What sets a style of its own: pyplot, rcParams, a theme, another style sheet, a plain figure, a size
    below LEAST."""
    sizes = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = {n.name for n in node.names} | {getattr(node, "module", "") or ""}
            yield from (m for m in modules if "pyplot" in m)
        elif isinstance(node, ast.Attribute) and node.attr in THEMES:
            yield node.attr
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
            ("style.use", "style.context")
        ):
            if ast.unparse(node.args[0]) != "STYLE":
                yield ast.unparse(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "Figure":
            yield "Figure"  # a notebook displays a HouseFigure
        elif isinstance(node, ast.keyword):
            sizes.append((node.arg, node.value))
        elif isinstance(node, ast.Dict):
            sizes += [
                (k.value, v)
                for k, v in zip(node.keys, node.values, strict=True)
                if hasattr(k, "value")
            ]
    for name, value in sizes:
        if name in SIZES and isinstance(value, ast.Constant) and value.value < LEAST:
            yield f"{name}={value.value}"


def draws(node):
    """Tell whether a public function makes a new figure for others to show."""
    public = isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    makes = public and node.returns is not None and ast.unparse(node.returns) == "Figure"
    return makes and any(isinstance(n, ast.Call) for n in ast.walk(node))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_source_bypasses_the_style(path):
    tree = ast.parse(source_of(path))
    assert list(bypasses(tree)) == []
    plain = []
    for function in tree.body:
        if draws(function):
            decorators = {ast.unparse(decorator) for decorator in function.decorator_list}
            if not decorators & {"styled", "figures.styled"}:
                plain.append(function.name)
    assert plain == []


def test_check_detects_a_source_that_bypasses_the_style():
    bad = "import matplotlib.pyplot as plt\nmpl.rcParams['x'] = 1\nsns.set_theme()\n"
    bad += "matplotlib.style.use('ggplot')\na.text(0, 0, '', fontsize=6)\na.text(**{'size': 5})\n"
    bad += "figure = Figure()"
    assert len(list(bypasses(ast.parse(bad)))) == 7


def calls(function, names):
    """Return the calls of functions with some names."""
    found = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    return [call for call in found if ast.unparse(call.func).rpartition(".")[2] in names]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_single_axes_figures_are_drawn_into_given_axes(path):
    for function in ast.parse(source_of(path)).body:
        if draws(function):
            for call in calls(function, {"row_axes", "column_axes"}):
                given = [ast.unparse(value) for value in call.args]
                given += [ast.unparse(keyword.value) for keyword in call.keywords]
                assert "ax" in given, function.name
                assert "ax" in [argument.arg for argument in function.args.args], function.name
