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
PAPERS = {"PKG": "PKG paper, tables", "PKG figures": "PKG paper, figures"}
PAPERS |= {"cAST": "cAST paper", "DKB": "DKB paper"}


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

    def places(self, pages: Sequence[Page]) -> list[tuple[Page, str]]:
        """(page, id on it) of every section that shows it, first on the authors' contexts.

        A section that lacks the part or figure is itself the place.
        """
        first = sorted(pages, key=lambda p: p.about is not None and p.about[2] != PUBLISHED)
        shown = [(p, s) for p in first for s in p.sections if self.shown_by(s)]
        figure = f"figure {self.place}"
        return [
            (p, s.anchor(self.place if self.place in s.parts else figure if self.place in s.figures else ""))
            for p, s in shown
        ]


def items() -> list[Item]:
    with TABLE.open(encoding="utf8", newline="") as file:
        return [Item(**row) for row in csv.DictReader(file)]


def paper_map(pages: Sequence[Page]) -> list[tuple[str, list[tuple[Item, list[tuple[Page, str]]]]]]:
    """(paper, [(item, its places)]) in the papers' order."""
    groups = groupby(items(), key=lambda i: i.paper)
    return [(PAPERS[paper], [(i, i.places(pages)) for i in group]) for paper, group in groups]
