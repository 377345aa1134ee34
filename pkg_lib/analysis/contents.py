"""What the report shows, in order: sections, a page an experiment or a study, the items of the papers."""

import csv
import re
from collections.abc import Iterable
from dataclasses import field
from itertools import groupby
from typing import Annotated, Any

from pydantic import BeforeValidator
from pydantic.dataclasses import dataclass

from pkg_lib.analysis.tables import HERE
from pkg_lib.data.benchmarks import title_of
from pkg_lib.data.corpora import PUBLISHED

# Stored as a list of pairs: a JSON object with sorted keys would not keep their order.
Named = Annotated[dict[str, str], BeforeValidator(dict)]


@dataclass(frozen=True)
class Section:
    """One notebook's part of the report."""

    stem: str  # what its files start with
    heading: str
    parts: Named  # heading ("" for none) -> HTML
    findings: list[str]
    figures: Named  # name -> caption of STEM.NAME.png and .pdf
    provenance: dict[str, Any]
    summary: dict[str, tuple[str, str]] = field(
        default_factory=dict
    )  # column -> text and colour of its rate
    tables: list[str] = field(
        default_factory=list
    )  # names of the files in tables/, without their suffix

    @property
    def notebook(self) -> str:
        """Its notebook's name, which is its id on its page."""
        return self.stem.rpartition(".")[2]

    @property
    def about(self) -> tuple[str, str, str, str] | None:
        """Benchmark, model, corpus and tasks as they are shown; None where it is not about one experiment."""
        benchmark, model, corpus = (
            self.provenance.get(n) for n in ("benchmark", "model", "corpus")
        )
        if not (benchmark and model and corpus):
            return None
        return title_of(benchmark), model, corpus, str(self.provenance.get("tasks", ""))

    @property
    def title(self) -> str:
        """Its experiment in words, as headings of sections end with it; "" without one."""
        if not self.about:
            return ""
        benchmark, model, corpus, tasks = self.about
        return f"{model}, {benchmark}{f' ({tasks} tasks)' if tasks else ''}, corpus {corpus}"

    @property
    def short(self) -> str:
        """The heading without the experiment."""
        return self.heading.removesuffix(self.title).rstrip(" :,") or "pass@1"

    @property
    def page(self) -> str:
        """Its page's name: that of the experiment (the first N tasks are another one), or its own."""
        return self.stem.rpartition(".")[0] if self.about else self.stem

    def anchor(self, part: str) -> str:
        """The id of a part on its page, of "figure NAME", or of the section itself for ""."""
        return (
            f"{self.notebook}.{re.sub(r'[^a-z0-9]+', '-', part.lower())}" if part else self.notebook
        )


@dataclass(frozen=True)
class Page:
    """One page of the site: NAME.html in results/site/. In the navigation `label` stands below `group`."""

    name: str
    title: str
    group: str
    label: str
    sections: list[Section]

    @property
    def about(self) -> tuple[str, str, str, str] | None:
        return self.sections[0].about


def pages(sections: Iterable[Section]) -> list[Page]:
    """The pages in the order of the navigation: experiments, their tables of rates first; then studies."""
    ordered = sorted(
        sections,
        key=lambda s: (not s.about, s.about or (s.heading,), s.page, not s.summary, s.heading),
    )
    return [_page(name, list(group)) for name, group in groupby(ordered, key=lambda s: s.page)]


def _page(name: str, sections: list[Section]) -> Page:
    first = sections[0]
    if not first.about:
        return Page(name, first.heading, "Studies", first.heading, sections)
    benchmark, model, corpus, tasks = first.about
    limited = f" ({tasks} tasks)" if re.search(r"\.first\d+$", name) else ""
    return Page(name, first.title, f"{benchmark}, {model}", corpus + limited, sections)


@dataclass(frozen=True)
class Item:
    """One line of paper_items.csv: `place` is a part's heading or a figure's name."""

    paper: str
    item: str
    about: str
    notebook: str
    place: str
    benchmark: str

    def shown_by(self, section: Section) -> bool:
        benchmark = self.benchmark or section.provenance.get("benchmark")
        return (
            section.notebook == self.notebook and section.provenance.get("benchmark") == benchmark
        )

    @property
    def waits_for(self) -> str:
        """Which notebook would show it."""
        return f"notebook {self.notebook}" + (
            f" on {title_of(self.benchmark)}" if self.benchmark else ""
        )

    def link(self, pages: Iterable[Page]) -> tuple[Page, str] | None:
        """The page that shows it, that of the authors' contexts first, and the id of the place on it."""
        shown = [(p, s) for p in pages for s in p.sections if self.shown_by(s)]
        if not shown:
            return None
        page, section = min(
            shown, key=lambda pair: bool(pair[0].about) and pair[0].about[2] != PUBLISHED
        )
        figure = f"figure {self.place}" if self.place in section.figures else ""
        return page, section.anchor(self.place if self.place in section.parts else figure)


def items() -> list[Item]:
    """All of them, in the papers' order."""
    with (HERE / "paper_items.csv").open(encoding="utf8", newline="") as file:
        return [Item(**row) for row in csv.DictReader(file)]
