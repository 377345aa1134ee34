"""The steps of `cast prepare`, which write below results/repo_tasks.

1. tasks: choose functions of packages as tasks.
2. chunks: measure how the chunkers cut (Section 4).
3. retrieval: measure nDCG, precision and recall (Tables 1, 2, 4 and 5).

A fourth step runs only by its name: repoeval finds the tests that judge RepoEval's functions.

Retrieval is CodeRAG-Bench's task of RepoEval, which cAST follows. The corpus is every Python file
as it is. A chunk is relevant if it shares a line with the function. Scores of other chunkings are
mapped to the chunks of the fixed-size baseline (Appendix A.2, retrieval/quality.py), by the "mean"
or the "max" of line scores. The mapping "own" measures a chunking on its own chunks.

The command `run` makes completions and verdicts, as for any benchmark.
"""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.analysis.tables import csv_text
from pkg_lib.chunking.chunk_jsonl import walk
from pkg_lib.chunking.chunker import MAX_SIZE, Chunk, Chunker
from pkg_lib.chunking.statistics import chunk_statistics
from pkg_lib.core.reading import PACKED
from pkg_lib.core.registry import unknown
from pkg_lib.core.store import slug, versions, write_json, write_jsonl, write_packed, write_text
from pkg_lib.core.types import Outcome, UserError, digest
from pkg_lib.data import swebench
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.corpora import ASCII
from pkg_lib.data.functions import (
    DATA,
    NamedTests,
    RepoTask,
    as_task,
    below,
    candidates,
    load_repoeval,
)
from pkg_lib.data.packages import PACKAGES, PINNED, Package, is_test_file, unpacked
from pkg_lib.execution.sandbox import run_jobs
from pkg_lib.papers.cast.chunk_retrieval import (
    CHUNKERS,
    MORE_CHUNKERS,
    SIZED_CHUNKERS,
    SLIDING,
    chunked,
)
from pkg_lib.papers.cast.function_bodies import (
    CONTROLS,
    FunctionBodies,
    control_body,
    job_of,
    limits_of,
)
from pkg_lib.papers.cast.repoeval_tests import FILE as REPOEVAL_FILE
from pkg_lib.papers.cast.repoeval_tests import REPOSITORIES as TESTED_REPOSITORIES
from pkg_lib.papers.cast.repoeval_tests import package_of
from pkg_lib.retrieval.chunks import make_ranker
from pkg_lib.retrieval.quality import Span, map_scores, ranking_quality, relevant_chunks
from pkg_lib.retrieval.ranking import Scores

TRACER = Path(__file__).with_name("tracer.py")
TRACE_SECONDS = 600
LONGEST = 100_000  # calls of the package's functions; longer tests are not used
MOST = 12  # tests that decide about one function
BATCH = 8
STEPS = ("tasks", "chunks", "retrieval")
REPOEVAL_STEP = "repoeval"  # runs only by its name, since it needs RepoEval
LIMIT = 24  # tasks of a package
RANKERS = ("BM25", "MiniLM")
# Functions that a failing test calls; the name of their number in stored files.
FAILED_THROUGH = "called by a test that fails here"
BASELINE = "fixed-size"
OWN = "own"
MEAN = "mean"
# The paper's precision and recall on RepoEval rule out a baseline of 60 lines, so two more are
# measured there.
LINES = (20, 10)
VARIANTS = {name: CHUNKERS[name] for name in (BASELINE, "cast", "split-only")}
VARIANTS |= SIZED_CHUNKERS
# Those of RepoEval's function level, beside the windows that RepoEval's own baseline retrieves.
BASELINES = {f"{BASELINE} {n}": Chunker(BASELINE, "as-published", lines=n) for n in LINES}
Say = Callable[[str], None]
Place = tuple[str, int]  # path and first line of a function
Names = Sequence[str]


@dataclass(frozen=True)
class Query:
    """One search in a repository.

    Attributes:
        id: The task's id.
        text: What is searched for.
        gold: The lines that answer it.
    """

    id: str
    text: str
    gold: Sequence[Span]


@dataclass(frozen=True)
class Repository:
    """A corpus with its queries.

    Attributes:
        name: Its name.
        files: Text of each file by path.
        queries: What is searched for in it.
    """

    name: str
    files: Mapping[str, str]
    queries: Sequence[Query]


def run(
    folder: Path,
    say: Say,
    steps: Names,
    benchmark: str = "",
    rankers: Names = (),
    chunkings: Names = (),
) -> None:
    """Run steps in order.

    Args:
        folder: Where results are written.
        say: Reports progress.
        steps: Names of STEPS, or REPOEVAL_STEP; without any, STEPS are run, and stored tasks are kept.
        benchmark: A name in REPOSITORIES for the step retrieval; "" for packages.
        rankers: Rankers for the step retrieval; by default RANKERS.
        chunkings: Names in MORE_CHUNKERS for the step retrieval; by default the tables' own.

    Raises:
        UserError: A name is unknown, or an option does not apply to the steps.
    """
    _check_options(steps, benchmark, rankers, chunkings)
    benchmark = benchmark or "packages"
    if not steps:
        has_tasks = (folder / "tasks.jsonl").exists()
        steps = STEPS[1:] if has_tasks else STEPS
    if "tasks" in steps:
        choose(folder, say)
    if "chunks" in steps:
        measure_chunks(folder, say)
    if REPOEVAL_STEP in steps:
        choose_repoeval(folder, say)
    if "retrieval" not in steps:
        return
    if not chunkings:
        measure_retrieval(folder, say, benchmark, rankers)
    for chunking in chunkings:
        measure_chunking(folder, say, benchmark, rankers, chunking)


def _check_options(
    steps: Names,
    benchmark: str,
    rankers: Names,
    chunkings: Names,
) -> None:
    """Refuse names that are unknown, and options that do not apply to the steps."""
    for step in steps:
        if step not in (*STEPS, REPOEVAL_STEP):
            raise unknown("step", step, (*STEPS, REPOEVAL_STEP))
    for chunking in chunkings:
        if chunking not in MORE_CHUNKERS:
            raise unknown("chunking", chunking, MORE_CHUNKERS)
    options = rankers or chunkings or benchmark
    if options and list(steps) != ["retrieval"]:
        raise UserError(
            "--benchmark, --ranker and --chunking are of the step retrieval; name it alone"
        )
    if benchmark and benchmark not in REPOSITORIES:
        raise unknown("benchmark", benchmark, REPOSITORIES)


def choose(folder: Path, say: Say) -> None:
    """Choose the tasks of every package, and store them with the counts of each reason.

    Args:
        folder: Where tasks.jsonl is written.
        say: Reports progress.
    """
    rows = []
    packages = {}
    for package in PACKAGES.values():
        tasks, counts = _reported_tasks(package, say, LIMIT)
        packages[package.name] = {
            "version": package.version,
            "sha256": package.sha256,
            "licence": package.licence,
            **counts,
        }
        rows += [_row(package, task) for task in tasks]
    path = folder / "tasks.jsonl"
    write_jsonl(path, rows)
    _write_about(
        path,
        packages=packages,
        limit=LIMIT,
    )


def _row(package: Package, task: RepoTask) -> dict[str, Any]:
    """Return what is stored of a task; its text is read from the package again."""
    _, _, qualified = task.id.rpartition(":")
    return {
        "id": task.id,
        "package": package.name,
        "path": task.path,
        "qualified": qualified,
        "lines": task.gold,
        "tests": task.test_names,
        "prompt_sha256": digest(task.prompt),
    }


@dataclass(frozen=True)
class Coverage:
    """What a package's tests reveal about its functions.

    Attributes:
        calls: Test that passes -> the functions that it calls.
        failing: Tests that fail.
        unusable: Module of tests that cannot be imported -> why.
        suspects: Functions that a failing test casts doubt on (tracer.py).
    """

    calls: dict[str, frozenset[Place]]
    failing: tuple[str, ...]
    unusable: dict[str, str]
    suspects: frozenset[Place]

    def tests(self, place: Place) -> tuple[str, ...]:
        """Choose the tests that decide about a function.

        Args:
            place: Path and first line of the function.

        Returns:
            At most MOST tests that call it, first those that call the fewest functions; none for a
            function that a failing test casts doubt on.
        """
        if place in self.suspects:
            return ()
        calling = [test for test, calls in self.calls.items() if place in calls]
        by_name = sorted(calling)
        by_calls = sorted(by_name, key=lambda test: len(self.calls[test]))
        return tuple(by_calls[:MOST])


def trace(package: Package, files: Mapping[str, str]) -> Coverage:
    """Run a package's tests once, in a process of its own.

    A package that needs only the standard library sees no other package, as in the sandbox. Its
    tests cannot import pytest.

    Args:
        package: The package.
        files: Text of each of its files by path.

    Returns:
        Which tests pass, and what they call.

    Raises:
        UserError: The tests take too long or cannot be run at all.
    """
    paths = [path for path in files if below(path, package.tests)]
    paths = [path for path in paths if is_test_file(path)]
    tests = [path.removesuffix(".py").replace("/", ".") for path in paths]
    request = {"files": files, "tests": tests}
    command = [sys.executable, "-s", "-B"]
    if not package.libraries:
        command.append("-S")
    try:
        process = subprocess.run(
            [*command, str(TRACER)],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=TRACE_SECONDS,
            env={"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"},
        )
    except subprocess.TimeoutExpired as e:
        raise UserError(f"the tests of {package.label} take more than {TRACE_SECONDS} s") from e
    if process.returncode:
        reason = process.stderr.strip().splitlines()[-1:]
        raise UserError(f"the tests of {package.label} cannot be traced: {reason}")
    return _coverage(json.loads(process.stdout))


def _coverage(traced: dict[str, Any]) -> Coverage:
    """Read what the tracer wrote."""
    calls = {}
    failing = []
    suspects: set[Place] = set()
    for row in traced["tests"]:
        test = row["test"]
        suspects.update(map(tuple, row["suspects"]))
        if not row["passed"]:
            failing.append(test)
        elif row["events"] <= LONGEST:
            calls[test] = frozenset(map(tuple, row["calls"]))
    return Coverage(
        calls=calls,
        failing=tuple(failing),
        unusable=traced["unusable"],
        suspects=frozenset(suspects),
    )


def build(
    package: Package,
    limit: int,
) -> tuple[list[RepoTask], dict[str, int]]:
    """Make tasks of a package's functions.

    A function becomes a task if its tests pass with its own body and fail with an empty one.
    Candidates are tried in the order of their ids' digests, which spreads tasks over the package.

    Args:
        package: The package.
        limit: The most tasks to make.

    Returns:
        The tasks in the order of their ids, and how many functions and tests each reason left out.

    Raises:
        UserError: The package's tests cannot be run.
    """
    files = package.files()
    maskable = candidates(package, files)
    coverage = trace(package, files)
    sound = [f for f in maskable if (f.path, f.first) not in coverage.suspects]
    covered = []
    for function in sound:
        text = files[function.path]
        tests = coverage.tests((function.path, function.first))
        if tests:
            covered.append(as_task(package, function, text, tests))
    covered.sort(key=lambda task: digest(task.id))
    chosen: list[RepoTask] = []
    tried = 0
    while tried < len(covered) and len(chosen) < limit:
        batch = covered[tried : tried + BATCH]
        tried += len(batch)
        chosen += _decided_by_tests(package, files, batch)
    chosen = chosen[:limit]
    counts = {
        "functions of 3 to 30 lines": len(maskable),
        FAILED_THROUGH: len(maskable) - len(sound),
        "called by no test that passes": len(sound) - len(covered),
        "tests that pass": len(coverage.calls),
        "tests that fail here": len(coverage.failing),
        "modules of tests that cannot be imported here": len(coverage.unusable),
        "tried with the controls": tried,
        "tasks": len(chosen),
    }
    chosen.sort(key=lambda task: task.id)
    return chosen, counts


def choose_repoeval(folder: Path, say: Say) -> None:
    """Find the tests that judge RepoEval's functions, and store their names.

    Args:
        folder: Where repoeval_tests.jsonl is written.
        say: Reports progress.

    Raises:
        BenchmarkMissingError: RepoEval is not available.
        UserError: The tests of a repository cannot be run.
    """
    rows: list[dict[str, Any]] = []
    counts_of = {}
    all_tasks = load_repoeval()
    for repository in TESTED_REPOSITORIES:
        package = package_of(repository.name)
        files = DATA.repository(repository.name)
        coverage = trace(package, files)
        tasks = [task for task in all_tasks if task.repository == repository.name]
        covered = []
        for task in tasks:
            tests = coverage.tests((task.path, task.def_lineno + 1))
            if tests:
                covered.append(replace(task, hidden_tests=NamedTests(tests)))
        decided = _decided_by_tests(package, files, covered)
        rows += [
            {"id": task.id, "tests": task.test_names, "prompt_sha256": digest(task.prompt)}
            for task in decided
        ]
        counts = {
            "functions of RepoEval": len(tasks),
            "called by a test that passes": len(covered),
            "tests that pass": len(coverage.calls),
            "tests that fail here": len(coverage.failing),
            "modules of tests that cannot be imported here": len(coverage.unusable),
            "tasks": len(decided),
        }
        counts_of[repository.name] = counts
        say(f"{repository.name}: {_listed_counts(counts)}")
    path = folder / REPOEVAL_FILE
    write_jsonl(path, rows)
    _write_about(path, repositories=counts_of)


def _listed_counts(counts: Mapping[str, int]) -> str:
    """List what each count is of, with the count."""
    return ", ".join(f"{reason}: {count}" for reason, count in counts.items())


def _decided_by_tests(
    package: Package,
    files: Mapping[str, str],
    tasks: Sequence[RepoTask],
) -> list[RepoTask]:
    """Return the tasks whose controls pass and fail as they must."""
    jobs = []
    for task, control in product(tasks, CONTROLS):
        body = control_body(task, control)
        jobs.append(job_of(task, package, files, body))
    outcomes = run_jobs(jobs, limits_of(package))
    decided = []
    for task in tasks:
        by_control = {control: next(outcomes) for control in CONTROLS}
        if controls_hold(by_control):
            decided.append(task)
    return decided


def controls_hold(outcomes: Mapping[str, Outcome]) -> bool:
    """Check the control rows of a task.

    Args:
        outcomes: Outcome of each control row.

    Returns:
        Whether all of them pass and fail as they must.
    """
    for control, passes in CONTROLS.items():
        required = "passed" if passes else "failed"
        if outcomes[control].status != required:
            return False
    return True


def write_tasks(
    package: Package,
    output: Path,
    say: Say,
    limit: int,
) -> None:
    """Write a package's tasks in RepoEval's format, with the tests that decide.

    Args:
        package: The package.
        output: The file to write.
        say: Reports progress.
        limit: The most tasks to make.

    Raises:
        UserError: The package gives no task.
    """
    tasks, _ = _reported_tasks(package, say, limit)
    if not tasks:
        reason = "no function of 3 to 30 lines passes its tests and fails them without its body"
        raise UserError(f"{package.label} gives no task: {reason}")
    rows = [task.record() for task in tasks]
    write_jsonl(output, rows)
    say(f"written: {output}")


def _reported_tasks(
    package: Package,
    say: Say,
    limit: int,
) -> tuple[list[RepoTask], dict[str, int]]:
    """Make tasks of a package's functions, and report the count of each reason."""
    tasks, counts = build(package, limit)
    say(f"{package.label}: {_listed_counts(counts)}")
    return tasks, counts


def _write_about(path: Path, **about: Any) -> None:
    """Write what a file was made from, beside it."""
    about["versions"] = versions()
    write_json(path.with_suffix(".meta.json"), about)


def measure_chunks(folder: Path, say: Say) -> pd.DataFrame:
    """Measure the chunks of every chunker, and store chunk_statistics.csv.

    Args:
        folder: Where the table is written.
        say: Reports progress.

    Returns:
        One row per language and chunker; see `chunk_statistics`.
    """
    lossless = replace(CHUNKERS["cast"], mode="lossless")
    chunkers = [*CHUNKERS.values(), lossless]
    frames = []
    corpora = {}
    for language, label, files in _sources():
        say(f"{language}: {len(files)} files of {label}")
        corpora[language] = label
        frames.append(chunk_statistics(files, chunkers))
    rows = pd.concat(frames, ignore_index=True)
    path = folder / "chunk_statistics.csv"
    write_text(path, csv_text(rows, index=False, float_format="%.6g"))
    _write_about(path, corpora=corpora)
    return rows


def _sources() -> Iterator[tuple[str, str, list[tuple[str, bytes]]]]:
    """Yield language, label and files of the packages, and of three npm archives."""
    python = []
    labels = []
    for package in PACKAGES.values():
        labels.append(package.label)
        for name, data in walk(package.tree, languages={"python"}):
            if name.endswith(".py"):
                python.append((f"{package.label}/{name}", data))
    yield "python", ", ".join(labels), python
    for about in PINNED["npm"]:
        path = about["path"]
        name = path.replace("/-/", "/").replace("/", "-").removeprefix("@")
        root = unpacked(f"npm-{name}", about["sha256"], npm_path=path)
        language = about["language"]
        files = []
        for name, data in walk(root, languages={language}):
            if not name.endswith(".d.ts"):  # declarations hold no code
                files.append((name, data))
        yield language, about["label"], files


def _of_functions(name: str, tasks: Iterable[Any]) -> Iterator[Repository]:
    """Yield the repositories of functions, each with the queries of its tasks."""
    benchmark = BENCHMARKS[name]
    assert isinstance(benchmark, FunctionBodies)
    queries = defaultdict(list)
    for task in tasks:
        query = Query(task.id, task.query, [task.span])
        queries[task.repository].append(query)
    for repository, asked in queries.items():
        yield Repository(repository, benchmark.files(repository), asked)


def _of_packages() -> Iterator[Repository]:
    return _of_functions("packages", BENCHMARKS["packages"].tasks())


def _of_repoeval() -> Iterator[Repository]:
    return _of_functions("repoeval", load_repoeval())


def _of_swebench() -> Iterator[Repository]:
    """Yield one repository per problem, since each is of a commit of its own."""
    for problem in swebench.load_swebench():
        query = Query(problem.id, problem.query, problem.gold)
        files = swebench.DATA.repository(problem.id)
        yield Repository(problem.id, files, [query])


REPOSITORIES: dict[str, Callable[[], Iterator[Repository]]] = {
    "packages": _of_packages,
    "repoeval": _of_repoeval,
    "swebench-lite": _of_swebench,
}


def measure_retrieval(
    folder: Path,
    say: Say,
    benchmark: str,
    rankers: Names,
) -> pd.DataFrame:
    """Measure retrieval, and store retrieval.csv.gz.

    Args:
        folder: Where the table is written; benchmarks other than packages have a subdirectory.
        say: Reports progress.
        benchmark: A name in REPOSITORIES.
        rankers: Names of rankers; by default RANKERS.

    Returns:
        One row per task, ranker, chunking and mapping, with nDCG, precision and recall at 5 and 10.
    """
    chunkers = VARIANTS
    if benchmark == "repoeval":
        chunkers = VARIANTS | BASELINES
    measured = [
        (chunking, mapping) for chunking in chunkers for mapping in mappings(chunking, benchmark)
    ]
    rows = _retrieval_rows(benchmark, say, rankers, chunkers, measured)
    _store_measures(
        _folder(folder, benchmark) / "retrieval.csv",
        rows,
        say,
        max_size=MAX_SIZE,
        baseline_lines=CHUNKERS[BASELINE].lines,
        mode=CHUNKERS["cast"].mode,
    )
    return rows


def measure_chunking(
    folder: Path,
    say: Say,
    benchmark: str,
    rankers: Names,
    chunking: str,
) -> pd.DataFrame:
    """Measure retrieval with one more chunking, and store it beside retrieval.csv.gz.

    Args:
        folder: Where the table is written, as `measure_retrieval` does.
        say: Reports progress.
        benchmark: A name in REPOSITORIES.
        rankers: Names of rankers; by default RANKERS.
        chunking: A name in MORE_CHUNKERS. On sliding windows, cAST is measured too.

    Returns:
        One row per task, ranker, chunking and mapping.
    """
    chunker = MORE_CHUNKERS[chunking]
    other = "cast" if chunking == SLIDING else BASELINE
    chunkers = {chunking: chunker, other: CHUNKERS[other]}
    measured = measured_beside(chunking)
    rows = _retrieval_rows(benchmark, say, rankers, chunkers, measured)
    path = _folder(folder, benchmark) / f"retrieval.{slug(chunking)}.csv"
    _store_measures(path, rows, say, chunker=asdict(chunker))
    return rows


def measured_beside(chunking: str) -> list[tuple[str, str]]:
    """Return what `measure_chunking` measures.

    Args:
        chunking: A name in MORE_CHUNKERS.

    Returns:
        Chunkings with their mappings. Sliding windows are a baseline of their own, on which cAST is
        measured.
    """
    if chunking == SLIDING:
        return [(SLIDING, OWN), ("cast", f"{MEAN}, {SLIDING}")]
    return [(chunking, MEAN), (chunking, OWN)]


def _folder(folder: Path, benchmark: str) -> Path:
    """Return where the retrieval of a benchmark is stored."""
    return folder if benchmark == "packages" else folder / benchmark


def _store_measures(path: Path, rows: pd.DataFrame, say: Say, **about: Any) -> None:
    """Write measures of retrieval as PATH.gz, with what they were made from, and report their means."""
    text = csv_text(rows, index=False, float_format="%.6f")
    write_packed(path.with_name(path.name + PACKED), text.encode())
    path.unlink(missing_ok=True)  # an earlier version did not pack it
    _write_about(path, **about)
    measures = [name for name in rows.columns if "@" in str(name)]
    groups = rows.groupby(["ranker", "chunking", "mapping"], sort=False)
    percents = 100 * groups[measures].mean()
    percents["gold"] = groups["gold"].mean()
    say(percents.round(2).to_string())


def _retrieval_rows(
    benchmark: str,
    say: Say,
    rankers: Names,
    chunkers: Mapping[str, Chunker],
    measured: Sequence[tuple[str, str]],
) -> pd.DataFrame:
    """Measure chunkings, each by its mapping, in all repositories of a benchmark."""
    scorers = {name: make_ranker(name, ASCII) for name in rankers or RANKERS}
    frames = []
    for repository in REPOSITORIES[benchmark]():
        pools = {name: chunked(chunker, repository.files) for name, chunker in chunkers.items()}
        counts = ", ".join(f"{name} {len(pool)}" for name, pool in pools.items())
        say(f"{repository.name}: {counts} chunks")
        texts = [query.text for query in repository.queries]
        ranked = dict.fromkeys(chunking for chunking, _ in measured)
        for chunking, ranker in product(ranked, scorers):
            scores = scorers[ranker].scores(texts, pools[chunking])
            for mapping in [mapping for name, mapping in measured if name == chunking]:
                quality = _quality(
                    repository,
                    pools,
                    chunking,
                    scores,
                    mapping,
                )
                quality.insert(2, "ranker", ranker)
                frames.append(quality)
    return pd.concat(frames, ignore_index=True)


def _quality(
    repository: Repository,
    pools: Mapping[str, list[Chunk]],
    chunking: str,
    scores: Scores,
    mapping: str,
) -> pd.DataFrame:
    """Measure the scores [q, n] of a chunking's chunks, one row per query."""
    target = pool = pools[chunking]
    if mapping != OWN:
        aggregate, _, other = mapping.partition(", ")
        baseline = BASELINE
        if other:
            baseline = other if other in pools else f"{BASELINE} {other}"
        target = pools[baseline]
        scores = map_scores(pool, scores, target, aggregate)
    golds = [relevant_chunks(target, query.gold) for query in repository.queries]
    about = pd.DataFrame(
        {
            "task_id": [query.id for query in repository.queries],
            "package": repository.name,
            "chunking": chunking,
            "mapping": mapping,
            "chunks": len(pool),
            "gold": [len(gold) for gold in golds],
        }
    )
    return about.join(ranking_quality(scores, golds))


def mappings(chunking: str, benchmark: str = "packages") -> tuple[str, ...]:
    """Return how the scores of a chunking are measured.

    Args:
        chunking: A name in VARIANTS or BASELINES.
        benchmark: A name in REPOSITORIES.

    Returns:
        Names of mappings. The tables show the first one.
    """
    if chunking.startswith(BASELINE):
        return (OWN,)
    if chunking not in CHUNKERS:
        return (MEAN,)
    others = []
    if benchmark == "repoeval" and chunking == "cast":
        others = [f"{MEAN}, {n}" for n in LINES]
    return (MEAN, "max", OWN, *others)
