"""The contents of the report: sections, their pages, and the papers' tables and figures."""

import csv
import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import field
from functools import cache
from itertools import groupby
from typing import (
    Annotated,
    Any,
    NamedTuple,
)

from pydantic import BeforeValidator
from pydantic.dataclasses import dataclass

from pkg_lib.analysis.tables import HERE
from pkg_lib.data.benchmarks import title_of
from pkg_lib.data.corpora import PUBLISHED, corpus_in_words, corpus_label

ACROSS = "Papers and analyses"  # heading of the pages that are not about one experiment
LEAD_SENTENCES = 3
LEAD_FINDING = 560  # characters up to which a finding is part of the lead
MODEL_SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?b)(?![a-z])", re.I)
SENTENCE_END = re.compile(r"(?<=[.?])\s+(?=[A-Z])")
# Stored as a list of pairs: a JSON object with sorted keys would not keep their order.
OrderedTexts = Annotated[dict[str, str], BeforeValidator(dict)]


class Experiment(NamedTuple):
    """One experiment as it is shown."""

    benchmark: str
    model: str
    corpus: str
    tasks: str

    @property
    def title(self) -> str:
        """The experiment in words, as the headings of its sections end."""
        tasks = f" ({self.tasks} tasks)" if self.tasks else ""
        return f"{self.model}, {self.benchmark}{tasks}, {corpus_in_words(self.corpus)}"


@dataclass(frozen=True)
class Section:
    """What one notebook adds to the report.

    Attributes:
        stem: What the names of its files begin with.
        heading: Its heading.
        parts: Heading of a part ("" for none) -> HTML.
        findings: Sentences.
        figures: Name -> caption of STEM.NAME.png and .pdf.
        provenance: What the results were made from.
        summary: Method -> text and colour of its rate.
        tables: Names of its files in tables/, without their suffix.
        part_of_figure: Name of a figure -> heading of the part that it belongs to.
        part_findings: Heading of a part -> sentences that it begins with, after its introduction.
    """

    stem: str
    heading: str
    parts: OrderedTexts
    findings: list[str]
    figures: OrderedTexts
    provenance: dict[str, Any]
    summary: dict[str, tuple[str, str]] = field(default_factory=dict)
    tables: list[str] = field(default_factory=list)
    part_of_figure: dict[str, str] = field(default_factory=dict)
    part_findings: dict[str, list[str]] = field(default_factory=dict)

    @property
    def notebook(self) -> str:
        """Name of its notebook, which is its id on its page."""
        return self.stem.rpartition(".")[2]

    @property
    def about(self) -> Experiment | None:
        """Its experiment, or None if it is not about a single one.

        A notebook that has one section in all, such as the quickstart, has a page of its own.
        """
        if "." not in self.stem:
            return None
        benchmark = self.provenance.get("benchmark", "")
        model = self.provenance.get("model", "")
        corpus = self.provenance.get("corpus", "")
        if not (benchmark and model and corpus):
            return None
        tasks = str(self.provenance.get("tasks", ""))
        return Experiment(title_of(benchmark), model, corpus, tasks)

    @property
    def leading_figures(self) -> dict[str, str]:
        """Name -> caption of the first figure, and of those that belong to no part with a heading."""
        return {name: text for name, text in self.figures.items() if not self._part_below(name)}

    def figures_of(self, part: str) -> dict[str, str]:
        """Return name and caption of the figures that follow the tables of a part.

        Args:
            part: Heading of the part.
        """
        if not part:
            return {}
        return {name: text for name, text in self.figures.items() if self._part_below(name) == part}

    def _part_below(self, figure: str) -> str:
        """Return the heading of the part that a figure is shown in; "" if it leads the section."""
        if figure == next(iter(self.figures)):
            return ""
        part = self.part_of_figure.get(figure, "")
        return part if part in self.parts else ""

    @property
    def lead(self) -> list[str]:
        """The texts that it begins with: at most three sentences."""
        texts = list(texts_of("leads").get(self.notebook, ()))
        if self.findings and len(self.findings[0]) <= LEAD_FINDING:
            texts.append(self.findings[0])
        count = len(SENTENCE_END.split(" ".join(texts)))
        return texts if count <= LEAD_SENTENCES else texts[:-1]

    @property
    def short(self) -> str:
        """The heading without the experiment, which begins with the model."""
        if not self.about:
            return self.heading
        return self.heading.partition(self.about.model)[0].rstrip(" :,") or "pass@1"

    @property
    def page(self) -> str:
        """Name of its page, which sections of one experiment share."""
        return self.stem.rpartition(".")[0] if self.about else self.stem

    def part_heading(self, part: str) -> str:
        """Write the heading of a part, with the subjects of the paper's tables that it shows.

        Args:
            part: The part as it is stored, such as "Table 1".

        Returns:
            Text such as "Table 1: benchmarks", or "Table 8 of the PKG paper: time"; the part itself if its
            name has a subject, or is not that of a table or figure.
        """
        if ":" in part or not part.startswith(("Table", "Figure")):
            return part
        subjects = []
        papers = []
        for item in items():
            if item.place == part and item.shown_by(self):
                subjects.append(item.about)
                papers.append(item.paper.partition(",")[0])
        # A page on one paper needs not say whose table it is.
        paper = f" of the {papers[0]}" if papers and self.about else ""
        return f"{part}{paper}: {'; '.join(dict.fromkeys(subjects))}" if subjects else part

    def anchor(self, part: str) -> str:
        """Give the id of a place on its page.

        Args:
            part: Heading of a part, "figure NAME", or "" for the section itself.

        Returns:
            The id.
        """
        if not part:
            return self.notebook
        words = re.sub(r"[^a-z0-9]+", "-", part.lower())
        return f"{self.notebook}.{words}"


@cache
def texts_of(name: str) -> dict[str, Any]:
    """Read texts of the report.

    Args:
        name: One of

            - "navigation": stem of a section that is a page of its own -> its entry;
            - "leads": notebook -> what its sections begin with, and "parts" -> notebook -> part of a section
              -> what it begins with;
            - "terms": "methods", "variants" and "corpora" -> name -> its description, and "pages" -> notebook
              -> term -> its meaning.

    Returns:
        The contents of NAME.toml.
    """
    return tomllib.loads((HERE / f"{name}.toml").read_text("utf8"))


@dataclass(frozen=True)
class Page:
    """One page of the site.

    Attributes:
        name: Its file is results/site/NAME.html.
        title: Its title.
        group: Heading of its group in the navigation.
        label: Its entry below that heading.
        sections: Its sections in order.
    """

    name: str
    title: str
    group: str
    label: str
    sections: list[Section]

    @property
    def about(self) -> Experiment | None:
        """Its experiment, or None if it is not about a single one."""
        return self.sections[0].about


def pages(sections: Iterable[Section]) -> list[Page]:
    """Arrange sections on pages in the order of the navigation.

    Args:
        sections: The sections.

    Returns:
        The pages of experiments with their tables of pass@1 first, then those of papers and analyses.
    """

    def order(section: Section) -> tuple[Any, ...]:
        experiment = section.about
        place = experiment or (_label(section).casefold(),)
        return not experiment, place, section.page, not section.summary, section.heading

    ordered = sorted(sections, key=order)
    return [_page(name, list(group)) for name, group in groupby(ordered, lambda s: s.page)]


def _label(section: Section) -> str:
    """The entry in the navigation of a page that is not about one experiment."""
    label: str = texts_of("navigation").get(section.stem, section.heading)
    return label


def _page(
    name: str,
    sections: list[Section],
) -> Page:
    experiment = sections[0].about
    if not experiment:
        return Page(
            name,
            sections[0].heading,
            ACROSS,
            _label(sections[0]),
            sections,
        )
    group = f"{experiment.benchmark}, {experiment.model}"
    label = corpus_label(experiment.corpus)
    if re.search(r"\.first\d+$", name):
        label += f" ({experiment.tasks} tasks)"
    return Page(
        name,
        experiment.title,
        group,
        label,
        sections,
    )


def short_models(models: Iterable[str]) -> dict[str, str]:
    """Shorten the names of models for links.

    Args:
        models: Names of models.

    Returns:
        Model -> its size, such as "0.5B"; its name if it has no size, or one that another model has, too.
    """
    names = list(dict.fromkeys(models))
    sizes = {}
    for name in names:
        size = MODEL_SIZE.search(name)
        sizes[name] = size[1].upper() if size else name
    counts = Counter(sizes.values())
    return {name: sizes[name] if counts[sizes[name]] == 1 else name for name in names}


class ItemLink(NamedTuple):
    """A place that shows a table or figure of a paper.

    Attributes:
        model: The model that it shows; "" if it is not about a single one.
        page: The page.
        anchor: The id of the place.
    """

    model: str
    page: Page
    anchor: str


@dataclass(frozen=True)
class PaperItem:
    """A table or figure of a paper, one line of paper_items.csv.

    Attributes:
        paper: The paper.
        item: The table or figure, such as "Table 1".
        about: Its subject.
        status: One of STATUSES.
        notebook: The notebook that shows it; "" if it was not measured.
        place: Heading of the part or name of the figure that shows it.
        benchmark: Its benchmark; "" for any.
        why: What it was measured on, or why it was not measured.
    """

    paper: str
    item: str
    about: str
    status: str
    notebook: str
    place: str
    benchmark: str
    why: str

    def shown_by(self, section: Section) -> bool:
        """Tell whether a section shows it.

        Args:
            section: The section.

        Returns:
            Whether the notebook is the right one, the benchmark too, and the place is there. An experiment
            on a benchmark of the user's own shows no item of a paper.
        """
        if section.notebook != self.notebook:
            return False
        if section.about:
            benchmark = section.provenance["benchmark"]
            expected = {self.benchmark} if self.benchmark else papers_benchmarks()
            if benchmark not in expected:
                return False
        return not self.place or self.place in section.parts or self.place in section.figures

    @property
    def waits_for(self) -> str:
        """The notebook that would show it, or why none does."""
        if not self.notebook:
            return f"{self.status}: {self.why}"
        where = f" on {title_of(self.benchmark)}" if self.benchmark else ""
        return f"notebook {self.notebook}{where}"

    def links(self, pages: Iterable[Page]) -> list[ItemLink]:
        """Find the places that show it, one for each model that was measured.

        Args:
            pages: The pages of the site.

        Returns:
            The places in the order of the pages; none if no page shows it. Of several pages about a
            model, the one with the authors' contexts is taken if there is one.
        """
        by_model: dict[str, ItemLink] = {}
        for page in pages:
            for section in filter(self.shown_by, page.sections):
                model = page.about.model if page.about else ""
                has_published = page.about is not None and page.about.corpus == PUBLISHED
                if model not in by_model or has_published:
                    by_model[model] = ItemLink(model, page, self._anchor(section))
        return list(by_model.values())

    def _anchor(self, section: Section) -> str:
        if self.place in section.parts:
            return section.anchor(self.place)
        return section.anchor(f"figure {self.place}" if self.place in section.figures else "")


# Name of a paper -> its groups in paper_items.csv.
PAPERS = {
    "PKG": ("PKG paper, tables", "PKG paper, figures"),
    "PKG, first version": ("PKG paper, first version",),
    "EVOR": ("EVOR paper",),
    "cAST": ("cAST paper",),
    "DKB": ("DKB paper",),
}
# What was done about a table or figure. Material means tasks, corpora and repositories; the models
# are other ones throughout.
STATUSES = ("the paper's material", "other material", "code, not run", "not attempted")


@cache
def items() -> list[PaperItem]:
    """Read paper_items.csv.

    Returns:
        The tables and figures in the order of the papers.
    """
    with (HERE / "paper_items.csv").open(encoding="utf8", newline="") as file:
        return [PaperItem(**row) for row in csv.DictReader(file)]


@cache
def papers_benchmarks() -> frozenset[str]:
    """List the benchmarks that items of the papers are about.

    Returns:
        Their names.
    """
    return frozenset(item.benchmark for item in items() if item.benchmark)


def coverage(paper: str) -> str:
    """Write what was done about each table and figure of a paper, as the documentation shows it.

    Args:
        paper: A name in PAPERS.

    Returns:
        A table in Markdown.
    """
    lines = [
        "| Item | Subject | Status | Notebook | Remark |",
        "| --- | --- | --- | --- | --- |",
    ]
    for item in items():
        if item.paper in PAPERS[paper]:
            notebook = f"`{item.notebook}`" if item.notebook else ""
            cells = [item.item, item.about, item.status, notebook, item.why]
            line = " | ".join(cells).replace("|  |", "| |")
            lines.append(f"| {line} |")
    return "\n".join(lines)
