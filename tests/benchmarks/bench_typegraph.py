"""Measure the type graph of many Java files: with one process, with two, and after one change.

    python tests/benchmarks/bench_typegraph.py SOURCE [--files 5000] [--peer 500] [--output FILE]

SOURCE is a directory or zip archive, such as the JDK's src.zip. Its first files are copied. `ratio` is the
processor time of Listing 1 of the paper divided by ours for the same graph, on the first --peer files.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    TESTS = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(TESTS.parent), str(TESTS)]

from typegraph.listing import listing

from benchmarks.clock import rounded, timed
from pkg_lib.core.source_tree import reader
from pkg_lib.core.store import results_dir, versions, write_json
from pkg_lib.graph.types.build import build
from pkg_lib.graph.types.scan import scan

GOAL = 20  # seconds with two processes, for the default number of files


def write(files: dict[str, bytes], root: Path) -> None:
    """Write files below a folder.

    Args:
        files: Contents by relative path.
        root: The folder.
    """
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def first_files(
    source: Path,
    read: Callable[[str], Any],
    count: int,
) -> dict[str, bytes]:
    """Read the first readable files of a source.

    Args:
        source: Directory or zip archive.
        read: Function that reads a file of it. It returns bytes for a readable file.
        count: Number of files.

    Returns:
        Contents by path.
    """
    files: dict[str, bytes] = {}
    for file in scan(source).files:
        if len(files) >= count:
            break
        data = read(file.name)
        if isinstance(data, bytes):
            files[file.name] = data
    return files


def beside_listing(
    files: dict[str, bytes],
    root: Path,
) -> dict[str, Any]:
    """Compare our type graph with Listing 1 of the paper.

    Args:
        files: Contents by relative path.
        root: Folder to write the files to.

    Returns:
        Processor seconds of both, and whether the nodes and the injects edges are the same.
    """
    write(files, root)
    _, ours_s, built = timed(lambda: build(root, "as-published"))
    _, listing_s, (file_map, injects) = timed(lambda: listing(files))
    edges = built.graph.edges
    inherited = {pair for pair, labels in edges.items() if labels != ("injects",)}
    same_nodes = set(file_map) == set(built.graph.nodes)
    same_edges = injects - inherited == set(edges) - inherited
    return {
        "peer_files": len(files),
        "ours_s": round(ours_s, 2),
        "listing_s": round(listing_s, 2),
        "ratio": round(listing_s / ours_s, 2),
        "same_as_listing": same_nodes and same_edges,
    }


def measure(source: Path, files: int, peer: int) -> dict[str, Any]:
    """Measure the type graph of the first files of a source.

    Args:
        source: Directory or zip archive.
        files: Number of files.
        peer: Number of files that are compared with Listing 1.

    Returns:
        All figures.

    Raises:
        UserError: `source` is neither a directory nor a zip archive.
    """
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder, reader(source) as read:
        sources = first_files(source, read, files)
        root = Path(folder, "tree")
        store = Path(folder, "store.jsonl")
        write(sources, root)
        one = build(root)
        two = build(root, processes=2)
        build(root, store=store)
        changed = root / next(iter(sources))
        changed.write_bytes(changed.read_bytes() + b"\n// changed\n")
        again = build(root, store=store)
        peer_sources = dict(islice(sources.items(), peer))
        comparison = beside_listing(peer_sources, Path(folder, "peer"))
    size = sum(len(data) for data in sources.values())
    return {
        "source": source.name,
        "files": len(sources),
        "megabytes": round(size / 2**20, 1),
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
        **comparison,
    }


def main() -> int:
    """Run the benchmark from the command line.

    Returns:
        The exit status: 0 if the graphs are the same and the time meets the goal, else 1.
    """
    parser = argparse.ArgumentParser(description="type graphs of many Java files")
    parser.add_argument("source", type=Path)
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--peer", type=int, default=500)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    figures = measure(options.source, options.files, options.peer)
    print(json.dumps(figures, indent=1))
    output = options.output or results_dir() / "benchmarks" / "typegraph.json"
    write_json(output, figures)
    correct = figures["same_graph"] and figures["same_as_listing"]
    fast = figures["two_processes_s"]["total"] < GOAL
    return 0 if correct and fast else 1


if __name__ == "__main__":
    sys.exit(main())
