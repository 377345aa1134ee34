"""A table of text with named rows, written as CSV, Markdown, LaTeX and HTML."""

import re
from collections.abc import (
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Self

import pandas as pd

from pkg_lib.analysis.tables import (
    DASH,
    MINUS,
    csv_text,
    render,
    tex,
)
from pkg_lib.core.store import write_text

BEGINS_WITH_NUMBER = re.compile(rf"[<>≤≥~+{MINUS}-]? ?\d")
NARROW = 24  # Number of characters up to which a cell stays on one line.


@dataclass(frozen=True)
class ResultTable:
    """A table as it is shown.

    Attributes:
        title: Its title.
        frame: The cells as text, with a named index. Columns may have two levels; the first is a
            group.
        notes: Sentences below the table.
    """

    title: str
    frame: pd.DataFrame
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        title: str,
        rows: Mapping[Any, Iterable[Any]],
        columns: Sequence[Any],
        index: str | list[str],
        *notes: str,
    ) -> Self:
        """Build a table from its rows.

        Args:
            title: Its title.
            rows: Name of a row -> its cells.
            columns: Names of the columns; pairs are a group and a name.
            index: What the names of the rows are; one for each level.
            *notes: Sentences below the table.

        Returns:
            The table.
        """
        cells = [list(row) for row in rows.values()]
        frame = pd.DataFrame(cells, pd.Index(list(rows)), pd.Index(columns), dtype=object)
        return cls(title, frame.rename_axis(index), notes)

    def without_empty_rows(self) -> Self:
        """Leave out the rows that hold only dashes, and name them below the table.

        Returns:
            The table. If no row holds a number, it stays as it is.
        """
        empty = (self.frame == DASH).all(axis=1)
        if empty.all() or not empty.any():
            return self
        names = [_row_name(label) for label in self.frame.index[empty]]
        note = f"Not measured: {'; '.join(names)}."
        return replace(self, frame=self.frame[~empty], notes=(*self.notes, note))

    def _repr_html_(self) -> str:
        return self.html()

    def save(self, stem: Path) -> None:
        """Write STEM.csv, STEM.md and STEM.tex.

        Args:
            stem: Path of the files without their suffix.
        """
        texts = {
            "csv": self.csv(),
            "md": self.markdown(),
            "tex": self.latex(),
        }
        for suffix, text in texts.items():
            write_text(stem.with_name(f"{stem.name}.{suffix}"), text)

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Each group of columns with its number of columns; empty if columns have one level."""
        if self.frame.columns.nlevels == 1:
            return []
        names = self.frame.columns.get_level_values(0)
        return [(str(group), len(list(members))) for group, members in groupby(names)]

    @property
    def headings(self) -> list[str]:
        """The headings of the row names and of the columns, without the groups of columns."""
        names = self.frame.columns.get_level_values(-1)
        return [str(self.frame.index.name or ""), *map(str, names)]

    def _with_flat_columns(self) -> pd.DataFrame:
        """The frame with the group of each column in front of its name."""
        columns = self.frame.columns
        if columns.nlevels == 1:
            return self.frame
        return self.frame.set_axis(columns.map(": ".join), axis=1)

    def csv(self) -> str:
        """Write the cells as CSV.

        Returns:
            The cells as they are shown, but with an empty value for a dash and a plain minus sign.
        """
        return csv_text(self._with_flat_columns().map(_plain))

    def markdown(self) -> str:
        """Write a pipe table between the title and the notes.

        Returns:
            The text in Markdown.
        """
        flat = self._with_flat_columns()
        names = [name or "" for name in self.frame.index.names]
        lines = [[*names, *flat.columns], ["---"] * len(names) + ["---:"] * flat.shape[1]]
        keys = self.frame.index.to_frame().itertuples(index=False, name=None)
        for key, cells in zip(keys, flat.itertuples(index=False, name=None), strict=True):
            lines.append([*key, *cells])
        body = "\n".join(map(_pipe_row, lines))
        notes = "\n\n".join(self.notes)
        return f"**{self.title}**\n\n{body}\n\n{notes.rstrip()}\n"

    @property
    def latex_caption(self) -> str:
        """The title and the notes, escaped for LaTeX."""
        return tex(f"{self.title}. {' '.join(self.notes)}".strip())

    def latex(self) -> str:
        """Write a booktabs table whose caption holds the title and the notes.

        Returns:
            The text in LaTeX.
        """
        levels = self.frame.columns.nlevels
        # Styler prints the name of the columns, not that of the rows, in the row of the headings.
        corner = [""] * (levels - 1) + [self.headings[0]]
        frame = self.frame.rename_axis(index=None).rename_axis(columns=[tex(c) for c in corner])
        styler = frame.style.format(tex)
        styler.format_index(tex, axis="index").format_index(tex, axis="columns")
        table = styler.to_latex(
            column_format="l" + "r" * frame.shape[1],
            position="t",
            position_float="centering",
            hrules=True,
            caption=self.latex_caption,
            multicol_align="c",
            environment="table*",
        )
        small = table.replace(r"\begin{tabular}", "\\small\n\\begin{tabular}", 1)
        return "% needs \\usepackage{booktabs}\n" + small

    def html(self) -> str:
        """Write a fragment of HTML that report.css styles.

        Columns of words are aligned to the left, columns of numbers to the right, and long sentences
        wrap. Styler is not used, since it drops such classes or repeats three of its own in every cell.

        Returns:
            The fragment.
        """
        rows = list(self.frame.itertuples(name=None))
        classes = {}
        for place, column in enumerate(zip(*rows, strict=True)):
            texts = [str(cell) for cell in column]
            if max(map(len, texts)) > NARROW:
                classes[place] = "wide"
            elif _is_of_words(texts):
                classes[place] = "words"
        return render("result_table.html.j2", table=self, rows=rows, classes=classes)


def _is_of_words(cells: Iterable[str]) -> bool:
    """Tell whether fewer than half of the cells begin with a number; dashes and empty cells do not count."""
    texts = [cell for cell in cells if cell not in ("", DASH)]
    numbers = [text for text in texts if BEGINS_WITH_NUMBER.match(text)]
    return 2 * len(numbers) < len(texts)


def _plain(cell: object) -> str:
    return "" if cell == DASH else str(cell).replace(MINUS, "-")


def _pipe_row(cells: Iterable[object]) -> str:
    escaped = [str(cell).replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"


def _row_name(label: Any) -> str:
    """Print the label of a row; one with several levels is a tuple."""
    return ", ".join(label) if isinstance(label, tuple) else str(label)
