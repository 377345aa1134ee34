"""Test-free signals: what may be known of a solution before any hidden test is run.

Every selection among solutions uses only these signals.

Held-out tests are those that no prompt shows. Verdicts by them are stored only where prompts show some of
their task's tests. No selection reads them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pandas as pd
from tqdm.auto import tqdm

from pkg_lib.core.reading import NUMBER, Kinds
from pkg_lib.core.store import ROWS, write_jsonl
from pkg_lib.core.types import Outcome, Task, digest
from pkg_lib.data.benchmark import PROTOCOLS, RUNTIME_SECONDS, Benchmark, without_copies
from pkg_lib.data.examples import like_inputs, visible_examples
from pkg_lib.evaluation.reranking import cosines, embedded_text
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.stored_rows import Row, Rows, by_task, current_rows
from pkg_lib.execution.sandbox import Job, run_jobs
from pkg_lib.graph.code import is_python
from pkg_lib.retrieval.embed import Embedder

# Suffixes of these files for replayed completions.
SIGNALS, HELD_OUT = f".shown{ROWS}", f".unshown{ROWS}"
EXAMPLE_SECONDS = 1.0  # time limit of one example; examples in prompts are small

BEHAVIOUR_PREFIX = "ValueError: behaves as "
# Reports a digest of what a function returns on generated inputs, through the error that ends the program.
BEHAVIOUR_PROGRAM = """\
import hashlib as _hashlib
_all = _hashlib.sha256()
for _inputs in {inputs!r}:
    try:
        _said = {name}(*_inputs)
    except Exception as _error:
        _said = type(_error)
    _all.update(repr(_said).encode("utf8", "replace") + b";")
raise ValueError("behaves as " + _all.hexdigest()[:16])
"""

Solutions = Mapping[str, Mapping[str, str]]  # method -> task id -> solution
SIGNAL_FIELDS: Kinds = {
    "sha256": str,
    "behaviour": str,
    "passed": int,
    "shown": int,
    "parses": bool,
    "runs": bool,
    "cosine": (*NUMBER, type(None)),
    "bare": (*NUMBER, type(None)),
}


@dataclass(frozen=True, slots=True)
class VisibleTask:
    """The part of a task that a selection may see.

    Attributes:
        prompt: The task as the model is prompted with it; "" where it is not available.
        entry_point: The function that is asked for.
        query: The text that Equation 11 compares solutions with.
    """

    prompt: str
    entry_point: str
    query: str


VisibleTasks = Mapping[str, VisibleTask]  # by task id


@dataclass(frozen=True, slots=True)
class Signals:
    """Test-free signals of one solution.

    Attributes:
        task_id: The task.
        sha256: Digest of the program and the examples that were run.
        passed: How many of the prompt's examples the solution passes.
        shown: How many examples the prompt shows.
        behaviour: Digest of what the function returns on generated inputs; "" if unknown.
        parses: Whether the program is Python.
        runs: Whether the program runs to its end without any test.
        runs_as_written: Whether it also does so with the assertions that the answer copied from the prompt.
            The tests run without these assertions; the authors' reranker executes them.
        cosine: Similarity of the query and the solution's first function, without docstring and comments;
            None before it is encoded.
        cosine_as_printed: Similarity of the query and the solution as it is.
    """

    task_id: str
    sha256: str
    passed: int
    shown: int
    behaviour: str
    parses: bool
    runs: bool
    runs_as_written: bool
    cosine: float | None
    cosine_as_printed: float | None

    @classmethod
    def of(cls, row: Row) -> "Signals":
        """Return the signals of a stored row.

        The field "bare" of a row is `cosine`, and its "cosine" is `cosine_as_printed`.

        Args:
            row: A row of a file of signals.
        """
        return cls(
            task_id=row["task_id"],
            sha256=row["sha256"],
            passed=row["passed"],
            shown=row["shown"],
            behaviour=row["behaviour"],
            parses=row["parses"],
            runs=row["runs"],
            runs_as_written=bool(row.get("runs_as_written", row["runs"])),
            cosine=row["bare"],
            cosine_as_printed=row["cosine"],
        )


def visible_tasks(spec: Benchmark, tasks: Iterable[Task]) -> dict[str, VisibleTask]:
    """Return what selections may see of tasks.

    Args:
        spec: Their benchmark.
        tasks: Any tasks.

    Returns:
        The visible part by task id.
    """
    visible = {}
    for task in tasks:
        visible[task.id] = VisibleTask(
            prompt=task.prompt, entry_point=task.entry_point, query=spec.reranking_query(task)
        )
    return visible


# Signals


@cache
def signal_jobs(spec: Benchmark, task: VisibleTask, solution: str) -> tuple[Job, ...]:
    """Return the jobs that observe a solution. None of them contains a hidden test.

    Args:
        spec: The task's benchmark.
        task: The visible part of the task.
        solution: A solution of it.

    Returns:
        The program alone, the program on generated inputs, and the program on each example of the prompt.
    """
    name = task.entry_point
    examples = visible_examples(task.prompt, name)
    as_written = _program(spec, task, solution)
    shown = "\n".join(examples)
    program = without_copies(as_written, shown)
    behaviour = _behaviour_program(task.prompt, name)
    alone = Job("", program, (), name, RUNTIME_SECONDS)
    tests = [behaviour, *examples]
    observed = [Job("", program, (test,), name, EXAMPLE_SECONDS) for test in tests]
    return (alone, *observed)


@cache
def _behaviour_program(prompt: str, name: str) -> str:
    """Return the program that calls a function on generated inputs; it is that of every solution."""
    examples = visible_examples(prompt, name)
    inputs = like_inputs(examples, name, seed=prompt)
    if not inputs:
        return "pass"
    return BEHAVIOUR_PROGRAM.format(inputs=inputs, name=name)


def _program(spec: Benchmark, task: VisibleTask, solution: str) -> str:
    """Return the program that is executed; the task that the benchmark is given has no tests."""
    without_tests = Task("", spec.name, task.prompt, task.entry_point)
    return spec.program(without_tests, solution)


@cache
def as_written_job(spec: Benchmark, task: VisibleTask, solution: str) -> Job | None:
    """Return the job that runs a solution with the assertions that it copied from the prompt.

    Args:
        spec: The task's benchmark.
        task: The visible part of the task.
        solution: A solution of it.

    Returns:
        The job; None where the solution copied none, so that the first of `signal_jobs` is the same.
    """
    program = _program(spec, task, solution)
    alone, *_ = signal_jobs(spec, task, solution)
    if program == alone.solution:
        return None
    return replace(alone, solution=program)


def _digest_of_signals(spec: Benchmark, task: VisibleTask, solution: str) -> str:
    """Identify the programs and tests from which the signals of a solution follow."""
    jobs = list(signal_jobs(spec, task, solution))
    as_written = as_written_job(spec, task, solution)
    if as_written is not None:
        # The digest covers tests, so the program counts as one.
        tests = (as_written.solution,)
        jobs.append(replace(as_written, tests=tests))
    return _digest_of(jobs)


def _digest_of(jobs: Sequence[Job]) -> str:
    """Identify a solution and the tests of some jobs on it."""
    tests: list[str] = []
    for job in jobs:
        tests += job.tests
    return digest(jobs[0].solution, *tests)[:16]


def gather_signals(
    spec: Benchmark,
    tasks: VisibleTasks,
    solutions: Solutions,
    files: Mapping[str, Path],
) -> None:
    """Observe the solutions whose signals are not stored, and store them.

    Args:
        spec: The benchmark.
        tasks: What is visible of the tasks.
        solutions: Solutions by method and task.
        files: The file of each method's signals.
    """
    lacking: dict[str, list[str]] = {}  # task ids by method
    pairs = set()
    for method, method_solutions in solutions.items():
        known = read_signals(spec, tasks, method_solutions, files[method])
        lacking[method] = []
        for task_id, solution in method_solutions.items():
            if task_id not in known:
                lacking[method].append(task_id)
                pairs.add((task_id, solution))
    observed = _observe_pairs(spec, tasks, sorted(pairs))
    for method, method_solutions in solutions.items():
        rows = {}
        for task_id in lacking[method]:
            pair = (task_id, method_solutions[task_id])
            if pair in observed:
                row = observed[pair]
                rows[task_id] = row | {"task_id": task_id}
        _store(files[method], rows)


def _observe_pairs(
    spec: Benchmark,
    tasks: VisibleTasks,
    pairs: list[tuple[str, str]],
) -> dict[tuple[str, str], Row]:
    """Observe solutions.

    Args:
        spec: The benchmark.
        tasks: What is visible of the tasks.
        pairs: Task ids with solutions.

    Returns:
        The fields of a row by task id and solution. A solution is left out if the sandbox failed on it.
    """
    jobs = []
    as_written_jobs = []
    for task_id, solution in pairs:
        jobs.append(signal_jobs(spec, tasks[task_id], solution))
        as_written_jobs.append(as_written_job(spec, tasks[task_id], solution))
    fields_of_pairs = list(_observe(jobs))
    to_run = [job for job in as_written_jobs if job is not None]
    outcomes = _run(to_run, "as written")
    observed = {}
    for pair, fields, job in zip(pairs, fields_of_pairs, as_written_jobs, strict=True):
        outcome = None
        if job is not None:
            outcome = next(outcomes)
        has_failed = outcome is not None and outcome.status == "not_measured"
        if fields is None or has_failed:
            continue
        task_id, solution = pair
        fields["sha256"] = _digest_of_signals(spec, tasks[task_id], solution)
        if outcome is None:
            fields["runs_as_written"] = fields["runs"]
        else:
            fields["runs_as_written"] = outcome.status == "passed"
        observed[pair] = fields
    return observed


def _observe(jobs_of_solutions: list[tuple[Job, ...]]) -> Iterator[Row | None]:
    """Run the `signal_jobs` of solutions.

    Most solutions pass all examples at once. The examples of the others are run one by one.

    Args:
        jobs_of_solutions: The jobs of each solution.

    Yields:
        The fields of each solution's row; None if the sandbox failed.
    """
    joined_jobs = [_in_one(jobs) for jobs in jobs_of_solutions]
    joined_outcomes = list(_run(joined_jobs, "all examples at once"))
    single_jobs: list[Job] = []
    for jobs, outcome in zip(jobs_of_solutions, joined_outcomes, strict=True):
        if not _passes_all(outcome):
            single_jobs += jobs
    single_outcomes = _run(single_jobs, "one by one")
    for jobs, outcome in zip(jobs_of_solutions, joined_outcomes, strict=True):
        if _passes_all(outcome):
            yield _fields_of_passing(jobs, outcome)
        else:
            outcomes = [next(single_outcomes) for _ in jobs]
            yield _fields_of_single_runs(jobs, outcomes)


def _passes_all(outcome: Outcome) -> bool:
    """Tell whether a program passed all examples and reached the generated inputs."""
    return outcome.status == "passed" or outcome.detail.startswith(BEHAVIOUR_PREFIX)


def _fields_of_passing(jobs: tuple[Job, ...], outcome: Outcome) -> Row | None:
    """Return the fields of a solution that passes all examples."""
    if outcome.status == "not_measured":
        return None
    _, _, *examples = jobs
    return _observed_fields(jobs, outcome, len(examples), runs=True)


def _fields_of_single_runs(jobs: tuple[Job, ...], outcomes: list[Outcome]) -> Row | None:
    """Return the fields of a solution whose examples were run one by one."""
    if any(outcome.status == "not_measured" for outcome in outcomes):
        return None
    alone, behaviour, *examples = outcomes
    passed = sum(example.status == "passed" for example in examples)
    return _observed_fields(jobs, behaviour, passed, runs=alone.status == "passed")


def _observed_fields(jobs: tuple[Job, ...], behaviour: Outcome, passed: int, runs: bool) -> Row:
    """Return the fields that are observed, with places for the cosines.

    Args:
        jobs: The `signal_jobs` of the solution.
        behaviour: The outcome of the run on generated inputs.
        passed: How many examples the solution passes.
        runs: Whether the program runs to its end without any test.
    """
    alone, _, *examples = jobs
    _, _, behaviour_digest = behaviour.detail.partition(BEHAVIOUR_PREFIX)
    return {
        "parses": is_python(alone.solution),
        "cosine": None,
        "bare": None,
        "shown": len(examples),
        "behaviour": behaviour_digest[:16],
        "passed": passed,
        "runs": runs,
    }


def _in_one(jobs: Sequence[Job]) -> Job:
    """Return one job whose test runs all examples and then the generated inputs."""
    alone, behaviour, *examples = jobs
    tests: list[str] = []
    for job in (*examples, behaviour):
        tests += job.tests
    return replace(alone, tests=("\n".join(tests),))


def _run(jobs: list[Job], what: str) -> Iterator[Outcome]:
    """Run jobs with a progress bar."""
    return iter(tqdm(run_jobs(jobs), total=len(jobs), desc=what, disable=len(jobs) < 20))


def encode_solutions(
    spec: Benchmark,
    tasks: VisibleTasks,
    solutions: Solutions,
    files: Mapping[str, Path],
) -> None:
    """Add the cosines of Equation 11 to stored signals that lack them.

    They are computed with the default embedder, since NoRAG's signals serve every corpus. Reranked reads
    them. For a corpus with another embedder, it encodes the solutions again (`pipeline.Evaluator`).

    Args:
        spec: The benchmark.
        tasks: What is visible of the tasks.
        solutions: Solutions by method and task.
        files: The file of each method's signals.
    """
    embedder = Embedder()
    for method, method_solutions in solutions.items():
        stored = _current_rows(spec, tasks, method_solutions, files[method])
        lacking = {task_id: row for task_id, row in stored.items() if row["bare"] is None}
        triples = []
        for task_id, row in lacking.items():
            task = tasks[task_id]
            solution = method_solutions[task_id]
            program = _program(spec, task, solution)
            runs = Signals.of(row).runs_as_written
            reduced = embedded_text(solution, program, task.entry_point, runs)
            triples.append((task.query, solution, reduced))
        pairs = cosines(embedder.encode, triples)
        for row, (cosine, as_printed) in zip(lacking.values(), pairs, strict=True):
            row.update(bare=cosine, cosine=as_printed)
        _store(files[method], lacking)


def _store(file: Path, rows: Rows) -> None:
    """Add rows to a file by their tasks."""
    if rows:
        stored = by_task(file)
        stored |= rows
        write_jsonl(file, stored.values())


def read_signals(
    spec: Benchmark,
    tasks: VisibleTasks,
    solutions: Mapping[str, str],
    file: Path,
) -> dict[str, Signals]:
    """Read the stored signals of these very solutions and examples.

    Args:
        spec: The benchmark.
        tasks: What is visible of the tasks.
        solutions: Solution by task id.
        file: The file of signals.

    Returns:
        Signals by task id; everything in the file where no prompt is available.
    """
    rows = _current_rows(spec, tasks, solutions, file)
    return {task_id: Signals.of(row) for task_id, row in rows.items()}


def _current_rows(
    spec: Benchmark,
    tasks: VisibleTasks,
    solutions: Mapping[str, str],
    file: Path,
) -> Rows:
    """Read the rows of these very solutions and examples; all rows where no prompt is available."""
    stored = by_task(file, SIGNAL_FIELDS)
    rows = {task_id: row for task_id, row in stored.items() if task_id in tasks}
    if any(task.prompt for task in tasks.values()):
        rows = current_rows(
            rows,
            solutions,
            lambda task_id: _digest_of_signals(spec, tasks[task_id], solutions[task_id]),
        )
    return rows


# Held-out tests


def held_out_jobs(
    spec: Benchmark,
    tasks: Iterable[Task],
    solutions: Mapping[str, str],
) -> dict[str, Job] | None:
    """Return jobs with the tests that a task's prompt does not show.

    Args:
        spec: The benchmark.
        tasks: Its tasks.
        solutions: Solution by task id.

    Returns:
        Job by task id, for tasks with such tests; None where no prompt shows any test.
    """
    jobs = {}
    some_are_shown = False
    for task in tasks:
        tests = spec.tests(task, PROTOCOLS[0])
        shown = visible_examples(task.prompt, task.entry_point)
        held_out = tuple(test for test in tests if test.strip() not in shown)
        some_are_shown |= len(held_out) < len(tests)
        if held_out and task.id in solutions:
            program = spec.program(task, solutions[task.id])
            jobs[task.id] = Job(task.id, program, held_out, task.entry_point, spec.seconds)
    if not some_are_shown:
        return None
    return jobs


def judge_held_out(jobs: Mapping[str, Job], passed: Mapping[str, bool], file: Path) -> None:
    """Store verdicts by held-out tests.

    Args:
        jobs: The `held_out_jobs` by task id.
        passed: Verdict by all tests. A solution that passed all of them also passes these, so it is not run
            again.
        file: Where the verdicts are stored.
    """
    known = {task_id: True for task_id, passed_all in passed.items() if passed_all}
    known |= read_held_out(jobs, file)
    todo = [task_id for task_id in jobs if task_id in passed and task_id not in known]
    to_run = [jobs[task_id] for task_id in todo]
    outcomes = run_jobs(to_run)
    for task_id, outcome in zip(todo, outcomes, strict=True):
        if outcome.status != "not_measured":
            known[task_id] = outcome.status == "passed"
    rows = {}
    for task_id, job in jobs.items():
        if task_id in known:
            rows[task_id] = {
                "task_id": task_id,
                "sha256": _digest_of([job]),
                "passed": known[task_id],
            }
    _store(file, rows)


def read_held_out(jobs: Mapping[str, Job] | None, file: Path) -> dict[str, bool]:
    """Read verdicts by held-out tests.

    Args:
        jobs: The jobs that the verdicts must be of; None accepts every verdict.
        file: Where the verdicts are stored.

    Returns:
        Verdict by task id.
    """
    rows = by_task(file, {"sha256": str, "passed": bool})
    if jobs is not None:
        rows = current_rows(rows, jobs, lambda task_id: _digest_of([jobs[task_id]]))
    return {task_id: row["passed"] for task_id, row in rows.items()}


# Of an experiment


def prepare_signals(
    spec: Benchmark,
    tasks: Sequence[Task],
    solutions: Solutions,
    passed: Mapping[str, pd.Series],
    signal_files: Mapping[str, Path],
    held_out_files: Mapping[str, Path],
) -> None:
    """Make the signals of solutions, and their verdicts by held-out tests; cosines are left out.

    Args:
        spec: The benchmark.
        tasks: Its tasks.
        solutions: Solutions by method and task.
        passed: Boolean verdicts by method and task.
        signal_files: The file of each method's signals.
        held_out_files: The file of each method's verdicts by held-out tests.
    """
    visible = visible_tasks(spec, tasks)
    gather_signals(spec, visible, solutions, signal_files)
    for method, method_solutions in solutions.items():
        jobs = held_out_jobs(spec, tasks, method_solutions)
        if jobs is None:
            continue
        verdicts = {}
        for task_id, verdict in passed[method].dropna().items():
            verdicts[str(task_id)] = bool(verdict)
        judge_held_out(jobs, verdicts, held_out_files[method])


def stored_signals(results: Results, methods: Iterable[str]) -> dict[str, dict[str, Signals]]:
    """Read the signals of methods' solutions.

    Args:
        results: The experiment.
        methods: Methods.

    Returns:
        Signals by method and task id.
    """
    spec = results.benchmark_spec
    tasks = visible_tasks(spec, results.tasks)
    signals = {}
    for method in methods:
        file = results.files(method).signals
        solutions = results.solutions(method)
        signals[method] = read_signals(spec, tasks, solutions, file)
    return signals


def held_out_verdicts(results: Results, methods: list[str]) -> pd.DataFrame:
    """Return verdicts by the tests that no prompt shows.

    Args:
        results: The experiment.
        methods: Methods.

    Returns:
        Boolean [task, method]; by all tests where prompts show none.
    """
    frame = results.verdicts(methods)
    for method in methods:
        file = results.files(method).held_out
        jobs = None
        if results.tasks_absent:
            is_stored = file.exists()
        else:
            solutions = results.solutions(method)
            jobs = held_out_jobs(results.benchmark_spec, results.tasks, solutions)
            is_stored = jobs is not None
        if is_stored:
            verdicts = pd.Series(read_held_out(jobs, file), dtype="boolean")
            frame[method] = verdicts.reindex(frame.index)
    return frame
