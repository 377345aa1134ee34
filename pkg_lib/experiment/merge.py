"""Joins what the shards of a run have written, each on its machine, into one results directory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pkg_lib.core.store import PACKED, read_json, write_json, write_jsonl
from pkg_lib.core.types import UserError
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.generation.cache import packed, read_jsonl

STAGES = ("contexts", "generations", "evaluations", "feedback")
# In which rows may differ that say the same: how long it took, on which machine, by which server.
OF_MACHINE = {"seconds", "meta", "versions", "base_url"}
Rows = dict[str, dict[str, Any]]  # key of a completion, else task id -> row; "" -> the whole of a .json file


def merge(folders: Sequence[Path], results: Path) -> list[str]:
    """Adds to `results` what it lacks, in the order of the tasks; a line for each file that grew.

    A damaged line is left out and named. UserError, and nothing is written, where two rows of one key differ.
    """
    for folder in folders:
        if not any((folder / stage).is_dir() for stage in STAGES):
            raise UserError(f"{folder} is no results directory: it has none of {', '.join(STAGES)}")
    files = (p.relative_to(f) for f in folders for s in STAGES for p in (f / s).rglob("*.json*"))
    grown, lines = dict[Path, Rows](), list[str]()
    plain = {n.with_suffix("") if n.suffix == PACKED else n for n in files}
    for name in sorted(n for n in plain if n.suffix in (".json", ".jsonl")):
        rows = dict(ours := _read(results / name, lines))
        for path in (folder / name for folder in folders):
            for key, row in _read(path, lines).items():
                known = rows.setdefault(key, row)
                if any(known.get(n) != value for n, value in row.items() if n not in OF_MACHINE):
                    file = path if path.exists() else packed(path)
                    about = f"{file}: {row.get('task_id', '')} {key}".rstrip()
                    raise UserError(f"{about}: another directory has another answer; nothing is merged")
        if len(rows) > len(ours):
            grown[name] = rows
            lines.append(f"{name}: {len(rows) - len(ours)} added")
    for name, rows in grown.items():
        if name.suffix == ".json":
            write_json(results / name, rows[""])
            continue
        benchmark = next((part for part in name.parts if part in BENCHMARKS), "")
        places = {task.id: n for n, task in enumerate(load_benchmark(benchmark))}  # as one run writes them
        plain, of_cache = results / name, name.parts[0] == "generations"
        in_order = sorted(rows.values(), key=lambda row: places.get(row["task_id"], 0))
        write_jsonl(plain if of_cache else packed(plain), in_order)
        (packed(plain) if of_cache else plain).unlink(missing_ok=True)  # its rows are among them
    return lines


def _read(path: Path, lines: list[str]) -> Rows:
    """A file's rows, of one key the last; none where it is not there. A damaged line is told in `lines`."""
    if path.suffix == ".json":
        return {"": read_json(path)} if path.exists() else {}
    files = [p for p in (packed(path), path) if p.exists()]
    files = files if "generations" in path.parts else files[:1]  # plain rows are of an earlier version
    found = [line for p in files for line in read_jsonl(p)]
    keyed = [(n, row, (row or {}).get("key") or (row or {}).get("task_id")) for n, row in found]
    lines += [f"{path}:{n} is damaged and left out" for n, _, key in keyed if not key]
    return {key: row for _, row, key in keyed if key}
