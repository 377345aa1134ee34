"""What a reader opens: results/index.html, and results/site/ with a page an experiment, a study and a task.

Built from stored sections and rows alone; opens from disk without a network. Same results, same bytes.
"""

import base64
import io
import json
import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from markupsafe import Markup
from pydantic import TypeAdapter

from pkg_lib.analysis import leaderboard
from pkg_lib.analysis.contents import Page, Section, items, pages
from pkg_lib.analysis.tables import TEMPLATES, render, single
from pkg_lib.core.limits import MAX_TEXT_BYTES
from pkg_lib.core.reading import Damaged, contents, open_regular, parse, read_text
from pkg_lib.core.store import advice_for, page_text, write_json, write_text
from pkg_lib.core.types import UserError, digest
from pkg_lib.data.benchmarks import title_of
from pkg_lib.retrieval.methods import METHODS

ANSWER = "what_helps"  # the notebook whose first finding leads the first page
FAILED = "<!-- stopped with an error -->"
T = TypeVar("T")
# Writes the pages of tasks below site/tasks/: (page's name -> its grid of verdicts, the files that belong).
Tasks = Callable[[Path, Sequence[Page]], tuple[dict[str, Any], set[Path]]]


def save_section(results: Path, section: Section) -> Path:
    """Writes results/tables/STEM.json; write it last, it marks the section as complete."""
    path = results / "tables" / f"{section.stem}.json"
    pairs = {"parts": list(section.parts.items()), "figures": list(section.figures.items())}
    write_json(path, asdict(section) | pairs)
    return path


def build_report(results: Path, tasks: Tasks | None = None) -> Path:
    """Builds results/index.html, results/site/, the leaderboard and the pages of results/notebooks/.

    UserError names what is damaged and left out, once the rest is written.
    """
    damaged: list[str] = []
    index = results / "index.html"
    sections = _sound(_section, sorted(results.glob("tables/*.json")), damaged).values()
    site, back = pages(sections), {s.stem: (s.page, s.notebook) for s in sections}
    notebooks = sorted(results.glob("notebooks/*.ipynb"))
    rendered = _sound(lambda p: render_notebook(p, back.get(p.stem)), notebooks, damaged)
    failed = {p.stem for p, html in rendered.items() if FAILED in page_text(html)}
    # A damaged row leaves the pages of tasks as they are.
    written = _sound(lambda p: tasks(p, site), [results], damaged) if tasks else {}
    grids, files = written.get(results, ({}, set((results / "site" / "tasks").rglob("*.html"))))
    benchmarks = sorted(p.parent.name for p in files if p.name == "index.html")
    shared = {"pages": site, "tasks": [(b, title_of(b)) for b in benchmarks], "failed": failed}
    _sound(leaderboard.write, [results], damaged)
    shared["exists"] = lambda path: (results / path).exists()
    for page in site:
        views = [_view(s, results, site) for s in page.sections]
        about = {"root": "../", "here": page, "sections": views, "grid": grids.get(page.name)}
        path = results / "site" / f"{page.name}.html"
        write_text(path, render("sections.html.j2", **about, **shared))
        files.add(path)
    for name in ("report.css", "report.js"):
        write_text(results / "site" / name, (TEMPLATES / name).read_text("utf8"))
    pages_there = (p for p in (results / "site").rglob("*.html") if p.is_file())
    for stale in set(pages_there) - files:
        stale.unlink()
    against = [(p, row) for p in site if p.about and (row := _differences(results, p, damaged))]
    rates = [(p, s) for p in site for s in p.sections if s.summary]
    first = {
        "root": "",
        "here": None,
        "answers": [
            (p, s.findings[0]) for p in site for s in p.sections if s.stem == ANSWER and s.findings
        ],
        "rates": rates,
        "columns": [c for c in METHODS if any(c in s.summary for _, s in rates)],
        "against": against,
        "ranked": sorted(
            ((d, c, p) for p, row in against for c, d in row.items()), key=lambda end: end[:2]
        ),
        "papers": [(item, item.link(site)) for item in items()],
        "damaged": damaged,
        "unfinished": [
            (p.stem, f"notebooks/{h.name}") for p, h in rendered.items() if p.stem not in back
        ],
    }
    write_text(index, render("index.html.j2", **first, **shared))
    if damaged:
        raise UserError(f"{'; '.join(damaged)} ({index} shows the rest)")
    return index


def _differences(results: Path, page: Page, damaged: list[str]) -> dict[str, float]:
    """retrieval column -> points against None where measured, of the page's stored table of rates."""
    differences: dict[str, float] = {}
    paths = [results / "tables" / f"{s.stem}.csv" for s in page.sections if s.summary]
    for table in _sound(_rates, [p for p in paths if os.path.lexists(p)], damaged).values():
        differences |= table
    return differences


def _rates(path: Path) -> dict[str, float]:
    """method -> percentage points against None, as a notebook wrote them."""
    try:
        rows = pd.read_csv(io.StringIO(read_text(path, advice_for))).dropna(
            subset="difference_points"
        )
        ours = rows[
            rows["source"].str.startswith("This study") & rows["method"].isin(single(METHODS))
        ]
        return dict(zip(ours["method"], ours["difference_points"].astype(float), strict=True))
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise Damaged.of(path, "it is no table of rates", None, advice_for) from e


def _sound(read: Callable[[Path], T], paths: Sequence[Path], damaged: list[str]) -> dict[Path, T]:
    """path -> what was read of it; what a damaged one is told about it goes into `damaged`."""
    contents = {}
    for path in paths:
        try:
            contents[path] = read(path)
        except UserError as e:
            damaged.append(str(e))
    return contents


def _section(path: Path) -> Section:
    """The section with those of its figures that are there."""
    try:
        section = TypeAdapter(Section).validate_json(contents(path, advice_for, MAX_TEXT_BYTES))
    except (ValueError, TypeError) as e:
        raise Damaged.of(
            path, "it is no section of the report, or too old", None, advice_for
        ) from e
    stem = path.parents[1] / "figures" / section.stem
    there = {
        n for n in section.figures if all(Path(f"{stem}.{n}.{s}").is_file() for s in ("pdf", "png"))
    }
    return replace(section, figures={n: c for n, c in section.figures.items() if n in there})


def _view(section: Section, results: Path, site: Sequence[Page]) -> dict[str, Any]:
    """What the template prints of a section beside its own fields."""
    others = [
        (p, s)
        for p in site
        for s in p.sections
        if s.notebook == section.notebook and s is not section
    ]
    pngs = {name: results / "figures" / f"{section.stem}.{name}.png" for name in section.figures}
    return {
        "section": section,
        "items": [i for i in items() if i.shown_by(section)],
        "elsewhere": others,
        "sizes": {name: _size(png) for name, png in pngs.items()},
        "provenance": json.dumps(section.provenance, indent=1, sort_keys=True),
    }


def _size(png: Path) -> tuple[int, int] | None:
    """Width and height in pixels, so that the page does not move while it loads; None where it is no PNG."""
    with open_regular(png) as file:
        head = file.read(24)
    return (
        struct.unpack(">II", head[16:]) if head.startswith(b"\x89PNG") and len(head) == 24 else None
    )


def render_notebook(ipynb: Path, back: tuple[str, str] | None = None) -> Path:
    """An executed notebook as a page beside it, without network or scripts; returns its path.

    `back`: page and id of its section. It is left alone while the digest of what it shows stays the same.
    """
    target = ipynb.with_suffix(".html")
    pictures = sorted((ipynb.parents[1] / "figures").glob(f"{ipynb.stem}.*.png"))
    pictures = [p for p in pictures if p.is_file()]
    figures = {base64.b64encode(p.read_bytes()).decode(): p.name for p in pictures}
    source = read_text(ipynb, advice_for)
    templates = (p.read_text("utf8") for p in sorted(TEMPLATES.glob("*")))
    mark = f"rendered from {digest(source, *templates, *figures, *(back or ()))}"
    if mark in page_text(target):
        return target
    import nbformat  # here, since its and nbconvert's imports take longer than all that is unchanged
    from nbconvert import HTMLExporter
    from pygments.formatters import HtmlFormatter

    try:
        parse(source.encode())
        notebook = nbformat.reads(source, as_version=4)
        nbformat.validate(notebook)
    except (
        ValueError,
        KeyError,
        AttributeError,
        TypeError,
        RecursionError,
        nbformat.ValidationError,
    ) as e:
        raise Damaged.of(ipynb, "it is not a notebook", None, advice_for) from e
    failed = any(o.output_type == "error" for c in notebook.cells for o in c.get("outputs", []))
    looks = {"template_name": "basic", "template_file": str(TEMPLATES / "executed.html.j2")}
    exporter = HTMLExporter(**looks, exclude_anchor_links=True)
    body, _ = exporter.from_notebook_node(notebook, {"figures": figures})
    highlight = HtmlFormatter(style="default").get_style_defs(".highlight")
    values = {"title": ipynb.stem, "source": ipynb.name, "mark": mark, "back": back, "root": "../"}
    values |= {
        "body": Markup(body),
        "highlight": Markup(highlight),
        "failed": FAILED if failed else "",
    }
    write_text(target, render("notebook.html.j2", **values))
    return target
