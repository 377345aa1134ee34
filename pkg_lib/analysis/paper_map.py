"""Where each table and figure of the papers stands in the report: paper_items.csv against the sections that there are."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from pkg_lib.analysis.contents import Page, anchor
from pkg_lib.analysis.tables import TITLES
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
    """One line of paper_items.csv: `place` is a part's heading or a figure's name in the notebook's section."""

    paper: str
    item: str
    about: str
    notebook: str
    place: str
    benchmark: str

    def shown_by(self, section: Any) -> bool:
        return section.notebook == self.notebook and self.benchmark in (
            "",
            section.provenance.get("benchmark"),
        )

    @property
    def waits_for(self) -> str:
        """Which notebook would show it."""
        on = f" on {TITLES[self.benchmark]}" if self.benchmark else ""
        return f"notebook {self.notebook}{on}"


def items() -> list[Item]:
    with TABLE.open(encoding="utf8", newline="") as file:
        return [Item(**row) for row in csv.DictReader(file)]


def places(item: Item, pages: Sequence[Page]) -> list[tuple[Page, str]]:
    """(page, id on it) of every section that shows the item; first with the contexts that the paper's authors retrieved.

    A section that lacks the part or figure, which then was not measured in it, is itself the place.
    """
    first = sorted(pages, key=lambda p: p.about is not None and p.about[2] != PUBLISHED)
    return [(page, _spot(item, s)) for page in first for s in page.sections if item.shown_by(s)]


def _spot(item: Item, section: Any) -> str:
    part = (
        item.place
        if item.place in section.parts
        else f"figure {item.place}"
        if item.place in section.figures
        else ""
    )
    return anchor(section, part)


def paper_map(pages: Sequence[Page]) -> list[tuple[str, list[tuple[Item, list[tuple[Page, str]]]]]]:
    """(paper, [(item, its places)]) in the papers' order."""
    groups = groupby(items(), key=lambda i: i.paper)
    return [(PAPERS[paper], [(i, places(i, pages)) for i in group]) for paper, group in groups]
