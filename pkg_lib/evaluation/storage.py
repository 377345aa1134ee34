"""Where records are stored, and how a program knows what a folder holds.

    results/runs/BENCHMARK/MODEL/CORPUS/METHOD/
        condition.json               what was measured, and what it was made from
        samples.jsonl.gz             solution of each task, or its place in the completion, and verdict
        authors_RULE.jsonl.gz        verdicts by a rule of extraction of the PKG authors, without solutions
        signals.jsonl.gz             test-free signals of each solution
        held_out.jsonl.gz            verdicts by the tests that no prompt shows
    results/runs/BENCHMARK/MODEL/CORPUS/reranked/
        condition.json               the candidates of the selection
        selections.jsonl.gz          the selected method of each task
    results/runs/BENCHMARK/controls/NAME/
        condition.json, samples.jsonl.gz
    results/contexts/BENCHMARK/CORPUS/METHOD/
        contexts.jsonl.gz            retrieved contexts
        provenance.json              what they were retrieved from
        validity.jsonl.gz            whether each context solves its task
    results/cache/MODEL/BENCHMARK/CORPUS/METHOD.jsonl
        completions by generation key

A prompt without context needs no corpus: its files are in CORPUS = "none" and serve every corpus. Contexts
that are measured in a model's tokens are stored one folder deeper, in MODEL.

The paths are for people. Programs build them from names, and read `condition.json` to learn what a folder
holds. No program takes a path apart.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pkg_lib.core.reading import NUMBER, DamagedFileError, Kinds, fault_of, is_there
from pkg_lib.core.store import ROWS, advice_for, cache_folder, read_json, slug, write_json
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.generation.generator import Sampling
from pkg_lib.retrieval.methods import NO_RAG, RERANKED, context_method, parse_method

RUNS, CONTEXTS = "runs", "contexts"  # folders below results/
CONTROLS = "controls"
NO_CORPUS = "none"
CONDITION = "condition.json"
SAMPLES = f"samples{ROWS}"

CONDITION_FIELDS: Kinds = {
    "model": str,
    "benchmark": str,
    "corpus": str,
    "method": str,
    "sample_of": str,
    "sampling": dict,
}
SAMPLING_FIELDS: Kinds = {"temperature": NUMBER, "top_p": NUMBER, "sample": int}


@dataclass(frozen=True, slots=True)
class MethodFiles:
    """The paths of one method's files, whether the files exist or not.

    Attributes:
        run: Folder of what was measured.
        context_folder: Folder of the contexts.
        validity: Whether each context solves its task.
        completions: The completions, in the cache.
    """

    run: Path
    context_folder: Path
    validity: Path
    completions: Path

    @property
    def condition(self) -> Path:
        """What was measured and its inputs; for the reranker also the candidates."""
        return self.run / CONDITION

    @property
    def samples(self) -> Path:
        """Solution and verdict of each task."""
        return self.run / SAMPLES

    def authors_verdicts(self, rule: str) -> Path:
        """Return the file with the solution by a rule of the authors, and its verdict, of each task.

        Args:
            rule: One of AUTHORS_RULES.
        """
        return self.run / f"{rule.replace(', ', '_').replace(' ', '_')}{ROWS}"

    @property
    def signals(self) -> Path:
        """Test-free signals of each solution."""
        return self.run / f"signals{ROWS}"

    @property
    def held_out(self) -> Path:
        """Verdicts by the tests that no prompt shows."""
        return self.run / f"held_out{ROWS}"

    @property
    def selections(self) -> Path:
        """The method that the reranker selected for each task, with the scores of the candidates."""
        return self.run / f"selections{ROWS}"

    @property
    def contexts(self) -> Path:
        """The retrieved contexts."""
        return self.context_folder / f"contexts{ROWS}"

    @property
    def provenance(self) -> Path:
        """What the contexts were retrieved from."""
        return self.context_folder / "provenance.json"


def method_files(
    results: Path,
    model: str,
    benchmark: str,
    corpus: str,
    method: str,
) -> MethodFiles:
    """Return the paths of a method's files.

    Args:
        results: The results directory.
        model: A model by name.
        benchmark: A benchmark by name.
        corpus: A corpus by name.
        method: A method by name.

    Returns:
        The paths. A benchmark that judges another one's solutions by other tests shares that one's
        contexts and completions; whether a context passes the tests is its own matter.
    """
    rules = BENCHMARKS.get_or_fail(benchmark)
    shared = rules.stored_with or benchmark
    source = context_method(method)
    corpus_folder = NO_CORPUS if source == NO_RAG else slug(corpus)
    in_corpus = Path(corpus_folder)
    if rules.in_tokens:
        in_corpus = in_corpus / slug(model)
    source_folder = in_corpus / folder_name(source)
    return MethodFiles(
        run=results / RUNS / slug(benchmark) / slug(model) / corpus_folder / folder_name(method),
        context_folder=results / CONTEXTS / slug(shared) / source_folder,
        validity=results / CONTEXTS / slug(benchmark) / source_folder / f"validity{ROWS}",
        completions=cache_folder(results, model)
        / slug(shared)
        / corpus_folder
        / f"{folder_name(method)}.jsonl",
    )


def folder_name(method: str) -> str:
    """Return how the folder of a method is called.

    Args:
        method: A method by name.
    """
    return slug(method.replace(", ", "."))


def control_folder(results: Path, benchmark: str, name: str) -> Path:
    """Return the folder of a control row.

    Args:
        results: The results directory.
        benchmark: A benchmark by name.
        name: The control's name, such as "return None".
    """
    return results / RUNS / slug(benchmark) / CONTROLS / name.replace(" ", "-")


def sharing_completions(benchmark: str) -> list[str]:
    """Return the benchmarks that share their completions with a benchmark, itself among them.

    Args:
        benchmark: A benchmark by name.
    """
    shared = BENCHMARKS.get_or_fail(benchmark).stored_with or benchmark
    return [b.name for b in BENCHMARKS.values() if shared in (b.name, b.stored_with)]


def benchmark_folders(model: str, benchmark: str, corpus: str | None = None) -> list[Path]:
    """Return the folders that hold the records of a model on a benchmark.

    Args:
        model: A model by name.
        benchmark: A benchmark by name.
        corpus: Only folders of this corpus and of prompts without context; None for those of every corpus.

    Returns:
        Folders of control rows, runs and contexts, below the results directory.
    """
    name = slug(benchmark)
    runs, contexts = Path(RUNS, name), Path(CONTEXTS, name)
    if corpus is None:
        return [runs / CONTROLS, runs / slug(model), contexts]
    folders = [runs / CONTROLS]
    for corpus_folder in (NO_CORPUS, slug(corpus)):
        folders += [runs / slug(model) / corpus_folder, contexts / corpus_folder]
    return folders


# Conditions


@dataclass(frozen=True, slots=True)
class StoredCondition:
    """The condition that a folder of `runs` contains.

    Attributes:
        model: A model by name.
        benchmark: A benchmark by name.
        corpus: A corpus by name; "" for prompts without context.
        method: A method by name.
        sample_of: The method that is sampled; "" for a method that is not a sample of another.
        sampling: How the model was sampled.
    """

    model: str
    benchmark: str
    corpus: str
    method: str
    sample_of: str
    sampling: Sampling


def condition_fields(model: str, benchmark: str, corpus: str, method: str) -> dict[str, Any]:
    """Return the fields of a condition as they are stored.

    Args:
        model: A model by name.
        benchmark: A benchmark by name.
        corpus: A corpus by name.
        method: A method by name.
    """
    about = parse_method(method)
    sampling = about.sampling
    return {
        "model": model,
        "benchmark": benchmark,
        "corpus": "" if about.without_context else corpus,
        "method": method,
        "sample_of": about.sample_of,
        "sampling": {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "sample": sampling.sample,
        },
    }


def read_condition(path: Path) -> StoredCondition:
    """Read what a folder holds.

    Args:
        path: Its `condition.json`.

    Raises:
        DamagedFileError: The file cannot be read, or holds something else.
    """
    fields = read_json(path, CONDITION_FIELDS)
    sampling = fields["sampling"]
    fault = fault_of(sampling, SAMPLING_FIELDS)
    if fault:
        raise DamagedFileError.of(path, f"sampling: {fault}", advice=advice_for)
    return StoredCondition(
        fields["model"],
        fields["benchmark"],
        fields["corpus"],
        fields["method"],
        fields["sample_of"],
        Sampling(
            float(sampling["temperature"]), float(sampling["top_p"]), sample=sampling["sample"]
        ),
    )


def condition_paths(
    results: Path,
    model: str = "",
    benchmark: str = "",
    corpus: str = "",
) -> list[Path]:
    """List the stored conditions, except those of control rows.

    Args:
        results: The results directory.
        model: Only those of this model; "" for all.
        benchmark: Only those of this benchmark; "" for all.
        corpus: Only those of this corpus and of prompts without context; "" for all.

    Returns:
        Paths of `condition.json`, sorted.
    """
    benchmark_pattern = slug(benchmark) if benchmark else "*"
    model_pattern = slug(model) if model else "*"
    paths: list[Path] = []
    for corpus_pattern in (NO_CORPUS, slug(corpus)) if corpus else ("*",):
        pattern = f"{benchmark_pattern}/{model_pattern}/{corpus_pattern}/*/{CONDITION}"
        paths += (results / RUNS).glob(pattern)
    return sorted(paths)


def stored_conditions(
    results: Path,
    model: str = "",
    benchmark: str = "",
    corpus: str = "",
) -> Iterator[StoredCondition]:
    """Read the stored conditions, except those of control rows.

    Args:
        results: The results directory.
        model: Only those of this model; "" for all.
        benchmark: Only those of this benchmark; "" for all.
        corpus: Only those of this corpus and of prompts without context; "" for all.

    Yields:
        The conditions, in the order of their paths.

    Raises:
        DamagedFileError: A file cannot be read, or holds something else.
    """
    for path in condition_paths(results, model, benchmark, corpus):
        yield read_condition(path)


def is_measured(results: Path, model: str, benchmark: str, corpus: str | None = None) -> bool:
    """Tell whether anything is stored of a model on a benchmark.

    Args:
        results: The results directory.
        model: A model by name.
        benchmark: A benchmark by name.
        corpus: Only count what was measured with contexts of this corpus; None for anything.
    """
    folder = results / RUNS / slug(benchmark) / slug(model)
    if corpus is not None:
        folder = folder / slug(corpus)
    return folder.is_dir()


def read_candidates(files: MethodFiles) -> list[str] | None:
    """Read the methods among which a reranker selects.

    Args:
        files: The files of the reranker.

    Returns:
        Names of methods; None if nothing was selected yet.

    Raises:
        DamagedFileError: The file cannot be read, or holds something else.
    """
    if not is_there(files.condition):
        return None
    names = read_json(files.condition, {"candidates": list})["candidates"]
    return [name for name in names if isinstance(name, str)]


def write_selection_condition(
    files: MethodFiles,
    model: str,
    benchmark: str,
    corpus: str,
    candidates: list[str],
) -> None:
    """Store the methods among which a reranker selects.

    Args:
        files: The files of the reranker.
        model: A model by name.
        benchmark: A benchmark by name.
        corpus: A corpus by name.
        candidates: Names of methods.

    Raises:
        UserError: The file cannot be written.
    """
    fields = condition_fields(model, benchmark, corpus, RERANKED)
    write_json(files.condition, fields | {"candidates": candidates})


def write_control_condition(folder: Path, benchmark: str, name: str) -> None:
    """Store what a control row is.

    Args:
        folder: The folder of the control row.
        benchmark: A benchmark by name.
        name: The control's name.

    Raises:
        UserError: The file cannot be written.
    """
    write_json(folder / CONDITION, {"benchmark": benchmark, "control": name})
