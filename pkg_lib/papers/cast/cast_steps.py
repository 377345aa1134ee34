"""What `repo-tasks` makes below results/repo_tasks: chosen functions, measures of chunks and of retrieval.

Completions and verdicts are made by `run --benchmark packages`, as of any benchmark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from pkg_lib.chunking.account import Accounts
from pkg_lib.chunking.statistics import statistics
from pkg_lib.chunking.stream import walk
from pkg_lib.core.registry import unknown
from pkg_lib.core.store import versions, write_json, write_jsonl, write_text
from pkg_lib.core.types import UserError, digest
from pkg_lib.data.packages import PACKAGES, PINNED, Package, unpacked
from pkg_lib.papers.cast import retrieval_quality
from pkg_lib.papers.cast.context_columns import CHUNKERS
from pkg_lib.papers.cast.function_bodies import FIELDS
from pkg_lib.papers.cast.repository_functions import build

STEPS = ("tasks", "chunks", "retrieval")
LIMIT = 24  # tasks of a package
Say = Callable[[str], None]


def run(
    folder: Path, say: Say, steps: Sequence[str], benchmark: str = "", rankers: Sequence[str] = ()
) -> None:
    """The named steps in order, all where none is named. UserError, before the first, for a mistake."""
    if strangers := [s for s in steps if s not in STEPS]:
        if strangers[0] in ("completions", "verdicts"):
            raise UserError(f"{strangers[0]} are made by: pkg-lib run --benchmark {benchmark or 'packages'}")
        raise unknown("step", strangers[0], STEPS)
    if (rankers or benchmark) and list(steps) != ["retrieval"]:
        raise UserError("--benchmark and --ranker are of the step retrieval; name it alone")
    benchmark = benchmark or "packages"
    if benchmark not in retrieval_quality.REPOSITORIES:
        raise unknown("benchmark", benchmark, retrieval_quality.REPOSITORIES)
    for step in (s for s in STEPS if s in steps or not steps):
        if step == "tasks" and (steps or not (folder / "tasks.jsonl").exists()):
            choose(folder, say)
        elif step == "chunks":
            measure_chunks(folder, say)
        elif step == "retrieval":
            retrieval_quality.measure(folder, say, benchmark, rankers)


def choose(folder: Path, say: Say) -> None:
    """Stores the tasks of every package and how they were chosen."""
    rows, packages = [], {}
    for package in PACKAGES.values():
        tasks, counts = build(package, LIMIT)
        say(f"{package.label}: {', '.join(f'{k}: {v}' for k, v in counts.items())}")
        about = {"version": package.version, "sha256": package.sha256, "licence": package.licence}
        packages[package.name] = about | counts
        for task in tasks:
            place = task.path, task.id.rpartition(":")[2], task.gold
            values = (task.id, package.name, *place, task.tests, digest(task.prompt))
            rows.append(dict(zip(FIELDS, values, strict=True)))
    write_jsonl(folder / "tasks.jsonl", rows)
    about = {"packages": packages, "limit": LIMIT, "versions": versions()}
    write_json(folder / "tasks.meta.json", about)


def write_tasks(package: Package, output: Path, say: Say, limit: int) -> None:
    """Writes one package's tasks in RepoEval's form, with the tests that decide. UserError for none."""
    tasks, counts = build(package, limit)
    say(f"{package.label}: {', '.join(f'{k}: {v}' for k, v in counts.items())}")
    if not tasks:
        reason = "its tests tell no function of 3 to 30 lines from an empty one"
        raise UserError(f"{package.label} gives no task: {reason}")
    write_jsonl(output, [t.record() for t in tasks])
    say(f"written: {output}")


def measure_chunks(folder: Path, say: Say) -> pd.DataFrame:
    """Writes chunk_statistics.csv, a row a language and chunker, and what it was made from; returns it."""
    chunkers = [*CHUNKERS.values(), replace(CHUNKERS["cast"], mode="lossless")]
    frames, corpora = [], {}
    for language, label, files in _sources():
        say(f"{language}: {len(files)} files of {label}")
        corpora[language] = label
        frames.append(statistics(files, chunkers))
    rows, path = pd.concat(frames, ignore_index=True), folder / "chunk_statistics.csv"
    write_text(path, rows.to_csv(index=False, lineterminator="\n", float_format="%.6g"))
    write_json(path.with_suffix(".meta.json"), {"corpora": corpora, "versions": versions()})
    return rows


def _sources() -> Iterator[tuple[str, str, list[tuple[str, bytes]]]]:
    """(language, what it is, its files) of the packages and of three npm archives, less declarations."""
    trees = [(p.label, walk(p.tree, Accounts(), {"python"})) for p in PACKAGES.values()]
    python = [(f"{label}/{n}", data) for label, files in trees for n, data in files if n.endswith(".py")]
    yield "python", ", ".join(label for label, _ in trees), python
    for about in PINNED["npm"]:
        path, language = about["path"], about["language"]
        archive = f"npm-{path.replace('/-/', '/').replace('/', '-').removeprefix('@')}"
        root = unpacked(archive, about["sha256"], npm_path=path)
        files = [f for f in walk(root, Accounts(), {language}) if not f[0].endswith(".d.ts")]
        yield language, about["label"], files
