"""Write one page per task of a benchmark, from stored rows alone.

Texts are shown only if they may be copied.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pkg_lib.analysis.contents import Page
from pkg_lib.analysis.tables import TEMPLATES, render, single
from pkg_lib.core.reading import TEXT_OR_NONE, Kinds, is_there
from pkg_lib.core.store import cache_folder, page_text, read_rows, rows_sha256, slug, write_text
from pkg_lib.core.types import Task, UserError, digest
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark, title_of
from pkg_lib.evaluation.storage import MethodFiles, method_files
from pkg_lib.evaluation.stored_rows import OPTIONAL, Row, read_verdicts
from pkg_lib.execution.errors import split_detail
from pkg_lib.generation.cache import GenerationCache
from pkg_lib.retrieval.methods import METHODS, NO_RAG, RERANKED

SHOWN_OF_CONTEXT = 240  # characters
SHARED_LINES = 4  # from how many lines on a common beginning of two solutions is left out
NOT_STORED = "# The completion that has this solution is not stored any more."
STAR = "\N{BLACK STAR}"  # the reranker's choice

RowsByTask = dict[str, Row]
Solutions = dict[tuple[str, str], Row]  # (solution, status) -> its entry on a page


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
        first_section = page.sections[0]
        about = first_section.provenance
        self.page = page
        self.model = about["model"]
        self.benchmark = about["benchmark"]
        self.corpus = about["corpus"]
        self.results = results
        self.files: list[Path] = []
        self.judged: dict[str, RowsByTask] = {}
        self.contexts: dict[str, RowsByTask] = {}
        for method in single(METHODS):
            is_variant = METHODS[method].variant_of
            if not is_variant:
                self._read_method(method)
        files = self._files(RERANKED)
        selections = self._read(files.selections, {"chosen": str})
        self.chosen = {task_id: row["chosen"] for task_id, row in selections.items()}

    def _read_method(self, method: str) -> None:
        """Read the verdicts and the contexts of one method, if it has any."""
        files = self._files(method)
        judged = read_verdicts(files.samples, self._cache.rows)
        if judged:
            self.files.append(files.samples)
            self.judged[method] = judged
        if method == NO_RAG:
            return
        context: Kinds = {"text": TEXT_OR_NONE, "source": str}
        contexts = self._read(files.contexts, context)
        if contexts:
            self.contexts[method] = contexts

    @cached_property
    def _cache(self) -> GenerationCache:
        """The completions of the model."""
        return GenerationCache(cache_folder(self.results, self.model))

    def _files(self, method: str) -> MethodFiles:
        return method_files(self.results, self.model, self.benchmark, self.corpus, method)

    def _read(self, path: Path, fields: Kinds) -> RowsByTask:
        """Read the rows of a file by task id, and remember the file; none if it does not exist."""
        if not is_there(path):
            return {}
        self.files.append(path)
        needed: Kinds = {"task_id": str} | fields
        rows = read_rows(path, needed, OPTIONAL)
        return {row["task_id"]: row for row in rows}

    def with_corpus(self, method: str) -> str:
        """Name a method with the corpus that it uses.

        Args:
            method: A method. NoRAG uses no corpus, so its name is the same for every corpus.

        Returns:
            Text such as "BM25 (textbook)", or "NoRAG".
        """
        return method if method == NO_RAG else f"{method} ({self.corpus})"


def file_of(task_id: str) -> str:
    """Return the name of a task's page.

    Args:
        task_id: The task.

    Returns:
        Text such as "humaneval-20.html".
    """
    name = slug(task_id.replace("/", "-"))
    return f"{name}.html"


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
        if not page.about:
            continue
        run = ExperimentRows(page, results)
        if run.judged:
            runs = runs_of.setdefault(run.benchmark, [])
            runs.append(run)
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
    folder: Path,
    benchmark: str,
    task_ids: list[str],
    runs: list[ExperimentRows],
) -> set[Path]:
    """Write the pages of a benchmark, unless they were made from the same sources.

    The index contains a fingerprint of the sources.
    """
    tasks = _tasks(benchmark)
    fingerprint = _fingerprint(tasks, runs)
    index = folder / "index.html"
    paths = [folder / file_of(task_id) for task_id in task_ids]
    files = {index, *paths}
    is_current = fingerprint in page_text(index)
    if is_current and all(path.exists() for path in paths):
        return files
    shared = {
        "root": "../../../",
        "title": title_of(benchmark),
        "benchmark": benchmark,
        "file_of": file_of,
    }
    befores = ["", *task_ids]
    afters = [*task_ids[1:], ""]
    around = zip(paths, task_ids, befores, afters, strict=False)
    shades = []
    for path, task_id, before, after in around:
        view = _view(task_id, runs)
        text = render(
            "task.html.j2",
            task=tasks.get(task_id),
            task_id=task_id,
            before=before,
            after=after,
            **shared,
            **view,
        )
        write_text(path, text)
        passed, measured = _solved(task_id, runs)
        shades.append((task_id, path.name, passed, measured))
    text = render(
        "task_index.html.j2",
        shades=shades,
        fingerprint=fingerprint,
        **shared,
    )
    write_text(index, text)
    return files


def _fingerprint(tasks: dict[str, Task], runs: list[ExperimentRows]) -> str:
    """Identify everything that the pages are made from."""
    files: dict[Path, None] = {}
    for run in runs:
        files |= dict.fromkeys(run.files)
    templates = sorted(TEMPLATES.glob("*"))
    this_program = Path(__file__)
    sources = [*files, *templates, this_program]
    digests = map(rows_sha256, sources)
    texts = [f"{task_id} {task.prompt}" for task_id, task in tasks.items()]
    texts += [f"{run.page.name} {run.page.title}" for run in runs]
    return digest(*texts, *digests)


def _tasks(benchmark: str) -> dict[str, Task]:
    """The tasks by id, if their text may be shown and is available."""
    if not BENCHMARKS[benchmark].copyable:
        return {}
    try:
        tasks = load_benchmark(benchmark)
    except UserError:
        return {}
    return {task.id: task for task in tasks}


def _view(task_id: str, runs: list[ExperimentRows]) -> dict[str, Any]:
    """What the page of a task shows: the verdicts of each run, and every distinct solution and context."""
    solutions: Solutions = {}
    contexts: dict[str, Row] = {}
    verdicts = []
    for run in runs:
        cells = []
        chosen = run.chosen.get(task_id)
        for method, rows in run.judged.items():
            row = rows.get(task_id, {"status": "not_measured"})
            solution = None
            if row["status"] != "not_measured":
                solution = _listed_solution(solutions, row)
                methods = solution["by"].setdefault(run.model, {})
                label = run.with_corpus(method)
                methods[label] = None
            name = method
            if method == chosen:
                name = f"{method} {STAR}"
            cells.append((name, row, solution))
        verdicts.append((run, cells))
        for method, rows in run.contexts.items():
            row = rows.get(task_id, {})
            if row.get("text"):
                context = _listed_context(contexts, row)
                label = run.with_corpus(method)
                context["by"][label] = None
    return {
        "runs": verdicts,
        "solutions": list(solutions.values()),
        "contexts": list(contexts.values()),
    }


def _listed_context(contexts: dict[str, Row], row: Row) -> Row:
    """The entry of a context on a page; it is added if the page does not have it yet."""
    text = row["text"]
    if text not in contexts:
        beginning = text
        if len(text) > SHOWN_OF_CONTEXT:
            beginning = f"{text[:SHOWN_OF_CONTEXT]} \N{HORIZONTAL ELLIPSIS}"
        contexts[text] = {
            "source": row["source"],
            "by": {},
            "text": beginning,
        }
    return contexts[text]


def _listed_solution(solutions: Solutions, row: Row) -> Row:
    """The entry of a solution on a page; it is added if the page does not have it yet.

    A beginning that the solution shares with the first one on the page is left out.
    """
    solution = NOT_STORED if row["solution"] is None else row["solution"]
    key = solution, row["status"]
    if key in solutions:
        return solutions[key]
    first, _ = next(iter(solutions), ("", ""))
    text = solution.rstrip("\n")
    lines = text.split("\n")
    lines_of_first = first.split("\n")
    shared = 0
    for line, line_of_first in zip(lines, lines_of_first, strict=False):
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
        address = f"tasks/{run.benchmark}/{file_of(task_id)}"
        rows.append((task_id, address, statuses))
    methods = list(run.judged)
    return {"columns": methods, "rows": rows}


def _solved(task_id: str, runs: list[ExperimentRows]) -> tuple[int, int]:
    """How many completions passed, and how many were measured.

    A model's completions without retrieval are counted once, however many corpora it was run with.
    """
    status_of = {}
    for run in runs:
        for method, rows in run.judged.items():
            row = rows.get(task_id, {})
            label = run.with_corpus(method)
            status_of[run.model, label] = row.get("status")
    counts = Counter(status_of.values())
    passed = counts["passed"]
    return passed, passed + counts["failed"]
