"""Joins what the shards of a run have written, each on its machine, into one results directory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pkg_lib.core.reading import PACKED, Damaged, ScannedRow, is_there, shown
from pkg_lib.core.store import advice_for, read_json, write_json, write_jsonl
from pkg_lib.core.types import UserError
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.evaluation.stored_rows import OUTCOME
from pkg_lib.generation.cache import keep_aside, packed, read_answers

STAGES = ("contexts", "generations", "evaluations", "feedback")
# In which rows may differ that say the same: how long it took, on which machine, by which server.
OF_MACHINE = {"seconds", "meta", "versions", "base_url"}
Rows = dict[
    str, dict[str, Any]
]  # key of a completion, else task id -> row; "" -> the whole of a .json file


class PartlyMerged(UserError):
    """Some files are damaged and left out; all others are merged. `lines` says what grew."""

    def __init__(self, damaged: Sequence[str], lines: Sequence[str]) -> None:
        super().__init__(*damaged)
        self.lines = lines


def merge(folders: Sequence[Path], results: Path) -> list[str]:
    """Add to the results what they lack, in the order of the tasks.

    Args:
        folders: Results directories of the shards; nothing is written there.
        results: The results directory that grows.

    Returns:
        A line for each file that grew, and one for each damaged line, which is left out. A damaged line of
        `results` itself is kept in FILE.damaged.

    Raises:
        UserError: A folder is no results directory, or two rows of one key differ. Nothing is written.
        PartlyMerged: Some files cannot be read. They stay as they are, and the others are merged.
    """
    for folder in folders:
        if not folder.exists():
            raise UserError(f"{shown(str(folder))} does not exist")
        if not any((folder / stage).is_dir() for stage in STAGES):
            raise UserError(
                f"{shown(str(folder))} is not a results directory: it has none of {', '.join(STAGES)}"
            )
    files = (p.relative_to(f) for f in folders for s in STAGES for p in (f / s).rglob("*.json*"))
    grown, lines = dict[Path, Rows](), list[str]()
    aside: dict[Path, list[ScannedRow]] = {}
    unreadable = [line for folder in folders for line in _links_not_followed(folder)]
    plain = {n.with_suffix("") if n.suffix == PACKED else n for n in files}
    for name in sorted(n for n in plain if n.suffix in (".json", ".jsonl")):
        told: list[str] = []
        try:
            ours, damaged = _read(results / name, told)
            rows = dict(ours)
            for folder in folders:
                _add(rows, folder / name, told)
        except (Damaged, OSError) as e:
            unreadable.append(str(e))
            continue
        lines += told
        if len(rows) > len(ours):
            grown[name], aside[name] = rows, damaged
            lines.append(f"{shown(str(name))}: {len(rows) - len(ours)} added")
    places = {name: _places(name) for name in grown if name.suffix != ".json"}
    for name, rows in grown.items():
        if name.suffix == ".json":
            write_json(results / name, rows[""])
            continue
        in_order = sorted(rows.values(), key=lambda row, of=places[name]: of.get(row["task_id"], 0))
        path, of_cache = results / name, name.parts[0] == "generations"
        try:
            keep_aside(path, aside[name])
            write_jsonl(path if of_cache else packed(path), in_order)
            (packed(path) if of_cache else path).unlink(missing_ok=True)  # its rows are among them
        except (UserError, OSError) as e:
            unreadable.append(str(e))
    if unreadable:
        raise PartlyMerged(unreadable, lines)
    return lines


def _links_not_followed(folder: Path) -> list[str]:
    """A line for each link of a shard to a directory or to nowhere, unless reading it will report it."""
    lines = []
    for stage in STAGES:
        for link in sorted((folder / stage).rglob("*")):
            if not link.is_symlink() or link.name.removesuffix(PACKED).endswith(
                (".json", ".jsonl")
            ):
                continue
            if link.is_dir():
                lines.append(f"{shown(str(link))} is a link to a directory, which is not followed")
            elif not link.exists():
                lines.append(f"{shown(str(link))} is a link that leads nowhere")
        if is_there(folder / stage) and not (folder / stage).is_dir():
            lines.append(f"{shown(str(folder / stage))} is not a directory")
    return lines


def _places(name: Path) -> dict[str, int]:
    """Task id -> its place in the benchmark of a file, as one run writes the rows."""
    benchmark = next((part for part in name.parts if part in BENCHMARKS), "")
    return {task.id: n for n, task in enumerate(load_benchmark(benchmark))}


def _add(rows: Rows, path: Path, lines: list[str]) -> None:
    """Adds the rows of a shard's file; UserError where one says something else than what is there."""
    theirs, _ = _read(path, lines)
    for key, row in theirs.items():
        known = rows.setdefault(key, row)
        if any(known.get(n) != value for n, value in row.items() if n not in OF_MACHINE):
            file = path if is_there(path) else packed(path)
            ids = dict.fromkeys((row.get("task_id", ""), key))  # the key of a verdict is its task
            about = f"{shown(str(file))}: {' '.join(ids).strip()}"
            raise UserError(f"{about}: another directory has another answer; nothing is merged")


def _read(path: Path, lines: list[str]) -> tuple[Rows, list[ScannedRow]]:
    """A file's rows, of one key the last, and its damaged lines, which are reported in `lines`.

    Nothing where the file is not there. Damaged if it cannot be read.
    """
    if path.suffix == ".json":
        return {"": read_json(path)} if is_there(path) else {}, []
    files = [p for p in (packed(path), path) if is_there(p)]
    files = (
        files if "generations" in path.parts else files[:1]
    )  # plain rows are of an earlier version
    rows, damaged = Rows(), []
    for file in files:
        for row in read_answers(file, {"task_id": str}, {"status": OUTCOME["status"]}):
            key = (row.value or {}).get("key") or (row.value or {}).get("task_id")
            if isinstance(key, str) and key:
                rows[key] = row.value
                continue
            if row.line.text is None:  # it could not be kept aside
                raise Damaged.of(file, row.why, row.number, advice_for)
            why = row.why or "it has no key"
            lines.append(f"{shown(str(file))}, line {row.number} is damaged and left out: {why}")
            if row.line.ended or file != path:
                damaged.append(row)
    return rows, damaged
