"""What a notebook shows is saved to files and collected as its section of the report."""

from collections.abc import Iterable, Mapping
from typing import Any

from IPython.display import Image, Markdown
from matplotlib.figure import Figure

from pkg_lib.analysis.contents import Section
from pkg_lib.analysis.figures import save_figure, use_style
from pkg_lib.analysis.notebook_parameters import check_parameters
from pkg_lib.analysis.report import save_section
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.core.store import results_dir


class NotebookReport:
    """The files and the section of one notebook. A cell that runs again replaces what it added.

    It also turns on the house style, so that a figure keeps it when a later cell changes the figure.

    Attributes:
        name: What the names of its files begin with.
        heading: Heading of its section.
        results: The results directory.

    Raises:
        UserError: papermill set a parameter that the notebook does not have.
    """

    def __init__(
        self,
        name: str,
        heading: str,
    ) -> None:
        check_parameters()
        use_style()
        self.name = name
        self.heading = heading
        self.results = results_dir()
        self._parts: dict[str, dict[str, str]] = {}
        self._tables: dict[str, None] = {}
        self._captions: dict[str, str] = {}
        self._part_of_figure: dict[str, str] = {}
        self._last_part = ""
        self._findings: dict[str, None] = {}
        self._part_findings: dict[str, list[str]] = {}

    def table(
        self,
        table: ResultTable,
        name: str | None = "",
        part: str | None = "",
    ) -> ResultTable:
        """Save a table and add it to the section.

        Args:
            table: The table.
            name: What its files add to the notebook's name; None saves no file.
            part: Heading of the part that shows it; None leaves it out of the section.

        Returns:
            The table, to be shown.
        """
        file = f"{self.name}.{name}" if name else self.name
        if name is not None:
            table.save(self.results / "tables" / file)
            self._tables[file] = None
        if part is not None:
            self._parts.setdefault(part, {})[f"{name} {table.title}"] = table.html()
            self._last_part = part
        return table

    def part(
        self,
        heading: str,
        html: str,
    ) -> str:
        """Add a fragment of HTML that is not a table.

        Args:
            heading: Heading of the part that shows it.
            html: The fragment.

        Returns:
            The fragment, to be shown.
        """
        self._parts.setdefault(heading, {})[html] = html
        self._last_part = heading
        return html

    def figure(
        self,
        figure: Figure,
        name: str,
        caption: str,
        alt: str = "",
        width: int = 480,
    ) -> Image:
        """Save a figure as PDF and PNG and add it to the section.

        The figure belongs to the part of the table before it.

        Args:
            figure: The figure.
            name: What its files add to the notebook's name.
            caption: Its caption in the report.
            alt: Its description; the caption by default.
            width: Its width in the notebook in pixels.

        Returns:
            The picture, to be shown.
        """
        stem = self.results / "figures" / f"{self.name}.{name}"
        paths = save_figure(figure, stem)
        self._captions[name] = caption
        self._part_of_figure[name] = self._last_part
        return Image(paths["png"], width=width, alt=alt or caption)

    def add_findings(self, sentences: Iterable[str], part: str = "") -> Markdown:
        """Add sentences to the findings of the section, or to a part of it.

        Args:
            sentences: The sentences.
            part: Heading of the part that begins with them, after its introduction. By default they
                belong to the section as a whole.

        Returns:
            The sentences as a list, to be shown.
        """
        shown = dict.fromkeys(sentences)
        if part:
            self._part_findings[part] = list(shown)
        else:
            self._findings |= shown
        return Markdown("\n".join(f"- {sentence}" for sentence in shown))

    def close(
        self,
        provenance: dict[str, Any],
        summary: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Save the section for results/index.html. The part without a heading comes first.

        Args:
            provenance: What the results were made from.
            summary: Method -> text and colour of its rate, of a notebook with a table of pass@1.

        Returns:
            The provenance, to be shown.
        """
        headings = sorted(self._parts, key=bool)
        section = Section(
            self.name,
            self.heading,
            {heading: "".join(self._parts[heading].values()) for heading in headings},
            list(self._findings),
            self._captions,
            provenance,
            dict(summary or {}),
            list(self._tables),
            self._part_of_figure,
            self._part_findings,
        )
        save_section(self.results, section)
        return provenance
