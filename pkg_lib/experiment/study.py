"""The study: which notebooks run for which model, benchmark and corpus, and what a run will do before it does
anything."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pkg_lib.core.registry import unknown
from pkg_lib.core.store import ROOT, results_dir, results_path, slug
from pkg_lib.core.types import BenchmarkMissing, UserError, digest
from pkg_lib.data.corpora import is_text
from pkg_lib.experiment import kernel
from pkg_lib.retrieval.columns import COLUMNS, retrieved

if TYPE_CHECKING:
    from pkg_lib.experiment.prepare import Preparer
    from pkg_lib.experiment.run import Run

NOTEBOOKS = ROOT / "notebooks"
MODEL, LARGER = "qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-1.5b-instruct"
PKG = ("Func-PKG", "Block-PKG")
SHARED = ("model", "benchmark", "corpus", "limit")
# names of a run with parameters of the user's own start with it; such folders are no part of the report
OWN = "own/"
COLUMN_PARAMETERS = ("column", "left", "right", "sets")  # of notebooks; the last joins columns by "+"
LONGEST = 120  # characters of parameters in a file's name; file systems allow 255 for the whole


@dataclass(frozen=True, slots=True)
class Part:
    """One benchmark with one corpus and one model, the columns that are generated for it, and the notebooks
    that show it.

    Without columns all that the corpus offers; without notebooks all that fit.
    """

    benchmark: str
    corpus: str
    columns: tuple[str, ...] = ()
    notebooks: tuple[str, ...] = ()
    model: str = MODEL


# What ./run_all.sh shows: the parts whose completions are committed, so that it needs no weights.
STUDY = (
    Part("humaneval", "textbook+stdlib"),
    Part("humaneval", "pkg-contexts", (), ("rq1_code_pkg", "rq3_representation", "error_types", "cost")),
    Part(
        "humaneval",
        "published",
        (),
        ("rq1_code_pkg", "rq3_representation", "overlap", "umap_correctness", "cost"),
    ),
    Part("humaneval", "python-docs", (), ("rq2_text_pkg", "overlap", "cost")),
    Part("mbpp", "pkg-contexts", ("None", "Block-PKG"), ("rq1_code_pkg", "error_types")),
    Part("mbpp", "published"),
    Part("mbpp", "python-docs", (), ("rq2_text_pkg", "overlap", "cost")),
    Part(
        "humaneval",
        "published",
        ("None", "Func-BM25", *PKG),
        ("rq1_code_pkg", "error_types", "overlap"),
        LARGER,
    ),
    Part("mbpp", "published", ("None", *PKG), ("rq1_code_pkg", "error_types", "topics_radar"), LARGER),
)


@dataclass(frozen=True, slots=True)
class NotebookJob:
    """One notebook with its parameters: of model, benchmark, corpus and limit those that it declares, and its
    own."""

    notebook: str
    parameters: dict[str, Any] = field(hash=False)
    stem: str

    @property
    def own(self) -> bool:
        """Whether it has parameters of the user's own, so that it is no part of the report."""
        return self.stem.startswith(OWN)

    @property
    def source(self) -> Path:
        return NOTEBOOKS / f"{self.notebook}.ipynb"

    @property
    def target(self) -> Path:
        return results_dir() / "notebooks" / f"{self.stem}.ipynb"


def notebooks() -> list[str]:
    """Names of the notebooks that a batch run executes."""
    return sorted(p.stem for p in NOTEBOOKS.glob("*.ipynb"))


def parts(
    benchmarks: list[str], corpora: list[str], columns: list[str], models: Sequence[str] = ()
) -> list[Part]:
    """The parts of the study that a user's choice names; what is not chosen is as in STUDY. UserError:
    unknown column.

    A model that STUDY does not have, or not on a benchmark that is named, takes the parts of MODEL, with all
    columns.
    """
    if strange := [c for c in columns if c not in retrieved()]:
        raise unknown("column", strange[0], retrieved())
    if corpora:
        named = benchmarks or [STUDY[0].benchmark]
        chosen = [Part(b, c, model=m) for m in models or [MODEL] for b in named for c in corpora]
    elif models or benchmarks:
        of_benchmarks = list(dict.fromkeys(p.model for p in STUDY if p.benchmark in benchmarks))
        chosen = [p for m in models or of_benchmarks or [MODEL] for p in _parts_of(m, benchmarks)]
    else:
        chosen = list(STUDY)
    return [replace(p, columns=tuple(columns)) for p in chosen] if columns else chosen


def _parts_of(model: str, benchmarks: list[str]) -> list[Part]:
    of_model = [p for p in STUDY if p.model == model]
    chosen: list[Part] = []
    for benchmark in benchmarks or dict.fromkeys(p.benchmark for p in of_model or STUDY):
        first = [p for p in STUDY if (p.model, p.benchmark) == (MODEL, benchmark)]
        others = [replace(p, model=model, columns=()) for p in first or [Part(benchmark, STUDY[0].corpus)]]
        chosen += [p for p in of_model if p.benchmark == benchmark] or others
    return chosen


# Notebooks and their parameters


@cache
def _read(path: Path, changed: int) -> Any:
    import nbformat

    return nbformat.read(path, as_version=4)


def _notebook(path: Path) -> Any:
    return _read(path, path.stat().st_mtime_ns)


def declared_parameters(notebook: Path) -> dict[str, Any]:
    """name -> default of the notebook's parameters cell."""
    tagged = [c for c in _notebook(notebook).cells if "parameters" in c.metadata.get("tags", [])]
    body = ast.parse("\n".join(c.source for c in tagged)).body
    return {s.targets[0].id: ast.literal_eval(s.value) for s in body if isinstance(s, ast.Assign)}  # type: ignore[attr-defined]


def _declared(names: list[str]) -> dict[str, dict[str, Any]]:
    """notebook -> name -> default; of all notebooks where none is named. UserError for an unknown one."""
    if strange := [n for n in names if n not in notebooks()]:
        raise unknown("notebook", strange[0], notebooks())
    return {n: declared_parameters(NOTEBOOKS / f"{n}.ipynb") for n in names or notebooks()}


def check_parameters(notebook: Path, parameters: dict[str, Any]) -> None:
    """UserError for a parameter that the notebook's parameters cell does not declare (papermill only
    warns)."""
    known = declared_parameters(notebook)
    if strange := [p for p in parameters if p not in known]:
        raise UserError(
            f"notebook {notebook.stem} has no parameter '{strange[0]}'; it takes: {', '.join(known)}"
        )


def _check_own(name: str, value: Any, declared: dict[str, dict[str, Any]]) -> None:
    """UserError for a parameter that no notebook declares, or that is of another type than the default
    there."""
    takers = {n: known[name] for n, known in declared.items() if name in known}
    if name in SHARED and takers and all("model" in declared[n] for n in takers):
        raise UserError(f"--parameter {name}: a model's experiment takes it as --{name}")
    if not takers:
        known = sorted({p for names in declared.values() for p in names})
        raise UserError(
            f"no notebook of {', '.join(declared)} has a parameter '{name}'; they take: {', '.join(known)}"
        )
    for notebook, default in takers.items():
        if default is not None and type(value) is not type(default):
            kind = type(default).__name__
            raise UserError(f"parameter {name} of notebook {notebook} must be {kind}, as {default!r} is")


def needs_experiments(names: list[str]) -> bool:
    """Whether any of these notebooks (all where none is named) is about a model. UserError for an unknown
    one."""
    return any("model" in known for known in _declared(names).values())


def check_choice(names: list[str], chosen: dict[str, Any]) -> None:
    """UserError for a choice of model, benchmark, corpus or column where none of the notebooks is about a
    model."""
    given = [option for option, value in chosen.items() if value]
    if given and not needs_experiments(names):
        raise UserError(
            f"--{given[0]} is for notebooks about a model, and {', '.join(names)} is not; "
            "use --parameter NAME=VALUE"
        )


def fits(notebook: str, experiment: Run | Part | None) -> bool:
    """Whether the notebook is for the experiment (None: for the study as a whole), as its metadata says.

    `kind` is code or text, the corpora of Tables 1 and 2 or of Tables 3 and 4; `benchmarks` names those that
    it is for.
    """
    alone = "model" not in declared_parameters(NOTEBOOKS / f"{notebook}.ipynb")
    if experiment is None or alone:
        return experiment is None and alone
    about, kind = _metadata(notebook), "text" if is_text(experiment.corpus) else "code"
    return kind == about.get("kind", kind) and experiment.benchmark in about.get(
        "benchmarks", [experiment.benchmark]
    )


def _metadata(notebook: str) -> dict[str, Any]:
    return dict(_notebook(NOTEBOOKS / f"{notebook}.ipynb").metadata.get("pkg_lib", {}))


def stem_of(notebook: str, experiment: Run | None, **parameters: Any) -> str:
    """What a notebook's files start with: its experiment, and those of its own parameters that are not the
    defaults.

    With such parameters they stand in a folder `own`. A limit is no such parameter: it makes another
    experiment.
    """
    defaults = declared_parameters(NOTEBOOKS / f"{notebook}.ipynb")
    changed = {n: v for n, v in parameters.items() if v != defaults[n]}
    named = [slug(f"{n}-{v}").replace(".", "_") for n, v in changed.items()]
    if sum(map(len, named)) > LONGEST:
        named = [f"parameters-{digest(*named)[:8]}"]
    folder = OWN if changed.keys() - {"limit"} else ""
    return folder + ".".join([*([experiment.stem] if experiment else []), *named, notebook])


def cells(
    names: list[str],
    planned: list[tuple[Run, Part]],
    parameters: dict[str, Any],
    limit: int | None = None,
    alone: bool = True,
) -> list[tuple[Run | None, NotebookJob]]:
    """The notebooks in the order in which they run, each with the experiment that it shows.

    An experiment is shown by those of its part's notebooks, or of the named ones, that are for its kind of
    corpus and its benchmark. A notebook that declares no model is about none and runs once (experiment None);
    it takes what is SHARED by the others, a corpus for instance, as a parameter of its own; without `alone`
    those run only where they are named. UserError for an unknown notebook, one that is for no experiment
    chosen, or a parameter that none has.
    """
    declared = _declared(names)
    for name, value in parameters.items():
        _check_own(name, value, declared)
    work: list[tuple[Run | None, NotebookJob]] = []
    for experiment, part in [*planned, (None, Part("", ""))]:
        wanted = names or part.notebooks or (tuple(declared) if experiment or alone else ())
        fitting = [n for n in declared if n in wanted and fits(n, experiment)]
        work += [(experiment, _cell(n, declared[n], experiment, parameters, limit)) for n in fitting]
    shown = {c.notebook for _, c in work}
    if idle := next((n for n in names if n not in shown), None):
        about = _metadata(idle)
        kinds = f"corpora of {about['kind']}" if "kind" in about else "any corpus"
        fitting = " and ".join([kinds, *([", ".join(about["benchmarks"])] if "benchmarks" in about else [])])
        raise UserError(
            f"notebook {idle} is for {fitting}, and no such experiment is chosen; "
            "use --benchmark and --corpus"
        )
    return work


def _cell(
    notebook: str, known: dict[str, Any], run: Run | None, given: dict[str, Any], limit: int | None
) -> NotebookJob:
    shared = {n: getattr(run, n) for n in SHARED} if run else {"limit": limit}
    named = {n: v for n, v in given.items() if not (run and n in SHARED)}
    parameters = ({} if run else shared) | named
    stem = stem_of(notebook, run, **{n: v for n, v in parameters.items() if n in known})
    return NotebookJob(notebook, {n: v for n, v in (shared | parameters).items() if n in known}, stem)


# The plan of a run


@dataclass(frozen=True, slots=True)
class Plan:
    """The experiments of a run, its notebooks, and one line for each experiment or notebook that is left
    out."""

    experiments: list[tuple[Preparer, Part]]
    notebooks: list[tuple[Run | None, NotebookJob]]
    left_out: list[str]


def plan(
    chosen: list[Part], names: list[str], limit: int | None, fresh: bool, parameters: dict[str, Any]
) -> Plan:
    """What a run will do. A mistake in the last name is found before the first hours are spent.

    Left out are experiments whose benchmark cannot be had here and notebooks about a column that an
    experiment does not measure. UserError where nothing remains.
    """
    opened, left_out = _opened(chosen if needs_experiments(names) else [], limit, fresh)
    if left_out and not opened:
        raise BenchmarkMissing(*left_out)
    planned = [(preparer.run, part) for preparer, part in opened]
    beyond = bool(planned) and all(
        run.limit is None for run, _ in planned
    )  # a limit that takes every task is none
    whole = [(p.model, p.benchmark, p.corpus) for p in chosen] == [
        (p.model, p.benchmark, p.corpus) for p in STUDY
    ]
    work = cells(names, planned, parameters, None if beyond else limit, alone=whole)
    for _, cell in work:
        check_parameters(cell.source, cell.parameters)
    columns = {id(run): measured_columns(run, part) for run, part in planned}
    lacking = [lacks(cell, columns[id(run)]) if run else "" for run, cell in work]
    left_out += [f"{label(*w)}: {why}" for w, why in zip(work, lacking, strict=True) if why]
    work = [w for w, why in zip(work, lacking, strict=True) if not why]
    if not work:
        raise UserError(*(f"nothing to show of {line}" for line in left_out))
    shown = {id(run) for run, _ in work}
    return Plan([(preparer, part) for preparer, part in opened if id(preparer.run) in shown], work, left_out)


def _opened(
    chosen: list[Part], limit: int | None, fresh: bool
) -> tuple[list[tuple[Preparer, Part]], list[str]]:
    """The experiments whose tasks are here or whose verdicts are stored; a line about each other one."""
    from pkg_lib.experiment.prepare import Preparer
    from pkg_lib.experiment.run import Run

    opened, left_out = [], []
    for part in chosen:
        try:
            run = Run(part.model, part.benchmark, part.corpus, limit, results_path())
            opened.append((Preparer(run, fresh), part))
        except BenchmarkMissing as e:
            left_out.append(f"{part.model} | {part.benchmark}: {e}")
    return opened, list(dict.fromkeys(left_out))


def measured_columns(run: Run, part: Part) -> list[str]:
    """The columns that the run has or will have completions of: those that are asked for, and what is
    stored."""
    asked = () if run.tasks_absent else part.columns or tuple(run.retrievers)
    return [c for c in run.retrievers if c in asked or run.completions(c)]


def lacks(cell: NotebookJob, measured: list[str]) -> str:
    """Why a notebook has nothing to show of an experiment with these columns; "" where it has. UserError:
    unknown column."""
    parameters = declared_parameters(cell.source) | cell.parameters
    for name in (n for n in COLUMN_PARAMETERS if parameters.get(n)):
        for column in parameters[name].split("+"):
            if column not in COLUMNS:
                raise UserError(f"parameter {name}: {unknown('column', column, COLUMNS)}")
            if column not in measured and not COLUMNS[column].needs:
                return f"column {column} is not measured (measured are {', '.join(measured)})"
    return ""


def label(run: Run | None, cell: NotebookJob) -> str:
    """A notebook and its experiment in a progress line."""
    return " | ".join([cell.notebook, *([run.model, run.benchmark, run.corpus] if run else [])])


def execute(cell: NotebookJob) -> str:
    """Runs one notebook; returns "" or the error that stopped it. The notebook is saved up to the failing
    cell."""
    check_parameters(cell.source, cell.parameters)
    return kernel.execute(cell.source, cell.target, cell.parameters)


def warm(cell: NotebookJob) -> None:
    """Encodes here, with a progress bar, what the notebook would encode out of sight; the notebook tells of a
    mistake."""
    if cell.notebook == "explore":
        from pkg_lib.retrieval.explain import explain, knowledge_of_code

        asked = declared_parameters(cell.source) | cell.parameters
        with suppress(UserError):
            explain(knowledge_of_code(asked.pop("corpus")), **asked)
