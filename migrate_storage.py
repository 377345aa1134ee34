"""Moves a results directory of the earlier layout into the present one: python migrate_storage.py RESULTS

Nothing is moved while a file belongs to no known model, benchmark, corpus or method. No file is overwritten.
An interrupted migration can be started again. In the end every kind of record is counted, and compared with
the count before.
"""

# ruff: noqa: T201

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from pkg_lib.core.locks import writing
from pkg_lib.core.models import MODELS
from pkg_lib.core.reading import PACKED
from pkg_lib.core.registry import load_plugins
from pkg_lib.core.store import CACHE, ROWS, read_json, read_rows, slug, write_json, write_jsonl
from pkg_lib.core.types import UserError
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.evaluation.pipeline import origin_of
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.storage import (
    CONDITION,
    CONTEXTS,
    NO_CORPUS,
    RUNS,
    SAMPLES,
    condition_fields,
    condition_paths,
    control_folder,
    folder_name,
    method_files,
    read_condition,
    write_control_condition,
    write_selection_condition,
)
from pkg_lib.evaluation.stored_rows import VERDICT, by_task
from pkg_lib.generation.generator import Sampling
from pkg_lib.retrieval.methods import METHODS, RERANKED, TOP_P, sampled_name

# Names of methods that were changed, now and before. A file may have either.
RENAMED = (("NoRAG", "None"), ("VoyageEmb", "Dense"), ("Ideal Reranker", "Ideal"))
TEMPERATURES = [n / 10 for n in range(1, 21)]
MOST_SAMPLES = 40
# Fields of a sample that the earlier layout does not have.
ADDED = ("generation_key", "prompt_sha256", "context_sha256")
CONTEXT_FILES = {
    f"contexts{ROWS}": "contexts",
    "provenance.json": "provenance",
    f"validity{ROWS}": "validity",
}
RUN_FILES = {
    SAMPLES: "samples",
    f"authors_extraction{ROWS}": "authors_extraction",
    f"signals{ROWS}": "signals",
    f"held_out{ROWS}": "held_out",
    f"selections{ROWS}": "selections",
}
EARLIER_CONTEXT_FILES = {
    f".leakage{ROWS}": "validity",
    ".meta.json": "provenance",
    ROWS: "contexts",
}
EARLIER_RUN_FILES = {
    f".authors-extraction{ROWS}": "authors_extraction",
    f".unshown{ROWS}": "held_out",
    f".shown{ROWS}": "signals",
    ROWS: "samples",
}


class UnknownFile(Exception):
    """A file that belongs to no known model, benchmark, corpus or method."""


def methods_by_file() -> dict[str, str]:
    """Return the method, or the sample of a method, by the name of its file."""
    names = [method.name for method in METHODS.values()]
    for method in list(names):
        for temperature in TEMPERATURES:
            for number in range(1, MOST_SAMPLES + 1):
                sampling = Sampling(temperature, TOP_P, sample=number)
                names.append(sampled_name(method, sampling))
    methods = {folder_name(name): name for name in names}
    for now, before in RENAMED:
        for one, other in ((now, before), (before, now)):
            pattern = re.compile(rf"\b{one}\b")
            for name in names:
                methods.setdefault(folder_name(pattern.sub(other, name)), name)
    return methods


class Migration:
    """Moves the files of one results directory.

    Attributes:
        results: The results directory.
        methods: Method by the name of its files.
        models: Model by the name of its folder.
        benchmarks: Benchmark by the name of its folder.
    """

    def __init__(self, results: Path) -> None:
        self.results = results
        self.methods = methods_by_file()
        self.models = {slug(name): name for name in MODELS}
        for stage in ("generations", CACHE):
            for path in sorted((results / stage).glob("*/revision.json")):
                name = read_json(path).get("name")
                if isinstance(name, str):
                    self.models[slug(name)] = name
        for stage in ("generations", CACHE):
            for folder in (results / stage).glob("*"):
                # A model of the hub whose revision was never recorded.
                self.models.setdefault(folder.name, folder.name)
        self.benchmarks = {slug(name): name for name in BENCHMARKS}

    def corpus_of(self, benchmark: str, folder: str) -> str:
        """Return the full name of a corpus; "" for prompts without context."""
        if folder == NO_CORPUS:
            return ""
        place = self.results / CONTEXTS / slug(BENCHMARKS[benchmark].stored_with or benchmark)
        for pattern in ("*.meta.json", "*/provenance.json", "*/*.meta.json", "*/*/provenance.json"):
            for path in sorted((place / folder).glob(pattern)):
                corpus = read_json(path).get("corpus")
                if isinstance(corpus, str):
                    return corpus
        return folder

    def known(self, names: dict[str, str], name: str, what: str) -> str:
        """Return what a folder's or file's name stands for."""
        if name not in names:
            raise UnknownFile(f"unknown {what} {name}")
        return names[name]

    def target(self, path: Path) -> tuple[Path, dict[str, Any] | None]:
        """Return where a file belongs, and the condition of that folder (None without one)."""
        stage, *folders, name = path.relative_to(self.results).parts
        if stage == "generations":
            return self._target_of_completions(folders, name)
        if stage == CONTEXTS:
            return self._target_of_contexts(folders, name), None
        if folders[0] == "controls":
            return self._target_of_control(folders[1], name), None
        return self._target_of_run(folders, name)

    def _target_of_completions(
        self, folders: list[str], name: str
    ) -> tuple[Path, dict[str, Any] | None]:
        plain = name.removesuffix(PACKED)
        if len(folders) < 3 or not plain.endswith(".jsonl"):
            return self.results.joinpath(CACHE, *folders, name), None
        if plain.removesuffix(".jsonl") not in self.methods:
            # Completions are found by their keys, so the name of their file does not matter.
            print(f"{'/'.join([*folders, name])} has the name of no method; it is moved as it is")
            return self.results.joinpath(CACHE, *folders, name), None
        model, benchmark, corpus = self._experiment(folders)
        method = self.methods[plain.removesuffix(".jsonl")]
        files = method_files(self.results, model, benchmark, corpus, method)
        packing = PACKED if name.endswith(PACKED) else ""
        target = files.completions.with_name(files.completions.name + packing)
        return target, condition_fields(model, benchmark, corpus, method)

    def _target_of_contexts(self, folders: list[str], name: str) -> Path:
        benchmark = self.known(self.benchmarks, folders[0], "benchmark")
        corpus = self.corpus_of(benchmark, folders[1])
        model = self.known(self.models, folders[2], "model") if folders[2:] else ""
        for ending, attribute in EARLIER_CONTEXT_FILES.items():
            if name.endswith(ending):
                method = self.known(self.methods, name.removesuffix(ending), "method")
                files = method_files(self.results, model, benchmark, corpus, method)
                return getattr(files, attribute)
        raise UnknownFile("unknown kind of file")

    def _target_of_control(self, benchmark: str, name: str) -> Path:
        benchmark = self.known(self.benchmarks, benchmark, "benchmark")
        for control in BENCHMARKS[benchmark].controls:
            folder = control_folder(self.results, benchmark, control)
            if name == f"{folder.name}{ROWS}":
                return folder / SAMPLES
        raise UnknownFile("unknown control")

    def _target_of_run(self, folders: list[str], name: str) -> tuple[Path, dict[str, Any] | None]:
        model, benchmark, corpus = self._experiment(folders)
        if name in ("candidates.json", f"reranked{ROWS}"):
            files = method_files(self.results, model, benchmark, corpus, RERANKED)
            return (files.condition if name.endswith(".json") else files.selections), None
        for ending, attribute in EARLIER_RUN_FILES.items():
            if name.endswith(ending):
                method = self.known(self.methods, name.removesuffix(ending), "method")
                files = method_files(self.results, model, benchmark, corpus, method)
                fields = condition_fields(model, benchmark, corpus, method)
                return getattr(files, attribute), fields
        raise UnknownFile("unknown kind of file")

    def _experiment(self, folders: list[str]) -> tuple[str, str, str]:
        if len(folders) != 3:
            raise UnknownFile("unknown folder")
        model = self.known(self.models, folders[0], "model")
        benchmark = self.known(self.benchmarks, folders[1], "benchmark")
        return model, benchmark, self.corpus_of(benchmark, folders[2])

    def sources(self) -> Iterator[Path]:
        """Yield the files that are in the earlier layout."""
        for stage in ("generations", "evaluations", CONTEXTS):
            for path in sorted((self.results / stage).rglob("*")):
                is_moved = stage == CONTEXTS and path.name in CONTEXT_FILES
                if path.is_file() and not is_moved:
                    yield path

    def run(self) -> None:
        """Move all files, complete the conditions, and add keys and digests to the samples.

        Raises:
            UserError: A file is unknown, or another file is at its target.
        """
        moves = []
        unknown = []
        for path in self.sources():
            try:
                moves.append((path, *self.target(path)))
            except UnknownFile as e:
                unknown.append(f"{path}: {e}; nothing is moved")
        targets = Counter(target for _, target, _ in moves)
        unknown += [
            f"{t}: {n} files belong here; nothing is moved" for t, n in targets.items() if n > 1
        ]
        if unknown:
            raise UserError(*unknown)
        for path, target, condition in moves:
            self.move(path, target, condition)
        for stage in ("generations", "evaluations", CONTEXTS):
            remove_empty_folders(self.results / stage)
        print(f"moved {len(moves)} files")

    def move(self, path: Path, target: Path, condition: dict[str, Any] | None) -> None:
        """Move one file; its condition is stored first, so that an interruption loses nothing."""
        if condition:
            names = [condition[n] for n in ("model", "benchmark", "corpus", "method")]
            place = method_files(self.results, *names).condition
            if not place.exists():
                write_json(place, condition)
        if path.name == "candidates.json":
            model, benchmark, corpus = self._experiment(
                list(path.relative_to(self.results).parts[1:-1])
            )
            files = method_files(self.results, model, benchmark, corpus, RERANKED)
            candidates = read_json(path, {"methods": list})["methods"]
            write_selection_condition(files, model, benchmark, corpus, candidates)
            path.unlink()
            return
        if target.parent.parent.name == "controls":
            for benchmark in BENCHMARKS.values():
                for control in benchmark.controls:
                    if target.parent == control_folder(self.results, benchmark.name, control):
                        write_control_condition(target.parent, benchmark.name, control)
        if target.exists():
            if target.read_bytes() != path.read_bytes():
                raise UserError(f"{target} exists and differs from {path}; neither is changed")
            path.unlink()
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)

    def complete(self) -> None:
        """Add provenance to the conditions, and keys and digests to the samples."""
        experiments: dict[tuple[str, str, str], list[str]] = {}
        for path in condition_paths(self.results):
            condition = read_condition(path)
            if condition.method != RERANKED:
                key = (condition.model, condition.benchmark, condition.corpus)
                experiments.setdefault(key, []).append(condition.method)
        with_key = rows_in_all = 0
        generators: dict[tuple[str, str], Any] = {}
        for (model, benchmark, corpus), methods in sorted(experiments.items()):
            run = Results(model, benchmark, corpus, results=self.results)
            if (model, benchmark) in generators:
                run.generator = generators[model, benchmark]
            generators = {(model, benchmark): run.generator}
            for method in methods:
                write_json(run.files(method).condition, run.condition_record(method))
                if run.files(method).samples.exists():
                    found, total = self._add_origins(run, method)
                    with_key += found
                    rows_in_all += total
            print(f"completed {model}, {benchmark}, {corpus or 'without context'}", flush=True)
        print(f"{with_key} of {rows_in_all} samples have a generation key")

    def _add_origins(self, run: Results, method: str) -> tuple[int, int]:
        files = run.files(method)
        rows = by_task(files.samples, VERDICT)
        current = run.current_verdicts(
            files.samples, {} if run.tasks_absent else run.solutions(method)
        )
        completions = run.completions(method)
        for task_id in current:
            rows[task_id] |= origin_of(completions.get(task_id))
        write_jsonl(files.samples, rows.values())
        return sum("generation_key" in row for row in rows.values()), len(rows)


def remove_empty_folders(folder: Path) -> None:
    """Remove the folders below a folder, and the folder itself, that hold nothing."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


# Counting


def kinds_of_files(results: Path) -> Iterator[tuple[str, Path]]:
    """Yield what each file holds, in either layout, and the file."""
    for stage in ("generations", CACHE):
        for path in sorted((results / stage).rglob("*")):
            if path.is_file():
                model = path.relative_to(results).parts[1]
                rows = path.name.removesuffix(PACKED).endswith(".jsonl")
                yield (f"completions of {model}" if rows else "files of models"), path
    for path in sorted((results / CONTEXTS).rglob("*")):
        if path.is_file():
            earlier = (a for end, a in EARLIER_CONTEXT_FILES.items() if path.name.endswith(end))
            yield CONTEXT_FILES.get(path.name) or next(earlier, "unknown"), path
    for path in sorted((results / "evaluations").rglob("*")):
        if path.is_file():
            yield _kind_of_evaluation(path), path
    for path in sorted((results / RUNS).rglob("*")):
        if path.name in RUN_FILES:
            is_control = path.parent.parent.name == "controls"
            yield ("control rows" if is_control else RUN_FILES[path.name]), path
        elif path.name == CONDITION and "candidates" in read_json(path):
            yield "candidates", path


def _kind_of_evaluation(path: Path) -> str:
    if path.parent.parent.name == "controls":
        return "control rows"
    if path.name == "candidates.json":
        return "candidates"
    if path.name == f"reranked{ROWS}":
        return "selections"
    return next((a for end, a in EARLIER_RUN_FILES.items() if path.name.endswith(end)), "unknown")


def count(results: Path) -> dict[str, list[int]]:
    """Count records by kind and status, each with a sum of digests that does not depend on the order."""
    counts: dict[str, list[int]] = {}
    for kind, path in kinds_of_files(results):
        if kind == "candidates":
            about = read_json(path)
            records: list[Any] = [about.get("methods") or about.get("candidates")]
        elif path.name.endswith(".json"):
            records = [read_json(path)]
        elif path.name.removesuffix(PACKED).endswith(".jsonl"):
            records = read_rows(path)
        else:
            records = [sha256(path.read_bytes()).hexdigest()]
        for record in records:
            name = kind
            if isinstance(record, dict):
                if kind in ("samples", "authors_extraction", "control rows"):
                    record = {k: v for k, v in record.items() if k not in ADDED}
                if "status" in record:
                    name = f"{kind}, {record['status']}"
            data = json.dumps(record, sort_keys=True).encode()
            entry = counts.setdefault(name, [0, 0])
            entry[0] += 1
            entry[1] = (entry[1] + int(sha256(data).hexdigest()[:15], 16)) % 2**60
    return counts


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        print(__doc__, file=sys.stderr)
        return 2
    results = Path(arguments[0]).resolve()
    load_plugins()
    try:
        before = count(results)
        for kind, (number, mark) in sorted(before.items()):
            print(f"{number:>8,} {kind} ({mark:x})")
        with writing(results):
            migration = Migration(results)
            migration.run()
            migration.complete()
        after = count(results)
    except UserError as e:
        print(*e.args, sep="\n", file=sys.stderr)
        return 2
    wrong = [k for k in sorted(before.keys() | after.keys()) if before.get(k) != after.get(k)]
    for kind in wrong:
        print(f"{kind}: {before.get(kind)} before, {after.get(kind)} after", file=sys.stderr)
    print("the counts and contents differ" if wrong else "all counts and contents are the same")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
