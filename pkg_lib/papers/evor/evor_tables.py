"""EVOR's Tables 1 to 7 and Figures 5 and 6 as tables: the runs here, and the published numbers."""

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from pkg_lib.analysis import stats
from pkg_lib.analysis.cells import difference_cell, rate_cell
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.tables import DASH, HERE
from pkg_lib.evaluation.results import Results
from pkg_lib.papers.evor.evor_methods import EVOR_METHODS
from pkg_lib.papers.evor.evor_results import EVOR, NO_RAG, EvorResults

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
)
EVOLUTION = ("RK", "RK, resampled", "Evolve query", "Evolve knowledge", EVOR)  # Table 3
SOURCE_METHODS = [name for name in EVOR_METHODS if name.startswith("EVOR of ")]  # Table 4
TOKEN_METHODS = (NO_RAG, "DocPrompting", "RK", EVOR)  # Table 7
# Figures 5 and 6: RK with other retrievers, and with other lengths of the context.
RETRIEVERS = {"BM25": "RK, BM25", "MiniLM": "RK, MiniLM", "both": "RK"}
LENGTHS = {500: "RK, 500 tokens", 1000: "RK", 2000: "RK, 2000 tokens", 4000: "RK, 4000 tokens"}
FORMS = list(dict.fromkeys([*RETRIEVERS.values(), *LENGTHS.values(), "RK, whole documents"]))
ACCURACY = "pass@1, % (95 %)"
BY_METHOD = "benchmark: method"
Cells = list[Any]


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


def rows_by_method(
    evor: EvorResults,
    benchmark: str,
    rows: dict[str, Cells | None],
) -> dict[str, Cells]:
    """Return the rows of a table of benchmarks and methods.

    Args:
        evor: The results.
        benchmark: A measured benchmark.
        rows: Method -> cells; None for a method that is left out.

    Returns:
        "benchmark: method" -> cells.
    """
    title = evor.title(benchmark)
    return {f"{title}: {method}": cells for method, cells in rows.items() if cells}


# Published numbers


def published_frame(table: str) -> pd.DataFrame:
    """Read the numbers of a table as the paper prints them.

    Args:
        table: Name of a file in analysis/reference, such as "table2_main".

    Returns:
        One row per number, all text.
    """
    path = HERE / "reference" / f"evor_{table}.csv"
    return pd.read_csv(path, dtype=str, keep_default_na=False)


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
    frame = published_frame(table).set_index([index, *columns])
    wide = frame[value].unstack(list(columns), sort=False).fillna(DASH)
    names = [": ".join(name) if isinstance(name, tuple) else name for name in wide.columns]
    rows = dict(zip(wide.index, wide.to_numpy().tolist(), strict=True))
    return ResultTable.of(title, rows, names, index)


# Table 1


def benchmarks_table(evor: EvorResults) -> ResultTable:
    """Tabulate the benchmarks (Table 1).

    Args:
        evor: The results.

    Returns:
        The table, one row per benchmark.
    """
    names = ["tasks", "prompt tokens", "answer tokens", "oracle documentation"]
    notes = (
        "The generator's tokens of the bare prompt, its answer, and the documentation that the "
        "solution needs.",
        "Left out: of MonkeyEval 20 tasks whose solution fails with the installed packages, and "
        "PandasEval/49, whose test asserts nothing; of BeatNumEval 8 whose own solution fails.",
    )
    rows = {}
    for benchmark, results in evor.by_benchmark.items():
        answers = results.completions(NO_RAG).values()
        rows[evor.title(benchmark)] = [
            len(results.tasks),
            _mean([answer.prompt_tokens for answer in answers]),
            _mean([len(answer.tokens) for answer in answers]),
            _mean([context.tokens for context in results.contexts("Oracle")]),
        ]
    title = "The benchmarks (after the paper's Table 1)"
    return ResultTable.of(title, rows, names, "benchmark", *notes)


def _mean(values: Iterable[int | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):,.0f}" if known else DASH


def published_benchmarks_table() -> ResultTable:
    """Tabulate the paper's own benchmarks (Table 1).

    Returns:
        The table as published.
    """
    path = HERE / "reference" / "evor_table1_datasets.csv"
    frame = pd.read_csv(path, dtype=str, index_col="dataset")
    names = [name.replace("_", " ") for name in frame.columns]
    rows = dict(zip(frame.index, frame.to_numpy(), strict=True))
    return ResultTable.of("Table 1 as published", rows, names, "dataset")


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
        "held out",
        "tokens a task",
        "tokens a solved task",
    ]
    notes = (
        "Wilson interval; score interval of a paired difference. Methods that are not stored stand "
        "in no row.",
        "EVOR and those with it: their last whole round. MPSC is reduced: 5 draws, 3 checks, "
        "5 tests.",
    )
    rows: dict[str, Cells] = {}
    for benchmark in evor.benchmarks:
        cells = {method: _method_cells(evor, benchmark, method) for method in MAIN_METHODS}
        cells["public names"] = _public_cells(evor, benchmark)
        rows |= rows_by_method(evor, benchmark, cells)
    return ResultTable.of("Table 2: methods", rows, names, BY_METHOD, *notes)


def _method_cells(evor: EvorResults, benchmark: str, method: str) -> Cells | None:
    verdicts = evor.last_verdicts(benchmark, method)
    if verdicts.isna().all():
        return None
    tokens = evor.all_tokens(benchmark, method)
    solved = int(verdicts.fillna(False).sum())
    without_retrieval = evor.verdicts(benchmark, NO_RAG)
    return [
        verdicts.notna().sum(),
        rate_cell(verdicts),
        DASH if method == NO_RAG else change_cell(verdicts, without_retrieval),
        rate_cell(verdicts[evor.held_out(benchmark)]),
        f"{tokens.mean():,.0f}",
        f"{tokens.sum() / solved:,.0f}" if solved else DASH,
    ]


def _public_cells(evor: EvorResults, benchmark: str) -> Cells | None:
    verdicts = evor.with_public_names(benchmark)
    if verdicts is None:
        return None
    held_out = verdicts.reindex(evor.held_out(benchmark))
    return [verdicts.notna().sum(), rate_cell(verdicts), DASH, rate_cell(held_out), DASH, DASH]


def judging_table(evor: EvorResults) -> ResultTable | None:
    """Compare the authors' rule with running the programs against the renamed library.

    Args:
        evor: The results.

    Returns:
        The table; None if no benchmark is judged in both ways.
    """
    names = ["tasks", "pass by the rule", "by the library", "the rule alone", "the library alone"]
    rows = {}
    for benchmark in evor.benchmarks:
        by_library = evor.related(f"{benchmark}-module")
        if by_library is None:
            continue
        for method in MAIN_METHODS:
            cells = _judging_cells(evor, benchmark, method, by_library)
            if cells:
                rows[f"{evor.short_title(benchmark)}: {method}"] = cells
    if not rows:
        return None
    return ResultTable.of("Two ways to judge", rows, names, BY_METHOD, "Numbers of tasks.")


def _judging_cells(
    evor: EvorResults,
    benchmark: str,
    method: str,
    by_library: Results,
) -> Cells | None:
    rounds = evor.rounds(benchmark, method)
    if not rounds or not by_library.files(rounds[-1]).samples.exists():
        return None
    last = rounds[-1]
    both = pd.DataFrame(
        {
            "rule": evor.last_verdicts(benchmark, method),
            "library": by_library.verdicts([last])[last],
        }
    )
    both = both.dropna().astype(bool)
    rule = both["rule"]
    library = both["library"]
    only_rule = (rule & ~library).sum()
    only_library = (library & ~rule).sum()
    return [len(both), rule.sum(), library.sum(), only_rule, only_library]


# Table 3


def evolution_table(evor: EvorResults) -> ResultTable | None:
    """Tabulate which part of EVOR's evolution helps (Table 3).

    Args:
        evor: The results.

    Returns:
        The table, one row per method; None if none is stored.
    """
    rows = _compared_rows(evor, EVOLUTION, "RK", evor.benchmarks)
    if not rows:
        return None
    names = _compared_columns(evor, evor.benchmarks)
    return ResultTable.of("Table 3: what evolves", rows, names, "method")


def _compared_rows(
    evor: EvorResults,
    methods: Iterable[str],
    baseline: str,
    benchmarks: Sequence[str],
) -> dict[str, Cells]:
    """Method -> pass@1 and the difference to a baseline on each benchmark."""
    rows = {}
    for method in methods:
        cells: Cells = []
        is_measured = False
        for benchmark in benchmarks:
            verdicts = evor.last_verdicts(benchmark, method)
            is_measured = is_measured or bool(verdicts.notna().any())
            change = DASH
            if method != baseline:
                change = change_cell(verdicts, evor.last_verdicts(benchmark, baseline))
            cells += [rate_cell(verdicts), change]
        if is_measured:
            rows[method] = cells
    return rows


def _compared_columns(evor: EvorResults, benchmarks: Iterable[str]) -> list[str]:
    names = []
    for benchmark in benchmarks:
        title = evor.title(benchmark)
        names += [f"{title}: pass@1", f"{title}: against RK"]
    return names


# Table 4


def last_common_round(evor: EvorResults, benchmark: str) -> int:
    """Return the last round that all variants of the knowledge base have.

    A variant with more rounds would look better than it is.

    Args:
        evor: The results.
        benchmark: A measured benchmark.

    Returns:
        The number of the round, at least 1.
    """
    numbers = []
    for method in (*SOURCE_METHODS, EVOR):
        later = evor.rounds(benchmark, method)[1:]
        if later:
            numbers.append(int(later[-1].rpartition("@")[2]))
    return min(numbers, default=1)


def source_cells(evor: EvorResults, benchmark: str, method: str) -> list[str]:
    """Return the cells of one variant of the knowledge base in Table 4.

    Args:
        evor: The results.
        benchmark: A measured benchmark.
        method: The variant.

    Returns:
        pass@1 in round 0 and in the last common round, and the difference to EVOR there.
    """
    number = last_common_round(evor, benchmark)
    first = f"{method}@0"
    last = f"{method}@{number}"
    evor_round = f"{EVOR}@{number}"
    stored = evor.rounds(benchmark, method)
    cells = [_stored_rate(evor, benchmark, name, stored) for name in (first, last)]
    is_other = last != evor_round and evor_round in evor.rounds(benchmark, EVOR)
    if not (last in stored and is_other):
        return [*cells, DASH]
    verdicts = evor.verdicts(benchmark, last)
    return [*cells, change_cell(verdicts, evor.verdicts(benchmark, evor_round))]


def _stored_rate(evor: EvorResults, benchmark: str, name: str, stored: list[str]) -> str:
    """pass@1 of a round; a dash if the round is not complete."""
    return rate_cell(evor.verdicts(benchmark, name)) if name in stored else DASH


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
            cells += source_cells(evor, benchmark, method)
        if set(cells) != {DASH}:
            rows[method.replace("EVOR of ", "")] = cells
    names = []
    for benchmark in benchmarks:
        title = evor.title(benchmark)
        last = f"round {last_common_round(evor, benchmark)}"
        names += [f"{title}: {what}" for what in ("round 0", last, "against EVOR")]
    return ResultTable.of("Table 4: kinds of knowledge", rows, names, "soup")


# Tables 5 to 7


def private_table(evor: EvorResults) -> ResultTable | None:
    """Tabulate the private libraries (Table 5).

    Args:
        evor: The results.

    Returns:
        The table, one row per library; None if none is measured.
    """
    names = ["tasks", "NoRAG, % (95 %)", EVOR, "difference", "public names"]
    rows = {}
    for benchmark in evor.benchmarks:
        if evor.related(f"{benchmark}-module") is None:
            continue
        public = evor.with_public_names(benchmark)
        without_retrieval = evor.last_verdicts(benchmark, NO_RAG)
        with_evor = evor.last_verdicts(benchmark, EVOR)
        rows[evor.title(benchmark)] = [
            without_retrieval.notna().sum(),
            rate_cell(without_retrieval),
            rate_cell(with_evor),
            change_cell(with_evor, without_retrieval),
            DASH if public is None else rate_cell(public),
        ]
    if not rows:
        return None
    return ResultTable.of("Table 5: the private libraries", rows, names, "benchmark")


def inputs_table(evor: EvorResults) -> ResultTable | None:
    """Tabulate how many generated test inputs are valid (Table 6).

    Args:
        evor: The results.

    Returns:
        The table, one row per benchmark; None if no inputs are stored.
    """
    names = ["functions", "with inputs", "inputs", "valid", "tasks with all valid, % (95 %)"]
    rows = {}
    for benchmark, results in evor.by_benchmark.items():
        frame = pd.DataFrame(results.knowledge.input_rows())
        if frame.empty:
            continue
        with_inputs = frame[frame["inputs"] > 0]
        if with_inputs.empty:
            continue
        inputs = with_inputs["inputs"]
        valid = with_inputs["valid"]
        rows[evor.title(benchmark)] = [
            len(frame),
            len(with_inputs),
            inputs.sum(),
            valid.sum(),
            rate_cell(inputs == valid),
        ]
    if not rows:
        return None
    return ResultTable.of("Table 6: generated inputs", rows, names, "benchmark")


def tokens_table(evor: EvorResults) -> ResultTable:
    """Tabulate accuracy by tokens (Table 7).

    Args:
        evor: The results.

    Returns:
        The table, one row per benchmark and method.
    """
    rows = {}
    for benchmark in evor.benchmarks:
        for method in TOKEN_METHODS:
            if evor.rounds(benchmark, method):
                rate = rate_cell(evor.last_verdicts(benchmark, method))
                tokens = evor.all_tokens(benchmark, method).mean()
                rows[f"{evor.title(benchmark)}: {method}"] = [rate, f"{tokens:,.0f}"]
    names = [ACCURACY, "tokens a task"]
    return ResultTable.of("Table 7: tokens", rows, names, BY_METHOD)


# Figures 5 and 6


def forms_table(evor: EvorResults) -> ResultTable | None:
    """Tabulate RK with other retrievers and lengths of context (Figures 5 and 6).

    Args:
        evor: The results.

    Returns:
        The table, one row per form; None if only RK itself is stored.
    """
    benchmarks = benchmarks_with_forms(evor)
    rows = _compared_rows(evor, FORMS, "RK", benchmarks)
    if not rows:
        return None
    note = "RK as it is ranks by BM25 and MiniLM together and has 1,000 tokens."
    names = _compared_columns(evor, benchmarks)
    return ResultTable.of("Retrievers and lengths of context", rows, names, "column", note)


def benchmarks_with_forms(evor: EvorResults) -> list[str]:
    """Return the benchmarks with another form of RK.

    Args:
        evor: The results.
    """
    return evor.with_any_of(form for form in FORMS if form != "RK")
