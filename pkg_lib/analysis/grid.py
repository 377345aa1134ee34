"""A table of text with named rows, in the markups of a paper: CSV, Markdown, LaTeX, HTML."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Self

import pandas as pd

from pkg_lib.analysis.tables import DASH, MINUS, csv_text, render, tex
from pkg_lib.core.store import write_text

NARROW = 24  # characters of a cell up to which it stays on one line


@dataclass(frozen=True)
class Grid:
    """`frame` holds the cells as text; its index is named. Columns may have two levels, the first a group."""

    title: str
    frame: pd.DataFrame
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        title: str,
        rows: Mapping[Any, Iterable[Any]],
        columns: Sequence[Any],
        index: Any,
        *notes: str,
    ) -> Self:
        """A table from name -> cells; `index`: what the names are; pairs in `columns` are group and name."""
        cells = list(map(list, rows.values()))
        frame = pd.DataFrame(cells, pd.Index(list(rows)), pd.Index(columns), dtype=object)
        return cls(title, frame.rename_axis(index), notes)

    def _repr_html_(self) -> str:
        return self.html()

    def save(self, stem: Path) -> None:
        """Writes STEM.csv, STEM.md and STEM.tex."""
        for suffix, text in {"csv": self.csv(), "md": self.markdown(), "tex": self.latex()}.items():
            write_text(stem.with_name(f"{stem.name}.{suffix}"), text)

    @property
    def groups(self) -> list[tuple[str, int]]:
        """(group, number of its columns) in order; empty where columns have one level."""
        groups = (
            groupby(self.frame.columns.get_level_values(0))
            if self.frame.columns.nlevels > 1
            else ()
        )
        return [(str(group), len(list(names))) for group, names in groups]

    @property
    def heads(self) -> list[str]:
        """What stands above the names of the rows and, without their groups, above the columns."""
        return [
            str(self.frame.index.name or ""),
            *map(str, self.frame.columns.get_level_values(-1)),
        ]

    def _flat(self) -> pd.DataFrame:
        """The frame with each column's group before its name."""
        columns = self.frame.columns
        return (
            self.frame.set_axis(columns.map(": ".join), axis=1)
            if columns.nlevels > 1
            else self.frame
        )

    def csv(self) -> str:
        """Cells as they are shown; a dash is an empty value, a typographic minus a plain one."""
        plain = self._flat().map(lambda c: "" if c == DASH else str(c).replace(MINUS, "-"))
        return csv_text(plain)

    def markdown(self) -> str:
        """A pipe table between title and notes."""
        keys = self.frame.index.to_frame().itertuples(index=False, name=None)
        cells = zip(keys, self.frame.itertuples(index=False, name=None), strict=True)
        names = [name or "" for name in self.frame.index.names]
        lines = [[*names, *self._flat()], ["---"] * len(names) + ["---:"] * self.frame.shape[1]]
        lines += [[*key, *row] for key, row in cells]
        pipes = [
            "| " + " | ".join(str(c).replace("|", "\\|") for c in line) + " |" for line in lines
        ]
        body, notes = "\n".join(pipes), "\n\n".join(self.notes)
        return f"**{self.title}**\n\n{body}\n\n{notes.rstrip()}\n"

    def latex(self) -> str:
        groups = ["", *(rf"\multicolumn{{{n}}}{{c}}{{{tex(g)}}}" for g, n in self.groups)]
        lines = [" & ".join(groups)] if self.groups else []
        lines += [" & ".join(map(tex, self.heads)), r"\midrule"]
        lines += (" & ".join(tex(str(c)) for c in row) for row in self.frame.itertuples(name=None))
        return self._booktabs(lines)

    def _booktabs(self, body: Iterable[str], xcolor: bool = False) -> str:
        r"""A booktabs table with title and notes as its caption; `body`: lines without their \\."""
        about = {"caption": tex(f"{self.title}. {' '.join(self.notes)}".strip()), "xcolor": xcolor}
        return render("booktabs.tex.j2", columns=self.frame.shape[1], body=body, **about) + "\n"

    def html(self) -> str:
        """A fragment that report.css styles: words stand left, sentences wrap, others are numbers."""
        rows = list(self.frame.itertuples(name=None))
        columns = [" ".join(map(str, column)) for column in zip(*rows, strict=True)]
        looks = {
            i: "words" for i, column in enumerate(columns) if not any(map(str.isdigit, column))
        }
        looks |= {
            i: "wide" for row in rows for i, cell in enumerate(row) if len(str(cell)) > NARROW
        }
        return render("grid.html.j2", grid=self, rows=rows, looks=looks)
