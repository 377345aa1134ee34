"""Write one page per task of a benchmark, from stored rows alone.

Texts are shown only if they may be copied.
"""

from collections import Counter
from collections.abc import Sequence
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


Row = dict[str, Any]
RowsByTask = dict[str, Row]


class ExperimentRows:
    """The stored rows of an experiment.

    Attributes:
        page: The experiment's page.
        judged: Method -> task id -> verdict with solution.
        contexts: Method -> task id -> context.
        chosen: Task id -> the method that the reranker chose.
        files: The files that were read.
    """

    def __init__(self, page: Page, results: Path) -> None:
        """Read the rows of the experiment that a page is about.

        Args:
            page: The page.
            results: The results directory.
        """
        about = page.sections[0].provenance
        self.page = page
        self.model = about["model"]
        self.benchmark = about["benchmark"]
        self.corpus = about["corpus"]
        self.results = results
        self.files: list[Path] = []
        self.judged: dict[str, RowsByTask] = {}
        self.contexts: dict[str, RowsByTask] = {}
        for method in single(METHODS):
            if not METHODS[method].variant_of:
                self._read_method(method)
        selections = self._read(self._files(RERANKED).selections, {"chosen": str})
        self.chosen = {task_id: row["chosen"] for task_id, row in selections.items()}

    def _read_method(self, method: str) -> None:
        """Read the verdicts and the contexts of one method, if it has any."""
        files = self._files(method)
        judged = self._read(files.samples, OUTCOME | {"solution": str})
        if judged:
            self.judged[method] = judged
        if method == NO_RAG:
            return
        contexts = self._read(files.contexts, {"text": TEXT_OR_NONE, "source": str})
        if contexts:
            self.contexts[method] = contexts

    def _files(self, method: str) -> MethodFiles:
        return method_files(self.results, self.model, self.benchmark, self.corpus, method)

    def _read(self, path: Path, fields: Kinds) -> RowsByTask:
        """Read the rows of a file by task id, and remember the file; none if it does not exist."""
        if not is_there(path):
            return {}
        self.files.append(path)
        rows = read_rows(path, {"task_id": str} | fields, OPTIONAL)
        return {row["task_id"]: row for row in rows}

    def with_corpus(self, method: str) -> str:
        """Name a method with the corpus that it uses.

        Args:
            method: A method. NoRAG uses no corpus, so its name is the same for every corpus.
        """
        return method if method == NO_RAG else f"{method} ({self.corpus})"


def file_of(task_id: str) -> str:
    """Return the name of a task's page.

    Args:
        task_id: The task.
    """
    return f"{slug(task_id.replace('/', '-'))}.html"


def build(results: Path, pages: Sequence[Page]) -> tuple[dict[str, Any], set[Path]]:
    """Write the pages of all tasks below results/site/tasks/.

    Args:
        results: The results directory.
        pages: The pages of the experiments.

    Returns:
        The grid of verdicts by name of the experiment's page, and the files.
    """
    runs_of: dict[str, list[ExperimentRows]] = {}
    for page in pages:
        if page.about:
            run = ExperimentRows(page, results)
            if run.judged:
                runs_of.setdefault(run.benchmark, []).append(run)
    grids: dict[str, Any] = {}
    files: set[Path] = set()
    for benchmark, runs in runs_of.items():
        task_ids = _task_ids(runs)
        folder = results / "site" / "tasks" / benchmark
        files |= _write(folder, benchmark, task_ids, runs)
        for run in runs:
            grids[run.page.name] = _grid(run, task_ids)
    return grids, files


def _task_ids(runs: Sequence[ExperimentRows]) -> list[str]:
    """The tasks that any run judged, in the order of the rows."""
    found: dict[str, None] = {}
    for run in runs:
        for rows in run.judged.values():
            found |= dict.fromkeys(rows)
    return list(found)


def _write(
    folder: Path, benchmark: str, task_ids: list[str], runs: list[ExperimentRows]
) -> set[Path]:
    """Write the pages of a benchmark, unless they were made from the same sources.

    The index contains a fingerprint of the sources.
    """
    tasks = _tasks(benchmark)
    fingerprint = _fingerprint(tasks, runs)
    index = folder / "index.html"
    paths = [folder / file_of(task_id) for task_id in task_ids]
    files = {index, *paths}
    if fingerprint in page_text(index) and all(path.exists() for path in paths):
        return files
    shared = {
        "root": "../../../",
        "title": title_of(benchmark),
        "benchmark": benchmark,
        "file_of": file_of,
    }
    last = len(task_ids) - 1
    for number, task_id in enumerate(task_ids):
        around = {
            "task": tasks.get(task_id),
            "task_id": task_id,
            "before": task_ids[number - 1] if number > 0 else "",
            "after": task_ids[number + 1] if number < last else "",
        }
        view = _view(task_id, runs)
        write_text(paths[number], render("task.html.j2", **shared, **around, **view))
    shades = []
    for task_id in task_ids:
        passed, measured = _solved(task_id, runs)
        shades.append((task_id, file_of(task_id), passed, measured))
    text = render("task_index.html.j2", **shared, shades=shades, fingerprint=fingerprint)
    write_text(index, text)
    return files


def _fingerprint(tasks: dict[str, Task], runs: list[ExperimentRows]) -> str:
    """Identify everything that the pages are made from."""
    files: dict[Path, None] = {}
    for run in runs:
        files |= dict.fromkeys(run.files)
    sources = [*files, *sorted(TEMPLATES.glob("*")), Path(__file__)]
    texts = [f"{task_id} {task.prompt}" for task_id, task in tasks.items()]
    texts += [f"{run.page.name} {run.page.title}" for run in runs]
    return digest(*texts, *map(rows_sha256, sources))


def _tasks(benchmark: str) -> dict[str, Task]:
    """The tasks by id, if their text may be shown and is available."""
    if not BENCHMARKS[benchmark].copyable:
        return {}
    try:
        return {task.id: task for task in load_benchmark(benchmark)}
    except UserError:
        return {}


def _view(task_id: str, runs: list[ExperimentRows]) -> dict[str, Any]:
    """What the page of a task shows: the verdicts of each run, and every distinct solution and context."""
    solutions: dict[tuple[str, str], dict[str, Any]] = {}
    contexts: dict[str, dict[str, Any]] = {}
    verdicts = []
    for run in runs:
        cells = []
        for method, rows in run.judged.items():
            row = rows.get(task_id, {"status": "not_measured"})
            solution = None
            if row["status"] != "not_measured":
                solution = _listed_solution(solutions, row)
                methods = solution["by"].setdefault(run.model, {})
                methods[run.with_corpus(method)] = None
            is_chosen = method == run.chosen.get(task_id)
            name = f"{method} {STAR}" if is_chosen else method
            cells.append((name, row, solution))
        verdicts.append((run, cells))
        for method, rows in run.contexts.items():
            row = rows.get(task_id, {})
            if row.get("text"):
                context = _listed_context(contexts, row)
                context["by"][run.with_corpus(method)] = None
    return {
        "runs": verdicts,
        "solutions": list(solutions.values()),
        "contexts": list(contexts.values()),
    }


def _listed_context(contexts: dict[str, dict[str, Any]], row: Row) -> dict[str, Any]:
    """The entry of a context on a page; it is added if the page does not have it yet."""
    text = row["text"]
    if text not in contexts:
        beginning = text
        if len(text) > SHOWN_OF_CONTEXT:
            beginning = f"{text[:SHOWN_OF_CONTEXT]} \N{HORIZONTAL ELLIPSIS}"
        contexts[text] = {"source": row["source"], "by": {}, "text": beginning}
    return contexts[text]


def _listed_solution(solutions: dict[tuple[str, str], dict[str, Any]], row: Row) -> dict[str, Any]:
    """The entry of a solution on a page; it is added if the page does not have it yet.

    A beginning that the solution shares with the first one on the page is left out.
    """
    key = row["solution"], row["status"]
    if key in solutions:
        return solutions[key]
    first, _ = next(iter(solutions), ("", ""))
    lines = row["solution"].rstrip("\n").split("\n")
    shared = 0
    for line, line_of_first in zip(lines, first.split("\n"), strict=False):
        if line != line_of_first:
            break
        shared += 1
    if shared < SHARED_LINES:
        shared = 0
    detail, _ = split_detail(row["detail"])  # the second part is a test of the benchmark
    detail = detail.removeprefix(row["error"])
    solutions[key] = {
        "number": len(solutions) + 1,
        "row": row,
        "by": {},
        "same": shared,
        "text": "\n".join(lines[shared:]),
        "detail": detail.removeprefix(": "),
    }
    return solutions[key]


def _grid(run: ExperimentRows, task_ids: list[str]) -> dict[str, Any]:
    """The verdicts of an experiment: a row per task, a cell per method."""
    rows = []
    for task_id in task_ids:
        statuses = []
        for by_task in run.judged.values():
            row = by_task.get(task_id, {})
            statuses.append(row.get("status"))
        rows.append((task_id, f"tasks/{run.benchmark}/{file_of(task_id)}", statuses))
    return {"columns": list(run.judged), "rows": rows}


def _solved(task_id: str, runs: list[ExperimentRows]) -> tuple[int, int]:
    """How many completions passed, and how many were measured.

    A model's completions without retrieval are counted once, however many corpora it was run with.
    """
    status_of = {}
    for run in runs:
        for method, rows in run.judged.items():
            row = rows.get(task_id, {})
            status_of[run.model, run.with_corpus(method)] = row.get("status")
    counts = Counter(status_of.values())
    return counts["passed"], counts["passed"] + counts["failed"]
