"""The type graph of many Java files: seconds with one and two processes, and after one change.

    python tests/benchmarks/bench_typegraph.py SOURCE [--files 5000] [--peer 500] [--output FILE]

SOURCE is a directory or zip archive, such as the JDK's src.zip, whose first files are copied. `ratio` is the
processor time of the paper's Listing 1 over that of the same graph here, on the first --peer files.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [
        str(Path(__file__).resolve().parents[2]),
        str(Path(__file__).resolve().parents[1]),
    ]

from typegraph.listing import listing

from benchmarks.clock import rounded, timed
from pkg_lib.core.source_tree import reader
from pkg_lib.core.store import results_dir, versions, write_json
from pkg_lib.graph.types.build import build
from pkg_lib.graph.types.scan import scan


def write(files: dict[str, bytes], root: Path) -> Path:
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


def measure(source: Path, files: int, peer: int) -> dict[str, Any]:
    """All figures; raises UserError for a source that is none."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder, reader(source) as read:
        data = ((path, read(path)) for path in (file.name for file in scan(source).files))
        sources = dict(islice((row for row in data if isinstance(row[1], bytes)), files))
        root, store = write(sources, Path(folder, "tree")), Path(folder, "store.jsonl")
        one, two = build(root), build(root, processes=2)
        build(root, store=store)
        changed = root / next(iter(sources))
        changed.write_bytes(changed.read_bytes() + b"\n// changed\n")
        again = build(root, store=store)
        ratio = beside_listing(dict(list(sources.items())[:peer]), Path(folder, "peer"))
    return {
        "source": source.name,
        "files": len(sources),
        "megabytes": round(sum(map(len, sources.values())) / 2**20, 1),
        "nodes": len(one.graph.nodes),
        "edges": len(one.graph.edges),
        "same_graph": one.graph == two.graph,
        "one_process_s": rounded(one.seconds, 2),
        "two_processes_s": rounded(two.seconds, 2),
        "one_change_s": rounded(again.seconds, 2),
        "one_change_parsed": again.parsed,
        "processors": os.cpu_count(),
        "load_before": round(load, 2),
        "versions": versions(),
        **ratio,
    }


def beside_listing(files: dict[str, bytes], root: Path) -> dict[str, Any]:
    write(files, root)
    _, seconds, built = timed(lambda: build(root, "as-published"))
    _, listing_seconds, (file_map, injects) = timed(lambda: listing(files))
    edges = built.graph.edges
    inherited = {pair for pair, labels in edges.items() if labels != ("injects",)}
    same = set(file_map) == set(built.graph.nodes) and injects - inherited == set(edges) - inherited
    return {
        "peer_files": len(files),
        "ours_s": round(seconds, 2),
        "listing_s": round(listing_seconds, 2),
        "ratio": round(listing_seconds / seconds, 2),
        "same_as_listing": same,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="type graphs of many Java files")
    parser.add_argument("source", type=Path)
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--peer", type=int, default=500)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    figures = measure(options.source, options.files, options.peer)
    print(json.dumps(figures, indent=1))
    write_json(options.output or results_dir() / "benchmarks" / "typegraph.json", figures)
    same = figures["same_graph"] and figures["same_as_listing"]
    return 0 if same and figures["two_processes_s"]["total"] < 20 else 1


if __name__ == "__main__":
    sys.exit(main())
