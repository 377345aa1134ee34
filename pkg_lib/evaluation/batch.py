"""A plan carried out: runs are prepared one after the other, notebooks execute in parallel."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pkg_lib.core.reading import Damaged
from pkg_lib.core.store import results_dir, results_path
from pkg_lib.core.types import NotAtHand, UserError
from pkg_lib.evaluation import forecast, notebook_execution
from pkg_lib.evaluation.freshness import Records
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.study import NotebookJob, Plan, read_notebook
from pkg_lib.generation.cache import pack_rows
from pkg_lib.retrieval.explain import explain, knowledge_of_code


@dataclass
class Batch:
    """Executes notebooks, `at_once` at a time; those that are unchanged only where `again` says so.

    `page_of` renders those with parameters of the user's own. `failed` and `skipped` are errors of notebooks
    by label, `damaged` those of runs that need a damaged file; `executed` counts the other notebooks,
    `reported` says whether the report changes.
    """

    say: Callable[[str], None]
    at_once: int
    again: bool = False
    page_of: Callable[[Path], Path] | None = None
    failed: dict[str, Exception] = field(default_factory=dict)
    skipped: dict[str, Exception] = field(default_factory=dict)
    damaged: dict[str, Exception] = field(default_factory=dict)
    executed: int = 0
    reported: bool = False

    def run(self, plan: Plan) -> None:
        """Prepares what is missing, and executes the notebooks.

        They run together before the next run that lacks completions, and at the end. What cannot be had here
        is left out by name, as long as something remains.
        """
        for line in pack_rows(
            results_dir()
        ):  # which is made here, or refused before anything is computed
            self.say(f"not packed: {line}")
        ready: list[NotebookJob] = []
        lacking: list[NotAtHand] = []
        remains = False
        for line in plan.left_out:
            self.say(f"left out: {line}")
        self.damaged |= plan.damaged
        for step in plan.steps:
            try:
                if step.preparer and ready and step.preparer.lacks(step.columns):
                    self.execute(ready)
                    ready = []
                if step.preparer:
                    self.say(prepare(step.preparer, step.columns))
                    step.preparer.run.generator.release()  # the weights of several models do not fit together
            except Damaged as e:  # which concerns this run alone
                self.damaged[step.preparer.run.label] = e
                continue
            except NotAtHand as e:
                lacking.append(e)
                self.say(f"left out: {step.preparer.run.label}: {e}")
                continue
            except UserError:
                self.execute(ready)  # what is complete is shown all the same
                raise
            remains = True
            ready += [job for job in step.jobs if job.stem not in {r.stem for r in ready}]
        if lacking and not remains:
            raise lacking[0]
        self.execute(ready)
        if self.failed:
            of = self.executed + len(self.failed)
            self.say(f"{len(self.failed)} of {of} notebooks failed: {'; '.join(self.failed)}")

    def execute(self, jobs: list[NotebookJob]) -> None:
        """Executes those notebooks that are not as they would be made now."""
        records = Records(results_dir())
        due = [job for job in jobs if not records.is_current(job) or self.again]
        for job in (job for job in jobs if job not in due):
            self._succeeded(job, "unchanged")

        def done(job: NotebookJob, error: Exception | None, seconds: float) -> None:
            if error is None:
                records.keep(job)
                self._succeeded(job, f"{seconds:.0f} s")
                return
            skipped = isinstance(error, NotAtHand)
            self.reported |= not job.own
            (self.skipped if skipped else self.failed)[job.label] = error
            if not isinstance(
                error, UserError
            ):  # what a mistake left as it was may still be unchanged
                records.forget(job)
            self.say(f"  {job.label}: {'skipped, ' if skipped else ''}{error}")

        if due:
            number = f"{len(due)} notebook{'s' * (len(due) > 1)}"
            self.say(f"executing {number}, {min(self.at_once, len(due))} at once")
        for job in (job for job in due if job.notebook == "explore"):
            # Encoded here, with a progress bar, not out of sight in the notebook, which tells of mistakes.
            asked = read_notebook(job.notebook).defaults | job.parameters
            with suppress(UserError):
                explain(knowledge_of_code(asked.pop("corpus")), **asked)
        notebook_execution.run_jobs(due, self.at_once, done)

    def _succeeded(self, job: NotebookJob, how: str) -> None:
        self.executed += 1
        self.reported |= not job.own
        page = f", {self.page_of(job.target)}" if job.own and self.page_of else ""
        self.say(f"  {job.label}: {how}{page}")

    def outcome(self) -> tuple[int, list[str]]:
        """The exit code (2: only user's mistakes went wrong), and a line for each that went wrong."""
        wrong = self.damaged | (self.failed or ({} if self.executed else self.skipped))
        mistakes = all(isinstance(e, UserError) for e in wrong.values())
        code = (2 if mistakes else 1) if wrong else 0
        return code, by_reason(wrong)


def by_reason(wrong: dict[str, Exception]) -> list[str]:
    """A line for each reason why something is left out or failed, with its first label and a count.

    Args:
        wrong: The label of each run or notebook, with its error.
    """
    labels: dict[str, list[str]] = {}
    for label, error in wrong.items():
        labels.setdefault(" ".join(str(error).split()), []).append(label)
    lines = []
    for reason, (first, *others) in labels.items():
        more = f" and {len(others)} more" if others else ""
        lines.append(f"{' '.join(first.split())}{more}: {reason}")
    return lines


def prepare(preparer: Evaluator, columns: list[str]) -> str:
    """Makes what is missing; returns what that was, and a line for each column with pass@1 in percent."""
    count, run = preparer.prepare(columns), preparer.run
    lines = [forecast.heading(run, f", {count} completions generated")]
    judged = {c: v.dropna() for c, v in run.verdicts().items() if v.notna().any()}
    if judged:
        lines.append(f"  {'column':<20}{'pass@1':>8}{'passed':>9}{'measured':>10}")
    for column, verdicts in judged.items():
        passed, rate = int(verdicts.sum()), 100 * verdicts.mean()
        lines.append(f"  {column:<20}{rate:>8.1f}{passed:>9}{len(verdicts):>10}")
    return "\n".join(lines)


def dry_run(plan: Plan, again: bool, rates: forecast.Rates) -> list[str]:
    """What `run` would do with this plan, in lines; nothing is loaded, retrieved or written."""
    lines = ["dry run: nothing is computed or written; tokens, time and price are estimates"]
    lines += [f"left out: {line}" for line in plan.left_out]
    damaged = dict(plan.damaged)
    records, counted, costs, due = Records(results_path()), set[str](), [], []
    for step in plan.steps:
        incomplete = False
        if step.preparer:
            run = step.preparer.run
            try:
                columns = forecast.forecast(step.preparer, step.columns, counted)
            except Damaged as e:
                damaged[run.label] = e
                continue
            lines += forecast.lines(run, columns, rates)
            costs.append(forecast.cost(run, columns, rates))
            incomplete = bool(costs[-1].todo)
        due += [
            f"  {j.label}" for j in step.jobs if again or incomplete or not records.is_current(j)
        ]
    lines += [f"left out: {line}" for line in by_reason(damaged)]
    if len(costs) > 1:
        lines.append(f"in all to complete: {forecast.total(costs)}")
    return [
        *lines,
        f"notebooks: {len(due)} to execute, {len(plan.jobs) - len(due)} unchanged",
        *due,
    ]
