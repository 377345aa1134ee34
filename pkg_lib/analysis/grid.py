"""A table of text with named rows, in the markups of a paper: CSV, Markdown, LaTeX, HTML."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.analysis.tables import DASH, MINUS, render, tex
from pkg_lib.core.store import write_text

NARROW = 24  # characters of a cell up to which it stays on one line


class Printable(ABC):
    """What can be printed in all markups; subclasses say how their cells stand in each."""

    title: str
    notes: tuple[str, ...]

    @abstractmethod
    def csv(self) -> str: ...
    @abstractmethod
    def markdown(self) -> str: ...
    @abstractmethod
    def latex(self) -> str: ...
    @abstractmethod
    def html(self) -> str: ...

    def _repr_html_(self) -> str:
        return self.html()

    def save(self, stem: Path) -> None:
        """Writes STEM.csv, STEM.md and STEM.tex."""
        for suffix, text in {"csv": self.csv(), "md": self.markdown(), "tex": self.latex()}.items():
            write_text(stem.with_name(f"{stem.name}.{suffix}"), text)

    def _pipes(self, head: list[str], rows: Iterable[Sequence[object]], words: int = 1) -> str:
        """A pipe table between title and notes; the first columns hold `words`, the others numbers."""
        lines = [head, ["---"] * words + ["---:"] * (len(head) - words), *rows]
        pipes = ["| " + " | ".join(str(c).replace("|", "\\|") for c in line) + " |" for line in lines]
        body, notes = "\n".join(pipes), "\n\n".join(self.notes)
        return f"**{self.title}**\n\n{body}\n\n{notes.rstrip()}\n"

    def _booktabs(self, columns: int, body: Iterable[str], xcolor: bool = False) -> str:
        r"""A booktabs table with title and notes as its caption; `body`: lines without their \\."""
        caption = tex(f"{self.title}. {' '.join(self.notes)}".strip())
        return render("booktabs.tex.j2", columns=columns, body=body, caption=caption, xcolor=xcolor) + "\n"


@dataclass(frozen=True)
class Grid(Printable):
    """`frame` holds the cells as text; its index is named. Columns may have two levels, the first a group."""

    title: str
    frame: pd.DataFrame
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, title: str, rows: Mapping[str, Iterable[str]], columns: Sequence[Any], index: str, *notes: str
    ) -> Grid:
        """A table from name -> cells; `index`: what the names are; pairs in `columns` are group and name."""
        names = pd.MultiIndex.from_tuples(columns) if columns and isinstance(columns[0], tuple) else columns
        frame = pd.DataFrame(list(map(list, rows.values())), list(rows), names, dtype=object)
        return cls(title, frame.rename_axis(index), notes)

    @property
    def groups(self) -> list[tuple[str, int]]:
        """(group, number of its columns) in order; empty where columns have one level."""
        groups = groupby(self.frame.columns.get_level_values(0)) if self.frame.columns.nlevels > 1 else ()
        return [(str(group), len(list(names))) for group, names in groups]

    @property
    def heads(self) -> list[str]:
        """What stands above the names of the rows and, without their groups, above the columns."""
        return [str(self.frame.index.name or ""), *map(str, self.frame.columns.get_level_values(-1))]

    def _flat(self) -> pd.DataFrame:
        """The frame with each column's group before its name."""
        columns = self.frame.columns
        return self.frame.set_axis(columns.map(": ".join), axis=1) if columns.nlevels > 1 else self.frame

    def csv(self) -> str:
        """Cells as they are shown; a dash is an empty value, a typographic minus a plain one."""
        plain = self._flat().map(lambda c: "" if c == DASH else str(c).replace(MINUS, "-"))
        return plain.to_csv(lineterminator="\n")

    def markdown(self) -> str:
        return self._pipes([self.heads[0], *self._flat()], self.frame.itertuples(name=None))

    def latex(self) -> str:
        groups = ["", *(rf"\multicolumn{{{n}}}{{c}}{{{tex(g)}}}" for g, n in self.groups)]
        lines = [" & ".join(groups)] if self.groups else []
        lines += [" & ".join(map(tex, self.heads)), r"\midrule"]
        lines += (" & ".join(tex(str(c)) for c in row) for row in self.frame.itertuples(name=None))
        return self._booktabs(self.frame.shape[1], lines)

    def html(self) -> str:
        """A fragment that report.css styles: words stand left, sentences wrap, others are numbers."""
        rows = list(self.frame.itertuples(name=None))
        columns = [" ".join(map(str, column)) for column in zip(*rows, strict=True)]
        looks = {i: "words" for i, column in enumerate(columns) if not any(map(str.isdigit, column))}
        looks |= {i: "wide" for row in rows for i, cell in enumerate(row) if len(str(cell)) > NARROW}
        return render("grid.html.j2", grid=self, rows=rows, looks=looks)
