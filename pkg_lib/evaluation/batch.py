"""Carries out a plan: prepares results one after the other, and executes notebooks in parallel."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pkg_lib.core.reading import DamagedFileError
from pkg_lib.core.speeds import notebook_speed, record_speed
from pkg_lib.core.store import results_dir, results_path
from pkg_lib.core.types import UnavailableError, UserError
from pkg_lib.evaluation import forecast
from pkg_lib.evaluation.freshness import Records
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.study import NotebookJob, Plan, Step, read_notebook
from pkg_lib.generation.cache import pack_rows
from pkg_lib.retrieval.explain import explain, knowledge_of_code

Errors = dict[str, Exception]  # by the label of a notebook or of results


@dataclass
class Batch:
    """One `run`: prepares results and executes notebooks.

    Attributes:
        say: Prints a line of progress.
        at_once: The number of notebooks that run at the same time; None for as many as cores and
            memory allow.
        again: Whether notebooks are executed although they are current.
        page_of: Renders a notebook with a user's parameters; returns the path of the page.
        failed: Errors of notebooks.
        skipped: Errors of notebooks whose input is unavailable.
        damaged: Errors of notebooks and results that need a damaged file.
        executed: The number of notebooks that are current now.
        reported: Whether the report changes.
    """

    say: Callable[[str], None]
    at_once: int | None
    again: bool = False
    page_of: Callable[[Path], Path] | None = None
    failed: Errors = field(default_factory=dict)
    skipped: Errors = field(default_factory=dict)
    damaged: Errors = field(default_factory=dict)
    executed: int = 0
    reported: bool = False

    def run(self, plan: Plan) -> None:
        """Prepare what is missing, and execute the notebooks.

        Notebooks wait for each other, but not for the next step that lacks completions. What is
        unavailable is left out by name.

        Args:
            plan: What to do.

        Raises:
            UserError: A step cannot be prepared, or nothing is available.
        """
        self._start(plan)
        ready: dict[str, NotebookJob] = {}
        unavailable: UnavailableError | None = None
        remains = False
        for step in plan.steps:
            try:
                if ready and step.evaluator and step.evaluator.lacks(step.methods):
                    self.execute(ready.values())
                    ready.clear()
                self._prepare(step)
            except DamagedFileError as e:
                self.damaged[_label(step)] = e
            except UnavailableError as e:
                unavailable = unavailable or e
                self.say(f"left out: {_label(step)}: {e}")
            except UserError:
                self.execute(ready.values())  # what is complete is shown all the same
                raise
            else:
                remains = True
                for job in step.jobs:
                    ready.setdefault(job.stem, job)
        if unavailable and not remains:
            raise unavailable
        self.execute(ready.values())
        if self.failed:
            total = self.executed + len(self.failed)
            self.say(f"{len(self.failed)} of {total} notebooks failed: {'; '.join(self.failed)}")

    def _start(self, plan: Plan) -> None:
        # A results directory that cannot be used is reported before anything is computed.
        for line in pack_rows(results_dir()):
            self.say(f"not packed: {line}")
        for line in plan.left_out:
            self.say(f"left out: {line}")
        self.damaged.update(plan.damaged)

    def _prepare(self, step: Step) -> None:
        if step.evaluator:
            self.say(prepare(step.evaluator, step.methods))
            # The weights of several models do not fit into memory together.
            step.evaluator.run.generator.release()

    def execute(self, jobs: Iterable[NotebookJob]) -> None:
        """Execute the notebooks that are not current.

        Args:
            jobs: The notebooks.
        """
        records = Records(results_dir())
        due = []
        for job in jobs:
            if records.is_current(job) and not self.again:
                self._succeeded(job, "unchanged")
            else:
                due.append(job)

        def done(
            job: NotebookJob,
            error: Exception | None,
            seconds: float,
        ) -> None:
            if error is None:
                records.keep(job)
                # While it ran, so did others: its share of the machine counts.
                record_speed(notebook_speed(job.notebook), at_once, seconds)
                self._succeeded(job, f"{seconds:.0f} s")
                return
            if not isinstance(error, UserError):  # after a mistake, the last copy may be current
                records.forget(job)
            self._failed(job, error)

        if not due:
            return
        # papermill takes seconds to import, and a run whose notebooks are current does without.
        from pkg_lib.evaluation import notebook_execution

        most = self.at_once or notebook_execution.default_parallelism()
        at_once = min(most, len(due))
        plural = "s" if len(due) > 1 else ""
        self.say(f"executing {len(due)} notebook{plural}, {at_once} at once")
        for job in due:
            if job.notebook == "explore":
                _encode_corpus(job)
        notebook_execution.run_jobs(due, at_once, done)

    def _succeeded(self, job: NotebookJob, how: str) -> None:
        self.executed += 1
        line = f"  {job.label}: {how}"
        if not job.is_custom:
            self.reported = True
        elif self.page_of:
            line += f", {self.page_of(job.target)}"
        self.say(line)

    def _failed(self, job: NotebookJob, error: Exception) -> None:
        if not job.is_custom:
            self.reported = True
        if isinstance(error, UnavailableError):
            self.skipped[job.label] = error
            self.say(f"  {job.label}: skipped, {error}")
        else:
            self.failed[job.label] = error
            self.say(f"  {job.label}: {error}")

    def outcome(self) -> tuple[int, list[str]]:
        """Summarise what went wrong.

        Returns:
            The exit code, which is 2 if there were only user's mistakes; and a line for each
            reason.
        """
        errors = dict(self.damaged)
        if self.failed:
            errors |= self.failed
        elif not self.executed:
            errors |= self.skipped
        if not errors:
            return 0, []
        mistakes = all(isinstance(error, UserError) for error in errors.values())
        return 2 if mistakes else 1, by_reason(errors)


def _label(step: Step) -> str:
    return step.evaluator.run.label if step.evaluator else ""


def _encode_corpus(job: NotebookJob) -> None:
    """Encode the corpus of a notebook here, where a progress bar is seen.

    The notebook itself reports mistakes in its parameters.
    """
    parameters = read_notebook(job.notebook).defaults | job.parameters
    with suppress(UserError):
        knowledge = knowledge_of_code(parameters.pop("corpus"))
        explain(knowledge, **parameters)


def by_reason(errors: Errors) -> list[str]:
    """Write a line for each reason why something is left out or failed.

    Args:
        errors: The errors of notebooks and results, by their labels.

    Returns:
        Lines of the first label, the number of others with the same reason, and the reason.
    """
    labels: dict[str, list[str]] = {}
    for label, error in errors.items():
        reason = " ".join(str(error).split())
        labels.setdefault(reason, []).append(" ".join(label.split()))
    lines = []
    for reason, (first, *others) in labels.items():
        more = f" and {len(others)} more" if others else ""
        lines.append(f"{first}{more}: {reason}")
    return lines


def prepare(evaluator: Evaluator, methods: list[str]) -> str:
    """Make what is missing.

    Args:
        evaluator: Prepares the results.
        methods: The methods to generate with.

    Returns:
        How many completions were generated, and a line for each method with pass@1 in percent.
    """
    count = evaluator.prepare(methods)
    lines = [forecast.heading(evaluator.run, f", {count} completions generated")]
    rows = []
    for method, verdicts in evaluator.run.verdicts().items():
        measured = verdicts.dropna()
        if len(measured):
            rate, passed = 100 * measured.mean(), int(measured.sum())
            rows.append(f"  {method:<20}{rate:>8.1f}{passed:>9}{len(measured):>10}")
    if rows:
        lines.append(f"  {'method':<20}{'pass@1':>8}{'passed':>9}{'measured':>10}")
    return "\n".join(lines + rows)


def dry_run(
    plan: Plan,
    again: bool,
    rates: forecast.Rates,
) -> list[str]:
    """Describe what `run` would do; nothing is loaded, retrieved or written.

    Args:
        plan: What would be done.
        again: Whether notebooks would be executed although they are current.
        rates: What a completion costs.

    Returns:
        Lines to print.
    """
    lines = [
        "dry run: nothing is generated or written to the results; tokens, time and price are estimates"
    ]
    lines += [f"left out: {line}" for line in plan.left_out]
    damaged = dict(plan.damaged)
    records = Records(results_path())
    counted: set[str] = set()
    costs = []
    due: dict[str, NotebookJob] = {}  # by stem: several steps may wait for one notebook
    for step in plan.steps:
        incomplete = False
        if step.evaluator:
            results = step.evaluator.run
            try:
                forecasts = forecast.forecast(step.evaluator, step.methods, counted)
            except DamagedFileError as e:
                damaged[results.label] = e
                continue
            lines += forecast.lines(results, forecasts, rates)
            cost = forecast.cost(results, forecasts, rates)
            costs.append(cost)
            incomplete = cost.todo > 0
        all_due = again or incomplete
        for job in step.jobs:
            if all_due or not records.is_current(job):
                due[job.stem] = job
    lines += [f"left out: {line}" for line in by_reason(damaged)]
    if len(costs) > 1:
        lines.append(f"total to generate: {forecast.total(costs)}")
    notebooks = [job.notebook for job in due.values()]
    lines.append(forecast.notebook_line(notebooks, len(plan.jobs) - len(due)))
    lines += forecast.total_time(costs, notebooks)
    return [*lines, *(f"  {job.label}" for job in due.values())]
