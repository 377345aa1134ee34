"""One experiment: a model on a benchmark, with contexts from one corpus.

An experiment knows its tasks, the methods that it offers, and the files in which their records are
stored. `storage` defines the layout of the files.
"""

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pkg_lib.core.models import model_spec
from pkg_lib.core.reading import is_there
from pkg_lib.core.registry import load_plugins
from pkg_lib.core.store import cache_folder, check_layout, results_dir, stem
from pkg_lib.core.types import BenchmarkMissingError, Task, UserError
from pkg_lib.data import corpora
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.evaluation.storage import (
    SAMPLES,
    MethodFiles,
    StoredCondition,
    condition_fields,
    control_folder,
    is_measured,
    method_files,
    sharing_completions,
    stored_conditions,
)
from pkg_lib.evaluation.stored_rows import VERDICT, by_task, read_provenance
from pkg_lib.generation.cache import GenerationCache, stored
from pkg_lib.generation.generator import Generator
from pkg_lib.generation.prompts import TEMPLATES
from pkg_lib.retrieval.methods import (
    NO_RAG,
    Method,
    is_method,
    methods_of,
    parse_method,
    variant_methods,
)

# Fields that a condition does not repeat: where contexts were retrieved, and long lists.
ONLY_IN_PROVENANCE = ("method", "versions", "graph")


class StoredExperiment:
    """One model on one benchmark with one corpus.

    If the benchmark's tasks are not available but verdicts are stored, `tasks_absent` gives the reason.
    Verdicts are then returned as they are stored, without a check that they belong to these solutions.

    Attributes:
        model: The model's name.
        benchmark: The benchmark's name.
        corpus: The corpus' name.
        benchmark_spec: The benchmark.
        tasks: The tasks, in the benchmark's order.
        limit: How many of the first tasks are taken; None for all.
        shard: (i, n): part i of the tasks, of n parts.
        results: The results directory.
        retrievers: Factory of the retriever by method, for the methods that the corpus offers.
        caches: Completion caches by place; several results of one plan share them.
        slots: How many prompts are decoded together; None for as many as fit into memory.
        methods: The methods that were requested; by default all that the corpus offers.
    """

    protocol = "pkg-paper"

    def __init__(
        self,
        model: str,
        benchmark: str = "humaneval",
        corpus: str = "",
        limit: int | None = None,
        results: Path | None = None,
        shard: tuple[int, int] = (1, 1),
    ) -> None:
        """Describe an experiment, and load its tasks.

        Args:
            model: A model by name.
            benchmark: A benchmark by name.
            corpus: A corpus by name; "" for the benchmark's own or the default one.
            limit: Take only so many of the first tasks.
            results: The results directory; None for the configured one.
            shard: Take only part i of n parts of the tasks.

        Raises:
            UserError: A name is unknown, or the benchmark does not go with the corpus.
            BenchmarkMissingError: Neither tasks nor verdicts are available.
        """
        load_plugins()
        model_spec(model)  # an unknown model is reported before anything is read
        self.benchmark_spec = BENCHMARKS.get_or_fail(benchmark)
        self.model = model
        self.benchmark = benchmark
        self.corpus = corpus or self.benchmark_spec.corpus or corpora.DEFAULT
        self.limit = limit
        self.shard = shard
        self.results = results or results_dir()
        check_layout(self.results)
        corpora.check_name(self.corpus)
        self.retrievers = methods_of(self.corpus)
        self._check_corpus()
        self.caches: dict[tuple[Path, str], GenerationCache] = {}
        self.slots: int | None = None
        self.tasks_absent = ""
        self.tasks = self._load_tasks()
        self.methods: list[str] = list(self.retrievers)

    def _check_corpus(self) -> None:
        """Raise UserError if the benchmark has a corpus of its own, or the corpus its own benchmark."""
        own_corpus = self.benchmark_spec.corpus
        if self.corpus == own_corpus:
            return
        if self.corpus not in corpora.OF_TASKS and own_corpus not in corpora.OF_TASKS:
            return
        partnered = [benchmark for benchmark in BENCHMARKS.values() if benchmark.corpus]
        pairs = [f"{benchmark.name} with {benchmark.corpus}" for benchmark in partnered]
        raise UserError(
            f"benchmark {self.benchmark} has no corpus {self.corpus}; "
            f"these go together: {', '.join(pairs)}"
        )

    def _load_tasks(self) -> list[Task]:
        """Return the tasks of this shard; bare ids from the stored verdicts if tasks are not available."""
        try:
            tasks = load_benchmark(self.benchmark, self.limit)
        except BenchmarkMissingError as error:
            if not is_measured(self.results, self.model, self.benchmark):
                raise
            self.tasks_absent = str(error)
            rows = by_task(self.files(NO_RAG).samples, VERDICT)
            tasks = [Task(task_id, self.benchmark, "", "") for task_id in rows]
            tasks = tasks[: self.limit]
        if self.limit and len(tasks) < self.limit:
            self.limit = None  # a limit above the number of tasks has no effect
        return self._tasks_of_shard(tasks)

    def _tasks_of_shard(self, tasks: list[Task]) -> list[Task]:
        """Select the tasks of this shard. Tasks of one prompt share a completion, so they stay together."""
        part, parts = self.shard
        prompt_numbers: dict[str, int] = {}
        selected = []
        for task in tasks:
            number = prompt_numbers.setdefault(task.prompt, len(prompt_numbers) + 1)
            if number % parts == part % parts:
                selected.append(task)
        return selected

    @cached_property
    def tasks_by_id(self) -> dict[str, Task]:
        """The tasks by their ids."""
        return {task.id: task for task in self.tasks}

    # Names

    @property
    def stem(self) -> str:
        """The prefix of the names of this experiment's tables, figures and notebooks."""
        return stem(self.model, self.benchmark, self.corpus, self.limit)

    @property
    def label(self) -> str:
        """The name of the experiment in progress lines."""
        return f"{self.model} | {self.benchmark} | {self.corpus}"

    @property
    def heading(self) -> str:
        """A heading for a page."""
        tasks = f"{self.benchmark_spec.title} ({len(self.tasks)} tasks)"
        return f"{self.model}, {tasks}, {corpora.corpus_in_words(self.corpus)}"

    # Files

    def files(self, method: str) -> MethodFiles:
        """Return the paths of a method's files, whether the files exist or not.

        Args:
            method: A method.
        """
        return method_files(self.results, self.model, self.benchmark, self.corpus, method)

    def control_samples(self, name: str) -> Path:
        """Return the path of the verdicts on a control row.

        Args:
            name: A control of the benchmark.
        """
        return control_folder(self.results, self.benchmark, name) / SAMPLES

    # The model

    @cached_property
    def generator(self) -> Generator:
        """The model with its cache. Completions are found by the generator's keys."""
        benchmark_spec = self.benchmark_spec
        style = model_spec(self.model).style
        decoding = benchmark_spec.decoding(style)
        if self.slots:
            decoding = replace(decoding, slots=self.slots)
        folder = cache_folder(self.results, self.model)
        stored_with = benchmark_spec.stored_with or self.benchmark
        place = (folder, stored_with)
        if place not in self.caches:
            self.caches[place] = GenerationCache(folder, stored_with)
        cache = self.caches[place]
        return Generator(self.model, decoding, cache, self.results)

    def generator_of(self, method: str) -> Generator:
        """Return the same model and cache with the decoding of a method.

        Args:
            method: A method.
        """
        return self.generator.decoding_with(parse_method(method).decoding)

    def prompt_style(self, method: Method) -> str:
        """Return the name of the prompt style and variant that a method sends to the model.

        Args:
            method: A method.
        """
        style = method.style or self.generator.spec.style
        return f"{style}, {method.prompt_variant}" if method.prompt_variant else style

    def prompt_obstacle(self, variant: Method) -> str:
        """Say why the model or the benchmark has no prompt for a variant.

        Args:
            variant: A method.

        Returns:
            The reason; "" if there is a prompt.
        """
        # A benchmark with a corpus of its own also has prompts of its own.
        if self.benchmark_spec.corpus and (variant.prompt_variant or variant.style):
            return f"benchmark {self.benchmark} has its own prompts, without variants"
        model_style = self.generator.spec.style
        if self.prompt_style(variant) not in TEMPLATES:
            if variant.style:
                name = f"prompt style {variant.style}"
            else:
                name = f"prompt style {model_style} of model {self.model}"
            return f"the {name} has no variant '{variant.prompt_variant}'"
        if variant.in_chat and model_style != "chat":
            return f"model {self.model} has prompt style {model_style}, which is no chat template"
        return ""

    # Methods

    def offers(self, method: str) -> bool:
        """Tell whether the corpus has a method, or the method that it is a variant of.

        Args:
            method: Any name.
        """
        if method in self.retrievers:
            return True
        if not is_method(method):
            return False
        variant = parse_method(method)
        if not variant.variant_of:
            return False
        if variant.make_retriever and corpora.kind_of(self.corpus) not in variant.corpus_kinds:
            return False
        if self.prompt_obstacle(variant):
            return False
        return self.offers(variant.variant_of)

    def stored_methods(self) -> list[str]:
        """Return the methods, variants and samples that have stored completions or verdicts."""
        names = list(self.retrievers)
        names += [method for method in variant_methods() if self.offers(method)]
        found = []
        for name in names:
            # Equal prompts share the completions of another method.
            files = self.files(name)
            if stored(files.completions) or is_there(files.samples):
                found.append(name)
        samples = self._stored_samples()
        for name in self.retrievers:
            found += samples.get(name, [])
        return found

    def sample_names(self, method: str, temperature: float | None = None) -> list[str]:
        """Return the names of a method's stored samples, in order.

        Args:
            method: A method that is sampled.
            temperature: Only samples at this temperature; None for all.
        """
        names = self._stored_samples().get(method, [])
        if temperature is None:
            return names
        return [name for name in names if parse_method(name).sampling.temperature == temperature]

    def _stored_samples(self) -> dict[str, list[str]]:
        """Return the names of the stored samples by the method that is sampled, in order."""
        by_method: dict[str, dict[str, StoredCondition]] = {}
        for benchmark in sharing_completions(self.benchmark):
            conditions = stored_conditions(self.results, self.model, benchmark, self.corpus)
            for condition in conditions:
                if not condition.sample_of:
                    continue
                # A run that was stopped may have left a condition without a completion.
                completions = self.files(condition.method).completions
                if stored(completions):
                    samples = by_method.setdefault(condition.sample_of, {})
                    samples[condition.method] = condition
        names = {}
        for method, samples in by_method.items():
            ordered = sorted(samples.values(), key=_order_of_sample)
            names[method] = [condition.method for condition in ordered]
        return names

    def condition_record(self, method: str) -> dict[str, Any]:
        """Return the content of a method's `condition.json`: the condition, and what it was made from.

        Args:
            method: A method.
        """
        contexts = read_provenance(self.files(method).provenance)
        for name in ONLY_IN_PROVENANCE:
            contexts.pop(name, None)
        fields = condition_fields(self.model, self.benchmark, self.corpus, method)
        fields["made_from"] = {
            "model_revision": self.generator.revision,
            "decoding": dict(self.generator_of(method).decoding.parameters),
            "protocol": self.protocol,
            "contexts": contexts,
        }
        return fields


def _order_of_sample(condition: StoredCondition) -> tuple[float, float, int, str]:
    """Order samples by decoding, then by number, then by name."""
    sampling = condition.sampling
    return (sampling.temperature, sampling.top_p, sampling.sample, condition.method)
