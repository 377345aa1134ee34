"""One page a task and benchmark, from the stored rows alone; texts only where they may be copied."""

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from pkg_lib.analysis.contents import Page
from pkg_lib.analysis.tables import TEMPLATES, render, single
from pkg_lib.core.reading import TEXT_OR_NONE, Kinds, is_there
from pkg_lib.core.store import page_text, read_rows, rows_sha256, slug, write_text
from pkg_lib.core.types import Task, UserError, digest
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark, title_of
from pkg_lib.evaluation.storage import MethodFiles, method_files
from pkg_lib.evaluation.stored_rows import OPTIONAL, OUTCOME
from pkg_lib.execution.errors import split_detail
from pkg_lib.retrieval.methods import METHODS, NO_RAG, RERANKED

SHOWN_OF_CONTEXT = 240  # characters
SHARED_LINES = 4  # from how many lines on a common beginning of two solutions is left out
STAR = "\N{BLACK STAR}"  # the reranker's choice


class ExperimentRows:
    """The stored rows of an experiment by column, and which column the reranker `chose`."""

    def __init__(self, page: Page, results: Path) -> None:
        self.page, about = page, page.sections[0].provenance
        self.model, self.benchmark, self.corpus = (
            about[n] for n in ("model", "benchmark", "corpus")
        )
        self.results = results
        self.files: list[Path] = []
        self.judged: dict[str, dict[str, Any]] = {}
        self.contexts: dict[str, dict[str, Any]] = {}
        for column in (name for name in single(METHODS) if not METHODS[name].variant_of):
            files = self._files(column)
            if rows := self._read(files.samples, OUTCOME | {"solution": str}):
                self.judged[column] = rows
            if column == NO_RAG:
                continue
            if rows := self._read(files.contexts, {"text": TEXT_OR_NONE, "source": str}):
                self.contexts[column] = rows
        self.chose = self._read(self._files(RERANKED).selections, {"chosen": str})

    def _files(self, column: str) -> MethodFiles:
        return method_files(self.results, self.model, self.benchmark, self.corpus, column)

    def _read(self, path: Path, fields: Kinds) -> dict[str, Any]:
        """Row by task id; empty without the file. A file that is read counts as a source of the page."""
        if not is_there(path):
            return {}
        self.files.append(path)
        rows = read_rows(path, {"task_id": str} | fields, OPTIONAL)
        return {row["task_id"]: row for row in rows}

    def beside(self, column: str) -> str:
        """The column with its corpus; None has none and is the same beside every corpus."""
        return column if column == NO_RAG else f"{column} ({self.corpus})"


def file_of(task_id: str) -> str:
    return f"{slug(task_id.replace('/', '-'))}.html"


def build(results: Path, pages: Sequence[Page]) -> tuple[dict[str, Any], set[Path]]:
    """Writes the pages below results/site/tasks/; (page's name -> its grid of verdicts, the files)."""
    grids, files = {}, set()
    runs = [r for r in (ExperimentRows(p, results) for p in pages if p.about) if r.judged]
    for benchmark in dict.fromkeys(r.benchmark for r in runs):
        beside = [r for r in runs if r.benchmark == benchmark]
        ids = list(dict.fromkeys(i for r in beside for rows in r.judged.values() for i in rows))
        folder = results / "site" / "tasks" / benchmark
        files |= _write(folder, benchmark, ids, beside)
        grids |= {r.page.name: _grid(r, ids) for r in beside}
    return grids, files


def _write(folder: Path, benchmark: str, ids: list[str], runs: list[ExperimentRows]) -> set[Path]:
    """The index carries the digest of what the pages are made from; the same are left alone."""
    texts, title = _tasks(benchmark), title_of(benchmark)
    sources = [
        *dict.fromkeys(p for r in runs for p in r.files),
        *sorted(TEMPLATES.glob("*")),
        Path(__file__),
    ]
    names = [
        *(f"{i} {t.prompt}" for i, t in texts.items()),
        *(f"{r.page.name} {r.page.title}" for r in runs),
    ]
    mark = digest(*names, *map(rows_sha256, sources))
    paths, index = {folder / file_of(i): i for i in ids}, folder / "index.html"
    if mark in page_text(index) and all(p.exists() for p in paths):
        return {index, *paths}
    shared = {"root": "../../../", "title": title, "benchmark": benchmark, "file_of": file_of}
    for (path, task_id), before, after in zip(
        paths.items(), ["", *ids], [*ids[1:], ""], strict=False
    ):
        around = {"task": texts.get(task_id), "task_id": task_id, "before": before, "after": after}
        write_text(path, render("task.html.j2", **shared, **around, **_view(task_id, runs)))
    shades = [(i, file_of(i), *_solved(i, runs)) for i in ids]
    write_text(index, render("task_index.html.j2", **shared, shades=shades, mark=mark))
    return {index, *paths}


def _tasks(benchmark: str) -> dict[str, Task]:
    """The tasks whose text may be shown, where it is available."""
    try:
        return (
            {t.id: t for t in load_benchmark(benchmark)} if BENCHMARKS[benchmark].copyable else {}
        )
    except UserError:
        return {}


def _view(task_id: str, runs: list[ExperimentRows]) -> dict[str, Any]:
    """What the page of a task shows: the verdicts of each run, every distinct solution and context once."""
    solutions: dict[tuple[str, str], dict[str, Any]] = {}
    contexts: dict[str, dict[str, Any]] = {}
    table = []
    for run in runs:
        cells, chosen = [], run.chose.get(task_id, {}).get("chosen")
        for column, rows in run.judged.items():
            row, solution = rows.get(task_id, {"status": "not_measured"}), None
            if row["status"] != "not_measured":
                first = next(iter(solutions), ("", ""))[0]
                solution = solutions.setdefault(
                    (row["solution"], row["status"]), _solution(row, first)
                )
                solution.setdefault("number", len(solutions))
                solution["by"].setdefault(run.model, {})[run.beside(column)] = None
            cells.append((f"{column} {STAR}" if column == chosen else column, row, solution))
        for column, rows in run.contexts.items():
            if text := rows.get(task_id, {}).get("text"):
                shown = {"source": rows[task_id]["source"], "by": {}, "text": text}
                if len(text) > SHOWN_OF_CONTEXT:
                    shown["text"] = f"{text[:SHOWN_OF_CONTEXT]} \N{HORIZONTAL ELLIPSIS}"
                contexts.setdefault(text, shown)["by"][run.beside(column)] = None
        table.append((run, cells))
    return {
        "runs": table,
        "solutions": list(solutions.values()),
        "contexts": list(contexts.values()),
    }


def _solution(row: dict[str, Any], first: str) -> dict[str, Any]:
    """A solution with its verdict, without the lines that it begins with as the page's `first` one does."""
    detail = split_detail(row["detail"])[0]  # the rest is a test of the benchmark
    lines = row["solution"].rstrip("\n").split("\n")
    pairs = zip(lines, first.split("\n"), strict=False)
    same = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    same = same if same >= SHARED_LINES else 0
    detail = detail.removeprefix(row["error"]).removeprefix(": ")
    return {"row": row, "by": {}, "same": same, "text": "\n".join(lines[same:]), "detail": detail}


def _grid(run: ExperimentRows, ids: list[str]) -> dict[str, Any]:
    """The verdicts of an experiment: a row a task, a cell a column."""
    verdicts = {i: [rows.get(i, {}).get("status") for rows in run.judged.values()] for i in ids}
    rows = [
        (i, f"tasks/{run.benchmark}/{file_of(i)}", statuses) for i, statuses in verdicts.items()
    ]
    return {"columns": list(run.judged), "rows": rows}


def _solved(task_id: str, runs: list[ExperimentRows]) -> tuple[int, int]:
    """(completions that passed, those measured): None once a model, however many corpora it stands beside."""
    seen = {
        (r.model, r.beside(c)): rows.get(task_id, {}) for r in runs for c, rows in r.judged.items()
    }
    counts = Counter(row.get("status") for row in seen.values())
    return counts["passed"], counts["passed"] + counts["failed"]
