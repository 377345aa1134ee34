"""What every notebook repeats: what it shows is saved, and collected for the report."""

from collections.abc import Iterable, Mapping
from typing import Any

from IPython.display import Image, Markdown
from matplotlib.figure import Figure

from pkg_lib.analysis.contents import Section
from pkg_lib.analysis.figures import save_figure
from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.report import save_section
from pkg_lib.core.store import results_dir


class Sheet:
    """One notebook's files and its section. Running a cell again replaces what it added."""

    def __init__(self, name: str, heading: str) -> None:
        self.name, self.heading, self.results = name, heading, results_dir()
        self._parts: dict[str, dict[str, str]] = {}
        self._tables: dict[str, None] = {}
        self._captions: dict[str, str] = {}
        self._findings: dict[str, None] = {}

    def table(self, grid: Grid, name: str | None = "", part: str | None = "") -> Grid:
        """Saves the table (`name` None: not) and adds it to a part of the section (`part` None: to none)."""
        file = f"{self.name}.{name}" if name else self.name
        if name is not None:
            grid.save(self.results / "tables" / file)
            self._tables[file] = None
        if part is not None:
            self._parts.setdefault(part, {})[f"{name} {grid.title}"] = grid.html()
        return grid

    def part(self, heading: str, html: str) -> str:
        """Adds a fragment of HTML that is no table to the part with this heading; returns it to be shown."""
        self._parts.setdefault(heading, {})[html] = html
        return html

    def figure(
        self, figure: Figure, name: str, caption: str, alt: str = "", width: int = 480
    ) -> Image:
        """Saves the figure as PDF and PNG, and gives the picture with `alt` (the caption, if "")."""
        png = save_figure(figure, self.results / "figures" / f"{self.name}.{name}")["png"]
        self._captions[name] = caption
        return Image(png, width=width, alt=alt or caption)

    def say(self, sentences: Iterable[str]) -> Markdown:
        """Adds sentences to the findings and shows them as a list."""
        shown = dict.fromkeys(sentences)
        self._findings |= shown
        return Markdown("\n".join(f"- {sentence}" for sentence in shown))

    def close(
        self, provenance: dict[str, Any], summary: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Leaves the section for results/index.html; the part without a heading stands first."""
        parts = {
            heading: "".join(self._parts[heading].values())
            for heading in sorted(self._parts, key=bool)
        }
        findings, tables, rates = list(self._findings), list(self._tables), dict(summary or {})
        section = Section(
            self.name, self.heading, parts, findings, self._captions, provenance, rates, tables
        )
        save_section(self.results, section)
        return provenance
