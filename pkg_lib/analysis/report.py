"""The report: results/index.html, and results/site/ with a page per experiment, analysis and task.

It is built only from stored sections and rows, and opens from disk without a network. The same
results give the same bytes.
"""

import base64
import io
import json
import math
import os
import re
import struct
from collections.abc import (
    Callable,
    Iterable,
    Sequence,
)
from dataclasses import asdict, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pandas as pd
from markupsafe import Markup, escape
from pydantic import TypeAdapter

from pkg_lib import RELEASED, __version__
from pkg_lib.analysis import documentation_pages, leaderboard
from pkg_lib.analysis.contents import (
    Page,
    PaperItem,
    Section,
    items,
    pages,
    papers_benchmarks,
    short_models,
    texts_of,
)
from pkg_lib.analysis.stats import ALPHA
from pkg_lib.analysis.tables import (
    DASH,
    TEMPLATES,
    render,
    single,
    table_order,
)
from pkg_lib.core.limits import MAX_TEXT_BYTES
from pkg_lib.core.reading import (
    DamagedFileError,
    contents,
    open_regular,
    parse,
    read_text,
)
from pkg_lib.core.store import (
    advice_for,
    page_text,
    write_json,
    write_text,
)
from pkg_lib.core.types import UserError, digest
from pkg_lib.data.benchmarks import title_of
from pkg_lib.data.corpora import corpus_label
from pkg_lib.retrieval.methods import METHODS

ANSWER = "what_helps"  # The notebook whose first finding leads the first page.
# The notebooks on one paper; the first page shows the first finding of each.
PAPER_NOTEBOOKS = ("claims", "closed_models", "cast", "dkb", "evor")
LEADERBOARD = "leaderboard"  # name of its page
UNREACHABLE = re.compile(r"<pre(?![^>]*tabindex)")
FAILED = "<!-- stopped with an error -->"
RELEASE = f"pkg-lib {__version__} of {RELEASED}"
T = TypeVar("T")
# Writes the pages of tasks below site/tasks/: name of a page -> its table of verdicts; the files
# that belong.
TaskPages = Callable[[Path, Sequence[Page]], tuple[dict[str, Any], set[Path]]]


def save_section(
    results: Path,
    section: Section,
) -> Path:
    """Write results/tables/STEM.json. Write it last: it marks the section as complete.

    Args:
        results: The results directory.
        section: The section.

    Returns:
        Path of the file.
    """
    path = results / "tables" / f"{section.stem}.json"
    fields = asdict(section)
    for name in ("parts", "figures"):
        fields[name] = list(fields[name].items())
    write_json(path, fields)
    return path


def build_report(
    results: Path,
    tasks: TaskPages | None = None,
) -> Path:
    """Build results/index.html, results/site/, the leaderboard and the pages of results/notebooks/.

    Args:
        results: The results directory.
        tasks: Writes the pages of tasks; None leaves them as they are.

    Returns:
        Path of the first page.

    Raises:
        UserError: A file is damaged. The report is complete except for the damaged files, which are
            named.
    """
    report = _Report(results)
    report.build(tasks)
    if report.damaged:
        raise UserError(f"{'; '.join(report.damaged)} ({report.index} shows the rest)")
    return report.index


class RetrievalEffect(NamedTuple):
    """A retrieval method against no retrieval in one experiment.

    Attributes:
        difference: Percentage points of pass@1 on the tasks measured with both.
        p_corrected: Its p-value, corrected over the methods of the experiment; NaN if not known.
    """

    difference: float
    p_corrected: float


class _Report:
    """The parts of the report; `damaged` collects one message per damaged file."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.index = results / "index.html"
        self.site = results / "site"
        self.damaged: list[str] = []
        section_files = sorted(results.glob("tables/*.json"))
        sections = self._read_all(_read_section, section_files).values()
        self.pages = pages(sections)
        places = {section.stem: (section.page, section.notebook) for section in sections}
        notebook_files = sorted(results.glob("notebooks/*.ipynb"))
        notebooks = self._read_all(
            lambda path: render_notebook(path, places.get(path.stem)), notebook_files
        )
        self.failed = {p.stem for p, page in notebooks.items() if FAILED in page_text(page)}
        self.unfinished = [
            (path.stem, f"notebooks/{page.name}")
            for path, page in notebooks.items()
            if path.stem not in places
        ]

    def _read_all(
        self,
        read: Callable[[Path], T],
        paths: Iterable[Path],
    ) -> dict[Path, T]:
        """Path -> what was read of it, without the damaged files."""
        found = {}
        for path in paths:
            try:
                found[path] = read(path)
            except UserError as e:
                self.damaged.append(str(e))
        return found

    def build(self, tasks: TaskPages | None) -> None:
        """Write all pages and delete those that no longer belong to the report."""
        # Damaged rows leave the pages of tasks as they are.
        grids: dict[str, Any] = {}
        files = set((self.site / "tasks").rglob("*.html"))
        if tasks:
            written = self._read_all(lambda path: tasks(path, self.pages), [self.results])
            grids, files = written.get(self.results, (grids, files))
        benchmarks = sorted(p.parent.name for p in files if p.name == "index.html")
        board = self._read_all(leaderboard.write, [self.results])
        entries = leaderboard.entries(self.results) if board else []
        repository = self.results.parent
        is_checkout = (repository / "pkg_lib" / "__init__.py").exists()
        if is_checkout:
            files |= documentation_pages.build(repository, self.site, RELEASE)
        shared = {
            "place": "",
            "has_leaderboard": bool(entries),
            "pages": self.pages,
            "tasks": [(name, title_of(name)) for name in benchmarks],
            "failed": self.failed,
            "exists": lambda path: (self.results / path).exists(),
            "release": RELEASE,
            "documentation": documentation_pages.links("site/") if is_checkout else {},
        }
        for page in self.pages:
            path = self.site / f"{page.name}.html"
            views = [self._view(section) for section in page.sections]
            grid = grids.get(page.name)
            text = render(
                "sections.html.j2",
                root="../",
                here=page,
                sections=views,
                grid=grid,
                **shared,
            )
            write_text(path, text)
            files.add(path)
        if entries:
            path = self.site / f"{LEADERBOARD}.html"
            leaderboard_values = shared | {"place": "Leaderboard"}
            text = render(
                "leaderboard.html.j2",
                root="../",
                here=None,
                entries=entries,
                groups=_by_benchmark(entries),
                terms=_terms_of(entries),
                **leaderboard_values,
            )
            write_text(path, text)
            files.add(path)
        for name in ("report.css", "report.js"):
            write_text(self.site / name, (TEMPLATES / name).read_text("utf8"))
        for path in list(self.site.rglob("*.html")):
            if path.is_file() and path not in files:
                path.unlink()
        write_text(self.index, render("index.html.j2", **self._overview(), **shared))

    def _view(self, section: Section) -> dict[str, Any]:
        """Return what the template prints of a section in addition to its fields."""
        elsewhere = [
            (page, other)
            for page in self.pages
            for other in page.sections
            if other.notebook == section.notebook and other is not section
        ]
        parts = []
        part_leads = texts_of("leads")["parts"].get(section.notebook, {})
        for part, html in section.parts.items():
            heading = section.part_heading(part)
            shown = _without_repeated_caption(html, heading)
            lead = [part_leads[part]] if part in part_leads else []
            lead += section.part_findings.get(part, [])
            parts.append((section.anchor(part), heading, lead, shown, section.figures_of(part)))
        sizes = {}
        for name in section.figures:
            sizes[name] = _size(self.results / "figures" / f"{section.stem}.{name}.png")
        return {
            "section": section,
            "parts": parts,
            "items": _items_by_paper(section),
            "elsewhere": elsewhere,
            "terms": _terms_of_section(section),
            "sizes": sizes,
            "provenance": json.dumps(section.provenance, indent=1, sort_keys=True),
        }

    def _overview(self) -> dict[str, Any]:
        """Return what the template of the first page prints."""
        answers, rates, against, by_paper = [], [], [], []
        compared: list[RetrievalEffect] = []
        for page in self.pages:
            for section in page.sections:
                if section.stem == ANSWER and section.findings:
                    answers.append((page, section.findings[0]))
                if section.notebook in PAPER_NOTEBOOKS and section.findings:
                    introduction = texts_of("leads")[section.notebook][0]
                    by_paper.append((page, f"{introduction} {section.findings[0]}"))
                if section.summary:
                    rates.append((page, section))
            comparisons = self._comparisons(page) if page.about else {}
            if comparisons:
                against.append((page, comparisons))
                compared += comparisons.values()
        p_values = [comparison.p_corrected for comparison in compared]
        models = {page.about.model: page for page in self.pages if page.about}
        columns = _measured([section for _, section in rates])
        return {
            "root": "",
            "here": None,
            "answers": answers,
            "rates": rates,
            "columns": columns,
            "models": short_models(models),
            "methods": _described_methods(columns),
            "corpora": _described(
                "corpora", [page.about.corpus for page in self.pages if page.about]
            ),
            "against": against,
            "has_papers_benchmark": any(_is_papers_benchmark(section) for _, section in rates),
            "differences": sorted(comparison.difference for comparison in compared),
            "significant": None
            if any(map(math.isnan, p_values))
            else sum(p < ALPHA for p in p_values),
            "by_paper": by_paper,
            "papers": self._papers(with_missing=bool(answers)),
            "damaged": self.damaged,
            "unfinished": self.unfinished,
        }

    def _papers(self, with_missing: bool) -> list[tuple[str, list[Any], list[PaperItem]]]:
        """Each paper with its items and their places, and with its items that are not measured.

        A paper of which nothing is measured is left out, and a user's own study names no item that is
        not measured: nobody asked for these.
        """
        papers = []
        for paper, paper_items in groupby(items(), attrgetter("paper")):
            shown = []
            missing = []
            for item in paper_items:
                places = item.links(self.pages)
                if places:
                    shown.append((item, places))
                elif with_missing:
                    missing.append(item)
            if shown:
                papers.append((paper, shown, missing))
        return papers

    def _comparisons(self, page: Page) -> dict[str, RetrievalEffect]:
        """Retrieval method -> its comparison with the baseline, from the stored tables."""
        stems = [section.stem for section in page.sections if section.summary]
        paths = [self.results / "tables" / f"{stem}.csv" for stem in stems]
        present = [path for path in paths if os.path.lexists(path)]
        comparisons: dict[str, RetrievalEffect] = {}
        for table in self._read_all(_read_comparisons, present).values():
            comparisons |= table
        return comparisons


def _is_papers_benchmark(section: Section) -> bool:
    """Whether a section is about a benchmark that a paper measures."""
    return section.provenance.get("benchmark") in papers_benchmarks()


def _by_benchmark(entries: Iterable[leaderboard.Entry]) -> dict[str, list[leaderboard.Entry]]:
    """Title of a benchmark -> its rows, both in the order of the entries."""
    groups: dict[str, list[leaderboard.Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.benchmark, []).append(entry)
    return groups


def _items_by_paper(section: Section) -> list[tuple[str, list[str]]]:
    """List the papers' tables and figures that a section shows.

    Returns:
        Paper, such as "PKG paper, first version", and its items, such as "Table 1". The papers' items
        are listed as tables and figures apart; here they are together.
    """
    shown: dict[str, list[str]] = {}
    for item in items():
        if item.shown_by(section):
            paper = item.paper.removesuffix(", tables").removesuffix(", figures")
            shown.setdefault(paper, []).append(item.item)
    return list(shown.items())


def _without_repeated_caption(html: str, heading: str) -> str:
    """Hide the caption of a table that says the same as the heading above it."""
    caption = f"<caption><span>{escape(heading)}</span></caption>"
    return html.replace(caption, caption.replace("<caption>", "<caption hidden>"), 1)


def _described(kind: str, names: Iterable[str]) -> dict[str, str]:
    """Label -> description of those methods or corpora that terms.toml describes."""
    known = texts_of("terms")[kind]
    present = set(names)
    return {corpus_label(name): text for name, text in known.items() if name in present}


def _described_methods(names: Iterable[str]) -> dict[str, str]:
    """Method -> its description, in the order of the tables. Those of a user's plugins have no other one."""
    known = _described("methods", names)
    return {name: known.get(name, "a method of a plugin (PKG_PLUGINS)") for name in names}


def _terms_of_section(section: Section) -> dict[str, str]:
    """Term -> its meaning, of the terms that a section explains.

    A section with a table of pass@1 explains its methods and its corpus.
    """
    terms: dict[str, str] = texts_of("terms")["pages"].get(section.notebook, {})
    if section.summary and section.about:
        methods = _described_methods(section.summary)
        corpora = _described("corpora", [section.about.corpus])
        of_corpora = {f"Corpus {name}": text for name, text in corpora.items()}
        terms = methods | of_corpora | terms
    return terms


def _terms_of(entries: Sequence[leaderboard.Entry]) -> list[tuple[str, list[tuple[str, str]]]]:
    """List what terms.toml says of the names in the leaderboard.

    Args:
        entries: The rows of the leaderboard.

    Returns:
        Heading, and name and description of each term, by kind.
    """
    methods = {entry.method for entry in entries}
    names = {
        "methods": methods,
        "variants": methods,
        "corpora": {entry.corpus for entry in entries},
        "benchmarks": {entry.benchmark for entry in entries},
    }
    known = texts_of("terms")
    terms = []
    for kind, present in names.items():
        kind_terms = []
        for term, text in known[kind].items():
            label = corpus_label(term) if kind == "corpora" else term
            if any(label in name for name in present):
                kind_terms.append((label, text))
        if kind_terms:
            terms.append((kind.capitalize(), kind_terms))
    return terms


def _measured(sections: Iterable[Section]) -> list[str]:
    """The methods that have a rate in any of the sections, in the order of the tables."""
    methods = set()
    for section in sections:
        for method, (text, _) in section.summary.items():
            if text != DASH:
                methods.add(method)
    return [method for method in table_order() if method in methods]


def _read_comparisons(path: Path) -> dict[str, RetrievalEffect]:
    """Retrieval method -> its comparison with the baseline, as a notebook wrote it."""
    try:
        rows = pd.read_csv(io.StringIO(read_text(path, advice_for)))
        rows = rows.dropna(subset="difference_points")
        is_ours = rows["source"].str.startswith("This study")
        ours = rows[is_ours & rows["method"].isin(single(METHODS))]
        ours = ours.set_index("method").reindex(columns=["difference_points", "p_corrected"])
        return {
            method: RetrievalEffect(*values) for method, *values in ours.astype(float).itertuples()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise DamagedFileError.of(path, "it is not a table of pass@1", None, advice_for) from e


def _read_section(path: Path) -> Section:
    """The section with those of its figures whose files exist."""
    try:
        section = TypeAdapter(Section).validate_json(contents(path, advice_for, MAX_TEXT_BYTES))
    except (ValueError, TypeError) as e:
        why = "it is not a section of the report, or too old"
        raise DamagedFileError.of(path, why, None, advice_for) from e
    figures = {}
    for name, caption in section.figures.items():
        stem = path.parents[1] / "figures" / f"{section.stem}.{name}"
        if all(Path(f"{stem}.{suffix}").is_file() for suffix in ("pdf", "png")):
            figures[name] = caption
    return replace(section, figures=figures)


def _size(png: Path) -> tuple[int, int] | None:
    """Width and height in pixels, so that the page does not move while it loads."""
    with open_regular(png) as file:
        head = file.read(24)
    if not head.startswith(b"\x89PNG") or len(head) < 24:
        return None
    width, height = struct.unpack(">II", head[16:])
    return width, height


def render_notebook(
    ipynb: Path,
    back: tuple[str, str] | None = None,
) -> Path:
    """Write an executed notebook as a page beside it, without network or scripts.

    The page is not changed while the digest of what it shows stays the same.

    Args:
        ipynb: The notebook.
        back: Page and id of its section in the report.

    Returns:
        Path of the page.

    Raises:
        UserError: The file is not a notebook, or cannot be read.
    """
    page = ipynb.with_suffix(".html")
    figures = {}
    for png in sorted((ipynb.parents[1] / "figures").glob(f"{ipynb.stem}.*.png")):
        if png.is_file():
            figures[base64.b64encode(png.read_bytes()).decode()] = png.name
    source = read_text(ipynb, advice_for)
    templates = [path.read_text("utf8") for path in sorted(TEMPLATES.glob("*"))]
    fingerprint = f"rendered from {digest(source, RELEASE, *templates, *figures, *(back or ()))}"
    if fingerprint in page_text(page):
        return page
    text = render(
        "notebook.html.j2",
        title=ipynb.stem,
        source=ipynb.name,
        mark=fingerprint,
        back=back,
        root="../",
        release=RELEASE,
        **_export(ipynb, source, figures),
    )
    write_text(page, text)
    return page


def _export(
    ipynb: Path,
    source: str,
    figures: dict[str, str],
) -> dict[str, str]:
    """Convert a notebook for the template; `figures`: picture in base64 -> its file."""
    # Imported here, since these take longer than everything else for notebooks that did not change.
    import nbformat
    from nbconvert import HTMLExporter
    from nbformat import ValidationError
    from pygments.formatters import HtmlFormatter

    try:
        parse(source.encode())
        notebook = nbformat.reads(source, as_version=4)
        nbformat.validate(notebook)
    except (
        ValueError,
        LookupError,
        AttributeError,
        TypeError,
        RecursionError,
        ValidationError,
    ) as e:
        raise DamagedFileError.of(ipynb, "it is not a notebook", None, advice_for) from e
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    exporter = HTMLExporter(
        template_name="basic",
        template_file=str(TEMPLATES / "executed.html.j2"),
        exclude_anchor_links=True,
    )
    body, _ = exporter.from_notebook_node(notebook, {"figures": figures})
    # Long lines scroll sideways; the keyboard can scroll only what it can reach.
    body = UNREACHABLE.sub('<pre tabindex="0"', body)
    failed = any(output.output_type == "error" for output in outputs)
    highlight = HtmlFormatter(style="default").get_style_defs(".highlight")
    return {
        "body": Markup(body),
        "highlight": Markup(highlight),
        "failed": FAILED if failed else "",
    }
