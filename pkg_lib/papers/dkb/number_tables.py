"""Tables of numbers beside the published ones, and the results that were recorded under a name."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.tables import DASH, number, reference_table
from pkg_lib.core.store import read_json, results_dir
from pkg_lib.core.types import UserError
from pkg_lib.papers.dkb.repository_study import RepositoryStudy, folder_of

NAN = float("nan")
UNKNOWN = f"{DASH} not measured, or no such number."
# Repositories that were studied. Where results have none of them, they are shown as not measured.
STUDIED = ("java.net.http", "openjdk-17", "openmrs-core", "shopizer", "thingsboard")
# The paper's own repositories: the name of the record -> the name as published.
PAPER_REPOSITORIES = {
    "shopizer": "Shopizer",
    "thingsboard": "ThingsBoard",
    "openmrs-core": "OpenMRS Core",
}
OWN_REPOSITORY = "shop"  # written for this study
Index = dict[str, Any]  # the content of index.json
Rows = dict[str, Sequence[Any]]


def shown_name(repository: str) -> str:
    """Return the name of a repository as tables and sentences show it.

    Args:
        repository: Its name in the results, such as "shopizer".
    """
    names = {**PAPER_REPOSITORIES, OWN_REPOSITORY: "small shop", "openjdk-17": "OpenJDK 17"}
    return names.get(repository, repository)


def number_table(
    title: str,
    index: str,
    columns: Mapping[str, int],
    rows: Mapping[str, Sequence[Any]],
    *notes: str,
) -> ResultTable:
    """Tabulate numbers.

    Args:
        title: The table's title.
        index: What the names of the rows are.
        columns: Name of a column -> number of its decimals.
        rows: Name of a row -> its numbers. Text stays as it is.
        *notes: Sentences below the table.

    Returns:
        The table. NaN is printed as an en dash. A row without any number is named below the table instead.
    """
    texts = {}
    for name, row in rows.items():
        cells = []
        for value, digits in zip(row, columns.values(), strict=True):
            cell = value if isinstance(value, str) else number(value, digits)
            cells.append(cell)
        texts[name] = cells
    return ResultTable.of(title, texts, list(columns), index, *notes).without_empty_rows()


def published_rows(table: str) -> Iterator[Any]:
    """Read the numbers of a table as the paper prints them.

    Args:
        table: Name of a file in analysis/reference without "dkb_", such as "table1_indexing".

    Returns:
        One named tuple per row.
    """
    return iter(reference_table(f"dkb_{table}").itertuples())


class GraphSize(NamedTuple):
    """The size of a recorded graph.

    Attributes:
        nodes: Number of types.
        edges: Number of references.
        skipped: Number of files that could not be parsed.
        chunks: Number of chunks of files with a node.
    """

    nodes: int
    edges: int
    skipped: int
    chunks: int


def graph_size(index: Index, mode: str) -> GraphSize:
    """Return the size of a recorded graph.

    Args:
        index: What was recorded of the repository.
        mode: One of MODES.

    Returns:
        The size.
    """
    graph = index["graphs"][mode]
    return GraphSize(
        nodes=sum(graph["nodes"].values()),
        edges=sum(graph["edges"].values()),
        skipped=sum(graph["skipped"].values()),
        chunks=graph["chunks_of_files_with_a_node"],
    )


def recorded(name: str, what: str) -> dict[str, Any] | None:
    """Read what was recorded of a repository.

    Args:
        name: Name of the repository.
        what: "index" or "evidence".

    Returns:
        The content; None if a repository of STUDIED was not measured.

    Raises:
        UserError: Nothing is recorded under another name.
    """
    path = folder_of(results_dir(), name) / f"{what}.json"
    if path.exists():
        content: dict[str, Any] = read_json(path)
        return content
    if name in STUDIED:
        return None
    paths = results_dir().glob(f"repo_qa/*/{what}.json")
    known = sorted(path.parent.name for path in paths)
    names = ", ".join(known or STUDIED)
    raise UserError(f"no {what} of {name} is recorded; choose from: {names}, or use --record")


def recorded_indexes(study: RepositoryStudy, large: str) -> list[Index]:
    """Return the measured graphs: of the study, of a large repository, and of the paper's own.

    Args:
        study: A repository with its questions.
        large: Name of the large repository.

    Returns:
        The content of each index.json that is stored.

    Raises:
        UserError: Nothing is recorded under the name.
    """
    indexes = [study.index]
    indexes += [recorded(name, "index") for name in (large, *PAPER_REPOSITORIES)]
    return [index for index in indexes if index]


def recorded_evidence(name: str) -> dict[str, Any] | None:
    """Return the measured contexts of a repository.

    Args:
        name: Name of the repository.

    Returns:
        What `evidence_of` returns; None if a repository of STUDIED was not measured.

    Raises:
        UserError: Nothing is recorded under another name.
    """
    evidence = recorded(name, "evidence")
    if not evidence:
        return None
    for table in ("rows", "variants"):
        evidence[table] = pd.DataFrame(**evidence[table])
    return evidence | {"repository": name}
