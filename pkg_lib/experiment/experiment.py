"""One experiment: model x benchmark x corpus, up to the verdicts that the tables are made of.

    results/evaluations/MODEL/BENCHMARK/CORPUS/COLUMN.jsonl    one line a task: extracted solution and verdict
    results/evaluations/MODEL/BENCHMARK/CORPUS/reranked.jsonl  one line a task: what was chosen, among which scores
    results/evaluations/MODEL/BENCHMARK/CORPUS/candidates.json the columns that Reranked and Ideal choose among

A stored verdict is used again only for the very same solution, tests and protocol; whatever differs is executed again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm.auto import tqdm

from pkg_lib.analysis.stats import LEAST
from pkg_lib.analysis.tables import TITLES
from pkg_lib.core.store import read_json, read_rows, results_dir, slug, stem, write_json, write_jsonl
from pkg_lib.core.types import NOTHING, BenchmarkMissing, Generation, Outcome, Task, digest
from pkg_lib.data.benchmarks import before_tests, needs_setup, program
from pkg_lib.data.evaluate import sanity_job, task_job, untested
from pkg_lib.execution.sandbox import Job, Limits, run_jobs
from pkg_lib.experiment.completions import DECODING, Completions
from pkg_lib.experiment.oracle import ideal
from pkg_lib.experiment.rerank import Candidate, rerank
from pkg_lib.experiment.waterfall import TaskRecord, record
from pkg_lib.generation.extraction import extract
from pkg_lib.retrieval.embed import Embedder

CHOOSING = ("Reranked", "Ideal")
VERDICT = ("task_id", "sha256", *Outcome.__slots__)
CONTROLS: dict[str, Callable[[Task], str]] = {
    "return None": lambda task: "```python\n    return None\n```",
    "canonical solution": lambda task: f"```python\n{task.solution.rstrip()}\n```",
}


class Experiment(Completions):
    """Names in, verdicts out. See `Completions` for the parameters."""

    limits = Limits()
    protocol = "pkg-paper"
    remark = ""  # what a reader of the progress lines has to know
    stored_only = False  # whether nothing can be generated or executed

    @property
    def stem(self) -> str:
        """What the files of this experiment start with."""
        return stem(self.model, self.benchmark, self.corpus, self.limit)

    @property
    def heading(self) -> str:
        """The experiment in words."""
        return f"{self.model}, {TITLES.get(self.benchmark, self.benchmark)} ({len(self.tasks)} tasks), corpus {self.corpus}"

    @property
    def narrow_heading(self) -> str:
        """Model; benchmark and corpus: two lines for a figure of one text column."""
        return f"{self.model}\n{TITLES.get(self.benchmark, self.benchmark)}, corpus {self.corpus}"

    def outcomes(self, column: str) -> dict[str, Outcome]:
        """task id -> verdict of the column's completion; a task without a completion is not measured."""
        solutions = self.solutions(column)
        done = self._judged(
            str(self.place("evaluations", column)) + ".jsonl", solutions, task_job, self.protocol
        )
        return {t.id: done.get(t.id, Outcome("not_measured", detail="no completion")) for t in self.tasks}

    def verdicts(self, columns: list[str] | None = None) -> pd.DataFrame:
        """Boolean frame [task, column]: True passed, False failed, <NA> not measured.

        The columns are those that the corpus offers, Reranked and Ideal last. One with verdicts on fewer than LEAST of the
        tasks, those whose prompts it shares with another column say, counts as not measured.
        """
        offered = [*self.retrievers, *CHOOSING]
        wanted = columns or offered
        chooses = self.candidates if set(CHOOSING) & set(wanted) else []
        frame = pd.DataFrame(
            {c: _series(self.outcomes(c)) for c in self.retrievers if c in wanted or c in chooses}
        )
        frame = _weighty(frame)
        if chooses:
            candidates = frame[chooses]
            frame["Reranked"] = self._chosen(candidates)
            frame["Ideal"] = ideal(candidates)
        return _weighty(frame[[c for c in offered if c in wanted]])

    def _chosen(self, candidates: pd.DataFrame) -> pd.Series:
        """The verdict of the reranker's choice; not measured while a candidate is missing, as for the ideal."""
        chosen, whole = self.reranked(), candidates.notna().all(axis=1)
        values = [candidates.at[t.id, chosen[t.id]] if whole[t.id] else pd.NA for t in self.tasks]
        return pd.Series(values, candidates.index, dtype="boolean")

    @property
    def candidates(self) -> list[str]:
        """The columns that Reranked and Ideal choose among: those that the corpus offered when they were first chosen among.

        So a column that is added later changes no result that is there. Without candidates.json they are all that it offers now.
        """
        path = self._candidates_file
        stored = read_json(path)["columns"] if path.exists() and not self.fresh else self.retrievers
        return [c for c in stored if c in self.retrievers]

    @property
    def _candidates_file(self) -> Path:
        return self.results / self.place("evaluations", "candidates").with_suffix(".json")

    def reranked(self) -> dict[str, str]:
        """task id -> the column that the reranker takes (Section 3.3), among the candidates that have a completion."""
        solutions = {c: self.solutions(c) for c in self.retrievers}
        path = self.results / self.place("evaluations", "reranked").with_suffix(".jsonl")
        stored = self._stored("evaluations", "reranked", ("chosen", "sha256"))
        rows, todo, offered = [], [], self.candidates
        for task in self.tasks:
            mine = {c: s[task.id] for c, s in solutions.items() if task.id in s}
            beside = (c for c in mine if c not in offered)  # scored with the others, and not chosen
            sha = digest(
                task.prompt, *(part for item in mine.items() for part in item), *_changed(task, mine), *beside
            )
            if not self.fresh and stored.get(task.id, {}).get("sha256") == sha:
                rows.append(stored[task.id])
            elif mine:
                todo.append((task, mine, sha))
        rows += self._rerank(todo)
        order = {t.id: i for i, t in enumerate(self.tasks)}
        others = [r for i, r in stored.items() if i not in order]
        if todo or (rows and not self._candidates_file.exists()):
            write_json(self._candidates_file, {"columns": offered})
        if todo:
            write_jsonl(path, sorted(rows, key=lambda r: order[r["task_id"]]) + others)
        return {r["task_id"]: r["chosen"] for r in rows}

    def _rerank(self, todo: list[tuple[Task, dict[str, str], str]]) -> list[dict[str, Any]]:
        if not todo:
            return []
        runs = self._sanity(todo)
        encode = Embedder().encode
        # All at once, since a batch costs far less than its texts one by one; below they come from the cache.
        encode([text for task, mine, _ in todo for text in (task.prompt, *mine.values())])
        rows = []
        for task, mine, sha in tqdm(todo, desc="reranking", unit="task", disable=len(todo) < 20):
            similarity = encode(list(mine.values())) @ encode([task.prompt])[0]
            candidates = [
                Candidate(c, s, before_tests(task, s), runs[task.id, s], float(x))
                for (c, s), x in zip(mine.items(), similarity, strict=True)
            ]
            best = rerank([c for c in candidates if c.column in self.candidates])
            about = {
                c.column: {"cosine": round(c.similarity, 6), "parses": c.parses, "runs": c.runs}
                for c in candidates
            }
            rows.append(
                {
                    "task_id": task.id,
                    "chosen": best.column if best else "",
                    "candidates": about,
                    "sha256": sha,
                }
            )
        return rows

    def _sanity(self, todo: list[tuple[Task, dict[str, str], str]]) -> dict[tuple[str, str], bool]:
        """R(c) of every distinct candidate: whether the program without its tests runs through."""
        pairs = {(t.id, s): sanity_job(t, s) for t, mine, _ in todo for s in mine.values()}
        outcomes = self._run("runtime sanity", list(pairs.values()))
        return {pair: o.status == "passed" for pair, o in zip(pairs, outcomes, strict=True)}

    def records(self, column: str) -> list[TaskRecord]:
        """Each task's way from the context to the verdict, for `waterfall.waterfall`; None has no context stages."""
        self.reranked()
        seen = self._stored("evaluations", "reranked", ("candidates",))
        contexts, made = {c.task_id: c for c in self.known_contexts(column)}, self.completions(column)
        solutions, outcomes = self.solutions(column), self.outcomes(column)
        found = []
        for i in (t.id for t in self.tasks):
            about = seen.get(i, {}).get("candidates", {}).get(column, {})
            steps = (
                i in made,
                bool(solutions.get(i, "").strip()),
                about.get("parses", False),
                about.get("runs", False),
            )
            context = contexts.get(i) if column != "None" else None
            has = context is not None and context.sha256 != NOTHING
            # A completion that was made with another context than the one that stands here had this one not in its prompt.
            used = has and (i not in made or made[i].meta.get("context_sha256") == contexts[i].sha256)
            found.append(record(i, outcomes[i], *steps, *((has, used) if column != "None" else (None, None))))
        return found

    def own_assertions(self, column: str) -> frozenset[str]:
        """Tasks whose solution is ended by an assertion of its own, before any test: it may be right, and counts as failed."""
        error = {i: o.error for i, o in self.outcomes(column).items()}
        ended = [r for r in self.records(column) if r.parsed and not r.ran and r.passed is False]
        return frozenset(r.task_id for r in ended if error[r.task_id] == "AssertionError")

    def _stored(self, stage: str, name: str, fields: tuple[str, ...]) -> dict[str, dict[str, Any]]:
        """task id -> stored row of a file of this experiment; empty where it is not there."""
        path = self.results / self.place(stage, name).with_suffix(".jsonl")
        return {r["task_id"]: r for r in read_rows(path, ("task_id", *fields))} if path.exists() else {}

    def controls(self) -> dict[str, pd.Series]:
        """Verdicts of the control rows, through the same extraction and execution as a model's text.

        Anything but 0 % for `return None` and 100 % for the canonical solution means that the harness is broken.
        """
        found = {}
        for name, raw in CONTROLS.items():
            solutions = {t.id: extract(raw(t), t.entry_point) for t in self.tasks}
            found[name] = _series(
                self._judged(self.control_file(name), solutions, _control_job, self.protocol)
            )
        return found

    def control_file(self, name: str) -> str:
        """Where the verdicts of a control row lie, below the results directory."""
        return f"evaluations/controls/{self.benchmark}/{name.replace(' ', '-')}.jsonl"

    def _judged(
        self, place: str, solutions: dict[str, str], job: Callable[[Task, str, str], Job], protocol: str
    ) -> dict[str, Outcome]:
        """Outcomes of solutions, from the file at `place` where it holds the same, executed and stored otherwise."""
        path = self.results / place
        stored = {r["task_id"]: r for r in (read_rows(path, VERDICT) if path.exists() else [])}
        asked = [t for t in self.tasks if t.id in solutions]
        mark = {t.id: digest(program(t, solutions[t.id]), protocol, self.limits.packages) for t in asked}
        # A fault of the harness is no verdict: it is tried again at the next run.
        known = {} if self.fresh else {i: r for i, r in stored.items() if r["status"] != "not_measured"}
        todo = [t for t in asked if known.get(t.id, {}).get("sha256") != mark[t.id]]
        jobs = [job(t, solutions[t.id], protocol) for t in todo]
        for task, outcome in zip(todo, self._run(path.stem, jobs), strict=True):
            row = {k: getattr(outcome, k) for k in Outcome.__slots__} | {"seconds": round(outcome.seconds, 2)}
            stored[task.id] = row | {
                "task_id": task.id,
                "solution": solutions[task.id],
                "sha256": mark[task.id],
            }
        if todo:
            write_jsonl(path, (stored[i] for i in sorted(stored, key=_natural)))
        return {i: Outcome.of(stored[i]) for i in mark}

    def _run(self, what: str, jobs: list[Job]) -> list[Outcome]:
        with tqdm(total=len(jobs), desc=f"executing {what}", unit="sample", disable=len(jobs) < 20) as bar:
            return list(run_jobs(jobs, self.limits, progress=lambda done: bar.update(done - bar.n)))

    def provenance(self) -> dict[str, Any]:
        """What the results were made from: model and revision, decoding, benchmark, corpus, sandbox, versions, commit.

        Versions and commit are those of the run that retrieved; rendering again elsewhere does not change them.
        """
        metas = {
            c: self.results / self.place("contexts", c).with_suffix(".meta.json") for c in self.retrievers
        }
        retrieved = {c: read_json(p) for c, p in metas.items() if p.exists()}
        return {
            "model": self.model,
            "revision": self.revision,
            "decoding": DECODING,
            "benchmark": self.benchmark,
            "benchmark_digest": retrieved.get("None", {}).get("benchmark", ""),
            "tasks": len(self.tasks),
            "protocol": self.protocol,
            "packages": self.limits.packages,
            "corpus": self.corpus,
            "corpus_digest": sorted({m["corpus_digest"] for m in retrieved.values() if "corpus_digest" in m}),
            "retrieved_with": [m.get("versions") for m in retrieved.values()][-1:],
        }


def _control_job(task: Task, solution: str, protocol: str) -> Job:
    """As a model's solution is judged; but with setup code where the tests need it, else the reference could not pass."""
    return task_job(task, solution, "standard" if needs_setup(task) else protocol)


def _series(outcomes: dict[str, Outcome]) -> pd.Series:
    values = [pd.NA if o.status == "not_measured" else o.status == "passed" for o in outcomes.values()]
    return pd.Series(values, list(outcomes), dtype="boolean")


def _weighty(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The same without the verdicts of columns that are measured on too few tasks to say anything."""
    return verdicts.apply(lambda v: v if v.notna().mean() >= LEAST else v.mask(v.notna()))


def _changed(task: Task, solutions: dict[str, str]) -> list[str]:
    """Of the programs of the runtime check those that are not just what stands before the tests."""
    checked = ((before_tests(task, s), untested(task, s)) for s in solutions.values())
    return [program for before, program in checked if program != before]


def _shared(made: list[Generation], solution: str) -> Generation | None:
    """The completion that gave this solution, for a task that shares its prompt, and so its completion, with another.

    Many tasks have the same context, the empty one for instance, so that alone does not tell; None where several fit.
    """
    names = re.findall(r"def\s+(\w+)", solution) or [""]
    fitting = {g.key: g for g in made if any(extract(g.raw, n) == solution for n in names)}
    return next(iter(fitting.values())) if len(fitting) == 1 else None


def _natural(task_id: str) -> tuple[str, int]:
    name, _, number = task_id.rpartition("/")
    return name, int(number) if number.isdigit() else 0


def open_experiment(
    model: str,
    benchmark: str,
    corpus: str,
    limit: int | None = None,
    fresh: bool = False,
    results: Path | None = None,
) -> Experiment:
    """The experiment; as it is stored where its benchmark cannot be had here and verdicts on it are there."""
    found = results or results_dir()
    try:
        return Experiment(model, benchmark, corpus, limit, fresh, found)
    except BenchmarkMissing as e:
        if fresh or not (found / "evaluations" / slug(model) / slug(benchmark)).is_dir():
            raise
        return StoredExperiment(model, benchmark, corpus, limit, False, found, str(e))


@dataclass
class StoredExperiment(Experiment):
    """Contexts, completions and verdicts as they are stored, for a benchmark whose tasks cannot be had here (`missing`).

    Nothing is generated or executed, and no verdict is checked against the tasks.
    """

    why: str = ""
    stored_only = True

    @property
    def remark(self) -> str:  # type: ignore[override]
        return f"; verdicts as stored, since the tasks cannot be had ({self.why})"

    def _load_tasks(self) -> list[Task]:
        rows = self._stored("evaluations", "None", VERDICT)
        tasks = [Task(i, self.benchmark, "", "", "", "") for i in sorted(rows, key=_natural)]
        return tasks[: self.limit]

    def generate(self, columns: list[str]) -> int:
        return 0

    def solutions(self, column: str) -> dict[str, str]:
        rows = self._stored("evaluations", column, VERDICT)
        return {t.id: rows[t.id]["solution"] for t in self.tasks if t.id in rows}

    def completions(self, column: str) -> dict[str, Generation]:
        hidden, rows = self._hidden(), self._stored("evaluations", column, VERDICT)
        with_context: dict[str, list[Generation]] = {}
        for (_, sha), key in hidden.items():
            with_context.setdefault(sha, []).append(self.cache[key])
        found = {}
        for c in (c for c in self.known_contexts(column) if c.task_id in rows):
            key, others = hidden.get((c.task_id, c.sha256)), with_context.get(c.sha256, [])
            made = self.cache[key] if key else _shared(others, rows[c.task_id]["solution"])
            if made is not None:
                found[c.task_id] = made
        return found

    def _twins(self) -> dict[str, list[str]]:
        return {}

    @property
    def narrow_heading(self) -> str:
        """Model; benchmark and corpus: two lines for a figure of one text column."""
        return f"{self.model}\n{TITLES.get(self.benchmark, self.benchmark)}, corpus {self.corpus}"

    def outcomes(self, column: str) -> dict[str, Outcome]:
        rows = self._stored("evaluations", column, VERDICT)
        none = Outcome("not_measured", detail="no stored verdict")
        return {t.id: Outcome.of(rows[t.id]) if t.id in rows else none for t in self.tasks}

    def reranked(self) -> dict[str, str]:
        return {i: r["chosen"] for i, r in self._stored("evaluations", "reranked", ("chosen",)).items()}

    def controls(self) -> dict[str, pd.Series]:
        found = {}
        for name in CONTROLS:
            path = self.results / self.control_file(name)
            rows = {r["task_id"]: r for r in read_rows(path, VERDICT)} if path.exists() else {}
            found[name] = _series({t.id: Outcome.of(rows[t.id]) for t in self.tasks if t.id in rows})
        return found
