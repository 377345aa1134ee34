"""What an executed notebook was made from, so that it is executed again only when that has changed.

    results/notebooks/STEM.made.json    {"from": digest, "outputs": {path below results/: SHA-256}}

The digest covers the notebook, its parameters, the files that these name, every file of pkg_lib, the pinned
requirements, and the stored files that it may read. It is made of contents, not of times, so that a fresh
clone of committed results needs no execution.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from pkg_lib.core.registry import plugins
from pkg_lib.core.store import ROOT, slug, write_json
from pkg_lib.core.types import digest
from pkg_lib.data import corpora

SHARED = (
    "replay",
    "benchmarks",
    "enhanced",
    "structured",
    "tasks",
    "repo_qa",
)  # what every notebook may read
ALL = ("contexts", "generations", "evaluations", "repo_tasks", *SHARED)
LONGEST = 255  # characters of a file's name; a longer text is no path
TEMPORARY = (".tmp", ".part")  # what a file is called while it is written
NONE = "none"  # the corpus of the column that needs none


def inputs(results: Path, parameters: dict[str, Any]) -> list[Path]:
    """The folders of stored results that a notebook with these parameters may read.

    One about a model reads that model's completions (shared by all its benchmarks, a prompt is completed
    once) and the contexts and verdicts of its benchmark and corpus; one about none reads all.
    """
    if "model" not in parameters:
        return [results / stage for stage in ALL]
    model, benchmark = parameters["model"], parameters.get("benchmark", "")
    places = [Path(benchmark, corpus) for corpus in (NONE, slug(parameters.get("corpus", "")))]
    folders = [Path("generations", model), Path("evaluations", "controls", benchmark), *map(Path, SHARED)]
    folders += [Path("contexts", p) for p in places] + [Path("evaluations", model, p) for p in places]
    return [results / f for f in folders]


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Files:
    """SHA-256 of files by content, each read once."""

    def __init__(self) -> None:
        self._known: dict[Path, str] = {}

    def sha256(self, path: Path) -> str:
        if path not in self._known:
            self._known[path] = digest_of(path)
        return self._known[path]

    def below(self, folders: Iterable[Path], base: Path) -> list[str]:
        """A line a file, of its place below `base` and its digest, in order; temporary and hidden files left
        out."""
        everything = {p for folder in folders for p in folder.rglob("*") if p.is_file()}
        kept = sorted(p for p in everything if p.suffix not in TEMPORARY and p.name[0] != ".")
        return [f"{p.relative_to(base).as_posix()} {self.sha256(p)}" for p in kept]


@cache
def _program() -> str:
    """Digest of pkg_lib, of plug-ins and of the pinned versions."""
    sources = {p for p in (ROOT / "pkg_lib").rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    files = sorted(sources | {ROOT / "requirements.txt"})
    return digest(
        *(f"{p.relative_to(ROOT).as_posix()} {digest_of(p)}" for p in files), *map(digest_of, plugins())
    )


def made_from(source: Path, parameters: dict[str, Any], results: Path, files: Files) -> str:
    """The digest of what the notebook would be made from now; "" where that cannot be known.

    A corpus of the user's own (a directory, an installed package) may change at any time under its name. A
    parameter may name a file of the user's own, such as a price table.
    """
    texts = {n: v for n, v in sorted(parameters.items()) if isinstance(v, str)}
    if any(corpora.own(v) for n, v in texts.items() if n.endswith("corpus")):
        return ""
    paths = {n: Path(v) for n, v in texts.items() if Path(v).is_absolute() and len(Path(v).name) <= LONGEST}
    given = [f"{n} {digest_of(p)}" for n, p in paths.items() if p.is_file()]
    named = json.dumps(parameters, sort_keys=True)
    return digest(
        _program(), digest_of(source), named, *given, *files.below(inputs(results, parameters), results)
    )


def record(results: Path, stem: str) -> Path:
    """Where the digests of an executed notebook stand."""
    return results / "notebooks" / f"{stem}.made.json"


def _outputs(results: Path, stem: str) -> dict[str, str]:
    """What the notebook has left: the executed one, its tables and its figures."""
    left = [*results.glob(f"tables/{stem}.*"), *results.glob(f"figures/{stem}.*")]
    left += results.glob(f"notebooks/{stem}.ipynb")
    return {
        p.relative_to(results).as_posix(): digest_of(p) for p in sorted(left) if p.suffix not in TEMPORARY
    }


def unchanged(results: Path, stem: str, now: str) -> bool:
    """Whether the notebook was made from just this and everything that it left is still there as it was."""
    try:
        stored = json.loads(record(results, stem).read_text("utf8"))
    except (OSError, ValueError):
        return False  # never executed to its end, or a damaged record
    return bool(now) and stored == {"from": now, "outputs": _outputs(results, stem)}


def keep(results: Path, stem: str, now: str) -> None:
    """Records that the notebook ran to its end; write it last."""
    if now:
        write_json(record(results, stem), {"from": now, "outputs": _outputs(results, stem)})


def forget(results: Path, stem: str) -> None:
    """Takes the record away, of a notebook that failed."""
    record(results, stem).unlink(missing_ok=True)
