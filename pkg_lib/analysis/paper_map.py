"""Where each table and figure of the papers stands in the report: paper_items.csv and the sections."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from pkg_lib.analysis.contents import Page, Section
from pkg_lib.data.benchmarks import title_of
from pkg_lib.data.corpora import PUBLISHED

TABLE = Path(__file__).with_name("paper_items.csv")
PAPERS = {
    "PKG": "PKG paper, tables",
    "PKG figures": "PKG paper, figures",
    "cAST": "cAST paper",
    "DKB": "DKB paper",
}


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
        return section.notebook == self.notebook and section.provenance.get("benchmark") == benchmark

    @property
    def waits_for(self) -> str:
        """Which notebook would show it."""
        return f"notebook {self.notebook}" + (f" on {title_of(self.benchmark)}" if self.benchmark else "")

    def link(self, pages: Sequence[Page]) -> tuple[Page, str] | None:
        """The page that shows it, that of the authors' contexts first, and the id of the place on it.

        A section that lacks the part or figure is itself the place.
        """
        shown = [(p, s) for p in pages for s in p.sections if self.shown_by(s)]
        if not shown:
            return None
        page, section = min(shown, key=lambda pair: bool(pair[0].about) and pair[0].about[2] != PUBLISHED)
        figure = f"figure {self.place}" if self.place in section.figures else ""
        return page, section.anchor(self.place if self.place in section.parts else figure)


def items() -> list[Item]:
    with TABLE.open(encoding="utf8", newline="") as file:
        return [Item(**row) for row in csv.DictReader(file)]


def paper_map(pages: Sequence[Page]) -> list[tuple[str, list[tuple[Item, tuple[Page, str] | None]]]]:
    """(paper, [(item, where it is shown)]) in the papers' order."""
    groups = groupby(items(), key=lambda i: i.paper)
    return [(PAPERS[paper], [(i, i.link(pages)) for i in group]) for paper, group in groups]
