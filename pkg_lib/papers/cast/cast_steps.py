"""The steps of the study of repository tasks (`python -m pkg_lib repo-tasks`); each keeps what it makes."""

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
from pkg_lib.core.types import UserError
from pkg_lib.data.archives import unpacked
from pkg_lib.data.packages import PACKAGES, PINNED, Package
from pkg_lib.papers.cast import retrieval_quality
from pkg_lib.papers.cast.context_columns import CHUNKERS, COLUMNS, column
from pkg_lib.papers.cast.function_benchmarks import BENCHMARKS, PackageFunctions
from pkg_lib.papers.cast.function_completions import FunctionCompletions
from pkg_lib.papers.cast.repository_functions import build

STEPS = ("tasks", "chunks", "retrieval", "completions", "verdicts")
ON_REPOEVAL = ("None", "fixed-size, BM25", "cast, BM25")  # the columns that its sample is completed in
Say = Callable[[str], None]


def run(
    results: Path,
    say: Say,
    steps: Sequence[str],
    model: str,
    columns: Sequence[str] = (),
    limit: int | None = None,
    benchmark: str = "",
    rankers: Sequence[str] = (),
) -> None:
    """The named steps in order, all of them where none is named.

    UserError, before the first, for an unknown name or a limit below 1.
    """
    if strangers := [s for s in steps if s not in STEPS]:
        raise unknown("step", strangers[0], STEPS)
    if rankers and list(steps) != ["retrieval"]:
        raise UserError("--ranker is of the step retrieval; name it alone")
    if benchmark and (not steps or {"tasks", "chunks"} & set(steps)):
        raise UserError("--benchmark is of the steps retrieval, completions and verdicts; name them alone")
    benchmark = benchmark or "packages"
    known = retrieval_quality.BENCHMARKS if list(steps) == ["retrieval"] else BENCHMARKS
    if benchmark not in known:
        raise unknown("benchmark", benchmark, known)
    for name in columns:
        column(name)
    FunctionCompletions(PackageFunctions(results), model, limit)
    for step in (s for s in STEPS if s in steps or not steps):
        if step == "tasks" and (steps or not PackageFunctions(results).path.exists()):
            PackageFunctions(results).choose(say)
        elif step == "chunks":
            measure_chunks(results, say)
        elif step == "retrieval":
            retrieval_quality.measure(results, say, benchmark, rankers)
        elif step in ("completions", "verdicts"):
            study = FunctionCompletions(BENCHMARKS[benchmark](results), model, limit)
            for name in columns or (ON_REPOEVAL if benchmark == "repoeval" else COLUMNS):
                count = study.complete(name) if step == "completions" else study.judge(name)
                say(f"{name}: {count} completions {'generated' if step == 'completions' else 'judged'}")


def write_tasks(package: Package, output: Path, say: Say, limit: int) -> None:
    """Writes one package's tasks in RepoEval's form, with the tests that decide. UserError for none."""
    tasks, _, counts = build(package, limit)
    say(f"{package.label}: {', '.join(f'{k}: {v}' for k, v in counts.items())}")
    if not tasks:
        reason = "its tests tell no function of 3 to 30 lines from an empty one"
        raise UserError(f"{package.label} gives no task: {reason}")
    write_jsonl(output, [t.record() for t in tasks])
    say(f"written: {output}")


def measure_chunks(results: Path, say: Say) -> pd.DataFrame:
    """Writes chunk_statistics.csv, a row a language and chunker, and what it was made from; returns it."""
    chunkers = [*CHUNKERS.values(), replace(CHUNKERS["cast"], mode="lossless")]
    frames, corpora = [], {}
    for language, label, files in _sources():
        say(f"{language}: {len(files)} files of {label}")
        corpora[language] = label
        frames.append(statistics(files, chunkers))
    rows, path = pd.concat(frames, ignore_index=True), PackageFunctions(results).home / "chunk_statistics.csv"
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
