"""Every figure is drawn in the one style: nothing in the package or a notebook goes past it."""

from __future__ import annotations

import ast

import matplotlib as mpl
import nbformat
import pytest

from pkg_lib.analysis.figures import STYLE
from pkg_lib.core.store import ROOT

SOURCES = sorted((ROOT / "pkg_lib").rglob("*.py"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SIZES = {"fontsize", "labelsize", "title_fontsize", "size"}
LEAST = 7  # pt, in the final size


def bypasses(tree):
    """What sets a style of its own: pyplot, pandas plots, rcParams, a seaborn theme, another style sheet, a
    size below LEAST."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                modules = {n.name for n in names} | {getattr(node, "module", "") or ""}
                yield from (m for m in modules if "pyplot" in m)
            case ast.Attribute(
                attr="rcParams" | "rc_context" | "plot_style" | "set_theme" | "set_style" | "set_context"
            ):
                yield node.attr
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(attr="style"), attr="context" | "use"),
                args=[given, *_],
            ):
                if not (isinstance(given, ast.Name) and given.id == "STYLE"):
                    yield "another style"
            case ast.keyword(arg=name, value=ast.Constant(value=int() | float() as points)) if (
                name in SIZES and points < LEAST
            ):
                yield f"{name}={points}"
            case ast.Dict(keys=keys, values=values):
                for k, v in zip(keys, values, strict=True):
                    if (
                        isinstance(k, ast.Constant)
                        and k.value in SIZES
                        and isinstance(v, ast.Constant)
                        and v.value < LEAST
                    ):
                        yield f"{k.value}={v.value}"


def draws(function):
    """Whether a function makes a new figure for others to show."""
    public = (
        not function.name.startswith("_")
        and isinstance(function.returns, ast.Name)
        and function.returns.id == "Figure"
    )
    return public and any(isinstance(n, ast.Call) for n in ast.walk(function))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_source_goes_past_the_style(path):
    tree = ast.parse(path.read_text("utf8"))
    assert list(bypasses(tree)) == []
    drawn = [f for f in tree.body if isinstance(f, ast.FunctionDef) and draws(f)]
    assert [
        f.name for f in drawn if "styled" not in [d.id for d in f.decorator_list if isinstance(d, ast.Name)]
    ] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_no_notebook_goes_past_the_style(path):
    code = "\n".join(c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code")
    assert list(bypasses(ast.parse(code))) == []


def test_the_check_sees_what_goes_past():
    bad = "import matplotlib.pyplot as plt\nmpl.rcParams['x'] = 1\nsns.set_theme()\n"
    bad += "matplotlib.style.use('ggplot')\na.text(0, 0, '', fontsize=6)"
    assert len(list(bypasses(ast.parse(bad)))) == 5


def test_the_styles_own_sizes_can_be_read_in_print():
    sizes = {
        name: value
        for name, value in mpl.rc_params_from_file(STYLE, use_default_template=False).items()
        if "size" in name
    }
    texts = {
        n: v for n, v in sizes.items() if n.endswith(("labelsize", "titlesize", "fontsize", "font.size"))
    }
    assert len(texts) >= 5 and min(texts.values()) >= LEAST
