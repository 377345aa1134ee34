"""Data sets of the Hugging Face hub, read at one commit, so that every run has the same rows.

The commits of known data sets are pinned here. For another data set, the first use asks the hub
for the commit of the main branch and records it in results/data_sets. Every later run with these
results reads that commit.
"""

import re
from typing import Any

from pkg_lib.core import hub
from pkg_lib.core.store import read_json, results_dir, results_path, slug, write_json
from pkg_lib.core.types import UserError

PINNED = {
    "code-rag-bench/online-tutorials": "095bb77130082e4690d6c3a031997b03487bf6e2",
    "evalplus/humanevalplus": "d32357cf319e50e9c8d8dab5ea876c72b0fd321b",
    "evalplus/mbppplus": "b2d74c91837c3f2a20c1299ae98133cbe7cfa077",
    "google-research-datasets/mbpp": "4bb6404fdc6cacfda99d4ac4205087b89d32030c",
}


def data_revision(
    repository: str,
    what: str,
    resolve: bool = True,
) -> str:
    """Return the commit at which a data set is read.

    Args:
        repository: The data set's name on the hub.
        what: What needs it, for messages.
        resolve: Whether to ask the hub if no commit is known, and to record the answer.

    Returns:
        The commit; "" if none is known and the hub is not asked.

    Raises:
        UserError: The hub does not answer, or a recorded commit is not one.
    """
    if repository in PINNED:
        return PINNED[repository]
    record = results_path() / "data_sets" / f"{slug(repository)}.json"
    if record.exists():
        revision = str(read_json(record, {"revision": str})["revision"])
        if not re.fullmatch(hub.COMMIT, revision):
            raise UserError(f"{record}: revision is not a commit (40 hex digits); correct it")
        return revision
    if not resolve:
        return ""
    revision = hub.data_commit(repository, what)
    results_dir()
    write_json(record, {"repository": repository, "revision": revision})
    return revision


def load_rows(
    what: str,
    repository: str,
    configuration: str = "",
    split: str = "",
) -> Any:
    """Load a data set of the hub at its commit.

    Args:
        what: What needs it, for messages.
        repository: The data set's name on the hub.
        configuration: Which of its configurations; "" for the only one.
        split: Which of its splits; "" for all.

    Returns:
        The rows of the split, or a mapping from the name of each split to its rows.

    Raises:
        UserError: The hub does not answer, or does not have this data set or commit.
        ImportError: The package datasets is not installed.
    """
    from datasets import load_dataset  # slow to import

    revision = data_revision(repository, what)
    names = [repository, configuration] if configuration else [repository]
    options = {"split": split} if split else {}
    try:
        return load_dataset(*names, revision=revision, **options)
    except (OSError, ValueError) as e:
        reason = str(e).strip().partition("\n")[0] or type(e).__name__
        place = f"the data set {repository} at commit {revision[:12]}"
        raise UserError(f"{what}: the Hugging Face hub does not serve {place} ({reason})") from e
