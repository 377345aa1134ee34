"""What a reader opens: results/index.html with every notebook's tables, figures, findings and page.

A notebook leaves one JSON file a section (`save_section`), written last; the page is built from those files alone, opens
from disk without a network, and has the same bytes whenever the results are the same.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import nbformat
import pandas as pd
from markupsafe import Markup

from pkg_lib.analysis.contents import contents, matrix, ordered
from pkg_lib.analysis.tables import render
from pkg_lib.results import write_json, write_text
from pkg_lib.types import UserError, digest

TABLE = ("csv", "tex", "md")
KINDS = {"csv": "CSV", "tex": "LaTeX", "md": "Markdown", "pdf": "PDF", "png": "PNG"}
T = TypeVar("T")


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
    """Builds results/index.html from results/tables/*.json and renders results/notebooks/*.ipynb; returns its path.

    A damaged file is left out and named on the page; UserError names it too, once the page is written.
    """
    damaged: list[str] = []
    sections = ordered(_sound(_section, sorted(results.glob("tables/*.json")), damaged).values())
    notebooks = {p.stem: p for p in sorted(results.glob("notebooks/*.ipynb"))}
    rendered = _sound(render_notebook, list(notebooks.values()), damaged)
    failed = {p.stem for p in rendered if _failed(p)}
    finished = {s.stem for s in sections}
    columns, groups = matrix(sections)
    page = results / "index.html"
    shown: dict[str, Any] = {
        "sections": [_view(s, results, s.stem in failed) for s in sections],
        "contents": contents(sections),
        "columns": columns,
        "groups": groups,
        "unfinished": [(p.stem, _relative(html, results)) for p, html in rendered.items() if p.stem not in finished],
        "damaged": damaged,
    }
    write_text(page, render("index.html.j2", **shown))
    if damaged:
        raise UserError(f"{'; '.join(damaged)} ({page} shows the rest)")
    return page


def _sound(read: Callable[[Path], T], paths: Sequence[Path], damaged: list[str]) -> dict[Path, T]:
    """path -> what was read of it; what a damaged one is told about it goes into `damaged`."""
    found = {}
    for path in paths:
        try:
            found[path] = read(path)
        except UserError as e:
            damaged.append(str(e))
    return found


def _section(path: Path) -> Section:
    try:
        stored = json.loads(path.read_text("utf8"))
        made = Section(**stored | {"parts": dict(stored["parts"]), "figures": dict(stored["figures"])})
        texts = [made.stem, made.heading, *made.parts.values(), *made.findings, *made.figures.values(), *made.tables]
        if not all(isinstance(t, str) for t in texts) or not isinstance(made.provenance, dict):
            raise TypeError("a field of another type")
        if made.summary and not all(len(pair) == 2 for pair in made.summary.values()):
            raise ValueError("a summary without colours")
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as e:
        raise UserError(f"{path} is damaged or of another version; delete it and run its notebook again") from e
    return made


def _view(section: Section, results: Path, failed: bool) -> dict[str, Any]:
    """What the template prints of a section: only links to files that exist."""
    stem, page = section.stem, results / "notebooks" / f"{section.stem}.html"
    files = [(_label(t, stem), _links([results / "tables" / f"{t}.{s}" for s in TABLE], results)) for t in section.tables]
    figures = []
    for name, caption in section.figures.items():
        png, pdf = paths = [results / "figures" / f"{stem}.{name}.{suffix}" for suffix in ("png", "pdf")]
        if png.exists() and pdf.exists():
            figures.append({"png": _relative(png, results), "caption": caption, "size": _size(png)})
            files.append((f"figure {name.replace('_', ' ')}", _links(paths[::-1], results)))
    return {
        **{k: getattr(section, k) for k in ("stem", "heading", "findings", "parts")},
        "figures": figures,
        "page": _relative(page, results) if page.exists() else "",
        "files": [(label, links) for label, links in files if links],
        "provenance": json.dumps(section.provenance, indent=1, sort_keys=True),
        "failed": failed,
    }


def _links(paths: Sequence[Path], results: Path) -> list[tuple[str, str]]:
    """(kind, place) of the files that exist."""
    return [(KINDS[p.suffix[1:]], _relative(p, results)) for p in paths if p.exists()]


def _label(name: str, stem: str) -> str:
    return f"table {name.removeprefix(stem).lstrip('.').replace('_', ' ')}".strip()


def _size(png: Path) -> tuple[int, int] | None:
    """Width and height in pixels, so that the page does not move while its pictures load; None where it is no PNG."""
    with png.open("rb") as file:
        head = file.read(24)
    return struct.unpack(">II", head[16:]) if head.startswith(b"\x89PNG") and len(head) == 24 else None


def render_notebook(ipynb: Path) -> Path:
    """An executed notebook as one HTML file beside it, without network, scripts or progress bars; returns its path.

    The page carries the digest of what it shows and is left alone while that stays the same.
    """
    target, notebook = ipynb.with_suffix(".html"), _read(ipynb)
    mark = f"rendered from {digest(ipynb.read_text('utf8'), *(p.read_text('utf8') for p in _templates()))}"
    if target.exists() and mark in target.read_text("utf8"):
        return target
    from nbconvert import HTMLExporter  # here, since its import takes longer than all that is unchanged
    from pygments.formatters import HtmlFormatter

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
