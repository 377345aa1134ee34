"""The study: which notebooks run for which model, benchmark and corpus; papermill runs them, the report collects them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pkg_lib.analysis.metrics import pass_at_1
from pkg_lib.analysis.tables import percent
from pkg_lib.results import ROOT, results_dir, stem
from pkg_lib.types import UserError

# The kernel's remark that it talks over TCP, on each start, would stand between the progress lines.
KERNEL = {"kernel_name": "python3", "extra_arguments": ["--log-level=ERROR"]}
NOTEBOOKS = ROOT / "notebooks"
MODEL = "qwen2.5-coder-0.5b-instruct"
BENCHMARK = "humaneval"
# What ./run_all.sh shows: the corpora whose completions are committed, so that it needs no weights.
CORPORA = ("pkg-contexts",)


@dataclass(frozen=True, slots=True)
class Cell:
    """One notebook with its parameters."""

    notebook: str
    parameters: dict[str, Any]

    @property
    def target(self) -> Path:
        p = self.parameters
        name = stem(p["model"], p["benchmark"], p["corpus"], p["limit"])
        return results_dir() / "notebooks" / f"{name}.{self.notebook}.ipynb"


def notebooks() -> list[str]:
    """Names of the notebooks that a batch run executes."""
    return sorted(p.stem for p in NOTEBOOKS.glob("*.ipynb"))


def plan(
    models: list[str], benchmark: str, corpora: list[str], names: list[str], limit: int | None = None
) -> Iterator[tuple[dict[str, Any], list[Cell]]]:
    """(parameters, notebooks) of each experiment; UserError for an unknown notebook."""
    unknown = [n for n in names if n not in notebooks()]
    if unknown:
        raise UserError(f"unknown notebook '{unknown[0]}'; choose from: {', '.join(notebooks())}")
    for model in models:
        for corpus in corpora:
            parameters = {"model": model, "benchmark": benchmark, "corpus": corpus, "limit": limit}
            yield parameters, [Cell(n, parameters) for n in names or notebooks()]


def execute(cell: Cell) -> str:
    """Runs one notebook; returns "" or the error that stopped it. The notebook is saved up to the failing cell."""
    import papermill
    from papermill.exceptions import PapermillExecutionError

    source = NOTEBOOKS / f"{cell.notebook}.ipynb"
    check_parameters(source, cell.parameters)
    # Only a notebook that ran to its end, or to a failing cell, takes the place of the last one: Ctrl-C leaves that alone.
    running = cell.target.with_name(f".{cell.target.name}")
    try:
        running.parent.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise UserError(f"cannot make {running.parent}: {e.strerror}; move what stands in its place") from e
    # The kernel imports the same pkg_lib as this process, wherever it was started from.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    try:
        error = ""
        try:
            papermill.execute_notebook(source, running, cell.parameters, cwd=str(ROOT), progress_bar=False, **KERNEL)
        except PapermillExecutionError as e:
            error = f"{e.ename}: {e.evalue.splitlines()[0] if e.evalue else ''}"
        _repeatable(running)
        running.replace(cell.target)
    finally:
        running.unlink(missing_ok=True)
    return error


def _repeatable(path: Path) -> None:
    """Takes times, random ids and progress bars out of an executed notebook: the same results give the same file."""
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    for name in ("papermill", "widgets"):
        notebook.metadata.pop(name, None)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
        for name in ("papermill", "execution"):
            cell.metadata.pop(name, None)
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if "application/vnd.jupyter.widget-view+json" not in o.get("data", {})]
    nbformat.write(notebook, path)


def check_parameters(notebook: Path, parameters: dict[str, Any]) -> None:
    """UserError for a parameter that the notebook's parameters cell does not declare (papermill only warns)."""
    import papermill

    known = papermill.inspect_notebook(str(notebook))
    unknown = [p for p in parameters if p not in known]
    if unknown:
        raise UserError(f"notebook {notebook.stem} has no parameter '{unknown[0]}'; it takes: {', '.join(known)}")


def run(
    models: list[str],
    benchmark: str,
    corpora: list[str],
    names: list[str],
    limit: int | None,
    fresh: bool,
    say: Callable[[str], None],
) -> int:
    """Generates and judges what is missing, executes the notebooks, builds the report; returns the number of failures."""
    from pkg_lib.experiment import Experiment
    from pkg_lib.retrieval.retrievers import RETRIEVERS

    failures = 0
    # All of them are made before the first runs, so that a mistake in the last name costs no hours.
    planned = [(p, cells, Experiment(**p, fresh=fresh)) for p, cells in plan(models, benchmark, corpora, names, limit)]
    for parameters, cells, experiment in planned:
        made = experiment.generate(list(RETRIEVERS))
        frame = experiment.verdicts()
        experiment.controls()
        say(f"{parameters['model']} | {benchmark} | {parameters['corpus']}: {len(frame)} tasks, {made} completions generated")
        for cell in cells:
            error = execute(cell)
            failures += bool(error)
            say(f"  {cell.notebook}: {error or 'done'}")
        say(summary(frame))
    return failures


def summary(frame: Any) -> str:
    """pass@1 of each column in percent, one line each, as run_all.sh prints it."""
    lines = [f"  {'column':<12}{'pass@1':>8}{'passed':>9}{'measured':>10}"]
    for column in frame:
        rate = pass_at_1(frame[column])
        lines.append(f"  {column:<12}{percent(rate.value):>8}{rate.passed:>9}{rate.measured:>10}")
    return "\n".join(lines)
