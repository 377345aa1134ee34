"""Compare our chunker with astchunk, the package of the paper's authors, on the same files.

    python tests/benchmarks/bench_chunking.py [--tree DIR ...] [--npm] [--processes 2] [--repeat 3]

The files are those of the standard library and of --tree. --npm adds packages with Java, C# and TypeScript.
The script measures chunks per second and checks that both chunkers return the same texts.

`ratio` compares processor times. `ratio_processes` compares the wall time of --processes processes with that of
astchunk, which has one process. `parse_share` is the share of astchunk's time that tree-sitter takes. It bounds
`ratio`, because both chunkers parse with tree-sitter.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import version
from pathlib import Path

from astchunk import ASTChunkBuilder

if __name__ == "__main__":
    TESTS = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from benchmarks.clock import rounded, timed
from pkg_lib.chunking.chunk_coverage import CoverageReport
from pkg_lib.chunking.chunk_jsonl import chunk_files, walk
from pkg_lib.chunking.chunker import Chunker
from pkg_lib.chunking.languages import language_of, parse
from pkg_lib.chunking.source import Source, encode
from pkg_lib.core.store import results_dir, write_json

NPM = [
    "rxjs@7.8.1",
    "react-native-paper@5.12.5",
    "react-native@0.72.17",
    "cordova-android@13.0.0",
    "react-native-windows@0.72.33",
    "edge-js@23.1.1",
]
PACKAGES = [
    "astchunk",
    "tree-sitter",
    "tree-sitter-python",
    "tree-sitter-java",
    "tree-sitter-c-sharp",
    "tree-sitter-typescript",
]
GOAL = 3.0
NOT_EXPLAINED = "not explained"


def fetch(folder: Path) -> list[Path]:
    """Download and unpack the npm packages.

    Args:
        folder: Folder to unpack them into.

    Returns:
        The root folders of the sources.

    Raises:
        subprocess.CalledProcessError: npm does not provide a package.
    """
    for package in NPM:
        command = ["npm", "pack", "--silent", package]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    for archive in sorted(folder.glob("*.tgz")):
        (folder / archive.stem).mkdir()
        subprocess.run(
            ["tar", "xzf", archive.name, "-C", archive.stem],
            cwd=folder,
            check=True,
        )
    return [folder]


def sources(
    roots: list[Path],
) -> tuple[dict[str, list[tuple[str, bytes]]], CoverageReport]:
    """Read the source files below the roots, without those of site-packages.

    Args:
        roots: Folders to search.

    Returns:
        The name and bytes of every file by language, and a report of skipped files.
    """
    files: dict[str, list[tuple[str, bytes]]] = {}
    report = CoverageReport()
    for root in roots:
        for name, data in walk(root, report):
            if name.startswith("site-packages/"):
                continue
            files.setdefault(language_of(name), []).append((name, data))
    return files, report


def astchunks(
    texts: list[str],
    language: str,
    limit: int,
) -> list[list[str] | None]:
    """Chunk texts with astchunk.

    Args:
        texts: Contents of files.
        language: Their language.
        limit: Greatest number of characters in a chunk.

    Returns:
        The chunk texts of each file; None for a file that is too deeply nested for astchunk's recursion.
    """
    builder = ASTChunkBuilder(
        max_chunk_size=limit,
        language=language.replace("tsx", "typescript"),
        metadata_template="none",
    )
    chunked = []
    for text in texts:
        try:
            windows = builder.chunkify(text)
            chunked.append([window["content"] for window in windows])
        except RecursionError:
            chunked.append(None)
    return chunked


def best(work, repeat: int) -> tuple[float, float, list]:
    """Repeat a measurement.

    Args:
        work: Function to measure.
        repeat: Number of repetitions.

    Returns:
        The least processor seconds, the least wall seconds, and the result of the last repetition.
    """
    wall_times = []
    cpu_times = []
    for _ in range(repeat):
        wall_s, cpu_s, result = timed(work)
        wall_times.append(wall_s)
        cpu_times.append(cpu_s)
    return min(cpu_times), min(wall_times), result


def compared(made: list, peer: list[list[str] | None]) -> dict:
    """Compare the chunk texts of both chunkers.

    Args:
        made: Our chunks of each file.
        peer: The chunk texts of astchunk for each file.

    Returns:
        The number of files with the same texts, and the reason for each other file.
    """
    differences = {}
    for ours, other in zip(made, peer, strict=True):
        name = ours.coverage.document
        texts = [chunk.text for chunk in ours.chunks]
        if other is None:
            differences[name] = "astchunk ends in a RecursionError"
        elif texts != other:
            without_indentation = [text.lstrip(" ") for text in texts]
            if without_indentation == [text.lstrip(" ") for text in other]:
                differences[name] = "indentation beyond column 2,000 left out"
            else:
                differences[name] = NOT_EXPLAINED
    return {
        "same_texts": len(made) - len(differences),
        "differences": differences,
    }


def count_broken(kept: list, files: list[tuple[str, bytes]]) -> int:
    """Count files whose bytes differ from those of their joined lossless chunks."""
    broken = 0
    for ours, (_, data) in zip(kept, files, strict=True):
        joined = b"".join(encode(chunk.text) for chunk in ours.chunks)
        broken += joined != data
    return broken


def measure(
    files: list[tuple[str, bytes]],
    language: str,
    processes: int = 2,
    repeat: int = 3,
    limit: int = 2000,
) -> dict:
    """Measure both chunkers on the files of one language.

    Files that are not UTF-8 are left out.

    Args:
        files: Name and bytes of each file.
        language: The language.
        processes: Number of processes for `ratio_processes`.
        repeat: Number of repetitions; the fastest counts.
        limit: Greatest number of characters in a chunk.

    Returns:
        The figures of the language.
    """
    utf8_files = []
    for name, data in files:
        if Source(data).utf8:
            utf8_files.append((name, data))
    texts = [data.decode() for _, data in utf8_files]
    published = Chunker(mode="as-published", max_size=limit)
    lossless = Chunker(max_size=limit)
    grammar = "tsx" if language == "typescript" else language

    peer_cpu, peer_wall, peer = best(lambda: astchunks(texts, language, limit), repeat)
    cpu, _, made = best(lambda: list(chunk_files(utf8_files, published)), repeat)
    lossless_cpu, _, kept = best(lambda: list(chunk_files(utf8_files, lossless)), repeat)
    parse_cpu, _, _ = best(lambda: [parse(data, grammar) for _, data in utf8_files], repeat)
    _, wall, _ = best(lambda: list(chunk_files(utf8_files, published, processes)), repeat)

    chunks = sum(len(ours.chunks) for ours in made)
    lossless_chunks = sum(len(ours.chunks) for ours in kept)
    rest = cpu - parse_cpu
    peer_rest = peer_cpu - parse_cpu
    figures = {
        "files": len(files),
        "not_utf8": len(files) - len(utf8_files),
        "bytes": sum(len(data) for _, data in utf8_files),
        "chunks": chunks,
        "astchunk_chunks_per_s": chunks / peer_cpu,
        "chunks_per_s": chunks / cpu,
        "lossless_chunks_per_s": lossless_chunks / lossless_cpu,
        "ratio": peer_cpu / cpu,
        "ratio_without_parsing": peer_rest / max(rest, 1e-9),
        "parse_share": parse_cpu / peer_cpu,
        "processes": processes,
        "ratio_processes": peer_wall / wall,
        "bytes_lost_as_published": sum(ours.coverage.bytes_lost for ours in made),
        "leaves_over_the_limit": sum(ours.coverage.leaves_over for ours in made),
        "lossless_broken": count_broken(kept, utf8_files),
    }
    return {**rounded(figures, 3), **compared(made, peer)}


def main() -> int:
    """Run the benchmark from the command line.

    Returns:
        The exit status: 0 if the chunks are correct and the speed meets the goal, else 1.
    """
    parser = argparse.ArgumentParser(description="our chunker against astchunk")
    parser.add_argument("--tree", type=Path, action="append", default=[])
    parser.add_argument("--npm", action="store_true")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--output",
        type=Path,
        default=None,
        help="default: results/benchmarks/chunking.json",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        roots = [Path(sysconfig.get_paths()["stdlib"]), *options.tree]
        if options.npm:
            roots += fetch(Path(folder))
        files, coverage = sources(roots)
    load_before = round(os.getloadavg()[0], 2)
    languages = {}
    for language, of_language in sorted(files.items()):
        languages[language] = measure(of_language, language, options.processes, options.repeat)
    report = {
        "load_before": load_before,
        "processors": os.cpu_count(),
        "npm": NPM if options.npm else [],
        "versions": {package: version(package) for package in PACKAGES},
        "skipped": {why: len(names) for why, names in coverage.skipped.by_reason.items()},
        "languages": languages,
    }
    output = options.output or results_dir() / "benchmarks" / "chunking.json"
    write_json(output, report)
    print(json.dumps(report, indent=1))
    correct = True
    for figures in languages.values():
        reasons = figures["differences"].values()
        if figures["lossless_broken"] or NOT_EXPLAINED in reasons:
            correct = False
    fast = languages["python"]["ratio_processes"] >= GOAL
    return 0 if correct and fast else 1


if __name__ == "__main__":
    sys.exit(main())
