"""A run of the study: experiments are prepared one after the other, notebooks execute in parallel, each result is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pkg_lib import forecast, kernel, made, processes, study
from pkg_lib.experiment import Experiment
from pkg_lib.results import results_dir, results_path
from pkg_lib.types import UserError

Planned = list[tuple[Experiment, study.Part]]
Work = list[tuple[Experiment | None, study.Cell]]


def run(
    chosen: list[study.Part],
    names: list[str],
    limit: int | None,
    fresh: bool,
    own: dict[str, Any],
    say: Callable[[str], None],
    jobs: int | None = None,
    rerun: bool = False,
) -> dict[str, str]:
    """Generates and judges what is missing, executes the notebooks, `jobs` at once; returns label -> error of those that failed.

    Experiments are prepared one after the other, and their notebooks run together once no more completions are being
    written: before the next experiment that lacks some, and at the end. `rerun` (and `fresh`) execute those that are
    unchanged, too.
    """
    at_once = processes.workers(jobs)
    planned, work = study.plan(chosen, names, limit, fresh, own)
    results_dir()  # made here, or refused before anything is computed
    ready: Work = []
    errors: dict[str, str] = {}

    def flush() -> None:
        errors.update(_executed(ready, at_once, fresh or rerun, say))
        ready.clear()

    for experiment, part in planned:
        columns = list(part.columns or experiment.retrievers)
        if ready and forecast.missing(experiment, columns):
            flush()
        try:
            say(study.prepare(experiment, columns))
        except UserError:
            flush()  # what is complete is shown all the same
            raise
        experiment.fresh = False  # from here on what is stored is what was computed now
        say(study.summary(experiment.verdicts()))
        ready += [(e, c) for e, c in work if e is experiment]
    ready += [(e, c) for e, c in work if e is None]
    flush()
    failed = {name: error for name, error in errors.items() if error}
    if failed:
        say(f"{len(failed)} of {len(errors)} notebooks failed: {'; '.join(failed)}")
    return failed


def told(failed: dict[str, str]) -> tuple[int, str]:
    """The exit code and one line about all notebooks that failed. 0: none; 1: one did; 2: all did by a user's mistake."""
    line = "; ".join(f"{name}: {kernel.mistake(error) or error}" for name, error in failed.items())
    return (0 if not failed else 2 if all(map(kernel.mistake, failed.values())) else 1), " ".join(line.split())


def dry_run(planned: Planned, work: Work, again: bool, rates: forecast.Rates) -> list[str]:
    """What `run` would do with this `plan`, in lines; nothing is loaded, retrieved or written."""
    results, files, seen = results_path(), made.Files(), set[str]()
    found = ["dry run: nothing is computed or written; tokens, time and price are estimates"]
    behind, costs = set(), []
    for experiment, part in planned:
        columns = forecast.forecast(experiment, list(part.columns or experiment.retrievers), seen)
        found += forecast.lines(experiment, columns, rates)
        costs.append(forecast.cost(experiment, columns, rates))
        behind |= {id(experiment)} if costs[-1].todo else set()
    due = []
    for experiment, cell in work:
        now = made.made_from(cell.source, cell.parameters, results, files)
        same = not again and id(experiment) not in behind and made.unchanged(results, cell.stem, now)
        due += [] if same else [f"  {label(experiment, cell)}"]
    if len(costs) > 1:
        found.append(f"in all to complete: {forecast.total(costs)}")
    return [*found, f"notebooks: {len(due)} to execute, {len(work) - len(due)} unchanged", *due]


def label(experiment: Experiment | None, cell: study.Cell) -> str:
    """A notebook and its experiment in a progress line."""
    names = [experiment.model, experiment.benchmark, experiment.corpus] if experiment else []
    return " | ".join([cell.notebook, *names])


def _executed(work: Work, at_once: int, again: bool, say: Callable[[str], None]) -> dict[str, str]:
    """Executes those notebooks that are not as they would be made now; label -> error, "" for none."""
    results, files = results_dir(), made.Files()
    errors, todo, now = {}, {}, {}
    for experiment, cell in work:
        name, job = label(experiment, cell), processes.Job(cell.source, cell.target, cell.parameters)
        now[job] = made.made_from(cell.source, cell.parameters, results, files)
        if not again and made.unchanged(results, cell.stem, now[job]):
            errors[name] = ""
            say(f"  {name}: unchanged")
        else:
            todo[job] = (name, cell.stem)

    def done(job: processes.Job, error: str, seconds: float) -> None:
        name, stem = todo[job]
        errors[name] = error
        if not error:
            made.keep(results, stem, now[job])
        elif not kernel.mistake(error):  # what a mistake left as it was may still be unchanged
            made.forget(results, stem)
        say(f"  {name}: {error or f'{seconds:.0f} s'}")

    processes.run_jobs(todo, at_once, done)
    return errors
