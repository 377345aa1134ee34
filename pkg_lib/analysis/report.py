"""What a reader opens: findings in words, and results/index.html with every experiment's table, figures and notebook.

A notebook leaves one JSON file a section (`save_section`), written last; the page is built from those files alone, opens
from disk without a network, and has the same bytes whenever the results are the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
from markupsafe import Markup

from pkg_lib.analysis.metrics import (
    BASELINE,
    ORACLE,
    RESAMPLES,
    compare,
    helped_and_hurt,
    not_measured,
    paired_bootstrap,
    pass_at_1,
    wilson,
)
from pkg_lib.analysis.tables import (
    COLUMNS,
    DASH,
    PUBLISHED,
    SINGLE,
    TITLES,
    Table,
    complete,
    differences,
    interval,
    percent,
    points,
    probability,
    published,
    render,
)
from pkg_lib.results import write_json, write_text
from pkg_lib.types import UserError, digest

RETRIEVED = SINGLE[1:]
ALPHA = 0.05
SUFFIXES = ("csv", "md", "tex")


def findings(verdicts: pd.DataFrame, benchmark: str) -> list[str]:
    """Sentences computed from the verdicts, so that they cannot say anything else than the table."""
    frame = complete(verdicts)
    absent = not_measured(COLUMNS, frame)
    said = [f"Not measured: {', '.join(absent)}."] if absent else []
    if BASELINE in absent:
        return [*said, "Without None there is nothing to compare a column with."]
    base = pass_at_1(frame[BASELINE])
    low, high = wilson(base.passed, base.measured) or (0.0, 1.0)
    return [
        f"Without retrieval (None) {base.passed} of {base.measured} tasks are solved: {percent(base.value)} % "
        f"(95 % interval {percent(low)} to {percent(high)}).",
        *_decided(compare(frame)),
        *_best_retriever(frame),
        *_selection(frame),
        *_beside_published(frame, benchmark),
        *said,
    ]


def _decided(found: pd.DataFrame) -> list[str]:
    """Which columns differ from None: decided by the corrected p, with the interval beside it."""
    tested = found[found["p_holm"].notna()]
    clear = tested["p_holm"] < ALPHA
    groups = {
        "Above None beyond chance": tested[clear & (tested["difference"] > 0)],
        "Below None beyond chance": tested[clear & (tested["difference"] < 0)],
        "No difference to None shown": tested[~clear],
    }
    said = {what: "; ".join(_against_none(n, r) for n, r in rows.iterrows()) for what, rows in groups.items()}
    return [f"{what}: {text}." for what, text in said.items() if text]


def _against_none(name: object, row: pd.Series) -> str:
    p = probability(row["p_holm"])
    sign = "" if p.startswith("<") else "= "
    return f"{name} {points(row['difference'])} points ({interval(row['low'], row['high'])}; corrected p {sign}{p})"


def _best_retriever(frame: pd.DataFrame) -> list[str]:
    absent = not_measured(RETRIEVED, frame)
    common = frame[[c for c in RETRIEVED if c not in absent]].dropna()
    known = {c: float(common[c].mean()) for c in common}
    if len(known) < 2 or common.empty:
        return []
    top, bottom = max(known.values()), min(known.values())
    where = f" on the {len(common)} tasks measured in all of them" if len(common) < len(frame) else ""
    if top == bottom:
        return [f"All measured retrieval columns score {percent(top)} %{where}."]
    best, worst = (" and ".join(c for c, r in known.items() if r == edge) for edge in (top, bottom))
    return [f"Highest of the retrieval columns{where}: {best} ({percent(top)} %); lowest: {worst} ({percent(bottom)} %)."]


def _selection(frame: pd.DataFrame) -> list[str]:
    """What choosing after generation adds, and what a perfect choice would; every gap over the tasks measured in both."""
    said = []
    rates = {c: pass_at_1(frame[c]).value for c in frame}
    if rates["Reranked"] is not None:
        common = frame.loc[frame["Reranked"].notna(), list(SINGLE)]
        best = str(common.mean().astype(float).idxmax())
        gap = _gap(frame, "Reranked", best)
        said.append(f"Reranked scores {percent(rates['Reranked'])} %, {gap} points against {best}, the best column in hindsight.")
    if rates[ORACLE] is not None:
        gap, rest = _gap(frame, ORACLE, BASELINE), _gap(frame, ORACLE, "Reranked")
        beyond = f" and {rest} against Reranked" if rates["Reranked"] is not None else ""
        said.append(f"A perfect choice (Ideal) would score {percent(rates[ORACLE])} %: {gap} points against None{beyond}.")
    return said


def _gap(frame: pd.DataFrame, column: str, other: str) -> str:
    found = paired_bootstrap(frame[column], frame[other], resamples=1)
    return DASH if found is None else points(found.value)


def _beside_published(frame: pd.DataFrame, benchmark: str) -> list[str]:
    """Ours beside the paper's average difference to None, column by column; other models and another corpus."""
    if benchmark not in PUBLISHED:
        return []
    theirs = published(benchmark).astype(float).mean()
    ours = compare(frame)["difference"].dropna()
    pairs = [f"{c} {points(d)} here, {points((theirs[c] - theirs[BASELINE]) / 100)} there" for c, d in ours.items()]
    return [f"Points against None beside the paper's average over its models: {'; '.join(pairs)}."] if pairs else []


def differences_html(verdicts: pd.DataFrame) -> Markup:
    """`tables.differences` as an HTML fragment with its legend."""
    return Markup(render("differences.html.j2", frame=differences(verdicts), resamples=RESAMPLES))


def changed_tasks(verdicts: pd.DataFrame) -> str:
    """Markdown: the ids of the tasks that each column helped and hurt against None."""
    frame = complete(verdicts)
    lines = []
    for name in frame.columns.drop(BASELINE):
        helped, hurt = helped_and_hurt(frame[name], frame[BASELINE])
        if not (frame[name].notna() & frame[BASELINE].notna()).any():
            lines.append(f"- **{name}**: not measured")
            continue
        lines.append(
            f"- **{name}** helped {len(helped)}: {', '.join(helped) or 'none'}; hurt {len(hurt)}: {', '.join(hurt) or 'none'}"
        )
    return "\n".join(lines)


def own_function_sentence(found: pd.DataFrame) -> str:
    """`metrics.own_function` in words: how many contexts hold the function that the task asks for."""
    if not found["known"].sum():
        return "Contexts that define the very function asked for: not measured."
    known = found[found["known"] > 0]
    parts = [f"{column} {row['defining']} of {row['known']}" for column, row in known.iterrows()]
    return f"Contexts that define the very function asked for: {', '.join(parts)}."


def caption_rates(verdicts: pd.DataFrame, benchmark: str) -> str:
    """What the bar chart shows, in words, for captions and for readers who cannot see it."""
    frame = complete(verdicts)
    parts = [f"{c} {percent(pass_at_1(frame[c]).value)}" for c in COLUMNS]
    return f"pass@1 in percent on {TITLES.get(benchmark, benchmark)}: {', '.join(parts)} ({DASH}: not measured)."


def caption_changes(verdicts: pd.DataFrame) -> str:
    """What the helped and hurt chart shows, in words."""
    found = compare(complete(verdicts))
    parts = [f"{c} {int(r['helped'])} helped, {int(r['hurt'])} hurt" for c, r in found.iterrows() if r["n"]]
    return f"Tasks against None: {'; '.join(parts) or 'nothing measured'}."


@dataclass(frozen=True, slots=True)
class Section:
    """One experiment in the report. `figures`: (name, caption) in their order; `stem`: what its files start with."""

    stem: str
    model: str
    benchmark: str
    corpus: str
    tasks: int
    table: str
    summary: list[list[str]]
    differences: str
    findings: list[str]
    figures: list[list[str]]
    provenance: dict[str, Any]

    @property
    def heading(self) -> str:
        return f"{self.model}, {TITLES.get(self.benchmark, self.benchmark)} ({self.tasks} tasks), corpus {self.corpus}"


def save_section(
    results: Path,
    stem: str,
    table: Table,
    verdicts: pd.DataFrame,
    figures: Mapping[str, str],
    provenance: Mapping[str, Any],
    remarks: Sequence[str] = (),
) -> Path:
    """Writes results/tables/STEM.json; write it last, it marks the section as complete. `remarks` follow the findings."""
    names = {k: str(provenance[k]) for k in ("model", "benchmark", "corpus")}
    section = Section(
        stem=stem, **names, tasks=len(verdicts), table=table.html(),
        summary=[[c.text, c.colour] for c in table.rows[0].cells], differences=differences_html(verdicts),
        findings=[*findings(verdicts, names["benchmark"]), *remarks],
        figures=[[n, c] for n, c in figures.items()], provenance=dict(provenance),
    )  # fmt: skip
    path = results / "tables" / f"{stem}.json"
    write_json(path, asdict(section))
    return path


def build_report(results: Path) -> Path:
    """Builds results/index.html from results/tables/*.json and renders results/notebooks/*.ipynb; returns its path."""
    found = map(_section, results.glob("tables/*.json"))
    sections = sorted(found, key=lambda s: (s.benchmark, s.model, s.corpus, s.stem))
    notebooks = {p.stem: p for p in sorted(results.glob("notebooks/*.ipynb"))}
    rendered = {name: render_notebook(path) for name, path in notebooks.items()}
    views = [_view(s, results, s.stem in notebooks and _failed(notebooks[s.stem])) for s in sections]
    finished = {s.stem for s in sections}
    unfinished = [(name, _relative(p, results)) for name, p in rendered.items() if name not in finished]
    page = results / "index.html"
    write_text(page, render("index.html.j2", sections=views, columns=COLUMNS, unfinished=unfinished))
    return page


def _section(path: Path) -> Section:
    try:
        return Section(**json.loads(path.read_text("utf8")))
    except (ValueError, TypeError) as e:
        raise UserError(f"{path} is damaged or of another version; delete it and run its notebook again") from e


def _view(section: Section, results: Path, failed: bool) -> dict[str, Any]:
    """What the template prints of a section: only links to files that exist."""
    tables, stem = results / "tables", section.stem
    links = [("notebook", results / "notebooks" / f"{stem}.html")]
    links += [(f"table ({s})", tables / f"{stem}.{s}") for s in SUFFIXES]
    figures = []
    for name, caption in section.figures:
        png, pdf = (results / "figures" / f"{stem}.{name}.{suffix}" for suffix in ("png", "pdf"))
        if png.exists() and pdf.exists():
            figures.append({"png": _relative(png, results), "pdf": _relative(pdf, results), "caption": caption})
            links.append((f"{name} (pdf)", pdf))
    return {
        **{k: getattr(section, k) for k in ("stem", "heading", "findings", "table", "differences", "summary")},
        "figures": figures,
        "links": [(label, _relative(p, results)) for label, p in links if p.exists()],
        "provenance": json.dumps(section.provenance, indent=1, sort_keys=True),
        "failed": failed,
    }


def render_notebook(ipynb: Path) -> Path:
    """An executed notebook as one HTML file beside it, without network, scripts or progress bars; returns its path.

    The page carries the digest of what it shows and is left alone while that stays the same.
    """
    from nbconvert import HTMLExporter
    from pygments.formatters import HtmlFormatter

    target, notebook = ipynb.with_suffix(".html"), _read(ipynb)
    mark = f"rendered from {digest(ipynb.read_text('utf8'), *(p.read_text('utf8') for p in _templates()))}"
    if target.exists() and mark in target.read_text("utf8"):
        return target
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr" and not _is_widget(o)]
    body, _ = HTMLExporter(template_name="basic", exclude_anchor_links=True).from_notebook_node(notebook)
    highlight = HtmlFormatter(style="default").get_style_defs(".highlight")
    values = {"title": ipynb.stem, "source": ipynb.name, "mark": mark, "body": Markup(body), "highlight": Markup(highlight)}
    write_text(target, render("notebook.html.j2", **values))
    return target


def _read(ipynb: Path) -> nbformat.NotebookNode:
    try:
        return nbformat.read(ipynb, as_version=4)
    except (ValueError, KeyError, AttributeError) as e:
        raise UserError(f"{ipynb} is not a notebook (a run was cut off while it was written?); delete it and run again") from e


def _templates() -> list[Path]:
    return sorted((Path(__file__).parent / "templates").glob("*"))


def _is_widget(output: Mapping[str, Any]) -> bool:
    return any("widget" in kind for kind in output.get("data", {}))


def _failed(ipynb: Path) -> bool:
    return any(o.get("output_type") == "error" for c in _read(ipynb).cells for o in c.get("outputs", ()))


def _relative(path: Path, results: Path) -> str:
    return path.relative_to(results).as_posix()
