"""Check sentences of the PKG paper against its own tables.

CHECKS is the table of checks. A check takes the arguments of a claim, its printed `cells` among them.
It returns one number for each way to read the sentence.
"""

from typing import Any

import pandas as pd

from pkg_lib.papers.claims.claim_tests import Checks, printed_error_changes
from pkg_lib.papers.claims.claims import first_version, table
from pkg_lib.papers.pkg.labels import table7_setting

IDEAL = "Ideal Reranker"
# Methods that choose among the solutions of others.
CHOOSING = ["Reranked", IDEAL]
BUILD_STEPS = [
    "Python Code Extraction",
    "Block Extraction",
    "Encoding",
    "Neo4j Graph Generation",
]
Args = dict[str, Any]
Readings = dict[str, float]


def _tables_of(args: Args) -> dict[str, pd.DataFrame]:
    """Return the tables and versions that a claim names, by label."""
    versions = args.get("versions", ["second"])
    tables = {}
    for version in versions:
        suffix = f", {version} version" if "first" in versions else ""
        for number in args["tables"]:
            tables[f"Table {number}{suffix}"] = table(number, version)
    return tables


# Differences between columns


def gap(args: Args) -> Readings:
    """Return how far a column is above another in Tables 1 to 4.

    Args:
        args: `column`, `against`, `tables`, and perhaps `versions` and one model as `row`.

    Returns:
        Label of a table -> the difference for the model, or its mean over the models.
    """
    column: str = args["column"]
    against: str = args["against"]
    row = args.get("row")
    gaps = {}
    for label, cells in _tables_of(args).items():
        difference = cells[column] - cells[against]
        if row:
            gaps[f"{label}, {row}"] = difference[row]
        else:
            gaps[label] = difference.mean()
    return gaps


def joint_gap(args: Args) -> Readings:
    """Return the mean of `gap` over the tables of each version.

    Args:
        args: Those of `gap`, with `versions`.

    Returns:
        Label of a version -> the mean difference.
    """
    means = {}
    for version in args["versions"]:
        gaps = gap(args | {"versions": [version]})
        mean = sum(gaps.values()) / len(gaps)
        means[f"{version} version, mean of the tables"] = float(mean)
    return means


def best_gap(args: Args) -> Readings:
    """Return how far a column's mean is above the best other one that does not choose candidates.

    Args:
        args: `column` and `tables`.

    Returns:
        Label of a table -> the difference of the means over the models.
    """
    column: str = args["column"]
    gaps: Readings = {}
    for label, cells in _tables_of(args).items():
        candidates = cells.drop(columns=CHOOSING, errors="ignore")
        means = candidates.mean()
        others = means.drop(column)
        gaps[label] = means[column] - others.max()
    return gaps


def largest_gap(args: Args) -> Readings:
    """Return the largest difference over the models, for sentences with "up to".

    Args:
        args: `column`, several `against`, `tables`. With `relative`, the largest over all tables is
            also given as a share.

    Returns:
        Reading -> the largest difference.
    """
    gaps = {}
    shares = []
    for label, cells in _tables_of(args).items():
        column = cells[args["column"]]
        for other in args["against"]:
            difference = column - cells[other]
            share = 100 * difference / cells[other]
            gaps[f"{label}, against {other}"] = difference
            shares.append(share)
    if not args.get("relative"):
        return {f"{label}, points": difference.max() for label, difference in gaps.items()}
    return {
        "all together, points": pd.concat(gaps.values()).max(),
        "all together, relative": pd.concat(shares).max(),
    }


def rerank_gap(args: Args) -> Readings:
    """Return what Reranked adds to the best other column.

    Args:
        args: `tables`.

    Returns:
        For each table, the difference between averages and that to each model's own best column.
    """
    readings = {}
    for label, cells in _tables_of(args).items():
        reranked = cells["Reranked"]
        others = cells.drop(columns=CHOOSING)
        best_average = others.mean().max()
        best_of_model = others.max(axis=1)
        readings[f"{label}, between averages"] = reranked.mean() - best_average
        readings[f"{label}, model by model"] = (reranked - best_of_model).mean()
    return readings


def code_or_text(args: Args) -> Readings:
    """Return what code adds over text to Code-LLMs, and text over code to the general model.

    Args:
        args: The `general` model.

    Returns:
        For each benchmark, both differences between Tables 1 and 3, or 2 and 4.
    """
    general = args["general"]
    readings = {}
    numbers = {
        "HumanEval": ("1", "3"),
        "MBPP": ("2", "4"),
    }
    for name, (code, text) in numbers.items():
        more = table(code)["Block-PKG"] - table(text)["JSON-PKG"]
        readings[f"{name}, {general}: text over code"] = -more[general]
        readings[f"{name}, Code-LLMs: code over text"] = more.drop(general).mean()
    return readings


# How often a sentence about rows or printed numbers holds


def rows_where(args: Args) -> Readings:
    """Count the rows of all tables in which one column is above another.

    Args:
        args: `higher`, `lower` and `tables`.

    Returns:
        The number of rows.
    """
    higher: str = args["higher"]
    lower: str = args["lower"]
    count = 0
    for cells in _tables_of(args).values():
        above = cells[higher] > cells[lower]
        count += int(above.sum())
    return {f"rows with {higher} above {lower}": count}


def bounded_rows(args: Args) -> Readings:
    """Count the rows of all tables in which no column is above the ideal reranker.

    Args:
        args: `tables`.

    Returns:
        The number of rows.
    """
    count = 0
    for cells in _tables_of(args).values():
        bounded = cells.max(axis=1) <= cells[IDEAL]
        count += int(bounded.sum())
    return {"rows that the ideal reranker bounds": count}


def averages_off(args: Args) -> Readings:
    """Count the printed averages that differ from those of the rows, at the printed precision.

    Args:
        args: `cells`, each with table, row, column and value.

    Returns:
        Label of a table -> the number of averages.
    """
    cells = pd.DataFrame(args["cells"], columns=["table", "row", "column", "printed"])
    computed = [
        table(number)[name].mean()
        for number, name in zip(cells["table"], cells["column"], strict=True)
    ]
    # The paper rounds a half up or down: both are the same number.
    differs = (cells["printed"] - computed).abs() > 0.05 + 1e-9
    counts = differs.groupby(cells["table"]).sum()
    return {f"Table {number}, averages that differ": count for number, count in counts.items()}


def numbers_off(args: Args) -> Readings:
    """Count the numbers of the text that differ from those of a table.

    Args:
        args: `table`, the `numbers` by row, and `what` they are. They are differences of `column` and
            `against`, or totals of the rows.

    Returns:
        The number of different ones.
    """
    cells = table(args["table"])
    printed = pd.Series(args["numbers"])
    computed = cells.sum(axis=1)
    if "column" in args:
        column: str = args["column"]
        against: str = args["against"]
        computed = cells[column] - cells[against]
    different = computed[printed.index] != printed
    return {f"{args['what']} that differ": different.sum()}


def version_cells(args: Args) -> Readings:
    """Count the cells that both versions of a table have with different values.

    Args:
        args: `tables`.

    Returns:
        Label of a table -> the number of cells.
    """
    counts: Readings = {}
    for number in args["tables"]:
        second = table(number)
        shared = [cell for cell in first_version(number) if cell[1] in second]
        differing = [value for row, column, value in shared if second.at[row, column] != value]
        counts[f"Table {number}, cells that differ"] = len(differing)
    return counts


# Tables 7 (errors) and 8 (cost) beside others and beside themselves


def error_changes(args: Args) -> Readings:
    """Return what Block-PKG changes in the number of one error (Table 7).

    Args:
        args: The `error`, and `sign`, which is -1 for "how many fewer".

    Returns:
        Label of a model -> the change.
    """
    changes = printed_error_changes(args["error"]) * args["sign"]
    return {f"Table 7, {model}": change for model, change in changes.items()}


def failures_left(args: Args) -> Readings:
    """Return the failed tasks of Table 2, at most, minus the errors of Table 7.

    Args:
        args: Number of `tasks`.

    Returns:
        Label of a setting -> the difference. Below 0 the tables contradict each other.
    """
    readings = {}
    for setting, errors in table("7").sum(axis=1).items():
        model, _, method = table7_setting(str(setting)).partition(" + ")
        rates = table("2")[method or "NoRAG"]
        passed = float(rates[model])
        failed = args["tasks"] * (100 - passed + 0.5) / 100
        readings[f"Tables 2 and 7, {setting}"] = failed - errors
    return readings


def sums_off(args: Args) -> Readings:
    """Return the sum of the steps of Table 8 minus the printed overall time, in minutes.

    Args:
        args: `versions` and `methods`.

    Returns:
        Label of a method and version -> the difference.
    """
    readings = {}
    for version in args["versions"]:
        cells = table("8", version)
        computed = cells[BUILD_STEPS].sum(axis=1)
        off = computed - cells["Overall Time"]
        for method in args["methods"]:
            readings[f"{method}, {version} version"] = off[method]
    return readings


def nested_blocks(args: Args) -> Readings:
    """Return the blocks inside blocks that the printed counts leave room for (Equations 1 and 2).

    Args:
        args: Not used.

    Returns:
        The number of nested blocks and of the others.
    """
    names = ["Nodes (code PKG)", "Relations (code PKG)", "Functions"]
    nodes, relations, functions = map(float, table("8").loc["PKG", names])
    blocks = nodes - 2 * functions  # nodes = 2 functions + blocks
    nested = relations - functions - blocks  # relations = functions + blocks + nested blocks
    return {"nested blocks": nested, "blocks that are not nested": blocks - nested}


CHECKS: Checks = {
    check.__name__: check
    for check in (
        gap,
        joint_gap,
        largest_gap,
        best_gap,
        rerank_gap,
        code_or_text,
        rows_where,
        bounded_rows,
        averages_off,
        numbers_off,
        version_cells,
        error_changes,
        failures_left,
        sums_off,
        nested_blocks,
    )
}
