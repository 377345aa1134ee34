"""What may be known of a solution before any hidden test: by this alone the choices among solutions go.

    results/evaluations/MODEL/BENCHMARK/CORPUS/COLUMN.shown.jsonl.gz   a `Known` a task
    results/evaluations/MODEL/BENCHMARK/CORPUS/COLUMN.unshown.jsonl.gz verdicts by the tests no prompt shows

The second is there only where prompts show tests of their tasks. No choice reads it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm.auto import tqdm

from pkg_lib.core.reading import NUMBER, Kinds
from pkg_lib.core.store import PACKED, ROWS, write_jsonl
from pkg_lib.core.types import Outcome, Task, digest
from pkg_lib.data.benchmark import PROTOCOLS, RUNTIME_SECONDS, Benchmark, without_copies
from pkg_lib.data.examples import like_inputs, shown_examples
from pkg_lib.execution.sandbox import Job, run_jobs
from pkg_lib.experiment.reranking import embedded_text
from pkg_lib.experiment.run import Run, by_task
from pkg_lib.graph.code import is_python
from pkg_lib.retrieval.embed import Embedder

SHOWN, UNSHOWN = f".shown{ROWS}", f".unshown{ROWS}"


def beside(file: Path, suffix: str) -> Path:
    """The file of evidence on the solutions whose verdicts a file holds."""
    return file.with_name(file.name.removesuffix(PACKED)).with_suffix(suffix)


SECONDS = 1.0  # of a process that looks at a solution: what a prompt shows is small
SAID = "ValueError: behaves as "
BEHAVIOUR = """\
import hashlib as _hashlib
_all = _hashlib.sha256()
for _inputs in {inputs!r}:
    try:
        _said = {name}(*_inputs)
    except Exception as _error:
        _said = type(_error)
    _all.update(repr(_said).encode("utf8", "replace") + b";")
raise ValueError("behaves as " + _all.hexdigest()[:16])
"""
Asked = Mapping[str, tuple[str, str]]  # task id -> (prompt, name of the function); no test
Solutions = Mapping[str, Mapping[str, str]]  # column -> task id -> solution


KNOWN: Kinds = {
    **dict.fromkeys(("sha256", "behaviour"), str),
    **dict.fromkeys(("passed", "shown"), int),
    **dict.fromkeys(("parses", "runs"), bool),
    **dict.fromkeys(("cosine", "bare"), (*NUMBER, type(None))),
}


@dataclass(frozen=True, slots=True)
class Known:
    """Of a solution: `passed` of the `shown` examples, `behaviour` on generated inputs ("": unknown), and
    what Equation 11 asks; `bare`: cosine without docstring. Cosines are None where not encoded."""

    task_id: str
    sha256: str
    passed: int
    shown: int
    behaviour: str
    parses: bool
    runs: bool
    cosine: float | None
    bare: float | None


@cache
def looking_jobs(rules: Benchmark, prompt: str, name: str, solution: str) -> tuple[Job, ...]:
    """What looks at a solution: the program alone, on generated inputs, on each example of the prompt.

    No test can come in: the task that the rules are asked with has none.
    """
    examples = shown_examples(prompt, name)
    program = without_copies(_program(rules, prompt, name, solution), "\n".join(examples))
    inputs = like_inputs(examples, name, seed=prompt)
    behaviour = BEHAVIOUR.format(inputs=inputs, name=name) if inputs else "pass"
    alone = Job("", program, (), name, RUNTIME_SECONDS)
    return (alone, *(Job("", program, (test,), name, SECONDS) for test in (behaviour, *examples)))


def _program(rules: Benchmark, prompt: str, name: str, solution: str) -> str:
    return rules.program(Task("", rules.name, prompt, name), solution)


def _mark(jobs: Sequence[Job]) -> str:
    return digest(jobs[0].solution, *(test for job in jobs for test in job.tests))[:16]


def gather(rules: Benchmark, asked: Asked, solutions: Solutions, files: Mapping[str, Path]) -> None:
    """Writes the evidence that the files lack; stored rows on the very same solutions and examples stay."""
    known = {c: read_evidence(rules, asked, of, files[c]) for c, of in solutions.items()}
    pairs = sorted(
        {(i, s) for c, of in solutions.items() for i, s in of.items() if i not in known[c]}
    )
    made = dict(
        zip(pairs, _looked_at([looking_jobs(rules, *asked[i], s) for i, s in pairs]), strict=True)
    )
    for c, of in solutions.items():
        new = {i: made[i, s] for i, s in of.items() if (i, s) in made and i not in known[c]}
        _store(files[c], {i: e | {"task_id": i} for i, e in new.items() if e})


def encode(rules: Benchmark, asked: Asked, solutions: Solutions, files: Mapping[str, Path]) -> None:
    """Adds the cosines to stored evidence: of a solution as it is, and as the authors embed it."""
    embedder = Embedder()
    for c, of in solutions.items():
        known = read_evidence(rules, asked, of, files[c])
        rows = {i: e for i, e in known.items() if e.bare is None}
        bare = []
        for i, e in rows.items():
            prompt, name = asked[i]
            bare.append(embedded_text(of[i], _program(rules, prompt, name, of[i]), name, e.runs))
        texts = [text for i, b in zip(rows, bare, strict=True) for text in (asked[i][0], of[i], b)]
        vectors = embedder.encode(texts).reshape(len(rows), 3, -1 if rows else 0).astype(float)
        cosines = (vectors[:, 1:] @ vectors[:, 0, :, None])[..., 0].round(6).tolist()
        pairs = zip(rows.values(), cosines, strict=True)
        _store(files[c], {e.task_id: asdict(replace(e, cosine=x, bare=y)) for e, (x, y) in pairs})


def _store(file: Path, rows: dict[str, dict[str, Any]]) -> None:
    """Adds rows to a file by their tasks."""
    if rows:
        write_jsonl(file, (by_task(file) | rows).values())


def _looked_at(jobs: list[tuple[Job, ...]]) -> Iterator[dict[str, Any] | None]:
    """What the `looking_jobs` of each solution say; None where the sandbox had a fault."""
    wholes = list(_run([_in_one(of) for of in jobs], "all examples at once"))
    # Most pass all of it; only the others are looked at one by one.
    fine = [o.status == "passed" or o.detail.startswith(SAID) for o in wholes]
    singly = _run(
        [job for of, well in zip(jobs, fine, strict=True) if not well for job in of], "one by one"
    )
    for of, whole, well in zip(jobs, wholes, fine, strict=True):
        look = [whole] if well else [next(singly) for _ in of]
        about = {
            "sha256": _mark(of),
            "parses": is_python(of[0].solution),
            "cosine": None,
            "bare": None,
        }
        about |= {"shown": len(of) - 2, "behaviour": look[not well].detail.partition(SAID)[2][:16]}
        about["passed"] = len(of) - 2 if well else sum(o.status == "passed" for o in look[2:])
        about["runs"] = well or look[0].status == "passed"
        yield None if any(o.status == "not_measured" for o in look) else about


def _in_one(jobs: Sequence[Job]) -> Job:
    """All examples and then the generated inputs in one process."""
    _, behaviour, *examples = jobs
    return replace(
        jobs[0], tests=("\n".join(test for job in (*examples, behaviour) for test in job.tests),)
    )


def _run(jobs: list[Job], what: str) -> Iterator[Outcome]:
    with tqdm(total=len(jobs), desc=what, disable=len(jobs) < 20) as bar:
        yield from run_jobs(jobs, progress=lambda _: bar.update())


def read_evidence(
    rules: Benchmark, asked: Asked, solutions: Mapping[str, str], file: Path
) -> dict[str, Known]:
    """task id -> stored evidence on these very solutions and examples; all of it where no prompt is here."""
    rows = by_task(file, KNOWN)
    known = {
        i: Known(**{k: row[k] for k in Known.__slots__}) for i, row in rows.items() if i in asked
    }
    if not any(prompt for prompt, _ in asked.values()):
        return known
    jobs = {i: looking_jobs(rules, *asked[i], s) for i, s in solutions.items() if i in known}
    return {i: known[i] for i, of in jobs.items() if known[i].sha256 == _mark(of)}


def unshown_jobs(
    rules: Benchmark, tasks: Iterable[Task], solutions: Mapping[str, str]
) -> dict[str, Job] | None:
    """task id -> job of the tests that its prompt does not show, if any; None where no prompt shows one."""
    tests = {t: rules.tests(t, PROTOCOLS[0]) for t in tasks}
    shown = {t: shown_examples(t.prompt, t.entry_point) for t in tests}
    rest = {
        t: tuple(test for test in of if test.strip() not in shown[t]) for t, of in tests.items()
    }
    if rest == tests:
        return None
    programs = {t: rules.program(t, solutions[t.id]) for t in rest if rest[t] and t.id in solutions}
    return {t.id: Job(t.id, p, rest[t], t.entry_point, rules.seconds) for t, p in programs.items()}


def judge_unshown(jobs: Mapping[str, Job], passed: Mapping[str, bool], file: Path) -> None:
    """Writes the verdicts of `unshown_jobs`; `passed` by all tests, so that only what failed those is run."""
    known = {i: True for i, by_all in passed.items() if by_all} | read_unshown(jobs, file)
    todo = {i: job for i, job in jobs.items() if i in passed and i not in known}
    ran = zip(todo, run_jobs(todo.values()), strict=True)
    known |= {i: o.status == "passed" for i, o in ran if o.status != "not_measured"}
    rows = {
        i: {"task_id": i, "sha256": _mark([jobs[i]]), "passed": known[i]}
        for i in jobs
        if i in known
    }
    if rows:
        write_jsonl(file, (by_task(file) | rows).values())


def read_unshown(jobs: Mapping[str, Job] | None, file: Path) -> dict[str, bool]:
    """task id -> stored verdict of these very jobs; all verdicts where None are known."""
    rows = by_task(file, {"sha256": str, "passed": bool})
    marks = {i: _mark([job]) for i, job in (jobs or {}).items()}
    return {i: r["passed"] for i, r in rows.items() if jobs is None or marks.get(i) == r["sha256"]}


def prepare_evidence(
    rules: Benchmark,
    tasks: Sequence[Task],
    solutions: Solutions,
    passed: Mapping[str, pd.Series],
    files: Mapping[str, Path],
) -> None:
    """Gathers the evidence of columns and judges by unshown tests, beside the `files` of their verdicts."""
    gather(rules, asked_of(tasks), solutions, {c: beside(f, SHOWN) for c, f in files.items()})
    for c, of in solutions.items():
        if (jobs := unshown_jobs(rules, tasks, of)) is not None:
            judge_unshown(jobs, passed[c].dropna().to_dict(), beside(files[c], UNSHOWN))


def evidence_of(run: Run, columns: Iterable[str]) -> dict[str, dict[str, Known]]:
    """column -> task id -> stored evidence; computes nothing."""
    files = {c: run.file("evaluations", c, SHOWN) for c in columns}
    return {
        c: read_evidence(run.rules, asked_of(run.tasks), run.solutions(c), file)
        for c, file in files.items()
    }


def unshown_verdicts(run: Run, columns: list[str]) -> pd.DataFrame:
    """Boolean [task, column] by the tests that no prompt shows; by all tests where prompts show none."""
    frame = run.verdicts(columns)
    for c in columns:
        file = run.file("evaluations", c, UNSHOWN)
        jobs = None if run.tasks_absent else unshown_jobs(run.rules, run.tasks, run.solutions(c))
        if jobs is not None or (run.tasks_absent and file.exists()):
            frame[c] = pd.Series(read_unshown(jobs, file), dtype="boolean").reindex(frame.index)
    return frame


def asked_of(tasks: Iterable[Task]) -> Asked:
    return {t.id: (t.prompt, t.entry_point) for t in tasks}
