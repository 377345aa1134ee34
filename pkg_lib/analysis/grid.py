"""A table of text with named rows, in the markups of a paper: CSV, Markdown, LaTeX, HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.analysis.tables import DASH, render, tex
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
        cls, title: str, rows: Mapping[str, Iterable[str]], columns: Sequence[Any], index: str, *notes: str
    ) -> Grid:
        """From name -> cells of a row; `index` says what the names are; pairs in `columns`: group and name."""
        names = pd.MultiIndex.from_tuples(columns) if columns and isinstance(columns[0], tuple) else columns
        frame = pd.DataFrame(list(map(list, rows.values())), list(rows), names, dtype=object)
        return cls(title, frame.rename_axis(index), notes)

    @property
    def groups(self) -> list[tuple[str, int]]:
        """(group, number of its columns) in order; empty where columns have one level."""
        if self.frame.columns.nlevels == 1:
            return []
        return [(str(g), len(list(names))) for g, names in groupby(self.frame.columns.get_level_values(0))]

    @property
    def names(self) -> list[str]:
        """The columns without their groups."""
        return [str(c) for c in self.frame.columns.get_level_values(-1)]

    def csv(self) -> str:
        """Cells as they are shown; a dash is an empty value, a typographic minus a plain one."""
        plain = self.frame.map(lambda c: "" if c == DASH else str(c).replace("\N{MINUS SIGN}", "-"))
        if self.groups:
            plain.columns = [f"{g}: {c}" for g, c in plain.columns]
        return plain.to_csv(lineterminator="\n")

    def markdown(self) -> str:
        """A pipe table; a group stands before its columns' names."""
        heads = [f"{g}: {c}" for g, c in self.frame.columns] if self.groups else self.names
        lines = [[str(self.frame.index.name or ""), *heads], ["---", *["---:"] * len(heads)]]
        lines += [[str(name), *map(str, row)] for name, *row in self.frame.itertuples(name=None)]
        body = "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines)
        return f"**{self.title}**\n\n{body}\n\n" + "".join(f"{n}\n\n" for n in self.notes).rstrip() + "\n"

    def latex(self) -> str:
        r"""A booktabs table for \usepackage{booktabs}."""
        caption = tex(f"{self.title}. {' '.join(self.notes)}".strip())
        lines = [
            r"% needs \usepackage{booktabs}",
            r"\begin{table*}[t]",
            r"\centering",
            rf"\caption{{{caption}}}",
            r"\small",
        ]
        lines += [rf"\begin{{tabular}}{{l{'r' * len(self.names)}}}", r"\toprule"]
        if self.groups:
            lines.append(
                " & ".join(["", *(rf"\multicolumn{{{n}}}{{c}}{{{tex(g)}}}" for g, n in self.groups)]) + r" \\"
            )
        lines += [" & ".join(map(tex, [str(self.frame.index.name or ""), *self.names])) + r" \\", r"\midrule"]
        lines += [" & ".join(tex(str(c)) for c in row) + r" \\" for row in self.frame.itertuples(name=None)]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table*}"]) + "\n"

    def html(self) -> str:
        """A fragment; report.css styles it: words stand left, those of a column with sentences wrap, others are numbers."""
        rows = list(self.frame.itertuples(name=None))
        columns = [" ".join(map(str, column)) for column in zip(*rows, strict=True)]
        looks = {i: "words" for i, column in enumerate(columns) if not any(map(str.isdigit, column))}
        looks |= {i: "wide" for row in rows for i, cell in enumerate(row) if len(str(cell)) > NARROW}
        return render("grid.html.j2", grid=self, rows=rows, looks=looks, head=self.frame.index.name or "")

    _repr_html_ = html

    def save(self, stem: Path) -> list[Path]:
        """Writes STEM.csv, STEM.md and STEM.tex and returns their paths."""
        texts = {"csv": self.csv(), "md": self.markdown(), "tex": self.latex()}
        paths = {suffix: stem.with_name(f"{stem.name}.{suffix}") for suffix in texts}
        for suffix, path in paths.items():
            write_text(path, texts[suffix])
        return list(paths.values())
