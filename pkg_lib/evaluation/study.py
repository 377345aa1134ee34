"""The study: what a user's choice means, and which notebooks run for which model, benchmark and corpus."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pkg_lib.core.reading import Damaged
from pkg_lib.core.registry import load_plugins, unknown
from pkg_lib.core.store import ROOT, results_dir, results_path, slug
from pkg_lib.core.types import BenchmarkMissing, UserError, digest
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.corpora import LIBRARY, OF_TASKS, kind_of
from pkg_lib.retrieval.methods import (
    METHODS,
    TOP_P,
    Sampling,
    is_method,
    retrieving_methods,
    sampled_name,
    variant_methods,
)

if TYPE_CHECKING:
    from pkg_lib.evaluation.pipeline import Evaluator
    from pkg_lib.evaluation.results import Results

NOTEBOOKS = ROOT / "notebooks"
MODEL, LARGER = "qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-1.5b-instruct"
PKG = ("Func-PKG", "Block-PKG")
SHARED = ("model", "benchmark", "corpus", "limit")
OWN = "own/"  # a folder for parameters of the user's own; it is no part of the report
COLUMN_PARAMETERS = (
    "column",
    "left",
    "right",
    "sets",
)  # of notebooks; the last joins columns by "+"
LONGEST = 120  # characters of parameters in a file's name; file systems allow 255 for the whole


@dataclass(frozen=True, slots=True)
class Part:
    """One run, the columns generated for it (none: all), the notebooks that show it (none: all that fit)."""

    benchmark: str
    corpus: str
    columns: tuple[str, ...] = ()
    notebooks: tuple[str, ...] = ()
    model: str = MODEL


def _rounds(last: int, *methods: str) -> tuple[str, ...]:
    return tuple(f"{method}@{n}" for method in methods for n in range(last + 1))


SOUP = ("None", "DocPrompting", "RK", "Oracle")
REFLEXION = _rounds(3, "Reflexion")
EVOR = SOUP + _rounds(4, "EVOR") + REFLEXION
PUBLIC = ("beatnum-public", "monkey-public", "more-itertools-public", "networkx-public")
TABLE3, NEAREST = ("RK, drawn again", "Evolve query", "Evolve knowledge"), "EVOR, nearest names"
KINDS = (
    "documents",
    "snippets",
    "feedback",
    "documents+snippets",
    "documents+feedback",
    "snippets+feedback",
)
TABLE4 = _rounds(1, *(f"EVOR of {kinds}" for kinds in KINDS))
FORMS = tuple(f"RK, {form}" for form in ("BM25", "MiniLM", "500 tokens", "2000 tokens"))
DRAWN = tuple(f"DocPrompting, T0.8, {n}" for n in range(1, 5))
COMBINED = ("MPSC", "ExeDec", "EVOR + MPSC", *_rounds(2, "EVOR + ExeDec", "EVOR + Reflexion"))
BEATNUM = (
    EVOR + _rounds(4, *TABLE3) + _rounds(1, NEAREST, "EVOR, code", "EVOR, explained code") + TABLE4
)
NETWORKX = SOUP + _rounds(2, "EVOR", NEAREST) + REFLEXION
TEXT, LARGE = ("rq2_text_pkg", "overlap", "cost"), ("rq1_code_pkg", "error_types")
# What ./run_all.sh shows: the parts whose completions are committed, so that it needs no weights.
STUDY = (
    Part("humaneval", "textbook+stdlib"),
    Part(
        "humaneval",
        "pkg-contexts",
        (),
        ("rq1_code_pkg", "rq3_representation", "error_types", "cost"),
    ),
    Part(
        "humaneval",
        "published",
        (),
        ("rq1_code_pkg", "rq3_representation", "umap_correctness", *TEXT[1:]),
    ),
    Part("humaneval", "python-docs", (), TEXT),
    Part("mbpp", "pkg-contexts", ("None", "Block-PKG"), ("rq1_code_pkg", "error_types")),
    Part("mbpp", "published"),
    Part("mbpp", "python-docs", (), TEXT),
    Part("humaneval", "published", ("None", "Func-BM25", *PKG), (*LARGE, "overlap"), LARGER),
    Part("mbpp", "published", ("None", *PKG), (*LARGE, "topics_radar"), LARGER),
    *(Part(name, LIBRARY, BEATNUM, ("evor",), LARGER) for name in ("beatnum", "beatnum-module")),
    *(
        Part(n, LIBRARY, EVOR + _rounds(3, *TABLE3), ("evor",), LARGER)
        for n in ("monkey", "monkey-module")
    ),
    Part("more-itertools-m", LIBRARY, EVOR + COMBINED + FORMS + DRAWN, ("evor",), LARGER),
    Part("newlisp", LIBRARY, SOUP + _rounds(1, "EVOR", "Reflexion"), ("evor",), LARGER),
    Part("networkx-m", LIBRARY, NETWORKX, ("evor",), LARGER),
    *(Part(name, LIBRARY, ("None",), ("evor",), LARGER) for name in PUBLIC),
)


@dataclass(frozen=True, slots=True)
class Choice:
    """What a user asks for; where nothing is named it is as in STUDY."""

    models: Sequence[str] = ()
    benchmarks: Sequence[str] = ()
    corpora: Sequence[str] = ()
    columns: Sequence[str] = ()
    notebooks: Sequence[str] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    limit: int | None = None
    fresh: bool = False
    samples: int = 0  # draws of each column, of None where none is named
    temperature: float = 0.8
    top_p: float = TOP_P
    shard: tuple[int, int] = (1, 1)  # this part of the tasks, of so many; no notebook shows a part
    slots: int | None = None  # prompts decoded together; None: as many as the memory holds

    @property
    def asked(self) -> tuple[str, ...]:
        """The columns to generate; none: all of a part."""
        numbers, columns = range(1, self.samples + 1), self.columns or ["None"]
        draws = (
            sampled_name(c, Sampling(self.temperature, self.top_p, sample=n))
            for n in numbers
            for c in columns
        )
        return tuple(draws) if self.samples else tuple(self.columns)


def parts(choice: Choice) -> list[Part]:
    """The parts of the study that are chosen. UserError: unknown column.

    A model that STUDY does not have on a benchmark takes the parts of MODEL there, with all columns.
    """
    load_plugins()  # columns and benchmarks of the papers
    for column in choice.columns:
        known = [*retrieving_methods(), *variant_methods()]
        if column not in known and (column in METHODS or not is_method(column)):
            raise unknown("column", column, known)
    models, benchmarks, chosen = choice.models, choice.benchmarks, []
    if choice.corpora:
        models, benchmarks = models or [MODEL], benchmarks or [STUDY[0].benchmark]
    of_benchmarks = dict.fromkeys(
        p.model for p in STUDY if p.benchmark in benchmarks or not benchmarks
    )
    for model in models or of_benchmarks or [MODEL]:
        of_model = [p for p in STUDY if p.model == model]
        shown = of_model or [p for p in STUDY if p.model == MODEL]
        for benchmark in benchmarks or dict.fromkeys(p.benchmark for p in shown):
            rules = BENCHMARKS.get_or_fail(benchmark)
            first = [
                replace(p, columns=())
                for p in STUDY
                if (p.model, p.benchmark) == (MODEL, benchmark)
            ]
            first = first or [Part(benchmark, rules.corpus or STUDY[0].corpus, rules.columns)]
            chosen += (
                [Part(benchmark, corpus, model=model) for corpus in choice.corpora]
                or [p for p in of_model if p.benchmark == benchmark]
                or [replace(p, model=model) for p in first]
            )
    return [replace(p, columns=choice.asked or p.columns) for p in chosen]


@dataclass(frozen=True, slots=True)
class Notebook:
    """A notebook's parameters with their defaults, the `kind` of corpus and the benchmarks that it is for.

    Without a parameter `model` it is about none and runs once; one of the kind repository shows all
    benchmarks of repositories together, of its `generator`.
    """

    name: str
    defaults: dict[str, Any]
    kind: str = ""
    benchmarks: tuple[str, ...] = ()

    @property
    def about_model(self) -> bool:
        return "model" in self.defaults

    @property
    def shows_runs(self) -> bool:
        return self.about_model or self.kind in OF_TASKS

    def fits(self, part: Part) -> bool:
        kind = kind_of(part.corpus)
        kinds = (kind,) if kind in OF_TASKS else ("", "text" if kind == "text" else "code")
        return self.kind in kinds and part.benchmark in (self.benchmarks or [part.benchmark])


def notebooks() -> list[str]:
    """Names of the notebooks that a batch run executes."""
    return sorted(p.stem for p in NOTEBOOKS.glob("*.ipynb"))


def read_notebook(name: str) -> Notebook:
    if name not in notebooks():
        raise unknown("notebook", name, notebooks())
    stored = json.loads((NOTEBOOKS / f"{name}.ipynb").read_bytes())
    tagged = [c["source"] for c in stored["cells"] if "parameters" in c["metadata"].get("tags", [])]
    body = ast.parse("".join(line for source in tagged for line in source)).body
    pairs = ((s.targets[0], s.value) for s in body if isinstance(s, ast.Assign))
    defaults = {t.id: ast.literal_eval(value) for t, value in pairs if isinstance(t, ast.Name)}
    return Notebook(name, defaults, **stored["metadata"].get("pkg_lib", {}))


@dataclass(frozen=True, slots=True, eq=False)
class NotebookJob:
    """One notebook to execute: the values of its parameters, its run, and what its files start with."""

    notebook: str
    parameters: dict[str, Any]
    stem: str
    run: Results | None = None

    @property
    def own(self) -> bool:
        """Whether it has parameters of the user's own."""
        return self.stem.startswith(OWN)

    @property
    def source(self) -> Path:
        return NOTEBOOKS / f"{self.notebook}.ipynb"

    @property
    def target(self) -> Path:
        return results_dir() / "notebooks" / f"{self.stem}.ipynb"

    @property
    def label(self) -> str:
        return f"{self.notebook} | {self.run.label}" if self.run else self.notebook


def stem_of(notebook: str, run: Results | None, **parameters: Any) -> str:
    """What a notebook's files start with: its run, and its own parameters where they are not the defaults.

    With such parameters they stand in the folder OWN, unless it is the limit alone: that makes another run.
    """
    defaults = read_notebook(notebook).defaults
    changed = {n: v for n, v in parameters.items() if v != defaults[n]}
    named = [slug(f"{n}-{v}").replace(".", "_") for n, v in changed.items()]
    if sum(map(len, named)) > LONGEST:
        named = [f"parameters-{digest(*named)[:8]}"]
    folder = OWN if changed.keys() - {"limit"} else ""
    return folder + ".".join([*([run.stem] if run else []), *named, notebook])


class Step(NamedTuple):
    """A run to prepare, its columns, and the notebooks that show it; those about no model have no run."""

    preparer: Evaluator | None
    columns: list[str]
    jobs: list[NotebookJob]


class Plan(NamedTuple):
    """The steps in their order, and one line for each run or notebook that is left out.

    `damaged` has the runs that need a damaged file, with the error.
    """

    steps: list[Step]
    left_out: list[str]
    damaged: dict[str, Exception] = {}  # noqa: RUF012 (a default that nobody changes)

    @property
    def jobs(self) -> list[NotebookJob]:
        """Each once: some show several runs."""
        return list({job.stem: job for step in self.steps for job in step.jobs}.values())


def plan(choice: Choice) -> Plan:
    """What a run will do, without what cannot be had or shown here. UserError where nothing remains.

    Notebooks about no model run with the whole study, or where they are named.
    """
    from pkg_lib.evaluation.pipeline import Evaluator
    from pkg_lib.evaluation.results import Results

    chosen = [read_notebook(name) for name in choice.notebooks or notebooks()]
    _check(choice, chosen)
    steps: list[Step] = []
    left_out: list[str] = []
    damaged: dict[str, Exception] = {}
    caches: dict[Any, Any] = {}  # what one run asks the next one knows
    for part, showing in _showing(choice, [n for n in chosen if n.shows_runs]).items():
        try:
            run = Results(
                part.model, part.benchmark, part.corpus, choice.limit, results_path(), choice.shard
            )
            run.caches, run.slots = caches, choice.slots
            preparer = Evaluator(run, choice.fresh)
        except BenchmarkMissing as e:
            left_out.append(f"{part.model} | {part.benchmark}: {e}")
            continue
        except Damaged as e:
            damaged[f"{part.model} | {part.benchmark} | {part.corpus}"] = e
            continue
        columns, jobs = list(part.columns or run.retrievers), []
        for notebook in showing:
            job = _job(notebook, run, {"limit": run.limit} | choice.parameters)
            try:
                why = _lacks(notebook.defaults | job.parameters, run, columns)
            except Damaged as e:
                damaged[job.label] = e
                continue
            if why:
                left_out.append(f"{job.label}: {why}")
            else:
                jobs.append(job)
        steps.append(Step(preparer, columns, jobs))
    if damaged and not any(step.jobs for step in steps):
        raise Damaged(*dict.fromkeys(map(str, damaged.values())))
    if left_out and not steps:
        raise BenchmarkMissing(*dict.fromkeys(left_out))
    taken = {step.preparer.run.limit for step in steps}
    limit = None if taken == {None} else choice.limit  # a limit that takes every task is none
    whole = choice.notebooks or not (choice.models or choice.benchmarks or choice.corpora)
    shown = {job.notebook for step in steps for job in step.jobs}
    alone = [n for n in chosen if whole and not n.about_model and n.name not in shown]
    steps.append(
        Step(None, [], [_job(n, None, {"limit": limit} | choice.parameters) for n in alone])
    )
    steps = [step for step in steps if step.jobs]
    if not steps:
        why = left_out or [
            f"{p.benchmark} with {p.corpus}: no notebook is for it" for p in parts(choice)
        ]
        raise UserError(*(f"nothing to show of {line}" for line in why))
    if choice.shard[1] > 1:
        steps = [step._replace(jobs=[]) for step in steps if step.preparer]
    return Plan(steps, list(dict.fromkeys(left_out)), damaged)


def _check(choice: Choice, chosen: list[Notebook]) -> None:
    """UserError for what no chosen notebook takes, or a parameter of another type than its default."""
    names = ", ".join(n.name for n in chosen)
    for option in ("models", "benchmarks", "corpora", "columns"):
        if getattr(choice, option) and not any(n.shows_runs for n in chosen):
            raise UserError(f"no model is shown by {names}; leave its {option} out")
    for name, value in choice.parameters.items():
        takers = [n for n in chosen if name in n.defaults]
        if not takers:
            where = f"of notebook {names}" if len(chosen) == 1 else "of these notebooks"
            raise unknown("parameter", name, sorted({p for n in chosen for p in n.defaults}), where)
        if name in SHARED and all(n.about_model for n in takers):
            raise UserError(f"--parameter {name}: a notebook about a model takes it as --{name}")
        for notebook in takers:
            default = notebook.defaults[name]
            if default is not None and type(value) is not type(default):
                kind = f"{type(default).__name__}, as {default!r} is"
                raise UserError(f"parameter {name} of notebook {notebook.name} must be {kind}")


def _showing(choice: Choice, candidates: list[Notebook]) -> dict[Part, list[Notebook]]:
    """The parts with the notebooks that show them. UserError for a notebook that is named for none."""
    showing = {}
    for part in parts(choice) if candidates else []:
        narrowed = choice.notebooks or part.notebooks or notebooks()
        showing[part] = [n for n in candidates if n.fits(part) and n.name in narrowed]
    shown = {n.name for fitting in showing.values() for n in fitting}
    for notebook in (n for n in candidates if n.about_model):
        if notebook.name in choice.notebooks and notebook.name not in shown:
            about = [
                f"corpora of {notebook.kind}" if notebook.kind else "any corpus",
                *notebook.benchmarks,
            ]
            advice = "choose --benchmark and --corpus so"
            raise UserError(f"notebook {notebook.name} is for {', '.join(about)}; {advice}")
    return {part: fitting for part, fitting in showing.items() if fitting}


def _job(notebook: Notebook, run: Results | None, given: Mapping[str, Any]) -> NotebookJob:
    if run and not notebook.about_model:
        other = {} if run.model in notebook.defaults.values() else {"generator": run.model}
        return _job(notebook, None, other | given)
    shared = {n: getattr(run, n) for n in SHARED if n in notebook.defaults} if run else {}
    own = {n: v for n, v in given.items() if n in notebook.defaults and n not in shared}
    return NotebookJob(notebook.name, shared | own, stem_of(notebook.name, run, **own), run)


def _lacks(parameters: dict[str, Any], run: Results, columns: list[str]) -> str:
    """Why a notebook has nothing to show of a run with these columns; "" where it has."""

    def measured(column: str) -> bool:
        asked = column in columns and not run.tasks_absent
        return column in run.retrievers and bool(asked or run.completions(column))

    for name in (n for n in COLUMN_PARAMETERS if parameters.get(n)):
        for column in parameters[name].split("+"):
            if column not in METHODS:
                raise UserError(f"parameter {name}: {unknown('column', column, METHODS)}")
            if not measured(column) and not METHODS[column].needs:
                known = ", ".join(f'"{c}"' for c in run.retrievers if measured(c)) or "no column"
                return f"column {column} is not measured; measured: {known}"
    return ""
