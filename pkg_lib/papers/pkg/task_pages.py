"""One page a task and benchmark: what every model, corpus and column made of it, from the stored rows alone.

Nothing is retrieved, generated or executed. Texts of tasks stand here only where they may be copied (`showing.COPYABLE`), and
of contexts what results/contexts/ holds already.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from markupsafe import Markup

from pkg_lib.analysis.contents import Page
from pkg_lib.analysis.tables import COLUMNS, TITLES, render, single
from pkg_lib.core.store import read_rows, slug, write_text
from pkg_lib.core.types import Task, UserError, digest
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.execution.errors import split_detail
from pkg_lib.papers.pkg.showing import COPYABLE

SHOWN_OF_CONTEXT = 240  # characters
SHARED_LINES = 4  # from how many lines on a common beginning of two solutions is left out
STAR = "\N{BLACK STAR}"  # the reranker's choice
MARKS = {"passed": ("p", "\N{CHECK MARK}"), "failed": ("f", "\N{BALLOT X}")}
Rows = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Run:
    """The stored rows of an experiment: column -> task id -> row, and which column the reranker takes of a task."""

    page: Page
    results: Path

    @property
    def names(self) -> tuple[str, str, str]:
        """Model, benchmark and corpus."""
        about = self.page.sections[0].provenance
        return about["model"], about["benchmark"], about["corpus"]

    def files(self, stage: str) -> dict[str, Path]:
        """column -> its file of contexts or evaluations, where there is one."""
        model, benchmark, corpus = self.names
        folder = self.results.joinpath(stage, *([] if stage == "contexts" else [model]), benchmark)
        shelves = {c: "none" if c == "None" else slug(corpus) for c in (*single(COLUMNS), "Reranked")}
        return {c: p for c, shelf in shelves.items() if (p := folder / shelf / f"{slug(c)}.jsonl").exists()}

    @cached_property
    def rows(self) -> dict[str, Rows]:
        """column -> task id -> verdict with its solution; under Reranked which column it takes."""
        return {c: _by_task(p) for c, p in self.files("evaluations").items()}

    @cached_property
    def judged(self) -> dict[str, Rows]:
        return {c: rows for c, rows in self.rows.items() if c != "Reranked"}

    @cached_property
    def contexts(self) -> dict[str, Rows]:
        return {c: _by_task(p) for c, p in self.files("contexts").items() if c != "None"}

    def named(self, column: str) -> tuple[str, str]:
        """The model, and the column with its corpus; None has none and is the same beside every corpus."""
        return self.names[0], column if column == "None" else f"{column} ({self.names[2]})"


def _by_task(path: Path) -> Rows:
    return {r["task_id"]: r for r in read_rows(path, ("task_id",))}


def file_of(task_id: str) -> str:
    return f"{slug(task_id.replace('/', '-'))}.html"


def build(results: Path, pages: Sequence[Page], sources: Iterable[Path]) -> tuple[dict[str, Any], set[Path]]:
    """Writes the pages of all tasks below results/site/tasks/; (page's name -> its grid of verdicts, files that belong).

    The index of a benchmark carries the digest of all that its pages were made from (`sources`: the templates); they are left
    alone while that stays the same. UserError for a damaged file.
    """
    grids, written = {}, set()
    runs = [r for r in (Run(p, results) for p in pages if p.about) if r.judged]
    for benchmark in dict.fromkeys(r.names[1] for r in runs):
        here = [r for r in runs if r.names[1] == benchmark]
        ids = list(dict.fromkeys(i for r in here for rows in r.judged.values() for i in rows))
        written |= _write(results / "site" / "tasks" / benchmark, ids, here, sources)
        grids |= {r.page.name: _grid(r, ids) for r in here}
    return grids, written


def indexes(written: Iterable[Path]) -> list[tuple[str, str]]:
    """(benchmark, its title) of those that have pages."""
    return sorted(
        (p.parent.name, TITLES.get(p.parent.name, p.parent.name)) for p in written if p.name == "index.html"
    )


def _write(folder: Path, ids: list[str], runs: list[Run], sources: Iterable[Path]) -> set[Path]:
    stored = [p for r in runs for stage in ("evaluations", "contexts") for p in r.files(stage).values()]
    texts = _tasks(runs[0].names[1])
    prompts = [f"{i} {t.prompt}" for i, t in texts.items()]
    names = [f"{r.page.name} {r.page.title}" for r in runs]
    mark = digest(
        *prompts, *names, *(p.read_text("utf8") for p in [*dict.fromkeys(stored), *sources, Path(__file__)])
    )
    paths = {folder / file_of(i): i for i in ids}
    index = folder / "index.html"
    if index.exists() and mark in index.read_text("utf8") and all(p.exists() for p in paths):
        return {index, *paths}
    title = TITLES.get(folder.name, folder.name)
    for number, (path, task_id) in enumerate(paths.items()):
        around = {
            "before": ids[number - 1] if number else "",
            "after": ids[number + 1] if number + 1 < len(ids) else "",
        }
        values = {
            "title": title,
            "task": texts.get(task_id),
            "task_id": task_id,
            "around": around,
            "file_of": file_of,
        }
        text = render(
            "task.html.j2", root="../../../", benchmark=folder.name, **values, **_view(task_id, runs)
        )
        write_text(path, text.encode("utf8", "replace").decode("utf8"))
    shades = [(i, file_of(i), *_solved(i, runs)) for i in ids]
    write_text(index, render("task_index.html.j2", root="../../../", title=title, shades=shades, mark=mark))
    return {index, *paths}


def _tasks(benchmark: str) -> dict[str, Task]:
    """The tasks whose text may be shown, where it is at hand."""
    try:
        return {t.id: t for t in load_benchmark(benchmark)} if benchmark in COPYABLE else {}
    except UserError:
        return {}


def _view(task_id: str, runs: list[Run]) -> dict[str, Any]:
    """What the page of a task shows: the verdicts of each run, every distinct solution once, the contexts."""
    solutions: dict[tuple[str, str], tuple[dict[str, Any], dict[tuple[str, str], None]]] = {}
    table = []
    for run in runs:
        cells, chosen = [], run.rows.get("Reranked", {}).get(task_id, {}).get("chosen")
        for column, rows in run.judged.items():
            row = rows.get(task_id, {"status": "not_measured"})
            cell = {"name": f"{column} {STAR}" if column == chosen else column, "number": 0}
            if row["status"] in MARKS:
                key = row["solution"], row["status"]
                solutions.setdefault(key, (row, {}))[1][run.named(column)] = None
                cell |= {
                    "number": list(solutions).index(key) + 1,
                    "kind": MARKS[row["status"]][0],
                    "verdict": _verdict(row),
                }
            cells.append(cell)
        table.append((run, cells))
    first = next(iter(solutions), ("", ""))[0]
    shown = [_solution(row, by, first if n else "") for n, (row, by) in enumerate(solutions.values())]
    return {"runs": table, "solutions": shown, "contexts": _contexts(task_id, runs)}


def _verdict(row: dict[str, Any]) -> str:
    return row["error"] or row["status"]


def _solution(row: dict[str, Any], made_by: Iterable[tuple[str, str]], first: str) -> dict[str, Any]:
    """A solution with its verdict and the models and columns that made it; what it shares with the `first` is left out."""
    detail = (
        split_detail(row["detail"])[0].removeprefix(row["error"]).removeprefix(": ")
    )  # the rest is a test of the benchmark
    models = dict.fromkeys(model for model, _ in made_by)
    by = [(m, ", ".join(column for model, column in made_by if model == m)) for m in models]
    about = {"kind": MARKS[row["status"]][0], "verdict": _verdict(row), "detail": detail, "by": by}
    return about | _shortened(row["solution"], first)


def _shortened(text: str, first: str) -> dict[str, Any]:
    """The solution without the lines that it begins with as the page's first one does, and how many those are."""
    lines, others = text.rstrip("\n").split("\n"), first.split("\n")
    same = next(
        (n for n, (a, b) in enumerate(zip(lines, others, strict=False)) if a != b),
        min(len(lines), len(others)),
    )
    same = same if same >= SHARED_LINES else 0
    return {"same": same, "text": _escaped("\n".join(lines[same:]))}


def _escaped(text: str) -> Markup:
    """Text between tags: quotes stay, which halves the pages of docstrings."""
    return Markup(html.escape(text, quote=False))


def _contexts(task_id: str, runs: list[Run]) -> list[dict[str, Any]]:
    """Each distinct context whose text is stored, with the corpora and columns that gave it."""
    found: dict[str, dict[str, Any]] = {}
    for run in runs:
        for column, rows in run.contexts.items():
            text = rows.get(task_id, {}).get("text")
            if text:
                cut = text[:SHOWN_OF_CONTEXT] + (
                    " \N{HORIZONTAL ELLIPSIS}" if len(text) > SHOWN_OF_CONTEXT else ""
                )
                about = {"source": rows[task_id]["source"], "by": {}, "text": _escaped(cut)}
                found.setdefault(text, about)["by"][run.named(column)[1]] = None
    return list(found.values())


def _grid(run: Run, ids: list[str]) -> dict[str, Any]:
    """The verdicts of an experiment: a row a task, a cell a column."""
    columns, none = list(run.judged), ("", "\N{EN DASH}")
    rows = [
        (
            i,
            f"tasks/{run.names[1]}/{file_of(i)}",
            [MARKS.get(run.judged[c].get(i, {}).get("status", ""), none) for c in columns],
        )
        for i in ids
    ]
    return {"columns": columns, "rows": rows}


def _solved(task_id: str, runs: list[Run]) -> tuple[int, int]:
    """(completions that passed, those measured): None once a model, however many corpora it stands beside."""
    seen = {r.named(c): rows.get(task_id, {}) for r in runs for c, rows in r.judged.items()}
    counts = Counter(row.get("status") for row in seen.values())
    return counts["passed"], counts["passed"] + counts["failed"]
