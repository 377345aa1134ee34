"""What an executed notebook was made from, by contents: it is executed again only when that has changed.

results/notebooks/STEM.made.json    {"from": digest, "outputs": {path below results/: SHA-256}}
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pkg_lib.core.reading import Damaged
from pkg_lib.core.registry import plugins
from pkg_lib.core.store import package_digest, read_json, rows_sha256, sha256_of, slug, write_json
from pkg_lib.core.types import digest
from pkg_lib.data import corpora
from pkg_lib.evaluation.study import NotebookJob

SHARED = (
    "replay",
    "benchmarks",
    "enhanced",
    "structured",
    "tasks",
    "repo_qa",
)  # every notebook may read it
ALL = ("contexts", "generations", "evaluations", "repo_tasks", "feedback", *SHARED)
LONGEST = 255  # characters of a file's name; a longer text is no path
TEMPORARY = (".tmp", ".part")  # what a file is called while it is written


def inputs(parameters: dict[str, Any]) -> list[Path]:
    """The folders below results/ that a notebook with these parameters may read: all where it has no model.

    Else the model's completions on all benchmarks, and contexts and verdicts of its benchmark and corpus.
    """
    if "model" not in parameters:
        return list(map(Path, ALL))
    model, benchmark = slug(parameters["model"]), parameters.get("benchmark", "")
    places = [Path(benchmark, corpus) for corpus in ("none", slug(parameters.get("corpus", "")))]
    folders = [
        Path("generations", model),
        Path("evaluations", "controls", benchmark),
        *map(Path, SHARED),
    ]
    return folders + [
        f for p in places for f in (Path("contexts", p), Path("evaluations", model, p))
    ]


def program() -> str:
    """Digest of pkg_lib, of the pinned versions and of plug-ins."""
    return digest(package_digest(), *map(sha256_of, plugins()))


class Records:
    """What notebooks were made from, and would be made from now. A stored file is read once."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self._digests: dict[Path, str] = {}
        self._now: dict[str, str] = {}  # stem -> digest, as it was when `unchanged` looked

    def contents(self, folders: Iterable[Path]) -> list[str]:
        """Path below results/ and SHA-256 of each stored file of the folders, a line each."""
        stored = {p for f in folders for p in (self.results / f).rglob("*") if p.is_file()}
        kept = sorted(p for p in stored if p.suffix not in TEMPORARY and p.name[0] != ".")
        self._digests |= {p: rows_sha256(p) for p in kept if p not in self._digests}
        return [f"{p.relative_to(self.results).as_posix()} {self._digests[p]}" for p in kept]

    def made_from(self, job: NotebookJob) -> str:
        """The digest of what the notebook would be made from now, files that parameters name included.

        "" for a corpus of the user's own: it may change at any time under its name.
        """
        texts = {n: v for n, v in sorted(job.parameters.items()) if isinstance(v, str)}
        if any(corpora.own(v) for n, v in texts.items() if n.endswith("corpus")):
            return ""
        paths = {n: Path(v) for n, v in texts.items() if len(Path(v).name) <= LONGEST}
        given = [f"{n} {sha256_of(p)}" for n, p in paths.items() if p.is_absolute() and p.is_file()]
        named = json.dumps(job.parameters, sort_keys=True)
        files = self.contents(inputs(job.parameters))
        return digest(program(), sha256_of(job.source), named, *given, *files)

    def unchanged(self, job: NotebookJob) -> bool:
        """Whether the notebook was made from just this, and what it left is still there as it was."""
        now = self._now[job.stem] = self.made_from(job)
        try:
            stored = read_json(self._file(job))
        except Damaged:
            return False  # never executed to its end, or a damaged record
        return bool(now) and stored == {"from": now, "outputs": self._outputs(job)}

    def keep(self, job: NotebookJob) -> None:
        """Records that the notebook ran to its end, from what `unchanged` saw; write it last."""
        if now := self._now[job.stem]:
            write_json(self._file(job), {"from": now, "outputs": self._outputs(job)})

    def forget(self, job: NotebookJob) -> None:
        """Takes the record away, of a notebook that failed."""
        self._file(job).unlink(missing_ok=True)

    def _file(self, job: NotebookJob) -> Path:
        return self.results / "notebooks" / f"{job.stem}.made.json"

    def _outputs(self, job: NotebookJob) -> dict[str, str]:
        """What the notebook has left: the executed one, its tables and its figures."""
        patterns = (f"tables/{job.stem}.*", f"figures/{job.stem}.*", f"notebooks/{job.stem}.ipynb")
        left = sorted(p for pattern in patterns for p in self.results.glob(pattern))
        kept = [p for p in left if p.suffix not in TEMPORARY and p.is_file()]
        return {p.relative_to(self.results).as_posix(): sha256_of(p) for p in kept}
