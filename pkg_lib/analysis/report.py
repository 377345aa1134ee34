"""What a reader opens: results/index.html with every notebook's tables, figures, findings and page.

A notebook leaves one JSON file a section (`save_section`), written last; the page is built from those files alone, opens
from disk without a network, and has the same bytes whenever the results are the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
from markupsafe import Markup

from pkg_lib.analysis.tables import COLUMNS, render
from pkg_lib.results import write_json, write_text
from pkg_lib.types import UserError, digest

SUFFIXES = ("csv", "md", "tex")


@dataclass(frozen=True, slots=True)
class Section:
    """One notebook's part of the report.

    `stem`: what its files start with; `parts`: heading ("" for none) -> HTML, in their order; `figures`: name -> caption
    of STEM.NAME.png and .pdf; `summary`: column -> (text, colour), for the matrix of experiments, where the section is one;
    `tables`: names of the files in tables/, without their suffix.
    """

    stem: str
    heading: str
    parts: dict[str, str]
    findings: list[str]
    figures: dict[str, str]
    provenance: dict[str, Any]
    summary: dict[str, list[str]] = field(default_factory=dict)
    tables: list[str] = field(default_factory=list)


def plain(verdicts: pd.Series) -> dict[str, bool | None]:
    """task id -> verdict, None where not measured."""
    return {str(t): None if pd.isna(v) else bool(v) for t, v in verdicts.items()}


def save_section(results: Path, section: Section) -> Path:
    """Writes results/tables/STEM.json; write it last, it marks the section as complete."""
    path = results / "tables" / f"{section.stem}.json"
    # Lists keep the order of parts and figures; a JSON object with sorted keys would not.
    write_json(path, asdict(section) | {"parts": list(section.parts.items()), "figures": list(section.figures.items())})
    return path


def build_report(results: Path) -> Path:
    """Builds results/index.html from results/tables/*.json and renders results/notebooks/*.ipynb; returns its path."""
    found = map(_section, results.glob("tables/*.json"))
    sections = sorted(found, key=lambda s: (not s.summary, s.heading, s.stem))
    notebooks = {p.stem: p for p in sorted(results.glob("notebooks/*.ipynb"))}
    rendered = {name: render_notebook(path) for name, path in notebooks.items()}
    views = [_view(s, results, s.stem in notebooks and _failed(notebooks[s.stem])) for s in sections]
    finished = {s.stem for s in sections}
    unfinished = [(name, _relative(p, results)) for name, p in rendered.items() if name not in finished]
    page = results / "index.html"
    write_text(page, render("index.html.j2", sections=views, columns=COLUMNS, unfinished=unfinished))
    return page


def _section(path: Path) -> Section:
    try:
        stored = json.loads(path.read_text("utf8"))
        return Section(**stored | {"parts": dict(stored["parts"]), "figures": dict(stored["figures"])})
    except (ValueError, TypeError, KeyError) as e:
        raise UserError(f"{path} is damaged or of another version; delete it and run its notebook again") from e


def _view(section: Section, results: Path, failed: bool) -> dict[str, Any]:
    """What the template prints of a section: only links to files that exist."""
    stem, tables = section.stem, results / "tables"
    links = [("notebook", results / "notebooks" / f"{stem}.html")]
    links += [(_label(name, stem, suffix), tables / f"{name}.{suffix}") for name in section.tables for suffix in SUFFIXES]
    figures = []
    for name, caption in section.figures.items():
        png, pdf = (results / "figures" / f"{stem}.{name}.{suffix}" for suffix in ("png", "pdf"))
        if png.exists() and pdf.exists():
            figures.append({"png": _relative(png, results), "pdf": _relative(pdf, results), "caption": caption})
            links.append((f"{name} (pdf)", pdf))
    return {
        **{k: getattr(section, k) for k in ("stem", "heading", "findings", "parts")},
        "summary": section.summary and [section.summary.get(c, ["", ""]) for c in COLUMNS],
        "figures": figures,
        "links": [(label, _relative(p, results)) for label, p in links if p.exists()],
        "provenance": json.dumps(section.provenance, indent=1, sort_keys=True),
        "failed": failed,
    }


def _label(name: str, stem: str, suffix: str) -> str:
    own = name.removeprefix(stem).lstrip(".").replace("_", " ")
    return f"{own or 'table'} ({suffix})"


def render_notebook(ipynb: Path) -> Path:
    """An executed notebook as one HTML file beside it, without network, scripts or progress bars; returns its path.

    The page carries the digest of what it shows and is left alone while that stays the same.
    """
    from nbconvert import HTMLExporter
    from pygments.formatters import HtmlFormatter

    target, notebook = ipynb.with_suffix(".html"), _read(ipynb)
    mark = f"rendered from {digest(ipynb.read_text('utf8'), *(p.read_text('utf8') for p in _templates()))}"
    if target.exists() and mark in target.read_text("utf8"):
        return target
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr" and not _is_widget(o)]
    body, _ = HTMLExporter(template_name="basic", exclude_anchor_links=True).from_notebook_node(notebook)
    highlight = HtmlFormatter(style="default").get_style_defs(".highlight")
    values = {"title": ipynb.stem, "source": ipynb.name, "mark": mark, "body": Markup(body), "highlight": Markup(highlight)}
    write_text(target, render("notebook.html.j2", **values))
    return target


def _read(ipynb: Path) -> nbformat.NotebookNode:
    try:
        notebook = nbformat.read(ipynb, as_version=4)
        nbformat.validate(notebook)
    except (ValueError, KeyError, AttributeError, nbformat.ValidationError) as e:
        raise UserError(f"{ipynb} is not a notebook (a run was cut off while it was written?); delete it and run again") from e
    return notebook


def _templates() -> list[Path]:
    return sorted((Path(__file__).parent / "templates").glob("*"))


def _is_widget(output: Mapping[str, Any]) -> bool:
    return any("widget" in kind for kind in output.get("data", {}))


def _failed(ipynb: Path) -> bool:
    return any(o.get("output_type") == "error" for c in _read(ipynb).cells for o in c.get("outputs", ()))


def _relative(path: Path, results: Path) -> str:
    return path.relative_to(results).as_posix()
