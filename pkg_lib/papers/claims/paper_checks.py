"""The paper beside its own tables: what follows from the printed cells, to be set against what the text says of them.

A check takes the arguments and the printed cells of a claim and gives readings: (how the sentence is read, the number that
follows). It runs nothing and needs no results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import pandas as pd

from pkg_lib.analysis.tables import HERE

Reading = tuple[str, float]
Cells = Sequence[Sequence[Any]]
FIRST, SECOND = "first", "second"
REFERENCE = {
    "1": ("pkg_table1_humaneval_code.csv", "model", "method", "pass_at_1_percent"),
    "2": ("pkg_table2_mbpp_code.csv", "model", "method", "pass_at_1_percent"),
    "3": ("pkg_table3_humaneval_text.csv", "model", "method", "pass_at_1_percent"),
    "4": ("pkg_table4_mbpp_text.csv", "model", "method", "pass_at_1_percent"),
    "5": ("pkg_table5_humaneval_closed.csv", "model", "method", "pass_at_1_percent"),
    "6": ("pkg_table6_mbpp_closed.csv", "model", "method", "pass_at_1_percent"),
    "7": ("pkg_table7_errors_mbpp.csv", "setting", "error_type", "count"),
    "8": ("pkg_table8_cost.csv", "method", "step", "value"),
    "9": ("pkg_table9_context_tokens.csv", "tokenizer", "method", "avg_tokens"),
}
CHOOSING = ("Reranked", "Ideal Reranker")
AVERAGE = "Avg."
# Table 7's names of models, and Table 2's.
SETTINGS = {
    "StarCoder-7B": "StarCoder2-7B",
    "CodeLlama-7B": "CodeLlama-7B",
    "DeepSeekCoder-7B": "DeepSeek-Coder-7B",
}


def table(number: str, version: str = SECOND) -> pd.DataFrame:
    """A published table as numbers, row x column, both in their printed order; NaN where it has no such cell.

    `version` "first" takes the cells that the first version of the paper prints otherwise, or alone.
    """
    wide = _second(number).copy()
    if version == FIRST:
        for other in first_version(number):
            wide.loc[other[0], other[1]] = other[2]
    return wide


@cache
def _second(number: str) -> pd.DataFrame:
    name, row, column, value = REFERENCE[number]
    cells = pd.read_csv(HERE / "reference" / name, keep_default_na=False)
    wide = cells.pivot(index=row, columns=column, values=value).astype(float)
    return wide.loc[cells[row].drop_duplicates(), cells[column].drop_duplicates()]


def first_version(number: str) -> list[tuple[str, str, float]]:
    """(row, column, value) of the cells of a table that stand only so in the first version."""
    cells = pd.read_csv(HERE / "reference" / "pkg_first_version.csv", dtype={"table": str})
    mine = cells[cells["table"] == number]
    return [
        (str(r), str(c), float(v)) for r, c, v in zip(mine["row"], mine["column"], mine["value"], strict=True)
    ]


def _tables(args: Mapping[str, Any]) -> Iterable[tuple[str, pd.DataFrame]]:
    """(label, table) for every table and version that a claim names."""
    versions = args.get("versions", [SECOND])
    for version in versions:
        for number in args["tables"]:
            label = f"Table {number}" + (f", {version} version" if versions != [SECOND] else "")
            yield label, table(number, version)


def mean_gap(args: Mapping[str, Any], _: Cells) -> list[Reading]:
    """A column's average over the models minus another's; `together`: averaged over the tables of a version."""
    found = [(label, float((t[args["column"]] - t[args["against"]]).mean())) for label, t in _tables(args)]
    if not args.get("together"):
        return found
    size = len(args["tables"])
    parts = [found[i : i + size] for i in range(0, len(found), size)]
    named = zip(args.get("versions", [SECOND]), parts, strict=True)
    return [(f"{v} version, mean of the tables", sum(g for _, g in part) / size) for v, part in named]


def row_gap(args: Mapping[str, Any], _: Cells) -> list[Reading]:
    """One model's difference of two columns."""
    row, a, b = args["row"], args["column"], args["against"]
    return [(f"{label}, {row}", float(t.at[row, a] - t.at[row, b])) for label, t in _tables(args)]


def largest_gap(args: Mapping[str, Any], _: Cells) -> list[Reading]:
    """The largest difference over models and columns ("up to"), against each baseline by itself or all `together`.

    `relative` reads the percent sign a second way: as a share of the baseline.
    """
    if len(args["tables"]) > 1 or args.get("together"):
        groups = [("all together", [t for _, t in _tables(args)], args["against"])]
    else:
        groups = [(f"{label}, against {b}", [t], [b]) for label, t in _tables(args) for b in args["against"]]
    found = [
        (f"{label}, points", _largest(tables, args["columns"], base, False)) for label, tables, base in groups
    ]
    if args.get("relative"):
        found += [
            (f"{label}, relative", _largest(tables, args["columns"], base, True))
            for label, tables, base in groups
        ]
    return found


def _largest(
    tables: Iterable[pd.DataFrame], columns: Sequence[str], bases: Sequence[str], relative: bool
) -> float:
    gaps = [(t[c] - t[b]) / (t[b] / 100 if relative else 1) for t in tables for c in columns for b in bases]
    return float(pd.concat(gaps).max())


def best_gap(args: Mapping[str, Any], _: Cells) -> list[Reading]:
    """The average of a column minus that of the best other column, those that choose among candidates left out."""
    found = []
    for label, t in _tables(args):
        means = t.drop(columns=[c for c in CHOOSING if c in t]).mean()
        found.append((label, float(means[args["column"]] - means.drop(args["column"]).max())))
    return found


def rerank_gap(args: Mapping[str, Any], _: Cells) -> list[Reading]:
    """What Reranked adds to the best column without it: between averages, or to each model's own best, averaged."""
    found = []
    for label, t in _tables(args):
        others = t.drop(columns=list(CHOOSING))
        found.append((f"{label}, between averages", float(t["Reranked"].mean() - others.mean().max())))
        found.append((f"{label}, model by model", float((t["Reranked"] - others.max(axis=1)).mean())))
    return found


def rows_where(args: Mapping[str, Any], _: Cells) -> list[Reading]:
    """In how many rows of all tables one column is strictly above another."""
    higher, lower = args["higher"], args["lower"]
    rows = sum(int((t[higher] > t[lower]).sum()) for _, t in _tables(args))
    return [(f"rows with {higher} above {lower}", float(rows))]


def bounded_rows(args: Mapping[str, Any], _: Cells) -> list[Reading]:
    """In how many rows no column is above the ideal reranker."""
    rows = sum(int((t.max(axis=1) <= t[CHOOSING[-1]]).sum()) for _, t in _tables(args))
    return [("rows that the ideal reranker bounds", float(rows))]


def averages_off(_: Mapping[str, Any], cells: Cells) -> list[Reading]:
    """How many of the printed averages differ from those of the rows, at the printed precision; one reading a table."""
    off = {number: 0 for number, *_ in cells}
    for number, _, column, value in cells:
        # The paper rounds a half up or down: both are the same number.
        off[number] += abs(float(table(number)[column].mean()) - value) > 0.05 + 1e-9
    return [(f"Table {number}, averages that differ", float(n)) for number, n in off.items()]


def gaps_off(args: Mapping[str, Any], _: Cells) -> list[Reading]:
    """How many of the differences that the text prints, model by model, differ from the table's."""
    t = table(args["table"])
    gaps = t[args["column"]] - t[args["against"]]
    return [("differences that differ", float(sum(gaps[m] != g for m, g in args["gaps"].items())))]


def totals_off(args: Mapping[str, Any], _: Cells) -> list[Reading]:
    """How many of the printed totals of Table 7 differ from the sums of its columns."""
    sums = table("7").sum(axis=1)
    return [("totals that differ", float(sum(sums[s] != n for s, n in args["totals"].items())))]


def error_changes(args: Mapping[str, Any], _: Cells) -> list[Reading]:
    """What Block-PKG changes in the number of one error (`sign` -1: how many fewer), model by model of Table 7."""
    counts = table("7")[args["error"]]
    return [
        (f"Table 7, {m}", float(args["sign"] * (counts[f"{m} + Block-PKG"] - counts[m]))) for m in SETTINGS
    ]


def failures_left(args: Mapping[str, Any], _: Cells) -> list[Reading]:
    """Failed tasks by Table 2 (at most, since it is rounded to a percent) minus the errors that Table 7 counts.

    Below 0 both cannot be true: more solutions raised than failed.
    """
    rates, errors, found = table("2"), table("7").sum(axis=1), []
    for setting, count in errors.items():
        model, _, column = str(setting).partition(" + ")
        most = args["tasks"] * (100 - rates.at[SETTINGS[model], column or "None"] + 0.5) / 100
        found.append((f"Tables 2 and 7, {setting}", float(most - count)))
    return found


def sums_off(args: Mapping[str, Any], _: Cells) -> list[Reading]:
    """The sum of the steps of Table 8 minus the printed overall time, in minutes."""
    steps, found = ["Python Code Extraction", "Block Extraction", "Encoding", "Neo4j Graph Generation"], []
    for version in args["versions"]:
        t = table("8", version)
        found += [
            (f"{m}, {version} version", float(t.loc[m, steps].sum() - t.at[m, "Overall Time"]))
            for m in args["methods"]
        ]
    return found


def nested_blocks(_: Mapping[str, Any], __: Cells) -> list[Reading]:
    """Blocks inside blocks that Equations 1 and 2 leave room for, from the printed counts.

    Nodes = 2 functions + blocks; relations = functions + blocks + nested blocks, and at most every block is nested.
    """
    t = table("8").loc["PKG"]
    functions, nodes, relations = t["Functions"], t["Nodes (code PKG)"], t["Relations (code PKG)"]
    blocks = nodes - 2 * functions
    nested = relations - functions - blocks
    return [("nested blocks", float(nested)), ("blocks that are not nested", float(blocks - nested))]


def code_or_text(args: Mapping[str, Any], _: Cells) -> list[Reading]:
    """Points that code gives more than text (Block-PKG, JSON-PKG) to Code-LLMs, and text more than code to the general one."""
    found = []
    for name, code, text in (("HumanEval", "1", "3"), ("MBPP", "2", "4")):
        more = table(code)["Block-PKG"] - table(text)["JSON-PKG"]
        found.append((f"{name}, {args['general']}: text over code", float(-more[args["general"]])))
        found.append((f"{name}, Code-LLMs: code over text", float(more.drop(args["general"]).mean())))
    return found


def version_cells(args: Mapping[str, Any], _: Cells) -> list[Reading]:
    """How many cells that stand in both versions of a table are not the same."""
    found = []
    for number in args["tables"]:
        second = table(number)
        off = sum(
            column in second and second.at[row, column] != value
            for row, column, value in first_version(number)
        )
        found.append((f"Table {number}, cells that differ", float(off)))
    return found


CHECKS: dict[str, Callable[[Mapping[str, Any], Cells], list[Reading]]] = {
    f.__name__: f
    for f in (
        mean_gap,
        row_gap,
        largest_gap,
        best_gap,
        rerank_gap,
        rows_where,
        bounded_rows,
        averages_off,
        gaps_off,
        totals_off,
        error_changes,
        failures_left,
        sums_off,
        nested_blocks,
        code_or_text,
        version_cells,
    )
}
