"""cAST's Tables 1 to 5 and those on tasks, chunks, completions and RepoEval."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import pandas as pd

from pkg_lib.analysis import stats
from pkg_lib.analysis.cells import mean_cell, rate_cell
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.tables import (
    DASH,
    interval,
    number,
    percent,
    points,
    probability,
    reference_table,
)
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.papers.cast.body_prompts import CHUNK_SIZES, LONGER_CONTEXTS
from pkg_lib.papers.cast.cast_results import (
    PACKAGES_BENCHMARK,
    PAPER_NAME,
    REPOEVAL,
    REPOEVAL_ROWS,
    REPOEVAL_TESTS,
    CastResults,
    chunking_label,
)
from pkg_lib.papers.cast.cast_steps import FAILED_THROUGH, RANKERS, mappings
from pkg_lib.papers.cast.function_bodies import longer, sized

METRICS = {"nDCG": "nDCG@{}", "Precision": "P@{}", "Recall": "R@{}"}
AT_5 = [metric.format(5) for metric in METRICS.values()]
# Three of the paper's embedders, whose numbers stand beside ours, and all six.
SHORT = {"BGE": "BGE-base", "GIST": "GIST-base", "CodeSage": "Codesage-small-v2"}
EMBEDDERS = (
    "BGE-base",
    "BGE-large",
    "GIST-base",
    "GIST-large",
    "Codesage-small-v2",
    "Jina-v2-code",
)
VARIANT_NAME = {"cast": "split-then-merge", "split-only": "split-only"}  # Table 2
SIZE = 2000  # characters of a chunk in all tables but Table 4
BODY_MEASURES = {
    "EM": "exact",
    "ES": "edit",
    "EM (id)": "identifiers_exact",
    "F1 (id)": "identifiers_f1",
}
NOT_MEASURED = f"{DASH} not measured here."
BLANK = [DASH] * 4  # instead of ours
UNPUBLISHED = [DASH] * 6  # instead of the paper's
OURS = "package functions"  # never named RepoEval, which is measured beside them
THEIRS = "RepoEval"
WITH_TESTS = "RepoEval, functions with tests"
BENCHMARK_OF = {OURS: PACKAGES_BENCHMARK, THEIRS: REPOEVAL}  # of retrieval
TESTED = {OURS: PACKAGES_BENCHMARK, WITH_TESTS: REPOEVAL_TESTS}  # of pass@1
WHAT_IS_MEASURED = (
    "Package functions: functions of the three packages, as tasks in the form of RepoEval. RepoEval: its "
    "own function-level tasks. Functions with tests: those of them that their repositories' tests judge."
)
AGAINST_NONE = ("difference from NoRAG", "95 % interval", "helped", "hurt", "p (Holm)")
Cells = list[str]
Rows = dict[str, Cells]


# Cells


def _difference_cells(difference: stats.Difference | None) -> Cells:
    """Print n, the difference in percentage points and its interval."""
    if difference is None:
        return [DASH] * 3
    bounds = interval(difference.low, difference.high)
    return [str(difference.n), points(difference.value), bounds]


def _pass_cell(
    cast: CastResults,
    method: str,
    benchmark: str = PACKAGES_BENCHMARK,
) -> str:
    """Print pass@1 with its Wilson interval, and n where not every task was measured."""
    verdicts = cast.verdicts_of(method, benchmark)
    cell = rate_cell(verdicts)
    measured = verdicts.count()
    if measured < len(verdicts):
        cell = cell.replace(")", f", n={measured})")
    return cell


def _ranking_cells(
    cast: CastResults,
    name: str,
    metric: str,
    chunkings: Iterable[str] = PAPER_NAME,
    rankers: Iterable[str] = RANKERS,
) -> Cells:
    """Print a measure of each chunking and ranker on OURS or THEIRS."""
    cells = []
    for chunking, ranker in product(chunkings, rankers):
        values = cast.ranking(ranker, chunking, metric, benchmark=BENCHMARK_OF[name])
        cells.append(mean_cell(values))
    return cells


def _pass_rows(cast: CastResults, chunkings: Iterable[str] = PAPER_NAME) -> Rows:
    """Return a row of pass@1 for each benchmark with tests: each chunking and ranker."""
    rows = {}
    for name, benchmark in TESTED.items():
        cells = []
        for chunking, ranker in product(chunkings, RANKERS):
            cells.append(_pass_cell(cast, f"{chunking}, {ranker}", benchmark))
        rows[f"{name}: Pass@1 ({cast.model})"] = cells + UNPUBLISHED
    return rows


# Published numbers


def published_frame(table: str) -> pd.DataFrame:
    """Read a table as the paper prints it.

    Args:
        table: Name of a file in analysis/reference, such as "table5_retrieval".

    Returns:
        One row per number, all text.
    """
    return reference_table(f"cast_{table}", dtype=str, keep_default_na=False)


def published_number(table: str, value: str = "", **wanted: str) -> str:
    """Return the one number of a published table that is in the rows with some values.

    Args:
        table: Name of a file in analysis/reference, such as "table5_retrieval".
        value: The field with the number; "" for the last one.
        **wanted: Field -> its value.

    Returns:
        The number as printed; an en dash if the paper has none.
    """
    rows = published_frame(table)
    for field, text in wanted.items():
        if text.startswith("R@"):
            text = f"Recall{text[1:]}"
        rows = rows[rows[field] == text]
    if not len(rows):
        return DASH
    return str(rows[value or rows.columns[-1]].iloc[0])


def _published_cells(table: str, **wanted: str) -> Cells:
    """Return the published numbers of both chunkings with the three embedders."""
    cells = []
    for chunking, embedder in product(PAPER_NAME.values(), SHORT.values()):
        printed = published_number(table, retriever=embedder, chunking=chunking, **wanted)
        cells.append(printed)
    return cells


def _published_gains(table: str, **wanted: str) -> str:
    """Print the least and the largest gain of cAST over fixed-size chunks, of the six embedders."""
    gains = []
    for embedder in EMBEDDERS:
        cast = published_number(table, retriever=embedder, chunking="cAST", **wanted)
        fixed = published_number(table, retriever=embedder, chunking="Fixed-size", **wanted)
        gains.append((float(cast) - float(fixed)) / 100)
    return f"{points(min(gains))} to {points(max(gains))}"


# Tasks and chunks


def tasks_table(cast: CastResults) -> ResultTable:
    """Tabulate how the tasks were chosen from each package.

    Args:
        cast: The results.

    Returns:
        The table, one row per package.
    """
    columns = [
        "version",
        "licence",
        "functions of 3 to 30 lines",
        "called by no test that passes",
        "tests that pass",
        "tests that fail here",
        FAILED_THROUGH,
        "modules of tests that cannot be imported here",
        "tried with the controls",
        "tasks",
    ]
    note = (
        "A task is a function whose tests pass with its own body and fail with `pass` and with "
        "`raise NotImplementedError`. Functions that no passing test calls, or that a failing test calls, "
        "are left out. The others are tried in a fixed order until there are enough tasks. "
        "Tests that fail here fail on the package as published, "
        "with the installed versions of what it needs."
    )
    rows = {}
    for name, counts in cast.circumstances["tasks"]["packages"].items():
        rows[name] = [str(counts.get(column, DASH)) for column in columns]
    return ResultTable.of("Tasks by package", rows, columns, "package", note)


def chunks_table(cast: CastResults) -> ResultTable:
    """Tabulate how the chunkers cut (Section 4).

    Args:
        cast: The results.

    Returns:
        The table, one row per language, method and mode.
    """
    columns = [
        "limit",
        "files",
        "chunks",
        "mean size",
        "median lines",
        "fill %",
        "functions cut %",
        "functions within the limit that are cut",
        "bytes lost",
    ]
    corpora = cast.circumstances["chunk_statistics"]["corpora"]
    sources = "; ".join(f"{language}: {source}" for language, source in corpora.items())
    notes = (
        "Sizes in characters other than white space; fill: mean size over the limit. "
        "A function is cut if no single chunk has all of it. Within the limit: functions that would fit "
        "into one chunk.",
        "Chunks are cut as the authors' package does, which loses some bytes; the lossless chunker of this "
        f"project keeps all. Sources: {sources}.",
    )
    rows = {}
    for _, row in cast.chunk_statistics.iterrows():
        mode = "" if row["mode"] == "as-published" else f" ({row['mode']})"
        rows[f"{row['language']}: {chunking_label(row['method'])}{mode}"] = _chunk_cells(row)
    return ResultTable.of("Chunks by language", rows, columns, "language: method", *notes)


def _chunk_cells(row: pd.Series) -> Cells:
    unit = "lines" if row["method"] == "fixed-size" else "characters"
    share_cut = None
    if row["functions"]:
        share_cut = row["functions_cut"] / row["functions"]
    return [
        f"{number(row['limit'])} {unit}",
        number(row["files"]),
        number(row["chunks"]),
        number(row["size_mean"]),
        number(row["lines_p50"]),
        percent(row["fill"]),
        percent(share_cut),
        number(row["functions_cut_that_fit"]),
        number(row["bytes_lost"]),
    ]


# Table 1


def results_table(cast: CastResults) -> ResultTable:
    """Tabulate retrieval and generation (Table 1).

    Args:
        cast: The results.

    Returns:
        The table, one row per benchmark and metric: ours, and the paper's of three embedders.
    """
    rows: Rows = {}
    for name, metric in zip(METRICS, AT_5, strict=True):
        rows[f"{OURS}: {name}@5"] = _ranking_cells(cast, OURS, metric) + UNPUBLISHED
    rows |= _pass_rows(cast)
    rows |= _published_retrieval(THEIRS, [_ranking_cells(cast, THEIRS, m) for m in AT_5])
    for generator in ("StarCoder2", "CodeLlama"):
        theirs = _published_cells("table6_repoeval_pass1", generator=generator)
        rows[f"{THEIRS}: Pass@1 ({generator})"] = BLANK + theirs
    rows |= _published_retrieval("SWE-bench", [BLANK] * len(AT_5))
    for metric in ("Claude-3.7-Sonnet Pass@1", "Gemini-2.5-pro Pass@8"):
        theirs = _published_cells("table7_swebench", generator_metric=metric)
        rows[f"SWE-bench: {metric}"] = BLANK + theirs
    for metric in ("EM (id)", "EM (code)", "ES (code)"):
        theirs = _published_cells("table8_crosscodeeval", language="Python", metric=metric)
        rows[f"CrossCodeEval, Python: {metric}"] = BLANK + theirs
    note = (
        f"{WHAT_IS_MEASURED} 95 % intervals (bootstrap over tasks; Wilson for Pass@1). "
        "The published numbers are of larger models."
    )
    title = f"Table 1: retrieval and generation ({_counts(cast)})"
    columns = _here_and_published(PAPER_NAME.values())
    return ResultTable.of(title, rows, columns, "benchmark: metric", note, NOT_MEASURED)


def _published_retrieval(benchmark: str, ours: Iterable[Cells]) -> Rows:
    """Return the rows of a benchmark's retrieval, with our cells of each measure at 5."""
    rows = {}
    for name, metric, cells in zip(METRICS, AT_5, ours, strict=True):
        theirs = _published_cells("table5_retrieval", benchmark=benchmark, metric=metric)
        rows[f"{benchmark}: {name}@5"] = cells + theirs
    return rows


def _counts(cast: CastResults) -> str:
    """Say how many tasks are measured here, such as "72 package functions, 455 of RepoEval"."""
    count = len(cast.ranking("BM25", "cast", "gold", benchmark=REPOEVAL))
    counts = f"{len(cast.tasks)} {OURS}"
    return f"{counts}, {count} tasks of {THEIRS}" if count else counts


def _here_and_published(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the columns of tables with our rankers and the paper's embedders."""
    here = product([f"here, {name}" for name in names], RANKERS)
    theirs = product([f"published, {name}" for name in names], SHORT)
    return [*here, *theirs]


def differences_table(cast: CastResults) -> ResultTable:
    """Tabulate the differences between cAST and fixed-size chunks, paired over tasks.

    Args:
        cast: The results.

    Returns:
        The table, one row per metric and ranker, with the range of the paper's six embedders.
    """
    rows: Rows = {}
    for name, benchmark in BENCHMARK_OF.items():
        for label, metric in zip(METRICS, AT_5, strict=True):
            gains = DASH
            if name == THEIRS:
                gains = _published_gains("table5_retrieval", benchmark=THEIRS, metric=metric)
            for ranker in RANKERS:
                rankings = [
                    cast.ranking(ranker, c, metric, benchmark=benchmark) for c in PAPER_NAME
                ]
                difference = stats.mean_difference(*rankings)
                rows[f"{name}: {label}@5, {ranker}"] = [*_difference_cells(difference), DASH, gains]
    for ranker in RANKERS:
        verdicts = [cast.verdicts_of(f"{chunking}, {ranker}") for chunking in PAPER_NAME]
        difference = stats.paired_bootstrap(*verdicts)
        p = probability(difference.p) if difference else DASH
        rows[f"{OURS}: Pass@1, {ranker}"] = [*_difference_cells(difference), p, DASH]
    for label in ("ES", "F1 (id)"):
        measure = BODY_MEASURES[label]
        for ranker in RANKERS:
            methods = [f"{chunking}, {ranker}" for chunking in PAPER_NAME]
            matches = [cast.body_match(method, measure) for method in methods]
            difference = stats.mean_difference(*matches)
            rows[f"{OURS}: {label}, {ranker}"] = [*_difference_cells(difference), DASH, DASH]
    gains = _published_gains("table6_repoeval_pass1", generator="StarCoder2")
    rows[f"{THEIRS}: Pass@1, StarCoder2"] = [*_difference_cells(None), DASH, gains]
    columns = ["n", "difference", "95 % interval", "McNemar p", "published, least to most"]
    note = (
        f"Differences are cAST minus fixed-size, in percentage points. {WHAT_IS_MEASURED} "
        "Published: over the six embedders of Tables 5 and 6."
    )
    title = "cAST against fixed-size chunks"
    return ResultTable.of(title, rows, columns, "benchmark: metric, retriever", note, NOT_MEASURED)


def mappings_table(cast: CastResults) -> ResultTable:
    """Tabulate cAST's ranking by how it is mapped to the baseline's chunks (Appendix A.2).

    Args:
        cast: The results.

    Returns:
        The table, one row per mapping.
    """
    minus_fixed = "nDCG@5 minus fixed-size"
    columns = list(product(RANKERS, (*AT_5, minus_fixed)))
    rows: Rows = {"fixed-size, own chunks": []}
    for ranker in RANKERS:
        fixed = [mean_cell(cast.ranking(ranker, "fixed-size", metric)) for metric in AT_5]
        rows["fixed-size, own chunks"] += [*fixed, DASH]
    for mapping in mappings("cast"):
        label = "own chunks" if mapping == "own" else f"scores transferred by the {mapping}"
        cells: Cells = []
        for ranker in RANKERS:
            rankings = [cast.ranking(ranker, "cast", metric, mapping) for metric in AT_5]
            fixed_ndcg = cast.ranking(ranker, "fixed-size", AT_5[0])
            _, change, bounds = _difference_cells(stats.mean_difference(rankings[0], fixed_ndcg))
            with_bounds = DASH if change == DASH else f"{change} ({bounds})"
            cells += [*map(mean_cell, rankings), with_bounds]
        rows[f"cAST, {label}"] = cells
    note = (
        "Transferred: a line has the score of the cAST chunk that contains it, and a fixed-size chunk the "
        "mean or the maximum of its lines' scores, so that both methods have the same relevant chunks. "
        "With its own chunks, cAST has another number of chunks, and of relevant ones, so its precision "
        "and recall cannot be compared with those of fixed-size chunks. Differences are in percentage "
        "points, with 95 % bootstrap intervals over the tasks."
    )
    title = f"How cAST's ranking is measured ({OURS})"
    return ResultTable.of(title, rows, columns, "chunks", note)


def completions_table(cast: CastResults) -> ResultTable:
    """Tabulate pass@1 of each context, its difference from NoRAG, and how similar the bodies are.

    Args:
        cast: The results.

    Returns:
        The table, one row per context.
    """
    against_none = _against_none(cast.verdicts[cast.compared_methods])
    rows = {}
    for method in cast.compared_methods:
        matches = [cast.body_match(method, measure) for measure in BODY_MEASURES.values()]
        means = [percent(match.mean()) for match in matches]
        rows[method] = [
            str(len(matches[0])),
            _pass_cell(cast, method),
            *_to_none_cells(against_none, method),
            *means,
        ]
    columns = ["n", "Pass@1", *AGAINST_NONE, *BODY_MEASURES]
    note = (
        "Differences from NoRAG are in percentage points of Pass@1, with paired bootstrap intervals; p is "
        "that of McNemar's exact test, corrected by Holm. EM (exact match) and ES (edit similarity) compare "
        "the body with the reference; (id) compares their identifiers only, as CrossCodeEval does."
    )
    title = f"{cast.model}: completions of {OURS}"
    return ResultTable.of(title, rows, columns, "method", note)


def models_table(models: Sequence[CastResults], missing: Sequence[str] = ()) -> ResultTable:
    """Tabulate pass@1 of cAST and of fixed-size chunks, for several models.

    Args:
        models: The results of each model.
        missing: Models that are not measured, which a note names.

    Returns:
        The table, one row per model and retriever. Differences are cAST minus fixed-size.
    """
    rows: Rows = {}
    for cast, ranker in product(models, RANKERS):
        methods = [f"{chunking}, {ranker}" for chunking in PAPER_NAME]
        chunked, fixed = [cast.verdicts_of(method) for method in methods]
        difference = stats.paired_bootstrap(chunked, fixed)
        rows[f"{cast.model}, {ranker}"] = [
            *[_pass_cell(cast, method) for method in (stats.BASELINE, *methods)],
            *_difference_cells(difference),
            probability(difference.p) if difference else DASH,
        ]
    names = ["NoRAG", *PAPER_NAME.values(), "n", "cAST minus fixed-size", "95 % interval", "p"]
    note = (
        "Pass@1 in percent with its Wilson interval. Differences are in percentage points; p is that of "
        "McNemar's exact test, not corrected."
    )
    notes = [note]
    if missing:
        notes.append(f"Not measured: {', '.join(missing)}.")
    result = ResultTable.of("Pass@1 by model", rows, names, "model, retriever", *notes)
    return result.without_empty_rows()


def _against_none(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Compare each method with NoRAG; an empty frame if there is nothing to compare."""
    if stats.BASELINE not in verdicts or verdicts.shape[1] < 2:
        return pd.DataFrame()
    return stats.paired_differences(verdicts)


def _to_none_cells(against_none: pd.DataFrame, method: str) -> Cells:
    """Print the difference from NoRAG, its interval, tasks helped and hurt, and p."""
    if method not in against_none.index or not against_none.loc[method, "n"]:
        return [DASH] * 5
    row: Any = against_none.loc[method]
    return [
        points(row["difference"]),
        interval(row["low"], row["high"]),
        str(int(row["helped"])),
        str(int(row["hurt"])),
        probability(row["p_corrected"]),
    ]


# Tables 2 to 5


def merging_table(cast: CastResults) -> ResultTable:
    """Tabulate cAST with and without merging (Table 2).

    Args:
        cast: The results.

    Returns:
        The table, one row per metric.
    """
    rows = {
        f"{OURS}: nDCG@5": _ranking_cells(cast, OURS, "nDCG@5", VARIANT_NAME) + UNPUBLISHED,
        **_pass_rows(cast, VARIANT_NAME),
    }
    ours = {
        "nDCG": _ranking_cells(cast, THEIRS, "nDCG@5", VARIANT_NAME),
        "Pass@1 StarCoder2": BLANK,
        "Pass@1 CodeLlama": BLANK,
    }
    for metric, cells in ours.items():
        theirs = []
        for variant, embedder in product(VARIANT_NAME.values(), SHORT):
            printed = published_number(
                "table2_split_only",
                embedder,
                metric=metric,
                variant=variant,
            )
            theirs.append(printed)
        rows[f"{THEIRS}: {metric}"] = cells + theirs
    columns = _here_and_published(VARIANT_NAME.values())
    title = "Table 2: with and without merging"
    heading = "benchmark: metric"
    result = ResultTable.of(title, rows, columns, heading, WHAT_IS_MEASURED, NOT_MEASURED)
    return result.without_empty_rows()


def context_length_table(cast: CastResults) -> ResultTable:
    """Tabulate pass@1 by length of the context (Table 3).

    Args:
        cast: The results.

    Returns:
        The table, one row per pipeline.
    """
    theirs = published_frame("table3_context_length").set_index("pipeline")
    rows = {}
    for (label, benchmark), ranker in product(TESTED.items(), RANKERS):
        longer_methods = [longer(tokens, ranker) for tokens in LONGER_CONTEXTS]
        methods = [f"cast, {ranker}", *longer_methods]
        cells = [_pass_cell(cast, method, benchmark) for method in methods]
        rows[f"{label}: {ranker} + {cast.model}"] = cells
    for name, published in theirs.iterrows():
        rows[f"{THEIRS}: {name} (published)"] = [DASH, *published]
    budget = cast.packages.benchmark_spec.budgets["context_tokens"]
    columns = [f"{length:,} tokens" for length in (budget, *LONGER_CONTEXTS)]
    note = f"The budget of all other tables is {columns[0]}."
    title = "Table 3: Pass@1 by context length, cAST"
    result = ResultTable.of(title, rows, columns, "pipeline", f"{note} {NOT_MEASURED}")
    return result.without_empty_rows()


def chunk_size_table(cast: CastResults) -> ResultTable:
    """Tabulate cAST by maximum chunk size (Table 4).

    Args:
        cast: The results.

    Returns:
        The table, one row per metric and ranker.
    """
    sizes = sorted((*CHUNK_SIZES, SIZE))
    rows = {}
    chunkings = ["cast" if size == SIZE else f"cast {size}" for size in sizes]
    for name, ranker in product(BENCHMARK_OF, RANKERS):
        cells = _ranking_cells(cast, name, "nDCG@5", chunkings, [ranker])
        rows[f"{name}: nDCG@5, {ranker} (here)"] = cells
    for (label, benchmark), ranker in product(TESTED.items(), RANKERS):
        cells = []
        for size in sizes:
            method = f"cast, {ranker}" if size == SIZE else sized(size, ranker)
            cells.append(_pass_cell(cast, method, benchmark))
        rows[f"{label}: Pass@1, {ranker} + {cast.model} (here)"] = cells
    theirs = {"nDCG, BGE": "nDCG", "Pass@1, BGE + StarCoder2": "pass_at_1_starcoder2"}
    table = "table4_max_chunk_size"
    for label, value in theirs.items():
        cells = [published_number(table, value, max_chunk_size=str(size)) for size in sizes]
        rows[f"{THEIRS}: {label} (published)"] = cells
    columns = [f"{size:,}" for size in sizes]
    title = "Table 4: maximum chunk size"
    result = ResultTable.of(title, rows, columns, "benchmark: metric", NOT_MEASURED)
    return result.without_empty_rows()


def retrieval_table(cast: CastResults) -> ResultTable:
    """Tabulate retrieval in full (Table 5).

    Args:
        cast: The results.

    Returns:
        The table, one row per benchmark and retriever. Ours come first, then each of the paper's.
    """
    columns = []
    for chunking in PAPER_NAME:
        for metric in METRICS.values():
            columns += [(chunking, metric.format(k)) for k in (5, 10)]
    heads = [(PAPER_NAME[chunking], metric) for chunking, metric in columns]
    rows = {}
    for name, ranker in product(BENCHMARK_OF, RANKERS):
        cells = []
        for chunking, metric in columns:
            cells += _ranking_cells(cast, name, metric, [chunking], [ranker])
        rows[f"{name}: {ranker} (here)"] = cells
    by_benchmark = {"RepoEval": EMBEDDERS, "SWE-bench": (*RANKERS, *EMBEDDERS[:-1])}
    for benchmark, retrievers in by_benchmark.items():
        for retriever in retrievers:
            rows[f"{benchmark}: {retriever} (here)"] = [DASH] * len(columns)
            if retriever not in EMBEDDERS:
                continue
            cells = []
            for chunking, metric in heads:
                printed = published_number(
                    "table5_retrieval",
                    benchmark=benchmark,
                    retriever=retriever,
                    chunking=chunking,
                    metric=metric,
                )
                cells.append(printed)
            rows[f"{benchmark}: {retriever} (published)"] = cells
    notes = (
        f"{WHAT_IS_MEASURED} The paper gives no row of Jina-v2-code on SWE-bench.",
        "The paper's embedders were not run here.",
        NOT_MEASURED,
    )
    title = f"Table 5: retrieval ({_counts(cast)})"
    result = ResultTable.of(title, rows, heads, "benchmark: retriever", *notes)
    return result.without_empty_rows()


# RepoEval itself


def repoeval_retrieval_table(cast: CastResults) -> ResultTable:
    """Tabulate retrieval on RepoEval's own function level, by baseline and mapping.

    Args:
        cast: The results.

    Returns:
        The table, one row per kind of chunks.
    """
    at_10 = [metric.format(10) for metric in METRICS.values()]
    columns = list(product(RANKERS, AT_5 + at_10))
    rows = {}
    for row in REPOEVAL_ROWS:
        right = cast.repoeval_ranking("BM25", row, "gold")
        rankings = [cast.repoeval_ranking(ranker, row, metric) for ranker, metric in columns]
        rows[row] = [number(right.mean(), 2), *map(mean_cell, rankings)]
    count = len(cast.repoeval_ranking("BM25", "fixed-size, 60 lines", "gold"))
    note = (
        "Relevant chunks per task: those that share a line with the function. Mapped to 60, 20 or 10 lines "
        "or to windows: scores of lines rank the chunks of that baseline, so precision and recall "
        "compare with the row of that baseline alone."
    )
    title = f"Retrieval on RepoEval's function level ({count} tasks)"
    heads = [("", "relevant"), *columns]
    return ResultTable.of(title, rows, heads, "chunks", note, NOT_MEASURED)


def repoeval_bodies_table(cast: CastResults) -> ResultTable:
    """Tabulate how similar the bodies of RepoEval's functions are to the reference's.

    Args:
        cast: The results.

    Returns:
        The table, one row per context.
    """
    rows = {}
    for method in BENCHMARKS[REPOEVAL].methods:
        matches = [cast.body_match(method, measure, REPOEVAL) for measure in BODY_MEASURES.values()]
        count = len(matches[0])
        rows[method] = [str(count) if count else DASH, *map(mean_cell, matches)]
    note = "Means over tasks with 95 % bootstrap intervals; masked corpus, as above."
    title = f"{cast.model}: bodies of RepoEval's functions"
    return ResultTable.of(title, rows, ["n", *BODY_MEASURES], "context", note, NOT_MEASURED)


def repoeval_tests_table(cast: CastResults) -> ResultTable:
    """Tabulate pass@1 on the functions of RepoEval that tests of their repositories judge.

    Args:
        cast: The results.

    Returns:
        The table, one row per context.
    """
    verdicts = cast.repoeval_verdicts
    against_none = _against_none(verdicts)
    rows = {}
    for method in BENCHMARKS[REPOEVAL_TESTS].methods:
        if method in verdicts:
            measured = str(verdicts[method].count())
            first_cells = [measured, rate_cell(verdicts[method])]
        else:
            first_cells = [DASH, DASH]
        rows[method] = [*first_cells, *_to_none_cells(against_none, method)]
    note = (
        "Functions of tracr and redframes that their own tests judge: the tests pass with the reference "
        "body, and fail with an empty one. Points of Pass@1 against NoRAG, paired bootstrap; McNemar's "
        "exact test, corrected by Holm."
    )
    title = f"{cast.model}: functions of RepoEval, by tests"
    columns = ["n", "Pass@1", *AGAINST_NONE]
    return ResultTable.of(title, rows, columns, "context", note, NOT_MEASURED)
