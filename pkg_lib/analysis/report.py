"""What a reader opens: results/index.html, and behind it results/site/ with a page an experiment, a study and a task.

A notebook leaves one JSON file a section (`save_section`), written last; the pages are built from those files and the stored
rows alone, open from disk without a network, and have the same bytes whenever the results are the same.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import pandas as pd
from markupsafe import Markup

from pkg_lib.analysis.contents import Page, anchor, headline, matrix, ordered, pages, place, short
from pkg_lib.analysis.paper_map import items, paper_map
from pkg_lib.analysis.tables import CHOOSING, render
from pkg_lib.core.store import write_json, write_text
from pkg_lib.core.types import UserError, digest
from pkg_lib.papers.pkg import task_pages

TABLE = ("csv", "tex", "md")
KINDS = {"csv": "CSV", "tex": "LaTeX", "md": "Markdown", "pdf": "PDF", "png": "PNG"}
TEMPLATES = Path(__file__).parent / "templates"
FAILED = "<!-- stopped with an error -->"
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

    @property
    def notebook(self) -> str:
        return self.stem.rpartition(".")[2]


def plain(verdicts: pd.Series) -> dict[str, bool | None]:
    """task id -> verdict, None where not measured."""
    return {str(t): None if pd.isna(v) else bool(v) for t, v in verdicts.items()}


def save_section(results: Path, section: Section) -> Path:
    """Writes results/tables/STEM.json; write it last, it marks the section as complete. TypeError: a summary without names."""
    if not isinstance(section.summary, Mapping):
        raise TypeError(f"the summary of {section.stem} is no mapping of columns")
    path = results / "tables" / f"{section.stem}.json"
    # Lists keep the order of parts and figures; a JSON object with sorted keys would not.
    write_json(
        path,
        asdict(section) | {"parts": list(section.parts.items()), "figures": list(section.figures.items())},
    )
    return path


def build_report(results: Path) -> Path:
    """Builds results/index.html and results/site/ and renders results/notebooks/*.ipynb; returns the path of the first page.

    A damaged file is left out and named on the page; UserError names it too, once the page is written.
    """
    damaged: list[str] = []
    sections = ordered(_sound(_section, sorted(results.glob("tables/*.json")), damaged).values())
    site, back = pages(sections), {s.stem: place(s) for s in sections}
    notebooks = sorted(results.glob("notebooks/*.ipynb"))
    rendered = _sound(lambda p: render_notebook(p, back.get(p.stem)), notebooks, damaged)
    failed = {p.stem for p, html in rendered.items() if FAILED in html.read_text("utf8")}
    found = _sound(lambda p: task_pages.build(p, site, _templates()), [results], damaged).get(results)
    grids, belong = found or ({}, set((results / "site" / "tasks").rglob("*.html")))
    shared = {"pages": site, "tasks": task_pages.indexes(belong)}
    for page in site:
        views = [_view(s, results, s.stem in failed, site) for s in page.sections]
        text = render(
            "sections.html.j2", root="../", here=page, sections=views, grid=grids.get(page.name), **shared
        )
        belong.add(results / "site" / f"{page.name}.html")
        write_text(results / "site" / f"{page.name}.html", text)
    for name in ("report.css", "report.js"):
        write_text(results / "site" / name, (TEMPLATES / name).read_text("utf8"))
    for stale in set((results / "site").rglob("*.html")) - belong:
        stale.unlink()
    unfinished = [(p.stem, _relative(html, results)) for p, html in rendered.items() if p.stem not in back]
    index = results / "index.html"
    first = _first(results, site) | {"papers": paper_map(site), "unfinished": unfinished, "damaged": damaged}
    write_text(index, render("index.html.j2", root="", here=None, **shared, **first))
    if damaged:
        raise UserError(f"{'; '.join(damaged)} ({index} shows the rest)")
    return index


def _first(results: Path, site: Sequence[Page]) -> dict[str, Any]:
    """What the first page shows: the headline, the matrix of rates, the differences to None as a figure."""
    against = [(p, d) for p in site if p.about and (d := _differences(results, p))]
    columns, groups = matrix(site)
    return {"headline": headline(against), "columns": columns, "groups": groups, "against": against}


def _differences(results: Path, page: Page) -> dict[str, float]:
    """retrieval column -> points against None where measured, of the page's table of rates as it is stored."""
    found: dict[str, float] = {}
    for section in (s for s in page.sections if s.summary):
        path = results / "tables" / f"{section.stem}.csv"
        rows = (
            pd.read_csv(path)
            if path.exists()
            else pd.DataFrame(columns=["source", "method", "difference_points"])
        )
        ours = rows[rows["source"].str.startswith("This study")].dropna(subset="difference_points")
        found |= {
            c: d for c, d in zip(ours["method"], ours["difference_points"], strict=True) if c not in CHOOSING
        }
    return found


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
    """The section with those of its figures that are there."""
    try:
        stored = json.loads(path.read_text("utf8"))
        drawn = {
            name: caption
            for name, caption in stored["figures"]
            if all(p.exists() for p in _figure(path, name))
        }
        made = Section(**stored | {"parts": dict(stored["parts"]), "figures": drawn})
        texts = [
            made.stem,
            made.heading,
            *made.parts.values(),
            *made.findings,
            *made.figures.values(),
            *made.tables,
        ]
        if not all(isinstance(t, str) for t in texts) or not isinstance(made.provenance, dict):
            raise TypeError("a field of another type")
        if made.summary and not all(len(pair) == 2 for pair in made.summary.values()):
            raise ValueError("a summary without colours")
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as e:
        raise UserError(
            f"{path} is damaged or of another version; delete it and run its notebook again"
        ) from e
    return made


def _figure(section: Path, name: str) -> list[Path]:
    """PDF and PNG of a figure of the section that is stored as tables/STEM.json."""
    return [section.parents[1] / "figures" / f"{section.stem}.{name}.{suffix}" for suffix in ("pdf", "png")]


def _view(section: Section, results: Path, failed: bool, site: Sequence[Page]) -> dict[str, Any]:
    """What the template prints of a section: only links to files that exist."""
    stem, notebook = section.stem, results / "notebooks" / f"{section.stem}.html"
    files = [
        (_label(t, stem), _links([results / "tables" / f"{t}.{s}" for s in TABLE], results))
        for t in section.tables
    ]
    figures = []
    for name, caption in section.figures.items():
        paths = _figure(results / "tables" / f"{stem}.json", name)
        about = {"png": _relative(paths[1], results), "caption": caption, "size": _size(paths[1])}
        figures.append(about | {"id": anchor(section, f"figure {name}")})
        files.append((f"figure {name.replace('_', ' ')}", _links(paths, results)))
    return {
        **{k: getattr(section, k) for k in ("stem", "heading", "findings")},
        "id": place(section)[1],
        "short": short(section),
        "parts": [(anchor(section, title), title, part) for title, part in section.parts.items()],
        "items": [i for i in items() if i.shown_by(section)],
        "elsewhere": [
            (p, place(s)[1])
            for p in site
            for s in p.sections
            if s is not section and s.notebook == section.notebook
        ],
        "figures": figures,
        "page": _relative(notebook, results) if notebook.exists() else "",
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


def render_notebook(ipynb: Path, back: tuple[str, str] | None = None) -> Path:
    """An executed notebook as a page beside it, without network, scripts or progress bars; returns its path.

    `back`: page and id of its section. Pictures that lie in results/figures/ are linked, others stand in the page. The page
    carries the digest of what it shows and is left alone while that stays the same.
    """
    target = ipynb.with_suffix(".html")
    pictures = sorted((ipynb.parents[1] / "figures").glob(f"{ipynb.stem}.*.png"))
    figures = {base64.b64encode(p.read_bytes()).decode(): p.name for p in pictures}
    sources = (p.read_text("utf8") for p in [ipynb, *_templates()])
    mark = f"rendered from {digest(*sources, *figures, *(back or ()))}"
    if target.exists() and mark in target.read_text("utf8"):
        return target
    from nbconvert import HTMLExporter  # here, since its import takes longer than all that is unchanged
    from pygments.formatters import HtmlFormatter

    notebook = _read(ipynb)
    outputs = [o for c in notebook.cells for o in c.get("outputs", ())]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [
                _linked(o, figures) for o in cell.outputs if o.get("name") != "stderr" and not _is_widget(o)
            ]
    body, _ = HTMLExporter(template_name="basic", exclude_anchor_links=True).from_notebook_node(notebook)
    highlight = HtmlFormatter(style="default").get_style_defs(".highlight")
    values = {
        "title": ipynb.stem,
        "source": ipynb.name,
        "mark": mark,
        "body": Markup(body),
        "highlight": Markup(highlight),
    }
    failed = FAILED if any(o.get("output_type") == "error" for o in outputs) else ""
    write_text(target, render("notebook.html.j2", root="../", back=back, failed=failed, **values))
    return target


def _linked(output: Any, figures: Mapping[str, str]) -> Any:
    """An output whose picture lies in results/figures/ with a link to it in the picture's place."""
    png = output.get("data", {}).get("image/png")
    if png and (name := figures.get(png.replace("\n", ""))):
        about = output.get("metadata", {}).get("image/png", {})
        image = Markup('<img loading="lazy" src="../figures/{}" width="{}" alt="{}">')
        output.data = {
            "text/html": image.format(quote(name), about.get("width", 480), about.get("alt", name))
        }
    return output


def _read(ipynb: Path) -> Any:
    import nbformat

    try:
        notebook = nbformat.read(ipynb, as_version=4)
        nbformat.validate(notebook)
    except (ValueError, KeyError, AttributeError, nbformat.ValidationError) as e:
        raise UserError(
            f"{ipynb} is not a notebook (a run was cut off while it was written?); delete it and run again"
        ) from e
    return notebook


def _templates() -> list[Path]:
    return sorted(TEMPLATES.glob("*"))


def _is_widget(output: Mapping[str, Any]) -> bool:
    return any("widget" in kind for kind in output.get("data", {}))


def _relative(path: Path, results: Path) -> str:
    return path.relative_to(results).as_posix()
