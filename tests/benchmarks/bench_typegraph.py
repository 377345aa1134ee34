"""The type graph of many Java files: seconds with one and two processes, after one change, and beside Listing
1 of the paper.

    python tests/benchmarks/bench_typegraph.py SOURCE [--files 5000] [--peer 500] [--output FILE]

SOURCE is a directory or zip archive, such as the JDK's src.zip; its first files in sorted order are copied
into a temporary directory. `ratio` is the processor time of Listing 1 (tree-sitter's own queries; it parses a
file again for each of its types) over that of the same graph here, one process, on the first --peer files in
the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[1])]

from typegraph.listing import listing

from benchmarks.clock import rounded
from pkg_lib.core.store import results_dir, versions, write_json
from pkg_lib.graph.types.build import build
from pkg_lib.graph.types.scan import reader, scan


def copied(source: Path, count: int, root: Path) -> dict[str, bytes]:
    """The first `count` files of the source that can be read, written below `root`; path -> bytes."""
    found: dict[str, bytes] = {}
    with reader(source) as read:
        for path in scan(source).paths:
            if len(found) == count:
                break
            if isinstance(data := read(path), bytes):
                found[path] = data
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_bytes(data)
    return found


def measure(source: Path, files: int, peer: int) -> dict[str, Any]:
    """All figures; raises UserError for a source that is none."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        root, store = Path(folder, "tree"), Path(folder, "store.jsonl")
        root.mkdir()
        found = copied(source, files, root)
        one, two = build(root), build(root, processes=2)
        build(root, store=store)
        changed = root / next(iter(found))
        changed.write_bytes(changed.read_bytes() + b"\n// changed\n")
        again = build(root, store=store)
        ratio = _peer(dict(list(found.items())[:peer]), Path(folder, "peer"))
    times = {"one_process_s": one, "two_processes_s": two, "one_change_s": again}
    figures = {
        "source": source.name,
        "files": len(found),
        "megabytes": round(sum(map(len, found.values())) / 2**20, 1),
        "nodes": len(one.graph.nodes),
        "edges": len(one.graph.edges),
        "same_graph": one.graph == two.graph,
        **{name: rounded(built.seconds, 2) for name, built in times.items()},
        "one_change_parsed": again.parsed,
        "processors": os.cpu_count(),
        "load_before": round(load, 2),
        "versions": versions(),
    }
    return figures | ratio


def _peer(files: dict[str, bytes], root: Path) -> dict[str, Any]:
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    start = time.process_time()
    graph = build(root, "as-published").graph
    ours = time.process_time() - start
    start = time.process_time()
    file_map, injects = listing(files)
    theirs = time.process_time() - start
    inherited = {pair for pair, labels in graph.edges.items() if labels != ("injects",)}
    same = set(file_map) == set(graph.nodes) and injects - inherited == set(graph.edges) - inherited
    return {
        "peer_files": len(files),
        "ours_s": round(ours, 2),
        "listing_s": round(theirs, 2),
        "ratio": round(theirs / ours, 2),
        "same_as_listing": same,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="type graphs of many Java files")
    parser.add_argument("source", type=Path)
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--peer", type=int, default=500)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    found = measure(options.source, options.files, options.peer)
    print(json.dumps(found, indent=1))
    write_json(options.output or results_dir() / "benchmarks" / "typegraph.json", found)
    same = found["same_graph"] and found["same_as_listing"]
    return 0 if same and found["two_processes_s"]["total"] < 20 else 1


if __name__ == "__main__":
    sys.exit(main())
