"""Tables of numbers beside the published ones, and the results that were recorded under a name."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.tables import DASH, HERE, MINUS
from pkg_lib.core.store import read_json, results_dir
from pkg_lib.core.types import UserError
from pkg_lib.papers.dkb.repository_study import RepositoryStudy, folder_of

NAN = float("nan")
UNKNOWN = f"{DASH} not measured, or no such number."
# Repositories that were studied. Where results have none of them, they are shown as not measured.
STUDIED = ("java.net.http", "openjdk-17", "openmrs-core", "shopizer")
# The paper's own repositories: the name of the record -> the name as published.
PAPER_REPOSITORIES = {"shopizer": "Shopizer", "openmrs-core": "OpenMRS Core"}
Index = dict[str, Any]
Rows = dict[str, list[Any]]


def number_cell(value: Any, digits: int) -> str:
    """Print a number.

    Args:
        value: The number; NaN means that it was not measured.
        digits: Number of decimals.

    Returns:
        Text such as "1,200.5"; an en dash for NaN.
    """
    if pd.isna(value):
        return DASH
    return f"{value:,.{digits}f}".replace("-", MINUS)


def number_table(
    title: str,
    index: str,
    columns: Sequence[str],
    digits: str,
    rows: Mapping[str, Sequence[Any]],
    *notes: str,
) -> ResultTable:
    """Tabulate numbers.

    Args:
        title: The table's title.
        index: What the names of the rows are.
        columns: Names of the columns.
        digits: Number of decimals of each column, a digit each.
        rows: Name of a row -> its numbers. Text stays as it is.
        *notes: Sentences below the table.

    Returns:
        The table.
    """
    texts = {}
    for name, row in rows.items():
        cells = []
        for value, places in zip(row, digits, strict=True):
            is_text = isinstance(value, str)
            cells.append(value if is_text else number_cell(value, int(places)))
        texts[name] = cells
    return ResultTable.of(title, texts, columns, index, *notes)


def published_rows(table: str) -> Iterator[Any]:
    """Read the numbers of a table as the paper prints them.

    Args:
        table: Name of a file in analysis/reference, such as "table1_indexing".

    Returns:
        One named tuple per row.
    """
    frame = pd.read_csv(HERE / "reference" / f"dkb_{table}.csv")
    return iter(frame.itertuples())


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
    if name not in STUDIED:
        paths = results_dir().glob(f"repo_qa/*/{what}.json")
        known = sorted(path.parent.name for path in paths)
        names = ", ".join(known or STUDIED)
        raise UserError(f"no {what} of {name} is recorded; choose from: {names}, or use --record")
    return None


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
