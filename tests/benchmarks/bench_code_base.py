"""Measure the first search of a large code base: time, memory, and what a killed search leaves.

    python tests/benchmarks/bench_code_base.py DIR --kill-after 120

Runs `pkg-lib search source:DIR` three times with an empty cache of vectors: killed after some seconds of encoding,
to the end, and once more when everything is stored. Prints the figures of this machine. The weights of the
embedder must be there already. It takes about 20 minutes for 100,000 functions on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    TESTS = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from benchmarks.clock import rounded
from pkg_lib.core.embedders import INT8
from pkg_lib.core.models import cache_dir
from pkg_lib.core.store import ROOT, versions

QUERY = "sort a list"
BY_MEANING = "by meaning"


@dataclass
class Search:
    """One search.

    Attributes:
        words_s: Seconds until the results by words were printed.
        seconds: Seconds until it ended, or was killed.
        peak_mb: Most memory of the process and its children, in MB, each shared page counted once.
    """

    words_s: float = 0.0
    seconds: float = 0.0
    peak_mb: float = 0.0


def memory_mb(process: int) -> float:
    """Return the memory of a process and its descendants.

    Args:
        process: Its number.

    Returns:
        The proportional set size in MB; 0 for a process that has ended.
    """
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return 0.0
    sizes = [int(line.split()[1]) for line in lines if line.startswith("Pss:")]
    return sum(sizes) / 1000 + sum(memory_mb(int(child)) for child in children)


def search(folder: Path, cache: Path, kill_after: float = 0.0) -> Search:
    """Search a code base in a process of its own.

    Args:
        folder: The code base.
        cache: The cache directory.
        kill_after: Seconds of encoding after which the process is killed; 0 lets it end.

    Returns:
        The measurements.
    """
    command = [sys.executable, "-P", "-m", "pkg_lib", "search", f"source:{folder}", QUERY]
    environment = os.environ | {"PKG_CACHE": str(cache), "PYTHONPATH": str(ROOT)}
    found = Search()
    start = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--top", "1"], env=environment, stdout=subprocess.PIPE, text=True
    )

    def watch() -> None:
        while process.poll() is None:
            found.peak_mb = max(found.peak_mb, memory_mb(process.pid))
            is_encoding = found.words_s > 0
            encoded_for = time.perf_counter() - start - found.words_s
            if kill_after and is_encoding and encoded_for > kill_after:
                process.send_signal(signal.SIGKILL)
            time.sleep(1.0)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for line in process.stdout or []:
        print(line, end="", file=sys.stderr)
        if line.startswith(BY_MEANING):
            found.words_s = time.perf_counter() - start
    process.wait()
    watcher.join()
    found.seconds = time.perf_counter() - start
    return found


def stored_vectors(cache: Path) -> int:
    """Count the vectors in a cache directory.

    Args:
        cache: The cache directory.

    Returns:
        Their number.
    """
    (path,) = (cache / "vectors").rglob("vectors.sqlite")
    with closing(sqlite3.connect(path)) as database:
        (count,) = database.execute("SELECT count(*) FROM vectors").fetchone()
    return int(count)


def measure(folder: Path, kill_after: float) -> dict[str, Any]:
    """Measure the searches of a code base.

    Args:
        folder: The code base.
        kill_after: Seconds of encoding after which the first search is killed.

    Returns:
        Numbers of files and texts, seconds, texts per second, and memory in MB.
    """
    with tempfile.TemporaryDirectory() as name:
        cache = Path(name)
        embedders = cache_dir() / "embedders"
        if embedders.is_dir():
            (cache / "embedders").symlink_to(embedders)
        killed = search(folder, cache, kill_after)
        kept = stored_vectors(cache)
        whole = search(folder, cache)
        stored = stored_vectors(cache)
        again = search(folder, cache)
        encoded_after = stored_vectors(cache) - stored
    encoding_s = killed.seconds - killed.words_s + whole.seconds - whole.words_s
    return {
        "directories": sorted(path.name for path in folder.iterdir()),
        "files": sum(1 for _ in folder.rglob("*.py")),
        "embedder": INT8,
        "processors": os.cpu_count(),
        "texts": stored - 1,  # one of the vectors is that of the query
        "stored_when_killed": kept,
        "words_s": killed.words_s,
        "texts_per_s": (stored - 1) / encoding_s,
        "peak_mb": max(killed.peak_mb, whole.peak_mb),
        "again_s": again.seconds,
        "encoded_again": encoded_after,
        "versions": versions(),
    }


def main() -> None:
    """Measure the directory that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kill-after", type=float, default=60.0)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    found = rounded(measure(options.folder, options.kill_after), 2)
    text = json.dumps(found, indent=1)
    print(text)
    if options.output:
        options.output.write_text(f"{text}\n")


if __name__ == "__main__":
    main()
