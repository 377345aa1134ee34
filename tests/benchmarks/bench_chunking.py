"""Chunks per second against the authors' package astchunk on the same files, and whether the texts agree.

    python tests/benchmarks/bench_chunking.py [--tree DIR ...] [--npm] [--processes 2] [--repeat 3]

Files are those of the standard library and of --tree; --npm adds packages with Java, C# and TypeScript. `ratio`
is of processor time, `ratio_processes` of wall time with --processes against astchunk, which has one alone.
`parse_share` is tree-sitter's part of astchunk's time, which bounds `ratio`.
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
    sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (1, 2)]

from benchmarks.clock import rounded, timed
from pkg_lib.chunking.chunk_coverage import CoverageReport
from pkg_lib.chunking.chunk_jsonl import chunk_files, walk
from pkg_lib.chunking.chunker import Chunker
from pkg_lib.chunking.languages import language_of, parse
from pkg_lib.chunking.source import Source, encode
from pkg_lib.core.store import results_dir, write_json

NPM = "rxjs@7.8.1 react-native-paper@5.12.5 react-native@0.72.17 cordova-android@13.0.0"
NPM = f"{NPM} react-native-windows@0.72.33 edge-js@23.1.1".split()
PACKAGES = [
    "tree-sitter",
    *(f"tree-sitter-{n}" for n in ("python", "java", "c-sharp", "typescript")),
]
GOAL = 3.0


def fetch(folder: Path) -> list[Path]:
    """The npm packages' sources below `folder`; a package that npm does not give is an error."""
    for package in NPM:
        command = ["npm", "pack", "--silent", package]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    for archive in sorted(folder.glob("*.tgz")):
        (folder / archive.stem).mkdir()
        subprocess.run(["tar", "xzf", archive.name, "-C", archive.stem], cwd=folder, check=True)
    return [folder]


def sources(roots: list[Path]) -> tuple[dict[str, list[tuple[str, bytes]]], CoverageReport]:
    """Language -> (name, bytes) of every source file below the roots."""
    files, report = {}, CoverageReport()
    for root in roots:
        for name, data in walk(root, report):
            if not name.startswith("site-packages/"):  # the standard library's own files only
                files.setdefault(language_of(name), []).append((name, data))
    return files, report


def astchunks(texts: list[str], language: str, limit: int) -> list[list[str] | None]:
    """Chunk texts of astchunk; None for a file that is too deep for its recursion."""
    options = {"language": language.replace("tsx", "typescript"), "metadata_template": "none"}
    builder, chunked = ASTChunkBuilder(max_chunk_size=limit, **options), []
    for text in texts:
        try:
            chunked.append([w["content"] for w in builder.chunkify(text)])
        except RecursionError:
            chunked.append(None)
    return chunked


def measure(
    files: list[tuple[str, bytes]],
    language: str,
    processes: int = 2,
    repeat: int = 3,
    limit: int = 2000,
) -> dict:
    """The figures of one language."""
    whole = [(name, data) for name, data in files if Source(data).utf8]
    texts = [data.decode() for _, data in whole]
    published, lossless = Chunker(mode="as-published", max_size=limit), Chunker(max_size=limit)
    peer_cpu, peer_wall, peer = best(lambda: astchunks(texts, language, limit), repeat)
    cpu, _, made = best(lambda: list(chunk_files(whole, published)), repeat)
    lossless_cpu, _, kept = best(lambda: list(chunk_files(whole, lossless)), repeat)
    grammar = "tsx" if language == "typescript" else language
    parse_cpu, _, _ = best(lambda: [parse(d, grammar) for _, d in whole], repeat)
    wall = best(lambda: list(chunk_files(whole, published, processes)), repeat)[1]
    chunks = sum(len(m.chunks) for m in made)
    joined = [b"".join(encode(c.text) for c in m.chunks) for m in kept]
    figures = {
        "files": len(files),
        "not_utf8": len(files) - len(whole),
        "bytes": sum(len(d) for _, d in whole),
        "chunks": chunks,
        "astchunk_chunks_per_s": chunks / peer_cpu,
        "chunks_per_s": chunks / cpu,
        "lossless_chunks_per_s": sum(len(m.chunks) for m in kept) / lossless_cpu,
        "ratio": peer_cpu / cpu,
        "ratio_without_parsing": (peer_cpu - parse_cpu) / max(cpu - parse_cpu, 1e-9),
        "parse_share": parse_cpu / peer_cpu,
        "processes": processes,
        "ratio_processes": peer_wall / wall,
        "bytes_lost_as_published": sum(m.coverage.bytes_lost for m in made),
        "leaves_over_the_limit": sum(m.coverage.leaves_over for m in made),
        "lossless_broken": sum(text != data for text, (_, data) in zip(joined, whole, strict=True)),
    }
    return rounded(figures, 3) | compared(made, peer)


def best(work, repeat: int) -> tuple[float, float, list]:
    """Best processor and wall seconds of `repeat` runs, and the last answer."""
    runs = [timed(work) for _ in range(repeat)]
    return min(r[1] for r in runs), min(r[0] for r in runs), runs[-1][2]


def compared(made: list, peer: list[list[str] | None]) -> dict:
    """How many files have the same chunk texts, and each that has not with the reason."""
    differences = {}
    for ours, other in zip(made, peer, strict=True):
        texts, name = [c.text for c in ours.chunks], ours.coverage.document
        if other is None:
            differences[name] = "astchunk ends in a RecursionError"
        elif texts != other:
            same = [t.lstrip(" ") for t in texts] == [t.lstrip(" ") for t in other]
            differences[name] = (
                "indentation beyond column 2,000 left out" if same else "not explained"
            )
    return {"same_texts": len(made) - len(differences), "differences": differences}


def main() -> int:
    parser = argparse.ArgumentParser(description="our chunker against astchunk")
    parser.add_argument("--tree", type=Path, action="append", default=[])
    parser.add_argument("--npm", action="store_true")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--output", type=Path, default=None, help="default: results/benchmarks/chunking.json"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        npm = fetch(Path(folder)) if options.npm else []
        files, report = sources([Path(sysconfig.get_paths()["stdlib"]), *options.tree, *npm])
    report = {
        "load_before": round(os.getloadavg()[0], 2),
        "processors": os.cpu_count(),
        "npm": NPM if options.npm else [],
        "versions": {p: version(p) for p in ("astchunk", *PACKAGES)},
        "skipped": {r: len(n) for r, n in report.skipped.by_reason.items()},
        "languages": {
            k: measure(v, k, options.processes, options.repeat) for k, v in sorted(files.items())
        },
    }
    write_json(options.output or results_dir() / "benchmarks" / "chunking.json", report)
    print(json.dumps(report, indent=1))
    rows = report["languages"].values()
    sound = not any(
        r["lossless_broken"] or "not explained" in r["differences"].values() for r in rows
    )
    return 0 if sound and report["languages"]["python"]["ratio_processes"] >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
