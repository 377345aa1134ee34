"""Figure 6: which tasks each approach solves, alone and together, and what each adds to the Ideal reranker.

A region is a set of columns: the tasks that exactly these solve. Only tasks measured in all the columns are counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import pandas as pd

from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.stats import wilson
from pkg_lib.analysis.tables import DASH, HERE, TITLES, complete, kind, percent, single
from pkg_lib.core.types import UserError

FIGURE6 = {"code": ("None", "Func-BM25", "Block-PKG"), "text": ("None", "BM25", "JSON-PKG")}
NOBODY = "no column"
MODEL = "CodeLlama-7B"  # the one whose counts the caption of Figure 6 prints
Region = frozenset[str]


def measured(verdicts: pd.DataFrame) -> list[str]:
    """The columns with a prompt of their own that have a verdict, in the order of the tables."""
    frame = complete(verdicts)
    return [c for c in single(frame) if frame[c].notna().any()]


def chosen(verdicts: pd.DataFrame, sets: str) -> list[str]:
    """The measured columns of `sets` (joined by "+"; "" for Figure 6's), two or three; UserError for anything else."""
    frame = complete(verdicts)
    wanted = sets.split("+") if sets else list(FIGURE6[kind(frame)])
    strange = [c for c in wanted if c not in single(frame)]
    if sets and strange:
        raise UserError(
            f"no column '{strange[0]}' here; sets takes two or three of: {', '.join(single(frame))}"
        )
    if len(set(wanted)) != len(wanted) or not 2 <= len(wanted) <= 3:
        raise UserError(f"sets must name two or three different columns joined by '+', not '{sets}'")
    return [c for c in wanted if c in measured(frame)]


def solved(verdicts: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """bool [task, column], over the tasks that are measured in all the columns."""
    return complete(verdicts)[list(columns)].dropna().astype(bool)


def regions(passed: pd.DataFrame) -> dict[Region, list[str]]:
    """Every set of columns -> ids of the tasks that exactly these solve; empty regions too."""
    found: dict[Region, list[str]] = {
        _region(passed.columns, row): [] for row in product([True, False], repeat=passed.shape[1])
    }
    for task, row in zip(passed.index, passed.to_numpy(), strict=True):
        found[_region(passed.columns, row)].append(str(task))
    return found


def _region(columns: Sequence[str], row: Sequence[bool]) -> Region:
    return frozenset(c for c, inside in zip(columns, row, strict=True) if inside)


def by_chance(passed: pd.DataFrame, region: Region) -> float:
    """Tasks expected in the region if each column solved as many tasks as it does, but independently of the others."""
    rates = passed.mean()
    return float(len(passed) * np.prod([rates[c] if c in region else 1 - rates[c] for c in passed]))


def named(region: Region, columns: Sequence[str]) -> str:
    """A region in words, its columns in their order."""
    return " + ".join(c for c in columns if c in region) or NOBODY


def published(columns: Sequence[str], benchmark: str) -> dict[Region, int]:
    """The counts that the caption of Figure 6 prints, for its benchmark and its three columns; empty otherwise."""
    rows = pd.read_csv(HERE / "reference" / "pkg_figure6_overlap.csv", keep_default_na=False)
    rows = rows[rows["benchmark"] == TITLES.get(benchmark)]
    return (
        {frozenset(r.only.split("+")): int(r.count) for r in rows.itertuples(index=False)}
        if _is6(columns)
        else {}
    )


def _is6(columns: Sequence[str]) -> bool:
    return set(columns) == set(FIGURE6["code"])


def region_grid(passed: pd.DataFrame, benchmark: str) -> Grid:
    """The regions of the Venn diagram: count, share with its interval, what independence would give, the paper's count."""
    theirs, rows = published(list(passed), benchmark), {}
    for region, tasks in regions(passed).items():
        low, high = wilson(len(tasks), len(passed)) or (None, None)
        bounds = f"{percent(low)} to {percent(high)}" if len(passed) else DASH
        share = percent(len(tasks) / len(passed)) if len(passed) else DASH
        chance = f"{by_chance(passed, region):.1f}" if len(passed) else DASH
        count = str(len(tasks)) if len(passed) else DASH
        rows[named(region, list(passed))] = [count, share, bounds, chance, str(theirs.get(region, DASH))]
    columns = ["tasks", "%", "95 % interval", "by chance", f"published ({MODEL})"]
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("solved by exactly")
    notes = (
        f"{len(passed)} tasks, those measured in all of the columns. By chance: expected if each column solved as many tasks as "
        "it does, independently of the others.",
        f"{DASH} not printed in the paper, which names three regions of one model on HumanEval (Figure 6).",
    )
    return Grid(f"Tasks by the approaches that solve them, {TITLES.get(benchmark, benchmark)}", frame, notes)


def intersections(passed: pd.DataFrame) -> list[tuple[Region, list[str]]]:
    """The regions that hold a task and are solved by someone, largest first; then fewer columns, then their order."""
    order = {c: i for i, c in enumerate(passed)}
    found = [(r, t) for r, t in regions(passed).items() if r and t]
    return sorted(found, key=lambda pair: (-len(pair[1]), len(pair[0]), sorted(order[c] for c in pair[0])))


def intersection_grid(passed: pd.DataFrame) -> Grid:
    """Every set of columns that solves a task, largest first, and the tasks that no column solves."""
    found = [*intersections(passed), (frozenset(), regions(passed)[frozenset()])]
    rows = {
        named(r, list(passed)): [str(len(t)), f"{by_chance(passed, r):.1f}" if len(passed) else DASH]
        for r, t in found
    }
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=["tasks", "by chance"]).rename_axis(
        "solved by exactly"
    )
    return Grid(
        f"Intersections of {len(passed.columns)} columns",
        frame,
        (f"{len(passed)} tasks measured in all of them.",),
    )


def alone_grid(passed: pd.DataFrame) -> Grid:
    """Of each column: tasks solved, those that no other column solves with their ids, and how many chance would leave it."""
    found, rows = regions(passed), {}
    for column in passed:
        tasks = found[frozenset({column})]
        rows[column] = [
            str(int(passed[column].sum())),
            str(len(tasks)),
            f"{by_chance(passed, frozenset({column})):.1f}",
            ", ".join(t.rpartition("/")[2] for t in tasks) or "none",
        ]
    columns = ["solved", "alone", "alone by chance", "tasks solved by no other column"]
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("column")
    note = f"{len(passed)} tasks measured in all {len(passed.columns)} columns, named by their numbers."
    return Grid("Solved by one column alone", frame, (note,))


def greedy(passed: pd.DataFrame) -> list[tuple[str, int, int]]:
    """(column, tasks it adds, solved so far), taking at each step the column that adds most; ties in the tables' order."""
    steps, done, left = [], np.zeros(len(passed), bool), list(passed)
    while left:
        best = max(left, key=lambda c: int((passed[c] & ~done).sum()))
        added = int((passed[best] & ~done).sum())
        done = done | passed[best].to_numpy()
        steps.append((best, added, int(done.sum())))
        left.remove(best)
    return steps


def greedy_grid(passed: pd.DataFrame) -> Grid:
    """How Ideal is made up: the best column, then at each step the one that adds most of what is left."""
    rows, left = {}, 1.0
    for place, (column, added, so_far) in enumerate(greedy(passed), 1):
        solves = int(passed[column].sum())
        reach, chance = (
            (percent(so_far / len(passed)), f"{solves * left:.1f}") if len(passed) else (DASH, DASH)
        )
        rows[f"{place}. {column}"] = [str(solves), str(added), chance, str(so_far), reach]
        left *= 1 - solves / max(1, len(passed))
    columns = ["solves", "adds", "would add by chance", "solved so far", "% of tasks"]
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("column")
    note = "The last number solved so far is Ideal of these columns. By chance: as many tasks, independently of the others."
    return Grid("What each column adds to Ideal", frame, (note,))


def caption(passed: pd.DataFrame) -> str:
    """What the Venn diagram shows, in words."""
    parts = [f"{named(r, list(passed))} {len(t)}" for r, t in regions(passed).items()]
    return f"Tasks solved by exactly: {', '.join(parts)}." if len(passed) else "Nothing measured."


def findings(passed: pd.DataFrame, everything: pd.DataFrame) -> list[str]:
    """`passed`: the columns of the Venn diagram; `everything`: all measured ones. Sentences computed from the regions."""
    if passed.empty or passed.shape[1] < 2:
        return ["Fewer than two columns are measured on the same tasks, so there is no overlap to show."]
    found, everyone = regions(passed), frozenset(passed.columns)
    many = "both" if len(everyone) == 2 else f"all {len(everyone)}"
    said = [
        f"Of {len(passed)} tasks measured in {', '.join(passed)}, {many} solve {len(found[everyone])} "
        f"({by_chance(passed, everyone):.1f} if they were independent) and none solves {len(found[frozenset()])} "
        f"({by_chance(passed, frozenset()):.1f}).",
        f"Solved by one of them alone: {_alone(passed, found)}.",
    ]
    return [*said, *_all_columns(everything)] if everything.shape[1] > 1 and len(everything) else said


def _alone(passed: pd.DataFrame, found: Mapping[Region, list[str]]) -> str:
    one = {c: frozenset({c}) for c in passed}
    return ", ".join(f"{c} {len(found[r])} (by chance {by_chance(passed, r):.1f})" for c, r in one.items())


def _all_columns(passed: pd.DataFrame) -> list[str]:
    steps, rates = greedy(passed), passed.mean()
    total, chance = steps[-1][2], float(len(passed) * (1 - np.prod(1 - rates)))
    first, *rest = steps
    adds = ", ".join(f"{c} adds {n}" for c, n, _ in rest)
    useless = [c for c, n, _ in rest if n == 0]
    mostly = ": the columns share more tasks than chance would give" if total < chance else ""
    said = [
        f"Together the {len(steps)} measured columns solve {total} of {len(passed)} tasks; {first[0]} alone solves {first[1]}, "
        f"then {adds}. Independent columns with the same rates would solve {chance:.0f}{mostly}."
    ]
    return [*said, *([f"Without loss to Ideal one can leave out: {', '.join(useless)}."] if useless else [])]
