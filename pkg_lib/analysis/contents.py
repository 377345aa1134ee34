"""How the report is ordered: sections of one experiment together, the matrix of all experiments, the table of contents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Protocol

from pkg_lib.analysis.tables import COLUMNS, TITLES

OTHERS = "Not about one experiment"


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
    return f"{model}, {benchmark} ({tasks} tasks), corpus {corpus}" if tasks else f"{model}, {benchmark}, corpus {corpus}"


def ordered(sections: Iterable[Placed]) -> list[Any]:
    """By experiment, its table of rates first; then what is about no single experiment."""
    return sorted(sections, key=lambda s: (experiment(s) is None, experiment(s) or (), not s.summary, s.heading, s.stem))


def contents(sections: Iterable[Placed]) -> list[tuple[str, list[tuple[str, str]]]]:
    """(experiment, [(stem, what the section is about)]) in the order of `ordered`."""
    found = []
    for about, group in groupby(ordered(sections), key=experiment):
        whole = title(about) if about else ""
        found.append((whole or OTHERS, [(s.stem, _short(s.heading, whole)) for s in group]))
    return found


def _short(heading: str, whole: str) -> str:
    """A heading without the experiment that it ends with."""
    return heading.removesuffix(whole).rstrip(" :,") or "pass@1"


def matrix(sections: Iterable[Placed]) -> tuple[list[str], list[tuple[str, list[dict[str, Any]]]]]:
    """(columns, [(benchmark, rows)]): pass@1 of every experiment; only those columns that some experiment offers."""
    shown = [s for s in ordered(sections) if s.summary]
    columns = [c for c in COLUMNS if any(c in s.summary for s in shown)]
    groups = groupby(shown, key=lambda s: (experiment(s) or ("",))[0])
    return columns, [(benchmark, [_row(s, columns) for s in group]) for benchmark, group in groups]


def _row(section: Placed, columns: Sequence[str]) -> dict[str, Any]:
    about = experiment(section)
    tasks = f" ({about[3]} tasks)" if about and about[3] else ""
    name = f"{about[1]}, {about[2]}{tasks}" if about else section.heading
    return {"stem": section.stem, "name": name, "cells": [section.summary.get(c, ("", "")) for c in columns]}
