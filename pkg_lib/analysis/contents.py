"""What the report shows, in order: sections as notebooks leave them, a page an experiment, a page a study."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import groupby
from typing import Annotated, Any

from pydantic import BeforeValidator
from pydantic.dataclasses import dataclass

from pkg_lib.analysis.tables import points
from pkg_lib.data.benchmarks import title_of
from pkg_lib.retrieval.columns import COLUMNS

STUDIES = "Studies"
# Stored as a list of pairs: a JSON object with sorted keys would not keep their order.
Named = Annotated[dict[str, str], BeforeValidator(dict)]


@dataclass(frozen=True)
class Section:
    """One notebook's part of the report.

    `stem`: what its files start with; `parts`: heading ("" for none) -> HTML; `figures`: name -> caption of
    STEM.NAME.png and .pdf; `summary`: column -> (text, colour) of a table of rates, for the matrix of
    experiments; `tables`: names of the files in tables/, without their suffix.
    """

    stem: str
    heading: str
    parts: Named
    findings: list[str]
    figures: Named
    provenance: dict[str, Any]
    summary: dict[str, tuple[str, str]] = field(default_factory=dict)
    tables: list[str] = field(default_factory=list)

    @property
    def notebook(self) -> str:
        return self.stem.rpartition(".")[2]

    @property
    def about(self) -> tuple[str, str, str, str] | None:
        """Benchmark, model, corpus and tasks as they are shown; None where it is not about one experiment."""
        benchmark, model, corpus = (self.provenance.get(n) for n in ("benchmark", "model", "corpus"))
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

    @property
    def id(self) -> str:
        """Its id on its page."""
        return self.notebook if self.about else self.stem

    def anchor(self, part: str) -> str:
        """The id of a part on its page, of "figure NAME", or of the section itself for ""."""
        return f"{self.id}.{re.sub(r'[^a-z0-9]+', '-', part.lower())}" if part else self.id


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
        sections, key=lambda s: (not s.about, s.about or (s.heading,), s.page, not s.summary, s.heading)
    )
    return [_page(name, list(group)) for name, group in groupby(ordered, key=lambda s: s.page)]


def _page(name: str, sections: list[Section]) -> Page:
    first = sections[0]
    if not first.about:
        return Page(name, first.heading, STUDIES, first.heading, sections)
    benchmark, model, corpus, tasks = first.about
    limited = f" ({tasks} tasks)" if re.search(r"\.first\d+$", name) else ""
    return Page(name, first.title, f"{benchmark}, {model}", corpus + limited, sections)


def matrix(pages: Iterable[Page]) -> tuple[list[str], list[tuple[str, list[dict[str, Any]]]]]:
    """(columns, [(benchmark and model, rows)]): pass@1 of every experiment.

    A cell is (rate, on how many tasks where some are not measured, colour), from a text as "24.0 (n=467)".
    """
    shown = [(p, s) for p in pages for s in p.sections if s.summary]
    columns = [c for c in COLUMNS if any(c in s.summary for _, s in shown)]

    def row(page: Page, section: Section) -> dict[str, Any]:
        cells = [section.summary.get(c, ("", "")) for c in columns]
        parted = [(*text.rstrip(")").partition(" (n=")[::2], colour) for text, colour in cells]
        return {"page": page, "anchor": section.id, "cells": parted}

    groups = groupby(shown, key=lambda pair: pair[0].group)
    return columns, [(group, [row(*pair) for pair in pairs]) for group, pairs in groups]


def headline(differences: Sequence[tuple[Page, Mapping[str, float]]]) -> str:
    """One sentence on how retrieval compares with None; "" where nothing is compared.

    `differences`: points of pass@1 against None on tasks measured in both, by column, of each experiment's
    page.
    """
    ranked = sorted((d, c, f"{p.label}, {p.group}") for p, row in differences for c, d in row.items())
    if not ranked:
        return ""
    more, fewer = sum(d > 0 for d, *_ in ranked), sum(d < 0 for d, *_ in ranked)
    (low, worst, there), (high, best, here) = ranked[0], ranked[-1]
    return (
        f"Set against no retrieval on the same tasks, {more} of {len(ranked)} retrieval columns in "
        f"{len(differences)} experiments solve more tasks and {fewer} solve fewer: from {points(low / 100)} "
        f"points of pass@1 ({worst}; {there}) to {points(high / 100)} ({best}; {here})."
    )
