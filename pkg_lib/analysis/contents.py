"""How the report is ordered: a page an experiment and a page a study, the matrix of all experiments, the headline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

from pkg_lib.analysis.tables import COLUMNS, TITLES, points
from pkg_lib.core.store import stem

STUDIES = "Studies"


class Placed(Protocol):
    """What is needed of a section to place it."""

    @property
    def stem(self) -> str: ...
    @property
    def heading(self) -> str: ...
    @property
    def provenance(self) -> Mapping[str, Any]: ...
    @property
    def summary(self) -> Mapping[str, Sequence[str]]: ...


@dataclass(frozen=True)
class Page:
    """One page of the site: NAME.html in results/site/. `label` is short and stands below `group` in the navigation."""

    name: str
    title: str
    group: str
    label: str
    sections: list[Any]

    @property
    def about(self) -> tuple[str, str, str, str] | None:
        return experiment(self.sections[0])


def experiment(section: Placed) -> tuple[str, str, str, str] | None:
    """(benchmark, model, corpus, tasks) as they are shown; None for a section that is not about one experiment."""
    named = [section.provenance.get(n) for n in ("benchmark", "model", "corpus")]
    if not all(isinstance(n, str) and n for n in named):
        return None
    benchmark, model, corpus = map(str, named)
    return TITLES.get(benchmark, benchmark), model, corpus, str(section.provenance.get("tasks", ""))


def title(about: tuple[str, str, str, str]) -> str:
    """An experiment in words, as `Experiment.heading` says it."""
    benchmark, model, corpus, tasks = about
    return (
        f"{model}, {benchmark} ({tasks} tasks), corpus {corpus}"
        if tasks
        else f"{model}, {benchmark}, corpus {corpus}"
    )


def ordered(sections: Iterable[Placed]) -> list[Any]:
    """By experiment, its table of rates first; then what is about no single experiment."""
    return sorted(
        sections, key=lambda s: (experiment(s) is None, experiment(s) or (), not s.summary, s.heading, s.stem)
    )


def place(section: Placed) -> tuple[str, str]:
    """(name of its page, id of the section on it); a run of the first N tasks has a page of its own."""
    if experiment(section) is None:
        return section.stem, section.stem
    about = section.provenance
    whole = stem(about["model"], about["benchmark"], about["corpus"])
    parts = re.fullmatch(rf"({re.escape(whole)}(?:\.first\d+)?)\.(.+)", section.stem)
    return (parts[1], parts[2]) if parts else (whole, section.stem)


def anchor(section: Placed, part: str) -> str:
    """The id of a part of the section on its page, of "figure NAME", or of the section itself for ""."""
    whole = place(section)[1]
    return f"{whole}.{re.sub(r'[^a-z0-9]+', '-', part.lower())}" if part.strip() else whole


def pages(sections: Iterable[Placed]) -> list[Page]:
    """The pages of the site in the order of the navigation."""
    found = []
    for name, group in groupby(ordered(sections), key=lambda s: place(s)[0]):
        here = list(group)
        about = experiment(here[0])
        if about:
            limited = f" ({about[3]} tasks)" if re.search(r"\.first\d+$", name) else ""
            found.append(Page(name, title(about), f"{about[0]}, {about[1]}", about[2] + limited, here))
        else:
            found.append(Page(name, here[0].heading, STUDIES, here[0].heading, here))
    return found


def short(section: Placed) -> str:
    """A section's heading without the experiment that it ends with."""
    about = experiment(section)
    return section.heading.removesuffix(title(about) if about else "").rstrip(" :,") or "pass@1"


def matrix(pages: Iterable[Page]) -> tuple[list[str], list[tuple[str, list[dict[str, Any]]]]]:
    """(columns, [(benchmark and model, rows)]): pass@1 of every experiment; only those columns that some experiment offers."""
    shown = [(p, s) for p in pages for s in p.sections if s.summary]
    columns = [c for c in COLUMNS if any(c in s.summary for _, s in shown)]
    groups = groupby(shown, key=lambda found: found[0].group)
    return columns, [(group, [_row(p, s, columns) for p, s in rows]) for group, rows in groups]


def _row(page: Page, section: Placed, columns: Sequence[str]) -> dict[str, Any]:
    cells = [(*_parted(text), colour) for text, colour in (section.summary.get(c, ("", "")) for c in columns)]
    return {"page": page, "anchor": place(section)[1], "cells": cells}


def _parted(text: str) -> tuple[str, str]:
    """A cell's rate and, where some tasks are not measured, on how many it stands: "24.0 (n=467)"."""
    rate, _, rest = text.partition(" (n=")
    return rate, rest.rstrip(")")


def headline(differences: Sequence[tuple[Page, Mapping[str, float]]]) -> str:
    """One sentence on how retrieval compares with None; "" where nothing is compared.

    `differences`: points of pass@1 against None on tasks measured in both, by column, of each experiment's page.
    """
    found = sorted((d, c, f"{p.label}, {p.group}") for p, row in differences for c, d in row.items())
    if not found:
        return ""
    more, fewer = sum(d > 0 for d, *_ in found), sum(d < 0 for d, *_ in found)
    (low, worst, there), (high, best, here) = found[0], found[-1]
    return (
        f"Set against no retrieval on the same tasks, {more} of {len(found)} retrieval columns in {len(differences)} experiments "
        f"solve more tasks and {fewer} solve fewer: from {points(low / 100)} points of pass@1 ({worst}; {there}) to "
        f"{points(high / 100)} ({best}; {here})."
    )
