"""EVOR's Tables 1 to 7 and Figures 5 and 6 as tables: the runs here, and the published numbers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import pandas as pd

from pkg_lib.analysis import stats
from pkg_lib.analysis.cells import difference_cell, rate_cell
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.sentences import listed
from pkg_lib.analysis.tables import DASH, percent, probability, reference_table
from pkg_lib.papers.evor.evor_methods import EVOR_METHODS, WITH_PUBLISHED_LOOP
from pkg_lib.papers.evor.evor_results import EVOR, BenchmarkResults, EvorResults
from pkg_lib.retrieval.methods import NO_RAG

# A row of Table 2: no retrieval, and the library's own names.
PUBLIC = "NoRAG, public names"
MAIN_METHODS = (
    NO_RAG,
    "MPSC",
    "ExeDec",
    "Reflexion",
    "DocPrompting",
    "RK",
    EVOR,
    "EVOR + MPSC",
    "EVOR + ExeDec",
    "EVOR + Reflexion",
    "Oracle",
    *(f"{name}, as published" for name in WITH_PUBLISHED_LOOP),
)
EVOLUTION = ("RK", "RK, resampled", "Evolve query", "Evolve knowledge", EVOR)  # Table 3
SOURCE_METHODS = [name for name in EVOR_METHODS if name.startswith("EVOR of ")]  # Table 4
TOKEN_METHODS = (NO_RAG, "DocPrompting", "RK", EVOR)  # Table 7
# Figures 5 and 6: RK with other retrievers, and with other lengths of the context.
RETRIEVERS = {
    "BM25": "RK, BM25",
    "MiniLM": "RK, MiniLM",
    "both": "RK",
}
LENGTHS = {
    500: "RK, 500 tokens",
    1000: "RK",
    2000: "RK, 2000 tokens",
    4000: "RK, 4000 tokens",
}
FORMS = list(dict.fromkeys([*RETRIEVERS.values(), *LENGTHS.values(), "RK, whole documents"]))
# Source of the knowledge base -> its name in the paper's Table 4.
PAPER_SOURCES = {
    "documents": "Doc",
    "snippets": "Code",
    "feedback": "Exec",
}
ACCURACY = "pass@1, % (95 %)"
BY_METHOD = "benchmark: method"
HALVES_NOTE = (
    "A digest of its name decides to which half a task belongs. The held-out half was not looked at "
    "while prompts and queries were made."
)
EVOLUTION_LABELS = {"without": "without evolution", "with": "with evolution"}
LAST_ROUND = "EVOR variants are shown after their last complete round."
UNCORRECTED = (
    "Intervals cover 95 %: Wilson's for rates, score intervals for paired differences in percentage "
    "points. They are not corrected for the number of comparisons."
)
Cells = list[Any]
Rows = dict[str, Cells]


# Rows and cells


def titled(title: str, evor: EvorResults) -> str:
    """Name the model in the title of a table.

    Args:
        title: The title.
        evor: The results.

    Returns:
        Text such as "Table 2: methods, measured with qwen2.5-coder-1.5b-instruct".
    """
    return f"{title}, measured with {evor.model}"


def table_if_any(
    evor: EvorResults,
    title: str,
    rows: Mapping[str, Cells],
    columns: Sequence[Any],
    index: str,
    *notes: str,
) -> ResultTable | None:
    """Build a table of what is stored.

    Args:
        evor: The results.
        title: Its title, without the model.
        rows: Name of a row -> its cells.
        columns: Names of the columns; pairs are a group and a name.
        index: What the names of the rows are.
        *notes: Sentences below the table.

    Returns:
        The table; None without rows.
    """
    return ResultTable.of(titled(title, evor), rows, columns, index, *notes) if rows else None


def rows_by_benchmark(
    evor: EvorResults,
    cells_of: Callable[[BenchmarkResults], Cells | None],
) -> Rows:
    """Return one row per benchmark.

    Args:
        evor: The results.
        cells_of: Returns the cells of a benchmark; None leaves it out.

    Returns:
        Title of the benchmark -> cells.
    """
    rows = {}
    for benchmark in evor.benchmarks:
        cells = cells_of(benchmark)
        if cells is not None:
            rows[benchmark.title] = cells
    return rows


def rows_by_method(
    evor: EvorResults,
    methods: Iterable[str],
    cells_of: Callable[[BenchmarkResults, str], Cells | None],
) -> Rows:
    """Return one row per benchmark and method.

    Args:
        evor: The results.
        methods: The methods.
        cells_of: Returns the cells of a method on a benchmark; None leaves it out.

    Returns:
        "benchmark: method" -> cells.
    """
    rows = {}
    names = list(methods)
    for benchmark in evor.benchmarks:
        for method in names:
            cells = cells_of(benchmark, method)
            if cells is not None:
                rows[f"{benchmark.title}: {method}"] = cells
    return rows


def change_cell(verdicts: pd.Series, baseline: pd.Series) -> str:
    """Print a paired difference with its score interval.

    Args:
        verdicts: Verdicts of a method.
        baseline: Verdicts of the method that it is compared with.

    Returns:
        Text of `difference_cell`; an en dash if no task was measured with both.
    """
    difference = stats.paired_score(verdicts, baseline)
    return DASH if difference is None else difference_cell(difference)


def _mean_cell(values: Iterable[int | None]) -> str:
    known = pd.Series([value for value in values if value is not None], dtype=float)
    return DASH if known.empty else f"{known.mean():,.0f}"


# Published numbers


def _published_frame(table: str) -> pd.DataFrame:
    """Read the numbers of a table as the paper prints them, all as text."""
    return reference_table(f"evor_{table}", dtype=str, keep_default_na=False)


def published_table(
    table: str,
    title: str,
    index: str,
    columns: Sequence[str],
    value: str,
) -> ResultTable:
    """Tabulate the published numbers.

    Args:
        table: Name of a file in analysis/reference, such as "table2_main".
        title: The table's title.
        index: The field that names the rows.
        columns: The fields that name the columns.
        value: The field with the numbers.

    Returns:
        The table, with a dash for a number that the paper does not have.
    """
    frame = _published_frame(table).replace({"evolution": EVOLUTION_LABELS})
    frame = frame.set_index([index, *columns])
    wide = frame[value].unstack(list(columns), sort=False).fillna(DASH)
    return ResultTable(title, wide)


def published_benchmarks_table() -> ResultTable:
    """Tabulate the paper's own benchmarks (Table 1).

    Returns:
        The table as published.
    """
    frame = _published_frame("table1_datasets").set_index("dataset")
    frame.columns = frame.columns.str.replace("_", " ")
    return ResultTable("Table 1 in the paper: its benchmarks", frame)


# Table 1


def benchmarks_table(evor: EvorResults) -> ResultTable:
    """Tabulate the benchmarks (Table 1).

    Args:
        evor: The results.

    Returns:
        The table, one row per benchmark.
    """
    names = [
        "tasks",
        "prompt tokens",
        "answer tokens",
        "tokens of oracle documentation",
        "smallest significant gain (percentage points)",
        "gain found with 80 % power (percentage points)",
    ]
    notes = (
        "BeatNumEval and MonkeyEval use numpy and pandas under new names. Authors' rule: a program "
        "fails if it uses an old name anywhere, even for something else. "
        "networkx-M and more-itertools-M use copies of these libraries whose functions have new names. "
        "newScience is the EVOR authors' renamed copy of SciPy, the library of their Scipy-M. Our tasks on "
        "it were written for this study.",
        "Means per task: the prompt without retrieval, the model's answer to it, and the documentation "
        "that the solution needs (oracle documentation), all in tokens of the model.",
        "Left out: of MonkeyEval 20 tasks whose solution fails with the installed packages, and "
        "PandasEval/49, whose test asserts nothing; of BeatNumEval 8 tasks whose own solution fails.",
        "Smallest significant gain: in pass@1, over another method that solves no task which the first "
        "one misses (McNemar's exact test, p < 0.05, not corrected). A true gain of the last column is "
        "found in 80 % of repetitions. If tasks are also lost, both are larger.",
    )
    title = titled("Table 1: the benchmarks", evor)
    rows = rows_by_benchmark(evor, _benchmark_cells)
    return ResultTable.of(title, rows, names, "benchmark", *notes)


def _benchmark_cells(benchmark: BenchmarkResults) -> Cells:
    answers = benchmark.results.completions(NO_RAG).values()
    oracle = benchmark.results.contexts("Oracle")
    count = len(benchmark.tasks)
    gained = stats.smallest_significant_gain(count)
    return [
        count,
        _mean_cell(answer.prompt_tokens for answer in answers),
        _mean_cell(len(answer.tokens) for answer in answers),
        _mean_cell(context.tokens for context in oracle),
        percent(gained / count if gained else None),
        percent(stats.detectable_gain(count)),
    ]


# Table 2


def methods_table(evor: EvorResults) -> ResultTable:
    """Tabulate accuracy and tokens of the methods (Table 2).

    Args:
        evor: The results.

    Returns:
        The table, one row per benchmark and method.
    """
    names = [
        "tasks",
        ACCURACY,
        "against NoRAG",
        "McNemar p",
        "held-out half, % (95 %)",
        "tokens per task",
        "tokens per solved task",
    ]
    rows = rows_by_method(evor, [*MAIN_METHODS, PUBLIC], _method_cells)
    notes = [
        "NoRAG is the paper's Vanilla. DocPrompting retrieves documents once. RK retrieves once from the "
        "whole knowledge base of documents and code snippets (the paper's 'No evolution'). Oracle gets the "
        "documentation that the solution needs and no code snippets, so it is no upper bound. "
        f"{PUBLIC}: the same tasks with the library's own names.",
        f"{UNCORRECTED} Methods without stored results are omitted. {LAST_ROUND}",
        HALVES_NOTE,
    ]
    with_mpsc = [name.partition(":")[0] for name in rows if name.endswith(": MPSC")]
    if with_mpsc:
        notes.append(
            "MPSC selects one of several sampled programs by checks and tests that the model also writes. "
            f"Here ({listed(with_mpsc)}): 5 programs, 3 checks and 5 tests."
        )
    title = titled("Table 2: methods", evor)
    return ResultTable.of(title, rows, names, BY_METHOD, *notes)


def _method_cells(benchmark: BenchmarkResults, method: str) -> Cells | None:
    if method == PUBLIC:
        return _public_cells(benchmark)
    verdicts = benchmark.last_verdicts(method)
    if verdicts.isna().all():
        return None
    tokens = benchmark.all_tokens(method)
    solved = int(verdicts.fillna(False).sum())
    change, p = DASH, DASH
    if method != NO_RAG:
        without = benchmark.verdicts(NO_RAG)
        change = change_cell(verdicts, without)
        tested = stats.paired_bootstrap(verdicts, without)
        p = probability(tested.p) if tested else DASH
    return [
        verdicts.notna().sum(),
        rate_cell(verdicts),
        change,
        p,
        rate_cell(verdicts[benchmark.held_out]),
        f"{tokens.mean():,.0f}",
        f"{tokens.sum() / solved:,.0f}" if solved else DASH,
    ]


def _public_cells(benchmark: BenchmarkResults) -> Cells | None:
    verdicts = benchmark.verdicts_with_public_names
    if verdicts is None:
        return None
    held_out = verdicts.reindex(benchmark.held_out)
    return [
        verdicts.notna().sum(),
        rate_cell(verdicts),
        DASH,
        DASH,
        rate_cell(held_out),
        DASH,
        DASH,
    ]


def judging_table(evor: EvorResults) -> ResultTable | None:
    """Compare the verdicts by the authors' rule with those of runs against the renamed library.

    Args:
        evor: The results.

    Returns:
        The table; None if no benchmark is judged in both ways.
    """
    names = [
        "tasks",
        "pass by the authors' rule",
        "pass with the renamed library",
        "pass only by the rule",
        "pass only with the library",
    ]
    notes = (
        "Numbers of tasks. By the authors' rule, every program that uses an old name fails, even where "
        "the name does not belong to the library. The renamed library is numpy or pandas with "
        "the new names alone: a program fails if it needs a name that this library lacks.",
        LAST_ROUND,
    )
    rows = {}
    for benchmark in evor.benchmarks:
        for method in MAIN_METHODS:
            cells = _judging_cells(benchmark, method)
            if cells is not None:
                rows[f"{benchmark.short_title}: {method}"] = cells
    title = "Verdicts by the authors' rule and by the renamed library"
    return table_if_any(evor, title, rows, names, BY_METHOD, *notes)


def _judging_cells(benchmark: BenchmarkResults, method: str) -> Cells | None:
    by_library = benchmark.by_library
    rounds = benchmark.rounds(method)
    if by_library is None or not rounds:
        return None
    last = rounds[-1]
    if not by_library.files(last).samples.exists():
        return None
    both = pd.DataFrame(
        {
            "rule": benchmark.verdicts(last),
            "library": by_library.verdicts([last])[last],
        }
    )
    both = both.dropna().astype(bool)
    rule = both["rule"]
    library = both["library"]
    only_rule = rule & ~library
    only_library = library & ~rule
    return [
        len(both),
        rule.sum(),
        library.sum(),
        only_rule.sum(),
        only_library.sum(),
    ]


# Table 3


def evolution_table(evor: EvorResults) -> ResultTable | None:
    """Tabulate which part of EVOR's evolution helps (Table 3).

    Args:
        evor: The results.

    Returns:
        The table, one row per method; None if none is stored.
    """
    notes = (
        "RK is the paper's 'No evolution', EVOR its 'Evolve both'. All but RK write failed drafts again. "
        "RK, resampled does only that: it samples another program for the same prompt.",
        f"{UNCORRECTED} The titles of the figures count benchmarks by McNemar's exact test with Holm's "
        "correction. An interval here can therefore exclude 0 on a benchmark that they do not count.",
        LAST_ROUND,
    )
    return _table_against_rk(evor, "Table 3: what evolves", EVOLUTION, evor.benchmarks, notes)


def _table_against_rk(
    evor: EvorResults,
    title: str,
    methods: Iterable[str],
    benchmarks: Iterable[BenchmarkResults],
    notes: Iterable[str],
) -> ResultTable | None:
    """Tabulate pass@1 and the difference to RK on each benchmark, one row per method."""
    measured = list(benchmarks)
    names = list(product([b.title for b in measured], [ACCURACY, "against RK"]))
    rows = {}
    for method in methods:
        cells: Cells = []
        is_measured = False
        for benchmark in measured:
            verdicts = benchmark.last_verdicts(method)
            is_measured |= bool(verdicts.notna().any())
            change = DASH
            if method != "RK":
                change = change_cell(verdicts, benchmark.last_verdicts("RK"))
            cells += [rate_cell(verdicts), change]
        if is_measured:
            rows[method] = cells
    return table_if_any(evor, title, rows, names, "method", *notes)


# Table 4


def last_common_round(benchmark: BenchmarkResults) -> int:
    """Return the last round that all variants of the knowledge base have.

    A variant with more rounds would look better than it is.

    Args:
        benchmark: The results on a benchmark.

    Returns:
        The number of the round, at least 1.
    """
    numbers = []
    for method in (*SOURCE_METHODS, EVOR):
        later = benchmark.rounds(method)[1:]
        if later:
            number = later[-1].rpartition("@")[2]
            numbers.append(int(number))
    return min(numbers, default=1)


def source_cells(benchmark: BenchmarkResults, method: str) -> list[str]:
    """Return the cells of one variant of the knowledge base in Table 4.

    Args:
        benchmark: The results on a benchmark.
        method: The variant.

    Returns:
        pass@1 in round 0 and in the last common round, and the difference to EVOR there. A round
        that is not complete has a dash.
    """
    number = last_common_round(benchmark)
    last = f"{method}@{number}"
    evor_round = f"{EVOR}@{number}"
    stored = benchmark.rounds(method)
    cells = []
    for name in (f"{method}@0", last):
        cell = DASH
        if name in stored:
            cell = rate_cell(benchmark.verdicts(name))
        cells.append(cell)
    change = DASH
    if last in stored and method != EVOR and evor_round in benchmark.rounds(EVOR):
        change = change_cell(benchmark.verdicts(last), benchmark.verdicts(evor_round))
    return [*cells, change]


def sources_table(evor: EvorResults) -> ResultTable | None:
    """Tabulate the sources of the knowledge base, alone and together (Table 4).

    Args:
        evor: The results.

    Returns:
        The table, one row per variant; None if only EVOR is stored.
    """
    benchmarks = evor.with_any_of(SOURCE_METHODS)
    if not benchmarks:
        return None
    rows = {}
    for method in (*SOURCE_METHODS, EVOR):
        cells = []
        for benchmark in benchmarks:
            cells += source_cells(benchmark, method)
        if set(cells) != {DASH}:
            rows[_sources_label(method)] = cells
    names = []
    for benchmark in benchmarks:
        last = f"round {last_common_round(benchmark)}"
        names.append((benchmark.title, f"round 0, {ACCURACY}"))
        names.append((benchmark.title, f"{last}, {ACCURACY}"))
        names.append((benchmark.title, "against EVOR"))
    notes = (
        "In parentheses is the paper's name of a source. EVOR has all three sources.",
        UNCORRECTED,
    )
    title = titled("Table 4: sources of the knowledge base", evor)
    return ResultTable.of(title, rows, names, "knowledge base", *notes)


def _sources_label(method: str) -> str:
    """Name the sources of a variant's knowledge base, also as the paper does."""
    sources = method.replace("EVOR of ", "").split("+")
    papers = [PAPER_SOURCES.get(source, "") for source in sources]
    label = " + ".join(sources)
    return f"{label} ({' + '.join(papers)})" if all(papers) else label


# Tables 5 to 7


def private_table(evor: EvorResults) -> ResultTable | None:
    """Tabulate the private libraries (Table 5).

    Args:
        evor: The results.

    Returns:
        The table, one row per library; None if none is measured.
    """
    names = [
        "tasks",
        "NoRAG, % (95 %)",
        "EVOR, % (95 %)",
        "EVOR against NoRAG",
        f"{PUBLIC}, % (95 %)",
    ]
    rows = rows_by_benchmark(evor, _private_cells)
    title = "Table 5: the private libraries"
    return table_if_any(evor, title, rows, names, "benchmark", f"{UNCORRECTED} {LAST_ROUND}")


def _private_cells(benchmark: BenchmarkResults) -> Cells | None:
    if benchmark.by_library is None:
        return None
    public = benchmark.verdicts_with_public_names
    without_retrieval = benchmark.last_verdicts(NO_RAG)
    with_evor = benchmark.last_verdicts(EVOR)
    return [
        without_retrieval.notna().sum(),
        rate_cell(without_retrieval),
        rate_cell(with_evor),
        change_cell(with_evor, without_retrieval),
        DASH if public is None else rate_cell(public),
    ]


def inputs_table(evor: EvorResults) -> ResultTable | None:
    """Tabulate how many generated test inputs are valid (Table 6).

    Args:
        evor: The results.

    Returns:
        The table, one row per benchmark; None if no inputs are stored.
    """
    names = [
        "functions",
        "functions with inputs",
        "inputs",
        "valid inputs",
        "functions with only valid inputs, % (95 %)",
    ]
    note = (
        "The model writes inputs for the function that a task asks for. An input is valid if the reference "
        "solution runs on it. The percentage is of the functions with inputs."
    )
    rows = rows_by_benchmark(evor, _inputs_cells)
    return table_if_any(evor, "Table 6: generated inputs", rows, names, "benchmark", note)


def _inputs_cells(benchmark: BenchmarkResults) -> Cells | None:
    stored = benchmark.results.knowledge.input_rows()
    frame = pd.DataFrame(stored, columns=["inputs", "valid"])
    with_inputs = frame[frame["inputs"] > 0]
    if with_inputs.empty:
        return None
    inputs = with_inputs["inputs"]
    valid = with_inputs["valid"]
    return [
        len(frame),
        len(with_inputs),
        inputs.sum(),
        valid.sum(),
        rate_cell(inputs == valid),
    ]


def tokens_table(evor: EvorResults) -> ResultTable:
    """Tabulate accuracy by tokens (Table 7).

    Args:
        evor: The results.

    Returns:
        The table, one row per benchmark and method.
    """
    rows = rows_by_method(evor, TOKEN_METHODS, _tokens_cells)
    names = [ACCURACY, "tokens per task"]
    return ResultTable.of(titled("Table 7: tokens", evor), rows, names, BY_METHOD, LAST_ROUND)


def _tokens_cells(benchmark: BenchmarkResults, method: str) -> Cells | None:
    if not benchmark.rounds(method):
        return None
    tokens = benchmark.all_tokens(method).mean()
    return [rate_cell(benchmark.last_verdicts(method)), f"{tokens:,.0f}"]


# Figures 5 and 6


def forms_table(evor: EvorResults) -> ResultTable | None:
    """Tabulate RK with other retrievers and lengths of context (Figures 5 and 6).

    Args:
        evor: The results.

    Returns:
        The table, one row per form; None if only RK itself is stored.
    """
    benchmarks = benchmarks_with_forms(evor)
    notes = (
        "RK ranks by BM25 and MiniLM together, and its context has up to 1,000 tokens.",
        UNCORRECTED,
    )
    title = "Retrievers and lengths of context"
    return _table_against_rk(evor, title, FORMS, benchmarks, notes)


def benchmarks_with_forms(evor: EvorResults) -> list[BenchmarkResults]:
    """Return the benchmarks with another form of RK.

    Args:
        evor: The results.
    """
    return evor.with_any_of(form for form in FORMS if form != "RK")
