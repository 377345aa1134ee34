"""The study: which notebooks show which model, benchmark and corpus, and what a user chose of it."""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pkg_lib.core.reading import DamagedFileError
from pkg_lib.core.registry import load_plugins, unknown
from pkg_lib.core.store import notebooks_dir, results_dir, results_path, slug
from pkg_lib.core.types import BenchmarkMissingError, UserError, digest
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.corpora import OF_TASKS, kind_of
from pkg_lib.generation.generator import Sampling
from pkg_lib.retrieval.methods import (
    AS_PRINTED,
    METHODS,
    RERANKED,
    SELECTING,
    TOP_P,
    is_method,
    retrieving_methods,
    rounds_of,
    sampled_name,
    variant_methods,
)

if TYPE_CHECKING:
    from pkg_lib.evaluation.pipeline import Evaluator
    from pkg_lib.evaluation.results import Results

NOTEBOOKS = notebooks_dir()
MODEL = "qwen2.5-coder-0.5b-instruct"
LARGER = "qwen2.5-coder-1.5b-instruct"
# Parameters that a notebook about a model takes from the options of `run`.
SHARED_PARAMETERS = ("model", "benchmark", "corpus", "limit")
# Parameters that name methods; those of the last one are joined by "+".
METHOD_PARAMETERS = ("method", "left", "right", "sets")
CUSTOM = "own/"  # folder of notebooks with a user's parameters; the report leaves them out
LONGEST_STEM = 120  # characters of parameters in a file name; file systems allow 255 in all


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the study: one model on one benchmark with one corpus.

    Attributes:
        benchmark: Name of the benchmark.
        corpus: Name of the corpus.
        methods: Methods to generate with; empty for all methods of the corpus.
        notebooks: Notebooks that show the part; empty for all that fit.
        model: Name of the model.
    """

    benchmark: str
    corpus: str
    methods: tuple[str, ...] = ()
    notebooks: tuple[str, ...] = ()
    model: str = MODEL


def _read_study() -> Iterator[Part]:
    path = Path(__file__).with_name("study.toml")
    for row in tomllib.loads(path.read_text("utf8"))["part"]:
        for benchmark in row["benchmarks"]:
            yield Part(
                benchmark,
                row["corpus"],
                tuple(row.get("methods", ())),
                tuple(row.get("notebooks", ())),
                row.get("model", MODEL),
            )


STUDY = list(_read_study())


@dataclass(frozen=True, slots=True)
class Choice:
    """A user's choice of what to run. `STUDY` gives everything that is not named.

    Attributes:
        models: Names of models.
        benchmarks: Names of benchmarks.
        corpora: Names of corpora.
        methods: Names of methods.
        notebooks: Names of notebooks.
        parameters: Values of notebook parameters by name.
        limit: The number of tasks from each benchmark; None for all.
        fresh: Whether to repeat what is stored.
        samples: Samples of each method, or of no retrieval if no method is named; 0 for greedy
            decoding.
        temperature: Temperature of the samples.
        top_p: Nucleus sampling threshold of the samples.
        shard: Part I of N of the tasks, as (I, N). No notebook shows a part.
        slots: The number of prompts decoded together; None to decide by the memory.
    """

    models: Sequence[str] = ()
    benchmarks: Sequence[str] = ()
    corpora: Sequence[str] = ()
    methods: Sequence[str] = ()
    notebooks: Sequence[str] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    limit: int | None = None
    fresh: bool = False
    samples: int = 0
    temperature: float = 0.8
    top_p: float = TOP_P
    shard: tuple[int, int] = (1, 1)
    slots: int | None = None

    @property
    def generated_methods(self) -> tuple[str, ...]:
        """The methods to generate with, sampled ones by the sample; empty for all of a part."""
        if not self.samples:
            return tuple(self.methods)
        names = []
        numbers = range(1, self.samples + 1)
        methods = self.methods or ["NoRAG"]
        for number, method in product(numbers, methods):
            sampling = Sampling(self.temperature, self.top_p, sample=number)
            names.append(sampled_name(method, sampling))
        return tuple(names)

    @property
    def is_whole_study(self) -> bool:
        """Whether no model, benchmark or corpus is named."""
        return not (self.models or self.benchmarks or self.corpora)


def parts(choice: Choice) -> list[Part]:
    """List the parts of the study that a user chose.

    Args:
        choice: The user's choice.

    Returns:
        The parts, model by model. A model that `STUDY` does not have on a benchmark takes the
        parts of `MODEL` there, with all methods.

    Raises:
        UserError: A method or benchmark is unknown.
    """
    load_plugins()  # methods and benchmarks of the papers
    for method in choice.methods:
        if method in (*SELECTING, AS_PRINTED):
            base = RERANKED if method == AS_PRINTED else "the methods that it selects from"
            raise UserError(
                f"method '{method}' is computed beside {base}; leave it out of --method"
            )
        known = [*retrieving_methods(), *variant_methods()]
        if method not in known and (method in METHODS or not is_method(method)):
            raise unknown("method", method, known)
    methods = choice.generated_methods
    chosen: list[Part] = []
    for model in _models(choice):
        for benchmark in _benchmarks(choice, model):
            found = _parts_of(model, benchmark, choice.corpora)
            chosen += [replace(part, methods=methods or part.methods) for part in found]
    return chosen


def _models(choice: Choice) -> Iterable[str]:
    if choice.models:
        return choice.models
    if choice.corpora:
        return [MODEL]
    wanted = choice.benchmarks
    models = [part.model for part in STUDY if not wanted or part.benchmark in wanted]
    return dict.fromkeys(models) or [MODEL]


def _benchmarks(choice: Choice, model: str) -> Iterable[str]:
    if choice.benchmarks:
        return choice.benchmarks
    if choice.corpora:
        return [STUDY[0].benchmark]
    planned = _planned(model) or _planned(MODEL)
    return dict.fromkeys(part.benchmark for part in planned)


def _planned(model: str, benchmark: str = "") -> list[Part]:
    """Return the parts of `STUDY` that are of a model, and of a benchmark if one is given."""
    return [p for p in STUDY if p.model == model and benchmark in ("", p.benchmark)]


def _parts_of(
    model: str,
    benchmark: str,
    corpora: Iterable[str],
) -> Iterator[Part]:
    about = BENCHMARKS.get_or_fail(benchmark)
    if corpora:
        for corpus in corpora:
            yield Part(benchmark, corpus, model=model)
    elif planned := _planned(model, benchmark):
        yield from planned
    elif similar := _planned(MODEL, benchmark):
        for part in similar:
            yield replace(part, methods=(), model=model)
    else:
        corpus = about.corpus or STUDY[0].corpus
        yield Part(benchmark, corpus, about.methods, model=model)


@dataclass(frozen=True, slots=True)
class Notebook:
    """A stored notebook, as its metadata and its cell of parameters describe it.

    Attributes:
        name: Its file name without the suffix.
        defaults: The default values of its parameters. A notebook without a parameter `model` is
            about no model and runs once.
        kind: The kind of corpus that it is for; "" for all corpora that are not made of tasks.
        benchmarks: The benchmarks that it is for; empty for all.
    """

    name: str
    defaults: dict[str, Any]
    kind: str = ""
    benchmarks: tuple[str, ...] = ()

    @property
    def about_model(self) -> bool:
        """Whether it shows one model."""
        return "model" in self.defaults

    @property
    def shows_results(self) -> bool:
        """Whether it shows results of the study: of one model, or of all benchmarks of its kind."""
        return self.about_model or self.kind in OF_TASKS

    def fits(self, part: Part) -> bool:
        """Tell whether the notebook can show a part of the study.

        Args:
            part: The part.
        """
        kind = kind_of(part.corpus)
        if kind in OF_TASKS:
            right_kind = self.kind == kind
        else:
            right_kind = self.kind in ("", "text" if kind == "text" else "code")
        return right_kind and part.benchmark in (self.benchmarks or [part.benchmark])

    def check_type(self, parameter: str, value: object) -> None:
        """Check the type of a parameter's value.

        Args:
            parameter: The name of the parameter.
            value: The value.

        Raises:
            UserError: The value has another type than the default.
        """
        default = self.defaults[parameter]
        if default is not None and type(value) is not type(default):
            kind = type(default).__name__
            raise UserError(
                f"parameter {parameter} of notebook {self.name} must be {kind}, as {default!r} is"
            )


def notebooks() -> list[str]:
    """Return the names of the notebooks that `run` executes, sorted."""
    return sorted(p.stem for p in NOTEBOOKS.glob("*.ipynb"))


def read_notebook(name: str) -> Notebook:
    """Read the description of a notebook.

    Args:
        name: Its file name without the suffix.

    Returns:
        The description.

    Raises:
        UserError: There is no such notebook.
    """
    if name not in notebooks():
        raise unknown("notebook", name, notebooks())
    stored = json.loads((NOTEBOOKS / f"{name}.ipynb").read_bytes())
    defaults = {}
    for cell in stored["cells"]:
        if "parameters" not in cell["metadata"].get("tags", []):
            continue
        for statement in ast.parse("".join(cell["source"])).body:
            if isinstance(statement, ast.Assign):
                parameter = ast.unparse(statement.targets[0])
                defaults[parameter] = ast.literal_eval(statement.value)
    return Notebook(name, defaults, **stored["metadata"].get("pkg_lib", {}))


@dataclass(frozen=True, slots=True, eq=False)
class NotebookJob:
    """One notebook to execute.

    Attributes:
        notebook: Its name.
        parameters: The values of its parameters.
        stem: What the names of its files start with.
        results: The results that it shows; None for a notebook about no model.
    """

    notebook: str
    parameters: dict[str, Any]
    stem: str
    results: Results | None = None

    @property
    def is_custom(self) -> bool:
        """Whether a user gave it parameters, which keeps it out of the report."""
        return self.stem.startswith(CUSTOM)

    @property
    def source(self) -> Path:
        """The stored notebook."""
        return NOTEBOOKS / f"{self.notebook}.ipynb"

    @property
    def target(self) -> Path:
        """The executed notebook."""
        return results_dir() / "notebooks" / f"{self.stem}.ipynb"

    @property
    def label(self) -> str:
        """The name of the job in messages."""
        if self.results is None:
            return self.notebook
        return f"{self.notebook} | {self.results.label}"


def stem_of(
    notebook: str,
    results: Results | None,
    **parameters: Any,
) -> str:
    """Return what the names of a notebook's files start with.

    Args:
        notebook: The name of the notebook.
        results: The results that it shows; None for a notebook about no model.
        **parameters: Values of its other parameters.

    Returns:
        The stem of the results, the parameters that differ from their defaults, and the name. A
        folder is in front if a parameter other than the limit differs.
    """
    defaults = read_notebook(notebook).defaults
    changed = set()
    words = []
    for name, value in parameters.items():
        if value != defaults[name]:
            changed.add(name)
            words.append(slug(f"{name}-{value}").replace(".", "_"))
    if sum(map(len, words)) > LONGEST_STEM:
        words = [f"parameters-{digest(*words)[:8]}"]
    if results:
        words.insert(0, results.stem)
    folder = CUSTOM if changed - {"limit"} else ""
    return folder + ".".join([*words, notebook])


@dataclass(frozen=True, slots=True)
class Step:
    """What to prepare, and the notebooks that show it.

    Attributes:
        evaluator: Prepares the results; None for notebooks about no model.
        methods: The methods to generate with.
        jobs: The notebooks.
    """

    evaluator: Evaluator | None
    methods: list[str]
    jobs: list[NotebookJob]


@dataclass(slots=True)
class Plan:
    """What `run` will do.

    Attributes:
        steps: The steps in their order.
        left_out: A line for each part or notebook that is unavailable here.
        damaged: The error of each part or notebook that needs a damaged file, by its label.
    """

    steps: list[Step] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    damaged: dict[str, Exception] = field(default_factory=dict)

    @property
    def jobs(self) -> list[NotebookJob]:
        """The notebooks, each once, although some show several parts."""
        by_stem: dict[str, NotebookJob] = {}
        for step in self.steps:
            for job in step.jobs:
                by_stem[job.stem] = job
        return list(by_stem.values())


def plan(choice: Choice) -> Plan:
    """Plan what to prepare and execute.

    Notebooks about no model run with the whole study, or if they are named.

    Args:
        choice: The user's choice.

    Returns:
        The plan, without what is unavailable or cannot be shown here.

    Raises:
        UserError: A name or value is wrong, or nothing remains.
    """
    load_plugins()  # methods of the papers
    methods: dict[str, None] = {}
    for method in choice.methods:
        methods.update(dict.fromkeys(rounds_of(method)))
    planner = _Planner(replace(choice, methods=tuple(methods)))
    planner.check_options()
    planner.check_parameters()
    planner.plan_parts()
    return planner.finished()


class _Planner:
    """Builds the plan of a choice, step by step."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.chosen = [read_notebook(name) for name in choice.notebooks or notebooks()]
        self.plan = Plan()
        self.caches: dict[Any, Any] = {}  # completions of one step are known to the next

    def check_options(self) -> None:
        """Raise UserError for an option that no chosen notebook takes."""
        if not any(notebook.shows_results for notebook in self.chosen):
            for option in ("models", "benchmarks", "corpora", "methods"):
                if getattr(self.choice, option):
                    raise UserError(f"no model is shown by {self.names}; leave its {option} out")

    def check_parameters(self) -> None:
        """Raise UserError for a parameter that no chosen notebook takes, or with another type of value."""
        takers: dict[str, list[Notebook]] = {}
        for notebook in self.chosen:
            for name in notebook.defaults:
                takers.setdefault(name, []).append(notebook)
        for name, value in self.choice.parameters.items():
            if name not in takers:
                where = "of these notebooks"
                if len(self.chosen) == 1:
                    where = f"of notebook {self.names}"
                raise unknown("parameter", name, sorted(takers), where)
            if name in SHARED_PARAMETERS and all(n.about_model for n in takers[name]):
                raise UserError(
                    f"--parameter {name}: a notebook about a model takes it as --{name}"
                )
            for notebook in takers[name]:
                notebook.check_type(name, value)

    @property
    def names(self) -> str:
        return ", ".join(notebook.name for notebook in self.chosen)

    def plan_parts(self) -> None:
        """Plan the parts of the study that notebooks show."""
        candidates = [notebook for notebook in self.chosen if notebook.shows_results]
        shown: set[str] = set()
        for part in parts(self.choice) if candidates else []:
            names = self.choice.notebooks or part.notebooks or notebooks()
            showing = [n for n in candidates if n.name in names and n.fits(part)]
            if showing:
                shown.update(notebook.name for notebook in showing)
                self.plan_part(part, showing)
        for notebook in candidates:
            is_named = notebook.about_model and notebook.name in self.choice.notebooks
            if is_named and notebook.name not in shown:
                corpora = "any corpus"
                if notebook.kind:
                    corpora = f"corpora of {notebook.kind}"
                scope = ", ".join([corpora, *notebook.benchmarks])
                raise UserError(
                    f"notebook {notebook.name} is for {scope}; choose --benchmark and --corpus so"
                )

    def plan_part(self, part: Part, showing: list[Notebook]) -> None:
        """Plan one part; note what is unavailable or damaged."""
        from pkg_lib.evaluation.pipeline import Evaluator  # slow to import
        from pkg_lib.evaluation.results import Results

        choice = self.choice
        label = f"{part.model} | {part.benchmark}"
        try:
            results = Results(
                part.model,
                part.benchmark,
                part.corpus,
                choice.limit,
                results_path(),
                choice.shard,
            )
            results.caches = self.caches
            results.slots = choice.slots
            evaluator = Evaluator(results, choice.fresh)
        except BenchmarkMissingError as e:
            self.plan.left_out.append(f"{label}: {e}")
            return
        except DamagedFileError as e:
            self.plan.damaged[f"{label} | {part.corpus}"] = e
            return
        methods = list(part.methods or results.retrievers)
        step = Step(evaluator, methods, [])
        self.plan.steps.append(step)
        for notebook in showing:
            job = self.job(notebook, results, results.limit)
            try:
                problem = _unmeasured_method(notebook.defaults | job.parameters, results, methods)
            except DamagedFileError as e:
                self.plan.damaged[job.label] = e
                continue
            if problem:
                self.plan.left_out.append(f"{job.label}: {problem}")
            else:
                step.jobs.append(job)

    def finished(self) -> Plan:
        """Add the notebooks about no model; raise UserError if nothing remains to be shown."""
        plan = self.plan
        if plan.damaged and not plan.jobs:
            raise DamagedFileError(*dict.fromkeys(map(str, plan.damaged.values())))
        plan.left_out = list(dict.fromkeys(plan.left_out))
        if plan.left_out and not plan.steps:
            raise BenchmarkMissingError(*plan.left_out)
        plan.steps.append(self.independent_step())
        plan.steps = [step for step in plan.steps if step.jobs]
        if not plan.steps:
            reasons = plan.left_out
            if not reasons:
                for part in parts(self.choice):
                    reasons.append(f"{part.benchmark} with {part.corpus}: no notebook is for it")
            lines = [f"nothing to show of {reason}" for reason in reasons]
            raise UserError(*lines)
        if self.choice.shard[1] > 1:
            plan.steps = [step for step in plan.steps if step.evaluator]
            for step in plan.steps:
                step.jobs.clear()
        return plan

    def independent_step(self) -> Step:
        """Plan the notebooks about no model that no other step has."""
        limits = {step.evaluator.run.limit for step in self.plan.steps if step.evaluator}
        limit = self.choice.limit
        if limits == {None}:
            limit = None  # it is beyond all tasks
        shown = {job.notebook for job in self.plan.jobs}
        step = Step(None, [], [])
        for notebook in self.chosen:
            wanted = self.choice.notebooks or self.choice.is_whole_study
            if wanted and not notebook.about_model and notebook.name not in shown:
                step.jobs.append(self.job(notebook, None, limit))
        return step

    def job(
        self,
        notebook: Notebook,
        results: Results | None,
        limit: int | None,
    ) -> NotebookJob:
        """Give a notebook the values of its parameters."""
        given = {"limit": limit, **self.choice.parameters}
        parameters: dict[str, Any] = {}
        if results and notebook.about_model:
            for name in SHARED_PARAMETERS:
                if name in notebook.defaults:
                    parameters[name] = getattr(results, name)
        elif results:  # it shows all benchmarks of its kind together, for one generator
            if results.model not in notebook.defaults.values():
                given = {"generator": results.model, **given}
            results = None
        taken = notebook.defaults.keys() - parameters.keys()
        custom = {name: value for name, value in given.items() if name in taken}
        stem = stem_of(notebook.name, results, **custom)
        return NotebookJob(notebook.name, parameters | custom, stem, results)


def _unmeasured_method(
    parameters: dict[str, Any],
    results: Results,
    methods: list[str],
) -> str:
    """Say which method of the parameters has no results and will have none; "" if there is none."""

    def is_measured(method: str) -> bool:
        if method not in results.retrievers:
            return False
        will_be = method in methods and not results.tasks_absent
        return will_be or bool(results.completions(method))

    for name in METHOD_PARAMETERS:
        for method in parameters.get(name, "").split("+"):
            if not method:
                continue
            if method not in METHODS:
                raise UserError(f"parameter {name}: {unknown('method', method, METHODS)}")
            if not is_measured(method) and not METHODS[method].needs:
                measured = [f'"{name}"' for name in results.retrievers if is_measured(name)]
                names = ", ".join(measured) or "no method"
                return f"method {method} is not measured; measured: {names}"
    return ""
