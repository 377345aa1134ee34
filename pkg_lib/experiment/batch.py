"""A run of the study: experiments are prepared one after the other, notebooks execute in parallel, each result is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pkg_lib.core.store import results_dir, results_path
from pkg_lib.core.types import NotAtHand, UserError
from pkg_lib.experiment import freshness as made
from pkg_lib.experiment import kernel, processes, study
from pkg_lib.experiment.study import label

if TYPE_CHECKING:
    from pkg_lib.experiment.experiment import Experiment
    from pkg_lib.experiment.forecast import Rates

Work = list[tuple["Experiment | None", study.Cell]]


@dataclass
class Done:
    """What became of a run's notebooks, by label: the error of those that failed, what those that were skipped lack.

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
    own: dict[str, Any],
    say: Callable[[str], None],
    jobs: int | None = None,
    rerun: bool = False,
) -> Done:
    """Generates and judges what is missing, and executes the notebooks, `jobs` at once.

    Experiments are prepared one after the other, and their notebooks run together once no more completions are being
    written: before the next experiment that lacks some, and at the end. `rerun` (and `fresh`) execute those that are
    unchanged, too. What cannot be had here is left out by name, as long as something remains.
    """
    from pkg_lib.experiment import forecast

    at_once = processes.workers(jobs)
    plan = study.plan(chosen, names, limit, fresh, own)
    for line in plan.left_out:
        say(f"left out: {line}")
    results_dir()  # made here, or refused before anything is computed
    ready: Work = []
    done = Done()

    def flush() -> None:
        _execute(ready, at_once, fresh or rerun, say, done)
        ready.clear()

    lacking: list[NotAtHand] = []
    for experiment, part in plan.experiments:
        columns = list(part.columns or experiment.retrievers)
        if ready and forecast.missing(experiment, columns):
            flush()
        try:
            say(study.prepare(experiment, columns))
        except NotAtHand as e:
            lacking.append(e)
            say(f"left out: {experiment.model} | {experiment.benchmark} | {experiment.corpus}: {e}")
            continue
        except UserError:
            flush()  # what is complete is shown all the same
            raise
        experiment.fresh = False  # from here on what is stored is what was computed now
        say(study.summary(experiment.verdicts()))
        ready += [(e, c) for e, c in plan.notebooks if e is experiment]
    ready += [(e, c) for e, c in plan.notebooks if e is None]
    if lacking and not ready:
        raise lacking[0]
    flush()
    if done.failed:
        say(
            f"{len(done.failed)} of {done.executed + len(done.failed)} notebooks failed: {'; '.join(done.failed)}"
        )
    return done


def told(done: Done) -> tuple[int, list[str]]:
    """The exit code and a line about each notebook that went wrong.

    0: none; 1: one failed; 2: all that failed did by a user's mistake, or all were skipped.
    """
    wrong = done.failed or ({} if done.executed else done.skipped)
    lines = [" ".join(f"{name}: {kernel.mistake(error) or error}".split()) for name, error in wrong.items()]
    return (0 if not wrong else 2 if all(map(kernel.mistake, wrong.values())) else 1), lines


def dry_run(plan: study.Plan, again: bool, rates: Rates) -> list[str]:
    """What `run` would do with this plan, in lines; nothing is loaded, retrieved or written."""
    from pkg_lib.experiment import forecast

    results, files, seen = results_path(), made.Files(), set[str]()
    lines = ["dry run: nothing is computed or written; tokens, time and price are estimates"]
    lines += [f"left out: {line}" for line in plan.left_out]
    behind, costs = set(), []
    for experiment, part in plan.experiments:
        columns = forecast.forecast(experiment, list(part.columns or experiment.retrievers), seen)
        lines += forecast.lines(experiment, columns, rates)
        costs.append(forecast.cost(experiment, columns, rates))
        behind |= {id(experiment)} if costs[-1].todo else set()
    due = []
    for experiment, cell in plan.notebooks:
        now = made.made_from(cell.source, cell.parameters, results, files)
        same = not again and id(experiment) not in behind and made.unchanged(results, cell.stem, now)
        due += [] if same else [f"  {label(experiment, cell)}"]
    if len(costs) > 1:
        lines.append(f"in all to complete: {forecast.total(costs)}")
    return [*lines, f"notebooks: {len(due)} to execute, {len(plan.notebooks) - len(due)} unchanged", *due]


def _execute(work: Work, at_once: int, again: bool, say: Callable[[str], None], told_in: Done) -> None:
    """Executes those notebooks that are not as they would be made now, and adds to `told_in` what became of them."""
    results, files = results_dir(), made.Files()
    todo, now = {}, {}
    for experiment, cell in work:
        name, job = label(experiment, cell), processes.Job(cell.source, cell.target, cell.parameters)
        now[job] = made.made_from(cell.source, cell.parameters, results, files)
        if not again and made.unchanged(results, cell.stem, now[job]):
            told_in.executed += 1
            told_in.reported |= not cell.own
            say(f"  {name}: unchanged{_page(cell)}")
        else:
            todo[job] = (name, cell)

    def done(job: processes.Job, error: str, seconds: float) -> None:
        name, cell = todo[job]
        told_in.reported |= not cell.own
        if lack := kernel.not_at_hand(error):
            told_in.skipped[name] = error
            say(f"  {name}: skipped, {lack}")
            return
        if error:
            told_in.failed[name] = error
            if not kernel.mistake(error):  # what a mistake left as it was may still be unchanged
                made.forget(results, cell.stem)
        else:
            told_in.executed += 1
            made.keep(results, cell.stem, now[job])
        say(f"  {name}: {error or f'{seconds:.0f} s'}{'' if error else _page(cell)}")

    if todo:
        say(f"executing {len(todo)} notebook{'s' * (len(todo) > 1)}, {min(at_once, len(todo))} at once")
    for _, cell in todo.values():
        study.warm(cell)
    processes.run_jobs(todo, at_once, done)


def _page(cell: study.Cell) -> str:
    """Where a notebook with parameters of the user's own can be read, since it is no part of the report."""
    from pkg_lib.analysis.report import render_notebook

    return f", {render_notebook(cell.target)}" if cell.own else ""
