"""Figure 6 (Section 6.1): which tasks each method solves, and what each adds to a perfect choice.

A region is a set of methods; its tasks are those that exactly these methods solve. Methods that solved
their tasks independently of each other would also leave some tasks to each alone. That number, "by
chance", is given next to each count.
"""

from collections.abc import Iterable
from itertools import product

import pandas as pd
from scipy.stats import binomtest

from pkg_lib.analysis.cells import wilson_range
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.sentences import counted, listed
from pkg_lib.analysis.stats import ALPHA
from pkg_lib.analysis.tables import (
    DASH,
    kind,
    percent,
    reference_table,
    single,
)
from pkg_lib.core.registry import unknown
from pkg_lib.core.types import UserError

Region = frozenset[str]  # methods
# Kind of corpus -> methods of the Venn diagram.
FIGURE6 = {
    "code": ["NoRAG", "Func-BM25", "Block-PKG"],
    "text": ["NoRAG", "BM25", "JSON-PKG"],
}
BY_CHANCE = (
    "By chance: the number to expect if each method solved as many tasks as it does, "
    "independently of the others."
)
NOT_PRINTED = (
    f"{DASH} not printed in the paper, which names three regions of one model on HumanEval "
    "(Figure 6)."
)


# Regions


def measured_methods(verdicts: pd.DataFrame) -> list[str]:
    """List the measured methods that have a prompt of their own.

    Args:
        verdicts: Verdicts [task, method].

    Returns:
        The methods, without those that select among the solutions of others.
    """
    return [m for m in single(verdicts.columns) if verdicts[m].notna().any()]


def venn_methods(
    verdicts: pd.DataFrame,
    sets: str = "",
) -> list[str]:
    """Choose the methods of the Venn diagram.

    Args:
        verdicts: Verdicts [task, method].
        sets: Two or three methods, joined by "+"; "" for those of the paper's Figure 6.

    Returns:
        The measured ones of these methods.

    Raises:
        UserError: `sets` names an unknown method, or not two or three different ones.
    """
    wanted = sets.split("+") if sets else FIGURE6[kind(verdicts.columns)]
    offered = single(verdicts.columns)
    for method in wanted:
        if sets and method not in offered:
            raise unknown("method", method, offered, "in sets")
    if len(set(wanted)) != len(wanted) or len(wanted) not in (2, 3):
        raise UserError(
            f"sets must name two or three different methods joined by '+', not '{sets}'"
        )
    measured = measured_methods(verdicts)
    return [m for m in wanted if m in measured]


def solved_tasks(
    verdicts: pd.DataFrame,
    methods: list[str],
) -> pd.DataFrame:
    """Keep the tasks that all of some methods measured.

    Args:
        verdicts: Verdicts [task, method].
        methods: The methods.

    Returns:
        Whether a method solves a task, [task, method].
    """
    return verdicts[methods].dropna().astype(bool)


def exact_regions(solved: pd.DataFrame) -> dict[Region, list[str]]:
    """Group the tasks by the methods that solve them.

    Args:
        solved: Whether a method solves a task, [task, method].

    Returns:
        Every set of methods, also the empty one -> ids of the tasks that exactly these methods solve.
    """
    tasks: dict[Region, list[str]] = {}
    for chosen in product([True, False], repeat=solved.shape[1]):
        tasks[frozenset(solved.columns[list(chosen)])] = []
    for task, row in solved.iterrows():
        tasks[frozenset(solved.columns[row])].append(str(task))
    return tasks


def expected_by_chance(
    solved: pd.DataFrame,
    region: Region,
) -> float:
    """Compute how many tasks a region would hold if the methods were independent.

    Args:
        solved: Whether a method solves a task, [task, method].
        region: The methods that solve these tasks.

    Returns:
        The expected number. Each method keeps its pass rate.
    """
    expected = float(len(solved))
    for method, rate in solved.mean().items():
        expected *= rate if method in region else 1 - rate
    return expected


def region_name(
    region: Region,
    methods: Iterable[str],
) -> str:
    """Name a region.

    Args:
        region: Its methods.
        methods: All methods in their order.

    Returns:
        Text such as "NoRAG + BM25", or "no method".
    """
    return " + ".join(m for m in methods if m in region) or "no method"


def region_counts(solved: pd.DataFrame) -> str:
    """Print the number of tasks of every region.

    Args:
        solved: Whether a method solves a task, [task, method].

    Returns:
        Text such as "NoRAG + BM25 12, NoRAG 3, BM25 1, no method 4".
    """
    regions = exact_regions(solved)
    methods = solved.columns
    return ", ".join(f"{region_name(r, methods)} {len(tasks)}" for r, tasks in regions.items())


def intersections(solved: pd.DataFrame) -> dict[Region, list[str]]:
    """Order the regions that hold tasks by their size.

    Args:
        solved: Whether a method solves a task, [task, method].

    Returns:
        Regions of at least one method -> ids of their tasks: the largest first, then those of fewer
        methods, then by the order of their methods.
    """
    place = {method: i for i, method in enumerate(solved)}

    def rank(region: Region) -> tuple[int, int, list[int]]:
        places = sorted(place[m] for m in region)
        return -len(tasks[region]), len(region), places

    tasks = exact_regions(solved)
    filled = [region for region in tasks if region and tasks[region]]
    return {region: tasks[region] for region in sorted(filled, key=rank)}


def greedy_order(solved: pd.DataFrame) -> pd.DataFrame:
    """Order the methods by what each adds to a perfect choice among those before it.

    Args:
        solved: Whether a method solves a task, [task, method].

    Returns:
        One row per method: ``adds`` (tasks that no earlier method solves) and ``together`` (tasks solved
        so far). Of methods that add equally many, the first one comes first.
    """
    done = pd.Series(False, solved.index)
    left = list(solved)
    rows = {}
    while left:
        added = solved[left].loc[~done].sum()
        best = str(added.idxmax())
        done |= solved[best]
        rows[best] = (int(added[best]), int(done.sum()))
        left.remove(best)
    return pd.DataFrame.from_dict(
        rows,
        orient="index",
        columns=["adds", "together"],
    )


# Tables


def regions_table(
    solved: pd.DataFrame,
    benchmark_title: str,
) -> ResultTable:
    """Show the regions of the Venn diagram next to the counts that the paper prints.

    Args:
        solved: Whether a method solves a task, [task, method].
        benchmark_title: Title of the benchmark.

    Returns:
        One row per region. The paper's counts are a column if it has counts for these methods and this
        benchmark.
    """
    published = published_regions(benchmark_title)
    if set(solved) != set(FIGURE6["code"]):
        published = {}
    rows = {}
    for region, tasks in exact_regions(solved).items():
        cells = _region_cells(solved, region, tasks)
        if published:
            cells.append(str(published.get(region, DASH)))
        rows[region_name(region, solved.columns)] = cells
    columns = ["tasks", "%", "95 % interval", "tasks by chance"]
    title = f"Tasks by the methods that solve them, {benchmark_title}"
    notes = [f"{len(solved)} tasks that all of these methods measured. {BY_CHANCE}"]
    if published:
        columns.append("tasks in the paper (CodeLlama-7B)")
        notes.append(NOT_PRINTED)
    return ResultTable.of(title, rows, columns, "solved by exactly", *notes)


def _region_cells(solved: pd.DataFrame, region: Region, tasks: list[str]) -> list[str]:
    if solved.empty:
        return [DASH] * 4
    return [
        str(len(tasks)),
        percent(len(tasks) / len(solved)),
        wilson_range(len(tasks), len(solved)),
        f"{expected_by_chance(solved, region):.1f}",
    ]


def published_regions(benchmark_title: str) -> dict[Region, int]:
    """Read the counts that the paper's Figure 6 prints.

    Args:
        benchmark_title: Title of the benchmark, which begins with the name in the paper.

    Returns:
        Region -> number of tasks; empty for a benchmark without such a figure.
    """
    printed = reference_table("pkg_figure6_overlap", keep_default_na=False)
    benchmark, _, _ = benchmark_title.partition(" ")
    printed_regions = printed[printed["benchmark"] == benchmark]
    regions = printed_regions["only"].str.split("+").map(frozenset)
    return dict(zip(regions, printed_regions["count"], strict=True))


def intersections_table(solved: pd.DataFrame) -> ResultTable:
    """Show every region that holds tasks, and the tasks that no method solves.

    Args:
        solved: Whether a method solves a task, [task, method].

    Returns:
        One row per region, the largest first.
    """
    nobody: Region = frozenset()
    regions = intersections(solved) | {nobody: exact_regions(solved)[nobody]}
    rows = {}
    for region, tasks in regions.items():
        chance = f"{expected_by_chance(solved, region):.1f}" if len(solved) else DASH
        rows[region_name(region, solved.columns)] = [len(tasks), chance]
    title = f"Intersections of {solved.shape[1]} methods"
    note = f"{len(solved)} tasks that all of them measured. {BY_CHANCE}"
    return ResultTable.of(
        title,
        rows,
        ["tasks", "tasks by chance"],
        "solved by exactly",
        note,
    )


def alone_table(solved: pd.DataFrame) -> ResultTable:
    """Show the tasks that one method alone solves.

    Args:
        solved: Whether a method solves a task, [task, method].

    Returns:
        One row per method.
    """
    regions = exact_regions(solved)
    rows = {}
    for method in solved.columns:
        region = frozenset([method])
        tasks = regions[region]
        chance = expected_by_chance(solved, region)
        numbers = ", ".join(task.rpartition("/")[2] for task in tasks) or "none"
        rows[method] = [
            solved[method].sum(),
            len(tasks),
            f"{chance:.1f}",
            numbers,
        ]
    columns = ["solved", "solved alone", "alone by chance", "tasks solved by no other method"]
    note = (
        f"{len(solved)} tasks that all {solved.shape[1]} methods measured. Tasks are named by "
        "their numbers."
    )
    title = "Tasks that no other method solves, by method"
    return ResultTable.of(title, rows, columns, "method", note, BY_CHANCE)


def gains_table(solved: pd.DataFrame) -> ResultTable:
    """Show what each method adds to a perfect choice (Ideal Reranker), in the order of `greedy_order`.

    Args:
        solved: Whether a method solves a task, [task, method].

    Returns:
        One row per method.
    """
    total = len(solved)
    unsolved = 1.0  # Expected share of unsolved tasks if the methods so far were independent.
    rows = {}
    steps = greedy_order(solved).itertuples(name=None)
    for place, (method, adds, together) in enumerate(steps, 1):
        solves = solved[method].sum()
        chance = share = DASH
        if total:
            chance = f"{solves * unsolved:.1f}"
            share = percent(together / total)
            unsolved *= 1 - solves / total
        rows[f"{place}. {method}"] = [solves, adds, chance, together, share]
    columns = ["solves", "adds", "would add by chance", "solved so far", "% of tasks"]
    note = (
        "Each row adds a method to those above it. The last value of 'solved so far' is what Ideal "
        "Reranker solves with these methods."
    )
    title = "Tasks solved by Ideal Reranker as methods are added"
    return ResultTable.of(title, rows, columns, "method", note, BY_CHANCE)


# Findings


def venn_findings(solved: pd.DataFrame) -> list[str]:
    """Say how the methods of the Venn diagram overlap.

    Args:
        solved: Whether a method solves a task, [task, method].

    Returns:
        Sentences.
    """
    if solved.empty or solved.shape[1] < 2:
        return ["Fewer than two methods measured the same tasks, so there is no overlap to show."]
    regions = exact_regions(solved)

    def with_chance(region: Region) -> str:
        return f"{len(regions[region])} (by chance {expected_by_chance(solved, region):.1f})"

    methods = solved.columns
    alone = [f"{method} {with_chance(frozenset([method]))}" for method in methods]
    return [
        f"{_overlap_head(solved)}: of {len(solved)} tasks, {listed(methods)} all solve "
        f"{with_chance(frozenset(methods))}, and none of them solves {with_chance(frozenset())}.",
        f"Tasks that one of them solves alone: {', '.join(alone)}.",
    ]


def _overlap_head(solved: pd.DataFrame) -> str:
    """Say whether more tasks are solved by all methods, and by none, than by chance (binomial tests)."""
    regions = exact_regions(solved)
    total = len(solved)
    extremes = (frozenset(map(str, solved.columns)), frozenset[str]())
    for alternative, word in (("greater", "more"), ("less", "less")):
        p_values = []
        for region in extremes:
            share = expected_by_chance(solved, region) / total
            test = binomtest(len(regions[region]), total, share, alternative)
            p_values.append(test.pvalue)
        if max(p_values) < ALPHA:
            tests = f"binomial tests, p < {ALPHA}"
            return f"The methods solve the same tasks {word} often than by chance ({tests})"
    return "It is not shown that the methods solve the same tasks more or less often than by chance"


def venn_message(solved: pd.DataFrame) -> str:
    """Name the method that alone solves the most tasks, for the title of the Venn diagram.

    Args:
        solved: Whether a method solves a task, [task, method].
    """
    if solved.empty or solved.shape[1] < 2:
        return "Tasks by the methods that solve them"
    regions = exact_regions(solved)
    alone = {str(method): len(regions[frozenset([method])]) for method in solved.columns}
    most = max(alone, key=alone.__getitem__)
    if not alone[most]:
        return f"None of these {solved.shape[1]} methods alone solves a task"
    return f"Of these {solved.shape[1]} methods, {most} alone solves {counted(alone[most], 'task')}"


def gain_findings(solved: pd.DataFrame) -> list[str]:
    """Say what the methods solve together, and which of them add nothing.

    Args:
        solved: Whether a method solves a task, [task, method].

    Returns:
        Sentences; none without two methods.
    """
    if solved.empty or solved.shape[1] < 2:
        return []
    together = solved.any(axis=1).sum()
    chance = len(solved) - expected_by_chance(solved, frozenset())
    steps = greedy_order(solved)
    best, others = steps.index[0], steps["adds"].iloc[1:]
    adds = ", ".join(f"{method} adds {added}" for method, added in others.items())
    sentences = [
        f"Together the {solved.shape[1]} measured methods solve {together} of {len(solved)} tasks (by chance "
        f"{chance:.1f}): {best} alone solves {steps['adds'].iloc[0]}, then {adds}."
    ]
    useless = list(others.index[others == 0])
    if useless:
        sentences.append(f"These methods add nothing to Ideal Reranker: {', '.join(useless)}.")
    return sentences
