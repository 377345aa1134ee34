"""pass@1 by topic (Section 6.2, Figures 3 to 5), and whether an effect depends on the topic."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from pkg_lib.analysis import sentences, stats
from pkg_lib.analysis.cells import bracketed_difference
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.stats import ALPHA, BASELINE, not_measured
from pkg_lib.analysis.tables import DASH, complete, percent, points, probability
from pkg_lib.core.types import UserError
from pkg_lib.evaluation.results import Results
from pkg_lib.papers.pkg.closed_model_tables import replayed_verdicts
from pkg_lib.papers.pkg.topics import topics
from pkg_lib.retrieval.methods import RERANKED

ALL_TASKS = "all tasks"
SPARSE = ("BM25", "Func-BM25")  # the first that the corpus offers is shown
PERMUTATIONS = 10_000
ENOUGH_TASKS = 10  # of a topic that is named as the easiest or hardest
# What the paper says of its figures.
BELOW_BASELINE = ("String Manipulation and Text Processing", "Data Structures")
RERANKED_BELOW = (
    "Mathematics and Number Theory",
    "Optimization Techniques",
    "Algorithms",
)
PAPER_STATEMENTS = {
    "topics with PKG above BM25": "10 of 10",
    f"topics with PKG above {BASELINE}": "7 of 10",
    **{f"PKG minus {BASELINE}, {topic}": "below" for topic in BELOW_BASELINE},
    **{f"{RERANKED} minus PKG, {topic}": "below" for topic in RERANKED_BELOW},
}


def shown_methods(
    verdicts: pd.DataFrame,
    method: str,
) -> list[str]:
    """Choose the methods of the paper's figure among those of the corpus.

    Args:
        verdicts: Verdicts [task, method].
        method: The method of the graph.

    Returns:
        No retrieval, BM25 or Func-BM25, `method` and the reranker, as far as the corpus has them.

    Raises:
        UserError: The corpus has no such method.
    """
    if method not in verdicts:
        known = ", ".join(verdicts.columns)
        raise UserError(f"no method '{method}' with this corpus; choose from: {known}")
    sparse = [name for name in SPARSE if name in verdicts][:1]
    wanted = dict.fromkeys([BASELINE, *sparse, method, RERANKED])
    return [name for name in wanted if name in verdicts]


def common_verdicts(
    results: Results,
    method: str,
) -> pd.DataFrame:
    """Return the verdicts of the shown methods on the tasks that all of them measured.

    Args:
        results: The experiment.
        method: The method of the graph.

    Returns:
        Verdicts [task, method]; <NA> in a method that was not measured at all.
    """
    verdicts = complete(results.verdicts())
    verdicts = verdicts[shown_methods(verdicts, method)]
    absent = not_measured(verdicts.columns, verdicts)
    return verdicts.dropna(subset=verdicts.columns.drop(absent))


def _rate_row(
    verdicts: pd.DataFrame,
    method: str,
) -> dict[str, float]:
    """The rate of a method, and its difference to the baseline; see `rates_by_topic`."""
    rate = stats.pass_at_1(verdicts[method])
    low, high = stats.wilson(rate.passed, rate.measured)
    paired = None
    if method != BASELINE:
        paired = stats.paired_score(verdicts[method], verdicts[BASELINE])
    paired = paired or stats.Difference(0, np.nan, np.nan, np.nan)
    return {
        "passed": rate.passed,
        "measured": rate.measured,
        "total": rate.total,
        "rate": np.nan if rate.value is None else rate.value,
        "low": low,
        "high": high,
        "n": paired.n,
        "difference": paired.value,
        "d_low": paired.low,
        "d_high": paired.high,
        "p": paired.p,
    }


def rates_by_topic(
    verdicts: pd.DataFrame,
    topic: pd.Series,
) -> pd.DataFrame:
    """Compute the rates of each topic, and the differences to no retrieval.

    Args:
        verdicts: Verdicts [task, method].
        topic: Topic by task id.

    Returns:
        One row per (topic, method), with ALL_TASKS last: ``passed``, ``measured``, ``total``;
        ``rate`` with its Wilson interval ``low`` and ``high``; ``n`` and ``difference`` on the
        tasks of both, with Tango's score interval ``d_low`` and ``d_high``; McNemar's ``p``, and
        ``p_corrected``, corrected over the topics of a method. Rates are fractions; NaN is not
        measured.
    """
    task_topics = topic.reindex(verdicts.index)
    parts = {name: verdicts[task_topics == name] for name in topics().index}
    parts[ALL_TASKS] = verdicts
    rows = {}
    for name, part in parts.items():
        for method in verdicts.columns:
            rows[name, method] = _rate_row(part, method)
    rates = pd.DataFrame.from_dict(rows, orient="index")
    rates.index = pd.MultiIndex.from_tuples(rows, names=["topic", "method"])
    p_values = rates.drop(ALL_TASKS, level="topic")["p"]
    by_method = p_values.groupby("method")
    corrected = by_method.transform(lambda group: stats.holm(group.tolist()))
    return rates.assign(p_corrected=corrected)


def rate_text(row: pd.Series) -> str:
    """Print the rate of a topic with its interval.

    Args:
        row: A row of `rates_by_topic`.

    Returns:
        Text such as "61.6 (54.0 to 68.7)", with n where some tasks were not measured.
    """
    if not row["measured"]:
        return DASH
    rate = percent(row["rate"])
    low = percent(row["low"])
    high = percent(row["high"])
    partial = ""
    if row["measured"] < row["total"]:
        partial = f", n={row['measured']:.0f}"
    return f"{rate} ({low} to {high}{partial})"


def difference_text(row: pd.Series) -> str:
    """Print the difference of a topic with its interval.

    Args:
        row: A row of `rates_by_topic`.

    Returns:
        Text such as "+3.1 (−1.2 to +7.4)", in percentage points.
    """
    if not row["n"]:
        return DASH
    return bracketed_difference(row["difference"], row["d_low"], row["d_high"])


def topic_rates_table(
    rates: pd.DataFrame,
    title: str,
) -> ResultTable:
    """Tabulate pass@1 by topic.

    Args:
        rates: The frame of `rates_by_topic`.
        title: Title of the benchmark.

    Returns:
        One row per topic: a rate per method, and a difference per method other than the baseline.
    """
    methods = list(rates.index.unique("method"))
    by_method = {method: rates.xs(method, level="method") for method in methods}
    columns = {"tasks": by_method[BASELINE]["total"].astype(str)}
    for method, rows in by_method.items():
        columns[method] = rows.apply(rate_text, axis=1)
    for method, rows in by_method.items():
        if method == BASELINE:
            continue
        heading = f"{method} against {BASELINE}"
        columns[heading] = rows.apply(difference_text, axis=1)
    notes = (
        "pass@1 in percent with its 95 % Wilson interval; n where fewer tasks were measured. "
        f"Against {BASELINE}: percentage points on the tasks measured in both, with Tango's 95 % "
        "score interval for paired proportions (1998). It has a width even where no task changed. "
        f"{DASH} not measured.",
        "The tenth topic is this project's: the paper's text names nine and has no number, so "
        "nothing of the paper is shown.",
    )
    return ResultTable(f"pass@1 by topic on {title}", pd.DataFrame(columns), notes)


def replayed_rates(
    results: Path,
    models: Sequence[str],
    benchmark: str,
    method: str,
    topic: pd.Series,
    limit: int | None = None,
) -> dict[str, pd.DataFrame]:
    """Compute the rates by topic of closed models, from their published samples.

    Args:
        results: The results directory.
        models: Names of directories in results/replay.
        benchmark: Name of the benchmark.
        method: The method of the graph.
        topic: Topic by task id.
        limit: Take only so many of the first tasks.

    Returns:
        Model -> frame of `rates_by_topic`, for the models with samples of the method.

    Raises:
        UnavailableError: A model was not replayed.
    """
    rates = {}
    for model, verdicts in replayed_verdicts(results, models, benchmark, limit).items():
        if method not in verdicts or not_measured([BASELINE, method], verdicts):
            continue
        shown = shown_methods(verdicts, method)
        rates[model] = rates_by_topic(verdicts[shown], topic)
    return rates


def replayed_topics_table(
    replays: Mapping[str, pd.DataFrame],
    title: str,
) -> ResultTable:
    """Tabulate the rates by topic of closed models.

    Args:
        replays: The result of `replayed_rates`.
        title: Title of the benchmark.

    Returns:
        One row per topic; for each model the rate without retrieval, and a difference per method.
    """
    order = [*topics().index, ALL_TASKS]
    columns = {}
    for model, rates in replays.items():
        without = rates.xs(BASELINE, level="method")
        columns[model, BASELINE] = without["rate"].map(percent)
        for method in rates.index.unique("method").drop(BASELINE):
            rows = rates.xs(method, level="method")
            heading = f"{method} against {BASELINE}"
            columns[model, heading] = rows["difference"].map(points)
    empty = {"": pd.Series(DASH, order)}
    frame = pd.DataFrame(columns or empty).loc[order].rename_axis("topic")
    caption = f"Published samples of closed models on {title}, executed here"
    note = f"Percentage points of pass@1. {DASH} not measured."
    return ResultTable(caption, frame, (note,))


def _statements(
    rates: pd.DataFrame,
    method: str,
) -> dict[str, str]:
    """The statements of PAPER_STATEMENTS as measured here."""
    wide = rates["rate"].unstack("method").drop(ALL_TASKS)
    sparse = [name for name in SPARSE if name in wide]
    wide = wide.rename(columns={method: "PKG", **dict.fromkeys(sparse, "BM25")})
    wide = wide.reindex(columns=[BASELINE, "BM25", "PKG", RERANKED])
    statements = {}
    for other in ("BM25", BASELINE):
        difference = wide["PKG"] - wide[other]
        count = difference.count()
        if count:
            above = (difference > 0).sum()
            statements[f"topics with PKG above {other}"] = f"{above} of {count}"
    for topic in BELOW_BASELINE:
        gap = wide["PKG"][topic] - wide[BASELINE][topic]
        statements[f"PKG minus {BASELINE}, {topic}"] = points(gap)
    for topic in RERANKED_BELOW:
        gap = wide[RERANKED][topic] - wide["PKG"][topic]
        statements[f"{RERANKED} minus PKG, {topic}"] = points(gap)
    return statements


def paper_statements_table(
    rates_by_model: Mapping[str, pd.DataFrame],
    method: str,
) -> ResultTable:
    """Set what the paper says of its figures beside the same numbers here.

    Args:
        rates_by_model: Model -> frame of `rates_by_topic`.
        method: The method of the graph.

    Returns:
        One row per statement.
    """
    columns = {"the paper": PAPER_STATEMENTS}
    for model, rates in rates_by_model.items():
        columns[model] = _statements(rates, method)
    frame = pd.DataFrame(columns).loc[list(PAPER_STATEMENTS)].fillna(DASH)
    title = "What the paper says of its figures, and the same here"
    note = f"Differences in percentage points. {DASH} not measured."
    return ResultTable(title, frame.rename_axis("statement"), (note,))


def _variance_of_topics(
    change: np.ndarray,
    codes: np.ndarray,
) -> float:
    """The variance over tasks of the mean change of their topic; `codes` are the topics."""
    sums = np.bincount(codes, change)
    means = sums**2 / np.bincount(codes)
    return float(means.sum() / len(change) - change.mean() ** 2)


def topic_dependence(
    method: pd.Series,
    baseline: pd.Series,
    topic: pd.Series,
) -> tuple[float, float] | None:
    """Test whether the effect of a method depends on the topic.

    Topics differ by chance alone. A permutation test compares them with random topics of the same
    sizes.

    Args:
        method: Verdicts of the method.
        baseline: Verdicts of the baseline.
        topic: Topic by task id.

    Returns:
        The standard deviation over tasks of the mean difference of their topic, and its p-value;
        None if no task changed, or there is only one topic.
    """
    both = pd.DataFrame({"method": method, "baseline": baseline}).dropna().astype(int)
    change = (both["method"] - both["baseline"]).to_numpy(float)
    codes = pd.factorize(topic.reindex(both.index), sort=True)[0]
    if len(change) < 2 or len(set(codes)) < 2 or not change.any():
        return None
    rng = np.random.default_rng(0)
    observed = _variance_of_topics(change, codes)
    as_large = 0
    for _ in range(PERMUTATIONS):
        permuted = _variance_of_topics(rng.permutation(change), codes)
        as_large += permuted >= observed - 1e-12
    spread = float(max(observed, 0.0) ** 0.5)
    return spread, (1 + as_large) / (1 + PERMUTATIONS)


def dependence_table(verdicts: pd.DataFrame, rates: pd.DataFrame, topic: pd.Series) -> ResultTable:
    """Tabulate by method how the topics differ in what retrieval changes.

    Args:
        verdicts: Verdicts [task, method].
        rates: The frame of `rates_by_topic`.
        topic: Topic by task id.

    Returns:
        One row per method with a verdict, except the baseline.
    """
    absent = not_measured(verdicts.columns, verdicts)
    rows = {}
    for method in verdicts.columns.drop([BASELINE, *absent]):
        topics = rates.xs(method, level="method").drop(ALL_TASKS).query("n > 0")
        counts = [topics["difference"] > 0, topics["difference"] < 0, topics["p_corrected"] < ALPHA]
        tested = topic_dependence(verdicts[method], verdicts[BASELINE], topic)
        spread, p = (percent(tested[0]), probability(tested[1])) if tested else (DASH, DASH)
        rows[str(method)] = [*(str(count.sum()) for count in counts), spread, p]
    columns = [
        f"topics above {BASELINE}",
        f"topics below {BASELINE}",
        "significant (Holm)",
        "standard deviation of the topics' differences",
        "p",
    ]
    note = (
        "p: how often random topics of the same sizes have as large a standard deviation (permutation test). "
        "A small p means that the effect of the method depends on the topic."
    )
    return ResultTable.of("Does the effect depend on the topic?", rows, columns, "method", note)


def _summary_sentence(
    rates: pd.DataFrame,
    method: str,
) -> str:
    """Say in how many topics a method solves fewer and more tasks than no retrieval."""
    rows = rates.xs(method, level="method").drop(ALL_TASKS).query("n > 0")
    fewer = (rows["difference"] < 0).sum()
    more = (rows["difference"] > 0).sum()
    return (
        f"{method} solves fewer tasks than {BASELINE} in {fewer} of {len(rows)} topics, and more in "
        f"{more}."
    )


def _range_sentence(rates: pd.DataFrame) -> str:
    """Name the topics with the highest and the lowest rate without retrieval."""
    base = rates.xs(BASELINE, level="method").drop(ALL_TASKS)
    enough = base[base["measured"] >= ENOUGH_TASKS]
    known = enough if len(enough) else base[base["measured"] > 0]
    ends = []
    for topic in (known["rate"].idxmax(), known["rate"].idxmin()):
        rate = percent(known["rate"][str(topic)])
        measured = known["measured"][str(topic)]
        ends.append(f"{topic} ({rate} %, {measured:.0f} tasks)")
    return (
        f"Without retrieval the topics (of at least {ENOUGH_TASKS} tasks) range from {ends[0]} to "
        f"{ends[1]}."
    )


def topic_findings(
    verdicts: pd.DataFrame,
    rates: pd.DataFrame,
    method: str,
) -> list[str]:
    """Say how topics differ, and in how many of them retrieval solves fewer or more tasks.

    Args:
        verdicts: Verdicts [task, method].
        rates: The frame of `rates_by_topic`.
        method: The method of the graph.

    Returns:
        Sentences, and what was not measured.
    """
    absent = not_measured(verdicts.columns, verdicts)
    found = sentences.finding("Not measured", absent)
    if BASELINE in absent:
        found.append(f"Without {BASELINE} there is nothing to compare a method with.")
    else:
        if method in verdicts and method not in absent:
            found.append(_summary_sentence(rates, method))
        found.append(_range_sentence(rates))
    return found
