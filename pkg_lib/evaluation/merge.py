"""Merge the results of a run's shards, which may come from several machines, into one directory."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pkg_lib.core.reading import PACKED, DamagedFileError, ScannedRow, is_there, shown
from pkg_lib.core.store import (
    CACHE,
    advice_for,
    cache_folder,
    check_layout,
    read_json,
    slug,
    write_json,
    write_jsonl,
)
from pkg_lib.core.types import UserError
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.evaluation.storage import (
    CONTEXTS,
    RUNS,
    benchmark_folders,
    condition_paths,
    read_condition,
)
from pkg_lib.evaluation.stored_rows import OUTCOME
from pkg_lib.generation.cache import keep_aside, packed, read_answers

FEEDBACK = "feedback"
STAGES = (CONTEXTS, CACHE, RUNS, FEEDBACK)
# Fields in which equal rows may differ: how long it took, on which machine, by which server.
OF_MACHINE = {"seconds", "meta", "versions", "base_url"}


class PartlyMergedError(UserError):
    """Some files are damaged and left out, and all others are merged.

    Args:
        damaged: A line for each file that is left out.
        lines: What `merge` would have returned.
    """

    def __init__(self, damaged: Sequence[str], lines: Sequence[str]) -> None:
        super().__init__(*damaged)
        self.lines = lines


@dataclass(slots=True)
class StoredFile:
    """The contents of a file.

    Attributes:
        rows: The rows by key, or by task where rows have no key. A .json file is one row with key "".
        damaged: Damaged lines.
        messages: A line about each damaged line.
    """

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    damaged: list[ScannedRow] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


def merge(folders: Sequence[Path], results: Path) -> list[str]:
    """Add to a results directory what it lacks, in the order of the tasks.

    Args:
        folders: Results directories of the shards; nothing is written there.
        results: The results directory that grows.

    Returns:
        A line for each file that grew, and one for each damaged line, which is left out. A damaged
        line of `results` itself is kept in FILE.damaged.

    Raises:
        UserError: A folder is not a results directory, or two rows with one key differ. Nothing is
            written.
        PartlyMergedError: Some files cannot be read or written. They stay, and the others are merged.
    """
    lines: list[str] = []
    unreadable: list[str] = []
    names: set[Path] = set()
    check_layout(results)
    for folder in folders:
        names |= _stored_names(folder)
        unreadable += _links_not_followed(folder)
    benchmarks = _benchmarks_of_folders(folders)
    grown: dict[Path, StoredFile] = {}
    for name in sorted(names):
        try:
            file = _read(results, name)
            before = len(file.rows)
            for folder in folders:
                _add(file, folder, name)
        except (DamagedFileError, OSError) as e:
            unreadable.append(str(e))
            continue
        lines += file.messages
        added = len(file.rows) - before
        if added:
            grown[name] = file
            lines.append(f"{shown(str(name))}: {added} added")
            benchmark = next((benchmarks[f] for f in name.parents if f in benchmarks), "")
            _sort(file, name, benchmark)
    for name, file in grown.items():
        try:
            _write(results, name, file)
        except (UserError, OSError) as e:
            unreadable.append(str(e))
    if unreadable:
        raise PartlyMergedError(unreadable, lines)
    return lines


def _stored_names(folder: Path) -> set[Path]:
    """Return the paths of stored files below a shard's directory, without the suffix of packing."""
    if not folder.exists():
        raise UserError(f"{shown(str(folder))} does not exist")
    check_layout(folder)
    names = set()
    is_results = False
    for stage in STAGES:
        is_results |= (folder / stage).is_dir()
        for path in (folder / stage).rglob("*.json*"):
            name = path.relative_to(folder)
            if name.suffix == PACKED:
                name = name.with_suffix("")
            if name.suffix in (".json", ".jsonl"):
                names.add(name)
    if not is_results:
        stages = ", ".join(STAGES)
        raise UserError(f"{shown(str(folder))} is not a results directory: it has none of {stages}")
    return names


def _benchmarks_of_folders(folders: Sequence[Path]) -> dict[Path, str]:
    """Return the benchmark of each folder that holds records of one benchmark.

    Args:
        folders: Results directories of the shards.

    Returns:
        Benchmark by folder below the results directory, as far as conditions can be read.
    """
    benchmarks: dict[Path, str] = {}
    for folder in folders:
        for path in condition_paths(folder):
            try:
                condition = read_condition(path)
            except DamagedFileError:  # `merge` reports it when it reads the file
                continue
            model, names = condition.model, [condition.benchmark]
            if condition.benchmark in BENCHMARKS:  # it may share the completions of another one
                names.append(BENCHMARKS[condition.benchmark].stored_with)
            for name in filter(None, names):
                result_folders = benchmark_folders(model, name)
                result_folders.append(cache_folder(Path(), model) / slug(name))
                result_folders.append(Path(FEEDBACK, slug(model), slug(name)))
                benchmarks |= dict.fromkeys(result_folders, name)
    return benchmarks


def _links_not_followed(folder: Path) -> list[str]:
    """Report each link of a shard to a directory or to nowhere, unless reading it will report it."""
    lines = []
    for stage in STAGES:
        place = folder / stage
        for path in sorted(place.rglob("*")):
            is_read = path.name.removesuffix(PACKED).endswith((".json", ".jsonl"))
            if is_read or not path.is_symlink():
                continue
            if path.is_dir():
                lines.append(f"{shown(str(path))} is a link to a directory, which is not followed")
            elif not path.exists():
                lines.append(f"{shown(str(path))} is a link that leads nowhere")
        if is_there(place) and not place.is_dir():
            lines.append(f"{shown(str(place))} is not a directory")
    return lines


def _is_cache(name: Path) -> bool:
    """Whether a file, by its path below the results directory, holds completions."""
    return Path(CACHE) in name.parents


def _read(folder: Path, name: Path) -> StoredFile:
    """Read a file, packed or not; an absent file is empty. Of rows with one key the last counts."""
    file = StoredFile()
    path = folder / name
    if path.suffix == ".json":
        if is_there(path):
            file.rows[""] = read_json(path)
        return file
    paths = [p for p in (packed(path), path) if is_there(p)]
    if not _is_cache(name):
        del paths[1:]  # plain rows beside packed ones are of an earlier version
    for place in paths:
        for row in read_answers(place, {"task_id": str}, {"status": OUTCOME["status"]}):
            value = row.value or {}
            key = value.get("key") or value.get("task_id")
            if isinstance(key, str) and key:
                file.rows[key] = value
                continue
            if row.line.text is None:  # it is too long to be kept aside
                raise DamagedFileError.of(place, row.why, row.number, advice_for)
            reason = row.why or "it has no key"
            where = f"{shown(str(place))}, line {row.number}"
            file.messages.append(f"{where} is damaged and left out: {reason}")
            if row.line.ended or place != path:
                file.damaged.append(row)
    return file


def _add(file: StoredFile, folder: Path, name: Path) -> None:
    """Add the rows of a shard's file; UserError if one differs from the row with its key."""
    other = _read(folder, name)
    path = folder / name
    file.messages += other.messages
    for key, row in other.rows.items():
        known = file.rows.setdefault(key, row)
        if any(known.get(name) != row[name] for name in row.keys() - OF_MACHINE):
            place = path if is_there(path) else packed(path)
            task = row.get("task_id", "")
            about = task if task == key else f"{task} {key}".strip()
            raise UserError(
                f"{shown(str(place))}: {about}: another directory has another answer; "
                "nothing is merged"
            )


def _sort(file: StoredFile, name: Path, benchmark: str) -> None:
    """Sort rows by task in the order of the benchmark, as a run without shards writes them."""
    if name.suffix == ".json" or benchmark not in BENCHMARKS:
        return
    tasks = load_benchmark(benchmark)
    order = {task.id: number for number, task in enumerate(tasks)}

    rows = sorted(file.rows.items(), key=lambda item: order.get(item[1]["task_id"], 0))
    file.rows = dict(rows)


def _write(
    results: Path,
    name: Path,
    file: StoredFile,
) -> None:
    path = results / name
    if name.suffix == ".json":
        write_json(path, file.rows[""])
        return
    keep_aside(path, file.damaged)
    target, other = packed(path), path
    if _is_cache(name):
        target, other = path, packed(path)
    write_jsonl(target, file.rows.values())
    other.unlink(missing_ok=True)  # its rows are among them
