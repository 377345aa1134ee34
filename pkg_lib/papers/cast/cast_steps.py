"""What `cast prepare` makes below results/repo_tasks: chosen functions, measures of chunks and of retrieval.

Retrieval is CodeRAG-Bench's task of RepoEval, which cAST follows: the corpus is every Python file as it is,
gold are the chunks that share a line with the function. Other chunkings than a fixed-size baseline are
measured on its chunks through scores of lines (Appendix A.2, ranking.py), by their mean or greatest ("max"),
and on their own chunks ("own"). Completions and verdicts are made by `run`, as of any benchmark.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.analysis.tables import csv_text
from pkg_lib.chunking.chunk_jsonl import walk
from pkg_lib.chunking.chunker import MAX_SIZE, Chunker
from pkg_lib.chunking.statistics import chunk_statistics
from pkg_lib.core.registry import unknown
from pkg_lib.core.store import versions, write_json, write_jsonl, write_text
from pkg_lib.core.types import Outcome, UserError, digest
from pkg_lib.data import swebench
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.corpora import ASCII
from pkg_lib.data.functions import (
    MaskableFunction,
    RepoTask,
    as_task,
    below,
    candidates,
    load_repoeval,
)
from pkg_lib.data.packages import PACKAGES, PINNED, Package, unpacked
from pkg_lib.execution.sandbox import run_jobs
from pkg_lib.papers.cast.context_columns import CHUNKERS, chunked
from pkg_lib.papers.cast.function_bodies import CONTROLS, FIELDS, control_body, job_of, limits_of
from pkg_lib.retrieval.chunks import make_ranker
from pkg_lib.retrieval.quality import Span, map_scores, ranking_quality, relevant_chunks

TRACER = Path(__file__).with_name("tracer.py")
TRACE_SECONDS = 600
LONGEST = 100_000  # calls of the package's functions; a test with more is not taken
MOST = 12  # tests that decide about one function
BATCH = 8
STEPS = ("tasks", "chunks", "retrieval")
LIMIT = 24  # tasks of a package
RANKERS = ("BM25", "MiniLM")
BASELINE, OWN, MEAN = "fixed-size", "own", "mean"
SIZES = (1000, 1500, 2500, 3000)  # Table 4, beside MAX_SIZE
# RepoEval's baselines beside the one of 60 lines, which the paper's precision and recall rule out.
LINES = (20, 10)
VARIANTS = {name: CHUNKERS[name] for name in (BASELINE, "cast", "split-only")}
VARIANTS |= {f"cast {size}": Chunker("cast", "as-published", size) for size in SIZES}
BASELINES = {f"{BASELINE} {n}": Chunker(BASELINE, "as-published", lines=n) for n in LINES}
Say, Names = Callable[[str], None], Sequence[str]
Query = tuple[str, str, Sequence[Span]]  # its id, its text, the lines that answer it
Repository = tuple[
    str, Mapping[str, str], Sequence[Query]
]  # name, path -> text, what is asked of it


def run(folder: Path, say: Say, steps: Names, benchmark: str = "", rankers: Names = ()) -> None:
    """The named steps in order, all where none is named. UserError, before the first, for a mistake."""
    if strangers := [s for s in steps if s not in STEPS]:
        raise unknown("step", strangers[0], STEPS)
    if (rankers or benchmark) and list(steps) != ["retrieval"]:
        raise UserError("--benchmark and --ranker are of the step retrieval; name it alone")
    benchmark = benchmark or "packages"
    if benchmark not in REPOSITORIES:
        raise unknown("benchmark", benchmark, REPOSITORIES)
    if "tasks" in steps or not (steps or (folder / "tasks.jsonl").exists()):
        choose(folder, say)
    if "chunks" in steps or not steps:
        measure_chunks(folder, say)
    if "retrieval" in steps or not steps:
        measure_retrieval(folder, say, benchmark, rankers)


def choose(folder: Path, say: Say) -> None:
    """Stores the tasks of every package and how they were chosen."""
    rows, packages = [], {}
    for package in PACKAGES.values():
        tasks, counts = _built(package, say, LIMIT)
        about = {"version": package.version, "sha256": package.sha256, "licence": package.licence}
        packages[package.name] = about | counts
        for task in tasks:
            place = task.path, task.id.rpartition(":")[2], task.gold
            values = (task.id, package.name, *place, task.test_names, digest(task.prompt))
            rows.append(dict(zip(FIELDS, values, strict=True)))
    write_jsonl(folder / "tasks.jsonl", rows)
    _write_about(folder / "tasks.jsonl", packages=packages, limit=LIMIT)


@dataclass(frozen=True)
class Coverage:
    """What a package's tests say of its functions, which are (path, first line)."""

    calls: dict[str, frozenset[tuple[str, int]]]  # test that passes -> what it calls
    failing: tuple[str, ...]
    unusable: dict[str, str]  # module of tests -> why
    suspects: frozenset[tuple[str, int]]  # what a failing test speaks against (tracer.py)

    def tests(self, function: MaskableFunction) -> tuple[str, ...]:
        """At most MOST tests that call it: first those that call the fewest functions, then by name."""
        calling = [
            test for test, calls in self.calls.items() if (function.path, function.first) in calls
        ]
        return tuple(sorted(calling, key=lambda t: (len(self.calls[t]), t))[:MOST])


def trace(package: Package, files: Mapping[str, str]) -> Coverage:
    """Runs the package's tests once, in a process of its own. UserError where that fails as a whole.

    A package of the standard library alone sees no other, as in the sandbox: its tests import no pytest.
    """
    paths = [p for p in files if below(p, package.tests) and Path(p).name.startswith("test_")]
    tests = [p.removesuffix(".py").replace("/", ".") for p in paths]
    command = [sys.executable, "-s", "-B", *([] if package.libraries else ["-S"]), str(TRACER)]
    how = {"capture_output": True, "text": True, "timeout": TRACE_SECONDS}
    how |= {"env": {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}}
    try:
        process = subprocess.run(command, input=json.dumps({"files": files, "tests": tests}), **how)
    except subprocess.TimeoutExpired as e:
        raise UserError(f"the tests of {package.label} take more than {TRACE_SECONDS} s") from e
    if process.returncode:
        reason = process.stderr.strip().splitlines()[-1:]
        raise UserError(f"the tests of {package.label} cannot be traced: {reason}")
    answer = json.loads(process.stdout)
    good = [r for r in answer["tests"] if r["passed"] and r["events"] <= LONGEST]
    calls = {r["test"]: frozenset(map(tuple, r["calls"])) for r in good}
    failing = tuple(r["test"] for r in answer["tests"] if not r["passed"])
    suspects = frozenset((path, line) for r in answer["tests"] for path, line in r["suspects"])
    return Coverage(calls, failing, answer["unusable"], suspects)


def build(package: Package, limit: int) -> tuple[list[RepoTask], dict[str, int]]:
    """At most `limit` tasks whose controls go as they must, spread by the ids' digests; counts by reason."""
    files = package.files()
    maskable, coverage = candidates(package, files), trace(package, files)
    sound = [f for f in maskable if (f.path, f.first) not in coverage.suspects]
    tasks = [as_task(package, f, files[f.path], coverage.tests(f)) for f in sound]
    covered = sorted((t for t in tasks if t.test_names), key=lambda t: digest(t.id))
    chosen, tried = list[RepoTask](), 0
    while tried < len(covered) and len(chosen) < limit:
        batch = covered[tried : tried + BATCH]
        tried += len(batch)
        jobs = [job_of(t, package, files, control_body(t, c)) for t in batch for c in CONTROLS]
        outcomes = run_jobs(jobs, limits_of(package))
        decided = [as_they_must({c: next(outcomes) for c in CONTROLS}) for _ in batch]
        chosen += [t for t, good in zip(batch, decided, strict=True) if good][: limit - len(chosen)]
    counts = {
        "functions of 3 to 30 lines": len(maskable),
        "a test that fails here speaks against it": len(maskable) - len(sound),
        "called by no test that passes": len(sound) - len(covered),
        "tests that pass": len(coverage.calls),
        "tests that fail here": len(coverage.failing),
        "modules of tests that cannot be imported here": len(coverage.unusable),
        "tried with the controls": tried,
        "tasks": len(chosen),
    }
    return sorted(chosen, key=lambda t: t.id), counts


def as_they_must(outcomes: Mapping[str, Outcome]) -> bool:
    return all(
        outcomes[c].status == ("passed" if passes else "failed") for c, passes in CONTROLS.items()
    )


def write_tasks(package: Package, output: Path, say: Say, limit: int) -> None:
    """Writes one package's tasks in RepoEval's form, with the tests that decide. UserError for none."""
    tasks, _ = _built(package, say, limit)
    if not tasks:
        reason = "its tests tell no function of 3 to 30 lines from an empty one"
        raise UserError(f"{package.label} gives no task: {reason}")
    write_jsonl(output, [t.record() for t in tasks])
    say(f"written: {output}")


def _built(package: Package, say: Say, limit: int) -> tuple[list[RepoTask], dict[str, int]]:
    tasks, counts = build(package, limit)
    say(f"{package.label}: {', '.join(f'{k}: {v}' for k, v in counts.items())}")
    return tasks, counts


def _write_about(path: Path, **about: Any) -> None:
    write_json(path.with_suffix(".meta.json"), about | {"versions": versions()})


def _write_table(path: Path, frames: list[pd.DataFrame], digits: str, **about: Any) -> pd.DataFrame:
    rows = pd.concat(frames, ignore_index=True)
    write_text(path, csv_text(rows, index=False, float_format=digits))
    _write_about(path, **about)
    return rows


def measure_chunks(folder: Path, say: Say) -> pd.DataFrame:
    """Writes chunk_statistics.csv, a row a language and chunker."""
    chunkers = [*CHUNKERS.values(), replace(CHUNKERS["cast"], mode="lossless")]
    frames, corpora = [], {}
    for language, label, files in _sources():
        say(f"{language}: {len(files)} files of {label}")
        corpora[language] = label
        frames.append(chunk_statistics(files, chunkers))
    return _write_table(folder / "chunk_statistics.csv", frames, "%.6g", corpora=corpora)


def _sources() -> Iterator[tuple[str, str, list[tuple[str, bytes]]]]:
    """(language, what it is, its files) of the packages and of three npm archives, less declarations."""
    trees = [(p.label, walk(p.tree, languages={"python"})) for p in PACKAGES.values()]
    python = [
        (f"{label}/{n}", data) for label, files in trees for n, data in files if n.endswith(".py")
    ]
    yield "python", ", ".join(label for label, _ in trees), python
    for about in PINNED["npm"]:
        path, language = about["path"], about["language"]
        archive = f"npm-{path.replace('/-/', '/').replace('/', '-').removeprefix('@')}"
        root = unpacked(archive, about["sha256"], npm_path=path)
        files = [f for f in walk(root, languages={language}) if not f[0].endswith(".d.ts")]
        yield language, about["label"], files


def _of_functions(name: str, tasks: Sequence[Any]) -> Iterator[Repository]:
    queries: dict[str, list[Query]] = {}
    for task in tasks:
        queries.setdefault(task.repository, []).append((task.id, task.query, [task.span]))
    return (
        (repository, BENCHMARKS[name].files(repository), of) for repository, of in queries.items()
    )


REPOSITORIES: dict[str, Callable[[], Iterator[Repository]]] = {
    "packages": lambda: _of_functions("packages", BENCHMARKS["packages"].tasks()),
    "repoeval": lambda: _of_functions("repoeval", load_repoeval()),
    # Each problem's repository is of a commit of its own.
    "swebench-lite": lambda: (
        (i.id, swebench.DATA.repository(i.id), [(i.id, i.query, i.gold)])
        for i in swebench.load_swebench()
    ),
}


def measure_retrieval(folder: Path, say: Say, benchmark: str, rankers: Names) -> pd.DataFrame:
    """Write retrieval.csv: one row per task, ranker, chunking and mapping."""
    scorers = {name: make_ranker(name, ASCII) for name in rankers or RANKERS}
    variants = VARIANTS | (BASELINES if benchmark == "repoeval" else {})
    frames = []
    for repository, files, queries in REPOSITORIES[benchmark]():
        pools = {name: chunked(chunker, files) for name, chunker in variants.items()}
        say(
            f"{repository}: {', '.join(f'{name} {len(pool)}' for name, pool in pools.items())} chunks"
        )
        ids, texts, spans = zip(*queries, strict=True)
        for (name, pool), (ranker, scorer) in product(pools.items(), scorers.items()):
            scores = scorer.scores(list(texts), pool)
            for mapping in mappings(name, benchmark):
                aggregate, _, lines = mapping.partition(", ")
                target = pool if mapping == OWN else pools[f"{BASELINE} {lines}".strip()]
                golds = [relevant_chunks(target, span) for span in spans]
                on_target = (
                    scores if mapping == OWN else map_scores(pool, scores, target, aggregate)
                )
                about = {
                    "package": repository,
                    "ranker": ranker,
                    "chunking": name,
                    "mapping": mapping,
                }
                about |= {"chunks": len(pool), "gold": list(map(len, golds))}
                frames.append(
                    pd.DataFrame({"task_id": ids} | about).join(ranking_quality(on_target, golds))
                )
    place = folder if benchmark == "packages" else folder / benchmark
    about = {
        "max_size": MAX_SIZE,
        "baseline_lines": CHUNKERS[BASELINE].lines,
        "mode": CHUNKERS["cast"].mode,
    }
    rows = _write_table(place / "retrieval.csv", frames, "%.6f", **about)
    means = rows.groupby(["ranker", "chunking", "mapping"], sort=False)[
        [c for c in rows if "@" in c]
    ].mean()
    say((100 * means).round(1).to_string())
    return rows


def mappings(chunking: str, benchmark: str = "packages") -> tuple[str, ...]:
    """How a chunking's scores are measured; the first is the one that the tables show."""
    if chunking.startswith(BASELINE):
        return (OWN,)
    others = (
        [f"{MEAN}, {n}" for n in LINES] if benchmark == "repoeval" and chunking == "cast" else []
    )
    return (MEAN, "max", OWN, *others) if chunking in CHUNKERS else (MEAN,)
