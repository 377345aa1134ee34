"""The paper beside its own tables: what follows from the printed cells, beside what the text says of them.

A check takes a claim's arguments and printed cells and gives readings: how the sentence is read -> the
number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from pkg_lib.analysis.tables import HERE

Args = Mapping[str, Any]
Cells = Sequence[Sequence[Any]]
Readings = dict[str, float]
SECOND = "second"
PASS_RATES = ("model", "method", "pass_at_1_percent")
REFERENCE = {
    "1": ("pkg_table1_humaneval_code.csv", *PASS_RATES),
    "2": ("pkg_table2_mbpp_code.csv", *PASS_RATES),
    "3": ("pkg_table3_humaneval_text.csv", *PASS_RATES),
    "4": ("pkg_table4_mbpp_text.csv", *PASS_RATES),
    "5": ("pkg_table5_humaneval_closed.csv", *PASS_RATES),
    "6": ("pkg_table6_mbpp_closed.csv", *PASS_RATES),
    "7": ("pkg_table7_errors_mbpp.csv", "setting", "error_type", "count"),
    "8": ("pkg_table8_cost.csv", "method", "step", "value"),
    "9": ("pkg_table9_context_tokens.csv", "tokenizer", "method", "avg_tokens"),
}
IDEAL = "Ideal Reranker"
CHOOSING = ("Reranked", IDEAL)
# Table 7's names of models, and Table 2's.
MODELS_7 = {
    "StarCoder-7B": "StarCoder2-7B",
    "CodeLlama-7B": "CodeLlama-7B",
    "DeepSeekCoder-7B": "DeepSeek-Coder-7B",
}
STEPS_8 = ["Python Code Extraction", "Block Extraction", "Encoding", "Neo4j Graph Generation"]


@cache
def table(number: str, version: str = SECOND) -> pd.DataFrame:
    """A published table as numbers, row x column, in printed order; NaN where it has no such cell."""
    name, row, column, value = REFERENCE[number]
    cells = pd.read_csv(HERE / "reference" / name, keep_default_na=False)
    wide = cells.pivot(index=row, columns=column, values=value).astype(float)
    wide = wide.loc[cells[row].drop_duplicates(), cells[column].drop_duplicates()]
    for r, c, v in first_version(number) if version == "first" else ():
        wide.loc[r, c] = v
    return wide


def first_version(number: str) -> list[tuple[str, str, float]]:
    """(row, column, value) of the cells of a table that stand only so in the first version."""
    cells = pd.read_csv(HERE / "reference" / "pkg_first_version.csv", dtype={"table": str, "value": float})
    return list(cells.loc[cells["table"] == number, ["row", "column", "value"]].itertuples(False, None))


def _tables(args: Args) -> dict[str, pd.DataFrame]:
    """label -> table, for every table and version that a claim names."""
    versions = args.get("versions", [SECOND])
    named = {v: f", {v} version" if versions != [SECOND] else "" for v in versions}
    return {f"Table {n}{named[v]}": table(n, v) for v in versions for n in args["tables"]}


def _gap(args: Args, rates: pd.DataFrame) -> pd.Series:
    return rates[args["column"]] - rates[args["against"]]


def largest_gap(args: Args, _: Cells) -> Readings:
    """The largest difference over models and columns ("up to"), in points and if `relative` as a share."""
    groups = {"all together": ([*_tables(args).values()], args["against"])}
    if len(args["tables"]) == 1:
        named = _tables(args).items()
        groups = {f"{label}, against {b}": ([t], [b]) for label, t in named for b in args["against"]}
    readings = {}
    for reading in ("points", "relative")[: 1 + args.get("relative", False)]:
        for label, (tables, bases) in groups.items():
            triples = [(t, c, b) for t in tables for c in args["columns"] for b in bases]
            gaps = [(t[c] - t[b]) / (t[b] / 100 if reading == "relative" else 1) for t, c, b in triples]
            readings[f"{label}, {reading}"] = pd.concat(gaps).max()
    return readings


def best_gap(args: Args, _: Cells) -> Readings:
    """The average of a column minus that of the best other one that does not choose among candidates."""
    means = {n: t.drop(columns=[*CHOOSING], errors="ignore").mean() for n, t in _tables(args).items()}
    return {n: m[args["column"]] - m.drop(args["column"]).max() for n, m in means.items()}


def rerank_gap(args: Args, _: Cells) -> Readings:
    """What Reranked adds to the best other column: between averages, or to each model's own best."""
    readings = {}
    for label, t in _tables(args).items():
        others = t.drop(columns=[*CHOOSING])
        readings[f"{label}, between averages"] = t["Reranked"].mean() - others.mean().max()
        readings[f"{label}, model by model"] = (t["Reranked"] - others.max(axis=1)).mean()
    return readings


def averages_off(_: Args, cells: Cells) -> Readings:
    """How many of the printed averages differ from those of the rows, at the printed precision."""
    off: dict[str, int] = {}
    for number, _row, column, value in cells:
        # The paper rounds a half up or down: both are the same number.
        differs = abs(table(number)[column].mean() - value) > 0.05 + 1e-9
        off[number] = off.get(number, 0) + differs
    return {f"Table {number}, averages that differ": count for number, count in off.items()}


def failures_left(args: Args, _: Cells) -> Readings:
    """Failed tasks by Table 2 (at most) minus Table 7's errors; below 0 both cannot be true."""
    readings = {}
    for setting, errors in table("7").sum(axis=1).items():
        model, _, column = str(setting).partition(" + ")
        most = args["tasks"] * (100 - table("2").at[MODELS_7[model], column or "None"] + 0.5) / 100
        readings[f"Tables 2 and 7, {setting}"] = most - errors
    return readings


def nested_blocks(_: Args, __: Cells) -> Readings:
    """Blocks inside blocks that the printed counts leave room for (Equations 1 and 2).

    Nodes = 2 functions + blocks; relations = functions + blocks + nested blocks.
    """
    counts = table("8").loc["PKG"]
    blocks = counts["Nodes (code PKG)"] - 2 * counts["Functions"]
    nested = counts["Relations (code PKG)"] - counts["Functions"] - blocks
    return {"nested blocks": nested, "blocks that are not nested": blocks - nested}


def code_or_text(args: Args, _: Cells) -> Readings:
    """Points that code gives more than text to Code-LLMs, and text more than code to the general one."""
    general, readings = args["general"], {}
    for name, code, text in (("HumanEval", "1", "3"), ("MBPP", "2", "4")):
        more = table(code)["Block-PKG"] - table(text)["JSON-PKG"]
        readings[f"{name}, {general}: text over code"] = -more[general]
        readings[f"{name}, Code-LLMs: code over text"] = more.drop(general).mean()
    return readings


CHECKS: dict[str, Callable[[Args, Cells], Readings]] = {
    f.__name__: f
    for f in (largest_gap, best_gap, rerank_gap, averages_off, failures_left, nested_blocks, code_or_text)
} | {
    # A column's average over the models minus another's; averaged over the tables of a version; of one model.
    "mean_gap": lambda args, _: {label: _gap(args, t).mean() for label, t in _tables(args).items()},
    "joint_gap": lambda args, _: {
        f"{v} version, mean of the tables": np.mean([_gap(args, table(n, v)).mean() for n in args["tables"]])
        for v in args["versions"]
    },
    "row_gap": lambda args, _: {
        f"{label}, {args['row']}": _gap(args, t)[args["row"]] for label, t in _tables(args).items()
    },
    # In how many rows of all tables one column is above another; or no column is above the ideal reranker.
    "rows_where": lambda args, _: {
        f"rows with {args['higher']} above {args['lower']}": sum(
            (t[args["higher"]] > t[args["lower"]]).sum() for t in _tables(args).values()
        )
    },
    "bounded_rows": lambda args, _: {
        "rows that the ideal reranker bounds": sum(
            (t.max(axis=1) <= t[IDEAL]).sum() for t in _tables(args).values()
        )
    },
    # How many of the differences, or of the totals of Table 7, that the text prints differ from the table's.
    "gaps_off": lambda args, _: {
        "differences that differ": sum(
            _gap(args, table(args["table"]))[m] != n for m, n in args["gaps"].items()
        )
    },
    "totals_off": lambda args, _: {
        "totals that differ": sum(table("7").loc[s].sum() != n for s, n in args["totals"].items())
    },
    # What Block-PKG changes in the number of one error (`sign` -1: how many fewer), by model of Table 7.
    "error_changes": lambda args, _: {
        f"Table 7, {m}": args["sign"] * (n[f"{m} + Block-PKG"] - n[m])
        for n in [table("7")[args["error"]]]
        for m in MODELS_7
    },
    # The sum of the steps of Table 8 minus the printed overall time, in minutes.
    "sums_off": lambda args, _: {
        f"{m}, {v} version": t.loc[m, STEPS_8].sum() - t.at[m, "Overall Time"]
        for v in args["versions"]
        for t in [table("8", v)]
        for m in args["methods"]
    },
    # How many cells that stand in both versions of a table are not the same.
    "version_cells": lambda args, _: {
        f"Table {n}, cells that differ": sum(
            c in t and t.at[r, c] != value for r, c, value in first_version(n)
        )
        for n in args["tables"]
        for t in [table(n)]
    },
}
