"""Decides whether an executed notebook is current, by contents and never by times.

A notebook is executed again if its source, its parameters, the program, a stored file that it may
read, or a file that it left has changed. Beside each executed notebook is the record of its last
execution:

    results/notebooks/STEM.made.json    {"from": digest, "outputs": {path below results/: SHA-256}}
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pkg_lib.core.reading import DamagedFileError
from pkg_lib.core.registry import plugins
from pkg_lib.core.store import (
    CACHE,
    cache_folder,
    package_digest,
    read_json,
    rows_sha256,
    sha256_of,
    write_json,
)
from pkg_lib.core.types import UserError, digest
from pkg_lib.data import corpora
from pkg_lib.data.corpus_spec import parse_corpus
from pkg_lib.evaluation.storage import (
    CONTEXTS,
    RUNS,
    benchmark_folders,
    sharing_completions,
)
from pkg_lib.evaluation.study import NotebookJob

# Folders below results/ that every notebook may read.
SHARED_INPUTS = ("replay", "benchmarks", "enhanced", "structured", "tasks", "repo_qa")
ALL_INPUTS = (CONTEXTS, CACHE, RUNS, "repo_tasks", "feedback", *SHARED_INPUTS)
LONGEST_FILE_NAME = 255  # characters; a longer text is not a path
TEMPORARY = (".tmp", ".part")  # suffixes of files that are being written


def inputs(parameters: dict[str, Any]) -> list[Path]:
    """List the folders below results/ that a notebook may read.

    Args:
        parameters: The values of the notebook's parameters.

    Returns:
        All folders for a notebook without a model. Otherwise the completions of the model, and the
        contexts and verdicts of its benchmark and corpus.
    """
    if "model" not in parameters:
        return [Path(name) for name in ALL_INPUTS]
    model = parameters["model"]
    corpus = parameters.get("corpus", "")
    folders = [cache_folder(Path(), model)]
    if "benchmark" in parameters:
        for benchmark in sharing_completions(parameters["benchmark"]):
            folders += benchmark_folders(model, benchmark, corpus)
    folders += [Path(name) for name in SHARED_INPUTS]
    return folders


def program_digest() -> str:
    """Return a digest of pkg_lib, of the pinned library versions and of the plug-ins."""
    plugin_digests = [sha256_of(path) for path in plugins()]
    return digest(package_digest(), *plugin_digests)


class Records:
    """Records of what notebooks were made from.

    An instance reads each stored file once, so it is used for one pass over the notebooks.

    Args:
        results: The results directory.
    """

    def __init__(self, results: Path) -> None:
        self.results = results
        self._file_digests: dict[Path, str] = {}
        self._corpus_digests: dict[str, str] = {}
        self._made_from: dict[str, str] = {}  # stem -> the digest that `is_current` computed

    def contents(self, folders: Iterable[Path]) -> list[str]:
        """Describe every stored file of some folders, except temporary and hidden files.

        Args:
            folders: Folders relative to the results directory.

        Returns:
            A line for each file: its path below the results directory, and its SHA-256.
        """
        files: set[Path] = set()
        for folder in folders:
            files.update((self.results / folder).rglob("*"))
        lines = []
        for path in sorted(files):
            if path.name.startswith(".") or path.suffix in TEMPORARY:
                continue
            if not path.is_file():
                continue
            if path not in self._file_digests:
                self._file_digests[path] = rows_sha256(path)
            name = path.relative_to(self.results).as_posix()
            lines.append(f"{name} {self._file_digests[path]}")
        return lines

    def made_from(self, job: NotebookJob) -> str:
        """Compute a digest of everything that an execution of a notebook would depend on.

        Args:
            job: The notebook. A file that one of its parameters names counts by its contents.

        Returns:
            The digest; "" if the documents of a user-supplied corpus are not known now.
        """
        named_files = []
        for name, value in sorted(job.parameters.items()):
            if not isinstance(value, str):
                continue
            if name.endswith("corpus") and parse_corpus(value).is_stored_graph:
                return ""
            if name.endswith("corpus") and corpora.own(value):
                documents = self._documents_digest(value)
                if not documents:
                    return ""
                named_files.append(f"{name} {documents}")
                continue
            path = Path(value)
            if len(path.name) > LONGEST_FILE_NAME:
                continue
            if path.is_absolute() and path.is_file():
                named_files.append(f"{name} {sha256_of(path)}")
        return digest(
            program_digest(),
            sha256_of(job.source),
            json.dumps(job.parameters, sort_keys=True),
            *named_files,
            *self.contents(inputs(job.parameters)),
        )

    def _documents_digest(self, corpus: str) -> str:
        """Return the digest of a user-supplied corpus; "" if it is missing."""
        if corpus not in self._corpus_digests:
            try:
                found = corpora.corpus_digest(corpora.load_corpus(corpus).documents)
            except UserError:
                found = ""
            self._corpus_digests[corpus] = found
        return self._corpus_digests[corpus]

    def is_current(self, job: NotebookJob) -> bool:
        """Tell whether an execution would only repeat what is stored.

        Args:
            job: The notebook.
        """
        made_from = self.made_from(job)
        self._made_from[job.stem] = made_from
        try:
            record = read_json(self._file(job))
        except DamagedFileError:  # the notebook never ran to its end, or its record is damaged
            return False
        if not made_from:
            return False
        return record == {"from": made_from, "outputs": self._outputs(job)}

    def keep(self, job: NotebookJob) -> None:
        """Record that a notebook ran to its end, after all its outputs are written.

        Args:
            job: The notebook, which `is_current` has seen before the execution.
        """
        made_from = self._made_from[job.stem]
        if made_from:
            write_json(self._file(job), {"from": made_from, "outputs": self._outputs(job)})

    def forget(self, job: NotebookJob) -> None:
        """Remove the record of a notebook that failed.

        Args:
            job: The notebook.
        """
        self._file(job).unlink(missing_ok=True)

    def _file(self, job: NotebookJob) -> Path:
        return self.results / "notebooks" / f"{job.stem}.made.json"

    def _outputs(self, job: NotebookJob) -> dict[str, str]:
        """Return path -> SHA-256 of the executed notebook, its tables and its figures."""
        outputs = {}
        for pattern in ("tables/{}.*", "figures/{}.*", "notebooks/{}.ipynb"):
            for path in self.results.glob(pattern.format(job.stem)):
                if path.suffix not in TEMPORARY and path.is_file():
                    name = path.relative_to(self.results).as_posix()
                    outputs[name] = sha256_of(path)
        return outputs
