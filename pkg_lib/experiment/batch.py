"""A run of the study: experiments are prepared one after the other, notebooks execute in parallel, each
result is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pkg_lib.core.store import results_dir, results_path
from pkg_lib.core.types import NotAtHand, UserError
from pkg_lib.experiment import forecast, freshness, kernel, processes, study
from pkg_lib.experiment.prepare import Preparer
from pkg_lib.experiment.run import Run
from pkg_lib.experiment.study import label

Work = list[tuple[Run | None, study.NotebookJob]]
PageOf = Callable[[Path], Path]  # an executed notebook -> the page that shows it


@dataclass
class Done:
    """What became of a run's notebooks, by label: the error of those that failed, what those that were
    skipped lack.

    `executed` counts the others; `reported` says whether one of them is a part of the report.
    """

    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    executed: int = 0
    reported: bool = False


def run(
    chosen: list[study.Part],
    names: list[str],
    limit: int | None,
    fresh: bool,
    parameters: dict[str, Any],
    say: Callable[[str], None],
    jobs: int | None = None,
    rerun: bool = False,
    page_of: PageOf | None = None,
) -> Done:
    """Prepares what is missing, and executes the notebooks, `jobs` at once.

    Experiments are prepared one after the other, and their notebooks run together once no more completions
    are being written: before the next experiment that lacks some, and at the end. `rerun` (and `fresh`)
    execute those that are unchanged, too. What cannot be had here is left out by name, as long as something
    remains. `page_of` renders a notebook with parameters of the user's own, which is no part of the report.
    """
    at_once, plan = processes.workers(jobs), study.plan(chosen, names, limit, fresh, parameters)
    for line in plan.left_out:
        say(f"left out: {line}")
    results_dir()  # made here, or refused before anything is computed
    ready: Work = []
    done, lacking = Done(), []

    def flush() -> None:
        _execute(ready, at_once, fresh or rerun, say, done, page_of)
        ready.clear()

    for preparer, part in plan.experiments:
        columns, experiment = list(part.columns or preparer.run.retrievers), preparer.run
        if ready and any(True for c in columns for _ in preparer.missing(c)):
            flush()
        try:
            say(prepare(preparer, columns))
        except NotAtHand as e:
            lacking.append(e)
            say(f"left out: {experiment.model} | {experiment.benchmark} | {experiment.corpus}: {e}")
            continue
        except UserError:
            flush()  # what is complete is shown all the same
            raise
        ready += [(e, c) for e, c in plan.notebooks if e is experiment]
    ready += [(e, c) for e, c in plan.notebooks if e is None]
    if lacking and not ready:
        raise lacking[0]
    flush()
    if done.failed:
        of = done.executed + len(done.failed)
        say(f"{len(done.failed)} of {of} notebooks failed: {'; '.join(done.failed)}")
    return done


def prepare(preparer: Preparer, columns: list[str]) -> str:
    """Makes what is missing; returns what that was, and pass@1 of each column in percent, a line each."""
    count, run = preparer.prepare(columns), preparer.run
    head = f"{run.model} | {run.benchmark} | {run.corpus}: {len(run.tasks)} tasks"
    lines = [f"{head}, {count} completions generated{forecast.remark(run)}"]
    lines.append(f"  {'column':<12}{'pass@1':>8}{'passed':>9}{'measured':>10}")
    for column, verdicts in run.verdicts().items():
        passed, measured = int(verdicts.sum()), int(verdicts.notna().sum())
        rate = f"{100 * passed / measured:.1f}" if measured else "–"
        lines.append(f"  {column:<12}{rate:>8}{passed:>9}{measured:>10}")
    return "\n".join(lines)


def told(done: Done) -> tuple[int, list[str]]:
    """The exit code and a line about each notebook that went wrong.

    0: none; 1: one failed; 2: all that failed did by a user's mistake, or all were skipped.
    """
    wrong = done.failed or ({} if done.executed else done.skipped)
    lines = [" ".join(f"{name}: {kernel.mistake(error) or error}".split()) for name, error in wrong.items()]
    return (0 if not wrong else 2 if all(map(kernel.mistake, wrong.values())) else 1), lines


def dry_run(plan: study.Plan, again: bool, rates: forecast.Rates) -> list[str]:
    """What `run` would do with this plan, in lines; nothing is loaded, retrieved or written."""
    results, files, counted = results_path(), freshness.Files(), set[str]()
    lines = ["dry run: nothing is computed or written; tokens, time and price are estimates"]
    lines += [f"left out: {line}" for line in plan.left_out]
    incomplete, costs = set(), []
    for preparer, part in plan.experiments:
        columns = forecast.forecast(preparer, list(part.columns or preparer.run.retrievers), counted)
        lines += forecast.lines(preparer.run, columns, rates)
        costs.append(forecast.cost(preparer.run, columns, rates))
        incomplete |= {id(preparer.run)} if costs[-1].todo else set()
    due = []
    for experiment, cell in plan.notebooks:
        now = freshness.made_from(cell.source, cell.parameters, results, files)
        same = not again and id(experiment) not in incomplete and freshness.unchanged(results, cell.stem, now)
        due += [] if same else [f"  {label(experiment, cell)}"]
    if len(costs) > 1:
        lines.append(f"in all to complete: {forecast.total(costs)}")
    return [*lines, f"notebooks: {len(due)} to execute, {len(plan.notebooks) - len(due)} unchanged", *due]


def _execute(
    work: Work, at_once: int, again: bool, say: Callable[[str], None], done: Done, page_of: PageOf | None
) -> None:
    """Executes those notebooks that are not as they would be made now, and adds to `done` what became of
    them."""
    results, files = results_dir(), freshness.Files()
    todo: dict[study.NotebookJob, str] = {}  # the label of each
    now: dict[study.NotebookJob, str] = {}

    def page(cell: study.NotebookJob) -> str:
        return f", {page_of(cell.target)}" if cell.own and page_of else ""

    for experiment, cell in work:
        now[cell] = freshness.made_from(cell.source, cell.parameters, results, files)
        if not again and freshness.unchanged(results, cell.stem, now[cell]):
            done.executed += 1
            done.reported |= not cell.own
            say(f"  {label(experiment, cell)}: unchanged{page(cell)}")
        else:
            todo[cell] = label(experiment, cell)

    def finished(cell: study.NotebookJob, error: str, seconds: float) -> None:
        done.reported |= not cell.own
        if lack := kernel.not_at_hand(error):
            done.skipped[todo[cell]] = error
            say(f"  {todo[cell]}: skipped, {lack}")
        elif error:
            done.failed[todo[cell]] = error
            if not kernel.mistake(error):  # what a mistake left as it was may still be unchanged
                freshness.forget(results, cell.stem)
            say(f"  {todo[cell]}: {error}")
        else:
            done.executed += 1
            freshness.keep(results, cell.stem, now[cell])
            say(f"  {todo[cell]}: {seconds:.0f} s{page(cell)}")

    if todo:
        say(f"executing {len(todo)} notebook{'s' * (len(todo) > 1)}, {min(at_once, len(todo))} at once")
    for cell in todo:
        study.warm(cell)
    processes.run_jobs(todo, at_once, finished)
